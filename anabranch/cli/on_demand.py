"""Commands by name: the module of a command is imported when the command is asked for.

Called by `entry` alone. So a command costs what it needs itself, and `--help` what all of them need while
they are imported: their modules defer what is heavy (`anabranch.deferred`).
"""

from __future__ import annotations

from collections import UserDict
from importlib import import_module
from typing import Any

import typer
from typer.main import get_command


class CommandsOnDemand(UserDict[str, Any]):
    """Name → command, made of name → `module:attribute`; each command is loaded once."""

    def __getitem__(self, name: str) -> Any:
        found = super().__getitem__(name)
        if isinstance(found, str):
            found = self.data[name] = _load(found, name)
        return found


def _load(place: str, name: str) -> Any:
    """The command or family at a place, as typer's group takes it."""
    module, attribute = place.split(":")
    found = getattr(import_module(module), attribute)
    if not isinstance(found, typer.Typer):
        function, found = found, typer.Typer(add_completion=False)
        found.command(name)(function)
    return get_command(found)

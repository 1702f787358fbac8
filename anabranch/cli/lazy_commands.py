"""Lazy commands: the module of a command is imported when the command is used.

Used by `entry` only. So a command imports only what it needs, and `--help` imports all command modules, which defer
heavy libraries (`anabranch.deferred`).
"""

from __future__ import annotations

import inspect
from collections import UserDict
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import wraps
from importlib import import_module
from typing import Any, get_type_hints

import typer
from typer.main import get_command


class LazyCommands(UserDict[str, Any]):
    """A mapping name → command, from name → `module:attribute`; each command is loaded once."""

    def __getitem__(self, name: str) -> Any:
        found = super().__getitem__(name)
        if isinstance(found, str):
            found = self.data[name] = _load(found, name)
        return found


def _load(import_path: str, name: str) -> Any:
    """The command or family at `module:attribute`, as typer's group takes it."""
    module, attribute = import_path.split(":")
    found = getattr(import_module(module), attribute)
    if not isinstance(found, typer.Typer):
        function, found = found, typer.Typer(add_completion=False)
        found.command(name)(function)
    for command in found.registered_commands:
        if command.callback is not None:
            command.callback = with_options(command.callback)
    return get_command(found)


def with_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The command with single options in place of each parameter that is a dataclass of them."""
    signature = inspect.signature(command, eval_str=True)
    groups: dict[str, Any] = {
        each.name: each.annotation for each in signature.parameters.values() if is_dataclass(each.annotation)
    }
    if not groups:
        return command
    parameters: list[inspect.Parameter] = []
    for each in signature.parameters.values():
        parameters += _options_of(groups[each.name]) if each.name in groups else [each]

    @wraps(command)
    def called(**given: Any) -> Any:
        for name, group in groups.items():
            given[name] = group(**{option.name: given.pop(option.name) for option in fields(group)})
        return command(**given)

    called.__dict__["__signature__"] = signature.replace(parameters=parameters)
    called.__annotations__ = {each.name: each.annotation for each in parameters}
    return called


def _options_of(group: Any) -> list[inspect.Parameter]:
    types = get_type_hints(group, include_extras=True)
    keyword = inspect.Parameter.KEYWORD_ONLY
    return [inspect.Parameter(each.name, keyword, default=each.default, annotation=types[each.name])
            for each in fields(group)]  # fmt: skip

"""Imports that are made when they are first used: for heavy libraries that many commands never need.

Called at the top of a module, where imports belong, so that a reader and the layer tests see them; type
checkers get the plain import:

    if TYPE_CHECKING:
        from alembic import command
    else:
        command = deferred("alembic.command")

Packages whose `__init__` exports many names define `__getattr__ = exported_from(...)`, so that one of their modules
can be imported without all the others.

Only for what functions use. What a module needs while it is imported (a base class, a decorator) is imported plainly,
and then the module itself is the one to defer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from types import ModuleType
from typing import Any


def deferred(name: str) -> ModuleType:
    """A proxy for a module, which is imported when one of its attributes is first read."""
    return _Deferred(name)


def exported_from(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """A package's `__getattr__`: a name is imported from its module (`homes`: name → module) when it is first read."""

    def find(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(homes[name]), name)

    return find


class _Deferred(ModuleType):
    """`__getattr__` is called for everything that the proxy does not have itself."""

    def __getattr__(self, attribute: str) -> Any:
        return getattr(import_module(self.__name__), attribute)

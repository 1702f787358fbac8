"""Small changes to the engine's source, made in memory and taken back: how a mutant comes to be.

A patch names a function and the piece of its source to replace. If the piece is not there any
more, applying it fails loudly: a mutant must not die out unnoticed when the code moves on.
"""

from __future__ import annotations
import __future__

import importlib
import inspect
import sys
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

_OUTSIDE_THE_ENGINE = ("bulk.", "durable.", "service.", "testing.", "transport.")


@dataclass(frozen=True, slots=True)
class Patch:
    """One replacement in one function."""

    function: str
    """`module:name` or `module:Class.name`, the module without its `anabranch.engine.`, or `durable.…`, `service.…` and
    so on."""
    old: str
    new: str


@contextmanager
def patched(patches: Sequence[Patch]) -> Iterator[None]:
    """The engine with these changes."""
    with ExitStack() as stack:
        for patch in patches:
            stack.enter_context(_applied(patch))
        yield


@contextmanager
def _applied(patch: Patch) -> Iterator[None]:
    module_name, _, path = patch.function.partition(":")
    room = "anabranch" if module_name.startswith(_OUTSIDE_THE_ENGINE) else "anabranch.engine"
    module = importlib.import_module(f"{room}.{module_name}")
    owner: Any = module
    *outer, name = path.split(".")
    for each in outer:
        owner = getattr(owner, each)
    original = owner.__dict__[name]
    changed = _recompiled(original, patch, module.__dict__, name)
    # Whoever imported a function by its name has it under that name.
    holders = [owner] if outer else [each for each in _our_modules() if each.__dict__.get(name) is original]
    tables = [] if outer else list(_tables_with(original))
    for holder in holders:
        setattr(holder, name, changed)
    for table, key in tables:
        table[key] = changed
    try:
        yield
    finally:
        for holder in holders:
            setattr(holder, name, original)
        for table, key in tables:
            table[key] = original


def _recompiled(original: Any, patch: Patch, globals_: dict[str, Any], name: str) -> Any:
    source = textwrap.dedent(inspect.getsource(original))
    if source.count(patch.old) != 1:
        raise LookupError(
            f"{patch.function} contains {source.count(patch.old)} times, not once: {patch.old!r}\n"
            "The engine has changed there: write the patch of this mutant anew."
        )
    code = compile(
        source.replace(patch.old, patch.new),
        f"<mutant of {patch.function}>",
        "exec",
        flags=__future__.annotations.compiler_flag,
    )
    namespace: dict[str, Any] = {}
    exec(code, globals_, namespace)
    return namespace[name]


def _our_modules() -> list[Any]:
    """The engine's, and the judge's, who folds logs with the same rules."""
    ours = ("anabranch.", "tests.simulation.")
    return [module for name, module in list(sys.modules.items()) if name.startswith(ours)]


def _tables_with(function: Any) -> Iterator[tuple[dict[Any, Any], Any]]:
    """Module-level tables that dispatch to a function, with its key."""
    for module in _our_modules():
        for table in list(module.__dict__.values()):
            if isinstance(table, dict):
                yield from ((table, key) for key, value in list(table.items()) if value is function)

"""Template paths such as `ctx.orders[0].id`: read from the syntax tree and looked up in plain data.

Pure. Used by `expression`. A path finds entries of objects and lists only; everything else is missing, including
attributes of Python objects.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from anabranch.deferred import deferred
from anabranch.engine.rules.templates.budget import Evaluate, Refused, TemplateBudget, look_up
from anabranch.errors import TemplatePathMissing

# Needed only for texts with expressions:
if TYPE_CHECKING:
    from jinja2 import nodes
else:
    nodes = deferred("jinja2.nodes")

Path: TypeAlias = tuple[str, ...]

ROOT = "ctx"
SECRETS_ROOT = "secret"

MISSING: Any = object()
"""Stands for a key that has to be computed, and for what a key does not find."""


def static_path(keys: Sequence[Any], shown: str) -> Evaluate:
    """The common case, a path of fixed keys: no calls but the lookups themselves."""
    first, rest = keys[0], tuple(keys[1:])
    if not isinstance(first, str):
        raise Refused(f"`{shown}`: the names in ctx are text")

    def evaluate(ctx: Mapping[str, Any], work: TemplateBudget) -> Any:
        value = ctx.get(first, MISSING)
        for key in rest:
            if type(value) is dict and type(key) is str:
                value = value.get(key, MISSING)
            else:
                value = look_up(value, key, MISSING)
        if value is MISSING:
            raise missing_path(shown, _present(ctx, keys), from_context=True)
        return value

    return evaluate


def unwind(node: nodes.Expr) -> tuple[nodes.Expr, list[nodes.Expr | str]]:
    """A chain of `.a` and `[…]` as its base and its steps, outermost last."""
    steps: list[nodes.Expr | str] = []
    while isinstance(node, (nodes.Getattr, nodes.Getitem)):
        steps.append(node.attr if isinstance(node, nodes.Getattr) else node.arg)
        node = node.node
    return node, steps[::-1]


def static_key(step: nodes.Expr | str) -> Any:
    """The key of a literal step; `MISSING` if it has to be computed."""
    if isinstance(step, str):
        return step
    if isinstance(step, nodes.Neg) and isinstance(step.node, nodes.Const) and type(step.node.value) is int:
        return -step.node.value
    if isinstance(step, nodes.Const) and type(step.value) in (str, int):
        return step.value
    return MISSING


def leading_names(keys: Sequence[Any]) -> Path:
    """The names that a path begins with, up to the first index or computed key."""
    names: list[str] = []
    for key in keys:
        if not isinstance(key, str):
            break
        names.append(key)
    return tuple(names)


def path_text(keys: Sequence[Any], *, from_context: bool) -> str:
    """The source form of a path, for messages."""
    return (ROOT if from_context else "(…)") + "".join(map(_key_text, keys))


def missing_path(shown: str, keys: Sequence[Any], *, from_context: bool) -> TemplatePathMissing:
    """The error for a missing path; the last of `keys` is the missing one."""
    prefix = path_text(keys, from_context=from_context)
    return TemplatePathMissing(f"`{shown}` is missing" + (f": there is no `{prefix}`" if prefix != shown else ""))


def _key_text(key: Any) -> str:
    if key is MISSING:
        return "[…]"
    if isinstance(key, str):
        return f".{key}" if key.isidentifier() else f"[{key!r}]"
    return f"[{key}]"


def _present(ctx: Mapping[str, Any], keys: Sequence[Any]) -> Sequence[Any]:
    """The keys up to and including the first missing one."""
    value = ctx.get(keys[0], MISSING)
    for index, key in enumerate(keys[1:], start=1):
        if value is MISSING:
            return keys[:index]
        value = look_up(value, key, MISSING)
    return keys

"""Compare the input of an activation with a recorded one. If it is equal, the recorded result can be reused.

Pure. Called by forks and by replays on another graph. Templates are resolved in both contexts. For code nodes the names
count that they certainly read, for custom node types everything that they can see.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from anabranch.engine.rules.graph.loop_config import CURSOR_POSITION
from anabranch.engine.rules.graph.plan import PlanNode
from anabranch.engine.rules.shared.signals import json_equal
from anabranch.engine.rules.templates.template import compile_template, texts_in
from anabranch.errors import AnabranchError

_CODE_TYPES = frozenset({"javascript", "python"})
_NAMES_READ = re.compile(r"\bctx\s*(?:\.\s*([A-Za-z_]\w*)|\[\s*[\"']([A-Za-z_]\w*)[\"']\s*\])")
_ANY_READ = re.compile(r"\bctx\b")

# Built-in types whose handlers read only their config.
_READ_CONFIG_ONLY = frozenset(
    {
        "condition",
        "cursor",
        "dataQuery",
        "delay",
        "end",
        "httpRequest",
        "loop",
        "set",
        "start",
        "waitForEvent",
        "workflow",
    }
)


def changed_input(node: PlanNode, before: Mapping[str, Any], now: Mapping[str, Any]) -> str | None:
    """The first difference in the input of an activation: a path in its config, or a name that its code reads; None if
    equal."""
    code = node.config.get("code") if node.type in _CODE_TYPES else None
    if isinstance(code, str):
        for name in _names_read(code, before, now):
            if not json_equal(before.get(name), now.get(name)):
                return f"ctx.{name}"
        return None
    for pointer, text in texts_in(dict(node.config)):
        if "{{" in text and not _equal(text, before, now):
            return pointer
    if node.is_cursor and before.get(CURSOR_POSITION) != now.get(CURSOR_POSITION):
        return "/source"
    if node.type in _READ_CONFIG_ONLY:
        return None
    return next((f"ctx.{name}" for name in {*before, *now} if not json_equal(before.get(name), now.get(name))), None)


def _names_read(code: str, before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """The names that code certainly reads; if it may read others, all that it can see."""
    found = [first or second for first, second in _NAMES_READ.findall(code)]
    if len(found) == len(_ANY_READ.findall(code)):
        return sorted(set(found))
    return sorted({*before, *now})


def _equal(text: str, before: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """Whether a template has the same value in both contexts. Secrets are compared by name, which is part of the
    text."""
    try:
        template = compile_template(text, secrets=True)
    except AnabranchError:
        return True  # not a template: text with braces
    if template.secret_names:
        return all(_at(path, before) == _at(path, now) for path in template.needs)
    return json_equal(_resolved(template, before), _resolved(template, now))


def _resolved(template: Any, context: Mapping[str, Any]) -> Any:
    try:
        return [template.resolve(context)]
    except AnabranchError as error:
        return error.code


def _at(path: Sequence[Any], context: Mapping[str, Any]) -> Any:
    value: Any = context
    for step in path:
        try:
            value = value[step]
        except (KeyError, IndexError, TypeError):
            return None
    return value

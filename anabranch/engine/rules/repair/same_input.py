"""Compare the input of an activation with a recorded one. If it is equal, the recorded result can be reused.

Pure. Called by forks and by replays on another graph. Templates are resolved in both contexts. For code nodes the names
count that they certainly read, for custom node types everything that they can see.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from anabranch.engine.rules.callbacks import CALLBACK_TYPE
from anabranch.engine.rules.code_reads import names_read
from anabranch.engine.rules.graph.loop_config import CURSOR_POSITION
from anabranch.engine.rules.graph.plan import PlanNode
from anabranch.engine.rules.templates.budget import TemplateBudget
from anabranch.engine.rules.templates.template import compile_template, config_templates, texts_in
from anabranch.engine.rules.values import json_equal
from anabranch.errors import AnabranchError

_CODE_TYPES = frozenset({"javascript", "python"})

# Built-in types whose handlers read only their config.
_READ_CONFIG_ONLY = frozenset(
    {
        "aggregate",
        "condition",
        "crypto",
        "csv",
        "cursor",
        "dataQuery",
        "dateTime",
        "delay",
        "end",
        "fields",
        "filter",
        "group",
        "html",
        "httpRequest",
        "limit",
        "loop",
        "markdown",
        "merge",
        "respond",
        "set",
        "sort",
        "splitOut",
        "start",
        "stopWithError",
        "switch",
        "text",
        "unique",
        "waitForEvent",
        CALLBACK_TYPE,
        "workflow",
        "xml",
    }
)


class ChangedInput(NamedTuple):
    """An input that an activation would be given otherwise."""

    path: str
    """A pointer into its config, `/url`, or a name that its code reads, `ctx.order`."""
    before: Any
    after: Any
    """None, too, for what is not there or cannot be resolved."""


def changed_input(node: PlanNode, before: Mapping[str, Any], now: Mapping[str, Any]) -> ChangedInput | None:
    """The first thing that an activation would be given otherwise; None: it is given the same."""
    code = node.config.get("code") if node.type in _CODE_TYPES else None
    if isinstance(code, str):
        return _changed_name(_names_read(code, node.type, before, now), before, now)
    for pointer, text in texts_in(dict(node.config)):
        if "{{" in text and (changed := _changed(text, before, now)) is not None:
            return ChangedInput(pointer, *changed)
    if node.is_cursor and before.get(CURSOR_POSITION) != now.get(CURSOR_POSITION):
        return ChangedInput("/source", before.get(CURSOR_POSITION), now.get(CURSOR_POSITION))
    if node.type in _READ_CONFIG_ONLY:
        return None
    return _changed_name(sorted({*before, *now}), before, now)


def secrets_read(node: PlanNode) -> frozenset[str]:
    """The secrets that the templates of its config name: their values may have changed since."""
    return frozenset(name for _, template in config_templates(dict(node.config)) for name in template.secret_names)


def _changed_name(names: Sequence[str], before: Mapping[str, Any], now: Mapping[str, Any]) -> ChangedInput | None:
    for name in names:
        if not json_equal(before.get(name), now.get(name)):
            return ChangedInput(f"ctx.{name}", before.get(name), now.get(name))
    return None


def _names_read(code: str, language: str, before: Mapping[str, Any], now: Mapping[str, Any]) -> Sequence[str]:
    """The names that code certainly reads; if it may read others, all that it can see."""
    names = names_read(code, language)
    return sorted({*before, *now} if names is None else names)


def _changed(text: str, before: Mapping[str, Any], now: Mapping[str, Any]) -> tuple[Any, Any] | None:
    """Both values of a template, if they differ. Secrets count by name, which is part of the text."""
    try:
        template = compile_template(text, secrets=True)
    except AnabranchError:
        return None  # not a template: text with braces
    was, is_now = _resolved(template, before), _resolved(template, now)
    if json_equal(was, is_now):
        return None
    return was[0] if isinstance(was, list) else None, is_now[0] if isinstance(is_now, list) else None


def _resolved(template: Any, context: Mapping[str, Any]) -> Any:
    """The value, in a list; or the code of the error."""
    try:
        return [template.resolve(context, TemplateBudget({name: f"secret.{name}" for name in template.secret_names}))]
    except AnabranchError as error:
        return error.code

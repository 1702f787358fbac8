"""Built-in variables of templates: `now`, `ctx.run.id` and `ctx.workflow.name`.

Pure. Their values follow from the log: `now` is the time of the attempt's NODE_DISPATCHED row, so that every reader of
the log resolves the same. A context has them beside its names; a variable of the same name comes first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from anabranch.engine.rules.instants import to_iso
from anabranch.engine.rules.templates.budget import Refused

NOW = "now"


class Facts(NamedTuple):
    """The values of the built-in variables in one attempt."""

    now_ms: int
    run_id: str
    workflow_name: str


PATHS: Mapping[tuple[str, ...], Callable[[Facts], str]] = {
    ("run", "id"): lambda facts: facts.run_id,
    ("workflow", "name"): lambda facts: facts.workflow_name,
}
"""Paths in `ctx`, and what they lead to where `ctx` has no variable of the first name."""


def facts_of(context: Mapping[str, Any], shown: str) -> Facts:
    """The values in this context. Raises Refused for a context without an attempt."""
    facts = getattr(context, "facts", None)
    if facts is None:
        raise Refused(f"`{shown}` is known in a run only")
    assert isinstance(facts, Facts)
    return facts


def now_of(context: Mapping[str, Any], work: Any) -> str:
    """The value of `now`: ISO 8601 in UTC with milliseconds, as the date filters write it."""
    return to_iso(facts_of(context, NOW).now_ms).removesuffix("+00:00") + "Z"

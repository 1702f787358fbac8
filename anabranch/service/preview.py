"""Preview templates: evaluate them before a run, in a given context or in that of a node of a run.

Called by the REST API while a user edits a template. Templates are evaluated by the code that runs use, with the same
limits. Secrets are not read: each appears as `•••`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from anabranch.dataclass import dataclass
from anabranch.engine.ports import Clock
from anabranch.engine.rules.drawn.drawn_state import ContextSnapshot
from anabranch.engine.rules.graph.plan import NODE_OUTPUT_PREFIX, Plan
from anabranch.engine.rules.templates.budget import Refused, TemplateBudget
from anabranch.engine.rules.templates.builtin_variables import Facts
from anabranch.engine.rules.templates.references import utf16_offset
from anabranch.engine.rules.templates.template import compile_template
from anabranch.engine.rules.templates.text import expressions_in
from anabranch.engine.rules.test_runs import Pin
from anabranch.errors import TemplateError
from anabranch.service.definitions.checks import Checks
from anabranch.service.explanations.explanations import Explanations

# 100 templates: more than the fields of a node; each may cost what a node of a run may.
ITEMS_MAX = 100

# 64 kB of a value are shown, as in other views.
VALUE_BYTES_MAX = 65_536

HIDDEN = "•••"

_OPENING = _CLOSING = 2


@dataclass(frozen=True, slots=True)
class NodeInScope:
    """A node of a run in one scope; None: the scope of its first activation."""

    instance_id: str
    node_id: str
    scope: str | None = None


class Preview:
    """Evaluates templates for a tenant."""

    def __init__(self, *, checks: Checks, explanations: Explanations, clock: Clock) -> None:
        self._checks = checks
        self._explanations = explanations
        self._clock = clock

    async def preview(
        self,
        items: Sequence[tuple[str, str]],
        *,
        tenant_id: str,
        ctx: Mapping[str, Any] | None = None,
        at: NodeInScope | None = None,
        pins: Mapping[str, Pin] | None = None,
    ) -> list[dict[str, Any]]:
        """For each (id, template) `{id, value, bytes}` or `{id, error}`.

        Pinned outputs take precedence over the context. Outside of a run `now` is the time of the preview. Raises
        NotFound, InvalidRequest for a coded run, RunTooLarge, TooManyChecks.
        """
        facts = Facts(self._clock.now(), HIDDEN, HIDDEN)
        context = ContextSnapshot((), ({} if ctx is None else ctx,), facts)
        plan: Plan | None = None
        if at is not None:
            context, plan = await self._explanations.context_at(
                at.instance_id, at.node_id, at.scope, tenant_id=tenant_id
            )
        if pins:
            context = context.within(_pinned(pins, plan))
        return await self._checks.run(tenant_id, lambda: [_item(item_id, text, context) for item_id, text in items])


def _pinned(pins: Mapping[str, Pin], plan: Plan | None) -> dict[str, Any]:
    """The context entries of pins: under the node's id, and its variable in that run."""
    found: dict[str, Any] = {}
    for node_id, pin in pins.items():
        found[NODE_OUTPUT_PREFIX + node_id] = pin.output
        node = None if plan is None else plan.nodes.get(node_id)
        if node is not None and node.output_variable is not None:
            found[node.output_variable] = pin.output
    return found


def _item(item_id: str, text: str, context: Mapping[str, Any]) -> dict[str, Any]:
    try:
        value = _value(text, context)
    except TemplateError as error:
        start, end = _culprit(text, context)
        document = {"code": error.code, "message": error.message, "start": start, "end": end}
        return {"id": item_id, "error": document}
    size = len(orjson.dumps(value))
    return {
        "id": item_id,
        "value": value if size <= VALUE_BYTES_MAX else {"truncated": True, "bytes": size},
        "bytes": size,
    }


def _value(text: str, context: Mapping[str, Any]) -> Any:
    template = compile_template(text, secrets=True)
    return template.resolve(context, TemplateBudget(dict.fromkeys(template.secret_names, HIDDEN)))


def _culprit(text: str, context: Mapping[str, Any]) -> tuple[int, int]:
    """The span, braces included, of the first expression that fails on its own; otherwise the whole text."""
    try:
        spans = [(start - _OPENING, end + _CLOSING) for start, end in expressions_in(text)]
    except Refused:
        spans = []
    for start, end in spans:
        try:
            _value(text[start:end], context)
        except TemplateError:
            return utf16_offset(text, start), utf16_offset(text, end)
    return 0, utf16_offset(text, len(text))

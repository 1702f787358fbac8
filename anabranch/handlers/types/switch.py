"""`switch`: takes the case with an equal value, else `else`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from anabranch.engine.rules.events import ELSE_HANDLE
from anabranch.engine.rules.graph.node_types import DynamicHandles
from anabranch.engine.rules.templates.budget import TemplateBudget
from anabranch.engine.rules.templates.operators import COMPARISONS
from anabranch.handlers.config_fields import x_ui
from anabranch.handlers.spec import HandlerSpec, NodeConfig

# 64 ways out: more than a canvas can show at one node.
CASES_MAX = 64


class Case(NodeConfig):
    """A case, and the values for which it is taken."""

    id: str = Field(min_length=1, max_length=128, description="The handle that the case leaves by.")
    values: list[Any] = Field(min_length=1, description="The values for which it is taken.")


class SwitchConfig(NodeConfig):
    """The value and the cases."""

    value: Any = Field(
        description="What to compare.",
        json_schema_extra=x_ui(widget="expression", placeholder="{{ ctx.order.status }}"),
    )
    cases: list[Case] = Field(
        max_length=CASES_MAX,
        description="The cases: the first with an equal value is taken, `else` if there is none.",
    )


def evaluate(config: SwitchConfig, context: Mapping[str, Any], work: TemplateBudget) -> tuple[Any, str]:
    """Equal is what `==` of templates calls equal: a text never equals a number."""
    equal = COMPARISONS["eq"]
    for case in config.cases:
        if any(equal(config.value, value, work) for value in case.values):
            return {"case": case.id}, case.id
    return {"case": ELSE_HANDLE}, ELSE_HANDLE


SPEC = HandlerSpec(
    type="switch",
    title="Switch",
    config=SwitchConfig,
    evaluate=evaluate,
    fixed=frozenset({"cases"}),
    category="flow",
    icon="split",
    description="Takes the case with an equal value.",
    side_effects="none",
    dynamic_handles=DynamicHandles(items="/cases", id="id", before=ELSE_HANDLE),
    docs="#switch",
    output_schema=lambda config: {"type": "object", "properties": {"case": {"type": "string"}}},
)

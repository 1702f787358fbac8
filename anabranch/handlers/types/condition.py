"""`condition`: takes the first branch whose expression is true, else `else`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, WithJsonSchema

from anabranch.engine.rules.events import ELSE_HANDLE
from anabranch.engine.rules.graph.node_types import DynamicHandles
from anabranch.engine.rules.templates.budget import TemplateBudget
from anabranch.engine.rules.templates.template import compile_template
from anabranch.handlers.condition_fields import expect_expression
from anabranch.handlers.config_fields import x_ui
from anabranch.handlers.spec import HandlerSpec, NodeConfig

# The schema leaves this out, so that the problem is always EXPRESSION_EXPECTED.
Expression = Annotated[
    Any, BeforeValidator(lambda value: expect_expression(value, or_boolean=True)), WithJsonSchema({})
]


class Branch(NodeConfig):
    """A branch, and when it is taken."""

    id: str = Field(min_length=1, max_length=128, description="The handle that the branch leaves by.")
    expression: Expression = Field(
        description="One `{{ … }}`, or true or false: the first branch for which it is true is taken.",
        json_schema_extra=x_ui(widget="expression", placeholder="{{ ctx.amount > 100 }}"),
    )


class ConditionConfig(NodeConfig):
    """The branches, in the order in which they are checked."""

    branches: list[Branch] = Field(
        description="The branches, checked in this order; `else` is taken if none is true.",
        json_schema_extra=x_ui(widget="branches"),
    )


def evaluate(config: ConditionConfig, context: Mapping[str, Any], work: TemplateBudget) -> tuple[Any, str]:
    """Stops at the first true expression: later ones may need values that do not exist."""
    for branch in config.branches:
        expression = branch.expression
        if _holds(expression, context, work) if isinstance(expression, str) else expression:
            return {"branch": branch.id}, branch.id
    return {"branch": ELSE_HANDLE}, ELSE_HANDLE


def _holds(expression: str, context: Mapping[str, Any], work: TemplateBudget) -> bool:
    """Evaluate an expression, with its own budget."""
    own = TemplateBudget()
    try:
        return bool(compile_template(expression).resolve(context, own))
    finally:
        work.note(own)


SPEC = HandlerSpec(
    type="condition",
    title="Condition",
    config=ConditionConfig,
    evaluate=evaluate,
    unresolved=frozenset({"branches"}),
    fixed=frozenset({"branches"}),
    category="flow",
    icon="split",
    description="Takes the first branch whose expression is true.",
    side_effects="none",
    dynamic_handles=DynamicHandles(items="/branches", id="id", before=ELSE_HANDLE),
    docs="#condition",
    output_schema=lambda config: {"type": "object", "properties": {"branch": {"type": "string"}}},
)

"""`condition`: takes the first branch whose expression is true, else `else`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, WithJsonSchema

from anabranch.engine.handling import HandlerResult, Helpers
from anabranch.engine.rules.events import ELSE_HANDLE
from anabranch.handlers.expression import expect_expression
from anabranch.handlers.spec import HandlerSpec, NodeConfig

# The schema says nothing of the kind, so that the problem reads EXPRESSION_EXPECTED whatever was written.
Expression = Annotated[
    Any, BeforeValidator(lambda value: expect_expression(value, or_boolean=True)), WithJsonSchema({})
]


class Branch(NodeConfig):
    """One way out, and when it is taken."""

    id: str = Field(min_length=1, max_length=128)
    expression: Expression


class ConditionConfig(NodeConfig):
    """The branches, in the order in which they are asked."""

    branches: list[Branch]


async def execute(config: ConditionConfig, context: Mapping[str, Any], helpers: Helpers) -> HandlerResult:
    """Evaluates no further than the first true expression: those behind it may need what is not there."""
    for branch in config.branches:
        expression = branch.expression
        if helpers.resolve_template(expression) if isinstance(expression, str) else expression:
            return HandlerResult({"branch": branch.id}, next_handle=branch.id)
    return HandlerResult({"branch": ELSE_HANDLE}, next_handle=ELSE_HANDLE)


def _handles(config: Mapping[str, Any]) -> Sequence[str]:
    return [*(branch["id"] for branch in config.get("branches", ())), ELSE_HANDLE]


SPEC = HandlerSpec(
    type="condition",
    title="Condition",
    config=ConditionConfig,
    execute=execute,
    handles=_handles,
    unresolved=frozenset({"branches"}),
    fixed=frozenset({"branches"}),
)

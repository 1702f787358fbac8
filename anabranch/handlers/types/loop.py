"""`loop`: hands the rules what to iterate over. Opening, collecting and ending iterations is theirs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator

from anabranch.engine.handling import HandlerResult, Helpers
from anabranch.engine.rules.graph.loop_config import ITERATIONS_MAX_FOR_EACH, is_while
from anabranch.errors import NonRetryable
from anabranch.handlers.expression import expect_expression
from anabranch.handlers.spec import HandlerSpec, NodeConfig

# 10,000 iterations open at once is what one instance's memory is dimensioned for.
CONCURRENCY_MAX = 10_000

# 1,000,000 iterations: ten times the default; their rows alone are more than one run should have.
ITERATIONS_MAX = 1_000_000

Condition = Annotated[
    Any, BeforeValidator(lambda value: expect_expression(value, or_boolean=False)), WithJsonSchema({})
]


class LoopConfig(NodeConfig):
    """Over what, or how long, and how."""

    source: Any = None
    condition: Condition = Field(None, alias="while", title="While")
    mode: Literal["forEach", "while"] | None = None
    """Inferred from `while` when it is left out."""
    concurrency: int | None = Field(None, ge=1, le=CONCURRENCY_MAX)
    on_item_error: Literal["fail", "collect", "skip"] | None = Field(None, alias="onItemError", title="On item error")
    iterations_max: int | None = Field(None, alias="maxIterations", title="Max iterations", ge=1, le=ITERATIONS_MAX)
    yields: str | None = Field(None, alias="yield")

    @model_validator(mode="before")
    @classmethod
    def _source_or_condition(cls, written: dict[str, Any]) -> dict[str, Any]:
        has_condition = written.get("while") is not None
        fits = written.get("source") is None if is_while(written) else "source" in written
        if has_condition != is_while(written) or not fits:
            raise ValueError("a loop has either a source (mode forEach) or a while (mode while)")
        return written


async def execute(config: LoopConfig, context: Mapping[str, Any], helpers: Helpers) -> HandlerResult:
    """The list to iterate over; null in `while`, whose condition the rules ask before each iteration."""
    if config.condition is not None:
        return HandlerResult(None)
    source = config.source
    if not isinstance(source, list):
        raise NonRetryable("the source of the loop is no list", code="LOOP_SOURCE_NOT_A_LIST")
    limit = config.iterations_max or ITERATIONS_MAX_FOR_EACH
    if len(source) > limit:
        raise NonRetryable(f"the source has {len(source)} items, maxIterations is {limit}", code="LOOP_LIMIT")
    return HandlerResult(source)


SPEC = HandlerSpec(
    type="loop",
    title="Loop",
    config=LoopConfig,
    execute=execute,
    handles=("loop", "done"),
    unresolved=frozenset({"while", "yield"}),
    fixed=frozenset({"mode", "concurrency", "onItemError", "maxIterations"}),
)

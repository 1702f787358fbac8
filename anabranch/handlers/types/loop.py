"""`loop`: provides what to iterate over. The rules open, collect and end the iterations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator

from anabranch.engine.rules.events import DONE_HANDLE, LOOP_HANDLE
from anabranch.engine.rules.graph.loop_config import (
    BATCH_SIZE_MAX,
    CONCURRENCY_MAX,
    ITERATIONS_MAX_FOR_EACH,
    batches_of,
    is_while,
)
from anabranch.engine.rules.templates.budget import TemplateBudget
from anabranch.errors import NonRetryable
from anabranch.handlers.condition_fields import expect_expression
from anabranch.handlers.config_fields import x_ui
from anabranch.handlers.spec import HandlerSpec, NodeConfig

# 1,000,000 iterations: ten times the default; their rows alone are more than one run should have.
ITERATIONS_MAX = 1_000_000

Condition = Annotated[
    Any, BeforeValidator(lambda value: expect_expression(value, or_boolean=False)), WithJsonSchema({})
]


class LoopConfig(NodeConfig):
    """Over what, or how long, and how."""

    mode: Literal["forEach", "while"] | None = Field(
        None,
        description="`forEach` repeats for each item of a list, `while` as long as a condition holds. Inferred from"
        " `while` when it is left out.",
    )
    source: Any = Field(
        None,
        description="The list to go through.",
        json_schema_extra=x_ui(
            widget="expression", placeholder="{{ ctx.orders }}", show_if={"/mode": [None, "forEach"]}
        ),
    )
    condition: Condition = Field(
        None,
        alias="while",
        title="While",
        description="One `{{ … }}`, evaluated before each iteration; `ctx.index` and `ctx.results` are known in it.",
        json_schema_extra=x_ui(widget="expression", placeholder="{{ ctx.index < 10 }}", show_if={"/mode": "while"}),
    )
    concurrency: int | None = Field(
        None,
        ge=1,
        le=CONCURRENCY_MAX,
        description="How many iterations may be under way at once; 1 if not given.",
        json_schema_extra=x_ui(placeholder="1", show_if={"/mode": [None, "forEach"]}),
    )
    on_item_error: Literal["fail", "collect", "skip"] | None = Field(
        None,
        alias="onItemError",
        title="On item error",
        description="What to do when an iteration fails: `fail` the loop (the default), put its error in the list"
        " (`collect`), or leave it out (`skip`).",
        json_schema_extra=x_ui(placeholder="fail"),
    )
    batch_size: int | None = Field(
        None,
        alias="batchSize",
        title="Batch size",
        ge=1,
        le=BATCH_SIZE_MAX,
        description="If set, `ctx.item` of an iteration is a list of at most this many items, instead of one item.",
        json_schema_extra=x_ui(placeholder="1", advanced=True, show_if={"/mode": [None, "forEach"]}),
    )
    iterations_max: int | None = Field(
        None,
        alias="maxIterations",
        title="Max iterations",
        ge=1,
        le=ITERATIONS_MAX,
        description="The loop fails if it needs more iterations; by default 100,000 for `forEach`, 1,000 for `while`.",
        json_schema_extra=x_ui(advanced=True),
    )
    yields: str | None = Field(
        None,
        alias="yield",
        title="Yield",
        description="What an iteration adds to the list of results, in its final context; without it, the output of its"
        " last node.",
        json_schema_extra=x_ui(widget="expression", placeholder="{{ ctx.checked }}", advanced=True),
    )

    @model_validator(mode="before")
    @classmethod
    def _source_or_condition(cls, written: dict[str, Any]) -> dict[str, Any]:
        has_condition = written.get("while") is not None
        fits = written.get("source") is None if is_while(written) else "source" in written
        if has_condition != is_while(written) or not fits:
            raise ValueError("a loop has either a source (mode forEach) or a while (mode while)")
        if has_condition and written.get("batchSize") is not None:
            raise ValueError("a loop with a while has no items, and no batchSize")
        return written


def evaluate(config: LoopConfig, context: Mapping[str, Any], work: TemplateBudget) -> tuple[Any, None]:
    """The list to iterate over; null in `while`, whose condition the rules ask before each iteration."""
    if config.condition is not None:
        return None, None
    source = config.source
    if not isinstance(source, list):
        raise NonRetryable("the source of the loop is not a list", code="LOOP_SOURCE_NOT_A_LIST")
    items = batches_of(source, config.batch_size)
    limit = config.iterations_max or ITERATIONS_MAX_FOR_EACH
    if len(items) > limit:
        what = "items" if config.batch_size is None else "batches"
        raise NonRetryable(f"the source has {len(items)} {what}, maxIterations is {limit}", code="LOOP_LIMIT")
    return items, None


SPEC = HandlerSpec(
    type="loop",
    title="Loop",
    config=LoopConfig,
    evaluate=evaluate,
    handles=(LOOP_HANDLE, DONE_HANDLE),
    unresolved=frozenset({"while", "yield"}),
    fixed=frozenset({"mode", "concurrency", "onItemError", "maxIterations"}),
    category="flow",
    icon="repeat",
    description="Runs its body for each item of a list, or while a condition holds.",
    side_effects="none",
    handle_titles={LOOP_HANDLE: "Body"},
    body_handle=LOOP_HANDLE,
    docs="#loop",
    output_schema=lambda config: {"type": "array"},
)

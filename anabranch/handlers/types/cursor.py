"""`cursor`: hands out a list batch by batch, one in each pass of the loop that it is in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from anabranch.engine.rules.events import DONE_HANDLE, LOOP_HANDLE
from anabranch.engine.rules.graph.loop_config import BATCH_SIZE_MAX, CURSOR_POSITION
from anabranch.engine.rules.templates.budget import TemplateBudget
from anabranch.errors import NonRetryable
from anabranch.handlers.config_fields import x_ui
from anabranch.handlers.spec import HandlerSpec, NodeConfig


class CursorConfig(NodeConfig):
    """Items to hand out, and how many at a time."""

    source: Any = Field(
        description="The list. It is read again in each pass, so items that were added at its end are returned, too.",
        json_schema_extra=x_ui(widget="expression", placeholder="{{ ctx.orders }}"),
    )
    batch_size: int | None = Field(
        None,
        alias="batchSize",
        title="Batch size",
        ge=1,
        le=BATCH_SIZE_MAX,
        description="How many items a batch has at most; 1 if not given.",
        json_schema_extra=x_ui(placeholder="1"),
    )


def evaluate(config: CursorConfig, context: Mapping[str, Any], work: TemplateBudget) -> tuple[Any, str]:
    """The items after those of earlier passes; `done` and no items at the end of the list."""
    source = config.source
    if not isinstance(source, list):
        raise NonRetryable("the source of the cursor is not a list", code="LOOP_SOURCE_NOT_A_LIST")
    position = context.get(CURSOR_POSITION, 0)
    batch = source[position : position + (config.batch_size or 1)]
    return batch, LOOP_HANDLE if batch else DONE_HANDLE


SPEC = HandlerSpec(
    type="cursor",
    title="Cursor",
    config=CursorConfig,
    evaluate=evaluate,
    handles=(LOOP_HANDLE, DONE_HANDLE),
    category="flow",
    icon="list",
    description="Returns the next batch of a list in each pass of a loop that is drawn with edges.",
    side_effects="none",
    handle_titles={LOOP_HANDLE: "Batch"},
    docs="#cursor",
    output_schema=lambda config: {"type": "array"},
)

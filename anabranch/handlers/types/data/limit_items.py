"""`limit`: keeps a number of items of a list."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field

from anabranch.engine.rules.templates.budget import TemplateBudget
from anabranch.handlers.config_fields import x_ui
from anabranch.handlers.spec import HandlerSpec, NodeConfig
from anabranch.handlers.types.data.items import Source, pure, weight


class LimitConfig(NodeConfig):
    """The list and how much of it to keep."""

    source: Source
    count: int = Field(ge=0, description="How many items to keep.", json_schema_extra=x_ui(placeholder="10"))
    keep: Literal["first", "last"] = Field("first", description="Whether to keep the `first` items, or the `last`.")
    skip: int = Field(0, ge=0, description="How many items to leave out before that, at the same end.")


def evaluate(config: LimitConfig, context: Mapping[str, Any], work: TemplateBudget) -> tuple[Any, None]:
    """So many items from one end, in their order."""
    items, skip, count = config.source, config.skip, config.count
    if config.keep == "first":
        kept = items[skip : skip + count]
    else:
        end = max(0, len(items) - skip)
        kept = items[max(0, end - count) : end]
    return work.built(kept, weight(kept, work)), None


SPEC = HandlerSpec(
    type="limit",
    title="Limit",
    config=LimitConfig,
    evaluate=pure(evaluate),
    category="data",
    icon="scissors",
    description="Keeps a number of items of a list.",
    side_effects="none",
    docs="#limit",
    output_schema=lambda config: {"type": "array"},
)

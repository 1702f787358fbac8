"""`unique`: leaves out items that are already in the list."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field

from anabranch.engine.rules.templates.budget import TemplateBudget
from anabranch.handlers.spec import HandlerSpec, NodeConfig
from anabranch.handlers.types.data.items import FIELDS_MAX, FieldPath, Source, identities, pure, weight


class UniqueConfig(NodeConfig):
    """The list and what makes two items equal."""

    source: Source
    by: list[FieldPath] = Field(
        [],
        max_length=FIELDS_MAX,
        description="Items are equal if these fields are; without them, if everything is.",
    )
    keep: Literal["first", "last"] = Field(
        "first", description="Which of equal items stays: the `first` or the `last`."
    )


def evaluate(config: UniqueConfig, context: Mapping[str, Any], work: TemplateBudget) -> tuple[Any, None]:
    """The list with the first of each group of equal items."""
    items = config.source
    names = identities(items, config.by, work)
    positions = range(len(items)) if config.keep == "last" else reversed(range(len(items)))
    chosen = dict(zip(names if config.keep == "last" else reversed(names), positions, strict=True))
    kept = [items[position] for position in sorted(chosen.values())]
    return work.built(kept, weight(kept, work)), None


SPEC = HandlerSpec(
    type="unique",
    title="Remove duplicates",
    config=UniqueConfig,
    evaluate=pure(evaluate),
    category="data",
    icon="copy",
    description="Leaves out items that are already in the list.",
    side_effects="none",
    docs="#unique",
    output_schema=lambda config: {"type": "array"},
)

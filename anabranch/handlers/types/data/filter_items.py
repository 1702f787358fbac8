"""`filter`: keeps the items of a list that pass its tests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field

from anabranch.engine.rules.templates.budget import TemplateBudget
from anabranch.handlers.spec import HandlerSpec, NodeConfig
from anabranch.handlers.types.data.items import FIELDS_MAX, Source, Test, passing, pure, weight


class FilterConfig(NodeConfig):
    """The list and the tests."""

    source: Source
    tests: list[Test] = Field(max_length=FIELDS_MAX, description="The tests of each item.")
    match: Literal["all", "any"] = Field(
        "all", description="Whether an item has to pass `all` tests, or `any` of them."
    )


def evaluate(config: FilterConfig, context: Mapping[str, Any], work: TemplateBudget) -> tuple[Any, None]:
    """The items that pass, in their order."""
    items = config.source
    results = passing(items, config.tests, match_all=config.match == "all", work=work)
    kept = [item for item, passes in zip(items, results, strict=True) if passes]
    return work.built(kept, weight(kept, work)), None


SPEC = HandlerSpec(
    type="filter",
    title="Filter",
    config=FilterConfig,
    evaluate=pure(evaluate),
    category="data",
    icon="filter",
    description="Keeps the items of a list that pass its tests.",
    side_effects="none",
    docs="#filter",
    output_schema=lambda config: {"type": "array"},
)

"""`sort`: puts the items of a list into order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field

from anabranch.engine.rules.templates.budget import TemplateBudget
from anabranch.engine.rules.templates.filter_arguments import ABSENT
from anabranch.handlers.spec import HandlerSpec, NodeConfig
from anabranch.handlers.types.data.items import (
    FIELDS_MAX,
    FieldPath,
    Source,
    fields_of,
    pure,
    rank,
    weight,
)

# How much longer than walking over the items sorting takes, for half a million of them.
_SORT_FACTOR = 4


class SortKey(NodeConfig):
    """One field to sort by."""

    field: FieldPath = Field(
        "", description="The field of the item, such as `customer.name`; empty for the item itself."
    )
    order: Literal["ascending", "descending"] = Field("ascending", description="`ascending` or `descending`.")
    case_sensitive: bool = Field(False, alias="caseSensitive", description="Whether capital letters matter.")


class SortConfig(NodeConfig):
    """The list and what to sort by."""

    source: Source
    by: list[SortKey] = Field(
        [],
        max_length=FIELDS_MAX,
        description="The fields to sort by, the most important one first; without them, the items themselves.",
    )


def evaluate(config: SortConfig, context: Mapping[str, Any], work: TemplateBudget) -> tuple[Any, None]:
    """The items in order; equal ones keep theirs, those without the field come last."""
    items = list(config.source)
    # Least important first: sorting is stable, so that each pass keeps the order of the one before among equals.
    for key in reversed(config.by or [_ITSELF]):
        items = _sorted_by(items, key, work)
    return work.built(items, weight(items, work)), None


_ITSELF = SortKey(field="", order="ascending", caseSensitive=False)


def _sorted_by(items: list[Any], key: SortKey, work: TemplateBudget) -> list[Any]:
    values = fields_of(items, key.field, work)
    work.spend(sum(work.weigh(value) for value in values if value is not ABSENT) * _SORT_FACTOR)
    present = [position for position, value in enumerate(values) if value is not ABSENT and value is not None]
    missing = [position for position, value in enumerate(values) if value is ABSENT or value is None]
    ranks = {position: rank(values[position], case_sensitive=key.case_sensitive) for position in present}
    present.sort(key=ranks.__getitem__, reverse=key.order == "descending")
    return [items[position] for position in present + missing]


SPEC = HandlerSpec(
    type="sort",
    title="Sort",
    config=SortConfig,
    evaluate=pure(evaluate),
    category="data",
    icon="sort",
    description="Sorts the items of a list.",
    side_effects="none",
    docs="#sort",
    output_schema=lambda config: {"type": "array"},
)

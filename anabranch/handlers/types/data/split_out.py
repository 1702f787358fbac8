"""`splitOut`: flattens the lists in a field of its items into one list."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from anabranch.engine.rules.templates.budget import ITEM_UNITS, Refused, TemplateBudget
from anabranch.engine.rules.templates.filter_arguments import ABSENT
from anabranch.handlers.spec import HandlerSpec, NodeConfig
from anabranch.handlers.types.data.items import (
    FIELDS_MAX,
    FieldPath,
    Source,
    fields_of,
    object_item,
    pure,
    weight,
)


class SplitOutConfig(NodeConfig):
    """The list and the field with the inner lists."""

    source: Source
    field: FieldPath = Field(
        "", description="The field of each item that holds a list; empty if the items are lists themselves."
    )
    include: list[FieldPath] = Field(
        [],
        max_length=FIELDS_MAX,
        description="Fields of the outer item that each inner item is given, too; it is an object then.",
    )
    name: str = Field(
        "value",
        min_length=1,
        max_length=128,
        description="With `include`: the field for an inner item that is not an object.",
    )


def evaluate(config: SplitOutConfig, context: Mapping[str, Any], work: TemplateBudget) -> tuple[Any, None]:
    """The inner items, one after the other; items without the field, or with null, add none."""
    made: list[Any] = []
    size = 2
    for index, (item, inner) in enumerate(
        zip(config.source, fields_of(config.source, config.field, work), strict=True)
    ):
        if inner is ABSENT or inner is None:
            continue
        if not isinstance(inner, list):
            raise Refused(f"`splitOut`: `{config.field or 'the item'}` of item {index} is not a list")
        own = _included(object_item(item, index, "splitOut"), config, work) if config.include else None
        work.spend(len(inner) * ITEM_UNITS)
        size += weight(inner, work) + (work.weigh(own) * len(inner) if own else 0)
        work.built(made, size)
        made.extend(inner if own is None else [_with(own, each, config.name) for each in inner])
    return made, None


def _included(item: Mapping[str, Any], config: SplitOutConfig, work: TemplateBudget) -> dict[str, Any]:
    fields = {path: fields_of([item], path, work)[0] for path in config.include}
    return {path: value for path, value in fields.items() if value is not ABSENT}


def _with(own: Mapping[str, Any], each: Any, name: str) -> dict[str, Any]:
    return {**own, **(each if isinstance(each, dict) else {name: each})}


SPEC = HandlerSpec(
    type="splitOut",
    title="Split out",
    config=SplitOutConfig,
    evaluate=pure(evaluate),
    category="data",
    icon="list",
    description="Makes one list of the lists that its items hold.",
    side_effects="none",
    docs="#splitout",
    output_schema=lambda config: {"type": "array"},
)

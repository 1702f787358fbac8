"""`aggregate` and `group`: figures about a list, or about each group of its items."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

from pydantic import Field

from anabranch.engine.rules.templates.budget import (
    ITEM_UNITS,
    Refused,
    TemplateBudget,
    check_number,
    is_number,
)
from anabranch.engine.rules.templates.filter_arguments import ABSENT
from anabranch.engine.rules.values import kind_of
from anabranch.handlers.spec import HandlerSpec, NodeConfig
from anabranch.handlers.types.data.items import (
    FIELDS_MAX,
    FieldPath,
    Source,
    fields_of,
    identities,
    pure,
    rank,
    weight,
)

Operation: TypeAlias = Literal[
    "count", "sum", "average", "min", "max", "first", "last", "list", "unique", "countUnique", "join"
]


class Aggregation(NodeConfig):
    """One figure."""

    operation: Operation = Field(description="What to compute.")
    field: FieldPath = Field(
        "", description="Of which field of the items, such as `customer.name`; empty for the items themselves."
    )
    separator: str = Field(", ", max_length=64, description="What stands between the texts of `join`.")


class AggregateConfig(NodeConfig):
    """The list and the figures."""

    source: Source
    values: dict[str, Aggregation] = Field(
        max_length=FIELDS_MAX,
        description="Names with what to compute: `count`, `sum`, `average`, `min`, `max`, `first`, `last`, `list`,"
        " `unique`, `countUnique` or `join` of a field. Items without the field do not count.",
    )


class GroupConfig(NodeConfig):
    """The list, what makes a group, and the figures of each."""

    source: Source
    by: list[FieldPath] = Field(
        min_length=1, max_length=FIELDS_MAX, description="Items whose fields of these names are equal make a group."
    )
    values: dict[str, Aggregation] | None = Field(
        None,
        max_length=FIELDS_MAX,
        description="What to compute of each group, as in `aggregate`; without it a group has its `items`.",
    )


def evaluate_aggregate(config: AggregateConfig, context: Mapping[str, Any], work: TemplateBudget) -> tuple[Any, None]:
    """An object of the figures."""
    return _figures(config.source, config.values, work), None


def evaluate_group(config: GroupConfig, context: Mapping[str, Any], work: TemplateBudget) -> tuple[Any, None]:
    """A list of groups in the order of their first items: the fields, and the figures or the items."""
    groups: dict[bytes, list[Any]] = {}
    for name, item in zip(identities(config.source, config.by, work), config.source, strict=True):
        groups.setdefault(name, []).append(item)
    made = []
    for items in groups.values():
        fields = {path: value for path in config.by if (value := fields_of(items[:1], path, work)[0]) is not ABSENT}
        own = {"items": items} if config.values is None else _figures(items, config.values, work)
        size = sum(work.weigh(name) + work.weigh(value) for name, value in fields.items())
        made.append(
            work.built({**fields, **own}, size + (weight(items, work) if config.values is None else work.weigh(own)))
        )
    return work.built(made, weight(made, work)), None


def _figures(items: Sequence[Any], values: Mapping[str, Aggregation], work: TemplateBudget) -> dict[str, Any]:
    found, size = {}, 2
    for name, each in values.items():
        fields = [value for value in fields_of(items, each.field, work) if value is not ABSENT and value is not None]
        work.spend(len(fields) * ITEM_UNITS)
        found[name] = _OPERATIONS[each.operation](fields, each, work)
        size += work.weigh(name) + work.weigh(found[name]) + 2
    work.built(found, size)
    return found


def _numbers(values: Sequence[Any], each: Aggregation) -> Sequence[Any]:
    wrong = next((value for value in values if not is_number(value)), None)
    if wrong is not None:
        raise Refused(
            f"`{each.operation}` takes numbers, and `{each.field or 'an item'}` is {kind_of(wrong)} somewhere"
        )
    return values


def _sum(values: Sequence[Any], each: Aggregation, work: TemplateBudget) -> Any:
    try:
        return check_number(sum(_numbers(values, each)))
    except OverflowError:
        raise Refused("the number is not finite") from None


def _average(values: Sequence[Any], each: Aggregation, work: TemplateBudget) -> Any:
    return _sum(values, each, work) / len(values) if values else None


def _extreme(choose: Callable[..., Any]) -> Callable[[Sequence[Any], Aggregation, TemplateBudget], Any]:
    def chosen(values: Sequence[Any], each: Aggregation, work: TemplateBudget) -> Any:
        work.spend(sum(work.weigh(value) for value in values))
        return choose(values, key=lambda value: rank(value, case_sensitive=True), default=None)

    return chosen


def _list(values: Sequence[Any], each: Aggregation, work: TemplateBudget) -> Any:
    made = list(values)
    return work.built(made, weight(made, work))


def _unique(values: Sequence[Any], each: Aggregation, work: TemplateBudget) -> Any:
    firsts: dict[bytes, Any] = {}
    for name, value in zip(identities(values, (), work), values, strict=True):
        firsts.setdefault(name, value)
    made = list(firsts.values())
    return work.built(made, weight(made, work))


def _join(values: Sequence[Any], each: Aggregation, work: TemplateBudget) -> str:
    work.spend(len(values) * len(each.separator))
    return each.separator.join(work.text_of(value) for value in values)


_OPERATIONS: Mapping[str, Callable[[Sequence[Any], Aggregation, TemplateBudget], Any]] = {
    "count": lambda values, each, work: len(values),
    "sum": _sum,
    "average": _average,
    "min": _extreme(min),
    "max": _extreme(max),
    "first": lambda values, each, work: values[0] if values else None,
    "last": lambda values, each, work: values[-1] if values else None,
    "list": _list,
    "unique": _unique,
    "countUnique": lambda values, each, work: len(set(identities(values, (), work))),
    "join": _join,
}

AGGREGATE = HandlerSpec(
    type="aggregate",
    title="Aggregate",
    config=AggregateConfig,
    evaluate=pure(evaluate_aggregate),
    category="data",
    icon="calculator",
    description="Computes sums, counts and other figures of a list.",
    side_effects="none",
    docs="#aggregate",
    output_schema=lambda config: {
        "type": "object",
        "properties": {name: {} for name in config.get("values", {}) if isinstance(config.get("values"), dict)},
    },
)

GROUP = HandlerSpec(
    type="group",
    title="Group",
    config=GroupConfig,
    evaluate=pure(evaluate_group),
    category="data",
    icon="group",
    description="Groups the items with equal fields.",
    side_effects="none",
    docs="#group",
    output_schema=lambda config: {"type": "array"},
)

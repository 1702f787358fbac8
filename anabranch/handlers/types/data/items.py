"""Shared by the node types for lists: fields of items, an order of any values, tests, and limits.

Used by the other modules of this package.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, TypeAlias

import orjson
from pydantic import Field

from anabranch.engine.rules.templates.budget import ITEM_UNITS, Refused, TemplateBudget
from anabranch.engine.rules.templates.filter_arguments import ABSENT, field_at
from anabranch.engine.rules.templates.linear_regex import find
from anabranch.engine.rules.templates.operators import COMPARISONS
from anabranch.errors import NonRetryable
from anabranch.handlers.config_fields import x_ui
from anabranch.handlers.spec import NodeConfig

# 256 characters for the path of a field, 64 fields in a list of them: more than any form shows.
FIELD_CHARACTERS_MAX = 256
FIELDS_MAX = 64

DATA_INVALID = "NODE_DATA_INVALID"
"""The data of a node has the wrong type for its operation. Not retried."""

FieldPath: TypeAlias = Annotated[str, Field(max_length=FIELD_CHARACTERS_MAX)]

Source = Annotated[
    list[Any],
    Field(description="The list.", json_schema_extra=x_ui(widget="expression", placeholder="{{ ctx.orders }}")),
]

TestName: TypeAlias = Literal[
    "equals",
    "notEquals",
    "greater",
    "greaterOrEqual",
    "less",
    "lessOrEqual",
    "contains",
    "notContains",
    "startsWith",
    "endsWith",
    "matches",
    "in",
    "notIn",
    "exists",
    "notExists",
    "empty",
    "notEmpty",
    "true",
    "false",
]


class Test(NodeConfig):
    """One test of an item's field."""

    field: FieldPath = Field(
        "", description="The field of the item, such as `customer.name`; empty for the item itself."
    )
    test: TestName = Field("equals", description="The test.")
    value: Any = Field(None, description="The value to compare with, if the test needs one.")


def pure(
    evaluate: Callable[[Any, Mapping[str, Any], TemplateBudget], tuple[Any, str | None]],
) -> Callable[[Any, Mapping[str, Any], TemplateBudget], tuple[Any, str | None]]:
    """An evaluator whose refusals are final failures of the node: the same data would be refused again."""

    def evaluate_or_fail(config: Any, context: Mapping[str, Any], work: TemplateBudget) -> tuple[Any, str | None]:
        try:
            return evaluate(config, context, work)
        except Refused as refusal:
            raise NonRetryable(str(refusal), code=DATA_INVALID) from None

    return evaluate_or_fail


def fields_of(items: Sequence[Any], path: str, work: TemplateBudget) -> list[Any]:
    """The value at a dotted path in each item, ABSENT where there is none; for an empty path, the items themselves."""
    names = path.split(".") if path else ()
    work.spend(len(items) * ITEM_UNITS * (len(names) or 1))
    return [field_at(item, names) for item in items]


def identities(items: Sequence[Any], paths: Sequence[str], work: TemplateBudget) -> list[bytes]:
    """Something that is equal for items whose fields are equal; the items themselves count if no field is named."""
    columns = [fields_of(items, path, work) for path in paths or ("",)]
    work.spend(sum(work.weigh(value) for column in columns for value in column if value is not ABSENT))
    return [
        orjson.dumps([None if value is ABSENT else [value] for value in row], option=orjson.OPT_SORT_KEYS)
        for row in zip(*columns, strict=True)
    ]


def rank(value: Any, *, case_sensitive: bool) -> tuple[int, Any]:
    """A key that orders any values: numbers, texts, then everything else by its JSON text."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return 2, orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    if isinstance(value, str):
        return 1, value if case_sensitive else value.lower()
    return 0, value


def weight(items: Iterable[Any], work: TemplateBudget) -> int:
    """About how many bytes of JSON a list of these has."""
    return 2 + sum(work.weigh(item) + 1 for item in items)


def object_item(item: Any, index: int, node: str) -> dict[str, Any]:
    """An item that has to be an object. Raises Refused, naming its number."""
    if not isinstance(item, dict):
        raise Refused(f"`{node}` needs a list of objects, and item {index} is not an object")
    return item


def passing(items: Sequence[Any], tests: Sequence[Test], *, match_all: bool, work: TemplateBudget) -> Iterator[bool]:
    """For each item, whether it passes all of the tests, or any."""
    columns = [fields_of(items, each.field, work) for each in tests]
    together = all if match_all else any
    for row in zip(*columns, strict=True) if columns else ((),) * len(items):
        yield together(_holds(each, value, work) for each, value in zip(tests, row, strict=True))


def _holds(test: Test, value: Any, work: TemplateBudget) -> bool:
    name = test.test
    if name in ("exists", "notExists"):
        return bool((value is ABSENT) == (name == "notExists"))
    if name in _OF_ONE:
        return _OF_ONE[name](None if value is ABSENT else value)
    if value is ABSENT:
        return name in ("notEquals", "notContains", "notIn")
    return _OF_TWO[name](value, test.value, work)


def _is_empty(value: Any) -> bool:
    return value is None or value in ("", [], {})


def _contains(value: Any, wanted: Any, work: TemplateBudget) -> bool:
    if not isinstance(value, (str, list, dict)):
        return False
    return bool(COMPARISONS["in"](wanted, value, work))


def _matches(value: Any, pattern: Any, work: TemplateBudget) -> bool:
    if not isinstance(pattern, str):
        raise Refused("`matches` takes a pattern as its value")
    if not isinstance(value, str):
        return False
    work.spend(len(value) * ITEM_UNITS)
    try:
        return find(pattern, value) is not None
    except ValueError as refusal:
        raise Refused(f"`matches`: {refusal}") from None


def _in_order(name: str) -> Callable[[Any, Any, TemplateBudget], bool]:
    """Values of two kinds have no order: the test does not hold."""
    compare = COMPARISONS[name]

    def holds(value: Any, other: Any, work: TemplateBudget) -> bool:
        texts = isinstance(value, str) and isinstance(other, str)
        numbers = all(isinstance(each, (int, float)) and not isinstance(each, bool) for each in (value, other))
        return (texts or numbers) and compare(value, other, work)

    return holds


_OF_ONE: Mapping[str, Callable[[Any], bool]] = {
    "empty": _is_empty,
    "notEmpty": lambda value: not _is_empty(value),
    "true": lambda value: value is True,
    "false": lambda value: value is False,
}

_OF_TWO: Mapping[str, Callable[[Any, Any, TemplateBudget], bool]] = {
    "equals": COMPARISONS["eq"],
    "notEquals": COMPARISONS["ne"],
    "greater": _in_order("gt"),
    "greaterOrEqual": _in_order("gteq"),
    "less": _in_order("lt"),
    "lessOrEqual": _in_order("lteq"),
    "contains": _contains,
    "notContains": lambda value, wanted, work: not _contains(value, wanted, work),
    "startsWith": lambda value, wanted, work: (
        isinstance(value, str) and isinstance(wanted, str) and value.startswith(wanted)
    ),
    "endsWith": lambda value, wanted, work: (
        isinstance(value, str) and isinstance(wanted, str) and value.endswith(wanted)
    ),
    "matches": _matches,
    "in": COMPARISONS["in"],
    "notIn": COMPARISONS["notin"],
}

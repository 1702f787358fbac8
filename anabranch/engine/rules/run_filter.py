"""Filters of run lists, used by command line, clients, service and stores. Pure. SQL stores turn the input filters into
conditions; the memory store calls `matches`. Add a new comparison here and in the conditions of both databases.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

import orjson

from anabranch.dataclass import dataclass
from anabranch.engine.rules.events import Status, SuspendReason
from anabranch.engine.rules.values import Payload, json_equal
from anabranch.errors import ValueNotStorable, ValueTooLarge

InputValue: TypeAlias = str | int | float | bool | None

InputFilter: TypeAlias = tuple[tuple[str, ...], InputValue]
"""A path into the input (keys of objects, indexes of lists as text), and what the value there must equal: a text, or
what it says as JSON; a number, boolean or null only itself."""

# 9 digits: no stored list is longer, and every database accepts such a number.
_INDEX = re.compile(r"0|[1-9][0-9]{0,8}")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFilter:
    """Conditions that a run must all meet; without any, all runs but test runs. Times are milliseconds since the
    epoch."""

    workflow: str | None = None
    """Its id; everybody but a store takes its name, too."""
    statuses: Sequence[Status] = ()
    """In one of these; none: in any."""
    reasons: Sequence[SuspendReason] = ()
    """Suspended for one of these; none: whether suspended or not."""
    since: int | None = None
    until: int | None = None
    """Created at `since` or later, and before `until`."""
    version: int | None = None
    rerun_of: str | None = None
    """Runs that repeat this one."""
    test: bool = False
    """Only test runs; else only others."""
    error: str | None = None
    """Failed ones whose error has this code, or this text in its message, in capitals or not."""
    input_filters: Sequence[InputFilter] = ()
    """Values in the input; texts are read as JSON or taken as text. All of them must be met."""


ALL_RUNS = RunFilter()


@dataclass(frozen=True, slots=True)
class WantedInput:
    """A parsed input filter: a run matches if the value at the path equals one of these."""

    path: tuple[str, ...]
    values: tuple[Payload, ...]
    """The value itself, and what a text says as JSON. Empty: nothing that is stored can be equal."""


def read_filters(filters: Iterable[InputFilter]) -> list[WantedInput]:
    """Parse input filters. A value that cannot be stored matches no run."""
    return [WantedInput(path, tuple(_readings(value)) if _is_storable(list(path)) else ()) for path, value in filters]


def matches(input_: Any, wanted: Sequence[WantedInput]) -> bool:
    """True if the input has, at each path, one of the values: numbers by value, objects in any key order."""
    return all(_is_one_of(_found(input_, one.path), one.values) for one in wanted)


def index_of(step: str) -> int | None:
    """The list index that a path step means; None if it can only be a key."""
    return int(step) if _INDEX.fullmatch(step) else None


def _readings(given: InputValue) -> Iterable[Payload]:
    if (as_given := _payload(given)) is not None:
        yield as_given
    if not isinstance(given, str):
        return
    try:
        value = orjson.loads(given)
    except orjson.JSONDecodeError:
        return
    if (as_json := _payload(value)) is not None:
        yield as_json


def _payload(value: Any) -> Payload | None:
    try:
        return Payload.of(value)
    except (ValueNotStorable, ValueTooLarge):
        return None


def _is_storable(value: Any) -> bool:
    return _payload(value) is not None


def _found(value: Any, path: Sequence[str]) -> list[Any]:
    """A list with the value at a path, or an empty list."""
    for step in path:
        if isinstance(value, dict) and step in value:
            value = value[step]
        elif isinstance(value, list) and (index := index_of(step)) is not None and index < len(value):
            value = value[index]
        else:
            return []
    return [value]


def _is_one_of(found: Sequence[Any], values: Sequence[Payload]) -> bool:
    return any(json_equal(value, wanted.value) for value in found for wanted in values)

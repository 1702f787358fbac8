"""Values that enter the log: what is taken, what is refused with its place, and that it costs little."""

from __future__ import annotations

import gc
import sys
import uuid
from collections import OrderedDict
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum
from typing import Any, NamedTuple

import pytest

from anabranch.engine.rules.values import VALUE_BYTES_MAX, VALUE_DEPTH_MAX, Payload
from anabranch.errors import ValueNotStorable, ValueTooLarge


class Colour(Enum):
    RED = "red"


class Level(IntEnum):
    HIGH = 1


class Name(StrEnum):
    ANN = "ann"


class Text(str):
    """Text that is more than text."""

    __slots__ = ()


@dataclass
class Point:
    x: int
    y: int


class Pair(NamedTuple):
    left: int
    right: int


def nested(depth: int, inside: Any = 1) -> Any:
    value = inside
    for _ in range(depth):
        value = [value]
    return value


def alternating(depth: int) -> Any:
    """Objects in lists in objects."""
    value: Any = 1
    for _ in range(depth // 2):
        value = [{"a": value}]
    return value


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        0,
        -(2**63),
        2**63 - 1,
        1.5,
        "",
        "ä€😀",
        "a\\u0000b",
        "\\",
        [],
        {},
        {"b": 1, "a": [None, {"c": "null"}]},
        nested(VALUE_DEPTH_MAX),
        ['"[', "]]]]", "{" * 200],
        [[] for _ in range(500)],
        ["red", 1, "00000000-0000-0000-0000-000000000001", "2026-01-01T00:00:00Z"],
    ],
)
def test_plain_json_passes_unchanged(value: Any) -> None:
    payload = Payload.of(value)

    assert payload.value == value
    assert Payload.parse(payload.raw).value == value


def test_key_order_is_kept() -> None:
    assert list(Payload.of({"z": 1, "a": 2, "m": 3}).value) == ["z", "a", "m"]


def test_what_is_kept_shares_nothing_with_what_was_given() -> None:
    given = {"list": [1]}
    kept = Payload.of(given)
    given["list"].append(2)

    assert kept.value == {"list": [1]}


@pytest.mark.parametrize(
    ("value", "place"),
    [
        ({"a": [1, float("nan")]}, "/a/1"),
        ({"a": {"b": float("-inf")}}, "/a/b"),
        (["x\x00y"], "/0"),
        ({"k\x00": 1}, "NUL"),
        (["\\\x00"], "/0"),
        ({"a": "\ud800"}, "/a"),
        ([2**64], "/0"),
        ([-(2**63) - 1], "/0"),
        ({"a": object()}, "/a"),
        ({1: "a"}, "key"),
        ({"a": {2, 3}}, "/a"),
        (uuid.UUID(int=1), "type UUID"),
        ({"a": [Colour.RED]}, "type Colour at /a/0"),
        ([Level.HIGH], "type Level at /0"),
        ((1, {"a": (Name.ANN,)}), "type Name at /1/a/0"),
        ({Name.ANN: 1}, "key"),
        ([datetime(2026, 1, 1, tzinfo=UTC)], "type datetime at /0"),
        ({"a": Point(1, 2)}, "type Point at /a"),
        ([Pair(1, 2)], "type Pair at /0"),
        ({"a": OrderedDict(b=1)}, "type OrderedDict at /a"),
        (Text("x"), "type Text"),
        ([Decimal(1)], "type Decimal at /0"),
        (b"bytes", "type bytes"),
        (nested(VALUE_DEPTH_MAX + 1), "levels"),
        (nested(5_000), "levels"),
        ([nested(VALUE_DEPTH_MAX), 1], "levels"),
        (alternating(VALUE_DEPTH_MAX + 2), "levels"),
    ],
)
def test_what_cannot_be_stored_is_refused_with_its_place(value: Any, place: str) -> None:
    with pytest.raises(ValueNotStorable, match=place):
        Payload.of(value)


def test_a_value_beyond_its_limit_is_refused() -> None:
    Payload.of("x" * (VALUE_BYTES_MAX - 2))
    with pytest.raises(ValueTooLarge, match=str(VALUE_BYTES_MAX)):
        Payload.of("x" * (VALUE_BYTES_MAX - 1))


@pytest.mark.parametrize("value", [[[]] * 340_000, [None] * 200_000, ["\\u0000"] * 100_000, [{}] * 340_000])
def test_a_megabyte_of_anything_holds_nobody_up(value: Any) -> None:
    calls = 0

    def count(*_: Any) -> None:
        nonlocal calls
        calls += 1

    gc.disable()  # other tests' tools listen to it, and would be counted
    sys.setprofile(count)
    try:
        Payload.of(value)
    finally:
        sys.setprofile(None)
        gc.enable()

    assert calls < 500, f"{calls} calls: the value is walked in Python, while the event loop waits"


def test_a_list_of_payloads_is_spliced() -> None:
    spliced = Payload.list_of([Payload.of({"a": 1}), Payload.of("b")])

    assert spliced.value == [{"a": 1}, "b"]
    assert Payload.parse(spliced.raw) == spliced


def test_a_tuple_is_taken_as_a_list() -> None:
    assert Payload.of(((1, 2), {"a": ()})).value == [[1, 2], {"a": []}]

"""Arguments: what fits a parameter, what does not, and what is said about it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest

from anabranch.errors import NodeFailure
from anabranch.queries.parameters import Document, ParametersRefused, bind, read_parameters
from anabranch.queries.query_faults import Mask
from anabranch.queries.query_results import column_names, json_form


@pytest.mark.parametrize(
    ("kind", "value", "bound"),
    [
        ("int", 7, 7),
        ("int", None, None),
        ("float", 7, 7.0),
        ("string", "7", "7"),
        ("bool", False, False),
        ("json", [1, {"a": 2}], Document([1, {"a": 2}])),
        ("json", "text", Document("text")),
        ("datetime", "2026-01-31T08:00:00+01:00", datetime(2026, 1, 31, 8, tzinfo=timezone(timedelta(hours=1)))),
        ("datetime", "2026-01-31T08:00:00Z", datetime(2026, 1, 31, 8, tzinfo=UTC)),
        ("any", {"a": 1}, Document({"a": 1})),
        ("any", "x", "x"),
        ("any", True, True),
    ],
)
def test_a_value_of_the_right_type_is_bound(kind: str, value: Any, bound: Any) -> None:
    assert bind(read_parameters({"p": kind}, ["p"]), {"p": value}) == {"p": bound}


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("int", "7"),
        ("int", 7.5),
        ("int", True),
        ("int", 2**63),
        ("float", "7"),
        ("string", 7),
        ("string", "a\x00b"),
        ("bool", 1),
        ("datetime", "2026-01-31T08:00:00"),
        ("datetime", "tomorrow"),
        ("datetime", 0),
    ],
)
def test_nothing_is_converted_silently(kind: str, value: Any) -> None:
    with pytest.raises(NodeFailure, match="the argument p") as caught:
        bind(read_parameters({"p": kind}, ["p"]), {"p": value})
    assert (caught.value.code, caught.value.retryable) == ("QUERY_ARGS_INVALID", False)


@pytest.mark.parametrize("value", ["a\ud800", ["\ud800"], {"\udfff": 1}])
def test_half_a_character_is_no_argument(value: Any) -> None:
    with pytest.raises(NodeFailure) as caught:
        bind(read_parameters(None, ["a"]), {"a": value})
    assert caught.value.code == "QUERY_ARGS_INVALID"


def test_missing_and_extra_arguments_are_all_named() -> None:
    with pytest.raises(NodeFailure) as caught:
        bind(read_parameters({"id": "int", "name": "string"}, ["id", "name"]), {"Id": 1, "x": 2})
    for word in ("id is missing", "name is missing", "no parameter Id, x"):
        assert word in str(caught.value)


def test_a_default_stands_in_for_an_argument() -> None:
    parameters = read_parameters([{"name": "n", "type": "int", "default": 10}], ["n"])
    assert bind(parameters, {}) == {"n": 10}
    assert bind(parameters, {"n": 3}) == {"n": 3}


@pytest.mark.parametrize(
    "declared",
    [
        {"id": "integer"},
        {"id": "int", "more": "int"},
        {},
        {"id": {"type": "int", "default": "x"}},
        {"id": {"type": "int", "size": 3}},
        [{"name": "id"}, {"name": "id"}],
        ["id"],
        "id",
        {"id": 3},
    ],
)
def test_a_declaration_fits_the_sql(declared: Any) -> None:
    with pytest.raises(ParametersRefused):
        read_parameters(declared, ["id"])


@pytest.mark.parametrize(
    ("given", "names"),
    [
        (["a", "b"], ["a", "b"]),
        (["a", "a", "a"], ["a", "a_2", "a_3"]),
        (["a", "a", "a_2"], ["a", "a_3", "a_2"]),
        (["", ""], ["column", "column_2"]),
    ],
)
def test_no_two_columns_share_a_key(given: list[str], names: list[str]) -> None:
    assert column_names(given) == names


@pytest.mark.parametrize(
    ("value", "form"),
    [
        (Decimal("1.50"), "1.50"),
        (2**64 - 1, 2**64 - 1),
        (2**64, str(2**64)),
        (float("nan"), "NaN"),
        (b"\x00\xff", "AP8="),
        (datetime(2026, 1, 31, tzinfo=UTC), "2026-01-31T00:00:00+00:00"),
        (timedelta(days=1, seconds=1.5), "PT86401.5S"),
        ({"b", "a"}, ["a", "b"]),
        ("a\x00b", "a\ufffdb"),
    ],
)
def test_values_have_one_json_form(value: Any, form: Any) -> None:
    assert json_form(value) == form


@pytest.mark.parametrize("text", ["to pass/word", "to pass%2Fword", "at 'pass%2fword'".replace("2f", "2F")])
def test_a_password_is_masked_however_it_is_written(text: str) -> None:
    assert "word" not in Mask(["pass/word"])(text)


def test_a_message_around_a_tiny_password_is_left_out() -> None:
    assert Mask(["a"])("a database") == "the database's message holds a secret and is left out"

"""JSON from outside: what is let in unchanged, and what is refused with which place."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.engine.rules.values import Payload
from anabranch.errors import AnabranchError, BadJson, InvalidRequest, TooLarge, ValueNotStorable
from anabranch.json_input import TEXT_BYTES_MAX, parse_json, read_json_file


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("null", None),
        ('{"b": 1, "a": [true, 1.5, "ü\\ud83d\\ude00"]}', {"b": 1, "a": [True, 1.5, "ü😀"]}),
        ("18446744073709551615", 2**64 - 1),
        ("-9223372036854775808", -(2**63)),
        ("-0.0", -0.0),
        (b"\xef\xbb\xbf[1]", [1]),
        ("\ufeff[1]", [1]),
        ('"[[[[ {{{{ \\" ]"', '[[[[ {{{{ " ]'),
        ("[" * 64 + "]" * 64, None),
    ],
)
def test_plain_json_passes_unchanged(text: str | bytes, value: Any) -> None:
    assert value is None or parse_json(text) == value
    parse_json(text)


def test_the_order_of_keys_is_kept() -> None:
    assert list(parse_json('{"z": 1, "a": 2, "m": 3}')) == ["z", "a", "m"]


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        ("", 1, 1),
        ("{", 1, 2),
        ('{"a": tru}', 1, 7),
        ('{\n  "a" 1\n}', 2, 7),
        ("[1] x", 1, 5),
        ("'a'", 1, 1),
        (b'{"a":\n "\xff"}', 2, 3),
        ('"never ends [[[', 1, 1),
    ],
)
def test_broken_json_is_refused_with_line_and_column(text: str | bytes, line: int, column: int) -> None:
    with pytest.raises(BadJson, match=f"line {line}, column {column}") as refusal:
        parse_json(text)

    assert refusal.value.details == {"line": line, "column": column}


@pytest.mark.parametrize(
    ("text", "pointer", "message"),
    [
        ('{"a": [1, NaN]}', "/a/1", "NaN"),
        ('{"a": -Infinity}', "/a", "-Infinity"),
        ('{"a/b": {"~": 18446744073709551616}}', "/a~1b/~0", "64 bit"),
        ("-9223372036854775809", "", "64 bit"),
        ('{"a": 1e999}', "/a", "float"),
        ('["x", "a\\u0000b"]', "/1", "NUL"),
        ('["\\ud800"]', "/0", "lone surrogate"),
        ('{"k": {"a\\u0000": 1}}', "/k", "key with a NUL"),
        ("[" + "9" * 1_000_000 + "]", "/0", "64 bit"),
        ("[NaN, Infinity]", "/0", "NaN"),
    ],
)
def test_what_the_log_could_not_give_back_is_refused_with_its_place(text: str, pointer: str, message: str) -> None:
    with pytest.raises(ValueNotStorable, match=message) as refusal:
        parse_json(text)

    assert refusal.value.details == {"pointer": pointer}


def test_a_repeated_key_is_refused_instead_of_dropped() -> None:
    with pytest.raises(BadJson, match="'b' twice at /a/0") as refusal:
        parse_json('{"a": [{"b": 1, "c": 2, "b": 1}]}')

    assert refusal.value.details == {"pointer": "/a/0", "key": "b"}


@pytest.mark.parametrize(
    "text", ["[" * 65 + "]" * 65, "[" * 5_000, '{"a":' * 100_000, "[" * 3_000_000, "[[1]," + "[" * 64 + "]" * 65]
)
def test_deep_nesting_is_refused_before_it_is_parsed(text: str) -> None:
    with pytest.raises(ValueNotStorable, match="more than 64 levels"):
        parse_json(text)


def test_too_deep_a_place_is_named() -> None:
    with pytest.raises(ValueNotStorable, match=f"at /1/a{'/0' * 62}$"):
        parse_json('[[], {"a": ' + "[" * 63 + "]" * 63 + "}]")


def test_a_large_file_is_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "large.json"
    with path.open("wb") as file:
        os.truncate(file.fileno(), 100 * 1_048_576)

    with pytest.raises(TooLarge, match=r"large\.json is larger than 16 MB"):
        read_json_file(path)


def test_size_is_counted_in_bytes() -> None:
    with pytest.raises(TooLarge):
        parse_json('"' + "ü" * (TEXT_BYTES_MAX // 2) + '"')
    assert len(parse_json('"' + "u" * (TEXT_BYTES_MAX - 2) + '"')) == TEXT_BYTES_MAX - 2


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match=r"absent\.json cannot be read: no such file"):
        read_json_file(tmp_path / "absent.json")
    with pytest.raises(InvalidRequest, match="is a directory"):
        read_json_file(tmp_path)


@given(st.one_of(st.text(), st.binary(), st.text(alphabet='[]{}",:\\ nulltrue0123456789.eE-')))
def test_any_text_is_read_or_refused_in_our_words(text: str | bytes) -> None:
    try:
        value = parse_json(text)
    except AnabranchError:
        return
    assert Payload.of(value).value == value

"""The depth of a text, told without parsing it."""

from __future__ import annotations

import json

import pytest

from anabranch.handlers.sandbox.inside.sealed_wire import is_deeper
from tests.operations import operations


def nested(levels: int, *, mixed: bool = False) -> bytes:
    opening, closing = ('[{"a":', "}]") if mixed else ("[", "]")
    per_round = 2 if mixed else 1
    return (opening * (levels // per_round) + "1" + closing * (levels // per_round)).encode()


@pytest.mark.parametrize("mixed", [False, True])
def test_depth_is_counted_over_both_kinds_of_brackets(mixed: bool):
    assert not is_deeper(nested(64, mixed=mixed), 64)
    assert is_deeper(nested(66, mixed=mixed), 64)


def test_many_brackets_side_by_side_are_not_deep():
    assert not is_deeper(json.dumps([[[]] * 1_000, {"a": {}}]).encode(), 3)


@pytest.mark.parametrize("text", ["[" * 100, '"' + "[" * 100, "\\" + '"[' * 100, "\\\\" + '"' + "]" * 100, "é[{" * 50])
def test_brackets_inside_text_do_not_count(text: str):
    assert not is_deeper(json.dumps([text, {text: text}]).encode(), 2)
    assert is_deeper(json.dumps([text, [[[1]]]]).encode(), 3)


@pytest.mark.parametrize(
    "text",
    [b"[" * 10**6, b"]" * 10**6,
     b'"' * 10**6 + b"[" * 70, b"[" * 70 + b'\\"' * 500_000, b'["",' * 250_000, b"[]" * 500_000],
)  # fmt: skip
def test_hostile_text_is_judged_in_a_few_passes_in_c(text: bytes):
    count = operations(lambda: is_deeper(text, 64))
    assert count < 100, f"{count} operations: the text is walked in Python, while the event loop waits"

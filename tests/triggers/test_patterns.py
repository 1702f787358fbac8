"""Which topics a pattern fits: checked against regular expressions that say the same."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anabranch.triggers.topics.topic_patterns import (
    TOPIC_CHARACTERS_MAX,
    fits,
    head_of,
    heads_of,
    problem_of_pattern,
    problem_of_topic,
)


@pytest.mark.parametrize(
    ("pattern", "topic", "fit"),
    [
        ("user.signup", "user.signup", True),
        ("user.signup", "user.signup.again", False),
        ("orders.*", "orders.created", True),
        ("orders.*", "orders", False),
        ("orders.*", "orders.eu.created", False),
        ("orders.#", "orders", True),
        ("orders.#", "orders.eu.created", True),
        ("orders.#.created", "orders.created", True),
        ("orders.#.created", "orders.eu.zh.created", True),
        ("orders.#.created", "orders.eu.zh.deleted", False),
        ("#", "anything.at.all", True),
        ("*.created", "orders.created", True),
        ("#.*", "orders", True),
        ("Orders", "orders", False),
    ],
)
def test_a_star_is_one_segment_and_a_hash_any_number(pattern: str, topic: str, fit: bool) -> None:
    assert fits(pattern, topic) is fit


PARTS = st.lists(st.sampled_from(["a", "b", "ab", "*", "#"]), min_size=1, max_size=7).map(".".join)
TOPICS = st.lists(st.sampled_from(["a", "b", "ab"]), min_size=1, max_size=7).map(".".join)


@given(pattern=PARTS, topic=TOPICS)
@settings(max_examples=500)
def test_a_pattern_fits_what_the_expression_of_the_same_meaning_fits(pattern: str, topic: str) -> None:
    meaning = "".join({"*": r"\.[^.]+", "#": r"(?:\.[^.]+)*"}.get(part, rf"\.{part}") for part in pattern.split("."))
    assert fits(pattern, topic) == (re.fullmatch(meaning, f".{topic}") is not None)


@given(pattern=PARTS, topic=TOPICS)
def test_what_fits_is_found_by_its_first_segment(pattern: str, topic: str) -> None:
    assert not fits(pattern, topic) or head_of(pattern) in heads_of(topic)


def test_many_wildcards_take_no_longer_than_their_number() -> None:
    assert not fits(".".join(["#", "a"] * 60), ".".join(["a"] * 120 + ["b"]))


@pytest.mark.parametrize(
    "text",
    ["", ".", "a..b", ".a", "a.", "a b", "a/b", "a.b*", "a.#b", "a\x00", "a\n", "\ud800", "x" * 256, "a." * 16 + "a"],
)
def test_what_is_neither_topic_nor_pattern_is_refused(text: str) -> None:
    assert problem_of_topic(text) and problem_of_pattern(text)


def test_wildcards_are_for_patterns_only() -> None:
    assert problem_of_topic("a.*") and problem_of_topic("#")
    assert problem_of_pattern("a.*.#") is None
    assert problem_of_topic("bestellungen.zürich.größer-10:x") is None
    assert problem_of_topic("x" * TOPIC_CHARACTERS_MAX) is None

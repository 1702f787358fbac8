"""Lengths of time: every way of writing one, and what is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.engine.rules.duration import DURATION_MS_MAX, format_duration, parse_duration


@pytest.mark.parametrize(
    ("written", "milliseconds"),
    [
        (0, 0),
        (1500, 1500),
        (1.6, 2),
        ("500ms", 500),
        ("5s", 5_000),
        ("5 s", 5_000),
        ("5m", 300_000),
        ("1.5h", 5_400_000),
        ("7d", 604_800_000),
        ("PT5M", 300_000),
        ("PT0.5S", 500),
        ("P7D", 604_800_000),
        ("P2W", 1_209_600_000),
        ("P1DT2H", 93_600_000),
        ("1825d", 1825 * 86_400_000),
    ],
)
def test_a_duration_is_read_the_ways_people_write_it(written: object, milliseconds: int) -> None:
    assert parse_duration(written) == milliseconds


@pytest.mark.parametrize(
    "written",
    [
        *(True, None, [], {}, -1, float("nan"), float("inf"), 10**400, DURATION_MS_MAX + 1),
        *("", "5", "s", "-5s", "5 apples", "1e3s", "５s", "2000d", "9" * 100 + "s"),
        *("P", "PT", "P1DT", "P1M", "P1Y", "pt5m"),
    ],
)
def test_anything_else_is_refused_and_the_refusal_says_what_is_accepted(written: object) -> None:
    with pytest.raises(ValueError, match="PT5M") as refusal:
        parse_duration(written)
    assert len(str(refusal.value)) < 300, "a refusal is a line to read, whatever was written"


@given(st.integers(0, DURATION_MS_MAX))
def test_a_formatted_duration_reads_back_as_itself(milliseconds: int) -> None:
    assert parse_duration(format_duration(milliseconds)) == milliseconds

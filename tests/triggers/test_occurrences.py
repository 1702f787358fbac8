"""When schedules are due, and what is made up for: pure rules, no clock and no database."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anabranch.triggers.schedules.occurrences import (
    EVERY_MS_MIN,
    MADE_UP_FOR_MAX,
    ON_TIME_MS,
    BadTiming,
    Cron,
    Interval,
    MissedPolicy,
    Timing,
    check_timezone,
    due_occurrences,
    next_after,
)

ZURICH = "Europe/Zurich"
SECOND, MINUTE, HOUR, DAY = 1_000, 60_000, 3_600_000, 86_400_000


def at(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


def named(timing: Timing, since: str, until: str) -> list[str]:
    """The occurrences after `since` up to `until`, all in UTC."""
    found, moment = [], next_after(timing, at(since))
    while moment is not None and moment <= at(until):
        found.append(datetime.fromtimestamp(moment / 1000, UTC).strftime("%d %H:%M"))
        moment = next_after(timing, moment)
    return found


EXPRESSIONS = ["* * * * *", "*/7 * * * *", "30 2 * * *", "0 0 1 * *", "0 9 * * MON-FRI", "0,30 1-3 * * *",
               "*/15 2 * * *", "15 */2 * * *", "*/20 * * * * *", "0 0 29 2 *", "0 0 L * *"]  # fmt: skip
ZONES = ["UTC", ZURICH, "America/St_Johns", "Australia/Lord_Howe", "Africa/Cairo", "Asia/Kolkata"]
MOMENTS = st.integers(at("2020-01-01"), at("2035-01-01"))
CRONS = st.builds(Cron, st.sampled_from(EXPRESSIONS), st.sampled_from(ZONES))
INTERVALS = st.builds(Interval, MOMENTS, st.integers(EVERY_MS_MIN, 40 * DAY))


# -- when ---------------------------------------------------------------------------------
def test_a_fixed_time_that_the_clocks_skip_happens_after_the_gap() -> None:
    times = named(Cron("30 2 * * *", ZURICH), "2026-03-28T00:00", "2026-03-30T12:00")
    assert times == ["28 01:30", "29 01:00", "30 00:30"], "03:00 in summer is 01:00 UTC"


def test_a_fixed_time_that_the_clocks_show_twice_happens_once() -> None:
    times = named(Cron("30 2 * * *", ZURICH), "2026-10-24T12:00", "2026-10-26T12:00")
    assert times == ["25 00:30", "26 01:30"]
    assert named(Cron("30 2 * * *", ZURICH), "2026-10-25T01:10", "2026-10-26T12:00") == ["26 01:30"]


def test_a_schedule_by_the_minute_follows_the_clock_on_the_wall() -> None:
    doubled = named(Cron("*/30 2 * * *", ZURICH), "2026-10-24T22:00", "2026-10-25T12:00")
    assert doubled == ["25 00:00", "25 00:30", "25 01:00", "25 01:30"], "the hour from 2 to 3 happens twice"
    assert named(Cron("*/30 2 * * *", ZURICH), "2026-03-28T22:00", "2026-03-29T12:00") == []


def test_an_interval_does_not_drift() -> None:
    timing = Interval(anchor_at=5, every_ms=7_000)
    assert next_after(timing, 0) == 7_005, "the first one is one interval after the anchor"
    assert next_after(timing, 7_005) == 14_005
    assert next_after(timing, 20_000) == 21_005, "however late we look"


@given(timing=CRONS | INTERVALS, moment=MOMENTS)
@settings(max_examples=200, deadline=None)
def test_the_next_occurrence_is_later_and_none_lies_between(timing: Timing, moment: int) -> None:
    following = next_after(timing, moment)
    assert following is not None and following > moment
    assert next_after(timing, following - 1) == following
    assert next_after(timing, (moment + following) // 2) == following


@given(expression=st.text(max_size=140) | st.lists(st.text("0123456789*/,-#LWMON", max_size=6), min_size=5,
                                                   max_size=6).map(" ".join))  # fmt: skip
@settings(max_examples=300, deadline=None)
def test_any_text_is_a_cron_expression_or_is_refused(expression: str) -> None:
    try:
        next_after(Cron(expression, "UTC"), 0)
    except BadTiming as refusal:
        assert refusal.field == "cron" and str(refusal)


@pytest.mark.parametrize("name", ["", "Mars/Olympus", "../../etc/passwd", "Europe", "a\x00b", "\ud800", "/etc/hosts"])
def test_what_is_no_time_zone_is_refused(name: str) -> None:
    with pytest.raises(BadTiming) as refusal:
        check_timezone(name)
    assert refusal.value.field == "timezone"


# -- what is made up for ------------------------------------------------------------------
HOURLY = Cron("0 * * * *", "UTC")
NOON = at("2026-06-01T12:00")


@pytest.mark.parametrize("missed", MissedPolicy)
def test_an_occurrence_that_is_a_little_late_is_started_once(missed: MissedPolicy) -> None:
    due = due_occurrences(HOURLY, next_at=NOON, now=NOON + 600, missed=missed, awake_since=NOON + 500)
    assert due.starts == (NOON,)
    assert due.following == NOON + HOUR


@pytest.mark.parametrize(
    ("missed", "hours"), [(MissedPolicy.SKIP, []), (MissedPolicy.ONE, [11]), (MissedPolicy.ALL, [8, 9, 10, 11])]
)
def test_after_an_absence_the_policy_decides(missed: MissedPolicy, hours: list[int]) -> None:
    now = NOON - 5 * MINUTE
    due = due_occurrences(HOURLY, next_at=at("2026-06-01T08:00"), now=now, missed=missed, awake_since=now)
    assert list(due.starts) == [at(f"2026-06-01T{hour:02}:00") for hour in hours]
    assert due.following == NOON


def test_one_run_is_enough_where_another_is_on_time() -> None:
    due = due_occurrences(HOURLY, next_at=NOON - 3 * HOUR, now=NOON + 1, missed=MissedPolicy.ONE, awake_since=NOON)
    assert due.starts == (NOON,)


def test_who_was_hindered_tries_until_the_next_occurrence() -> None:
    awake_since = NOON - DAY
    late = due_occurrences(
        HOURLY, next_at=NOON, now=NOON + 50 * MINUTE, missed=MissedPolicy.SKIP, awake_since=awake_since
    )
    later = due_occurrences(HOURLY, next_at=NOON, now=NOON + HOUR, missed=MissedPolicy.SKIP, awake_since=awake_since)
    assert late.starts == (NOON,), "somebody was there: it was hindered, not missed"
    assert later.starts == (NOON + HOUR,)


@pytest.mark.parametrize(
    "timing", [Interval(0, SECOND), Cron("* * * * * *", "UTC"), Cron("* * * 1 *", ZURICH), Cron("* * * * 1 *", "UTC")]
)
def test_no_more_than_the_latest_thousand_are_made_up_for(timing: Timing) -> None:
    first = next_after(timing, at("2019-07-01"))
    assert first is not None
    due = due_occurrences(timing, next_at=first, now=NOON, missed=MissedPolicy.ALL, awake_since=NOON)
    assert len(due.starts) == MADE_UP_FOR_MAX
    assert next_after(timing, due.starts[-1]) == due.following, "the latest ones"


@given(timing=CRONS | INTERVALS, since=MOMENTS, absence=st.integers(0, 3 * DAY), missed=st.sampled_from(MissedPolicy),
       awake=st.integers(0, 3 * DAY))  # fmt: skip
@settings(max_examples=150, deadline=None)
def test_what_is_started_are_occurrences_of_the_time_that_has_passed(
    timing: Timing, since: int, absence: int, missed: MissedPolicy, awake: int
) -> None:
    next_at = next_after(timing, since)
    assert next_at is not None
    now = next_at + absence
    due = due_occurrences(timing, next_at=next_at, now=now, missed=missed, awake_since=now - awake)

    assert due.following is not None and due.following > now
    assert list(due.starts) == sorted(set(due.starts))
    assert all(next_at <= start <= now and next_after(timing, start - 1) == start for start in due.starts)
    late = [start for start in due.starts if now - start > ON_TIME_MS]
    if missed is MissedPolicy.ALL:
        assert all(
            next_after(timing, a) == b for a, b in zip(due.starts, [*due.starts[1:], due.following], strict=True)
        )
        assert len(due.starts) == MADE_UP_FOR_MAX or due.starts[0] == next_at
    else:
        assert len(late) <= 1 and (not late or due.starts == (late[0],))
        assert missed is MissedPolicy.SKIP or due.starts, "one run at least"

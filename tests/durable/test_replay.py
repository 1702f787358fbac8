"""In which order a function is told again what it was told before, and what it must have asked for by then."""

from __future__ import annotations

from anabranch.durable.calls import Replay
from anabranch.engine.rules.coded.coded_state import Step
from anabranch.engine.rules.coded.names import Mark, StepKind
from anabranch.engine.rules.events import Event, EventType
from anabranch.engine.rules.values import EMPTY


def step(name: str, *, created_in: int = 1, first_seq: int, ended_seq: int = 0) -> Step:
    mark = Mark(StepKind.RUN, "1")
    first = Event(first_seq, EventType.NODE_DISPATCHED, name, "", 1, EMPTY, created_at=0, mark=mark)
    found = Step((name, ""), first, created_in)
    found.seq = found.ended_seq = ended_seq
    return found


def test_ends_are_told_in_the_order_of_the_log_whenever_they_were_asked_for() -> None:
    """A wait of the first attempt that ended in the second was told before what failed after it, and is again."""
    wait, fails = step("wait", first_seq=3, ended_seq=17), step("fails", created_in=2, first_seq=18, ended_seq=19)
    replay, endings = Replay([wait, fails], attempt=2), [wait, fails]

    assert replay.next(endings, committed_seq=19) == (17, wait.key)
    replay.pass_on()
    assert replay.next(endings, committed_seq=19) == (19, fails.key)
    replay.pass_on()
    assert replay.next(endings, committed_seq=19) is None


def test_an_end_that_is_not_committed_is_not_told() -> None:
    work = step("work", first_seq=5, ended_seq=5)
    replay = Replay([], attempt=1)

    assert replay.next([work], committed_seq=4) is None
    assert replay.next([work], committed_seq=5) == (5, work.key)


def test_what_an_earlier_attempt_did_is_told_as_soon_as_it_is_asked_for() -> None:
    earlier, now = step("earlier", first_seq=3, ended_seq=3), step("now", created_in=2, first_seq=9, ended_seq=9)
    later = step("later", created_in=2, first_seq=10, ended_seq=10)
    replay, endings = Replay([earlier, now, later], attempt=2), [earlier, now, later]
    replay.pass_on()  # nobody had asked for it
    replay.pass_on()

    assert replay.has_met(earlier, endings) and not replay.has_met(later, endings)
    replay.asked_late(earlier)
    assert replay.next(endings, committed_seq=10) == (3, earlier.key)
    replay.pass_on()
    assert replay.next(endings, committed_seq=10) == (10, later.key)


def test_a_function_has_asked_for_all_that_stands_before_an_end_when_it_is_told() -> None:
    work, wait = step("work", first_seq=4, ended_seq=5), step("wait", first_seq=3)
    replay = Replay([work, wait], attempt=1)
    replay.ask(work.key)

    assert replay.missing(before=5) == (3, wait.key)
    assert replay.unasked
    replay.ask(wait.key)
    assert replay.missing(before=5) is None
    assert not replay.unasked


def test_what_stands_behind_an_end_need_not_have_been_asked_for() -> None:
    work, later = step("work", first_seq=4, ended_seq=5), step("later", first_seq=6)
    replay = Replay([work, later], attempt=1)
    replay.ask(work.key)

    assert replay.missing(before=5) is None
    assert replay.missing() == (6, later.key)


def test_nothing_of_an_earlier_attempt_must_be_asked_for() -> None:
    replay = Replay([step("earlier", first_seq=3)], attempt=2)

    assert not replay.unasked

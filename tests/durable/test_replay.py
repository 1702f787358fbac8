"""In which order a body is told again what it was told before."""

from __future__ import annotations

from anabranch.durable.replay import Replay
from anabranch.engine.rules.coded.state import Step


def step(name: str, *, born_in: int, ended_seq: int, first_seq: int | None = None) -> Step:
    found = Step(name, "", "run:1", born_in)
    found.first_seq = ended_seq if first_seq is None else first_seq
    found.seq = found.ended_seq = ended_seq
    return found


def test_what_ended_in_this_attempt_is_told_in_the_order_of_the_log_whenever_it_began() -> None:
    """A wait of the first attempt that ended in the second was told before what failed after it, and is again."""
    wait = step("wait", born_in=1, ended_seq=17)
    fails = step("fails", born_in=2, ended_seq=19)
    replay = Replay([wait, fails], attempt=2, began_seq=16)
    replay.ask(wait.place, fails.place)

    assert (replay.next, replay.may_tell(fails.place)) == (wait.place, False)
    replay.tell(wait.place)
    assert replay.may_tell(fails.place)


def test_nothing_waits_for_what_had_ended_before_this_attempt() -> None:
    earlier = step("earlier", born_in=1, ended_seq=13)
    now = step("now", born_in=2, ended_seq=19)
    replay = Replay([earlier, now], attempt=2, began_seq=16)
    replay.ask(now.place)

    assert replay.may_tell(now.place)
    assert replay.may_tell(earlier.place)


def test_an_end_is_told_once_all_is_asked_for_that_the_log_has_above_it() -> None:
    """A task had asked for its wait before the body was told, and is cancelled for it: it must ask this time, too."""
    wait = step("wait", born_in=1, first_seq=3, ended_seq=0)
    work = step("work", born_in=1, ended_seq=4)
    later = step("later", born_in=1, ended_seq=5)
    replay = Replay([work, wait, later], attempt=1, began_seq=2)
    replay.ask(work.place)

    assert not replay.may_tell(work.place), "the wait stands above it in the log"
    replay.ask(wait.place)
    assert replay.may_tell(work.place), "what stands below it need not have been asked for"


def test_what_ends_only_now_is_told_once_all_that_was_known_is_asked_for() -> None:
    wait = step("wait", born_in=1, first_seq=3, ended_seq=0)
    other = step("other", born_in=1, first_seq=4, ended_seq=0)
    replay = Replay([wait, other], attempt=1, began_seq=2)
    replay.ask(wait.place)
    replay.ended(wait.place)

    assert not replay.may_tell(wait.place)
    replay.ask(other.place)
    assert replay.may_tell(wait.place)

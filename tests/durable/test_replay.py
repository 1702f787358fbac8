"""In which order a body is told again what it was told before."""

from __future__ import annotations

from anabranch.durable.replay import Replay
from anabranch.engine.rules.coded.state import Step


def step(name: str, *, born_in: int, ended_seq: int) -> Step:
    found = Step(name, "", "run:1", born_in)
    found.seq = found.ended_seq = ended_seq
    return found


def test_what_ended_in_this_attempt_is_told_in_the_order_of_the_log_whenever_it_began() -> None:
    """A wait of the first attempt that ended in the second was told before what failed after it, and is again."""
    wait = step("wait", born_in=1, ended_seq=17)
    fails = step("fails", born_in=2, ended_seq=19)
    replay = Replay([wait, fails], attempt=2, began_seq=16)

    assert (replay.next, replay.may_tell(fails.place)) == (wait.place, False)
    replay.tell(wait.place)
    assert replay.may_tell(fails.place)


def test_nothing_waits_for_what_had_ended_before_this_attempt() -> None:
    earlier = step("earlier", born_in=1, ended_seq=13)
    now = step("now", born_in=2, ended_seq=19)
    replay = Replay([earlier, now], attempt=2, began_seq=16)

    assert replay.may_tell(now.place)
    assert replay.may_tell(earlier.place)

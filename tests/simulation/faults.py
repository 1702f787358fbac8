"""The plan of what goes wrong in one world, drawn from the seed before anything runs.

Each fault has a number and a step at which it strikes one slot. The plan does not depend on what the
world does, so a failing seed can be run again with some of its faults left out (`shrink`).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection
from dataclasses import dataclass
from enum import StrEnum

from anabranch.engine.engine_options import POLL_MS
from tests.simulation.network import CommitFault

# One fault in about 60 callbacks: the engine recovers from some, and is hit again while it recovers from others.
STEPS_PER_FAULT = 60


class FaultKind(StrEnum):
    """What may go wrong."""

    CRASH = "crash"
    CRASH_LOOP = "crash-loop"
    STOP = "stop"
    FREEZE = "freeze"
    DYING = "dying"
    COMMIT_LOST_BEFORE = "commit-lost-before"
    COMMIT_LOST_AFTER = "commit-lost-after"
    COMMIT_LATE = "commit-late"
    CREATION_LATE = "new_run-late"
    SIGNAL_LOST = "signal-lost"
    COMMIT_LOCKED = "commit-locked"
    COMMIT_STOLEN = "commit-stolen"
    CALL_LOST = "call-lost"
    DATABASE_AWAY = "database-away"
    DATABASE_SLOW = "database-slow"
    RESULTS_DOUBLED = "results-doubled"
    RESULTS_LATE = "results-late"
    FAILURES_ECHOED = "failures-echoed"
    CLOCK_JUMP = "clock-jump"
    DATABASE_CLOCK_JUMP = "database-clock-jump"


# What ends or interrupts a process also repairs much: whoever takes over performs all that is outstanding.
PROCESS_FAULTS = frozenset(
    {FaultKind.CRASH, FaultKind.CRASH_LOOP, FaultKind.STOP, FaultKind.FREEZE, FaultKind.DYING, FaultKind.COMMIT_STOLEN}
)

# What lets no lease of a living process run out.
SPARING_FAULTS = frozenset(
    {
        FaultKind.COMMIT_LOCKED,
        FaultKind.RESULTS_DOUBLED,
        FaultKind.FAILURES_ECHOED,
    }
)

# In three worlds of ten processes live on, so that nobody repairs what a bad network breaks.
LASTING_PROCESSES = 0.3

COMMIT_FAULTS = {
    FaultKind.COMMIT_LOST_BEFORE: CommitFault.LOST_BEFORE,
    FaultKind.COMMIT_LOST_AFTER: CommitFault.LOST_AFTER,
    FaultKind.COMMIT_LATE: CommitFault.LATE,
    FaultKind.COMMIT_LOCKED: CommitFault.LOCKED,
    FaultKind.COMMIT_STOLEN: CommitFault.STOLEN,
}


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that goes wrong."""

    number: int
    step: int
    kind: FaultKind
    slot: int
    seconds: float
    """How long, how late or how far, depending on the kind."""
    count: int

    def __str__(self) -> str:
        return f"#{self.number} step {self.step}: {self.kind} slot {self.slot}, {self.seconds:.3f} s, x{self.count}"


def draw_plan(rng: random.Random, *, steps: int, slots: int, lease_s: float) -> list[Fault]:
    """Faults over so many steps, in the order in which they strike.

    Each world has its own favourites and does without some kinds, so that rare combinations come up
    which a fair mixture would drown.
    """
    processes_last = rng.random() < LASTING_PROCESSES
    kinds = [kind for kind in FaultKind if rng.random() < 0.7 and not (processes_last and kind in PROCESS_FAULTS)]
    kinds = kinds or [FaultKind.COMMIT_LOST_AFTER]
    weights = [rng.choice((1, 1, 2, 5)) for _ in kinds]
    strikes = sorted(rng.randrange(steps) for _ in range(round(steps / STEPS_PER_FAULT * rng.uniform(0.2, 1.5))))
    plan = []
    last_kind = rng.choice([*COMMIT_FAULTS, FaultKind.COMMIT_LOST_AFTER])
    for number, step in enumerate(strikes + [steps - 1] * slots, start=1):
        # The last thing that happens to everybody is a bad commit: nothing comes after it that would mend what it did.
        kind = last_kind if step == steps - 1 else rng.choices(kinds, weights)[0]
        seconds, count = _SIZES[kind](rng, lease_s), rng.choice((1, 1, 2, 4))
        plan.append(Fault(number, step, kind, rng.randrange(slots), seconds, count))
    return plan


def without(plan: list[Fault], left_out: Collection[int]) -> list[Fault]:
    """The plan with some faults left out."""
    return [fault for fault in plan if fault.number not in left_out]


def only(plan: list[Fault], kept: Collection[int]) -> list[Fault]:
    """The plan with these faults and no others."""
    return [fault for fault in plan if fault.number in kept]


def sparing(plan: list[Fault]) -> list[Fault]:
    """The plan without what may be taken for the crash of a process."""
    return [fault for fault in plan if fault.kind in SPARING_FAULTS]


def _around_a_lease(rng: random.Random, lease_s: float) -> float:
    """From a blink to well past a lease, most often about as long as one."""
    return rng.choice((0.02, 0.3, 0.7, 1.0, 1.2, 2.5, 2.5)) * lease_s * rng.uniform(0.8, 1.2)


def _past_a_lease(rng: random.Random, lease_s: float) -> float:
    """Long enough to find and take over what a predecessor held, and to begin with it."""
    return lease_s * rng.uniform(1.0, 1.6) + POLL_MS / 1000


def _shortly(rng: random.Random, lease_s: float) -> float:
    return rng.choice((0.005, 0.05, 0.5, 1.5)) * rng.uniform(0.5, 1.5)


def _lately(rng: random.Random, lease_s: float) -> float:
    """Just while the sender reads what became of it, or a little before or after it tries again."""
    return rng.choice((0.001, 0.004, 0.01, 0.2, 0.26, 1.5)) * rng.uniform(0.5, 1.5)


def _jump(rng: random.Random, lease_s: float) -> float:
    """A clock set forwards or back, by NTP or by a person."""
    return rng.choice((-1, 1)) * rng.choice((0.01, 0.2, 1.0, lease_s, 15.0)) * rng.uniform(0.5, 1.0)


_SIZES: dict[FaultKind, Callable[[random.Random, float], float]] = {
    FaultKind.CRASH: _shortly,
    FaultKind.CRASH_LOOP: _past_a_lease,
    FaultKind.STOP: _shortly,
    FaultKind.FREEZE: _around_a_lease,
    FaultKind.DYING: _shortly,
    FaultKind.COMMIT_LOST_BEFORE: _shortly,
    FaultKind.COMMIT_LOST_AFTER: _shortly,
    FaultKind.COMMIT_LATE: _lately,
    FaultKind.CREATION_LATE: _lately,
    FaultKind.SIGNAL_LOST: _shortly,
    FaultKind.COMMIT_LOCKED: _shortly,
    FaultKind.COMMIT_STOLEN: _shortly,
    FaultKind.CALL_LOST: _shortly,
    FaultKind.DATABASE_AWAY: _around_a_lease,
    FaultKind.DATABASE_SLOW: _around_a_lease,
    FaultKind.RESULTS_DOUBLED: _shortly,
    FaultKind.RESULTS_LATE: _shortly,
    FaultKind.FAILURES_ECHOED: _shortly,
    FaultKind.CLOCK_JUMP: _jump,
    FaultKind.DATABASE_CLOCK_JUMP: _jump,
}

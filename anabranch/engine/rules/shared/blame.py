"""Blame for crashes: which runs are suspected of having killed their process, and what that leads to.

Pure. Called by the stores, which judge the runs of a lost worker before anybody reads their logs, and by the folds,
which say when a suspicion is over.

A process may die of one of the runs that it executes, and nobody can tell which. So all of them become suspects, at
most so many of which one process takes at once: their *company*. Each time that a suspect's process dies again its
company is halved. Who is left as the only suspect of its process, and whose process dies then, is counted; nobody else
ever is. A suspicion is over as soon as everything has been answered that was unanswered when the run was taken over.
One poisonous run among n that executed is suspended after 1 + floor(log2 n) + `CRASHES_MAX` crashes, and the others go
on.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import NamedTuple

from anabranch.engine.rules.events import SuspendReason
from anabranch.engine.rules.payloads import RunSuspended

# 3 crashes as the only suspect: one may still be an accident, and each takes the other work of its process down.
CRASHES_MAX = 3

# 64 runs, as many as a worker executes by default: of a worker that never said how many it executes.
EXECUTING_UNKNOWN = 64

# 1, 10, 100 s until a run that has crashed alone is due again: time for the process to come back and do other work.
CRASH_DELAYS_MS = (1_000, 10_000, 100_000)

# 30 s in which a process starts nothing besides a run that is its only suspect: most handlers have answered by then.
ALONE_MS = 30_000


class Blame(NamedTuple):
    """A run under suspicion."""

    company: int
    """At most so many suspects are in its process together."""
    crashes: int = 0
    """How often its process has crashed while it was the only suspect there."""


@dataclass(frozen=True, slots=True)
class SuspectRoom:
    """How many suspects a process may still take."""

    held: int = 0
    """It has so many."""
    company_min: int | None = None
    """The least company of those; None: it has none."""
    alone: bool = True
    """May it take one whose company is 1? Such a one comes alone: no other run with it."""


ANY_ROOM = SuspectRoom()


@dataclass(frozen=True, slots=True)
class Judgement:
    """What follows from a crash for a run of the lost process."""

    blame: Blame
    suspends: bool = False
    """It has crashed alone too often."""
    delay_ms: int | None = None
    """It is due again only after so long; None: at once."""


def judged(blame: Blame | None, *, executing: int, crashes_max: int, suspended: bool = False) -> Judgement:
    """The run was held by a process that was lost, and which executed so many runs.

    A run that is `suspended` already has nothing begun for it, so no crash is counted.
    """
    if blame is None:
        return Judgement(Blame(max(1, executing)))
    if blame.company > 1:
        return Judgement(Blame(blame.company // 2, blame.crashes))
    if suspended:
        return Judgement(blame)
    crashes = blame.crashes + 1
    if crashes >= crashes_max:
        return Judgement(Blame(1, crashes), suspends=True)
    return Judgement(Blame(1, crashes), delay_ms=CRASH_DELAYS_MS[min(crashes, len(CRASH_DELAYS_MS)) - 1])


def crashed(crashes: int) -> RunSuspended:
    """What the log says of a run that has crashed alone too often."""
    times = "once" if crashes == 1 else f"{crashes} times"
    return RunSuspended(
        SuspendReason.CRASHED,
        f"the process that executed this run was lost {times} while no other run there could have been the cause",
        "Find out what kills the process (memory, a native library), deploy a remedy and resume the run.",
    )


def may_join(room: SuspectRoom, companies: Collection[int]) -> bool:
    """May a process with this room take suspects of these companies, all of them together?"""
    limit = min(companies, default=None)
    if limit is None:
        return True
    limit = limit if room.company_min is None else min(limit, room.company_min)
    return room.held + len(companies) <= limit and (room.alone or min(companies) > 1)


@dataclass(slots=True)
class Suspicion:
    """What the log says of a run under suspicion."""

    recoveries: int
    """Takeovers since it was last above suspicion."""
    blame: Blame | None
    """As of the last takeover; None in logs from before crashes were blamed on runs."""
    unanswered: set[tuple[str, str]]
    """Activations (node id, scope) that were unanswered at the takeover and still are."""

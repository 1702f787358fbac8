"""Suspicion after crashes: which runs may have killed their process, and how they are isolated.

Pure. Called by the stores, which judge the runs of a lost worker before their logs are read, and by the folds, which
end a suspicion.

One of the runs that a process executes may kill it, and nothing shows which. So all of them become suspects, and one
process takes only a limited number of suspects at once: their *company*. Each further crash halves the company. A crash
counts against a run only if the run was the only suspect in its process. A suspicion ends when everything that was
executing at the takeover has ended. If one of n executing runs kills its process, it is suspended after 1 + floor(log2
n) + `CRASHES_MAX` crashes, and the others continue.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from anabranch.dataclass import dataclass
from anabranch.engine.rules.event_payloads import RunSuspended
from anabranch.engine.rules.events import ActivationKey, SuspendReason

# 3 crashes as the only suspect: one may still be an accident, but each one interrupts the other work of its process.
CRASHES_MAX = 3

# 64 runs, the default concurrency: assumed of a worker that never reported how many it executes.
EXECUTING_UNKNOWN = 64

# 1, 10, 100 s until a run that has crashed alone is due again: time for the process to come back and do other work.
CRASH_DELAYS_MS = (1_000, 10_000, 100_000)

# For 30 s a process starts nothing beside a run that is its only suspect: most handlers have returned by then.
ALONE_MS = 30_000


class Blame(NamedTuple):
    """A run under suspicion."""

    company: int
    """The maximum number of suspects in its process."""
    crashes: int = 0
    """How often its process has crashed while it was the only suspect there."""


@dataclass(frozen=True, slots=True)
class SuspectCapacity:
    """How many suspects a process may still take."""

    owned: int = 0
    """How many suspects it has."""
    company_min: int | None = None
    """The smallest company among them; None without suspects."""
    alone: bool = True
    """Whether it may take one with company 1, which comes without other runs."""


ANY_CAPACITY = SuspectCapacity()


@dataclass(frozen=True, slots=True)
class Judgement:
    """The judgement of a crash for one run of the lost process."""

    blame: Blame
    suspends: bool = False
    """It has crashed alone too often."""
    delay_ms: int | None = None
    """The delay until it is due again; None: due at once."""


def judged(blame: Blame | None, *, executing: int, crashes_max: int, suspended: bool = False) -> Judgement:
    """Judge a run of a lost process that executed this many runs.

    For a `suspended` run nothing is started, so no crash is counted.
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
    """The suspension of a run that has crashed alone too often."""
    times = "once" if crashes == 1 else f"{crashes} times"
    return RunSuspended(
        SuspendReason.CRASHED,
        f"the process that executed this run was lost {times} while no other run there could have been the cause",
        "Find out what kills the process (memory, a native library), deploy a remedy and resume the run.",
    )


def may_join(capacity: SuspectCapacity, companies: Collection[int]) -> bool:
    """Whether a process with this capacity may take suspects with these companies together."""
    limit = min(companies, default=None)
    if limit is None:
        return True
    limit = limit if capacity.company_min is None else min(limit, capacity.company_min)
    return capacity.owned + len(companies) <= limit and (capacity.alone or min(companies) > 1)


@dataclass(slots=True)
class Suspicion:
    """The suspicion against a run, as the log records it."""

    recoveries: int
    """Takeovers since it was last cleared of suspicion."""
    blame: Blame | None
    """As of the last takeover; None in logs from before crashes were blamed on runs."""
    unanswered: set[ActivationKey]
    """Activations (node id, scope) that were unanswered at the takeover and still are."""

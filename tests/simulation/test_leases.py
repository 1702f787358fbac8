"""Leases of idle runs, in simulated time: extended in time, also where a try fails or comes a moment too early."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence

import pytest

from anabranch.engine.ownership.leases import Leases
from anabranch.errors import StoreUnavailable
from tests.simulation.loop import SimulatedLoop

LEASE_MS = 900
LEASES = 10


class LoopClock:
    """The time of the loop, which only timers move: looks come exactly when they are due."""

    def now(self) -> int:
        return round(self.monotonic() * 1000)

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    async def sleep(self, milliseconds: int) -> None:
        await asyncio.sleep(milliseconds / 1000)


class OneRun:
    """What `Leases` knows of an orchestrator that owns one idle run, and of its store."""

    worker_id = "w"

    def __init__(self, failures: int) -> None:
        self.owned = self
        self.failures = failures
        """How many tries fail before each that succeeds."""
        self.failed = self.extended = 0
        self.dropped = False
        self.until, self.extended_at = LEASE_MS, 0.0

    def settled_leases(self) -> Iterator[tuple[str, int, int]]:
        if not self.dropped:
            yield "run", 1, self.until

    def extensions(self) -> list[tuple[str, float]]:
        return [] if self.dropped else [("run", self.extended_at)]

    def lease_extended(self, instance_id: str, *, until: int, asked_at: float) -> None:
        self.until, self.extended_at = until, asked_at

    def drop(self, instance_id: str, why: str) -> None:
        self.dropped = True

    def note_failure(self, failure: StoreUnavailable) -> None:
        """Nothing else depends on it."""

    async def extend(self, *, worker_id: str, instance_ids: Sequence[str], lease_ms: int) -> set[str]:
        if self.failed < self.failures:
            self.failed += 1
            raise StoreUnavailable("for a moment")
        self.failed = 0
        self.extended += 1
        return set(instance_ids)


@pytest.mark.parametrize(("failures", "is_kept"), [(0, True), (1, True), (9, False)])
def test_a_lease_is_extended_in_time_although_a_try_fails(failures: int, is_kept: bool) -> None:
    run, loop = OneRun(failures), SimulatedLoop(seed=1)

    async def idle() -> None:
        leases = Leases(store=run, orchestrator=run, clock=LoopClock(), lease_ms=LEASE_MS)  # type: ignore[arg-type]
        await leases.start()
        await asyncio.sleep(LEASES * LEASE_MS / 1000)
        await leases.stop()

    with loop.running():
        loop.create_task(idle()).add_done_callback(lambda done: done.result())
        while loop.step():
            pass
    assert run.dropped is not is_kept
    assert (run.extended >= LEASES) is is_kept

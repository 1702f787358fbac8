"""Thousands of coded runs asleep, in virtual time: nobody holds them, and all wake in the order of their due times."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import pytest

from anabranch.durable.definition import Workflow
from anabranch.engine.engine_options import EngineOptions
from anabranch.engine.rules.events import EventType
from anabranch.engine.rules.instants import from_iso
from anabranch.handlers.registry import builtin_types
from anabranch.testing.memory_store.database import MemoryDatabase
from anabranch.testing.memory_store.records import Transaction
from tests.simulation.loop import SimulatedLoop
from tests.simulation.machines import DatabaseClock
from tests.simulation.network import Weather
from tests.simulation.processes import SimulatedProcess, SkewedClock

# 2,000 runs: four claims full, and a few seconds of a slow machine.
SLEEPERS = 2_000

# How far apart they are due, and how far ahead the first of them.
APART_MS = 7
AHEAD_MS = 60_000


async def sleeps(ctx: Any, input: Any) -> Any:
    await ctx.step.sleep("nap", input)
    return "awake"


SLEEPS = Workflow("sleeps", 1, sleeps, {})


class Bedroom:
    """One database with sleepers, and the process that works on it now."""

    def __init__(self, loop: SimulatedLoop) -> None:
        self.loop = loop
        self.clock = DatabaseClock(loop)
        self.database = MemoryDatabase(now=self.clock.now, on_commit=self._committed)
        self.database.definitions.register(name="sleeps", version=1, definition={"workflowOptions": {}})
        self.due: dict[str, int] = {}
        self.woken: list[tuple[str, int]] = []
        """(run, when) in the order in which they were."""
        self._processes = 0
        self.process = self.begin()

    def begin(self) -> SimulatedProcess:
        """A process of its own, which knows nothing of those before."""
        self._processes += 1
        self.process = SimulatedProcess(
            loop=self.loop,
            database=self.database,
            weather=Weather(seed=0, rarities=Counter()),
            types=builtin_types(),
            code=[SLEEPS],
            options=EngineOptions(lease_ms=4_000, watches_loop=False),
            clock=SkewedClock(self.loop, rate=1, wrong_by_ms=0, database_now=self.clock.now()),
            worker_id=f"w{self._processes}",
            commits_in_flight_max=2,
        )
        self.until(self.process.run(self.process.engine.start()).done)
        return self.process

    def put_to_bed(self, count: int, nap_ms: Any) -> None:
        """Start so many; each sleeps for what `nap_ms` says of its number."""
        for number in range(count):
            service = self.process.service
            start = self.process.run(service.execute_workflow("sleeps", nap_ms(number), tenant_id="default"))
            self.until(start.done)
        self.until(lambda: len(self.due) == count and not self.process.engine.orchestrator.owned_ids)

    def until(self, condition: Any) -> None:
        """Let the world go on until it is so."""
        while not condition():
            assert self.loop.step(), "nothing is scheduled any more"

    def pass_(self, milliseconds: int) -> None:
        """Let so much time pass."""
        end = self.loop.time() + milliseconds / 1000
        self.loop.call_at(end, lambda: None)
        self.until(lambda: self.loop.time() >= end)

    def _committed(self, transaction: Transaction) -> None:
        for change in transaction.changes:
            for row in change.events:
                if row.node_id == "nap" and row.type is EventType.NODE_WAITING:
                    self.due[row_of(change)] = from_iso(row.payload.value["dueAt"])
                elif row.node_id == "nap" and row.type is EventType.NODE_COMPLETED:
                    self.woken.append((row_of(change), transaction.now))


def row_of(change: Any) -> str:
    return str(change.after.head.instance_id)


@pytest.mark.parametrize("restarts", [False, True])
def test_sleepers_leave_the_process_and_wake_in_time_and_in_order(restarts: bool) -> None:
    loop = SimulatedLoop(seed=1, in_order=True)
    with loop.running():
        room = Bedroom(loop)
        began = room.clock.now()
        room.put_to_bed(SLEEPERS, lambda number: began + AHEAD_MS + number * APART_MS - room.clock.now())
        assert not room.process.engine.orchestrator.owned_ids
        if restarts:
            room.pass_(began + AHEAD_MS + SLEEPERS * APART_MS // 2 - room.clock.now())
            room.process.crash()
            room.begin()
        room.until(lambda: len(room.woken) == SLEEPERS)
        room.process.crash()
    assert len({run for run, _ in room.woken}) == SLEEPERS, "each wakes once"
    late = sorted(when - room.due[run] for run, when in room.woken)
    assert late[0] >= 0, "none is early"
    # A poll of half a second, and after a crash the lease of those that were just being woken.
    assert late[-SLEEPERS // 100] <= 1_000


def test_sleepers_that_are_all_overdue_wake_the_oldest_first() -> None:
    loop = SimulatedLoop(seed=2, in_order=True)
    with loop.running():
        room = Bedroom(loop)
        room.put_to_bed(SLEEPERS, lambda number: AHEAD_MS + (number * 997) % SLEEPERS)
        room.process.crash()
        room.pass_(2 * AHEAD_MS)
        room.begin()
        room.until(lambda: len(room.woken) == SLEEPERS)
        room.process.crash()
    claims = [room.woken[start : start + 500] for start in range(0, SLEEPERS, 500)]
    for earlier, later in itertools.pairwise(claims):
        assert max(room.due[run] for run, _ in earlier) <= min(room.due[run] for run, _ in later)
    assert {run for run, _ in room.woken} == set(room.due), "none is lost"

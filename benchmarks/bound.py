"""The bound: what the database takes when nothing decides anything.

The very turns that the engine makes of a load are recorded, then written again, under new
ids, by a bare loop over the same group commit: the same statement, the same rows, the same
number of turns, full batches. What the engine takes longer than that is its own cost. Turns
are recorded before the time is taken; encoding them for the database belongs to the commit
and is in both figures.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from anabranch.durable.definition import Registry
from anabranch.engine.ports import Clock, Outcome, Store, Turn
from anabranch.engine.rules.turn import BATCH_TURNS_MAX
from anabranch.engine.store.memory import MemoryDatabase, MemoryStore
from benchmarks.running import TENANT, Bench
from benchmarks.workloads import Load

# 1 hour: longer than a measurement takes.
LEASE_MOVED_MS = 3_600_000


async def record_turns(
    load: Load, count: int, *, clock: Clock | None = None, code: Registry | None = None
) -> list[list[Turn]]:
    """The turns that the engine makes of so many runs, in order, one list a run."""
    store = _RecordingStore(_machine_now if clock is None else clock.now)
    bench = Bench(store, clock=clock, code=code)
    if code is None:
        await bench.save(load)
    await bench.start()
    await bench.run_all(load, count)
    await bench.stop()
    assert len(store.turns) == count, "each start is one run"
    return list(store.turns.values())


async def adopt_turns(runs: Sequence[Sequence[Turn]], store: Store, load: Load) -> None:
    """Let recorded runs belong to the workflow that is saved in this store under the same name.

    Their leases are moved to where they cannot lapse: no engine shall take these runs up.
    """
    workflow = await store.get_workflow(tenant_id=TENANT, workflow=load.name)
    assert workflow is not None, "the workflow is saved first"
    for turns in runs:
        birth = turns[0]
        assert birth.birth is not None, "a run begins with its birth"
        birth.birth = replace(birth.birth, workflow_id=workflow.workflow_id)
        for turn in turns:
            if turn.available_at is not None:
                turn.available_at += LEASE_MOVED_MS


def renamed(turns: Sequence[Turn], instance_id: str) -> None:
    """Give a recorded run another id."""
    for turn in turns:
        turn.instance_id = instance_id
        if turn.birth is not None:
            turn.birth = replace(turn.birth, instance_id=instance_id)


async def write_turns(store: Store, runs: Sequence[Sequence[Turn]]) -> float:
    """Write recorded runs side by side in full batches, as many commits in flight as the store takes; seconds."""
    lanes = store.commits_in_flight_max
    began = time.perf_counter()
    await asyncio.gather(*(_lane(store, runs[number::lanes]) for number in range(lanes)))
    return time.perf_counter() - began


class _RecordingStore(MemoryStore):
    """A memory store that keeps every turn, by run."""

    def __init__(self, now: Callable[[], int]) -> None:
        super().__init__(MemoryDatabase(now=now))
        self.turns: dict[str, list[Turn]] = {}

    async def commit(self, turns: Sequence[Turn], *, may_wait: bool = False) -> Outcome:
        """Write and keep them; with one engine every turn wins."""
        for turn in turns:
            self.turns.setdefault(turn.instance_id, []).append(turn)
        return await super().commit(turns, may_wait=may_wait)


def _machine_now() -> int:
    return time.time_ns() // 1_000_000


async def _lane(store: Store, runs: Sequence[Sequence[Turn]]) -> None:
    """The first turns of all these runs, then the second ones, and so on."""
    for step in range(max(map(len, runs), default=0)):
        turns = [run[step] for run in runs if step < len(run)]
        for first in range(0, len(turns), BATCH_TURNS_MAX):
            batch = turns[first : first + BATCH_TURNS_MAX]
            outcome = await store.commit(batch)
            assert len(outcome.won) == len(batch), "nobody else writes these"

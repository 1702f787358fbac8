"""The bound: what the database takes when nothing decides anything.

The very transitions that the engine makes of a load are recorded, then written again, under new
ids, by a bare loop over the same group commit: the same statement, the same rows, the same
number of transitions, full batches. What the engine takes longer than that is its own cost. Transitions
are recorded before the time is taken; encoding them for the database belongs to the commit
and is in both figures.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from anabranch.durable.definition import WorkflowRegistry
from anabranch.engine.ports import Clock, Outcome, Store, Transition
from anabranch.engine.rules.transitions import BATCH_TRANSITIONS_MAX
from anabranch.testing.memory_store.memory_store import MemoryDatabase, MemoryStore
from benchmarks.running import TENANT, Bench
from benchmarks.workloads import Load

# 1 hour: longer than a measurement takes.
LEASE_MOVED_MS = 3_600_000


async def record_turns(
    load: Load, count: int, *, clock: Clock | None = None, code: WorkflowRegistry | None = None
) -> list[list[Transition]]:
    """The transitions that the engine makes of so many runs, in order, one list a run."""
    store = _RecordingStore(_machine_now if clock is None else clock.now)
    bench = Bench(store, clock=clock, code=code)
    if code is None:
        await bench.save(load)
    await bench.start()
    await bench.run_all(load, count)
    await bench.stop()
    assert len(store.transitions) == count, "each start is one run"
    return list(store.transitions.values())


async def adopt_turns(runs: Sequence[Sequence[Transition]], store: Store, load: Load) -> None:
    """Let recorded runs belong to the workflow that is saved in this store under the same name.

    Their leases are moved to where they cannot lapse: no engine shall take these runs up.
    """
    workflow = await store.get_workflow(tenant_id=TENANT, workflow=load.name)
    assert workflow is not None, "the workflow is saved first"
    for transitions in runs:
        new_run = transitions[0]
        assert new_run.new_run is not None, "a run begins with its creation"
        new_run.new_run = replace(new_run.new_run, workflow_id=workflow.workflow_id)
        for transition in transitions:
            if transition.available_at is not None:
                transition.available_at += LEASE_MOVED_MS


def renamed(transitions: Sequence[Transition], instance_id: str) -> None:
    """Give a recorded run another id."""
    for transition in transitions:
        transition.instance_id = instance_id
        if transition.new_run is not None:
            transition.new_run = replace(transition.new_run, instance_id=instance_id)


async def write_turns(store: Store, runs: Sequence[Sequence[Transition]]) -> float:
    """Write recorded runs side by side in full batches, as many commits in flight as the store takes; seconds."""
    lanes = store.commits_in_flight_max
    began = time.perf_counter()
    await asyncio.gather(*(_lane(store, runs[number::lanes]) for number in range(lanes)))
    return time.perf_counter() - began


class _RecordingStore(MemoryStore):
    """A memory store that keeps every transition, by run."""

    def __init__(self, now: Callable[[], int]) -> None:
        super().__init__(MemoryDatabase(now=now))
        self.transitions: dict[str, list[Transition]] = {}

    async def commit(self, transitions: Sequence[Transition], *, may_wait: bool = False) -> Outcome:
        """Write and keep them; with one engine every transition wins."""
        for transition in transitions:
            self.transitions.setdefault(transition.instance_id, []).append(transition)
        return await super().commit(transitions, may_wait=may_wait)


def _machine_now() -> int:
    return time.time_ns() // 1_000_000


async def _lane(store: Store, runs: Sequence[Sequence[Transition]]) -> None:
    for batch in batches(runs):
        outcome = await store.commit(batch)
        assert len(outcome.won) == len(batch), "nobody else writes these"


def batches(runs: Sequence[Sequence[Transition]]) -> Iterator[Sequence[Transition]]:
    """The first transitions of all these runs, then the second ones, and so on, in full batches."""
    for step in range(max(map(len, runs), default=0)):
        transitions = [run[step] for run in runs if step < len(run)]
        for first in range(0, len(transitions), BATCH_TRANSITIONS_MAX):
            yield transitions[first : first + BATCH_TRANSITIONS_MAX]

"""How fast is the engine, and how near to what its database can do?

    python -m benchmarks.engine [--json] [--rounds 3] [--instances 2000]

All figures of one run, the measurements of each round interleaved, medians over the rounds.
The bound writes the same rows through the same group commit with nothing else around it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import statistics
import time
from collections.abc import Sequence
from typing import Any

from anabranch.app import collect_garbage_less_often
from anabranch.engine.lifecycle import Engine, EngineOptions
from anabranch.engine.ports import InstanceHead, Store, Turn
from anabranch.engine.rules.events import Event, EventType, Status
from anabranch.engine.rules.turn import BATCH_TURNS_MAX
from anabranch.engine.rules.values import EMPTY, Payload
from anabranch.engine.store import open_store
from anabranch.handlers.registry import builtin_types
from anabranch.service import WorkflowService
from benchmarks.workloads import BACKENDS, databases, fan_out, linear

LINEAR_NODES = 10
FAN_OUT_WIDTH = 50
FAN_OUT_INSTANCES = 100
LONE_RUNS = 50
TENANT = "default"


class Finished:
    """Counts instances that end, and says when all have."""

    def __init__(self) -> None:
        self.expected = 0
        self.ended = 0
        self.all_ended = asyncio.Event()

    def expect(self, count: int) -> None:
        self.expected, self.ended = count, 0
        self.all_ended.clear()

    def committed(self, instance_id: str, events: Sequence[Event], status: Status) -> None:
        if status.is_terminal:
            self.ended += 1
            if self.ended == self.expected:
                self.all_ended.set()


class Bench:
    """One engine on one database."""

    def __init__(self, store: Store, *, batch_turns_max: int = BATCH_TURNS_MAX) -> None:
        types = builtin_types()
        self.engine = Engine(store=store, handlers=types, options=EngineOptions(batch_turns_max=batch_turns_max))
        self.service = WorkflowService(
            engine=self.engine, node_types=types, retention_days_max=365, pending_max=1_000_000
        )
        self.finished = Finished()
        self.engine.observers.add(self.finished)

    async def run_all(self, workflow: str, count: int) -> tuple[float, float]:
        """Start `count` runs at once; seconds until all are accepted, and until all have ended."""
        self.finished.expect(count)
        began = time.perf_counter()
        await asyncio.gather(*(self._start(workflow, number) for number in range(count)))
        accepted = time.perf_counter() - began
        await self.finished.all_ended.wait()
        return accepted, time.perf_counter() - began

    async def _start(self, workflow: str, number: int) -> None:
        await self.service.execute_workflow(workflow, {"n": number}, tenant_id=TENANT)


async def measure_round(url: str, instances: int) -> dict[str, float]:
    """One round of every measurement on one database."""
    figures: dict[str, float] = {}
    store = open_store(url)
    await store.start()
    try:
        bench = Bench(store)
        for document in (linear(LINEAR_NODES), fan_out(FAN_OUT_WIDTH)):
            await bench.service.save_workflow(document, tenant_id=TENANT)
        await bench.engine.start()
        cpu = _cpu_s()
        _, elapsed = await bench.run_all(f"linear-{LINEAR_NODES}", instances)
        nodes = instances * LINEAR_NODES
        figures["nodes_per_s"] = nodes / elapsed
        figures["cpu_s_per_1000_nodes"] = (_cpu_s() - cpu) / nodes * 1000
        _, elapsed = await bench.run_all(f"fan-out-{FAN_OUT_WIDTH}", FAN_OUT_INSTANCES)
        figures["fanout_nodes_per_s"] = FAN_OUT_INSTANCES * (FAN_OUT_WIDTH + 2) / elapsed
        lone = []
        for _ in range(LONE_RUNS):
            _, elapsed = await bench.run_all(f"linear-{LINEAR_NODES}", 1)
            lone.append(elapsed * 1000)
        figures["lone_p50_ms"] = statistics.median(lone)
        figures["lone_p99_ms"] = statistics.quantiles(lone, n=100)[98]
        await bench.engine.stop()

        figures["starts_per_s"] = await _measure_starts(store, instances)

        single = Bench(store, batch_turns_max=1)
        await single.engine.start()
        few = max(1, instances // 20)
        _, elapsed = await single.run_all(f"linear-{LINEAR_NODES}", few)
        figures["single_nodes_per_s"] = few * LINEAR_NODES / elapsed
        await single.engine.stop()

        cpu = _cpu_s()
        elapsed = await _write_bound(store, instances)
        figures["bound_nodes_per_s"] = nodes / elapsed
        figures["bound_cpu_s_per_1000_nodes"] = (_cpu_s() - cpu) / nodes * 1000
    finally:
        await store.stop()
    return figures


async def _measure_starts(store: Store, count: int) -> float:
    """Starts accepted per second by a process that leaves the running to others."""
    types = builtin_types()
    engine = Engine(store=store, handlers=types, options=EngineOptions(works=False))
    service = WorkflowService(engine=engine, node_types=types, retention_days_max=365, pending_max=10_000_000)
    await engine.start()
    began = time.perf_counter()
    started = await asyncio.gather(
        *(
            service.execute_workflow(f"linear-{LINEAR_NODES}", {"n": number}, tenant_id=TENANT)
            for number in range(count)
        )
    )
    elapsed = time.perf_counter() - began
    for run in started:  # nobody shall find them as work in the next round
        await store.append_cancel(tenant_id=TENANT, instance_id=run.instance_id, reason="only its start was measured")
    await engine.stop()
    return count / elapsed


async def _write_bound(store: Store, instances: int) -> float:
    """The rows of `instances` linear runs by a bare loop of the same group commit; seconds."""
    workflow = await store.get_workflow(tenant_id=TENANT, workflow=f"linear-{LINEAR_NODES}")
    assert workflow is not None, "it was saved by this round"
    now = await store.now()
    turns_of = [_turns_of(number, workflow.workflow_id, now) for number in range(instances)]
    lanes = store.commits_in_flight_max
    began = time.perf_counter()

    async def lane(mine: list[list[Turn]]) -> None:
        for step in range(len(mine[0])):
            for first in range(0, len(mine), BATCH_TURNS_MAX):
                batch = [turns[step] for turns in mine[first : first + BATCH_TURNS_MAX]]
                outcome = await store.commit(batch)
                assert len(outcome.won) == len(batch), "nobody else writes these"

    await asyncio.gather(*(lane(turns_of[number::lanes]) for number in range(lanes)))
    return time.perf_counter() - began


def _turns_of(number: int, workflow_id: str, now: int) -> list[Turn]:
    """The turns that the engine makes of one linear run."""
    instance_id = f"{now:012x}"[-8:] + f"-0000-7000-8000-{number:012x}"
    head = InstanceHead(
        instance_id=instance_id,
        tenant_id=TENANT,
        workflow_id=workflow_id,
        workflow_name=f"linear-{LINEAR_NODES}",
        workflow_version=1,
        created_at=now,
        available_at=now,
    )
    ids = ["start"] + [f"n{index}" for index in range(1, LINEAR_NODES)]
    output = Payload.of({"v": number})
    lease = now + 600_000
    first = [
        Event(1, EventType.INPUT_SET, "", "", 0, Payload.of({"input": {"n": number}}), now),
        Event(2, EventType.NODE_DISPATCHED, ids[0], "", 1, EMPTY, now),
    ]
    turns = [Turn(instance_id, 0, "bound", first, Status.RUNNING, lease, birth=head, started_at=now)]
    for index, node_id in enumerate(ids):
        seq = 3 + 2 * index
        ended = Event(seq, EventType.NODE_COMPLETED, node_id, "", 1, output, now, "default", "v")
        last = index == len(ids) - 1
        if last:
            then = Event(seq + 1, EventType.INSTANCE_COMPLETED, "", "", 0, Payload.of(None), now)
        else:
            then = Event(seq + 1, EventType.NODE_DISPATCHED, ids[index + 1], "", 1, EMPTY, now)
        status = Status.COMPLETED if last else Status.RUNNING
        turns.append(Turn(instance_id, index + 1, "bound", [ended, then], status, None, release=last))
    return turns


def _cpu_s() -> float:
    own = resource.getrusage(resource.RUSAGE_SELF)
    return own.ru_utime + own.ru_stime


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="end with one JSON line")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--instances", type=int, default=2_000)
    parser.add_argument("--backend", choices=BACKENDS, action="append", help="default: both")
    arguments = parser.parse_args()
    collect_garbage_less_often()
    rounds: dict[str, list[dict[str, float]]] = {name: [] for name in arguments.backend or BACKENDS}
    with databases() as urls:
        for _ in range(arguments.rounds):
            for name in rounds:
                rounds[name].append(asyncio.run(measure_round(urls[name], arguments.instances)))
    figures: dict[str, dict[str, Any]] = {
        name: {key: round(statistics.median(one[key] for one in measured), 3) for key in measured[0]}
        for name, measured in rounds.items()
    }
    for name, row in figures.items():
        print(f"\n{name} (medians of {arguments.rounds} rounds, linear-{LINEAR_NODES} x {arguments.instances})")
        for key, value in row.items():
            print(f"  {key:28} {value:12,.2f}")
        print(f"  {'nodes / bound':28} {row['nodes_per_s'] / row['bound_nodes_per_s']:12.2f}")
        print(f"  {'nodes / one-turn commits':28} {row['nodes_per_s'] / row['single_nodes_per_s']:12.2f}")
    if arguments.json:
        print(json.dumps(figures))


if __name__ == "__main__":
    main()

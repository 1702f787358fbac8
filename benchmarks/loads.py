"""More loads on the engine: large values, a run alone beside a full load, ten minutes without a pause.

    python -m benchmarks.loads [--json] [--save FILE] [--rounds 3] [--sustained-s 600]

All on both databases, one after the other in each round; shown are medians. The sustained load runs once: runs that
ended 10 s ago are removed beside it, as retention does with those of days ago, so what is stored stays as it is. Nodes
a second, memory and the size of the database at its end are compared with those after its first tenth.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from anabranch.app import tune_interpreter
from anabranch.engine.ports import Outcome, Transition
from anabranch.engine.rules.events import Event, Status
from anabranch.engine.store.sql.store import SqlStore
from anabranch.run_requests import StartOptions
from anabranch.service.purge import Purge, PurgeConditions
from benchmarks.children import resident_mb
from benchmarks.databases import BACKENDS, databases
from benchmarks.measured import save
from benchmarks.running import TENANT, Bench, engine_on, open_store_at
from benchmarks.workloads import Load, carry, effects, linear

NODES = 10
RUNS = 1_000
LONE_RUNS = 50

# 200 others at once: a full load, in which a run takes a fraction of a second.
BESIDE_RUNS = 200
ROUNDS = 3
SUSTAINED_S = 600

PAYLOADS = {"1 kB": 1_000, "10 kB": 10_000, "100 kB": 100_000}
"""Per node: each of ten nodes puts out what it was given."""
PAYLOAD_RUNS = {"1 kB": 400, "10 kB": 200, "100 kB": 40}

# A look at the time every 2 ms, from the event loop: what is later than that is held up.
BEAT_S = 0.002

REMOVED_AFTER_MS = 10_000
REMOVAL_PAUSE_S = 5.0

Figures = dict[str, float]

LABELS: dict[str, str] = {
    **{f"payload_{name.replace(' ', '')}_nodes_per_s": f"nodes/s, {name} a node" for name in PAYLOADS},
    "commits_per_run": f"commits a run of {NODES} effect nodes, {RUNS:,} at once",
    "rows_per_commit": "rows a commit",
    "main_thread_us_per_node": "main thread, µs a node",
    "other_threads_us_per_node": "other threads, µs a node",
    "loop_held_max_ms": "longest hold of the event loop, ms",
    "lone_beside_p50_ms": f"a run of {NODES} effect nodes beside {BESIDE_RUNS}, median ms",
    "lone_beside_p99_ms": "the same, 99th percentile ms",
    "sustained_nodes_per_s": "nodes/s, sustained",
    "sustained_rate_end_per_begin": "the last tenth of that against the first",
    "sustained_memory_growth_mb": "memory at the end beyond that after a tenth, MB",
    "sustained_disk_growth_mb": "size of the database beyond that after a tenth, MB",
}


class Commits:
    """Counts what a store commits."""

    def __init__(self, store: Any) -> None:
        self.commits = self.rows = 0
        self._commit = store.commit
        store.commit = self

    async def __call__(self, transitions: Sequence[Transition], **options: Any) -> Outcome:
        """Commit."""
        self.commits += 1
        self.rows += sum(len(each.events) for each in transitions)
        outcome: Outcome = await self._commit(transitions, **options)
        return outcome


class Beat:
    """The longest that the event loop was held up."""

    def __init__(self) -> None:
        self.longest_s = 0.0
        self._loop = asyncio.get_running_loop()
        self._due = self._loop.time() + BEAT_S
        self._next = self._loop.call_at(self._due, self._beat)

    def stop(self) -> None:
        """Look no more."""
        self._next.cancel()

    def _beat(self) -> None:
        now = self._loop.time()
        self.longest_s = max(self.longest_s, now - self._due)
        self._due = now + BEAT_S
        self._next = self._loop.call_at(self._due, self._beat)


class Ends:
    """The ends of single runs, to be awaited."""

    def __init__(self) -> None:
        self._ends: dict[str, asyncio.Event] = {}

    def committed(self, instance_id: str, events: Sequence[Event], status: Status) -> None:
        """Observe the engine."""
        if status.is_terminal:
            self._ends.setdefault(instance_id, asyncio.Event()).set()

    async def wait(self, instance_id: str) -> None:
        """Return once it has ended."""
        await self._ends.setdefault(instance_id, asyncio.Event()).wait()
        del self._ends[instance_id]


def _thread_us() -> tuple[float, float]:
    """Processor time of the main thread and of all others, in microseconds."""
    own = time.thread_time() * 1e6
    assert threading.current_thread() is threading.main_thread()
    times = os.times()
    return own, (times.user + times.system) * 1e6 - own


async def _measure(url: str) -> Figures:
    figures: Figures = {}
    line = Load(effects(NODES), RUNS, NODES)
    async with open_store_at(url) as store:
        for name, size in PAYLOADS.items():
            load = Load(carry(NODES), PAYLOAD_RUNS[name], NODES + 1, {"p": "x" * size})
            await Bench(store).save(load)
            async with engine_on(store, Load(load.document, 10, NODES + 1, load.input)) as bench:
                _, elapsed = await bench.run_all(load)
            key = f"payload_{name.replace(' ', '')}_nodes_per_s"
            figures[key] = load.flock * load.nodes_per_run / elapsed
        await Bench(store).save(line)
        async with engine_on(store, line) as bench:
            counted, beat, before = Commits(store), Beat(), _thread_us()
            await bench.run_all(line)
            main, others = (after - earlier for after, earlier in zip(_thread_us(), before, strict=True))
            beat.stop()
            figures["commits_per_run"] = counted.commits / RUNS
            figures["rows_per_commit"] = counted.rows / counted.commits
            figures["main_thread_us_per_node"] = main / (RUNS * NODES)
            figures["other_threads_us_per_node"] = others / (RUNS * NODES)
            figures["loop_held_max_ms"] = beat.longest_s * 1_000
            figures |= await _lone_beside(bench, line)
    return figures


async def _lone_beside(bench: Bench, line: Load) -> Figures:
    """Runs started one after the other while so many others are always under way."""
    ends = Ends()
    bench.engine.observers.add(ends)

    async def one() -> float:
        began = time.perf_counter()
        started = await bench.service.execute_workflow(line.name, line.input, StartOptions(), tenant_id=TENANT)
        await ends.wait(started.instance_id)
        return (time.perf_counter() - began) * 1_000

    async def others() -> None:
        while True:
            await one()

    crowd = [asyncio.create_task(others()) for _ in range(BESIDE_RUNS)]
    await one()
    seen = [await one() for _ in range(LONE_RUNS)]
    for each in crowd:
        each.cancel()
    await asyncio.gather(*crowd, return_exceptions=True)
    return {"lone_beside_p50_ms": statistics.median(seen), "lone_beside_p99_ms": statistics.quantiles(seen, n=100)[98]}


async def _sustain(url: str, seconds: float) -> Figures:
    """The same load again and again, what has ended removed beside it."""
    pure = Load(linear(NODES), RUNS, NODES)
    async with open_store_at(url) as store:
        assert isinstance(store, SqlStore), "both databases are"
        await Bench(store).save(pure)
        async with engine_on(store, pure) as bench:
            removing = asyncio.create_task(_remove(Purge(store)))
            began = time.perf_counter()
            ends: list[float] = []
            memory_mb, disk_mb = [], []
            while (now := time.perf_counter() - began) < seconds:
                if now >= seconds / 10 and not memory_mb:
                    memory_mb.append(resident_mb())
                    disk_mb.append(await store.disk_bytes() / 1e6)
                await bench.run_all(pure)
                ends.append(time.perf_counter() - began)
            removing.cancel()
            await asyncio.gather(removing, return_exceptions=True)
            memory_mb.append(resident_mb())
            disk_mb.append(await store.disk_bytes() / 1e6)
    early = sum(1 for end in ends if end <= seconds / 10)
    late = sum(1 for end in ends if seconds * 9 / 10 < end <= seconds)
    return {
        "sustained_nodes_per_s": len(ends) * RUNS * NODES / ends[-1],
        "sustained_rate_end_per_begin": late / max(1, early),
        "sustained_memory_growth_mb": memory_mb[-1] - memory_mb[0],
        "sustained_disk_growth_mb": disk_mb[-1] - disk_mb[0],
    }


async def _remove(purge: Purge) -> None:
    while True:
        await asyncio.sleep(REMOVAL_PAUSE_S)
        await purge.purge(PurgeConditions(older_than_ms=REMOVED_AFTER_MS), tenant_id=TENANT, actor="a benchmark")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="end with one JSON line")
    parser.add_argument("--save", type=Path, help="write the figures, with date, machine and command, to this file")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--sustained-s", type=float, default=SUSTAINED_S)
    arguments = parser.parse_args()
    tune_interpreter()
    rounds: dict[str, list[Figures]] = {backend: [] for backend in BACKENDS}
    with databases() as made:
        for _ in range(arguments.rounds):
            for backend in BACKENDS:
                rounds[backend].append(asyncio.run(_measure(made.create(backend))))
        figures = {
            backend: {key: statistics.median(one[key] for one in ones) for key in ones[0]}
            for backend, ones in rounds.items()
        }
        for backend in BACKENDS:
            figures[backend] |= asyncio.run(_sustain(made.create(backend), arguments.sustained_s))
    figures = {backend: {key: round(value, 4) for key, value in row.items()} for backend, row in figures.items()}
    for key, label in LABELS.items():
        print(f"{label:60}" + "".join(f"{row[key]:14,.2f}" for row in figures.values()))
    if arguments.save:
        setup = {"rounds": arguments.rounds, "sustained_s": arguments.sustained_s}
        save(arguments.save, "python -m benchmarks.loads", figures, setup=setup)
    if arguments.json:
        print(json.dumps(figures))


if __name__ == "__main__":
    main()

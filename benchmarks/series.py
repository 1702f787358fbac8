"""What growth is measured against: each series grows in one direction, and says how one point is measured.

Called by `growth`, which runs every point in a process of its own. Each point measures the
steady state: the engine has warmed up, and the same work is repeated until enough time has
passed, so that what is paid once is not counted.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from anabranch.engine.rules.graph import document as graph
from benchmarks.children import Figures, peak_mb, resident_mb
from benchmarks.rows import ended_since, fill
from benchmarks.running import Bench, engine_on, open_store_at
from benchmarks.workloads import Load, carry, fan_out, linear, map_over, sleep_for

# 10,000 nodes in flight at once, however they are spread over runs.
NODES_AT_ONCE = 10_000

# 8 MB of values in flight at once; more would measure the memory of the machine.
BYTES_AT_ONCE = 8_000_000

# 725,000 bytes: the largest value that 20 nodes can put out again within the 16 MB of one context.
CARRIED_BYTES = 725_000

FLOCK = 500
SLEEPERS_AT_ONCE = 500
WORKER_RUNS = 3_000

# 4 s: longer than the starts of a worker measurement take, so that all of them are due at once.
STARTS_LEAD_MS = 4_000
LOOK_S = 0.2

Measure = Callable[[str, int, float], Coroutine[Any, Any, Figures]]


@dataclass(frozen=True, slots=True)
class Series:
    """One direction of growth."""

    name: str
    title: str
    axis: str
    points: tuple[int, ...]
    measure: Measure
    quick_points: tuple[int, ...]
    rate: str = "nodes_per_s"
    """The figure that the chart shows."""
    said: str = "cost of a node, last point against the first"
    """How the last point compares with the first, in words; empty: not at all."""
    faster: bool = False
    """The comparison is of speeds, not of costs."""
    ratio_max: float | None = None
    """The promise: what one unit at the last point may cost, in units at the first."""
    memory_max_mb: float | None = None
    once: tuple[int, ...] = ()
    """Points too large to be measured in every round."""
    prepare: Callable[[str, int], None] | None = None
    """Given, every point has a database of its own, prepared by this."""


async def steady(url: str, load: Load, seconds: float) -> Figures:
    """Nodes a second of a load that is repeated for so long, and the memory that this took."""
    before = peak_mb()
    async with open_store_at(url) as store:
        await Bench(store).save(load)
        async with engine_on(store, load) as bench:
            flocks, elapsed = 0, 0.0
            while elapsed < seconds:
                elapsed += (await bench.run_all(load))[1]
                flocks += 1
    runs = flocks * load.flock
    return {
        "nodes_per_s": runs * load.nodes_per_run / elapsed,
        "runs_per_s": runs / elapsed,
        "memory_mb": peak_mb() - before,
    }


async def _instances(url: str, count: int, seconds: float) -> Figures:
    return await steady(url, Load(linear(2), count, 2), seconds)


async def _fan_in(url: str, width: int, seconds: float) -> Figures:
    # The largest one has more nodes and edges than may be drawn. In this process alone it may.
    graph.NODES_MAX = graph.EDGES_MAX = 10 * NODES_AT_ONCE
    return await steady(url, Load(fan_out(width), NODES_AT_ONCE // width, width + 2), seconds)


async def _loop_items(url: str, items: int, seconds: float) -> Figures:
    load = Load(map_over(items), NODES_AT_ONCE // items, items + 2, {"items": list(range(items))})
    return await steady(url, load, seconds)


async def _payload(url: str, size: int, seconds: float) -> Figures:
    figures = await steady(url, Load(carry(1), _flock_of(size), 2, {"p": "x" * size}), seconds)
    return figures | {"mb_per_s": figures["nodes_per_s"] * size / 1e6}


async def _distance(url: str, steps: int, seconds: float) -> Figures:
    load = Load(carry(steps), 2, steps + 1, {"p": "x" * CARRIED_BYTES})
    return await steady(url, load, seconds)


async def _stored_rows(url: str, _rows: int, seconds: float) -> Figures:
    return await steady(url, _LINE, seconds)


async def _sleeping(url: str, sleepers: int, seconds: float) -> Figures:
    """The process puts so many runs to sleep; then what it still holds, and how fast it is beside them."""
    load = Load(sleep_for("7d"), SLEEPERS_AT_ONCE, 2)
    async with open_store_at(url) as store:
        await Bench(store).save(load)
        await Bench(store).save(_LINE)
        async with engine_on(store, _LINE) as bench:
            before = resident_mb()
            for started in range(0, sleepers, SLEEPERS_AT_ONCE):
                await bench.start_all(load, min(SLEEPERS_AT_ONCE, sleepers - started))
                # Each flock sleeps before the next one starts: what a burst of starts leaves in the
                # allocator is not what sleepers hold.
                await _all_parked(bench)
            holds = resident_mb() - before
            elapsed, flocks = 0.0, 0
            while elapsed < seconds:
                elapsed += (await bench.run_all(_LINE))[1]
                flocks += 1
    return {"nodes_per_s": flocks * _LINE.flock * _LINE.nodes_per_run / elapsed, "memory_mb": max(0.0, holds)}


async def _all_parked(bench: Bench) -> None:
    """Return when the process holds no run any more."""
    while True:
        if len(bench.engine.orchestrator.owned) == 0:
            return
        await asyncio.sleep(LOOK_S)


async def _workers(url: str, workers: int, _seconds: float) -> Figures:
    """Runs are stored to become due all at once; the database's clock says how long the workers take."""
    async with open_store_at(url) as store:
        await Bench(store).save(_LINE)
        async with contextlib.AsyncExitStack() as processes, engine_on(store, works=False) as api:
            for _ in range(workers):
                await processes.enter_async_context(_worker(url))
            since = await store.now()
            await api.start_all(_LINE, WORKER_RUNS, available_at=since + STARTS_LEAD_MS)
            elapsed = await _all_ended(url, since)
    return {"nodes_per_s": WORKER_RUNS * _LINE.nodes_per_run / elapsed}


@contextlib.asynccontextmanager
async def _worker(url: str) -> Any:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "benchmarks.worker", url),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdin is not None and process.stdout is not None, "both are pipes"
    try:
        await process.stdout.readline()
        yield
    finally:
        process.stdin.close()
        await process.wait()


async def _all_ended(url: str, since: int) -> float:
    """Seconds from the first beginning to the last end of the runs created since then."""
    while True:
        count, first, last = await asyncio.to_thread(ended_since, url, since)
        if count >= WORKER_RUNS:
            return (last - first) / 1_000
        await asyncio.sleep(LOOK_S)


def _flock_of(size: int) -> int:
    return max(2, min(FLOCK, BYTES_AT_ONCE // size))


def _prepare_rows(url: str, rows: int) -> None:
    async def save() -> None:
        async with open_store_at(url) as store:
            await Bench(store).save(_LINE)

    asyncio.run(save())
    fill(url, rows, workflow=_LINE.name)


_LINE = Load(linear(10), FLOCK, 10)

SERIES = (
    Series("fan-in", "Branches of one join", "branches", (10, 100, 1_000, 10_000), _fan_in, (10, 1_000), ratio_max=1.3),
    Series(
        "loop-items", "Items of one loop, all open at once", "items", (10, 100, 1_000, 10_000), _loop_items, (10, 1_000)
    ),
    Series(
        "payload",
        "Bytes of a value",
        "bytes",
        (100, 1_000, 10_000, 100_000, 1_000_000),
        _payload,
        (100, 100_000),
        said="",
    ),
    Series(
        "distance",
        f"Nodes that a value of {CARRIED_BYTES:,} bytes goes through",
        "nodes",
        (1, 20),
        _distance,
        (1, 20),
        rate="runs_per_s",
        said="cost of a run, last point against the first",
        ratio_max=25,
    ),
    Series(
        "stored-rows",
        "Log rows stored before",
        "rows",
        (0, 10_000, 100_000, 1_000_000),
        _stored_rows,
        (0, 10_000),
        ratio_max=1.3,
        prepare=_prepare_rows,
    ),
    Series(
        "workers",
        "Worker processes on one database",
        "workers",
        (1, 2),
        _workers,
        (1, 2),
        said="speed of two workers against one",
        faster=True,
    ),
    Series(
        "instances",
        "Runs open at once",
        "runs",
        (100, 1_000, 10_000, 100_000),
        _instances,
        (100, 1_000),
        ratio_max=1.3,
        once=(100_000,),
    ),
    Series(
        "sleeping",
        "Sleeping runs",
        "runs",
        (0, 1_000, 10_000, 100_000),
        _sleeping,
        (0, 1_000),
        memory_max_mb=50,
        once=(0, 1_000, 10_000, 100_000),
    ),
)

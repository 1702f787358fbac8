"""What the hot path costs, in numbers that do not depend on the machine's speed.

`check` runs this in a process with a fixed hash seed and compares with `baseline.json`. The
engine runs on the memory store with a clock that stands still, so that nothing happens because
time passed; the databases are given recorded transitions, in the same batches, under the same ids.
"""

from __future__ import annotations

import asyncio
import gc
import json
import tracemalloc
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sqlalchemy import make_url

from anabranch.app import tune_interpreter
from anabranch.engine.handler_contract import HandlerResult, Helpers
from anabranch.engine.ports import Transition
from anabranch.engine.store.postgresql.postgresql_commit import writing
from anabranch.engine.store.sql.dialect import Outages
from anabranch.engine.store.sql.store import SqlStore
from anabranch.handlers.spec import HandlerSpec, NodeConfig, NodeTypeRegistry
from anabranch.testing.memory_store.memory_store import MemoryDatabase, MemoryStore
from benchmarks.bound import adopt_turns, batches, record_turns, renamed, write_turns
from benchmarks.counting import ThreadCalls, calls, opcodes, statements_of_commits
from benchmarks.databases import BACKENDS, Databases, databases
from benchmarks.durable import CODE, STEPS, steps
from benchmarks.running import TYPES, Bench, open_store_at
from benchmarks.workloads import Load, effects, fan_out, linear, map_over

NOW_MS = 1_700_000_000_000

# 50 runs of 10 nodes: a second under the counter, and what is paid once a batch is a small share.
LINE = Load(effects(10), 50, 10)
PURE = Load(linear(10), 50, 10)
CODED = Load({"name": steps.name}, 50, STEPS)
NARROW, WIDE = (Load(fan_out(width), 400 // width, width + 2) for width in (20, 400))
SHORT, LONG = (Load(map_over(items), 400 // items, items + 2, {"items": list(range(items))}) for items in (20, 400))

# 60 transitions at once, 30 in every commit: their write-ahead log stays below 1,000 pages, at which SQLite empties it.
WRITTEN_RUNS = 60
HELD_RUNS = 200


class StandingClock:
    """Time that does not pass: what waits for it waits for ever."""

    def now(self) -> int:
        """Always the same."""
        return NOW_MS

    def monotonic(self) -> float:
        """Always the same."""
        return 0.0

    def adjust(self, store_now: int, *, asked_at: float | None = None) -> None:
        """The store's clock stands still, too."""

    async def sleep(self, milliseconds: int) -> None:
        """Never returns: nobody claims, extends or looks for external changes."""
        await asyncio.Event().wait()


def counts() -> dict[str, float]:
    """Every count by name."""
    tune_interpreter()
    line, pure = [asyncio.run(_opcodes_per_node(load)) for load in (LINE, PURE)]
    fans = [asyncio.run(_opcodes_per_node(load)) for load in (NARROW, WIDE)]
    loops = [asyncio.run(_opcodes_per_node(load)) for load in (SHORT, LONG)]
    found = {
        "engine: instructions a node with effects, linear-10": line,
        "engine: instructions a pure node, linear-10": pure,
        "engine: instructions a coded step, runs of 10": asyncio.run(_opcodes_per_node(CODED)),
        "engine: instructions a node, fan-in of 400": fans[1],
        "engine: growth of that from a fan-in of 20": fans[1] / fans[0],
        "engine: instructions a node, loop of 400": loops[1],
        "engine: growth of that from a loop of 20": loops[1] / loops[0],
        "engine: bytes of memory a held run": asyncio.run(_held_bytes()),
    }
    with databases() as made:
        for backend in BACKENDS:
            found |= asyncio.run(_written(backend, made))
    return {name: round(value, 3) for name, value in found.items()}


async def _opcodes_per_node(load: Load) -> float:
    bench = _bench()
    if load is not CODED:  # its function is registered
        await bench.save(load)
    await bench.start()
    await bench.run_all(load)
    with opcodes() as count:
        await bench.run_all(load)
    await bench.stop()
    return count.value / (load.flock * load.nodes_per_run)


async def _held_bytes() -> float:
    """Memory of runs whose handlers do not return, with their rows in the memory store."""
    spec = HandlerSpec(type="hang", title="Hang", config=NodeConfig, execute=_hang)
    bench = _bench({**TYPES, "hang": spec})
    document = linear(2)
    document["nodes"][1] = {"id": "n1", "type": "hang"}
    load = Load(document, HELD_RUNS, 2)
    await bench.save(load)
    await bench.engine.start()
    await bench.start_all(load, HELD_RUNS)
    gc.collect()
    tracemalloc.start()
    await bench.start_all(load, HELD_RUNS)
    gc.collect()
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    await bench.engine.stop()
    return held / HELD_RUNS


async def _hang(config: NodeConfig, context: Mapping[str, Any], helpers: Helpers) -> HandlerResult:
    await asyncio.Event().wait()
    return HandlerResult()


async def _written(backend: str, made: Databases) -> dict[str, float]:
    """What a database is asked to do for recorded transitions."""
    url = made.create(backend)
    thread_calls = ThreadCalls()
    async with open_store_at(url) as store:
        await Bench(store).save(LINE)
        warm, runs = [await _recorded(first) for first in (0, WRITTEN_RUNS)]
        for recorded in (warm, runs):
            await adopt_turns(recorded, store, LINE)
        await write_turns(store, warm)
        log = _log_bytes(url)
        assert isinstance(store, SqlStore), "it is a database"
        async with statements_of_commits(store) as asked:
            with thread_calls.counted() as called:
                await write_turns(store, runs)
        log = _log_bytes(url) - log
    thread_calls.close()
    transitions = sum(map(len, runs))
    commits = max(map(len, runs)) * store.commits_in_flight_max
    found = {f"{backend}: statements a commit": asked.value / commits}
    if store.dialect.async_commits(Outages()) is None:
        found[f"{backend}: calls a transition in the committing thread"] = called.value / transitions
    else:
        found[f"{backend}: calls a transition to make its statement"] = _calls_to_make(runs, store) / transitions
    return found | ({f"{backend}: bytes of write-ahead log a transition": log / transitions} if log else {})


def _calls_to_make(runs: Sequence[Sequence[Transition]], store: SqlStore) -> int:
    """What the event loop does for the statements of these commits, but for what the driver does."""
    lanes = store.commits_in_flight_max
    with calls() as called:
        for number in range(lanes):
            for batch in batches(runs[number::lanes]):
                next(writing(batch))
    return called.value


async def _recorded(first_number: int) -> list[list[Transition]]:
    """Transitions of runs with ids of our own choice."""
    runs = await record_turns(LINE, WRITTEN_RUNS, clock=StandingClock())
    for number, transitions in enumerate(runs, start=first_number):
        renamed(transitions, f"018bcfe5-6800-7000-8000-{number:012x}")
    return runs


def _log_bytes(url: str) -> int:
    """The size of SQLite's write-ahead log; 0 for another database."""
    parsed = make_url(url)
    path = Path(f"{parsed.database}-wal")
    return path.stat().st_size if parsed.get_backend_name() == "sqlite" and path.is_file() else 0


def _bench(specs: Mapping[str, HandlerSpec] = TYPES) -> Bench:
    clock = StandingClock()
    return Bench(MemoryStore(MemoryDatabase(now=clock.now)), clock=clock, handlers=NodeTypeRegistry(specs), code=CODE)


if __name__ == "__main__":
    print(json.dumps(counts()))

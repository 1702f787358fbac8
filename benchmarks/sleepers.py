"""What do thousands of sleeping runs cost, how late are they woken, and how fast when all are due at once?

    python -m benchmarks.sleepers [--json] [--save FILE] [--sleepers 10000] [--only sqlite]

Coded runs that sleep, on each database. First their due times lie apart, spread over 60 s, and half way
through them the engine is stopped and another one starts; then all are due while nobody works, and
one engine drains them. Lateness is taken when a wake is committed, from the due time in the log.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import psutil

from anabranch import workflow
from anabranch.app import tune_interpreter
from anabranch.durable.definition import WorkflowRegistry
from anabranch.engine.engine_options import EngineOptions
from anabranch.engine.rules.events import Event, EventType, Status
from anabranch.engine.rules.instants import from_iso
from benchmarks.databases import BACKENDS, databases
from benchmarks.measured import save
from benchmarks.running import TENANT, Bench, open_store_at

SLEEPERS = 10_000

# As long as the promise of lateness is given for.
SPREAD_S = 60.0

# 500 starts under way at once: enough to fill commits.
STARTS_AT_ONCE = 500

# So long from now lie the first due times: twice what starting them takes on a slow machine.
AHEAD_S_PER_SLEEPER = 0.004
AHEAD_S_MIN = 5.0

LOOK_S = 0.05

Figures = dict[str, float]

LABELS: dict[str, tuple[str, str]] = {
    "starts_per_s": ("runs put to sleep a second", ""),
    "kb_per_sleeper": ("memory that a sleeper keeps (KB)", "0"),
    "late_p50_ms": ("lateness, median (ms)", ""),
    "late_p99_ms": ("lateness, 99 of 100 (ms)", "≤ 1,000"),
    "late_max_ms": ("lateness, the latest (ms)", ""),
    "early": ("woken early", "0"),
    "lost": ("not woken", "0"),
    "drained_per_s": ("woken a second, all due at once", ""),
    "out_of_order": ("of these, places out of their order at most", ""),
}


@workflow(name="benchmark-sleeper")
async def sleeper(ctx: Any, input: Any) -> None:
    """Sleep until a time (ms since the epoch), counted from now."""
    await ctx.step.sleep("nap", max(0, input - round(time.time() * 1000)))


class Alarm:
    """Hears of every commit: who went to sleep until when, and who was woken when."""

    def __init__(self) -> None:
        self.due: dict[str, int] = {}
        self.woken: dict[str, float] = {}

    def committed(self, instance_id: str, events: Sequence[Event], status: Status) -> None:
        """See `ports.Observer`."""
        for event in events:
            if event.node_id == "nap" and event.type is EventType.NODE_WAITING:
                self.due[instance_id] = from_iso(event.payload.value["dueAt"])
            elif event.node_id == "nap" and event.type is EventType.NODE_COMPLETED:
                self.woken[instance_id] = time.time() * 1000

    def late_ms(self) -> list[float]:
        """How late each was woken, the least late first."""
        return sorted(self.woken[run] - self.due[run] for run in self.woken)

    def out_of_order(self) -> int:
        """How many places the one that was passed by most others was woken too late."""
        by_due = sorted(self.woken, key=self.due.__getitem__)
        ranks = {run: rank for rank, run in enumerate(sorted(self.woken, key=self.woken.__getitem__))}
        return max(ranks[run] - rank for rank, run in enumerate(by_due))


async def measure(url: str, sleepers: int) -> Figures:
    """Both measurements on one database."""
    figures = await _spread(url, sleepers)
    return {**figures, **await _at_once(url, sleepers)}


async def _spread(url: str, sleepers: int) -> Figures:
    alarm = Alarm()
    async with open_store_at(url) as store:
        bench = await _engine(store, alarm)
        before, began = psutil.Process().memory_info().rss, time.time()
        first = began + max(AHEAD_S_MIN, sleepers * AHEAD_S_PER_SLEEPER)
        await _put_to_sleep(bench, [round((first + SPREAD_S * n / sleepers) * 1000) for n in range(sleepers)])
        await _until(lambda: len(alarm.due) == sleepers and not bench.engine.orchestrator.owned_ids)
        asleep_s, kept = time.time() - began, psutil.Process().memory_info().rss - before
        await asyncio.sleep(max(0.0, first + SPREAD_S / 2 - time.time()))
        await bench.stop()
        bench = await _engine(store, alarm)
        await _until(lambda: len(alarm.woken) == sleepers or time.time() > first + SPREAD_S * 2)
        await bench.stop()
    late = alarm.late_ms()
    return {
        "starts_per_s": sleepers / asleep_s,
        # What 10,000 objects of a start leave to the allocator is in it too, so it is never quite nothing.
        "kb_per_sleeper": kept / 1024 / sleepers,
        "late_p50_ms": late[len(late) // 2],
        "late_p99_ms": late[len(late) * 99 // 100],
        "late_max_ms": late[-1],
        "early": sum(each < 0 for each in late),
        "lost": sleepers - len(late),
    }


async def _at_once(url: str, sleepers: int) -> Figures:
    alarm = Alarm()
    async with open_store_at(url) as store:
        bench = await _engine(store, alarm)
        first = time.time() + max(AHEAD_S_MIN, sleepers * AHEAD_S_PER_SLEEPER)
        await _put_to_sleep(bench, [round(first * 1000) + n for n in range(sleepers)])
        await _until(lambda: len(alarm.due) == sleepers and not bench.engine.orchestrator.owned_ids)
        await bench.stop()
        await asyncio.sleep(max(0.0, first + sleepers / 1000 - time.time()))
        bench = await _engine(store, alarm)
        began = time.time()
        await _until(lambda: len(alarm.woken) == sleepers)
        elapsed = time.time() - began
        await bench.stop()
    return {"drained_per_s": sleepers / elapsed, "out_of_order": alarm.out_of_order()}


async def _engine(store: Any, alarm: Alarm) -> Bench:
    bench = Bench(store, options=EngineOptions(), code=WorkflowRegistry([sleeper]))
    bench.engine.observers.add(alarm)
    await bench.start()
    return bench


async def _put_to_sleep(bench: Bench, due: Sequence[int]) -> None:
    for start in range(0, len(due), STARTS_AT_ONCE):
        await asyncio.gather(
            *(
                bench.service.execute_workflow(sleeper.name, each, tenant_id=TENANT)
                for each in due[start : start + STARTS_AT_ONCE]
            )
        )


async def _until(condition: Callable[[], bool]) -> None:
    """Look now and then, so that looking costs nothing beside what is measured."""
    while not condition():  # noqa: ASYNC110 -- of several things, none of which tells when it is so
        await asyncio.sleep(LOOK_S)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="end with one JSON line")
    parser.add_argument("--save", type=Path, help="write the figures, with date, machine and command, to this file")
    parser.add_argument("--sleepers", type=int, default=SLEEPERS)
    parser.add_argument("--only", choices=BACKENDS, help="this database only")
    arguments = parser.parse_args()
    tune_interpreter()
    with databases() as made:
        figures = {
            backend: asyncio.run(measure(made.create(backend), arguments.sleepers))
            for backend in BACKENDS
            if arguments.only in (None, backend)
        }
    print(f"{arguments.sleepers:,} sleepers")
    print(f"{'':46}" + "".join(f"{backend:>14}" for backend in figures) + "    goal")
    for key, (label, goal) in LABELS.items():
        cells = "".join(f"{row[key]:14,.1f}" for row in figures.values())
        print(f"{label:46}{cells}    {goal}".rstrip())
    if arguments.save:
        save(arguments.save, "python -m benchmarks.sleepers", figures, setup={"sleepers": arguments.sleepers})
    if arguments.json:
        print(json.dumps(figures))


if __name__ == "__main__":
    main()

"""This engine: `own.py DATABASE_URL RUNS STEPS LONE_RUNS CONCURRENCY`; ends in one line of JSON.

Effect nodes and coded steps that do nothing, one workflow after the other in one process. Its concurrency is its own.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import sys

from anabranch.app import tune_interpreter
from anabranch.migrations import upgrade
from anabranch.version import __version__
from benchmarks.durable import CODE, STEPS, steps
from benchmarks.engine import measure_starts
from benchmarks.running import Bench, cpu_s, engine_on, open_store_at
from benchmarks.workloads import Load, effects


async def measure(url: str, runs: int, lone_runs: int) -> dict[str, float | str]:
    """From the first start until the last end; nothing else is in the process meanwhile."""
    coded, drawn = Load({"name": steps.name}, runs, STEPS), Load(effects(STEPS), runs, STEPS)
    figures: dict[str, float | str] = {"version": __version__}
    async with open_store_at(url) as store:
        await Bench(store).save(drawn)
        async with engine_on(store, coded, drawn, code=CODE) as bench:
            for load, name in ((drawn, "effect_node"), (coded, "step")):
                cpu = cpu_s()
                _, elapsed = await bench.run_all(load)
                figures[f"{name}s_per_s"] = runs * STEPS / elapsed
                figures[f"cpu_ms_per_{name}"] = (cpu_s() - cpu) * 1_000 / (runs * STEPS)
            lone = [(await bench.run_all(coded, 1))[1] * 1_000 for _ in range(lone_runs)]
            figures["lone_p50_ms"] = statistics.median(lone)
        figures["starts_per_s"] = await measure_starts(store, drawn)
    return figures


if __name__ == "__main__":
    address, *numbers = sys.argv[1:]
    count, length, alone, _ = map(int, numbers)
    assert length == STEPS, "the workflows are written for so many"
    tune_interpreter()
    upgrade(address)
    print(json.dumps(asyncio.run(measure(address, count, alone))))

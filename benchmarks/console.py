"""What does it cost that the lines of handlers are kept?

    python -m benchmarks.console [--rounds 5] [--instances 4000]

Effect nodes/s and processor time without a console, with one that nobody uses, and with a line from each node, one
after the other in each round (in another order in the next) and on both databases; the figures are medians over the
rounds, and shares of those without. The time ends when all runs have ended and all lines are stored; lines also go to a
file, as standard error usually does. On a busy machine processor time says more than nodes/s.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import statistics
import tempfile
import time
from collections.abc import Sequence
from typing import Any, cast

from anabranch.app import tune_interpreter
from anabranch.engine.console.console import Console
from anabranch.engine.console.console_writer import ConsoleOptions
from anabranch.engine.handling import HandlerResult
from anabranch.engine.store.sql.console_table import ConsoleTable
from anabranch.engine.store.sql.store import SqlStore
from anabranch.handlers.spec import HandlerSpec
from anabranch.handlers.spec import NodeTypeRegistry as NodeTypes
from benchmarks.databases import BACKENDS, databases
from benchmarks.running import TYPES, Bench, cpu_s, open_store_at
from benchmarks.workloads import EFFECT_TYPE, Load, effects

NODES = 10
ROUNDS = 5
INSTANCES = 4_000

# More than the last lines ever take.
PATIENCE_S = 60.0

WAYS = ("no console", "not used", "a line a node")


async def _says(config: Any, context: Any, helpers: Any) -> HandlerResult:
    helpers.log.info("node %s is done", helpers.node_id)
    return HandlerResult({"v": 1})


SAYING = {**TYPES, EFFECT_TYPE: HandlerSpec(type=EFFECT_TYPE, title="Effect", config=None, execute=_says)}


async def measure(url: str, instances: int, ways: Sequence[str]) -> dict[str, tuple[float, float]]:
    """Nodes/s and processor seconds per 1,000 nodes in each way."""
    load = Load(effects(NODES), instances, NODES)
    figures: dict[str, tuple[float, float]] = {}
    async with open_store_at(url) as store:
        await Bench(store).save(load)
        for way in ways:
            with tempfile.TemporaryFile("w") as stream:
                rows = ConsoleTable(cast("SqlStore", store))
                console = None if way == WAYS[0] else Console(rows=rows, options=ConsoleOptions(stream=stream))
                bench = Bench(store, handlers=NodeTypes(SAYING if way == WAYS[2] else TYPES), console=console)
                await bench.start()
                await bench.run_all(load, instances // 4)
                gc.collect()
                before_s, began = cpu_s(), time.perf_counter()
                await bench.run_all(load)
                if console is not None:
                    await console.stop(patience_s=PATIENCE_S)
                took_s = time.perf_counter() - began
                await bench.stop()
            nodes = instances * NODES
            figures[way] = nodes / took_s, (cpu_s() - before_s) * 1000 / nodes
    return figures


def main() -> None:
    """Measure, and print a line for each database and way."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--instances", type=int, default=INSTANCES)
    asked = parser.parse_args()
    tune_interpreter()
    with databases() as made:
        for backend in BACKENDS:
            rounds = []
            for number in range(asked.rounds):
                ways = WAYS[number % len(WAYS) :] + WAYS[: number % len(WAYS)]
                rounds.append(asyncio.run(measure(made.create(backend), asked.instances, ways)))
            for way in WAYS:
                told = []
                for figure, unit in ((0, "nodes/s"), (1, "s of processor per 1,000 nodes")):
                    value = statistics.median(each[way][figure] for each in rounds)
                    share = statistics.median(each[way][figure] / each[WAYS[0]][figure] for each in rounds)
                    told.append(f"{value:>10,.3f} {unit} {share:>7.1%}")
                print(f"{backend:<12} {way:<14} {'  '.join(told)}")


if __name__ == "__main__":
    main()

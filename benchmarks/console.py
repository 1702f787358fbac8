"""What does it cost that the lines of handlers are kept?

    python -m benchmarks.console [--pairs 12] [--instances 3000] [--open 300]

Effect nodes/s and processor time with a console that nobody uses, and with a line from each node, each between two
short rounds without a console and compared with both: so a machine that becomes slower or faster meanwhile does not
count. A figure is the median of these ratios, with their quartiles. A round ends when all runs have ended and all lines
are stored; lines also go to a file, as standard error usually does. Processor time is that of this process and of the
database server. On a busy machine it says more than nodes/s.

So many runs are open at a time, and each that ends is followed by the next one, as in a worker under load: lines are
written while other runs execute. If all runs began at once, they would also end at once, and most lines would be
written after that, with nothing beside it. What is still written after the last run has ended is printed, too: the
shorter the rounds, the more it counts.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, cast

from anabranch.app import tune_interpreter
from anabranch.engine.console.console import Console
from anabranch.engine.console.console_rows import ProgressReport, StoredLines
from anabranch.engine.console.console_writer import ConsoleOptions
from anabranch.engine.handler_contract import HandlerResult
from anabranch.engine.ports import Store
from anabranch.engine.store.sql.console_table import ConsoleTable
from anabranch.engine.store.sql.store import SqlStore
from anabranch.handlers.spec import HandlerSpec
from anabranch.handlers.spec import NodeTypeRegistry as NodeTypes
from benchmarks.databases import BACKENDS, databases
from benchmarks.running import TYPES, Bench, cpu_s, open_store_at
from benchmarks.workloads import EFFECT_TYPE, Load, effects

NODES = 10
PAIRS = 12
INSTANCES = 3_000
OPEN = 300

# The runs before each round: plans compiled, statements prepared, connections open.
WARM = 100

# More than the last lines ever take.
PATIENCE_S = 60.0

BARE, UNUSED, SAID = "no console", "not used", "a line a node"
WAYS = (UNUSED, SAID)


async def _says(config: Any, context: Any, helpers: Any) -> HandlerResult:
    helpers.log.info("node %s is done", helpers.node_id)
    return HandlerResult({"v": 1})


SAYING = {**TYPES, EFFECT_TYPE: HandlerSpec(type=EFFECT_TYPE, title="Effect", config=None, execute=_says)}


class CountedRows(ConsoleTable):
    """Counts the rows that it writes."""

    def __init__(self, store: SqlStore) -> None:
        super().__init__(store)
        self.written = 0
        self.has_warm = asyncio.Event()
        """It has written the lines of the runs before the round."""

    async def write(self, rows: Sequence[StoredLines], reports: Sequence[ProgressReport]) -> None:
        """Write and count."""
        await super().write(rows, reports)
        self.written += len(rows)
        if self.written >= WARM:
            self.has_warm.set()


@dataclass(frozen=True)
class Round:
    """What one round came to."""

    nodes_per_s: float
    cpu_s: float
    """Processor seconds per 1,000 nodes, of this process and the database server."""
    rows: float
    """Rows of the console per run."""
    late: float
    """The share of these rows that was written after the last run had ended."""

    def shares(self, others: Sequence[Round]) -> Round:
        """Its speed and processor time as shares of the means of others."""
        return Round(
            self.nodes_per_s / statistics.fmean(each.nodes_per_s for each in others),
            self.cpu_s / statistics.fmean(each.cpu_s for each in others),
            self.rows,
            self.late,
        )


async def measure(store: Store, load: Load, at_once: int, way: str, server_cpu_s: Callable[[], float]) -> Round:
    """One round, with an engine of its own."""
    with tempfile.TemporaryFile("w") as stream:
        rows = CountedRows(cast("SqlStore", store))
        console = None if way == BARE else Console(rows=rows, options=ConsoleOptions(stream=stream))
        bench = Bench(store, handlers=NodeTypes(SAYING if way == SAID else TYPES), console=console)
        await bench.start()
        await bench.run_all(load, WARM)
        if way == SAID:
            await rows.has_warm.wait()  # their lines are no part of the round
        gc.collect()
        before, before_s, began = rows.written, cpu_s() + server_cpu_s(), time.perf_counter()
        await bench.run_steadily(load, at_once=at_once)
        in_time = rows.written
        if console is not None:
            await console.stop(patience_s=PATIENCE_S)
        took_s = time.perf_counter() - began
        used_s = cpu_s() + server_cpu_s() - before_s
        await bench.stop()
    nodes, written = load.flock * NODES, rows.written - before
    late = (rows.written - in_time) / max(written, 1)
    return Round(nodes / took_s, used_s * 1000 / nodes, written / load.flock, late)


async def compare(
    url: str, load: Load, at_once: int, pairs: int, server_cpu_s: Callable[[], float]
) -> dict[str, list[Round]]:
    """The rounds without a console, and those of each way as shares of the two around each."""
    found: dict[str, list[Round]] = {way: [] for way in (BARE, *WAYS)}
    async with open_store_at(url) as store:
        await Bench(store).save(load)
        before = await measure(store, load, at_once, BARE, server_cpu_s)
        for number in range(pairs * len(WAYS)):
            way = WAYS[number % len(WAYS)]
            between = await measure(store, load, at_once, way, server_cpu_s)
            after = await measure(store, load, at_once, BARE, server_cpu_s)
            found[way].append(between.shares((before, after)))
            found[BARE].append(after)
            before = after
    return found


def main() -> None:
    """Measure, and print a line for each database and way."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=PAIRS, help="rounds of each way, at least 2")
    parser.add_argument("--instances", type=int, default=INSTANCES, help="runs of a round")
    parser.add_argument("--open", type=int, default=OPEN, help="runs that are open at a time")
    parser.add_argument("--backend", choices=BACKENDS, action="append")
    asked = parser.parse_args()
    tune_interpreter()
    load = Load(effects(NODES), asked.instances, NODES)
    with databases() as made:
        for backend in asked.backend or BACKENDS:
            server_cpu_s = made.server_cpu_s if backend == "postgresql" else float
            found = asyncio.run(compare(made.create(backend), load, asked.open, asked.pairs, server_cpu_s))
            speed = statistics.median(each.nodes_per_s for each in found[BARE])
            cost = statistics.median(each.cpu_s for each in found[BARE])
            print(f"{backend:<12}{BARE:<15}{speed:>8,.0f} nodes/s  {cost:.3f} s of processor per 1,000 nodes")
            for way in WAYS:
                speeds = _quartiles(each.nodes_per_s for each in found[way])
                costs = _quartiles(each.cpu_s for each in found[way])
                print(f"{backend:<12}{way:<15}{speeds} of nodes/s  {costs} of processor time", flush=True)
            rows, late = (statistics.median(getattr(each, name) for each in found[SAID]) for name in ("rows", "late"))
            print(f"{backend:<12}{SAID:<15}{rows:.2f} rows a run, {late:.0%} of them after the last end", flush=True)


def _quartiles(shares: Iterable[float]) -> str:
    low, median, high = statistics.quantiles(shares, n=4, method="inclusive")
    return f"{median:.1%} ({low:.1%} to {high:.1%})"


if __name__ == "__main__":
    main()

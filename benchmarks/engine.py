"""How fast is the engine, and how near to what its database can do?

    python -m benchmarks.engine [--json] [--save FILE] [--rounds 5] [--instances 2000]

All figures of one run: each round measures everything on both databases, one after the
other, and each figure is the median over the rounds. The bound (`bound.py`) writes the same
rows through the same group commit with nothing else around it, right after the engine in one
round and right before it in the next, so that both meet the same machine.

Processor time is that of this process. On SQLite that includes the database's work, which
happens in a thread of it; on PostgreSQL the server's is not in it, and is shown besides.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import statistics
from collections.abc import Callable
from pathlib import Path

from anabranch.app import tune_interpreter
from anabranch.engine.ports import Store
from benchmarks.bound import adopt_turns, record_turns, write_turns
from benchmarks.client import client_lone_p50_ms
from benchmarks.databases import BACKENDS, databases
from benchmarks.measured import save
from benchmarks.running import Bench, cpu_s, engine_on, open_store_at
from benchmarks.workloads import Load, effects, fan_out, iterate, linear, map_node, map_over, passes

LINEAR_NODES = 10
FAN_OUT_WIDTH = 50
FAN_OUT_RUNS = 100
LONE_RUNS = 100
PASSES = 1_000
ITEMS = 10_000
LOOP_RUNS = 3
ROUNDS = 5
INSTANCES = 2_000

# A twentieth of the runs where each transition is a commit of its own: it is more than five times slower.
SINGLE_SHARE = 20

# 365 days: starts that are only to be accepted wait until long after the measurement.
FAR_AHEAD_MS = 365 * 86_400_000

Figures = dict[str, float]
ServerCpu = Callable[[], float]
"""Processor seconds of the database's own processes so far."""

# The ratios that are promised, with their limits; the other figures are goals of a quiet machine.
RATIOS: dict[str, tuple[str, str]] = {
    "nodes_per_bound": ("effect nodes/s, share of the bound", "≥ 0.45"),
    "nodes_per_single": ("nodes/s, batched against one transition a commit", "≥ 5"),
    "cpu_with_server_per_bound": ("processor time a node with the database server's, against the bound's", "≤ 4"),
    "fanout_per_linear": ("fan-out nodes/s against linear nodes/s, both pure", "≥ 0.8"),
    "pass_per_iteration": (f"a pass of {PASSES:,} against an iteration of as many, processor time", "≤ 1.2"),
    "mapped_per_loop": (f"{ITEMS:,} items of a mapped node against those of a loop, processor time", "≤ 1.1"),
}
LABELS: dict[str, tuple[str, str]] = {
    "effect_nodes_per_s": (f"effect nodes/s, linear-{LINEAR_NODES}", "15,000"),
    "bound_nodes_per_s": ("nodes/s of the bound", ""),
    "single_nodes_per_s": ("nodes/s, one transition a commit", ""),
    "cpu_s_per_1000_effect_nodes": ("processor s per 1,000 effect nodes", ""),
    "bound_cpu_s_per_1000_nodes": ("processor s per 1,000 nodes of the bound", ""),
    "cpu_with_server_s_per_1000_nodes": ("the same with the database server's", ""),
    "bound_cpu_with_server_s_per_1000_nodes": ("the same of the bound", ""),
    "pure_nodes_per_s": (f"pure nodes/s, linear-{LINEAR_NODES}", ""),
    "pure_per_effect": ("pure nodes/s against effect nodes/s", "≥ 1.7"),
    "lone_effect_p50_ms": (f"a run of {LINEAR_NODES} effect nodes alone, median ms", "≤ 6"),
    "lone_effect_p99_ms": (f"a run of {LINEAR_NODES} effect nodes alone, 99th percentile ms", ""),
    "lone_pure_p50_ms": (f"a run of {LINEAR_NODES} pure nodes alone, median ms", "≤ 2"),
    "lone_pure_p99_ms": (f"a run of {LINEAR_NODES} pure nodes alone, 99th percentile ms", ""),
    "client_lone_p50_ms": ("the same in another process, until a client has its result, median ms", "≤ 15"),
    "fanout_nodes_per_s": (f"nodes/s, fan-out of {FAN_OUT_WIDTH}", ""),
    "iteration_ms": (f"an iteration of {PASSES:,}, one after the other, processor ms", ""),
    "pass_ms": (f"a pass of {PASSES:,} of a loop without a loop node, processor ms", ""),
    "starts_per_s": ("starts accepted per s", "5,000"),
    "starts_while_working_per_s": ("starts accepted per s by a process that also runs them", ""),
}


def measure(url: str, instances: int, server_cpu_s: ServerCpu, *, bound_first: bool) -> Figures:
    """One round of every measurement on one database."""
    return asyncio.run(_measure(url, instances, server_cpu_s, bound_first=bound_first))


def measure_ratios(url: str, instances: int, server_cpu_s: ServerCpu, *, bound_first: bool) -> tuple[float, float]:
    """Nodes/s and processor time (the server's included) against the bound alone, for `check`."""

    async def against_bound() -> Figures:
        line = Load(effects(LINEAR_NODES), instances, LINEAR_NODES)
        async with open_store_at(url) as store:
            await Bench(store).save(line)
            return await _measure_against_bound(store, line, server_cpu_s, bound_first=bound_first)

    figures = asyncio.run(against_bound())
    return (
        figures["effect_nodes_per_s"] / figures["bound_nodes_per_s"],
        figures["cpu_with_server_s_per_1000_nodes"] / figures["bound_cpu_with_server_s_per_1000_nodes"],
    )


def ratios(figures: Figures) -> Figures:
    """The promised ratios of one database's figures."""
    return {
        "nodes_per_bound": figures["effect_nodes_per_s"] / figures["bound_nodes_per_s"],
        "nodes_per_single": figures["effect_nodes_per_s"] / figures["single_nodes_per_s"],
        "cpu_with_server_per_bound": (
            figures["cpu_with_server_s_per_1000_nodes"] / figures["bound_cpu_with_server_s_per_1000_nodes"]
        ),
        "pure_per_effect": figures["pure_nodes_per_s"] / figures["effect_nodes_per_s"],
        "fanout_per_linear": figures["fanout_nodes_per_s"] / figures["pure_nodes_per_s"],
        "pass_per_iteration": figures["pass_ms"] / figures["iteration_ms"],
        "mapped_per_loop": figures["mapped_s"] / figures["loop_s"],
    }


async def _measure(url: str, instances: int, server_cpu_s: ServerCpu, *, bound_first: bool) -> Figures:
    line = Load(effects(LINEAR_NODES), instances, LINEAR_NODES)
    pure = Load(linear(LINEAR_NODES), instances, LINEAR_NODES)
    fan = Load(fan_out(FAN_OUT_WIDTH), FAN_OUT_RUNS, FAN_OUT_WIDTH + 2)
    async with open_store_at(url) as store:
        for load in (line, pure, fan):
            await Bench(store).save(load)
        figures = await _measure_against_bound(store, line, server_cpu_s, bound_first=bound_first)
        async with engine_on(store, line, pure, fan) as bench:
            _, elapsed = await bench.run_all(fan)
            figures["fanout_nodes_per_s"] = fan.flock * fan.nodes_per_run / elapsed
            _, elapsed = await bench.run_all(pure)
            figures["pure_nodes_per_s"] = pure.flock * pure.nodes_per_run / elapsed
            for load, kind in ((line, "effect"), (pure, "pure")):
                lone = [(await bench.run_all(load, 1))[1] * 1_000 for _ in range(LONE_RUNS)]
                figures[f"lone_{kind}_p50_ms"] = statistics.median(lone)
                figures[f"lone_{kind}_p99_ms"] = statistics.quantiles(lone, n=100)[98]
        figures |= await _measure_loops(store)
        async with engine_on(store, batch_transitions_max=1) as single:
            few = max(1, instances // SINGLE_SHARE)
            _, elapsed = await single.run_all(line, few)
            figures["single_nodes_per_s"] = few * LINEAR_NODES / elapsed
        figures["starts_per_s"] = await measure_starts(store, line)
    figures["client_lone_p50_ms"] = await client_lone_p50_ms(url, pure)
    return figures


async def _measure_loops(store: Store) -> Figures:
    """Loops of two kinds and mapped nodes, one run at a time."""
    some, many = ({"n": 1, "items": list(range(count))} for count in (PASSES, ITEMS))
    loads = {
        "iteration_ms": Load(iterate(PASSES), 1, PASSES, some),
        "pass_ms": Load(passes(PASSES), 1, PASSES, some),
        "loop_s": Load(map_over(ITEMS), 1, ITEMS, many),
        "mapped_s": Load(map_node(ITEMS), 1, ITEMS, many),
    }
    figures: Figures = {}
    for load in loads.values():
        await Bench(store).save(load)
    async with engine_on(store, *loads.values()) as bench:
        for name, load in loads.items():
            taken = []
            for _ in range(LOOP_RUNS):
                before = cpu_s()
                await bench.run_all(load, 1)
                taken.append(cpu_s() - before)
            figures[name] = statistics.median(taken) * (1_000 / PASSES if name.endswith("_ms") else 1)
    return figures


async def _measure_against_bound(store: Store, line: Load, server_cpu_s: ServerCpu, *, bound_first: bool) -> Figures:
    """The engine and the bound, one right after the other: both meet the same machine."""
    nodes = line.flock * line.nodes_per_run
    transitions = await record_turns(line, line.flock)
    await adopt_turns(transitions, store, line)
    figures: Figures = {}

    async def bound() -> None:
        gc.collect()
        cpu, cpu_with_server = cpu_s(), cpu_s() + server_cpu_s()
        elapsed = await write_turns(store, transitions)
        figures["bound_nodes_per_s"] = nodes / elapsed
        figures["bound_cpu_s_per_1000_nodes"] = (cpu_s() - cpu) / nodes * 1_000
        figures["bound_cpu_with_server_s_per_1000_nodes"] = (cpu_s() + server_cpu_s() - cpu_with_server) / nodes * 1_000

    if bound_first:
        await bound()
    async with engine_on(store, line) as bench:
        cpu, cpu_with_server = cpu_s(), cpu_s() + server_cpu_s()
        accepted, elapsed = await bench.run_all(line)
        figures["effect_nodes_per_s"] = nodes / elapsed
        figures["cpu_s_per_1000_effect_nodes"] = (cpu_s() - cpu) / nodes * 1_000
        figures["cpu_with_server_s_per_1000_nodes"] = (cpu_s() + server_cpu_s() - cpu_with_server) / nodes * 1_000
        figures["starts_while_working_per_s"] = line.flock / accepted
    if not bound_first:
        await bound()
    return figures


async def measure_starts(store: Store, line: Load) -> float:
    """Starts accepted per second by a process that leaves the running to others.

    They are not due until long after the measurement, so that nobody takes them up in the next.
    """
    async with engine_on(store, works=False) as api:
        due = await store.now() + FAR_AHEAD_MS
        await api.start_all(line, min(line.flock, 100), available_at=due)
        loop = asyncio.get_running_loop()
        began = loop.time()
        await api.start_all(line, line.flock, available_at=due)
        return line.flock / (loop.time() - began)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="end with one JSON line")
    parser.add_argument("--save", type=Path, help="write the figures, with date, machine and command, to this file")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--instances", type=int, default=INSTANCES)
    arguments = parser.parse_args()
    tune_interpreter()
    rounds: dict[str, list[Figures]] = {backend: [] for backend in BACKENDS}
    with databases() as made:
        urls = {backend: made.create(backend) for backend in BACKENDS}
        for number in range(arguments.rounds):
            for backend in BACKENDS:
                figures_of_round = measure(
                    urls[backend], arguments.instances, made.server_cpu_s, bound_first=bool(number % 2)
                )
                rounds[backend].append(figures_of_round)
    figures = {backend: _medians(measured) for backend, measured in rounds.items()}
    _print_table(figures, rounds=arguments.rounds, instances=arguments.instances)
    if arguments.save:
        setup = {"rounds": arguments.rounds, "instances": arguments.instances}
        save(arguments.save, "python -m benchmarks.engine", figures, setup=setup)
    if arguments.json:
        print(json.dumps(figures))


def _medians(measured: list[Figures]) -> Figures:
    medians = {key: statistics.median(one[key] for one in measured) for key in measured[0]}
    # A ratio is taken within its round, where both of its parts met the same machine.
    of_rounds = [ratios(one) for one in measured]
    medians |= {key: statistics.median(one[key] for one in of_rounds) for key in of_rounds[0]}
    return {key: round(value, 4) for key, value in medians.items()}


def _print_table(figures: dict[str, Figures], *, rounds: int, instances: int) -> None:
    print(f"medians of {rounds} rounds, linear-{LINEAR_NODES} x {instances}; processor time is this process's only")
    print(f"{'':58}" + "".join(f"{backend:>14}" for backend in figures) + "    goal / promise")
    for key, (label, goal) in {**LABELS, **RATIOS}.items():
        cells = "".join(f"{row[key]:14,.3f}" if row[key] < 100 else f"{row[key]:14,.0f}" for row in figures.values())
        print(f"{label:58}{cells}    {goal}")


if __name__ == "__main__":
    main()

"""How fast are coded workflows, beside drawn ones and beside what their database can do?

    python -m benchmarks.durable [--json] [--save FILE] [--rounds 3] [--instances 1000]

Each round measures, on both databases, one right after the other: runs of ten steps that do nothing,
runs of ten drawn nodes, and the bound (`bound.py`): the very transitions of the coded runs, written again with
nothing else around them. Each figure is the median over the rounds; the ratios are taken within a round.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
from pathlib import Path
from typing import Any

from anabranch import workflow
from anabranch.app import tune_interpreter
from anabranch.durable.definition import WorkflowRegistry
from anabranch.engine.ports import Store
from benchmarks.bound import adopt_turns, record_turns, write_turns
from benchmarks.client import client_lone_p50_ms
from benchmarks.databases import BACKENDS, databases
from benchmarks.measured import save
from benchmarks.running import Bench, engine_on, open_store_at
from benchmarks.workloads import Load, effects

STEPS = 10

# What a worker process imports to have the coded workflow; this module may have been started as a program.
MODULE = "benchmarks.durable"
INSTANCES = 1_000
LONE_RUNS = 100
ROUNDS = 3

Figures = dict[str, float]

# What is to be reached; the other figures are for comparison.
LABELS: dict[str, tuple[str, str]] = {
    "steps_per_s": (f"steps/s, runs of {STEPS} steps", ""),
    "effect_nodes_per_s": (f"nodes/s, runs of {STEPS} drawn nodes with effects", ""),
    "bound_steps_per_s": ("steps/s of the bound", ""),
    "steps_per_effect_node": ("steps/s, share of the effect nodes/s", "≥ 0.6"),
    "steps_per_bound": ("steps/s, share of the bound", ""),
    "lone_p50_ms": (f"a run of {STEPS} steps alone, median ms", "≤ 12"),
    "lone_effect_p50_ms": (f"a run of {STEPS} drawn nodes alone, median ms", ""),
    "client_lone_p50_ms": (
        f"a run of {STEPS} steps in another process, until a client has its result, median ms",
        "≤ 15",
    ),
}


@workflow(name=f"steps-{STEPS}")
async def steps(ctx: Any, input: Any) -> Any:
    """One step after the other, each with the value of the one before."""
    value = input["n"]
    for number in range(STEPS):
        value = await ctx.step.run(f"step-{number}", same, value)
    return value


async def same(value: Any) -> Any:
    """As little as a `set` node does."""
    return value


CODE = WorkflowRegistry([steps])


def measure(url: str, instances: int, *, bound_first: bool) -> Figures:
    """One round of every measurement on one database."""
    return asyncio.run(_measure(url, instances, bound_first=bound_first))


async def _measure(url: str, instances: int, *, bound_first: bool) -> Figures:
    coded = Load({"name": steps.name}, instances, STEPS)
    drawn = Load(effects(STEPS), instances, STEPS)
    figures: Figures = {}
    async with open_store_at(url) as store:
        await Bench(store).save(drawn)
        async with engine_on(store, coded, drawn, code=CODE) as bench:
            if bound_first:
                figures["bound_steps_per_s"] = await _measure_bound(store, coded)
            figures["steps_per_s"] = await _per_second(bench, coded)
            figures["effect_nodes_per_s"] = await _per_second(bench, drawn)
            if not bound_first:
                figures["bound_steps_per_s"] = await _measure_bound(store, coded)
            figures["lone_p50_ms"] = await _lone_ms(bench, coded)
            figures["lone_effect_p50_ms"] = await _lone_ms(bench, drawn)
    figures["client_lone_p50_ms"] = await client_lone_p50_ms(url, coded, module=MODULE)
    figures["steps_per_effect_node"] = figures["steps_per_s"] / figures["effect_nodes_per_s"]
    figures["steps_per_bound"] = figures["steps_per_s"] / figures["bound_steps_per_s"]
    return figures


async def _per_second(bench: Bench, load: Load) -> float:
    _, elapsed = await bench.run_all(load)
    return load.flock * load.nodes_per_run / elapsed


async def _lone_ms(bench: Bench, load: Load) -> float:
    return statistics.median([(await bench.run_all(load, 1))[1] * 1_000 for _ in range(LONE_RUNS)])


async def _measure_bound(store: Store, load: Load) -> float:
    transitions = await record_turns(load, load.flock, code=CODE)
    await adopt_turns(transitions, store, load)
    return load.flock * load.nodes_per_run / await write_turns(store, transitions)


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
                rounds[backend].append(measure(urls[backend], arguments.instances, bound_first=bool(number % 2)))
    figures = {
        backend: {key: round(statistics.median(one[key] for one in measured), 4) for key in LABELS}
        for backend, measured in rounds.items()
    }
    _print_table(figures, rounds=arguments.rounds, instances=arguments.instances)
    if arguments.save:
        setup = {"rounds": arguments.rounds, "instances": arguments.instances}
        save(arguments.save, "python -m benchmarks.durable", figures, setup=setup)
    if arguments.json:
        print(json.dumps(figures))


def _print_table(figures: dict[str, Figures], *, rounds: int, instances: int) -> None:
    print(f"medians of {rounds} rounds, {instances} runs each")
    print(f"{'':44}" + "".join(f"{backend:>14}" for backend in figures) + "    goal")
    for key, (label, goal) in LABELS.items():
        cells = "".join(f"{row[key]:14,.2f}" if row[key] < 100 else f"{row[key]:14,.0f}" for row in figures.values())
        print(f"{label:44}{cells}    {goal}".rstrip())


if __name__ == "__main__":
    main()

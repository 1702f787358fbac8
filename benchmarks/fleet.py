"""A thousand workers on one PostgreSQL, on virtual time: queues, herds and a failover, with measured costs.

    python -m benchmarks.fleet [--costs benchmarks/results/scale.json] [--workers 1000] [--cores 64] [--json]

No engine runs here. Runs of ten nodes arrive at random; each node takes the processor time of a worker and of the
database that `benchmarks.scale` measured, and idle workers cost what they did there. In the middle the primary
is away for 30 s. Then every worker opens its connections again, all at once. What comes out says how long runs wait at
which load, and how long the herd after a failover lasts; what it leaves out (locks, memory, networks) makes it
optimistic.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import statistics
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.measured import RESULTS, read

NODES_PER_RUN = 10
SEED = 18

# 100 ms of virtual time at once; 5 min in all, with a failover after 2.
TICK_S = 0.1
UNTIL_S = 300.0
AWAY_FROM_S, AWAY_S = 120.0, 30.0

# 10 connections of each worker are opened at once after a failover: for reads, commits and hints.
CONNECTIONS = 10

LOADS = (0.5, 0.8, 0.95)


@dataclass(frozen=True)
class Costs:
    """Milliseconds of processor time."""

    worker_per_node: float
    server_per_node: float
    server_per_idle_s: float
    """A second of one worker without work."""
    server_per_connection: float


def costs_of(figures: dict[str, Any]) -> Costs:
    """From the figures of `benchmarks.scale`: those of two workers on PostgreSQL, and of idle ones."""
    two, idle = figures["postgresql"]["2"], figures["idle"]
    worker = two["worker_cpu_ms_per_node"]
    return Costs(
        worker,
        two["cpu_ms_per_node"] - worker,
        idle["server_cpu_ms_per_s_each"],
        idle["server_cpu_ms_per_connection"],
    )


def ceiling(costs: Costs, *, workers: int, cores: int) -> tuple[float, str]:
    """The runs a second that fit, and what is used up then."""
    left_ms = 1_000 * cores - workers * costs.server_per_idle_s
    by_server = max(0.0, left_ms) / costs.server_per_node / NODES_PER_RUN
    by_workers = 1_000 * workers / costs.worker_per_node / NODES_PER_RUN
    return (by_server, "database") if by_server < by_workers else (by_workers, "workers")


def simulate(costs: Costs, *, workers: int, cores: int, runs_per_s: float) -> dict[str, float]:
    """Five minutes. How long runs took from their start to their end, before the failover and after it."""
    rng = random.Random(SEED)  # the same runs each time
    queue: deque[tuple[float, float]] = deque()  # when it came, and the nodes that are left
    open_nodes, herd_ms, longest = 0.0, 0.0, 0
    before: list[float] = []
    after: list[float] = []
    drained_at = math.inf
    for number in range(int(UNTIL_S / TICK_S)):
        now = number * TICK_S
        is_away = AWAY_FROM_S <= now < AWAY_FROM_S + AWAY_S
        came = _poisson(rng, runs_per_s * TICK_S)
        if came:
            queue.append((now, came * NODES_PER_RUN))
            open_nodes += came * NODES_PER_RUN
        longest = max(longest, round(open_nodes / NODES_PER_RUN))
        if is_away:
            herd_ms = workers * CONNECTIONS * costs.server_per_connection
            continue
        server_ms = 1_000 * TICK_S * cores
        paid = min(herd_ms, server_ms)
        herd_ms, server_ms = herd_ms - paid, server_ms - paid
        busy = min(1.0, open_nodes * costs.worker_per_node / (1_000 * TICK_S * workers))
        server_ms -= min(server_ms, workers * (1 - busy) * TICK_S * costs.server_per_idle_s)
        nodes = min(server_ms / costs.server_per_node, 1_000 * TICK_S * workers / costs.worker_per_node)
        done = min(nodes, open_nodes)
        open_nodes -= done
        while queue and done >= queue[0][1]:
            at, left = queue.popleft()
            done -= left
            (before if now < AWAY_FROM_S else after).append(now - at + TICK_S)
        if queue and done:
            at, left = queue.popleft()
            queue.appendleft((at, left - done))
        if now > AWAY_FROM_S and open_nodes <= runs_per_s * TICK_S * NODES_PER_RUN:
            drained_at = min(drained_at, now)
    return {
        "runs_per_s": runs_per_s,
        "wait_p50_s": statistics.median(before),
        "wait_p99_s": statistics.quantiles(before, n=100)[98],
        "wait_max_after_failover_s": max(after),
        "open_runs_max": longest,
        "back_to_normal_s": drained_at - AWAY_FROM_S - AWAY_S,
    }


def _poisson(rng: random.Random, mean: float) -> int:
    """So many arrivals; of many the normal distribution is close enough."""
    return max(0, round(rng.gauss(mean, math.sqrt(mean))))


def main() -> None:
    """Simulate each load, and print it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--costs", type=Path, default=RESULTS / "scale.json")
    parser.add_argument("--workers", type=int, default=1_000)
    parser.add_argument("--cores", type=int, default=64, help="of the database")
    parser.add_argument("--json", action="store_true", help="print nothing but the JSON object")
    arguments = parser.parse_args()
    costs = costs_of(dict(read(arguments.costs).figures))
    most, used_up = ceiling(costs, workers=arguments.workers, cores=arguments.cores)
    figures: dict[str, Any] = {"ceiling_runs_per_s": most, "used_up": used_up}
    if not arguments.json:
        print(f"{arguments.workers} workers, {arguments.cores} cores: {most:,.0f} runs/s at most ({used_up})")
    for load in LOADS if most else ():
        found = simulate(costs, workers=arguments.workers, cores=arguments.cores, runs_per_s=load * most)
        figures[f"{load:.0%}"] = found
        if not arguments.json:
            print(f"{load:.0%}: " + ", ".join(f"{name} {value:,.1f}" for name, value in found.items()))
    print(json.dumps(figures))


if __name__ == "__main__":
    main()

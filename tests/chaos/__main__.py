"""`python -m tests.chaos [--soak] [--seed N] [--store NAME]`: campaigns on both databases (`sqlite`, `postgresql`),
over a slow `network`, on two PostgreSQL servers of which the first is killed (`failover`), with executors behind a
RabbitMQ (`pools`), with each part standing still in turn (`frozen`), with `servers` that clients ask, and with the
worker that leads ended again and again (`leading`). Those that need a RabbitMQ are skipped by name where there is none.

Without a seed it draws one, and says which. A seed that fails is written to `seeds.txt`; those are run first for ever.
(A seed decides what is killed when, and not how the processes interleave: it may have to be run several times to fail
again.) Prints what was done; the last line is one JSON object with what each store came to.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import json
import secrets
import sys
from pathlib import Path

from tests.chaos.campaign import Plan, Report
from tests.chaos.leading import with_leaders
from tests.chaos.poison import PoisonPlan
from tests.chaos.scenes import (
    on_a_slow_network,
    on_postgresql,
    on_sqlite,
    over_a_failover,
    over_rabbitmq,
    poisoned_on_postgresql,
    poisoned_on_sqlite,
)
from tests.chaos.servers import with_servers
from tests.chaos.standstills import standing_still
from tests.tools import ToolMissing, rabbitmq

SEEDS_FILE = Path(__file__).with_name("seeds.txt")

# Short enough to be typed.
SEED_MAX = 1_000_000_000

# The clocks of three workers, in seconds: right, an hour fast, an hour slow.
HOUR_APART = (0.0, 3_600.0, -3_600.0)

# Some 300 runs in the minutes that it takes, and the load ends with the last fault.
STANDSTILLS = Plan(workers=2, executors=2, kills=0, pauses=0, instances=2_000, pace_s=1.0, peace_s=300)

# As many servers as workers.
SERVERS = Plan(workers=2, kills=0, pauses=0, instances=0, peace_s=60)

SIZES = {
    "ci": {
        "sqlite": [
            Plan(workers=1, kills=10, instances=120, pauses=2),
            Plan(workers=2, kills=16, instances=180, pauses=3),
        ],
        "postgresql": [Plan(workers=3, kills=25, instances=300, pauses=5, partitions=6)],
        "network": [Plan(workers=3, kills=8, instances=100, pauses=3, clock_offsets_s=HOUR_APART, peace_s=180)],
        "failover": [Plan(workers=2, kills=6, instances=100, pauses=1)],
        "pools": [Plan(workers=2, executors=2, kills=10, instances=150, pauses=1, peace_s=300)],
        "frozen": [STANDSTILLS],
        "servers": [SERVERS],
        "leading": [Plan(workers=3, kills=6, pauses=2, instances=0)],
    },
    "soak": {
        "sqlite": [
            Plan(workers=1, kills=200, instances=5_000, pauses=60),
            Plan(workers=2, kills=200, instances=5_000, pauses=60),
        ],
        "postgresql": [Plan(workers=3, kills=220, instances=10_000, pauses=90, partitions=60, peace_s=600)],
        "network": [Plan(workers=3, kills=80, instances=1_000, pauses=30, clock_offsets_s=HOUR_APART, peace_s=600)],
        "failover": [Plan(workers=3, kills=40, instances=1_000, pauses=10, peace_s=600)],
        "pools": [Plan(workers=3, executors=3, kills=80, instances=2_000, pauses=20, peace_s=900)],
        "frozen": [STANDSTILLS] * 5,
        "servers": [SERVERS] * 5,
        "leading": [Plan(workers=3, kills=100, pauses=30, instances=0)],
    },
}


SCENES = {
    "sqlite": on_sqlite,
    "postgresql": on_postgresql,
    "network": on_a_slow_network,
    "failover": over_a_failover,
    "pools": over_rabbitmq,
    "frozen": standing_still,
    "servers": with_servers,
    "leading": with_leaders,
}

# 5 campaigns at once on two cores: with more, what is measured is how long processes wait for a core.
AT_ONCE_MAX = 5

OF_RABBITMQ = ("pools", "frozen")

POISONS = [PoisonPlan(poisons=1), PoisonPlan(poisons=3, patience_s=600.0)]


async def poison_campaigns(stores: list[str]) -> list[str]:
    """Runs that kill their process among 20 others, one after the other; what was not as promised."""
    violations: list[str] = []
    for store in stores:
        for plan in POISONS:
            scene = poisoned_on_sqlite if store == "sqlite" else poisoned_on_postgresql
            report = await scene(plan)
            done = f"{report.crashes} crashes of at most {plan.crashes_max}, {report.seconds:.0f} s"
            print(f"{store}, {plan.poisons} poisonous among {plan.innocents} others: {done}", flush=True)
            for violation in report.violations:
                print(f"  {violation}", flush=True)
            violations += report.violations
    return violations


async def campaigns(size: str, seed: int, stores: list[str]) -> dict[str, list[Report]]:
    """Several at once, the longest first: they spend most of their time waiting."""
    reports: dict[str, list[Report]] = {store: [] for store in stores}
    slots = asyncio.Semaphore(AT_ONCE_MAX)

    async def one(store: str, plan: Plan) -> None:
        async with slots:
            report = await SCENES[store](dataclasses.replace(plan, seed=seed))
        reports[store].append(report)
        shown = {**dataclasses.asdict(report), "violations": len(report.violations)}
        print(f"{store}, {plan.workers} worker(s), seed {seed}: {shown}", flush=True)
        for violation in report.violations[:20]:
            print(f"  {violation}", flush=True)

    longest_first = sorted(stores, key=lambda store: store not in OF_RABBITMQ)
    await asyncio.gather(*(one(store, plan) for store in longest_first for plan in SIZES[size][store]))
    return reports


def known_seeds() -> list[int]:
    """Seeds that once failed."""
    lines = SEEDS_FILE.read_text().splitlines() if SEEDS_FILE.exists() else []
    return [int(line.split("#")[0]) for line in lines if line.split("#")[0].strip()]


def remember_seed(seed: int, why: str) -> None:
    """Add a seed that failed."""
    if seed not in known_seeds():
        with SEEDS_FILE.open("a") as file:
            file.write(f"{seed}  # {why.splitlines()[0]}\n")


def possible(stores: list[str]) -> tuple[list[str], dict[str, dict[str, str]]]:
    """The stores without what this machine lacks, and why that is skipped."""
    try:
        rabbitmq()
    except ToolMissing as missing:
        skipped = {store: {"skipped": str(missing)} for store in stores if store in OF_RABBITMQ}
        for store in skipped:
            print(f"{store}: skipped: {missing}", flush=True)
        return [store for store in stores if store not in skipped], skipped
    return stores, {}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--soak", action="store_true", help="night size")
    parser.add_argument("--seed", type=int, help="the seed of the campaigns (default: drawn anew)")
    parser.add_argument("--store", choices=[*SCENES], action="append")
    arguments = parser.parse_args()
    stores, skipped = possible(arguments.store or [*SCENES])
    size = "soak" if arguments.soak else "ci"
    drawn = secrets.randbelow(SEED_MAX) if arguments.seed is None else arguments.seed
    print(f"seed {drawn}; the same again: make chaos SEED={drawn}", flush=True)
    reports: dict[str, list[Report]] = {store: [] for store in stores}
    # A seed that was asked for is run by itself: whoever repeats a failure waits for nothing else.
    for seed in dict.fromkeys([*(known_seeds() if arguments.seed is None else ()), drawn]):
        for store, found in asyncio.run(campaigns(size if seed == drawn else "ci", seed, stores)).items():
            reports[store] += found
            for report in found:
                if report.violations:
                    remember_seed(seed, f"{store}: {report.violations[0]}")
    summary = {
        store: {
            "kills": sum(report.kills for report in of_store),
            "pauses": sum(report.pauses for report in of_store),
            "instances": sum(report.instances for report in of_store),
            "violations": sum(len(report.violations) for report in of_store),
        }
        for store, of_store in reports.items()
    }
    poisoned = asyncio.run(poison_campaigns([store for store in stores if store in ("sqlite", "postgresql")]))
    print(json.dumps({**summary, **skipped, "poison": {"violations": len(poisoned)}}))
    if poisoned:
        return 1
    return 1 if any(one["violations"] for one in summary.values()) else 0


if __name__ == "__main__":
    sys.exit(main())

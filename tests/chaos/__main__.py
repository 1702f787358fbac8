"""`python -m tests.chaos [--soak] [--seed N] [--store sqlite|postgresql]`: campaigns on both databases.

Prints what was done; the last line is one JSON object per store.
"""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import json
import sys

from tests.chaos.campaign import Plan, Report
from tests.chaos.scenes import on_postgresql, on_sqlite

SIZES = {
    "ci": {
        "sqlite": [
            Plan(workers=1, kills=10, instances=120, pauses=2),
            Plan(workers=2, kills=16, instances=180, pauses=3),
        ],
        "postgresql": [Plan(workers=3, kills=25, instances=300, pauses=5)],
    },
    "soak": {
        "sqlite": [
            Plan(workers=1, kills=200, instances=5_000, pauses=60),
            Plan(workers=2, kills=200, instances=5_000, pauses=60),
        ],
        "postgresql": [Plan(workers=3, kills=220, instances=10_000, pauses=90, peace_s=600)],
    },
}


async def campaigns(size: str, seed: int, stores: list[str]) -> dict[str, list[Report]]:
    """All at once: they spend most of their time waiting."""
    reports: dict[str, list[Report]] = {store: [] for store in stores}

    async def one(store: str, plan: Plan) -> None:
        scene = on_sqlite if store == "sqlite" else on_postgresql
        report = await scene(dataclasses.replace(plan, seed=seed))
        reports[store].append(report)
        shown = {**dataclasses.asdict(report), "violations": len(report.violations)}
        print(f"{store}, {plan.workers} worker(s), seed {seed}: {shown}", flush=True)
        for violation in report.violations[:20]:
            print(f"  {violation}", flush=True)

    await asyncio.gather(*(one(store, plan) for store in stores for plan in SIZES[size][store]))
    return reports


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--soak", action="store_true", help="night size")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--store", choices=["sqlite", "postgresql"], action="append")
    arguments = parser.parse_args()
    stores = arguments.store or ["sqlite", "postgresql"]
    reports = asyncio.run(campaigns("soak" if arguments.soak else "ci", arguments.seed, stores))
    summary = {
        store: {
            "kills": sum(report.kills for report in of_store),
            "pauses": sum(report.pauses for report in of_store),
            "instances": sum(report.instances for report in of_store),
            "violations": sum(len(report.violations) for report in of_store),
        }
        for store, of_store in reports.items()
    }
    print(json.dumps(summary))
    return 1 if any(one["violations"] for one in summary.values()) else 0


if __name__ == "__main__":
    sys.exit(main())

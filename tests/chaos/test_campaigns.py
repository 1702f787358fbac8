"""Small campaigns in the suite: processes killed, frozen and stopped. `make chaos` runs the larger ones."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from anabranch.engine.rules.shared.blame import CRASHES_MAX
from anabranch.migrations import upgrade
from tests.chaos.campaign import Plan, Report
from tests.chaos.poison import PoisonPlan, poisoned
from tests.chaos.scenes import on_postgresql, on_sqlite, poisoned_on_sqlite
from tests.postgres import PostgresServer

# The shortest lease that may be set, and next to no pause after a crash: a crash then costs less than a second.
QUICKLY: dict[str, Any] = {"lease_ms": 500, "crash_delays_ms": (50, 50, 50), "patience_s": 240.0}
ONE_POISON = PoisonPlan(poisons=1, innocents=3, **QUICKLY)
THREE_POISONS = PoisonPlan(poisons=3, innocents=2, **QUICKLY)


@pytest.fixture
def two_postgres_urls(postgres_server: PostgresServer) -> Iterator[tuple[str, str]]:
    """Two databases with the current schema and no rows."""
    urls = postgres_server.take_migrated(upgrade), postgres_server.take_migrated(upgrade)
    yield urls
    for url in urls:
        postgres_server.give_back(url)


def broken_promises(report: Report, plan: Plan) -> list[str]:
    """What is wrong, and what the campaign has not tried."""
    tried = {
        "runs": report.instances >= plan.instances,
        "kills": report.kills >= plan.kills,
        "pauses": report.pauses >= plan.pauses,
        "acts upon families whose worker stood still": report.family_acts >= plan.pauses,
        "effects": report.effects > 0,
    }
    return report.violations + [f"too few {what}" for what, enough in tried.items() if not enough]


@pytest.mark.timeout(600)
async def test_two_workers_on_one_sqlite_file_survive_a_killer() -> None:
    plan = Plan(workers=2, kills=2, instances=16, pauses=1, seed=7, peace_s=240.0)
    assert broken_promises(await on_sqlite(plan), plan) == []


@pytest.mark.timeout(600)
async def test_two_workers_on_postgresql_survive_a_killer_cuts_and_a_crash_of_the_server() -> None:
    plan = Plan(workers=2, kills=2, instances=16, pauses=1, seed=7, peace_s=240.0)
    report = await on_postgresql(plan)

    assert broken_promises(report, plan) == []
    assert report.cuts + report.withheld + report.database_crashes > 0


@pytest.mark.timeout(600)
async def test_runs_that_kill_their_process_are_suspended_in_time_and_all_others_complete(
    two_postgres_urls: tuple[str, str],
) -> None:
    one_url, other_url = two_postgres_urls
    reports = await asyncio.gather(
        poisoned_on_sqlite(ONE_POISON),
        poisoned_on_sqlite(THREE_POISONS),
        poisoned(ONE_POISON, one_url),
        poisoned(THREE_POISONS, other_url),
    )

    assert [report.violations for report in reports] == [[], [], [], []]
    assert all(report.crashes > CRASHES_MAX for report in reports), "the first crash and those alone, at least"

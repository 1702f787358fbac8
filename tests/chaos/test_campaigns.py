"""Small campaigns in the suite: processes killed, frozen and stopped. `make chaos` runs the larger ones."""

from __future__ import annotations

import pytest

from tests.chaos.campaign import Plan, Report
from tests.chaos.scenes import on_postgresql, on_sqlite


def assert_kept_its_promise(report: Report, plan: Plan) -> None:
    assert report.violations == []
    assert report.instances >= plan.instances
    assert report.kills >= plan.kills, "a campaign that kills nobody shows nothing"
    assert report.pauses >= plan.pauses
    assert report.family_acts >= plan.pauses, "families whose worker stood still were acted upon"
    assert report.effects > 0


@pytest.mark.timeout(300)
async def test_two_workers_on_one_sqlite_file_survive_a_killer() -> None:
    plan = Plan(workers=2, kills=4, instances=32, pauses=1, seed=7)
    assert_kept_its_promise(await on_sqlite(plan), plan)


@pytest.mark.timeout(300)
async def test_two_workers_on_postgresql_survive_a_killer_cuts_and_a_crash_of_the_server() -> None:
    plan = Plan(workers=2, kills=4, instances=32, pauses=1, seed=7)
    report = await on_postgresql(plan)

    assert_kept_its_promise(report, plan)
    assert report.cuts + report.withheld + report.database_crashes > 0

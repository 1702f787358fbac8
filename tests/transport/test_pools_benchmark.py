"""The benchmark of pools: both of its measurements measure something, and its section says what came out."""

from __future__ import annotations

import asyncio

from benchmarks import pools, report
from benchmarks.measured import Measured
from tests.rabbitmq import RabbitMQ


async def test_jobs_and_their_bare_echo_are_counted(broker: RabbitMQ) -> None:
    jobs, bare = await asyncio.gather(pools.measure_jobs(broker.url, 2), pools.measure_echo(broker.url, 2))
    assert jobs["per_s"] > 0 and bare["per_s"] > 0


def test_the_section_on_pools_has_both_figures_and_the_goal() -> None:
    figures = {"jobs_per_s": 500.0, "bare_jobs_per_s": 1000.0, "ratio": 0.5}
    setup = {"rounds": 3, "runs": 600, "jobs": 5_400}
    section = report.pools_section(Measured("a command", "today", "a machine", 1.0, setup, figures))
    assert "| jobs/s through RabbitMQ | 500 |  |" in section
    assert "| **jobs/s, share of the bare echo** | 0.50 | **≥ 0.4** |" in section
    assert "with 5,400 jobs" in section

"""Which of the jobs that an executor has taken begin: high priority first, tenants in turn, nobody starved."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from anabranch.transport.executor_places import HIGH_IN_A_ROW_MAX, ExecutorPlaces


@dataclass(eq=False)
class Waiting:
    """A job that waits."""

    name: str
    tenant_id: str = "acme"
    priority: str = "normal"
    instance_id: str = "run"
    begins: asyncio.Future[bool] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    node: Any = None

    def __post_init__(self) -> None:
        self.node = SimpleNamespace(type="crunch", priority=self.priority)


def begun(jobs: list[Waiting], places: ExecutorPlaces) -> list[str]:
    """The names in the order in which they begin, on one place."""
    order, left = [], list(jobs)
    while left:
        (job,) = [each for each in left if each.begins.done()]
        order.append(job.name)
        left.remove(job)
        places.give_back()
    return order


async def test_high_priority_begins_first_and_tenants_take_turns() -> None:
    places = ExecutorPlaces(1)
    jobs = [Waiting("a1"), Waiting("a2"), Waiting("a3"), Waiting("b1", "beta"), Waiting("h1", priority="high")]
    for each in jobs:
        places.ask(each)
    assert begun(jobs, places) == ["a1", "h1", "a2", "b1", "a3"]


async def test_a_stream_of_high_priority_does_not_starve_the_others() -> None:
    places = ExecutorPlaces(1)
    jobs = [Waiting(f"h{n}", priority="high") for n in range(HIGH_IN_A_ROW_MAX + 2)]
    normal = Waiting("normal")
    for each in [*jobs, normal]:
        places.ask(each)
    assert begun([*jobs, normal], places).index("normal") == HIGH_IN_A_ROW_MAX


async def test_a_job_that_waits_no_more_gets_no_place() -> None:
    places = ExecutorPlaces(1)
    first, cancelled, last = Waiting("first"), Waiting("cancelled"), Waiting("last")
    for each in (first, cancelled, last):
        places.ask(each)
    cancelled.begins.set_result(False)
    places.give_back()
    assert last.begins.done()

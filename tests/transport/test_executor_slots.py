"""Which of the jobs that an executor has taken begin: high priority first, tenants in turn, nobody starved."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

from anabranch.engine.rules.graph.priorities import HIGH, NORMAL, Priority
from anabranch.transport.executor_slots import HIGH_IN_A_ROW_MAX, ExecutorSlots
from anabranch.transport.job_executor import RunningJob
from tests.transport.test_queues import job


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


def begun(jobs: list[Waiting], slots: ExecutorSlots) -> list[str]:
    """The names in the order in which they begin, on one slot."""
    order, left = [], list(jobs)
    while left:
        (job,) = [each for each in left if each.begins.done()]
        order.append(job.name)
        left.remove(job)
        slots.give_back()
    return order


async def test_high_priority_begins_first_and_tenants_take_turns() -> None:
    slots = ExecutorSlots(1)
    jobs = [Waiting("a1"), Waiting("a2"), Waiting("a3"), Waiting("b1", "beta"), Waiting("h1", priority="high")]
    for each in jobs:
        slots.ask(each)
    assert begun(jobs, slots) == ["a1", "h1", "a2", "b1", "a3"]


async def test_a_stream_of_high_priority_does_not_starve_the_others() -> None:
    slots = ExecutorSlots(1)
    jobs = [Waiting(f"h{n}", priority="high") for n in range(HIGH_IN_A_ROW_MAX + 2)]
    normal = Waiting("normal")
    for each in [*jobs, normal]:
        slots.ask(each)
    assert begun([*jobs, normal], slots).index("normal") == HIGH_IN_A_ROW_MAX


async def test_a_job_that_waits_no_more_gets_no_slot() -> None:
    slots = ExecutorSlots(1)
    first, cancelled, last = Waiting("first"), Waiting("cancelled"), Waiting("last")
    for each in (first, cancelled, last):
        slots.ask(each)
    cancelled.begins.set_result(False)
    slots.give_back()
    assert last.begins.done()


async def test_jobs_of_an_executor_begin_by_the_priority_of_their_messages() -> None:
    def held(number: int, priority: Priority) -> RunningJob:
        return RunningJob(replace(job("gpu", number), priority=priority), asyncio.get_running_loop().create_future())

    slots = ExecutorSlots(1)
    jobs = [held(number, NORMAL if number % 2 else HIGH) for number in range(8)]
    assert {each.node.pool for each in jobs} == {"gpu"}
    for each in jobs:
        slots.ask(each)
    order = []
    for _ in jobs:
        (begun,) = [each for each in jobs if each.begins.done() and each not in order]
        order.append(begun)
        slots.give_back()
    assert [each.node.priority for each in order] == [HIGH] * 4 + [NORMAL] * 4

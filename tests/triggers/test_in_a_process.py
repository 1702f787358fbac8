"""A working process starts what is due and finishes what was published, by its own clock."""

from __future__ import annotations

import asyncio

from anabranch.app import build
from anabranch.app_services import AppServices
from anabranch.engine.ports import InstanceHead
from anabranch.settings import Settings
from anabranch.triggers.schedules.scheduler import occurrence_key
from tests.engine.drawing import drawn, node
from tests.triggers.services import TENANT

ECHO = drawn("echo", node("end", "end", config={"outputParameters": {"got": "{{ctx.input}}"}}))
# A run's times are those of its process, whose clock follows the database's by the way of an answer: the slower the
# answer, the less closely.
CLOCKS_APART_MS = 500
# Ten times the promise: other tests have the machine, too.
LATE_MS = 10_000

# All: the occurrences of a second in which the machine did not come to it count, too.
EVERY_SECOND = {"name": "ticks", "workflow": "echo", "every": "1s", "input": "tick", "missed": "all"}


async def test_an_interval_of_a_second_is_kept_to_the_second(database_url: str) -> None:
    settings = Settings.load(environ={}, database_url=database_url)
    async with build(settings).open_services(works=True) as first, build(settings).open_services(works=True):
        await first.workflows.save_workflow(ECHO, tenant_id=TENANT)
        schedule = await first.schedules.create_schedule(EVERY_SECOND, tenant_id=TENANT)
        heads = await starts(3, first)
        await first.schedules.delete_schedule("ticks", tenant_id=TENANT)

    for number, head in enumerate(heads, start=1):
        due_at = schedule.anchor_at + number * 1_000
        assert head.idempotency_key == occurrence_key(schedule.schedule_id, due_at)
        assert -CLOCKS_APART_MS <= head.created_at - due_at <= LATE_MS


async def starts(count: int, services: AppServices) -> list[InstanceHead]:
    """The heads of so many runs, oldest first; the test's own time limit bounds the wait."""
    while True:
        runs = await services.workflows.list_runs(tenant_id=TENANT, limit=100)
        if len(runs) >= count:
            ids = [run["instanceID"] for run in reversed(runs)]
            return [(await services.workflows.get_run_status(each, tenant_id=TENANT)).head for each in ids]
        await asyncio.sleep(0.05)


async def test_a_published_message_is_run(database_url: str) -> None:
    settings = Settings.load(environ={}, database_url=database_url)
    async with build(settings).open_services(works=True) as services:
        await services.workflows.save_workflow(ECHO, tenant_id=TENANT)
        await services.topics.subscribe("a.#", {"type": "workflow", "name": "echo"}, tenant_id=TENANT)
        message = await services.topics.publish("a", {"x": 1}, tenant_id=TENANT)
        (run_id,) = [delivery.instance_id for delivery in message.deliveries]
        assert run_id is not None
        assert await output_of(run_id, services) == {"got": {"x": 1}}


async def output_of(run_id: str, services: AppServices) -> object:
    """What the run gives, once it has ended."""
    while True:
        run = await services.workflows.get_run(run_id, tenant_id=TENANT)
        if run["status"] == "COMPLETED":
            return run["output"]
        await asyncio.sleep(0.01)


async def test_who_advances_some_runs_only_starts_none_by_the_clock(database_url: str) -> None:
    settings = Settings.load(environ={}, database_url=database_url)
    async with build(settings).open_runs(only=[]):
        names = {task.get_name() for task in asyncio.all_tasks()}
    assert "claiming" in names and not names & {"starting what is due", "finishing messages"}

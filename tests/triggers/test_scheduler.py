"""Each occurrence of a schedule has exactly one run, whoever looks and whatever crashes: the database counts."""

from __future__ import annotations

import asyncio
import logging
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest

from anabranch.engine.rules.instants import to_iso
from anabranch.errors import StoreUnavailable
from anabranch.triggers.schedules.saved_schedules import Schedule
from anabranch.triggers.schedules.scheduler import Scheduler, occurrence_key
from tests.triggers.conftest import OpenOffice
from tests.triggers.services import DAY, HOUR, MIDNIGHT, MINUTE, SECOND, TENANT, HandTime, Office


async def shown(office: Office, name: str) -> Schedule:
    return await office.schedules.get_schedule(name, tenant_id=TENANT)


async def test_an_occurrence_starts_one_run_with_the_input_and_its_time_in_the_key(
    office: Office, time: HandTime
) -> None:
    schedule_id = await office.schedule("hourly", cron="0 * * * *", input={"of": [1]})
    await office.look()
    assert await office.runs() == [], "the first occurrence is later than the creation"

    time.now = MIDNIGHT + HOUR + 300
    await office.look()
    await office.look()

    assert await office.keys() == [f"schedule:{schedule_id}:{to_iso(MIDNIGHT + HOUR)}"]
    run = await office.workflows.get_run((await office.runs())[0]["instanceID"], tenant_id=TENANT)
    assert run["input"] == {"of": [1]}
    schedule = await shown(office, "hourly")
    assert (schedule.last_at, schedule.next_at) == (MIDNIGHT + HOUR, MIDNIGHT + 2 * HOUR)
    assert schedule.last_instance_id == run["instanceID"]


async def test_two_processes_that_race_start_each_occurrence_once(open_office: OpenOffice, time: HandTime) -> None:
    offices = [await open_office() for _ in range(2)]
    await offices[0].draw("report")
    ids = [await offices[0].schedule(f"s{number}", every="10s", missed="all") for number in range(8)]

    for step in range(1, 6):
        time.now = MIDNIGHT + step * 20 * SECOND
        await asyncio.gather(*(office.look() for office in offices))

    wanted = [occurrence_key(each, MIDNIGHT + step * 10 * SECOND) for each in ids for step in range(1, 11)]
    assert await offices[1].keys() == sorted(wanted)


async def test_a_kill_between_the_start_and_the_note_of_it_repeats_nothing(
    office: Office, time: HandTime, database_url: str
) -> None:
    schedule_id = await office.schedule("hourly", cron="0 * * * *")
    time.now = MIDNIGHT + HOUR

    killed = die_after_a_start(database_url, time.now)
    before = await shown(office, "hourly")
    await office.look()

    assert killed == -signal.SIGKILL
    assert before.next_at == MIDNIGHT + HOUR, "the dead one had not moved it on"
    assert await office.keys() == [occurrence_key(schedule_id, MIDNIGHT + HOUR)]
    after = await shown(office, "hourly")
    assert after.next_at == MIDNIGHT + 2 * HOUR
    assert after.last_instance_id == (await office.runs())[0]["instanceID"]


@pytest.mark.parametrize(("missed", "count"), [("skip", 0), ("one", 1), ("all", 30)])
async def test_what_nobody_was_there_for_is_made_up_for_as_the_schedule_says(
    office: Office, open_office: OpenOffice, time: HandTime, missed: str, count: int
) -> None:
    await office.schedule("hourly", cron="0 * * * *", missed=missed)
    time.now = MIDNIGHT + 30 * HOUR + 10 * MINUTE
    later = await open_office()  # the first process has never looked: it counts as not having been there

    await later.look()

    assert len(await later.runs()) == count
    assert (await shown(later, "hourly")).next_at == MIDNIGHT + 31 * HOUR


async def test_nothing_is_made_up_for_of_the_time_in_which_it_was_disabled(office: Office, time: HandTime) -> None:
    await office.schedule("hourly", every="1h", missed="all", enabled=False)
    assert (await shown(office, "hourly")).next_at is None
    time.now = MIDNIGHT + 5 * HOUR + MINUTE
    await office.look()

    document = {"name": "hourly", "workflow": "report", "every": "1h", "missed": "all"}
    enabled = await office.schedules.update_schedule("hourly", document, tenant_id=TENANT)
    await office.look()

    assert await office.runs() == []
    assert enabled.next_at == MIDNIGHT + 6 * HOUR, "it keeps its rhythm"


async def test_a_start_that_can_never_be_is_noted_and_the_schedule_goes_on(office: Office, time: HandTime) -> None:
    await office.draw("strict", inputSchema={"type": "object"})
    await office.schedule("hourly", workflow="strict", every="1h", input=7)
    time.now = MIDNIGHT + HOUR
    await office.look()
    failed = await shown(office, "hourly")

    await office.draw("strict", inputSchema={"type": "integer"})
    time.now = MIDNIGHT + 2 * HOUR
    await office.look()
    mended = await shown(office, "hourly")

    assert failed.last_error is not None and failed.last_error["code"] == "INVALID_INPUT"
    assert (failed.last_at, failed.next_at) == (None, MIDNIGHT + 2 * HOUR)
    assert failed.last_error["occurrenceAt"] == to_iso(MIDNIGHT + HOUR)
    assert mended.last_error is None and len(await office.runs()) == 1


async def test_a_deleted_workflow_is_noted_too(office: Office, time: HandTime) -> None:
    await office.schedule("hourly", every="1h")
    await office.workflows.delete_workflow("report", tenant_id=TENANT)
    time.now = MIDNIGHT + HOUR
    await office.look()
    assert ((await shown(office, "hourly")).last_error or {})["code"] == "NOT_FOUND"


async def test_where_no_more_may_wait_it_is_tried_until_the_next_occurrence(
    open_office: OpenOffice, time: HandTime
) -> None:
    office = await open_office(pending_max=1)
    await office.draw("report")
    await office.scheduler.look_once()  # it is up from here
    await office.schedule("hourly", every="1h", missed="skip")
    filling = await office.workflows.execute_workflow("report", None, tenant_id=TENANT)
    time.now = MIDNIGHT + HOUR
    await office.look()
    hindered = await shown(office, "hourly")

    await office.workflows.cancel_run(filling.instance_id, tenant_id=TENANT, reason="to make room")
    other = await open_office(pending_max=5)
    time.now += SECOND
    await other.look()

    assert (hindered.last_error or {})["code"] == "TOO_MANY_PENDING"
    assert hindered.next_at == MIDNIGHT + HOUR
    assert (await shown(office, "hourly")).last_at == MIDNIGHT + HOUR


class Unlucky:
    """A starter that the database does not answer, until it does."""

    def __init__(self) -> None:
        self.is_away = True
        self.office: Office | None = None

    async def start_triggered_run(self, *arguments: Any, **options: Any) -> Any:
        if self.is_away:
            raise StoreUnavailable("the database is away")
        assert self.office is not None
        return await self.office.workflows.start_triggered_run(*arguments, **options)


async def test_an_outage_hinders_and_loses_nothing(open_office: OpenOffice, time: HandTime) -> None:
    starter = Unlucky()
    office = starter.office = await open_office(starter=starter)
    await office.draw("report")
    await office.scheduler.look_once()
    await office.schedule("hourly", every="1h", missed="skip")
    time.now = MIDNIGHT + HOUR
    with pytest.raises(StoreUnavailable):
        await office.look()

    starter.is_away = False
    time.now += 20 * MINUTE
    await office.look()

    assert (await shown(office, "hourly")).last_at == MIDNIGHT + HOUR, "skip is for what nobody was there for"


async def test_one_that_makes_up_for_much_does_not_make_others_late(office: Office, time: HandTime) -> None:
    await office.schedule("often", every="1m", missed="all")
    await office.schedule("daily", every="1d")
    time.now = MIDNIGHT + DAY
    has_more = await office.scheduler.look_once()

    assert has_more
    assert (await shown(office, "daily")).last_at == MIDNIGHT + DAY
    assert len(await office.runs()) < 50


class Interrupted:
    """A starter after whose first start something else happens before the schedule is moved on."""

    def __init__(self, office: Office, happens: Callable[[], Awaitable[object]]) -> None:
        self._office = office
        self._happens = happens

    async def start_triggered_run(self, *arguments: Any, **options: Any) -> Any:
        run = await self._office.workflows.start_triggered_run(*arguments, **options)
        await self._happens()
        return run


async def test_an_occurrence_that_was_started_gets_no_second_run_of_another_workflow(
    office: Office, open_office: OpenOffice, time: HandTime
) -> None:
    async def change_and_crash() -> None:
        document = {"name": "hourly", "workflow": "other", "every": "1h"}
        await office.schedules.update_schedule("hourly", document, tenant_id=TENANT)
        raise StoreUnavailable("as if it had crashed")

    await office.draw("other")
    await office.schedule("hourly", every="1h")
    dying = await open_office(starter=Interrupted(office, change_and_crash))
    time.now = MIDNIGHT + HOUR
    with pytest.raises(StoreUnavailable):
        await dying.look()
    await office.look()

    assert len(await office.runs()) == 1
    assert (await shown(office, "hourly")).next_at == MIDNIGHT + 2 * HOUR


async def test_a_process_that_lags_behind_does_not_move_a_schedule_back(
    office: Office, open_office: OpenOffice, time: HandTime
) -> None:
    async def time_passes() -> None:
        time.now = MIDNIGHT + 3 * HOUR
        await office.look()

    await office.schedule("hourly", every="1h", missed="all")
    lagging = await open_office(starter=Interrupted(office, time_passes))
    time.now = MIDNIGHT + HOUR
    await lagging.scheduler.look_once()

    assert (await shown(office, "hourly")).next_at == MIDNIGHT + 4 * HOUR
    assert len(await office.runs()) == 3


async def test_a_deleted_schedule_starts_nothing(office: Office, time: HandTime) -> None:
    await office.schedule("hourly", every="1h")
    await office.schedules.delete_schedule("hourly", tenant_id=TENANT)
    time.now = MIDNIGHT + HOUR
    await office.look()
    assert await office.runs() == []


def die_after_a_start(database_url: str, now: int) -> int:
    """Run a process that kills itself after its first start; its exit code."""
    command = [sys.executable, "-m", "tests.triggers.dying", database_url, str(now)]
    return subprocess.run(command, check=False, timeout=120).returncode


class Broken:
    """A starter with a fault, until it is mended."""

    def __init__(self) -> None:
        self.tries = 0
        self.office: Office | None = None

    async def start_triggered_run(self, *arguments: Any, **options: Any) -> Any:
        self.tries += 1
        if self.office is None:
            raise RuntimeError("a fault")
        return await self.office.workflows.start_triggered_run(*arguments, **options)


async def test_a_fault_that_repeats_is_told_once_and_tried_until_it_is_mended(
    open_office: OpenOffice, time: HandTime, caplog: pytest.LogCaptureFixture
) -> None:
    starter = Broken()
    office = await open_office(starter=starter)
    await office.draw("report")
    await office.scheduler.look_once()
    await office.schedule("hourly", every="1h", missed="skip")
    time.now = MIDNIGHT + HOUR
    for _ in range(3):
        await office.look()
        time.now += SECOND

    assert starter.tries == 3, "each look tries"
    told = [record for record in caplog.records if "could not start its run" in record.message]
    assert len(told) == 1, "who reads the log has read it"
    assert "a fault" in (((await shown(office, "hourly")).last_error) or {})["message"]

    starter.office = office
    await office.look()
    hourly = await shown(office, "hourly")
    assert (hourly.last_at, hourly.last_error) == (MIDNIGHT + HOUR, None)


class Looks:
    """A clock that lets a scheduler look so many times, and then no more."""

    def __init__(self, number: int) -> None:
        self.left = number
        self.over = asyncio.Event()

    def now(self) -> int:
        return MIDNIGHT

    async def sleep(self, delay_ms: float) -> None:
        self.left -= 1
        if self.left == 0:
            self.over.set()
            await asyncio.Event().wait()


async def test_an_outage_is_told_once_each_time_and_a_fault_of_a_look_stops_nothing(
    office: Office, time: HandTime, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "anabranch")
    away = StoreUnavailable("away")
    answers: list[Exception | None] = [away, away, RuntimeError("a fault"), None, away, away, away, None]

    class Saved:
        async def due_schedules(self, **options: Any) -> list[Schedule]:
            answer = answers.pop(0)
            if answer is not None:
                raise answer
            return []

    looks = Looks(len(answers))
    scheduler = Scheduler(saved=cast(Any, Saved()), starter=office.workflows, clock=cast(Any, looks), store_now=time)
    await scheduler.start()
    await looks.over.wait()
    await scheduler.stop()

    assert [record.levelname for record in caplog.records] == ["WARNING", "ERROR", "WARNING"]
    assert answers == []

"""Schedules as people save them: what is refused, what stays, whose they are."""

from __future__ import annotations

import json
import uuid
from dataclasses import replace
from typing import Any

import pytest

from anabranch.audit.audit_table import AuditTable
from anabranch.engine.rules.instants import to_iso
from anabranch.errors import InvalidRequest, LimitReached, NameTaken, NotFound
from anabranch.triggers.schedules.schedule_documents import schedule_as_json
from anabranch.triggers.schedules.schedule_table import ScheduleTable
from anabranch.triggers.schedules.scheduler import occurrence_key
from tests.triggers.services import DAY, HOUR, MIDNIGHT, MINUTE, TENANT, HandTime, Office

HOURLY = {"name": "hourly", "workflow": "report", "cron": "0 * * * *"}


async def create(office: Office, document: Any, *, tenant_id: str = TENANT) -> dict[str, Any]:
    return schedule_as_json(await office.schedules.create_schedule(document, tenant_id=tenant_id))


async def test_a_schedule_is_shown_as_it_was_saved_with_its_defaults(office: Office) -> None:
    saved = await create(office, HOURLY)
    assert {key: value for key, value in saved.items() if key not in ("scheduleID", "createdAt", "updatedAt")} == {
        "name": "hourly",
        "workflow": "report",
        "version": None,
        "kind": "cron",
        "cron": "0 * * * *",
        "timezone": "UTC",
        "every": None,
        "input": None,
        "missed": "one",
        "enabled": True,
        "nextAt": "2026-06-01T01:00:00.000+00:00",
        "lastAt": None,
        "lastInstanceID": None,
        "lastError": None,
        "nodeID": None,
    }
    found = await office.schedules.get_schedule(saved["scheduleID"], tenant_id=TENANT)
    assert schedule_as_json(found) == saved
    assert [schedule_as_json(each) for each in await office.schedules.list_schedules(tenant_id=TENANT)] == [saved]


async def test_what_was_read_can_be_changed_and_saved_again(office: Office) -> None:
    saved = await create(office, HOURLY)
    saved |= {"cron": "30 12 * * *", "timezone": "Asia/Kolkata", "missed": "all", "input": {"a": None}}
    changed = schedule_as_json(await office.schedules.update_schedule("hourly", saved, tenant_id=TENANT))
    assert changed == saved | {"nextAt": "2026-06-01T07:00:00.000+00:00", "updatedAt": changed["updatedAt"]}


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        ({"cron": "61 * * * *"}, [("BAD_CRON", "/cron")]),
        ({"cron": "* * * *"}, [("BAD_CRON", "/cron")]),
        ({"cron": "0 " * 100}, [("BAD_CRON", "/cron")]),
        ({"cron": "* * * * * \x00"}, [("BAD_CRON", "/cron")]),
        ({"cron": "0 0 30 2 *"}, [("BAD_CRON", "/cron")]),
        ({"timezone": "Mars/Olympus"}, [("BAD_TIMEZONE", "/timezone")]),
        ({"cron": None}, [("BAD_TIMING", "/cron")]),
        ({"every": "1m"}, [("BAD_TIMING", "/cron")]),
        ({"kind": "interval"}, [("BAD_TIMING", "/every")]),
        ({"kind": "yearly"}, [("WRONG_VALUE", "/kind")]),
        ({"cron": None, "every": "999ms"}, [("BAD_INTERVAL", "/every")]),
        ({"cron": None, "every": "soon"}, [("BAD_INTERVAL", "/every")]),
        ({"missed": "maybe", "enabled": 1, "version": 0},
         [("WRONG_TYPE", "/version"), ("WRONG_VALUE", "/missed"), ("WRONG_TYPE", "/enabled")]),
        ({"workflow": "nothing"}, [("NOT_FOUND", "/workflow")]),
        ({"version": 9}, [("NOT_FOUND", "/workflow")]),
        ({"name": ""}, [("WRONG_TYPE", "/name")]),
        ({"name": "x" * 65}, [("BAD_NAME", "/name")]),
        ({"color": "red"}, [("UNKNOWN_FIELD", "/color")]),
        ({"input": float("nan")}, [("INVALID_INPUT", "/input")]),
    ],
)  # fmt: skip
async def test_what_makes_no_sense_is_refused_with_its_place(
    office: Office, change: dict[str, Any], wrong: list[tuple[str, str]]
) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        await create(office, HOURLY | change)
    assert [(each["code"], each["pointer"]) for each in refusal.value.details] == wrong
    assert await office.schedules.list_schedules(tenant_id=TENANT) == []


async def test_names_are_unique_within_a_tenant(office: Office) -> None:
    await create(office, HOURLY)
    with pytest.raises(NameTaken):
        await create(office, HOURLY)
    await office.draw("report", tenant_id="other")
    await create(office, HOURLY, tenant_id="other")


async def test_another_tenants_schedules_read_as_absent(office: Office) -> None:
    schedule_id = (await create(office, HOURLY))["scheduleID"]
    for key in (schedule_id, "hourly"):
        with pytest.raises(NotFound):
            await office.schedules.get_schedule(key, tenant_id="other")
        with pytest.raises(NotFound):
            await office.schedules.delete_schedule(key, tenant_id="other")
    assert await office.schedules.list_schedules(tenant_id="other") == []
    with pytest.raises(InvalidRequest):
        await create(office, HOURLY, tenant_id="other")


async def test_a_new_name_or_input_does_not_move_what_is_due(office: Office, time: HandTime) -> None:
    await create(office, HOURLY)
    time.now = MIDNIGHT + HOUR
    document = HOURLY | {"name": "renamed", "input": 1}
    await office.schedules.update_schedule("hourly", document, tenant_id=TENANT)
    await office.look()
    assert len(await office.runs()) == 1


async def test_another_timing_begins_now(office: Office, time: HandTime) -> None:
    await create(office, HOURLY)
    time.now = MIDNIGHT + HOUR + MINUTE
    document = {"name": "hourly", "workflow": "report", "every": "7m"}
    changed = await office.schedules.update_schedule("hourly", document, tenant_id=TENANT)
    assert (changed.kind, changed.next_at) == ("interval", time.now + 7 * MINUTE)


async def test_a_tenant_has_so_many_schedules_and_no_more(office: Office) -> None:
    saved = ScheduleTable(office.store)
    await create(office, HOURLY)
    known = await office.schedules.get_schedule("hourly", tenant_id=TENANT)
    await saved.save_schedule(known, count_max=1)
    with pytest.raises(LimitReached):
        await saved.save_schedule(replace(known, schedule_id=str(uuid.uuid4()), name="second"), count_max=1)


# -- now, and what has passed -------------------------------------------------------------
async def test_a_schedule_is_triggered_beside_its_occurrences(office: Office, time: HandTime) -> None:
    schedule = await create(office, {**HOURLY, "input": {"a": 1}, "enabled": False})
    first = await office.schedules.trigger_now("hourly", tenant_id=TENANT, idempotency_key="k" * 255)
    again = await office.schedules.trigger_now("hourly", tenant_id=TENANT, idempotency_key="k" * 255)
    other = await office.schedules.trigger_now("hourly", tenant_id=TENANT)
    assert (first.created, again.created, other.created) == (True, False, True)
    assert first.instance_id == again.instance_id != other.instance_id
    run = await office.workflows.get_run(first.instance_id, tenant_id=TENANT)
    assert (run["name"], run["input"]) == ("report", {"a": 1})
    shown = schedule_as_json(await office.schedules.get_schedule("hourly", tenant_id=TENANT))
    assert shown == schedule, "what is due, and what was started last, stays as it is"
    with pytest.raises(NotFound):
        await office.schedules.trigger_now("hourly", tenant_id="other")


async def test_who_triggers_and_backfills_is_on_record(office: Office, time: HandTime) -> None:
    schedule = await create(office, HOURLY)
    await office.schedules.trigger_now("hourly", tenant_id=TENANT, actor="key_1")
    time.now = MIDNIGHT + 3 * HOUR
    since = MIDNIGHT + MINUTE
    await office.schedules.backfill("hourly", tenant_id=TENANT, since=since, until=time.now, actor="key_1")
    await office.schedules.trigger_now("hourly", tenant_id=TENANT)  # nobody's
    rows = list(reversed(await AuditTable(office.store).list_rows(tenant_id=TENANT, limit=10, before=None)))
    assert [(row.actor, row.action, row.target, json.loads(row.details)) for row in rows] == [
        ("key_1", "schedule.triggered", schedule["scheduleID"], {"name": "hourly"}),
        (
            "key_1",
            "schedule.backfilled",
            schedule["scheduleID"],
            {"name": "hourly", "from": to_iso(since), "to": to_iso(time.now), "occurrences": 2},
        ),
    ]


async def test_a_backfill_gives_each_occurrence_its_one_run(office: Office, time: HandTime) -> None:
    schedule = await create(office, HOURLY)
    time.now = MIDNIGHT + 5 * HOUR + MINUTE
    await office.look()  # one run for what was missed: that of the latest occurrence
    (own,) = await office.runs()
    filled = await office.schedules.backfill("hourly", tenant_id=TENANT, since=MIDNIGHT - HOUR, until=time.now)
    assert [at - MIDNIGHT for at, _ in filled] == [number * HOUR for number in range(-1, 6)]
    assert [run.created for _, run in filled] == [True] * 6 + [False]
    assert filled[-1][1].instance_id == own["instanceID"]
    again = await office.schedules.backfill("hourly", tenant_id=TENANT, since=MIDNIGHT - HOUR, until=time.now)
    assert [(at, run.instance_id) for at, run in again] == [(at, run.instance_id) for at, run in filled]
    assert await office.keys() == sorted(occurrence_key(schedule["scheduleID"], at) for at, _ in filled)
    half = await office.schedules.backfill("hourly", tenant_id=TENANT, since=MIDNIGHT, until=MIDNIGHT + HOUR)
    assert [at for at, _ in half] == [MIDNIGHT], "the end is not part of the range"


async def test_what_is_backfilled_before_it_is_looked_for_is_not_started_again(office: Office, time: HandTime) -> None:
    await create(office, {**HOURLY, "missed": "all"})
    time.now = MIDNIGHT + 3 * HOUR
    await office.schedules.backfill("hourly", tenant_id=TENANT, since=MIDNIGHT + 1, until=time.now)
    await office.look()
    assert len(await office.runs()) == 3


@pytest.mark.parametrize(
    ("since", "until", "wrong"),
    [
        (HOUR, HOUR, ["EMPTY_RANGE"]),
        (2 * HOUR, HOUR, ["EMPTY_RANGE"]),
        (0, 3 * DAY + 1, ["IN_THE_FUTURE"]),
        (-1_001 * MINUTE, 0, ["TOO_MANY_OCCURRENCES"]),
    ],
)
async def test_a_range_that_makes_no_sense_starts_nothing(
    office: Office, time: HandTime, since: int, until: int, wrong: list[str]
) -> None:
    await create(office, {**HOURLY, "cron": "* * * * *", "enabled": False})
    time.now = MIDNIGHT + 3 * DAY
    with pytest.raises(InvalidRequest) as refused:
        await office.schedules.backfill("hourly", tenant_id=TENANT, since=MIDNIGHT + since, until=MIDNIGHT + until)
    assert [problem["code"] for problem in refused.value.details] == wrong
    assert await office.runs() == []
    most = await office.schedules.backfill("hourly", tenant_id=TENANT, since=MIDNIGHT - 1_000 * MINUTE, until=MIDNIGHT)
    assert len(most) == 1_000

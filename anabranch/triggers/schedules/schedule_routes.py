"""Routes of schedules, with their request and response models."""

# ruff: noqa: N815 -- the wire's names are camelCase
from __future__ import annotations

from typing import Any, Literal

from pydantic import AwareDatetime, Field

from anabranch.engine.rules.values import KEY_CHARACTERS_MAX
from anabranch.errors import (
    ArmedByNode,
    InvalidInput,
    LimitReached,
    NameTaken,
    NoManualStart,
    NotFound,
    ShuttingDown,
    TooManyPending,
)
from anabranch.keys.access import Role
from anabranch.rest.bodies import checked
from anabranch.rest.lists import page_by_name
from anabranch.rest.models.base import DayOrInstant, Form, ListModel, Name, Page, RequestModel, ResponseModel
from anabranch.rest.models.run_models import StartedRunModel
from anabranch.rest.routes.route import Checked, Header, Reply, RouteCall, RouteTable
from anabranch.triggers.schedules.schedule_documents import backfill_as_json, schedule_as_json


class ScheduleForm(Form):
    """A schedule as it is saved: `cron` or `every`."""

    name: Name
    workflow: str = Field(min_length=1, description="Id or name.")
    kind: Literal["cron", "interval"] | None = Field(None, description="Follows from `cron` or `every`.")
    cron: str | None = Field(None, description="Five fields: minute, hour, day, month, weekday.")
    timezone: str | None = Field(None, description="IANA name, for `cron`; UTC if not given.")
    every: str | int | None = Field(None, description="A duration of at least 1 s.")
    version: int | None = None
    input: Any = None
    missed: Literal["skip", "one", "all"] | None = None
    enabled: bool | None = None


class Trigger(RequestModel):
    """No options: the input comes from the schedule."""


class Backfill(RequestModel):
    """A range of time whose occurrences are to have runs."""

    since: DayOrInstant = Field(alias="from", description="From this time on; a date starts at midnight UTC.")
    until: DayOrInstant = Field(alias="to", description="Before this time, which must not be in the future.")


class ScheduleSummary(ResponseModel):
    """A schedule."""

    scheduleID: str
    name: str
    workflow: str = Field(description="Name or id, as it was written.")
    version: int | None = Field(description="Null: the active one of the time.")
    kind: Literal["cron", "interval"]
    cron: str | None
    timezone: str
    every: str | None
    input: Any
    missed: Literal["skip", "one", "all"]
    enabled: bool
    nextAt: AwareDatetime | None
    lastAt: AwareDatetime | None
    lastInstanceID: str | None = Field(description="The run that was started last.")
    lastError: dict[str, Any] | None = Field(description="Why the latest occurrence has not started.")
    createdAt: AwareDatetime
    updatedAt: AwareDatetime
    nodeID: str | None = Field(description="The node that has armed it: change it in the workflow, not here.")


class BackfilledRun(ResponseModel):
    """The run of an occurrence."""

    occurrenceAt: AwareDatetime
    instanceID: str
    created: bool = Field(description="False: the occurrence had this run already.")


class BackfilledRuns(ResponseModel):
    """The occurrences of the range, in their order, with their runs."""

    items: list[BackfilledRun]


class ScheduleList(ListModel[ScheduleSummary]):
    """All schedules of the tenant."""


_TRIGGER_KEY = Header("Idempotency-Key", "A repeated key returns the first run.", KEY_CHARACTERS_MAX)


ROUTES = RouteTable("triggers")
_OF_SCHEDULE = ROUTES.below("/v1/schedules/{schedule}", errors=(NotFound,))


@ROUTES.get("/v1/schedules", Role.VIEWER, {200: ScheduleList}, query=Page)
async def list_schedules(call: RouteCall) -> Reply:
    """List the schedules, by name.

    By name, with what is due next and how the last start went.
    """
    found = await call.services.schedules.list_schedules(tenant_id=call.tenant_id)
    return Reply(page_by_name([schedule_as_json(each) for each in found], call.query, "schedules"))


@ROUTES.post(
    "/v1/schedules", Role.EDITOR, {201: ScheduleSummary}, body=Checked(ScheduleForm), errors=(NameTaken, LimitReached)
)
async def create_schedule(call: RouteCall) -> Reply:
    """Save a schedule.

    Cron with a time zone, or an interval; its first occurrence is later than now.
    """
    made = await call.services.schedules.create_schedule(call.body, tenant_id=call.tenant_id, actor=call.actor)
    return Reply(schedule_as_json(made), 201, {"Location": f"/v1/schedules/{made.schedule_id}"})


@_OF_SCHEDULE.get("", Role.VIEWER, {200: ScheduleSummary})
async def get_schedule(call: RouteCall) -> Reply:
    """Read a schedule.

    `{schedule}` is an id or a name.
    """
    found = await call.services.schedules.get_schedule(call.path["schedule"], tenant_id=call.tenant_id)
    return Reply(schedule_as_json(found))


@_OF_SCHEDULE.put("", Role.EDITOR, {200: ScheduleSummary}, body=Checked(ScheduleForm), errors=(NameTaken, ArmedByNode))
async def update_schedule(call: RouteCall) -> Reply:
    """Replace a schedule.

    The schedule is replaced as a whole; fields that the document leaves out get their defaults.
    """
    saved = await call.services.schedules.update_schedule(
        call.path["schedule"], call.body, tenant_id=call.tenant_id, actor=call.actor
    )
    return Reply(schedule_as_json(saved))


@_OF_SCHEDULE.delete("", Role.EDITOR, {204: None}, errors=(ArmedByNode,))
async def delete_schedule(call: RouteCall) -> Reply:
    """Delete a schedule.

    Runs that it has started continue.
    """
    await call.services.schedules.delete_schedule(call.path["schedule"], tenant_id=call.tenant_id, actor=call.actor)
    return Reply(status=204)


@_OF_SCHEDULE.post(
    "/trigger",
    Role.OPERATOR,
    {201: StartedRunModel, 200: StartedRunModel},
    body=Trigger,
    body_required=False,
    headers=(_TRIGGER_KEY,),
    errors=(InvalidInput, NoManualStart, TooManyPending, ShuttingDown),
)
async def trigger_schedule(call: RouteCall) -> Reply:
    """Start a run of a schedule now.

    The run is started beside its occurrences, which do not change, even while it is disabled. 200 if the key was
    used before.
    """
    started = await call.services.schedules.trigger_now(
        call.path["schedule"],
        tenant_id=call.tenant_id,
        idempotency_key=call.headers.get("Idempotency-Key"),
        actor=call.actor,
    )
    return Reply(
        {"instanceID": started.instance_id, "status": started.status.value},
        201 if started.created else 200,
        {"Location": f"/v1/runs/{started.instance_id}"},
    )


@_OF_SCHEDULE.post(
    "/backfill",
    Role.OPERATOR,
    {200: BackfilledRuns},
    body=Checked(Backfill),
    errors=(InvalidInput, NoManualStart, TooManyPending, ShuttingDown),
)
async def backfill_schedule(call: RouteCall) -> Reply:
    """Start the runs of occurrences that have passed and have none.

    Each occurrence has one run: those that have one keep it, so the call may be repeated.
    """
    schedule = await call.services.schedules.get_schedule(call.path["schedule"], tenant_id=call.tenant_id)
    asked = checked(call.body, Backfill)
    started = await call.services.schedules.backfill(
        schedule.schedule_id, tenant_id=call.tenant_id, since=asked.since, until=asked.until, actor=call.actor
    )
    return Reply(backfill_as_json(started))

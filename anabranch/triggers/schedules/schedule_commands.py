"""`anabranch schedules`: create, list, trigger, backfill and delete schedules."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from anabranch.cli.options import (
    CLI_ACTOR,
    DatabaseOptions,
    Input,
    WorkflowName,
    read_instant,
    read_value,
)
from anabranch.cli.output import counted, print_answer, print_document, print_line, print_table
from anabranch.cli.session import open_session
from anabranch.deferred import deferred

if TYPE_CHECKING:
    from anabranch.triggers.schedules import schedule_documents
else:
    schedule_documents = deferred("anabranch.triggers.schedules.schedule_documents")

family = typer.Typer(
    help="Schedules: create, list, trigger, backfill, delete. Workers start their runs.", no_args_is_help=True
)

ScheduleName = Annotated[str, typer.Argument(metavar="SCHEDULE", help="Name or id of a schedule.")]


@family.command("create")
def create(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What the schedule is called.")],
    workflow: WorkflowName,
    *,
    cron: Annotated[str | None, typer.Option("--cron", metavar="EXPRESSION", help="Such as `0 9 * * MON-FRI`.")] = None,
    timezone: Annotated[
        str | None, typer.Option("--timezone", metavar="ZONE", help="Of the cron expression; UTC without it.")
    ] = None,
    every: Annotated[str | None, typer.Option("--every", metavar="DURATION", help="At least 1s, such as 15m.")] = None,
    input_: Input = None,
    missed: Annotated[
        str | None, typer.Option("--missed", metavar="skip|one|all", help="What is made up for; `one` without it.")
    ] = None,
    version: Annotated[
        int | None, typer.Option("--version", metavar="NUMBER", help="Always this one, not the active one.")
    ] = None,
    disabled: Annotated[bool, typer.Option("--disabled", help="Save it, and start nothing yet.")] = False,
    at: DatabaseOptions,
) -> None:
    """Start a workflow at the times of a cron expression, or again and again."""
    session = open_session(at)
    document = {
        "name": name,
        "workflow": workflow,
        "cron": cron,
        "timezone": timezone,
        "every": every,
        "input": read_value(input_, what="--input", default=None),
        "missed": missed,
        "version": version,
        "enabled": not disabled,
    }
    saved = session.ask_services(
        lambda services: services.schedules.create_schedule(document, tenant_id=session.tenant, actor=CLI_ACTOR)
    )
    shown = schedule_documents.schedule_as_json(saved)
    if at.as_json:
        print_document(shown)
    elif saved.enabled:
        print_line(f"schedule {saved.name} is saved; it starts {saved.workflow} next at {shown['nextAt']}")
    else:
        print_line(f"schedule {saved.name} is saved, and disabled")


@family.command("list")
def list_schedules(*, at: DatabaseOptions) -> None:
    """Names, workflows and when they are due."""
    session = open_session(at)
    saved = session.ask_services(lambda services: services.schedules.list_schedules(tenant_id=session.tenant))
    documents = [schedule_documents.schedule_as_json(schedule) for schedule in saved]
    if at.as_json:
        print_document({"items": documents, "nextCursor": None})
        return
    columns = ("name", "workflow", "cron", "every", "timezone", "enabled", "nextAt", "lastAt")
    print_table((*columns, "lastError"), [[each[column] for column in columns] + [_code(each)] for each in documents])


@family.command("trigger")
def trigger(
    schedule: ScheduleName,
    *,
    key: Annotated[str | None, typer.Option("--key", help="Idempotency key: a repeat returns the first run.")] = None,
    at: DatabaseOptions,
) -> None:
    """Start a run now, beside the occurrences; a worker advances it."""
    session = open_session(at)
    started = session.ask_services(
        lambda services: services.schedules.trigger_now(
            schedule, tenant_id=session.tenant, idempotency_key=key, actor=CLI_ACTOR
        )
    )
    already = "is" if started.created else "was started before and is"
    print_answer(
        {"instanceID": started.instance_id, "status": started.status},
        f"run {started.instance_id} {already} {started.status}",
        as_json=at.as_json,
    )


@family.command("backfill")
def backfill(
    schedule: ScheduleName,
    *,
    since: Annotated[str, typer.Option("--from", metavar="TIME", help="The first occurrence is then or later.")],
    until: Annotated[str, typer.Option("--to", metavar="TIME", help="The last one is before then.")],
    at: DatabaseOptions,
) -> None:
    """Start the runs of occurrences that have passed and have none; a repeat starts nothing twice."""
    first, end = read_instant(since, option="--from"), read_instant(until, option="--to")
    assert first is not None and end is not None, "both are required"
    session = open_session(at)
    started = session.ask_services(
        lambda services: services.schedules.backfill(
            schedule, tenant_id=session.tenant, since=first, until=end, actor=CLI_ACTOR
        )
    )
    document = schedule_documents.backfill_as_json(started)
    if at.as_json:
        print_document(document)
        return
    made = sum(each["created"] for each in document["items"])
    print_line(
        f"{counted(made, 'run', 'is', 'are')} started; {len(started) - made} of"
        f" {counted(len(started), 'occurrence')} had a run already"
    )
    if started:
        columns = ("occurrenceAt", "instanceID", "created")
        print_table(columns, [[each[column] for column in columns] for each in document["items"]])


@family.command("delete")
def delete(
    schedule: ScheduleName,
    *,
    at: DatabaseOptions,
) -> None:
    """Remove a schedule; the runs that it has started go on."""
    session = open_session(at)
    session.ask_services(
        lambda services: services.schedules.delete_schedule(schedule, tenant_id=session.tenant, actor=CLI_ACTOR)
    )
    print_answer({"name": schedule, "deleted": True}, f"schedule {schedule} is deleted", as_json=at.as_json)


def _code(document: dict[str, dict[str, str] | None]) -> str | None:
    error = document["lastError"]
    return None if error is None else error["code"]

"""`anabranch runs`: look at runs, start them for a worker, signal and cancel them; `repair_commands` has the others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anabranch.cli import histories
from anabranch.cli.activation_table import ActivationTable
from anabranch.cli.commands.repair_commands import bulk, fork, retry
from anabranch.cli.event_lines import event_line, shown_name
from anabranch.cli.options import (
    Input,
    Key,
    RunId,
    WorkflowName,
    read_instant,
    read_value,
)
from anabranch.cli.outcome import outcome_of, print_outcome, traceback_text
from anabranch.cli.output import counted, flush_answers, print_answer, print_document, print_line, print_table
from anabranch.cli.target import TargetOptions, open_target
from anabranch.deferred import deferred
from anabranch.engine.rules.events import Status, SuspendReason
from anabranch.engine.rules.run_filter import RunFilter
from anabranch.errors import InvalidRequest
from anabranch.run_requests import SAME_INPUT, StartedRun, StartOptions

if TYPE_CHECKING:
    from anabranch.client.gateway import Gateway
    from anabranch.histories import recorded_history
    from anabranch.service.runs import run_view
else:
    recorded_history = deferred("anabranch.histories.recorded_history")
    run_view = deferred("anabranch.service.runs.run_view")

family = typer.Typer(
    help="Runs: list, show, log, console, export, start, rerun, retry, fork, bulk, cancel, pause, resume, signal,"
    " watch.",
    no_args_is_help=True,
)

# 50 of at most 100, as over HTTP.
LIMIT_DEFAULT = 50
LIMIT_MAX = 100

ChildrenQuery = Annotated[
    bool, typer.Option("--children/--no-children", help="The runs that it awaits, too.", show_default=True)
]

# The last lines of a run are written shortly after its end.
LAST_LOOKS = 2


class ConsoleLevel(StrEnum):
    """How important a line is."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"
    CRITICAL = "critical"


# Half a second: what another process commits is on the screen within the second that everything takes effect in.
WATCH_POLL_S = 0.5


@family.command("list")
def list_runs(
    *,
    workflow: Annotated[str | None, typer.Option("--workflow", metavar="WORKFLOW", help="Only its runs.")] = None,
    status: Annotated[
        list[Status] | None, typer.Option("--status", case_sensitive=False, help="Only these; may be repeated.")
    ] = None,
    reason: Annotated[
        list[SuspendReason] | None,
        typer.Option("--reason", case_sensitive=False, help="Only suspended for one of these; may be repeated."),
    ] = None,
    since: Annotated[str | None, typer.Option("--since", metavar="TIME", help="Created then or later.")] = None,
    until: Annotated[str | None, typer.Option("--until", metavar="TIME", help="Created before then.")] = None,
    version: Annotated[int | None, typer.Option("--version", metavar="N", min=1, help="Only of this version.")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=LIMIT_MAX)] = LIMIT_DEFAULT,
    cursor: Annotated[str | None, typer.Option("--cursor", help="The nextCursor of the page before.")] = None,
    at: TargetOptions,
) -> None:
    """Runs, newest first."""
    first, end = read_instant(since, option="--since"), read_instant(until, option="--until")
    target = open_target(at)
    page = target.ask(
        lambda gateway: gateway.list_runs(
            RunFilter(
                workflow=workflow,
                statuses=status or (),
                reasons=reason or (),
                since=first,
                until=end,
                version=version,
            ),
            limit=limit,
            cursor=cursor,
        )
    )
    if at.as_json:
        print_document(page)
        return
    columns = ("instanceID", "name", "version", "status", "createdAt", "completedAt")
    print_table(columns, [[item[column] for column in columns] for item in page["items"]])
    if page["nextCursor"] is not None:
        print_line(f"more: --cursor {page['nextCursor']}")


@family.command("show")
def show(
    instance_id: RunId,
    *,
    at: TargetOptions,
) -> None:
    """One run: input, outcome, and its nodes."""
    target = open_target(at)
    table = ActivationTable()
    run = target.ask(lambda gateway: _read_run(gateway, instance_id, None if at.as_json else table))
    if at.as_json:
        print_document(run)
        return
    apart = ("nodes", "graph", "input", "output", "error")
    fields = [(name, value) for name, value in run.items() if name not in apart]
    print_table(("field", "value"), fields)
    for name in ("input", "output", "error"):
        if run[name] is not None:
            print_line(f"\n{name}:")
            print_document(_without_traceback(run[name]) if name == "error" else run[name])
    if (run["error"] or {}).get("traceback"):
        print_line(traceback_text(run["error"]))
    table.print_out()


def _without_traceback(error: dict[str, Any]) -> dict[str, Any]:
    """Without the traceback, which is printed separately."""
    return {name: value for name, value in error.items() if name != "traceback"}


async def _read_run(gateway: Gateway, instance_id: str, table: ActivationTable | None) -> dict[str, Any]:
    """A run, and all its activations in the table."""
    run = await gateway.get_run(instance_id)
    if table is None:
        return run
    if len(run["nodes"]) < run_view.NODES_SHOWN_MAX:
        table.add(run["nodes"])
        return run
    async for page in gateway.step_pages(instance_id):
        table.add(page)
    return run


@family.command("log")
def log(
    instance_id: RunId,
    *,
    after: Annotated[int, typer.Option("--after", metavar="SEQ", min=0, help="Only events after this one.")] = 0,
    at: TargetOptions,
) -> None:
    """The events of a run, in log order."""
    target = open_target(at)
    events = target.ask(lambda gateway: gateway.get_log(instance_id, after_seq=after))
    if at.as_json:
        print_document({"items": events, "nextCursor": None})
        return
    columns = ("seq", "createdAt", "eventType", "nodeID", "scope", "nodeAttempt", "nextHandle", "errorMessage")
    print_table(columns, [[event[column] or None for column in columns] for event in events])


@family.command("export")
def export(
    instance_ids: Annotated[list[str] | None, typer.Argument(metavar="[INSTANCE_ID]…", help="These runs.")] = None,
    *,
    workflow: Annotated[str | None, typer.Option("--workflow", metavar="WORKFLOW", help="Or runs of this one.")] = None,
    last: Annotated[int, typer.Option("--last", metavar="N", min=1, help="At most this many, the newest first.")] = 100,
    output: Annotated[
        Path | None,
        typer.Option("--output", metavar="FOLDER", help="A file INSTANCE_ID.json for each, in this folder."),
    ] = None,
    at: TargetOptions,
) -> None:
    """Write runs with their definitions and logs as files, for `verify` and `replay --history`."""
    if output is None and (len(instance_ids or ()) != 1 or workflow is not None):
        raise InvalidRequest("several runs need a folder", hint="Name it with --output, or name one run.")
    if bool(instance_ids) is (workflow is not None):
        raise InvalidRequest("name runs, or a workflow with --workflow", hint="`anabranch runs export --help`")
    target = open_target(at)
    written = target.ask(lambda gateway: _export(gateway, instance_ids or [], workflow, last, output))
    if output is not None and at.as_json:
        print_document({"files": written})
    elif output is not None:
        print_line(f"{counted(len(written), 'run')} in {output}")


async def _export(
    gateway: Gateway, instance_ids: list[str], workflow: str | None, last: int, output: Path | None
) -> list[str]:
    """Write each run; the names of the files."""
    written: list[str] = []
    if workflow is not None:
        instance_ids = [each async for each in histories.run_ids(gateway, RunFilter(workflow=workflow), limit=last)]
    for instance_id in instance_ids:
        document = recorded_history.as_document(await gateway.get_history(instance_id))
        if output is None:
            print_document(document)
        else:
            written.append(str(histories.write_document(output, instance_id, document)))
    return written


@family.command("console")
def console(
    instance_id: RunId,
    *,
    level: Annotated[ConsoleLevel, typer.Option("--level", case_sensitive=False, help="Only these and above.")] = (
        ConsoleLevel.DEBUG
    ),
    follow: Annotated[bool, typer.Option("--follow", help="Continue until the run has ended.")] = False,
    at: TargetOptions,
) -> None:
    """Show what handlers, steps and code nodes of a run have logged and printed."""
    target = open_target(at)
    shows = None if at.as_json else _print_lines
    lines = target.ask(lambda gateway: _read_console(gateway, instance_id, level.value, follow=follow, shows=shows))
    if at.as_json:
        print_document({"items": lines, "nextCursor": None})


def _print_lines(lines: list[dict[str, Any]]) -> None:
    for line in lines:
        origin = shown_name(line["nodeID"], line["scope"]) if line["nodeID"] else "-"
        print_line(f"{line['at']}  {line['level']:<8}  {origin}  {line['text']}")
    flush_answers()


async def _read_console(
    gateway: Gateway,
    instance_id: str,
    level: str,
    *,
    follow: bool,
    shows: Callable[[list[dict[str, Any]]], None] | None,
) -> list[dict[str, Any]]:
    """All lines; those of a run that is followed are shown as they come."""
    lines: list[dict[str, Any]] = []
    looks_left = LAST_LOOKS if follow else 1
    while looks_left:
        is_open = follow and not Status((await gateway.get_run(instance_id))["status"]).is_terminal
        page = await gateway.get_console(instance_id, after=lines[-1]["number"] if lines else 0, level=level)
        lines += page
        if shows is not None:
            shows(page)
        looks_left -= not is_open
        if looks_left:
            await asyncio.sleep(WATCH_POLL_S)
    return lines


@family.command("start")
def start(
    workflow: WorkflowName,
    *,
    input_: Input = None,
    version: Annotated[int | None, typer.Option("--version", metavar="N")] = None,
    key: Key = None,
    retention_days: Annotated[int | None, typer.Option("--retention-days", metavar="DAYS")] = None,
    available_at: Annotated[str | None, typer.Option("--available-at", metavar="TIME", help="Not before then.")] = None,
    deadline_at: Annotated[
        str | None, typer.Option("--deadline-at", metavar="TIME", help="FAILED at that time.")
    ] = None,
    at: TargetOptions,
) -> None:
    """Start a run and return at once; a worker advances it."""
    value = read_value(input_, what="--input", default={})
    options = StartOptions(
        version=version,
        idempotency_key=key,
        retention_days=retention_days,
        available_at=read_instant(available_at, option="--available-at"),
        deadline_at=read_instant(deadline_at, option="--deadline-at"),
    )
    target = open_target(at)
    _print_started(target.ask(lambda gateway: gateway.start_run(workflow, value, options)), as_json=at.as_json)


@family.command("rerun")
def rerun(
    instance_id: RunId,
    *,
    input_: Input = None,
    version: Annotated[int | None, typer.Option("--version", metavar="N", help="Else the run's own.")] = None,
    key: Key = None,
    at: TargetOptions,
) -> None:
    """Start a new run like this one: with its input, unless --input gives another."""
    value = read_value(input_, what="--input", default=SAME_INPUT)
    options = StartOptions(version=version, idempotency_key=key)
    target = open_target(at)
    _print_started(
        target.ask(lambda gateway: gateway.rerun_run(instance_id, options, input_=value)), as_json=at.as_json
    )


def _print_started(started: StartedRun, *, as_json: bool) -> None:
    if as_json:
        newest = {} if started.created else {"newest": started.newest}
        print_document({"instanceID": started.instance_id, "status": started.status, **newest})
    else:
        print_line(
            f"run {started.instance_id} {'is' if started.created else 'was started before and is'} {started.status}"
        )
        if started.newest is not None:
            print_line(f"run {started.newest} repeats it")


@family.command("cancel")
def cancel(
    instance_id: RunId,
    *,
    reason: Annotated[str, typer.Option("--reason", help="Kept in the log.")] = "cancelled from the command line",
    at: TargetOptions,
) -> None:
    """Cancel a run; returns once that is committed."""
    target = open_target(at)
    status = target.ask(lambda gateway: gateway.cancel_run(instance_id, reason=reason))
    _print_status(instance_id, status, at)


def _print_status(instance_id: str, status: str, at: TargetOptions) -> None:
    print_answer({"instanceID": instance_id, "status": status}, f"run {instance_id} is {status}", as_json=at.as_json)


@family.command("pause")
def pause(instance_id: RunId, *, children: ChildrenQuery = True, at: TargetOptions) -> None:
    """Suspend a run until it is resumed; executions under way end."""
    target = open_target(at)
    status = target.ask(lambda gateway: gateway.pause_run(instance_id, children=children))
    _print_status(instance_id, status, at)


@family.command("resume")
def resume(instance_id: RunId, *, children: ChildrenQuery = True, at: TargetOptions) -> None:
    """Resume a suspended run."""
    target = open_target(at)
    status = target.ask(lambda gateway: gateway.resume_run(instance_id, children=children))
    _print_status(instance_id, status, at)


for _name, _command in (("retry", retry), ("fork", fork), ("bulk", bulk)):
    family.command(_name)(_command)


@family.command("signal")
def signal(
    instance_id: RunId,
    event: Annotated[str, typer.Argument(metavar="EVENT", help="The signal's name.")],
    *,
    payload: Annotated[str | None, typer.Option("--payload", metavar="JSON|@FILE", help="What it carries.")] = None,
    key: Annotated[str | None, typer.Option("--key", help="A repeated key is delivered once.")] = None,
    at: TargetOptions,
) -> None:
    """Send a signal to a run; it is kept until something waits for it."""
    value = read_value(payload, what="--payload", default=None)
    target = open_target(at)
    delivered = target.ask(lambda gateway: gateway.send_signal(instance_id, event, value, key=key))
    print_answer(
        {"delivered": delivered},
        f"{event} is {'delivered to a wait' if delivered else 'kept until something waits for it'}",
        as_json=at.as_json,
    )


@family.command("watch")
def watch(
    instance_id: RunId,
    *,
    at: TargetOptions,
) -> None:
    """Follow a run that another process advances, until it ends. Exits like `run`."""
    target = open_target(at)

    outcome = outcome_of(target.ask(lambda gateway: _follow(gateway, instance_id, shows_events=not at.as_json)))
    print_outcome(outcome, as_json=at.as_json, target_flags=target.flags)
    raise typer.Exit(outcome.exit_code)


async def _follow(gateway: Gateway, instance_id: str, *, shows_events: bool) -> dict[str, Any]:
    """The run, once it has ended; until then its events are printed as they come, if they are to be shown."""
    ended = asyncio.create_task(gateway.wait_for_end(instance_id))
    try:
        seen = 0
        while shows_events:
            has_ended = ended.done()  # before reading: then this page is the last one
            for entry in await gateway.get_log(instance_id, after_seq=seen):
                seen = entry["seq"]
                line = event_line(entry)
                if line is not None:
                    print_line(line)
            if has_ended:
                break
            await asyncio.wait([ended], timeout=WATCH_POLL_S)
        await ended
        return await gateway.get_run(instance_id)
    finally:
        ended.cancel()

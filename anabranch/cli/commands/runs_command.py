"""`anabranch runs`: look at runs, start them for a worker, signal and cancel them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anabranch.cli import histories
from anabranch.cli.activation_table import ActivationTable
from anabranch.cli.event_lines import event_line, shown_name
from anabranch.cli.options import (
    Input,
    RunId,
    WorkflowName,
    read_duration,
    read_instant,
    read_value,
)
from anabranch.cli.outcome import outcome_of, print_outcome, traceback_text
from anabranch.cli.output import flush_answers, print_answer, print_document, print_line, print_table
from anabranch.cli.target import TargetOptions, open_target
from anabranch.deferred import deferred
from anabranch.engine.rules.events import Status, SuspendReason
from anabranch.engine.rules.run_filter import RunFilter
from anabranch.errors import InvalidRequest
from anabranch.run_requests import SAME_INPUT, RetryOptions, StartedRun, StartOptions

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

Key = Annotated[str | None, typer.Option("--key", help="Idempotency key: a repeat answers with the first run.")]

# 50 of at most 100, as over HTTP.
LIMIT_DEFAULT = 50
LIMIT_MAX = 100

WithChildren = Annotated[
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
        raise InvalidRequest("several runs are written into a folder", hint="Name it with --output, or name one run.")
    if bool(instance_ids) is (workflow is not None):
        raise InvalidRequest("name runs, or a workflow with --workflow", hint="`anabranch runs export --help`")
    target = open_target(at)
    written = target.ask(lambda gateway: _export(gateway, instance_ids or [], workflow, last, output))
    if output is not None and at.as_json:
        print_document({"files": written})
    elif output is not None:
        print_line(f"{len(written)} runs in {output}")


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
    follow: Annotated[bool, typer.Option("--follow", help="Go on until the run has ended.")] = False,
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
        place = shown_name(line["nodeID"], line["scope"]) if line["nodeID"] else "-"
        print_line(f"{line['at']}  {line['level']:<8}  {place}  {line['text']}")
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
def pause(instance_id: RunId, *, children: WithChildren = True, at: TargetOptions) -> None:
    """Suspend a run until it is resumed; executions under way end."""
    target = open_target(at)
    status = target.ask(lambda gateway: gateway.pause_run(instance_id, children=children))
    _print_status(instance_id, status, at)


@family.command("resume")
def resume(instance_id: RunId, *, children: WithChildren = True, at: TargetOptions) -> None:
    """Resume a suspended run."""
    target = open_target(at)
    status = target.ask(lambda gateway: gateway.resume_run(instance_id, children=children))
    _print_status(instance_id, status, at)


@family.command("retry")
def retry(
    instance_id: RunId,
    *,
    reason: Annotated[str | None, typer.Option("--reason", help="Kept in the log.")] = None,
    all_failed_steps: Annotated[
        bool, typer.Option("--all-failed-steps", help="Of a coded run: not only the steps that it failed with.")
    ] = False,
    new_keys: Annotated[
        bool, typer.Option("--new-keys", help="For services that replay stored errors: other idempotency keys.")
    ] = False,
    detach: Annotated[bool, typer.Option("--detach", help="Go on although the parent does not wait any more.")] = False,
    deadline: Annotated[
        str | None, typer.Option("--deadline", metavar="DURATION", help="From now, such as 2h.")
    ] = None,
    key: Key = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would happen, and do nothing.")] = False,
    at: TargetOptions,
) -> None:
    """Continue a failed or cancelled run where it ended; completed nodes are not repeated."""
    options = RetryOptions(
        reason=reason,
        all_failed_steps=all_failed_steps,
        new_keys=new_keys,
        detach=detach,
        deadline_ms=read_duration(deadline, option="--deadline"),
        idempotency_key=key,
        dry_run=dry_run,
    )
    target = open_target(at)
    answer = target.ask(lambda gateway: gateway.retry_run(instance_id, options))
    if at.as_json:
        print_document(answer)
        return
    print_line(f"run {instance_id} {'would go on' if dry_run else 'goes on'}, generation {answer['generation']}")
    for run in (answer, *answer["children"]):
        for each in run["redo"]:
            what = shown_name(each["nodeID"], each["scope"]) if each["nodeID"] else "the function"
            below = "" if run is answer else f" of run {run['instanceID']}"
            print_line(f"  again: {what}{below}, attempt {each['attempt']}")
    for warning in answer["warnings"]:
        print_line(f"  {warning}")


@family.command("fork")
def fork(
    instance_id: RunId,
    *,
    node: Annotated[str | None, typer.Option("--node", metavar="NODE", help="This node or step runs again.")] = None,
    scope: Annotated[str | None, typer.Option("--scope", help="Of the node; else all of its activations.")] = None,
    redo: Annotated[
        list[str] | None, typer.Option("--redo", metavar="[SCOPE/]NODE", help="This one runs again, too; repeatable.")
    ] = None,
    seq: Annotated[int | None, typer.Option("--seq", help="Reuse what had ended by this row of the log.")] = None,
    version: Annotated[int | None, typer.Option("--version", metavar="N", help="Else the run's own.")] = None,
    graph: Annotated[
        str | None, typer.Option("--graph", metavar="JSON|@FILE", help="A definition that is not saved: a test run.")
    ] = None,
    input_: Input = None,
    redo_failed: Annotated[bool, typer.Option("--redo-failed", help="Handled failures run again, too.")] = False,
    rename: Annotated[
        list[str] | None, typer.Option("--rename", metavar="NEW=OLD", help="A node that was renamed; repeatable.")
    ] = None,
    no_signals: Annotated[bool, typer.Option("--no-signals", help="Signals that nothing has taken stay.")] = False,
    if_plan: Annotated[str | None, typer.Option("--if-plan", help="Only if the plan has this digest.")] = None,
    key: Key = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan, and start nothing.")] = False,
    at: TargetOptions,
) -> None:
    """Start a run that begins with the outcomes of this one, as far as they are good for it."""
    place = {"seq": seq, "nodeID": node, "scope": scope}
    asked: dict[str, Any] = {
        "at": {name: value for name, value in place.items() if value is not None} or None,
        "version": version,
        "graph": read_value(graph, what="--graph", default=None),
        "ifPlan": if_plan,
        "redo": [_place_of(each) for each in redo or ()] or None,
        "redoFailed": redo_failed or None,
        "renames": dict(_rename_of(each) for each in rename or ()) or None,
        "signals": "none" if no_signals else None,
        "dryRun": dry_run or None,
    }
    request = {name: value for name, value in asked.items() if value is not None}
    if input_ is not None:
        request["input"] = read_value(input_, what="--input", default=None)
    target = open_target(at)
    answer = target.ask(lambda gateway: gateway.fork_run(instance_id, request, key=key))
    if at.as_json:
        print_document(answer)
    elif dry_run and "plan" not in answer:
        print_line(f"no worker has called the function yet: the plan will be the output of run {answer['instanceID']}")
    elif dry_run:
        print_line(f"plan {answer['plan']}: {len(answer['reuse'])} outcomes are reused")
        for each in answer["run"]:
            why = f"{each['because']}{' ' + each['path'] if 'path' in each else ''}, effect {each['effect']}"
            print_line(f"  runs: {shown_name(each['nodeID'], each['scope'])} ({why})")
        for each in answer["undecided"]:
            print_line(f"  may run again: {shown_name(each['nodeID'], each['scope'])}")
        for each in answer["drop"]:
            print_line(f"  dropped: {shown_name(each['nodeID'], each['scope'])} ({each['because']})")
        for warning in answer["warnings"]:
            print_line(f"  {warning}")
    else:
        print_line(f"run {answer['instanceID']} is {answer['status']}")


def _place_of(text: str) -> dict[str, str]:
    """`each[3]/review` as `{nodeID, scope}`; of a step `fetch#2`; without a scope all activations."""
    scope, slash, node_id = text.rpartition("/")
    if slash:
        return {"nodeID": node_id, "scope": scope}
    name, number, call = text.partition("#")
    return {"nodeID": name, "scope": f"#{call}"} if number else {"nodeID": text}


def _rename_of(text: str) -> tuple[str, str]:
    new, equals, old = text.partition("=")
    if not (new and equals and old):
        raise typer.BadParameter(f"{text!r} is not NEW=OLD", param_hint="--rename")
    return new, old


@family.command("bulk")
def bulk(
    action: Annotated[str, typer.Argument(metavar="ACTION", help="retry, cancel, rerun, resume or signal.")],
    *,
    workflow: Annotated[str | None, typer.Option("--workflow", metavar="WORKFLOW", help="Name or id.")] = None,
    status: Annotated[
        list[Status] | None, typer.Option("--status", case_sensitive=False, help="Else those the action is for.")
    ] = None,
    since: Annotated[str | None, typer.Option("--since", metavar="TIME", help="Created then or later.")] = None,
    until: Annotated[str | None, typer.Option("--until", metavar="TIME", help="Created before then.")] = None,
    error: Annotated[str | None, typer.Option("--error", help="Failed with this code or text.")] = None,
    options: Annotated[
        str | None, typer.Option("--options", metavar="JSON", help='Such as {"event": "paid", "payload": 1}.')
    ] = None,
    key: Key = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Go through the runs, and do nothing to them.")] = False,
    at: TargetOptions,
) -> None:
    """Perform an action on many runs, and wait until that is done; a worker does it, 50 runs a second."""
    conditions = {
        "workflow": workflow,
        "status": [each.value for each in status or ()],
        "since": since,
        "until": until,
        "error": error,
    }
    request = {
        "action": action,
        "filter": {name: value for name, value in conditions.items() if value},
        "options": read_value(options, what="--options", default={}),
        "dryRun": dry_run,
    }

    async def do(gateway: Gateway) -> dict[str, Any]:
        started = await gateway.start_bulk(request, key=key)
        await gateway.wait_for_end(started["bulkID"])
        return await gateway.get_bulk(started["bulkID"])

    target = open_target(at)
    progress = target.ask(do)
    if at.as_json:
        print_document(progress)
        return
    would = "would be done to" if dry_run else "done to"
    print_line(f"{action}: {would} {progress['succeeded']} of {progress['total']} runs ({progress['bulkID']})")
    for code, runs in sorted(progress["counts"].items()):
        if code != "DONE":
            print_line(f"  {code}: {runs}")


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
    print_outcome(outcome, as_json=at.as_json, place=target.flags)
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

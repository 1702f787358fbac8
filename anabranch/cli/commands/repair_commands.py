"""`anabranch runs retry`, `fork` and `bulk`: let runs go on, start again from what they have, and do so to many."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from anabranch.cli.event_lines import read_name, shown_name
from anabranch.cli.options import Imports, Input, Key, RunId, read_duration, read_value
from anabranch.cli.output import counted, print_document, print_line, print_note
from anabranch.cli.target import TargetOptions, open_target
from anabranch.engine.rules.events import Status, SuspendReason
from anabranch.run_requests import RetryOptions

if TYPE_CHECKING:
    from anabranch.client.gateway import Gateway


# What an action does to a run.
_DONE_BY = {
    "retry": "retried",
    "cancel": "cancelled",
    "rerun": "run again",
    "resume": "resumed",
    "signal": "signalled",
}


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
    detach: Annotated[bool, typer.Option("--detach", help="Continue although the parent no longer waits.")] = False,
    deadline: Annotated[
        str | None, typer.Option("--deadline", metavar="DURATION", help="From now, such as 2h.")
    ] = None,
    key: Annotated[str | None, typer.Option("--key", help="Idempotency key: a repeat gets the first answer.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would happen without doing it.")] = False,
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
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan without starting anything.")] = False,
    imports: Imports = None,
    at: TargetOptions,
) -> None:
    """Start a run that begins with the outcomes of this one, as far as they are good for it."""
    fork_point = {"seq": seq, "nodeID": node, "scope": scope}
    asked: dict[str, Any] = {
        "at": {name: value for name, value in fork_point.items() if value is not None} or None,
        "version": version,
        "graph": read_value(graph, what="--graph", default=None),
        "ifPlan": if_plan,
        "redo": [_redo_of(each) for each in redo or ()] or None,
        "redoFailed": redo_failed or None,
        "renames": dict(_rename_of(each) for each in rename or ()) or None,
        "signals": "none" if no_signals else None,
        "dryRun": dry_run or None,
    }
    request = {name: value for name, value in asked.items() if value is not None}
    if input_ is not None:
        request["input"] = read_value(input_, what="--input", default=None)
    target = open_target(at, imports=imports)
    answer = target.ask(lambda gateway: gateway.fork_run(instance_id, request, key=key))
    if at.as_json:
        print_document(answer)
    elif dry_run and "plan" not in answer:
        print_line(f"no worker has called the function yet: the plan will be the output of run {answer['instanceID']}")
    elif dry_run:
        print_line(f"plan {answer['plan']}: {counted(len(answer['reuse']), 'outcome', 'is', 'are')} reused")
        for each in answer["run"]:
            why = f"{each['because']}{' ' + each['path'] if 'path' in each else ''}, effect {each['effect']}"
            print_line(f"  runs: {shown_name(each['nodeID'], each['scope'])} ({why})")
        for each in answer["undecided"]:
            print_line(f"  may run: {shown_name(each['nodeID'], each['scope'])} (effect {each['effect']})")
        for each in answer["drop"]:
            print_line(f"  dropped: {shown_name(each['nodeID'], each['scope'])} ({each['because']})")
        for warning in answer["warnings"]:
            print_line(f"  {warning}")
    else:
        print_line(f"run {answer['instanceID']} is {answer['status']}")


def _redo_of(text: str) -> dict[str, str]:
    """`each[3]/review` as `{nodeID, scope}`; of a step `fetch#2`; without a scope all activations."""
    node_id, scope = read_name(text)
    return {"nodeID": node_id} if scope is None else {"nodeID": node_id, "scope": scope}


def _rename_of(text: str) -> tuple[str, str]:
    new, equals, old = text.partition("=")
    if not (new and equals and old):
        raise typer.BadParameter(f"{text!r} is not NEW=OLD", param_hint="--rename")
    return new, old


def bulk(
    action: Annotated[str, typer.Argument(metavar="ACTION", help="retry, cancel, rerun, resume or signal.")],
    *,
    workflow: Annotated[str | None, typer.Option("--workflow", metavar="WORKFLOW", help="Name or id.")] = None,
    status: Annotated[
        list[Status] | None, typer.Option("--status", case_sensitive=False, help="Else those the action is for.")
    ] = None,
    since: Annotated[str | None, typer.Option("--since", metavar="TIME", help="Created then or later.")] = None,
    until: Annotated[str | None, typer.Option("--until", metavar="TIME", help="Created before then.")] = None,
    reason: Annotated[
        list[SuspendReason] | None,
        typer.Option("--reason", case_sensitive=False, help="Only suspended for one of these; may be repeated."),
    ] = None,
    version: Annotated[int | None, typer.Option("--version", metavar="N", min=1, help="Only of this version.")] = None,
    rerun_of: Annotated[
        str | None, typer.Option("--rerun-of", metavar="INSTANCE_ID", help="Only re-runs of this run.")
    ] = None,
    where: Annotated[
        list[str] | None,
        typer.Option("--where", metavar="PATH=VALUE", help="Only with this value in the input; may be repeated."),
    ] = None,
    error: Annotated[str | None, typer.Option("--error", help="Failed with this code or text.")] = None,
    options: Annotated[
        str | None, typer.Option("--options", metavar="JSON", help='Such as {"event": "paid", "payload": 1}.')
    ] = None,
    key: Annotated[
        str | None, typer.Option("--key", help="Idempotency key: a repeat returns the first bulk run.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check the runs without changing them.")] = False,
    at: TargetOptions,
) -> None:
    """Perform an action on many runs, and wait until that is done; a worker does it, 50 runs a second. Exits 1 if the
    bulk run was cancelled or has failed."""
    conditions = {
        "workflow": workflow,
        "status": [each.value for each in status or ()],
        "since": since,
        "until": until,
        "error": error,
        "reason": [each.value for each in reason or ()],
        "version": version,
        "rerunOf": rerun_of,
        "input": dict(_input_filter(each) for each in where or ()),
    }
    request = {
        "action": action,
        "filter": {name: value for name, value in conditions.items() if value},
        "options": read_value(options, what="--options", default={}),
        "dryRun": dry_run,
    }

    async def do(gateway: Gateway) -> dict[str, Any]:
        started = await gateway.start_bulk(request, key=key)
        print_note(f"bulk run {started['bulkID']} is stored; a worker performs it")
        await gateway.wait_for_end(started["bulkID"])
        return await gateway.get_bulk(started["bulkID"])

    target = open_target(at)
    progress = target.ask(do)
    has_completed = progress["status"] == "COMPLETED"
    if at.as_json:
        print_document(progress)
        raise typer.Exit(0 if has_completed else 1)
    of = counted(progress["total"] or 0, "run")
    would = f"would be {_DONE_BY[progress['action']]}" if dry_run else "done"
    print_line(f"{progress['action']}: {progress['succeeded']:,} of {of} {would} ({progress['bulkID']})")
    for code, runs in sorted(progress["counts"].items()):
        if code != "DONE":
            print_line(f"  {code}: {runs}")
    if not has_completed:
        why = f": {progress['error']['message']}" if progress["error"] else ""
        print_line(f"  the bulk run is {progress['status']}{why}")
        if under_way := progress.get("underWay", 0):  # older servers do not count them
            print_line(f"  up to {under_way} more may have been done")
        raise typer.Exit(1)


def _input_filter(given: str) -> tuple[str, str]:
    path, separator, value = given.partition("=")
    if not (path and separator):
        raise typer.BadParameter(f"{given!r} is not PATH=VALUE", param_hint="--where")
    return path, value

"""`anabranch run`: run one workflow here, from a file or by name, until it ends. Needs no server.

This process advances only its own run and its children. Ctrl-C releases the run for another
worker; `--resume` continues it at once.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anabranch.cli.options import (
    CLI_ACTOR,
    DatabaseOptions,
    Imports,
    Input,
    read_value,
)
from anabranch.cli.outcome import outcome_of, print_outcome
from anabranch.cli.output import print_document, print_note, problem_line
from anabranch.cli.program import command
from anabranch.cli.session import CommandSession, open_session
from anabranch.dataclass import dataclass
from anabranch.deferred import deferred
from anabranch.engine.rules.entry_points import START_TYPE
from anabranch.engine.rules.events import Status
from anabranch.errors import InvalidRequest, NoManualStart
from anabranch.json_input import read_workflow_file
from anabranch.run_requests import StartOptions

if TYPE_CHECKING:
    from anabranch import app
    from anabranch.cli import run_display as on_screen
    from anabranch.engine.rules import history
    from anabranch.engine.rules.events import Event
    from anabranch.engine.rules.graph import document as graph
    from anabranch.service import RunWaits, WorkflowService
else:
    app = deferred("anabranch.app")
    on_screen = deferred("anabranch.cli.run_display")
    history = deferred("anabranch.engine.rules.history")
    graph = deferred("anabranch.engine.rules.graph.document")

# As shells count: 130 after Ctrl-C, 143 after SIGTERM.
EXIT_SIGNAL_BASE = 128


@dataclass(slots=True)
class _Assignment:
    """The workflow to run, and, once known, its run."""

    session: CommandSession
    target: str | None
    is_file: bool
    document: Any
    """The content of the file, if `target` names one."""
    input_: Any
    trigger: str | None
    """The trigger that it begins at, if one is named."""
    resume: str | None
    progress: on_screen.RunDisplay | None
    instance_id: str | None = None
    stopped_by: signal.Signals = signal.SIGINT


def run(
    target: Annotated[
        str | None, typer.Argument(metavar="FILE|NAME", help="A drawn workflow as JSON, or the name of a saved one.")
    ] = None,
    *,
    input_: Input = None,
    trigger: Annotated[
        str | None,
        typer.Option(
            "--trigger",
            metavar="NODE",
            help="Begin at this trigger, with the input as its payload; without it at the start, or the only trigger.",
        ),
    ] = None,
    watch: Annotated[bool, typer.Option("--watch", help="Show each node while it runs.")] = False,
    resume: Annotated[
        str | None,
        typer.Option("--resume", metavar="INSTANCE_ID", help="Continue this run; takes its lease at once."),
    ] = None,
    imports: Imports = None,
    at: DatabaseOptions,
) -> None:
    """Run a workflow to its end. Exits 0 if it COMPLETED, 1 if it FAILED or was CANCELLED, 130 after Ctrl-C."""
    if target is None and resume is None:
        raise InvalidRequest(
            "there is nothing to run", hint="Name a file or a saved workflow, or --resume INSTANCE_ID."
        )
    if resume is not None and input_ is not None:
        raise InvalidRequest("a resumed run keeps its input", hint="Leave --input out, or start a new run.")
    if resume is not None and trigger is not None:
        raise InvalidRequest("a resumed run has begun already", hint="Leave --trigger out, or start a new run.")
    value = read_value(input_, what="--input", default={})
    is_file = target is not None and _is_file(target)
    document = read_workflow_file(str(target)) if is_file else None
    # By name a workflow is there already, unless the code that is imported declares it.
    begins = resume is None and (is_file or bool(imports))
    session = open_session(at, creates=begins, imports=imports)
    progress = None
    if watch:
        progress = on_screen.RunDisplay(stderr=at.as_json, instance_id=resume, target_flags=at.flags)
    assignment = _Assignment(session, target, is_file, document, value, trigger, resume, progress)
    try:
        outcome = outcome_of(asyncio.run(_until_stopped(assignment)))
    except (KeyboardInterrupt, asyncio.CancelledError):
        again = _how_to_resume(assignment, at, imports=imports)
        _print_interrupted(assignment, again, as_json=at.as_json)
        raise typer.Exit(EXIT_SIGNAL_BASE + assignment.stopped_by) from None
    print_outcome(outcome, as_json=at.as_json, target_flags=at.flags)
    raise typer.Exit(outcome.exit_code)


async def _until_stopped(assignment: _Assignment) -> dict[str, Any]:
    """Run it; Ctrl-C and SIGTERM unwind everything, so that the lease is released.

    Sets signal handlers explicitly, because a shell starts background processes with SIGINT ignored. A second Ctrl-C
    ends the process at once.
    """
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None

    def stop(number: signal.Signals) -> None:
        assignment.stopped_by = number
        loop.remove_signal_handler(number)
        task.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop, number)
    return await _run(assignment)


async def _run(assignment: _Assignment) -> dict[str, Any]:
    """The document of the run, once it has ended."""
    session = assignment.session
    # `only=[]`: other runs of the database are other workers' business.
    async with app.build(session.settings).open_runs(only=[], console_stream=sys.stderr) as services:
        engine, service = services.engine, services.workflows
        if assignment.progress is not None:
            engine.observers.add(assignment.progress)
        engine.observers.add(_SuspensionNotes())
        if assignment.resume is not None:
            await _check_resumed(assignment, service)
            assignment.instance_id = assignment.resume
            engine.claimer.restrict([assignment.instance_id])
            await engine.claimer.claim_once(steal=True)
        else:
            assignment.instance_id = await _start(assignment, service)
            engine.claimer.restrict([assignment.instance_id])
        await _end(assignment, services.waits)
        return await service.get_run(assignment.instance_id, tenant_id=session.tenant)


class _SuspensionNotes:
    """Says why the run, or one of its children, was suspended: otherwise the command waits without a word."""

    def committed(self, instance_id: str, events: Sequence[Event], status: Status) -> None:
        """Print the reason, message and hint of each suspension."""
        for event in events:
            suspended = history.suspension_by(event)
            if suspended is not None:
                _print_suspended(instance_id, suspended.reason, suspended.message, suspended.hint)


def _print_suspended(instance_id: str, reason: str, message: str, hint: str) -> None:
    print_note(f"run {instance_id} is SUSPENDED: {reason}: {message}")
    print_note(f"hint: {hint}")


async def _start(assignment: _Assignment, service: WorkflowService) -> str:
    target, tenant_id = assignment.target, assignment.session.tenant
    assert target is not None
    version = None
    if assignment.is_file:
        saved, report = await service.save_workflow(assignment.document, tenant_id=tenant_id, actor=CLI_ACTOR)
        for warning in report.warnings:
            print_note(f"warning {problem_line(warning.as_json())}")
        target, version = saved.workflow_id, saved.version
    found = await service.get_startable(target, tenant_id=tenant_id, version=version)
    service.check_can_run(kind=found.kind, workflow=found.name, version=found.version)
    trigger = assignment.trigger
    if trigger is None and found.kind == "drawn":
        trigger = _only_trigger(found.definition)
    # The version that was looked at: another worker may register the next one meanwhile.
    options = StartOptions(version=found.version, trigger=trigger, started_by=CLI_ACTOR)
    started = await service.execute_workflow(target, assignment.input_, options, tenant_id=tenant_id)
    return started.instance_id


def _only_trigger(definition: Mapping[str, Any]) -> str | None:
    """The trigger of a workflow that has nothing else to begin at; None: the start. Raises NoManualStart."""
    entry_points = [node for node in graph.parse(definition).entry_points if not node.disabled]
    if any(node.type == START_TYPE for node in entry_points):
        return None
    if len(entry_points) > 1:
        shown = ", ".join(f"{node.id} ({node.type})" for node in entry_points)
        message = f"the workflow has no start node, and several triggers: {shown}"
        raise NoManualStart(message, hint=f"Name the one to begin at: --trigger {entry_points[0].id}")
    return entry_points[0].id


def _is_file(target: str) -> bool:
    # A name holds neither dots nor slashes, so a mistyped path is not looked for among the names.
    return Path(target).is_file() or "." in target or "/" in target


async def _check_resumed(assignment: _Assignment, service: WorkflowService) -> None:
    """Raise unless the run exists, can run here and belongs to the named workflow; say why it is suspended, and show
    its progress so far."""
    resume, target, tenant_id = assignment.resume, assignment.target, assignment.session.tenant
    assert resume is not None
    row = await service.get_run_status(resume, tenant_id=tenant_id)
    if target is not None:
        name = _name_in(assignment.document) if assignment.is_file else target
        if name not in (row.head.workflow_name, row.head.workflow_id):
            raise InvalidRequest(
                f"run {resume} is one of {row.head.workflow_name}, not of {name}",
                hint="Leave the workflow out: `anabranch run --resume INSTANCE_ID`.",
            )
    root_id = row.head.root_id
    if root_id is not None:
        raise InvalidRequest(
            f"run {resume} is the child of another run, and is executed with it",
            hint=f"Resume the root run: `anabranch run --resume {root_id}`.",
        )
    if not row.status.is_terminal:
        head = row.head
        service.check_can_run(
            kind=head.kind, workflow=head.workflow_name, version=head.workflow_version, node_types=row.needs
        )
    if row.status is Status.SUSPENDED:
        run = await service.get_run(resume, tenant_id=tenant_id)
        if (why := run["suspended"]) is not None:  # it may have been resumed meanwhile
            _print_suspended(resume, why["reason"], why["message"], why["hint"])
    if assignment.progress is not None:
        assignment.progress.committed(resume, await service.get_events(resume, tenant_id=tenant_id), row.status)


def _name_in(document: Any) -> str:
    if not isinstance(document, dict):
        return ""
    return str(document.get("name") or graph.derive_name(str(document.get("title") or "")))


async def _end(assignment: _Assignment, waits: RunWaits) -> None:
    """Show the run until it has ended, here or in another process."""
    progress, instance_id = assignment.progress, assignment.instance_id
    assert instance_id is not None
    ended = waits.ended(instance_id, tenant_id=assignment.session.tenant)
    if progress is None:
        await ended
        return
    with progress.on_screen():
        drawing = asyncio.create_task(progress.keep_drawing())
        try:
            await ended
        finally:
            drawing.cancel()
            await asyncio.gather(drawing, return_exceptions=True)


def _how_to_resume(assignment: _Assignment, at: DatabaseOptions, *, imports: Sequence[str] | None) -> str | None:
    if assignment.instance_id is None:
        return None
    words = ["run", "--resume", assignment.instance_id]
    for name in imports or ():
        words += ["--import", name]
    return command([*words, *at.flags])


def _print_interrupted(assignment: _Assignment, again: str | None, *, as_json: bool) -> None:
    if as_json:
        print_document({"instanceID": assignment.instance_id, "interrupted": True, "resume": again})
    elif again is None:
        print_note("interrupted; no run was started")
    else:
        print_note(f"interrupted; run {assignment.instance_id} is released; another worker or --resume continues it")
        print_note(f"resume it: {again}")

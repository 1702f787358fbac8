"""`anabranch verify`: is the log of each run the one that its definition leads to?"""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator
from contextlib import redirect_stdout
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anabranch.cli.histories import HistoryFiles, find_node_types, histories_in, history_of, listed_runs
from anabranch.cli.options import Imports
from anabranch.cli.output import counted, print_document, print_line
from anabranch.cli.target import TargetOptions, open_target
from anabranch.cli.user_code import import_user_code
from anabranch.deferred import deferred
from anabranch.engine.rules.run_filter import RunFilter
from anabranch.errors import AnabranchError, InvalidRequest, LogUnreadable, NotFound

if TYPE_CHECKING:
    from anabranch.client.gateway import Gateway
    from anabranch.histories import verification
    from anabranch.histories.recorded_history import RecordedHistory
else:
    verification = deferred("anabranch.histories.verification")

EXIT_FAULTY = 1


def verify(
    instance_id: Annotated[str | None, typer.Argument(metavar="INSTANCE_ID", help="The run.")] = None,
    *,
    all_: Annotated[bool, typer.Option("--all", help="Every run of the tenant, test runs too.")] = False,
    workflow: Annotated[
        str | None, typer.Option("--workflow", metavar="WORKFLOW", help="With --all: its runs.")
    ] = None,
    history: HistoryFiles = None,
    imports: Imports = None,
    at: TargetOptions,
) -> None:
    """Derive each dispatch, skip and ending of a run again, and compare them with its log.

    Exits 1 if a log is not the one that its definition leads to. Give the code of coded runs with --import: their
    functions are called with their logs, and nothing else is executed.
    """
    if (instance_id is not None) + all_ + bool(history) != 1:
        raise InvalidRequest("name one run, or --all, or --history", hint="`anabranch verify --help`")
    for name in imports or ():
        import_user_code(name)
    if history:
        found = asyncio.run(_verified(histories_in(history)))
    else:
        target = open_target(at)
        found = target.ask(lambda gateway: _verified(_asked(gateway, instance_id, workflow)))
    if at.as_json:
        print_document(found)
    else:
        _print(found)
    raise typer.Exit(EXIT_FAULTY if found["faulty"] else 0)


async def _asked(
    gateway: Gateway, instance_id: str | None, workflow: str | None
) -> AsyncIterator[RecordedHistory | verification.RunVerification]:
    if instance_id is not None:
        yield await _read(gateway, instance_id)
        return
    for test in (False, True) if workflow is None else (False,):  # test runs are of no workflow
        async for run in listed_runs(gateway, RunFilter(workflow=workflow, test=test)):
            try:
                yield await _read(gateway, run["instanceID"], run)
            except NotFound:
                continue  # removed meanwhile


async def _read(
    gateway: Gateway, instance_id: str, listed: dict[str, Any] | None = None
) -> RecordedHistory | verification.RunVerification:
    """The history of a run; if its log cannot be read, the finding that says so. `listed`: the run as in lists."""
    try:
        return await history_of(gateway, instance_id)
    except Exception as unreadable:
        known = isinstance(unreadable, AnabranchError) and unreadable.code != AnabranchError.code
        if known and not isinstance(unreadable, LogUnreadable | InvalidRequest):
            raise
        return verification.unreadable(listed or await gateway.get_run(instance_id), unreadable)


async def _verified(
    histories: AsyncIterator[RecordedHistory] | AsyncIterator[RecordedHistory | verification.RunVerification],
) -> dict[str, Any]:
    """The printed result: counts, faulty runs with their findings, and what could not be checked in how many runs."""
    node_types = find_node_types()
    runs = rows = 0
    faulty: list[dict[str, Any]] = []
    notes: dict[str, int] = {}
    async for history in histories:
        if isinstance(history, verification.RunVerification):
            verified = history
        else:
            with redirect_stdout(
                io.StringIO()
            ):  # what a workflow function prints, it has printed when the run was executed
                verified = await verification.verify_history(history, node_types)
        runs, rows = runs + 1, rows + verified.rows
        if verified.findings:
            faulty.append(verified.as_json())
        for note in verified.notes:
            notes[note] = notes.get(note, 0) + 1
    return {
        "runs": runs,
        "rows": rows,
        "faulty": faulty,
        "notes": [{"note": note, "runs": n} for note, n in notes.items()],
    }


def _print(found: dict[str, Any]) -> None:
    for run in found["faulty"]:
        print_line(f"run {run['instanceID']} ({run['name']} {run['version']}, {run['status']}):")
        for finding in run["findings"]:
            print_line(f"  row {finding['seq']}: {finding['code']}: {finding['message']}")
    for note in found["notes"]:
        print_line(f"not checked in {counted(note['runs'], 'run')}: {note['note']}")
    faulty = len(found["faulty"])
    print_line(
        f"{counted(found['runs'], 'run')} with {counted(found['rows'], 'row')}: "
        + ("all as defined" if not faulty else f"{faulty} {'is' if faulty == 1 else 'are'} not as defined")
    )

"""`anabranch purge`: delete ended runs and workflows that no run needs, and free the space."""

from __future__ import annotations

from typing import Annotated

import typer

from anabranch.cli.options import CLI_ACTOR, DatabaseOptions
from anabranch.cli.output import counted, print_document, print_line
from anabranch.cli.session import open_session
from anabranch.engine.rules.duration import parse_duration
from anabranch.engine.rules.events import Status
from anabranch.errors import InvalidRequest
from anabranch.service.purge import PurgeConditions


def purge(
    *,
    older_than: Annotated[
        str | None,
        typer.Option("--older-than", metavar="DURATION", help="Only runs that ended longer ago than this: 30d, 12h."),
    ] = None,
    status: Annotated[
        list[Status] | None,
        typer.Option("--status", case_sensitive=False, help="Only runs with this status; may be repeated."),
    ] = None,
    workflow: Annotated[
        str | None,
        typer.Option(
            "--workflow", metavar="WORKFLOW", help="Only runs of this workflow: its name, or the id of a deleted one."
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Remove nothing; show what would be removed.")] = False,
    at: DatabaseOptions,
) -> None:
    """Delete ended runs now (without conditions those whose retention is over) and free the space.

    Orphans and deleted workflows that no run needs are deleted, too. On SQLite other processes may have to wait.
    """
    age_ms = None if older_than is None else _duration(older_than)
    session = open_session(at)
    conditions = PurgeConditions(older_than_ms=age_ms, statuses=status or (), workflow=workflow)
    report = session.ask(
        lambda app: app.open_purge(),
        lambda service: service.purge(conditions, tenant_id=session.tenant, actor=CLI_ACTOR, dry_run=dry_run),
    )
    if at.as_json:
        print_document(
            {
                "dryRun": dry_run,
                "runs": report.runs,
                "events": report.events,
                "workflows": report.workflows,
                "orphanedLogs": report.orphaned_logs,
                "orphanedVersions": report.orphaned_versions,
                "bytesBefore": report.bytes_before,
                "bytesAfter": report.bytes_after,
            }
        )
        return
    verb = "would be removed" if dry_run else "removed"
    runs, events = counted(report.runs, "run"), counted(report.events, "event")
    print_line(f"{verb}: {runs} with {events}, {counted(report.workflows, 'deleted workflow')}")
    if report.orphaned_logs or report.orphaned_versions:
        logs, versions = counted(report.orphaned_logs, "log"), counted(report.orphaned_versions, "version")
        print_line(f"{verb}: orphans: {logs}, {versions}")
    if not dry_run:
        freed = report.bytes_before - report.bytes_after
        print_line(f"freed: {freed:,} bytes; the database has {report.bytes_after:,}")


def _duration(text: str) -> int:
    try:
        return parse_duration(text)
    except ValueError as refusal:
        raise InvalidRequest(
            f"--older-than {text!r} is not a duration: {refusal}", hint="Write 30d, 12h or PT5M."
        ) from None

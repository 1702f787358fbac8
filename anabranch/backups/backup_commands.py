"""`anabranch backup` and `anabranch restore-check`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from anabranch.cli import nearby_databases
from anabranch.cli.options import AsJson, DatabaseOptions, DatabaseUrl, Imports
from anabranch.cli.output import counted, print_answer, print_document, print_line
from anabranch.cli.session import open_session
from anabranch.deferred import deferred
from anabranch.engine.rules.instants import to_iso
from anabranch.settings import Settings

if TYPE_CHECKING:
    from anabranch import migrations
    from anabranch.backups import backup as copying
    from anabranch.backups.restore_check import OpenRun, RestoreReport
else:
    migrations = deferred("anabranch.migrations")
    copying = deferred("anabranch.backups.backup")

EXIT_REPEATS = 1


def backup(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The new file; it must not exist yet.")],
    *,
    database_url: DatabaseUrl = None,
    as_json: AsJson = False,
) -> None:
    """Copy a SQLite database into one file, also while processes work on it, and check the copy.

    The copy is the state at one moment. The key of secrets is not in it (`.anabranch/secret.key`, or
    ANABRANCH_SECRET_KEY): keep it somewhere else. PostgreSQL is backed up with pg_dump.
    """
    settings = Settings.load(database_url=database_url)
    schema = migrations.current(settings.database_url, connect_wait_s=0)
    if schema is None:
        with nearby_databases.named_in_hints(settings.database_url):
            migrations.refuse_empty(settings.database_url, connect_wait_s=0)
    done = copying.back_up(settings.database_url, file)
    taken_at = to_iso(done.taken_at)
    print_answer(
        {"file": str(done.file), "bytes": done.bytes, "schema": schema, "takenAt": taken_at, "ms": done.ms},
        f"{done.file}: {done.bytes:,} bytes, the state of {taken_at}; its integrity is checked",
        as_json=as_json,
    )


def restore_check(
    *,
    suspend: Annotated[
        bool,
        typer.Option("--suspend", help="Suspend all open runs (HISTORY_LOST), until each is resumed or cancelled."),
    ] = False,
    imports: Imports = None,
    database_url: DatabaseUrl = None,
    as_json: AsJson = False,
) -> None:
    """List what would happen twice if processes were started on a restored database. Reads only.

    Run it before any process is started. Open runs go on from the state that was restored; what they did after that
    may have happened already. Exits 1 if something would happen as soon as a worker runs, 0 if not.
    """
    session = open_session(DatabaseOptions(database_url, as_json=as_json), imports=imports)
    report = session.ask(
        lambda app: app.open_restore_check(), lambda check: check.suspend() if suspend else check.check()
    )
    if as_json:
        print_document(report.as_json())
    else:
        _print(report)
    raise typer.Exit(EXIT_REPEATS if report.repeating or report.schedules or report.messages else 0)


def _print(report: RestoreReport) -> None:
    when = "an unknown time" if report.as_of is None else to_iso(report.as_of)
    print_line(
        f"the database has the state of about {when}; {counted(report.open, 'run', 'is', 'are')} open,"
        f" {report.set_aside} suspended"
    )
    for run in report.runs:
        _print_run(run)
    if report.open > len(report.runs):
        print_line(f"… and {counted(report.open - len(report.runs), 'more run')}")
    for schedule in report.schedules:
        name = schedule.trigger_id if schedule.name is None else schedule.name
        print_line(f"schedule {name} starts {schedule.workflow} again: due {to_iso(schedule.next_at)}")
    if report.messages:
        are = "is" if report.messages == 1 else "are"
        print_line(f"{counted(report.messages, 'message')} on topics {are} delivered again")
    if report.repeating:
        print_line(
            f"{counted(report.repeating, 'run', 'goes', 'go')} on as soon as a worker runs;"
            " `anabranch restore-check --suspend` sets all open runs aside"
        )
    if report.schedules or report.messages:
        print_line("`anabranch pause` keeps what schedules and messages start from running, tenant by tenant")


def _print_run(run: OpenRun) -> None:
    head = run.row.head
    key = "" if head.idempotency_key is None else f", started with the key {head.idempotency_key}"
    print_line(
        f"run {head.instance_id} {head.workflow_name} version {head.workflow_version}, tenant {head.tenant_id},"
        f" {run.row.status.value}{key}"
    )
    if run.unreadable is not None:
        print_line(f"  its log cannot be read: {run.unreadable}")
    for each in run.attempts:
        sent = "" if each["idempotencyKey"] is None else f", with the idempotency key {each['idempotencyKey']}"
        since = "" if each["since"] is None else f", since {each['since']}"
        print_line(f"  runs again: attempt {each['attempt']} of {each['name']}{since}{sent}")
    for each in run.timers:
        verb = "fires at once" if each["due"] else "fires later"
        print_line(f"  {verb}: {each['name']}, due {each['dueAt']}")
    for each in run.waits:
        what = each["childID"] if each["kind"] == "child" else each["event"]
        print_line(f"  waits for a {each['kind']} in {each['name']}: {what}")

"""`anabranch doctor`: which settings are in force, where each comes from, and can this machine work?"""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlsplit

import typer
from pydantic import SecretStr

from anabranch.cli import nearby_databases
from anabranch.cli.options import AsJson, DatabaseOptions, DatabaseUrl
from anabranch.cli.output import counted, print_document, print_line, print_table
from anabranch.cli.session import open_session
from anabranch.deferred import deferred
from anabranch.engine.rules.duration import format_duration
from anabranch.errors import AnabranchError, DatabaseMissing
from anabranch.service.data_check.data_finding import HINTS
from anabranch.settings import Settings, SettingSource, environment_name

if TYPE_CHECKING:
    from anabranch import app, migrations
else:
    app = deferred("anabranch.app")
    migrations = deferred("anabranch.migrations")

EXIT_UNREACHABLE = 1
EXIT_ABSENT = 2
EXIT_WRONG = 1

_PASSWORD_PARAMETER = re.compile(r"([?&]password=)[^&]*")


def doctor(
    *,
    data: Annotated[bool, typer.Option("--data", help="Check all stored data instead; reads only.")] = False,
    database_url: DatabaseUrl = None,
    as_json: AsJson = False,
) -> None:
    """Show each setting and its source, the sandbox of code nodes, and whether the database is available.

    Exits 1 if the database is unavailable, 2 if there is none where a setting says. With --data every run, log and
    counter of the database is checked, also while workers work on it; exits 1 if something is wrong.
    """
    if data:
        _check_data(DatabaseOptions(database_url, as_json=as_json))
        return
    settings, sources = Settings.load_with_sources(database_url=database_url)
    in_force = {field: _plain(field, getattr(settings, field)) for field in Settings.model_fields}
    in_force["database_url"] = without_password(settings.database_url)
    database, exit_code = _look_at(settings, is_chosen="database_url" in sources)
    sandbox = dict(asyncio.run(app.build(settings).probe_sandbox()))
    if as_json:
        print_document(
            {
                "settings": {environment_name(field): value for field, value in in_force.items()},
                "sources": {environment_name(field): _source_as_json(sources.get(field)) for field in in_force},
                "database": database,
                "sandbox": sandbox,
            }
        )
    else:
        rows = [(environment_name(field), value, _words(sources.get(field))) for field, value in in_force.items()]
        print_table(("setting", "value", "from"), rows)
        print_line("code nodes are sealed by: " + ", ".join(f"{layer} {state}" for layer, state in sandbox.items()))
        print_line(_database_line(database))
    raise typer.Exit(exit_code)


def _check_data(at: DatabaseOptions) -> None:
    """Check all data, and print what is wrong with it and what to do."""
    report = open_session(at).ask(lambda app: app.open_data_check(), lambda check: check.check())
    if at.as_json:
        print_document(report.as_json())
        raise typer.Exit(EXIT_WRONG if report.findings else 0)
    for finding in report.findings:
        run = "" if finding.instance_id is None else f" run {finding.instance_id}"
        row = "" if finding.seq is None else f" row {finding.seq}"
        print_line(f"{finding.fault.value}{run}{row}: {finding.message}")
    for fault in dict.fromkeys(finding.fault for finding in report.findings):
        print_line(f"hint for {fault.value}: {HINTS[fault]}")
    wrong = len(report.findings) + report.omitted
    print_line(
        f"checked {counted(report.runs, 'run')} with {counted(report.rows, 'row')}: "
        + (counted(wrong, "finding") if wrong else "nothing is wrong")
    )
    raise typer.Exit(EXIT_WRONG if wrong else 0)


def _look_at(settings: Settings, *, is_chosen: bool) -> tuple[dict[str, Any], int]:
    """The state of the database, and the exit code. A missing default database is not an error."""
    try:
        # A person is waiting: a database that does not answer soon counts as unavailable.
        schema = migrations.current(settings.database_url, connect_wait_s=0)
        if schema is None and is_chosen:
            hint = nearby_databases.hint_for(settings.database_url)
            raise DatabaseMissing(f"there is no database at {without_password(settings.database_url)}", hint=hint)
    except AnabranchError as refusal:
        database = {"reachable": False, "schema": None, "error": refusal.as_json()}
        return database, EXIT_ABSENT if isinstance(refusal, DatabaseMissing) else EXIT_UNREACHABLE
    return {"reachable": True, "schema": schema, "error": None}, 0


def without_password(url: str) -> str:
    """A database URL that may be shown."""
    password = urlsplit(url).password
    shown = url if password is None else url.replace(f":{password}@", ":***@")
    return _PASSWORD_PARAMETER.sub(r"\1***", shown)


def _words(source: SettingSource | None) -> str:
    """The source of a value, for people: the file with its whole path."""
    if source is None:
        return "default"
    return str(source) if source.path is None else f"{source.name} in {source.path.absolute()}"


def _source_as_json(source: SettingSource | None) -> dict[str, str | None]:
    if source is None:
        return {"kind": "default", "name": None, "path": None}
    path = None if source.path is None else str(source.path.absolute())
    return {"kind": source.kind, "name": source.name, "path": path}


def _plain(field: str, value: Any) -> Any:
    """A setting as it would be written down; never a secret."""
    if isinstance(value, SecretStr):
        return "***"
    if field.endswith("_ms"):
        return format_duration(value)
    return ",".join(value) if isinstance(value, tuple) else value


def _database_line(database: dict[str, Any]) -> str:
    if database["error"] is not None:
        return f"the database is unavailable: {database['error']['message']}\nhint: {database['error']['hint']}"
    if database["schema"] is None:
        return f"there is no database yet. {nearby_databases.HOW_TO_MAKE}"
    return f"the database is available; its schema is {database['schema']}"

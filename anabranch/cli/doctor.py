"""`anabranch doctor`: which settings are in force, where each comes from, and can this machine work?"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import typer
from pydantic import SecretStr

from anabranch.cli.options import AsJson, DatabaseUrl
from anabranch.cli.output import print_document, print_line, print_table
from anabranch.deferred import deferred
from anabranch.engine.rules.duration import format_duration
from anabranch.errors import AnabranchError
from anabranch.settings import Settings, environment_name

if TYPE_CHECKING:
    from anabranch import app, migrations
else:
    app = deferred("anabranch.app")
    migrations = deferred("anabranch.migrations")


def doctor(*, database_url: DatabaseUrl = None, as_json: AsJson = False) -> None:
    """Show the settings in force, what seals code nodes here, and whether the database answers. Exits 1 if not."""
    settings = Settings.load(database_url=database_url)
    in_force = {environment_name(field): _plain(field, getattr(settings, field)) for field in Settings.model_fields}
    in_force[environment_name("database_url")] = without_password(settings.database_url)
    database: dict[str, Any] = {"reachable": True, "schema": None, "error": None}
    try:
        # A person is waiting: the database answers now, or something is wrong with it.
        database["schema"] = migrations.current(settings.database_url, connect_wait_s=0)
    except AnabranchError as refusal:
        database = {"reachable": False, "schema": None, "error": refusal.as_json()}
    sandbox = dict(asyncio.run(app.build(settings).probe_sandbox()))
    if as_json:
        print_document({"settings": in_force, "database": database, "sandbox": sandbox})
    else:
        print_table(("setting", "value"), list(in_force.items()))
        print_line("code nodes are sealed by: " + ", ".join(f"{layer} {state}" for layer, state in sandbox.items()))
        print_line(_database_line(database))
    if not database["reachable"]:
        raise typer.Exit(1)


def without_password(url: str) -> str:
    """A database URL that may be shown."""
    password = urlsplit(url).password
    return url if password is None else url.replace(f":{password}@", ":***@")


def _plain(field: str, value: Any) -> Any:
    """A setting as it would be written down; never a secret."""
    if isinstance(value, SecretStr):
        return "***"
    if field.endswith("_ms"):
        return format_duration(value)
    return ",".join(value) if isinstance(value, tuple) else value


def _database_line(database: dict[str, Any]) -> str:
    if not database["reachable"]:
        return f"the database does not answer: {database['error']['message']}"
    return f"the database answers; its schema is {database['schema'] or 'not there yet: `anabranch migrate` makes it'}"

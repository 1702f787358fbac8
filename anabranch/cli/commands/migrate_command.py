"""`anabranch migrate`: bring the database to the schema that this program works with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from anabranch.cli.options import AsJson, DatabaseUrl
from anabranch.cli.output import print_document, print_line
from anabranch.deferred import deferred
from anabranch.settings import Settings

if TYPE_CHECKING:
    from anabranch import migrations
else:
    migrations = deferred("anabranch.migrations")


def migrate(
    *,
    database_url: DatabaseUrl = None,
    force: Annotated[
        bool, typer.Option("--force", help="Also while older processes run that cannot go on with the new schema.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Migrate the database to the current schema; nothing happens if it is current."""
    settings = Settings.load(database_url=database_url)
    wait_s = settings.database_wait_ms / 1000
    before = migrations.current(settings.database_url, connect_wait_s=wait_s)
    after = migrations.upgrade(settings.database_url, connect_wait_s=wait_s, force=force)
    if as_json:
        print_document({"before": before, "after": after})
    elif before == after:
        print_line(f"the schema is current ({after})")
    else:
        print_line(f"the schema is {after} now (it was {before or 'empty'})")

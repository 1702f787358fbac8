"""`anabranch dead-letters`: the jobs that no executor could take, from the database and without a server."""

from __future__ import annotations

from typing import Annotated

import typer

from anabranch.cli.options import DEFAULT_TENANT, AsJson, DatabaseOptions, DatabaseUrl
from anabranch.cli.output import print_list
from anabranch.cli.session import open_session
from anabranch.dead_letters.dead_letters import letter_as_json


def dead_letters(
    *,
    database_url: DatabaseUrl = None,
    tenant: Annotated[
        str | None, typer.Option("--tenant", metavar="TENANT", help="The tenant; all of them if not given.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the jobs of executors that the broker has set aside, the newest first."""
    session = open_session(DatabaseOptions(database_url, tenant or DEFAULT_TENANT))
    found = session.ask_services(lambda services: services.dead_letters.list_letters(tenant_id=tenant))
    columns = ("lastAt", "tenant", "runID", "nodeID", "attempt", "queue", "count", "reason")
    print_list([letter_as_json(each) for each in found], columns, as_json=as_json)

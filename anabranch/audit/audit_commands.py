"""`anabranch audit`: list who did what, and verify the trail."""

from __future__ import annotations

from typing import Annotated

import typer

from anabranch.audit.audit_log import LIMIT_DEFAULT, LIMIT_MAX
from anabranch.audit.audit_trail import audit_row_as_json, cut_at
from anabranch.cli.options import DEFAULT_TENANT, AsJson, DatabaseOptions, DatabaseUrl
from anabranch.cli.output import counted, print_document, print_line, print_table
from anabranch.cli.session import CommandSession, open_session
from anabranch.engine.rules.instants import to_iso


def audit(
    *,
    limit: Annotated[
        int, typer.Option("--limit", min=1, max=LIMIT_MAX, metavar="N", help="How many rows, the newest first.")
    ] = LIMIT_DEFAULT,
    before: Annotated[
        int | None, typer.Option("--before", metavar="POSITION", help="Only rows older than this one.")
    ] = None,
    verify: Annotated[
        bool, typer.Option("--verify", help="Check every row instead: exit 1 if one was changed.")
    ] = False,
    database_url: DatabaseUrl = None,
    tenant: Annotated[
        str | None, typer.Option("--tenant", metavar="TENANT", help="The tenant; all tenants if not given.")
    ] = None,
    as_json: AsJson = False,
) -> int:
    """List the audit trail: who changed keys, workflows, secrets and queries, and who failed to log in."""
    session = open_session(DatabaseOptions(database_url, tenant or DEFAULT_TENANT))
    if verify:
        return _verify(session, as_json=as_json)
    rows = session.ask(lambda app: app.open_audit(), lambda log: log.list(tenant, limit=limit, before=before))
    documents = [audit_row_as_json(row) for row in rows]
    if as_json:
        older = rows[-1].position if len(rows) == limit else None
        print_document({"items": documents, "nextCursor": None if older is None else str(older)})
        return 0
    columns = ("position", "at", "tenant", "actor", "action", "target", "details")
    print_table(columns, [[*(document[column] for column in columns[:-1]), row.details]
                          for document, row in zip(documents, rows, strict=True)])  # fmt: skip
    return 0


def _verify(session: CommandSession, *, as_json: bool) -> int:
    found = session.ask(lambda app: app.open_audit(), lambda log: log.verify())
    cut = None if found.cut is None else {"through": cut_at(found.cut).position, "at": to_iso(found.cut.at)}
    if as_json:
        print_document({"intact": found.broken_at is None, "rows": found.rows, "brokenAt": found.broken_at, "cut": cut})
        return 0 if found.broken_at is None else 1
    if cut is not None:
        print_line(f"rows 1 to {cut['through']} were removed by {cut['at']}: their retention was over")
    if found.broken_at is None:
        print_line(f"all {counted(found.rows, 'row', 'is', 'are')} unchanged")
    else:
        before = f"the {counted(found.rows, 'row')} before it {'is' if found.rows == 1 else 'are'} unchanged"
        print_line(f"row {found.broken_at} was changed or is missing; {before}")
    return 0 if found.broken_at is None else 1

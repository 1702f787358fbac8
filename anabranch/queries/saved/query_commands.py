"""`anabranch queries`: the saved queries of a tenant, which `dataQuery` nodes run by name."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from anabranch.cli.options import CLI_ACTOR, DatabaseOptions, read_value
from anabranch.cli.output import counted, print_answer, print_document, print_line, print_table
from anabranch.cli.session import open_session
from anabranch.errors import InvalidRequest
from anabranch.queries.saved.saved_queries import query_as_json

family = typer.Typer(help="Saved queries: add, list, show, delete, run.", no_args_is_help=True)

QueryName = Annotated[str, typer.Argument(metavar="QUERY", help="Name or id of a saved query.")]


@family.command("add")
def add(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What nodes call it.")],
    source: Annotated[str, typer.Option("--source", metavar="SOURCE", help="The data source it runs on.")],
    sql: Annotated[str, typer.Option("--sql", metavar="SQL|@FILE", help="One statement; parameters as :name.")],
    *,
    params: Annotated[
        str | None, typer.Option("--params", metavar="JSON|@FILE", help='Types of the parameters: {"id": "int"}.')
    ] = None,
    writes: Annotated[bool, typer.Option("--writes", help="It may change rows; otherwise it can only read.")] = False,
    timeout: Annotated[
        str | None, typer.Option("--timeout", metavar="DURATION", help="How long it may take; 25s if not given.")
    ] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Change an existing query.")] = False,
    at: DatabaseOptions,
) -> None:
    """Save a query."""
    session = open_session(at)
    document: dict[str, Any] = {
        "name": name,
        "dataSourceID": source,
        "sql": _sql(sql),
        "params": read_value(params, what="--params", default=None),
        "writes": writes,
        "timeout": timeout,
    }
    if replace:
        query = session.ask_data(
            lambda data: data.update_query(name, document, tenant_id=session.tenant, actor=CLI_ACTOR)
        )
    else:
        query = session.ask_data(lambda data: data.create_query(document, tenant_id=session.tenant, actor=CLI_ACTOR))
    print_answer(
        query_as_json(query),
        f"data query {query.name} is saved; its parameters: {', '.join(query.params) or 'none'}",
        as_json=at.as_json,
    )


@family.command("list")
def list_queries(*, at: DatabaseOptions) -> None:
    """Names and parameters."""
    session = open_session(at)
    queries = session.ask_data(lambda data: data.list_queries(tenant_id=session.tenant))
    if at.as_json:
        print_document({"items": [query_as_json(query) for query in queries], "nextCursor": None})
        return
    rows = [[query.name, ", ".join(query.params) or None, query.writes, query.data_query_id] for query in queries]
    print_table(("name", "params", "writes", "dataQueryID"), rows)


@family.command("show")
def show(query: QueryName, *, at: DatabaseOptions) -> None:
    """One query with its SQL."""
    session = open_session(at)
    found = session.ask_data(lambda data: data.get_query(query, tenant_id=session.tenant))
    if at.as_json:
        print_document(query_as_json(found))
        return
    print_line(found.sql)
    print_table(("param", "type", "default"), [[n, p["type"], p.get("default")] for n, p in found.params.items()])


@family.command("delete")
def delete(query: QueryName, *, at: DatabaseOptions) -> None:
    """Remove a query; nodes that name it fail with QUERY_NOT_FOUND."""
    session = open_session(at)
    session.ask_data(lambda data: data.delete_query(query, tenant_id=session.tenant, actor=CLI_ACTOR))
    print_answer({"name": query, "deleted": True}, f"data query {query} is deleted", as_json=at.as_json)


@family.command("run")
def run(
    query: QueryName,
    *,
    args: Annotated[
        str | None, typer.Option("--args", metavar="JSON|@FILE", help="A value for each parameter.")
    ] = None,
    at: DatabaseOptions,
) -> None:
    """Run a query as a node would, and print its rows."""
    session = open_session(at)
    given = read_value(args, what="--args", default={})
    if not isinstance(given, dict):
        raise InvalidRequest("--args must be a JSON object", hint="Write --args '{\"id\": 7}'.")
    answer = session.ask_data(lambda data: data.run_query(query, given, tenant_id=session.tenant))
    if at.as_json:
        print_document(dict(answer))
        return
    columns = list(answer["rows"][0]) if answer["rows"] else []
    if columns:
        print_table(columns, [[row[column] for column in columns] for row in answer["rows"]])
    print_line(counted(answer["rowCount"], "row"))


def _sql(text: str) -> str:
    if not text.startswith("@"):
        return text
    try:
        return Path(text[1:]).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as refusal:
        reason = refusal.strerror if isinstance(refusal, OSError) else "it is not UTF-8 text"
        raise InvalidRequest(f"--sql names {text[1:]}, which cannot be read: {reason}") from None

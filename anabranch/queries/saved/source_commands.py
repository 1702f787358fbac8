"""`anabranch sources`: the databases that a tenant's saved queries run on. Their URLs never come back."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from anabranch.cli.options import CLI_ACTOR, DatabaseOptions
from anabranch.cli.output import print_answer, print_document, print_line, print_list, print_note
from anabranch.cli.session import open_session
from anabranch.queries.saved.saved_queries import saved_source_as_json, source_as_json

family = typer.Typer(help="Data sources: add, list, delete.", no_args_is_help=True)

# More than any URL has: what comes through a pipe by mistake is not read to its end.
STDIN_CHARACTERS_MAX = 65_536

SourceName = Annotated[str, typer.Argument(metavar="SOURCE", help="Name or id of a data source.")]


@family.command("add")
def add(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What queries call it.")],
    url: Annotated[
        str,
        typer.Argument(metavar="URL|-", help="sqlite:///path, postgresql://… or mysql://…; - reads standard input."),
    ],
    *,
    replace: Annotated[bool, typer.Option("--replace", help="Give an existing source this URL.")] = False,
    at: DatabaseOptions,
) -> None:
    """Connect to a data source and save it. A password in a command stays in the history of the shell: use -."""
    session = open_session(at, creates=True)
    document = {"name": name, "url": sys.stdin.read(STDIN_CHARACTERS_MAX).strip() if url == "-" else url}
    if replace:
        saved = session.ask_data(
            lambda data: data.update_source(name, document, tenant_id=session.tenant, actor=CLI_ACTOR), makes_key=True
        )
    else:
        saved = session.ask_data(
            lambda data: data.create_source(document, tenant_id=session.tenant, actor=CLI_ACTOR), makes_key=True
        )
    if at.as_json:
        print_document(saved_source_as_json(saved))
    else:
        print_line(f"data source {saved.source.name} is saved: {saved.source.address}")
        for code, _, message in saved.warnings:
            print_note(f"warning: {code}: {message}")


@family.command("list")
def list_sources(*, at: DatabaseOptions) -> None:
    """Names, kinds and addresses."""
    session = open_session(at)
    sources = session.ask_data(lambda data: data.list_sources(tenant_id=session.tenant))
    documents = [source_as_json(source) for source in sources]
    print_list(documents, ("name", "kind", "address", "updatedAt", "dataSourceID"), as_json=at.as_json)


@family.command("delete")
def delete(source: SourceName, *, at: DatabaseOptions) -> None:
    """Remove a data source that no query names."""
    session = open_session(at)
    session.ask_data(lambda data: data.delete_source(source, tenant_id=session.tenant, actor=CLI_ACTOR))
    print_answer({"name": source, "deleted": True}, f"data source {source} is deleted", as_json=at.as_json)

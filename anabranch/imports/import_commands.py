"""`anabranch import`: workflows of other tools become drafts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from anabranch.cli.options import CLI_ACTOR, DatabaseOptions
from anabranch.cli.output import print_document, print_line
from anabranch.cli.session import open_session
from anabranch.errors import AnabranchError, InvalidRequest
from anabranch.json_input import read_json_file
from anabranch.n8n.exports import is_export

family = typer.Typer(help="Workflows of other tools: import them as drafts.", no_args_is_help=True)

# 2,000 files of a folder: each becomes a draft, and a tenant has at most 1,000.
FILES_MAX = 2_000


@family.callback()
def _family() -> None:
    """Workflows of other tools: import them as drafts."""


@family.command("n8n")
def import_n8n(
    path: Annotated[Path, typer.Argument(metavar="FILE|DIR", help="An export of n8n, or a folder with exports.")],
    *,
    report: Annotated[
        bool, typer.Option("--report", help="Show for every node what is the same and what is not.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Save nothing.")] = False,
    timezone: Annotated[
        str, typer.Option("--timezone", metavar="ZONE", help="Of workflows that name none: that of your n8n.")
    ] = "UTC",
    at: DatabaseOptions,
) -> None:
    """Import workflows of n8n as drafts. --report shows what differs."""
    documents = _documents(path)
    session = open_session(at, creates=True)
    made = session.ask_services(
        lambda services: services.imports.import_n8n(
            documents, tenant_id=session.tenant, timezone=timezone, save=not dry_run, actor=CLI_ACTOR
        )
    )
    if at.as_json:
        print_document({"items": [each.as_json() for each in made]})
        return
    for each in made:
        found = each.imported.report
        if report:
            for line in found.lines():
                print_line(line)
        else:
            print_line(found.summary)
        if each.draft is not None:
            print_line(f"  draft {each.draft.draft_id}")
    if not report:
        print_line("--report shows what differs, and which credentials to enter")


def _documents(path: Path) -> list[Any]:
    if not path.is_dir():
        return [read_json_file(path)]
    found: list[Any] = []
    for number, file in enumerate(sorted(path.rglob("*.json"))):
        if number >= FILES_MAX:
            raise InvalidRequest(f"{path} has more than {FILES_MAX} files; import its folders one by one")
        try:
            document = read_json_file(file)
        except AnabranchError as refusal:
            print_line(f"{file} is left out: {refusal}")
            continue
        if is_export(document):
            found.append(document)
        else:
            print_line(f"{file} is left out: it is not an export of n8n")
    if not found:
        raise InvalidRequest(f"{path} has no exports of n8n")
    return found

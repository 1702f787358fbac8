"""`anabranch workflows`: the definitions of a tenant."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from anabranch.cli.options import CLI_ACTOR, DEFAULT_TENANT, AsJson, DatabaseUrl, Imports, Tenant, WorkflowName
from anabranch.cli.output import document_text, print_document, print_line, print_note, print_table, problem_line
from anabranch.cli.session import open_session
from anabranch.engine.ports import WorkflowVersion
from anabranch.engine.rules.validate import Report
from anabranch.errors import InvalidRequest, InvalidWorkflow
from anabranch.intake import read_json_file
from anabranch.service import WorkflowService

# 100 workflows at a time, as over HTTP.
_PAGE = 100

family = typer.Typer(help="Definitions: list, show, import, export.", no_args_is_help=True)

Version = Annotated[int | None, typer.Option("--version", metavar="N", help="Which version; the newest if not given.")]


@family.command("list")
def list_workflows(
    *, database_url: DatabaseUrl = None, tenant: Tenant = DEFAULT_TENANT, as_json: AsJson = False
) -> None:
    """The newest version of every workflow."""
    session = open_session(database_url=database_url, tenant=tenant)
    items = session.ask(lambda service: _all_workflows(service, session.tenant))
    if as_json:
        print_document({"items": items, "nextCursor": None})
        return
    columns = ("name", "version", "kind", "title", "updatedAt", "workflowID")
    print_table(columns, [[item[column] for column in columns] for item in items])


@family.command("show")
def show(
    workflow: WorkflowName,
    *,
    version: Version = None,
    database_url: DatabaseUrl = None,
    tenant: Tenant = DEFAULT_TENANT,
    as_json: AsJson = False,
) -> None:
    """One workflow with its nodes and edges."""
    session = open_session(database_url=database_url, tenant=tenant)
    found = session.ask(
        lambda service: service.get_workflow_details(workflow, tenant_id=session.tenant, version=version)
    )
    if as_json:
        print_document(found)
        return
    title = f": {found['title']}" if found["title"] else ""
    print_line(f"{found['name']} version {found['version']}{title}")
    print_table(("node", "type", "name"), [[node["id"], node["type"], node.get("name")] for node in found["nodes"]])
    edges = [
        [edge["upstreamNodeID"], edge.get("sourceHandle") or "default", edge["downstreamNodeID"]]
        for edge in found["edges"]
    ]
    print_table(("from", "handle", "to"), edges)


@family.command("import")
def import_files(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Drawn workflows as JSON.")],
    *,
    imports: Imports = None,
    database_url: DatabaseUrl = None,
    tenant: Tenant = DEFAULT_TENANT,
    as_json: AsJson = False,
) -> None:
    """Save workflows under their names: new, the next version, or nothing if the newest is the same."""
    session = open_session(database_url=database_url, tenant=tenant, imports=imports)
    documents = [(file, read_json_file(file)) for file in files]

    async def save_all(service: WorkflowService) -> list[dict[str, Any]]:
        for file, document in documents:  # all are looked at before one is saved
            _refuse_invalid(file, service.validate(document))
        return [
            _saved(*await service.save_workflow(document, tenant_id=session.tenant, actor=CLI_ACTOR))
            for _, document in documents
        ]

    saved = session.ask(save_all)
    if as_json:
        print_document({"items": saved})
        return
    for item in saved:
        for warning in item["warnings"]:
            print_note(f"warning {problem_line(warning)}")
        print_line(f"{item['name']} is saved as version {item['version']}")


@family.command("export")
def export(
    workflow: WorkflowName,
    *,
    version: Version = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write it here.")] = None,
    database_url: DatabaseUrl = None,
    tenant: Tenant = DEFAULT_TENANT,
    as_json: AsJson = False,
) -> None:
    """The workflow as a file that `import` and `run` take; printed unless --output names a file."""
    session = open_session(database_url=database_url, tenant=tenant)
    found = session.ask(lambda service: service.get_workflow_by_id(workflow, tenant_id=session.tenant, version=version))
    if output is None:
        print_document(dict(found.definition))
        return
    try:
        output.write_text(document_text(dict(found.definition)), encoding="utf-8")
    except OSError as refusal:
        raise InvalidRequest(f"{output} cannot be written: {refusal.strerror}", hint="Choose another file.") from None
    if as_json:
        print_document({"name": found.name, "version": found.version, "file": str(output)})
    else:
        print_line(f"{found.name} version {found.version} is in {output}")


async def _all_workflows(service: WorkflowService, tenant_id: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    while True:
        after = found[-1]["name"] if found else None
        page = await service.get_all_workflows(tenant_id=tenant_id, limit=_PAGE, after=after)
        found += page
        if len(page) < _PAGE:
            return found


def _saved(workflow: WorkflowVersion, report: Report) -> dict[str, Any]:
    return {
        "workflowID": workflow.workflow_id,
        "name": workflow.name,
        "version": workflow.version,
        "warnings": [problem.as_json() for problem in report.warnings],
    }


def _refuse_invalid(file: Path, report: Report) -> None:
    try:
        report.raise_if_invalid()
    except InvalidWorkflow as refusal:
        raise InvalidWorkflow(f"{file}: {refusal.message}", details=refusal.details) from None

"""`anabranch workflows`: the definitions of a tenant."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anabranch.cli.options import Imports, WorkflowName
from anabranch.cli.output import (
    print_answer,
    print_document,
    print_line,
    print_list,
    print_note,
    print_table,
    problem_line,
    write_document,
)
from anabranch.cli.target import TargetOptions, open_target
from anabranch.deferred import deferred
from anabranch.engine.rules.entry_points import ENTRY_POINT_TYPES
from anabranch.errors import InvalidWorkflow
from anabranch.json_input import read_workflow_file

if TYPE_CHECKING:
    from anabranch.client.gateway import Gateway
    from anabranch.engine.rules.graph import document as graph
else:
    graph = deferred("anabranch.engine.rules.graph.document")

family = typer.Typer(
    help="Definitions: list, show, import, export, activate, pause, resume, delete.", no_args_is_help=True
)

Version = Annotated[int | None, typer.Option("--version", metavar="N", help="Which version; the newest if not given.")]


@family.command("list")
def list_workflows(
    *,
    at: TargetOptions,
) -> None:
    """The newest version of every workflow."""
    target = open_target(at)
    items = target.ask(lambda gateway: gateway.list_workflows())
    print_list(
        items, ("name", "version", "activeVersion", "kind", "title", "updatedAt", "workflowID"), as_json=at.as_json
    )


@family.command("show")
def show(
    workflow: WorkflowName,
    *,
    version: Version = None,
    at: TargetOptions,
) -> None:
    """One workflow with its nodes and edges."""
    target = open_target(at)
    found = target.ask(lambda gateway: gateway.get_workflow(workflow, version=version))
    if at.as_json:
        print_document(found)
        return
    title = f": {found['title']}" if found["title"] else ""
    print_line(f"{found['name']} version {found['version']}{title}")
    if found["activeVersion"] != found["version"]:
        print_line(f"starts take version {found['activeVersion']}")
    if found["paused"] is not None:
        print_line(f"paused by {found['paused']['by']} since {found['paused']['since']}")
    for node in found["nodes"]:
        if node["type"] in ENTRY_POINT_TYPES and not node.get("disabled"):
            print_line(f"begins by {_entry_point(node)}")
    print_table(("node", "type", "name"), [[node["id"], node["type"], node.get("name")] for node in found["nodes"]])
    print_table(
        ("from", "handle", "to"),
        [
            [edge["upstreamNodeID"], edge.get("sourceHandle") or "default", edge["downstreamNodeID"]]
            for edge in found["edges"]
        ],
    )


@family.command("import")
def import_files(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Drawn workflows as JSON.")],
    *,
    imports: Imports = None,
    activate: Annotated[
        bool, typer.Option("--activate/--no-activate", help="Do starts take the saved versions from now on?")
    ] = True,
    at: TargetOptions,
) -> None:
    """Save workflows under their names: new, the next version, or nothing if the newest is the same."""
    documents = [(file, read_workflow_file(file)) for file in files]
    target = open_target(at, creates=True, imports=imports)

    async def save_all(gateway: Gateway) -> list[dict[str, Any]]:
        for file, document in documents:  # all are looked at before one is saved
            _refuse_invalid(file, await gateway.validate(document))
        options = {} if activate else {"activate": False}
        return [await gateway.save_workflow({**_named(document), **options}) for _, document in documents]

    saved = target.ask(save_all)
    if at.as_json:
        print_document({"items": saved})
        return
    for item in saved:
        for warning in item["warnings"]:
            print_note(f"warning {problem_line(warning)}")
        active = "" if item["activeVersion"] == item["version"] else f"; starts take version {item['activeVersion']}"
        print_line(f"{item['name']} is saved as version {item['version']}{active}")


@family.command("export")
def export(
    workflow: WorkflowName,
    *,
    version: Version = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write it here.")] = None,
    at: TargetOptions,
) -> None:
    """The workflow as a file that `import` and `run` take; printed unless --output names a file."""
    target = open_target(at)

    async def read(gateway: Gateway) -> tuple[dict[str, Any], dict[str, Any]]:
        found = await gateway.get_workflow(workflow, version=version)
        # The version that was found: a newer one may have been saved since.
        return found, await gateway.export_workflow(found["workflowID"], version=found["version"])

    found, document = target.ask(read)
    if output is None:
        print_document(document)
        return
    write_document(output, document)
    print_answer(
        {"name": found["name"], "version": found["version"], "file": str(output)},
        f"{found['name']} version {found['version']} is in {output}",
        as_json=at.as_json,
    )


@family.command("activate")
def activate(
    workflow: WorkflowName,
    version: Annotated[int, typer.Argument(metavar="VERSION", min=1, help="The version that starts take.")],
    *,
    at: TargetOptions,
) -> None:
    """Let starts and triggers that name no version take this one; open runs keep theirs."""
    found = open_target(at).ask(lambda gateway: gateway.activate_workflow(workflow, version))
    print_answer(found, f"starts of {found['name']} take version {found['activeVersion']}", as_json=at.as_json)


@family.command("pause")
def pause(workflow: WorkflowName, *, at: TargetOptions) -> None:
    """Pause all runs of a workflow: executions under way end, nothing else begins, and starts stay PENDING."""
    found = open_target(at).ask(lambda gateway: gateway.pause_workflow(workflow))
    print_answer(found, f"workflow {found['name']} is paused", as_json=at.as_json)


@family.command("resume")
def resume(workflow: WorkflowName, *, at: TargetOptions) -> None:
    """Resume the runs of a paused workflow."""
    found = open_target(at).ask(lambda gateway: gateway.resume_workflow(workflow))
    print_answer(found, f"workflow {found['name']} is not paused", as_json=at.as_json)


@family.command("delete")
def delete(
    workflow: WorkflowName,
    *,
    force: Annotated[bool, typer.Option("--force", help="Cancel its open runs first.")] = False,
    at: TargetOptions,
) -> None:
    """Delete a workflow with all its versions; its name becomes free, its ended runs stay. Refused while runs are
    open."""
    target = open_target(at)
    target.ask(lambda gateway: gateway.delete_workflow(workflow, force=force))
    print_answer({"workflow": workflow, "deleted": True}, f"workflow {workflow} is deleted", as_json=at.as_json)


def _entry_point(node: dict[str, Any]) -> str:
    """The event that starts a run at a start or trigger node, for people."""
    config = node.get("config") or {}
    match node["type"]:
        case "webhook":
            begun_by = f"requests to /hooks/TENANT/{config.get('path')}"
        case "schedule":
            begun_by = f"the schedule {config.get('cron') or config.get('every')}"
        case "topic":
            begun_by = f"messages on {config.get('topic')}"
        case "failure":
            begun_by = f"failed runs of {config.get('workflow') or 'any workflow'}"
        case "workflowCall":
            begun_by = "calls of other workflows"
        case _:
            begun_by = "hand or through the API"
    return f"{begun_by} (node {node['id']})"


def _named(document: dict[str, Any]) -> dict[str, Any]:
    """A valid document with the name to save it under: its own, or one made from its title."""
    return {**document, "name": document.get("name") or graph.derive_name(document.get("title") or "")}


def _refuse_invalid(file: Path, report: dict[str, Any]) -> None:
    errors = report["errors"]
    if errors:
        others = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
        raise InvalidWorkflow(f"{file}: {errors[0]['message']}{others}", details=errors)

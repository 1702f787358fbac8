"""`anabranch explain`: explain the state of a run, or of one of its nodes."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from anabranch.cli.event_lines import read_name
from anabranch.cli.options import RunId
from anabranch.cli.output import print_document, print_line
from anabranch.cli.target import TargetOptions, open_target


def explain(
    instance_id: RunId,
    node: Annotated[
        str | None,
        typer.Argument(
            metavar="[SCOPE/]NODE",
            help="One of its nodes, such as each[3]/review, or a call of a step, such as fetch#2; without it, the run.",
        ),
    ] = None,
    *,
    scope: Annotated[
        str | None, typer.Option("--scope", metavar="SCOPE", help="Which iteration, if NODE does not say it.")
    ] = None,
    at: TargetOptions,
) -> None:
    """Why a run waits or how it ended; why a node has run, was skipped, or has not run yet."""
    if node is not None and scope is None:
        node, scope = read_name(node)
    target = open_target(at)
    found = target.ask(lambda gateway: gateway.explain_run(instance_id, node, scope=scope or ""))
    if at.as_json:
        print_document(found)
        return
    print_line(found["sentence"])
    for edge in found.get("edges", ()):
        print_line(f"  edge from {edge['from']} by {edge['handle']}: {edge['verdict']}")
    _print_reasons(found["waitsFor"], indent="  ")
    for each in found["decidedBy"]:
        because = f": {each['expression']} was {_as_json(each['value'])}" if "expression" in each else ""
        ended = "which failed" if each["handle"] is None else f"which left by {each['handle']}"
        print_line(f"  decided by {_node_in_scope(each)}, {ended}{because}")
    if found["omitted"]:
        print_line("  There are more reasons; --json lists the first 100.")


def _print_reasons(reasons: list[dict[str, Any]], *, indent: str) -> None:
    for reason in reasons:
        details = {
            name: value
            for name, value in reason.items()
            if name not in ("kind", "nodeID", "scope", "why") and value is not None
        }
        shown = ", ".join(
            f"{name} {value if isinstance(value, str) else _as_json(value)}" for name, value in details.items()
        )
        print_line(f"{indent}waits for {reason['kind']} {_node_in_scope(reason)}" + (f" ({shown})" if shown else ""))
        _print_reasons(reason.get("why", []), indent=indent + "  ")


def _as_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _node_in_scope(found: dict[str, Any]) -> str:
    scope = found.get("scope")
    return f"{found.get('nodeID', '')} in {scope}" if scope else str(found.get("nodeID", ""))

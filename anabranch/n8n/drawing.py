"""Parts of an imported document that do not depend on mappings: names, positions, edges, notes, the one start.

Pure. Called by `importing`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import Any

from anabranch.engine.rules.entry_points import TRIGGER_TYPES
from anabranch.n8n.exports import N8nWorkflow, is_length
from anabranch.n8n.job import MappingJob, word_of
from anabranch.n8n.refs import WORDS
from anabranch.n8n.texts import escaped

NOTE_KIND = "stickyNote"

_RESERVED = frozenset(
    {
        "answer",
        "count",
        "end",
        "index",
        "input",
        "item",
        "output",
        "results",
        "secret",
        "run",
        "workflow",
        "trigger",
        "now",
        *WORDS,
    }
)


def workflow_name(written: str) -> str:
    """A name for programs, of one for people."""
    plain = unicodedata.normalize("NFKD", written).encode("ascii", "ignore").decode().lower()
    name = re.sub(r"[^a-z0-9]+", "-", plain).strip("-")
    name = name if name[:1].isalpha() else f"workflow-{name}"
    return name[:60].strip("-")


def ids_of(names: Sequence[str]) -> dict[str, str]:
    """An identifier for each node, of its name."""
    ids: dict[str, str] = {}
    taken: set[str] = set(_RESERVED)
    for name in names:
        plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
        base = re.sub(r"_{2,}", "_", word_of(plain))[:48].strip("_") or "node"
        base = base if base[0].isalpha() else f"n_{base}"
        made, number = base, 2
        while made in taken:
            made, number = f"{base}_{number}", number + 1
        taken.add(made)
        ids[name] = made
    return ids


def edge_of(source: str, handle: str, target: str) -> dict[str, Any]:
    """An edge of a document."""
    edge = {"upstreamNodeID": source, "downstreamNodeID": target}
    return edge if handle == "default" else {**edge, "sourceHandle": handle}


def set_positions(job: MappingJob) -> None:
    """Put the nodes where the node of n8n stood."""
    x, y = job.node.position
    for number, node in enumerate(job.nodes):
        node["position"] = {"x": round(x * 1.5) + number * 40, "y": round(y * 1.5) + number * 100}


def gate_behind(trigger: dict[str, Any], why: str, edges: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A condition that is never true behind a trigger, and the failure instead; the edges are changed in place."""
    x, y = trigger["position"]["x"], trigger["position"]["y"]
    gate: dict[str, Any] = {
        "id": f"{trigger['id']}_gate",
        "type": "condition",
        "name": "Does n8n execute this?",
        "config": {"branches": [{"id": "complete", "expression": "{{false}}"}]},
        "position": {"x": x + 40, "y": y + 60},
    }
    stop: dict[str, Any] = {
        "id": f"{trigger['id']}_incomplete",
        "type": "stopWithError",
        "name": "A parameter is missing",
        "config": {"message": escaped(f"The workflow has issues. {why}"[:1_000])},
        "position": {"x": x + 40, "y": y + 120},
    }
    for edge in edges:
        if edge["upstreamNodeID"] == trigger["id"]:
            edge["upstreamNodeID"], edge["sourceHandle"] = gate["id"], "complete"
    edges += [edge_of(trigger["id"], "default", gate["id"]), edge_of(gate["id"], "else", stop["id"])]
    return [gate, stop]


def notes_of(workflow: N8nWorkflow) -> list[dict[str, Any]]:
    """The notes, as ours."""
    notes = []
    for number, node in enumerate((each for each in workflow.nodes if each.kind == NOTE_KIND), 1):
        x, y = node.position
        width, height = node.parameters.get("width", 240), node.parameters.get("height", 160)
        notes.append(
            {
                "id": f"note{number}",
                "text": str(node.parameters.get("content", ""))[:10_000],
                "position": {"x": round(x * 1.5), "y": round(y * 1.5)},
                "size": {
                    "width": round(width * 1.5) if is_length(width) else 360,
                    "height": round(height * 1.5) if is_length(height) else 240,
                },
            }
        )
    return notes


def one_start(nodes: list[dict[str, Any]], edges: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """At most one `start`: several manual entry points, and triggers without a counterpart, begin at one."""
    starts = [node for node in nodes if node["type"] == "start"]
    entry_points = [node for node in nodes if node["type"] in TRIGGER_TYPES and not node.get("disabled")]
    manual = [node for node in starts if not node.pop("x-begins", False)]
    if manual:
        kept = manual[0]
    elif starts and not entry_points:
        kept = starts[0]
    elif not entry_points:
        kept = {"id": "start", "type": "start", "name": "Start", "config": {}, "position": {"x": 0, "y": 0}}
        nodes = [kept, *nodes]
    else:
        kept = {}
    removed = {node["id"] for node in starts if node["id"] != kept.get("id")}
    for edge in edges:
        if edge["upstreamNodeID"] in removed and kept and (manual or starts):
            edge["upstreamNodeID"] = kept["id"]
    edges[:] = [edge for edge in edges if edge["upstreamNodeID"] not in removed]
    calls = [node["id"] for node in nodes if node["type"] == "workflowCall"]
    for further in calls[1:]:
        for edge in edges:
            if edge["upstreamNodeID"] == further:
                edge["upstreamNodeID"] = calls[0]
    return [node for node in nodes if node["id"] not in removed and node["id"] not in calls[1:]]

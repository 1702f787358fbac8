"""Workflows that the tests of this module run."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

EFFECTS = Path(__file__).with_name("effects.py")


def chain(name: str, *nodes: dict[str, Any]) -> dict[str, Any]:
    """A workflow of these nodes one after the other, between a start and an end."""
    row = [{"id": "start", "type": "start"}, *nodes, {"id": "end", "type": "end"}]
    edges = [{"upstreamNodeID": before["id"], "downstreamNodeID": after["id"]} for before, after in pairwise(row)]
    return {"name": name, "nodes": row, "edges": edges}


def effect(node_id: str, *, retry: dict[str, Any] | None = None, **config: Any) -> dict[str, Any]:
    """A node that leaves a line in the ledger."""
    return {"id": node_id, "type": "effect", "config": config, "retry": retry}


PLAIN = chain("plain")
WAITING = chain("waiting", {"id": "wait", "type": "waitForEvent", "config": {"event": "go"}})

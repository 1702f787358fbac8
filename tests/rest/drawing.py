"""Workflows that the tests of the REST API save."""

from __future__ import annotations

from itertools import pairwise
from typing import Any


def chain(name: str | None, *nodes: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """A workflow of these nodes one after the other, after a start."""
    row = [{"id": "start", "type": "start"}, *nodes]
    edges = [{"upstreamNodeID": before["id"], "downstreamNodeID": after["id"]} for before, after in pairwise(row)]
    named = {} if name is None else {"name": name}
    return {**named, "nodes": row, "edges": edges, **fields}


def echo(name: str | None = "echo", **fields: Any) -> dict[str, Any]:
    """A workflow that gives its input back as `said`."""
    collected = {"outputParameters": {"said": "{{ctx.input}}"}}
    return chain(name, {"id": "end", "type": "end", "config": collected}, **fields)


def waiting(name: str = "waiting") -> dict[str, Any]:
    """A workflow that waits for the event `go` and gives its payload back."""
    wait = {"id": "wait", "type": "waitForEvent", "config": {"event": "go"}, "outputVariable": "went"}
    collected = {"outputParameters": {"went": "{{ctx.went}}"}}
    return chain(name, wait, {"id": "end", "type": "end", "config": collected})

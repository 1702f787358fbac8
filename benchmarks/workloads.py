"""The workflows that the benchmarks run, as documents: shapes that grow in one direction each.

Called by `engine`, `growth` and `guard`. Nodes do next to nothing, so that what is measured is the engine and not the
work: pure ones are `set` nodes that resolve one template, those with effects have a handler that returns at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

Document = dict[str, Any]

EFFECT_TYPE = "benchmarkEffect"
"""A user's node type, as the engine sees it: its handler is executed (`running.TYPES`)."""


@dataclass(frozen=True, slots=True)
class Load:
    """A workflow, how often it is started at once, and how many nodes each run executes."""

    document: Document
    flock: int
    nodes_per_run: int
    input: Mapping[str, Any] = field(default_factory=lambda: {"n": 1})

    @property
    def name(self) -> str:
        """The workflow's name."""
        return str(self.document["name"])


def linear(length: int) -> Document:
    """`length` nodes in a row: start, then `set` nodes that each resolve one template."""
    ids = ["start"] + [f"n{number}" for number in range(1, length)]
    nodes = [_start()] + [_set(node_id, "{{ctx.input.n}}", output_variable="v") for node_id in ids[1:]]
    return _document(f"linear-{length}", nodes, pairwise(ids))


def effects(length: int, node_type: str = EFFECT_TYPE) -> Document:
    """`length` nodes in a row: start, then nodes of a type whose handler returns at once."""
    ids = ["start"] + [f"n{number}" for number in range(1, length)]
    nodes = [_start()] + [{"id": node_id, "type": node_type, "outputVariable": "v"} for node_id in ids[1:]]
    return _document(f"effects-{length}", nodes, pairwise(ids))


def fan_out(width: int) -> Document:
    """Start, `width` nodes beside each other, one join; `width` + 2 nodes."""
    beside = [f"n{number}" for number in range(width)]
    nodes = [_start(), *(_set(name, "{{ctx.input.n}}") for name in beside), _set("join", "{{ctx.input.n}}")]
    edges = [("start", name) for name in beside] + [(name, "join") for name in beside]
    return _document(f"fan-out-{width}", nodes, edges)


def map_over(items: int) -> Document:
    """A loop over `ctx.input.items`, all iterations open at once; start, the loop and one node an item."""
    config = {"source": "{{ctx.input.items}}", "concurrency": items}
    nodes = [_start(), {"id": "each", "type": "loop", "config": config}, _set("work", "{{ctx.index}}")]
    document = _document(f"map-{items}", nodes, [("start", "each")])
    document["edges"].append({"upstreamNodeID": "each", "downstreamNodeID": "work", "sourceHandle": "loop"})
    return document


def map_node(items: int) -> Document:
    """The same with a mapped node in place of the loop and its body."""
    work = {**_set("work", "{{ctx.index}}"), "forEach": "{{ctx.input.items}}", "concurrency": items}
    return _document(f"map-node-{items}", [_start(), work], [("start", "work")])


def iterate(items: int) -> Document:
    """A loop over `ctx.input.items`, one iteration after the other, each a condition that looks at the input."""
    nodes = [_start(), {"id": "each", "type": "loop", "config": {"source": "{{ctx.input.items}}"}}, _choice("work")]
    document = _document(f"iterate-{items}", nodes, [("start", "each")])
    document["edges"].append({"upstreamNodeID": "each", "downstreamNodeID": "work", "sourceHandle": "loop"})
    return document


def passes(count: int) -> Document:
    """The same condition, which leads back to itself until its loop has had so many passes."""
    work = {**_choice("work"), "maxPasses": count, "errorHandling": "ignore"}
    document = _document(f"passes-{count}", [_start(), work, {"id": "end", "type": "end"}], [("start", "work")])
    for target, handle in (("work", "again"), ("end", "else")):
        document["edges"].append({"upstreamNodeID": "work", "downstreamNodeID": target, "sourceHandle": handle})
    return document


def carry(steps: int) -> Document:
    """Start, then `steps` nodes that each take the value of the node before them and put it out again."""
    ids = ["start"] + [f"n{number}" for number in range(1, steps + 1)]
    sources = ["{{ctx.input.p}}"] + [f"{{{{ctx.{name}.v}}}}" for name in ids[1:-1]]
    nodes = [_start()] + [
        _set(name, source, output_variable=name) for name, source in zip(ids[1:], sources, strict=True)
    ]
    return _document(f"carry-{steps}", nodes, pairwise(ids))


def sleep_for(duration: str) -> Document:
    """Start, then a delay: a run that sleeps."""
    nodes = [_start(), {"id": "nap", "type": "delay", "config": {"duration": duration}}]
    return _document("sleep", nodes, [("start", "nap")])


def _document(name: str, nodes: Sequence[Document], edges: Any) -> Document:
    drawn = [{"upstreamNodeID": source, "downstreamNodeID": target} for source, target in edges]
    return {"name": name, "nodes": list(nodes), "edges": drawn}


def _start() -> Document:
    return {"id": "start", "type": "start"}


def _choice(node_id: str) -> Document:
    branch = {"id": "again", "expression": "{{ctx.input.n == 1}}"}
    return {"id": node_id, "type": "condition", "config": {"branches": [branch]}}


def _set(node_id: str, template: str, *, output_variable: str | None = None) -> Document:
    node: Document = {"id": node_id, "type": "set", "config": {"values": {"v": template}}}
    return node if output_variable is None else node | {"outputVariable": output_variable}

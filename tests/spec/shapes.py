"""Random small workflows for the specs: joins, conditions, loops in loops, mapped nodes, Ends, every error handling.

Called by the properties in `test_any_order`. Nothing here is executed by handlers, so configs
hold only what the rules themselves read.
"""

from __future__ import annotations

import random
from typing import Any

from tests.spec.drawings import condition, drawn, errors

# 7 nodes a body and two levels of loops: every rule can meet every other one, and a failing
# shape still fits on a page.
NODES_PER_BODY_MAX = 7
DEPTH_MAX = 2

ENDINGS = (None, None, "ignore", "fail_workflow")
YIELDS = (None, None, "{{ctx.item}}", "{{ctx.x}}")
CONDITIONS = ("{{ctx.index < 2}}", "{{(ctx.results | length) < 1}}", "{{ctx.x}}")


def random_shape(rng: random.Random) -> dict[str, Any]:
    """A valid document."""
    painter = _Painter(rng)
    painter.body(["start"], depth=0)
    document = drawn(", ".join(painter.edges), **painter.nodes)
    for _ in range(rng.choice([0, 0, 1, 2, 3])):
        document = _with_a_way_back(rng, document)
    return document


def _with_a_way_back(rng: random.Random, document: dict[str, Any]) -> dict[str, Any]:
    """The same with one more edge, to a node that was there before its source; unchanged if that is no legal loop."""
    edges = document["edges"]
    source = rng.choice(edges)
    targets = [edge["downstreamNodeID"] for edge in edges[: edges.index(source) + 1]]
    edge = {**source, "id": f"e{len(edges)}", "downstreamNodeID": rng.choice(targets)}
    nodes = [
        {**node, "maxPasses": rng.randint(1, 3)} if node["type"] != "start" else node for node in document["nodes"]
    ]
    changed = {**document, "nodes": nodes, "edges": [*edges, edge]}
    return document if errors(changed) else changed


class _Painter:
    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self.nodes: dict[str, dict[str, Any]] = {}
        self.edges: list[str] = []

    def body(self, exits: list[str], *, depth: int) -> list[str]:
        """Add some nodes behind these exits; returns all the exits that there are now."""
        for _ in range(self._rng.randint(1, NODES_PER_BODY_MAX - 2 * depth)):
            kind = self._rng.choice(["set", "set", "set", "condition", "loop", "end"])
            name = f"n{len(self.nodes)}"
            self.nodes[name] = self._node(kind)
            sources = self._rng.choices(exits, k=self._rng.randint(1, 3))
            self.edges += [f"{source}>{name}" for source in sources]
            exits += self._exits(name, kind)
            if kind == "loop":
                self._loop_body(name, depth=depth)
        return exits

    def _loop_body(self, name: str, *, depth: int) -> None:
        if depth == DEPTH_MAX or self._rng.random() < 0.1:
            return
        exits = self.body([f"{name}.loop"], depth=depth + 1)
        if self._rng.random() < 0.4 and len(exits) > 1:
            self.edges.append(f"{self._rng.choice(exits[1:])}>{name}")

    def _node(self, kind: str) -> dict[str, Any]:
        rng = self._rng
        node: dict[str, Any] = {"set": {}, "end": self._end, "loop": self._loop, "condition": self._condition}[kind]
        node = node() if callable(node) else dict(node)
        if kind != "end":
            node["outputVariable"] = rng.choice([None, "x", "y"])
            node["errorHandling"] = rng.choice(ENDINGS)
            node["retry"] = {"maxAttempts": rng.randint(1, 3)}
        if kind == "set" and rng.random() < 0.2:
            node |= {"forEach": "{{ctx.input}}", "concurrency": rng.randint(1, 3)}
            node["onItemError"] = rng.choice(["fail", "collect", "skip"])
        if rng.random() < 0.3:
            node["joinMode"] = "any"
        return {field: value for field, value in node.items() if value is not None}

    def _condition(self) -> dict[str, Any]:
        return condition("yes", "no")

    def _end(self) -> dict[str, Any]:
        name = self._rng.choice([None, None, "here"])
        config = {"terminate": self._rng.random() < 0.1, **({"name": name} if name else {})}
        return {"type": "end", "config": config}

    def _loop(self) -> dict[str, Any]:
        rng = self._rng
        config: dict[str, Any] = {"onItemError": rng.choice(["fail", "collect", "skip"])}
        if rng.random() < 0.3:
            config |= {"while": rng.choice(CONDITIONS), "maxIterations": 3}
        else:
            config |= {"source": "{{ctx.input}}", "concurrency": rng.randint(1, 3)}
        yields = rng.choice(YIELDS)
        return {"type": "loop", "config": {**config, **({"yield": yields} if yields else {})}}

    def _exits(self, name: str, kind: str) -> list[str]:
        rng = self._rng
        if kind == "end":
            return []
        error = [f"{name}.error"] if rng.random() < 0.4 else []
        if kind == "condition":
            return [f"{name}.yes", f"{name}.no", f"{name}.else", *error]
        return [f"{name}.done" if kind == "loop" else name, *error]

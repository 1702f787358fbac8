"""Random graphs whose edges lead back: loops without a loop node, side by side, inside each other, left in every way.

Called by the test beside it. Every choice of a run is made by `pick` nodes, which take another handle in each pass and
the last one from the fourth pass on. Loops end by that, or by their limit.
"""

from __future__ import annotations

import random
from typing import Any

from tests.oracle.graphs import Case
from tests.oracle.regions import Edge, dominates, reach
from tests.oracle.script import FATAL

# 9 nodes are enough for three loops inside each other with joins and side branches, and few enough to read.
NODES_MAX = 9


def looping_case(seed: int) -> Case:
    """A graph with at least one edge that leads back; each loop is entered at one node."""
    rng = random.Random(seed)
    while True:
        case = _draw(rng)
        if case is not None:
            return case


def cursor_case(seed: int) -> Case:
    """The same with a cursor in place of each choice between two ways."""
    case = looping_case(seed)
    rng = random.Random(seed)
    nodes, handles = [], {}
    for node in case.document["nodes"]:
        if node["type"] == "pick" and node["config"]["handles"] == ["a", "b"]:
            handles |= {(node["id"], "a"): "loop", (node["id"], "b"): "done"}
            config = {"source": "{{ctx.input.rows}}", "batchSize": rng.randint(1, 3)}
            node = {**node, "type": "cursor", "config": config}
        nodes.append(node)
    edges = [
        {**edge, "sourceHandle": handles.get((edge["upstreamNodeID"], edge["sourceHandle"]), edge["sourceHandle"])}
        for edge in case.document["edges"]
    ]
    rows = list(range(rng.randint(0, 5))) if rng.random() < 0.95 else "no list"
    return Case({**case.document, "nodes": nodes, "edges": edges}, {**case.input, "rows": rows}, case.script)


def _draw(rng: random.Random) -> Case | None:
    names = [f"n{number}" for number in range(rng.randint(2, NODES_MAX))]
    handles = {name: ["default"] if rng.random() < 0.4 else ["a", "b", "c"][: rng.randint(2, 3)] for name in names}
    in_loop = rng.random() < 0.25
    first: Edge = ("each", "loop", "n0") if in_loop else ("start", "default", "n0")
    edges = {first} | {_forward(rng, names, handles, number) for number in range(1, len(names))}
    for _ in range(rng.randint(0, 4)):
        edges.add(_forward(rng, names, handles, rng.randrange(1, len(names))))
    for _ in range(rng.randint(1, 4)):
        source, target = sorted(rng.choices(range(len(names)), k=2), reverse=True)
        edges.add((names[source], _handle(rng, handles, names[source]), names[target]))
    if in_loop:
        edges |= {("start", "default", "each"), ("each", "done", "after")}
        if rng.random() < 0.5:
            edges.add((names[-1], rng.choice(handles[names[-1]]), "each"))
    if not _is_legal(names, [edge for edge in edges if edge[2] != "each" or edge[0] == "start"]):
        return None
    plain = [name for name in names if handles[name] == ["default"]]
    if plain and in_loop and rng.random() < 0.5:
        script: dict[str, Any] = {rng.choice(plain): {"where": rng.choice(["", "#2", "[1]"]), "fails": FATAL}}
    else:
        script = {}
    return Case(_document(rng, names, handles, sorted(edges), script, in_loop=in_loop), {"list": [0, 1]}, script)


def _forward(rng: random.Random, names: list[str], handles: dict[str, list[str]], number: int) -> Edge:
    source = names[rng.randrange(max(0, number - 3), number)]
    return source, _handle(rng, handles, source), names[number]


def _handle(rng: random.Random, handles: dict[str, list[str]], name: str) -> str:
    return rng.choice(handles[name]) if rng.random() < 0.95 else "error"


def _is_legal(names: list[str], edges: list[Edge]) -> bool:
    """Are there edges that lead back, and none of them closes a loop that is entered at two nodes?"""
    again = [e for e in edges if e[0] in names and e[2] in names and dominates(e[2], e[0], "start", edges)]
    forward = [e for e in edges if e not in again]
    return bool(again) and not any(source in reach([target], forward) for source, _, target in forward)


def _document(
    rng: random.Random,
    names: list[str],
    handles: dict[str, list[str]],
    edges: list[Edge],
    script: dict[str, Any],
    *,
    in_loop: bool,
) -> dict[str, Any]:
    nodes: list[dict[str, Any]] = [{"id": "start", "type": "start"}]
    if in_loop:
        policy = rng.choice(["fail", "collect", "skip"])
        config = {"source": "{{ctx.input.list}}", "onItemError": policy, "concurrency": rng.randint(1, 2)}
        nodes += [{"id": "each", "type": "loop", "config": config}, {"id": "after", "type": "set", "config": _READ}]
    for name in names:
        node: dict[str, Any] = {"id": name, "type": "pick", "config": {"handles": handles[name]}}
        if name in script:
            node |= {"type": "flaky", "config": {}, "retry": {"maxAttempts": 1}}
        elif handles[name] == ["default"]:
            node |= rng.choice([{"type": "set", "config": _READ}, {"type": "flaky", "config": {}}])
        if rng.random() < 0.3:
            node["joinMode"] = "any"
        if rng.random() < 0.5:
            node["outputVariable"] = rng.choice(["x", "y"])
        if rng.random() < 0.2:
            node["errorHandling"] = rng.choice(["ignore", "continue", "fail_workflow"])
        node["maxPasses"] = rng.randint(1, 5)
        nodes.append(node)
    drawn = [
        {"id": f"e{number}", "upstreamNodeID": source, "sourceHandle": handle, "downstreamNodeID": target}
        for number, (source, handle, target) in enumerate(edges)
    ]
    return {"title": "looping", "nodes": nodes, "edges": drawn}


_READ = {"values": {"x": "{{ctx.x | default(0)}}", "y": "{{ctx.y | default(0)}}"}}

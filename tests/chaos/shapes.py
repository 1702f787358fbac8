"""What the campaigns run: every way of waiting, joining and repeating, with side effects in between."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

QUICK = {"maxAttempts": 3, "backoff": {"kind": "fixed", "base": "150ms"}}


def ledger(node_id: str, *, failing: int = 0, **fields: Any) -> dict[str, Any]:
    config = {"value": "{{ctx.input.n}}", "failing_attempts": failing}
    return {"id": node_id, "type": "ledger", "config": config, "retry": QUICK, **fields}


def end() -> dict[str, Any]:
    return {"id": "end", "type": "end", "config": {"outputParameters": {"n": "{{ctx.input.n}}"}}}


def drawn(name: str, nodes: list[dict[str, Any]], edges: list[tuple[str, ...]]) -> dict[str, Any]:
    return {
        "name": name,
        "nodes": [{"id": "start", "type": "start"}, *nodes],
        "edges": [
            {"upstreamNodeID": e[0], "downstreamNodeID": e[1], "sourceHandle": e[2] if len(e) > 2 else None}
            for e in edges
        ],
    }


def chain() -> dict[str, Any]:
    """Effects, a short and a parked delay, a retry."""
    nodes = [
        ledger("a"),
        {"id": "short", "type": "delay", "config": {"duration": "200ms"}},
        ledger("b", failing=1),
        {"id": "long", "type": "delay", "config": {"duration": "1500ms"}},
        ledger("c"),
        end(),
    ]
    ids = ["start", *(node["id"] for node in nodes)]
    return drawn("chaos-chain", nodes, list(pairwise(ids)))


def diamond() -> dict[str, Any]:
    """Four effects beside each other, an `all` join behind them, an `any` join beside it."""
    beside = [f"p{number}" for number in range(4)]
    nodes = [ledger(name) for name in beside] + [ledger("all"), ledger("first", joinMode="any"), end()]
    edges: list[tuple[str, ...]] = [("start", name) for name in beside]
    edges += [(name, "all") for name in beside] + [(name, "first") for name in beside]
    return drawn("chaos-diamond", nodes, [*edges, ("all", "end"), ("first", "end")])


def loop() -> dict[str, Any]:
    """Six iterations, three at a time, each with two effects."""
    nodes = [
        {"id": "each", "type": "loop", "config": {"source": "{{[1, 2, 3, 4, 5, 6]}}", "concurrency": 3}},
        ledger("one"),
        ledger("two"),
        end(),
    ]
    edges = [("start", "each"), ("each", "one", "loop"), ("one", "two"), ("two", "each"), ("each", "end", "done")]
    return drawn("chaos-loop", nodes, edges)


def wait() -> dict[str, Any]:
    """A signal or, if nobody sends it, a timeout; an effect either way."""
    nodes = [
        {"id": "wait", "type": "waitForEvent", "config": {"event": "go", "timeout": "2500ms"}},
        ledger("heard"),
        ledger("unheard"),
        {**end(), "joinMode": "any"},
    ]
    edges = [("start", "wait"), ("wait", "heard"), ("wait", "unheard", "timeout"), ("heard", "end"), ("unheard", "end")]
    return drawn("chaos-wait", nodes, edges)


def child() -> dict[str, Any]:
    """What a family's parent starts: effects around a wait for a signal or its timeout."""
    nodes = [
        ledger("created"),
        {"id": "wait", "type": "waitForEvent", "config": {"event": "go", "timeout": "1500ms"}},
        {**ledger("grown"), "joinMode": "any"},
        end(),
    ]
    edges = [
        ("start", "created"),
        ("created", "wait"),
        ("wait", "grown"),
        ("wait", "grown", "timeout"),
        ("grown", "end"),
    ]
    return drawn("chaos-child", nodes, edges)


def family() -> dict[str, Any]:
    """A parent that awaits three children: its row is locked by the process that ends one of them."""
    calls = [
        {
            "id": f"call{number}",
            "type": "workflow",
            "config": {"workflow": "chaos-child", "wait": True, "input": {"n": "{{ctx.input.n}}"}},
        }
        for number in range(3)
    ]
    edges: list[tuple[str, ...]] = [("start", call["id"]) for call in calls]
    edges += [(call["id"], "all") for call in calls]
    return drawn("chaos-family", [*calls, ledger("all"), end()], [*edges, ("all", "end")])


SHAPES = (chain, diamond, loop, wait, family)

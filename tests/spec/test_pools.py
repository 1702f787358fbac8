"""Pools: which one a node is in, what a run needs of a worker, and who can run it."""

from __future__ import annotations

from typing import Any

import pytest

from anabranch.engine.rules.coded.coded_plan import coded_plan
from anabranch.engine.rules.events import SuspendReason
from anabranch.engine.rules.graph.compile import compile_plan
from anabranch.engine.rules.graph.plan import Plan
from anabranch.engine.rules.graph.pools import Needs
from anabranch.engine.rules.shared.unrunnable import nobody_fits
from anabranch.handlers.registry import builtin_types
from anabranch.handlers.spec import HandlerSpec, NodeTypeRegistry

CODE = {"code": "return 1"}


def plan_of(*nodes: dict[str, Any], **options: Any) -> Plan:
    """A start, and these nodes after it, each beside the others."""
    types = builtin_types()
    known = {"crunch": HandlerSpec("crunch", "Crunch", None, pool="gpu", timeout_ms=None)}
    document = {
        "nodes": [{"id": "start", "type": "start"}, *nodes],
        "edges": [{"upstreamNodeID": "start", "downstreamNodeID": node["id"]} for node in nodes],
        "workflowOptions": options,
    }
    return compile_plan(document, NodeTypeRegistry(types._specs, declared=known))


def code(node_id: str, **fields: Any) -> dict[str, Any]:
    return {"id": node_id, "type": "python", "config": CODE, **fields}


def test_the_pool_of_a_node_is_its_own_then_that_of_its_type_then_that_of_the_workflow() -> None:
    nodes = [code("a", pool="fast"), code("b"), {"id": "c", "type": "crunch"}, {"id": "d", "type": "crunch"}]
    nodes[3]["pool"] = "default"
    plan = plan_of(*nodes, pool="near")
    assert {node.id: node.pool for node in plan.nodes.values() if node.type != "start"} == {
        "a": "fast",
        "b": "near",
        "c": "gpu",
        "d": "default",
    }
    assert plan_of(code("b")).nodes["b"].pool == "default"


def test_the_priority_of_a_node_is_its_own_then_that_of_the_workflow() -> None:
    nodes = [code("a", priority="normal"), code("b"), code("c", priority="high")]
    plan = plan_of(*nodes, priority="high")
    assert [plan.nodes[each].priority for each in "abc"] == ["normal", "high", "high"]
    assert plan_of(code("b")).nodes["b"].priority == "normal"


def test_a_run_needs_the_pools_of_the_nodes_that_are_executed() -> None:
    assert plan_of(code("a")).needs == ()
    assert plan_of(code("a", pool="gpu")).needs == ("pool:gpu",), "the start is evaluated, not executed"
    assert plan_of(code("a", pool="gpu"), code("b")).needs == ("pool:default", "pool:gpu")
    assert plan_of(code("a", pool="gpu", disabled=True), code("b")).needs == ()
    assert plan_of({"id": "c", "type": "crunch"}).needs == ("crunch", "pool:gpu")
    assert plan_of(code("a", pool="gpu", forEach=[1, 2])).needs == ("pool:gpu",), "what a mapped node runs counts"
    assert coded_plan("c", 1, {"pool": "gpu"}).needs == ("pool:gpu",)
    assert coded_plan("c", 1, {}).needs == ()
    with pytest.raises(ValueError, match="the pool 'GPU'"):
        coded_plan("c", 1, {"pool": "GPU"})


@pytest.mark.parametrize(
    ("wanted", "has", "fits"),
    [
        ((), (), True),
        ((), ("pool:gpu",), False),
        ((), ("pool:*",), True),
        (("pool:gpu",), ("pool:default",), False),
        (("pool:gpu", "shout"), ("shout", "pool:gpu"), True),
        (("pool:gpu", "shout"), ("pool:gpu",), False),
        (("pool:default", "pool:gpu"), ("pool:gpu",), False),
        (("pool:default", "pool:gpu"), ("pool:*",), True),
    ],
)
def test_a_worker_fits_if_it_serves_every_pool_of_the_run(
    wanted: tuple[str, ...], has: tuple[str, ...], fits: bool
) -> None:
    assert Needs(False, "w", 1, wanted).met_by(code=(), node_types=has) is fits
    assert Needs(True, "w", 1, wanted).met_by(code=[("w", 1)], node_types=has) is (
        fits or (wanted == ("pool:gpu", "shout") and has == ("pool:gpu",))
    ), "code needs no node types"


@pytest.mark.parametrize(
    ("wanted", "living", "reason", "message"),
    [
        (("pool:gpu",), [], "UNSERVED_POOL", "no worker serves the pool 'gpu'"),
        (("pool:gpu",), [()], "UNSERVED_POOL", "no worker serves the pool 'gpu'"),
        (("shout",), [], "UNKNOWN_NODE_TYPE", "no worker has the node type 'shout'"),
        (("shout",), [("pool:gpu",)], "UNSERVED_POOL", "no worker serves the pool 'default'"),
        (
            ("pool:a", "pool:b"),
            [("pool:a",), ("pool:b",)],
            "UNSERVED_POOL",
            "no single worker serves all pools of the run: 'a', 'b'",
        ),
        (
            ("shout", "pool:gpu"),
            [("pool:gpu",), ("shout",)],
            "UNKNOWN_NODE_TYPE",
            "no worker of the pool 'gpu' has the node type 'shout'",
        ),
    ],
)
def test_the_suspension_says_what_no_living_worker_has(
    wanted: tuple[str, ...], living: list[tuple[str, ...]], reason: str, message: str
) -> None:
    said = nobody_fits(Needs(False, "w", 1, wanted), [((), entries) for entries in living])
    assert (said.reason, said.message) == (SuspendReason(reason), message)

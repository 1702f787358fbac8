"""From a drawing to a plan: what the rules will find when they walk it."""

from __future__ import annotations

from typing import Any

import pytest

from anabranch.engine.rules.graph.compile import compile_plan
from anabranch.engine.rules.graph.plan import Body, Plan, PlanNode
from anabranch.engine.rules.shared.retry import RetryPolicy
from anabranch.errors import InvalidWorkflow
from tests.spec.drawings import TYPES, TypesWith, broken, condition, drawn, loop, raises


def plan_of(edges: str, **nodes: Any) -> Plan:
    return compile_plan(drawn(edges, **nodes), TYPES)


def ids(nodes: tuple[PlanNode, ...]) -> list[str]:
    return [node.id for node in nodes]


def edges_of(node: PlanNode) -> list[tuple[str, str]]:
    return [(edge.handle, edge.target.id) for edge in node.edges]


def body_of(plan: Plan, loop_id: str) -> Body:
    spec = plan.nodes[loop_id].loop
    assert spec is not None
    return spec.body


def test_nodes_refer_to_each_other_and_know_how_many_edges_they_await():
    plan = plan_of("start>c, c.yes>a, c.yes>j, c.else>j, a>j, a.error>j", c=condition("yes"))
    assert edges_of(plan.nodes["c"]) == [("yes", "a"), ("yes", "j"), ("else", "j")]
    assert plan.nodes["a"].edges[0].target is plan.nodes["j"]
    assert {node_id: node.in_count for node_id, node in plan.nodes.items()} == {"start": 0, "c": 1, "a": 1, "j": 4}
    assert plan.start is plan.nodes["start"]


def test_two_equal_edges_are_two_edges():
    plan = plan_of("start>a, start>a")
    assert (len(plan.start.edges), plan.nodes["a"].in_count) == (2, 2)


def test_handles_come_from_the_type_and_the_config():
    plan = plan_of("start>c, c.yes>x", c=condition("yes", "no"), x={"type": "end"})
    assert {node_id: set(node.handles) for node_id, node in plan.nodes.items()} == {
        "start": {"default"}, "c": {"yes", "no", "else", "error"}, "x": set(),
    }  # fmt: skip


def test_what_is_not_written_has_its_default():
    node = plan_of("start>a").nodes["a"]
    assert (node.join_any, node.error_handling, node.output_variable) == (False, "continue", None)
    assert node.retry == RetryPolicy(max_attempts=3, kind="exp", base_ms=1_000, max_ms=60_000, jitter=0.0)
    assert node.timeout_ms == 30_000


def test_what_is_written_is_kept():
    written = {
        "joinMode": "any", "errorHandling": "ignore", "outputVariable": "x", "timeout": "2s",
        "retry": {"maxAttempts": 5, "backoff": {"kind": "fixed", "base": "10ms"}},
    }  # fmt: skip
    node = plan_of("start>a", a=written).nodes["a"]
    assert (node.join_any, node.error_handling, node.output_variable) == (True, "ignore", "x")
    assert (node.retry.max_attempts, node.retry.base_ms, node.timeout_ms) == (5, 10, 2_000)


def test_the_bodies_of_loops_are_apart():
    edges = "start>l, l.loop>m, m.loop>x, x>m, m.done>y, y>l, l.done>z"
    plan = plan_of(edges, l=loop(), m=loop())
    assert ids(plan.root.nodes) == ["start", "l", "z"]
    assert ids(body_of(plan, "l").nodes) == ["m", "y"]
    assert ids(body_of(plan, "m").nodes) == ["x"]
    assert plan.nodes["x"].home is body_of(plan, "m")
    assert body_of(plan, "m").loop is plan.nodes["m"]
    assert plan.root.loop is None


def test_edges_back_are_handles_and_no_edges():
    plan = plan_of("start>l, l.loop>x, x>l, x.error>l, x>y, l.done>z", l=loop())
    assert plan.nodes["x"].back_handles == {"default", "error"}
    assert edges_of(plan.nodes["x"]) == [("default", "y")]
    assert plan.nodes["l"].in_count == 1
    assert edges_of(plan.nodes["l"]) == [("done", "z")]


def test_entries_count_loop_edges_and_the_first_need_nothing_else():
    edges = "start>l, l.loop>a, l.loop>b, l.loop>b, a>j, l.loop>j, a>k, l.loop>k"
    body = body_of(plan_of(edges, l=loop(), k={"joinMode": "any"}), "l")
    assert [(node.id, count) for node, count in body.entries] == [("a", 1), ("b", 2), ("j", 1), ("k", 1)]
    assert ids(body.first) == ["a", "b", "k"]
    assert {node.id: node.in_count for node in body.nodes} == {"a": 1, "b": 2, "j": 2, "k": 2}


def test_a_sink_has_no_edge_at_all():
    plan = plan_of("start>l, l.loop>a, a>b, l.loop>c, c>l, l.loop>m, m.loop>x", l=loop(), m=loop())
    sinks = {node.id for node in plan.nodes.values() if node.is_sink}
    assert sinks == {"b", "m", "x", "l"}, "a loop whose only edges lead into its own body hands its list on to nobody"


def test_an_error_edge_counts_forward_and_back():
    plan = plan_of("start>l, l.loop>a, a.error>l, l.loop>b, b.error>d, l.loop>e", l=loop())
    assert [node.id for node in plan.nodes.values() if node.has_error_edge] == ["a", "b"]


def test_unreachable_nodes_and_their_edges_are_left_out():
    plan = plan_of("start>a, lost>a")
    assert set(plan.nodes) == {"start", "a"}
    assert plan.nodes["a"].in_count == 1


def test_a_loop_has_its_defaults():
    spec = plan_of("start>l", l=loop()).nodes["l"].loop
    assert spec is not None
    assert (spec.mode, spec.concurrency, spec.on_item_error, spec.iterations_max) == ("forEach", 1, "fail", 100_000)
    assert (spec.condition, spec.yields, spec.body.nodes, spec.body.first) == (None, None, (), ())


def test_a_while_loop_goes_one_by_one():
    config = {"while": "{{ctx.index < 3}}", "concurrency": 5, "yield": "{{ctx.index}}"}
    spec = plan_of("start>l", l=loop(**config)).nodes["l"].loop
    assert spec is not None
    assert (spec.mode, spec.concurrency, spec.iterations_max) == ("while", 1, 1_000)
    assert spec.condition is not None
    assert spec.condition.text == config["while"]
    assert spec.yields is not None
    assert spec.yields.text == config["yield"]


def test_an_end_has_its_own_facts():
    plan = plan_of("start>x, start>y", x={"type": "end"}, y={"type": "end", "config": {"name": "n", "terminate": True}})
    facts = [(node.is_end, node.terminate, node.end_name) for node in plan.nodes.values()]
    assert facts == [(False, False, None), (True, False, None), (True, True, "n")]


def test_options_are_in_the_plan():
    options = {"deadline": "1h", "retention": "7d", "inputSchema": {"type": "object"}}
    plan = plan_of("start>a", workflowOptions=options)
    assert (plan.deadline_ms, plan.retention_ms, plan.input_schema) == (3_600_000, 604_800_000, {"type": "object"})


@pytest.mark.parametrize("types", [TypesWith(without=["set"]), TypesWith(broken(handles=raises))])
def test_a_type_that_is_gone_or_broken_has_the_handles_that_are_used(types: TypesWith):
    kind = "set" if types.get("set") is None else "broken"
    document = drawn("start>a, a.left>b, a>b", a={"type": kind}, b={"type": "end"})
    plan = compile_plan(document, types)
    assert plan.nodes["a"].handles == {"left", "default", "error"}
    assert plan.nodes["a"].timeout_ms == 30_000


def test_the_time_of_code_is_kept_by_its_handler():
    types = TypesWith(without=["python"])
    given: dict[str, Any] = {"type": "python", "timeout": "5s", "config": {"code": "return 1", "timeout": "7s"}}
    assert compile_plan(drawn("start>a", a=given), types).nodes["a"].timeout_ms is None
    del given["config"]["timeout"]
    assert compile_plan(drawn("start>a", a=given), types).nodes["a"].timeout_ms == 5_000


@pytest.mark.parametrize("edges", ["start>a, start>b, a>b, b>a", "a>b", "start>l, l.loop>x, start>x"])
def test_what_was_never_valid_does_not_compile(edges: str):
    nodes = {"l": loop()} if "l" in edges else {}
    start = {} if "start" in edges else {"start": {"type": "set"}}
    with pytest.raises(InvalidWorkflow):
        plan_of(edges, **nodes, **start)

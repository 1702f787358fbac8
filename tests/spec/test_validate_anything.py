"""The validator's own conduct: no value makes it raise, no size makes it slow."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anabranch.engine.rules.graph.document import EDGES_MAX, NODES_MAX
from anabranch.engine.rules.graph.problems import REFUSALS, WARNINGS
from anabranch.engine.rules.graph.validate import refusal_of, validate
from tests.operations import growth
from tests.spec.drawings import TYPES, TypesWith, broken, drawn, errors, raises, reads, report, writes

scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
FIELDS = """
    id type name config outputVariable joinMode errorHandling retry timeout position upstreamNodeID
    downstreamNodeID sourceHandle branches expression source while mode yield concurrency maxIterations values
    event duration until nodes edges workflowOptions inputSchema retention deadline maxAttempts backoff kind
    base $ref __proto__
"""
WORDS = """
    start end set loop condition delay waitForEvent a b any all ignore default error done forEach 5s {{ctx.a}} {{ {%
"""
field_names = st.sampled_from(re.findall(r"\S+", FIELDS))
words = st.sampled_from(re.findall(r"\S+", WORDS))
anything = st.recursive(
    scalars | words,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(field_names | st.text(max_size=4), inner, max_size=5),
    max_leaves=20,
)
ids = st.sampled_from(["start", "a", "b", "l", "c"]) | anything
almost_nodes = st.fixed_dictionaries(
    {"id": ids, "type": words | anything}, optional={"config": anything, "retry": anything}
)
almost_edges = st.fixed_dictionaries(
    {"upstreamNodeID": ids, "downstreamNodeID": ids}, optional={"id": anything, "sourceHandle": words | anything}
)
almost_workflows = st.fixed_dictionaries(
    {"nodes": st.lists(almost_nodes | anything, max_size=6), "edges": st.lists(almost_edges | anything, max_size=6)},
    optional={"workflowOptions": anything, "name": anything, "title": anything},
)


@settings(max_examples=150, deadline=None)
@given(anything | almost_workflows)
def test_no_json_value_makes_it_raise(document: Any):
    answer = validate(document, TYPES).as_json()
    assert answer["valid"] == (not answer["errors"])
    json.dumps(answer, allow_nan=False).encode()


@pytest.mark.parametrize("depth", [70, 5_000, 100_000])
def test_no_depth_makes_it_raise(depth: int):
    lists: Any = []
    objects: Any = {}
    for _ in range(depth):
        lists, objects = [lists], {"a": objects}
    for deep in (lists, objects):
        for document in (deep, {"nodes": deep}, {"nodes": [], "workflowOptions": {"inputSchema": {"not": deep}}}):
            assert not report(document).valid


def test_values_that_are_no_json_are_refused():
    assert errors({1: 2}) == errors(object()) == errors({"nodes": {1, 2}}) == [("NOT_STORABLE", None)]


# -- types are other people's code --------------------------------------------------------


@pytest.mark.parametrize("question", ["handles", "check", "unbounded"])
def test_a_type_that_raises_is_a_problem_of_the_node(question: str):
    answer = validate(drawn("start>a, a>b", a={"type": "broken"}), TypesWith(broken(**{question: raises})))
    assert [(problem.code, problem.node_id) for problem in answer.errors] == [("NODE_TYPE_BROKEN", "a")]


def test_a_type_that_stops_half_way_keeps_what_it_found():
    def half(config: Any) -> Any:
        yield "MINE", "/x", "first"
        raise KeyError("x")

    answer = validate(drawn("start>a", a={"type": "broken"}), TypesWith(broken(check=half)))
    assert [problem.code for problem in answer.errors] == ["NODE_TYPE_BROKEN", "MINE"]


# -- the exception ------------------------------------------------------------------------


def test_the_refusal_lists_every_problem():
    found = report(drawn("start>a", a={"type": "?", "joinMode": "?", "timeout": "?", "retry": "?"}))
    refusal = refusal_of(found.errors)
    assert re.fullmatch(r"the workflow has 4 problems: .*; and 1 more", refusal.message)
    assert [problem["code"] for problem in refusal.details] == [
        "UNKNOWN_JOIN_MODE", "BAD_TIMEOUT", "BAD_RETRY", "UNKNOWN_TYPE",
    ]  # fmt: skip


def test_the_tables_of_codes_are_disjoint_and_in_sentences():
    assert not REFUSALS.keys() & WARNINGS.keys()
    assert all(sentence.endswith(".") for sentence in (*REFUSALS.values(), *WARNINGS.values()))


# -- size ---------------------------------------------------------------------------------


# 600 nodes: enough to see work that grows with the square, and few enough to count every operation.
GROWN_NODES = 600


def chain(count: int, **fields: Any) -> dict[str, Any]:
    names = ["start", *(f"n{index}" for index in range(count - 1))]
    return drawn(", ".join(f"{a}>{b}" for a, b in pairwise(names)), **dict.fromkeys(names[1:], fields))


def layers(count: int, **fields: Any) -> dict[str, Any]:
    """One full layer after another: as many ways as 10,000 edges allow."""
    width = 5
    rows = [[f"n{row}x{column}" for column in range(width)] for row in range(count // width - 1)]
    between = [f"{a}>{b}" for above, below in pairwise(rows) for a in above for b in below]
    edges = [f"start>{name}" for name in rows[0]] + between[: EDGES_MAX - width]
    return drawn(", ".join(edges), **{name: fields for row in rows for name in row})


def staircase(count: int) -> dict[str, Any]:
    """A condition under the `else` of a condition under … : every leaf excludes every other."""
    steps = count // 2 - 1
    edges = ", ".join(f"c{n}.yes>w{n}, c{n}.else>c{n + 1}" for n in range(steps - 1))
    branches = {"branches": [{"id": "yes", "expression": "{{ctx.input.a}}"}]}
    nodes: dict[str, Any] = {f"c{n}": {"type": "condition", "config": branches} for n in range(steps)}
    return drawn(f"start>c0, {edges}", **nodes, **{f"w{n}": writes("x") for n in range(steps - 1)})


def ladder_back(count: int) -> dict[str, Any]:
    """Ways down and, by twos, up again: what makes dominators by iteration take for ever."""
    last = count - 2
    down = [f"n{index}>n{index + 1}" for index in range(last)]
    up = [f"n{index}>n{index - step}" for step in (1, 2) for index in range(step, last + 1)]
    return drawn(", ".join(["start>n0", f"start>n{last}", *down, *up]))


@pytest.mark.parametrize(
    "graph",
    [
        lambda count: chain(count, **writes("x")),
        lambda count: chain(count, **reads("x")),
        lambda count: layers(count, **writes("x")),
        staircase,
        ladder_back,
    ],
    ids=["chain of writers", "chain of readers", "layers of writers", "staircase", "ladder back"],
)
def test_a_graph_of_twice_as_many_nodes_takes_twice_as_many_operations(graph: Callable[[int], dict[str, Any]]):
    small, large = graph(GROWN_NODES // 2), graph(GROWN_NODES)
    assert growth(lambda: report(small), lambda: report(large)) < 2.1


@pytest.mark.parametrize(
    "document",
    [chain(NODES_MAX, **writes("x")), layers(NODES_MAX, **writes("x")), staircase(NODES_MAX), ladder_back(NODES_MAX)],
    ids=["chain", "layers", "staircase", "ladder back"],
)
def test_the_largest_graphs_are_not_too_deep_for_the_interpreter(document: dict[str, Any]):
    report(document)

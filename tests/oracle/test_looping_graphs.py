"""The engine against the oracle on random graphs whose edges lead back."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

from tests.oracle.graphs import Case
from tests.oracle.looping_graphs import cursor_case, looping_case
from tests.oracle.test_random_graphs import assert_as_predicted
from tests.oracle.test_real_shapes import CORPUS

# 400 graphs meet every rule of regions, and take seconds; `ANABRANCH_ORACLE_GRAPHS=50000` makes it a soak.
GRAPHS = int(os.environ.get("ANABRANCH_ORACLE_GRAPHS", "400"))

GRAPHS_OF_PEOPLE = [json.loads(line) for line in CORPUS.read_text().splitlines()]

GOTO = [pytest.param(graph, id=graph["id"]) for graph in GRAPHS_OF_PEOPLE if graph["category"] == "goto"]
EXIT = [pytest.param(graph, id=graph["id"]) for graph in GRAPHS_OF_PEOPLE if graph["category"] == "exit"]


@pytest.mark.timeout(900)
def test_the_engine_does_what_the_oracle_predicts_for_graphs_with_edges_that_lead_back() -> None:
    """Whatever the order of the results, though each may arrive twice, and whoever evaluates pure nodes."""
    for seed in range(GRAPHS):
        _assert_as_predicted(looping_case(seed), seed)


@pytest.mark.timeout(900)
def test_the_engine_does_what_the_oracle_predicts_for_graphs_with_cursors() -> None:
    """In loops inside each other, in the iterations of loop nodes, and outside of both."""
    for seed in range(GRAPHS // 8):
        _assert_as_predicted(cursor_case(seed), seed)


@pytest.mark.parametrize("graph", GOTO)
def test_every_real_shape_with_a_way_back_runs_as_the_oracle_predicts(graph: dict[str, Any]) -> None:
    """Its conditions take another branch in each pass, as `pick` nodes do."""
    document = graph["workflow"]
    nodes = [{**_chooser(node, document), "maxPasses": 4} for node in document["nodes"]]
    for seed in range(2):
        _assert_as_predicted(Case({**document, "nodes": nodes}, {"seed": 7, "choices": {}}, {}), seed)


@pytest.mark.parametrize("graph", EXIT)
def test_every_real_shape_whose_loop_body_is_left_runs_with_a_cursor(graph: dict[str, Any]) -> None:
    """As the oracle predicts, for lists of several lengths."""
    document = graph["workflow"]
    for seed in range(4):
        nodes = [{**_chooser(_cursor(node, seed), document), "maxPasses": 9} for node in document["nodes"]]
        items = {node["id"]: list(range((0, 1, 3, 5)[seed])) for node in document["nodes"] if node["type"] == "loop"}
        _assert_as_predicted(Case({**document, "nodes": nodes}, {"seed": 7, "choices": {}, "items": items}, {}), seed)


def _assert_as_predicted(case: Case, seed: int) -> None:
    evaluations_max = (0, 1, 3, 200)[seed // 2 % 4]
    assert_as_predicted(case, order=seed, duplicate=seed % 2 == 1, evaluations_max=evaluations_max, is_ordered=False)


def _cursor(node: dict[str, Any], seed: int) -> dict[str, Any]:
    """A cursor in place of a loop node, which hands out two items at a time, or one."""
    if node["type"] != "loop":
        return node
    return {**node, "type": "cursor", "config": {**node["config"], "batchSize": 1 + seed % 2}}


def _chooser(node: dict[str, Any], document: dict[str, Any]) -> dict[str, Any]:
    if node["type"] != "condition":
        return node
    handles = [branch["id"] for branch in node["config"]["branches"]]
    used = {edge.get("sourceHandle") for edge in document["edges"] if edge["upstreamNodeID"] == node["id"]}
    return {**node, "type": "pick", "config": {"handles": [*handles, *({"else"} & used)]}}

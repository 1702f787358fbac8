"""What the validator claims of every run, held against runs of random graphs in random orders."""

from __future__ import annotations

from collections import defaultdict

import pytest

from anabranch.engine.rules.events import ENDINGS, Event, EventType
from anabranch.engine.rules.graph.control_flow.flow import Flow
from anabranch.engine.rules.graph.control_flow.structure import structure_of
from anabranch.engine.rules.graph.document import parse
from anabranch.engine.rules.graph.validate import validate
from tests.oracle.flaky import WithFlaky
from tests.oracle.graphs import Case, random_case
from tests.oracle.running import run_of
from tests.spec.drawings import TYPES

# 60 graphs of about 15 nodes give some thousand ordered pairs, in two or three seconds.
SEEDS = range(60)


async def log_of(case: Case, order: int) -> list[Event]:
    return (await run_of(case, WithFlaky(TYPES, case.script), order=order, duplicate=False)).log


@pytest.mark.parametrize("seed", SEEDS)
async def test_claims_hold_in_runs(seed: int):
    case = random_case(seed)
    report = validate(case.document, WithFlaky(TYPES, case.script))
    assert report.valid, report.errors
    graph = parse(case.document)
    structure = structure_of(graph)
    settled = Flow(graph, structure).settled
    bits = {node_id: 1 << index for index, node_id in enumerate(structure.order)}
    never_live = {
        (edge.source, edge.handle)
        for edge in graph.edges
        if edge.pointer in {problem.pointer for problem in report.warnings if problem.code == "EDGE_NEVER_LIVE"}
    }
    for order in range(3):
        began: dict[str, dict[str, int]] = defaultdict(dict)
        ended: dict[str, dict[str, int]] = defaultdict(dict)
        activations = set()
        for event in await log_of(case, order):
            if event.type is EventType.NODE_DISPATCHED:
                began[event.scope].setdefault(event.node_id, event.seq)
                activations.add((event.node_id, event.scope))
            elif event.type in ENDINGS:
                ended[event.scope][event.node_id] = event.seq
                activations.add((event.node_id, event.scope))
            if event.type is EventType.NODE_COMPLETED:
                assert (event.node_id, event.next_handle or "default") not in never_live
        assert report.activations_max is not None
        assert len(activations) <= report.activations_max
        for scope, nodes in began.items():
            for later, seq in nodes.items():
                for earlier in nodes.keys() - {later}:
                    if settled[later] & bits[earlier]:
                        assert ended[scope].get(earlier, seq) < seq, f"{later} began before {earlier} had ended"

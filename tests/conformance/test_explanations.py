"""Why a node waits or was skipped, and a run as of each row of its log: the same on every store."""

from __future__ import annotations

from dataclasses import replace

import pytest

from anabranch.engine.plans import PlanCache
from anabranch.engine.ports import NewVersion, Store
from anabranch.engine.rules.events import Status
from anabranch.engine.rules.stimuli import EvaluationDue
from anabranch.errors import NotFound
from anabranch.handlers.registry import builtin_types
from anabranch.service.definitions.checks import Checks
from anabranch.service.explanations.explanations import Explanations
from tests.conformance.building import TENANT, new_run
from tests.spec.scenario import Scenario, asks_for, given

GRAPH = {
    "nodes": [
        {"id": "start", "type": "start"},
        {
            "id": "pick",
            "type": "condition",
            "config": {"branches": [{"id": "big", "expression": "{{ctx.input.n > 5}}"}]},
        },
        {"id": "work", "type": "set", "config": {"values": {}}},
        {"id": "ask", "type": "waitForEvent", "config": {"event": "go"}},
        {"id": "end", "type": "end"},
    ],
    "edges": [
        {"upstreamNodeID": "start", "downstreamNodeID": "pick"},
        {"upstreamNodeID": "pick", "downstreamNodeID": "work", "sourceHandle": "big"},
        {"upstreamNodeID": "pick", "downstreamNodeID": "ask", "sourceHandle": "else"},
        {"upstreamNodeID": "work", "downstreamNodeID": "end"},
        {"upstreamNodeID": "ask", "downstreamNodeID": "end"},
    ],
}


async def waiting_run(store: Store) -> tuple[str, Scenario]:
    """A run whose condition has decided, and that waits for a signal: its id, and the scenario that its log is of."""
    saved = await store.save_workflow(NewVersion(name="explained", definition=GRAPH), tenant_id=TENANT)
    run = given(GRAPH, {"n": 3}, evaluates=True).then(EvaluationDue(), asks_for("ask", "go"))
    head = replace(run.head, workflow_id=saved.workflow_id, workflow_name="explained")
    born = new_run(head, *run.log, worker_id=None, status=Status.WAITING, available_at=None)
    outcome = await store.commit([born])
    assert head.instance_id in outcome.won
    return head.instance_id, run


def explanations(store: Store) -> Explanations:
    return Explanations(store, PlanCache(store, builtin_types()), Checks())


async def test_why_is_answered_from_the_log_of_every_store(store: Store) -> None:
    run_id, _ = await waiting_run(store)
    asked = explanations(store)

    whole = await asked.why_run(run_id, tenant_id=TENANT)
    end = await asked.why_node(run_id, "end", tenant_id=TENANT)
    work = await asked.why_node(run_id, "work", tenant_id=TENANT)

    assert [(each["kind"], each["nodeID"]) for each in whole["waitsFor"]] == [("signal", "ask")]
    assert [(each["from"], each["verdict"]) for each in end["edges"]] == [("work", "dead"), ("ask", "open")]
    assert end["waitsFor"][0]["why"][0]["kind"] == "signal"
    (decider,) = work["decidedBy"]
    assert (decider["nodeID"], decider["handle"], decider["value"]) == ("pick", "else", False)


async def test_a_run_is_shown_as_of_every_row_on_every_store(store: Store) -> None:
    run_id, run = await waiting_run(store)
    asked = explanations(store)

    for row in run.log:
        seen = await asked.at(run_id, row.seq, tenant_id=TENANT)
        nodes = {node["nodeID"]: node["status"] for node in seen["nodes"]}
        assert (seen["seq"], seen["lastSeq"], seen["ctx"]) == (row.seq, len(run.log), {"input": {"n": 3}})
        assert seen.keys() >= {"createdAt", "status", "edges", "waits", "signalsKept"}
    assert nodes == {"start": "success", "pick": "success", "work": "skipped", "ask": "waiting"}
    with pytest.raises(NotFound):
        await asked.why_run(run_id, tenant_id="somebody else")

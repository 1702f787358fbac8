"""Test runs over the socket: a canvas starts, watches and stops a graph that was never saved."""

from __future__ import annotations

from typing import Any

from anabranch.keys.access import Role
from tests.engine.conftest import TENANT, MakeProcess, until
from tests.engine.drawing import drawn, node
from tests.sockets.conftest import Connect, Serve, Served
from tests.sockets.test_watching import GATED, node_facts, told_by


def graph(*nodes: dict[str, Any]) -> dict[str, Any]:
    """The nodes and edges alone, as a canvas sends them."""
    document = drawn("unsaved", *nodes)
    return {"nodes": document["nodes"], "edges": document["edges"]}


async def test_a_test_run_is_watched_from_its_first_event(served: Served, connect: Connect) -> None:
    watcher = await connect(served)
    tried = graph(node("a"), node("end", "end", config={"outputParameters": {"r": "{{ctx.input.x}}"}}))
    answer = await watcher.ask("workflow_test_run", {**tried, "input": {"x": 5}})
    assert answer == {"ok": True, "instanceID": answer["instanceID"]}
    end = await watcher.ended(answer["instanceID"])
    assert end["status"] == "COMPLETED" and end["output"] == {"r": 5}
    log = await served.service.get_log(answer["instanceID"], tenant_id=TENANT)
    assert node_facts(watcher, answer["instanceID"]) == told_by(log)


async def test_a_test_run_takes_pins_and_its_last_node_over_the_socket_too(served: Served, connect: Connect) -> None:
    watcher = await connect(served)
    tried = graph(node("a"), node("b"), node("end", "end"))
    answer = await watcher.ask("workflow_test_run", {**tried, "pins": {"a": {"output": 5}}, "until": "b"})
    assert (await watcher.ended(answer["instanceID"]))["status"] == "COMPLETED"
    joined = await watcher.ask("workflow_run_join", {"runId": answer["instanceID"]})
    assert [(each["nodeID"], each.get("pinned", False), each["output"]) for each in joined["nodes"]][1] == (
        "a",
        True,
        5,
    )
    assert [each["nodeID"] for each in joined["nodes"]] == ["start", "a", "b"]
    refused = await watcher.ask("workflow_test_run", {**tried, "pins": {"gone": {"output": 5}}})
    assert (refused["ok"], refused["code"], refused["details"][0]["pointer"]) == (
        False,
        "INVALID_REQUEST",
        "/pins/gone",
    )


async def test_a_stopped_test_run_is_told_as_cancelled(served: Served, connect: Connect) -> None:
    canvas, colleague = await connect(served), await connect(served, await served.key(Role.VIEWER))
    run_id = (await canvas.ask("workflow_test_run", graph(node("gate", "testGate", config={"gate": "g"}))))[
        "instanceID"
    ]
    await colleague.ask("workflow_run_join", {"runId": run_id})
    assert await canvas.ask("workflow_test_stop", {"runId": run_id}) == {"ok": True, "instanceID": run_id}
    for watcher in (canvas, colleague):
        assert (await watcher.ended(run_id))["status"] == "CANCELLED"
        assert [each[1:] for each in watcher.facts(run_id)][-2:] == [("gate", "", "cancelled"), ("", "", "CANCELLED")]
    assert (await canvas.ask("workflow_run_join", {"runId": run_id}))["code"] == "NOT_FOUND"
    assert (await canvas.ask("workflow_test_stop", {"runId": run_id}))["code"] == "NOT_FOUND"
    await until(lambda: served.api.broadcaster.rooms_count == 0)


async def test_a_test_run_that_works_elsewhere_is_stopped_too(
    make_process: MakeProcess, serve: Serve, connect: Connect
) -> None:
    serves, works = await make_process(works=False), await make_process()
    canvas = await connect(await serve(serves))
    run_id = (await canvas.ask("workflow_test_run", graph(node("gate", "testGate", config={"gate": "g"}))))[
        "instanceID"
    ]
    await works.log.saw("NODE_DISPATCHED", "gate")
    assert (await canvas.ask("workflow_test_stop", {"runId": run_id}))["ok"]
    assert (await canvas.ended(run_id))["status"] == "CANCELLED"


async def test_a_graph_that_is_wrong_is_refused_with_every_problem(served: Served, connect: Connect) -> None:
    watcher = await connect(served)
    tried = {"nodes": [{"id": "a", "type": "nothing"}], "edges": [{"upstreamNodeID": "a", "downstreamNodeID": "b"}]}
    answer = await watcher.ask("workflow_test_run", tried)
    assert (answer["ok"], answer["code"]) == (False, "INVALID_WORKFLOW")
    assert len({problem["code"] for problem in answer["details"]}) > 1
    for nonsense in ({"nodes": [], "edges": 5}, {"nodes": [1, None], "edges": [[]]}, {"nodes": {}, "edges": []}):
        answer = await watcher.ask("workflow_test_run", nonsense)
        assert answer["code"] in ("INVALID_REQUEST", "INVALID_WORKFLOW")


async def test_options_that_a_test_run_does_not_have_are_refused(served: Served, connect: Connect) -> None:
    watcher = await connect(served)
    answer = await watcher.ask("workflow_test_run", {**graph(node("a")), "input": {}, "workflowOption": {}})
    assert (answer["ok"], answer["code"]) == (False, "INVALID_REQUEST")
    (problem,) = answer["details"]
    assert problem["pointer"] == "/workflowOption"
    assert "Did you mean 'workflowOptions'?" in problem["message"]


async def test_a_saved_run_is_not_stopped_as_a_test(served: Served, connect: Connect) -> None:
    watcher = await connect(served)
    run_id = await served.process.run(GATED)
    assert (await watcher.ask("workflow_test_stop", {"runId": run_id}))["code"] == "NOT_FOUND"
    stranger = await connect(served, await served.key(tenant="other"))
    own = (await watcher.ask("workflow_test_run", graph(node("gate", "testGate", config={"gate": "g"}))))["instanceID"]
    assert (await stranger.ask("workflow_test_stop", {"runId": own}))["code"] == "NOT_FOUND"

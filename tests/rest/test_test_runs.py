"""Test runs over REST: pinned outputs, up to a node, from a node of another run; and the graphs that runs follow."""

from __future__ import annotations

from typing import Any

import pytest

from anabranch.service.runs import testing_verbs
from tests.rest.conftest import Served
from tests.rest.drawing import chain, echo, waiting


def values(node_id: str, value: Any, **fields: Any) -> dict[str, Any]:
    """A node that puts out an object with `v`."""
    return {"id": node_id, "type": "set", "config": {"values": {"v": value}}, "outputVariable": node_id, **fields}


def end(**collected: Any) -> dict[str, Any]:
    return {"id": "end", "type": "end", "config": {"outputParameters": collected}}


THREE = chain(None, values("a", "{{ctx.input.n}}"), values("b", "{{ctx.a.v + 1}}"), end(v="{{ctx.b.v}}"))


async def tried(served: Served, graph: dict[str, Any], **options: Any) -> dict[str, Any]:
    """A test run, once it has ended."""
    answered = await served.ask("POST", "/v1/test-runs", json={**graph, **options}, role="editor")
    assert answered.status == 201, answered.text
    return await served.ended(answered.json["instanceID"])


async def steps(served: Served, run: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The activations of a run by node and scope."""
    found = (await served.ask("GET", f"/v1/runs/{run['instanceID']}/steps?limit=100")).json["items"]
    return {each["nodeID"] + (f" {each['scope']}" if each["scope"] else ""): each for each in found}


async def test_a_pinned_node_is_not_executed_and_says_so(served: Served):
    run = await tried(served, THREE, input={}, pins={"a": {"output": {"v": 41}}})
    assert (run["status"], run["output"]) == ("COMPLETED", {"v": 42})
    shown = {each["nodeID"]: each for each in run["nodes"]}
    assert shown["a"]["pinned"] is True
    assert shown["a"]["handles"] == ["default"]
    assert "pinned" not in shown["b"]
    listed = await steps(served, run)
    assert (listed["a"]["pinned"], listed["a"]["output"], listed["a"]["status"]) == (True, {"v": 41}, "success")
    log = (await served.ask("GET", f"/v1/runs/{run['instanceID']}/log")).json["items"]
    assert [row["payload"] for row in log if row["nodeID"] == "a"] == [{"pinned": True}, {"v": 41}]


async def test_a_pin_says_by_which_handle_its_node_leaves(served: Served):
    graph = chain(None, {"id": "ask", "type": "waitForEvent", "config": {"event": "go"}})
    graph["nodes"] += [values("late", 1), values("came", 2)]
    graph["edges"] += [
        {"upstreamNodeID": "ask", "downstreamNodeID": "late", "sourceHandle": "timeout"},
        {"upstreamNodeID": "ask", "downstreamNodeID": "came"},
    ]
    run = await tried(served, graph, pins={"ask": {"output": None, "handle": "timeout"}})
    assert {each["nodeID"]: each["status"] for each in run["nodes"]} == {
        "start": "success",
        "ask": "success",
        "late": "success",
        "came": "skipped",
    }


async def test_a_run_up_to_a_node_knows_no_other(served: Served):
    run = await tried(served, THREE, input={"n": 1}, until="a")
    assert [(each["nodeID"], each["status"]) for each in run["nodes"]] == [("start", "success"), ("a", "success")]
    assert (run["status"], run["output"]) == ("COMPLETED", None)


async def test_a_run_goes_on_from_a_node_with_what_another_run_came_to(served: Served):
    await served.save({**THREE, "name": "three"})
    first = await served.ended(await served.start("three", input={"n": 5}))
    changed = chain(None, values("a", "{{ctx.nowhere}}"), values("b", "{{ctx.a.v * 10}}"), end(v="{{ctx.b.v}}"))
    origin = {"instanceID": first["instanceID"], "nodeID": "b"}
    run = await tried(served, changed, **{"from": origin})
    assert (run["status"], run["output"], run["input"]) == ("COMPLETED", {"v": 50}, {"n": 5})
    assert [each["nodeID"] for each in run["nodes"] if each.get("pinned")] == ["a"]
    alone = await tried(served, changed, **{"from": origin, "until": "b", "input": {"n": 6}})
    assert ([each["nodeID"] for each in alone["nodes"]], alone["input"]) == (["start", "a", "b"], {"n": 6})
    pinned = await tried(served, changed, **{"from": origin, "pins": {"a": {"output": {"v": 1}}}})
    assert pinned["output"] == {"v": 10}, "what is pinned by hand stands before what was known"


async def test_a_failure_that_was_handled_is_gone_on_from(served: Served):
    fails = {"id": "a", "type": "set", "config": {"values": {"v": "{{ctx.nowhere}}"}}, "outputVariable": "a"}
    graph = chain(None, fails)
    graph["nodes"] += [values("mended", "{{ctx.a.error.code}}"), values("never", 1)]
    graph["edges"] += [
        {"upstreamNodeID": "a", "downstreamNodeID": "mended", "sourceHandle": "error"},
        {"upstreamNodeID": "a", "downstreamNodeID": "never"},
    ]
    first = await tried(served, graph)
    again = await tried(served, graph, **{"from": {"instanceID": first["instanceID"], "nodeID": "mended"}})
    listed = await steps(served, again)
    assert listed["mended"]["output"] == {"v": "TEMPLATE_PATH_MISSING"}
    assert (listed["a"]["pinned"], listed["a"]["handles"], listed["never"]["status"]) == (True, ["error"], "skipped")


def looping() -> dict[str, Any]:
    """A loop whose body makes `a` of the item and `b` of `a`."""
    each = {"id": "each", "type": "loop", "config": {"source": "{{ctx.input}}"}}
    return {
        "nodes": [{"id": "start", "type": "start"}, each, values("a", "{{ctx.item}}"), values("b", "{{ctx.a.v}}")],
        "edges": [
            {"upstreamNodeID": "start", "downstreamNodeID": "each"},
            {"upstreamNodeID": "each", "downstreamNodeID": "a", "sourceHandle": "loop"},
            {"upstreamNodeID": "a", "downstreamNodeID": "b"},
            {"upstreamNodeID": "b", "downstreamNodeID": "each"},
        ],
    }


async def test_in_a_body_a_pin_holds_for_every_iteration(served: Served):
    run = await tried(served, looping(), input=[1, 2], pins={"a": {"output": {"v": 9}}})
    listed = await steps(served, run)
    assert [listed[f"b each[{index}]"]["output"] for index in (0, 1)] == [{"v": 9}, {"v": 9}]
    assert all(listed[f"a each[{index}]"]["pinned"] for index in (0, 1))
    assert "pinned" not in listed["each"]


async def test_a_mapped_node_is_gone_on_from_with_its_whole_list_and_previewed_with_an_item(served: Served):
    each = {**values("a", "{{ctx.item}}"), "forEach": "{{ctx.input}}"}
    nodes = [{"id": "start", "type": "start"}, each, values("b", "{{ctx.a}}")]
    graph = {"nodes": nodes, "edges": [{"upstreamNodeID": "start", "downstreamNodeID": "a"}]}
    graph["edges"].append({"upstreamNodeID": "a", "downstreamNodeID": "b"})
    first = await tried(served, graph, input=[1, 2])
    origin = {"instanceID": first["instanceID"], "nodeID": "b"}
    listed = await steps(served, await tried(served, graph, **{"from": origin}))
    assert (listed["a"]["pinned"], listed["b"]["output"]) == (True, {"v": [{"v": 1}, {"v": 2}]})
    assert "a a[0]" not in listed

    at = {"instanceID": first["instanceID"], "nodeID": "a"}
    body = {"items": [{"id": "0", "template": "{{ctx.item}} of {{ctx.count}}"}], "at": at}
    (seen,) = (await served.ask("POST", "/v1/preview", json=body, role="editor")).json["items"]
    assert seen["value"] == "1 of 2"


async def test_an_iteration_of_another_run_is_gone_on_from(served: Served):
    first = await tried(served, looping(), input=[1, 2])
    for scope, expected in ((None, 1), ("each[1]", 2)):
        origin = {"instanceID": first["instanceID"], "nodeID": "b", **({} if scope is None else {"scope": scope})}
        listed = await steps(served, await tried(served, looping(), **{"from": origin}))
        assert [listed[f"b each[{index}]"]["output"]["v"] for index in (0, 1)] == [expected, expected]


@pytest.mark.parametrize(
    ("options", "pointer"),
    [
        ({"untill": "a"}, "/untill"),
        ({"pins": []}, "/pins"),
        ({"pins": {"a": {"out": 1}}}, "/pins/a"),
        ({"pins": {"gone": {"output": 1}}}, "/pins/gone"),
        ({"pins": {"start": {"output": 1}}}, "/pins/start"),
        ({"pins": {"a": {"output": 1, "handle": "yes"}}}, "/pins/a/handle"),
        ({"pins": {"end": {"output": 1}}}, "/pins/end/output"),
        ({"pins": {"a": {"output": "x" * 1_048_577}}}, "/pins/a/output"),
        ({"until": "gone"}, "/until"),
        ({"until": 5}, "/until"),
        ({"from": {"instanceID": "x"}}, "/from"),
        ({"from": {"instanceID": "x", "nodeID": "gone"}}, "/from/nodeID"),
    ],
)
async def test_options_that_do_not_fit_are_refused_with_their_place(
    served: Served, options: dict[str, Any], pointer: str
):
    refused = await served.ask("POST", "/v1/test-runs", json={**THREE, **options})
    assert (refused.status, refused.code) == (422, "INVALID_REQUEST")
    assert [each["pointer"] for each in refused.json["error"]["details"]] == [pointer]


async def test_a_run_that_is_not_there_or_too_large_is_not_gone_on_from(
    served: Served, monkeypatch: pytest.MonkeyPatch
):
    theirs = await served.ask("POST", "/v1/test-runs", json=THREE, role="other")
    for instance_id in ("0190a5e0-0000-7000-8000-000000000000", theirs.json["instanceID"], "nothing"):
        origin = {"instanceID": instance_id, "nodeID": "b"}
        refused = await served.ask("POST", "/v1/test-runs", json={**THREE, "from": origin})
        assert (refused.status, refused.code) == (404, "NOT_FOUND")
    run = await tried(served, THREE, input={"n": 1})
    monkeypatch.setattr(testing_verbs, "ORIGIN_ROWS_MAX", 3)
    origin = {"instanceID": run["instanceID"], "nodeID": "b"}
    refused = await served.ask("POST", "/v1/test-runs", json={**THREE, "from": origin})
    assert (refused.status, refused.code) == (422, "RUN_TOO_LARGE")


# -- the graph of a run -------------------------------------------------------------------
async def test_a_drawn_run_has_the_graph_of_its_version_also_when_the_workflow_is_deleted(served: Served):
    await served.save({**echo("triage"), "notes": [{"text": "x"}]})
    run = await served.ended(await served.start("triage"))
    await served.ask("PUT", "/v1/workflows/triage", json=waiting("triage"))
    for _ in range(2):
        graph = (await served.ask("GET", f"/v1/runs/{run['instanceID']}/graph", role="viewer")).json
        assert graph == {
            "instanceID": run["instanceID"],
            "kind": "drawn",
            "test": False,
            "workflowID": run["workflowID"],
            "name": "triage",
            "version": 1,
            "nodes": echo()["nodes"],
            "edges": echo()["edges"],
            "title": None,
            "workflowOptions": None,
            "notes": [{"text": "x"}],
            "viewport": None,
            "pins": {},
            "until": None,
        }
        await served.ask("DELETE", "/v1/workflows/triage")


async def test_a_test_run_has_its_graph_with_its_pins(served: Served):
    run = await tried(served, THREE, input={"n": 1}, until="b", pins={"a": {"output": {"v": 1}, "handle": "default"}})
    graph = (await served.ask("GET", f"/v1/runs/{run['instanceID']}/graph")).json
    assert (graph["nodes"], graph["edges"]) == (THREE["nodes"], THREE["edges"])
    assert (graph["test"], graph["workflowID"], graph["until"]) == (True, None, "b")
    assert graph["pins"] == {"a": {"output": {"v": 1}, "handle": "default"}}

"""Workflows with several entry points over REST: starts, test runs, children, re-runs, explanations."""

from __future__ import annotations

from typing import Any

from tests.rest.conftest import Served
from tests.rest.drawing import chain


def several(name: str, *, start: bool = True, **fields: Any) -> dict[str, Any]:
    """A workflow that says where it began."""
    beginnings = [
        {"id": "hook", "type": "topic", "config": {"topic": "never.published"}},
        {"id": "call", "type": "workflowCall", "config": {"inputSchema": {"type": "object", "required": ["n"]}}},
    ]
    beginnings += [{"id": "start", "type": "start"}] if start else []
    said = [
        {"id": f"by-{each['id']}", "type": "end", "config": {"outputParameters": {each["id"]: "{{ctx.input}}"}}}
        for each in beginnings
    ]
    edges = [{"upstreamNodeID": each["id"], "downstreamNodeID": f"by-{each['id']}"} for each in beginnings]
    return {"name": name, "nodes": [*beginnings, *said], "edges": edges, **fields}


async def tried(served: Served, graph: dict[str, Any], **options: Any) -> dict[str, Any]:
    """A test run, once it has ended."""
    answered = await served.ask("POST", "/v1/test-runs", json={**graph, **options}, role="editor")
    assert answered.status == 201, answered.text
    return await served.ended(answered.json["instanceID"])


async def refused(served: Served, path: str, body: Any) -> tuple[int, str, str]:
    answered = await served.ask("POST", path, json=body, role="editor")
    return answered.status, answered.json["error"]["code"], answered.json["error"]["message"]


async def test_a_started_run_begins_at_the_start_and_skips_the_triggers(served: Served):
    await served.save(several("several"))
    run = await served.ended(await served.start("several", input={"n": 1}))
    assert run["output"] == {"start": {"n": 1}}
    assert {each["nodeID"]: each["status"] for each in run["nodes"]} == {
        "start": "success", "hook": "skipped", "call": "skipped",
        "by-start": "success", "by-hook": "skipped", "by-call": "skipped",
    }  # fmt: skip
    path = f"/v1/runs/{run['instanceID']}/nodes/by-hook/why"
    assert (await served.ask("GET", path)).json["sentence"] == "'by-hook' was skipped: the run began at 'start'."


async def test_a_workflow_without_a_start_cannot_be_started_by_hand(served: Served):
    await served.save(several("hooked", start=False))
    assert await refused(served, "/v1/workflows/hooked/runs", {"input": {}}) == (
        409,
        "NO_MANUAL_START",
        "the workflow has no start node: its runs begin at 'hook' (topic), 'call' (workflowCall)",
    )


async def test_a_test_run_begins_at_the_chosen_trigger_with_its_payload(served: Served):
    graph = several("tried", start=False)
    assert (await tried(served, graph, input={"n": 2}, trigger="hook"))["output"] == {"hook": {"n": 2}}
    assert (await tried(served, graph, input={"n": 3}, trigger="call"))["output"] == {"call": {"n": 3}}
    assert (await tried(served, several("tried"), input=4, trigger="start"))["output"] == {"start": 4}
    assert (await refused(served, "/v1/test-runs", graph))[:2] == (409, "NO_MANUAL_START")
    assert (await refused(served, "/v1/test-runs", {**graph, "trigger": "by-hook"}))[:2] == (422, "UNKNOWN_TRIGGER")
    assert (await refused(served, "/v1/test-runs", {**graph, "trigger": "call", "input": 5}))[:2] == (
        422,
        "INVALID_INPUT",
    )
    assert (await refused(served, "/v1/test-runs", {**graph, "trigger": "call", "until": "by-hook"}))[:2] == (
        422,
        "UNKNOWN_TRIGGER",
    )


async def test_a_test_run_of_a_graph_with_one_entry_point_begins_there(served: Served):
    graph = several("one", start=False)
    graph["nodes"] = [node for node in graph["nodes"] if node["id"] in ("hook", "by-hook")]
    graph["edges"] = graph["edges"][:1]
    first = await tried(served, graph, input="x")
    assert first["output"] == {"hook": "x"}
    origin = {"instanceID": first["instanceID"], "nodeID": "by-hook"}
    again = await tried(served, several("more"), **{"from": origin})
    assert again["output"] == {"hook": "x"}, "where the other run began, with its input"


async def test_a_called_run_begins_at_its_workflow_call_with_a_checked_input_and_its_rerun_there_too(served: Served):
    await served.save(several("callee"))
    call = {"id": "go", "type": "workflow", "config": {"workflow": "callee", "input": "{{ctx.input}}"},
            "outputVariable": "said"}  # fmt: skip
    end = {"id": "end", "type": "end", "config": {"outputParameters": {"said": "{{ctx.said}}"}}}
    await served.save(chain("caller", call, end))
    run = await served.ended(await served.start("caller", input={"n": 6}))
    assert run["output"] == {"said": {"call": {"n": 6}}}
    child = (await served.ask("GET", "/v1/workflows/callee/runs")).json["items"][0]["instanceID"]
    again = await served.ask("POST", f"/v1/runs/{child}/rerun", json={"input": {"n": 7}})
    assert again.status == 201, again.text
    assert (await served.ended(again.json["instanceID"]))["output"] == {"call": {"n": 7}}
    failed = await served.ended(await served.start("caller", input={}))
    assert failed["error"]["code"] == "INVALID_INPUT"


async def test_a_workflow_that_only_a_topic_begins_cannot_be_called(served: Served):
    graph = several("aloof", start=False)
    graph["nodes"] = [node for node in graph["nodes"] if node["id"] in ("hook", "by-hook")]
    graph["edges"] = graph["edges"][:1]
    await served.save(graph)
    await served.save(chain("vain", {"id": "go", "type": "workflow", "config": {"workflow": "aloof"}}))
    assert (await served.ended(await served.start("vain")))["error"]["code"] == "NOT_CALLABLE"


async def test_a_run_that_fails_begins_a_run_of_the_workflow_that_is_told(served: Served):
    told = {"id": "told", "type": "failure", "config": {"workflow": "breaks"}}
    end = {"id": "end", "type": "end", "config": {"outputParameters": {"code": "{{ctx.input.error.code}}"}}}
    edges = [{"upstreamNodeID": "told", "downstreamNodeID": "end"}]
    await served.save({"name": "alarm", "nodes": [told, end], "edges": edges})
    await served.save(chain("breaks", {"id": "stop", "type": "stopWithError", "config": {"message": "no"}}))
    failed = await served.ended(await served.start("breaks"))
    assert failed["status"] == "FAILED"
    await served.until("/v1/workflows/alarm/runs", lambda found: bool(found["items"]))
    [run] = (await served.ask("GET", "/v1/workflows/alarm/runs")).json["items"]
    shown = await served.ended(run["instanceID"])
    assert shown["output"] == {"code": "STOPPED"}
    assert shown["input"]["run"]["instanceID"] == failed["instanceID"]
    assert shown["startedBy"]["nodeID"] == "told"


async def test_armed_schedules_and_subscriptions_are_listed_with_their_node_and_not_changed_there(served: Served):
    graph = several("armed")
    graph["nodes"].append({"id": "tick", "type": "schedule", "config": {"cron": "0 8 * * *"}})
    await served.save(graph)
    listed = (await served.ask("GET", "/v1/schedules")).json["items"]
    [tick] = [each for each in listed if each["nodeID"] == "tick"]
    assert (tick["name"], tick["workflow"], tick["version"]) == ("armed/tick", "armed", 1)
    subscriptions = (await served.ask("GET", "/v1/topics/never.published/subscriptions")).json["items"]
    assert [(each["name"], each["nodeID"]) for each in subscriptions if each["name"] == "armed"] == [("armed", "hook")]
    refused_ = await served.ask("DELETE", f"/v1/schedules/{tick['scheduleID']}", role="editor")
    assert (refused_.status, refused_.json["error"]["code"]) == (409, "ARMED_BY_NODE")


async def test_a_webhook_path_that_another_workflow_has_is_refused(served: Served):
    def hooked(name: str) -> dict[str, Any]:
        return {"name": name, "nodes": [{"id": "h", "type": "webhook", "config": {"path": "a/b"}}], "edges": []}

    await served.save(hooked("first-hook"))
    assert (await refused(served, "/v1/workflows", hooked("second-hook")))[:2] == (409, "HOOK_PATH_TAKEN")
    twice = hooked("twice")
    twice["nodes"].append({**twice["nodes"][0], "id": "again"})
    answered = await served.ask("POST", "/v1/workflows", json=twice, role="editor")
    assert [each["code"] for each in answered.json["error"]["details"]] == ["DUPLICATE_HOOK_PATH"]


async def test_one_list_says_what_every_workflow_begins_by(served: Served):
    graph = several("aa-many")
    graph["nodes"] += [
        {"id": "told", "type": "failure", "config": {"workflow": "bb-plain"}},
        {"id": "any", "type": "failure", "config": {}},
        {"id": "web", "type": "webhook", "config": {"path": "aa/many"}},
        {"id": "tick", "type": "schedule", "config": {"every": "90s"}},
        {"id": "off", "type": "webhook", "config": {"path": "aa/off"}, "disabled": True},
    ]
    many = await served.save(graph)
    await served.save(chain("bb-plain", {"id": "stop", "type": "stopWithError", "config": {"message": "no"}}))
    nightly = {"name": "nightly", "workflow": many["workflowID"], "cron": "0 3 * * *", "enabled": False}
    schedule = (await served.ask("POST", "/v1/schedules", json=nightly)).json["scheduleID"]
    subscribed = await served.ask(
        "POST", "/v1/topics/orders.*/subscriptions", json={"type": "workflow", "name": "bb-plain"}
    )
    subscription = subscribed.json["subscriptionID"]

    def one(type_name: str, node_id: str | None, subject: str | None = None, **more: Any) -> dict[str, Any]:
        return {"type": type_name, "nodeID": node_id, "subject": subject, "savedID": None, "enabled": True, **more}

    first = await served.ask("GET", "/v1/triggers?limit=1", role="viewer")
    [shown] = first.json["items"]
    assert {name: shown[name] for name in ("workflowID", "name", "kind", "version")} == {
        "workflowID": many["workflowID"], "name": "aa-many", "kind": "drawn", "version": 1,
    }  # fmt: skip
    assert shown["beginnings"] == [
        one("topic", "hook", "never.published"),
        one("workflowCall", "call"),
        one("start", "start"),
        one("failure", "told", "bb-plain"),
        one("failure", "any"),
        one("webhook", "web", "aa/many"),
        one("schedule", "tick", "90s"),
        one("schedule", None, "0 3 * * *", savedID=schedule, enabled=False),
    ]
    rest = await served.ask("GET", f"/v1/triggers?cursor={first.json['nextCursor']}", role="viewer")
    assert rest.json["nextCursor"] is None
    plain = next(each for each in rest.json["items"] if each["name"] == "bb-plain")
    assert plain["beginnings"] == [one("start", "start"), one("topic", None, "orders.*", savedID=subscription)]
    assert [each["name"] for each in rest.json["items"]].count("aa-many") == 0
    of_other = (await served.ask("GET", "/v1/triggers", role="other")).json["items"]
    assert not {each["name"] for each in of_other} & {"aa-many", "bb-plain"}


async def test_the_list_shows_the_active_version(served: Served):
    def called(topic: str) -> dict[str, Any]:
        nodes = [{"id": "hear", "type": "topic", "config": {"topic": topic}}]
        return {"name": "cc-versions", "nodes": nodes, "edges": []}

    saved = await served.save(called("old"))
    assert (await served.ask("PUT", "/v1/workflows/cc-versions", json=called("new"))).status == 200
    await served.ask("PUT", "/v1/workflows/cc-versions/active", json={"version": 1})
    path = f"/v1/triggers?workflow={saved['workflowID']}"
    [shown] = (await served.ask("GET", path)).json["items"]
    assert (shown["version"], [each["subject"] for each in shown["beginnings"]]) == (1, ["old"])
    await served.ask("PUT", "/v1/workflows/cc-versions/active", json={"version": 2})
    answered = await served.ask("GET", "/v1/triggers?workflow=cc-versions")
    [shown] = answered.json["items"]
    assert (shown["version"], [each["subject"] for each in shown["beginnings"]]) == (2, ["new"])
    assert (await served.ask("GET", "/v1/triggers?workflow=cc-none")).status == 404
    assert (await served.ask("GET", path, role="other")).status == 404
    assert (await served.ask("GET", "/v1/triggers?cursor=x")).code == "INVALID_REQUEST"

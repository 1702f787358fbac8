"""Runs that are started like others, and where runs come from, over REST."""

from __future__ import annotations

from tests.rest.conftest import Served
from tests.rest.drawing import chain, echo, waiting


async def test_a_run_is_repeated_with_its_input_and_linked(served: Served):
    await served.save(echo())
    first = await served.start("echo", input={"n": 7})
    await served.ended(first)
    answered = await served.ask("POST", f"/v1/runs/{first}/rerun", role="operator")
    assert answered.status == 201, answered.text
    again = await served.ended(answered.json["instanceID"])
    assert again["instanceID"] != first
    assert (again["input"], again["output"], again["rerunOf"]) == ({"n": 7}, {"said": {"n": 7}}, first)
    listed = await served.ask("GET", f"/v1/runs?rerunOf={first}")
    assert [run["instanceID"] for run in listed.json["items"]] == [again["instanceID"]]


async def test_a_run_is_repeated_with_another_input_and_of_another_version(served: Served):
    await served.save(echo())
    first = await served.start("echo", input=1)
    changed = echo()
    changed["nodes"][1]["config"] = {"outputParameters": {"second": "{{ctx.input}}"}}
    assert (await served.ask("PUT", "/v1/workflows/echo", json=changed)).json["version"] == 2
    same = (await served.ask("POST", f"/v1/workflows/echo/runs/{first}/rerun", json={})).json["instanceID"]
    assert (await served.ended(same))["output"] == {"said": 1}, "the version of the run itself"
    other = await served.ask("POST", f"/v1/runs/{first}/rerun", json={"input": None, "version": 2})
    run = await served.ended(other.json["instanceID"])
    assert (run["version"], run["input"], run["output"]) == (2, None, {"second": None})


async def test_a_repeated_key_repeats_a_run_once(served: Served):
    await served.save(echo())
    first = await served.start("echo")
    headers = {"Idempotency-Key": "again-1"}
    one = await served.ask("POST", f"/v1/runs/{first}/rerun", headers=headers)
    two = await served.ask("POST", f"/v1/runs/{first}/rerun", headers=headers)
    assert (one.status, two.status) == (201, 200)
    assert one.json["instanceID"] == two.json["instanceID"]


async def test_a_repeated_start_names_the_newest_rerun_of_the_first_run(served: Served):
    await served.save(echo())
    path, body = "/v1/workflows/echo/runs", {"idempotencyKey": "order-1"}
    first = (await served.ask("POST", path, json=body)).json["instanceID"]
    assert (await served.ask("POST", path, json=body)).json["newest"] is None
    second = (await served.ask("POST", f"/v1/runs/{first}/rerun")).json["instanceID"]
    third = (await served.ask("POST", f"/v1/runs/{second}/rerun")).json["instanceID"]
    repeated = (await served.ask("POST", path, json=body)).json
    assert (repeated["instanceID"], repeated["newest"]["instanceID"]) == (first, third)


async def test_a_run_that_cannot_be_repeated_says_why(served: Served):
    await served.save(echo(workflowOptions={"inputSchema": {"type": "integer"}}))
    first = await served.start("echo", input=1)
    await served.ended(first)
    wrong = await served.ask("POST", f"/v1/runs/{first}/rerun", json={"input": "no integer"})
    assert (wrong.status, wrong.code) == (422, "INVALID_INPUT")
    newer = await served.ask("POST", f"/v1/runs/{first}/rerun", json={"version": 9})
    assert (newer.status, newer.json["error"]["message"]) == (
        404, f"the workflow 'echo' of run {first} has no version 9"
    )  # fmt: skip
    assert (await served.ask("POST", f"/v1/runs/{first}/rerun", json={"unknown": 1})).status == 422
    test = (await served.ask("POST", "/v1/test-runs", json={**echo(None), "input": 1})).json["instanceID"]
    assert (await served.ask("POST", f"/v1/runs/{test}/rerun")).status == 422
    assert (await served.ask("DELETE", "/v1/workflows/echo")).status == 204
    gone = await served.ask("POST", f"/v1/runs/{first}/rerun")
    assert (gone.status, gone.json["error"]["message"]) == (404, f"the workflow 'echo' of run {first} is deleted")


async def test_a_run_says_who_started_it(served: Served):
    await served.save(echo())
    me = (await served.ask("GET", "/v1/me")).json["keyID"]
    run = await served.ended(await served.start("echo"))
    assert run["startedBy"] == {"kind": "key", "keyID": me}
    keyed = await served.start("echo", idempotencyKey="order 7")
    assert (await served.ended(keyed))["startedBy"] == {"kind": "key", "keyID": me, "idempotencyKey": "order 7"}
    await served.save(chain("parent", {"id": "sub", "type": "workflow", "config": {"workflow": "echo", "input": 1}}))
    parent = await served.ended(await served.start("parent"))
    runs = (await served.ask("GET", "/v1/workflows/echo/runs")).json["items"]
    child = next(each for each in runs if each["parentID"] == parent["instanceID"])
    assert child["startedBy"] == {"kind": "run", "instanceID": parent["instanceID"], "nodeID": "sub", "scope": ""}


async def test_a_run_of_a_schedule_and_of_a_topic_says_so(served: Served):
    await served.save(waiting())
    saved = (await served.ask("POST", "/v1/schedules", json={"name": "s", "workflow": "waiting", "every": "1h"})).json
    subscription = (
        await served.ask("POST", "/v1/topics/orders.*/subscriptions", json={"type": "workflow", "name": "waiting"})
    ).json
    published = await served.ask("POST", "/v1/topics/orders.new/messages", json={"n": 1})
    run = (await served.ask("GET", f"/v1/runs/{published.json['runs'][0]}")).json
    assert run["startedBy"] == {
        "kind": "topic",
        "subscriptionID": subscription["subscriptionID"],
        "topic": "orders.new",
        "messageID": published.json["messageID"],
    }
    triggered = (await served.ask("POST", "/v1/schedules/s/trigger")).json["instanceID"]
    found = (await served.ask("GET", f"/v1/runs/{triggered}")).json["startedBy"]
    assert found == {"kind": "schedule", "scheduleID": saved["scheduleID"], "occurrenceAt": None}

"""Runs over REST: start, keys, lists, reading, cancel, signals, test runs, widgets."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.rest.conftest import Served
from tests.rest.drawing import chain, echo, waiting
from tests.rest.test_workflows import all_pages


async def test_a_run_is_started_and_read(served: Served):
    saved = await served.save(echo())
    answered = await served.ask("POST", "/v1/workflows/echo/runs", role="operator", json={"input": {"n": 7}})
    assert answered.status == 201
    assert set(answered.json) == {"instanceID", "status"}
    assert answered.json["status"] in ("PENDING", "RUNNING", "COMPLETED")
    instance_id = answered.json["instanceID"]
    assert answered.headers["Location"] == f"/v1/runs/{instance_id}"
    run = await served.ended(instance_id)
    assert (run["status"], run["input"], run["output"]) == ("COMPLETED", {"n": 7}, {"said": {"n": 7}})
    assert (run["workflowID"], run["name"], run["version"], run["kind"]) == (saved["workflowID"], "echo", 1, "drawn")
    assert [(node["nodeID"], node["status"]) for node in run["nodes"]] == [("start", "success"), ("end", "success")]
    for path in (f"/v1/workflows/echo/runs/{instance_id}", f"/v1/workflows/{saved['workflowID']}/runs/{instance_id}"):
        assert (await served.ask("GET", path)).json == run


async def test_a_run_below_another_workflow_is_not_there(served: Served):
    await served.save(echo())
    await served.save(echo("another"))
    instance_id = await served.start("echo")
    assert (await served.ask("GET", f"/v1/workflows/another/runs/{instance_id}")).status == 404


async def test_a_repeated_key_answers_with_the_first_run_whatever_its_body(served: Served):
    await served.save(echo())
    path = "/v1/workflows/echo/runs"
    first = await served.ask("POST", path, json={"input": 1, "idempotencyKey": "order-1"})
    again = await served.ask("POST", path, json={"input": 2, "idempotencyKey": "order-1"})
    assert (first.status, again.status) == (201, 200)
    assert again.json["instanceID"] == first.json["instanceID"]
    run = await served.ended(first.json["instanceID"])
    assert run["input"] == 1
    ended = await served.ask("POST", path, json={"idempotencyKey": "order-1"})
    assert (ended.status, ended.json["status"]) == (200, "COMPLETED")


async def test_the_key_of_a_start_may_be_a_header_instead(served: Served):
    await served.save(echo())
    path, headers = "/v1/workflows/echo/runs", {"Idempotency-Key": "order-1"}
    first = await served.ask("POST", path, json={"input": 1}, headers=headers)
    repeats: tuple[tuple[dict[str, Any], dict[str, str]], ...] = (
        ({"input": 2}, headers),
        ({"unknown": True}, headers),
        ({"idempotencyKey": "order-1"}, headers),
        ({"idempotencyKey": "order-1"}, {}),
    )
    for body, sent in repeats:
        again = await served.ask("POST", path, json=body, headers=sent)
        assert (again.status, again.json.get("instanceID")) == (200, first.json["instanceID"]), (body, sent)

    for key in ("other", 7):
        refused = await served.ask("POST", path, json={"idempotencyKey": key}, headers=headers)
        assert (refused.status, refused.code) == (422, "INVALID_REQUEST")
        assert refused.json["error"]["details"][0]["pointer"] == "/idempotencyKey"
    assert (await served.ask("POST", path, json={}, headers={"Idempotency-Key": "schedule:1"})).status == 422


async def test_a_repeated_key_answers_with_the_first_run_where_its_body_would_be_refused(served: Served):
    workflow = echo(workflowOptions={"inputSchema": {"type": "integer"}})
    saved = await served.save(workflow)
    paths = ("/v1/workflows/echo/runs", f"/v1/workflows/{saved['workflowID']}/runs")
    first = await served.ask("POST", paths[0], json={"input": 1, "idempotencyKey": "order-1"})
    refused = (
        {"input": "no integer"},
        {"version": 77},
        {"availableAt": "2030-01-01T00:00:00Z", "deadlineAt": "2029-01-01T00:00:00Z"},
        {"availableAt": "tomorrow"},
        {"unknown": True},
    )
    for body in refused:
        assert (await served.ask("POST", paths[0], json={**body, "idempotencyKey": "new"})).status in (404, 422)
        for path in paths:
            again = await served.ask("POST", path, json={**body, "idempotencyKey": "order-1"})
            assert (again.status, again.json.get("instanceID")) == (200, first.json["instanceID"]), body


async def test_a_key_outlives_new_versions_and_the_workflow_that_it_started(served: Served):
    await served.save(echo())
    first = await served.start("echo", idempotencyKey="order-1")
    await served.ended(first)
    await served.ask("PUT", "/v1/workflows/echo", json=echo(title="Second"))
    assert await served.start("echo", idempotencyKey="order-1") == first
    assert (await served.ask("DELETE", "/v1/workflows/echo")).status == 204
    assert (await served.ask("POST", "/v1/workflows/echo/runs", json={"idempotencyKey": "order-1"})).status == 404
    await served.save(echo())
    assert await served.start("echo", idempotencyKey="order-1") == first


async def test_a_repeated_signal_is_answered_as_the_first_was_when_it_has_ended_the_run(served: Served):
    await served.save(waiting())
    instance_id = await served.start("waiting")
    await served.until(f"/v1/runs/{instance_id}", lambda run: run["status"] == "WAITING")
    signals = f"/v1/runs/{instance_id}/signals"
    early = await served.ask("POST", f"{signals}/other", json=1, headers={"Idempotency-Key": "early"})
    going = await served.ask("POST", f"{signals}/go", json=1, headers={"Idempotency-Key": "going"})
    assert (early.json, going.json) == ({"delivered": False}, {"delivered": True})
    await served.ended(instance_id)
    for key, first in (("early", early), ("going", going)):
        again = await served.ask("POST", f"{signals}/go", json=2, headers={"Idempotency-Key": key})
        assert (again.status, again.json) == (202, first.json)
    for headers in ({}, {"Idempotency-Key": "late"}):
        assert (await served.ask("POST", f"{signals}/go", json=2, headers=headers)).code == "RUN_IS_TERMINAL"


async def test_of_many_starts_with_one_key_one_makes_the_run(served: Served):
    await served.save(echo())
    answers = await asyncio.gather(
        *(served.ask("POST", "/v1/workflows/echo/runs", json={"idempotencyKey": "k"}) for _ in range(16))
    )
    assert sorted(answered.status for answered in answers) == [200] * 15 + [201]
    assert len({answered.json["instanceID"] for answered in answers}) == 1


async def test_the_newest_version_is_pinned_unless_one_is_named(served: Served):
    await served.save(echo())
    await served.ask("PUT", "/v1/workflows/echo", json=echo(title="Second"))
    newest, first = await served.start("echo"), await served.start("echo", version=1)
    assert [(await served.ask("GET", f"/v1/runs/{each}")).json["version"] for each in (newest, first)] == [2, 1]
    assert (await served.ask("POST", "/v1/workflows/echo/runs", json={"version": 3})).status == 404


async def test_times_are_given_with_an_offset(served: Served):
    await served.save(echo())
    later = datetime.now(UTC).replace(microsecond=0) + timedelta(hours=1)
    instance_id = await served.start("echo", availableAt=later.isoformat())
    run = (await served.ask("GET", f"/v1/runs/{instance_id}")).json
    assert run["status"] == "PENDING"
    assert datetime.fromisoformat(run["availableAt"]) == later
    for field in ("availableAt", "deadlineAt"):
        refused = await served.ask("POST", "/v1/workflows/echo/runs", json={field: "2030-01-01T00:00:00"})
        assert (refused.status, refused.json["error"]["details"][0]["pointer"]) == (422, f"/{field}")
    before = {"availableAt": later.isoformat(), "deadlineAt": later.isoformat()}
    assert (await served.ask("POST", "/v1/workflows/echo/runs", json=before)).status == 422


async def test_a_deadline_that_has_passed_fails_the_run_without_running_it(served: Served):
    await served.save(echo())
    instance_id = await served.start("echo", deadlineAt="2020-01-01T00:00:00Z")
    run = await served.ended(instance_id)
    assert (run["status"], run["error"]["code"], run["nodes"]) == ("FAILED", "DEADLINE_EXCEEDED", [])


async def test_an_input_that_does_not_fit_is_refused_with_its_place(served: Served):
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    await served.save(echo(workflowOptions={"inputSchema": schema}))
    refused = await served.ask("POST", "/v1/workflows/echo/runs", json={"input": {"n": "seven"}})
    assert (refused.status, refused.code) == (422, "INVALID_INPUT")
    assert refused.json["error"]["details"][0]["pointer"] == "/n"


async def test_runs_are_listed_newest_first_once_each_while_runs_come_and_end(served: Served):
    await served.save(waiting())
    early = [await served.start("waiting", input={"n": number}) for number in range(7)]
    listed = []
    cursor: str | None = None
    for _ in range(4):
        params = {"limit": "2"} if cursor is None else {"limit": "2", "cursor": cursor}
        page = (await served.ask("GET", "/v1/runs", params=params)).json
        listed += [item["instanceID"] for item in page["items"]]
        cursor = page["nextCursor"]
        await served.start("waiting")
        await served.ask("POST", f"/v1/runs/{early[-1]}/cancel")
    assert cursor is None
    assert listed == early[::-1]


async def test_runs_are_filtered_by_status_time_and_workflow(served: Served):
    await served.save(waiting())
    await served.save(echo())
    open_run = await served.start("waiting")
    done = await served.start("echo")
    await served.ended(done)
    by_status = await served.ask("GET", "/v1/runs?status=COMPLETED&status=FAILED")
    assert [item["instanceID"] for item in by_status.json["items"]] == [done]
    of_workflow = await served.ask("GET", "/v1/workflows/waiting/runs")
    assert [item["instanceID"] for item in of_workflow.json["items"]] == [open_run]
    created_at = (await served.ask("GET", f"/v1/runs/{done}")).json["createdAt"]
    since = await served.ask("GET", "/v1/runs", params={"since": created_at})
    until = await served.ask("GET", "/v1/runs", params={"until": created_at})
    assert done in [item["instanceID"] for item in since.json["items"]]
    assert done not in [item["instanceID"] for item in until.json["items"]]
    assert (await served.ask("GET", "/v1/runs?status=DONE")).status == 422
    assert (await served.ask("GET", "/v1/runs?since=yesterday")).status == 422
    assert (await served.ask("GET", "/v1/workflows/nothing/runs")).status == 404


@pytest.mark.parametrize(
    ("query", "matching"),
    [
        ("input.customer.id=7", {"number"}),
        ("input.customer.id=%227%22", {"text"}),
        ("input.customer.name=Ada", {"number", "text"}),
        ("input.tags.0=new", {"number"}),
        ("input.urgent=true", {"number"}),
        ("input.gone=null", {"text"}),
        ("input.customer.id=7&input.urgent=true", {"number"}),
        ("input.customer.id=8", set()),
        ("input.nothing.at.all=8", set()),
        ("input.customer.name=%27%20OR%201=1--", set()),
    ],
)
async def test_runs_are_found_by_values_in_their_input(served: Served, query: str, matching: set[str]):
    await served.save(echo())
    number = {"customer": {"id": 7, "name": "Ada"}, "tags": ["new"], "urgent": True}
    text = {"customer": {"id": "7", "name": "Ada"}, "tags": [], "urgent": "yes", "gone": None}
    names = {await served.start("echo", input=number): "number", await served.start("echo", input=text): "text"}
    await served.start("echo", input="neither")
    found = await served.ask("GET", f"/v1/workflows/echo/runs?{query}")
    assert found.status == 200, found.text
    shown = {names[item["instanceID"]] for item in found.json["items"]}
    # `7` is read as JSON and as text: it matches both.
    assert shown == (matching | {"text"} if query.startswith("input.customer.id=7") and "&" not in query else matching)


async def test_logs_and_steps_are_paged_in_order(served: Served):
    nodes = [{"id": f"n{number}", "type": "set", "config": {"values": {"n": number}}} for number in range(5)]
    await served.save(chain("long", *nodes))
    instance_id = await served.start("long")
    await served.ended(instance_id)
    log = await all_pages(served, f"/v1/runs/{instance_id}/log", limit=4)
    assert [event["seq"] for event in log] == list(range(1, len(log) + 1))
    assert (log[0]["eventType"], log[-1]["eventType"]) == ("INPUT_SET", "INSTANCE_COMPLETED")
    steps = await all_pages(served, f"/v1/runs/{instance_id}/steps", limit=2)
    assert [step["nodeID"] for step in steps] == ["start", *(node["id"] for node in nodes)]
    assert steps[1]["output"] == {"n": 0}
    for rows in ("log", "steps"):
        assert (await served.ask("GET", f"/v1/runs/{instance_id}/{rows}?limit=1000")).status == 200
        assert (await served.ask("GET", f"/v1/runs/{instance_id}/{rows}?limit=1001")).status == 422


async def test_cancel_is_answered_once_it_is_committed(served: Served):
    await served.save(waiting())
    await served.save(echo())
    for method, suffix in (("POST", "/cancel"), ("DELETE", "")):
        instance_id = await served.start("waiting")
        cancelled = await served.ask(method, f"/v1/runs/{instance_id}{suffix}", role="operator")
        assert (cancelled.status, cancelled.json) == (200, {"instanceID": instance_id, "status": "CANCELLED"})
        assert (await served.ask("GET", f"/v1/runs/{instance_id}")).json["status"] == "CANCELLED"
        assert (await served.ask(method, f"/v1/runs/{instance_id}{suffix}")).status == 200
    done = await served.start("echo")
    await served.ended(done)
    refused = await served.ask("POST", f"/v1/runs/{done}/cancel")
    assert (refused.status, refused.code) == (409, "RUN_IS_TERMINAL")


async def test_the_reason_of_a_cancel_is_kept(served: Served):
    await served.save(waiting())
    instance_id = await served.start("waiting")
    await served.ask("POST", f"/v1/runs/{instance_id}/cancel", json={"reason": "no longer wanted"})
    assert (await served.ask("GET", f"/v1/runs/{instance_id}")).json["note"] == "no longer wanted"


@pytest.mark.parametrize(
    "body", [{}, {"data": b"null", "headers": {"Content-Type": "application/json"}}], ids=["absent", "null"]
)
async def test_a_signal_without_a_payload_delivers_an_empty_object(served: Served, body: dict[str, Any]):
    await served.save(waiting())
    instance_id = await served.start("waiting")
    assert (await served.ask("POST", f"/v1/runs/{instance_id}/signals/go", **body)).status == 202
    assert (await served.ended(instance_id))["output"] == {"went": {}}


async def test_a_signal_is_delivered_once_per_key(served: Served):
    await served.save(waiting())
    instance_id = await served.start("waiting")
    await served.until(f"/v1/runs/{instance_id}", lambda run: run["status"] == "WAITING")
    path = f"/v1/runs/{instance_id}/signals/go"
    kept = await served.ask("POST", path.replace("/go", "/other"), json={"n": 0})
    assert (kept.status, kept.json) == (202, {"delivered": False})
    sent = await served.ask("POST", path, json={"n": 1}, headers={"Idempotency-Key": "k1"}, role="operator")
    assert (sent.status, sent.json) == (202, {"delivered": True})
    assert (await served.ended(instance_id))["output"] == {"went": {"n": 1}}
    late = await served.ask("POST", path, json={"n": 2})
    assert (late.status, late.code) == (409, "RUN_IS_TERMINAL")
    assert (await served.ask("POST", "/v1/runs/0190a5e0-0000-7000-8000-000000000000/signals/go")).status == 404


async def test_a_test_run_leaves_nothing_behind_once_it_is_stopped(served: Served):
    graph = waiting()
    del graph["name"]
    started = await served.ask("POST", "/v1/test-runs", role="editor", json={**graph, "input": {"n": 1}})
    assert (started.status, set(started.json)) == (201, {"instanceID"})
    instance_id = started.json["instanceID"]
    run = (await served.ask("GET", f"/v1/runs/{instance_id}")).json
    assert (run["test"], run["workflowID"], run["retentionDays"], run["input"]) == (True, None, 1, {"n": 1})
    assert (await served.ask("GET", "/v1/runs")).json["items"] == []
    listed = await served.ask("GET", "/v1/runs?test=true")
    assert [item["instanceID"] for item in listed.json["items"]] == [instance_id]
    assert (await served.ask("DELETE", f"/v1/test-runs/{instance_id}", role="editor")).status == 204
    assert (await served.ask("GET", f"/v1/runs/{instance_id}")).status == 404
    assert (await served.ask("DELETE", f"/v1/test-runs/{instance_id}")).status == 404


@pytest.mark.parametrize(
    ("option", "meant"),
    [("version", ""), ("idempotencyKey", ""), ("workflowOption", "'workflowOptions'")],
)
async def test_options_that_a_test_run_does_not_have_are_refused(served: Served, option: str, meant: str):
    refused = await served.ask("POST", "/v1/test-runs", json={**echo(), "input": {}, option: {}})
    assert (refused.status, refused.code) == (422, "INVALID_REQUEST")
    (problem,) = refused.json["error"]["details"]
    assert problem["pointer"] == f"/{option}"
    assert meant in problem["message"]
    assert (await served.ask("GET", "/v1/runs?test=true")).json["items"] == []


async def test_a_test_run_takes_what_editors_keep_in_a_document(served: Served):
    document = {**echo(), "title": "Echo", "viewport": {}, "notes": [], "x-team": 1, "workflowOptions": None}
    assert (await served.ask("POST", "/v1/test-runs", json=document)).status == 201


async def test_options_that_a_start_does_not_have_are_refused(served: Served):
    await served.save(echo())
    refused = await served.ask("POST", "/v1/workflows/echo/runs", json={"input": {}, "idempotencykey": "k"})
    assert (refused.status, refused.code) == (422, "INVALID_REQUEST")
    (problem,) = refused.json["error"]["details"]
    assert (problem["code"], problem["pointer"]) == ("EXTRA_FORBIDDEN", "/idempotencykey")
    assert "Did you mean 'idempotencyKey'?" in problem["message"]
    assert (await served.ask("GET", "/v1/runs")).json["items"] == []


async def test_a_run_of_a_saved_workflow_is_no_test_run(served: Served):
    await served.save(waiting())
    instance_id = await served.start("waiting")
    assert (await served.ask("DELETE", f"/v1/test-runs/{instance_id}")).status == 404
    assert (await served.ask("GET", f"/v1/runs/{instance_id}")).status == 200


async def test_a_widget_shows_the_output_of_a_run(served: Served):
    rows = [{"city": "Kiel", "n": 3}, {"city": "Bern", "n": 5}]
    await served.save(echo())
    instance_id = await served.start("echo", input=rows)
    await served.ended(instance_id)
    query = {"type": "table", "config": '{"path": "said", "columns": ["city", "n"]}'}
    shown = await served.ask("GET", f"/v1/runs/{instance_id}/widget", params=query, role="viewer")
    assert (shown.status, shown.json["instanceID"], shown.json["status"]) == (200, instance_id, "COMPLETED")
    assert (await served.ask("GET", f"/v1/runs/{instance_id}/widget?type=pie")).status == 422
    bad = {"type": "table", "config": "{"}
    assert (await served.ask("GET", f"/v1/runs/{instance_id}/widget", params=bad)).json["error"]["details"][0][
        "pointer"
    ] == "/config"


async def test_counts_of_runs_follow_within_seconds(served: Served):
    await served.save(echo())
    for _ in range(3):
        await served.ended(await served.start("echo"))
    workflow = await served.until(
        "/v1/workflows/echo", lambda workflow: bool(workflow["runCounts"].get("COMPLETED") == 3)
    )
    assert workflow["runCounts"] == {"COMPLETED": 3}


async def test_lists_take_dates_and_statuses_as_people_write_them(served: Served):
    await served.save(echo())
    run = await served.ended(await served.start("echo"))
    day = run["createdAt"][:10]
    next_day = (datetime.fromisoformat(run["createdAt"]) + timedelta(days=1)).date().isoformat()

    async def found(**params: str) -> int:
        listed = await served.ask("GET", "/v1/workflows/echo/runs", params=params, role="viewer")
        assert listed.status == 200, listed.text
        return len(listed.json["items"])

    assert await found(status="completed", since=day, until=next_day) == 1
    assert await found(status="Failed") == 0
    assert await found(since=next_day) == 0
    assert await found(until=day) == 0
    assert (await served.ask("GET", "/v1/runs?since=2026-13-01")).status == 422
    assert (await served.ask("GET", "/v1/runs?status=ended")).status == 422


async def test_runs_are_listed_and_counted_by_version(served: Served):
    await served.save(echo())
    first = await served.start("echo")
    await served.ask("PUT", "/v1/workflows/echo", json={"title": "Second"})
    seconds = [await served.start("echo") for _ in range(2)]
    for run in (first, *seconds):
        await served.ended(run)
    for path in ("/v1/runs", "/v1/workflows/echo/runs"):
        listed = (await served.ask("GET", f"{path}?version=1")).json["items"]
        assert [(item["instanceID"], item["version"]) for item in listed] == [(first, 1)]
        assert len((await served.ask("GET", f"{path}?version=2")).json["items"]) == 2
    counted = await served.until(
        "/v1/workflows/echo/versions?include=runCounts", lambda page: page["items"][0]["runCounts"] == {"COMPLETED": 2}
    )
    assert [item["runCounts"] for item in counted["items"]] == [{"COMPLETED": 2}, {"COMPLETED": 1}]
    assert "runCounts" not in (await served.ask("GET", "/v1/workflows/echo/versions")).json["items"][0]


async def test_a_run_says_which_worker_advances_it(served: Served):
    await served.save(chain("slow", {"id": "nap", "type": "delay", "config": {"duration": "1h"}}))
    await served.save(waiting())
    parked = await served.start("waiting")
    run = await served.until(f"/v1/runs/{parked}", lambda run: run["status"] == "WAITING")
    assert run["worker"] is None
    released = asyncio.Event()
    commit = served.services.engine.store.commit

    async def held_back(transitions: Any, **options: Any) -> Any:
        outcome = await commit(transitions, **options)
        await released.wait()
        return outcome

    served.services.engine.store.commit = held_back  # type: ignore[method-assign]
    starting = asyncio.create_task(served.start("slow"))
    held = await served.until("/v1/runs", lambda page: page["items"][0]["name"] == "slow")
    assert held["items"][0]["worker"] == served.services.engine.worker_id
    released.set()
    ended = await served.until(f"/v1/runs/{await starting}", lambda run: run["status"] == "WAITING")
    assert ended["worker"] is None


async def test_an_ended_run_can_be_removed_by_an_editor(served: Served):
    await served.save(waiting())
    run = await served.start("waiting", idempotencyKey="k")
    path = f"/v1/runs/{run}"
    refused = await served.ask("DELETE", f"{path}?purge=true", role="editor")
    assert (refused.status, refused.code) == (409, "RUN_IS_OPEN")
    assert (await served.ask("DELETE", path, role="operator")).json["status"] == "CANCELLED"
    refused = await served.ask("DELETE", f"{path}?purge=true", role="operator")
    assert (refused.status, refused.code) == (403, "FORBIDDEN")
    assert (await served.ask("DELETE", f"{path}?purge=true", role="other")).status == 404
    assert (await served.ask("DELETE", f"/v1/workflows/waiting/runs/{run}?purge=true", role="editor")).status == 204
    for gone in (path, f"{path}/log"):
        assert (await served.ask("GET", gone)).status == 404
    assert (await served.ask("DELETE", f"{path}?purge=true", role="editor")).status == 404
    assert await served.start("waiting", idempotencyKey="k") != run, "its key has gone with it"


@pytest.mark.parametrize("key", ["schedule:x:2030-01-01", "topic:x"])
async def test_the_keys_of_schedules_and_topics_are_reserved(served: Served, key: str):
    await served.save(echo())
    refused = await served.ask("POST", "/v1/workflows/echo/runs", json={"idempotencyKey": key})
    assert (refused.status, refused.code) == (422, "INVALID_REQUEST")
    (problem,) = refused.json["error"]["details"]
    assert (problem["code"], problem["pointer"]) == ("RESERVED_KEY", "/idempotencyKey")
    started = await served.ask("POST", "/v1/workflows/echo/runs", json={"idempotencyKey": f"my-{key}"})
    assert started.status == 201


def over_items(name: str) -> dict[str, Any]:
    """A loop of which the item 0 fails, collected."""
    config = {"source": "{{ctx.input}}", "onItemError": "collect", "concurrency": 2}
    return {
        "name": name,
        "nodes": [
            {"id": "start", "type": "start"},
            {"id": "each", "type": "loop", "config": config},
            {"id": "part", "type": "set", "config": {"values": {"share": "{{12 / ctx.item}}"}}},
            {"id": "end", "type": "end"},
        ],
        "edges": [
            {"upstreamNodeID": "start", "downstreamNodeID": "each"},
            {"upstreamNodeID": "each", "downstreamNodeID": "part", "sourceHandle": "loop"},
            {"upstreamNodeID": "each", "downstreamNodeID": "end", "sourceHandle": "done"},
        ],
    }


async def test_a_run_with_a_loop_has_totals_iterations_and_filtered_steps(served: Served):
    await served.save(over_items("shares"))
    run = f"/v1/runs/{await served.start('shares', input=[1, 2, 0, 4])}"
    await served.until(run, lambda shown: shown["status"] == "COMPLETED")
    summary = (await served.ask("GET", f"{run}/summary")).json
    part = next(node for node in summary["nodes"] if node["nodeID"] == "part")
    assert part["counts"] == {"success": 3, "error": 1} and part["firstError"]["scope"] == "each[2]"
    assert summary["loops"] == [{"nodeID": "each", "scope": "", "iterations": 4, "failed": 1}]
    path = f"{run}/iterations?nodeID=each"
    found = await all_pages(served, path, limit=3)
    assert [each["status"] for each in found] == ["success", "success", "error", "success"]
    failed = (await served.ask("GET", f"{path}&status=error")).json["items"]
    assert [(each["index"], each["error"]["nodeID"]) for each in failed] == [(2, "part")]
    steps = (await served.ask("GET", f"{run}/steps?within=each&status=error&status=skipped&outputs=false")).json[
        "items"
    ]
    assert [(step["nodeID"], step["scope"]) for step in steps] == [("part", "each[2]")] and "output" not in steps[0]
    entries = (await served.ask("GET", f"{run}/log?payload=false&limit=1000")).json["items"]
    assert [entry["seq"] for entry in entries] == list(range(1, summary["seq"] + 1))
    assert not any("payload" in entry for entry in entries)
    nodes = {node["nodeID"]: node for node in (await served.ask("GET", run)).json["nodes"]}
    assert nodes["each"]["handles"] == ["loop", "done"] and nodes["start"]["handles"] == ["default"]


@pytest.mark.parametrize(
    "query",
    ["steps?status=done", "steps?nodeID=", "iterations", "iterations?nodeID=each&cursor=x", "log?payload=perhaps"],
)
async def test_a_question_about_a_run_that_makes_no_sense_is_refused(served: Served, query: str):
    await served.save(echo())
    instance_id = await served.start("echo")
    assert (await served.ask("GET", f"/v1/runs/{instance_id}/{query}")).status == 422


async def test_iterations_of_what_is_no_loop_are_none(served: Served):
    await served.save(echo())
    instance_id = await served.start("echo")
    await served.ended(instance_id)
    for node in ("start", "nowhere"):
        answered = await served.ask("GET", f"/v1/runs/{instance_id}/iterations?nodeID={node}")
        assert answered.json == {"items": [], "nextCursor": None}


async def test_failed_runs_are_listed_with_their_errors_and_found_by_them(served: Served):
    await served.save(over_items("shares") | {"workflowOptions": {}})
    document = over_items("failing")
    document["nodes"][1]["config"]["onItemError"] = "fail"
    await served.save(document)
    failed = await served.start("failing", input=[0])
    ended = await served.ended(failed)
    await served.ended(await served.start("shares", input=[1]))
    items = {item["instanceID"]: item for item in (await served.ask("GET", "/v1/runs")).json["items"]}
    assert items[failed]["error"] == {key: ended["error"][key] for key in ("code", "message", "nodeID")}
    assert [item["error"] for item in items.values() if item["instanceID"] != failed] == [None]
    for text in (ended["error"]["code"], ended["error"]["message"][3:9].upper()):
        found = (await served.ask("GET", "/v1/runs", params={"error~": text})).json["items"]
        assert [item["instanceID"] for item in found] == [failed], text
    assert (await served.ask("GET", "/v1/runs", params={"error~": "100%_"})).json["items"] == []

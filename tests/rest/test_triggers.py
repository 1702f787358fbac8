"""Schedules and topics over REST."""

from __future__ import annotations

from tests.engine.drawing import drawn, node
from tests.rest.conftest import Served

ECHO = drawn("echo", node("end", "end", config={"outputParameters": {"got": "{{ctx.input}}"}}))


async def test_a_schedule_is_saved_read_changed_and_deleted(served: Served) -> None:
    await served.save(ECHO)
    made = await served.ask(
        "POST", "/v1/schedules", json={"name": "daily", "workflow": "echo", "kind": "cron", "cron": "0 9 * * *"}
    )
    assert made.status == 201, made.text
    read = await served.ask("GET", f"/v1/schedules/{made.json['scheduleID']}")
    changed = await served.ask("PUT", "/v1/schedules/daily", json=read.json | {"timezone": "Asia/Kolkata"})
    listed = await served.ask("GET", "/v1/schedules")
    deleted = await served.ask("DELETE", "/v1/schedules/daily")

    assert read.json == made.json
    assert (changed.status, changed.json["timezone"]) == (200, "Asia/Kolkata"), changed.text
    assert listed.json["items"] == [changed.json]
    assert deleted.status == 204
    assert (await served.ask("GET", "/v1/schedules/daily")).status == 404


async def test_a_schedule_that_makes_no_sense_is_answered_with_its_places(served: Served) -> None:
    refused = await served.ask("POST", "/v1/schedules", json={"name": "x", "workflow": "nothing", "cron": "61 * * * *"})
    assert (refused.status, refused.code) == (422, "INVALID_REQUEST")
    assert {each["pointer"] for each in refused.json["error"]["details"]} == {"/cron", "/workflow"}


async def test_a_schedule_is_triggered_now_and_backfilled(served: Served) -> None:
    await served.save(ECHO)
    daily = {"name": "daily", "workflow": "echo", "cron": "0 9 * * *", "input": 7, "enabled": False}
    schedule = (await served.ask("POST", "/v1/schedules", json=daily)).json["scheduleID"]
    once = {"role": "operator", "headers": {"Idempotency-Key": "k"}}
    first = await served.ask("POST", "/v1/schedules/daily/trigger", **once)
    again = await served.ask("POST", f"/v1/schedules/{schedule}/trigger", **once)
    assert (first.status, again.status) == (201, 200)
    assert first.headers["Location"] == f"/v1/runs/{again.json['instanceID']}"
    assert (await served.ended(first.json["instanceID"]))["output"] == {"got": 7}

    other_input = await served.ask("POST", "/v1/schedules/daily/trigger", json={"input": 8})
    assert (other_input.status, other_input.json["error"]["details"][0]["pointer"]) == (422, "/input")
    assert (await served.ask("POST", "/v1/schedules/daily/trigger", json={}, **once)).status == 200

    backfill = "/v1/schedules/daily/backfill"
    filled = await served.ask("POST", backfill, json={"from": "2026-05-01", "to": "2026-05-03T09:00:00Z"})
    assert filled.status == 200, filled.text
    assert [(each["occurrenceAt"], each["created"]) for each in filled.json["items"]] == [
        ("2026-05-01T09:00:00.000+00:00", True),
        ("2026-05-02T09:00:00.000+00:00", True),
    ]
    by_schedule = (await served.ask("GET", f"/v1/runs/{filled.json['items'][0]['instanceID']}")).json["startedBy"]
    assert (by_schedule["kind"], by_schedule["occurrenceAt"]) == ("schedule", "2026-05-01T09:00:00.000+00:00")
    repeated = await served.ask("POST", backfill, json={"from": "2026-05-02", "to": "2026-05-04"}, role="operator")
    assert [each["created"] for each in repeated.json["items"]] == [False, True]
    for body, pointer in (
        ({"from": "2026-05-02", "to": "2026-05-02"}, "/to"),
        ({"from": "2026-05-02", "to": "2999-01-01"}, "/to"),
        ({"from": "2026-05-02"}, "/to"),
        ({"from": "2026-05-02", "to": "2026-05-03", "form": 1}, "/form"),
    ):
        refused = await served.ask("POST", backfill, json=body)
        assert (refused.status, refused.json["error"]["details"][0]["pointer"]) == (422, pointer), body


async def test_a_message_starts_one_run_per_subscription_and_key(served: Served) -> None:
    await served.save(ECHO)
    subscribe = {"type": "workflow", "name": "echo"}
    made = await served.ask("POST", "/v1/topics/orders.%23/subscriptions", json=subscribe)
    again = await served.ask("POST", "/v1/topics/orders.%23/subscriptions", json=subscribe)
    publish = {"json": {"id": 7}, "headers": {"Idempotency-Key": "k"}}
    first = await served.ask("POST", "/v1/topics/orders.eu.created/messages", **publish)
    repeated = await served.ask("POST", "/v1/topics/orders.eu.created/messages", **publish)

    assert (made.status, made.json["pattern"], again.status) == (201, "orders.#", 200)
    assert again.json == made.json
    assert first.status == repeated.status == 202
    assert len(first.json["runs"]) == 1 and repeated.json == first.json
    assert (await served.ended(first.json["runs"][0]))["output"] == {"got": {"id": 7}}
    everywhere = (await served.ask("GET", "/v1/subscriptions")).json
    assert made.json in everywhere["items"]
    path = f"/v1/topics/orders.%23/subscriptions/{made.json['subscriptionID']}"
    assert (await served.ask("DELETE", path, role="other")).status == 404
    assert (await served.ask("DELETE", path)).status == 204
    assert (await served.ask("GET", "/v1/topics/orders.%23/subscriptions")).json["items"] == []

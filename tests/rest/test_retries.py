"""Retrying runs over REST: what goes on with them, what is refused, and that nothing is done twice."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from anabranch.service.repair import retry_verbs
from tests.rest.conftest import TENANT, Served
from tests.rest.drawing import chain, echo


def calling(name: str, workflow: str, **fields: Any) -> dict[str, Any]:
    """A workflow with a step that completes and one that starts another workflow."""
    call = {"id": "call", "type": "workflow", "config": {"workflow": workflow, "input": "{{ctx.input}}"}, **fields}
    return chain(name, {"id": "before", "type": "set", "config": {"values": {"done": True}}}, call)


async def failed(served: Served, workflow: str) -> dict[str, Any]:
    run = await served.ended(await served.start(workflow, input=1))
    assert run["status"] == "FAILED", run
    return run


async def retry(served: Served, run: dict[str, Any], **asked: Any) -> Any:
    key = asked.pop("key", None)
    headers = {} if key is None else {"Idempotency-Key": key}
    return await served.ask("POST", f"/v1/runs/{run['instanceID']}/retry", json=asked, headers=headers, role="operator")


def activations(run: dict[str, Any]) -> list[tuple[str, str, int]]:
    return [(each["nodeID"], each["status"], each["attempt"]) for each in run["nodes"]]


async def test_a_run_goes_on_once_what_it_lacked_is_there(served: Served):
    await served.save(calling("parent", "later"))
    run = await failed(served, "parent")
    assert run["error"]["code"] == "NOT_FOUND"
    await served.save(echo("later"))

    planned = await retry(served, run, dryRun=True)
    assert planned.status == 200, planned.text
    assert (planned.json["redo"], planned.json["dryRun"]) == ([{"nodeID": "call", "scope": "", "attempt": 2}], True)
    assert (await served.ask("GET", f"/v1/runs/{run['instanceID']}")).json["status"] == "FAILED"

    answered = await retry(served, run, key="k1", reason="it is there now")
    assert (answered.status, answered.json["generation"]) == (200, 1)
    after = await served.ended(run["instanceID"])
    assert (after["status"], after["generation"], after["error"]) == ("COMPLETED", 1, None)
    assert [node for node in activations(after) if node[0] in ("before", "call")] == [
        ("before", "success", 1),
        ("call", "success", 2),
    ]
    again = await retry(served, run, key="k1")
    assert again.json["redo"] == answered.json["redo"], "the same answer to the same key"
    assert (await retry(served, run)).code == "RUN_IS_COMPLETED"
    totals = (await served.ask("GET", f"/v1/runs/{run['instanceID']}/summary")).json
    assert {each["nodeID"]: each["counts"] for each in totals["nodes"]}["call"] == {"success": 1}


async def test_a_parent_goes_on_with_the_child_that_it_failed_with(served: Served):
    await served.save(calling("middle", "leaf"))
    await served.save(calling("top", "middle"))
    run = await failed(served, "top")
    assert run["error"]["code"] == "CHILD_FAILED"
    listed = (await served.ask("GET", "/v1/workflows/middle/runs")).json["items"]
    child = next(each for each in listed if each["parentID"] == run["instanceID"])
    refused = await retry(served, child)
    assert (refused.status, refused.code) == (409, "PARENT_HAS_MOVED_ON")
    assert run["instanceID"] in refused.json["error"]["message"]

    await served.save(echo("leaf"))
    answered = (await retry(served, run)).json
    assert (answered["redo"], [each["instanceID"] for each in answered["children"]]) == ([], [child["instanceID"]])
    after = await served.ended(run["instanceID"])
    assert after["status"] == "COMPLETED", after
    below = await served.ended(child["instanceID"])
    assert (below["status"], below["generation"]) == ("COMPLETED", 1)
    assert [node for node in activations(after) if node[0] == "call"] == [("call", "success", 1)], "it waited again"


async def test_a_parent_takes_the_output_of_a_child_that_was_retried_alone_and_has_completed(served: Served):
    await served.save(calling("child", "later"))
    await served.save(calling("parent", "child"))
    run = await failed(served, "parent")
    (child,) = (await served.ask("GET", "/v1/workflows/child/runs")).json["items"]
    await served.save(echo("later"))
    assert (await retry(served, child, detach=True)).status == 200
    assert (await served.ended(child["instanceID"]))["status"] == "COMPLETED"
    answered = await retry(served, run)
    assert (answered.status, answered.json["redo"], answered.json["children"]) == (200, [], [])
    assert (await served.ended(run["instanceID"]))["status"] == "COMPLETED"


async def test_a_child_that_was_removed_meanwhile_is_replaced_by_another_one(served: Served):
    await served.save(calling("child", "absent"))
    await served.save(calling("parent", "child", retry={"maxAttempts": 1}))
    run = await failed(served, "parent")
    (removed,) = (await served.ask("GET", "/v1/workflows/child/runs")).json["items"]
    await served.services.workflows.delete_run(removed["instanceID"], tenant_id=TENANT, actor=None)
    await served.save(echo("absent"))

    answered = (await retry(served, run)).json
    assert ([each["nodeID"] for each in answered["redo"]], answered["children"]) == (["call"], [])
    assert (await served.ended(run["instanceID"]))["status"] == "COMPLETED"
    (child,) = (await served.ask("GET", "/v1/workflows/child/runs")).json["items"]
    assert child["status"] == "COMPLETED"
    assert child["instanceID"] != removed["instanceID"]


async def test_a_cancelled_run_goes_on_with_what_was_cancelled_below_it(served: Served):
    await served.save(
        chain("child", {"id": "hold", "type": "waitForEvent", "config": {"event": "go", "timeout": "1h"}})
    )
    await served.save(calling("top", "child"))
    top = await served.start("top", input=1)
    children = await served.until("/v1/workflows/child/runs", lambda page: page["items"])
    child = children["items"][0]["instanceID"]
    await served.until(f"/v1/runs/{child}", lambda run: any(node["status"] == "waiting" for node in run["nodes"]))
    await served.until(f"/v1/runs/{top}", lambda run: any(node["status"] == "waiting" for node in run["nodes"]))
    assert (await served.ask("POST", f"/v1/runs/{top}/cancel", json={})).status == 200
    assert (await served.ended(child))["status"] == "CANCELLED"
    answered = (await retry(served, {"instanceID": top})).json
    assert [each["instanceID"] for each in answered["children"]] == [child]
    sent = await served.ask("POST", f"/v1/runs/{child}/signals/go", json=7)
    assert (sent.status, sent.json["delivered"]) == (202, True)
    assert (await served.ended(top))["status"] == "COMPLETED"
    assert (await served.ended(child))["status"] == "COMPLETED"


async def test_a_wait_that_a_retry_has_prolonged_says_until_when_everywhere(served: Served):
    await served.save(chain("held", {"id": "hold", "type": "waitForEvent", "config": {"event": "go", "timeout": "1h"}}))
    run = await served.start("held")
    path = f"/v1/runs/{run}"
    before = await served.until(path, lambda found: found["status"] == "WAITING")
    (due,) = (each["waitsFor"]["dueAt"] for each in before["nodes"] if each["waitsFor"])
    await served.ask("POST", f"{path}/cancel", json={})
    await asyncio.sleep(0.05)
    assert (await retry(served, {"instanceID": run})).status == 200

    after = await served.until(path, lambda found: found["status"] == "WAITING")
    (prolonged,) = (each["waitsFor"]["dueAt"] for each in after["nodes"] if each["waitsFor"])
    assert datetime.fromisoformat(prolonged) >= datetime.fromisoformat(due) + timedelta(milliseconds=50)
    (reason,) = (await served.ask("GET", f"{path}/why")).json["waitsFor"]
    log = (await served.ask("GET", f"{path}/log")).json["items"]
    (wait,) = (await served.ask("GET", f"{path}/at/{log[-1]['seq']}")).json["waits"]
    assert (reason["dueAt"], wait["dueAt"]) == (prolonged, prolonged)


async def together(served: Served, *, failing: int, waiting: int = 0) -> tuple[dict[str, Any], list[str]]:
    """A run with so many children that had failed before it could take notice of any, and others that were waiting."""
    hold = {"id": "hold", "type": "waitForEvent", "config": {"event": "go"}, "outputVariable": "told"}
    call = {"id": "call", "type": "workflow", "config": {"workflow": "{{ctx.told}}", "input": 1}}
    await served.save(chain("child", hold, call))
    count = failing + waiting
    await served.save(calling("top", "child", forEach=list(range(count)), concurrency=count))
    top, children = await paused(served, count)
    for child in children[:failing]:
        await fail(served, child, "later")
    run = await resumed(served, top)
    assert (run["status"], run["error"]["code"]) == ("FAILED", "CHILD_FAILED")
    for child in children:
        await served.ended(child)
    return run, children


async def paused(served: Served, count: int) -> tuple[str, list[str]]:
    """A run of `top` that is paused while it waits for its children, and these in the order of their nodes."""

    def waits(run: dict[str, Any]) -> list[dict[str, Any]]:
        return [each for each in run["nodes"] if each.get("waitsFor") and each["waitsFor"]["kind"] == "child"]

    top = await served.start("top", input=1)
    run = await served.until(f"/v1/runs/{top}", lambda run: len(waits(run)) == count)
    assert (await served.ask("POST", f"/v1/runs/{top}/pause?children=false")).status == 200
    in_order = sorted(waits(run), key=lambda each: (each["nodeID"], each["scope"]))
    return top, [each["waitsFor"]["childID"] for each in in_order]


async def resumed(served: Served, top: str) -> dict[str, Any]:
    assert (await served.ask("POST", f"/v1/runs/{top}/resume")).status == 200
    return await served.ended(top)


async def fail(served: Served, child: str, told: Any) -> None:
    """Tell a waiting child something that it fails with."""
    await served.ask("POST", f"/v1/runs/{child}/signals/go", json=told)
    assert (await served.ended(child))["status"] == "FAILED"


async def cancelled(served: Served, run_id: str) -> dict[str, Any]:
    assert (await served.ask("POST", f"/v1/runs/{run_id}/cancel")).status == 200
    return await served.ended(run_id)


async def test_children_that_failed_together_go_on_together(served: Served):
    run, children = await together(served, failing=2)
    await served.save(echo("later"))
    answered = (await retry(served, run)).json
    assert sorted(each["instanceID"] for each in answered["children"]) == sorted(children)
    assert (await served.ended(run["instanceID"]))["status"] == "COMPLETED"
    assert [(await served.ended(child))["generation"] for child in children] == [1, 1]


async def test_children_that_failed_count_with_those_that_were_cancelled(
    served: Served, monkeypatch: pytest.MonkeyPatch
):
    run, children = await together(served, failing=2, waiting=1)
    monkeypatch.setattr(retry_verbs, "FAMILY_MAX", 3)
    refused = await retry(served, run)
    assert (refused.status, refused.code) == (409, "RETRY_REFUSED")
    monkeypatch.setattr(retry_verbs, "FAMILY_MAX", 4)
    answered = (await retry(served, run)).json
    assert sorted(each["instanceID"] for each in answered["children"]) == sorted(children)


async def call_and_right(served: Served, **right: Any) -> tuple[str, str, str]:
    """A paused run that waits for a child at `call` and for one of another workflow at `right`, and these two."""
    hold = {"id": "hold", "type": "waitForEvent", "config": {"event": "go"}, "outputVariable": "told"}
    call = {"id": "call", "type": "workflow", "config": {"workflow": "{{ctx.told}}", "input": 1}}
    await served.save(chain("child", hold, call))
    await served.save(chain("other", hold, call))
    document = calling("top", "child")
    document["nodes"].append({"id": "right", "type": "workflow", "config": {"workflow": "other"}, **right})
    document["edges"].append({"id": "to-right", "upstreamNodeID": "before", "downstreamNodeID": "right"})
    await served.save(document)
    top, (child, other) = await paused(served, 2)
    return top, child, other


def stays(child: dict[str, Any], node: str, parent: str) -> str:
    return f"run {child['instanceID']} stays {child['status']}: {node} of run {parent} gets its end"


async def test_a_child_that_cannot_continue_does_not_hinder_the_other(served: Served):
    top, *children = await call_and_right(served)
    for child in children:
        await fail(served, child, "later")
    run = await resumed(served, top)
    await served.save(echo("later"))
    cause, other = children if run["error"]["nodeID"] == "call" else reversed(children)
    refused = await served.ended(other)
    assert (await served.ask("DELETE", f"/v1/workflows/{refused['name']}")).status == 204
    answered = (await retry(served, run, dryRun=True)).json
    assert [each["instanceID"] for each in answered["children"]] == [cause]
    node = "right" if run["error"]["nodeID"] == "call" else "call"
    assert answered["warnings"] == [stays(refused, node, top)]
    assert (await retry(served, run)).json["warnings"] == answered["warnings"]
    assert (await served.ended(top))["status"] == "FAILED", "it gets the failure"
    assert (await served.ended(other))["generation"] == 0


async def test_a_child_that_was_cancelled_on_its_own_stays_so_when_the_cancelled_parent_continues(served: Served):
    top, child, right = await call_and_right(served)
    stopped = await cancelled(served, right)
    run = await cancelled(served, top)
    assert (await served.ended(child))["status"] == "CANCELLED"
    answered = (await retry(served, run)).json
    assert [each["instanceID"] for each in answered["children"]] == [child]
    assert answered["warnings"] == [stays(stopped, "right", top)]
    assert await served.ended(right) == stopped


async def test_a_child_that_was_cancelled_on_its_own_stays_so_when_the_failed_parent_continues(served: Served):
    top, *children = await call_and_right(served)
    await fail(served, children[0], "later")
    await cancelled(served, children[1])
    run = await resumed(served, top)
    assert run["status"] == "FAILED"
    cause, other = children if run["error"]["nodeID"] == "call" else reversed(children)
    before = await served.ended(other)
    await served.save(echo("later"))
    answered = (await retry(served, run)).json
    continued = {each["instanceID"] for each in answered["children"]}
    if before["status"] == "FAILED":  # the parent took notice of the cancelled one first: that is the cause
        assert (continued, answered["warnings"]) == ({cause, other}, [])
    else:
        assert (continued, answered["warnings"]) == ({cause}, [stays(before, "right", top)])
        assert await served.ended(other) == before


@pytest.mark.parametrize("handling", ["ignore", "continue"])
async def test_a_child_that_had_failed_stays_so_when_the_cancelled_parent_continues(served: Served, handling: str):
    top, child, right = await call_and_right(served, errorHandling=handling)
    await fail(served, right, "later")
    failure = await served.ended(right)
    run = await cancelled(served, top)
    await served.save(echo("later"))
    assert (await served.ended(child))["status"] == "CANCELLED"
    answered = (await retry(served, run)).json
    assert [each["instanceID"] for each in answered["children"]] == [child]
    assert answered["warnings"] == [stays(failure, "right", top)]
    assert await served.ended(right) == failure


async def test_what_cannot_be_retried_says_why(served: Served):
    await served.save(echo())
    fine = await served.ended(await served.start("echo"))
    assert (await retry(served, fine)).code == "RUN_IS_COMPLETED"
    await served.save(chain("waiting", {"id": "hold", "type": "waitForEvent", "config": {"event": "go"}}))
    waiting = await served.start("waiting")
    assert (await retry(served, {"instanceID": waiting})).code == "RUN_IS_OPEN"
    assert (await served.ask("POST", f"/v1/runs/{waiting}/pause")).status == 200
    assert (await retry(served, {"instanceID": waiting})).json["status"] in ("RUNNING", "WAITING")
    await served.save(
        chain("wrong", {"id": "sum", "type": "set", "config": {"values": {"x": "{{ctx.input.nothing}}"}}})
    )
    assert (await retry(served, await failed(served, "wrong"))).code == "RETRY_WOULD_REPEAT"
    await served.save(calling("gone", "nowhere"))
    run = await failed(served, "gone")
    assert (await served.ask("DELETE", "/v1/workflows/gone")).status == 204
    assert (await retry(served, run)).code == "RETRY_REFUSED"
    assert (await retry(served, {"instanceID": "00000000-0000-7000-8000-000000000009"})).status == 404
    assert (await retry(served, run, nonsense=1)).status == 422
    assert (await retry(served, run, reason="x" * 5_000)).status == 422


async def test_a_run_whose_deadline_was_over_before_it_began_needs_another_one(served: Served):
    await served.save(echo("late"))
    run = await served.ended(await served.start("late", deadlineAt="2020-01-01T00:00:00Z"))
    assert run["error"]["code"] == "DEADLINE_EXCEEDED"
    for dry_run in (True, False):
        refused = await retry(served, run, dryRun=dry_run)
        assert (refused.status, refused.code) == (409, "RETRY_WOULD_REPEAT")
        assert "`deadline`" in refused.json["error"]["hint"]
    assert (await retry(served, run, deadline="2h")).status == 200
    assert (await served.ended(run["instanceID"]))["status"] == "COMPLETED"


async def test_the_deadline_of_a_retry_is_any_duration_above_zero(served: Served):
    await served.save(calling("parent", "later"))
    run = await failed(served, "parent")
    for none in ("0s", 0, 0.2, "PT0S"):
        refused = await retry(served, run, deadline=none, dryRun=True)
        assert (refused.status, refused.code) == (422, "INVALID_REQUEST"), none
        assert refused.json["error"]["message"] == "the deadline of a retry must be longer than 0"
    for wrong in (-1, True, "soon", "3600000"):
        refused = await retry(served, run, deadline=wrong, dryRun=True)
        assert (refused.status, refused.code) == (422, "INVALID_REQUEST"), wrong
        assert "write milliseconds as a number, `500ms`" in refused.text
    for length in (3_600_000, "1h", "PT60M"):
        before = datetime.now(UTC)
        planned = await retry(served, run, deadline=length, dryRun=True)
        assert planned.status == 200, planned.text
        assert abs(datetime.fromisoformat(planned.json["deadlineAt"]) - before - timedelta(hours=1)) < timedelta(
            minutes=5
        )


async def test_a_child_whose_parent_has_moved_on_goes_on_by_itself_if_detached(served: Served):
    await served.save(calling("child", "later"))
    ignored = {"errorHandling": "ignore", "retry": {"maxAttempts": 1}}
    await served.save(calling("parent", "child", **ignored))
    parent = await served.ended(await served.start("parent", input=1))
    assert parent["status"] == "COMPLETED"
    (child,) = (await served.ask("GET", "/v1/workflows/child/runs")).json["items"]
    refused = await retry(served, child)
    assert (refused.status, refused.code) == (409, "PARENT_HAS_MOVED_ON")
    assert "retry run" not in refused.json["error"]["message"], "the parent has completed"
    assert "detach" in refused.json["error"]["hint"]
    await served.save(echo("later"))
    answered = await retry(served, child, detach=True, deadline="2h")
    assert answered.status == 200, answered.text
    begins, ends = (datetime.fromisoformat(each) for each in (parent["completedAt"], answered.json["deadlineAt"]))
    assert timedelta(hours=2) <= ends - begins < timedelta(hours=3), "two hours from the retry"
    assert (await served.ended(child["instanceID"]))["status"] == "COMPLETED"
    assert await served.ended(parent["instanceID"]) == parent, "it is told nothing"


async def test_of_two_retries_one_wins_and_the_same_key_gets_the_same_answer(served: Served):
    waits = {"id": "hold", "type": "waitForEvent", "config": {"event": "go"}}
    await served.save(chain("held", waits))
    run_id = await served.start("held")
    await served.ask("POST", f"/v1/runs/{run_id}/cancel")
    run = await served.ended(run_id)
    answers = await asyncio.gather(*(retry(served, run, key=key) for key in ("a", "b", "a", "b", "a")))
    assert sorted({answer.status for answer in answers}) == [200, 409]
    won = [key for key, answer in zip("ababa", answers, strict=True) if answer.status == 200]
    assert len(set(won)) == 1, "one of the two keys"
    assert {answer.code for answer in answers if answer.status == 409} == {"RUN_IS_OPEN"}
    assert (await served.ask("GET", f"/v1/runs/{run_id}")).json["generation"] == 1


async def test_no_more_runs_go_on_together_than_the_limit(served: Served, monkeypatch: pytest.MonkeyPatch):
    await served.save(chain("leaf", {"id": "hold", "type": "waitForEvent", "config": {"event": "go"}}))
    call = {"id": "call", "type": "workflow", "config": {"workflow": "leaf"}}
    each = {"id": "each", "type": "loop", "config": {"source": "{{ctx.input}}", "concurrency": 3}}
    document = chain("many", each)
    document["nodes"].append(call)
    document["edges"].append({"upstreamNodeID": "each", "downstreamNodeID": "call", "sourceHandle": "loop"})
    await served.save(document)
    run_id = await served.start("many", input=[1, 2, 3])
    await served.until("/v1/workflows/leaf/runs", lambda found: len(found["items"]) == 3)
    await served.ask("POST", f"/v1/runs/{run_id}/cancel")
    run = await served.ended(run_id)
    await served.until(
        "/v1/workflows/leaf/runs", lambda found: all(each["status"] == "CANCELLED" for each in found["items"])
    )
    monkeypatch.setattr(retry_verbs, "FAMILY_MAX", 3)
    refused = await retry(served, run)
    assert (refused.status, refused.code) == (409, "RETRY_REFUSED")
    monkeypatch.setattr(retry_verbs, "FAMILY_MAX", 4)
    answered = await retry(served, run)
    assert (answered.status, len(answered.json["children"])) == (200, 3)

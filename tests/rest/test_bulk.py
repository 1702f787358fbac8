"""One action on many runs over REST: what is done, what is refused, and that a repeated page does nothing twice."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from anabranch.bulk import bulk_service, bulk_workflow
from anabranch.bulk.bulk_actions import BULK_NAME
from tests.rest.conftest import Served
from tests.rest.drawing import chain, echo


async def bulk(served: Served, action: str, filter: dict[str, Any], **further: Any) -> dict[str, Any]:
    """Its progress, once it has ended."""
    asked = {"action": action, "filter": filter, **further}
    answered = await served.ask("POST", "/v1/runs/bulk", json=asked, role="operator")
    assert answered.status == 202, answered.text
    return await served.until(f"/v1/runs/bulk/{answered.json['bulkID']}", lambda found: found["status"] == "COMPLETED")


async def test_a_reason_that_is_null_is_none(served: Served):
    await served.save(chain("waiting", {"id": "hold", "type": "waitForEvent", "config": {"event": "go"}}))
    run = await served.start("waiting")
    done = await bulk(served, "cancel", {"workflow": "waiting"}, options={"reason": None})
    assert (done["succeeded"], done["underWay"]) == (1, 0)
    assert (await served.ended(run))["note"] != "None"
    assert '"None"' not in (await served.ask("GET", f"/v1/runs/{run}/log")).text


async def test_runs_are_signalled_cancelled_and_run_again_together(served: Served):
    await served.save(chain("waiting", {"id": "hold", "type": "waitForEvent", "config": {"event": "go"}}))
    runs = [await served.start("waiting") for _ in range(3)]
    signalled = await bulk(served, "signal", {"workflow": "waiting"}, options={"event": "go", "payload": 1})
    assert (signalled["total"], signalled["counts"], signalled["refused"]) == (3, {"DONE": 3}, [])
    for run in runs:
        assert (await served.ended(run))["status"] == "COMPLETED"

    for _ in range(2):
        await served.start("waiting")
    planned = await bulk(served, "cancel", {"workflow": "waiting"}, dryRun=True)
    assert (planned["total"], planned["dryRun"]) == (2, True)
    cancelled = await bulk(served, "cancel", {"workflow": "waiting"}, options={"reason": "enough"})
    assert (cancelled["total"], cancelled["succeeded"]) == (2, 2)
    again = await bulk(served, "rerun", {"workflow": "waiting", "status": ["CANCELLED"]})
    assert again["succeeded"] == 2


@pytest.mark.parametrize("value", [1, 1.5, True, None])
async def test_runs_are_found_by_a_value_in_their_input(served: Served, value: Any):
    await served.save(echo())
    for each in (value, "1", "null", 2):
        await served.ended(await served.start("echo", input={"order": {"n": each}}))
    found = {"workflow": "echo", "status": ["COMPLETED"], "input": {"order.n": value}}
    assert (await bulk(served, "rerun", found, dryRun=True))["succeeded"] == 1


async def test_a_page_that_is_repeated_does_nothing_twice(served: Served):
    await served.save(echo())
    first = await served.start("echo")
    await served.ended(first)
    done = await bulk(served, "rerun", {"workflow": "echo", "status": ["COMPLETED"]})
    run = (await served.ask("GET", f"/v1/runs/{done['bulkID']}")).json
    repeated = await served.services.bulk._actions.act(done["bulkID"], run["input"], [first])
    assert repeated["counts"] == {"DONE": 1}
    reruns = (await served.ask("GET", f"/v1/runs?rerunOf={first}")).json["items"]
    assert len(reruns) == 1


async def test_refusals_are_outcomes_and_requests_that_mean_nothing_are_refused(served: Served):
    await served.save(echo())
    await served.ended(await served.start("echo"))
    refused = await bulk(served, "retry", {"workflow": "echo", "status": ["COMPLETED"]})
    assert (refused["succeeded"], refused["counts"]) == (0, {"RUN_IS_COMPLETED": 1})
    assert refused["refused"][0]["code"] == "RUN_IS_COMPLETED"

    async def code(**asked: Any) -> int:
        return (await served.ask("POST", "/v1/runs/bulk", json=asked)).status

    assert await code(action="retry", filter={}) == 422
    assert await code(action="explode", filter={"workflow": "echo"}) == 422
    assert await code(action="signal", filter={"workflow": "echo"}) == 422
    assert await code(action="retry", filter={"workflow": "echo"}, options={"version": 1}) == 422
    assert await code(action="resume", filter={"workflow": "echo"}, options={"reason": "why"}) == 422
    assert await code(action="retry", filter={"workflow": "echo"}, options={"steps": "all"}) == 422
    assert await code(action="rerun", filter={"workflow": "echo"}, options={"version": "2"}) == 422
    assert await code(action="retry", filter={"workflow": "nothing"}) == 404
    for is_dry in (True, False):
        assert await code(action="rerun", filter={"workflow": "echo"}, options={"version": 77}, dryRun=is_dry) == 404
    assert await code(action="retry", filter={"workflow": "echo", "since": "no time"}) == 422
    assert (await served.ask("GET", f"/v1/runs/bulk/{await served.start('echo')}")).status == 404


async def test_the_workflow_of_bulk_runs_meets_no_run_that_no_condition_names_however_it_is_started(served: Served):
    await served.save(chain("waiting", {"id": "hold", "type": "waitForEvent", "config": {"event": "go"}}))
    waiting = await served.start("waiting")
    bulk_id = (await bulk(served, "resume", {"workflow": "waiting"}))["bulkID"]
    everything = {"input": {"action": "cancel", "filter": {}}}
    for path in (f"/v1/workflows/{BULK_NAME}/runs", f"/v1/runs/{bulk_id}/rerun"):
        started = await served.ask("POST", path, json=everything)
        assert started.status == 201, started.text
        ended = await served.ended(started.json["instanceID"])
        assert (ended["status"], ended["error"]["code"]) == ("FAILED", "INVALID_REQUEST")
    assert (await served.ask("GET", f"/v1/runs/{waiting}")).json["status"] == "WAITING"


async def test_a_cancelled_bulk_run_finishes_its_page_and_begins_no_other(
    served: Served, monkeypatch: pytest.MonkeyPatch
):
    for module in (bulk_workflow, bulk_service):
        monkeypatch.setattr(module, "PAGE_RUNS", 2)
    await served.save(chain("waiting", {"id": "hold", "type": "waitForEvent", "config": {"event": "go"}}))
    runs = [await served.start("waiting") for _ in range(5)]
    actions, may_go, is_in_page = served.services.bulk._actions, asyncio.Event(), asyncio.Event()
    performer = actions._performer

    def held(*request: Any, **of_run: Any) -> Any:
        perform = performer(*request, **of_run)

        async def performed(run_id: str) -> object:
            is_in_page.set()
            await may_go.wait()
            return await perform(run_id)

        return performed

    monkeypatch.setattr(actions, "_performer", held)
    asked = {"action": "cancel", "filter": {"workflow": "waiting"}}
    bulk_id = (await served.ask("POST", "/v1/runs/bulk", json=asked)).json["bulkID"]
    await is_in_page.wait()
    assert (await served.ask("POST", f"/v1/runs/{bulk_id}/cancel")).status == 200
    may_go.set()
    progress = (await served.ask("GET", f"/v1/runs/bulk/{bulk_id}")).json
    counted = {name: progress[name] for name in ("status", "total", "done", "underWay")}
    assert counted == {"status": "CANCELLED", "total": 5, "done": 0, "underWay": 2}, "what is not counted is told"
    done = runs[-2:]
    for run in done:
        assert (await served.ended(run))["status"] == "CANCELLED", "the page is finished"
    left = [(await served.ask("GET", f"/v1/runs/{run}")).json["status"] for run in runs if run not in done]
    assert "CANCELLED" not in left, "no other page begins"

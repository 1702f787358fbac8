"""Pauses of workflows and of the tenant, and active versions, over REST."""

from __future__ import annotations

from typing import Any

import pytest

from anabranch.client.remote import RemoteGateway
from tests.rest.conftest import Served
from tests.rest.drawing import echo


async def run_of(served: Served, instance_id: str) -> dict[str, Any]:
    run: dict[str, Any] = (await served.ask("GET", f"/v1/runs/{instance_id}")).json
    return run


async def test_a_paused_workflow_keeps_its_starts_pending_and_says_so_everywhere(served: Served):
    saved = await served.save(echo("triage"))
    refused = await served.ask("POST", "/v1/workflows/triage/pause", role="operator")
    assert (refused.status, refused.code) == (403, "FORBIDDEN")
    paused = await served.ask("POST", "/v1/workflows/triage/pause", role="editor")
    assert paused.json == {"workflowID": saved["workflowID"], "name": "triage", "paused": paused.json["paused"]}
    assert paused.json["paused"].keys() == {"by", "since"}
    again = await served.ask("POST", f"/v1/workflows/{saved['workflowID']}/pause")
    assert again.json == paused.json, "it is paused already"
    assert (await served.ask("GET", "/v1/workflows/triage")).json["paused"] == paused.json["paused"]

    instance_id = await served.start("triage")
    run = await run_of(served, instance_id)
    assert (run["status"], run["pausedBy"]) == ("PENDING", {"kind": "workflow", **paused.json["paused"]})
    (listed,) = (await served.ask("GET", "/v1/runs")).json["items"]
    assert listed["pausedBy"] == run["pausedBy"]
    why = (await served.ask("GET", f"/v1/runs/{instance_id}/why")).json
    assert why["waitsFor"][0] == {"kind": "paused", "paused": "workflow", **paused.json["paused"]}
    assert why["sentence"].startswith("The workflow has been paused since ")
    why = (await served.ask("GET", f"/v1/runs/{instance_id}/nodes/start/why")).json
    assert why["waitsFor"][0]["kind"] == "paused"

    resumed = await served.ask("POST", "/v1/workflows/triage/resume", role="editor")
    assert resumed.json == {"workflowID": saved["workflowID"], "name": "triage", "paused": None}
    ended = await served.ended(instance_id)
    assert (ended["status"], ended["pausedBy"]) == ("COMPLETED", None)
    actions = [row["action"] for row in (await served.ask("GET", "/v1/audit")).json["items"]]
    assert [each for each in actions if each.startswith("workflow.")] == [
        "workflow.resumed", "workflow.paused", "workflow.saved",
    ]  # fmt: skip
    absent = await served.ask("POST", "/v1/workflows/nobody/pause")
    assert (absent.status, absent.code) == (404, "NOT_FOUND")


async def test_a_paused_tenant_stands_still_and_others_do_not(served: Served):
    await served.save(echo("triage"))
    await served.save(echo("triage"), role="other")
    for role in ("editor", "operator"):
        assert (await served.ask("POST", "/v1/pause", role=role)).status == 403
    paused = (await served.ask("POST", "/v1/pause")).json
    assert (await served.ask("GET", "/v1/pause", role="viewer")).json == paused
    assert (await served.ask("GET", "/v1/pause", role="other")).json == {"paused": None}
    instance_id = await served.start("triage")
    theirs = await served.ask("POST", "/v1/workflows/triage/runs?wait=30s", role="other", json={})
    assert theirs.json["status"] == "COMPLETED"
    assert (await run_of(served, instance_id))["pausedBy"] == {"kind": "tenant", **paused["paused"]}
    assert (await served.ask("POST", "/v1/resume", role="editor")).status == 403
    assert (await served.ask("POST", "/v1/resume")).json == {"paused": None}
    assert (await served.ended(instance_id))["status"] == "COMPLETED"


async def test_starts_take_the_active_version(served: Served):
    await served.save(echo("triage"))

    async def save(title: str, **further: Any) -> dict[str, Any]:
        document = echo("triage", title=title) | further
        saved: dict[str, Any] = (await served.ask("PUT", "/v1/workflows/triage", json=document)).json
        return saved

    async def started() -> int:
        version: int = (await run_of(served, await served.start("triage")))["version"]
        return version

    assert (await started(), (await save("2"))["activeVersion"], await started()) == (1, 2, 2)
    third = await save("3", activate=False)
    assert (third["version"], third["activeVersion"], await started()) == (3, 2, 2)
    assert "activate" not in (await served.ask("GET", "/v1/workflows/triage/document")).json
    refused = await served.ask("PUT", "/v1/workflows/triage/active", role="operator", json={"version": 3})
    assert refused.status == 403
    active = await served.ask("PUT", "/v1/workflows/triage/active", role="editor", json={"version": 1})
    assert (active.json["activeVersion"], await started()) == (1, 1)
    read = (await served.ask("GET", "/v1/workflows/triage")).json
    assert (read["version"], read["activeVersion"]) == (3, 1)
    versions = (await served.ask("GET", "/v1/workflows/triage/versions")).json["items"]
    assert [(each["version"], each["active"]) for each in versions] == [(3, False), (2, False), (1, True)]
    assert (await save("4"))["activeVersion"] == 4
    wrong = [
        await served.ask("PUT", "/v1/workflows/triage/active", json={"version": 5}),
        await served.ask("PUT", "/v1/workflows/triage/active", json={"version": 0}),
        await served.ask("PUT", "/v1/workflows/triage", json={"activate": "no"}),
    ]
    assert [(each.status, each.code) for each in wrong] == [
        (404, "NOT_FOUND"), (422, "INVALID_REQUEST"), (422, "INVALID_REQUEST"),
    ]  # fmt: skip


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
async def test_the_client_of_a_server_has_these_verbs(served: Served):
    saved = await served.save(echo("triage"))
    await served.ask("PUT", "/v1/workflows/triage", json=echo("triage", title="2"))
    async with RemoteGateway(served.url, served.keys["admin"]) as gateway:
        named = {"workflowID": saved["workflowID"], "name": "triage"}
        assert await gateway.activate_workflow("triage", 1) == named | {"activeVersion": 1}
        assert (await gateway.pause_workflow("triage"))["paused"] is not None
        assert await gateway.resume_workflow("triage") == named | {"paused": None}
        assert (await gateway.pause_tenant())["paused"] is not None
        assert await gateway.resume_tenant() == {"paused": None}


@pytest.mark.parametrize("verb", ["pause", "resume"])
async def test_options_in_the_body_are_refused_instead_of_ignored(served: Served, verb: str):
    await served.save(echo("triage"))
    instance_id = await served.start("triage")
    for path in (f"/v1/runs/{instance_id}/{verb}", f"/v1/workflows/triage/{verb}", f"/v1/{verb}"):
        refused = await served.ask("POST", path, json={"children": False})
        assert (refused.status, refused.code) == (422, "INVALID_REQUEST")
        assert refused.json["error"]["details"][0]["pointer"] == "/children"
    assert (await served.ask("POST", f"/v1/{verb}", json={})).status == 200

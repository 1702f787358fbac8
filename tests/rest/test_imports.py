"""Imports over REST: each workflow of an export becomes a draft, with its report."""

from __future__ import annotations

from anabranch.handlers import builtin_types
from anabranch.n8n.exports import read_exports
from anabranch.n8n.importing import import_workflow
from tests.n8n.drawn import DRAWN
from tests.rest.conftest import Served
from tests.rest.drawing import chain


async def test_an_export_becomes_a_draft_with_its_pins_and_a_report(served: Served):
    export = {**DRAWN[0].export(), "pinData": {"Fields": [{"json": {"n": 1}}]}}
    answered = await served.ask("POST", "/v1/import/n8n", json=export, role="editor")
    assert answered.status == 201, answered.text
    [made] = answered.json["items"]
    assert (made["report"]["status"], made["report"]["counts"]["exact"]) == ("exact", 2)
    draft = (await served.ask("GET", f"/v1/drafts/{made['draftID']}")).json
    assert draft["document"] == made["document"]
    pins = await served.ask("GET", f"/v1/drafts/{made['draftID']}/pins")
    assert pins.json == {"fields": {"output": [{"n": 1}]}}
    published = await served.ask("POST", f"/v1/drafts/{made['draftID']}/publish")
    assert published.status == 200, published.text


async def test_a_report_alone_saves_nothing(served: Served):
    before = (await served.ask("GET", "/v1/drafts")).json
    answered = await served.ask("POST", "/v1/import/n8n?save=false", json=[DRAWN[1].export(), DRAWN[2].export()])
    assert (answered.status, [each["draftID"] for each in answered.json["items"]]) == (200, [None, None])
    assert (await served.ask("GET", "/v1/drafts")).json == before


async def test_what_is_no_export_is_refused_and_a_viewer_imports_nothing(served: Served):
    refused = await served.ask("POST", "/v1/import/n8n", json={"nodes": [], "edges": []})
    assert (refused.status, refused.code) == (422, "INVALID_REQUEST"), refused.text
    assert (await served.ask("POST", "/v1/import/n8n", json=DRAWN[0].export(), role="viewer")).status == 403


async def test_an_imported_error_workflow_gets_what_n8n_gives_it(served: Served):
    trigger = {"name": "On Error", "type": "n8n-nodes-base.errorTrigger", "typeVersion": 1, "parameters": {}}
    look = {"name": "Look", "type": "n8n-nodes-base.code", "typeVersion": 2, "parameters": {"jsCode": "return items;"}}
    links = {"On Error": {"main": [[{"node": "Look", "type": "main", "index": 0}]]}}
    nodes = [{"position": [0, 0], **each} for each in (trigger, look)]
    [export] = read_exports({"name": "On failures", "nodes": nodes, "connections": links})
    imported = import_workflow(export, builtin_types())
    document = imported.document
    document["nodes"][0]["config"]["workflow"] = "breaks"
    last = document["nodes"][-1]
    document["nodes"].append({"id": "end", "type": "end", "config": {"outputParameters": {"of": "{{ctx.look}}"}}})
    document["edges"].append({"upstreamNodeID": last["id"], "downstreamNodeID": "end"})
    await served.save(document)
    breaks = await served.save(chain("breaks", {"id": "stop", "type": "stopWithError", "config": {"message": "no"}}))
    failed = await served.ended(await served.start("breaks"))
    path = f"/v1/workflows/{document['name']}/runs"
    await served.until(path, lambda found: bool(found["items"]))
    [run] = (await served.ask("GET", path)).json["items"]
    [item] = (await served.ended(run["instanceID"]))["output"]["of"]

    assert [each.status for each in imported.report.nodes] == ["equal", "exact"]
    execution = item["execution"]
    stack, url = execution["error"].pop("stack"), execution.pop("url")
    assert item == {
        "execution": {
            "id": failed["instanceID"],
            "error": {"message": "no", "name": failed["error"]["type"]},
            "lastNodeExecuted": "stop",
            "mode": "trigger",
        },
        "workflow": {"id": breaks["workflowID"], "name": "breaks"},
    }
    assert stack.startswith(f"{failed['error']['type']}: no\n")
    assert url.endswith(f"/#/runs/{failed['instanceID']}")

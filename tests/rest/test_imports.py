"""Imports over REST: each workflow of an export becomes a draft, with its report."""

from __future__ import annotations

from tests.n8n.drawn import DRAWN
from tests.rest.conftest import Served


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

"""A webhook in the editor: its addresses, and a test run that listens for a call."""

from __future__ import annotations

import asyncio
import json
import urllib.request
from typing import Any
from urllib.parse import urlsplit

from playwright.async_api import Page, expect

from tests.browser.conftest import IN_THE_BROWSER, PATIENCE_MS, Server

pytestmark = IN_THE_BROWSER

expect.set_options(timeout=PATIENCE_MS)

NODES: list[dict[str, Any]] = [
    {"id": "hook", "type": "webhook", "config": {"path": "heard/calls"}, "position": {"x": 0, "y": 80}},
    {
        "id": "keep",
        "type": "set",
        "forEach": "{{ctx.input.json.orders}}",
        "config": {"values": {"n": "{{ctx.item}}"}},
        "position": {"x": 280, "y": 80},
    },
    {
        "id": "later",
        "type": "waitForEvent",
        "config": {"event": "go"},
        "outputVariable": "said",
        "position": {"x": 560, "y": 80},
    },
    {
        "id": "more",
        "type": "condition",
        "config": {"branches": [{"id": "again", "expression": "{{ctx.said.more}}"}]},
        "position": {"x": 840, "y": 80},
    },
]
EDGES = [
    {"upstreamNodeID": "hook", "downstreamNodeID": "keep"},
    {"upstreamNodeID": "keep", "downstreamNodeID": "later"},
    {"upstreamNodeID": "later", "downstreamNodeID": "more"},
    {"upstreamNodeID": "more", "sourceHandle": "again", "downstreamNodeID": "later"},
]


def send(url: str, body: Any) -> str:
    """Call an address; the id of the run that got it."""
    data, headers = json.dumps(body).encode(), {"Content-Type": "application/json"}
    request = urllib.request.Request(url, method="POST", data=data, headers=headers)
    with urllib.request.urlopen(request, timeout=PATIENCE_MS / 1000) as answer:
        assert answer.status == 202
        return str(json.load(answer)["instanceID"])


async def test_a_test_run_listens_for_a_call_of_the_address_that_the_panel_shows(page: Page, server: Server) -> None:
    document = {"title": "Heard calls", "nodes": NODES, "edges": EDGES}
    saved = server.call("POST", "/workflows", document)
    await page.goto(f"{server.entrance}#/workflows/{saved['workflowID']}")
    await page.locator('[data-node-id="hook"]').dblclick()
    addresses = page.get_by_role("region", name="Addresses")
    await expect(addresses.get_by_text("Live address, of version 1")).to_be_visible()
    await expect(addresses.locator("code")).to_have_count(1)
    assert (await addresses.locator("code").inner_text()).endswith("/hooks/default/heard/calls")

    await addresses.get_by_role("button", name="Listen for a test call").click()
    await expect(addresses.get_by_role("status")).to_contain_text("Waiting for a request")
    test_address = addresses.locator("code").nth(1)
    await expect(test_address).to_contain_text("/test-hooks/")
    path = urlsplit(await test_address.inner_text()).path
    run = await asyncio.to_thread(send, server.url + path, {"orders": [7, 8, 9]})

    bar = page.get_by_role("region", name="Test run")
    await expect(page.locator('[data-node-id="later"]')).to_have_attribute("data-status", "waiting")
    await expect(addresses.get_by_role("status")).to_have_count(0)
    await expect(addresses.get_by_role("button", name="Listen for a test call")).to_be_enabled()
    # The loop without a loop node has a frame, and its nodes have a count of passes.
    await expect(page.locator(".frame.region")).to_have_count(1)
    server.call("POST", f"/runs/{run}/signals/go", {"more": True})
    await expect(page.locator('[data-node-id="more"]')).to_have_attribute("data-status", "success")
    await expect(page.locator('[data-node-id="later"]')).to_contain_text("× 2")
    server.call("POST", f"/runs/{run}/signals/go", {"more": False})
    await expect(bar.get_by_text("COMPLETED")).to_be_visible()
    await expect(addresses.get_by_role("button", name="Listen for a test call")).to_be_enabled()
    await page.get_by_role("button", name="Close the node").click()
    kept = page.locator('[data-node-id="keep"]')
    await expect(kept).to_contain_text("3 of 3")
    await kept.dblclick()
    await expect(page.get_by_role("region", name="Output of keep")).to_contain_text("7")

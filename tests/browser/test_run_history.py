"""Understanding a run: why it is where it is, and how it stood at any row of its log."""

from __future__ import annotations

from playwright.async_api import Page, expect

from tests.browser import axe
from tests.browser.conftest import IN_THE_BROWSER, PATIENCE_MS, Server

pytestmark = IN_THE_BROWSER

expect.set_options(timeout=PATIENCE_MS)

APPROVAL = {"id": "approval", "type": "waitForEvent", "config": {"event": "approve"}}
LATER = {"id": "later", "type": "set", "config": {"values": {"done": "yes"}}, "outputVariable": "later"}


async def test_asks_why(page: Page, server: Server) -> None:
    run_id = server.start(server.save("Asked why", [APPROVAL, LATER]))
    await page.goto(f"{server.entrance}#/runs/{run_id}?node=later")
    await expect(page.locator(".node-detail")).to_contain_text("not reached")
    await expect(page.locator(".node-detail .notice")).to_contain_text("approval")

    await page.get_by_role("button", name="Why?").click()
    await expect(page.locator(".run-page > .notice")).to_contain_text("approve")
    assert await axe.findings(page) == []


async def test_slides_through_time(page: Page, server: Server) -> None:
    number = {"id": "number", "type": "set", "config": {"values": {"n": 9007199254740993}}, "outputVariable": "number"}
    run_id = server.start(server.save("Slid", [number, LATER]))
    await page.goto(f"{server.entrance}#/runs/{run_id}")
    await expect(page.locator(".run-status")).to_have_text("completed")
    later = page.locator('[data-node-id="later"]')
    await expect(later).to_have_attribute("data-status", "success")

    slider = page.get_by_label("Time", exact=True)
    await slider.press("Home")
    await expect(page.get_by_role("heading", name="After row 1 of the log")).to_be_visible()
    await expect(later).not_to_have_attribute("data-status", "success")
    await expect(page.get_by_role("region", name="ctx")).not_to_contain_text("9007199254740993")
    assert await axe.findings(page) == []

    await slider.press("End")
    await expect(page.get_by_role("region", name="ctx")).to_contain_text("number")
    await expect(later).to_have_attribute("data-status", "success")
    await page.get_by_role("button", name="Now").click()
    await expect(page.get_by_role("heading", name="Output")).to_be_visible()

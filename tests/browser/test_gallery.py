"""Templates in the browser: drawn ones open as drafts, coded ones show how to have them."""

from __future__ import annotations

from playwright.async_api import Page, expect

from tests.browser import axe
from tests.browser.conftest import IN_THE_BROWSER, PATIENCE_MS, Server

pytestmark = IN_THE_BROWSER

expect.set_options(timeout=PATIENCE_MS)


async def open_gallery(page: Page, server: Server) -> None:
    await page.goto(server.entrance)
    await page.get_by_role("button", name="New", exact=True).click()
    await page.get_by_role("menuitem", name="From a template…").click()


async def test_a_drawn_template_opens_as_a_draft_of_its_own(page: Page, server: Server) -> None:
    server.save("One workflow", [{"id": "end", "type": "end"}])
    server.save("And another", [{"id": "end", "type": "end"}])
    await open_gallery(page, server)
    await expect(page.get_by_role("heading", name="Begin with a template")).to_have_count(0)  # only where there is room

    await page.get_by_role("button", name="Poll a slow job").click()

    await expect(page.locator('[data-node-id="pause"]')).to_contain_text("Wait 30 seconds")
    assert "/drafts/" in page.url


async def test_a_coded_template_shows_its_python_and_the_command_that_makes_its_project(
    page: Page, server: Server
) -> None:
    await open_gallery(page, server)

    await page.get_by_role("button", name="Order saga with compensation").click()

    dialog = page.get_by_role("dialog", name="Order saga with compensation")
    await expect(dialog).to_contain_text("anabranch new my-project --template order-saga")
    await expect(dialog.get_by_label("The Python of the template")).to_contain_text("async def order_saga")
    assert await axe.findings(page, "[role=dialog]") == []

"""Axe finds nothing on the pages, in either theme; what a page's policy forbids fails the test as well."""

from __future__ import annotations

from playwright.async_api import Page

from tests.browser.axe import findings
from tests.browser.conftest import IN_THE_BROWSER, Server

pytestmark = IN_THE_BROWSER


async def test_axe_finds_nothing(page: Page, server: Server) -> None:
    found: dict[str, list[str]] = {}
    await page.goto(server.entrance)
    for path in ("/", "/runs", "/workflows/hello", "/schedules", "/settings/secrets", "/settings/keys"):
        await page.goto(f"{server.url}/#{path}")
        await page.reload(wait_until="networkidle")
        found[path] = await findings(page)

    assert not any(found.values()), found

"""Axe finds nothing on the pages, in either theme; what a page's policy forbids fails the test as well."""

from __future__ import annotations

from typing import Literal

import pytest
from playwright.async_api import Page

from tests.browser.axe import findings
from tests.browser.conftest import IN_THE_BROWSER, Complaints, Server

pytestmark = IN_THE_BROWSER


@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_axe_finds_nothing(
    page: Page, server: Server, complaints: Complaints, theme: Literal["light", "dark"]
) -> None:
    complaints.allowed.append("404")  # the workflow has no draft yet
    await page.emulate_media(color_scheme=theme)
    found: dict[str, list[str]] = {}
    for path in ("/", "/runs", "/workflows/hello", "/schedules", "/settings/secrets", "/settings/keys"):
        await page.goto(f"{server.entrance}#{path}")
        await page.wait_for_load_state("networkidle")
        found[path] = await findings(page)

    assert not any(found.values()), found

"""Axe in a page: what it finds against WCAG 2.2 AA, in words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from playwright.async_api import Page

from editor.build import EDITOR

AXE = EDITOR / "node_modules" / "axe-core" / "axe.min.js"

# A rule about landmarks would have every toast in one; the others stand.
_RUN = """(selector) => axe.run(selector ?? document, {
  runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
  rules: { region: { enabled: false } },
})"""

# Themes are colours and nothing else: in the second one these alone can be others.
_RUN_COLOURS = """(selector) => axe.run(selector ?? document, {
  runOnly: { type: "rule", values: ["color-contrast", "link-in-text-block"] },
})"""


def source() -> str:
    """Axe itself, to be evaluated in a page."""
    return Path(AXE).read_text("utf-8")


async def findings(page: Page, selector: str | None = None) -> list[str]:
    """What axe has against the page as it is now, or what a selector finds in it, in either theme."""
    await page.emulate_media(color_scheme="light", reduced_motion="reduce")
    found = await _findings(page, _RUN, selector)
    await page.emulate_media(color_scheme="dark", reduced_motion="reduce")
    return [*found, *(f"dark: {each}" for each in await _findings(page, _RUN_COLOURS, selector))]


async def _findings(page: Page, run: str, selector: str | None) -> list[str]:
    """With the first place of each."""
    if not await page.evaluate("'axe' in window"):
        await page.evaluate(source())
    result: dict[str, Any] = await page.evaluate(run, selector)
    return [
        f"{each['id']}: {each['help']} ({len(each['nodes'])}×, {each['nodes'][0]['target']}: "
        f"{each['nodes'][0]['failureSummary']})"
        for each in result["violations"]
    ]

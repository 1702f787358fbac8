"""Axe in a page: what it finds against WCAG 2.2 AA, in words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from playwright.async_api import Page

from editor.build import EDITOR

AXE = EDITOR / "node_modules" / "axe-core" / "axe.min.js"

# A rule about landmarks would have every toast in one; the others stand.
_RUN = """() => axe.run(document, {
  runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
  rules: { region: { enabled: false } },
})"""


def source() -> str:
    """Axe itself, to be evaluated in a page."""
    return Path(AXE).read_text("utf-8")


async def findings(page: Page) -> list[str]:
    """What axe has against the page as it is now, with the first place of each."""
    await page.evaluate(f"window.axe || {{}}; {source()}")
    result: dict[str, Any] = await page.evaluate(_RUN)
    return [
        f"{each['id']}: {each['help']} ({len(each['nodes'])}×, {each['nodes'][0]['target']}: "
        f"{each['nodes'][0]['failureSummary']})"
        for each in result["violations"]
    ]

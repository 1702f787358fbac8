"""States of the pages, in both themes: `make pictures` puts them into `docs/pictures`, a test looks at each.

Names are stable, for documents point to them. Fonts and the browser's clock are fixed; ids and times of the server are
not, so pixels decide nothing.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from playwright.async_api import Page, async_playwright, expect

from tests.browser.conftest import FLAGS, PATIENCE_MS, Server, running_server
from tests.browser.moving import take_moving
from tests.tools import browser

FOLDER = Path(__file__).parents[2] / "docs" / "pictures"
THEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
VIEWPORT = {"width": 1440, "height": 860}

# The policy of the pages is about what a document loads and contains; this style is the browser's own.
FIX_FONTS = """
document.addEventListener("DOMContentLoaded", () => {
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(':root { --sans: "DejaVu Sans", sans-serif; --mono: "DejaVu Sans Mono", monospace; }');
  document.adoptedStyleSheets = [...document.adoptedStyleSheets, sheet];
});
"""

LINES = 1_500
WITHOUT_SUPPLIER = (212, 704, 1_318)


@dataclass(frozen=True, slots=True)
class Scene:
    """What the pictures are of."""

    server: Server
    run_id: str
    waiting_id: str
    proposal_id: str
    draft_id: str


def orders() -> dict[str, Any]:
    """A workflow with a branch, a wait, a loop with a branch of its own, and a note."""
    lines = {"source": "{{ ctx.input.lines }}", "concurrency": 500, "onItemError": "collect"}
    price = "def price(line):\n    return line['count'] * line['each']\n\nreturn {'total': price(ctx['item'])}"
    nodes = [
        _node("start", "start", "New order", 0, 168),
        _node("check", "condition", "Large order?", 1, 160, branches=[_branch("large", "ctx.input.total > 1000")]),
        _node("approve", "waitForEvent", "Ask Grace", 2, 40, event="approve", timeout="2d"),
        {**_node("each", "loop", "Each line", 3, 168, **lines), "outputVariable": "lines", "joinMode": "any"},
        _node("stock", "condition", "In stock?", 4, 168, branches=[_branch("yes", "ctx.item.stock >= ctx.item.count")]),
        {
            **_node("price", "set", "Price", 5, 88, values={"total": "{{ ctx.item.count * ctx.item.each }}"}),
            "outputVariable": "price",
        },
        _node("order", "set", "Order more", 5, 256, values={"text": "{{ ctx.item.sku }} of {{ ctx.item.supplier }}"}),
        _node("refuse", "end", "Refuse", 3, -72, outputParameters={"accepted": False}),
        {**_node("code", "python", "Sum up", 6, 176, code=price), "disabled": True},
        _node("end", "end", "Accept", 7, 176, outputParameters={"lines": "{{ ctx.lines | length }}"}),
    ]
    edges = [
        _edge("start", "check"),
        _edge("check", "approve", "large"),
        _edge("check", "each", "else"),
        _edge("approve", "each"),
        _edge("approve", "refuse", "timeout"),
        _edge("each", "stock", "loop"),
        _edge("stock", "price", "yes"),
        _edge("stock", "order", "else"),
        _edge("each", "code", "done"),
        _edge("code", "end"),
    ]
    note = {
        "text": "Orders over 1,000 wait for a person.",
        "position": {"x": 312, "y": -56},
        "size": {"width": 200, "height": 72},
    }
    schema = {
        "type": "object",
        "required": ["total", "lines"],
        "properties": {"total": {"type": "number", "title": "Total"}, "lines": {"type": "array", "title": "Lines"}},
    }
    return {
        "title": "Review orders",
        "nodes": nodes,
        "edges": edges,
        "notes": [note],
        "workflowOptions": {"inputSchema": schema},
    }


def proposals() -> dict[str, Any]:
    """A workflow that is drawn with an edge back: it asks until the answer is yes."""
    nodes = [
        _node("start", "start", "New proposal", 0, 88),
        _node("ask", "waitForEvent", "Ask Grace", 1, 88, event="answer", timeout="2d"),
        _node("accepted", "condition", "Accepted?", 2, 88, branches=[_branch("yes", "ctx.answer.yes")]),
        {**_node("change", "set", "Change it", 2, 240, values={"why": "{{ ctx.answer.why }}"}), "joinMode": "any"},
        _node("sign", "end", "Sign", 4, 24),
        _node("late", "end", "Withdraw", 4, 184),
    ]
    nodes[1] |= {"outputVariable": "answer", "joinMode": "any"}
    edges = [
        _edge("start", "ask"),
        _edge("ask", "accepted"),
        _edge("ask", "late", "timeout"),
        _edge("accepted", "sign", "yes"),
        _edge("accepted", "change", "else"),
        _edge("change", "ask"),
    ]
    return {"title": "Agree on proposals", "nodes": nodes, "edges": edges}


def _node(node_id: str, type_: str, name: str, column: int, y: int, **config: Any) -> dict[str, Any]:
    return {"id": node_id, "type": type_, "name": name, "config": config, "position": {"x": column * 272, "y": y}}


def _branch(name: str, expression: str) -> dict[str, str]:
    return {"id": name, "expression": f"{{{{ {expression} }}}}"}


def _edge(source: str, target: str, handle: str = "default") -> dict[str, str]:
    return {"upstreamNodeID": source, "downstreamNodeID": target, "sourceHandle": handle}


def order(total: int, count: int) -> dict[str, Any]:
    """An order whose lines are in stock, but for every fifth; of three of these nobody knows the supplier."""
    lines = []
    for at in range(count):
        line: dict[str, Any] = {
            "sku": f"A-{at:04}",
            "count": 1 + at % 7,
            "each": 20,
            "stock": 0 if _is_short(at) else 9,
        }
        lines.append(line if at in WITHOUT_SUPPLIER else {**line, "supplier": "Lovelace & Co."})
    return {"total": total, "lines": lines}


def _is_short(at: int) -> bool:
    return at % 5 == 4 or at in WITHOUT_SUPPLIER


def prepare(server: Server) -> Scene:
    """What the pictures need: versions, runs, a draft with problems, a secret."""
    document = orders()
    for key in ("outputVariable", "joinMode"):
        document["nodes"][3] = {name: value for name, value in document["nodes"][3].items() if name != key}
    server.call(
        "POST",
        "/workflows",
        {**document, "edges": [each for each in document["edges"] if each["upstreamNodeID"] != "approve"]},
    )
    server.call("PUT", "/workflows/review-orders", orders())
    run_id = server.start("review-orders", order(900, LINES))
    waiting_id = server.start("review-orders", order(1_280, 3))
    server.start("hello", {"name": "Ada"})
    server.call("POST", "/workflows", proposals())
    proposal_id = server.start("agree-on-proposals")
    server.call("POST", f"/runs/{proposal_id}/signals/answer", {"yes": False, "why": "too dear"})
    server.call("POST", "/secrets", {"name": "SHOP_TOKEN", "value": "a secret value"})
    server.call("POST", "/secrets", {"name": "MAIL_PASSWORD", "value": "another one"})
    faulty = orders()
    faulty["title"] = "Review returns"
    faulty["nodes"][8]["disabled"] = False
    faulty["nodes"][8]["config"]["code"] = "return {'total': ctx['lines'] +}"
    faulty["edges"][2]["sourceHandle"] = "otherwise"
    draft_id = server.call("POST", "/drafts", {"document": faulty})["draftID"]
    return Scene(server, run_id, waiting_id, proposal_id, draft_id)


async def show_workflows(page: Page, scene: Scene) -> None:
    await visit(page, scene, "/")
    await expect(page.get_by_role("link", name="Review orders")).to_be_visible()


async def show_templates(page: Page, scene: Scene) -> None:
    await visit(page, scene, "/")
    await page.get_by_role("button", name="New", exact=True).click()
    await page.get_by_role("menuitem", name="From a template…").click()
    await expect(page.get_by_role("dialog").get_by_role("button", name="Poll a slow job")).to_be_visible()


async def show_editor(page: Page, scene: Scene) -> None:
    await visit(page, scene, "/workflows/review-orders")
    await expect(page.locator(".certificate")).to_contain_text("activations")
    await fit(page)


async def show_node(page: Page, scene: Scene) -> None:
    await show_editor(page, scene)
    await test_order(page)
    await page.locator('[data-loop="each"]').get_by_role("button", name="The iteration after").click()
    await page.locator('[data-node-id="order"]').dblclick()
    panel = page.get_by_role("dialog", name="Node Order more")
    field = panel.get_by_label("Values: value of text", exact=True)
    await field.click()
    await page.keyboard.press("End")
    await page.keyboard.type(", {{ ctx.item.")
    await expect(panel.get_by_role("option", name="ctx.item.sku")).to_contain_text("A-1")


async def show_code(page: Page, scene: Scene) -> None:
    await visit(page, scene, f"/drafts/{scene.draft_id}")
    await page.locator('[data-node-id="code"]').dblclick()
    await expect(page.locator(".cm-content")).to_be_visible()
    await expect(page.locator(".cm-lintRange-error, .cm-lint-marker-error").first).to_be_visible()


async def show_problems(page: Page, scene: Scene) -> None:
    await visit(page, scene, f"/drafts/{scene.draft_id}")
    await fit(page)
    await page.get_by_role("region", name="Problems").get_by_role("button", name="problem").click()
    await expect(page.locator(".problem-list li").first).to_be_visible()


async def show_palette(page: Page, scene: Scene) -> None:
    await show_editor(page, scene)
    await page.locator('[data-node-id="price"]').click()
    await page.keyboard.press("n")
    await expect(page.get_by_role("dialog").get_by_role("combobox")).to_be_focused()


async def show_test(page: Page, scene: Scene) -> None:
    await show_editor(page, scene)
    await test_order(page)
    await page.locator('[data-loop="each"]').get_by_role("button", name="The iteration after").click()


async def show_versions(page: Page, scene: Scene) -> None:
    await show_editor(page, scene)
    await page.get_by_role("button", name="More", exact=True).click()
    await page.get_by_role("menuitem", name="Versions…").click()
    await page.get_by_role("dialog").get_by_role("button", name="v1").click()
    await page.locator(".change summary").first.click()


async def show_run(page: Page, scene: Scene) -> None:
    await visit(page, scene, f"/runs/{scene.run_id}")
    await expect(page.locator(".run-status")).to_have_text("completed")
    await page.locator('[data-loop="each"]').get_by_role("button", name="Next failure").click()
    await expect(page.locator(".node-detail .why")).to_be_visible()
    await expect(page.locator(".timeline-row").first).to_be_visible()


async def show_earlier(page: Page, scene: Scene) -> None:
    await visit(page, scene, f"/runs/{scene.waiting_id}")
    await page.get_by_role("button", name="Why?").click()
    await page.get_by_label("Time", exact=True).press("Home")
    await page.get_by_label("Time", exact=True).press("ArrowRight")
    await page.get_by_label("Time", exact=True).press("ArrowRight")
    await expect(page.get_by_role("heading", name="After row 3")).to_be_visible()
    await expect(page.get_by_role("region", name="ctx")).to_be_visible()


async def show_region(page: Page, scene: Scene) -> None:
    await visit(page, scene, f"/runs/{scene.proposal_id}")
    await expect(page.locator('[data-loop="ask"]')).to_contain_text("2")
    await expect(page.locator(".timeline-row").first).to_be_visible()


async def show_runs(page: Page, scene: Scene) -> None:
    await visit(page, scene, "/runs")
    await page.get_by_role("checkbox", name=f"Select run {scene.waiting_id}").check()
    await page.get_by_role("button", name="Cancel 1…").click()
    await expect(page.get_by_role("dialog")).to_be_visible()


async def show_settings(page: Page, scene: Scene) -> None:
    await visit(page, scene, "/settings/secrets")
    await expect(page.get_by_text("SHOP_TOKEN")).to_be_visible()


STATES: dict[str, Callable[[Page, Scene], Awaitable[None]]] = {
    "workflows": show_workflows,
    "templates": show_templates,
    "editor": show_editor,
    "code": show_code,
    "problems": show_problems,
    "palette": show_palette,
    "test": show_test,
    "versions": show_versions,
    "run": show_run,
    "earlier": show_earlier,
    "region": show_region,
    "runs": show_runs,
    "settings": show_settings,
    "node": show_node,
}
"""The states by the names of their pictures; the last one leaves an edit in its draft."""


async def visit(page: Page, scene: Scene, path: str) -> None:
    """Load a page anew: nothing of the state before is left."""
    await page.goto("about:blank")
    await page.goto(f"{scene.server.entrance}#{path}")


async def fit(page: Page) -> None:
    """Show the whole graph."""
    await page.get_by_role("button", name="Show everything").click()


async def test_order(page: Page) -> None:
    """Run a small order as a test, to its end."""
    await page.get_by_role("button", name="Test", exact=True).click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_role("button", name="JSON").click()
    lines = [{"sku": "A-1", "count": 2, "each": 20, "stock": 9}]
    lines.append({"sku": "A-2", "count": 3, "each": 7, "stock": 0, "supplier": "Hopper Ltd."})
    await dialog.get_by_label("Input, as JSON").fill(json.dumps({"total": 61, "lines": lines}))
    await page.get_by_role("button", name="Run the test").click()
    await expect(page.get_by_role("region", name="Test run").locator(".status")).to_have_text("completed")


async def take_all(folder: Path) -> None:
    """Write all pictures into a folder."""
    expect.set_options(timeout=PATIENCE_MS)
    with tempfile.TemporaryDirectory() as directory, running_server(Path(directory) / "dev") as server:
        scene = prepare(server)
        async with async_playwright() as playwright:
            chromium = await playwright.chromium.launch(executable_path=browser(), args=FLAGS)
            context = await chromium.new_context(viewport=VIEWPORT, reduced_motion="reduce", timezone_id="UTC")  # type: ignore[arg-type]
            await context.add_init_script(FIX_FONTS)
            page = await context.new_page()
            for name, show in STATES.items():
                await page.emulate_media(color_scheme=THEMES[0])
                await show(page, scene)
                for theme in THEMES:
                    await page.emulate_media(color_scheme=theme)
                    await page.screenshot(path=folder / f"{name}-{theme}.png", animations="disabled")
                sys.stdout.write(f"{name}\n")
            await take_moving(chromium, folder, THEMES, FIX_FONTS)
            await chromium.close()


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    asyncio.run(take_all(FOLDER))

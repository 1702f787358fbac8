"""Drawing a workflow: with the mouse, and the same by keyboard alone."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.async_api import Locator, Page, expect

from tests.browser.conftest import IN_THE_BROWSER, PATIENCE_MS, Complaints, Server

pytestmark = [IN_THE_BROWSER, pytest.mark.timeout(240)]

expect.set_options(timeout=PATIENCE_MS)

INPUT = '{"total": 120, "items": [{"price": 2}, {"price": 3}]}'


@pytest.fixture(autouse=True)
def missing_drafts_are_no_fault(complaints: Complaints) -> None:
    """A browser writes into its console that a workflow has no draft yet: the answer is 404."""
    complaints.allowed.append("404")


def node(page: Page, node_id: str) -> Locator:
    """A node on the canvas."""
    return page.locator(f'[data-node-id="{node_id}"]')


def handle(page: Page, node_id: str, name: str) -> Locator:
    """An exit of a node."""
    return node(page, node_id).locator(f'.react-flow__handle[data-handleid="{name}"]')


async def draw_line(page: Page, source: Locator, x: float, y: float) -> None:
    """Drag from a handle to a place of the screen."""
    box = await source.bounding_box()
    assert box is not None
    await page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    await page.mouse.down()
    await page.mouse.move(x - 30, y - 5, steps=4)
    await page.mouse.move(x, y, steps=4)
    await page.mouse.up()


async def connect(page: Page, source: Locator, target: Locator) -> None:
    """Drag from a handle to the entry of a node."""
    box = await target.locator(".react-flow__handle-left").bounding_box()
    assert box is not None
    await draw_line(page, source, box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)


async def choose(page: Page, name: str) -> None:
    """Take an entry of the palette that is open."""
    await page.get_by_role("dialog").get_by_role("combobox").fill(name)
    await page.keyboard.press("Enter")


async def saved(page: Page) -> None:
    """The draft is on the server."""
    await expect(page.locator(".save-state")).to_have_attribute("data-state", "saved")


def the_only_draft(server: Server, title: str) -> dict[str, Any]:
    """The document of the draft with this title."""
    [found] = [each for each in server.call("GET", "/drafts")["items"] if each["title"] == title]
    document: dict[str, Any] = server.call("GET", f"/drafts/{found['draftID']}")["document"]
    return document


def wires_of(document: dict[str, Any]) -> set[tuple[str, str, str]]:
    """The edges as (from, handle, to)."""
    return {
        (edge["upstreamNodeID"], edge.get("sourceHandle") or "default", edge["downstreamNodeID"])
        for edge in document["edges"]
    }


async def new_workflow(page: Page, server: Server, title: str) -> None:
    """A blank draft with a title."""
    await page.goto(server.entrance)
    await page.get_by_role("button", name="New", exact=True).click()
    await page.get_by_role("menuitem", name="Blank workflow").click()
    await page.get_by_role("textbox", name="Title of the workflow").fill(title)
    await expect(node(page, "start")).to_be_visible()


async def test_draws_branch_join_loop(page: Page, server: Server) -> None:
    await new_workflow(page, server, "Drawn by mouse")

    # A branch: click in the list, behind the selected node.
    await node(page, "start").click()
    await page.get_by_role("button", name="Condition", exact=True).click()
    await expect(node(page, "condition")).to_be_visible()
    await node(page, "condition").dblclick()
    panel = page.get_by_role("dialog", name="Node condition")
    await panel.get_by_role("button", name="Add a branch").click()
    await panel.get_by_label("Taken when, for yes").fill("{{ ctx.input.total > 100 }}")
    await panel.get_by_role("button", name="Close the node").click()

    # Both sides: a line drawn into the void offers what fits.
    await page.get_by_role("button", name="Show everything").click()
    box = await node(page, "condition").bounding_box()
    assert box is not None
    await draw_line(page, handle(page, "condition", "yes"), box["x"] + box["width"] + 90, box["y"] - 120)
    await choose(page, "Set values")
    await expect(node(page, "set")).to_be_visible()
    await draw_line(page, handle(page, "condition", "else"), box["x"] + box["width"] + 90, box["y"] + 190)
    await choose(page, "Set values")
    await expect(node(page, "set2")).to_be_visible()

    # A join, which is a loop.
    await page.get_by_role("button", name="Show everything").click()
    await node(page, "set").click()
    await page.get_by_role("button", name="Loop", exact=True).click()
    await expect(node(page, "loop")).to_be_visible()
    await page.get_by_role("button", name="Show everything").click()
    await connect(page, handle(page, "set2", "default"), node(page, "loop"))
    await expect(node(page, "loop").locator(".join-mode")).to_have_text("all")
    await node(page, "loop").dblclick()
    panel = page.get_by_role("dialog", name="Node loop")
    await panel.get_by_label("Source").fill("{{ ctx.input.items }}")
    await panel.get_by_label("Output variable").fill("doubled")
    await page.keyboard.press("Escape")

    # Its body, and what comes behind.
    await node(page, "loop").click()
    await page.get_by_role("button", name="Set values", exact=True).click()
    await expect(node(page, "set3")).to_be_visible()
    await node(page, "set3").dblclick()
    panel = page.get_by_role("dialog", name="Node set3")
    await panel.get_by_role("button", name="Add", exact=True).click()
    await panel.get_by_label("Values: value of name", exact=True).fill("{{ ctx.item.price * 2 }}")
    await page.keyboard.press("Escape")
    await node(page, "loop").click()
    await page.get_by_role("button", name="End", exact=True).click()
    await expect(node(page, "end")).to_be_visible()
    await node(page, "end").dblclick()
    panel = page.get_by_role("dialog", name="Node end")
    await panel.get_by_role("button", name="Add", exact=True).click()
    await panel.get_by_label("Output parameters: value of name", exact=True).fill("{{ ctx.doubled }}")
    await page.keyboard.press("Escape")

    await page.get_by_role("button", name="More", exact=True).click()
    await page.get_by_role("menuitem", name="Tidy up").click()
    await expect(page.locator(".certificate")).to_contain_text("always ends")
    await saved(page)
    assert wires_of(the_only_draft(server, "Drawn by mouse")) == {
        ("start", "default", "condition"),
        ("condition", "yes", "set"),
        ("condition", "else", "set2"),
        ("set", "default", "loop"),
        ("set2", "default", "loop"),
        ("loop", "loop", "set3"),
        ("loop", "done", "end"),
    }

    await see_it_run(page)
    await publish_and_start(page)


async def see_it_run(page: Page) -> None:
    """Run the drawing as it is, and see where it went."""
    await page.get_by_role("button", name="Test", exact=True).click()
    await page.get_by_label("Input, as JSON").fill(INPUT)
    await page.get_by_role("button", name="Run the test").click()
    bar = page.get_by_role("region", name="Test run")
    await expect(bar.locator(".status")).to_have_text("completed")
    await expect(node(page, "set")).to_have_attribute("data-status", "success")
    await expect(node(page, "set2")).to_have_attribute("data-status", "skipped")
    await expect(node(page, "set3").locator(".run-mark")).to_contain_text("× 2")


async def publish_and_start(page: Page) -> None:
    """Make a version of it, and a run of that."""
    await page.get_by_role("button", name="Publish").click()
    await expect(page.locator(".toasts")).to_contain_text("Published as version 1")
    await page.locator(".toasts").get_by_role("button", name="Start it").click()
    await page.get_by_role("dialog").get_by_label("Input, as JSON").fill(INPUT)
    await page.get_by_role("button", name="Start the run").click()
    await expect(page.locator(".run-status")).to_have_text("completed")
    await expect(page.locator(".run-result .value")).to_contain_text("2 items")


async def test_the_same_by_keyboard(page: Page, server: Server) -> None:
    await page.goto(server.entrance)
    await page.get_by_role("button", name="New", exact=True).focus()
    await page.keyboard.press("Enter")
    await page.keyboard.press("Enter")  # the first entry: a blank workflow
    title = page.get_by_role("textbox", name="Title of the workflow")
    await title.focus()
    await page.keyboard.type("Drawn by keyboard")
    await node(page, "start").focus()

    await page.keyboard.press("n")
    await choose(page, "Condition")
    await expect(node(page, "condition")).to_be_focused()
    await page.keyboard.press("Enter")
    panel = page.get_by_role("dialog", name="Node condition")
    await panel.get_by_role("button", name="Add a branch").focus()
    await page.keyboard.press("Enter")
    await panel.get_by_label("Taken when, for yes").focus()
    await page.keyboard.press("Control+a")
    await page.keyboard.type("{{ ctx.input.total > 100 }}")
    await page.keyboard.press("Escape")
    await expect(node(page, "condition")).to_be_focused()

    await page.keyboard.press("n")
    await choose(page, "Set values")
    await expect(node(page, "set")).to_be_focused()
    await page.keyboard.press("ArrowLeft")
    await expect(node(page, "condition")).to_be_focused()
    await page.keyboard.press("n")
    await choose(page, "Set values")
    await expect(node(page, "set2")).to_be_focused()
    await page.keyboard.press("n")
    await choose(page, "Loop")
    await expect(node(page, "loop")).to_be_focused()
    await page.keyboard.press("Enter")
    panel = page.get_by_role("dialog", name="Node loop")
    await panel.get_by_label("Source").focus()
    await page.keyboard.type("{{ ctx.input.items }}")
    await page.keyboard.press("Escape")
    await expect(node(page, "loop")).to_be_focused()

    await page.keyboard.press("n")
    await choose(page, "Set values")
    await expect(node(page, "set3")).to_be_focused()
    await page.keyboard.press("ArrowLeft")
    await expect(node(page, "loop")).to_be_focused()
    await page.keyboard.press("n")
    await choose(page, "End")
    await expect(node(page, "end")).to_be_focused()

    # The other side of the branch joins: walk to it, and connect it from there.
    await page.keyboard.press("ArrowLeft")
    await page.keyboard.press("ArrowLeft")
    await expect(node(page, "set2")).to_be_focused()
    await page.keyboard.press("ArrowLeft")
    await expect(node(page, "condition")).to_be_focused()
    await page.keyboard.press("ArrowRight")
    await expect(node(page, "set")).to_be_focused()
    await page.keyboard.press("c")
    await choose(page, "default")
    await choose(page, "loop")
    await expect(node(page, "set")).to_be_focused()

    await page.keyboard.press("Shift+Alt+T")
    await expect(page.get_by_role("button", name="Undo: Tidy up")).to_be_visible()
    await page.keyboard.press("Control+s")
    await expect(page.locator(".toasts")).to_contain_text("Saved.")
    await saved(page)
    assert wires_of(the_only_draft(server, "Drawn by keyboard")) == {
        ("start", "default", "condition"),
        ("condition", "yes", "set"),
        ("condition", "else", "set2"),
        ("set", "default", "loop"),
        ("set2", "default", "loop"),
        ("loop", "loop", "set3"),
        ("loop", "done", "end"),
    }

    await page.keyboard.press("Control+Enter")
    await page.get_by_label("Input, as JSON").fill(INPUT)
    await page.keyboard.press("Control+Enter")
    await expect(page.get_by_role("region", name="Test run").locator(".status")).to_have_text("completed")

    # Everything can be taken back, and done again.
    await node(page, "end").focus()
    before = the_only_draft(server, "Drawn by keyboard")
    await page.keyboard.press("Delete")
    await expect(node(page, "end")).to_have_count(0)
    await page.keyboard.press("Control+z")
    await expect(node(page, "end")).to_be_visible()
    await saved(page)
    assert the_only_draft(server, "Drawn by keyboard") == before

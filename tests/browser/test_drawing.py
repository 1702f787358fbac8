"""Drawing a workflow: with the mouse, and the same by keyboard alone."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

import pytest
from playwright.async_api import Locator, Page, expect

from tests.browser.conftest import IN_THE_BROWSER, PATIENCE_MS, Server

pytestmark = [IN_THE_BROWSER, pytest.mark.timeout(240)]

expect.set_options(timeout=PATIENCE_MS)

INPUT = '{"total": 120, "items": [{"price": 2}, {"price": 3}]}'


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

    # Why one of its nodes did not run.
    await expect(node(page, "set2")).to_have_attribute("data-status", "skipped")
    await node(page, "set2").click()
    why = page.locator(".node-detail .notice")
    await expect(why).to_contain_text("'condition' left by 'yes'")
    await expect(why.locator(".why")).to_contain_text("{{ ctx.input.total > 100 }} was true")


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


def order(charge: str) -> dict[str, Any]:
    """Nodes in a row: a price, what is to pay for it, a receipt."""
    nodes = [
        ("price", {"total": "{{ ctx.input.count * 4503599627370497 }}"}),
        ("charge", {"paid": charge}),
        ("receipt", {"text": "paid {{ ctx.charge.paid }}"}),
    ]
    made = [
        {
            "id": name,
            "type": "set",
            "config": {"values": values},
            "outputVariable": name,
            "position": {"x": 320 * at, "y": 0},
        }
        for at, (name, values) in enumerate(nodes, 1)
    ]
    chain = [{"id": "start", "type": "start", "position": {"x": 0, "y": 0}}, *made]
    edges = [{"upstreamNodeID": one["id"], "downstreamNodeID": other["id"]} for one, other in pairwise(chain)]
    return {"nodes": chain, "edges": edges}


async def run_test(page: Page, value: str | None = None) -> None:
    """Run the drawing as it is, from the dialog that is open."""
    if value is not None:
        await page.get_by_label("Input, as JSON").fill(value)
    await page.get_by_role("button", name="Run the test").click()
    await expect(page.get_by_role("dialog", name="Test the workflow")).to_have_count(0)


async def test_repairs_failing_node(page: Page, server: Server) -> None:
    server.call("POST", "/workflows", {"title": "To repair", **order("{{ ctx.price.totl }}")})
    await page.goto(f"{server.entrance}#/workflows/to-repair")
    await page.get_by_role("button", name="Test", exact=True).click()
    await run_test(page, '{"count": 2}')
    bar = page.get_by_role("region", name="Test run")
    await expect(bar.locator(".status")).to_have_text("failed")
    await bar.get_by_role("button", name="Next failure").click()
    await expect(node(page, "charge")).to_be_focused()

    # The panel has what the node was given and what went wrong; the field shows what the repaired expression comes to.
    await page.keyboard.press("Enter")
    panel = page.get_by_role("dialog", name="Node charge")
    await expect(panel.locator(".panel-output .notice.error")).to_contain_text("totl")
    await expect(panel.get_by_role("region", name="ctx.price", exact=True)).to_contain_text("9007199254740994")
    field = panel.get_by_label("Values: value of paid", exact=True)
    missing = panel.locator(".template .field-problem")
    await expect(missing).to_have_text("{{ ctx.price.totl }}: ctx.price.totl is missing")
    await expect(missing.locator("code")).to_have_text(["{{ ctx.price.totl }}", "ctx.price.totl"])
    await field.fill("{{ ctx.price.total }}")
    await expect(panel.locator(".template-preview").first).to_contain_text("9007199254740994")
    await panel.get_by_role("button", name="Run this node").click()
    await run_test(page)
    await expect(bar.locator(".status")).to_have_text("completed")
    await expect(panel.locator(".panel-output .value")).to_contain_text("9007199254740994")
    await page.keyboard.press("Escape")

    await page.get_by_role("button", name="Publish").click()
    await expect(page.locator(".toasts")).to_contain_text("Published as version 2")
    run = server.call("POST", "/workflows/to-repair/runs?wait=30s", {"input": {"count": 2}})
    assert run["status"] == "COMPLETED"


async def test_pins_and_runs_from_here(page: Page, server: Server) -> None:
    server.call("POST", "/workflows", {"title": "Pinned", **order("{{ ctx.price.total }}")})
    await page.goto(f"{server.entrance}#/workflows/pinned")
    await page.get_by_role("button", name="Test", exact=True).click()
    await run_test(page, '{"count": 2}')
    bar = page.get_by_role("region", name="Test run")
    await expect(bar.locator(".status")).to_have_text("completed")

    # An output is pinned by a key, exactly, and changed by hand: the node is not executed any more.
    await node(page, "charge").click()
    await page.keyboard.press("p")
    await expect(node(page, "charge").locator(".mark.pin")).to_have_text("pinned")
    await node(page, "charge").dblclick()
    panel = page.get_by_role("dialog", name="Node charge")
    pin = panel.get_by_label("Pinned output, as JSON")
    await expect(pin).to_have_value(re.compile("9007199254740994"))
    await pin.fill('{"paid": 9007199254740993}')
    await page.keyboard.press("Escape")

    # From here on: what is before it gives what it gave, the node itself and all behind it run.
    first = await bar.get_by_role("link", name="Open the run").get_attribute("href")
    await node(page, "receipt").click(button="right")
    await page.get_by_role("menuitem", name="Run again from here").click()
    await run_test(page)
    await expect(bar.get_by_role("link", name="Open the run")).not_to_have_attribute("href", str(first))
    await expect(bar.locator(".status")).to_have_text("completed")
    await expect(node(page, "receipt")).to_have_attribute("data-status", "success")
    second = str(await bar.get_by_role("link", name="Open the run").get_attribute("href")).rsplit("/", 1)[1]
    steps = {each["nodeID"]: each for each in server.call("GET", f"/runs/{second}/steps")["items"]}
    assert {name: step.get("pinned") for name, step in steps.items()} == {
        "start": None,
        "price": True,
        "charge": True,
        "receipt": None,
    }
    assert steps["receipt"]["output"] == {"text": "paid 9007199254740993"}

    # To here: nothing behind it runs. A version and its runs know of no pin.
    await node(page, "charge").click()
    await page.keyboard.press("Control+Shift+Enter")
    await run_test(page)
    await expect(node(page, "receipt")).not_to_have_attribute("data-status", "success")
    await expect(bar.locator(".status")).to_have_text("completed")
    run = server.call("POST", "/workflows/pinned/runs?wait=30s", {"input": {"count": 2}})
    steps = {each["nodeID"]: each for each in server.call("GET", f"/runs/{run['instanceID']}/steps")["items"]}
    assert steps["receipt"]["output"] == {"text": "paid 9007199254740994"}

"""Editing beside the journeys: the clipboard, renames, expressions, code, problems, versions, values.

One workflow goes through all of it, so that one page is opened for many small promises.
"""

from __future__ import annotations

import asyncio
import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Download, Locator, Page, expect

from tests.browser.conftest import IN_THE_BROWSER, PATIENCE_MS, Server, running_server
from tests.browser.test_drafts import save
from tests.browser.test_drawing import choose, node, run_test, the_only_draft, wires_of

pytestmark = IN_THE_BROWSER

expect.set_options(timeout=PATIENCE_MS)


def workflow(
    title: str, nodes: list[dict[str, Any]], edges: list[tuple[str, str, str]] | None = None
) -> dict[str, Any]:
    """A document whose nodes stand in a row, and follow each other unless edges are given."""
    positioned = [
        {**each, "position": {"x": 280 * at, "y": 80}}
        for at, each in enumerate([{"id": "start", "type": "start"}, *nodes])
    ]
    wires = edges or [(one["id"], "default", other["id"]) for one, other in pairwise(positioned)]
    listed = [
        {"upstreamNodeID": one, "sourceHandle": handle, "downstreamNodeID": other} for one, handle, other in wires
    ]
    return {"title": title, "nodes": positioned, "edges": listed}


async def open_draft(page: Page, server: Server, document: dict[str, Any]) -> str:
    """A draft of a new workflow on the canvas; its id."""
    draft_id = str(server.call("POST", "/drafts", {"document": document})["draftID"])
    await page.goto(f"{server.entrance}#/drafts/{draft_id}")
    await expect(node(page, "start")).to_be_visible()
    return draft_id


async def open_panel(page: Page, node_id: str) -> Locator:
    """The panel of a node, opened by a double click; it lies over the canvas, which keeps its size."""
    before = await page.locator(".canvas").bounding_box()
    await node(page, node_id).dblclick()
    panel = page.locator(".node-panel")
    await expect(panel).to_be_visible()
    assert await page.locator(".canvas").bounding_box() == before
    return panel


async def text_of(download: Download) -> str:
    """The content of a file that the page handed out."""
    return await asyncio.to_thread((await download.path()).read_text)


SOURCE = {"id": "source", "type": "set", "config": {"values": {"total": 3}}, "outputVariable": "order"}
READER = {
    "id": "reader",
    "type": "set",
    "config": {"values": {"text": "{{ ctx.order.total }} of ctx.order", "by_id": "{{ ctx.__node_source.total }}"}},
    "outputVariable": "receipt",
}


async def test_renames_change_exactly_what_refers_to_the_name(page: Page, server: Server) -> None:
    await open_draft(page, server, workflow("Renamed names", [SOURCE, READER]))
    panel = await open_panel(page, "source")
    await panel.get_by_text("Rename the variable order everywhere (1 use)").click()
    await panel.get_by_label("New name of the variable order").fill("purchase")
    await panel.get_by_role("button", name="Rename", exact=True).click()
    await expect(page.get_by_role("button", name="Undo: Rename order to purchase")).to_be_visible()
    await panel.get_by_text(re.compile("Rename the id source everywhere")).click()
    await panel.get_by_label("New name of the id source").fill("fetched")
    await panel.get_by_role("button", name="Rename", exact=True).last.click()
    await page.keyboard.press("Escape")
    await expect(node(page, "fetched")).to_be_visible()
    await save(page)
    document = the_only_draft(server, "Renamed names")
    assert wires_of(document) == {("start", "default", "fetched"), ("fetched", "default", "reader")}
    assert document["nodes"][1]["outputVariable"] == "purchase"
    assert document["nodes"][2]["config"]["values"] == {
        "text": "{{ ctx.purchase.total }} of ctx.order",
        "by_id": "{{ ctx.__node_fetched.total }}",
    }


async def test_exits_that_settings_name_take_their_edges_along(page: Page, server: Server) -> None:
    cases = {
        "value": "{{ ctx.input.kind }}",
        "cases": [{"id": "small", "values": ["s"]}, {"id": "large", "values": ["l"]}],
    }
    nodes = [{"id": "by", "type": "switch", "config": cases}, SOURCE, READER]
    wires = [("start", "default", "by"), ("by", "small", "source"), ("by", "large", "reader")]
    await open_draft(page, server, workflow("Renamed exits", nodes, wires))
    panel = await open_panel(page, "by")
    name = panel.locator('[data-pointer="/cases/0/id"] input')
    await name.fill("tiny")
    await name.press("Enter")
    await page.keyboard.press("Escape")
    await save(page)
    document = the_only_draft(server, "Renamed exits")
    assert document["nodes"][1]["config"]["cases"][0] == {"id": "tiny", "values": ["s"]}
    assert wires_of(document) == {("start", "default", "by"), ("by", "tiny", "source"), ("by", "large", "reader")}


async def drop(page: Page, name: str, text: str) -> None:
    """Drop a file on the canvas, as a hand with a mouse does."""
    made = "([name, text]) => { const all = new DataTransfer(); all.items.add(new File([text], name)); return all; }"
    dropped = await page.evaluate_handle(made, [name, text])
    await page.dispatch_event(".canvas", "drop", {"dataTransfer": dropped})


async def test_an_export_of_n8n_that_is_dropped_on_the_canvas_becomes_a_draft(page: Page, server: Server) -> None:
    await open_draft(page, server, workflow("Dropped on", [SOURCE, READER]))
    await drop(page, "notes.txt", "not an export")
    await expect(page.locator(".toasts")).to_contain_text("notes.txt is not an export of n8n")

    nodes = [
        {
            "name": "Begin",
            "type": "n8n-nodes-base.manualTrigger",
            "typeVersion": 1,
            "position": [0, 0],
            "parameters": {},
        },
        {"name": "Rest", "type": "n8n-nodes-base.noOp", "typeVersion": 1, "position": [200, 0], "parameters": {}},
        {"name": "Tell", "type": "n8n-nodes-base.telegram", "typeVersion": 1, "position": [400, 0], "parameters": {}},
    ]
    following = {"Begin": "Rest", "Rest": "Tell"}
    connections = {name: {"main": [[{"node": to, "type": "main", "index": 0}]]} for name, to in following.items()}
    await drop(page, "n8n.json", json.dumps({"name": "From n8n", "nodes": nodes, "connections": connections}))
    report = page.get_by_role("dialog", name="From n8n is imported as a draft")
    await expect(report).to_contain_text("Tell")
    await report.get_by_role("button", name="Open the draft").click()
    await expect(page.locator(".react-flow__node")).to_have_count(len(nodes))
    types = [each["type"] for each in the_only_draft(server, "From n8n")["nodes"]]
    assert types.count("placeholder") == 1, "what was not imported is not called imported"


async def test_clipboard_boxes_edges_and_notes(page: Page, server: Server) -> None:
    await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    await open_draft(page, server, workflow("Clipboard", [SOURCE, READER]))

    # On an edge: the plus in its middle.
    edge = await page.locator(".react-flow__edge-path").first.bounding_box()
    assert edge is not None
    await page.mouse.click(edge["x"] + edge["width"] / 2, edge["y"] + edge["height"] / 2)
    await page.get_by_role("button", name="Insert a node on this edge").click()
    await choose(page, "Delay")
    await expect(node(page, "delay")).to_be_visible()

    # A box around everything, its copy, and the copy again in an empty workflow.
    pane = await page.locator(".react-flow__pane").bounding_box()
    assert pane is not None
    await page.get_by_role("button", name="Show everything").click()
    await page.keyboard.down("Shift")
    await page.mouse.move(pane["x"] + 4, pane["y"] + 4)
    await page.mouse.down()
    await page.mouse.move(pane["x"] + pane["width"] - 4, pane["y"] + pane["height"] - 4, steps=6)
    await page.mouse.up()
    await page.keyboard.up("Shift")
    await expect(page.locator(".react-flow__node.selected")).to_have_count(4)
    await node(page, "delay").focus()
    await page.keyboard.press("Control+a")
    await page.keyboard.press("Control+c")
    copied = json.loads(await page.evaluate("navigator.clipboard.readText()"))
    assert [each["id"] for each in copied["nodes"]] == ["start", "source", "reader", "delay"]

    # A node that is put between two others and taken out again "with its way": the others stay connected.
    await page.keyboard.press("Escape")
    await node(page, "delay").click(button="right")
    await page.get_by_role("menuitem", name="Delete, keep the way").click()
    await node(page, "source").focus()
    await page.keyboard.press("Control+d")
    await expect(node(page, "source2")).to_be_visible()
    await page.keyboard.press("Shift+s")
    await expect(page.locator("[data-note]")).to_have_count(1)
    await save(page)
    document = the_only_draft(server, "Clipboard")
    assert {("start", "default", "source"), ("source", "default", "reader")} <= wires_of(document)

    await page.goto(f"{server.url}/#/")
    await page.get_by_role("button", name="New", exact=True).click()
    await page.get_by_role("menuitem", name="Blank workflow").click()
    await node(page, "start").click()
    await page.keyboard.press("Delete")
    await expect(page.locator("[data-node-id]")).to_have_count(0)
    await page.locator(".canvas").focus()
    await page.keyboard.press("Control+v")
    await expect(node(page, "delay")).to_be_visible()
    await expect(page.locator("[data-node-id]")).to_have_count(4)


async def test_expressions_are_completed_with_what_is_there(page: Page, server: Server) -> None:
    branch = {
        "id": "ask",
        "type": "condition",
        "config": {"branches": [{"id": "yes", "expression": "{{ ctx.input.ok }}"}]},
    }
    maybe = {**SOURCE, "id": "extra", "outputVariable": "extra"}
    code = {"id": "code", "type": "python", "config": {"code": "first = 1\nreturn ctx['order']['total'] +"}}
    nodes = [SOURCE, branch, maybe, READER, code]
    wires = [
        ("start", "default", "source"),
        ("source", "default", "ask"),
        ("ask", "yes", "extra"),
        ("ask", "else", "reader"),
        ("extra", "default", "reader"),
        ("reader", "default", "code"),
    ]
    await open_draft(page, server, workflow("Completed", nodes, wires))
    panel = await open_panel(page, "reader")
    field = panel.get_by_label("Values: value of text", exact=True)
    await field.fill("{{ ctx.")
    options = panel.get_by_role("option")
    await expect(options.filter(has_text="ctx.order")).not_to_contain_text("maybe")
    await expect(options.filter(has_text="ctx.extra")).to_contain_text("maybe")
    await field.press_sequentially("ord")
    await field.press("Enter")
    await expect(field).to_have_value("{{ ctx.order")
    # Filters are those of the server.
    await field.press_sequentially(" | spl")
    await expect(options.filter(has_text="| split")).to_be_visible()
    await field.press("Enter")
    await expect(field).to_have_value("{{ ctx.order | split")
    await page.keyboard.press("Escape")

    # Code: what the compiler says stands at its line, and `ctx` is completed.
    panel = await open_panel(page, "code")
    await expect(panel.locator(".cm-lint-marker-error")).to_be_visible()
    marker = await panel.locator(".cm-lint-marker-error").bounding_box()
    second = await panel.locator(".cm-line").nth(1).bounding_box()
    assert marker is not None and second is not None
    assert second["y"] <= marker["y"] + marker["height"] / 2 <= second["y"] + second["height"]
    await panel.locator(".cm-line").nth(1).click()
    await page.keyboard.press("End")
    await page.keyboard.type(" ctx.")
    await expect(panel.locator(".cm-tooltip-autocomplete")).to_contain_text("order")
    await page.keyboard.press("Escape")


async def test_problems_have_fixes_and_the_certificate_leads_to_waits(page: Page, server: Server) -> None:
    branch = {
        "id": "ask",
        "type": "condition",
        "config": {"branches": [{"id": "yes", "expression": "{{ ctx.input.ok }}"}]},
    }
    waiting = {"id": "approval", "type": "waitForEvent", "config": {"event": "approve"}}
    alone = {"id": "alone", "type": "set", "config": {"values": {}}}
    wires = [("start", "default", "ask"), ("ask", "elze", "approval")]
    await open_draft(page, server, workflow("Problematic", [branch, waiting, alone], wires))
    problems = page.get_by_role("region", name="Problems")
    await problems.get_by_role("button", name=re.compile("problem")).click()
    await expect(problems.locator("li").filter(has_text="elze")).to_be_visible()
    await problems.get_by_role("button", name="Use 'else'").click()
    await expect(page.locator(".certificate")).to_contain_text("may wait for ever at")
    await page.locator(".certificate").get_by_role("button", name="approval").click()
    await expect(node(page, "approval")).to_be_focused()
    await expect(node(page, "alone")).to_have_accessible_name(re.compile("never reached|unreachable"))
    await save(page)
    assert ("ask", "else", "approval") in wires_of(the_only_draft(server, "Problematic"))


async def test_versions_are_compared_restored_and_exported(page: Page, server: Server, tmp_path: Path) -> None:
    first = workflow("Compared", [SOURCE, READER])
    name = server.call("POST", "/workflows", first)["name"]
    changed = {**SOURCE, "config": {"values": {"total": 9007199254740993}}}
    added = {"id": "added", "type": "set", "config": {"values": {}}}
    server.call("PUT", f"/workflows/{name}", workflow("Compared", [changed, added]))
    await page.goto(f"{server.entrance}#/workflows/{name}")
    await page.get_by_role("button", name="More", exact=True).click()
    await page.get_by_role("menuitem", name="Versions…").click()
    dialog = page.get_by_role("dialog", name="Versions")
    await dialog.get_by_role("button", name=re.compile("^v1")).click()

    # In a picture, each change in its place; in a list, field by field.
    picture = dialog.get_by_role("img", name="Nodes: 1 added, 1 removed, 1 changed, 0 moved")
    for node_id, change in (("source", "changed"), ("reader", "removed"), ("added", "added"), ("start", "same")):
        await expect(picture.locator(f'[data-diff-node="{node_id}"]')).to_have_attribute("data-diff", change)
    await dialog.locator('[data-change="changed"]', has_text="source").locator("summary").click()
    await expect(dialog.locator("ins", has_text="9007199254740993")).to_be_visible()
    await page.screenshot(path=tmp_path / "versions.png")
    await dialog.get_by_role("button", name="Put version 1 on the canvas").click()
    await expect(node(page, "reader")).to_be_visible()

    await page.get_by_role("button", name="More", exact=True).click()
    async with page.expect_download() as download:
        await page.get_by_role("menuitem", name="Export as a file").click()
    exported = json.loads(await text_of(await download.value))
    assert [each["id"] for each in exported["nodes"]] == ["start", "source", "reader"]


async def test_values_are_searched_copied_dragged_and_downloaded(page: Page, server: Server) -> None:
    await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    rows = [{"sku": "a-1", "count": 9007199254740993}, {"sku": "b-2", "count": 2}]
    listed = {"id": "listed", "type": "set", "config": {"values": {"rows": rows}}, "outputVariable": "listed"}
    await open_draft(page, server, workflow("Looked at", [listed, READER | {"config": {"values": {"text": ""}}}]))
    await page.get_by_role("button", name="Test", exact=True).click()
    await run_test(page, '{"remembered": 1}')
    await expect(page.get_by_role("region", name="Test run").locator(".status")).to_have_text("completed")
    panel = await open_panel(page, "reader")
    shown = panel.get_by_role("region", name="ctx.listed", exact=True)
    await shown.get_by_role("button", name="Open 0", exact=True).click()
    await shown.get_by_role("button", name="count", exact=True).click()
    assert await page.evaluate("navigator.clipboard.readText()") == "{{ ctx.listed.rows[0].count }}"
    await shown.get_by_role("button", name="sku", exact=True).drag_to(
        panel.get_by_label("Values: value of text", exact=True)
    )
    await expect(panel.get_by_label("Values: value of text", exact=True)).to_have_value("{{ ctx.listed.rows[0].sku }}")
    await expect(panel.locator(".template-preview").first).to_contain_text("a-1")

    await panel.get_by_role("button", name="Search in ctx.listed").click()
    await panel.get_by_role("searchbox", name="Search in ctx.listed").fill("b-2")
    await expect(shown.get_by_role("button", name="ctx.listed.rows[1].sku")).to_be_visible()
    async with page.expect_download() as download:
        await panel.get_by_role("button", name="Download ctx.listed").click()
    assert "9007199254740993" in await text_of(await download.value)
    await page.keyboard.press("Escape")

    # As a list of nodes, with the same commands; the last input is remembered.
    await page.get_by_role("button", name="Show as a list").click()
    grid = page.get_by_role("treegrid", name="Nodes of the workflow")
    await expect(grid.get_by_role("row")).to_have_count(4)
    await grid.get_by_role("row").nth(2).click()
    await page.keyboard.press("d")
    await expect(page.get_by_role("button", name=re.compile("^Undo: Disable"))).to_be_visible()
    await page.get_by_role("button", name="Test", exact=True).click()
    await expect(page.get_by_label("Input, as JSON")).to_have_value(re.compile('"remembered": ?1'))


OWN_TYPE = '''
from typing import Literal

from pydantic import BaseModel, Field

from anabranch import node_type


class Settings(BaseModel):
    """What the node is told."""

    city: str = Field(title="City", description="Where to look.")
    unit: Literal["celsius", "fahrenheit"] = "celsius"


@node_type("weather", title="Weather", config=Settings, category="data", icon="cloud", side_effects="none")
class Weather:
    """Looks the weather up."""

    def execute(self, config, context, helpers):
        return {"city": config.city, "unit": config.unit}
'''


@pytest.mark.timeout(240)
async def test_a_node_type_of_ones_own_has_a_form_and_one_that_is_absent_is_kept(page: Page, tmp_path: Path) -> None:
    (folder := tmp_path / "dev" / "workflows").mkdir(parents=True)
    (folder / "weather.py").write_text(OWN_TYPE)
    with running_server(tmp_path / "dev") as server:
        absent = {"id": "absent", "type": "nowhere.installed", "config": {"exact": 9007199254740993}}
        await open_draft(page, server, workflow("Own type", [absent]))
        await expect(node(page, "absent")).to_contain_text("not installed")
        panel = await open_panel(page, "absent")
        await expect(panel).to_contain_text("is not installed here")
        await page.keyboard.press("Escape")

        await node(page, "start").click()
        await page.get_by_role("button", name="Weather", exact=True).click()
        panel = await open_panel(page, "weather")
        await panel.get_by_label("City", exact=True).fill("Graz")
        await panel.get_by_label("Unit", exact=True).select_option("fahrenheit")
        await page.keyboard.press("Escape")
        await save(page)
        document = the_only_draft(server, "Own type")
        # Only its place makes room for what was added before it.
        assert {**document["nodes"][1], "position": None} == {**absent, "position": None}
        assert document["nodes"][2]["config"] == {"city": "Graz", "unit": "fahrenheit"}
        await page.goto("about:blank")

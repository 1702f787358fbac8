"""Drafts as a person has them: saved while they are drawn, never lost, and never over somebody else's work."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Locator, Page, Route, expect

from tests.browser import axe
from tests.browser.conftest import IN_THE_BROWSER, PATIENCE_MS, Complaints, Server, running_server
from tests.ports import lasting_port

pytestmark = [IN_THE_BROWSER, pytest.mark.timeout(300)]

expect.set_options(timeout=PATIENCE_MS)

GRAPHS = Path(__file__).parents[1] / "corpus" / "real_graphs.jsonl"

# Integers of 64 bits, numbers and names in every spelling, fields that nobody knows, an order of its own.
PECULIAR = """{
  "x-tool": {"b": 1.0, "a": 9007199254740993, "10": 1.50, "2": 1E2},
  "edges": [ {"downstreamNodeID":"keep" , "upstreamNodeID":"start", "x-colour": "\\u00fcber"} ],
  "title": "Peculiar",
  "nodes": [
    {"type":"start", "id":"start", "position": {"y": 40, "x": 40}},
    {"config": {"values": {"big": 9223372036854775807, "10": "ten", "2": "two", "same": 1.50}}, "id": "keep",
      "type": "set", "position": {"x":376,"y":40}, "x-note": [ null , true ]}
  ],
  "viewport": {"zoom": 1.2500, "x": 1, "y": 2}
}"""

OPENED = 12
"""Graphs of the corpus that are opened in the browser."""

# What has no place lies at the origin, all of it.
LAID_OUT = """() => {
  const nodes = [...document.querySelectorAll(".react-flow__node:has([data-node-id])")];
  const shown = nodes.map((node) => node.style.transform);
  return shown.length > 1 && new Set(shown).size === shown.length;
}"""


@pytest.fixture(autouse=True)
def answers_that_browsers_complain_about(complaints: Complaints) -> None:
    """A draft or version of somebody else's is a 412: the console says so, whoever expects it."""
    complaints.allowed.append("status of 412")


def chain(title: str, *node_ids: str) -> str:
    """A workflow of nodes one behind the other, with places, as somebody might have written it."""
    nodes: list[dict[str, Any]] = [{"id": "start", "type": "start", "position": {"x": 40, "y": 80}}]
    for index, node_id in enumerate(node_ids):
        position = {"x": 376 + 320 * index, "y": 80}
        nodes.append({"id": node_id, "type": "set", "config": {"values": {"n": index}}, "position": position})
    edges = [{"upstreamNodeID": one["id"], "downstreamNodeID": other["id"]} for one, other in pairwise(nodes)]
    return json.dumps({"title": title, "nodes": nodes, "edges": edges}, indent=2)


def new_draft(server: Server, document: str) -> str:
    """A draft of a new workflow, with exactly this text; its id."""
    return str(server.call("POST", "/drafts", text=f'{{"document": {document}}}')["draftID"])


def draft_text(server: Server, draft_id: str) -> str:
    """The document of a draft as the server has it, byte for byte."""
    answer = server.text(f"/drafts/{draft_id}")
    begin = answer.index('"document":') + len('"document":')
    return answer[begin : answer.rindex("}")].strip()


def draft_of(server: Server, draft_id: str) -> dict[str, Any]:
    """The document of a draft."""
    document: dict[str, Any] = server.call("GET", f"/drafts/{draft_id}")["document"]
    return document


async def open_tab(page: Page, server: Server, path: str) -> Page:
    """Another tab of the same browser."""
    tab = await page.context.new_page()
    await tab.goto(f"{server.entrance}#{path}")
    return tab


def title_of(page: Page) -> Locator:
    """The field with the workflow's title."""
    return page.get_by_role("textbox", name="Title of the workflow")


def node(page: Page, node_id: str) -> Locator:
    """A node on the canvas."""
    return page.locator(f'[data-node-id="{node_id}"]')


def state_of(page: Page) -> Locator:
    """How the draft stands."""
    return page.locator(".save-state")


async def see_state(page: Page, state: str) -> None:
    """The draft stands like this."""
    await expect(state_of(page)).to_have_attribute("data-state", state)


async def save_now(page: Page) -> None:
    """Ask for a save without waiting for the next that comes by itself, which may be five seconds away."""
    await page.locator(".canvas").focus()
    await page.keyboard.press("Control+s")


async def save(page: Page) -> None:
    """Save now, and see that it is."""
    await save_now(page)
    await see_state(page, "saved")


async def disable(page: Page, node_id: str) -> None:
    """Disable a node by keyboard, and see that it is: what is said of a lost server may move it while it is clicked."""
    await node(page, node_id).focus()
    await page.keyboard.press("d")
    await expect(node(page, node_id)).to_have_accessible_name(re.compile("disabled"))


async def undo(page: Page) -> None:
    await page.get_by_role("button", name=re.compile("^Undo")).click()


async def redo(page: Page) -> None:
    await page.get_by_role("button", name=re.compile("^Redo")).click()


async def refuse_saves(route: Route) -> None:
    """Let no save of this tab arrive."""
    if route.request.method == "PUT":
        await route.abort()
    else:
        await route.continue_()


async def test_two_tabs_one_draft(page: Page, server: Server, complaints: Complaints, tmp_path: Path) -> None:
    complaints.allowed.append("ERR_FAILED")
    draft_id = new_draft(server, chain("Ours", "a", "b"))
    await page.goto(f"{server.entrance}#/drafts/{draft_id}")
    await expect(node(page, "a")).to_be_visible()
    other = await open_tab(page, server, f"/drafts/{draft_id}")
    await expect(node(other, "a")).to_be_visible()
    await expect(state_of(page)).to_contain_text("open in another tab")
    await expect(state_of(other)).to_contain_text("open in another tab")

    # What is saved in one tab is seen in the other one, which has nothing to lose.
    await title_of(page).fill("First")
    await expect(title_of(other)).to_have_value("First")
    await see_state(other, "saved")

    # Both change different things: nothing is overwritten, one click merges, and the merge can be undone.
    await other.route("**/v1/drafts/*", refuse_saves)
    await disable(other, "a")
    await save_now(other)
    await expect(state_of(other)).to_contain_text("offline, kept here")
    await title_of(page).fill("Second")
    await save(page)
    await expect(state_of(other)).to_contain_text("conflict, not being saved")
    assert draft_of(server, draft_id)["title"] == "Second"
    await other.screenshot(path=tmp_path / "conflict.png")
    await other.unroute("**/v1/drafts/*")
    await other.get_by_role("button", name="Resolve…").click()
    await expect(other.get_by_role("dialog")).to_contain_text("Both sides changed different things")
    assert await axe.findings(other, "[role=dialog]") == []
    await other.screenshot(path=tmp_path / "merge.png")
    await other.get_by_role("dialog").get_by_role("button", name="Merge").click()
    await expect(title_of(other)).to_have_value("Second")
    await see_state(other, "saved")
    merged = draft_of(server, draft_id)
    assert (merged["title"], merged["nodes"][1]["disabled"]) == ("Second", True)
    await expect(node(page, "a")).to_have_accessible_name(re.compile("disabled"))

    await undo(other)
    await expect(title_of(other)).to_have_value("First")
    await undo(other)
    await expect(node(other, "a")).not_to_have_accessible_name(re.compile("disabled"))
    await redo(other)
    await redo(other)
    await expect(title_of(other)).to_have_value("Second")
    await expect(node(other, "a")).to_have_accessible_name(re.compile("disabled"))
    await save(other)
    assert draft_of(server, draft_id) == merged

    # Both change the same thing: the person chooses.
    await other.route("**/v1/drafts/*", refuse_saves)
    await title_of(other).fill("Mine")
    await save_now(other)
    await expect(state_of(other)).to_contain_text("offline, kept here")
    await title_of(page).fill("Theirs")
    await save(page)
    await expect(state_of(other)).to_contain_text("conflict, not being saved")
    await other.unroute("**/v1/drafts/*")
    await other.get_by_role("button", name="Resolve…").click()
    await other.get_by_role("radio", name="theirs", exact=True).check()
    assert await axe.findings(other, "[role=dialog]") == []
    await other.screenshot(path=tmp_path / "choice.png")
    await other.get_by_role("button", name="Merge with these choices").click()
    await expect(title_of(other)).to_have_value("Theirs")
    await save(other)
    await undo(other)
    await expect(title_of(other)).to_have_value("Mine")
    await save(other)
    await expect(title_of(page)).to_have_value("Mine")
    assert draft_of(server, draft_id)["title"] == "Mine"


async def test_server_dies_mid_edit(page: Page, complaints: Complaints, tmp_path: Path) -> None:
    complaints.allowed += ["ERR_CONNECTION", "ERR_EMPTY_RESPONSE", "WebSocket connection"]
    port, key, folder = lasting_port(), "ana_a_key_that_outlives_the_process", tmp_path / "server"
    with running_server(folder, port=port, key=key) as server:
        draft_id = new_draft(server, chain("Alive", "a", "b"))
        await page.goto(f"{server.entrance}#/drafts/{draft_id}")
        await disable(page, "a")
        await save(page)
        await title_of(page).fill("Edited while it dies")
        server.die()
        await disable(page, "b")
        await save_now(page)
        await expect(state_of(page)).to_contain_text("offline, kept here")
        await page.screenshot(path=tmp_path / "offline.png")

    # The tab that has lived on saves by itself, all of it, and what was done before can be undone.
    with running_server(folder, port=port, key=key) as server:
        await see_state(page, "saved")
        saved = draft_of(server, draft_id)
        assert saved["title"] == "Edited while it dies"
        assert [each.get("disabled", False) for each in saved["nodes"]] == [False, True, True]
        await undo(page)
        await undo(page)
        await save(page)
        assert draft_of(server, draft_id)["title"] == "Alive"
        await redo(page)
        await redo(page)
        await save(page)
        assert draft_of(server, draft_id) == saved
        server.die()
        await title_of(page).fill("Edited after it died")
        await save_now(page)
        await expect(state_of(page)).to_contain_text("offline, kept here")

    # The tab dies, too: the next one has what was edited.
    context = page.context
    await page.close()
    with running_server(folder, port=port, key=key) as server:
        tab = await context.new_page()
        await tab.goto(f"{server.entrance}#/drafts/{draft_id}")
        await expect(title_of(tab)).to_have_value("Edited after it died")
        await expect(tab.locator(".toasts")).to_contain_text("Edits that had not been saved are restored.")
        await tab.screenshot(path=tmp_path / "restored.png")
        await save(tab)
        assert draft_of(server, draft_id) == {**saved, "title": "Edited after it died"}


async def test_a_save_whose_answer_is_lost_is_no_conflict(page: Page, server: Server, complaints: Complaints) -> None:
    complaints.allowed.append("ERR_FAILED")
    draft_id = new_draft(server, chain("Saved", "a"))
    await page.goto(f"{server.entrance}#/drafts/{draft_id}")

    async def lose_the_answer(route: Route) -> None:
        if route.request.method != "PUT":
            await route.continue_()
            return
        await route.fetch()
        await route.abort()

    await page.route("**/v1/drafts/*", lose_the_answer)
    await title_of(page).fill("It arrived")
    await save_now(page)
    await expect(state_of(page)).to_contain_text("offline, kept here")
    assert draft_of(server, draft_id)["title"] == "It arrived"
    await title_of(page).fill("And more was edited")
    await page.unroute("**/v1/drafts/*")

    await see_state(page, "saved")
    assert draft_of(server, draft_id)["title"] == "And more was edited"


async def test_publish_onto_newer_version(page: Page, server: Server, tmp_path: Path) -> None:
    name = str(server.call("POST", "/workflows", json.loads(chain("Published", "a", "b")))["name"])
    await page.goto(f"{server.entrance}#/workflows/{name}")
    await title_of(page).fill("Mine")
    await save(page)
    newer = json.loads(chain("Published", "a", "b", "c"))
    server.call("PUT", f"/workflows/{name}", newer)

    await page.get_by_role("button", name="Publish").click()
    dialog = page.get_by_role("dialog", name="A newer version was published")
    await expect(dialog).to_contain_text("Version 2 is newer than what this draft was made from.")
    assert await axe.findings(page, "[role=dialog]") == []
    await page.screenshot(path=tmp_path / "newer.png")
    assert server.call("GET", f"/workflows/{name}")["version"] == 2
    await dialog.get_by_role("button", name="Merge").click()
    await expect(node(page, "c")).to_be_visible()
    await expect(dialog).to_have_count(0)
    await page.get_by_role("button", name="Publish").click()
    await expect(page.locator(".toasts")).to_contain_text("Published as version 3")
    await page.screenshot(path=tmp_path / "published.png")
    published = json.loads(server.text(f"/workflows/{name}/document?version=3"))
    assert (published["title"], [each["id"] for each in published["nodes"]]) == ("Mine", ["start", "a", "b", "c"])

    # History goes on across all of it.
    await undo(page)
    await expect(node(page, "c")).to_have_count(0)
    await undo(page)
    await expect(title_of(page)).to_have_value("Published")
    await redo(page)
    await redo(page)
    await expect(node(page, "c")).to_be_visible()
    await title_of(page).fill("Published again")
    await page.get_by_role("button", name="Publish").click()
    await expect(page.locator(".toasts")).to_contain_text("Published as version 4")
    assert json.loads(server.text(f"/workflows/{name}/document"))["title"] == "Published again"


async def test_a_document_comes_back_byte_for_byte(page: Page, server: Server) -> None:
    draft_id = new_draft(server, PECULIAR)
    assert draft_text(server, draft_id) == PECULIAR
    await page.goto(f"{server.entrance}#/drafts/{draft_id}")
    await expect(node(page, "keep")).to_be_visible()

    await title_of(page).fill("Renamed")
    await save(page)
    expected = PECULIAR.replace('"Peculiar"', '"Renamed"')
    assert draft_text(server, draft_id) == expected
    await page.get_by_role("button", name="Publish").click()
    await expect(page.locator(".toasts")).to_contain_text("Published as version 1")
    version = server.text("/workflows/renamed/document?version=1")
    assert version == f'{expected[:-2]}, "name": "renamed"\n}}'
    await undo(page)
    await save(page)
    assert draft_text(server, draft_id) == PECULIAR


async def test_imports_2000(page: Page, server: Server, tmp_path: Path) -> None:
    nodes: list[dict[str, Any]] = [{"id": "start", "type": "start"}]
    edges: list[dict[str, Any]] = []
    for index in range(1, 2000):
        nodes.append({"id": f"n{index}", "type": "set", "config": {"values": {"n": index}}})
        edges.append({"upstreamNodeID": nodes[max(0, index - 8)]["id"], "downstreamNodeID": f"n{index}"})
    text = json.dumps({"title": "Two thousand", "nodes": nodes, "edges": edges}, indent=1)
    file = tmp_path / "two_thousand.json"
    file.write_text(text)
    judged: list[str] = []
    page.on("request", lambda each: judged.append(each.post_data or "") if each.url.endswith("/v1/validate") else None)
    await page.goto(server.entrance)
    await page.get_by_label("File to import").set_input_files(file)

    await expect(title_of(page)).to_have_value("Two thousand")
    draft_id = page.url.rpartition("/")[2]
    await expect(node(page, "start")).to_be_visible()
    # Laid out in a worker, which changes nothing of the document.
    await page.wait_for_function(LAID_OUT)
    await page.get_by_role("button", name="Show everything").click()
    await expect(page.locator(".canvas.far")).to_be_visible()
    await page.screenshot(path=tmp_path / "everything.png")
    assert draft_text(server, draft_id) == text
    await title_of(page).fill("Imported")
    await save(page)
    assert draft_text(server, draft_id) == text.replace('"Two thousand"', '"Imported"')
    # What the server has as a draft is judged without being sent again.
    await expect(page.locator(".certificate")).to_contain_text("always ends")
    assert [json.loads(each)["draftID"] for each in judged] == [draft_id] * len(judged) and len(judged) > 1


async def test_opens_each_of_367(page: Page, server: Server) -> None:
    """Every one is opened, laid out, edited and written in the unit tests of `editor/src/layout`, and kept by the
    server as it was sent; both together twelve times, small to large.
    """
    graphs = sorted(map(json.loads, GRAPHS.read_text().splitlines()), key=lambda each: len(each["workflow"]["nodes"]))
    assert len(graphs) == 367
    for graph in graphs:
        text = json.dumps({**graph["workflow"], "title": f"{graph['id']} kept"})
        draft_id = new_draft(server, text)
        assert draft_text(server, draft_id) == text
        server.call("DELETE", f"/drafts/{draft_id}")
    await page.goto(server.entrance)
    for graph in [graphs[at * (len(graphs) - 1) // (OPENED - 1)] for at in range(OPENED)]:
        draft_id = new_draft(server, json.dumps({**graph["workflow"], "title": graph["id"]}))
        await page.evaluate("(hash) => { location.hash = hash; }", f"/drafts/{draft_id}")
        await expect(title_of(page)).to_have_value(graph["id"])
        await page.wait_for_function(LAID_OUT)
        await title_of(page).fill(f"{graph['id']} saved")
        await save(page)
        assert draft_text(server, draft_id) == json.dumps({**graph["workflow"], "title": f"{graph['id']} saved"})
        server.call("DELETE", f"/drafts/{draft_id}")

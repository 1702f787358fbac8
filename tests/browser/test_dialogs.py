"""Every dialog that no journey looks at: axe finds nothing in it, in either theme, and it closes by Escape.

The journeys of `test_drafts` look at conflicts and newer versions, those of `test_settings` and `test_run_history` at
theirs. The test at the end knows of every file with a dialog, so that a new one is looked at, too.
"""

from __future__ import annotations

import json
import re

from playwright.async_api import Page, expect

from editor.build import EDITOR
from tests.browser import axe
from tests.browser.conftest import IN_THE_BROWSER, PATIENCE_MS, Complaints, Server

pytestmark = IN_THE_BROWSER

expect.set_options(timeout=PATIENCE_MS)

BRANCHES = {"branches": [{"id": "yes", "expression": "{{ ctx.input.ok }}"}]}
NODES = [
    {"id": "ask", "type": "condition", "config": BRANCHES, "position": {"x": 320, "y": 80}},
    {"id": "wait", "type": "waitForEvent", "config": {"event": "approve"}, "position": {"x": 640, "y": 80}},
    {"id": "end", "type": "end", "position": {"x": 960, "y": 80}},
]
INPUT = {"type": "object", "properties": {"ok": {"type": "boolean", "title": "OK"}, "count": {"type": "integer"}}}

LOOKED_AT = {
    "canvas/Dialogs.tsx": "here",
    "canvas/Palette.tsx": "test_pictures",
    "pages/editor/ConflictDialog.tsx": "test_drafts",
    "pages/editor/EditorHeader.tsx": "here",
    "pages/editor/TestDialog.tsx": "here",
    "pages/editor/VersionsDialog.tsx": "here",
    "pages/lists/ConfirmDialog.tsx": "test_settings",
    "pages/lists/FormDialog.tsx": "test_settings",
    "pages/lists/SaveDialog.tsx": "test_settings",
    "pages/run/ForkDialog.tsx": "test_run_history",
    "pages/run/RerunDialog.tsx": "here",
    "pages/run/RetryDialog.tsx": "test_run_history",
    "pages/run/SignalDialog.tsx": "here",
    "pages/runs/RunsPage.tsx": "test_pictures",
    "pages/schedules/BackfillDialog.tsx": "test_settings",
    "pages/schedules/ScheduleDialog.tsx": "test_settings",
    "pages/schedules/SchedulesPage.tsx": "test_settings",
    "pages/settings/KeysPart.tsx": "test_settings",
    "pages/settings/QueriesPart.tsx": "test_settings",
    "pages/settings/SecretsPart.tsx": "test_settings",
    "pages/settings/SourcesPart.tsx": "test_settings",
    "pages/settings/TryDialog.tsx": "test_settings",
    "pages/settings/UsesDialog.tsx": "test_settings",
    "pages/settings/VariablesPart.tsx": "test_settings",
    "pages/start/StartDialog.tsx": "here",
    "pages/workflows/ImportReport.tsx": "here",
    "pages/topics/TopicsPage.tsx": "test_settings",
    "pages/workflows/Gallery.tsx": "test_gallery",
    "pages/workflows/WorkflowsPage.tsx": "here",
}
"""Files of the editor with dialogs, by the tests that open them."""


def save(server: Server, title: str) -> str:
    """Save a workflow with a branch, a wait and an input schema; its name."""
    edges = [
        {"upstreamNodeID": "start", "downstreamNodeID": "ask"},
        {"upstreamNodeID": "ask", "downstreamNodeID": "wait", "sourceHandle": "else"},
        {"upstreamNodeID": "wait", "downstreamNodeID": "end"},
    ]
    options = {"inputSchema": INPUT}
    return server.save(title, NODES, edges=edges, workflowOptions=options)


async def look_at(page: Page, name: str | re.Pattern[str]) -> None:
    """A dialog is open and fine; close it."""
    dialog = page.get_by_role("dialog", name=name)
    await expect(dialog).to_be_visible()
    assert await axe.findings(page, "[role=dialog]") == [], name
    await page.keyboard.press("Escape")
    await expect(dialog).to_have_count(0)


async def test_dialogs_of_the_canvas(page: Page, server: Server, complaints: Complaints) -> None:
    complaints.allowed.append("422")  # it is published with an edge from nowhere
    name = save(server, "Dialogs")
    await page.goto(f"{server.entrance}#/workflows/{name}")
    await page.locator('[data-node-id="ask"]').click()
    for key, title in (("c", "Connect ask"), ("F2", "Rename the node"), ("Control+k", "All commands")):
        await page.keyboard.press(key)
        await look_at(page, re.compile(title))
        await page.locator('[data-node-id="ask"]').focus()
    await page.keyboard.press("?")
    await look_at(page, "Keys of the canvas")
    for entry, title in (("Versions…", "Versions"), ("Start a run…", "Start Dialogs"), ("Discard the", "Discard the")):
        await page.get_by_role("button", name="More", exact=True).click()
        await page.get_by_role("menuitem", name=entry).click()
        await look_at(page, re.compile(title))
    await page.get_by_role("button", name="Test", exact=True).click()
    await look_at(page, re.compile("Test"))
    await page.locator('[data-node-id="end"]').click()
    await page.keyboard.press("Shift+F10")
    await expect(page.get_by_role("menu")).to_be_visible()
    assert await axe.findings(page, "[role=menu]") == []
    await page.keyboard.press("Escape")

    file = {"name": "broken.json", "mimeType": "application/json", "buffer": b'{"nodes": [], "edges": []}'}
    await page.get_by_label("File to import").set_input_files(file)  # type: ignore[arg-type]
    await page.get_by_role("button", name="Publish").click()
    await look_at(page, "It could not be published")


async def test_dialogs_of_lists_and_runs(page: Page, server: Server) -> None:
    workflow = save(server, "Dialogs of lists")
    run_id = server.start(workflow, {"ok": False})
    await page.goto(server.entrance)
    await page.get_by_role("button", name="More about Dialogs of lists").click()
    await page.get_by_role("menuitem", name="Delete…").click()
    await look_at(page, "Delete Dialogs of lists?")
    await page.get_by_role("button", name="Start Dialogs of lists").click()
    await look_at(page, "Start Dialogs of lists")

    exported = {"name": "Of n8n", "nodes": [{"name": "A", "type": "n8n-nodes-base.noOp"}], "connections": {}}
    file = {"name": "n8n.json", "mimeType": "application/json", "buffer": json.dumps(exported).encode()}
    await page.get_by_label("File to import").set_input_files(file)  # type: ignore[arg-type]
    await look_at(page, "Of n8n is imported as a draft")

    await page.goto(f"{server.url}/#/runs/{run_id}")
    await page.get_by_role("button", name="Send a signal").click()
    await look_at(page, "Send a signal")
    server.call("POST", f"/runs/{run_id}/signals/approve", {})
    await page.get_by_role("button", name="Run again…").click()
    await look_at(page, "Run it again")

    runs = server.call("GET", f"/workflows/{workflow}/runs")["items"]
    assert [run["instanceID"] for run in runs] == [run_id], "whoever only looks starts nothing and deletes nothing"


async def test_no_dialog_is_left_out() -> None:
    source = EDITOR / "src"
    has_dialog = re.compile(r"<(Dialog|SaveDialog|FormDialog|ConfirmDialog|Radix\.Content)\b")
    found = {path for path in source.rglob("*.tsx") if has_dialog.search(path.read_text("utf-8"))}
    own = {source / "ui" / "Dialog.tsx"}
    assert {path.relative_to(source).as_posix() for path in found - own} == set(LOOKED_AT)

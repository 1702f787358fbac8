"""Understanding a run: why it is where it is, and how it stood at any row of its log."""

from __future__ import annotations

import os
import re
from itertools import pairwise
from pathlib import Path

import pytest
from playwright.async_api import Page, expect

from tests.browser import axe
from tests.browser.conftest import IN_THE_BROWSER, PATIENCE_MS, Server, running_server
from tests.browser.test_pages import leave_unanswered

pytestmark = IN_THE_BROWSER

expect.set_options(timeout=PATIENCE_MS)

APPROVAL = {"id": "approval", "type": "waitForEvent", "config": {"event": "approve"}}
START = {"id": "start", "type": "start"}
FORKED = ("approval", "later", "added")
LATER = {"id": "later", "type": "set", "config": {"values": {"done": "yes"}}, "outputVariable": "later"}


async def test_asks_why(page: Page, server: Server) -> None:
    run_id = server.start(server.save("Asked why", [APPROVAL, LATER]))
    await page.goto(f"{server.entrance}#/runs/{run_id}?node=later")
    await expect(page.locator(".node-detail")).to_contain_text("not reached")
    await expect(page.locator(".node-detail .notice")).to_contain_text("approval")

    await page.get_by_role("button", name="Why?").click()
    why = page.locator(".run-page > .notice")
    await expect(why).to_contain_text("the signal approve")
    assert await axe.findings(page) == []

    # What is waited for is a click away.
    await why.get_by_role("button", name="approval").click()
    await expect(page.locator(".node-detail .status")).to_have_text("waiting")


async def test_a_run_is_paused_and_goes_on(page: Page, server: Server) -> None:
    run_id = server.start(server.save("Paused", [APPROVAL]))
    await page.goto(f"{server.entrance}#/runs/{run_id}")
    await page.get_by_role("button", name="Pause").click()
    await expect(page.locator(".run-status")).to_have_text("suspended")
    await expect(page.locator(".run-page > .notice")).to_contain_text("It stays so until somebody resumes it.")
    assert await axe.findings(page) == []
    await page.goto(f"{server.url}/#/runs?status=SUSPENDED")
    await expect(page.locator(f'[data-run="{run_id}"]')).to_contain_text("paused by somebody")
    await page.go_back()
    await page.get_by_role("button", name="Resume").click()
    await expect(page.locator(".run-status")).to_have_text("waiting")


async def test_a_cancelled_run_goes_on_after_it_was_said_with_what(page: Page, server: Server) -> None:
    run_id = server.start(server.save("Retried", [APPROVAL]))
    await page.goto(f"{server.entrance}#/runs/{run_id}")
    await page.get_by_role("button", name="Cancel run").click()
    await page.get_by_role("button", name="Really cancel?").click()
    await expect(page.locator(".run-status")).to_have_text("cancelled")

    await page.get_by_role("button", name="Retry…").click()
    dialog = page.get_by_role("dialog", name="Let the run go on")
    await expect(dialog.get_by_role("region", name="Plan")).to_be_visible()
    assert await axe.findings(page, "[role=dialog]") == []
    await dialog.get_by_role("button", name="Retry", exact=True).click()
    await expect(page.locator(".run-status")).to_have_text("waiting")

    # It is followed live again.
    server.call("POST", f"/runs/{run_id}/signals/approve", {"by": "Grace"})
    await expect(page.locator(".run-status")).to_have_text("completed")


async def test_a_run_is_forked_at_a_node_after_its_plan_was_shown(page: Page, server: Server) -> None:
    run_id = server.start(name := server.save("Forked", [APPROVAL, LATER]))
    server.call("POST", f"/runs/{run_id}/signals/approve", {"by": "Grace"})
    added = {"id": "added", "type": "set", "config": {"values": {"more": 1}}}
    edges = [{"upstreamNodeID": one, "downstreamNodeID": other} for one, other in pairwise(("start", *FORKED))]
    server.call("PUT", f"/workflows/{name}", {"nodes": [START, APPROVAL, LATER, added], "edges": edges})
    await page.goto(f"{server.entrance}#/runs/{run_id}?node=approval")
    await expect(page.locator(".run-status")).to_have_text("completed")
    await page.get_by_role("button", name="Fork from here…").click()
    dialog = page.get_by_role("dialog", name="Fork from approval")
    plan = dialog.get_by_role("region", name="Plan")
    await expect(plan.get_by_role("listitem")).to_contain_text(["approval"])
    assert await axe.findings(page, "[role=dialog]") == []
    await dialog.get_by_label("Version that it follows").select_option(label="v2, which starts take")
    await expect(plan.get_by_role("listitem")).to_contain_text(["approval"])
    await dialog.get_by_role("button", name="Fork", exact=True).click()
    await expect(page).not_to_have_url(re.compile(run_id))
    await expect(page.get_by_role("heading", level=1)).to_have_text(f"{name} v2")
    await expect(page.locator(".run-status")).to_have_text("waiting")


CODED = """
from anabranch import workflow


@workflow(name="grown")
async def grown(ctx, input):
    first = await ctx.step.run("first", lambda: 1)
    return await ctx.step.run("second", lambda: first + 1)


@workflow(name="grown", version=2)
async def grown_more(ctx, input):
    first = await ctx.step.run("first", lambda: 1)
    second = await ctx.step.run("second", lambda: first + 10)
    return await ctx.step.run("third", lambda: second + 100)
"""


async def test_a_coded_run_is_forked_onto_another_version(page: Page, tmp_path: Path) -> None:
    (folder := tmp_path / "dev" / "workflows").mkdir(parents=True)
    (folder / "grown.py").write_text(CODED)
    with running_server(tmp_path / "dev") as server:
        run_id = server.call("POST", "/workflows/grown/runs", {"version": 1})["instanceID"]
        await page.goto(f"{server.entrance}#/runs/{run_id}?node=second")
        await expect(page.locator(".run-status")).to_have_text("completed")
        await page.get_by_role("button", name="Fork from here…").click()
        dialog = page.get_by_role("dialog", name="Fork from second")
        await dialog.get_by_label("Version that it follows").select_option("2")
        await expect(dialog.get_by_role("region", name="Plan")).to_contain_text("1 outcome is reused")
        await dialog.get_by_role("button", name="Fork", exact=True).click()
        await expect(page.get_by_role("heading", level=1)).to_have_text("grown v2")
        await page.goto(page.url.partition("?")[0])
        await expect(page.locator(".run-result")).to_contain_text("111")
        await page.goto("about:blank")


LOCKED = """
import asyncio

from anabranch import workflow


@workflow(name="locked")
async def locked(ctx, input):
    lock = asyncio.Lock()

    async def after_another(name):
        async with lock:
            return await ctx.step.run(name, lambda: name)

    return await asyncio.gather(after_another("left"), after_another("right"))
"""


async def test_a_fork_takes_the_steps_that_have_to_run_again_too(page: Page, tmp_path: Path) -> None:
    (folder := tmp_path / "dev" / "workflows").mkdir(parents=True)
    (folder / "locked.py").write_text(LOCKED)
    with running_server(tmp_path / "dev") as server:
        run_id = server.call("POST", "/workflows/locked/runs", {})["instanceID"]
        await page.goto(f"{server.entrance}#/runs/{run_id}?node=left")
        await expect(page.locator(".run-status")).to_have_text("completed")
        await page.get_by_role("button", name="Fork from here…").click()
        dialog = page.get_by_role("dialog", name="Fork from left")
        plan = dialog.get_by_role("region", name="Plan")
        await expect(plan).to_contain_text("unless right runs again, too")
        await dialog.get_by_role("button", name="Run this step again, too").click()
        await expect(plan).to_contain_text("0 outcomes are reused")
        await expect(plan).not_to_contain_text("redo")
        await dialog.get_by_role("button", name="Fork", exact=True).click()
        await expect(page).not_to_have_url(re.compile(run_id))
        await expect(page.locator(".run-status")).to_have_text("completed")
        await page.goto("about:blank")


async def test_what_code_prints_is_shown_with_its_node(page: Page, server: Server) -> None:
    code = "print('counted', ctx['input']['n'])\nreturn {'text': 70_000 * 'x', 'big': 2**60 + 1}"
    count = {"id": "count", "type": "python", "config": {"code": code}}
    run_id = server.start(server.save("Printing", [count]), {"n": 7})
    await page.goto(f"{server.entrance}#/runs/{run_id}?tab=logs&node=count")
    await expect(page.get_by_role("region", name="Logs")).to_contain_text("counted 7")

    # Its output is large: in its place is its size, until somebody asks for it.
    detail = page.locator(".node-detail")
    await expect(detail).to_contain_text("70 kB")
    assert await axe.findings(page) == []
    await detail.get_by_role("button", name="Load", exact=True).click()
    await expect(detail).to_contain_text("1152921504606846977")
    await page.get_by_role("tab", name="Event log").click()
    row = page.locator(".log-row", has_text="NODE_COMPLETED").filter(has_text="count")
    await row.get_by_role("button").click()
    await row.get_by_role("button", name="Load value.text").click()
    await expect(row.get_by_role("region", name="value.text")).to_contain_text("68,000 more characters")


async def test_nodes_that_wait_for_a_place_are_queued(page: Page, server: Server) -> None:
    """A tenant has a place in the sandbox for each core, and two at least."""
    busy = [f"busy{number}" for number in range(max(2, os.cpu_count() or 1) + 1)]
    nodes = [{"id": each, "type": "python", "config": {"code": "while True:\n    pass"}} for each in busy]
    edges = [{"upstreamNodeID": "start", "downstreamNodeID": each} for each in busy]
    run_id = server.start(server.save("Queued", nodes, edges=edges))
    await page.goto(f"{server.entrance}#/runs/{run_id}")
    await expect(page.locator(".timeline-row .status", has_text="queued")).to_have_count(1)
    server.call("DELETE", f"/runs/{run_id}")
    await expect(page.locator(".run-status")).to_have_text("cancelled")


@pytest.mark.timeout(240)
async def test_finds_failed_iteration_of_1500(page: Page, server: Server) -> None:
    odd = {"branches": [{"id": "odd", "expression": "{{ctx.item == 700 or ctx.item == 1404}}"}]}
    source = {"source": "{{ctx.input.items}}", "concurrency": 500, "onItemError": "collect"}
    nodes = [
        {"id": "start", "type": "start"},
        {"id": "each", "type": "loop", "config": source, "outputVariable": "done"},
        {"id": "odd", "type": "condition", "config": odd},
        {"id": "bad", "type": "set", "config": {"values": {"no": "{{ctx.item.absent}}"}}},
        {"id": "end", "type": "end", "config": {"outputParameters": {"count": "{{ctx.done | length}}"}}},
    ]
    edges = [
        {"upstreamNodeID": "start", "downstreamNodeID": "each"},
        {"upstreamNodeID": "each", "downstreamNodeID": "odd", "sourceHandle": "loop"},
        {"upstreamNodeID": "odd", "downstreamNodeID": "bad", "sourceHandle": "odd"},
        {"upstreamNodeID": "each", "downstreamNodeID": "end", "sourceHandle": "done"},
    ]
    name = server.call("POST", "/workflows", {"title": "Long", "nodes": nodes, "edges": edges})["name"]
    run_id = server.start(name, {"items": list(range(1500))})
    await page.goto(f"{server.entrance}#/runs/{run_id}")
    await expect(page.locator(".run-status")).to_have_text("completed")

    # The result and the counts need no list of nodes: here that never comes.
    await page.route("**/steps?limit=*", leave_unanswered)
    await page.reload()
    await expect(page.locator(".run-result .value")).to_contain_text("1500")
    frame = page.locator('[data-loop="each"]')
    await expect(frame).to_have_text("× 1,5002 failed")
    bad, odd_card = page.locator('[data-node-id="bad"]'), page.locator('[data-node-id="odd"]')
    await expect(bad.locator(".run-mark")).to_contain_text("2 failed")
    await page.unroute("**/steps?limit=*")

    # One key, or one button, leads from failure to failure; nodes in the loop show that iteration.
    await frame.get_by_role("button", name="Next failure").click()
    await expect(frame).to_contain_text("701 of 1,500")
    await expect(page.locator(".node-detail")).to_contain_text("each[700]")
    await expect(page.locator(".node-detail .notice.error")).to_contain_text("absent")
    await expect(odd_card.locator(".run-mark")).not_to_contain_text("×")
    await page.keyboard.press("f")
    await expect(frame).to_contain_text("1,405 of 1,500")
    await expect(page.locator(".node-detail")).to_contain_text("each[1404]")
    await page.keyboard.press(".")
    await expect(frame).to_contain_text("1,406 of 1,500")
    await expect(bad).to_have_attribute("data-status", "skipped")
    await expect(odd_card).to_have_attribute("data-status", "success")

    # The list has failures first, and the address keeps the place.
    await page.reload()
    await expect(page.locator(".timeline-row").first).to_contain_text("each[700] › bad")
    await expect(page.get_by_role("button", name="all 3,003")).to_be_visible()

    # All iterations stand under their loop, those that failed first.
    loop = page.locator(".timeline-group")
    await expect(loop).to_have_text("each × 1,500 2 failed")
    await loop.click()
    await expect(loop.nth(1)).to_have_text("each[700] failed")
    await loop.nth(1).click()
    await expect(page.get_by_role("treeitem", level=4)).to_have_text(
        [re.compile("error.*bad"), re.compile("success.*odd")]
    )
    assert await axe.findings(page) == []
    await expect(frame).to_contain_text("1,406 of 1,500")


async def test_slides_through_time(page: Page, server: Server) -> None:
    number = {"id": "number", "type": "set", "config": {"values": {"n": 9007199254740993}}, "outputVariable": "number"}
    run_id = server.start(server.save("Slid", [number, LATER]))
    await page.goto(f"{server.entrance}#/runs/{run_id}")
    await expect(page.locator(".run-status")).to_have_text("completed")
    later = page.locator('[data-node-id="later"]')
    await expect(later).to_have_attribute("data-status", "success")

    slider = page.get_by_label("Time", exact=True)
    await slider.press("Home")
    await expect(page.get_by_role("heading", name="After row 1 of the log")).to_be_visible()
    await expect(later).not_to_have_attribute("data-status", "success")
    await expect(page.get_by_role("region", name="ctx")).not_to_contain_text("9007199254740993")
    # The lists are as of the same row.
    await expect(page.locator(".timeline")).to_contain_text("No node has begun yet.")
    assert await axe.findings(page) == []

    await page.get_by_role("tab", name="Event log").click()
    await expect(page.locator(".log-row")).to_have_count(1)
    await page.locator(".log-row button").first.click()
    await expect(page.get_by_role("region", name="Payload of row 1")).to_be_visible()
    await page.get_by_role("tab", name="Nodes").click()

    await slider.press("End")
    await expect(page.get_by_role("region", name="ctx")).to_contain_text("number")
    await expect(page.locator(".timeline-row .status")).to_have_text(["success"] * 3)
    await expect(later).to_have_attribute("data-status", "success")
    await page.get_by_role("button", name="Now").click()
    await expect(page.get_by_role("heading", name="Output")).to_be_visible()

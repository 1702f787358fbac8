"""The pages as a person has them: signing in, starting, watching, signalling, cancelling."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.async_api import Locator, Page, Route, expect

from tests.browser.conftest import IN_THE_BROWSER, PATIENCE_MS, Complaints, Server, running_server
from tests.ports import lasting_port

pytestmark = IN_THE_BROWSER

expect.set_options(timeout=PATIENCE_MS)

PAUSE = {"id": "pause", "type": "delay", "config": {"duration": "1s"}}
RIGHTMOST = "Math.max(...[...document.querySelectorAll('body *')].map((e) => e.getBoundingClientRect().right))"

APPROVAL = {"id": "approval", "type": "waitForEvent", "config": {"event": "approve"}}


def row_of(page: Page, title: str) -> Locator:
    """The row of a workflow."""
    return page.locator(".workflows tbody tr", has=page.get_by_role("link", name=title, exact=True))


def nodes_of(page: Page) -> Locator:
    """The rows of a run's nodes."""
    return page.locator(".timeline-row")


async def leave_unanswered(route: Route) -> None:
    """Let a request of the page wait for ever."""


async def test_a_run_that_is_started_is_seen_to_complete_by_itself(page: Page, server: Server) -> None:
    server.save("Tea", [PAUSE, {"id": "end", "type": "end"}])
    await page.goto(server.entrance)

    await row_of(page, "Tea").get_by_role("button", name="Start Tea").click()
    await page.get_by_label("Input, as JSON").press("Control+Enter")

    await expect(page.locator(".run-status")).to_have_text("completed")
    await expect(nodes_of(page).locator(".status")).to_have_text(["success", "success", "success"])


async def test_a_run_that_somebody_else_starts_appears_and_moves(page: Page, server: Server) -> None:
    name = server.save("Started elsewhere", [APPROVAL])
    await page.goto(f"{server.entrance}#/runs")
    await expect(page.locator("#link")).to_have_text("live")

    run_id = server.start(name)
    row = page.locator(f'[data-run="{run_id}"]')
    await expect(row.locator(".status")).to_have_text("waiting")
    await page.route("**/v1/runs?*", leave_unanswered)
    server.call("POST", f"/runs/{run_id}/signals/approve", {"by": "Grace"})

    await expect(row.locator(".status")).to_have_text("completed")  # told live: lists are not answered any more


async def test_a_runs_page_follows_its_nodes_its_log_and_its_end(page: Page, server: Server) -> None:
    value = {"id": "value", "type": "set", "config": {"values": {"greeting": "hello"}}, "outputVariable": "value"}
    run_id = server.start(server.save("Followed", [value, APPROVAL]), {"who": "Ada"})
    await page.goto(f"{server.entrance}#/runs/{run_id}")
    await expect(nodes_of(page).locator(".status")).to_have_text(["waiting", "success", "success"])
    await page.get_by_role("tab", name="Event log").click()
    log = page.locator(".log")
    await expect(log).to_contain_text("NODE_WAITING")

    server.call("POST", f"/runs/{run_id}/signals/approve", {"by": "Grace"})

    await expect(page.locator(".run-status")).to_have_text("completed")
    await expect(log).to_contain_text("INSTANCE_COMPLETED")
    await page.get_by_role("tab", name="Nodes").click()
    await expect(nodes_of(page).locator(".status")).to_have_text(["success", "success", "success"])
    await nodes_of(page).nth(1).click()
    await expect(page.locator(".node-detail")).to_contain_text("hello")
    await page.get_by_role("tab", name="Input").click()
    await expect(page.get_by_role("tabpanel")).to_contain_text("Ada")


async def test_a_run_is_cancelled_by_two_presses_of_a_button(page: Page, server: Server) -> None:
    run_id = server.start(server.save("Cancelled", [APPROVAL]))
    await page.goto(f"{server.entrance}#/runs/{run_id}")
    await expect(page.locator(".run-status")).to_have_text("waiting")

    await page.get_by_role("button", name="Cancel run").focus()
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("button", name="Really cancel?")).to_be_focused()
    assert server.call("GET", f"/runs/{run_id}")["status"] == "WAITING"
    await page.keyboard.press("Enter")

    await expect(page.locator(".run-status")).to_have_text("cancelled")
    await expect(nodes_of(page).locator(".status", has_text="cancelled")).to_have_count(1)
    await expect(page.get_by_role("button", name="Cancel run")).to_have_count(0)


async def test_signals_waiting_run(page: Page, server: Server) -> None:
    run_id = server.start(server.save("Signalled", [{**APPROVAL, "outputVariable": "approval"}]))
    await page.goto(f"{server.entrance}#/runs/{run_id}")

    await page.get_by_role("button", name="Send a signal").click()
    await expect(page.get_by_label("Event", exact=True)).to_have_value("approve")
    await page.get_by_label("Payload, as JSON").fill('{"by": "Grace", "number": 9007199254740993}')
    await page.get_by_role("button", name="Send", exact=True).click()

    await expect(page.locator(".run-status")).to_have_text("completed")
    await nodes_of(page).filter(has_text="approval").click()
    await expect(page.locator(".node-detail")).to_contain_text("9007199254740993")


async def test_a_failed_run_says_what_happened(page: Page, server: Server) -> None:
    inward = {"id": "inward", "type": "httpRequest", "config": {"url": "http://127.0.0.1:1/"}}
    run_id = server.start(server.save("Failing", [{**inward, "errorHandling": "fail_workflow"}]))
    await page.goto(f"{server.entrance}#/runs/{run_id}")

    await expect(page.locator(".run-status")).to_have_text("failed")
    await expect(page.locator(".run-page > .notice.error")).to_contain_text(
        re.compile("inward: 127.0.0.1.*EGRESS_REFUSED")
    )


async def test_the_form_offers_what_the_workflow_gives_as_an_example(page: Page, server: Server) -> None:
    options = {"inputSchema": {"type": "object", "examples": [{"name": "Grace"}]}}
    server.save("Offering", [], workflowOptions=options)
    await page.goto(server.entrance)
    await page.get_by_role("button", name="Start Offering").click()

    await expect(page.get_by_label("Input, as JSON")).to_have_value('{\n  "name": "Grace"\n}')


async def test_the_key_leaves_the_address_and_stays_in_the_tab(page: Page, server: Server) -> None:
    await page.goto(f"{server.entrance}#/")
    await expect(page.get_by_role("heading", name="Workflows")).to_be_visible()
    assert server.key not in page.url

    await page.reload()
    await expect(page.get_by_role("heading", name="Workflows")).to_be_visible()
    await page.get_by_role("button", name="Account and colours").click()
    await page.get_by_role("menuitem", name=re.compile("Sign out")).click()
    await expect(page.get_by_label("API key")).to_be_focused()
    await page.reload()
    await expect(page.get_by_label("API key")).to_be_visible()


async def test_new_tab_is_signed_in(page: Page, server: Server) -> None:
    run_id = server.start(server.save("In a new tab", []))
    await page.goto(f"{server.entrance}#/runs")
    await expect(page.locator(f'[data-run="{run_id}"]')).to_be_visible()

    async with page.context.expect_page() as opened:
        await page.locator(f'[data-run="{run_id}"]').get_by_role("link").click(modifiers=["Control"])
    tab = await opened.value

    await expect(tab.locator(".run-status")).to_have_text("completed")
    assert server.key not in tab.url


async def test_signing_in_takes_a_key_and_refuses_others(page: Page, server: Server, complaints: Complaints) -> None:
    complaints.allowed.append("401")
    await page.goto(server.url)
    await page.get_by_label("API key").fill("ana_wrong")
    await page.keyboard.press("Enter")
    await expect(page.locator("form").get_by_role("alert")).to_have_text("The server does not know this key.")

    await page.get_by_label("API key").fill(server.key)
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("heading", name="Workflows")).to_be_visible()
    await expect(page.locator("#link")).to_have_text("live")


async def test_markup_in_what_tenants_write_is_shown_as_text(page: Page, server: Server) -> None:
    markup = "<img src=x onerror=\"document.title='taken'\"><script>document.title='taken'</script>"
    node = {"id": "set", "type": "set", "config": {"values": {"shown": markup}}, "outputVariable": "shown"}
    run_id = server.start(server.save(markup, [node], name="markup"), {"given": markup})
    await page.goto(server.entrance)
    await expect(page.locator(".workflows .title", has_text=markup)).to_be_visible()

    await page.goto(f"{server.url}/#/runs/{run_id}")
    await expect(page.locator(".run-status")).to_have_text("completed")
    await nodes_of(page).filter(has_text="set").click()
    await expect(page.locator(".node-detail")).to_contain_text("onerror")
    assert await page.locator("main img, main script").count() == 0
    assert "taken" not in await page.title()


async def test_an_input_that_is_refused_is_explained_where_it_was_typed(
    page: Page, server: Server, complaints: Complaints
) -> None:
    complaints.allowed.append("422")
    schema = {"type": "object", "properties": {"count": {"type": "integer", "default": 3}}, "required": ["count"]}
    server.save("With a schema", [], workflowOptions={"inputSchema": schema})
    await page.goto(server.entrance)
    await page.get_by_role("button", name="Start With a schema").click()
    dialog = page.get_by_role("dialog")
    await expect(dialog.get_by_label("Count")).to_have_value("3")
    await dialog.get_by_role("button", name="JSON").click()
    field = dialog.get_by_label("Input, as JSON")
    await expect(field).to_have_value('{\n  "count": 3\n}')

    await field.fill("{count: 3}")
    await dialog.get_by_role("button", name="Start the run").click()
    await expect(dialog.get_by_role("alert")).to_contain_text("This is not JSON")

    await field.fill('{"count": "many"}')
    await dialog.get_by_role("button", name="Start the run").click()
    await expect(dialog.get_by_role("alert")).to_contain_text("/count")


async def test_only_the_chosen_workflows_runs_are_shown_and_the_address_keeps_it(page: Page, server: Server) -> None:
    chosen = server.start(server.save("Chosen", []))
    other = server.start(server.save("Not chosen", []))
    await page.goto(f"{server.entrance}#/runs")
    await expect(page.locator(f'[data-run="{other}"]')).to_be_visible()

    await page.get_by_label("Workflow", exact=True).select_option("chosen")
    await expect(page.locator(f'[data-run="{other}"]')).to_have_count(0)
    await expect(page.locator(f'[data-run="{chosen}"]')).to_be_visible()

    await page.reload()
    await expect(page.locator(f'[data-run="{chosen}"]')).to_be_visible()
    await expect(page.locator(f'[data-run="{other}"]')).to_have_count(0)


async def test_runs_are_found_by_status_version_input_error_and_time(page: Page, server: Server) -> None:
    failing = {
        "id": "charge",
        "type": "stopWithError",
        "config": {"message": "the card of {{ctx.input.customer.id}} was refused"},
    }
    name = server.save("Filtered", [failing])
    runs = {number: server.start(name, {"customer": {"id": number}}) for number in (17, 18)}
    for run_id in runs.values():
        server.call("GET", f"/runs/{run_id}?wait=30s")
    await page.goto(f"{server.entrance}#/runs?workflow={name}")
    await expect(page.locator("[data-run]")).to_have_count(2)
    filters = page.get_by_role("search", name="Filter runs")
    for field, typed, found in (
        ("Input contains", "customer.id=17", [17]),
        ("Input contains", "", [17, 18]),
        ("Error contains", "card of 18", [18]),
        ("Error contains", "", [17, 18]),
        ("Version", "2", []),
        ("Version", "1", [17, 18]),
    ):
        await filters.get_by_label(field).fill(typed)
        await page.keyboard.press("Enter")
        await expect(page.locator("[data-run]")).to_have_count(len(found))
        for number in found:
            await expect(page.locator(f'[data-run="{runs[number]}"]')).to_be_visible()
    for field, chosen, count in (("Status", "COMPLETED", 0), ("Status", "FAILED", 2), ("Created", "1h", 2)):
        await filters.get_by_label(field, exact=True).select_option(chosen)
        await expect(page.locator("[data-run]")).to_have_count(count)
    assert {"status=FAILED", "since=1h", "version=1"} <= set(page.url.partition("?")[2].split("&"))


async def test_several_runs_are_cancelled_together_after_it_was_said_how_many(page: Page, server: Server) -> None:
    name = server.save("Cancelled together", [APPROVAL])
    run_ids = [server.start(name), server.start(name)]
    await page.goto(f"{server.entrance}#/runs?workflow={name}")
    for run_id in run_ids:
        await page.get_by_role("checkbox", name=f"Select run {run_id}").check()

    await page.get_by_role("button", name="Cancel 2…").click()
    await page.get_by_role("dialog", name="Cancel 2 runs?").get_by_role("button", name="Cancel 2").click()

    for run_id in run_ids:
        await expect(page.locator(f'[data-run="{run_id}"] .status')).to_have_text("cancelled")
        await page.get_by_role("checkbox", name=f"Select run {run_id}").check()

    await page.get_by_role("button", name="Retry 2…").click()
    await page.get_by_role("dialog", name="Retry 2 runs?").get_by_role("button", name="Retry 2").click()
    for run_id in run_ids:
        await expect(page.locator(f'[data-run="{run_id}"] .status')).to_have_text("waiting")


async def test_a_workflow_is_paused_and_an_older_version_activated(page: Page, server: Server) -> None:
    name = server.save("Gated", [])
    await page.goto(f"{server.entrance}#/workflows/{name}")
    await page.get_by_role("textbox", name="Title of the workflow").fill("Gated again")
    await page.get_by_role("button", name="More", exact=True).click()
    await page.get_by_role("menuitem", name="Publish without activating").click()
    await expect(page.locator(".toasts")).to_contain_text("Starts still take version 1.")
    await page.get_by_role("button", name="More", exact=True).click()
    await page.get_by_role("menuitem", name="Versions…").click()
    await page.get_by_role("button", name="Activate version 2").click()
    await expect(page.locator(".version", has_text="v2")).to_contain_text("active")
    assert server.call("GET", f"/workflows/{name}")["activeVersion"] == 2

    await page.goto(f"{server.url}/#/")
    await page.get_by_role("button", name="More about Gated again").click()
    await page.get_by_role("menuitem", name="Pause").click()
    row = page.get_by_role("row", name=re.compile("Gated again"))
    await expect(row).to_contain_text("paused")
    await page.goto(f"{server.url}/#/runs/{server.start(name)}")
    await expect(page.locator(".run-head")).to_contain_text("its workflow is paused")
    server.call("POST", f"/workflows/{name}/resume")
    await expect(page.locator(".run-status")).to_have_text("completed")


async def test_all_runs_of_a_tenant_are_paused_by_two_presses_of_a_button(page: Page, server: Server) -> None:
    name = server.save("Of a paused tenant", [])
    await page.goto(server.entrance)
    try:
        await page.get_by_role("button", name="Pause all runs").click()
        await page.get_by_role("button", name="Really pause all runs?").click()
        await expect(page.get_by_text("All runs have been paused")).to_be_visible()
        run_id = server.start(name)
        await page.goto(f"{server.url}/#/runs/{run_id}")
        await expect(page.locator(".run-head")).to_contain_text("all runs are paused")
        await page.goto(f"{server.url}/#/runs?workflow={name}")
        await expect(page.locator(f'[data-run="{run_id}"]')).to_contain_text("all runs are paused")
        await page.goto(f"{server.url}/#/")
        await page.get_by_role("button", name="Resume all").click()
        await expect(page.get_by_role("button", name="Pause all runs")).to_be_visible()
    finally:
        server.call("POST", "/resume")
    row = page.get_by_role("row", name=re.compile("Of a paused tenant"))
    await expect(row.get_by_role("link", name="1 completed")).to_have_attribute(
        "title", "completed in the last 24 hours"
    )


async def test_viewer_sees_no_verbs(page: Page, server: Server, complaints: Complaints) -> None:
    run_id = server.start(server.save("Only seen", [APPROVAL]))
    await page.goto(f"{server.url}/?key={server.key_of('viewer')}")
    await expect(row_of(page, "Only seen")).to_be_visible()
    await expect(page.get_by_role("button", name=re.compile("^(Start|New)"))).to_have_count(0)

    await page.goto(f"{server.url}/#/runs/{run_id}")
    await expect(page.locator(".run-status")).to_have_text("waiting")
    await expect(page.get_by_role("button", name=re.compile("Cancel|signal"))).to_have_count(0)

    await page.goto(f"{server.url}/#/workflows/only-seen")
    await expect(page.get_by_text("Your key may read workflows")).to_be_visible()
    await expect(page.get_by_role("button", name=re.compile("Publish|Test"))).to_have_count(0)
    await expect(page.get_by_role("textbox", name="Title of the workflow")).not_to_be_editable()


@pytest.mark.timeout(300)  # it waits for two servers to start and one to stop, each as slow as the machine
async def test_the_page_comes_back_to_life_with_its_server(page: Page, complaints: Complaints, tmp_path: Path) -> None:
    complaints.allowed += [
        "ERR_CONNECTION_REFUSED",
        "WebSocket connection",
        "ERR_EMPTY_RESPONSE",
        "ERR_CONNECTION_RESET",
    ]
    port = lasting_port()
    with running_server(tmp_path / "server", port=port, key="ana_a_key_that_outlives_the_process") as first:
        run_id = first.start(first.save("Outliving", [APPROVAL]))
        await page.goto(f"{first.entrance}#/runs")
        await expect(page.locator("#link")).to_have_text("live")
    await expect(page.locator("#link")).to_have_text("connecting again")
    await expect(page.locator("#alarm")).to_be_visible()

    with running_server(tmp_path / "server", port=port, key=first.key) as second:
        await expect(page.locator("#link")).to_have_text("live", timeout=PATIENCE_MS)
        second.call("POST", f"/runs/{run_id}/signals/approve", None)
        await expect(page.locator(f'[data-run="{run_id}"] .status')).to_have_text("completed")
        await expect(page.locator("#alarm")).to_have_count(0)


async def test_phone_390(page: Page, server: Server) -> None:
    await page.set_viewport_size({"width": 390, "height": 800})
    run_id = server.start(server.save("A title that is rather long for a telephone", [APPROVAL]))
    for path in ("/", "/runs", f"/runs/{run_id}"):
        await page.goto(f"{server.entrance}#{path}")
        await expect(page.locator("a, h1", has_text=re.compile("telephone")).first).to_be_visible()
        await page.wait_for_function(f"{RIGHTMOST} <= 390")  # once the canvas has found its place

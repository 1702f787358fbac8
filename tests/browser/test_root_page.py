"""The page at `/` as a person has it: signing in, starting, watching, cancelling."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.async_api import Page, Route, expect

from tests.browser.conftest import IN_THE_BROWSER, PATIENCE_MS, Complaints, Server, running_server
from tests.ports import lasting_port

pytestmark = IN_THE_BROWSER

expect.set_options(timeout=PATIENCE_MS)

PAUSE = {"id": "pause", "type": "delay", "config": {"duration": "1s"}}
RIGHTMOST = "Math.max(...[...document.querySelectorAll('body *')].map((e) => e.getBoundingClientRect().right))"

APPROVAL = {"id": "approval", "type": "waitForEvent", "config": {"event": "approve"}}


async def test_a_run_that_is_started_is_seen_to_complete_by_itself(page: Page, server: Server) -> None:
    server.save("Tea", [PAUSE, {"id": "end", "type": "end"}])
    await page.goto(server.entrance)
    card = page.locator(".card", has=page.get_by_role("heading", name="Tea", exact=True))

    await card.get_by_role("button", name="Start", exact=True).click()
    await page.keyboard.press("Control+Enter")

    row = page.locator(".row", has_text="tea")
    await expect(row).to_have_count(1)
    await expect(row.locator(".status")).to_have_text("completed")
    await card.get_by_role("link", name="Watch this run").click()
    await expect(page.locator(".run .nodes .status")).to_have_text(["success", "success", "success"])


async def test_a_run_that_somebody_else_starts_appears_and_moves(page: Page, server: Server) -> None:
    name = server.save("Started elsewhere", [APPROVAL])
    await page.goto(server.entrance)
    await expect(page.locator("#link")).to_have_text("live")

    run_id = server.start(name)
    row = page.locator(f'.row[href="#/runs/{run_id}"]')
    await expect(row.locator(".status")).to_have_text("waiting")
    await page.route("**/v1/runs?*", leave_unanswered)
    server.call("POST", f"/runs/{run_id}/signals/approve", {"by": "Grace"})

    await expect(row.locator(".status")).to_have_text("completed")  # told live: lists are not answered any more


async def leave_unanswered(route: Route) -> None:
    """Let a request of the page wait for ever."""


async def test_a_runs_page_follows_its_nodes_its_log_and_its_end(page: Page, server: Server) -> None:
    value = {"id": "value", "type": "set", "config": {"values": {"greeting": "hello"}}, "outputVariable": "value"}
    run_id = server.start(server.save("Followed", [value, APPROVAL]), {"who": "Ada"})
    await page.goto(f"{server.entrance}#/runs/{run_id}")
    nodes = page.locator(".run .nodes > li")
    await expect(nodes.locator(".status")).to_have_text(["success", "success", "waiting"])
    await page.locator("summary", has_text="Log").click()
    log = page.locator(".run .log")
    await expect(log).to_contain_text("NODE_WAITING")

    server.call("POST", f"/runs/{run_id}/signals/approve", {"by": "Grace"})

    await expect(page.locator(".run .facts .status")).to_have_text("completed")
    await expect(nodes.locator(".status")).to_have_text(["success", "success", "success"])
    await expect(log).to_contain_text("INSTANCE_COMPLETED")
    await nodes.nth(1).locator("summary").click()
    await expect(nodes.nth(1).locator("pre")).to_contain_text('"greeting": "hello"')
    await expect(page.locator(".run .block", has_text="Input").locator("pre")).to_contain_text('"who": "Ada"')


async def test_a_run_is_cancelled_by_two_presses_of_a_button(page: Page, server: Server) -> None:
    run_id = server.start(server.save("Cancelled", [APPROVAL]))
    await page.goto(f"{server.entrance}#/runs/{run_id}")
    await expect(page.locator(".run .facts .status")).to_have_text("waiting")

    await page.get_by_role("button", name="Cancel run").focus()
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("button", name="Really cancel?")).to_be_focused()
    assert server.call("GET", f"/runs/{run_id}")["status"] == "WAITING"
    await page.keyboard.press("Enter")

    await expect(page.locator(".run .facts .status")).to_have_text("cancelled")
    await expect(page.locator(".run .nodes .status").last).to_have_text("cancelled")
    await expect(page.get_by_role("button", name="Cancel run")).to_be_hidden()


async def test_a_failed_run_says_what_happened(page: Page, server: Server) -> None:
    inward = {"id": "inward", "type": "httpRequest", "config": {"url": "http://127.0.0.1:1/"}}
    run_id = server.start(server.save("Failing", [{**inward, "errorHandling": "fail_workflow"}]))
    await page.goto(f"{server.entrance}#/runs/{run_id}")

    await expect(page.locator(".run .facts .status")).to_have_text("failed")
    await expect(page.locator(".run > .problem").last).to_contain_text("inward: EGRESS_REFUSED: 127.0.0.1")


async def test_a_long_run_shows_its_result_at_once_and_what_went_wrong_first(page: Page, server: Server) -> None:
    odd = {"branches": [{"id": "odd", "expression": "{{ctx.item == 599}}"}]}
    nodes = [
        {"id": "start", "type": "start"},
        {
            "id": "each",
            "type": "loop",
            "config": {"source": "{{ctx.input.items}}", "concurrency": 50, "onItemError": "collect"},
            "outputVariable": "done",
        },
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
    run_id = server.start(name, {"items": list(range(600))})
    await page.goto(f"{server.entrance}#/runs/{run_id}")
    await expect(page.locator(".run .facts .status")).to_have_text("completed")

    # The result needs no list of nodes: here that never comes.
    await page.route("**/steps?*", leave_unanswered)
    await page.reload()
    await expect(page.locator(".run .block", has_text="Output").locator("pre")).to_contain_text('"count": 600')
    await page.unroute("**/steps?*")
    await page.reload()

    await expect(page.locator(".run")).to_contain_text("500 of 1,203 are shown")
    first = page.locator(".run .nodes > li").first
    await expect(first).to_contain_text("each[599] › bad")
    await expect(first.locator(".status")).to_have_text("error")
    await expect(page.locator(".run .nodes > li .what", has_text="end")).to_have_text("end")


async def test_the_form_offers_what_the_workflow_gives_as_an_example(page: Page, server: Server) -> None:
    options = {"inputSchema": {"type": "object", "examples": [{"name": "Grace"}]}}
    server.save("Offering", [], workflowOptions=options)
    await page.goto(server.entrance)
    card = page.locator(".card", has=page.get_by_role("heading", name="Offering", exact=True))
    await card.get_by_role("button", name="Start", exact=True).click()

    await expect(card.get_by_label("Input, as JSON")).to_have_value('{\n  "name": "Grace"\n}')


async def test_the_key_leaves_the_address_and_stays_in_the_tab(page: Page, server: Server) -> None:
    await page.goto(f"{server.entrance}#/")
    await expect(page.locator("#board")).to_be_visible()
    assert server.key not in page.url

    await page.reload()
    await expect(page.locator("#board")).to_be_visible()
    await page.get_by_role("button", name="Sign out").click()
    await expect(page.get_by_label("API key")).to_be_focused()
    await page.reload()
    await expect(page.get_by_label("API key")).to_be_visible()


async def test_signing_in_takes_a_key_and_refuses_others(page: Page, server: Server, complaints: Complaints) -> None:
    complaints.allowed.append("401")
    await page.goto(server.url)
    await page.get_by_label("API key").fill("ana_wrong")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("alert").filter(visible=True)).to_have_text("The server does not know this key.")

    await page.get_by_label("API key").fill(server.key)
    await page.keyboard.press("Enter")
    await expect(page.locator("#board")).to_be_visible()
    await expect(page.locator("#link")).to_have_text("live")


async def test_markup_in_what_tenants_write_is_shown_as_text(page: Page, server: Server) -> None:
    markup = "<img src=x onerror=\"document.title='taken'\"><script>document.title='taken'</script>"
    node = {"id": "set", "type": "set", "config": {"values": {"shown": markup}}, "outputVariable": "shown"}
    run_id = server.start(server.save(markup, [node], name="markup"), {"given": markup})
    await page.goto(server.entrance)
    await expect(page.locator(".card .title", has_text=markup)).to_be_visible()

    await page.goto(f"{server.url}/#/runs/{run_id}")
    await expect(page.locator(".run .facts .status")).to_have_text("completed")
    await page.locator(".run .nodes > li").nth(1).locator("summary").click()
    await expect(page.locator(".run .nodes > li").nth(1).locator("pre")).to_contain_text("onerror")
    assert await page.locator("main img, main script").count() == 0
    assert "taken" not in await page.title()


async def test_an_input_that_is_refused_is_explained_where_it_was_typed(
    page: Page, server: Server, complaints: Complaints
) -> None:
    complaints.allowed.append("422")
    schema = {"type": "object", "properties": {"count": {"type": "integer", "default": 3}}, "required": ["count"]}
    server.save("With a schema", [], workflowOptions={"inputSchema": schema})
    await page.goto(server.entrance)
    card = page.locator(".card", has_text="With a schema")
    await card.get_by_role("button", name="Start", exact=True).click()
    field = card.get_by_label("Input, as JSON")
    await expect(field).to_have_value('{\n  "count": 3\n}')

    await field.fill("{count: 3}")
    await card.get_by_role("button", name="Start the run").click()
    await expect(card.get_by_role("alert")).to_contain_text("This is not JSON")

    await field.fill('{"count": "many"}')
    await card.get_by_role("button", name="Start the run").click()
    await expect(card.get_by_role("alert")).to_contain_text("count")


async def test_only_the_chosen_workflows_runs_are_shown(page: Page, server: Server) -> None:
    chosen = server.start(server.save("Chosen", []))
    other = server.start(server.save("Not chosen", []))
    await page.goto(server.entrance)
    await expect(page.locator(f'.row[href="#/runs/{other}"]')).to_be_visible()

    await page.get_by_role("link", name="Chosen", exact=True).click()
    await expect(page.locator(f'.row[href="#/runs/{other}"]')).to_have_count(0)
    await expect(page.locator(f'.row[href="#/runs/{chosen}"]')).to_be_visible()


@pytest.mark.timeout(300)  # it waits for two servers to start and one to stop, each as slow as the machine
async def test_the_page_comes_back_to_life_with_its_server(page: Page, complaints: Complaints, tmp_path: Path) -> None:
    complaints.allowed += ["ERR_CONNECTION_REFUSED", "WebSocket connection"]
    port = lasting_port()
    with running_server(tmp_path / "server", port=port, key="ana_a_key_that_outlives_the_process") as first:
        run_id = first.start(first.save("Outliving", [APPROVAL]))
        await page.goto(first.entrance)
        await expect(page.locator("#link")).to_have_text("live")
    await expect(page.locator("#link")).to_have_text("connecting again")
    await expect(page.locator("#alarm")).to_be_visible()

    with running_server(tmp_path / "server", port=port, key=first.key) as second:
        await expect(page.locator("#link")).to_have_text("live", timeout=PATIENCE_MS)
        second.call("POST", f"/runs/{run_id}/signals/approve", None)
        await expect(page.locator(f'.row[href="#/runs/{run_id}"] .status')).to_have_text("completed")
        await expect(page.locator("#alarm")).to_be_hidden()


async def test_a_narrow_screen_needs_no_scrolling_sideways(page: Page, server: Server) -> None:
    await page.set_viewport_size({"width": 400, "height": 800})
    run_id = server.start(server.save("A title that is rather long for a telephone", [APPROVAL]))
    await page.goto(server.entrance)
    await expect(page.locator(f'.row[href="#/runs/{run_id}"]')).to_be_visible()
    assert await page.evaluate(RIGHTMOST) <= 400

    await page.goto(f"{server.url}/#/runs/{run_id}")
    await expect(page.locator(".run .facts .status")).to_have_text("waiting")
    assert await page.evaluate(RIGHTMOST) <= 400

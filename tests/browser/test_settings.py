"""Schedules, topics and settings as a person has them: lists, forms, and what a key's role leaves out."""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Literal

import pytest
from playwright.async_api import Locator, Page, expect

from tests.browser import axe
from tests.browser.conftest import IN_THE_BROWSER, PATIENCE_MS, Complaints, Server, running_server

pytestmark = IN_THE_BROWSER

expect.set_options(timeout=PATIENCE_MS)

PAGES = (
    "/schedules",
    "/schedules/topics",
    "/schedules/webhooks",
    "/schedules/workflows",
    "/settings/secrets",
    "/settings/variables",
    "/settings/sources",
    "/settings/queries",
    "/settings/keys",
    "/settings/audit",
)
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
RIGHTMOST = "Math.max(...[...document.querySelectorAll('body *')].map((e) => e.getBoundingClientRect().right))"
VERBS = re.compile("New|Edit|Delete|Start|Try|Publish|Subscribe|End|Revoke")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server whose folder has a database for data sources."""
    folder = tmp_path_factory.mktemp("dev")
    with closing(sqlite3.connect(folder / "shop.db")) as shop, shop:
        shop.execute("CREATE TABLE orders (id INTEGER, customer TEXT)")
        shop.execute("INSERT INTO orders VALUES (9007199254740993, 'Ada'), (2, 'Grace')")
    with running_server(folder) as running:
        yield running


def picture(name: str) -> str | None:
    """Where a screenshot is kept, for whoever wants to look at it: only with `ANABRANCH_TEST_PICTURES`."""
    folder = os.environ.get("ANABRANCH_TEST_PICTURES")
    return None if folder is None else str(Path(folder) / f"{name}.png")


async def look_at(page: Page, name: str) -> None:
    """Axe finds nothing in either theme; what the policy forbids is a complaint, which fails the test at its end."""
    assert await axe.findings(page) == [], name
    for scheme in SCHEMES if picture(name) is not None else ():
        await page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
        await page.screenshot(path=picture(f"{name}-{scheme}"))


def row(page: Page, kind: str, name: str) -> Locator:
    """A row of a list."""
    return page.locator(f'tr[data-{kind}="{name}"]')


async def test_a_schedule_is_made_started_disabled_backfilled_and_deleted(
    page: Page, server: Server, complaints: Complaints
) -> None:
    complaints.allowed.append("422")  # the form is sent without its cron expression
    options = {"inputSchema": {"type": "object", "properties": {"count": {"type": "integer", "default": 3}}}}
    name = server.save("Heartbeat", [], workflowOptions=options)
    await page.goto(f"{server.entrance}#/schedules")
    await expect(page.get_by_role("heading", name="No schedule yet")).to_be_visible()
    await look_at(page, "schedules-empty")

    await page.get_by_role("button", name="New schedule").click()
    dialog = page.get_by_role("dialog", name="New schedule")
    await dialog.get_by_label("Name").fill("often")
    await dialog.get_by_label("Workflow").fill(name)
    await expect(dialog.get_by_label("Count")).to_have_value("3")
    await dialog.get_by_label("Count").fill("9007199254740993")
    await look_at(page, "schedule-form")
    await dialog.get_by_role("button", name="Create the schedule").click()
    await expect(dialog.get_by_role("alert")).to_contain_text("cron")
    await dialog.get_by_label("Starts").select_option(label="interval")
    await dialog.get_by_label("Every").fill("10m")
    await dialog.get_by_role("button", name="Create the schedule").click()
    often = row(page, "schedule", "often")
    await expect(often).to_contain_text("every 10m")
    await expect(often).to_contain_text(re.compile(r"in \d+ min"))

    await often.get_by_role("button", name="Start now: often").click()
    await page.get_by_role("button", name="Open it").click()
    await expect(page.locator(".run-status")).to_have_text("completed")
    run_id = page.url.rsplit("/", 1)[-1]
    assert server.call("GET", f"/runs/{run_id}")["input"] == {"count": 9007199254740993}

    await page.goto(f"{server.url}/#/schedules")
    await often.get_by_role("switch").click()
    await expect(often).to_contain_text("off")
    stored = server.call("GET", "/schedules/often")
    assert (stored["enabled"], stored["input"]) == (False, {"count": 9007199254740993})

    await often.get_by_role("button", name="More about often").click()
    await page.get_by_role("menuitem", name="Edit…").click()
    dialog = page.get_by_role("dialog", name="Edit often")
    await dialog.get_by_label("Every").fill("1h")
    await dialog.get_by_role("button", name="Save").click()
    await expect(often).to_contain_text("every 1h")
    await expect(often).to_contain_text("off")
    await look_at(page, "schedules")

    await often.get_by_role("button", name="More about often").click()
    await page.get_by_role("menuitem", name="Start past occurrences…").click()
    dialog = page.get_by_role("dialog", name="Start past occurrences of often")
    await look_at(page, "backfill")
    await dialog.get_by_role("button", name="Start the runs").click()
    await expect(dialog.get_by_role("status")).to_contain_text("0 runs are started")
    await dialog.get_by_role("button", name="Done").click()

    await often.get_by_role("button", name="More about often").click()
    await page.get_by_role("menuitem", name="Delete…").click()
    await page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    await expect(page.get_by_role("heading", name="No schedule yet")).to_be_visible()


async def test_a_workflow_is_subscribed_and_a_published_message_starts_it(page: Page, server: Server) -> None:
    name = server.save("Onboard", [])
    await page.goto(f"{server.entrance}#/schedules/topics")
    await page.get_by_role("button", name="Subscribe a workflow").click()
    dialog = page.get_by_role("dialog", name="Subscribe a workflow")
    await dialog.get_by_label("Topic, or a pattern of topics").fill("user.*")
    await dialog.get_by_label("Workflow").fill(name)
    await look_at(page, "subscribe")
    await dialog.get_by_role("button", name="Subscribe", exact=True).click()
    await expect(row(page, "subscription", "user.*")).to_contain_text(name)

    await page.get_by_role("button", name="Publish a message", exact=True).click()
    dialog = page.get_by_role("dialog", name="Publish a message")
    await dialog.get_by_label("Topic").fill("user.signup")
    await dialog.get_by_label("Message, as JSON").fill('{"email": "ada@example.org"}')
    await dialog.get_by_role("button", name="Publish", exact=True).click()
    await expect(dialog.get_by_role("status")).to_contain_text("has started 1 run")
    await look_at(page, "published")
    await dialog.get_by_role("status").get_by_role("link").click()
    await expect(page.locator(".run-status")).to_have_text("completed")

    await page.goto(f"{server.url}/#/schedules/topics")
    await look_at(page, "topics")
    await page.get_by_role("button", name=f"End… the subscription of {name} to user.*").click()
    await page.get_by_role("dialog").get_by_role("button", name="End it").click()
    await expect(page.get_by_role("heading", name="No workflow is subscribed to a topic")).to_be_visible()

    # What a published node has armed is shown with it, and changed there.
    triggers = [
        {"id": "signup", "type": "topic", "config": {"topic": "user.signup"}},
        {"id": "daily", "type": "schedule", "config": {"cron": "0 9 * * *"}},
        {"id": "called", "type": "webhook", "config": {"path": "greet", "auth": {"kind": "none"}}},
        {"id": "failed", "type": "failure", "config": {}},
        {"id": "child", "type": "workflowCall", "config": {}},
    ]
    said = {"id": "said", "type": "end", "config": {"outputParameters": {"got": "{{ctx.input}}"}}}
    edges = [{"upstreamNodeID": each["id"], "downstreamNodeID": "said"} for each in triggers]
    server.call("POST", "/workflows", {"title": "Greeter", "nodes": [*triggers, said], "edges": edges})
    await page.reload()
    await expect(row(page, "subscription", "user.signup")).to_contain_text("armed by its node signup")
    await expect(page.get_by_role("button", name="End… the subscription")).to_have_count(0)
    await page.goto(f"{server.url}/#/schedules")
    await expect(row(page, "schedule", "greeter/daily")).to_contain_text("armed by its node daily")
    await expect(row(page, "schedule", "greeter/daily").get_by_role("switch")).to_have_count(0)

    await page.get_by_role("link", name="Webhooks").click()
    await expect(row(page, "webhook", "greet")).to_contain_text("at its node called")
    await page.get_by_role("button", name="Copy the address greet").click()
    await expect(page.get_by_text("Copied")).to_be_visible()
    await look_at(page, "webhooks")

    await page.get_by_role("link", name="By workflow").click()
    greeter = row(page, "begins", "greeter")
    await expect(greeter).to_contain_text("requests to /hooks/…/greet at its node called")
    await expect(greeter).to_contain_text("failed runs of any other workflow at its node failed")
    await expect(greeter).to_contain_text("calls of other workflows at its node child")
    await look_at(page, "by-workflow")

    # Nobody starts it by hand; a test begins where one chooses, and the canvas shows what it began at.
    await page.goto(f"{server.url}/#/workflows/greeter")
    await page.get_by_role("button", name="Test", exact=True).click()
    dialog = page.get_by_role("dialog", name="Test the workflow as it is drawn")
    await dialog.get_by_label("Begins at").select_option("daily")
    await dialog.get_by_role("button", name="Run the test").click()
    await expect(page.get_by_role("region", name="Test run").locator(".status")).to_have_text("completed")
    await expect(page.locator('[data-node-id="daily"]')).to_have_attribute("data-status", "success")
    await expect(page.locator('[data-node-id="signup"]')).to_have_attribute("data-status", "skipped")
    await page.get_by_role("button", name="More", exact=True).click()
    await page.get_by_role("menuitem", name="Start a run…").click()
    await expect(page.get_by_role("dialog", name="Start Greeter")).to_contain_text("NO_MANUAL_START")


async def test_a_variable_is_set_shown_and_deleted(page: Page, server: Server) -> None:
    await page.goto(f"{server.entrance}#/settings/variables")
    await page.get_by_role("button", name="New variable").click()
    dialog = page.get_by_role("dialog", name="New variable")
    await dialog.get_by_label("Name").fill("LIMITS")
    await dialog.get_by_label("Value", exact=True).fill('{"orders": 50}')
    await dialog.get_by_label("The value is JSON").check()
    await look_at(page, "variable-form")
    await dialog.get_by_role("button", name="Set it").click()
    shown = row(page, "variable", "LIMITS")
    await expect(shown).to_contain_text('{"orders":50}')
    await shown.get_by_role("button", name="Delete LIMITS").click()
    await page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    await expect(page.get_by_role("heading", name="No variable yet")).to_be_visible()


async def test_a_secret_is_stored_found_where_it_is_used_and_never_shown(page: Page, server: Server) -> None:
    await page.goto(f"{server.entrance}#/settings")
    await page.get_by_role("button", name="New secret").click()
    dialog = page.get_by_role("dialog", name="New secret")
    await dialog.get_by_label("Name").fill("API_TOKEN")
    await dialog.get_by_label("Value").fill("a long and secret value")
    await look_at(page, "secret-form")
    await dialog.get_by_role("button", name="Store it").click()
    stored = row(page, "secret", "API_TOKEN")
    await expect(stored).to_be_visible()
    await expect(page.locator("body")).not_to_contain_text("a long and secret value")
    server.save(
        "Sender",
        [
            {
                "id": "send",
                "type": "httpRequest",
                "config": {"url": "https://example.org/", "headers": {"X": "{{secret.API_TOKEN}}"}},
            }
        ],
    )
    server.save("No sender", [])

    await stored.get_by_role("button", name="Where used: API_TOKEN").click()
    dialog = page.get_by_role("dialog", name="Where API_TOKEN is used")
    await expect(dialog.get_by_role("link")).to_have_text(["Sender"])
    await look_at(page, "secret-uses")
    await dialog.get_by_role("button", name="Close").last.click()
    await look_at(page, "secrets")

    await stored.get_by_role("button", name="Delete API_TOKEN").click()
    await page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    await expect(page.get_by_role("heading", name="No secret yet")).to_be_visible()


async def test_a_data_source_and_a_query_are_saved_and_tried(page: Page, server: Server) -> None:
    await page.goto(f"{server.entrance}#/settings/sources")
    await page.get_by_role("button", name="New data source").click()
    dialog = page.get_by_role("dialog", name="New data source")
    await dialog.get_by_label("Name").fill("shop")
    await dialog.get_by_label("URL").fill("sqlite:///shop.db")
    await look_at(page, "source-form")
    await dialog.get_by_role("button", name="Connect and save").click()
    await expect(row(page, "source", "shop")).to_contain_text("shop.db")

    await page.get_by_role("link", name="Data queries").click()
    await page.get_by_role("button", name="New query").click()
    dialog = page.get_by_role("dialog", name="New data query")
    await dialog.get_by_label("Name", exact=True).fill("by-customer")
    await dialog.get_by_label("SQL").fill("SELECT id, customer FROM orders WHERE customer = :customer")
    await look_at(page, "query-form")
    await dialog.get_by_role("button", name="Create the query").click()
    query = row(page, "query", "by-customer")
    await expect(query).to_contain_text("shop")

    await query.get_by_role("button", name="Try it: by-customer").click()
    dialog = page.get_by_role("dialog", name="Try by-customer")
    await dialog.get_by_label("customer", exact=True).fill("Ada")
    await dialog.get_by_role("button", name="Run the query").click()
    await expect(dialog.get_by_role("region", name="Rows")).to_contain_text("9007199254740993")
    await look_at(page, "query-tried")
    await dialog.get_by_role("button", name="Close").last.click()
    await look_at(page, "queries")

    await page.get_by_role("link", name="Data sources").click()
    await expect(row(page, "source", "shop").get_by_role("link", name="by-customer")).to_be_visible()
    await look_at(page, "sources")


async def test_a_key_is_shown_once_and_revoked(page: Page, server: Server) -> None:
    await page.goto(f"{server.entrance}#/settings/keys")
    await page.get_by_role("button", name="New key").click()
    await page.get_by_role("radio", name=re.compile("viewer")).check()
    await look_at(page, "key-form")
    await page.get_by_role("button", name="Make the key").click()
    made = await page.get_by_label("The new key").inner_text()
    await look_at(page, "key-made")
    await page.get_by_role("button", name="I have copied it").click()
    await expect(page.locator("body")).not_to_contain_text(made)

    viewer = page.locator("tr[data-key]", has=page.get_by_role("cell", name="viewer", exact=True)).first
    await look_at(page, "keys")
    await viewer.get_by_role("button", name="Revoke").click()
    await page.get_by_role("dialog").get_by_role("button", name="Revoke").click()
    await expect(page.get_by_label("Show 1 revoked or expired key")).to_be_visible()

    await page.get_by_role("link", name="Audit trail").click()
    await expect(page.locator('tr[data-audit="key.revoked"]')).to_be_visible()
    await look_at(page, "audit")


async def test_a_key_of_an_executor_names_its_pools(page: Page, server: Server, complaints: Complaints) -> None:
    complaints.allowed.append("422")  # a pool has no such name
    await page.goto(f"{server.entrance}#/settings/keys")
    await page.get_by_role("button", name="New key").click()
    await expect(page.get_by_role("textbox", name="Pools")).to_have_count(0)
    await page.get_by_role("radio", name=re.compile("executor")).check()
    await page.get_by_role("textbox", name="Pools").fill(" ,")
    await expect(page.get_by_role("button", name="Make the key")).to_be_disabled()
    await page.get_by_role("textbox", name="Pools").fill("GPU")
    await page.get_by_role("button", name="Make the key").click()
    await expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text("GPU")
    await page.get_by_role("textbox", name="Pools").fill("gpu, default")
    await look_at(page, "key-form-executor")
    await page.get_by_role("button", name="Make the key").click()
    await page.get_by_role("button", name="I have copied it").click()

    made = page.locator("tr[data-key]", has=page.get_by_role("cell", name="executor")).first
    await expect(made).to_contain_text("gpu, default")


async def test_a_viewer_is_offered_no_verb_and_told_what_the_key_may_not_see(page: Page, server: Server) -> None:
    name = server.save("Seen only", [])
    server.call("POST", "/schedules", {"name": "seen", "workflow": name, "every": "1h"})
    server.call("POST", "/topics/seen.only/subscriptions", {"type": "workflow", "name": name})
    await page.goto(f"{server.url}/?key={server.key_of('viewer')}#/schedules")
    await expect(row(page, "schedule", "seen")).to_be_visible()
    await expect(page.get_by_role("button", name=VERBS)).to_have_count(0)
    await expect(page.get_by_role("switch")).to_have_count(0)
    await page.get_by_role("link", name="Topics").click()
    await expect(row(page, "subscription", "seen.only")).to_be_visible()
    await expect(page.get_by_role("button", name=VERBS)).to_have_count(0)

    await page.get_by_role("link", name="Settings").click()
    await expect(page.get_by_role("navigation", name="Settings").get_by_role("link")).to_have_text(
        ["Variables", "Data sources", "Data queries"]
    )
    await expect(page.get_by_role("button", name=VERBS)).to_have_count(0)
    for part in ("secrets", "keys", "audit"):
        await page.goto(f"{server.url}/#/settings/{part}")
        await expect(page.get_by_role("heading", name=re.compile("Your key may not see"))).to_be_visible()
    await look_at(page, "no-permission")


async def test_every_page_fits_a_telephone(page: Page, server: Server) -> None:
    name = server.save("With a rather long name for a telephone", [])
    server.call(
        "POST", "/schedules", {"name": "a-rather-long-name-of-a-schedule", "workflow": name, "cron": "0 9 * * MON-FRI"}
    )
    await page.set_viewport_size({"width": 390, "height": 800})
    for path in PAGES:
        await page.goto(f"{server.entrance}#{path}")
        await expect(page.locator("table.listed, .empty").first).to_be_visible()
        assert await page.evaluate(RIGHTMOST) <= 390, path
        await look_at(page, f"phone{path.replace('/', '-')}")

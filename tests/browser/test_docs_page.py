"""The page at `/docs`: the operations are there, and can be tried with the tab's key."""

from __future__ import annotations

from playwright.async_api import Page, expect

from tests.browser.conftest import IN_THE_BROWSER, PATIENCE_MS, Complaints, Server

pytestmark = IN_THE_BROWSER

expect.set_options(timeout=PATIENCE_MS)


async def test_an_operation_can_be_tried_with_the_key_of_the_tab(page: Page, server: Server) -> None:
    name = server.save("Seen on the API page", [])
    await page.goto(server.entrance)
    await page.get_by_role("link", name="API", exact=True).click()
    operation = page.locator(".opblock-get").filter(has=page.locator('[data-path="/v1/workflows"]'))

    await operation.locator(".opblock-summary").click()
    await operation.get_by_role("button", name="Execute").click()

    answer = operation.locator(".live-responses-table")
    await expect(answer).to_contain_text("200")
    await expect(answer).to_contain_text(name)


async def test_without_a_key_trying_is_refused_and_the_page_says_what_to_do(
    page: Page, server: Server, complaints: Complaints
) -> None:
    complaints.allowed.append("401")
    await page.goto(f"{server.url}/docs")
    await expect(page.get_by_role("status")).to_contain_text("sign in")
    operation = page.locator(".opblock-get").filter(has=page.locator('[data-path="/v1/workflows"]'))
    await operation.locator(".opblock-summary").click()
    await operation.get_by_role("button", name="Execute").click()

    await expect(operation.locator(".live-responses-table")).to_contain_text("401")


async def test_every_operation_of_the_description_is_drawn(page: Page, server: Server) -> None:
    await page.goto(f"{server.url}/docs?key={server.key}")
    described = await page.evaluate(
        "fetch('/openapi.json').then((answer) => answer.json())"
        ".then(({ paths }) => Object.values(paths).flatMap((methods) => Object.keys(methods)).length)"
    )

    assert described > 0
    await expect(page.locator(".opblock")).to_have_count(described)

"""The states that the documents show: axe finds nothing in either theme, and what styles are made with is there."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from playwright.async_api import Page

from tests.browser import moving
from tests.browser.axe import findings
from tests.browser.conftest import IN_THE_BROWSER, Server
from tests.browser.pictures import FOLDER, STATES, THEMES, VIEWPORT, Scene, prepare

pytestmark = [IN_THE_BROWSER, pytest.mark.timeout(480)]

# README is read on telephones, too.
MOVING_BYTES_MAX = 1_000_000

# Each of these is false where the policy keeps a library from adding its styles, or a size is not that of geometry.ts.
WHAT_STYLES_DO = {
    "editor": """() => [...document.querySelectorAll(".node-card")].every((card) => card.offsetWidth === 216)""",
    "code": """() => getComputedStyle(document.querySelector(".cm-gutters")).display === "flex"
        && document.querySelector(".cm-gutters").getBoundingClientRect().width > 20""",
    # The frame, which is known later than the nodes, is seen whole.
    "region": """() => {
        const canvas = document.querySelector(".canvas").getBoundingClientRect();
        const frame = document.querySelector(".frame.region").getBoundingClientRect();
        return frame.top >= canvas.top && frame.bottom <= canvas.bottom;
    }""",
    "runs": """() => document.body.hasAttribute("data-scroll-locked")
        && getComputedStyle(document.body).overflow === "hidden\"""",
}


@pytest_asyncio.fixture(loop_scope="session")
async def scene(server: Server) -> AsyncIterator[Scene]:
    """What the pictures are of."""
    yield prepare(server)


async def test_axe_finds_nothing_in_any_state_of_the_pictures(page: Page, scene: Scene) -> None:
    await page.set_viewport_size(VIEWPORT)  # type: ignore[arg-type]
    found: dict[str, list[str]] = {}
    for name, show in STATES.items():
        await show(page, scene)
        found[name] = await findings(page)
        if name in WHAT_STYLES_DO:
            await page.wait_for_function(WHAT_STYLES_DO[name])
    assert not any(found.values()), {name: each for name, each in found.items() if each}


async def test_every_state_has_its_pictures() -> None:
    names = {f"{name}-{theme}.png" for name in (*STATES, moving.NAME) for theme in THEMES}
    assert {path.name for path in FOLDER.iterdir() if path.is_file()} == names


@pytest.mark.parametrize("theme", THEMES)
async def test_the_moving_picture_is_small_and_has_all_its_frames(theme: str) -> None:
    picture = (FOLDER / f"{moving.NAME}-{theme}.png").read_bytes()
    names = [name for name, _ in moving.chunks(picture)]
    assert len(picture) < MOVING_BYTES_MAX
    assert names.count(b"fcTL") == len(moving.CAPTIONS)
    assert names[:3] == [b"IHDR", b"acTL", b"fcTL"]

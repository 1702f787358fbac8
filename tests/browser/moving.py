"""The moving picture of README, for `make pictures`: a run on the canvas whose process is killed, and what comes of it.

An animated PNG, put together of screenshots: the format is that of the screenshots, with a few chunks more.
"""

from __future__ import annotations

import struct
import sys
import tempfile
import zlib
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from playwright.async_api import Browser, Page, expect

from tests.browser.conftest import Server, running_server
from tests.ports import lasting_port

NAME = "killed"
VIEWPORT = {"width": 1000, "height": 470}

# Long enough to read a line twice.
FRAME_MS = 2_600

CAPTIONS = (
    "Draw a workflow, or write it in Python.",
    "Start it: the first step is done, and it waits for a person.",
    "$ kill -9 $(pgrep -f anabranch)",
    "Start the process again: the run still waits, and no step is repeated.",
    "The answer comes, and the run goes on where it was.",
)

_SIGNATURE = b"\x89PNG\r\n\x1a\n"

SAY = """(text) => {
  const made = () => document.body.appendChild(Object.assign(document.createElement("p"), {id: "caption"}));
  const line = document.querySelector("#caption") ?? made();
  line.textContent = text;
  line.style.cssText = "position:fixed;left:0;right:0;bottom:0;margin:0;padding:14px 24px;z-index:99;"
    + "font-size:20px;font-weight:600;background:#1d6f7a;color:#fff";
}"""


def refund() -> dict[str, Any]:
    """The workflow: a wait for a person between two steps."""
    nodes = [
        {"id": "start", "type": "start", "name": "New refund"},
        {"id": "look-up", "type": "set", "name": "Look up the order", "config": {"values": {"amount": 42}}},
        {"id": "approval", "type": "waitForEvent", "name": "Ask for approval", "config": {"event": "approve"}},
        {"id": "pay", "type": "set", "name": "Pay it back", "config": {"values": {"paid": 42}}},
        {"id": "end", "type": "end", "name": "Refunded"},
    ]
    for column, node in enumerate(nodes):
        node["position"] = {"x": column * 272, "y": 80}
    ids = [node["id"] for node in nodes]
    edges = [{"upstreamNodeID": one, "downstreamNodeID": other} for one, other in pairwise(ids)]
    return {"title": "Refund", "nodes": nodes, "edges": edges}


async def take_moving(chromium: Browser, folder: Path, themes: Sequence[str], style: str) -> None:
    """Write `killed-THEME.png` for each theme into a folder: the same run, its process killed and started again."""
    for theme in themes:
        context = await chromium.new_context(
            viewport=VIEWPORT,  # type: ignore[arg-type]
            reduced_motion="reduce",
            timezone_id="UTC",
            color_scheme=theme,  # type: ignore[arg-type]
        )
        await context.add_init_script(style)
        frames = [frame async for frame in _frames(await context.new_page())]
        (folder / f"{NAME}-{theme}.png").write_bytes(animated(frames))
        await context.close()
        sys.stdout.write(f"{NAME}-{theme}\n")


async def _frames(page: Page) -> Any:
    port = lasting_port()
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "dev"
        with running_server(home, port=port) as server:
            server.call("POST", "/workflows", refund())
            await page.goto(f"{server.entrance}#/workflows/refund")
            await expect(page.locator('[data-node-id="pay"]')).to_be_visible()
            await expect(page.locator(".certificate")).to_contain_text("Ask for approval")
            await page.get_by_role("button", name="Show everything").click()
            yield await _frame(page, CAPTIONS[0])
            run_id = server.start("refund", {"order": 7})
            await page.goto(f"{server.url}/#/runs/{run_id}")
            await expect(page.locator(".run-status")).to_have_text("waiting")
            await _settled(page, "live")
            yield await _frame(page, CAPTIONS[1])
            server.die()
            await _settled(page, "connecting again")
            yield await _frame(page, CAPTIONS[2])
        with running_server(home, port=port) as server:
            await _settled(page, "live")
            yield await _frame(page, CAPTIONS[3])
            yield await _answered(page, server, run_id)


async def _answered(page: Page, server: Server, run_id: str) -> bytes:
    server.call("POST", f"/runs/{run_id}/signals/approve", {"by": "Ada"})
    await expect(page.locator(".run-status")).to_have_text("completed")
    return await _frame(page, CAPTIONS[4])


async def _settled(page: Page, link: str) -> None:
    await expect(page.locator("#link")).to_have_text(link)


async def _frame(page: Page, caption: str) -> bytes:
    await page.evaluate(SAY, caption)
    return await page.screenshot(animations="disabled")


def animated(frames: Sequence[bytes]) -> bytes:
    """An animated PNG of PNGs of one size; it never ends."""
    header = next(data for name, data in chunks(frames[0]) if name == b"IHDR")
    parts = [_SIGNATURE, _chunk(b"IHDR", header), _chunk(b"acTL", struct.pack(">II", len(frames), 0))]
    number = 0
    for index, frame in enumerate(frames):
        assert next(data for name, data in chunks(frame) if name == b"IHDR") == header, "frames have one size"
        control = struct.pack(">I", number) + header[:8] + struct.pack(">IIHHBB", 0, 0, FRAME_MS, 1000, 0, 0)
        parts.append(_chunk(b"fcTL", control))
        number += 1
        pixels = zlib.decompress(b"".join(data for name, data in chunks(frame) if name == b"IDAT"))
        packed = zlib.compress(pixels, 9)
        if index == 0:
            parts.append(_chunk(b"IDAT", packed))
        else:
            parts.append(_chunk(b"fdAT", struct.pack(">I", number) + packed))
            number += 1
    return b"".join([*parts, _chunk(b"IEND", b"")])


def _chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def chunks(png: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The chunks of a PNG, in order: name and content."""
    offset = len(_SIGNATURE)
    while offset < len(png):
        (length,) = struct.unpack_from(">I", png, offset)
        yield png[offset + 4 : offset + 8], png[offset + 8 : offset + 8 + length]
        offset += length + 12

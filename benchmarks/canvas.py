"""How smooth is the canvas with many nodes, and how large is what a browser loads for it?

    python -m benchmarks.canvas [--json] [--seconds 3] [--rounds 3] [--save FILE]

A headless Chromium before an `anabranch dev`, in one run beside an empty page: frames are counted while the pointer
moves for some seconds, in every round once on the empty page and once in each of these; the median of the rounds
counts, as a share of the empty page's.

* `drag_500`, `drag_2000`: a node is dragged, at 100 %.
* `pan_500`, `pan_2000`: the canvas is moved, at 100 %.
* `live_2000`: the same while a test run tells 200 updates a second, half of them of nodes that are seen. They come from
  a socket of this program, in batches as the server makes them, and go through the page's own store.
* `fit_2000`: the canvas is moved with all 2,000 nodes in view.

`first_nodes_…_ms` is from the navigation, with nothing cached, until the first nodes are painted. `heap_2000_mb` is
what JavaScript holds after a forced collection. `layout_…_ms` lays out the same graphs without positions, in the page's
worker. `longest_task_ms` is the longest that the page of 2,000 was blocked while all of the above went on.
`…_js_kb_gz` are files of the bundle: what `/` loads before anything is shown, and the code editor, which is loaded
with the first node that has code.

The last line is JSON.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import json
import math
import re
import statistics
import tempfile
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playwright.async_api import Browser, Page, WebSocketRoute, async_playwright

from benchmarks.measured import save
from editor.build import BUNDLE
from tests.browser.conftest import FLAGS, Server, running_server
from tests.tools import browser

SECONDS = 3.0
ROUNDS = 3

GOALS: dict[str, tuple[str, Callable[[float], bool]]] = {
    **{f"{what}_{size}": ("≥ 0.85", lambda share: share >= 0.85) for what in ("drag", "pan") for size in (500, 2_000)},
    "live_2000": ("≥ 0.8", lambda share: share >= 0.8),
    "fit_2000": ("≥ 0.25", lambda share: share >= 0.25),
    "initial_js_kb_gz": ("≤ 200", lambda size: size <= 200),
    "editor_js_kb_gz": ("≤ 190", lambda size: size <= 190),
    "heap_2000_mb": ("≤ 120", lambda size: size <= 120),
    "layout_500_ms": ("≤ 1,000", lambda ms: ms <= 1_000),
    "layout_2000_ms": ("≤ 6,000", lambda ms: ms <= 6_000),
}
"""What is to be reached, by figure."""

UPDATES_PER_S = 200
BATCH_S = 0.1  # the server's own pause between two batches

COLUMNS = 40
VIEWPORT = {"width": 1280, "height": 860}
POINTER_HZ = 60

COUNT_FRAMES = """(ms) => new Promise((resolve) => {
  let frames = 0;
  const begun = performance.now();
  const frame = () => {
    if (performance.now() - begun >= ms) resolve(frames);
    else { frames += 1; requestAnimationFrame(frame); }
  };
  requestAnimationFrame(frame);
})"""

WATCH_TASKS = """() => {
  window.longestTask = 0;
  new PerformanceObserver((list) => {
    for (const { duration } of list.getEntries()) window.longestTask = Math.max(window.longestTask, duration);
  }).observe({ type: "longtask" });
}"""

READ_MARK = """(name) => new Promise((resolve) => {
  const look = () => {
    const [found] = performance.getEntriesByName(name);
    if (found === undefined) requestAnimationFrame(look); else resolve(found.duration || found.startTime);
  };
  look();
})"""

# The node nearest to the middle of what is seen, and a place beside it where there is nothing; in an overview, where no
# node is drawn by itself, a place above all of them.
MIDDLE = """() => {
  const pane = document.querySelector(".react-flow").getBoundingClientRect();
  const [x, y] = [pane.left + pane.width / 2, pane.top + pane.height / 2];
  if (document.querySelector(".overview") !== null) return { beside: [x, pane.top + 24] };
  const boxes = [...document.querySelectorAll(".node-card")].map((card) => card.getBoundingClientRect());
  const far = (box) => Math.hypot(box.left + box.width / 2 - x, box.top + box.height / 2 - y);
  const box = boxes.reduce((near, each) => (far(each) < far(near) ? each : near));
  return { node: [box.left + 60, box.top + 12], beside: [box.left + 60, box.bottom + box.height * 0.5] };
}"""


@dataclass
class Told:
    """A socket that tells the page of a test run: 200 updates a second once `is_on`."""

    instance_id: str
    node_ids: list[str]
    seen: list[str] = field(default_factory=list)
    is_on: bool = False
    seq: int = 1
    _routes: list[WebSocketRoute] = field(default_factory=list)

    def connect(self, route: WebSocketRoute) -> None:
        """Speak for the server: Engine.IO's greeting, then Socket.IO's."""
        self._routes.append(route)
        route.on_message(lambda message: self._hear(route, str(message)))
        route.send('0{"sid":"a","upgrades":[],"pingInterval":600000,"pingTimeout":600000,"maxPayload":1000000}')

    def _hear(self, route: WebSocketRoute, message: str) -> None:
        if message.startswith("40"):
            route.send('40{"sid":"b"}')
            return
        asked = re.match(r"42(\d+)\[", message)
        if asked is not None:
            snapshot = {"ok": True, "instanceID": self.instance_id, "status": "RUNNING", "nodes": [], "seq": self.seq}
            route.send(f"43{asked[1]}{json.dumps([snapshot])}")

    async def tell(self) -> None:
        """Tell updates while this is on, until it is cancelled."""
        while True:
            await asyncio.sleep(BATCH_S)
            if self.is_on and self._routes:
                batch = [self._update() for _ in range(int(UPDATES_PER_S * BATCH_S))]
                message = {"instanceID": self.instance_id, "updates": batch}
                self._routes[-1].send(f"42{json.dumps(['workflow_updates', message])}")

    def _update(self) -> dict[str, Any]:
        self.seq += 1
        nodes = self.seen if self.seen and self.seq % 2 else self.node_ids
        is_end = self.seq // len(nodes) % 2 == 1
        return {
            "event": "workflow_node_update",
            "instanceID": self.instance_id,
            "nodeID": nodes[self.seq // 2 % len(nodes)],
            "scope": "",
            "status": "success" if is_end else "running",
            "attempt": 1,
            "seq": self.seq,
            "at": "2026-01-01T00:00:00.000+00:00",
            "handles": ["default"] if is_end else None,
        }


def graph(count: int, *, has_positions: bool) -> dict[str, Any]:
    """Nodes in rows of forty, each row a chain that the start leads to."""
    nodes: list[dict[str, Any]] = [{"id": "start", "type": "start", **_position(0, has_positions=has_positions)}]
    edges = []
    for at in range(1, count):
        nodes.append(
            {
                "id": f"n{at}",
                "type": "set",
                "config": {"values": {"n": at}},
                **_position(at, has_positions=has_positions),
            }
        )
        source = "start" if at % COLUMNS == 0 else nodes[at - 1]["id"]
        edges.append({"upstreamNodeID": source, "downstreamNodeID": f"n{at}"})
    return {"nodes": nodes, "edges": edges}


def _position(at: int, *, has_positions: bool) -> dict[str, Any]:
    return {"position": {"x": at % COLUMNS * 320, "y": at // COLUMNS * 160}} if has_positions else {}


def bundle_figures() -> dict[str, float]:
    """Sizes of the bundle's scripts, compressed, in kilobytes."""
    index = (BUNDLE / "index.html").read_text("utf-8")
    initial = re.findall(r'(?:src|href)="/(assets/[^"]+\.js)"', index)
    [editor] = (BUNDLE / "assets").glob("CodeMirrorEditor-*.js")
    return {
        "initial_js_kb_gz": round(sum(_gz(BUNDLE / path) for path in initial) / 1_000, 1),
        "editor_js_kb_gz": round(_gz(editor) / 1_000, 1),
    }


def _gz(path: Path) -> int:
    return len(gzip.compress(path.read_bytes(), 9))


async def wiggle(page: Page, at: tuple[float, float], seconds: float) -> None:
    """Press the button at a place and move the pointer in circles."""
    x, y = at
    await page.mouse.move(x, y)
    await page.mouse.down()
    begun = time.monotonic()
    step = 0
    while (now := time.monotonic() - begun) < seconds:
        step += 1
        turn = now * 2 * math.pi / 1.5
        await page.mouse.move(x + 120 * math.sin(turn), y + 60 * (1 - math.cos(turn)))
        await asyncio.sleep(max(0, begun + step / POINTER_HZ - time.monotonic()))
    await page.mouse.up()


async def frames(page: Page, at: tuple[float, float], seconds: float) -> int:
    """How many frames the page draws while the pointer moves."""
    counted, _ = await asyncio.gather(page.evaluate(COUNT_FRAMES, seconds * 1_000), wiggle(page, at, seconds))
    return int(counted)


class Canvas:
    """A page that shows one of the graphs in the editor."""

    def __init__(self, page: Page, seconds: float) -> None:
        self.page = page
        self._seconds = seconds

    async def drag(self) -> int:
        """Frames while a node is dragged; undone afterwards, so that every round finds the same."""
        x, y = (await self.page.evaluate(MIDDLE))["node"]
        counted = await frames(self.page, (x, y), self._seconds)
        await self.page.keyboard.press("Control+z")
        return counted

    async def pan(self) -> int:
        """Frames while the canvas is moved."""
        x, y = (await self.page.evaluate(MIDDLE))["beside"]
        return await frames(self.page, (x, y), self._seconds)

    async def zoom(self, key: str) -> None:
        """`0` is 100 %, `1` everything."""
        await self.page.locator(".canvas").focus()
        await self.page.keyboard.press(key)
        await self.page.wait_for_timeout(500)


async def opened(chromium: Browser, server: Server, name: str, told: Told | None = None) -> Page:
    """The editor with a workflow, in a browser that has loaded nothing yet."""
    context = await chromium.new_context(viewport=VIEWPORT, reduced_motion="reduce")  # type: ignore[arg-type]
    page = await context.new_page()
    if told is not None:
        await page.route_web_socket("**/socket.io/**", told.connect)
        answer = {"instanceID": told.instance_id}
        await page.route("**/v1/test-runs", lambda route: route.fulfill(status=201, json=answer))
    await page.add_init_script(f"({WATCH_TASKS})()")
    await page.goto(f"{server.entrance}#/workflows/{name}")
    await page.evaluate(READ_MARK, "anabranch:first-nodes")
    return page


async def first_nodes(chromium: Browser, server: Server, name: str, rounds: int) -> float:
    """Milliseconds from the navigation until nodes are painted."""
    taken = []
    for _ in range(rounds):
        page = await opened(chromium, server, name)
        taken.append(await page.evaluate(READ_MARK, "anabranch:first-nodes"))
        await page.context.close()
    return round(statistics.median(taken))


async def layout(chromium: Browser, server: Server, name: str) -> float:
    """Milliseconds for a graph that has no positions."""
    page = await opened(chromium, server, name)
    taken = await page.evaluate(READ_MARK, "anabranch:layout")
    await page.context.close()
    return round(taken)


async def heap_mb(page: Page) -> float:
    """What JavaScript holds after a collection."""
    session = await page.context.new_cdp_session(page)
    await session.send("HeapProfiler.enable")
    await session.send("HeapProfiler.collectGarbage")
    used = (await session.send("Runtime.getHeapUsage"))["usedSize"]
    return round(used / 1e6, 1)


async def measure(server: Server, chromium: Browser, *, seconds: float, rounds: int) -> dict[str, float]:
    """All figures but those of the bundle."""
    names = {
        size: server.call("POST", "/workflows", {"title": f"Placed {size}", **graph(size, has_positions=True)})["name"]
        for size in (100, 500, 2_000)
    }
    bare = {
        size: server.call("POST", "/workflows", {"title": f"Bare {size}", **graph(size, has_positions=False)})["name"]
        for size in (500, 2_000)
    }
    figures: dict[str, float] = {}
    for size in (100, 2_000):
        figures[f"first_nodes_{size}_ms"] = await first_nodes(chromium, server, names[size], rounds)
    for size in (500, 2_000):
        figures[f"layout_{size}_ms"] = await layout(chromium, server, bare[size])

    told = Told("01a20000-0000-7000-8000-000000000000", [f"n{at}" for at in range(1, 2_000)])
    empty = await (await chromium.new_context(viewport=VIEWPORT)).new_page()  # type: ignore[arg-type]
    small = Canvas(await opened(chromium, server, names[500]), seconds)
    large = Canvas(await opened(chromium, server, names[2_000], told), seconds)
    telling = asyncio.create_task(told.tell())
    await small.zoom("0")
    await large.zoom("0")
    figures["heap_2000_mb"] = await heap_mb(large.page)

    async def live() -> int:
        told.seen = await large.page.evaluate(
            "[...document.querySelectorAll('.node-card')].map((card) => card.dataset.nodeId)"
        )
        if not told.is_on:
            await large.page.keyboard.press("Control+Enter")
            await large.page.get_by_role("button", name="Run the test").click()
            await large.page.get_by_role("region", name="Test run").wait_for()
        told.is_on = True
        counted = await large.pan()
        told.is_on = False
        return counted

    async def fit() -> int:
        await large.zoom("1")
        counted = await large.pan()
        await large.zoom("0")
        return counted

    scenes: dict[str, tuple[Page, Callable[[], Coroutine[Any, Any, int]]]] = {
        "frames_empty": (empty, lambda: frames(empty, (600, 400), seconds)),
        "drag_500": (small.page, small.drag),
        "pan_500": (small.page, small.pan),
        "drag_2000": (large.page, large.drag),
        "pan_2000": (large.page, large.pan),
        "live_2000": (large.page, live),
        "fit_2000": (large.page, fit),
    }
    counted: dict[str, list[int]] = {name: [] for name in scenes}
    for _ in range(rounds):
        for name, (page, scene) in scenes.items():
            await page.bring_to_front()
            counted[name].append(await scene())
    telling.cancel()
    base = statistics.median(counted["frames_empty"])
    figures |= {name: round(statistics.median(each) / base, 2) for name, each in counted.items()}
    figures["frames_empty"] = base
    figures["longest_task_ms"] = round(await large.page.evaluate("window.longestTask"))
    return figures


async def run(*, seconds: float, rounds: int) -> dict[str, float]:
    """Everything, with a server and a browser of its own."""
    with tempfile.TemporaryDirectory() as folder, running_server(Path(folder) / "dev") as server:
        async with async_playwright() as playwright:
            chromium = await playwright.chromium.launch(executable_path=browser(), args=FLAGS)
            figures = await measure(server, chromium, seconds=seconds, rounds=rounds)
            await chromium.close()
    return {**figures, **bundle_figures()}


def main() -> None:
    """Measure, say it in words, then as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print the JSON only")
    parser.add_argument("--seconds", type=float, default=SECONDS)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--save", type=Path)
    options = parser.parse_args()
    figures = asyncio.run(run(seconds=options.seconds, rounds=options.rounds))
    if not options.json:
        for name, figure in figures.items():
            goal, is_reached = GOALS.get(name, ("", lambda _: True))
            print(f"{name:24} {figure:>10,} {goal:>10} {'' if is_reached(figure) else 'missed'}")
    if options.save is not None:
        setup = {"seconds": options.seconds, "rounds": options.rounds}
        save(options.save, "python -m benchmarks.canvas", figures, setup=setup)
    print(json.dumps(figures))


if __name__ == "__main__":
    main()

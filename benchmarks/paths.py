"""How many files one operation passes: `python -m benchmarks.paths [--json] [--list]`.

Four ways through the product are traced as `sys.setprofile` sees them, in every thread: a start over REST until the
first handler is called, a handler's result until the next handler is called, a signal until the handler behind the
wait is called, a step of a coded workflow until the next step is called. Of each: the files of the product that were
entered, and the moves: calls in another of these files than the call before. Counts, not times: they say how much a
reader has to follow. Each way is traced several times, and the trace with the fewest files is shown: what polls beside
a way, such as the watch for other processes, is in some traces and in others not.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import threading
from pathlib import Path
from types import FrameType
from typing import Any

import aiohttp
from aiohttp import web

import anabranch
from anabranch import HandlerResult, Worker, node_type, workflow
from anabranch.keys.access import Role
from anabranch.rest.application import build_application

# Three at first, so that what is imported or compiled once is out of the way. Then sixty: on a busy machine timers fire
# in most traces, and the shortest of sixty has met none.
ROUNDS_BEFORE = 3
ROUNDS = 60

_HOME = str(Path(anabranch.__file__).parent)


class Tracer:
    """Which files of the product are entered while it is on, and how often execution moves from one to another."""

    def __init__(self) -> None:
        self.on = False
        self.files: dict[str, int] = {}
        self.moves = 0
        self._last = ""

    def begin(self) -> None:
        """Count from here."""
        self.files, self.moves, self._last, self.on = {}, 0, "", True

    def end(self) -> tuple[list[str], int]:
        """The files so far, and the moves."""
        self.on = False
        return sorted(self.files), self.moves

    def profile(self, frame: FrameType, event: str, _argument: Any) -> None:
        """What the interpreter calls at each call and return."""
        if not self.on or event != "call":
            return
        name = frame.f_code.co_filename
        if not name.startswith(_HOME):
            return
        name = name[len(_HOME) + 1 :]
        self.files[name] = self.files.get(name, 0) + 1
        if name != self._last:
            self.moves += self._last != ""
            self._last = name


tracer = Tracer()


@node_type("pathsFirst")
class First:
    """The first handler of a run; what comes behind its result is traced."""

    async def execute(self, config: Any, context: Any, helpers: Any) -> HandlerResult:
        if tracer.on:
            _found("start")
        tracer.begin()
        return HandlerResult(1)


@node_type("pathsNext")
class Next:
    """The handler behind it."""

    async def execute(self, config: Any, context: Any, helpers: Any) -> HandlerResult:
        _found("result")
        return HandlerResult(2)


@node_type("pathsSignalled")
class Signalled:
    """The handler behind a wait."""

    async def execute(self, config: Any, context: Any, helpers: Any) -> HandlerResult:
        _found("signal")
        return HandlerResult(3)


async def _one() -> int:
    tracer.begin()
    return 1


async def _two() -> int:
    _found("step")
    return 2


@workflow(name="paths-coded")
async def coded(ctx: Any, input: Any) -> Any:
    """Two steps."""
    return [await ctx.step.run("one", _one), await ctx.step.run("two", _two)]


_GRAPH = {
    "name": "paths",
    "nodes": [
        {"id": "start", "type": "start"},
        {"id": "first", "type": "pathsFirst"},
        {"id": "next", "type": "pathsNext"},
        {"id": "wait", "type": "waitForEvent", "config": {"event": "go"}},
        {"id": "signalled", "type": "pathsSignalled"},
    ],
    "edges": [
        {"upstreamNodeID": above, "downstreamNodeID": below}
        for above, below in (("start", "first"), ("first", "next"), ("next", "wait"), ("wait", "signalled"))
    ],
}

_counts: dict[str, list[tuple[list[str], int]]] = {}

_passed: dict[str, asyncio.Event] = {}
"""Set when a way was traced to its end: nobody asks how the run is before, or that would be traced, too."""


def _found(way: str) -> None:
    _counts.setdefault(way, []).append(tracer.end())
    if way in _passed:
        _passed[way].set()


async def _trace() -> None:
    with tempfile.TemporaryDirectory() as folder:
        async with Worker(f"sqlite:///{folder}/paths.db", workflows=[coded]) as worker:
            services = worker.services
            assert services is not None
            runner, url = await _served(services)
            async with aiohttp.ClientSession(base_url=url) as session:
                key = (await services.access.create_key(tenant_id="default", role=Role.ADMIN, actor="cli")).key
                session.headers["Authorization"] = f"Bearer {key}"
                await _call(session, "POST", "/v1/workflows", _GRAPH)
                for _ in range(ROUNDS_BEFORE):
                    await _round(session)
                _counts.clear()
                for _ in range(ROUNDS):
                    await _round(session)
            await runner.cleanup()


async def _served(services: Any) -> tuple[web.AppRunner, str]:
    runner = web.AppRunner(build_application(services))
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    return runner, f"http://127.0.0.1:{runner.addresses[0][1]}"


async def _round(session: aiohttp.ClientSession) -> None:
    _passed.update((way, asyncio.Event()) for way in ("result", "signal", "step"))
    tracer.begin()
    run = (await _call(session, "POST", "/v1/workflows/paths/runs", {"input": {}}))["instanceID"]
    await _passed["result"].wait()
    await _until(session, run, "WAITING")
    tracer.begin()
    await _call(session, "POST", f"/v1/runs/{run}/signals/go", {})
    await _passed["signal"].wait()
    await _until(session, run, "COMPLETED")
    run = (await _call(session, "POST", "/v1/workflows/paths-coded/runs", {"input": {}}))["instanceID"]
    await _passed["step"].wait()
    await _until(session, run, "COMPLETED")


async def _until(session: aiohttp.ClientSession, run: str, status: str) -> None:
    while (await _call(session, "GET", f"/v1/runs/{run}"))["status"] != status:  # noqa: ASYNC110
        await asyncio.sleep(0.05)


async def _call(session: aiohttp.ClientSession, method: str, path: str, body: Any = None) -> Any:
    async with session.request(method, path, json=body) as answer:
        assert answer.status < 400, await answer.text()
        return await answer.json()


def main() -> None:
    """Trace, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true", help="one object on the last line")
    parser.add_argument("--list", action="store_true", help="the files of each way")
    options = parser.parse_args()
    threading.setprofile(tracer.profile)
    sys.setprofile(tracer.profile)
    asyncio.run(_trace())
    sys.setprofile(None)
    found = {way: min(counts, key=lambda count: (len(count[0]), count[1])) for way, counts in _counts.items()}
    for way, (files, moves) in found.items():
        print(f"{way:8} {len(files):3} files {moves:4} moves")
        if options.list:
            print("   " + "\n   ".join(files))
    if options.json:
        print(json.dumps({way: {"files": len(files), "moves": moves} for way, (files, moves) in found.items()}))


if __name__ == "__main__":
    main()

"""Watchers hear what the code of a run says, and how far it is, while it is said; REST follows it as lines of JSON."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from anabranch import HandlerResult, node_type
from tests.engine.conftest import MakeProcess
from tests.engine.drawing import drawn, node
from tests.rest.conftest import Served as ServedRest
from tests.rest.conftest import served, settings_of
from tests.sockets.conftest import Connect, Serve

__all__ = ["served", "settings_of"]


@node_type("testTellsLive")
class TellsLive:
    """Says something, and goes on once it is allowed to."""

    allowed: asyncio.Event

    async def execute(self, config: Any, context: Any, helpers: Any) -> HandlerResult:
        helpers.log.warning("working")
        helpers.progress(1, 2, "half")
        await TellsLive.allowed.wait()
        helpers.log.info("done")
        return HandlerResult()


GRAPH = drawn("live", node("n", "testTellsLive"))


async def test_lines_and_progress_are_told_live_here_and_through_another_process(
    make_process: MakeProcess, serve: Serve, connect: Connect
) -> None:
    TellsLive.allowed = asyncio.Event()
    worker = await make_process()
    api = await make_process(works=False)
    run_id = await worker.run(GRAPH)
    watchers = [await connect(await serve(worker)), await connect(await serve(api))]
    for watcher in watchers:
        await watcher.ask("workflow_run_join", {"runId": run_id})
    TellsLive.allowed.set()

    for watcher in watchers:
        await watcher.ended(run_id)
    (near, far) = watchers

    def lines() -> list[tuple[str, str, str]]:
        told = [line for event, data in near.messages if event == "workflow_console" for line in data["lines"]]
        return [(line["nodeID"], line["level"], line["text"]) for line in told]

    await near.until(lambda: lines()[-1:] == [("n", "info", "done")])
    assert all(data["seq"] is None for event, data in near.messages if event == "workflow_console")
    snapshot = await far.ask("workflow_run_join", {"runId": run_id})
    (ended,) = [each for each in snapshot["nodes"] if each["nodeID"] == "n"]
    assert ended["startedAt"] <= ended["beganAt"] <= ended["endedAt"]
    told = ended["progress"]
    assert (told["done"], told["total"], told["text"]) == (1, 2, "half")


async def test_rest_pages_and_follows_the_console(served: ServedRest) -> None:
    TellsLive.allowed = asyncio.Event()
    await served.save(GRAPH)
    run_id = await served.start("live")
    path = f"/v1/runs/{run_id}/console"
    headers = {"Authorization": f"Bearer {served.keys['viewer']}"}

    async with served.session.get(f"{served.url}{path}?follow=true", headers=headers) as following:
        assert following.content_type == "application/x-ndjson"
        first = json.loads(await following.content.readline())
        TellsLive.allowed.set()
        rest = [json.loads(line) async for line in following.content]
    page = (await served.ask("GET", f"{path}?limit=1")).json
    more = (await served.ask("GET", f"{path}?limit=1&cursor={page['nextCursor']}")).json

    assert [line["text"] for line in (first, *rest)] == ["working", "done"]
    assert (page["items"], more["items"], more["nextCursor"]) == ([first], rest, None)
    assert (await served.ask("GET", f"{path}?level=warning&nodeID=n")).json["items"] == [first]
    assert (await served.ask("GET", path, role="other")).status == 404
    assert (await served.ask("GET", f"{path}?level=loud")).status == 422

"""The JavaScript client that people's pages use hears the same as the log says, over each transport."""

from __future__ import annotations

import asyncio
import json
from asyncio.subprocess import PIPE
from pathlib import Path
from typing import Any

import pytest

from tests.engine.conftest import TENANT
from tests.sockets.conftest import Served, fact
from tests.sockets.test_watching import GATED, open_gate, told_by
from tests.tools import Kind, found_or_skip, node, node_packages


class Page:
    """A program in Node that watches a run."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @classmethod
    async def open(cls, *arguments: str) -> Page:
        """Start it; the test is skipped where there is no Node."""
        program = found_or_skip(Kind.JAVASCRIPT, node)
        folder: Path = found_or_skip(Kind.JAVASCRIPT, node_packages)
        return cls(
            await asyncio.create_subprocess_exec(
                str(program), str(folder / "watch_run.mjs"), *arguments, stdout=PIPE, cwd=folder
            )
        )

    async def said(self) -> dict[str, Any] | None:
        """Its next line; None at its end."""
        assert self._process.stdout is not None
        line = await self._process.stdout.readline()
        return json.loads(line) if line else None

    async def rest(self) -> list[dict[str, Any]]:
        """All that it still says."""
        lines = []
        while (line := await self.said()) is not None:
            lines.append(line)
        await self._process.wait()
        return lines


@pytest.mark.parametrize("transport", ["websocket", "polling", "polling,websocket"])
async def test_it_is_told_every_update_of_a_run(served: Served, transport: str) -> None:
    key = await served.key()
    run_id = await served.process.run(GATED)
    await served.process.log.saw("NODE_DISPATCHED", "gate")
    page = await Page.open(served.url, key.key, run_id, transport, "0")
    joined = await page.said()
    assert joined is not None and (joined["event"], joined["ok"], joined["status"]) == ("joined", True, "RUNNING")
    await open_gate()
    told = await page.rest()
    log = await served.service.get_log(run_id, tenant_id=TENANT)
    assert [fact(each) for each in told if each["event"] == "workflow_node_update"] == told_by(log)
    assert told[-1]["status"] == "COMPLETED" and told[-1]["contextData"]["__node_end"] == {}


async def test_it_hears_why_it_is_refused(served: Served) -> None:
    page = await Page.open(served.url, "ab_wrong", "x", "websocket")
    assert await page.rest() == [{"event": "refused", "message": "the key is not valid", "code": "UNAUTHORIZED"}]

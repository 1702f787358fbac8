"""A tenant with more code nodes than the sandbox has places, and its neighbour's runs meanwhile. Nothing is timed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from anabranch.app import build
from anabranch.engine.rules.events import Status
from anabranch.handlers.sandbox import pool
from anabranch.handlers.sandbox.process import ForkServer, ForkServerLost
from anabranch.service import House
from anabranch.settings import Settings
from tests.handlers.sandbox.running import ONE, PATIENCE_S, SPIN

BUSY, QUIET = "busy", "quiet"
SPINNERS = 80
SLOTS = 4


@pytest.fixture
def database_url(sqlite_url: str) -> str:
    """The queue and the sandbox are the same on every database."""
    return sqlite_url


async def test_many_spinning_code_nodes_hold_no_slot_that_a_neighbour_needs(database_url: str) -> None:
    async with build(Settings(database_url=database_url, concurrency=SLOTS)).opened_house(works=True) as house:
        await _save(house, BUSY, "spin", "python", {"code": SPIN["python"], "timeout": "10m"})
        await _save(house, QUIET, "one", "python", {"code": ONE["python"].replace("ctx['n']", "1")})
        await _save(house, QUIET, "plain", "set", {"values": {}})
        spinning = [await _start(house, BUSY, "spin") for _ in range(SPINNERS)]
        for name in ("plain", "one") * 3:
            assert await _ended(house, QUIET, await _start(house, QUIET, name)) is Status.COMPLETED
        # Also the busy tenant's own nodes that need no sandbox.
        await _save(house, BUSY, "plain", "set", {"values": {}})
        assert await _ended(house, BUSY, await _start(house, BUSY, "plain")) is Status.COMPLETED

        for run in spinning:
            row = await house.workflows.get_run_status(run, tenant_id=BUSY)
            assert not row.status.is_terminal, "none had to end for its neighbour's sake"
            await house.workflows.cancel_run(run, tenant_id=BUSY, reason="the test is over")


async def test_a_fork_server_that_is_being_started_is_waited_for_without_a_slot(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_start = asyncio.Event()
    running_server = pool.Pool._running_server

    async def slow_start(self: pool.Pool) -> ForkServer:
        await may_start.wait()
        return await running_server(self)

    monkeypatch.setattr(pool.Pool, "_running_server", slow_start)
    async with build(Settings(database_url=database_url, concurrency=1)).opened_house(works=True) as house:
        await _save(house, QUIET, "one", "python", {"code": "return 1"})
        await _save(house, QUIET, "plain", "set", {"values": {}})
        code = await _start(house, QUIET, "one")
        assert await _ended(house, QUIET, await _start(house, QUIET, "plain")) is Status.COMPLETED
        assert not (await house.workflows.get_run_status(code, tenant_id=QUIET)).status.is_terminal
        may_start.set()
        assert await _ended(house, QUIET, code) is Status.COMPLETED


async def test_a_fork_server_that_does_not_start_fails_the_node_that_needs_it(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(language: str, *, requires_seccomp: bool) -> ForkServer:
        raise ForkServerLost("no process can be made")

    monkeypatch.setattr(ForkServer, "launch", refuse)
    async with build(Settings(database_url=database_url)).opened_house(works=True) as house:
        await _save(house, QUIET, "one", "python", {"code": "return 1"})
        run = await _start(house, QUIET, "one")
        assert await _ended(house, QUIET, run) is Status.FAILED
        assert "no process can be made" in (await house.workflows.get_run(run, tenant_id=QUIET))["error"]["message"]


async def _save(house: House, tenant_id: str, name: str, type_: str, config: dict[str, Any]) -> None:
    nodes = [{"id": "start", "type": "start"}, {"id": "only", "type": type_, "config": config}]
    document = {
        "name": name,
        "nodes": [{**node, "errorHandling": "fail_workflow"} if node["id"] == "only" else node for node in nodes],
        "edges": [{"upstreamNodeID": "start", "downstreamNodeID": "only"}],
    }
    await house.workflows.save_workflow(document, tenant_id=tenant_id)


async def _start(house: House, tenant_id: str, name: str) -> str:
    return (await house.workflows.execute_workflow(name, None, tenant_id=tenant_id)).instance_id


async def _ended(house: House, tenant_id: str, run: str) -> Status:
    async with asyncio.timeout(PATIENCE_S):
        while True:
            status = (await house.workflows.get_run_status(run, tenant_id=tenant_id)).status
            if status.is_terminal:
                return status
            await asyncio.sleep(0.01)

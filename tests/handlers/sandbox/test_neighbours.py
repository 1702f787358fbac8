"""A tenant with more code nodes than the sandbox has places, and its neighbour's runs meanwhile. Nothing is timed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from anabranch.app import build
from anabranch.app_services import AppServices
from anabranch.engine.rules.events import Status
from anabranch.handlers.sandbox import pool
from anabranch.handlers.sandbox.sealed_process import ForkServer, ForkServerLost
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
    async with build(Settings(database_url=database_url, concurrency=SLOTS)).open_services(works=True) as services:
        await _save(services, BUSY, "spin", "python", {"code": SPIN["python"], "timeout": "10m"})
        await _save(services, QUIET, "one", "python", {"code": ONE["python"].replace("ctx['n']", "1")})
        await _save(services, QUIET, "plain", "set", {"values": {}})
        spinning = [await _start(services, BUSY, "spin") for _ in range(SPINNERS)]
        for name in ("plain", "one") * 3:
            assert await _ended(services, QUIET, await _start(services, QUIET, name)) is Status.COMPLETED
        # Also the busy tenant's own nodes that need no sandbox.
        await _save(services, BUSY, "plain", "set", {"values": {}})
        assert await _ended(services, BUSY, await _start(services, BUSY, "plain")) is Status.COMPLETED

        for run in spinning:
            row = await services.workflows.get_run_status(run, tenant_id=BUSY)
            assert not row.status.is_terminal, "none had to end for its neighbour's sake"
            await services.workflows.cancel_run(run, tenant_id=BUSY, reason="the test is over")


async def test_a_fork_server_that_is_being_started_is_waited_for_without_a_slot(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_start = asyncio.Event()
    running_server = pool.Pool._running_server

    async def slow_start(self: pool.Pool) -> ForkServer:
        await may_start.wait()
        return await running_server(self)

    monkeypatch.setattr(pool.Pool, "_running_server", slow_start)
    async with build(Settings(database_url=database_url, concurrency=1)).open_services(works=True) as services:
        await _save(services, QUIET, "one", "python", {"code": "return 1"})
        await _save(services, QUIET, "plain", "set", {"values": {}})
        code = await _start(services, QUIET, "one")
        assert await _ended(services, QUIET, await _start(services, QUIET, "plain")) is Status.COMPLETED
        assert not (await services.workflows.get_run_status(code, tenant_id=QUIET)).status.is_terminal
        may_start.set()
        assert await _ended(services, QUIET, code) is Status.COMPLETED


async def test_a_fork_server_that_does_not_start_fails_the_node_that_needs_it(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(language: str, *, requires_seccomp: bool) -> ForkServer:
        raise ForkServerLost("no process can be made")

    monkeypatch.setattr(ForkServer, "launch", refuse)
    async with build(Settings(database_url=database_url)).open_services(works=True) as services:
        await _save(services, QUIET, "one", "python", {"code": "return 1"})
        run = await _start(services, QUIET, "one")
        assert await _ended(services, QUIET, run) is Status.FAILED
        assert "no process can be made" in (await services.workflows.get_run(run, tenant_id=QUIET))["error"]["message"]


async def _save(services: AppServices, tenant_id: str, name: str, type_: str, config: dict[str, Any]) -> None:
    nodes = [{"id": "start", "type": "start"}, {"id": "only", "type": type_, "config": config}]
    document = {
        "name": name,
        "nodes": [{**node, "errorHandling": "fail_workflow"} if node["id"] == "only" else node for node in nodes],
        "edges": [{"upstreamNodeID": "start", "downstreamNodeID": "only"}],
    }
    await services.workflows.save_workflow(document, tenant_id=tenant_id)


async def _start(services: AppServices, tenant_id: str, name: str) -> str:
    return (await services.workflows.execute_workflow(name, None, tenant_id=tenant_id)).instance_id


async def _ended(services: AppServices, tenant_id: str, run: str) -> Status:
    async with asyncio.timeout(PATIENCE_S):
        while True:
            status = (await services.workflows.get_run_status(run, tenant_id=tenant_id)).status
            if status.is_terminal:
                return status
            await asyncio.sleep(0.01)

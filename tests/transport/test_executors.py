"""Executors behind a real RabbitMQ: processes that have no database execute nodes of a worker's runs."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from anabranch import Client, Worker
from anabranch.dead_letters.dead_letters import DeadLetter
from anabranch.engine.console.console_rows import LinesWanted
from anabranch.errors import AnabranchError, NotFound
from tests.rabbitmq import Forwarder, RabbitMQ
from tests.transport.conftest import Executors
from tests.transport.pool_nodes import far_steps

PATIENCE_S = 60


@asynccontextmanager
async def working(broker_url: str, folder: Path, *documents: dict[str, Any]) -> AsyncIterator[tuple[Worker, Client]]:
    """A worker of the default pool with these workflows, and a client of its database."""
    url = f"sqlite:///{folder / 'runs.db'}"
    async with Worker(url, workflows=[far_steps], broker_url=broker_url) as worker, Client(url) as client:
        assert worker.services is not None
        for document in documents:
            await worker.services.workflows.save_workflow(document, tenant_id="default")
        yield worker, client


def document(name: str, node_type: str, config: dict[str, Any], pool: str) -> dict[str, Any]:
    nodes: list[dict[str, Any]] = [
        {"id": "start", "type": "start"},
        {"id": "far", "type": node_type, "config": config, "pool": pool, "outputVariable": "told"},
        {"id": "end", "type": "end", "config": {"outputParameters": {"told": "{{ctx.told}}"}}},
    ]
    ids = [node["id"] for node in nodes]
    edges = [{"upstreamNodeID": a, "downstreamNodeID": b} for a, b in pairwise(ids)]
    return {"name": name, "nodes": nodes, "edges": edges}


async def test_a_node_runs_in_a_process_without_a_database_and_the_broker_may_go_away(
    broker: RabbitMQ, executors: Executors, tmp_path: Path
) -> None:
    way, begun, cancelled = Forwarder(broker), tmp_path / "begun", tmp_path / "cancelled"
    documents = [
        document("far-tells", "poolTells", {"greeting": "{{ctx.input.name}}"}, "tells"),
        document("far-fails", "poolFails", {}, "tells"),
        document("far-waits", "poolWaits", {"begun": str(begun), "cancelled": str(cancelled)}, "tells"),
        document("far-code", "python", {"code": "return ctx['input']['name'] * 2"}, "tells"),
    ]
    async with working(way.url, tmp_path, *documents) as (worker, client):
        early = await client.start("far-tells", {"name": "{{ctx.secret}}"})
        await says_why(worker, early.run_id, "The jobs of the pool 'tells' wait: the broker cannot be reached.")
        assert worker.services is not None
        letter = DeadLetter("l", "default", early.run_id, "far", "", 1, "anabranch.jobs.tells", "it is unreadable")
        await worker.services.dead_letters.add_letter(letter)
        await says_why(worker, early.run_id, "The job of 'far' is a dead letter: it is unreadable. It is sent again.")
        steps = await client.start("far-steps", {"greeting": "ab"})
        for node_id in (None, "say"):
            away = "The jobs of the pool 'tells' wait: the broker cannot be reached."
            await says_why(worker, steps.run_id, away, node_id=node_id)
        await way.open()
        for run, node_id in ((early, "far"), (steps, "say"), (steps, None)):
            await says_why(worker, run.run_id, "1 job waits for an executor of the pool 'tells'.", node_id=node_id)
        executor = await executors.start(way.url, "tells")
        told = (await early.result(timeout=PATIENCE_S))["told"]
        assert (told["pid"], told["database"]) == (executor.pid, None), "it waited for the broker and the executor"
        assert told["greeting"] == "{{ctx.secret}}", "what a template inserts is never resolved again"
        assert told["input"] == {"name": "{{ctx.secret}}"}

        said = await steps.result(timeout=PATIENCE_S)
        assert (said["pid"], said["said"], said["here"]) == (executor.pid, "abab", os.getpid())
        assert said["error"] == ["LookupError", "times is negative"]
        await lines_say(worker, steps.run_id, "a line of a step, ab")

        fails = await client.start("far-fails", {})
        with pytest.raises(AnabranchError, match="out of memory"):
            await fails.result(timeout=PATIENCE_S)
        assert (await fails.get())["error"]["code"] == "GPU_FULL"
        assert (await (await client.start("far-code", {"name": "ab"})).result(timeout=PATIENCE_S)) == {"told": "abab"}

        way.cut()
        later = await client.start("far-tells", {"name": "later"})
        await way.open()
        assert (await later.result(timeout=PATIENCE_S))["told"]["greeting"] == "later"
        await lines_say(worker, later.run_id, "a line from later")

        waits = await client.start("far-waits", {})
        await appears(begun)
        await waits.cancel()
        await appears(cancelled)
    executor.send_signal(signal.SIGTERM)
    assert await asyncio.to_thread(executor.wait) == 0
    way.cut()


async def test_a_killed_executor_loses_no_job_and_that_of_a_stopped_worker_goes_on(
    broker: RabbitMQ, executors: Executors, tmp_path: Path
) -> None:
    calls = tmp_path / "calls"
    dies = document("far-dies", "poolDies", {"calls": str(calls)}, "dies")
    holds = document("far-holds", "poolHolds", {"folder": str(tmp_path)}, "dies")
    async with working(broker.url, tmp_path, dies, holds) as (_, client):
        await executors.start(broker.url, "dies")
        await executors.start(broker.url, "dies")
        run = await client.start("far-dies", {})
        assert (await run.result(timeout=PATIENCE_S)) == {"told": "survived"}
    (pid, *first), (other, *second) = (line.split() for line in calls.read_text().splitlines())
    assert pid != other
    assert first == second, "same key, same attempt"

    await executors.start(broker.url, "dies")
    async with working(broker.url, tmp_path) as (_, client):
        held = await client.start("far-holds", {})
        await appears_like(tmp_path, "call-*")
    async with working(broker.url, tmp_path) as (worker, client):
        await owned_by(worker, held.run_id)
        (tmp_path / "go").touch()
        told = (await client.result(held.run_id, timeout=PATIENCE_S))["told"]
    called = [call.name for call in tmp_path.glob("call-*")]  # noqa: ASYNC240 -- nothing else runs any more
    assert called == [f"call-{told}"], "the next owner got the one result"


async def test_an_executor_ends_in_order_beside_a_broker_that_stands_still(
    broker: RabbitMQ, executors: Executors, tmp_path: Path
) -> None:
    holds = document("far-holds", "poolHolds", {"folder": str(tmp_path)}, "stands")
    async with working(broker.url, tmp_path, holds) as (_, client):
        executor = await executors.start(broker.url, "stands")
        held = await client.start("far-holds", {})
        await appears_like(tmp_path, "call-*")
        with broker.frozen():
            executor.send_signal(signal.SIGTERM)
            (tmp_path / "go").touch()
            assert await asyncio.to_thread(executor.wait) == 0, "nothing had to end it when its grace was over"
        await executors.start(broker.url, "stands")
        assert await held.result(timeout=PATIENCE_S), "another one executes it, unless the broker still got the result"


async def appears_like(folder: Path, pattern: str) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not await asyncio.to_thread(lambda: any(folder.glob(pattern))):  # noqa: ASYNC110 -- made elsewhere
            await asyncio.sleep(0.02)


async def owned_by(worker: Worker, run_id: str) -> None:
    """The worker has taken the run over."""
    assert worker.services is not None
    why, engine = worker.services.explanations.why_run, worker.services.engine
    async with asyncio.timeout(PATIENCE_S):
        while engine.worker_id not in str(await why(run_id, tenant_id="default")):  # noqa: ASYNC110 -- committed later
            await asyncio.sleep(0.02)


async def appears(path: Path) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not await asyncio.to_thread(path.exists):  # noqa: ASYNC110 -- another process makes it
            await asyncio.sleep(0.02)


async def says_why(worker: Worker, run_id: str, sentence: str, *, node_id: str | None = None) -> None:
    """The run says so, or one of its nodes; a step can be asked for when the log has its beginning."""
    assert worker.services is not None
    explanations = worker.services.explanations

    async def said() -> str:
        if node_id is None:
            return str((await explanations.why_run(run_id, tenant_id="default"))["sentence"])
        try:
            return str((await explanations.why_node(run_id, node_id, tenant_id="default"))["sentence"])
        except NotFound:
            return ""

    async with asyncio.timeout(PATIENCE_S):
        while sentence not in await said():  # noqa: ASYNC110 -- committed later
            await asyncio.sleep(0.02)


async def lines_say(worker: Worker, run_id: str, text: str) -> None:
    assert worker.services is not None
    wanted = LinesWanted()
    read = worker.services.workflows.get_console
    async with asyncio.timeout(PATIENCE_S):
        while text not in str(await read(run_id, wanted, tenant_id="default")):  # noqa: ASYNC110 -- stored later
            await asyncio.sleep(0.02)

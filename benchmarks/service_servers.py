"""The servers that `benchmarks.service` asks: ours, and the barest one that keeps a row for each request.

    python -m benchmarks.service_servers ours|ours-accepting|bare DATABASE_URL

Prints one line `PORT KEY` once it listens, and stops at SIGTERM. `bare` is the reference: an aiohttp
handler that reads the JSON, inserts one row and commits it, one transaction a request, on as many
connections as a pool would have; it checks nothing, authenticates nobody and starts nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import sqlite3
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import TypeAlias

import orjson
import psycopg
from aiohttp import web

from anabranch.app import build, tune_interpreter
from anabranch.keys.access import Role
from anabranch.rest.application import build_application
from anabranch.settings import Settings

# 10 connections: the usual size of a pool, and more than two cores keep busy.
POOL_CONNECTIONS = 10

Insert: TypeAlias = Callable[[str, bytes], Awaitable[None]]

# A workflow whose run is three nodes long and needs nothing from outside.
WORKFLOW = {
    "name": "bench",
    "nodes": [
        {"id": "start", "type": "start"},
        {"id": "work", "type": "set", "config": {"values": {"n": "{{ctx.input.n}}"}}, "outputVariable": "work"},
        {"id": "end", "type": "end", "config": {"outputParameters": {"n": "{{ctx.work.n}}"}}},
    ],
    "edges": [
        {"upstreamNodeID": "start", "downstreamNodeID": "work"},
        {"upstreamNodeID": "work", "downstreamNodeID": "end"},
    ],
}


# The same behind a webhook without authentication, which starts a run for each request.
HOOKED = {
    "name": "hooked",
    "nodes": [
        {"id": "hook", "type": "webhook", "config": {"path": "bench"}},
        {
            "id": "work",
            "type": "set",
            "config": {"values": {"n": "{{ctx.input.json.input.n}}"}},
            "outputVariable": "work",
        },
        {"id": "end", "type": "end", "config": {"outputParameters": {"n": "{{ctx.work.n}}"}}},
    ],
    "edges": [
        {"upstreamNodeID": "hook", "downstreamNodeID": "work"},
        {"upstreamNodeID": "work", "downstreamNodeID": "end"},
    ],
}

# More requests a second than any client here sends.
WEBHOOK_RATE = 1_000_000


async def serve_ours(url: str, *, works: bool) -> None:
    """The product, with a worker in the process or without."""
    # No limit of PENDING runs: a server without a worker is asked for more than the default lets wait.
    settings = Settings.load(environ={}, database_url=url, pending_max=10_000_000, webhook_rate=WEBHOOK_RATE)
    async with build(settings).open_services(works=works) as services:
        key = services.access.add_own_key(tenant_id="default", role=Role.ADMIN).key
        for workflow in (WORKFLOW, HOOKED):
            await services.workflows.save_workflow(workflow, tenant_id="default")
        await _serve(build_application(services), key)


async def serve_bare(url: str) -> None:
    """One row and one commit a request."""
    tune_interpreter()
    async with _inserter(url) as insert:

        async def start(request: web.Request) -> web.Response:
            body = orjson.loads(await request.read())
            instance_id = str(uuid.uuid4())
            await insert(instance_id, orjson.dumps(body["input"]))
            return web.Response(
                body=orjson.dumps({"instanceID": instance_id, "status": "PENDING"}),
                status=201,
                content_type="application/json",
            )

        application = web.Application()
        application.router.add_post("/v1/workflows/bench/runs", start)
        await _serve(application, "none")


async def _serve(application: web.Application, key: str) -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    runner = web.AppRunner(application, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    print(runner.addresses[0][1], key, flush=True)
    await stop.wait()
    await runner.cleanup()


@asynccontextmanager
async def _inserter(url: str) -> AsyncIterator[Insert]:
    if url.startswith("sqlite:///"):
        async with _sqlite_inserter(url.removeprefix("sqlite:///")) as insert:
            yield insert
    else:
        async with _postgres_inserter(url) as insert:
            yield insert


@asynccontextmanager
async def _sqlite_inserter(path: str) -> AsyncIterator[Insert]:
    """One writer thread, as SQLite has one writer; set as our own connections are."""
    threads = ThreadPoolExecutor(max_workers=1)
    loop = asyncio.get_running_loop()
    connection = await loop.run_in_executor(threads, lambda: sqlite3.connect(path, isolation_level=None))
    for statement in (
        "PRAGMA journal_mode=WAL",
        "PRAGMA synchronous=FULL",
        "CREATE TABLE bare (id TEXT PRIMARY KEY, input TEXT NOT NULL)",
    ):
        await loop.run_in_executor(threads, connection.execute, statement)

    async def insert(instance_id: str, value: bytes) -> None:
        await loop.run_in_executor(
            threads, connection.execute, "INSERT INTO bare VALUES (?, ?)", (instance_id, value.decode())
        )

    try:
        yield insert
    finally:
        await loop.run_in_executor(threads, connection.close)
        threads.shutdown()


@asynccontextmanager
async def _postgres_inserter(url: str) -> AsyncIterator[Insert]:
    connections = [await psycopg.AsyncConnection.connect(url, autocommit=True) for _ in range(POOL_CONNECTIONS)]
    await connections[0].execute("CREATE TABLE bare (id uuid PRIMARY KEY, input json NOT NULL)")
    free: asyncio.Queue[psycopg.AsyncConnection[tuple[object, ...]]] = asyncio.Queue()
    for connection in connections:
        free.put_nowait(connection)

    async def insert(instance_id: str, value: bytes) -> None:
        connection = await free.get()
        try:
            await connection.execute("INSERT INTO bare VALUES (%s, %s)", (instance_id, value.decode()))
        finally:
            free.put_nowait(connection)

    try:
        yield insert
    finally:
        for connection in connections:
            await connection.close()


def main() -> None:
    """Serve until SIGTERM."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=("ours", "ours-accepting", "bare"))
    parser.add_argument("database_url")
    arguments = parser.parse_args()
    if arguments.kind == "bare":
        asyncio.run(serve_bare(arguments.database_url))
    else:
        asyncio.run(serve_ours(arguments.database_url, works=arguments.kind == "ours"))


if __name__ == "__main__":
    main()

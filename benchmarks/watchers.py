"""What do watchers of a busy run cost the engine?

    python -m benchmarks.watchers [--watchers 200] [--items 10000] [--rounds 5] [--backend sqlite] [--json]

One run loops over many items, 64 at once, as fast as it can; nothing else happens. Rounds with and
without watchers take turns, so that whatever else the machine does meets both. The watchers are
WebSockets of one other process, which reads all that it is sent and looks at nothing. Goal: the
throughput with 200 watchers is at least 80 % of that without.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
from aiohttp import web

from anabranch.audit.audit_table import AuditTable
from anabranch.audit.counted_entries import CountedEntries
from anabranch.keys.access import AccessService, Role
from anabranch.keys.key_table import KeyTable
from anabranch.sockets import SocketServer
from benchmarks.databases import BACKENDS, databases
from benchmarks.running import TENANT, Bench, cpu_s, engine_on, open_store_at
from benchmarks.workloads import Load

GOAL = 0.8
AT_ONCE = 64


def busy(items: int) -> Load:
    """Waits to be told, then loops."""
    config = {"source": "{{ctx.input.items}}", "concurrency": AT_ONCE}
    document = {
        "name": "busy",
        "nodes": [
            {"id": "start", "type": "start"},
            {"id": "go", "type": "waitForEvent", "config": {"event": "go"}},
            {"id": "each", "type": "loop", "config": config},
            {"id": "work", "type": "set", "config": {"values": {"v": "{{ctx.index}}"}}},
        ],
        "edges": [
            {"upstreamNodeID": "start", "downstreamNodeID": "go"},
            {"upstreamNodeID": "go", "downstreamNodeID": "each"},
            {"upstreamNodeID": "each", "downstreamNodeID": "work", "sourceHandle": "loop"},
        ],
    }
    return Load(document, flock=1, nodes_per_run=items, input={"items": list(range(items))})


class Crowd:
    """The watchers' process: told of a run, it joins it with all of them."""

    def __init__(self, process: Process) -> None:
        self._process = process

    async def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """Its answer."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(request).encode() + b"\n")
        answer: dict[str, Any] = json.loads(await self._process.stdout.readline())
        return answer


@asynccontextmanager
async def crowd_of(watchers: int, url: str, key: str) -> AsyncIterator[Crowd]:
    """That many watchers, connected."""
    program = [sys.executable, "-m", "benchmarks.watchers", "--be-crowd", url, key, "--watchers", str(watchers)]
    process = await asyncio.create_subprocess_exec(*program, stdin=PIPE, stdout=PIPE)
    try:
        yield Crowd(process)
    finally:
        process.kill()
        await process.wait()


async def measure(backend: str, *, watchers: int, items: int, rounds: int) -> dict[str, Any]:
    """Nodes a second and processor seconds a run, with and without watchers."""
    load = busy(items)
    found: dict[str, list[tuple[float, float]]] = {"without": [], "with": []}
    with databases() as made:
        async with (
            open_store_at(made.create(backend)) as store,
            engine_on(store) as bench,
            served(bench) as (url, key),
            crowd_of(watchers, url, key) as crowd,
        ):
            await bench.save(load)
            await one_run(bench, load, None)
            received = {}
            for _ in range(rounds):
                found["without"].append(await one_run(bench, load, None))
                found["with"].append(await one_run(bench, load, crowd))
                received = await crowd.ask({})
    rates = {name: statistics.median(items / seconds for seconds, _ in samples) for name, samples in found.items()}
    cpu = {name: statistics.median(used for _, used in samples) for name, samples in found.items()}
    return {
        "backend": backend,
        "watchers": watchers,
        "nodesPerS": {name: round(rate) for name, rate in rates.items()},
        "cpuSeconds": {name: round(used, 2) for name, used in cpu.items()},
        "ratio": round(rates["with"] / rates["without"], 3),
        "goal": GOAL,
        "received": received,
    }


@asynccontextmanager
async def served(bench: Bench) -> AsyncIterator[tuple[str, str]]:
    """The API of a bench: its address and a key."""
    store: Any = bench.engine.store
    access = AccessService(KeyTable(store), CountedEntries(AuditTable(store)))
    key = access.add_own_key(tenant_id=TENANT, role=Role.VIEWER).key
    application = web.Application()
    sockets = SocketServer(
        engine=bench.engine, workflows=bench.service, access=access, is_own_origin=lambda origin, host: False
    )
    sockets.mount(application)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}", key
    finally:
        await runner.cleanup()
        await access.stop()


async def one_run(bench: Bench, load: Load, crowd: Crowd | None) -> tuple[float, float]:
    """Seconds from the start of the loop to the end of the run, and the processor seconds of this process meanwhile."""
    service = bench.service
    ended = bench.expect_ends(1)
    started = await service.execute_workflow(load.name, load.input, tenant_id=TENANT)
    if crowd is not None:
        await crowd.ask({"runId": started.instance_id})
    used, began = cpu_s(), time.perf_counter()
    await service.send_signal(started.instance_id, "go", None, tenant_id=TENANT)
    await ended.wait()
    return time.perf_counter() - began, cpu_s() - used


async def be_crowd(url: str, key: str, watchers: int) -> None:
    """Connect, and do what the lines of standard input say: join a run, or tell what was received."""
    received = {"messages": 0, "bytes": 0}
    joined = asyncio.Semaphore(0)
    loop = asyncio.get_running_loop()
    lines = asyncio.StreamReader(limit=1_048_576)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)

    async def read(socket: aiohttp.ClientWebSocketResponse) -> None:
        async for message in socket:
            text = message.data
            if text == "2":
                await socket.send_str("3")
            elif text.startswith("43"):
                joined.release()
            else:
                received["messages"] += 1
                received["bytes"] += len(text)

    address = f"{url}/socket.io/?EIO=4&transport=websocket"
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        sockets = [await session.ws_connect(address, max_msg_size=0) for _ in range(watchers)]
        for socket in sockets:
            await socket.send_str("40" + json.dumps({"key": key}))
        readers = [asyncio.create_task(read(socket)) for socket in sockets]
        while line := await lines.readline():
            request = json.loads(line)
            if "runId" in request:
                for socket in sockets:
                    await socket.send_str("420" + json.dumps(["workflow_run_join", request]))
                for _ in sockets:
                    await joined.acquire()
            print(json.dumps(received), flush=True)
        for reader in readers:
            reader.cancel()


def main() -> None:
    """Measure, and print what was found."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--watchers", type=int, default=200)
    parser.add_argument("--items", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--backend", choices=BACKENDS, default="sqlite")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--be-crowd", nargs=2, metavar=("URL", "KEY"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.be_crowd:
        asyncio.run(be_crowd(*options.be_crowd, options.watchers))
        return
    found = asyncio.run(measure(options.backend, watchers=options.watchers, items=options.items, rounds=options.rounds))
    if options.json:
        print(json.dumps(found))
        return
    rates, cpu = found["nodesPerS"], found["cpuSeconds"]
    print(f"{options.backend}, {options.watchers} watchers of one run that loops over {options.items} items")
    print(f"  without  {rates['without']:>7} nodes/s   {cpu['without']:.2f} s of processor time a run")
    print(f"  with     {rates['with']:>7} nodes/s   {cpu['with']:.2f} s")
    print(f"  ratio    {found['ratio']:.1%} (goal: at least {GOAL:.0%})")


if __name__ == "__main__":
    main()

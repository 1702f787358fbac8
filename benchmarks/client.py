"""What does a client see? A worker in a process of its own, and runs that are started and awaited one after the other.

Called by `engine` and `durable`; as a program, `python -m benchmarks.client DATABASE_URL [MODULE]`, it is that worker.
Worker and client are those of the package, as users open them: nothing is set that would make them hear of each other
sooner.
"""

from __future__ import annotations

import asyncio
import importlib
import statistics
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from anabranch import Client, Worker
from benchmarks.workloads import Load

# 5 runs before it is measured: code imported, statements prepared, connections open.
WARM_UP_RUNS = 5
RUNS = 60


async def client_lone_p50_ms(url: str, load: Load, *, module: str = "") -> float:
    """Milliseconds from a start by a client until it has the result, at the median; a worker process runs them.

    `module` is what the worker imports: the code of a coded workflow. A drawn one has been saved.
    """
    async with _worker(url, module), Client(url) as client:
        seen_ms: list[float] = []
        for _ in range(WARM_UP_RUNS + RUNS):
            began = time.perf_counter()
            handle = await client.start(load.name, load.input)
            await handle.result(timeout=60)
            seen_ms.append((time.perf_counter() - began) * 1000)
    return statistics.median(seen_ms[WARM_UP_RUNS:])


@asynccontextmanager
async def _worker(url: str, module: str) -> AsyncIterator[None]:
    pipe = asyncio.subprocess.PIPE
    command = [sys.executable, "-m", "benchmarks.client", url, *([module] if module else [])]
    worker = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe)
    assert worker.stdin is not None and worker.stdout is not None
    try:
        if not await worker.stdout.readline():
            raise RuntimeError("the worker process did not become ready")
        yield
    finally:
        worker.stdin.close()
        await worker.wait()


async def _work(url: str, module: str) -> None:
    """Run what is started until nobody holds the other end of standard input any more."""
    if module:
        importlib.import_module(module)
    async with Worker(url):
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(_work(sys.argv[1], "".join(sys.argv[2:])))

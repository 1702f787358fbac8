"""DBOS: `dbos_steps.py DATABASE_URL RUNS STEPS LONE_RUNS CONCURRENCY`; ends in one line of JSON."""

import asyncio
import json
import statistics
import sys
import time
from importlib.metadata import version
from typing import Any

from dbos import DBOS, DBOSConfig

url = sys.argv[1]
runs, steps, lone_runs, concurrency = map(int, sys.argv[2:6])
if url.startswith("postgresql://"):
    url = url.replace("postgresql://", "postgresql+psycopg://", 1)

config: DBOSConfig = {"name": "steps", "system_database_url": url, "log_level": "ERROR", "enable_otlp": False}
DBOS(config=config)

returned = 0
all_returned = asyncio.Event()
loop = asyncio.new_event_loop()


@DBOS.step()
async def same(value: Any) -> Any:
    """A step that does nothing."""
    return value


@DBOS.workflow()
async def flow(n: int) -> Any:
    """One step after the other, each with the value of the one before."""
    value = n
    for _ in range(steps):
        value = await same(value)
    global returned
    returned += 1
    if returned == runs + 1:  # with the one that warms it up
        loop.call_soon_threadsafe(all_returned.set)
    return value


async def measure() -> None:
    """Measure and print."""
    DBOS.launch()
    await DBOS.register_queue_async("steps", worker_concurrency=concurrency, polling_interval_sec=0.01)
    await (await DBOS.start_workflow_async(flow, 0)).get_result()
    cpu, began = time.process_time(), time.perf_counter()
    handles = await asyncio.gather(*(DBOS.enqueue_workflow_async("steps", flow, n) for n in range(runs)))
    accepted = time.perf_counter()
    await all_returned.wait()
    await handles[-1].get_result()
    ended, cpu = time.perf_counter(), time.process_time() - cpu
    lone = []
    for n in range(lone_runs):
        started = time.perf_counter()
        await (await DBOS.start_workflow_async(flow, n)).get_result()
        lone.append((time.perf_counter() - started) * 1000)
    print(
        json.dumps(
            {
                "version": version("dbos"),
                "steps_per_s": runs * steps / (ended - began),
                "starts_per_s": runs / (accepted - began),
                "lone_p50_ms": statistics.median(lone),
                "cpu_ms_per_step": cpu * 1000 / (runs * steps),
            }
        )
    )


loop.run_until_complete(measure())
DBOS.destroy()

"""procrastinate: `procrastinate_jobs.py DATABASE_URL RUNS STEPS LONE_RUNS CONCURRENCY`: a job for each step."""

import asyncio
import json
import sys
import time
from importlib.metadata import version

from procrastinate import App, PsycopgConnector

url = sys.argv[1]
runs, steps, _, concurrency = map(int, sys.argv[2:6])
jobs = runs * steps
app = App(connector=PsycopgConnector(conninfo=url))


@app.task
async def same(value: int) -> int:
    """A step that does nothing."""
    return value


async def measure() -> None:
    """Measure and print."""
    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        cpu, began = time.process_time(), time.perf_counter()
        for first in range(0, jobs, 1_000):
            await same.batch_defer_async(*({"value": n} for n in range(min(1_000, jobs - first))))
        await app.run_worker_async(concurrency=concurrency, wait=False, install_signal_handlers=False)
        ended, cpu = time.perf_counter(), time.process_time() - cpu
    print(
        json.dumps(
            {
                "version": version("procrastinate"),
                "steps_per_s": jobs / (ended - began),
                "cpu_ms_per_step": cpu * 1000 / jobs,
            }
        )
    )


asyncio.run(measure())

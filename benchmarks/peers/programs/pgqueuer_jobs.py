"""pgqueuer: `pgqueuer_jobs.py DATABASE_URL RUNS STEPS LONE_RUNS CONCURRENCY`: a job for each step; ends in JSON."""

import asyncio
import json
import sys
import time
from importlib.metadata import version

import psycopg
from pgqueuer import PgQueuer
from pgqueuer.db import PsycopgDriver

url = sys.argv[1]
runs, steps, _, concurrency = map(int, sys.argv[2:6])
jobs = runs * steps


async def measure() -> None:
    """Measure and print."""
    connection = await psycopg.AsyncConnection.connect(url, autocommit=True)
    queuer = PgQueuer(PsycopgDriver(connection))
    left, ended = jobs, 0.0

    @queuer.entrypoint("same")
    async def same(job: object) -> None:
        nonlocal left, ended
        left -= 1
        if left == 0:
            ended = time.perf_counter()
            queuer.shutdown.set()

    await queuer.qm.queries.install()
    cpu, began = time.process_time(), time.perf_counter()
    for first in range(0, jobs, 1_000):
        count = min(1_000, jobs - first)
        await queuer.qm.queries.enqueue(["same"] * count, [b"1"] * count, [0] * count)
    await queuer.run(batch_size=concurrency)
    cpu = time.process_time() - cpu
    print(
        json.dumps(
            {
                "version": version("pgqueuer"),
                "steps_per_s": jobs / (ended - began),
                "cpu_ms_per_step": cpu * 1000 / jobs,
            }
        )
    )


asyncio.run(measure())

"""What a node costs that another process executes: jobs through RabbitMQ, against a bare echo of the same messages.

    python -m benchmarks.pools [--json] [--save FILE] [--rounds 3] [--runs 600]

Two measurements in turn, on one RabbitMQ of their own:

* **jobs**: a worker on a SQLite file runs workflows of ten nodes in a row, of which nine are jobs of a pool; a process
  of `anabranch executor` executes them, and they return at once. Jobs a second from the first start until the last
  run has ended: with deciding, committing, and everything that the protocol reports.
* **bare**: two programs with nothing but aio-pika, in processes of their own, too. One publishes the message of such a
  job, the other one publishes it back. Queues, confirmations, prefetch and the number of messages under way are those
  of the jobs.

The last line of output is one JSON object.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex
from typing import Any

import aio_pika
from aio_pika.abc import AbstractIncomingMessage

from anabranch import Worker
from anabranch.app import tune_interpreter
from anabranch.engine.rules.events import Event, Status
from anabranch.run_requests import StartOptions
from anabranch.transport.job_messages import NodeJob
from benchmarks import pool_nodes
from benchmarks.children import in_child
from benchmarks.echo import CONCURRENCY
from benchmarks.measured import save
from benchmarks.running import TENANT
from benchmarks.workloads import effects
from tests.rabbitmq import RabbitMQ, running_rabbitmq

NODES = 10
JOBS_PER_RUN = NODES - 1
RUNS = 600
ROUNDS = 3

# 20 runs before anything is measured: connections, prepared statements and queues are there then.
WARM_UP_RUNS = 20

LABELS = {
    "jobs_per_s": ("jobs/s through RabbitMQ", ""),
    "bare_jobs_per_s": ("the same of the bare echo", ""),
    "ratio": ("**jobs/s, share of the bare echo**", "**≥ 0.4**"),
}

Figures = dict[str, float]


class _Ends:
    """An observer of the engine that waits until so many runs have completed."""

    def __init__(self) -> None:
        self._left = 0
        self._all = asyncio.Event()

    def expect(self, count: int) -> asyncio.Event:
        self._left = count
        self._all.clear()
        return self._all

    def committed(self, instance_id: str, events: Sequence[Event], status: Status) -> None:
        if status.is_terminal:
            assert status is Status.COMPLETED, f"run {instance_id} ended {status}: {events[-1].payload}"
            self._left -= 1
            if self._left == 0:
                self._all.set()


async def measure_jobs(broker_url: str, runs: int) -> Figures:
    """Jobs of a pool, from the start of their runs until these have ended."""
    load = effects(NODES, pool_nodes.TYPE)
    with tempfile.TemporaryDirectory(prefix="anabranch-pools-") as home, _executor(broker_url, Path(home)):
        async with Worker(f"sqlite:///{Path(home) / 'runs.db'}", broker_url=broker_url) as worker:
            assert worker.services is not None
            service, ends = worker.services.workflows, _Ends()
            worker.services.engine.observers.add(ends)
            await service.save_workflow(load, tenant_id=TENANT)

            async def run_all(count: int) -> float:
                ended, began = ends.expect(count), time.perf_counter()
                start = service.execute_workflow
                await asyncio.gather(
                    *(start(load["name"], {"n": 1}, StartOptions(), tenant_id=TENANT) for _ in range(count))
                )
                await ended.wait()
                return time.perf_counter() - began

            await run_all(WARM_UP_RUNS)
            return {"per_s": runs * JOBS_PER_RUN / await run_all(runs)}


async def measure_echo(broker_url: str, runs: int) -> Figures:
    """The messages of as many jobs, as many under way at once, there and back."""
    jobs, replies = (f"bench.{token_hex(4)}.{what}" for what in ("jobs", "replies"))
    async with await aio_pika.connect(broker_url) as connection:
        channel = await connection.channel()
        quorum: Any = {"x-queue-type": "quorum"}
        for name in (jobs, replies):
            await channel.declare_queue(name, durable=True, arguments=quorum)
        message = aio_pika.Message(
            _job(replies).to_json(), reply_to=replies, delivery_mode=aio_pika.DeliveryMode.PERSISTENT
        )
        room = asyncio.Semaphore(runs)
        left, all_back = 0, asyncio.Event()

        async def receive(reply: AbstractIncomingMessage) -> None:
            nonlocal left
            await reply.ack()
            room.release()
            left -= 1
            if left == 0:
                all_back.set()

        async def publish(count: int) -> None:
            for _ in range(count):
                await room.acquire()
                await channel.default_exchange.publish(message, jobs)

        async def all_of(count: int) -> float:
            nonlocal left
            left = count
            all_back.clear()
            began = time.perf_counter()
            async with asyncio.TaskGroup() as publishers:
                for number in range(CONCURRENCY):
                    publishers.create_task(publish(count // CONCURRENCY + (number < count % CONCURRENCY)))
            await all_back.wait()
            return time.perf_counter() - began

        queue = await channel.get_queue(replies)
        consumer = await queue.consume(receive)
        with _process("-m", "benchmarks.echo", broker_url, jobs):
            await all_of(WARM_UP_RUNS * JOBS_PER_RUN)
            seconds = await all_of(runs * JOBS_PER_RUN)
        await queue.cancel(consumer)
        for name in (jobs, replies):
            await channel.queue_delete(name)
    return {"per_s": runs * JOBS_PER_RUN / seconds}


def _job(reply_to: str) -> NodeJob:
    """As the worker makes it of a node of these runs."""
    instance_id = token_hex(16)
    return NodeJob(
        job_id=f"{token_hex(16)}-1",
        instance_id=instance_id,
        tenant_id=TENANT,
        workflow_id=token_hex(16),
        node_id="n5",
        scope="",
        attempt=1,
        type=pool_nodes.TYPE,
        pool=pool_nodes.POOL,
        config={},
        context={"input": {"n": 1}, "v": {"v": 1}},
        idempotency_key=token_hex(16),
        reply_to=reply_to,
        ticket=token_hex(8),
        timeout_ms=300_000,
        output_bytes_max=1_048_576,
    )


@contextmanager
def _executor(broker_url: str, home: Path) -> Iterator[None]:
    command = ["-m", "anabranch", "executor", "--pools", pool_nodes.POOL, "--concurrency", str(CONCURRENCY)]
    environ = {**os.environ, "ANABRANCH_BROKER_URL": broker_url}
    with _process(*command, "--import", str(Path(pool_nodes.__file__)), environ=environ, cwd=home):
        yield


@contextmanager
def _process(*arguments: str, environ: dict[str, str] | None = None, cwd: Path | None = None) -> Iterator[None]:
    """A Python process that has said that it is ready; terminated at the end."""
    process = subprocess.Popen(
        [sys.executable, *arguments], env=environ, cwd=cwd, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        if not process.stdout.readline():
            raise RuntimeError(f"{' '.join(arguments)} ended before it was ready")
        yield
    finally:
        process.terminate()
        process.wait()


def measure(broker: RabbitMQ, *, rounds: int, runs: int) -> Figures:
    """The medians of the rounds; which of the two is first changes with each."""
    found: dict[str, list[float]] = {"jobs": [], "bare": []}
    kinds = {"jobs": measure_jobs, "bare": measure_echo}
    for number in range(rounds):
        for name in sorted(kinds, reverse=number % 2 == 1):
            found[name].append(in_child(kinds[name], broker.url, runs)["per_s"])
    jobs, bare = statistics.median(found["jobs"]), statistics.median(found["bare"])
    return {"jobs_per_s": jobs, "bare_jobs_per_s": bare, "ratio": jobs / bare}


def main() -> None:
    """Measure both, and print it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--json", action="store_true", help="print nothing but the JSON object")
    parser.add_argument("--save", type=Path, metavar="FILE")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--runs", type=int, default=RUNS)
    arguments = parser.parse_args()
    tune_interpreter()
    with running_rabbitmq() as broker:
        figures = measure(broker, rounds=arguments.rounds, runs=arguments.runs)
    if not arguments.json:
        for name, figure in figures.items():
            print(f"{name}: {figure:,.2f}")
    if arguments.save:
        setup = {"rounds": arguments.rounds, "runs": arguments.runs, "jobs": arguments.runs * JOBS_PER_RUN}
        save(arguments.save, "python -m benchmarks.pools --save FILE", figures, setup=setup)
    print(json.dumps(figures))


if __name__ == "__main__":
    main()

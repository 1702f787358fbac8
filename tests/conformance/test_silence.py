"""Silence and locks: what a frozen backend, a hung proxy or a forgotten lock may cost, and whom.

PostgreSQL only: there the database is another process, and others write while a row is locked.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import threading
import time
from collections.abc import AsyncIterator, Iterable, Iterator

import psycopg
import pytest
from sqlalchemy import Connection, text

from anabranch.engine.ports import InstanceRow, Transition
from anabranch.engine.rules.events import Status
from anabranch.engine.store.opening import open_store
from anabranch.engine.store.postgresql.postgresql_dialect import COMMITTING, PostgresqlDialect
from anabranch.engine.store.postgresql.timeouts import Timeouts
from anabranch.engine.store.sql.database_errors import LocksHeld
from anabranch.engine.store.sql.store import SqlStore
from anabranch.errors import DatabaseUnreachable, StoreUnavailable
from tests.chaos.proxy import Proxy, socket_of
from tests.conformance.building import (
    LEASE_MS,
    TENANT,
    WORKER,
    born_many,
    completed,
    created,
    dispatched,
    new_head,
    new_run,
    row_of,
    transition,
)
from tests.conformance.locking import lock, waiting_backend
from tests.conformance.test_families import child_of, failing, wakes

# Of a lease of 3 s: statements have 2 s, a lock half a second, and a frozen transaction 1.5 s.
TIMEOUTS = Timeouts.below(3_000)

# Nothing comes free by itself while a test runs: what is done meanwhile has not waited for it, on any machine.
ENDLESS_MS = 3_600_000
ENDLESS = Timeouts(statement_ms=ENDLESS_MS, lock_ms=ENDLESS_MS, idle_in_transaction_ms=ENDLESS_MS)

# So that what waits for something endless fails here.
PATIENCE_S = 60.0


@pytest.fixture
async def store(postgres_url: str) -> AsyncIterator[SqlStore]:
    """A worker's store with the limits of a short lease."""
    async with opened(postgres_url) as store:
        yield store


@pytest.fixture
async def endless_store(postgres_url: str) -> AsyncIterator[SqlStore]:
    """One whose limits no test reaches."""
    async with opened(postgres_url, ENDLESS) as store:
        yield store


@contextlib.asynccontextmanager
async def opened(url: str, timeouts: Timeouts = TIMEOUTS) -> AsyncIterator[SqlStore]:
    store = open_store(url)
    assert isinstance(store.dialect, PostgresqlDialect)
    store.dialect.timeouts = timeouts
    await store.start()
    try:
        yield store
    finally:
        await store.stop(patience_s=1)


@contextlib.contextmanager
def frozen(*backends: int) -> Iterator[None]:
    """These processes of the server stand still."""
    for pid in backends:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in backends:
            os.kill(pid, signal.SIGCONT)


async def committing_threads(store: SqlStore) -> set[int]:
    """The processes of the server that serve its committing threads: all of them, so their calls overlap."""
    everybody = threading.Barrier(store.commits_in_flight_max)

    def pid(connection: Connection) -> int:
        everybody.wait(PATIENCE_S)
        return int(connection.execute(text("SELECT pg_backend_pid()")).scalar_one())

    count = range(store.commits_in_flight_max)
    return set(await asyncio.gather(*(store.commit_transitions(pid, may_wait=False) for _ in count)))


async def committing_backends(store: SqlStore) -> set[int]:
    """Those, and the ones that the event loop commits on."""
    return await committing_threads(store) | await async_backends(store)


async def async_backends(store: SqlStore) -> set[int]:
    """The processes of the server that serve the commits of the event loop: all of them, so the commits overlap."""
    threads = await committing_threads(store)
    births = [await creation(store) for _ in range(store.commits_in_flight_max)]
    assert all(outcome.won for outcome in await asyncio.gather(*(store.commit([birth]) for birth in births)))
    backends = await backends_named(store, COMMITTING) - threads
    assert len(backends) == store.commits_in_flight_max
    return backends


async def backends_named(store: SqlStore, name: str) -> set[int]:
    """The processes of the server that serve connections of this database with this name."""
    ours = text("SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND application_name = :name")
    return await store.read(lambda connection: set(connection.execute(ours, {"name": name}).scalars()))


def ids_of(rows: Iterable[InstanceRow]) -> set[str]:
    return {row.head.instance_id for row in rows}


async def creation(store: SqlStore, **head: object) -> Transition:
    return new_run(new_head(now=await store.now(), **head))


def ends(row: object) -> Transition:
    """The transition that completes a child, and wakes its parent."""
    return transition(row, completed("x"), status=Status.COMPLETED, release=True, **wakes(row))  # type: ignore[arg-type]


# -- nobody answers -------------------------------------------------------------------------------
async def test_reads_go_on_while_the_backends_of_commits_are_frozen(endless_store: SqlStore) -> None:
    store = endless_store
    rows = await born_many(store, 2)
    with frozen(*await committing_backends(store)):
        stuck = [asyncio.create_task(store.commit([transition(row, dispatched("a"))])) for row in rows]
        async with asyncio.timeout(PATIENCE_S):
            assert await store.get_instance(rows[0].head.instance_id) == rows[0]
        assert not any(task.done() for task in stuck)
    assert {run for outcome in await asyncio.gather(*stuck) for run in outcome.won} == ids_of(rows)


async def test_a_frozen_backend_costs_a_statement_its_deadline_and_its_connection_and_nothing_else(
    store: SqlStore,
) -> None:
    rows = await born_many(store, 3)
    backends = await committing_backends(store)
    with frozen(*backends):
        began = time.monotonic()
        lost = [asyncio.create_task(store.commit([transition(row, dispatched("a"))])) for row in rows[:2]]
        for attempt in lost:
            with pytest.raises(StoreUnavailable, match=f"no answer within {TIMEOUTS.client_s:.1f} s"):
                await attempt
        assert time.monotonic() - began >= TIMEOUTS.client_s
        async with asyncio.timeout(PATIENCE_S):
            outcome = await store.commit([transition(rows[2], dispatched("a"))])
        assert outcome.won == {rows[2].head.instance_id}, "new connections have taken the place of the frozen ones"
        assert not backends & await committing_threads(store)


async def test_a_proxy_that_falls_silent_is_an_outage_after_the_deadline(postgres_url: str) -> None:
    async with (
        Proxy(socket_of(postgres_url), seed=1) as proxy,
        opened(f"{proxy.url_of(postgres_url)}?connect_timeout=2") as store,
    ):
        row = await created(store)
        assert store.dialect.pooled is False  # type: ignore[attr-defined]
        proxy.silence_those_open()
        with pytest.raises(StoreUnavailable, match="no answer within"):
            await store.commit([transition(row, dispatched("a"))])
        assert (await store.commit([transition(row, dispatched("a"))])).won, "on a new connection"

        proxy.fall_silent()
        async with asyncio.timeout(PATIENCE_S):
            with pytest.raises(StoreUnavailable):
                await store.now()  # once on the old connection, once on a new one that is never made


async def test_closing_waits_for_nobody_longer_than_it_is_told(postgres_url: str) -> None:
    async with opened(postgres_url, ENDLESS) as store:
        row = await created(store)
        with frozen(*await committing_backends(store)):
            lost = asyncio.create_task(store.commit([transition(row, dispatched("a"))]))
            await asyncio.sleep(0)
            async with asyncio.timeout(PATIENCE_S):
                await store.stop(patience_s=0.2)
                with pytest.raises(StoreUnavailable):
                    await lost  # its socket was cut, so its thread does not wait for the deadline either


async def test_who_asks_whether_commits_get_through_is_told_that_they_do_not(store: SqlStore) -> None:
    row = await created(store)
    await store.check_commits()
    with frozen(*await committing_backends(store)):
        lost = asyncio.create_task(store.commit([transition(row, dispatched("a"))]))
        with pytest.raises((StoreUnavailable, TimeoutError)):
            async with asyncio.timeout(0.5):
                await store.check_commits()
        with pytest.raises(StoreUnavailable):
            await lost
        with pytest.raises(StoreUnavailable, match="the last commit failed: the database cannot be reached"):
            await store.check_commits()
        await store.commit([transition(row, dispatched("a"))])
        await store.check_commits()


async def test_who_asks_whether_commits_get_through_hears_of_a_read_only_database(store: SqlStore) -> None:
    def make_read_only(connection: Connection) -> None:
        connection.exec_driver_sql("SET default_transaction_read_only = on")

    for _ in range(store.commits_in_flight_max):
        await store.commit_transitions(make_read_only, may_wait=False)
    with pytest.raises(DatabaseUnreachable, match="it is read-only"):
        for _ in range(8):
            await store.check_commits()


# -- limits on every connection -------------------------------------------------------------------
LIMITS = ("statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout")


async def test_every_connection_has_limits_below_the_lease_whatever_was_set_for_the_database(
    postgres_url: str,
) -> None:
    with psycopg.connect(postgres_url, autocommit=True) as administrator:
        name = administrator.info.dbname
        administrator.execute(f'ALTER DATABASE "{name}" SET statement_timeout = 7')

    def limits(connection: Connection) -> dict[str, str]:
        settings = {each: connection.exec_driver_sql(f"SHOW {each}").scalar_one() for each in LIMITS}
        connection.exec_driver_sql("SELECT pg_sleep(0.02)")
        return settings

    async with opened(postgres_url) as store:
        found = [
            await store.read(limits),
            await store.write(limits),
            await store.write_without_waiting(limits),
            await store.commit_transitions(limits, may_wait=False),
            await store.commit_transitions(limits, may_wait=True),
        ]
    assert found == [dict(zip(LIMITS, ("2s", "500ms", "1500ms"), strict=True))] * len(found)


def test_limits_stay_below_the_lease() -> None:
    for lease_ms in (500, 1_000, 30_000, 3_600_000):
        timeouts = Timeouts.below(lease_ms)
        assert 0 < timeouts.lock_ms < lease_ms and 0 < timeouts.idle_in_transaction_ms < lease_ms


async def test_a_statement_that_was_cancelled_is_told_as_one_that_took_too_long(store: SqlStore) -> None:
    def sleep(connection: Connection) -> None:
        connection.exec_driver_sql("SELECT pg_sleep(60)")

    with pytest.raises(
        StoreUnavailable, match=r"statement timeout \(the engine sets a statement_timeout of 2000 ms"
    ) as told:
        await store.write(sleep)
    assert "the limit of the role" in told.value.message


# -- somebody has a lock --------------------------------------------------------------------------
async def test_children_of_locked_parents_are_told_so_and_written_once_the_locks_are_gone(
    store: SqlStore, postgres_url: str
) -> None:
    parents = await born_many(store, 2)
    children = [await child_of(parent, store) for parent in parents]
    async with await psycopg.AsyncConnection.connect(postgres_url) as locker:
        for parent in parents:
            await lock(locker, parent.head.instance_id, "SHARE")
        outcomes = await asyncio.gather(*(store.commit([ends(child)]) for child in children))
        assert [outcome.locked for outcome in outcomes] == [{child.head.instance_id} for child in children]
        assert not any(outcome.won for outcome in outcomes)
    for child in children:
        outcome = await store.commit([ends(child)], may_wait=True)
        assert outcome.won == {child.head.instance_id}, "the same transition wins once the lock is gone"


async def test_neither_reads_nor_commits_share_a_connection_with_a_wait_for_a_lock(
    endless_store: SqlStore, postgres_url: str
) -> None:
    store = endless_store
    parents = await born_many(store, 2 * store.commits_in_flight_max)
    children = [await child_of(parent, store) for parent in parents]
    bystander = await created(store)
    async with await psycopg.AsyncConnection.connect(postgres_url) as locker:
        for parent in parents:
            await lock(locker, parent.head.instance_id, "SHARE")
        stuck: list[asyncio.Task[object]] = [asyncio.create_task(store.commit([ends(child)])) for child in children]
        stuck += [
            asyncio.create_task(store.append_cancel(tenant_id=TENANT, instance_id=each.head.instance_id, reason=""))
            for each in parents * 2
        ]
        await waiting_backend(locker)
        async with asyncio.timeout(PATIENCE_S):
            await store.commit([transition(bystander, dispatched("a"))])
            await store.commit([await creation(store, idempotency_key="k")])
            await store.check_commits()
            assert await store.list_instances(tenant_id=TENANT, limit=10)
            await store.extend(worker_id=WORKER, instance_ids=[bystander.head.instance_id], lease_ms=LEASE_MS)
        assert not any(task.done() for task in stuck)
    await asyncio.gather(*stuck)


async def test_what_shares_a_batch_with_a_locked_family_is_written(store: SqlStore, postgres_url: str) -> None:
    parents = await born_many(store, 2)
    first, second = [await child_of(parent, store) for parent in parents]
    bystander = await created(store)
    batch = [ends(first), ends(second), transition(bystander, dispatched("a"))]
    async with await psycopg.AsyncConnection.connect(postgres_url) as locker:
        await lock(locker, parents[0].head.instance_id)
        outcome = await store.commit(batch)
    assert outcome.locked == {first.head.instance_id}
    assert outcome.won == {second.head.instance_id, bystander.head.instance_id}
    assert dict(outcome.woken) == {parents[1].head.instance_id: parents[1].version + 1}
    assert (await row_of(store, first.head.instance_id)) == first


async def test_a_parent_whose_child_is_locked_is_not_written_without_cancelling_it(
    store: SqlStore, postgres_url: str
) -> None:
    parent = await created(store)
    child = await child_of(parent, store)
    async with await psycopg.AsyncConnection.connect(postgres_url) as locker:
        await lock(locker, child.head.instance_id)
        outcome = await store.commit([failing(parent, child.head.instance_id)])
        assert (outcome.won, outcome.locked) == (set(), {parent.head.instance_id})
        assert await row_of(store, parent.head.instance_id) == parent


async def test_a_birth_whose_key_is_just_being_written_keeps_nobody_else_waiting(
    store: SqlStore, postgres_url: str
) -> None:
    taken = await creation(store, idempotency_key="k")
    async with await psycopg.AsyncConnection.connect(postgres_url) as other:
        await other.execute(
            "INSERT INTO workflow_instances (instance_id, tenant_id, workflow_name, workflow_version, kind, test,"
            " status, version, last_seq, available_at, starts_at, retention_days, idempotency_key, created_at, depth)"
            " VALUES (gen_random_uuid(), 'default', 'orders', 1, 'drawn', false, 'PENDING', 1, 0, 0, 0, 1, 'k', 0, 0)"
        )
        free = await creation(store)
        outcome = await store.commit([taken, free])
        assert (outcome.won, outcome.locked) == ({free.instance_id}, {taken.instance_id})
        await other.rollback()
    assert (await store.commit([taken], may_wait=True)).won == {taken.instance_id}


async def test_a_cancel_gives_its_connection_back_while_it_waits_for_a_lock(
    store: SqlStore, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("anabranch.engine.store.sql.component.LOCK_PATIENCE_S", ENDLESS_MS / 1000)
    locked, free = await born_many(store, 2)
    async with await psycopg.AsyncConnection.connect(postgres_url) as locker:
        await lock(locker, locked.head.instance_id)
        cancels = [
            asyncio.create_task(
                store.append_cancel(tenant_id=TENANT, instance_id=locked.head.instance_id, reason="late")
            )
            for _ in range(6)
        ]
        async with asyncio.timeout(PATIENCE_S):
            await store.append_cancel(tenant_id=TENANT, instance_id=free.head.instance_id, reason="now")
        assert not any(cancel.done() for cancel in cancels)
        await locker.rollback()
        answers = await asyncio.gather(*cancels)
    assert [answer.seq for answer in answers if answer.seq is not None] == [locked.last_seq + 1], "one was first"


async def test_a_lock_that_is_never_given_back_is_said_to_be_one(
    store: SqlStore, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("anabranch.engine.store.sql.component.LOCK_PATIENCE_S", 0.0)
    row = await created(store)
    async with await psycopg.AsyncConnection.connect(postgres_url) as locker:
        await lock(locker, row.head.instance_id)
        with pytest.raises(LocksHeld, match="lock timeout"):
            await store.append_cancel(tenant_id=TENANT, instance_id=row.head.instance_id, reason="")


async def test_a_process_that_freezes_within_a_transaction_loses_it_and_its_locks(
    store: SqlStore, endless_store: SqlStore
) -> None:
    row = await created(store)
    holds, wakes_up = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def freeze(connection: Connection) -> None:
        with store.dialect.transaction(connection):
            connection.execute(text("SELECT FROM workflow_instances FOR UPDATE"))
            loop.call_soon_threadsafe(holds.set)
            wakes_up.wait()

    frozen_one = asyncio.create_task(store.write(freeze))
    await holds.wait()
    try:
        async with asyncio.timeout(PATIENCE_S):
            answer = await endless_store.append_cancel(tenant_id=TENANT, instance_id=row.head.instance_id, reason="")
        assert answer.seq == row.last_seq + 1
    finally:
        wakes_up.set()
    with pytest.raises(StoreUnavailable):
        await frozen_one


async def test_a_locked_row_costs_the_leases_of_others_nothing(endless_store: SqlStore, postgres_url: str) -> None:
    locked, free = await born_many(endless_store, 2)
    ids = [locked.head.instance_id, free.head.instance_id]
    async with await psycopg.AsyncConnection.connect(postgres_url) as locker:
        await lock(locker, locked.head.instance_id, "SHARE")
        async with asyncio.timeout(PATIENCE_S):
            assert await endless_store.extend(worker_id=WORKER, instance_ids=ids, lease_ms=LEASE_MS) == {ids[1]}
            assert await endless_store.release(worker_id=WORKER) == 1

"""Outages: what a store says when its database is away, what it refuses, and how it goes on."""

from __future__ import annotations

import asyncio
import contextlib
import resource
from collections.abc import Iterator
from dataclasses import replace

import pytest

from anabranch.engine.ports import ClaimRequest, NewVersion, Store
from anabranch.engine.rules.events import Event
from anabranch.engine.rules.values import Payload
from anabranch.errors import StoreUnavailable
from tests.conformance.building import (
    LEASE_MS,
    OTHER_WORKER,
    TENANT,
    assert_unchanged,
    born_many,
    committed,
    completed,
    created,
    dispatched,
    failed,
    input_set,
    new_head,
    new_run,
    row_of,
    transition,
)
from tests.conformance.conftest import StoreFactory
from tests.postgres import PostgresServer

POISONS = {
    "an escaped NUL": completed("a", output=Payload("\x00", b'"\\u0000"')),
    "a NUL in a message": replace(failed("a"), error_message="before\x00after"),
    "a lone surrogate in a message": replace(failed("a"), error_message="before\ud800after"),
}
"""What PostgreSQL cannot hold, in places where it may come from."""

only_postgresql = pytest.mark.only_on("postgresql", because="only PostgreSQL is a server that can go away")


async def test_stopping_is_allowed_twice_and_touches_nobody_else(store_factory: StoreFactory) -> None:
    store, other = await store_factory(), await store_factory()
    await store.stop()
    await store.stop()
    row = await created(other)
    assert await row_of(other, row.head.instance_id) == row


async def test_what_was_committed_outlives_the_connection(store_factory: StoreFactory) -> None:
    first = await store_factory()
    row = await created(first)
    await first.stop()
    assert await row_of(await store_factory(), row.head.instance_id) == row


# -- poison ---------------------------------------------------------------------------------------
@pytest.mark.parametrize("poison", POISONS.values(), ids=POISONS)
@pytest.mark.only_on("memory", "postgresql", because="SQLite stores nearly any text")
async def test_a_poisoned_turn_stands_alone_and_its_neighbours_win(store: Store, poison: Event) -> None:
    rows = await born_many(store, 30)
    poisoned = rows[13].head.instance_id
    batch = [
        transition(row, dispatched("b"), poison if row.head.instance_id == poisoned else completed("a")) for row in rows
    ]
    outcome = await store.commit(batch)
    assert outcome.won == {row.head.instance_id for row in rows} - {poisoned}
    assert list(outcome.refused) == [poisoned]
    assert outcome.refused[poisoned], "a refusal says why"
    await assert_unchanged(store, rows[13])


@pytest.mark.parametrize("poison", POISONS.values(), ids=POISONS)
async def test_a_poisoned_turn_harms_nobody_on_any_store(store: Store, poison: Event) -> None:
    """Where the database takes the data after all, it reads back; where not, it stands alone."""
    culprit, neighbour = await born_many(store, 2)
    outcome = await store.commit([transition(culprit, poison), transition(neighbour, failed("a"))])
    assert neighbour.head.instance_id in outcome.won
    assert (culprit.head.instance_id in outcome.won) != (culprit.head.instance_id in outcome.refused)
    loaded = (await store.load([culprit.head.instance_id]))[culprit.head.instance_id]
    assert len(loaded.events) == loaded.row.last_seq


@pytest.mark.parametrize("poison", POISONS.values(), ids=POISONS)
@pytest.mark.only_on("memory", "postgresql", because="SQLite stores nearly any text")
async def test_a_poisoned_birth_stands_alone_and_leaves_nothing(store: Store, poison: Event) -> None:
    now = await store.now()
    poisoned, healthy = new_run(new_head(now=now, idempotency_key="k"), input_set(), poison), new_run(new_head(now=now))
    outcome = await store.commit([poisoned, healthy])
    assert (outcome.won, list(outcome.refused)) == ({healthy.instance_id}, [poisoned.instance_id])
    assert await store.get_instance(poisoned.instance_id) is None
    await committed(store, new_run(new_head(now=now, idempotency_key="k")))


# -- the database goes away -----------------------------------------------------------------------
@only_postgresql
async def test_calls_say_that_the_store_is_unavailable_and_work_again_afterwards(
    store: Store, postgres_server: PostgresServer, postgres_url: str
) -> None:
    row = await created(store)
    instance_id = row.head.instance_id
    postgres_server.set_reachable(postgres_url, reachable=False)
    with pytest.raises(StoreUnavailable):
        await store.commit([transition(row, dispatched("a"))])
    with pytest.raises(StoreUnavailable):
        await store.claim(ClaimRequest(worker_id=OTHER_WORKER, limit=1, lease_ms=LEASE_MS))
    with pytest.raises(StoreUnavailable):
        await store.get_instance(instance_id)
    with pytest.raises(StoreUnavailable):
        await store.append_cancel(tenant_id=TENANT, instance_id=instance_id, reason="")
    with pytest.raises(StoreUnavailable):
        await store.list_workflows(tenant_id=TENANT, limit=100)
    with pytest.raises(StoreUnavailable):
        await store.save_workflow(NewVersion(name="orders", definition={}), tenant_id=TENANT)
    with pytest.raises(StoreUnavailable):
        await store.extend(worker_id=OTHER_WORKER, instance_ids=[instance_id], lease_ms=LEASE_MS)
    postgres_server.set_reachable(postgres_url, reachable=True)
    await assert_unchanged(store, row)
    await committed(store, transition(row, dispatched("a")))
    assert (await store.save_workflow(NewVersion(name="orders", definition={}), tenant_id=TENANT)).version == 1
    assert (await store.append_cancel(tenant_id=TENANT, instance_id=instance_id, reason="")).seq == 3


@only_postgresql
async def test_a_database_that_is_read_only_is_an_outage_and_nobodys_data_is_blamed(
    store_factory: StoreFactory, postgres_server: PostgresServer, postgres_url: str
) -> None:
    row = await created(await store_factory())
    postgres_server.set_read_only(postgres_url, read_only=True)
    standby = await store_factory()
    with pytest.raises(StoreUnavailable, match="read-only"):
        await standby.commit([transition(row, dispatched("a"))])
    await assert_unchanged(standby, row)
    postgres_server.set_read_only(postgres_url, read_only=False)
    await committed(await store_factory(), transition(row, dispatched("a")))


@only_postgresql
async def test_an_error_message_does_not_tell_the_password(
    store: Store, postgres_server: PostgresServer, postgres_url: str
) -> None:
    postgres_server.set_reachable(postgres_url, reachable=False)
    with pytest.raises(StoreUnavailable) as caught:
        await store.now()
    postgres_server.set_reachable(postgres_url, reachable=True)
    assert "password" not in str(caught.value).lower() and postgres_url not in str(caught.value)


# -- the disk is full -----------------------------------------------------------------------------
@pytest.mark.only_on("sqlite", because="only SQLite writes its files from this process")
async def test_a_full_disk_is_an_outage_that_names_the_file_and_loses_nothing(store: Store) -> None:
    rows = await born_many(store, 8)
    batch = [transition(row, completed("a", output="x" * (500_000 + index))) for index, row in enumerate(rows)]
    with files_limited_to(2_000_000):
        with pytest.raises(StoreUnavailable, match=r"tests\.db"):
            await store.commit(batch)
        for row in rows:
            await assert_unchanged(store, row)
    assert len((await store.commit(batch)).won) == len(rows), "there is room again, and the same batch wins"


@contextlib.contextmanager
def files_limited_to(size: int) -> Iterator[None]:
    """No file of this process may grow beyond `size` bytes: to who writes it looks like a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


# -- callers that give up -------------------------------------------------------------------------
async def test_a_caller_that_gives_up_leaves_the_store_in_order(store: Store) -> None:
    rows = await born_many(store, 20)
    for row in rows:
        abandoned = asyncio.create_task(store.commit([transition(row, dispatched("a"))]))
        await asyncio.sleep(0)
        abandoned.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await abandoned
    # Each abandoned commit is written whole or not at all, now or in a moment; the next one decides.
    for row in rows:
        await store.append_cancel(tenant_id=TENANT, instance_id=row.head.instance_id, reason="")
        loaded = (await store.load([row.head.instance_id]))[row.head.instance_id]
        assert [event.seq for event in loaded.events] == list(range(1, loaded.row.last_seq + 1))
        assert loaded.row.version == loaded.row.last_seq

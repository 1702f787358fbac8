"""Outages: what a store says when its database is away, what it refuses, and how it goes on."""

from __future__ import annotations

import pytest

from anabranch.engine.ports import Store
from anabranch.engine.rules.values import Payload
from anabranch.errors import StoreUnavailable
from tests.conformance.building import (
    LEASE_MS,
    OTHER_WORKER,
    TENANT,
    assert_unchanged,
    birth,
    born,
    born_many,
    committed,
    completed,
    dispatched,
    failed,
    input_set,
    new_head,
    row_of,
    turn,
)
from tests.conformance.conftest import StoreFactory
from tests.postgres import PostgresServer

ESCAPED_NUL = Payload("\x00", b'"\\u0000"')
only_postgresql = pytest.mark.only_on("postgresql", because="only PostgreSQL is a server that can go away")


async def test_stopping_is_allowed_twice(store_factory: StoreFactory) -> None:
    store = await store_factory()
    await store.stop()
    await store.stop()


async def test_what_was_committed_outlives_the_connection(store_factory: StoreFactory) -> None:
    first = await store_factory()
    row = await born(first)
    await first.stop()
    assert await row_of(await store_factory(), row.head.instance_id) == row


# -- poison ---------------------------------------------------------------------------------------
@pytest.mark.only_on("memory", "postgresql", because="SQLite stores any text")
async def test_a_poisoned_turn_stands_alone_and_its_neighbours_win(store: Store) -> None:
    rows = await born_many(store, 30)
    poisoned = rows[13].head.instance_id
    batch = [
        turn(row, dispatched("b"), completed("a", output=ESCAPED_NUL if row.head.instance_id == poisoned else 1))
        for row in rows
    ]
    outcome = await store.commit(batch)
    assert outcome.won == {row.head.instance_id for row in rows} - {poisoned}
    assert list(outcome.refused) == [poisoned]
    assert outcome.refused[poisoned], "a refusal says why"
    await assert_unchanged(store, rows[13])


@pytest.mark.only_on("memory", "postgresql", because="SQLite stores any text")
async def test_a_poisoned_birth_stands_alone_and_leaves_nothing(store: Store) -> None:
    now = await store.now()
    poisoned, healthy = birth(new_head(now=now), completed("a", output=ESCAPED_NUL)), birth(new_head(now=now))
    outcome = await store.commit([poisoned, healthy])
    assert (outcome.won, list(outcome.refused)) == ({healthy.instance_id}, [poisoned.instance_id])
    assert await store.get_instance(poisoned.instance_id) is None
    await committed(store, birth(new_head(now=now), input_set()))


async def test_a_poisoned_turn_harms_nobody_on_any_store(store: Store) -> None:
    """Where the database takes the data after all, it is written; where not, it stands alone."""
    culprit, neighbour = await born_many(store, 2)
    batch = [turn(culprit, completed("a", output=ESCAPED_NUL)), turn(neighbour, failed("a"))]
    outcome = await store.commit(batch)
    assert neighbour.head.instance_id in outcome.won
    assert (culprit.head.instance_id in outcome.won) != (culprit.head.instance_id in outcome.refused)


# -- the database goes away -----------------------------------------------------------------------
@only_postgresql
async def test_calls_say_that_the_store_is_unavailable_and_work_again_afterwards(
    store: Store, postgres_server: PostgresServer, postgres_url: str
) -> None:
    row = await born(store)
    instance_id = row.head.instance_id
    postgres_server.set_reachable(postgres_url, reachable=False)
    with pytest.raises(StoreUnavailable):
        await store.commit([turn(row, dispatched("a"))])
    with pytest.raises(StoreUnavailable):
        await store.claim(worker_id=OTHER_WORKER, limit=1, lease_ms=LEASE_MS)
    with pytest.raises(StoreUnavailable):
        await store.get_instance(instance_id)
    with pytest.raises(StoreUnavailable):
        await store.append_cancel(tenant_id=TENANT, instance_id=instance_id, reason="")
    with pytest.raises(StoreUnavailable):
        await store.list_workflows(tenant_id=TENANT)
    postgres_server.set_reachable(postgres_url, reachable=True)
    await assert_unchanged(store, row)
    await committed(store, turn(row, dispatched("a")))
    assert (await store.append_cancel(tenant_id=TENANT, instance_id=instance_id, reason="")).seq == 3


@only_postgresql
async def test_an_error_message_does_not_tell_the_password(
    store: Store, postgres_server: PostgresServer, postgres_url: str
) -> None:
    postgres_server.set_reachable(postgres_url, reachable=False)
    with pytest.raises(StoreUnavailable) as caught:
        await store.now()
    postgres_server.set_reachable(postgres_url, reachable=True)
    assert "password" not in str(caught.value).lower() and postgres_url not in str(caught.value)

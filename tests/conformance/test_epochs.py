"""Epochs: a database on another line of history is noticed by who connects, and nobody takes over runs at once."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import text

from anabranch.engine.ports import ClaimRequest, Store
from anabranch.engine.rules.events import Status
from anabranch.engine.store.postgresql import postgresql_statements
from anabranch.errors import StoreUnavailable
from tests.conformance.building import LEASE_MS, WORKER, born_many, created, dispatched, input_set, new_id
from tests.conformance.conftest import StoreFactory

SERVERS = pytest.mark.only_on("postgresql", "pgbouncer", because="only servers have timelines")
CLAIM = ClaimRequest(worker_id=WORKER, limit=10, lease_ms=LEASE_MS)


def moves_to(store: Any, line: str) -> None:
    """Let the store find this line of history when it connects anew, as after a failover."""
    store._epochs._line_of_history = lambda _: line


async def begin_earlier(store: Any, by_ms: int) -> None:
    """Let the present epoch have begun that long ago."""
    earlier = text("UPDATE database_epochs SET began_at = began_at - :by")
    await store.write(lambda connection: connection.execute(earlier, {"by": by_ms}))


async def test_positions_tell_how_far_runs_are_stored_and_when_a_row_was_written(store: Store) -> None:
    row = await created(store, input_set(), dispatched("a"))
    instance_id, absent = row.head.instance_id, new_id()
    (first, _) = await store.read_log(instance_id)

    found = await store.positions({instance_id: 1, absent: 1})

    assert set(found) == {instance_id}
    position = found[instance_id]
    assert (position.tenant_id, position.status, position.last_seq) == ("default", Status.RUNNING, 2)
    assert position.written_at == first.created_at
    assert (await store.positions({instance_id: 3}))[instance_id].written_at is None


@pytest.mark.only_on("memory", "sqlite", because="servers tell their line of history")
async def test_a_database_without_timelines_has_no_epochs(store: Store) -> None:
    assert await store.epoch() is None


@SERVERS
async def test_the_first_epoch_lets_everybody_claim_at_once(store: Store, other_store: Store) -> None:
    one, other = await store.epoch(), await other_store.epoch()
    assert one is not None
    assert (one, one.number) == (other, 1)
    await born_many(store, 1, worker_id=None)
    assert len(await store.claim(CLAIM)) == 1


@SERVERS
async def test_after_a_failover_the_epoch_is_the_next_one_and_no_run_is_taken_over_for_a_lease(
    store: Store, store_factory: StoreFactory
) -> None:
    assert await store.epoch() is not None
    await born_many(store, 1, worker_id=None)
    moves_to(store, "another")

    epoch = await store.epoch()
    assert epoch is not None and epoch.number == 2
    assert await store.claim(CLAIM) == []
    fresh = await store_factory()
    moves_to(fresh, "another")
    assert await fresh.claim(CLAIM) == [], "a process that starts afterwards waits, too"
    assert await fresh.epoch() == epoch

    await begin_earlier(store, LEASE_MS)
    late = await store_factory()
    moves_to(late, "another")
    assert len(await late.claim(CLAIM)) == 1


@SERVERS
async def test_a_lost_epoch_is_not_counted_again(store: Store) -> None:
    moves_to(store, "second")
    await store.epoch()
    forget = text("DELETE FROM database_epochs")
    await store.write(lambda connection: connection.execute(forget))  # type: ignore[attr-defined]
    moves_to(store, "third")

    epoch = await store.epoch()

    assert epoch is not None and epoch.number == 2, "the process knows that there was one before"


@SERVERS
async def test_a_server_that_was_replaced_is_not_worked_with(store: Store, other_store: Store) -> None:
    moves_to(store, "old")
    await store.epoch()
    moves_to(store, "new")
    await store.epoch()
    await store.write(  # type: ignore[attr-defined]
        lambda connection: connection.execute(text("DELETE FROM database_epochs WHERE line = 'new'"))
    )
    moves_to(store, "old")

    with pytest.raises(StoreUnavailable, match="a server that was replaced answers"):
        await store.claim(CLAIM)


@SERVERS
async def test_a_server_that_does_not_tell_its_line_is_worked_with_and_that_is_logged_once(
    store: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgresql_statements, "LINE_OF_HISTORY", text("SELECT no_such_function()"))
    with pytest.raises(StoreUnavailable):
        await store.epoch()

    assert await store.epoch() is None
    assert caplog.text.count("failovers that lose commits are not noticed") == 1
    await born_many(store, 1, worker_id=None)
    assert len(await store.claim(CLAIM)) == 1

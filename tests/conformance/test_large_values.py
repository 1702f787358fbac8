"""Large values: stored once by their content, removed with the last run that refers to them, also under starts."""

from __future__ import annotations

import asyncio

import orjson
import psycopg
import pytest

from anabranch.engine.ports import Store, Transition
from anabranch.engine.rules.events import Status
from anabranch.engine.rules.stimuli import SignalSent
from anabranch.engine.rules.value_parts import PART_BYTES_MIN
from anabranch.engine.rules.values import Payload
from tests.conformance.building import (
    TENANT,
    committed,
    completed,
    created,
    ending,
    input_set,
    new_head,
    new_run,
    transition,
)
from tests.conformance.locking import waiting_backend

TEXT = "é" + "x" * 200_000
LARGE = Payload.of(TEXT)


def part_names(payload: Payload) -> list[str]:
    """The hashes of the large parts of a payload."""
    assert payload.division is not None, "it is large"
    return [part.sha256 for part in payload.division.parts]


(NAME,) = part_names(LARGE)


async def ended_run(store: Store, value: object = TEXT, **head: object) -> str:
    """A run that has ended, with a value as its input and as the output of its only node."""
    row = await created(store, input_set(value), **head)
    row = await committed(store, transition(row, completed("a", output=value)))
    return (await committed(store, ending(row))).head.instance_id


async def test_a_value_in_different_rows_and_runs_of_a_tenant_is_stored_once(store: Store) -> None:
    first, second = await ended_run(store), await ended_run(store, {"wrapped": [TEXT], "small": 1})
    other_tenant = await ended_run(store, tenant_id="other")
    assert await store.count_values() == (2, 2 * len(LARGE.raw))
    assert await store.read_value(tenant_id=TENANT, sha256=NAME) == LARGE.raw
    assert set(await store.referenced_values(first, [NAME, "0" * 64])) == {NAME}
    assert set(await store.referenced_values(await ended_run(store, "small"), [NAME])) == set()
    for instance_id in (first, second, other_tenant):
        assert (await store.load([instance_id]))[instance_id].row.log_bytes < PART_BYTES_MIN


async def test_what_is_read_back_is_what_was_written(store: Store) -> None:
    values = [
        TEXT,
        {"a": {"b": [1, TEXT, {"c": TEXT + "y", "ключ": None}]}, "z": 1.0, "$value": NAME},
        [{"n": number, "text": "t" * 50} for number in range(2_000)],
        [TEXT, *range(50_000)],
    ]
    for value in values:
        row = await created(store, input_set(value))
        row = await committed(store, transition(row, completed("a", output=value)))
        events = await store.read_log(row.head.instance_id)
        assert [event.payload.raw for event in events] == [orjson.dumps({"input": value}), orjson.dumps(value)]
        assert events[0].payload.value == {"input": value}
        loaded = (await store.load([row.head.instance_id]))[row.head.instance_id]
        assert loaded.events[1].payload.value == value


async def test_a_value_goes_with_the_last_run_that_refers_to_it(store: Store) -> None:
    first, second = await ended_run(store), await ended_run(store)
    assert await store.delete_run(tenant_id=TENANT, instance_id=first)
    assert await store.read_value(tenant_id=TENANT, sha256=NAME) == LARGE.raw
    assert await store.delete_run(tenant_id=TENANT, instance_id=second)
    assert await store.read_value(tenant_id=TENANT, sha256=NAME) is None
    assert await store.count_values() == (0, 0)


async def test_retention_and_stopped_test_runs_remove_values(store: Store) -> None:
    await ended_run(store, retention_days=0)
    assert await store.remove_expired(limit=10) == 1
    assert await store.count_values() == (0, 0)
    test_run = await ended_run(store, test=True)
    await store.delete_test_instance(tenant_id=TENANT, instance_id=test_run)
    assert await store.count_values() == (0, 0)


async def test_a_transition_that_does_not_win_stores_no_value(store: Store) -> None:
    row = await created(store)
    late = transition(row, completed("a", output=TEXT))
    row = await committed(store, transition(row, completed("a", output=1)))
    assert (await store.commit([late])).won == set()
    assert await store.count_values() == (0, 0)


async def test_a_signal_from_outside_refers_to_its_value(store: Store) -> None:
    row = await created(store)
    sent = SignalSent("approve", Payload.of({"file": TEXT}), "key-1")
    for _ in range(2):  # the second has a key that was sent before
        await store.append_signal(row.head.instance_id, sent, tenant_id=TENANT)
    assert await store.count_values() == (1, len(LARGE.raw))
    events = await store.read_log(row.head.instance_id)
    assert events[-1].payload.value == {"event": "approve", "key": "key-1", "payload": {"file": TEXT}}


async def test_the_output_of_a_child_is_handed_over_whole(store: Store) -> None:
    row = await created(store)
    done = ending(row)
    done.events[0].payload = Payload.of({"rows": TEXT})
    row = await committed(store, done)
    (ended,) = await store.ended_children([row.head.instance_id])
    assert (ended.status, ended.outcome.value) == (Status.COMPLETED, {"rows": TEXT})


async def test_runs_that_start_while_the_last_one_is_removed_keep_their_value(store: Store, other_store: Store) -> None:
    """Whichever comes first: what a run refers to is stored when both are done."""
    for _ in range(5):
        old = await ended_run(store)
        started = new_run(new_head(now=await store.now()), input_set(TEXT))
        await asyncio.gather(store.delete_run(tenant_id=TENANT, instance_id=old), _until_won(other_store, started))
        assert await other_store.read_value(tenant_id=TENANT, sha256=NAME) == LARGE.raw
        (event,) = await other_store.read_log(started.instance_id)
        assert event.payload.value == {"input": TEXT}
        row = (await store.load([started.instance_id]))[started.instance_id].row
        ended = await committed(store, ending(row))
        assert await store.delete_run(tenant_id=TENANT, instance_id=ended.head.instance_id)
        assert await store.count_values() == (0, 0)


@pytest.mark.only_on("postgresql", because="it holds row locks")
async def test_a_removal_waits_for_a_start_that_refers_to_the_value(
    store: Store, locker: psycopg.AsyncConnection
) -> None:
    """The start has locked the value and is not committed: the removal looks again once it is."""
    old = await ended_run(store)
    starting = await created(store)
    await locker.execute("SELECT FROM stored_values WHERE sha256 = %s FOR KEY SHARE", [NAME])
    await locker.execute("INSERT INTO value_references VALUES (%s, %s, %s)", [starting.head.instance_id, NAME, TENANT])
    removal = asyncio.create_task(store.delete_run(tenant_id=TENANT, instance_id=old))
    await waiting_backend(locker)
    await locker.commit()
    assert await removal
    assert await store.read_value(tenant_id=TENANT, sha256=NAME) == LARGE.raw


@pytest.mark.only_on("postgresql", because="it holds row locks")
async def test_a_start_waits_for_a_removal_and_stores_the_value_anew(
    store: Store, locker: psycopg.AsyncConnection
) -> None:
    """The removal has deleted the value and is not committed."""
    old = await ended_run(store)
    await locker.execute("DELETE FROM value_references WHERE instance_id = %s", [old])
    await locker.execute("DELETE FROM stored_values WHERE sha256 = %s", [NAME])
    started = new_run(new_head(now=await store.now()), input_set(TEXT))
    start = asyncio.create_task(_until_won(store, started))
    await waiting_backend(locker)
    await locker.commit()
    await start
    assert await store.read_value(tenant_id=TENANT, sha256=NAME) == LARGE.raw


async def _until_won(store: Store, started: Transition) -> None:
    """Commit it; what it needs may be locked at first."""
    while started.instance_id not in (await store.commit([started])).won:
        pass

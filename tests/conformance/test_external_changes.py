"""Signals and cancels from a process that does not hold the instance: unconditional, once, in order."""

from __future__ import annotations

import asyncio

import pytest

from anabranch.engine.ports import ClaimRequest, ExternalResult, InstanceRow, Store
from anabranch.engine.rules.events import EventType, Status
from anabranch.engine.rules.shared.signals import SIGNALS_KEPT_MAX
from anabranch.engine.rules.stimuli import SignalSent
from anabranch.engine.rules.values import Payload
from anabranch.engine.store.sql import statements
from anabranch.errors import TooManySignals
from tests.conformance.building import (
    HOUR_MS,
    LEASE_MS,
    TENANT,
    WORKER,
    assert_unchanged,
    committed,
    created,
    dispatched,
    ending,
    log_of,
    new_id,
    parked,
    row_of,
    signal_received,
    transition,
    waiting,
)


async def send(
    store: Store, row: InstanceRow, *, key: str | None = None, value: object = None, awaited: bool = False
) -> ExternalResult:
    """One signal called `paid`."""
    return await store.append_signal(
        row.head.instance_id, SignalSent("paid", Payload.of(value), key), tenant_id=row.head.tenant_id, awaited=awaited
    )


async def cancel(store: Store, row: InstanceRow, *, tenant_id: str = TENANT) -> ExternalResult:
    """One cancel."""
    return await store.append_cancel(tenant_id=tenant_id, instance_id=row.head.instance_id, reason="changed my mind")


# -- signals --------------------------------------------------------------------------------------
async def test_a_signal_is_one_event_and_one_version_whoever_holds_the_instance(
    store: Store, other_store: Store
) -> None:
    row = await created(store)
    result = await send(other_store, row, value={"amount": 3}, key="k1")
    after = await row_of(store, row.head.instance_id)
    assert (result.row, result.seq, result.repeated) == (after, row.last_seq + 1, False)
    assert (after.version, after.last_seq) == (row.version + 1, row.last_seq + 1)
    assert (after.worker_id, after.available_at, after.status) == (row.worker_id, row.available_at, row.status)
    (event,) = await store.read_log(row.head.instance_id, after_seq=row.last_seq)
    assert (event.type, event.node_id, event.scope, event.attempt) == (EventType.SIGNAL_RECEIVED, "", "", 0)
    assert event.payload.value == {"event": "paid", "key": "k1", "payload": {"amount": 3}}


async def test_a_signal_without_a_key_has_none_in_the_log_and_may_come_again(store: Store) -> None:
    row = await created(store)
    first, second = await send(store, row), await send(store, row)
    assert (first.seq, second.seq) == (2, 3)
    assert (await store.read_log(row.head.instance_id))[1].payload.value == {"event": "paid", "payload": None}


async def test_the_owner_loses_its_next_commit_and_goes_on_from_the_tail(store: Store, other_store: Store) -> None:
    row = await created(store)
    await send(other_store, row)
    assert (await store.commit([transition(row, dispatched("a"))])).won == set()
    tail = (await store.load([row.head.instance_id], after_seq=row.last_seq))[row.head.instance_id]
    assert [event.type for event in tail.events] == [EventType.SIGNAL_RECEIVED]
    await committed(store, transition(tail.row, dispatched("a")))


@pytest.mark.parametrize("wait_ms", [None, HOUR_MS])
async def test_a_signal_makes_a_parked_instance_available_now(store: Store, wait_ms: int | None) -> None:
    wake = None if wait_ms is None else await store.now() + wait_ms
    row = await parked(store, available_at=wake)
    result = await send(store, row)
    assert result.row is not None and result.row.available_at is not None
    assert result.row.available_at <= await store.now()
    (claimed,) = await store.claim(ClaimRequest(worker_id=WORKER, limit=1, lease_ms=LEASE_MS))
    assert claimed.row.blame is None
    assert claimed.events[-1].type is EventType.SIGNAL_RECEIVED


async def test_a_repeated_key_is_written_once_and_said_so(store: Store, other_store: Store) -> None:
    row = await created(store)
    first = await send(store, row, key="k1")
    again = await send(other_store, row, key="k1", value="another body")
    assert (again.row, again.seq, again.repeated) == (first.row, None, True)
    assert first.row is not None
    await assert_unchanged(store, first.row)


async def test_a_key_that_the_owner_wrote_is_repeated_too(store: Store) -> None:
    row = await committed(store, transition(await created(store), signal_received("paid", key="k1")))
    assert (await send(store, row, key="k1")).repeated
    await assert_unchanged(store, row)


async def test_a_key_is_of_one_instance(store: Store) -> None:
    one, two = await created(store), await created(store)
    assert (await send(store, one, key="k1")).seq == 2
    assert (await send(store, two, key="k1")).seq == 2


async def test_a_repeated_key_is_answered_as_repeated_after_the_end_too(store: Store) -> None:
    row = await created(store)
    row = (await send(store, row, key="k1")).row or row
    ended = await committed(store, ending(row))
    result = await send(store, ended, key="k1")
    assert (result.row, result.seq, result.repeated) == (ended, None, True)


async def test_a_raced_key_is_written_once(store: Store, other_store: Store) -> None:
    row = await created(store)
    for number in range(10):
        results = await asyncio.gather(
            *(send((store, other_store)[index % 2], row, key=f"k{number}") for index in range(6))
        )
        written = [result for result in results if result.seq is not None]
        assert len(written) == 1, f"key k{number} was written {len(written)} times"
        assert sum(result.repeated for result in results) == 5
    assert (await row_of(store, row.head.instance_id)).last_seq == row.last_seq + 10


async def test_raced_signals_are_all_kept_without_gaps(store: Store, other_store: Store) -> None:
    row = await created(store)
    results = await asyncio.gather(*(send((store, other_store)[index % 2], row) for index in range(20)))
    assert sorted(result.seq or 0 for result in results) == list(range(2, 22))
    after = await row_of(store, row.head.instance_id)
    assert (after.version, after.last_seq) == (row.version + 20, row.last_seq + 20)
    assert [event.seq for event in await store.read_log(row.head.instance_id)] == list(range(1, 22))


async def test_a_signal_to_nobody_finds_nobody(store: Store) -> None:
    row = await created(store)
    for instance_id, tenant_id in ((new_id(), TENANT), ("no id at all", TENANT), (row.head.instance_id, "other")):
        result = await store.append_signal(instance_id, SignalSent("paid", Payload.of(1)), tenant_id=tenant_id)
        assert result == ExternalResult(None, None)
    await assert_unchanged(store, row)


@pytest.mark.parametrize("status", [Status.COMPLETED, Status.FAILED, Status.CANCELLED])
async def test_a_signal_to_an_ended_instance_writes_nothing(store: Store, status: Status) -> None:
    ended = await committed(store, transition(await created(store), status=status, release=True))
    assert await send(store, ended, key="k1") == ExternalResult(ended, None)
    await assert_unchanged(store, ended)


async def test_signals_past_the_limit_are_refused_until_one_is_taken(store: Store) -> None:
    row = await created(store)
    filler = [signal_received("refunded") for _ in range(SIGNALS_KEPT_MAX - 1)]
    row = await committed(store, transition(row, *filler))
    last = await send(store, row, key="the last that fits")
    assert last.seq is not None and last.row is not None
    with pytest.raises(TooManySignals):
        await send(store, row)
    assert (await send(store, row, key="the last that fits")).repeated, "a repeat needs no room"
    await assert_unchanged(store, last.row)
    await committed(store, transition(last.row, waiting("w", event="refunded", signalSeq=2)))
    assert (await send(store, row)).seq is not None
    with pytest.raises(TooManySignals):
        await send(store, row)
    assert (await send(store, row, awaited=True)).seq is not None, "one that is consumed at once needs no room"


@pytest.mark.only_on("sqlite", "postgresql", because="the memory store counts as it goes")
async def test_signals_kept_are_counted_for_no_other_refusal(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A repeat, and one to a run that has ended, are answered without another look at the whole log."""
    row = await created(store)
    row = await committed(store, transition(row, *[signal_received("refunded") for _ in range(SIGNALS_KEPT_MAX - 1)]))
    assert (await send(store, row, key="k1")).seq is not None
    monkeypatch.delattr(statements, "COUNT_SIGNALS_KEPT")
    assert (await send(store, row, key="k1")).repeated
    ended = await store.append_cancel(tenant_id=TENANT, instance_id=row.head.instance_id, reason="by a test")
    assert await send(store, row) == ExternalResult(ended.row, None)


@pytest.mark.only_on("sqlite", "postgresql", because="the memory store looks and writes at once")
async def test_a_signal_to_a_run_that_is_created_just_then_is_kept(
    store: Store, other_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was refused as one too many."""
    run_id = new_id()
    explain = store._explain_refusal  # type: ignore[attr-defined]

    async def create_first(event: object) -> ExternalResult | None:
        if await other_store.get_instance(run_id) is None:
            await created(other_store, instance_id=run_id)
        found: ExternalResult | None = await explain(event)
        return found

    monkeypatch.setattr(store, "_explain_refusal", create_first)
    result = await store.append_signal(run_id, SignalSent("paid", Payload.of(1), "k1"), tenant_id=TENANT)
    assert (result.row, result.repeated) == (await row_of(store, run_id), False)
    assert result.seq == (await row_of(store, run_id)).last_seq


# -- cancels --------------------------------------------------------------------------------------
async def test_a_cancel_closes_the_instance_whoever_holds_it(store: Store, other_store: Store) -> None:
    row = await created(store)
    result = await cancel(other_store, row)
    after = await row_of(store, row.head.instance_id)
    assert (result.row, result.seq) == (after, row.last_seq + 1)
    assert (after.status, after.version, after.worker_id) == (Status.CANCELLED, row.version + 1, None)
    assert after.completed_at is not None
    assert (await log_of(store, row.head.instance_id))[-1] == (2, EventType.INSTANCE_CANCELLED, "")
    (event,) = await store.read_log(row.head.instance_id, after_seq=1)
    assert event.payload.value == "changed my mind"


@pytest.mark.parametrize("wait_ms", [None, HOUR_MS])
async def test_a_cancelled_instance_is_not_claimed_any_more(store: Store, wait_ms: int | None) -> None:
    wake = None if wait_ms is None else await store.now() + wait_ms
    await cancel(store, await parked(store, available_at=wake))
    assert await store.claim(ClaimRequest(worker_id=WORKER, limit=1, lease_ms=LEASE_MS)) == []


async def test_the_owner_loses_to_a_cancel(store: Store, other_store: Store) -> None:
    row = await created(store)
    result = await cancel(other_store, row)
    assert (await store.commit([transition(row, dispatched("a"))])).won == set()
    assert result.row is not None
    await assert_unchanged(store, result.row)


async def test_a_second_cancel_writes_nothing(store: Store) -> None:
    row = await created(store)
    first = await cancel(store, row)
    assert await cancel(store, row) == ExternalResult(first.row, None)


async def test_a_cancel_does_not_overwrite_another_end(store: Store) -> None:
    ended = await committed(store, ending(await created(store)))
    assert await cancel(store, ended) == ExternalResult(ended, None)
    await assert_unchanged(store, ended)


async def test_raced_cancels_write_one_event(store: Store, other_store: Store) -> None:
    row = await created(store)
    results = await asyncio.gather(*(cancel((store, other_store)[index % 2], row) for index in range(6)))
    assert sorted(result.seq or 0 for result in results) == [0, 0, 0, 0, 0, 2]


async def test_a_cancel_of_nobody_finds_nobody(store: Store) -> None:
    row = await created(store)
    assert await cancel(store, row, tenant_id="other") == ExternalResult(None, None)
    missing = await store.append_cancel(tenant_id=TENANT, instance_id=new_id(), reason="")
    assert missing == ExternalResult(None, None)
    await assert_unchanged(store, row)

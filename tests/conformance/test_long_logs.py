"""Long logs: their size is known without reading them, and they are read page by page.

Databases bound a value at about 1 GB. The tests bring the bound down to 6 MB: SQLite has a
setting for that, PostgreSQL gets a `string_agg` that refuses longer texts in the same words.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

import psycopg
import pytest
from sqlalchemy import Engine
from sqlalchemy import event as engine_events

from anabranch.engine.log_pages import pages_of
from anabranch.engine.ports import ClaimRequest, ExternalResult, InstanceRow, Store
from anabranch.engine.rules.events import EventType, Status
from anabranch.engine.rules.shared.log_limit import LOG_LIMIT, LogLimit
from anabranch.engine.rules.stimuli import SignalSent
from anabranch.engine.rules.value_parts import PART_BYTES_MIN
from anabranch.engine.rules.values import NULL, Payload
from anabranch.engine.store.sql.reading.reads import LOG_PAGE_EVENTS
from tests.conformance.building import (
    LEASE_MS,
    OTHER_WORKER,
    TENANT,
    committed,
    completed,
    created,
    dispatched,
    input_set,
    row_of,
    transition,
)

VALUE_BYTES_MAX = 6_000_000
# Each just below what is stored apart from the log.
EVENT_BYTES = PART_BYTES_MIN - 1_000
LONG_LOG_EVENTS = 130

_SHORT_STRING_AGG = f"""
    CREATE SCHEMA bounded;
    CREATE FUNCTION bounded.append(joined text, next text, separator text) RETURNS text LANGUAGE plpgsql AS $$ BEGIN
        IF length(joined) + length(next) > {VALUE_BYTES_MAX} THEN
            RAISE program_limit_exceeded USING MESSAGE = 'string buffer exceeds maximum allowed length';
        END IF;
        RETURN coalesce(joined || separator, '') || next;
    END $$;
    CREATE AGGREGATE bounded.string_agg(text, text) (SFUNC = bounded.append, STYPE = text);
"""


@pytest.fixture
def bounded_values(backend: str, request: pytest.FixtureRequest) -> Iterator[None]:
    """No value that the database makes is longer than `VALUE_BYTES_MAX`. Ask for it before the store."""
    if backend == "sqlite":
        engine_events.listen(Engine, "connect", _bound_values)
        yield
        engine_events.remove(Engine, "connect", _bound_values)
        return
    with psycopg.connect(request.getfixturevalue("postgres_url"), autocommit=True) as admin:
        name = psycopg.sql.Identifier(admin.info.dbname)
        admin.execute(_SHORT_STRING_AGG)
        admin.execute(psycopg.sql.SQL("ALTER DATABASE {} SET search_path = bounded, pg_catalog, public").format(name))
        yield
        admin.execute("DROP SCHEMA bounded CASCADE")


def _bound_values(connection: sqlite3.Connection, _record: object) -> None:
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, VALUE_BYTES_MAX)


def bounded(test: object) -> object:
    """The test is about databases with bounded values."""
    marks = (
        pytest.mark.usefixtures("bounded_values"),
        pytest.mark.only_on("sqlite", "postgresql", because="memory has no bound for values"),
    )
    for mark in marks:
        test = mark(test)
    return test


async def test_a_log_of_several_pages_is_read_in_order_up_to_the_limit(store: Store) -> None:
    count = 2 * LOG_PAGE_EVENTS + 10
    row = await created(store, *(dispatched(f"n{number}") for number in range(count)))
    instance_id = row.head.instance_id
    assert [event.seq for event in await store.read_log(instance_id)] == list(range(1, 1_001))
    everything = await store.read_log(instance_id, limit=2 * count)
    assert [event.seq for event in everything] == list(range(1, count + 1))
    assert [event.seq for event in await store.read_log(instance_id, limit=count - 1)] == list(range(1, count))
    tail = await store.read_log(instance_id, after_seq=count - LOG_PAGE_EVENTS, limit=count)
    assert [event.seq for event in tail] == list(range(count - LOG_PAGE_EVENTS + 1, count + 1))


async def test_a_page_of_a_log_ends_once_its_payloads_have_enough_bytes(store: Store) -> None:
    row = await created(store, input_set(), *(completed(f"n{number}", output="x" * 98) for number in range(9)))
    page = await store.read_log(row.head.instance_id, after_seq=1, bytes_max=250)
    assert [event.seq for event in page] == [2, 3, 4], "100 bytes each: the third begins below 250"
    assert len(await store.read_log(row.head.instance_id, bytes_max=1)) == 1, "one at least"


@pytest.mark.parametrize("pieces", [("start",), ("ä€😀", 1.5), (None,)])
async def test_the_size_of_a_log_is_on_its_row(store: Store, pieces: tuple[object, ...]) -> None:
    row = await created(store, input_set("ü"))
    await committed(
        store, transition(row, *(completed(f"n{number}", output=piece) for number, piece in enumerate(pieces)))
    )
    signal = Payload.of({"ö": ["x"]})
    await store.append_signal(row.head.instance_id, SignalSent("é", signal, "k"), tenant_id=TENANT)
    await store.append_cancel(tenant_id=TENANT, instance_id=row.head.instance_id, reason="für immer")
    assert (await row_of(store, row.head.instance_id)).status is Status.CANCELLED
    await assert_size_is_known(store, row.head.instance_id)


async def test_the_size_of_the_log_of_a_child_that_its_parent_ended_is_on_its_row(store: Store) -> None:
    parent = await created(store)
    child = await created(store, parent_id=parent.head.instance_id, parent_waits=True, root_id=parent.head.instance_id)
    await store.append_cancel(tenant_id=TENANT, instance_id=parent.head.instance_id, reason="enough")
    assert (await row_of(store, child.head.instance_id)).status is Status.CANCELLED
    await assert_size_is_known(store, child.head.instance_id)


@bounded
async def test_a_large_log_is_not_loaded_with_its_neighbours(store: Store) -> None:
    rows = [await created(store), await long_run(store), await created(store)]
    await store.release(worker_id=rows[0].worker_id or "")
    claimed = await store.claim(ClaimRequest(worker_id=OTHER_WORKER, limit=10, lease_ms=LEASE_MS))
    events = {item.row.head.instance_id: len(item.events) for item in claimed}
    assert events == {row.head.instance_id: 0 if row is rows[1] else row.last_seq for row in rows}
    large = next(item for item in claimed if not item.events)
    read = [event.seq async for page in pages_of(store, large) for event in page]
    assert read == list(range(1, large.row.last_seq + 1))
    loaded = await store.load([rows[1].head.instance_id], after_seq=large.row.last_seq - 1)
    assert [event.seq async for page in pages_of(store, loaded[rows[1].head.instance_id]) for event in page] == read


@bounded
async def test_a_large_log_is_read_whole_although_no_value_could_hold_it(store: Store) -> None:
    row = await long_run(store)
    events = await store.read_log(row.head.instance_id)
    assert [event.seq for event in events] == list(range(1, row.last_seq + 1))
    assert events[-1].payload.value == "x" * EVENT_BYTES


async def test_a_claim_takes_no_more_than_a_weight_of_logs(store: Store) -> None:
    rows = [await created(store, input_set("x" * 10_000)) for _ in range(5)]
    await store.release(worker_id=rows[0].worker_id or "")
    weight = (await row_of(store, rows[0].head.instance_id)).log_weight
    assert weight > 10_000

    async def claim(weight_max: int) -> int:
        return len(
            await store.claim(ClaimRequest(worker_id=OTHER_WORKER, limit=10, lease_ms=LEASE_MS, weight_max=weight_max))
        )

    assert await claim(1) == 1, "one at least"
    assert await claim(2 * weight) == 2
    assert await claim(10 * weight) == 2, "those that are left"


async def test_a_claim_may_leave_large_logs_to_later(store: Store) -> None:
    small, large = await created(store), await long_run(store)
    await store.release(worker_id=small.worker_id or "")
    (taken,) = await store.claim(ClaimRequest(worker_id=OTHER_WORKER, limit=10, lease_ms=LEASE_MS, large=False))
    assert taken.row.head == small.head
    (taken,) = await store.claim(ClaimRequest(worker_id=OTHER_WORKER, limit=10, lease_ms=LEASE_MS))
    assert taken.row.head == large.head


async def test_a_signal_that_a_log_has_no_room_for_ends_the_run(store: Store) -> None:
    parent = await created(store)
    row = await created(store, parent_id=parent.head.instance_id, parent_waits=True, root_id=parent.head.instance_id)
    limit = LogLimit(bytes_max=row.log_bytes + 100)

    async def send(length: int) -> ExternalResult:
        return await store.append_signal(
            row.head.instance_id, SignalSent("e", Payload.of("x" * length)), tenant_id=TENANT, log_limit=limit
        )

    assert (await send(10)).seq == row.last_seq + 1
    refused = await send(90)
    assert refused.seq is None and refused.row is not None
    ended = await row_of(store, row.head.instance_id)
    assert (ended.status, ended.last_seq, ended.worker_id) == (Status.FAILED, row.last_seq + 2, None)
    last = (await store.read_log(row.head.instance_id))[-1]
    assert (last.type, last.payload.value["code"]) == (EventType.INSTANCE_FAILED, "LOG_TOO_LARGE")
    assert last.error_message == last.payload.value["message"]
    assert (await row_of(store, parent.head.instance_id)).version == parent.version + 1, "its parent looks at it"
    assert (await send(1)).seq is None, "it has ended"
    await assert_size_is_known(store, row.head.instance_id)


async def test_a_signal_past_the_number_of_rows_ends_the_run(store: Store) -> None:
    row = await created(store, input_set(), dispatched("a"))
    limit = LogLimit(rows_max=2)
    result = await store.append_signal(row.head.instance_id, SignalSent("e", NULL), tenant_id=TENANT, log_limit=limit)
    assert result.seq is None
    assert (await row_of(store, row.head.instance_id)).status is Status.FAILED


async def test_a_full_log_ends_an_open_run_only_and_only_of_its_tenant(store: Store) -> None:
    row = await created(store)
    other = await store.fail_full(tenant_id="other", instance_id=row.head.instance_id, log_limit=LOG_LIMIT)
    assert (other.row, other.seq) == (None, None)
    ended = await store.fail_full(tenant_id=TENANT, instance_id=row.head.instance_id, log_limit=LOG_LIMIT)
    assert ended.seq == row.last_seq + 1
    again = await store.fail_full(tenant_id=TENANT, instance_id=row.head.instance_id, log_limit=LOG_LIMIT)
    assert again.seq is None and again.row == ended.row


async def assert_size_is_known(store: Store, instance_id: str) -> None:
    """The row says what the payloads of the log have together."""
    events = await store.read_log(instance_id)
    assert (await row_of(store, instance_id)).log_bytes == sum(len(event.payload.raw) for event in events)


async def long_run(store: Store) -> InstanceRow:
    """A run whose log has more bytes than a value may have."""
    row = await created(store)
    for number in range(1, LONG_LOG_EVENTS):
        await committed(store, transition(row, completed(f"n{number}", output="x" * EVENT_BYTES)))
        row = await row_of(store, row.head.instance_id)
    return row

"""Long logs: read page by page, and loaded even where the database cannot give one as a single value.

Databases bound a value at about 1 GB. The tests bring the bound down to 1 MB: SQLite has a
setting for that, PostgreSQL gets a `string_agg` that refuses longer texts in the same words.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

import psycopg
import pytest
from sqlalchemy import Engine
from sqlalchemy import event as engine_events

from anabranch.engine.ports import InstanceRow, Store
from anabranch.engine.store.inquiries import LOG_PAGE_EVENTS
from tests.conformance.building import LEASE_MS, OTHER_WORKER, born, committed, completed, dispatched, row_of, turn

VALUE_BYTES_MAX = 1_000_000
LONG_LOG_EVENTS = 41
EVENT_BYTES = 100_000

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
    row = await born(store, *(dispatched(f"n{number}") for number in range(count)))
    instance_id = row.head.instance_id
    assert [event.seq for event in await store.read_log(instance_id)] == list(range(1, count + 1))
    assert [event.seq for event in await store.read_log(instance_id, limit=count - 1)] == list(range(1, count))
    tail = await store.read_log(instance_id, after_seq=count - LOG_PAGE_EVENTS)
    assert [event.seq for event in tail] == list(range(count - LOG_PAGE_EVENTS + 1, count + 1))


@bounded
async def test_a_log_too_long_for_one_value_is_claimed_together_with_its_neighbours(store: Store) -> None:
    rows = [await born(store), await long_run(store), await born(store)]
    await store.release(worker_id=rows[0].worker_id or "")
    claimed = await store.claim(worker_id=OTHER_WORKER, limit=10, lease_ms=LEASE_MS)
    events = {item.loaded.row.head.instance_id: len(item.loaded.events) for item in claimed}
    assert events == {row.head.instance_id: row.last_seq for row in rows}
    for item in claimed:
        assert [event.seq for event in item.loaded.events] == list(range(1, item.loaded.row.last_seq + 1))


@bounded
async def test_a_log_too_long_for_one_value_is_read_whole(store: Store) -> None:
    row = await long_run(store)
    instance_id = row.head.instance_id
    assert len(await store.read_log(instance_id)) == row.last_seq
    loaded = await store.load([instance_id], after_seq=row.last_seq - 20)
    assert loaded[instance_id].row == row
    assert [event.seq for event in loaded[instance_id].events] == list(range(row.last_seq - 19, row.last_seq + 1))
    assert loaded[instance_id].events[-1].payload.value == "x" * EVENT_BYTES


async def long_run(store: Store) -> InstanceRow:
    """A run whose log has more bytes than a value may have."""
    row = await born(store)
    for number in range(1, LONG_LOG_EVENTS):
        await committed(store, turn(row, completed(f"n{number}", output="x" * EVENT_BYTES)))
        row = await row_of(store, row.head.instance_id)
    return row

"""Behind a pooler that lends connections by the transaction: found out, and nothing is left on what is lent.

`conftest` runs the other files behind the same pooler.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator

import psycopg
import pytest
from sqlalchemy import Connection, text

from anabranch.engine.hints.hint_line import Channel
from anabranch.engine.store.opening import open_hint_line, open_store
from anabranch.engine.store.postgresql.postgresql_dialect import PostgresqlDialect
from anabranch.engine.store.sql.store import SqlStore
from anabranch.errors import StoreUnavailable
from anabranch.migrations import upgrade
from tests.conformance.building import TENANT, born_many, created, dispatched, transition
from tests.pgbouncer import POOL_SIZE, Pooler
from tests.postgres import PostgresServer

# The limits and the planner's pins, as a lane for commits sees them.
SETTINGS = {
    "statement_timeout": "10s",
    "lock_timeout": "500ms",
    "idle_in_transaction_session_timeout": "5s",
    "enable_seqscan": "off",
    "plan_cache_mode": "force_generic_plan",
    "jit": "off",
}

# More than the driver executes before it prepares a statement, on each of the connections.
OFTEN = 40


@contextlib.asynccontextmanager
async def opened(url: str, *, pooled: bool | None = None) -> AsyncIterator[SqlStore]:
    store = open_store(url, pooled=pooled)
    await store.start()
    try:
        yield store
    finally:
        await store.stop()


def is_pooled(store: SqlStore) -> bool:
    assert isinstance(store.dialect, PostgresqlDialect)
    return store.dialect.pooled


def settings(connection: Connection) -> dict[str, str]:
    return {name: connection.exec_driver_sql(f"SHOW {name}").scalar_one() for name in SETTINGS}


async def test_a_pooler_is_found_out_and_said(pooled_url: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "anabranch.store")
    async with opened(pooled_url) as store:
        assert is_pooled(store)
    assert "a pooler lends connections by the transaction" in caplog.text


async def test_a_direct_connection_is_found_out(postgres_url: str) -> None:
    async with opened(postgres_url) as store:
        assert not is_pooled(store)


@pytest.mark.parametrize("pooled", [True, False])
async def test_what_was_set_is_not_asked_for(postgres_url: str, pooled: bool) -> None:
    async with opened(postgres_url, pooled=pooled) as store:
        assert is_pooled(store) is pooled
        await created(store)


@pytest.mark.parametrize("url", ["postgres_url", "pooled_url"])
async def test_limits_and_pins_hold_in_every_commit(url: str, request: pytest.FixtureRequest) -> None:
    async with opened(request.getfixturevalue(url)) as store:
        assert await store.commit_transitions(settings, may_wait=False) == SETTINGS
        assert await store.commit_transitions(settings, may_wait=True) == SETTINGS
        for run in (store.read, store.write, store.write_without_waiting):
            found = await run(settings)
            assert [found[name] for name in list(SETTINGS)[:3]] == list(SETTINGS.values())[:3]
            assert found["enable_seqscan"] == "on"


async def test_nothing_is_left_on_a_connection_that_is_given_back(pooled_url: str) -> None:
    async with opened(pooled_url) as store:
        for row in await born_many(store, OFTEN):
            await store.commit([transition(row, dispatched("a"))])
            await store.append_cancel(tenant_id=TENANT, instance_id=row.head.instance_id, reason="")
    for _ in range(2 * POOL_SIZE):
        async with await psycopg.AsyncConnection.connect(pooled_url, autocommit=True) as lent:
            lent.prepare_threshold = None
            shown = {name: (await (await lent.execute(f"SHOW {name}")).fetchone() or ("",))[0] for name in SETTINGS}
            prepared = await (await lent.execute("SELECT count(*) FROM pg_prepared_statements")).fetchone()
            listening = await (await lent.execute("SELECT count(*) FROM pg_listening_channels()")).fetchone()
        assert (shown["statement_timeout"], shown["lock_timeout"], shown["enable_seqscan"]) == ("0", "0", "on")
        assert (prepared, listening) == ((0,), (0,))


async def test_several_stores_write_at_once_on_few_connections(pooled_url: str) -> None:
    async with opened(pooled_url) as one, opened(pooled_url) as other:
        rows = await born_many(one, OFTEN)
        half = len(rows) // 2
        outcomes = await asyncio.gather(
            *(one.commit([transition(row, dispatched("a"))]) for row in rows[:half]),
            *(other.commit([transition(row, dispatched("a"))]) for row in rows[half:]),
        )
        assert {run for outcome in outcomes for run in outcome.won} == {row.head.instance_id for row in rows}


async def test_a_pooler_that_nobody_noticed_is_noticed_by_its_first_error(
    pooled_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with opened(pooled_url, pooled=False) as store:
        rows = await born_many(store, OFTEN)
        await asyncio.gather(*(store.commit([transition(row, dispatched("a"))]) for row in rows))
        await asyncio.gather(*(store.get_instance(row.head.instance_id) for row in rows))
        for row in rows:
            answer = await store.append_cancel(tenant_id=TENANT, instance_id=row.head.instance_id, reason="")
            assert answer.seq == row.last_seq + 2
        assert is_pooled(store)
    assert "on a prepared statement: a pooler lends connections" in caplog.text


async def test_a_plan_that_a_migration_has_outdated_is_made_anew(postgres_url: str) -> None:
    def look(connection: Connection) -> int:
        return len(connection.execute(text("SELECT * FROM outdated")).keys())

    with psycopg.connect(postgres_url, autocommit=True) as administrator:
        administrator.execute("CREATE TABLE outdated (a integer)")
        try:
            async with opened(postgres_url, pooled=False) as store:
                for _ in range(OFTEN):
                    assert await store.write_without_waiting(look) == 1
                administrator.execute("ALTER TABLE outdated ADD COLUMN b integer")
                for _ in range(OFTEN):
                    assert await store.write_without_waiting(look) == 2
                assert not is_pooled(store)
        finally:
            administrator.execute("DROP TABLE outdated")


async def test_nobody_listens_behind_a_pooler_and_what_is_said_there_is_heard_elsewhere(
    pooled_url: str, postgres_url: str
) -> None:
    async with opened(pooled_url) as pooled, opened(postgres_url) as direct:
        saying, hearing = open_hint_line(pooled), open_hint_line(direct)
        assert saying is not None and hearing is not None
        with pytest.raises(StoreUnavailable, match="none can listen"):
            await saying.listen(lambda *_: None, connected=lambda: None)
        connected, heard = asyncio.Event(), asyncio.Event()
        listening = asyncio.create_task(hearing.listen(lambda *_: heard.set(), connected=connected.set))
        await connected.wait()
        await saying.send({Channel.PENDING: [""]})
        async with asyncio.timeout(10):
            await heard.wait()
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)
        await saying.close()


def test_an_empty_database_is_brought_to_its_schema_through_a_pooler(
    empty_postgres_url: str, pooler: Pooler, postgres_server: PostgresServer
) -> None:
    assert upgrade(pooler.url_of(empty_postgres_url)) == upgrade(empty_postgres_url)

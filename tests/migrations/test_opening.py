"""Opening a database: which URLs there are, and what is said when one is not there or cannot be written."""

from __future__ import annotations

import asyncio
import logging
import resource
import socket
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import Connection, make_url

from anabranch.engine.store.opening import dialect_of, open_store
from anabranch.engine.store.postgresql.postgresql_dialect import PostgresqlDialect
from anabranch.engine.store.sql.store import SqlStore
from anabranch.engine.store.sqlite.sqlite_dialect import SqliteDialect
from anabranch.errors import SettingsError, StoreUnavailable
from anabranch.migrations import ensure_schema, upgrade
from tests.conformance.building import committed, dispatched, input_set, new_head, new_run, transition
from tests.postgres import PostgresServer

SECRET = "s3cret"


@pytest.mark.parametrize(
    "url", ["mysql://u:s3cret@h/d", "sqlite://", "sqlite:///:memory:", "sqlite+aiosqlite:///x", "not a url", ""]
)
def test_any_other_url_is_refused_without_repeating_a_password(url: str) -> None:
    with pytest.raises(SettingsError) as caught:
        open_store(url)
    assert "postgresql://" in caught.value.advice
    assert SECRET not in caught.value.message + caught.value.advice


@pytest.mark.parametrize(
    ("hosts", "query", "arguments"),
    [
        ("a:1,b:2", "", {"host": "a,b", "port": "1,2", "target_session_attrs": "read-write"}),
        ("a,b:2", "", {"host": "a,b", "port": ",2", "target_session_attrs": "read-write"}),
        ("[::1]:1,[fe80::2]:2", "", {"host": "::1,fe80::2", "port": "1,2", "target_session_attrs": "read-write"}),
        ("a,b", "?target_session_attrs=any", {"host": "a,b", "port": ",", "target_session_attrs": "any"}),
        ("", "?host=a:1&host=b:2", {"host": "a,b", "port": "1,2", "target_session_attrs": "read-write"}),
        ("a:1", "?options=x,y", {"host": "a", "port": 1, "options": "x,y"}),
    ],
)
def test_of_several_hosts_the_one_that_takes_writes_is_used(
    hosts: str, query: str, arguments: dict[str, object]
) -> None:
    dialect = dialect_of(f"postgresql://ada:p,w@{hosts}/runs{query}")
    assert isinstance(dialect, PostgresqlDialect)
    given = dialect.connect_arguments()
    assert {name: given.get(name) for name in arguments} == arguments
    assert (given["user"], given["password"], given["dbname"]) == ("ada", "p,w", "runs")
    assert ("target_session_attrs" in given) == ("target_session_attrs" in arguments)


@pytest.mark.parametrize("hosts", ["a:1,b:70000", "a:0,b", "a:x,b"])
def test_the_ports_of_several_hosts_are_checked(hosts: str) -> None:
    with pytest.raises(SettingsError, match="ports are 1 to 65535"):
        open_store(f"postgresql://{hosts}/runs")


def test_the_directories_above_a_sqlite_file_are_made(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "er" / "anabranch.db"
    ensure_schema(f"sqlite:///{path}", auto_migrate=False)
    assert path.exists()


def test_a_directory_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StoreUnavailable, match=str(tmp_path / "file")):
        upgrade(f"sqlite:///{tmp_path / 'file' / 'anabranch.db'}")


def test_a_file_that_is_no_database_is_named(tmp_path: Path) -> None:
    path = tmp_path / "letter.db"
    path.write_text("Dear Sir or Madam, " * 100)
    with pytest.raises(StoreUnavailable, match=f"{path}.*not a database"):
        upgrade(f"sqlite:///{path}")


async def test_an_absent_server_is_waited_for_with_one_line_an_attempt(caplog: pytest.LogCaptureFixture) -> None:
    port = _free_port()
    store = open_store(f"postgresql://someone:{SECRET}@127.0.0.1:{port}/runs", connect_wait_s=1.5)
    with caplog.at_level(logging.WARNING, "anabranch.store"), pytest.raises(StoreUnavailable) as caught:
        await store.start()
    assert f"127.0.0.1:{port}" in caught.value.message
    lines = [record.getMessage() for record in caplog.records if record.name == "anabranch.store"]
    assert len(lines) == 1 and f"127.0.0.1:{port}" in lines[0] and "\n" not in lines[0]
    assert SECRET not in caught.value.message + lines[0]


async def test_a_sqlite_file_lets_go_of_the_space_that_it_does_not_need(tmp_path: Path) -> None:
    path = tmp_path / "anabranch.db"
    upgrade(f"sqlite:///{path}")
    with sqlite3.connect(path) as connection:
        incremental, write_ahead = 2, "wal"
        assert connection.execute("PRAGMA auto_vacuum").fetchone() == (incremental,)
        assert connection.execute("PRAGMA journal_mode").fetchone() == (write_ahead,)


async def test_a_full_disk_loses_nothing_and_work_goes_on_when_there_is_room(tmp_path: Path) -> None:
    path = tmp_path / "anabranch.db"
    store = await _started(path)
    kept = await committed(store, new_run(new_head(now=await store.now()), input_set()))
    homeless = new_run(new_head(now=await store.now()), input_set())
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4_096, hard))  # no file of this process may grow
    try:
        with pytest.raises(StoreUnavailable, match=str(path)):
            await store.commit([homeless])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert await store.get_instance(kept.head.instance_id) == kept
    assert await store.get_instance(homeless.instance_id) is None
    assert (await store.commit([homeless])).won == {homeless.instance_id}
    await store.stop()


async def test_a_file_that_another_program_keeps_locked_is_named(tmp_path: Path) -> None:
    path = tmp_path / "anabranch.db"
    upgrade(f"sqlite:///{path}")
    store = SqlStore(SqliteDialect(make_url(f"sqlite:///{path}"), busy_timeout_ms=50))
    await store.start()
    with sqlite3.connect(path, isolation_level=None) as stranger:
        stranger.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreUnavailable, match=f"{path}.*locked"):
            await store.commit([new_run(new_head(now=await store.now()), input_set())])
        stranger.execute("ROLLBACK")
    await committed(store, new_run(new_head(now=await store.now()), input_set()))
    await store.stop()


async def test_a_step_alone_is_four_statements_to_the_driver(tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path / 'anabranch.db'}")
    upgrade(f"sqlite:///{tmp_path / 'anabranch.db'}")
    await store.start()
    row = await committed(store, new_run(new_head(now=await store.now()), input_set()))
    statements: list[str] = []

    def traced(connection: Connection, trace: Callable[[str], None] | None) -> None:
        driver = connection.connection.driver_connection
        assert isinstance(driver, sqlite3.Connection)
        driver.set_trace_callback(trace)

    await store.write(lambda connection: traced(connection, statements.append))
    await committed(store, transition(row, dispatched("n")))
    await store.write(lambda connection: traced(connection, None))
    await store.stop()

    assert [statement.split()[0] for statement in statements] == ["BEGIN", "UPDATE", "INSERT", "COMMIT"]


async def test_a_reader_does_not_notice_that_its_connection_was_ended_meanwhile(
    postgres_url: str, postgres_server: PostgresServer
) -> None:
    store = open_store(postgres_url)
    await store.start()
    kept = await committed(store, new_run(new_head(now=await store.now()), input_set()))
    await asyncio.gather(*(store.now() for _ in range(20)))  # now every lane has its connection
    postgres_server.set_reachable(postgres_url, reachable=False)
    postgres_server.set_reachable(postgres_url, reachable=True)
    assert await store.get_instance(kept.head.instance_id) == kept
    await store.stop()


async def test_a_store_that_is_not_started_says_so(tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path / 'anabranch.db'}")
    await store.stop()
    with pytest.raises(StoreUnavailable, match="not started"):
        await store.now()


async def _started(path: Path) -> SqlStore:
    upgrade(f"sqlite:///{path}")
    store = open_store(f"sqlite:///{path}")
    await store.start()
    return store


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])

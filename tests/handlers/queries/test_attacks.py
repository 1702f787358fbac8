"""The attack collection: each item harms a naive runner, and none gets through the query engine.

The naive runner formats values into the text and runs it with every right on one lasting session,
as a handler of twenty lines would. PostgreSQL is attacked twice: through a role that may change every
row, and through one that may read every table.
"""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import psycopg
import pytest

from anabranch.errors import InvalidRequest, NodeFailure
from tests.handlers.queries.attacks import POSTGRESQL, SQLITE, Attack
from tests.handlers.queries.conftest import Bench, Shop, make_shop_file

Rows = Sequence[Sequence[Any]]
Asker = Callable[[str], Awaitable[Rows]]

# What a query that never ends is given, and after how long it counts as one that runs on.
TIMEOUT = "300ms"
# Those that run on do so for twenty seconds at least.
RUNS_ON_S = 10.0
NAIVE_RUNS_ON_S = 0.3
# Long enough for the largest answers to arrive on any machine.
NAIVE_PATIENCE_S = 60.0

MEMORY_BYTES = 20_000_000
ROWS_MAX = 10_000

ORDERS = [(1, "Ada", 1250), (2, "Grace", 900), (3, "Edsger", 40)]


@pytest.mark.parametrize("attack", POSTGRESQL, ids=str)
async def test_a_naive_runner_on_postgresql_is_harmed(attack: Attack, postgres_shop: Shop) -> None:
    postgres_shop.restore()
    with _victim(postgres_shop), psycopg.connect(postgres_shop.owner_url, autocommit=True) as connection:
        rows, runs_on = _naive(
            attack, lambda: _execute(connection, _formatted(attack, _values(postgres_shop))), connection.cancel
        )

        async def ask(sql: str) -> Rows:
            try:
                return _execute(connection, sql)
            except psycopg.Error:
                return []

        assert await _harmed_postgresql(attack, postgres_shop, rows, runs_on, ask)


@pytest.mark.parametrize("role", ["reader", "auditor"])
@pytest.mark.parametrize("attack", POSTGRESQL, ids=str)
async def test_no_attack_on_postgresql_gets_through(
    attack: Attack, role: str, bench: Bench, postgres_shop: Shop
) -> None:
    postgres_shop.restore()
    await bench.source(postgres_shop.reader_url if role == "reader" else postgres_shop.auditor_url)
    with _victim(postgres_shop):
        rows, seconds = await _guarded(bench, attack, _values(postgres_shop))

        async def ask(sql: str) -> Rows:
            return [tuple(row.values()) for row in (await bench.ask(sql))["rows"]]

        assert not await _harmed_postgresql(attack, postgres_shop, rows, seconds > RUNS_ON_S, ask)
        assert await ask("SELECT id, customer, cents FROM orders ORDER BY id") == ORDERS
    await bench.data.queries.stop()


@pytest.mark.parametrize("attack", SQLITE, ids=str)
def test_a_naive_runner_on_sqlite_is_harmed(attack: Attack, tmp_path: Path) -> None:
    world = _SqliteWorld(tmp_path)
    with contextlib.closing(sqlite3.connect(world.shop, isolation_level=None, check_same_thread=False)) as connection:
        rows, runs_on = _naive(
            attack, lambda: _execute_all(connection, _formatted(attack, world.values)), connection.interrupt
        )
    assert world.harmed(attack, rows, runs_on=runs_on)


@pytest.mark.parametrize("attack", SQLITE, ids=str)
async def test_no_attack_on_sqlite_gets_through(attack: Attack, bench: Bench, tmp_path: Path) -> None:
    world = _SqliteWorld(tmp_path)
    await bench.source(f"sqlite:///{world.shop}")
    rows, seconds = await _guarded(bench, attack, world.values)
    assert not world.harmed(attack, rows, runs_on=seconds > RUNS_ON_S)
    assert [tuple(row.values()) for row in (await bench.ask("SELECT * FROM orders"))["rows"]] == ORDERS


async def test_the_event_loop_goes_on_while_the_largest_answers_are_read(bench: Bench, shop_file: Path) -> None:
    await bench.source(f"sqlite:///{shop_file}")
    numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 9000)"
    sql = f"{numbers} SELECT i, hex(zeroblob(500)) AS x FROM n"
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0)
            ticks += 1

    ticking = asyncio.ensure_future(tick())
    answer = await bench.ask(sql)
    ticking.cancel()
    assert answer["rowCount"] == 9000
    assert ticks > 20


async def _guarded(bench: Bench, attack: Attack, values: Mapping[str, str]) -> tuple[Rows, float]:
    """What the engine answered to somebody who saved this query, and after how long."""
    started = time.monotonic()
    try:
        answer = await bench.ask(
            _filled(attack.sql, values), attack.args, params=attack.params, writes=attack.writes, timeout=TIMEOUT
        )
    except (InvalidRequest, NodeFailure):
        return [], time.monotonic() - started
    return [tuple(row.values()) for row in answer["rows"]], time.monotonic() - started


def _naive(attack: Attack, work: Callable[[], Rows], stop: Callable[[], None]) -> tuple[Rows, bool]:
    """What a runner without any care answers, and does it run on? Stopped from outside once that is clear."""
    found: list[Rows] = []

    def run() -> None:
        with contextlib.suppress(psycopg.Error, sqlite3.Error):
            found.append(work())

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(NAIVE_RUNS_ON_S if attack.harm == "runs on" else NAIVE_PATIENCE_S)
    runs_on = thread.is_alive()
    while thread.is_alive():
        stop()
        thread.join(0.1)
    return (found[0] if found else []), runs_on


def _formatted(attack: Attack, values: Mapping[str, str]) -> str:
    """Values written into the text: names in quotes, numbers as they are."""
    text = _filled(attack.sql, values)
    for name, value in attack.args.items():
        text = text.replace(f":{name}", f"'{value}'" if name == "name" else str(value))
    return text.replace("\\'", "'") if attack.args else text


def _filled(sql: str, values: Mapping[str, str]) -> str:
    for name, value in values.items():
        sql = sql.replace(f"{{{name}}}", value)
    return sql


# -- PostgreSQL ----------------------------------------------------------------------------------
def _values(shop: Shop) -> Mapping[str, str]:
    return {"file": str(shop.secret_file), "drop": str(shop.drop_folder)}


@contextlib.contextmanager
def _victim(shop: Shop) -> Iterator[None]:
    with psycopg.connect(shop.owner_url, autocommit=True, application_name="victim"):
        yield


def _execute(connection: psycopg.Connection[Any], sql: str) -> Rows:
    cursor = connection.execute(sql.encode())
    rows: list[Sequence[Any]] = []
    while True:
        if cursor.description is not None:
            rows += cursor.fetchall()
        if not cursor.nextset():
            return rows


async def _harmed_postgresql(attack: Attack, shop: Shop, rows: Rows, runs_on: bool, ask: Asker) -> bool:
    if attack.harm in _HARM_ON_POSTGRESQL:
        with psycopg.connect(shop.owner_url, autocommit=True) as connection:
            return connection.execute(_HARM_ON_POSTGRESQL[attack.harm]).fetchone() == (True,)
    match attack.harm:
        case "orders gone":
            return _orders_of(shop) != ORDERS
        case "file made":
            return any(shop.drop_folder.iterdir())
        case "setting left":
            return await ask("SELECT current_setting('shop.visitor', true)") == [("mallory",)]
        case "temporary table left":
            return await ask("SELECT customer FROM orders LIMIT 1") != [("Ada",)]
        case "runs on":
            return runs_on
    return _seen(attack.harm, rows)


def _orders_of(shop: Shop) -> Rows:
    with psycopg.connect(shop.owner_url) as connection:
        try:
            return _execute(connection, "SELECT id, customer, cents FROM orders ORDER BY id")
        except psycopg.Error:
            return []


_HARM_ON_POSTGRESQL = {
    "table made": "SELECT to_regclass('stolen') IS NOT NULL",
    "sequence moved": "SELECT is_called FROM numbers",
    "large object made": "SELECT count(*) > 0 FROM pg_largeobject_metadata",
    "lock kept": "SELECT count(*) > 0 FROM pg_locks WHERE locktype = 'advisory' AND objid = 4711",
    "victim gone": "SELECT count(*) = 0 FROM pg_stat_activity WHERE application_name = 'victim'",
}


# -- SQLite --------------------------------------------------------------------------------------
class _SqliteWorld:
    """A shop, another file that is nobody's business, and a directory that should stay empty."""

    def __init__(self, folder: Path) -> None:
        self.shop = folder / "attacked.db"
        make_shop_file(self.shop)
        self._drop = folder / "drop"
        self._drop.mkdir()
        other = folder / "other.db"
        with contextlib.closing(sqlite3.connect(other)) as connection:
            connection.executescript("CREATE TABLE treasures (x); INSERT INTO treasures VALUES ('a treasure')")
        self.values = {"drop": str(self._drop), "other": str(other)}

    def harmed(self, attack: Attack, rows: Rows, *, runs_on: bool) -> bool:
        match attack.harm:
            case "orders gone":
                return self._ask("SELECT id, customer, cents FROM orders ORDER BY id") != ORDERS
            case "table made":
                return bool(self._ask("SELECT 1 FROM sqlite_master WHERE name = 'stolen'"))
            case "settings changed":
                sql = [
                    (row[0].split("(")[0]) for row in self._ask("SELECT sql FROM sqlite_master WHERE name = 'orders'")
                ]
                settings = [*self._ask("PRAGMA user_version"), *self._ask("PRAGMA application_id")]
                return settings != [(0,), (0,)] or sql != ["CREATE TABLE orders "]
            case "file made":
                return any(self._drop.iterdir())
            case "runs on":
                return runs_on
        return _seen(attack.harm, rows)

    def _ask(self, sql: str) -> list[Any]:
        try:
            with contextlib.closing(sqlite3.connect(self.shop)) as connection:
                return connection.execute(sql).fetchall()
        except sqlite3.Error:
            return []


def _execute_all(connection: sqlite3.Connection, script: str) -> Rows:
    rows: list[Sequence[Any]] = []
    statement = ""
    for character in script:
        statement += character
        if character == ";" and sqlite3.complete_statement(statement):
            rows += connection.execute(statement).fetchall()
            statement = ""
    return [*rows, *connection.execute(statement).fetchall()]


def _seen(harm: str, rows: Rows) -> bool:
    """Harm that is in the answer itself."""
    match harm:
        case "sees all":
            return len(rows) >= len(ORDERS)
        case "sees password":
            return "swordfish" in str(rows)
        case "sees treasure":
            return "treasure" in str(rows)
        case "sees file name":
            return "secret.txt" in str(rows)
        case "sees hash":
            return "SCRAM-SHA-256" in str(rows)
        case "too many rows":
            return len(rows) > ROWS_MAX
        case "memory filled":
            return sum(len(str(value)) for row in rows for value in row) > MEMORY_BYTES
    raise AssertionError(f"nobody knows how to see the harm {harm!r}")

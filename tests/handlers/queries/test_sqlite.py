"""Queries on SQLite files: values both ways, writing, time, and what a cancelled query leaves behind."""

# ruff: noqa: ASYNC110, ASYNC240 -- files of the tests themselves; a thread's start sets no event
from __future__ import annotations

import asyncio
import sqlite3
import threading
from pathlib import Path
from typing import Any

import pytest

from anabranch.errors import NodeFailure
from anabranch.queries.limits import Limits
from tests.handlers.queries.conftest import Bench


@pytest.fixture
async def shop(bench: Bench, shop_file: Path) -> Bench:
    await bench.source(f"sqlite:///{shop_file}")
    return bench


@pytest.mark.parametrize(
    ("expression", "args", "form"),
    [
        ("9007199254740993", {}, 9007199254740993),
        ("0.5", {}, 0.5),
        ("9e999", {}, "Infinity"),
        ("NULL", {}, None),
        ("x'00ff'", {}, "AP8="),
        (":v", {"v": "it's :v %s"}, "it's :v %s"),
        (":v", {"v": True}, 1),
        (":v ->> 'a'", {"v": {"a": "b"}}, "b"),
        (":v + :v", {"v": 4}, 8),
    ],
)
async def test_values_go_in_and_come_out(shop: Bench, expression: str, args: dict[str, Any], form: Any) -> None:
    assert (await shop.ask(f"SELECT {expression} AS value", args))["rows"] == [{"value": form}]


async def test_a_time_goes_in_as_iso_text_in_utc(shop: Bench) -> None:
    answer = await shop.ask("SELECT :w AS w", {"w": "2026-01-31T08:00:00+01:00"}, params={"w": "datetime"})
    assert answer["rows"] == [{"w": "2026-01-31T07:00:00+00:00"}]


async def test_columns_of_a_join_are_told_apart(shop: Bench) -> None:
    answer = await shop.ask("SELECT a.id, b.id FROM orders a JOIN orders b ON b.id = a.id + 1 ORDER BY a.id LIMIT 1")
    assert answer["rows"] == [{"id": 1, "id_2": 2}]


async def test_a_declared_writer_changes_rows(shop: Bench, shop_file: Path) -> None:
    sql = "INSERT INTO orders (id, customer) VALUES (:id, :customer)"
    assert await shop.ask(sql, {"id": 9, "customer": "Lin"}, writes=True) == {"rows": [], "rowCount": 1}
    assert await shop.ask("UPDATE orders SET cents = 0 WHERE id < 3", writes=True) == {"rows": [], "rowCount": 2}
    returned = await shop.ask("DELETE FROM orders WHERE id = 9 RETURNING customer", writes=True)
    assert returned == {"rows": [{"customer": "Lin"}], "rowCount": 1}
    with pytest.raises(NodeFailure, match="UNIQUE"):
        await shop.ask(sql, {"id": 1, "customer": "twice"}, writes=True)


async def test_reading_needs_no_right_to_write(shop: Bench, shop_file: Path) -> None:
    before = shop_file.stat().st_mtime_ns
    await shop.ask("SELECT * FROM orders")
    assert shop_file.stat().st_mtime_ns == before


async def test_the_tables_of_a_file_may_be_read(shop: Bench) -> None:
    answer = await shop.ask("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name")
    assert [row["name"] for row in answer["rows"]] == ["orders", "staff"]


@pytest.mark.parametrize("pragma", ["database_list", "compile_options", "user_version"])
async def test_settings_are_not_read_by_the_functions_named_after_them(shop: Bench, pragma: str) -> None:
    with pytest.raises(NodeFailure, match="not authorized"):
        await shop.ask(f"SELECT * FROM pragma_{pragma}")


async def test_the_schema_itself_is_never_written(shop: Bench) -> None:
    with pytest.raises(NodeFailure, match=r"not authorized|may not be modified"):
        await shop.ask("UPDATE sqlite_schema SET sql = ''", writes=True)


async def test_a_list_becomes_rows(shop: Bench) -> None:
    sql = "SELECT customer FROM orders WHERE id IN (SELECT value FROM json_each(:ids)) ORDER BY id"
    assert [row["customer"] for row in (await shop.ask(sql, {"ids": [1, 3]}))["rows"]] == ["Ada", "Edsger"]


async def test_a_file_that_another_program_holds_is_worth_another_attempt(shop: Bench, shop_file: Path) -> None:
    with sqlite3.connect(shop_file, isolation_level=None) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(NodeFailure) as caught:
            await shop.ask("SELECT * FROM orders", timeout="100ms")
        other.execute("ROLLBACK")
    assert caught.value.retryable


async def test_a_cancelled_query_gives_its_thread_back(shop: Bench) -> None:
    endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
    asking = [asyncio.ensure_future(shop.ask(endless, timeout="10m"))]
    while not any(thread.name.startswith("anabranch-query") for thread in threading.enumerate()):
        await asyncio.sleep(0)
    asking[0].cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking[0]
    async with asyncio.timeout(30):
        await shop.data.queries.stop()  # waits for the threads
    assert not any(thread.name.startswith("anabranch-query") for thread in threading.enumerate())


class TestSmallLimits:
    """Limits that a test can reach."""

    @pytest.fixture
    def limits(self) -> Limits:
        return Limits(rows_max=2, bytes_max=400)

    async def test_a_row_too_many_is_an_error_and_not_a_shorter_list(self, shop: Bench) -> None:
        assert (await shop.ask("SELECT id FROM orders LIMIT 2"))["rowCount"] == 2
        with pytest.raises(NodeFailure, match="more than 2 rows") as caught:
            await shop.ask("SELECT id FROM orders")
        assert (caught.value.code, caught.value.retryable) == ("QUERY_TOO_LARGE", False)

    async def test_a_byte_too_many_is_an_error(self, shop: Bench) -> None:
        with pytest.raises(NodeFailure, match="more than 400 bytes") as caught:
            await shop.ask("SELECT hex(zeroblob(198)) AS x")
        assert caught.value.code == "QUERY_TOO_LARGE"

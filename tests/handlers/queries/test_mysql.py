"""Queries on MySQL: as far as it goes without a server, and all of it where one is named."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

import pymysql
import pytest

from anabranch.errors import NodeFailure
from anabranch.queries.drivers.mysql import text_of
from anabranch.queries.drivers.orders import Order
from anabranch.queries.lexing import SourceKind
from anabranch.queries.parameters import Bound, Document
from anabranch.queries.statement import read_statement
from tests.handlers.queries.conftest import TENANT, Bench

SERVER = os.environ.get("ANABRANCH_TEST_MYSQL_URL")
needs_server = pytest.mark.skipif(SERVER is None, reason="ANABRANCH_TEST_MYSQL_URL names no MySQL server")


@pytest.mark.parametrize(
    ("value", "quoted"),
    [
        ("it's", "'it\\'s'"),
        ("\\' OR 1=1 -- ", "'\\\\\\' OR 1=1 -- '"),
        ("100 % :b", "'100 % :b'"),
        (7, "7"),
        (None, "NULL"),
        (True, "1"),
        (Document({"a": "'"}), '\'{"a":"\\\'"}\''.replace('"', '\\"')),
        (datetime(2026, 1, 31, 8, tzinfo=UTC), "'2026-01-31 08:00:00'"),
    ],
)
def test_values_are_quoted_and_nothing_in_them_is_read_again(value: Bound, quoted: str) -> None:
    statement = read_statement("SELECT '%', :a, ':b', 5 % 2", SourceKind.MYSQL, writes=False)
    pieces = [piece if isinstance(piece, str) else [piece.value] for piece in statement.pieces]
    order = Order(pieces, "select", {"a": value}, False, 1_000, 1, 1, 1)
    driver: Any = pymysql.connect(defer_connect=True, charset="utf8mb4")
    driver.server_status = 0  # what a server says that keeps to our session's sql_mode
    assert text_of(order, driver) == f"SELECT '%',  {quoted} , ':b', 5 % 2"


async def test_a_server_that_is_not_there_is_worth_another_try(bench: Bench) -> None:
    bench.guard.addresses["db.internal"] = ["127.0.0.1"]
    await bench.source("mysql://u:sesame@db.internal:1/x")
    with pytest.raises(NodeFailure) as caught:
        await bench.ask("SELECT 1")
    assert (caught.value.code, caught.value.type_name, caught.value.retryable) == (
        "QUERY_FAILED", "SourceUnreachable", True
    )  # fmt: skip
    assert "sesame" not in str(caught.value)


@needs_server
async def test_a_server_answers(bench: Bench) -> None:
    assert SERVER is not None
    host = urlsplit(SERVER).hostname or ""
    bench.guard.addresses[host] = [host]
    await bench.source(SERVER)
    answer = await bench.ask("SELECT :a AS a, 5 % 2 AS b", {"a": "it's 100 %"})
    assert answer["rows"] == [{"a": "it's 100 %", "b": 1}]
    with pytest.raises(NodeFailure):
        await bench.ask("CREATE TABLE stolen (a int)", writes=True)
    assert await bench.data.list_queries(tenant_id=TENANT)

"""Queries on MySQL, played by MariaDB: values both ways, limits, accounts, and attacks."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pymysql
import pytest

from anabranch.errors import InvalidRequest, NodeFailure, SourceTooPowerful
from anabranch.queries.drivers.driver_requests import QueryRequest
from anabranch.queries.drivers.mysql import excess_privileges, text_of
from anabranch.queries.lexing import SourceKind
from anabranch.queries.parameters import Bound, Document
from anabranch.queries.statement import read_statement
from tests.handlers.queries.conftest import SHOP, TENANT, Bench
from tests.servers import MariaServer

_numbers = itertools.count(1)


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
    request = QueryRequest(pieces, "select", {"a": value}, False, 1_000, 1, 1, 1)
    driver: Any = pymysql.connect(defer_connect=True, charset="utf8mb4")
    driver.server_status = 0  # what a server says that keeps to our session's sql_mode
    assert text_of(request, driver) == f"SELECT '%',  {quoted} , ':b', 5 % 2"


async def test_a_server_that_is_not_there_is_worth_another_attempt(bench: Bench) -> None:
    bench.guard.addresses["db.internal"] = ["127.0.0.1"]
    await bench.source("mysql://u:sesame@db.internal:1/x")
    with pytest.raises(NodeFailure) as caught:
        await bench.ask("SELECT 1")
    assert (caught.value.code, caught.value.type_name, caught.value.retryable) == (
        "QUERY_FAILED", "SourceUnreachable", True
    )  # fmt: skip
    assert "sesame" not in str(caught.value)


@pytest.mark.parametrize(
    ("grant", "powers"),
    [
        ("GRANT USAGE ON *.* TO `a`@`%`", []),
        ("GRANT SELECT, SHOW VIEW ON *.* TO `a`@`%`", []),
        ("GRANT ALL PRIVILEGES ON `shop`.* TO `a`@`%` WITH GRANT OPTION", []),
        ("GRANT SELECT (`a`, `b`), INSERT ON `shop`.`t` TO `a`@`%`", []),
        ("GRANT `r`@`%`,`s`@`%` TO `a`@`%`", []),
        ("GRANT SELECT ON `mysql`.`user` TO `a`@`%`", []),
        ("GRANT EXECUTE ON FUNCTION `shop`.`f` TO `a`@`%`", []),
        ("GRANT FILE ON *.* TO `a`@`%`", ["FILE"]),
        ("GRANT SELECT, PROCESS, SUPER ON *.* TO `a`@`%`", ["PROCESS", "SUPER"]),
        ("GRANT ALL PRIVILEGES ON *.* TO `a`@`%` IDENTIFIED BY PASSWORD '*AB' WITH GRANT OPTION",
         ["ALL PRIVILEGES", "GRANT OPTION"]),
        ("GRANT READ_ONLY ADMIN, BINLOG ADMIN, CONNECTION ADMIN, SET USER ON *.* TO `a`@`%`",
         ["READ_ONLY ADMIN", "BINLOG ADMIN", "CONNECTION ADMIN", "SET USER"]),
        ("GRANT SYSTEM_VARIABLES_ADMIN,ROLE_ADMIN ON *.* TO `a`@`%`", ["SYSTEM_VARIABLES_ADMIN", "ROLE_ADMIN"]),
        ("GRANT INSERT, UPDATE ON *.* TO `a`@`%`", ["INSERT", "UPDATE"]),
        ("GRANT UPDATE ON `mysql`.`global_priv` TO `a`@`%`", ["UPDATE on `mysql`.`global_priv`"]),
        ("GRANT ALL PRIVILEGES ON `my%`.* TO `a`@`%`", ["ALL PRIVILEGES on `my%`.*"]),
        ("GRANT INSERT ON `m_sql`.* TO `a`@`%`", ["INSERT on `m_sql`.*"]),
        ("GRANT INSERT ON `m\\_sql`.* TO `a`@`%`", []),
        ("GRANT PROXY ON 'root'@'localhost' TO 'a'@'%'", ["PROXY"]),
    ],
)  # fmt: skip
def test_what_an_account_may_do_beyond_its_database_is_seen(grant: str, powers: list[str]) -> None:
    assert excess_privileges(grant) == powers


@pytest.fixture
def maria_shop(mariadb: MariaServer) -> Iterator[str]:
    """A database with a shop, as a URL whose account may read and change its rows."""
    name, user = f"shop{next(_numbers)}", f"app{next(_numbers)}"
    mariadb.execute(f"CREATE DATABASE {name}", f"CREATE USER {user}@'%' IDENTIFIED BY 'sesame'")
    tables = SHOP.replace("PRIMARY KEY", "PRIMARY KEY AUTO_INCREMENT").split(";")[:-1]
    mariadb.execute(*tables, f"GRANT SELECT, INSERT, UPDATE, DELETE ON {name}.* TO {user}@'%'", database=name)
    yield mariadb.url(user, "sesame", name)
    mariadb.execute(f"DROP USER {user}@'%'", f"DROP DATABASE {name}")


@pytest.fixture
async def shop(bench: Bench, maria_shop: str) -> Bench:
    """A bench with the source `shop`."""
    bench.guard.addresses["maria.internal"] = ["127.0.0.1"]
    await bench.source(maria_shop)
    return bench


async def test_rows_are_objects_in_the_order_of_the_query(shop: Bench) -> None:
    answer = await shop.ask("SELECT id, customer FROM orders WHERE cents > :least ORDER BY id DESC", {"least": 100})
    assert answer == {"rows": [{"id": 2, "customer": "Grace"}, {"id": 1, "customer": "Ada"}], "rowCount": 2}


@pytest.mark.parametrize(
    ("expression", "form"),
    [
        ("9007199254740993", 9007199254740993),
        ("CAST('1.50' AS decimal(5, 2))", "1.50"),
        ("CAST('0.5' AS double)", 0.5),
        ("true", 1),
        ("NULL", None),
        ("DATE '2026-01-31'", "2026-01-31"),
        ("TIMESTAMP '2026-01-31 08:30:00'", "2026-01-31T08:30:00"),
        ("x'00ff'", "AP8="),
        ("'it''s \\\\ \"x\"'", 'it\'s \\ "x"'),
        ("5 % 2", 1),
    ],
)
async def test_every_type_has_its_json_form(shop: Bench, expression: str, form: Any) -> None:
    assert (await shop.ask(f"SELECT {expression} AS value"))["rows"] == [{"value": form}]


async def test_values_are_bound_whatever_they_hold(shop: Bench) -> None:
    args = {"text": "\\'; DROP TABLE orders; -- %s :id ?", "name": "' OR '1'='1"}
    answer = await shop.ask("SELECT :text AS text, (SELECT count(*) FROM orders WHERE customer = :name) AS n", args)
    assert answer["rows"] == [{"text": args["text"], "n": 0}]


async def test_a_declared_writer_changes_rows_and_says_how_many(shop: Bench) -> None:
    assert (await shop.ask("UPDATE orders SET cents = 0 WHERE cents < 1000", writes=True))["rowCount"] == 2
    assert (await shop.ask("SELECT sum(cents) AS n FROM orders"))["rows"] == [{"n": "1250"}]


async def test_a_reading_query_runs_in_a_read_only_transaction(shop: Bench, mariadb: MariaServer) -> None:
    database = (await shop.ask("SELECT database() AS d"))["rows"][0]["d"]
    mariadb.execute(
        f"CREATE FUNCTION {database}.wipe() RETURNS int MODIFIES SQL DATA BEGIN DELETE FROM orders; RETURN 1; END",
        f"GRANT EXECUTE ON {database}.* TO {(await shop.ask('SELECT user() AS u'))['rows'][0]['u'].split('@')[0]}@'%'",
        database=database,
    )
    with pytest.raises(NodeFailure, match="READ ONLY") as caught:
        await shop.ask("SELECT wipe()")
    assert caught.value.type_name == "QueryNotAllowed"
    assert (await shop.ask("SELECT count(*) AS n FROM orders"))["rows"] == [{"n": 3}]


@pytest.mark.parametrize(
    ("sql", "code"),
    [
        ("SELECT sleep_(50)", "QUERY_FAILED"),
        ("SELECT repeat('x', 4000000) AS a, repeat('y', 4000000) AS b, repeat('z', 4000000) AS c", "QUERY_TOO_LARGE"),
        ("SELECT seq FROM seq_1_to_50000", "QUERY_TOO_LARGE"),
        ("SELECT count(*) FROM seq_1_to_100000000 a, seq_1_to_100000000 b", "QUERY_TIMEOUT"),
    ],
)
async def test_a_query_that_takes_too_much_is_stopped(shop: Bench, sql: str, code: str) -> None:
    with pytest.raises(NodeFailure) as caught:
        await shop.ask(sql, timeout="2s")
    assert caught.value.code == code


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT load_file('{file}')",
        "SELECT 1 --\x01, load_file('{file}')",
        "SELECT 1 --\x0b\nUNION SELECT load_file('{file}')",
        "SELECT 'a' 'b', load_file('{file}')",
        "SELECT * FROM orders INTO OUTFILE '{drop}/stolen'",
        "SELECT customer FROM orders LIMIT 1 INTO DUMPFILE '{drop}/stolen'",
        "SELECT /*!50000 load_file('{file}') */ AS x",
        "SELECT `load_file`('{file}')",
        "SELECT LOAD_FILE ('{file}')",
        "LOAD DATA INFILE '{file}' INTO TABLE orders",
        "SELECT authentication_string FROM mysql.user",
        "SELECT get_lock('anabranch', 1)",
        "DELETE FROM orders",
        "SELECT 1; DELETE FROM orders",
        "SELECT 1 INTO @x",
        "CREATE TABLE stolen AS SELECT * FROM staff",
        "SET GLOBAL general_log = 1",
        "KILL 1",
    ],
)
async def test_no_attack_gets_through(shop: Bench, mariadb: MariaServer, sql: str) -> None:
    text = sql.replace("{file}", str(mariadb.secret_file)).replace("{drop}", str(mariadb.drop_folder))
    rows: Any = []
    with contextlib.suppress(InvalidRequest, NodeFailure):
        rows = (await shop.ask(text))["rows"]
    assert "treasure" not in str(rows) and "*" not in str(rows)
    assert list(mariadb.drop_folder.iterdir()) == []
    assert (await shop.ask("SELECT count(*) AS n FROM orders"))["rows"] == [{"n": 3}]
    assert mariadb.execute("SELECT is_used_lock('anabranch')") == [(None,)]


async def test_what_is_written_for_a_parameter_makes_no_comment_of_what_follows(shop: Bench) -> None:
    with pytest.raises(InvalidRequest, match="--"):
        await shop.ask("SELECT 1 --:p /* \n, 'seen by the server alone' -- */", {"p": 1})


@pytest.mark.parametrize("lock", ["LOCK IN SHARE MODE", "FOR UPDATE", "FOR SHARE"])
async def test_a_reading_query_locks_no_rows(shop: Bench, lock: str) -> None:
    with pytest.raises(InvalidRequest, match="locks rows"):
        await shop.ask(f"SELECT id FROM orders {lock}")


@pytest.mark.parametrize("setting", ["sql_mode = 'ANSI_QUOTES'", "sql_mode = 'ORACLE'", "sql_quote_show_create = 0"])
async def test_roles_count_however_the_server_spells_their_names(
    bench: Bench, mariadb: MariaServer, maria_shop: str, setting: str
) -> None:
    bench.guard.addresses["maria.internal"] = ["127.0.0.1"]
    user, role = f"{maria_shop.split('//')[1].split(':')[0]}@'%'", f"role{next(_numbers)}"
    mariadb.execute(f"CREATE ROLE {role}", f"GRANT FILE ON *.* TO {role}", f"GRANT {role} TO {user}")
    mariadb.execute(f"SET GLOBAL {setting}")
    try:
        with pytest.raises(SourceTooPowerful, match="FILE"):
            await bench.source(maria_shop)
    finally:
        mariadb.execute("SET GLOBAL sql_mode = DEFAULT", "SET GLOBAL sql_quote_show_create = 1")


@pytest.mark.parametrize(
    "grants",
    [
        ["GRANT FILE ON *.* TO {user}"],
        ["GRANT SUPER ON *.* TO {user}"],
        ["GRANT PROCESS ON *.* TO {user}"],
        ["GRANT ALL PRIVILEGES ON *.* TO {user}"],
        ["GRANT CREATE USER ON *.* TO {user}"],
        ["GRANT UPDATE ON mysql.* TO {user}"],
        ["CREATE ROLE {role}", "GRANT FILE ON *.* TO {role}", "GRANT {role} TO {user}"],
        ["CREATE ROLE {role}", "GRANT FILE ON *.* TO {role}", "GRANT {role} TO {user}",
         "SET DEFAULT ROLE {role} FOR {user}"],
        ["CREATE ROLE {role}", "CREATE ROLE {role}_2", "GRANT FILE ON *.* TO {role}_2", "GRANT {role}_2 TO {role}",
         "GRANT {role} TO {user}"],
    ],
    ids=lambda grants: "; ".join(grants),
)  # fmt: skip
async def test_an_account_that_may_do_too_much_is_refused(
    bench: Bench, mariadb: MariaServer, maria_shop: str, grants: list[str]
) -> None:
    bench.guard.addresses["maria.internal"] = ["127.0.0.1"]
    source_id = await bench.source(maria_shop)
    names = {"user": f"{maria_shop.split('//')[1].split(':')[0]}@'%'", "role": f"role{next(_numbers)}"}
    mariadb.execute(*(grant.format(**names) for grant in grants))
    with pytest.raises(SourceTooPowerful) as caught:
        await bench.source(maria_shop, name="again")
    assert "CREATE USER" in caught.value.advice and "GRANT SELECT" in caught.value.advice
    with pytest.raises(NodeFailure) as failed:
        await bench.ask("SELECT count(*) FROM orders")
    assert (failed.value.code, failed.value.retryable) == ("SOURCE_TOO_POWERFUL", False)
    assert [each.data_source_id for each in await bench.data.list_sources(tenant_id=TENANT)] == [source_id]

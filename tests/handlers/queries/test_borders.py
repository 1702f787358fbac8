"""Where strings, names and comments end: what we accept is cut by real servers where we cut it.

`ANABRANCH_BORDER_TEXTS=100000` (as `make borders` sets it) tries so many on each server; without it a sample.
"""

from __future__ import annotations

import contextlib
import os
import random
import sqlite3
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pymysql
import pytest

from anabranch.queries.lexing import SourceKind
from tests import tools
from tests.handlers.queries.borders import VALUE, accepted, parameters, plain, rendered, texts
from tests.postgres import PostgresServer
from tests.servers import MariaServer, running_postgresql

# Of 1,000 texts some 450 are accepted; they take a second on a quiet machine.
TEXTS = int(os.environ.get("ANABRANCH_BORDER_TEXTS", "1000"))
SEED = int(os.environ.get("ANABRANCH_BORDER_SEED", "1"))

# Among accepted texts so many give rows: where both readings are refused by the server, little is shown.
ANSWERED_MIN = 0.25

# PostgreSQL's refusal of what stands between two borders that it has found: no UTF-8, half an escape, U+0000.
_SPELLING = [("refused", code) for code in ("22021", "22025", "22P05")]

Answer = tuple[Any, ...]
Ask = Callable[[str, int], Answer]
"""Asks a server with so many parameters, each `VALUE`."""


@pytest.fixture(scope="module", params=[15, 16, 18])
def postgresql(request: pytest.FixtureRequest) -> Iterator[Ask]:
    if request.param == 16:
        server: PostgresServer = request.getfixturevalue("postgres_server")
        with _asking_postgresql(server.admin_url) as ask:
            yield ask
        return
    tools.found_or_skip(tools.Kind(f"postgresql{request.param}"), lambda: tools.postgresql(request.param))
    with running_postgresql(request.param) as url, _asking_postgresql(url) as ask:
        yield ask


@contextlib.contextmanager
def _asking_postgresql(url: str) -> Iterator[Ask]:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("SET standard_conforming_strings = on; SET statement_timeout = '5s'")
        connection.execute("SET default_transaction_read_only = on")

        def ask(sql: str, count: int = 0) -> Answer:
            try:
                with psycopg.RawCursor(connection) as cursor:
                    cursor.execute(sql.encode(), [VALUE] * count or None, prepare=False)
                    return ("rows", str(cursor.fetchall()))
            except psycopg.Error as error:
                return ("refused", error.sqlstate)

        yield ask


@pytest.fixture(scope="module")
def maria(mariadb: MariaServer) -> Iterator[Ask]:
    connection = pymysql.connect(unix_socket=str(mariadb.socket), user="root", charset="utf8mb4", autocommit=True)
    with contextlib.closing(connection), connection.cursor() as cursor:
        cursor.execute("SET SESSION sql_mode = 'STRICT_ALL_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION'")

        def ask(sql: str, count: int = 0) -> Answer:  # the driver writes the values into the text
            try:
                cursor.execute(sql)
                return ("rows", str(cursor.fetchall()))
            except pymysql.Error as error:
                return ("refused", error.args[0])

        yield ask


@pytest.fixture(scope="module")
def sqlite() -> Iterator[Ask]:
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:

        def ask(sql: str, count: int = 0) -> Answer:
            try:
                return ("rows", str(connection.execute(sql, [VALUE] * count).fetchall()))
            except (sqlite3.Error, sqlite3.Warning) as error:
                return ("refused", str(error).split(":")[0].split('"')[0])

        yield ask


@pytest.mark.timeout(3600 if TEXTS > 10_000 else 120)
def test_postgresql_cuts_what_we_accept_where_we_cut_it(postgresql: Ask) -> None:
    _assert_cut_alike(SourceKind.POSTGRESQL, postgresql)


@pytest.mark.timeout(3600 if TEXTS > 10_000 else 120)
def test_mariadb_cuts_what_we_accept_where_we_cut_it(maria: Ask) -> None:
    _assert_cut_alike(SourceKind.MYSQL, maria)


@pytest.mark.timeout(3600 if TEXTS > 10_000 else 120)
def test_sqlite_cuts_what_we_accept_where_we_cut_it(sqlite: Ask) -> None:
    _assert_cut_alike(SourceKind.SQLITE, sqlite)


def _assert_cut_alike(kind: SourceKind, ask: Ask) -> None:
    dice = random.Random(f"{kind}{SEED}")
    made = texts(kind, dice)
    tried = answered = 0
    differing = []
    for _ in range(TEXTS):
        text = next(made)
        tokens = accepted(text, kind)
        if tokens is None:
            continue
        tried += 1
        ours = plain(tokens, text, kind)
        count = len(parameters(tokens))
        theirs, meant = ask(rendered(tokens, text, kind), count), ask(ours, count)
        answered += theirs[0] == "rows"
        if theirs != meant and theirs not in _SPELLING:
            differing.append(f"{text!r} gives {theirs}; read as {ours!r}, which gives {meant}")
    sys.stdout.write(
        f"{kind}: {TEXTS} texts, {tried} accepted, {answered} gave rows, {len(differing)} cut differently\n"
    )
    assert differing[:20] == [], f"ANABRANCH_BORDER_SEED={SEED}: {len(differing)} texts are cut differently"
    assert tried > TEXTS * 0.2
    assert answered > tried * ANSWERED_MIN


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (SourceKind.POSTGRESQL, "SELECT E'a'\n'\\' || ', 1 --'"),
        (SourceKind.POSTGRESQL, "SELECT E'a' -- x\n'\\', 1 --'"),
        (SourceKind.MYSQL, "SELECT 1 --\x01, 2\n"),
        (SourceKind.MYSQL, "SELECT 1 --\x0b, 2\n"),
        (SourceKind.MYSQL, "SELECT N'a'"),
        (SourceKind.MYSQL, "SELECT 1 --:p /* \n, 2 -- */"),
        (SourceKind.SQLITE, "SELECT :é(+'),f(1),('||'--')\n"),
    ],
)
def test_texts_that_servers_cut_elsewhere_are_refused(kind: SourceKind, text: str) -> None:
    assert accepted(text, kind) is None


@pytest.mark.parametrize("kind", [SourceKind.MYSQL, SourceKind.SQLITE])
def test_a_comment_that_does_not_nest_ends_where_it_seems_to_begin_again(kind: SourceKind) -> None:
    text = "SELECT 1 /* /*/ , load_file('x') /* */"
    assert "load_file" in [token.value for token in accepted(text, kind) or ()]


def test_a_wrong_cut_would_be_seen(tmp_path: Path, postgres_server: PostgresServer) -> None:
    """The comparison itself: with the two literals taken as they look, the server's answer differs."""
    text = "SELECT E'a'\n'\\' || ', 1 --'"
    with _asking_postgresql(postgres_server.admin_url) as ask:
        assert ask(text) != ask("SELECT E'\\U00000061' E'\\U0000005C' || E'\\U0000002C, 1 --'")

"""A bench for queries: the real service and engine on a database of their own, and databases to ask."""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from collections.abc import AsyncIterator, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit, urlunsplit

import psycopg
import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from anabranch.engine.store.opening import dialect_of
from anabranch.errors import EgressRefused, HttpUnreachable, NonRetryable
from anabranch.queries.limits import Limits
from anabranch.queries.query_engine import QueryEngine
from anabranch.queries.saved.data_service import DataService
from anabranch.queries.saved.query_tables import DataQueries
from anabranch.queries.sources import LocalPaths
from anabranch.queries.urls import SourceUrls
from tests import tools
from tests.postgres import PostgresServer
from tests.servers import MariaServer, running_mariadb

TENANT = "acme"

SHOP = """
    CREATE TABLE orders (id integer PRIMARY KEY, customer text, cents integer);
    INSERT INTO orders VALUES (1, 'Ada', 1250), (2, 'Grace', 900), (3, 'Edsger', 40);
    CREATE TABLE staff (name text, password text);
    INSERT INTO staff VALUES ('root', 'swordfish');
"""

SHOP_FUNCTIONS = """
    CREATE SEQUENCE numbers;
    CREATE FUNCTION wipe() RETURNS integer LANGUAGE sql VOLATILE AS
        $$ DELETE FROM orders; SELECT 1 $$;
    CREATE FUNCTION leave_traces() RETURNS text LANGUAGE plpgsql VOLATILE AS $$ BEGIN
        PERFORM set_config('shop.visitor', 'mallory', false);
        PERFORM set_config('search_path', 'pg_temp, public', false);
        PERFORM pg_advisory_lock(4711);
        RETURN current_setting('shop.visitor'); END $$;
"""


class Box:
    """AES-256-GCM, bound to tenant and row."""

    def __init__(self) -> None:
        self._cipher = AESGCM(os.urandom(32))

    def seal(self, *, tenant: str, row: str, text: str) -> bytes:
        nonce = os.urandom(12)
        return nonce + self._cipher.encrypt(nonce, text.encode(), f"{tenant}|{row}".encode())

    def open(self, *, tenant: str, row: str, sealed: bytes) -> str:
        return self._cipher.decrypt(sealed[:12], sealed[12:], f"{tenant}|{row}".encode()).decode()


@dataclass
class Secrets:
    """Secrets of all tenants, in memory."""

    values: dict[tuple[str, str], str] = field(default_factory=dict)

    async def read(self, tenant_id: str, names: Collection[str]) -> Mapping[str, str]:
        missing = [name for name in names if (tenant_id, name) not in self.values]
        if missing:
            raise NonRetryable(f"there is no secret {missing[0]}", code="SECRET_UNKNOWN")
        return {name: self.values[tenant_id, name] for name in names}


@dataclass
class Guard:
    """Lets through what is listed; remembers who asked."""

    addresses: dict[str, Sequence[str]] = field(default_factory=dict)
    asked: list[tuple[str, int]] = field(default_factory=list)

    def check(self, host: str, port: int) -> Sequence[str]:
        self.asked.append((host, port))
        if host not in self.addresses:
            raise EgressRefused(f"{host} is not reached from here")
        if not self.addresses[host]:
            raise HttpUnreachable(f"the name {host} does not resolve")
        return self.addresses[host]


@dataclass
class Bench:
    """Everything that a test of queries touches."""

    data: DataService
    folder: Path
    secrets: Secrets
    guard: Guard
    engine_url: str

    async def source(self, url: str, *, name: str = "shop", tenant: str = TENANT) -> str:
        """Save a source; its id."""
        saved = await self.data.create_source({"name": name, "url": url}, tenant_id=tenant)
        return saved.source.data_source_id

    async def ask(
        self,
        sql: str,
        args: Mapping[str, Any] | None = None,
        *,
        source: str = "shop",
        tenant: str = TENANT,
        as_in_node: bool = False,
        **document: Any,
    ) -> Mapping[str, Any]:
        """Save a query under a name that is not used again, and run it."""
        wanted = {
            "name": f"q-{len(await self.data.list_queries(tenant_id=tenant))}",
            "dataSourceID": source,
            "sql": sql,
        }
        query = await self.data.create_query({**wanted, **document}, tenant_id=tenant)
        return await self.data.queries.run_query(
            tenant_id=tenant, data_query_id=query.data_query_id, args=args or {}, as_in_node=as_in_node
        )


@pytest.fixture
def limits() -> Limits:
    """Of the product; a test module may make its own smaller."""
    return Limits()


@pytest.fixture
async def bench(tmp_path: Path, migrated_file: Path, limits: Limits) -> AsyncIterator[Bench]:
    own = tmp_path / "engine" / "anabranch.db"
    own.parent.mkdir()
    shutil.copy(migrated_file, own)
    async for one in open_bench(f"sqlite:///{own}", tmp_path, limits):
        yield one


async def open_bench(engine_url: str, folder: Path, limits: Limits) -> AsyncIterator[Bench]:
    """A bench whose engine has this database; files below `folder` may be sources."""
    dialect = dialect_of(engine_url)
    saved = DataQueries(dialect)
    saved.open_threads()
    box, secrets, guard = Box(), Secrets(), Guard()
    local_paths = LocalPaths(
        data_directories=[folder], socket_directories=_SOCKETS, own_file=getattr(dialect, "path", None)
    )
    urls = SourceUrls(find_box=lambda: box, secrets=secrets)
    queries = QueryEngine(saved=saved, urls=urls, hosts=guard, local_paths=local_paths, limits=limits)
    data = DataService(saved=saved, urls=urls, queries=queries, local_paths=local_paths)
    yield Bench(data, folder, secrets, guard, engine_url)
    await queries.stop()
    await saved.close_threads()


_SOCKETS: list[str] = []


@pytest.fixture(scope="session")
def mariadb() -> Iterator[MariaServer]:
    """One MariaDB for the whole run, started when the first test asks."""
    tools.found_or_skip(tools.Kind.MARIADB, tools.mariadb)
    with running_mariadb() as server:
        yield server


@pytest.fixture
def shop_file(tmp_path: Path) -> Path:
    path = tmp_path / "shop.db"
    make_shop_file(path)
    return path


def make_shop_file(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.executescript(SHOP)
    connection.commit()
    connection.close()


@dataclass(frozen=True)
class Shop:
    """A PostgreSQL database to ask, and a file and a directory that its server can read and write."""

    owner_url: str
    """Of the superuser who made it: never a source."""
    reader_url: str
    """Of a role that owns nothing and may change every row."""
    auditor_url: str
    """Of a role that may read every table there is (`pg_read_all_data`)."""
    secret_file: Path
    drop_folder: Path

    def restore(self) -> None:
        """As it was made."""
        with psycopg.connect(self.owner_url, autocommit=True) as connection:
            connection.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public; GRANT ALL ON SCHEMA public TO public")
            connection.execute("SELECT lo_unlink(oid) FROM pg_largeobject_metadata")
            connection.execute(SHOP + SHOP_FUNCTIONS)
            connection.execute("GRANT ALL ON ALL TABLES IN SCHEMA public TO public")
            connection.execute("GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO public")
        for path in self.drop_folder.iterdir():
            path.unlink()


@pytest.fixture(scope="module")
def postgres_shop(postgres_server: PostgresServer) -> Iterator[Shop]:
    """A shop owned by a superuser, with two roles that are none."""
    owner_url = postgres_server.create()
    parts = urlsplit(owner_url)
    password = "open sesame/@:"
    reader, auditor = (f"{name}_{os.getpid()}" for name in ("reader", "auditor"))

    def url_of(role: str) -> str:
        netloc = f"{role}:{quote(password, safe='')}@{parts.netloc.rpartition('@')[2]}"
        return urlunsplit((parts.scheme, netloc, parts.path, parts.query, ""))

    _SOCKETS.extend(parse_qs(parts.query).get("host", []))
    folder = Path(tempfile.mkdtemp(prefix="anabranch-shop-"))
    folder.chmod(0o755)
    secret_file, drop_folder = folder / "secret.txt", folder / "drop"
    secret_file.write_text("the treasure is under the oak")
    drop_folder.mkdir()
    drop_folder.chmod(0o777)
    with psycopg.connect(owner_url, autocommit=True) as connection:
        for role in (reader, auditor):
            connection.execute(f"DROP ROLE IF EXISTS {role}")
            connection.execute(f"CREATE ROLE {role} LOGIN PASSWORD '{password}'")
        connection.execute(f"GRANT pg_read_all_data TO {auditor}")
    shop = Shop(owner_url, url_of(reader), url_of(auditor), secret_file, drop_folder)
    shop.restore()
    yield shop
    postgres_server.drop(owner_url)
    with psycopg.connect(postgres_server.admin_url, autocommit=True) as connection:
        connection.execute(f"DROP ROLE IF EXISTS {reader}, {auditor}")
    shutil.rmtree(folder)

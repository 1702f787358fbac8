"""Which databases may be data sources, what of their URLs is kept, and what of them is ever seen again."""

# ruff: noqa: ASYNC240 -- files of the tests themselves, a few bytes each
from __future__ import annotations

import os
import shutil
import socket
import sqlite3
import traceback
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import pytest

from anabranch.engine.store.opening import dialect_of
from anabranch.errors import InvalidRequest, NodeFailure, NonRetryable, QueryFailed, SettingsError
from anabranch.queries.limits import Limits
from anabranch.queries.query_engine import QueryEngine
from anabranch.queries.saved.data_service import DataService
from anabranch.queries.saved.query_tables import DataQueries
from anabranch.queries.sources import LocalPaths
from anabranch.queries.urls import SourceUrls
from tests.handlers.queries.conftest import TENANT, Bench, Box, Shop, make_shop_file, open_bench

PASSWORD = "correct horse/@battery"


@pytest.mark.parametrize(
    "url",
    [
        "",
        "shop.db",
        "sqlite://",
        "sqlite:///:memory:",
        "sqlite:///{folder}/shop.db?mode=memory",
        "sqlite:///{folder}/shop.db?uri=true",
        "sqlite:///{folder}/nothing.db",
        "sqlite:///{folder}",
        "sqlite:////etc/passwd",
        "sqlite:///{folder}/../../../../../etc/passwd",
        "sqlite:///file:{folder}/shop.db?mode=rw",
        "sqlite:///\x00",
        "sqlite:////proc/self/environ",
        "oracle://u:p@db.example.com/x",
        "postgresql+asyncpg://u:p@db.example.com/x",
        "postgresql://db.example.com/x",
        "postgresql://u@/x",
        "postgresql://u@db.example.com",
        "postgresql://u@a.example.com,b.example.com/x",
        "postgresql://u@a.example.com/x?host=10.0.0.1",
        "postgresql://u@/x?host=10.0.0.1",
        "postgresql://u@/x?host=/var/run/postgresql",
        "postgresql://u@/x?host=/tmp/../var/run/postgresql",
        "postgresql://u@a.example.com/x?hostaddr=10.0.0.1",
        "postgresql://u@a.example.com/x?service=other",
        "postgresql://u@a.example.com/x?passfile=/etc/passwd",
        "postgresql://u@a.example.com/x?sslkey=/etc/key",
        "postgresql://u@a.example.com/x?options=-c%20statement_timeout%3D0",
        "postgresql://u@a.example.com/x?sslmode=whatever",
        "postgresql://u@a.example.com:0/x",
        "postgresql://u@a.example.com:99999/x",
        "postgresql://u@a.example.com:port/x",
        "mysql://u@a.example.com/x?local_infile=1",
        "mysql://u@a.example.com/x?read_default_file=/etc/my.cnf",
        "mysql://u@/x?unix_socket=/tmp/mysql.sock",
        "postgresql://u:{{ctx.password}}@a.example.com/x",
        "postgresql://u:{{secret.KEY | upper}}@a.example.com/x",
        "postgresql://u:pass@word@a.example.com/x",
        "postgresql://" + "u" * 3000 + "@a.example.com/x",
    ],
)
async def test_a_url_that_says_more_than_where_and_who_is_refused(bench: Bench, shop_file: Path, url: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        await bench.source(url.replace("{folder}", str(bench.folder)))
    assert caught.value.details[0]["pointer"] == "/url"


@pytest.mark.parametrize(
    "spelling",
    [
        "{own}",
        "{folder}/engine/../engine/anabranch.db",
        "{folder}//engine//anabranch.db",
        "{folder}/./engine/anabranch.db",
        "{folder}/link.db",
        "{folder}/linked/anabranch.db",
        "{folder}/hard.db",
        "{folder}/linktolink.db",
    ],
)
async def test_the_engines_own_file_is_no_source_in_any_spelling(bench: Bench, spelling: str) -> None:
    own = bench.folder / "engine" / "anabranch.db"
    (bench.folder / "link.db").symlink_to(own)
    (bench.folder / "linktolink.db").symlink_to("link.db")
    (bench.folder / "linked").symlink_to(own.parent)
    os.link(own, bench.folder / "hard.db")
    with pytest.raises(InvalidRequest, match="own database"):
        await bench.source(f"sqlite:///{spelling.format(own=own, folder=bench.folder)}")


async def test_a_copy_of_the_engines_file_is_known_by_its_tables(bench: Bench) -> None:
    shutil.copy(bench.folder / "engine" / "anabranch.db", bench.folder / "copy.db")
    with pytest.raises(InvalidRequest, match="own tables"):
        await bench.source(f"sqlite:///{bench.folder}/copy.db")
    make_shop_file(bench.folder / "later.db")
    await bench.source(f"sqlite:///{bench.folder}/later.db")
    shutil.copy(bench.folder / "copy.db", bench.folder / "later.db")
    with pytest.raises(NodeFailure) as caught:
        await bench.ask("SELECT 1")
    assert caught.value.code == "SOURCE_REFUSED"


async def test_a_source_that_becomes_a_link_to_the_engines_file_is_refused_when_it_is_used(
    bench: Bench, shop_file: Path
) -> None:
    await bench.source(f"sqlite:///{shop_file}")
    assert (await bench.ask("SELECT 1 AS one"))["rowCount"] == 1
    shop_file.unlink()
    shop_file.symlink_to(bench.folder / "engine" / "anabranch.db")
    with pytest.raises(NodeFailure, match="own database"):
        await bench.ask("SELECT 1")


async def test_a_link_that_leads_out_of_the_allowed_directories_is_refused(
    bench: Bench, tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "shop.db"
    make_shop_file(elsewhere)
    (bench.folder / "inside.db").symlink_to(elsewhere)
    with pytest.raises(InvalidRequest, match="ANABRANCH_DATA_DIRECTORIES"):
        await bench.source(f"sqlite:///{bench.folder}/inside.db")


async def test_a_file_is_never_made(bench: Bench, shop_file: Path) -> None:
    await bench.source(f"sqlite:///{shop_file}")
    shop_file.unlink()
    with pytest.raises(NodeFailure):
        await bench.ask("SELECT 1")
    assert not shop_file.exists()


async def test_a_file_that_is_no_database_says_so(bench: Bench) -> None:
    (bench.folder / "text.db").write_text("this is no database " * 100)
    await bench.source(f"sqlite:///{bench.folder}/text.db")
    with pytest.raises(NodeFailure, match="not a database"):
        await bench.ask("SELECT 1")


async def test_the_engines_own_postgresql_is_no_source(postgres_url: str, postgres_shop: Shop, tmp_path: Path) -> None:
    async for bench in open_bench(postgres_url, tmp_path, Limits()):
        parts, reader = urlsplit(postgres_url), urlsplit(postgres_shop.reader_url)
        as_reader = urlunsplit((parts.scheme, reader.netloc, parts.path, parts.query, ""))
        for url in (postgres_url, postgres_url.replace("postgresql://", "postgres://"), as_reader):
            with pytest.raises(InvalidRequest, match="anabranch's own tables"):
                await bench.source(url)
        # Saved while nothing could be asked of it, it is refused when it is used.
        assert parts.hostname is None
        bench.secrets.values[TENANT, "WHOLE"] = "postgresql://u:p@nowhere.internal/x"
        await bench.source("{{secret.WHOLE}}")
        bench.secrets.values[TENANT, "WHOLE"] = as_reader
        with pytest.raises(NodeFailure, match=r"database's message|own tables"):
            await bench.ask("SELECT 1")


async def test_hosts_are_asked_of_the_guard_and_pinned_to_its_answer(bench: Bench) -> None:
    await bench.source(f"postgresql://u:{PASSWORD.replace('/', '%2F').replace('@', '%40')}@db.internal:6000/x")
    bench.guard.asked.clear()
    with pytest.raises(NodeFailure) as caught:
        await bench.ask("SELECT 1")
    assert caught.value.code == "EGRESS_REFUSED"
    assert bench.guard.asked == [("db.internal", 6000)]
    bench.guard.addresses["db.internal"] = ["127.0.0.1"]
    with pytest.raises(NodeFailure) as caught:
        await bench.ask("SELECT 1")
    assert (caught.value.code, caught.value.retryable) == ("QUERY_FAILED", True)
    assert "127.0.0.1" in str(caught.value)


async def test_a_password_is_sealed_in_the_store_and_in_no_message(bench: Bench) -> None:
    quoted = PASSWORD.replace(" ", "%20").replace("/", "%2F").replace("@", "%40")
    source_id = await bench.source(f"postgresql://u:{quoted}@db.internal:1/x")
    source = await bench.data.get_source(source_id, tenant_id=TENANT)
    assert source.sealed and b"horse" not in source.url
    assert source.address == "postgresql://db.internal:1/x"
    raw = b"".join(path.read_bytes() for path in (bench.folder / "engine").iterdir())
    assert b"horse" not in raw
    bench.guard.addresses["db.internal"] = ["127.0.0.1"]
    with pytest.raises(NodeFailure) as caught:
        await bench.ask("SELECT 1")
    assert "horse" not in "".join(traceback.format_exception(caught.value))


async def test_a_refused_password_is_not_repeated(bench: Bench, postgres_shop: Shop) -> None:
    url = postgres_shop.reader_url.replace("reader_", "nobody_")
    await bench.source(url)
    with pytest.raises(NodeFailure) as caught:
        await bench.ask("SELECT 1")
    shown = "".join(traceback.format_exception(caught.value))
    assert "sesame" not in shown
    assert "nobody_" in shown


async def test_a_url_may_name_secrets_instead(bench: Bench, postgres_shop: Shop) -> None:
    postgres_shop.restore()
    parts = urlsplit(postgres_shop.reader_url)
    role = parts.netloc.split(":")[0]
    host = parts.netloc.rpartition("@")[2]
    bench.secrets.values[TENANT, "PASSWORD"] = "open sesame/@:"
    netloc = f"{role}:{{{{secret.PASSWORD}}}}@{host}"
    source_id = await bench.source(urlunsplit((parts.scheme, netloc, parts.path, parts.query, "")))
    assert not (await bench.data.get_source(source_id, tenant_id=TENANT)).sealed
    assert (await bench.ask("SELECT current_user AS who"))["rows"] == [{"who": role}]
    bench.secrets.values[TENANT, "WHOLE"] = postgres_shop.reader_url
    await bench.source("{{ secret.WHOLE }}", name="whole")
    assert (await bench.ask("SELECT 1 AS one", source="whole"))["rows"] == [{"one": 1}]


async def test_a_secret_inside_a_url_cannot_become_another_part_of_it(bench: Bench) -> None:
    bench.secrets.values[TENANT, "PASSWORD"] = "x@evil.example.com/y?host=/tmp&z="
    await bench.source("postgresql://u:{{secret.PASSWORD}}@db.internal/x")
    with pytest.raises(NodeFailure):
        await bench.ask("SELECT 1")
    assert set(bench.guard.asked) == {("db.internal", 5432)}


@pytest.mark.parametrize(
    "url",
    [
        "{{secret.KIND}}://u:p@db.internal/x",
        "postgresql{{secret.KIND}}://u:p@db.internal/x",
        "postgresql://u:p@{{secret.KIND}}/x",
        "postgresql://u:p@{{secret.KIND}}.example.com:5432/x",
        "postgresql://u:p@db.internal:{{secret.KIND}}/x",
        "postgresql://u:p@db.internal/{{secret.KIND}}",
        "postgresql://u:p@db.internal/x?sslmode={{secret.KIND}}",
        "postgresql://u:p@db.internal/x?{{secret.KIND}}=1",
        "postgresql://{{secret.KIND}}:p@db.internal/{{secret.KIND}}",
        "sqlite:///{folder}/{{secret.KIND}}",
    ],
)
async def test_a_secret_in_a_part_of_a_url_that_is_shown_is_refused(bench: Bench, url: str) -> None:
    bench.secrets.values[TENANT, "KIND"] = "s3cretTOKEN"
    with pytest.raises(InvalidRequest, match="user or password") as caught:
        await bench.source(url.replace("{folder}", str(bench.folder)))
    assert "s3cretTOKEN" not in "".join(traceback.format_exception(caught.value))


async def test_of_a_url_that_is_a_secret_only_the_kind_is_shown(bench: Bench) -> None:
    bench.secrets.values[TENANT, "WHOLE"] = "postgresql://somebody:p@Vault.internal:6000/ledger"
    source_id = await bench.source("{{secret.WHOLE}}")
    assert (await bench.data.get_source(source_id, tenant_id=TENANT)).address == "postgresql://***"
    for address in (None, "127.0.0.1"):
        if address is not None:
            bench.guard.addresses["Vault.internal"] = [address]
        with pytest.raises(NodeFailure) as caught:
            await bench.ask("SELECT 1")
        shown = "".join(traceback.format_exception(caught.value)).lower()
        assert not any(part in shown for part in ("somebody", "vault.internal", "ledger", "127.0.0.1"))


@pytest.mark.parametrize("value", ["s3cretTOKEN", "s3cretTOKEN://u@h/d", "sqlite:////etc/s3cretTOKEN"])
async def test_a_secret_that_is_no_url_is_not_repeated(bench: Bench, shop_file: Path, value: str) -> None:
    bench.secrets.values[TENANT, "WHOLE"] = value
    with pytest.raises(InvalidRequest) as saved:
        await bench.source("{{secret.WHOLE}}")
    bench.secrets.values[TENANT, "WHOLE"] = f"sqlite:///{shop_file}"
    await bench.source("{{secret.WHOLE}}")
    bench.secrets.values[TENANT, "WHOLE"] = value  # it may change after the source was saved
    with pytest.raises(NodeFailure) as ran:
        await bench.ask("SELECT 1")
    assert ran.value.code == "SOURCE_REFUSED"
    for caught in (saved, ran):
        assert "s3cretTOKEN" not in "".join(traceback.format_exception(caught.value))


async def test_a_refused_user_that_is_a_secret_is_not_repeated(bench: Bench, postgres_shop: Shop) -> None:
    parts = urlsplit(postgres_shop.reader_url)
    bench.secrets.values[TENANT, "WHO"] = "s3cretTOKEN"
    netloc = f"{{{{secret.WHO}}}}:p@{parts.netloc.rpartition('@')[2]}"
    await bench.source(urlunsplit((parts.scheme, netloc, parts.path, parts.query, "")))
    with pytest.raises(NodeFailure) as caught:
        await bench.ask("SELECT 1")
    assert "s3cretTOKEN" not in "".join(traceback.format_exception(caught.value))


async def test_a_name_that_does_not_resolve_is_worth_another_attempt(bench: Bench) -> None:
    await bench.source("postgresql://u:p4ssword@gone.internal/x")
    bench.guard.addresses["gone.internal"] = []
    with pytest.raises(NodeFailure) as caught:
        await bench.ask("SELECT 1")
    failure = caught.value
    assert (failure.code, failure.type_name, failure.retryable) == ("QUERY_FAILED", "SourceUnreachable", True)
    del bench.guard.addresses["gone.internal"]
    with pytest.raises(NodeFailure) as caught:
        await bench.ask("SELECT 1")
    failure = caught.value
    assert (failure.code, failure.type_name, failure.retryable) == ("EGRESS_REFUSED", "EgressRefused", False)
    query = (await bench.data.list_queries(tenant_id=TENANT))[0]
    with pytest.raises(QueryFailed) as refused:
        await bench.data.run_query(query.name, {}, tenant_id=TENANT)
    assert (refused.value.message, refused.value.details) == (str(failure), {"code": "EGRESS_REFUSED"})


async def test_of_many_addresses_two_are_tried(bench: Bench) -> None:
    with socket.create_server(("127.0.0.3", 0)) as third:
        third.setblocking(False)
        port = third.getsockname()[1]
        await bench.source(f"postgresql://u:p4ssword@many.internal:{port}/x")
        bench.guard.addresses["many.internal"] = ["127.0.0.1", "127.0.0.2", "127.0.0.3"]
        with pytest.raises(NodeFailure, match=r"127\.0\.0\."):
            await bench.ask("SELECT 1")
        with pytest.raises(BlockingIOError):  # nobody has called
            third.accept()


async def test_a_key_that_is_made_later_is_found(bench: Bench) -> None:
    boxes: list[Box] = []
    urls = SourceUrls(find_box=lambda: boxes[0] if boxes else None, secrets=None)
    with pytest.raises(SettingsError):
        urls.encrypt_url("postgresql://u:p@h/x", tenant_id=TENANT, data_source_id="1")
    boxes.append(Box())
    assert urls.encrypt_url("postgresql://u:p@h/x", tenant_id=TENANT, data_source_id="1")[1]


async def test_a_secret_that_is_not_there_is_named(bench: Bench) -> None:
    with pytest.raises(NonRetryable, match="MISSING"):
        await bench.source("postgresql://u:{{secret.MISSING}}@db.internal/x")


async def test_without_a_key_a_password_is_not_stored(bench: Bench, shop_file: Path) -> None:
    async for data in _without_key(bench):
        with pytest.raises(SettingsError, match="no key"):
            await data.create_source({"name": "pg", "url": "postgresql://u:p@db.example.com/x"}, tenant_id=TENANT)
        assert await data.create_source({"name": "file", "url": f"sqlite:///{shop_file}"}, tenant_id=TENANT)


async def test_a_sealed_url_opens_for_its_own_row_only(bench: Bench, shop_file: Path) -> None:
    await bench.source("postgresql://u:secret@db.internal/x", name="mine")
    await bench.source("postgresql://v:other@db.internal/x", name="yours", tenant="globex")
    bench.guard.asked.clear()
    with sqlite3.connect(bench.folder / "engine" / "anabranch.db") as connection:
        connection.execute(
            "UPDATE data_sources SET url = (SELECT url FROM data_sources WHERE name = 'mine') WHERE name = 'yours'"
        )
    with pytest.raises(Exception, match="") as caught:
        await bench.ask("SELECT 1", source="yours", tenant="globex")
    assert "secret" not in str(caught.value)
    assert bench.guard.asked == []


async def _without_key(bench: Bench) -> AsyncIterator[DataService]:
    saved = DataQueries(dialect_of(bench.engine_url))
    saved.open_threads()
    local_paths = LocalPaths(data_directories=[bench.folder])
    urls = SourceUrls(find_box=lambda: None, secrets=None)
    queries = QueryEngine(saved=saved, urls=urls, hosts=bench.guard, local_paths=local_paths)
    yield DataService(saved=saved, urls=urls, queries=queries, local_paths=local_paths)
    await queries.stop()
    await saved.close_threads()

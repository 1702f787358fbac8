"""Queries on a real PostgreSQL: values both ways, limits, time, and closed connections."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import parse_qs, urlsplit, urlunsplit

import psycopg
import pytest

from anabranch.errors import NodeFailure, SourceTooPowerful
from anabranch.handlers import builtin_types
from anabranch.n8n.exports import read_exports
from anabranch.n8n.importing import import_workflow
from anabranch.n8n.maps import sql_reading
from anabranch.queries.drivers.driver_requests import DatabaseTarget, QueryRequest
from anabranch.queries.drivers.postgresql import PostgresqlDriver
from anabranch.queries.limits import Limits
from tests.handlers.queries.conftest import TENANT, Bench, Shop
from tests.n8n.drawn import Drawn, node

_OURS = (
    "SELECT (SELECT count(*) FROM pg_stat_activity"
    " WHERE application_name = 'anabranch query' AND datname = current_database()"
)


@pytest.fixture
async def shop(bench: Bench, postgres_shop: Shop) -> Bench:
    """A bench with the source `shop`."""
    postgres_shop.restore()
    await bench.source(postgres_shop.reader_url)
    return bench


async def test_rows_are_objects_in_the_order_of_the_query(shop: Bench) -> None:
    answer = await shop.ask("SELECT id, customer FROM orders WHERE cents > :least ORDER BY id DESC", {"least": 100})
    assert answer == {"rows": [{"id": 2, "customer": "Grace"}, {"id": 1, "customer": "Ada"}], "rowCount": 2}


async def test_no_rows_are_an_empty_list(shop: Bench) -> None:
    assert await shop.ask("SELECT id FROM orders WHERE id = :id", {"id": -1}) == {"rows": [], "rowCount": 0}


@pytest.mark.parametrize(
    ("expression", "form"),
    [
        ("1::bigint * 9007199254740993", 9007199254740993),
        ("1.50::numeric", "1.50"),
        ("'NaN'::numeric", "NaN"),
        ("0.5::float8", 0.5),
        ("'-Infinity'::float8", "-Infinity"),
        ("true", True),
        ("NULL::int", None),
        ("DATE '2026-01-31'", "2026-01-31"),
        ("TIME '08:30'", "08:30:00"),
        ("TIMESTAMP '2026-01-31 08:30'", "2026-01-31T08:30:00"),
        ("TIMESTAMPTZ '2026-01-31 08:30+01'", "2026-01-31T07:30:00+00:00"),
        ("TIMESTAMP 'infinity'", "infinity"),
        ("INTERVAL '1 month 2 days'", "P1M2D"),
        ("decode('00ff', 'hex')", "AP8="),
        ("'00000000-0000-7000-8000-000000000001'::uuid", "00000000-0000-7000-8000-000000000001"),
        ("'{\"a\": [1, null]}'::jsonb", {"a": [1, None]}),
        ("ARRAY[1.5, 2]::numeric[]", ["1.5", "2"]),
        ("'10.0.0.1'::inet", "10.0.0.1"),
        ("int4range(1, 3)", "[1, 3)"),
    ],
)
async def test_every_type_has_its_json_form(shop: Bench, expression: str, form: Any) -> None:
    assert (await shop.ask(f"SELECT {expression} AS value"))["rows"] == [{"value": form}]


async def test_values_as_the_driver_of_node_js_gives_them_to_json(shop: Bench) -> None:
    # What pg-types 2.2.0 gives in the zone UTC, for the same texts of the server.
    forms: dict[str, Any] = {
        "9007199254740993::bigint": "9007199254740993",
        "7::int": 7,
        "1.50::numeric": "1.50",
        "'NaN'::float8": None,
        "0.1::float4": 0.1,
        "DATE '2026-01-31'": "2026-01-31T00:00:00.000Z",
        "DATE 'infinity'": None,
        "TIMESTAMP '2026-01-31 08:30:00.123456'": "2026-01-31T08:30:00.123Z",
        "TIMESTAMPTZ '2026-01-31 08:30+01'": "2026-01-31T07:30:00.000Z",
        "TIMESTAMP 'infinity'": "infinity",
        "'\\x00ff'::bytea": {"type": "Buffer", "data": [0, 255]},
        "INTERVAL '1 year 2 mons 3 days 04:05:06.789'": {
            "years": 1, "months": 2, "days": 3, "hours": 4, "minutes": 5, "seconds": 6, "milliseconds": 789
        },
        "INTERVAL '-1.5 s'": {"seconds": -1, "milliseconds": -500},
        "INTERVAL '0'": {},
        "POINT '(1,2.5)'": {"x": 1, "y": 2.5},
        "ARRAY[1, NULL]::bigint[]": ["1", None],
        "ARRAY[1.50, NULL]::numeric[]": [1.5, None],
        "ARRAY[DATE '2026-01-31']": ["2026-01-31T00:00:00.000Z"],
        "'{\"a\": 1}'::jsonb": {"a": 1},
    }  # fmt: skip
    columns = ", ".join(f"{expression} AS c{number}" for number, expression in enumerate(forms))
    [row] = (await shop.ask(f"SELECT {columns}", as_in_node=True))["rows"]
    assert list(row.values()) == list(forms.values())
    again = (await shop.ask("SELECT 7::bigint AS n"))["rows"]
    assert again == [{"n": 7}], "the next query on the connection has values of ours"


# How each is called with a text; the modules' functions are not there.
FORMS = {
    "left": "left({}, 2)", "right": "right({}, 2)", "substr": "substr({}, 2)", "replace": "replace({}, {}, {})",
    "translate": "translate({}, {}, {})", "split_part": "split_part({}, {}, 1)", "strpos": "strpos({}, {})",
    "starts_with": "starts_with({}, {})", "repeat": "repeat({}, 2)", "lpad": "lpad({}, 9, {})",
    "rpad": "rpad({}, 9, {})", "encode": "encode({}, 'hex')", "decode": "decode({}, 'hex')",
    "regexp_replace": "regexp_replace({}, {}, {})", "regexp_match": "regexp_match({}, {})",
    "regexp_matches": "regexp_matches({}, {})", "regexp_split_to_array": "regexp_split_to_array({}, {})",
    "string_to_array": "string_to_array({}, {})", "to_date": "to_date({}, 'YYYY')",
    "to_timestamp": "to_timestamp({}, 'YYYY')", "to_number": "to_number({}, '9999')",
    "position": "position({} IN {})", "substring": "substring({} from 2)",
}  # fmt: skip
OF_MODULES = {"crypt", "gen_salt", "digest", "hmac", "similarity", "word_similarity", "unaccent", "soundex",
              "levenshtein"}  # fmt: skip


async def test_functions_of_known_types_take_a_bound_text_as_one_within_quotes(shop: Bench) -> None:
    calls = [FORMS.get(name, f"{name}({{}})") for name in sorted(sql_reading.OF_KNOWN_TYPES - OF_MODULES)]
    written = ", ".join(call.replace("{}", "'2024'") + f" AS c{n}" for n, call in enumerate(calls))
    names = [f"a{number}" for number in range(written.count("'2024'"))]
    bound = written.replace("'2024'", ":{}").format(*names)
    [there] = (await shop.ask(f"SELECT {written}"))["rows"]
    assert (await shop.ask(f"SELECT {bound}", dict.fromkeys(names, "2024")))["rows"] == [there]


async def test_values_are_bound_whatever_they_hold(shop: Bench) -> None:
    args = {"text": "'; DROP TABLE orders; -- %s :id $1", "when": "2026-01-31T08:30:00+01:00", "list": [1, {"a": "'"}]}
    answer = await shop.ask(
        "SELECT :text AS text, :when AS instant, :list AS list, :text || '%' AS more",
        args,
        params={"text": "string", "when": "datetime", "list": "json"},
    )
    assert answer["rows"] == [
        {
            "text": args["text"],
            "instant": "2026-01-31T07:30:00+00:00",
            "list": args["list"],
            "more": args["text"] + "%",
        }
    ]


async def test_columns_of_one_name_are_told_apart(shop: Bench) -> None:
    answer = await shop.ask("SELECT 1 AS a, 2 AS a, 3 AS a_2")
    assert answer["rows"] == [{"a": 1, "a_3": 2, "a_2": 3}]


async def test_order_survives_a_query_that_could_run_in_parallel(shop: Bench) -> None:
    sql = "SELECT n FROM generate_series(1, 5000) AS n ORDER BY n DESC"
    assert [row["n"] for row in (await shop.ask(sql))["rows"]] == list(range(5000, 0, -1))


async def test_an_insert_that_n8n_maps_gives_rows_their_types_and_skips_those_that_are_there(shop: Bench) -> None:
    columns = {"mappingMode": "defineBelow", "value": {"id": "={{ $json.id }}", "customer": "={{ $json.name }}"}}
    insert = node("Insert", "postgres", 2.6, table={"value": "orders"}, columns=columns,
                  options={"skipOnConflict": True, "outputColumns": ["id", "customer", "cents"]})  # fmt: skip
    [workflow] = read_exports(Drawn("Insert", "", [insert], [], []).export())
    [query] = import_workflow(workflow, builtin_types()).queries
    rows = '[{"id": "4", "customer": 5}, {"id": 1, "customer": "there"}, {"id": 6, "customer": null}]'
    answer = await shop.ask(query["sql"], {"rows": rows}, writes=query["writes"])
    assert answer["rows"] == [{"id": 4, "customer": "5", "cents": None}, {"id": 6, "customer": None, "cents": None}]


async def test_a_declared_writer_changes_rows_and_says_how_many(shop: Bench, postgres_shop: Shop) -> None:
    answer = await shop.ask("UPDATE orders SET cents = 0 WHERE cents < :most", {"most": 1000}, writes=True)
    assert answer == {"rows": [], "rowCount": 2}
    returned = await shop.ask("DELETE FROM orders WHERE id = :id RETURNING customer", {"id": 1}, writes=True)
    assert returned == {"rows": [{"customer": "Ada"}], "rowCount": 1}
    with psycopg.connect(postgres_shop.owner_url) as connection:
        assert connection.execute("SELECT id, cents FROM orders ORDER BY id").fetchall() == [(2, 0), (3, 0)]


async def test_a_writer_that_fails_changes_nothing(shop: Bench) -> None:
    with pytest.raises(NodeFailure, match="division by zero"):
        await shop.ask("WITH gone AS (DELETE FROM orders RETURNING id) SELECT 1 / (id - id) FROM gone", writes=True)
    assert (await shop.ask("SELECT count(*) AS n FROM orders"))["rows"] == [{"n": 3}]


async def test_a_query_error_names_the_reason_and_is_not_retried(shop: Bench) -> None:
    with pytest.raises(NodeFailure, match='column "nothing" does not exist') as caught:
        await shop.ask("SELECT nothing FROM orders")
    assert caught.value.code == "QUERY_FAILED"
    assert not caught.value.retryable


async def test_a_row_that_is_too_long_is_stopped_at_the_server(shop: Bench) -> None:
    for sql, writes in [
        ("SELECT repeat('x', 50000000) AS x", False),
        ("UPDATE orders SET cents = 1 RETURNING repeat('x', 50000000)", True),
    ]:
        with pytest.raises(NodeFailure, match="a row of more than 10485760 bytes") as caught:
            await shop.ask(sql, writes=writes)
        assert caught.value.code == "QUERY_TOO_LARGE"
    assert (await shop.ask("SELECT cents FROM orders WHERE id = 1"))["rows"] == [{"cents": 1250}]


async def test_a_slow_query_is_stopped_at_its_timeout(shop: Bench) -> None:
    with pytest.raises(NodeFailure) as caught:
        await shop.ask("SELECT pg_sleep(50)", timeout="200ms")
    assert caught.value.code == "QUERY_TIMEOUT"
    assert (await shop.ask("SELECT 1 AS one"))["rows"] == [{"one": 1}]


async def test_a_cancelled_query_leaves_the_server(shop: Bench, postgres_shop: Shop) -> None:
    asking = asyncio.ensure_future(shop.ask("SELECT pg_sleep(50), 'cancel me' AS mark"))
    await _until(postgres_shop, f"{_OURS} AND state = 'active') = 1")
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    await _until(postgres_shop, f"{_OURS} AND state = 'active') = 0")


async def test_a_connection_that_the_server_closed_is_replaced(shop: Bench, postgres_shop: Shop) -> None:
    await shop.ask("SELECT 1")
    with psycopg.connect(postgres_shop.owner_url, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE application_name = 'anabranch query'"
        )
    assert (await shop.ask("SELECT 1 AS one"))["rows"] == [{"one": 1}]


async def test_no_more_connections_than_a_source_may_have(shop: Bench, postgres_shop: Shop) -> None:
    query = {"name": "sleep", "dataSourceID": "shop", "sql": "SELECT pg_sleep(0.05)"}
    await shop.data.create_query(query, tenant_id="acme")
    asking = [
        asyncio.ensure_future(shop.data.queries.run_query(tenant_id="acme", data_query_id="sleep", args={}))
        for _ in range(12)
    ]
    await asyncio.gather(*asking)
    with psycopg.connect(postgres_shop.owner_url) as connection:
        found = connection.execute(f"{_OURS})").fetchone()
    assert found == (4,)


async def test_a_superuser_is_no_role_for_queries(bench: Bench, postgres_shop: Shop) -> None:
    with pytest.raises(SourceTooPowerful, match="SUPERUSER") as caught:
        await bench.source(postgres_shop.owner_url)
    assert "CREATE ROLE anabranch_queries LOGIN" in caught.value.advice and "GRANT SELECT" in caught.value.advice
    assert await bench.data.list_sources(tenant_id=TENANT) == []


@pytest.mark.parametrize(
    "grants",
    [
        ["ALTER ROLE {role} SUPERUSER"],
        ["ALTER ROLE {role} CREATEROLE"],
        ["ALTER ROLE {role} REPLICATION"],
        ["ALTER ROLE {role} BYPASSRLS"],
        ["GRANT pg_read_server_files TO {role}"],
        ["GRANT pg_write_server_files TO {role}"],
        ["GRANT pg_execute_server_program TO {role}"],
        ["GRANT pg_signal_backend TO {role}"],
        ["GRANT EXECUTE ON FUNCTION pg_read_file(text) TO {role}"],
        ["CREATE ROLE {other} SUPERUSER", "GRANT {other} TO {role}"],
        ["CREATE ROLE {other} BYPASSRLS", "GRANT {other} TO {role} WITH INHERIT FALSE"],
        ["CREATE ROLE {other}", "GRANT pg_read_server_files TO {other}", "GRANT {other} TO {role}"],
        ["CREATE ROLE {other} NOINHERIT", "CREATE ROLE {other}_2", "GRANT pg_signal_backend TO {other}_2",
         "GRANT {other}_2 TO {other}", "GRANT {other} TO {role} WITH INHERIT FALSE, SET FALSE, ADMIN TRUE"],
    ],
    ids=lambda grants: "; ".join(grants),
)  # fmt: skip
async def test_a_role_that_may_do_too_much_runs_nothing(bench: Bench, postgres_shop: Shop, grants: list[str]) -> None:
    role = f"app_{os.getpid()}"
    other = f"other_{os.getpid()}"
    parts = urlsplit(postgres_shop.owner_url)
    url = urlunsplit((parts.scheme, f"{role}:x@{parts.netloc.rpartition('@')[2]}", parts.path, parts.query, ""))
    with psycopg.connect(postgres_shop.owner_url, autocommit=True) as admin:
        admin.execute(f"CREATE ROLE {role} LOGIN".encode())
        try:
            await bench.source(url)
            for grant in grants:
                admin.execute(grant.format(role=role, other=other).encode())
            with pytest.raises(SourceTooPowerful):
                await bench.source(url, name="again")
            with pytest.raises(NodeFailure) as caught:
                await bench.ask("SELECT 1 AS one")
            assert (caught.value.code, caught.value.retryable) == ("SOURCE_TOO_POWERFUL", False)
            assert "CREATE ROLE anabranch_queries" in str(caught.value)
        finally:
            await bench.data.queries.stop()
            admin.execute(f"REVOKE EXECUTE ON FUNCTION pg_read_file(text) FROM {role}".encode())
            admin.execute(f"DROP ROLE IF EXISTS {role}, {other}, {other}_2".encode())


async def test_a_source_that_cannot_be_reached_is_saved_with_a_warning(bench: Bench) -> None:
    bench.guard.addresses["db.internal"] = ["127.0.0.1"]
    saved = await bench.data.create_source(
        {"name": "away", "url": "postgresql://app@db.internal:1/x"}, tenant_id=TENANT
    )
    ((code, pointer, message),) = saved.warnings
    assert (code, pointer) == ("QUERY_FAILED", "/url")
    assert "the source was not checked" in message
    assert [each.name for each in await bench.data.list_sources(tenant_id=TENANT)] == ["away"]


async def test_a_role_that_became_powerful_is_refused_within_seconds_on_a_connection_that_was_open(
    postgres_shop: Shop,
) -> None:
    """Asked of the driver itself, whose clock the test can transition."""
    role = f"growing_{os.getpid()}"
    parts, query = urlsplit(postgres_shop.owner_url), parse_qs(urlsplit(postgres_shop.owner_url).query)
    target = DatabaseTarget(
        user=role,
        database=parts.path[1:],
        port=5432,
        socket_directory=query["host"][0],
        tls="disable",
        connect_timeout_ms=5_000,
    )
    now = [1_000.0]
    driver = PostgresqlDriver(target, _Unlimited(), clock=lambda: now[0])
    request = QueryRequest(["SELECT 1"], "select", {}, False, 5_000, 10, 1_000, 10_000)
    with psycopg.connect(postgres_shop.owner_url, autocommit=True) as admin:
        admin.execute(f"CREATE ROLE {role} LOGIN".encode())
        try:
            assert driver.run(request, lambda: None, lambda _: None) == 1
            admin.execute(f"ALTER ROLE {role} CREATEROLE".encode())
            now[0] += 6
            with pytest.raises(NodeFailure, match="CREATEROLE"):
                driver.run(request, lambda: None, lambda _: None)
        finally:
            admin.execute(f"DROP ROLE {role}".encode())


class _Unlimited:
    def limit_connecting(self) -> None:
        pass

    def limit_answering(self) -> None:
        pass


class TestIdle:
    """Connections that nobody uses."""

    @pytest.fixture
    def limits(self) -> Limits:
        return Limits(idle_close_ms=50)

    async def test_idle_connections_are_closed(self, shop: Bench, postgres_shop: Shop) -> None:
        assert await shop.ask("SELECT 1")
        await _until(postgres_shop, f"{_OURS}) = 0")
        assert await shop.ask("SELECT 1"), "the next query opens another connection"


@pytest.fixture(autouse=True)
async def _nobody_stays(bench: Bench) -> AsyncIterator[None]:
    yield
    await bench.data.queries.stop()


async def _until(shop: Shop, condition: str) -> None:
    """Return when the server answers true; its own clock ticks between two looks."""
    async with asyncio.timeout(30):
        async with await psycopg.AsyncConnection.connect(shop.owner_url, autocommit=True) as connection:
            while True:
                row = await (await connection.execute(condition + " -- looking")).fetchone()
                if row == (True,):
                    return
                await connection.execute("SELECT pg_sleep(0.02)")


async def test_a_source_without_a_password_reads_no_file_and_says_nothing(
    bench: Bench, postgres_shop: Shop, capfd: pytest.CaptureFixture[str]
) -> None:
    parts = urlsplit(postgres_shop.reader_url)
    await bench.source(urlunsplit(parts._replace(netloc=parts.netloc.replace(f":{parts.password}@", "@"))))
    await asyncio.gather(bench.ask("SELECT 1 AS one"), return_exceptions=True)  # the server may ask for the password
    assert capfd.readouterr().err == "", "libpq warns of a password file that is no plain file"

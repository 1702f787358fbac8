"""SQL of n8n: which expressions become values, and what is said of the others."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import psycopg
import pytest

from anabranch.handlers import builtin_types
from anabranch.n8n.exports import read_exports
from anabranch.n8n.importing import Imported, import_workflow
from anabranch.queries.lexing import SourceKind
from anabranch.queries.statement import read_statement
from anabranch.testing import run_workflow
from tests.n8n.drawn import Drawn, node

OPERAND = "an expression outside of quotes is a number: of anything else n8n makes SQL"
CONVERSIONS = "numbers, booleans and lists are read as the column reads JSON, where n8n writes them into the SQL"
ARGUMENT = "a text that is given to a function is of the type that the function demands, or fails"


def imported(query: dict[str, Any]) -> Imported:
    [workflow] = read_exports(Drawn("Queries", "", [query], [], []).export())
    return import_workflow(workflow, builtin_types())


def asked(sql: str, kind: str = "postgres", version: float = 2.5, **options: Any) -> Imported:
    return imported(node("Query", kind, version, operation="executeQuery", query=sql, options=options))


def why(workflow: Imported) -> tuple[str, str]:
    [found] = [each for each in workflow.report.nodes if each.name == "Query"]
    return found.status, found.why


def args(workflow: Imported) -> list[str]:
    [found] = [each for each in workflow.document["nodes"] if each["type"] == "dataQuery"]
    return list(found["config"]["args"].values())


@pytest.mark.parametrize(
    ("sql", "made", "values"),
    [
        ("a = '{{ $json.a }}'", "a = :p1", ["{{(ctx.item.a | js_text('undefined'))}}"]),
        ("a LIKE '%{{ $json.a }}-{{ $json.b }} it''s'", "a LIKE :p1",
         ["{{'%' ~ (ctx.item.a | js_text('undefined')) ~ '-' ~ (ctx.item.b | js_text('undefined')) ~ ' it\\'s'}}"]),
        ("a IN ('{{ $json.a }}') AND b > 1", "a IN (:p1) AND b > 1", ["{{(ctx.item.a | js_text('undefined'))}}"]),
        ("a = '{{ $json.a }}'::date -- {", "a = :p1::date -- {", ["{{(ctx.item.a | js_text('undefined'))}}"]),
        ("'/*' = '{{ $json.a }}' /* ' */", "'/*' = :p1 /* ' */", ["{{(ctx.item.a | js_text('undefined'))}}"]),
        ("a = '{{ `${$json.a}-` }}'", "a = :p1", ["{{((ctx.item.a | js_text('undefined')) ~ '-')}}"]),
    ],
)  # fmt: skip
def test_a_whole_text_within_quotes_is_one_bound_text(sql: str, made: str, values: list[str]) -> None:
    workflow = asked(f"=SELECT * FROM t WHERE {sql}")
    [query] = workflow.queries

    assert why(workflow) == ("exact", "")
    assert query["sql"] == f"SELECT * FROM t WHERE {made}"
    assert args(workflow) == values


@pytest.mark.parametrize(
    ("sql", "made", "kind"),
    [
        ("SELECT lower('{{ $json.a }}')", "SELECT lower(:p1)", "postgres"),
        ("SELECT a FROM t WHERE h = crypt('{{ $json.a }}', h) AND LOWER(m) = LOWER('{{ $json.b }}')",
         "SELECT a FROM t WHERE h = crypt(:p1, h) AND LOWER(m) = LOWER(:p2)", "postgres"),
        ("SELECT concat('{{ $json.a }}', 'b')", "SELECT concat(:p1, 'b')", "mySql"),
    ],
)  # fmt: skip
def test_a_text_for_a_function_of_known_types_is_bound_and_in_mysql_for_every_function(
    sql: str, made: str, kind: str
) -> None:
    query = node("Query", kind, 2.4, operation="executeQuery", query=f"={sql}", options={})
    [workflow] = read_exports(Drawn("Queries", "", [query], [], []).export())
    found = import_workflow(workflow, builtin_types())

    assert found.queries[0]["sql"] == made
    assert ARGUMENT not in why(found)[1]


@pytest.mark.parametrize(
    ("sql", "status", "reason"),
    [
        ("SELECT a FROM t LIMIT {{ $json.n }}", "equal", OPERAND),
        ("SELECT a FROM t WHERE n >= {{ $json.n }} AND a = 1", "equal", OPERAND),
        ("SELECT concat('{{ $json.a }}', 'b')", "equal", ARGUMENT),
        ("SELECT own.lower('{{ $json.a }}')", "equal", ARGUMENT),
        ("SELECT a FROM t WHERE h = lower(concat('{{ $json.a }}'))", "equal", ARGUMENT),
        ("SELECT a FROM t ORDER BY {{ $json.a }}", "placeholder", "its SQL is computed"),
        ("SELECT {{ $json.a }} FROM t", "placeholder", "its SQL is computed"),
        ("SELECT a FROM t WHERE {{ $json.a }}", "placeholder", "its SQL is computed"),
        ("SELECT a FROM t WHERE n = {{ $json.a }} {{ $json.b }}", "placeholder", "its SQL is computed"),
        ("SELECT a FROM t WHERE n = {{ $json.a }}_x", "placeholder", "its SQL is computed"),
        ("SELECT a FROM t WHERE n IN ({{ $json.a.join(',') }})", "placeholder", "its SQL is computed"),
        ("SELECT a FROM t_{{ $json.a }}", "placeholder", "its SQL is computed"),
        ('SELECT "{{ $json.a }}" FROM t', "placeholder", "its SQL is computed"),
        ("SELECT $${{ $json.a }}$$", "placeholder", "its SQL is computed"),
        ("SELECT 1 /* {{ $json.a }} */", "placeholder", "its SQL is computed"),
        ("SELECT now() - INTERVAL '{{ $json.a }}'", "placeholder", "its SQL is computed"),
        ("SELECT E'{{ $json.a }}'", "placeholder", "its SQL is computed"),
        ("SELECT a FROM t WHERE a = '{{ $json.a }}", "placeholder", "its SQL is computed"),
        ("SELECT float8 '{{ $json.a }}'", "placeholder", "its SQL is computed"),
        ("SELECT U&'{{ $json.a }}'", "placeholder", "its SQL is computed"),
        ("SELECT _utf8mb4'{{ $json.a }}'", "placeholder", "its SQL is computed"),
        ("SELECT '{{ $json.a.replace(/'/g, \"''\") }}'", "placeholder",
         "one of its expressions writes quotes into the SQL"),
        ("SELECT a FROM t WHERE a IN ('{{ $json.a.join(\"','\") }}')", "placeholder",
         "one of its expressions writes quotes into the SQL"),
        ("SELECT '{{ `${$json.a}\\x27` }}'", "placeholder", "one of its expressions writes quotes into the SQL"),
        ("SELECT '{{ $json.a.replace(/'/, x }}'", "placeholder", "one of its expressions is not read"),
        ("SELECT 1; DELETE FROM t", "placeholder", "it has several statements, and a saved query has one"),
        ("DROP TABLE t", "placeholder", "saved queries read and change rows, nothing else"),
    ],
)  # fmt: skip
def test_sql_that_is_computed_is_not_imported(sql: str, status: str, reason: str) -> None:
    assert why(asked(f"={sql}")) == (status, reason)


@pytest.mark.parametrize(
    "parameters",
    [{"operation": "insert", "table": {"value": "a{{ 1 }}"},
      "columns": {"mappingMode": "defineBelow", "value": {"a": "1"}}},
     {"operation": "insert", "table": {"value": "t"},
      "columns": {"mappingMode": "defineBelow", "value": {"a{{ 1 }}": "1"}}}],
)  # fmt: skip
def test_names_with_braces_are_not_imported(parameters: dict[str, Any]) -> None:
    made = imported(node("Query", "postgres", 2.5, schema={"value": "public"}, options={}, **parameters))

    assert why(made)[0] == "placeholder"
    assert "`{{`" in why(made)[1]


def test_values_of_inserts_are_bound_and_numbers_among_them_named() -> None:
    workflow = asked("=INSERT INTO t (a, n) VALUES ('{{ $json.a }}', {{ $json.n }}), (1, {{ $json.m }})")

    assert workflow.queries[0]["sql"] == "INSERT INTO t (a, n) VALUES (:p1, :p2), (1, :p3)"
    assert why(workflow)[1].startswith(OPERAND)


@pytest.mark.parametrize(
    ("sql", "changes"),
    [
        ("SELECT 'delete' AS \"update\" -- insert", False),
        ("(SELECT replace(a, 'x', 'y') FROM t)", False),
        ("WITH x AS (DELETE FROM t RETURNING a) SELECT a FROM x", True),
        ("WITH x AS (SELECT 1) UPDATE t SET a = 1", True),
        ("SELECT a INTO u FROM t", True),
        ("SELECT a FROM t FOR UPDATE", True),
        ("REPLACE INTO t VALUES (1);", True),
    ],
)
def test_whether_a_query_writes_is_told_by_its_words(sql: str, changes: bool) -> None:
    assert asked(sql).queries[0]["writes"] is changes


def test_numbered_values_within_quotes_are_not_imported_and_several_are_told_from_one() -> None:
    quoted = asked("UPDATE t SET a = 'costs $1'", queryReplacement="={{ $json.a }}")
    formed = asked("SELECT $1:name FROM t", queryReplacement="={{ $json.a }}")
    two = asked("SELECT a FROM t WHERE a = $1 AND b = $2", queryReplacement="={{ $json.a }},{{ $json.b }}")

    assert why(quoted) == why(formed) == ("placeholder", "its parameters stand within quotes, or have a form")
    assert why(two) == ("equal", "a comma in a value of its query does not begin the next value")


def written(url: str, workflow: Imported, rows: list[dict[str, Any]]) -> Any:
    """The rows that the query of an imported insert stores in a table of PostgreSQL, or what it fails with."""
    [query] = workflow.queries
    read_statement(query["sql"], SourceKind.POSTGRESQL, writes=True)  # it can be saved
    with psycopg.connect(url) as connection, connection.transaction(force_rollback=True):
        connection.execute("CREATE DOMAIN settings AS jsonb")
        connection.execute('CREATE TABLE "it\'s" (item text, d json, b jsonb, s settings, n integer)')
        try:
            connection.execute(query["sql"].replace(":rows AS json", "%(rows)s AS json"), {"rows": json.dumps(rows)})
        except psycopg.DataError as refused:
            return str(refused).partition("\n")[0]
        return connection.execute('SELECT item, d, b, s, n FROM "it\'s"').fetchall()


def inserted(version: float) -> Imported:
    names = ["item", "d", "b", "s"]
    if version < 2:
        return imported(node("Query", "postgres", version, table="it's", columns=", ".join(names)))
    columns = {"mappingMode": "defineBelow", "value": {name: f"={{{{ $json.{name} }}}}" for name in names},
               "matchingColumns": [], "schema": [{"id": name, "type": "object"} for name in names]}  # fmt: skip
    return imported(node("Query", "postgres", version, operation="insert", table={"value": "it's"}, columns=columns,
                         options={}))  # fmt: skip


@pytest.mark.parametrize(("version", "text"), [(1, {"a": [1]}), (2.6, '{"a": [1]}')])
def test_texts_for_columns_of_json_are_documents_where_n8n_writes_them_into_the_sql(
    postgres_url: str, version: float, text: Any
) -> None:
    document = '{"a": [1]}'
    rows = [{"item": document, "d": document, "b": document, "s": document},
            {"item": "x", "d": {"c": "t"}, "b": {"c": "t"}, "s": None}]  # fmt: skip

    assert why(inserted(version)) == ("equal", CONVERSIONS)
    assert written(postgres_url, inserted(version), rows) == [
        (document, text, {"a": [1]}, {"a": [1]}, None), ("x", {"c": "t"}, {"c": "t"}, None, None)
    ]  # fmt: skip


@pytest.mark.parametrize("value", ["no document", 5, True, [1]])
def test_what_is_no_document_is_refused_for_a_column_of_json(postgres_url: str, value: Any) -> None:
    assert "invalid input syntax for type json" in written(postgres_url, inserted(1), [{"item": "x", "b": value}])


def test_a_column_that_is_said_to_hold_texts_needs_no_look_at_the_table() -> None:
    columns = {"mappingMode": "defineBelow", "value": {"a": "={{ $json.a }}"}, "matchingColumns": [],
               "schema": [{"id": "a", "type": "string"}]}  # fmt: skip
    insert = node("Query", "postgres", 2.6, operation="insert", table={"value": "t"}, columns=columns, options={})

    assert why(imported(insert)) == ("exact", "")
    assert "pg_attribute" not in imported(insert).queries[0]["sql"]


def test_texts_within_quotes_are_converted_as_n8n_converts_them() -> None:
    asked_with: list[Any] = []

    def answer(_name: str, given: Any) -> list[Any]:
        asked_with.append(given)
        return []

    workflow = asked(
        "=SELECT a FROM t WHERE '{{ $json.a }}' = '{{ $json.b }}-{{ $json.c }}-{{ $json.d }}-{{ $json.e }}'"
    )
    items = [{"a": 2, "b": None, "c": ["k", "l"], "d": 5.0}]
    run = asyncio.run(run_workflow(workflow.document, {"n8nItems": items}, queries=answer))

    assert (run.status, asked_with) == ("COMPLETED", [{"p1": "2", "p2": "null-k,l-5-undefined"}])

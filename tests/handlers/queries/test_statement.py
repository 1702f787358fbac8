"""SQL before any database sees it: what is a query, what is a parameter, and what is refused at save."""

from __future__ import annotations

import pytest

from anabranch.queries.lexing import SourceKind
from anabranch.queries.statement import StatementRefused, read_statement

POSTGRESQL, SQLITE, MYSQL = SourceKind.POSTGRESQL, SourceKind.SQLITE, SourceKind.MYSQL


def written(sql: str, kind: SourceKind = POSTGRESQL) -> str:
    """The text with each parameter as `<name>`."""
    pieces = read_statement(sql, kind, writes=False).pieces
    return "".join(piece if isinstance(piece, str) else f"<{piece.value}>" for piece in pieces)


def codes(sql: str, kind: SourceKind = POSTGRESQL, *, writes: bool = False) -> set[str]:
    try:
        read_statement(sql, kind, writes=writes)
    except StatementRefused as refused:
        return {refusal.code for refusal in refused.refusals}
    return set()


@pytest.mark.parametrize(
    ("sql", "kind", "text"),
    [
        ("SELECT :a, :b, :a", POSTGRESQL, "SELECT <a>, <b>, <a>"),
        ("SELECT ':a', :b::int, x::text", POSTGRESQL, "SELECT ':a', <b>::int, x::text"),
        ('SELECT ":a" FROM t -- :b\n WHERE x = :c', POSTGRESQL, 'SELECT ":a" FROM t -- :b\n WHERE x = <c>'),
        ("SELECT /* :a /* :b */ :c */ :d", POSTGRESQL, "SELECT /* :a /* :b */ :c */ <d>"),
        ("SELECT $$ :a $$, $x$ :b $$ $x$, :c", POSTGRESQL, "SELECT $$ :a $$, $x$ :b $$ $x$, <c>"),
        ("SELECT E'\\' :a', :b", POSTGRESQL, "SELECT E'\\' :a', <b>"),
        ("SELECT '\\', :a", POSTGRESQL, "SELECT '\\', <a>"),
        ("SELECT f(x := :a)", POSTGRESQL, "SELECT f(x := <a>)"),
        ("SELECT data ? 'k', :a", POSTGRESQL, "SELECT data ? 'k', <a>"),
        ("SELECT [a:b], :c", SQLITE, "SELECT [a:b], <c>"),
        ("SELECT /* /* :a */ :b", SQLITE, "SELECT /* /* :a */ <b>"),
        ("SELECT '\\' , :a # :b", MYSQL, None),
        ("SELECT '\\':a', :b # :c", MYSQL, "SELECT '\\':a', <b> # :c"),
        ("SELECT 1--:a\n, :b", MYSQL, None),
        ("SELECT $:a, '$$', :a", POSTGRESQL, None),
        ("SELECT $a$ :b", POSTGRESQL, None),
        ("SELECT :é(+'),f(1),('||'--')\n", SQLITE, None),
        ("SELECT :a;  -- the end", POSTGRESQL, "SELECT <a>"),
    ],
)
def test_parameters_are_found_where_the_database_sees_code(sql: str, kind: SourceKind, text: str | None) -> None:
    if text is None:
        assert codes(sql, kind) == {"SQL_REFUSED"}
    else:
        assert written(sql, kind) == text


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM orders WHERE id = {{ctx.id}}",
        "SELECT * FROM orders WHERE name = '{{ ctx.name }}'",
        "SELECT {% if x %} 1",
        "SELECT {{secret.KEY}}",
    ],
)
def test_a_template_in_the_text_is_refused(sql: str) -> None:
    assert codes(sql) == {"TEMPLATE_NOT_ALLOWED"}


def test_an_array_in_the_form_of_braces_is_no_template() -> None:
    assert codes("SELECT '{{1,2},{3,4}}'::int[]") == set()


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM :table",
        "SELECT * FROM a JOIN :b ON true",
        "SELECT 1 AS :name",
        "SELECT * FROM orders ORDER BY :column",
        "SELECT count(*) FROM orders GROUP BY :column",
        "SELECT orders.:column FROM orders",
        "TABLE :name",
    ],
)
def test_a_parameter_is_refused_where_a_name_belongs(sql: str) -> None:
    assert codes(sql) == {"PARAMETER_NOT_ALLOWED"}


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT a IS DISTINCT FROM :b",
        "SELECT extract(year FROM :when::timestamp)",
        "SELECT substring(name FROM :start FOR :count)",
        "SELECT trim(both ' ' FROM :text)",
        "SELECT 1 LIMIT :n OFFSET :m",
        "SELECT 1 WHERE x IN (:a, :b) AND y BETWEEN :c AND :d",
        "SELECT CASE WHEN x = :a THEN :b ELSE :c END",
    ],
)
def test_a_parameter_may_stand_where_a_value_belongs(sql: str) -> None:
    assert codes(sql) == set()


@pytest.mark.parametrize(
    ("sql", "kind"),
    [
        ("", POSTGRESQL),
        ("-- nothing", POSTGRESQL),
        ("SELECT 1; SELECT 2", POSTGRESQL),
        ("SELECT 'open", POSTGRESQL),
        ('SELECT "open', POSTGRESQL),
        ("SELECT 1 /* open", POSTGRESQL),
        ("SELECT 1 /* /* */", POSTGRESQL),
        ("SELECT (1", POSTGRESQL),
        ("SELECT 1) UNION (SELECT 2", POSTGRESQL),
        ("SELECT $1", POSTGRESQL),
        ("SELECT ?", SQLITE),
        ("SELECT @a", SQLITE),
        ("SELECT $a", SQLITE),
        ("SELECT @@version", MYSQL),
        ("SELECT 1 /*!50000 INTO OUTFILE '/tmp/x' */", MYSQL),
        ("SELECT /*+ MAX_EXECUTION_TIME(0) */ 1", MYSQL),
        ("SELECT 1 INTO OUTFILE '/tmp/x'", MYSQL),
        ("SELECT load_file('/etc/passwd')", MYSQL),
        ("SELECT benchmark(1e9, sha2('x', 512))", MYSQL),
        ("SELECT get_lock('x', 9)", MYSQL),
        ("SELECT load_extension('x')", SQLITE),
        ("SELECT readfile('/etc/passwd')", SQLITE),
        ("SELECT U&'\\0041'", POSTGRESQL),
        ("SELECT dblink_exec('host=…', 'DELETE FROM orders')", POSTGRESQL),
        ("SELECT query_to_xml('SELECT pg_read_file(''x'')', true, true, '')", POSTGRESQL),
        ("SELECT table_to_xml(1260, true, true, '')", POSTGRESQL),
        ("SELECT pg_notify('a', 'b')", POSTGRESQL),
        ("SELECT 1" + " " * 70_000, POSTGRESQL),
        ("SELECT " + "(" * 300 + "1" + ")" * 300, POSTGRESQL),
        ("SELECT '\x00'", POSTGRESQL),
        ("SELECT E'a'\n'\\' || ', pg_read_file(''x'') --'", POSTGRESQL),
        ("SELECT 'a' -- and\n 'b'", POSTGRESQL),
        ("SELECT 'a' /* and */ 'b'", MYSQL),
        ("SELECT 'a' :b", MYSQL),
        ("SELECT 'a' 'b'", SQLITE),
        ("SELECT x'4''1'", POSTGRESQL),
        ("SELECT x'4z'", MYSQL),
        ("SELECT \\N", MYSQL),
        *[(f"SELECT 1 --{chr(code)}, load_file('/etc/passwd')", MYSQL) for code in (1, 8, 11, 12, 27, 31, 127, 133)],
        *[(f"SELECT{chr(code)}1", kind) for code in (11, 12, 160 - 11) for kind in (POSTGRESQL, SQLITE, MYSQL)],
        ("SELECT " + ", ".join(f":p{n}" for n in range(101)), POSTGRESQL),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_is_no_single_harmless_statement_is_refused(sql: str, kind: SourceKind) -> None:
    assert codes(sql, kind) == {"SQL_REFUSED"}


@pytest.mark.parametrize("verb", ["INSERT INTO t VALUES (1)", "UPDATE t SET a = 1", "DELETE FROM t"])
def test_changing_rows_has_to_be_declared(verb: str) -> None:
    with pytest.raises(StatementRefused, match="writes: true"):
        read_statement(verb, POSTGRESQL, writes=False)
    assert codes(verb, writes=True) == set()


@pytest.mark.parametrize(
    "verb", ["CREATE TABLE t (a int)", "COPY t FROM PROGRAM 'x'", "SET ROLE x", "DO $$x$$", "CALL f()"]
)
def test_a_writing_query_changes_rows_and_nothing_else(verb: str) -> None:
    assert codes(verb, writes=True) == {"SQL_REFUSED"}


def test_a_column_may_have_the_name_of_a_function_that_is_refused() -> None:
    assert codes("SELECT lo_balance, edit FROM accounts") == set()


def test_a_space_of_another_alphabet_is_a_letter_as_it_is_for_postgresql() -> None:
    # Seen as a space, the E would begin a string with escapes, and what follows would be text.
    assert codes("SELECT 1 AS \u00a0E'\\', pg_read_file('x') --'") == {"SQL_REFUSED"}


@pytest.mark.parametrize("sql", ["SELECT (pid).pg_terminate_backend FROM a", 'SELECT (1::bigint) . "pg_advisory_lock"'])
def test_a_function_is_refused_in_the_form_of_an_attribute_too(sql: str) -> None:
    assert codes(sql) == {"SQL_REFUSED"}
    assert codes("SELECT (a).name, b.id FROM a, b") == set()

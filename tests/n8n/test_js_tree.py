"""Expressions of JavaScript are read into trees or refused, whatever is written in them and however long they are."""

from __future__ import annotations

import resource
import subprocess
import sys
import weakref
from contextlib import suppress

import pytest

from anabranch.n8n.js_reading import with_calls_on_any_value
from anabranch.n8n.js_tree import (
    DEPTH_MAX,
    SOURCE_LENGTH_MAX,
    ArrayLiteral,
    Arrow,
    Binary,
    Call,
    ConditionalExpression,
    JsMember,
    JsPattern,
    JsTemplate,
    Literal,
    Name,
    NewExpression,
    NotJavaScript,
    NotRead,
    ObjectLiteral,
    Spread,
    Tree,
    Unary,
    in_brackets,
    is_expression,
    read_expression,
    texts_of,
)

A, B = Name("a"), Name("b")


@pytest.mark.parametrize(
    ("source", "tree"),
    [
        ("a /* , */ . b // )", JsMember(A, Literal("b"))),
        ("a?.b?.['c']", JsMember(JsMember(A, Literal("b"), optional=True), Literal("c"), optional=True)),
        ("a?.(b, ...a)", Call(A, (B, Spread(A)))),
        ("a ? .5 : 1_000", ConditionalExpression(A, Literal(0.5), Literal(1000))),
        ("a?.5:0x1F", ConditionalExpression(A, Literal(0.5), Literal(31))),
        ("a ?? b * -a ** 2", Binary("??", A, Binary("*", B, Binary("**", Unary("-", A), Literal(2))))),
        ("typeof a in b", Binary("in", Unary("typeof", A), B)),
        ("new a.b(1)", NewExpression(JsMember(A, Literal("b")), (Literal(1),))),
        ("new Date", NewExpression(Name("Date"), ())),
        ("a / b / /[/]\\//gi", Binary("/", Binary("/", A, B), JsPattern("[/]\\/", "gi"))),
        ("`x${a + `${b}}`}\\n\r\n`", JsTemplate(("x", Binary("+", A, JsTemplate((B, "}"))), "\n\n"))),
        ("'\\x41\\u0041\\u{1F600}\\q\\\n\\0'", Literal("AA😀q\0")),
        ("'\ud800 😀' + \"\u2028\"", Binary("+", Literal("\ud800 😀"), Literal("\u2028"))),
        ("[a, b,]", ArrayLiteral((A, B))),
        ("{a, 'b': 1, 2.0: null};", ObjectLiteral(
            ((Literal("a"), A), (Literal("b"), Literal(1)), (Literal("2"), Literal(None))))),
        ("{[b]: true, ...a}", ObjectLiteral(((B, Literal(True)), (None, A)))),
        ("a => ({b})", Arrow(("a",), ObjectLiteral(((Literal("b"), B),)))),
        ("(a, b) => () => a; // as it is", Arrow(("a", "b"), Arrow((), A))),
    ],
)  # fmt: skip
def test_an_expression_is_read_as_javascript_reads_it(source: str, tree: Tree) -> None:
    assert read_expression(source) == tree


@pytest.mark.parametrize(
    "source",
    ["a, b", "a; b", "a\nb", "a = b", "a++", "--a", "async a => a", "a => { return a }", "(a = 1) => a",
     "function () {}", "class {}", "a``", "a`b`", "[a,, b]", "[,]", "f(,a)", "{a,,}",
     "a.#b", "{a() {}}", "1n", "017", "'\\17'", "'\\ud83d'",
     "'\\u{110000}'", "import.meta", "await a"],
)  # fmt: skip
def test_what_expressions_of_templates_have_not_is_refused(source: str) -> None:
    with pytest.raises(NotRead) as refused:
        read_expression(source)

    assert not isinstance(refused.value, NotJavaScript)


@pytest.mark.parametrize(
    "source",
    ["", "a +", "a b", "a) + (b", "a); (b", "(a", "if (a) b", "'a", "'a\n'", "`a", "/*", "a.", "“a”", "<b>a</b>",
     "'\\x4'", "a\0b", "#!a", "= a", "> a"],
)  # fmt: skip
def test_what_is_no_expression_of_javascript_is_told_from_it(source: str) -> None:
    assert not is_expression(source)
    with pytest.raises(NotJavaScript):
        read_expression(source)


def test_brackets_may_be_put_around_an_expression_of_any_kind_but_not_around_statements() -> None:
    assert all(map(is_expression, ["a", "a, b", "a = b", "{a: 1} // b", "a => { return a; }", "async () => await a"]))
    assert not any(map(is_expression, ["a;", "a; b", "return a"]))


def test_the_texts_of_an_expression_are_those_of_its_strings_templates_and_patterns() -> None:
    assert "".join(texts_of("f('a\\x27', `b${c['d']}e`, /f'/g) // g'")) == "a'bdef'"


@pytest.mark.parametrize(
    ("js", "made"),
    [
        ("$json.a.isEmpty()", "$n8n.isEmpty($json.a)"),
        ("!f(a, [b])['c'] .toNumber( ).isEmpty()", "!$n8n.isEmpty($n8n.toNumber(f(a, [b])['c']))"),
        ("`😀 ${(a || b).isNotEmpty()}`", "`😀 ${$n8n.isNotEmpty((a || b))}`"),
        ("new A(a.isEmpty()).isEmpty()", "$n8n.isEmpty(new A($n8n.isEmpty(a)))"),
        *((same, same) for same in ["a?.isEmpty()", "a?.b.isEmpty()", "a.isEmpty(1)", "isEmpty()", "'a.isEmpty()'",
                                    "a.isEmpty("]),
    ],
)  # fmt: skip
def test_what_functions_of_n8n_are_called_on_becomes_their_argument(js: str, made: str) -> None:
    assert with_calls_on_any_value(js) == made


@pytest.mark.parametrize(
    "source",
    ["a" + " + a" * DEPTH_MAX, "a" + ".b" * DEPTH_MAX, "!" * DEPTH_MAX + "a",
     "(" * DEPTH_MAX + "a" + ")" * DEPTH_MAX, "[" * DEPTH_MAX + "a" + "]" * DEPTH_MAX],
)  # fmt: skip
def test_an_expression_may_be_as_deep_as_the_limit_and_no_deeper(source: str) -> None:
    assert read_expression(source)
    for deeper in (f"!{source}", f"({source})", f"a => {source}"):
        with pytest.raises(NotRead, match="nested too deeply"):
            read_expression(deeper)


def test_an_expression_may_be_as_long_as_the_limit_and_no_longer() -> None:
    assert read_expression("a" * SOURCE_LENGTH_MAX) == Name("a" * SOURCE_LENGTH_MAX)
    with pytest.raises(NotRead, match="longer"):
        read_expression("a" * (SOURCE_LENGTH_MAX + 1))


def test_nothing_stays_in_memory_of_an_expression_that_was_read() -> None:
    syntax = in_brackets("a")
    kept = weakref.ref(syntax)
    del syntax

    assert kept() is None


# A parser that continues after errors takes gigabytes or minutes for some of them.
HOSTILE = ["a+", ".b", "(", "{a:", "a=>", "f(", "`${", "'", "/[", "/*+", ".x=", "`*!", "<a>", "\ud800", "a;"]
# 30 seconds and 1 GiB for all of them, of which they take 5 seconds and 0.2 GiB.
COMPUTING_SECONDS_MAX = 30
MEMORY_MAX = 1 << 30


def read_each() -> None:
    """Read each of them, as long as an expression may be."""
    for piece in HOSTILE:
        with suppress(NotRead):
            read_expression("(" + piece * ((SOURCE_LENGTH_MAX - 1) // len(piece)))


def test_long_and_broken_expressions_are_read_or_refused_within_bounds_of_time_and_memory() -> None:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (COMPUTING_SECONDS_MAX, COMPUTING_SECONDS_MAX))
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_MAX, MEMORY_MAX))

    code = "from tests.n8n.test_js_tree import read_each; read_each()"
    run = subprocess.run([sys.executable, "-c", code], preexec_fn=limit, check=False)

    assert run.returncode == 0

"""Filters that convert as JavaScript does, and `otherwise`; each is bounded like the others."""

from __future__ import annotations

from typing import Any

import pytest

from anabranch.engine.rules.templates.template import compile_template
from anabranch.errors import TemplateError

CTX = {"list": [1, None, "b", [2, 3]], "object": {"a": 1}, "whole": 2.0, "small": 1e-7, "large": 1e21, "text": " 0x1F "}


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("ctx.list | js_text", "1,,b,2,3"),
        ("ctx.object | js_text", "[object Object]"),
        ("ctx.nothing | js_text", ""),
        ("none | js_text", ""),
        ("ctx.nothing | js_text('undefined')", "undefined"),
        ("none | js_text('undefined')", "null"),
        ("true | js_text", "true"),
        ("ctx.whole | js_text", "2"),
        ("ctx.small | js_text", "1e-7"),
        ("ctx.large | js_text", "1e+21"),
        ("ctx.text | js_number", 31),
        ("'' | js_number", 0),
        ("ctx.whole | js_number | tojson", "2"),
        ("(ctx.whole / 8) | js_number | tojson", "0.25"),
        ("ctx.large | js_number | tojson", "1e+21"),
        ("none | js_number", 0),
        ("'x' | js_number | otherwise('-')", "-"),
        ("ctx.list | js_join('-')", "1--b-2,3"),
        ("ctx.object | js_type('string')", '{"a":1}'),
        ("ctx.nothing | js_type('string')", None),
        ("'true' | js_type('boolean')", True),
        ("[[1]] | js_type('boolean')", True),
        ("[none] | js_type('boolean')", False),
        ("'null' | js_type('object')", None),
        ("'[1]' | js_type('array')", [1]),
        ("'a\U0001f600' | js_length", 3),
        ("ctx.list | js_length", 4),
        ("{'length': 7} | js_length", 7),
        ("'a5' | js_includes(5)", True),
        ("[1] | js_includes(true)", False),
        ("[1, none] | js_includes(none)", True),
        ("[[1]] | js_includes([1])", False),
        ("[] | js_number", 0),
        ("['5'] | js_number", 5),
        ("ctx.list | js_number | otherwise('-')", "-"),
        ("ctx.object | must_be('object')", {"a": 1}),
        ("ctx.nothing | must_be('object')", None),
        ("none | must_be('number')", None),
        ("'a b&ü' | urlencode", "a%20b%26%C3%BC"),
        ("ctx.list | flatten", [1, None, "b", 2, 3]),
        ("ctx.object.a.b | upper | otherwise(none)", None),
    ],
)
def test_a_value_is_converted_as_javascript_does(expression: str, value: Any) -> None:
    assert compile_template("{{" + expression + "}}").resolve(CTX) == value


@pytest.mark.parametrize(
    "expression",
    [
        "ctx.object | js_type('array')",
        "true | must_be('number')",
        "1 | must_be('boolean')",
        "1 | must_be('string')",
        "ctx.list | must_be('object')",
        "1 | must_be(['number'])",
        "ctx.object | js_length",
        "ctx.object | js_includes('a')",
        "1 | js_type('date')",
        "'a' | js_join",
        "1 | flatten",
        "1 | otherwise",
    ],
)
def test_what_is_not_converted_is_an_error(expression: str) -> None:
    with pytest.raises(TemplateError):
        compile_template("{{" + expression + "}}").resolve(CTX)


def test_a_spent_budget_is_no_reason_for_another_value() -> None:
    costly = " ~ ".join(["(ctx.long | js_join(', '))"] * 40)
    with pytest.raises(TemplateError):
        compile_template("{{(" + costly + ") | length | otherwise(0)}}").resolve({"long": ["x" * 50] * 15_000})

"""Filters: each does what Jinja2's filter of its name does, on plain data."""

from __future__ import annotations

from typing import Any

import pytest

from anabranch.engine.rules.templates.budget import Work
from anabranch.engine.rules.templates.filters import FILTERS
from anabranch.engine.rules.templates.template import compile_template
from anabranch.errors import TemplateError, TemplatePathMissing

ROWS = [{"n": 2, "who": {"name": "B"}}, {"n": 1, "who": {"name": "a"}}, {"n": 2, "who": {"name": "b"}}]


def resolve(expression: str) -> Any:
    return compile_template("{{ " + expression + " }}").resolve({"rows": ROWS, "o": {"b": 1, "a": [2]}})


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("'héé' | length", 3),
        ("[1, 2] | length", 2),
        ("ctx.o | length", 2),
        ("'aB' | upper", "AB"),
        ("'aB' | lower", "ab"),
        ("'  a ' | trim", "a"),
        ("'xax' | trim('x')", "a"),
        ("'aXbX' | replace('X', '-')", "a-b-"),
        ("'aaa' | replace('a', 'b', 2)", "bba"),
        ("'ab' | replace('', '-')", "-a-b-"),
        ("2.5 | round", 2.0),
        ("2.345 | round(2)", 2.35),
        ("2.1 | round(0, 'ceil')", 3.0),
        ("2.9 | round(method='floor')", 2.0),
        ("'42' | int", 42),
        ("'4.9' | int", 4),
        ("'x' | int", 0),
        ("'x' | int(-1)", -1),
        ("'ff' | int(base=16)", 255),
        ("none | int(7)", 7),
        ("'1.5' | float", 1.5),
        ("'x' | float(2.5)", 2.5),
        ("1 | string", "1"),
        ("true | string", "true"),
        ("'a' | string", "a"),
        ("[1, 'a', none] | join", "1anull"),
        ("['a', 'b'] | join(', ')", "a, b"),
        ("[1, 2] | join('-')", "1-2"),
        ("[] | join(',')", ""),
        ("ctx.rows | join(',', attribute='who.name')", "B,a,b"),
        ("[3, 4] | first", 3),
        ("'ab' | last", "b"),
        ("[3, 1, 2] | sort", [1, 2, 3]),
        ("['b', 'A', 'c'] | sort", ["A", "b", "c"]),
        ("['b', 'A', 'c'] | sort(true, true)", ["c", "b", "A"]),
        ("ctx.rows | sort(attribute='n') | first", ROWS[1]),
        ("ctx.rows | sort(attribute='who.name') | last", ROWS[2]),
        ("[1, 2, 1, 3, 2] | unique", [1, 2, 3]),
        ("['a', 'A'] | unique", ["a"]),
        ("['a', 'A'] | unique(case_sensitive=true)", ["a", "A"]),
        ("[{'a': 1}, {'a': 1}, [1]] | unique", [{"a": 1}, [1]]),
        ("[true, 1] | unique", [True, 1]),
        ("ctx.rows | unique(attribute='n')", ROWS[:2]),
        ("[1, 2.5] | sum", 3.5),
        ("[] | sum", 0),
        ("ctx.rows | sum('n')", 5),
        ("[1] | sum(start=10)", 11),
        ("[3, 1] | min", 1),
        ("['b', 'A'] | min", "A"),
        ("ctx.rows | max(attribute='who.name')", ROWS[0]),
        ("{'a': [1, none]} | tojson", '{"a":[1,null]}'),
        ("'<é>' | tojson", '"<é>"'),
        ("'{\"a\": [1]}' | fromjson", {"a": [1]}),
        ("ctx.o | keys", ["b", "a"]),
        ("ctx.o | values", [1, [2]]),
        ("ctx | keys", ["rows", "o"]),
    ],
)
def test_a_filter_does_what_its_name_says(expression: str, value: Any) -> None:
    found = resolve(expression)
    assert found == value
    assert [type(item) for item in found] == [type(item) for item in value] if isinstance(value, list) else True


def test_there_are_exactly_the_promised_filters() -> None:
    promised = (
        "length upper lower trim replace round int float string join first last sort unique "
        "sum min max tojson fromjson keys values"
    )
    assert sorted(FILTERS) == sorted(promised.split())


@pytest.mark.parametrize(
    "expression",
    ["[] | first", "'' | last", "[] | min", "[] | max", "ctx.rows | sum(attribute='absent')", "ctx.rows | sort('x.y')"],
)
def test_what_is_not_there_is_missing_and_may_have_a_default(expression: str) -> None:
    if "sort(" in expression:
        expression = expression.replace("'x.y'", "attribute='x.y'")
    with pytest.raises(TemplatePathMissing):
        resolve(expression)
    assert resolve(f"({expression}) | default('none')") == "none"


@pytest.mark.parametrize(
    "expression",
    [
        "1 | length",
        "1 | upper",
        "'a' | sort",
        "[1, 'a'] | sort",
        "[{}, {}] | sort",
        "[1, none] | max",
        "[1, 'a'] | sum",
        "[true] | sum",
        "[1e308, 1e308] | sum",
        "[18446744073709551615, 1] | sum",
        "'a' | round",
        "1 | round(99)",
        "1 | round('a')",
        "1 | round(0, 'up')",
        "'nan' | float",
        "'99999999999999999999' | int",
        "{} | join",
        "[1] | join(1)",
        "'{' | fromjson",
        "'NaN' | fromjson",
        "1 | fromjson",
        "[] | keys",
        "[] | values",
        "'a' | trim(1)",
        "'a' | replace(1, 2)",
        "ctx.rows | sum(attribute=1)",
        "{} | first",
    ],
)
def test_what_a_filter_does_not_take_is_a_template_error(expression: str) -> None:
    with pytest.raises(TemplateError) as refusal:
        resolve(expression)
    assert refusal.value.code == "TEMPLATE_ERROR"


@pytest.mark.parametrize(
    ("expression", "times"),
    [
        ("ctx.numbers | sort", 4),
        ("ctx.rows | sort(attribute='n')", 4),
        ("ctx.numbers | unique", 1),
        ("ctx.numbers | min", 1),
        ("ctx.numbers | max", 1),
        ("ctx.numbers | join(',')", 1),
        ("ctx.numbers | tojson", 1),
    ],
)
def test_a_filter_pays_for_what_it_runs_over(expression: str, times: int):
    """Beside measuring the list, which every one of them does: how much more a filter pays is its own."""
    numbers = [*range(10_000)]
    ctx = {"numbers": numbers, "rows": [{"n": number} for number in numbers]}
    work, measured = Work(), Work()
    weight = measured.weigh(ctx["rows"] if "rows" in expression else numbers)
    compile_template(f"{{{{ {expression} }}}}").resolve(ctx, work)
    assert work.spent >= measured.spent + times * weight

"""Filters: each does what Jinja2's filter of its name does, on plain data."""

from __future__ import annotations

from typing import Any

import pytest

from anabranch.engine.rules.templates.budget import TemplateBudget
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
        ("'a, b,c' | split(',')", ["a", " b", "c"]),
        ("' a  b\nc ' | split", ["a", "b", "c"]),
        ("'a-b-c' | split('-', 1)", ["a", "b-c"]),
        ("'abc' | contains('b')", True),
        ("[1, 2] | contains(3)", False),
        ("ctx.o | contains('b')", True),
        ("ctx | contains('rows')", True),
        ("'abc' | startswith('ab')", True),
        ("'abc' | endswith('ab')", False),
        ("[1, 2, 3] | slice(1)", [2, 3]),
        ("'abcd' | slice(-3, -1)", "bc"),
        ("[1, 2, 3] | slice(0, 99)", [1, 2, 3]),
        ("'order 4711, 4712' | regex_find('[0-9]+')", "4711"),
        ("'2026-01-31' | regex_find('([0-9]+)-([0-9]+)', 2)", "01"),
        ("'a@b.c' | regex_find('(?P<host>[^@]+)$', 'host')", "b.c"),
        ("'abc' | regex_find('x')", None),
        ("'abc' | regex_find('a(x)?', 1)", None),
        ("ctx.rows | map('who.name')", ["B", "a", "b"]),
        ("ctx.rows | map(attribute='absent', default=0)", [0, 0, 0]),
        ("ctx.rows | where('n', 2) | length", 2),
        ("ctx.rows | where('n', 1, '>') | map('who.name')", ["B", "b"]),
        ("ctx.rows | where('who.name', ['a', 'B'], 'in') | length", 2),
        ("ctx.rows | where('absent', 1)", []),
        ("[{'a': 0}, {'a': 1}] | where('a')", [{"a": 1}]),
        ("ctx.rows | groupby('n') | map('key')", [2, 1]),
        ("ctx.rows | groupby('n') | first", {"key": 2, "items": [ROWS[0], ROWS[2]]}),
        ("[{'a': true}, {'a': 1}, {}] | groupby('a', none) | map('key')", [True, 1, None]),
    ],
)
def test_a_filter_does_what_its_name_says(expression: str, value: Any) -> None:
    found = resolve(expression)
    assert found == value
    assert [type(item) for item in found] == [type(item) for item in value] if isinstance(value, list) else True


def test_there_are_exactly_the_promised_filters() -> None:
    promised = (
        "length upper lower trim replace round int float string join first last sort unique "
        "sum min max tojson fromjson keys values split contains startswith endswith slice regex_find map where groupby "
        "date_add date_diff date_format date_parse date_start timestamp "
        "flatten js_text js_number js_join js_type js_length js_includes must_be urlencode"
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
        "'a' | split('')",
        "1 | split",
        "'a' | contains(1)",
        "1 | contains(1)",
        "'a' | startswith(1)",
        "{} | slice(1)",
        "'a' | slice('1')",
        "'a' | regex_find('(?=a)')",
        "'a' | regex_find('(')",
        "'a' | regex_find('a', 1)",
        "'a' | regex_find('a', 'x')",
        "1 | regex_find('a')",
        "ctx.rows | map('')",
        "ctx.rows | where('n', 1, '~')",
        "ctx.rows | where('n', 'a', '<')",
        "'2026-01-31' | date_add('1', 'days')",
        "'2026-01-31' | date_add(1, 'fortnights')",
        "'2026-01-31' | date_add(9999, 'years')",
        "'2026-01-31T08:00:00' | timestamp",
        "'today' | timestamp",
        "none | timestamp",
        "1e300 | timestamp",
        "'2026-01-31' | date_format('%Q')",
        "'2026-01-31' | date_format('%Y', 'Europe/Atlantis')",
        "'2026-01-31' | date_format('%Y', '/etc/passwd')",
        "'31.02.2026' | date_parse('%d.%m.%Y')",
        "'x' | date_parse('%d')",
        "'1' | date_parse('%d%d')",
        "'0001-01-01' | date_format('%Y', 'America/New_York')",
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
    work, measured = TemplateBudget(), TemplateBudget()
    weight = measured.weigh(ctx["rows"] if "rows" in expression else numbers)
    compile_template(f"{{{{ {expression} }}}}").resolve(ctx, work)
    assert work.spent >= measured.spent + times * weight


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("'2026-01-31' | date_add(1, 'months')", "2026-02-28T00:00:00.000Z"),
        ("'2026-01-31T08:00:00+01:00' | date_add(-90, 'minutes')", "2026-01-31T06:30:00.000+01:00"),
        ("0 | date_add(1, 'day')", "1970-01-02T00:00:00.000Z"),
        ("'2024-02-29' | date_add(-1, 'years')", "2023-02-28T00:00:00.000Z"),
        # The clocks change in between: a day later is the same time on the wall, 24 hours later is not.
        ("'2026-03-28T12:00:00+01:00' | date_add(1, 'day', 'Europe/Berlin')", "2026-03-29T12:00:00.000+02:00"),
        ("'2026-03-28T12:00:00+01:00' | date_add(24, 'hours', 'Europe/Berlin')", "2026-03-29T13:00:00.000+02:00"),
        ("'2026-03-01' | date_diff('2026-02-01', 'days')", 28.0),
        ("'2026-03-01' | date_diff('2026-02-01')", 28 * 86_400_000),
        ("'2026-02-28' | date_diff('2025-12-31', 'months')", 2),
        ("'2025-12-31' | date_diff('2026-02-28', 'months')", -2),
        ("'2026-02-01T06:00:00Z' | date_diff('2026-02-01', 'hours')", 6.0),
        ("'2026-01-31T08:05:09.5Z' | date_format('%Y/%m/%d %H:%M:%S.%f %j %a %B %p %I %%')",
         "2026/01/31 08:05:09.500000 031 Sat January AM 08 %"),
        ("'2026-07-01T12:00:00Z' | date_format('%H:%M %z %Z', 'Europe/Berlin')", "14:00 +0200 CEST"),
        ("'2027-01-01' | date_format('%G-W%V-%u')", "2026-W53-5"),
        ("'31.12.2026 5:07 pm' | date_parse('%d.%m.%Y %I:%M %p', 'Europe/Berlin')", "2026-12-31T17:07:00.000+01:00"),
        ("'Jan 5, 69' | date_parse('%b %d, %y')", "1969-01-05T00:00:00.000Z"),
        ("'05/Mar/2026:10:00:00 +0200' | date_parse('%d/%b/%Y:%H:%M:%S %z')", "2026-03-05T10:00:00.000+02:00"),
        ("'2026-08-19T13:14:15.678Z' | date_start('quarter')", "2026-07-01T00:00:00.000Z"),
        ("'2026-08-19T13:14:15.678Z' | date_start('week')", "2026-08-17T00:00:00.000Z"),
        ("'2026-08-19T13:14:15.678Z' | date_start('minute')", "2026-08-19T13:14:00.000Z"),
        ("'2026-08-18T23:30:00Z' | date_start('day', 'Europe/Berlin')", "2026-08-19T00:00:00.000+02:00"),
        ("'1970-01-01T00:00:01Z' | timestamp", 1_000),
    ],
)  # fmt: skip
def test_a_date_filter_follows_the_calendar(expression: str, value: Any) -> None:
    found = resolve(expression)
    assert found == value
    assert type(found) is type(value)


def test_a_pattern_never_takes_longer_than_its_text() -> None:
    for pattern, text in [
        ("(a+)+$", "a" * 100_000 + "b"),
        ("(a|aa)*(b|bb)*c", "ab" * 40_000),
        ("a{1,300}", "a" * 3_000),
    ]:
        template = compile_template(f"{{{{ ctx.text | regex_find('{pattern}') }}}}")
        template.resolve({"text": text})
    for pattern, text in [("[ab]*a[ab]{200}x", "ab" * 50_000), ("\\\\pL{400}", "a"), ("a" * 600, "a")]:
        with pytest.raises(TemplateError, match="regex_find"):
            compile_template(f"{{{{ ctx.text | regex_find('{pattern}') }}}}").resolve({"text": text})

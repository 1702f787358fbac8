"""Templates under attack: none may do harm, whatever the text and the data are.

The classes are those that broke other products: roads from a value to a Python object, format
strings, statements and loaders, and denial of service by size, by work and by nesting. Time is
checked against a bound that a busy machine keeps; without the budget the same attacks take
minutes and gigabytes.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Mapping
from typing import Any

import pytest

from anabranch.engine.rules.templates.budget import RESULT_BYTES_MAX
from anabranch.engine.rules.templates.template import Template, compile_config
from anabranch.errors import TemplateError

# Milliseconds of processor time. Most attacks end within five; the worst, a megabyte parsed into
# 340,000 lists, takes 200 on a small machine.
CPU_MS_MAX = 1_500

# The largest context values are a megabyte; what is built of them may be some times that in memory.
MEMORY_KB_MAX = 200_000

MEGABYTE = RESULT_BYTES_MAX - 16


def _context() -> Mapping[str, Any]:
    return {
        "s": "a" * MEGABYTE,
        "dots": "." * 100_000,
        "quotes": '"' * 500_000,
        "ones": [1] * (MEGABYTE // 2),
        "twin": [1] * (MEGABYTE // 2),
        "nested": [[1] * (MEGABYTE // 4), [2] * (MEGABYTE // 4)],
        "nested_twin": [[1] * (MEGABYTE // 4), [2] * (MEGABYTE // 4)],
        "numbers": [index * 7_919 % 500_009 for index in range(140_000)],
        "words": ["x" * 100 + str(index) for index in range(9_000)],
        "objects": [{"n": index} for index in range(80_000)],
        "lists": "[" + "[]," * 340_000 + "[]]",
        "deep": "[" * 900 + "]" * 900,
        "small": [1, 2, 3],
    }


CONTEXT = _context()

ESCAPES = [
    "{{ ctx.__class__.__mro__ }}",
    "{{ ctx['__class__'] }}",
    "{{ ''['__class__'] }}",
    "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "{{ ctx.small.append }}",
    "{{ ctx.small.__iter__.__globals__ }}",
    "{{ ctx.s.format }}",
    "{{ '{0.__class__}'.format(ctx) }}",
    "{{ '{0.__class__}' | format(ctx) }}",
    "{{ '%s' % ctx }}",
    "{{ ctx | attr('__class__') }}",
    "{{ ctx.small | map(attribute='__class__') }}",
    "{{ ctx.small | map('upper') }}",
    "{{ [ctx.small] | sum(attribute='__class__') }}",
    "{{ ctx.objects | sort(attribute='n.__class__') }}",
    "{{ ctx.objects | join(attribute='__class__.__mro__') }}",
    "{{ self.__init__.__globals__ }}",
    "{{ lipsum.__globals__.os.popen('id').read() }}",
    "{{ cycler.__init__.__globals__ }}",
    "{{ joiner }}",
    "{{ namespace(a=1) }}",
    "{{ config }}",
    "{{ request.application }}",
    "{{ range(3) }}",
    "{{ dict(a=1) }}",
    "{{ ctx.get('s') }}",
    "{{ ctx.small() }}",
    "{{ loop.index }}",
    "{{ caller() }}",
    "{{ ctx is mapping }}",
    "{{ ctx.s is string }}",
    "{% include '/etc/passwd' %}",
    "{% import 'os' as os %}",
    "{% set x = 1 %}",
    "{% for a in ctx.ones %}{% for b in ctx.ones %}x{% endfor %}{% endfor %}",
    "{%- raw %}{{ ctx }}{% endraw %}",
    "{# comment #}",
    "{{ ctx | xmlattr }}",
    "{{ ctx.s | safe }}",
    "{{ ctx | pprint }}",
    "{{ ctx.small | random }}",
]


@pytest.mark.parametrize("text", ESCAPES)
def test_there_is_no_road_from_data_to_the_machine(text: str) -> None:
    with pytest.raises(TemplateError):
        Template(text).resolve(CONTEXT)


AMPLIFIERS = [
    "{{ 'a' * 10000000000 }}",
    "{{ [1] * 10000000000 }}",
    "{{ 9 ** 9 ** 9 }}",
    "{{ '%9999999999d' % 1 }}",
    "{{ 'a' | center(10000000000) }}",
    "{{ 1 | round(-1000000000) }}",
    "{{ " + "*".join(["999999999"] * 20) + " }}",
    "{{ " + " + ".join(["ctx.ones"] * 20) + " }}",
    "{{ [" + ",".join(["ctx.ones"] * 200) + "] }}",
    "{{ {" + ",".join(f"'{index}': ctx.s" for index in range(100)) + "} }}",
    "{{ " + " ~ ".join(["ctx.s"] * 200) + " }}",
    "{{ctx.s}}" * 399,
    "{{ ctx.s | replace('a', ctx.s) }}",
    "{{ ctx.s | replace('', ctx.s) }}",
    "{{ ctx.ones | join(ctx.s) }}",
    "{{ [ctx.s, ctx.s] | join }}",
    "{{ ctx.quotes | tojson | tojson }}",
    '{{ \'""""""""""\' ' + "| tojson" * 20 + " }}",
    "{{ ctx }}",
    "{{ ctx | tojson }}",
    "all of it: {{ ctx }}",
    "{{ ctx | values }}",
    "{{ [[[ctx.s]], [[ctx.s]]] }}",
    "{{ ctx.objects | map('absent', default=ctx.s) }}",
    "{{ ctx.s | split('a') | map('0', default=ctx.s) }}",
    "{{ ctx.objects | groupby('absent', default=ctx.s) | map('key') | join(ctx.s) }}",
]


@pytest.mark.parametrize("text", AMPLIFIERS)
def test_nothing_grows_beyond_a_megabyte(text: str) -> None:
    _assert_harmless(text, ends="refused")


EXHAUSTERS = [
    "{{ " + " and ".join(["ctx.ones == ctx.twin"] * 20) + " }}",
    "{{ctx.nested == ctx.nested_twin}}" * 399,
    "{{9 in ctx.ones}}" * 399,
    "{{'b' in ctx.s}}" * 399,
    "{{ctx.numbers | sort | length}}" * 399,
    "{{ctx.numbers | unique | length}}" * 399,
    "{{ctx.objects | sort(attribute='n') | length}}" * 399,
    "{{ctx.ones | sum}}" * 399,
    "{{ctx.words | min}}" * 399,
    "{{ctx.words | join | length}}" * 399,
    "{{ctx.s | upper | length}}" * 399,
    "{{ctx.ones | tojson | length}}" * 399,
    "{{ctx.lists | fromjson | length}}" * 399,
    "{{ctx.s | split('a') | length}}" * 399,
    "{{ctx.ones | slice(1) | length}}" * 399,
    "{{ctx.objects | where('n', 1, '>') | length}}" * 399,
    "{{ctx.objects | groupby('n') | length}}" * 399,
    "{{ctx.ones | contains(9)}}" * 399,
    "{{ctx.s | regex_find('b')}}" * 399,
    "{{ctx.s | regex_find('(a|aa)+b', 1)}}",
]


@pytest.mark.parametrize("text", EXHAUSTERS, ids=lambda text: text[:30])
def test_work_on_large_data_ends_at_the_budget(text: str) -> None:
    _assert_harmless(text, ends="refused")


NESTINGS = [
    "{{ " + "(" * 1000 + "1" + ")" * 1000 + " }}",
    "{{ " + "[" * 1000 + "]" * 1000 + " }}",
    "{{ " + "{'a':" * 300 + "1" + "}" * 300 + " }}",
    "{{ " + "not " * 500 + "1 }}",
    "{{ " + "-" * 2000 + "1 }}",
    "{{ " + "1 if 1 else " * 150 + "1 }}",
    "{{ " + "1 + " * 500 + "1 }}",
    "{{ 1 " + "| string " * 200 + "}}",
    "{{ ctx" + ".a" * 1000 + " }}",
    "{{ ctx" + "[ctx" * 400 + "]" * 400 + " }}",
    "{{" * 30_000,
    "{{ ( " * 15_000,
    "{{ '" + "a" * 60_000,
    "{{ '" + "\\" * 2_000 + "}}",
    "{{ '" * 20_000,
    "{{ ctx.s | trim(ctx.s) }}",
    "{{ [1] | sum(attribute=ctx.dots) }}",
    "{{ ctx.deep | fromjson }}",
    "{{ (ctx.deep | fromjson) == (ctx.deep | fromjson) }}",
]


@pytest.mark.parametrize("text", NESTINGS, ids=lambda text: text[:20])
def test_nesting_and_length_end_in_an_error_and_not_in_the_parser(text: str) -> None:
    _assert_harmless(text, ends="refused")


SLOW_TRUTHS = [
    "{{ ctx.s | int }}",
    "{{ ('9' ~ ctx.small | join) | int }}",
    "{{ ctx.numbers | sort | last }}",
    "{{ ctx.ones | sum }}",
    "{{ ctx.objects | sum(attribute='n') }}",
    "{{ ctx.lists | fromjson | length }}",
    "{{ ctx.ones == ctx.twin }}",
    "{{ ctx.ones | join(',') | length }}",
]


@pytest.mark.parametrize("text", SLOW_TRUTHS)
def test_honest_work_on_the_largest_values_is_within_the_budget(text: str) -> None:
    _assert_harmless(text, ends="resolved")


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("{{ " + "(" * 1000 + "1" + ")" * 1000 + " }}", "an expression is nested more than 24 levels"),
        ("{{ [1] | sum(attribute=ctx.dots) }}", "at most 256 characters"),
    ],
)
def test_a_limit_is_reached_before_the_work_that_it_is_there_for(text: str, limit: str) -> None:
    with pytest.raises(TemplateError, match=limit):
        Template(text).resolve(CONTEXT)


def test_a_config_of_many_templates_has_one_budget() -> None:
    config = [["{{ctx.nested == ctx.nested_twin}}"] for _ in range(2_000)]
    started = time.process_time()
    with pytest.raises(TemplateError, match="processes more than"):
        compile_config(config).resolve(CONTEXT)
    assert (time.process_time() - started) * 1_000 < CPU_MS_MAX


def _assert_harmless(text: str, *, ends: str) -> None:
    memory_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started = time.process_time()
    try:
        Template(text).resolve(CONTEXT)
        ended = "resolved"
    except TemplateError:
        ended = "refused"
    cpu_ms = (time.process_time() - started) * 1_000
    grown_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory_kb
    assert ended == ends, f"{text[:80]!r} was {ended}"
    assert cpu_ms < CPU_MS_MAX, f"{text[:80]!r} took {cpu_ms:.0f} ms of processor time"
    assert grown_kb < MEMORY_KB_MAX, f"{text[:80]!r} needed {grown_kb} KB"

"""What code sees, what it may return, and how its errors read: in both languages alike where they can be."""

# ruff: noqa: E501 -- programs

from __future__ import annotations

from typing import Any

import pytest

from tests.handlers.sandbox.running import LANGUAGES, Coding

VALUES: list[Any] = [
    None, True, 0, -1, 2**53, 1.5, -0.25, "", "text", "é 漢 😀", "a\nb\t\"'\\", [], {}, [1, [2, [3]]],
    {"a": {"b": [1, None]}}, {"z": 1, "a": 2}, {"__proto__x": 1}, {"with space": {"": 0}},
]  # fmt: skip


@pytest.mark.parametrize("language", LANGUAGES)
async def test_what_code_returns_is_what_it_was_given(code: Coding, language: str):
    field = {"python": "return ctx['value']", "javascript": "return ctx.value"}[language]
    for value in VALUES:
        assert await code.run(language, field, {"value": value}) == value


@pytest.mark.parametrize("language", LANGUAGES)
async def test_key_order_is_kept(code: Coding, language: str):
    value = await code.run(language, "return ctx", {"z": 1, "a": {"y": 1, "b": 2}})
    assert list(value) == ["z", "a"]
    assert list(value["a"]) == ["y", "b"]


async def test_javascript_awaits(code: Coding):
    assert await code.run("javascript", "const x = await Promise.resolve(2); return await (async () => x * 2)()") == 4
    assert await code.run("javascript", "return Promise.all([1, Promise.resolve(2)])") == [1, 2]
    assert await code.run("javascript", "1 + 1") is None


async def test_python_has_the_statements_that_glue_is_made_of(code: Coding):
    body = """
counts: dict = {}
for name, n in ctx["pairs"]:
    counts[name] = counts.get(name, 0)
    counts[name] += n
class Total:
    def __init__(self):
        self.value = 0
    def add(self, n):
        self.value = self.value + n
total = Total()
for n in counts.values():
    total.add(n)
first, *rest = sorted(counts, reverse=True)
return {"counts": counts, "total": total.value, "first": first, "rest": rest, "text": f"{total.value:>5}",
        "zip": list(zip([1], (2,))), "set": sorted({3, 1}), "any": any(n > 2 for n in counts.values())}
"""
    assert await code.run("python", body, {"pairs": [["a", 1], ["b", 2], ["a", 2]]}) == {
        "counts": {"a": 3, "b": 2}, "total": 5, "first": "b", "rest": ["a"], "text": "    5",
        "zip": [[1, 2]], "set": [1, 3], "any": True,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("body", "value"),
    [
        ("import math\nreturn math.floor(math.pi)", 3),
        ("import json\nreturn json.loads(json.dumps({'a': [1]}))", {"a": [1]}),
        ("import re\nreturn [m.group(1) for m in re.finditer(r'(\\d+)', 'a1b22')]", ["1", "22"]),
        ("from datetime import datetime, timedelta\nreturn (datetime(2026, 1, 31) + timedelta(days=1)).isoformat()", "2026-02-01T00:00:00"),
        ("import datetime\nreturn datetime.datetime.strptime('31.01.2026', '%d.%m.%Y').strftime('%A')", "Saturday"),
        ("import base64\nreturn base64.b64encode(b'a').decode()", "YQ=="),
        ("import hashlib\nreturn hashlib.sha256(b'').hexdigest()[:8]", "e3b0c442"),
        ("import hmac\nreturn hmac.new(b'k', b'm', 'sha256').hexdigest()[:8]", "b60090e3"),
        ("from decimal import Decimal as D\nreturn str(D('0.1') + D('0.2'))", "0.3"),
        ("import itertools\nreturn [list(p) for p in itertools.pairwise([1, 2, 3])]", [[1, 2], [2, 3]]),
        ("import statistics\nreturn statistics.median([3, 1, 2])", 2),
        ("import random\nrandom.seed(1)\nreturn 0 <= random.random() < 1", True),
        ("import collections\nreturn collections.Counter('aab').most_common(1)", [["a", 2]]),
        ("from urllib.parse import urlencode\nreturn urlencode({'a': 'é'})", "a=%C3%A9"),
        ("# only a comment", None),
        ("return '\\N{BULLET}'.encode('utf-16-le').hex()", "2220"),
    ],
)  # fmt: skip
async def test_python_imports_chosen_functions(code: Coding, body: str, value: Any):
    assert await code.run("python", body) == value


@pytest.mark.parametrize("language", LANGUAGES)
async def test_two_processes_draw_different_dice(code: Coding, language: str):
    body = {"python": "import random\nreturn random.random()", "javascript": "return Math.random()"}[language]
    assert len({await code.run(language, body) for _ in range(5)}) == 5


@pytest.mark.parametrize("language", LANGUAGES)
async def test_nothing_is_left_for_the_next_execution(code: Coding, language: str):
    leave = {
        "python": "import math\nctx['x'] = 1\nreturn 1",
        "javascript": "globalThis.left = 1; Array.prototype.left = 1; return 1",
    }
    look = {
        "python": "return 'x' in ctx",
        "javascript": "return globalThis.left !== undefined || [].left !== undefined",
    }
    for _ in range(4):
        await code.run(language, leave[language])
    assert await code.run(language, look[language]) is False


NOT_STORABLE = [
    ("python", "return float('nan')"),
    ("python", "return {'a': [float('inf')]}"),
    ("python", "return {1: 2}"),
    ("python", "return {'1': 1, 1: 2}"),
    ("python", "return {1, 2}"),
    ("python", "return ctx.get"),
    ("python", "return b'bytes'"),
    ("python", "return 2 ** 70"),
    ("python", "return 'a\\x00b'"),
    ("python", "return {'a\\x00': 1}"),
    ("python", "return '\\ud800'"),
    ("python", "a = []\na.append(a)\nreturn a"),
    ("python", "d = 1\nfor i in range(65):\n    d = [d]\nreturn d"),
    ("python", "import decimal\nreturn decimal.Decimal('1')"),
    ("python", "yield 1"),
    ("javascript", "return NaN"),
    ("javascript", "return {a: [1/0]}"),
    ("javascript", "return () => 1"),
    ("javascript", "return Symbol('a')"),
    ("javascript", "return '\\ud800'"),
    ("javascript", "let d = 1; for (let i = 0; i < 65; i++) d = [d]; return d"),
]


async def test_what_is_no_json_is_refused_and_not_tried_again(code: Coding):
    for language, body in NOT_STORABLE:
        failure = await code.failure(language, body)
        assert (failure.code, failure.retryable) == ("VALUE_NOT_STORABLE", False), (body, failure.code, str(failure))


async def test_64_levels_may_be_returned(code: Coding):
    for language, body in [
        ("python", "d = 1\nfor i in range(64):\n    d = [d]\nreturn d"),
        ("javascript", "let d = 1; for (let i = 0; i < 64; i++) d = [d]; return d"),
    ]:
        assert str(await code.run(language, body)).count("[") == 64


async def test_a_value_over_its_limit_is_refused_whatever_its_form(code: Coding):
    for language, body in [
        ("python", "return 'x' * 1_048_576"),
        ("python", "a = [0] * 10\nfor i in range(20):\n    a = [a] * 10\nreturn a"),
        ("javascript", "return 'x'.repeat(1048576)"),
        ("javascript", "let a = [0]; for (let i = 0; i < 20; i++) a = Array(10).fill(a); return a"),
    ]:
        failure = await code.failure(language, body)
        assert (failure.code, failure.retryable) == ("VALUE_TOO_LARGE", False), (body, str(failure))
    assert len(await code.run("python", "return 'x' * 1_048_574")) == 1_048_574


async def test_errors_carry_type_message_and_line(code: Coding):
    for language, body, type_name, message in [
        ("python", "x = 1\n\nreturn x / 0", "ZeroDivisionError", "line 3: division by zero"),
        ("python", "def f():\n    raise ValueError('no')\nf()", "ValueError", "line 2: no"),
        ("python", "import json\njson.loads('{')", "JSONDecodeError", "line 2: "),
        ("python", "raise SystemExit(1)", "SystemExit", "line 1: 1"),
        ("python", "return ctx.input", "AttributeError", "write ['input']"),
        ("python", "def f():\n    return f()\nf()", "RecursionError", "line 2: "),
        ("javascript", "const x = 1;\n\nnull.x", "TypeError", "line 3, column 1: "),
        ("javascript", "function f() {\n  throw new RangeError('no');\n}\nf()", "RangeError", "line 2, column 13: no"),
        ("javascript", "await 0;\nJSON.parse('{')", "SyntaxError", "line 2, column 6: "),
        ("javascript", "throw 'text'", "string", "text"),
        ("javascript", "throw null", "null", "null"),
        ("javascript", "await new Promise(() => {})", "NeverSettled", "can settle"),
        ("javascript", "return 10n", "TypeError", "BigInt"),
        ("javascript", "function f() { return f() }\nf()", "RangeError", "stack"),
        ("javascript", "return fetch('http://a.b')", "TypeError", "allowFetch"),
    ]:
        failure = await code.failure(language, body, {"input": 1})
        assert (failure.code, failure.type_name, failure.retryable) == ("CODE_ERROR", type_name, True), (
            body,
            str(failure),
        )
        assert message in str(failure), (body, str(failure))


async def test_errors_name_every_call_in_the_code_with_its_line(code: Coding):
    python = await code.failure("python", "def half(x):\n    return 1 / x\nreturn half(0)")
    script = await code.failure("javascript", "function half(x) {\n  return x.y.z;\n}\nreturn half({});")

    assert python.traceback == (
        '  File "<code>", line 3\n    return half(0)\n  File "<code>", line 2, in half\n    return 1 / x\n'
    )
    assert script.traceback == (
        '  File "<code>", line 4, column 8\n    return half({});\n'
        '  File "<code>", line 2, column 10, in half\n    return x.y.z;\n'
    )


async def test_a_context_as_large_as_a_run_may_have_gets_through(code: Coding):
    context = {"rows": [{"id": number, "text": "x" * 100} for number in range(100_000)]}
    for language, body in [("python", "return len(ctx['rows'])"), ("javascript", "return ctx.rows.length")]:
        assert await code.run(language, body, context, memory_mb=512) == 100_000


@pytest.mark.parametrize("language", LANGUAGES)
async def test_a_context_beyond_its_limits_is_refused_before_it_is_sent(code: Coding, language: str):
    assert (await code.failure(language, "return 1", {"a": "x" * 17_000_000})).code == "CONTEXT_TOO_LARGE"
    deep: Any = 1
    for _ in range(300):
        deep = [deep]
    assert (await code.failure(language, "return 1", {"a": deep})).code == "VALUE_NOT_STORABLE"
    assert code.sandbox.health()["state"] == "idle"

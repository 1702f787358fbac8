"""Time, memory and logs: each has its limit, and reaching it has its answer."""

from __future__ import annotations

import time

import pytest

from anabranch.handlers.sandbox.inside import sealed_wire as wire
from tests.handlers.sandbox.running import LANGUAGES, PATIENCE_S, SPIN, Coding


@pytest.mark.parametrize("language", LANGUAGES)
async def test_code_that_does_not_end_is_killed_on_time(code: Coding, language: str):
    await code.is_sound(language)
    began = time.monotonic()
    failure = await code.failure(language, SPIN[language], timeout_ms=300)
    elapsed = time.monotonic() - began
    assert (failure.code, failure.retryable) == ("CODE_TIMEOUT", True)
    assert "300 ms" in str(failure)
    assert 0.3 <= elapsed < PATIENCE_S
    assert await code.is_sound(language)


MEMORY = [
    ("python", "a = []\nwhile True:\n    a.append('x' * 1_000_000 + str(len(a)))"),
    ("python", "return len('x' * 10**10)"),
    ("python", "return len(bytearray(10**9))"),
    ("python", "return len([0] * 10**9)"),
    ("python", "x = 'x'\nwhile True:\n    x += x"),
    ("javascript", "const a = []; while (true) a.push(new Array(1000).fill(a.length))"),
    ("javascript", "return 'x'.repeat(2 ** 29).length"),
    ("javascript", "return new ArrayBuffer(2 ** 30).byteLength"),
    ("javascript", "let s = 'x'; while (true) s += s + Math.random()"),
    ("javascript", "const o = {}; for (let i = 0; ; i++) o['key' + i] = {i}"),
]


async def test_code_that_needs_more_memory_than_it_may_have_says_so(code: Coding):
    for language, body in MEMORY:
        failure = await code.failure(language, body)
        assert (failure.code, failure.retryable) == ("CODE_MEMORY", True), (body, failure.code, str(failure))
        assert await code.is_sound(language)


@pytest.mark.parametrize("language", LANGUAGES)
async def test_a_higher_limit_of_memory_gives_more_memory(code: Coding, language: str):
    body = {
        "python": "return len(bytearray(400_000_000))",
        "javascript": "return new ArrayBuffer(400000000).byteLength",
    }[language]
    assert (await code.failure(language, body)).code == "CODE_MEMORY"
    assert await code.run(language, body, memory_mb=600) == 400_000_000


PRINT = {"python": "print({})", "javascript": "console.log({})"}


async def test_what_code_prints_is_logged_while_it_runs(code: Coding):
    await code.run("python", "print('a', 1, [2], sep='-')\nprint()\nreturn 1")
    assert code.lines == [("info", "a-1-[2]"), ("info", "")]
    code.lines.clear()
    await code.run(
        "javascript", "console.log('a', 1, {b: [2]}); console.error(null); console.warn(undefined); console.debug('d')"
    )
    assert code.lines == [("log", 'a 1 {"b":[2]}'), ("error", "null"), ("warn", "undefined"), ("debug", "d")]


@pytest.mark.parametrize("language", LANGUAGES)
async def test_the_log_of_killed_code_is_kept(code: Coding, language: str):
    body = f"{PRINT[language].format('7')}\n{SPIN[language]}"
    # Time enough to get to the line on a slow machine.
    assert (await code.failure(language, body, timeout_ms=1_500)).code == "CODE_TIMEOUT"
    assert [text for _, text in code.lines] == ["7"]


FLOODS = [
    ("python", "for i in range(10**6):\n    print('x' * 100)\nreturn 'done'"),
    ("python", "for i in range(10**5):\n    print(i)\nreturn 'done'"),
    ("python", "print('x' * 10**7)\nreturn 'done'"),
    ("javascript", "for (let i = 0; i < 1e5; i++) console.log('x'.repeat(100)); return 'done'"),
    ("javascript", "for (let i = 0; i < 1e5; i++) console.log(i); return 'done'"),
    ("javascript", "console.log('x'.repeat(1e7)); return 'done'"),
]


async def test_a_log_is_cut_off_while_it_is_produced(code: Coding):
    for language, body in FLOODS:
        code.lines.clear()
        assert await code.run(language, body) == "done"
        assert len(code.lines) <= wire.LOG_LINES_MAX
        assert sum(len(text) for _, text in code.lines) <= wire.LOG_BYTES_MAX + wire.LOG_LINE_BYTES_MAX
        assert max(len(text) for _, text in code.lines) <= wire.LOG_LINE_BYTES_MAX
        assert len(code.lines) == 1 or code.lines[-1][0] == "truncated"

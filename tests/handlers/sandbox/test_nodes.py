"""The node types `javascript` and `python`, as the validator and the task worker meet them."""

# ruff: noqa: E501 -- programs

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from typing import Any

import pytest

from anabranch.engine.handler_contract import HandlerResult
from anabranch.errors import NodeFailure, NonRetryable
from anabranch.handlers import NodeTypeRegistry, load_types
from anabranch.handlers.services import Services
from anabranch.handlers.types.code_node import CODE_BYTES_MAX
from tests.handlers.running import problems, run
from tests.handlers.sandbox.running import LANGUAGES, SPIN, Coding


@pytest.fixture
def types(code: Coding) -> Iterator[NodeTypeRegistry]:
    yield load_types(Services(sandbox=code.sandbox))


async def test_code_reads_ctx_and_returns_the_output(types: NodeTypeRegistry):
    assert await run("javascript", {"code": "return ctx.a.b + 1"}, {"a": {"b": 1}}, types=types) == HandlerResult(2)
    assert await run("python", {"code": "return ctx['a']['b'] + 1"}, {"a": {"b": 1}}, types=types) == HandlerResult(2)


@pytest.mark.parametrize("language", LANGUAGES)
async def test_code_is_no_template(types: NodeTypeRegistry, language: str):
    body = "return '{{ctx.a}} {% if %} {# #}'"
    assert problems(language, {"code": body}, types=types) == []
    assert await run(language, {"code": body}, {"a": 1}, types=types) == HandlerResult("{{ctx.a}} {% if %} {# #}")


@pytest.mark.parametrize("language", LANGUAGES)
async def test_the_limits_may_be_templates(types: NodeTypeRegistry, language: str):
    config = {"code": SPIN[language], "timeout": "{{ctx.t}}"}
    assert problems(language, config, types=types) == []
    with pytest.raises(NodeFailure, match="200 ms") as failure:
        await run(language, config, {"t": "200ms"}, types=types)
    assert failure.value.code == "CODE_TIMEOUT"
    with pytest.raises(NonRetryable):
        await run(language, config, {"t": "2h"}, types=types)


@pytest.mark.parametrize(
    ("language", "body", "message"),
    [
        ("python", "x = 1\nreturn (x +", "line 2, column 8: '(' was never closed"),
        ("python", "x = 1\n  return x", "line 2, column 2: unexpected indent"),
        ("python", "\nreturn ctx.__class__", 'line 2, column 8: "__class__" is an invalid attribute name because it starts with "_".'),
        ("python", "async def f():\n    pass", "line 1, column 1: AsyncFunctionDef statements are not allowed."),
        ("python", "break", "line 1, column 1: 'break' outside loop"),
        ("python", "x = '\x00'", "line 1, column 1: source code string cannot contain null bytes"),
        ("python", "x = " + "-" * 100_000 + "1", "line 1, column 1: the code is nested too deep"),
        ("javascript", "let x = 1;\nlet y = ;", "line 2, column 9: unexpected token in expression: ';'"),
        ("javascript", "let x;\nlet x;", "line 2, column 6: invalid redefinition of lexical identifier"),
        ("javascript", "}); (async function () {", "line 1, column 1: the braces of the code are not balanced: it leaves its function"),
        ("javascript", "return `", "line 1, column 8: unexpected end of string"),
    ],
)  # fmt: skip
async def test_code_that_does_not_compile_is_refused_with_its_place(
    types: NodeTypeRegistry, language: str, body: str, message: str
):
    node_type = types.get(language)
    assert node_type is not None
    line, column = (int(number) for number in re.findall(r"\d+", message)[:2])
    assert list(node_type.check({"code": body})) == [("CODE_INVALID", "/code", message, (line, column))]


async def test_all_that_python_forbids_is_listed_at_once(types: NodeTypeRegistry):
    assert problems("python", {"code": "_a = 1\nexec('x')\nb.__dict__"}, types=types) == [("CODE_INVALID", "/code")] * 3


@pytest.mark.parametrize("language", LANGUAGES)
async def test_checking_runs_nothing(types: NodeTypeRegistry, code: Coding, language: str):
    body = {"python": f"def f(x=print('ran')): pass\n{SPIN['python']}", "javascript": SPIN["javascript"]}[language]
    assert problems(language, {"code": body}, types=types) == [], "and it comes to an end, which the code does not"
    assert code.sandbox.health()["forkServers"] == {}


@pytest.mark.parametrize("language", LANGUAGES)
async def test_code_and_limits_have_bounds(types: NodeTypeRegistry, language: str):
    assert problems(language, {}, types=types)
    assert problems(language, {"code": 1}, types=types)
    assert problems(language, {"code": "x" * (CODE_BYTES_MAX + 1)}, types=types) == [("SCHEMA", "/code")]
    assert problems(language, {"code": "#é" + "é" * (CODE_BYTES_MAX // 2)}, types=types) == [("CODE_INVALID", "/code")]
    for bad in (
        {"memoryLimitMB": 4},
        {"memoryLimitMB": 1_025},
        {"memoryLimitMB": 64.5},
        {"timeout": 0},
        {"timeout": "2h"},
    ):
        assert problems(language, {"code": "return 1", **bad}, types=types), bad
    assert problems("python", {"code": "return 1", "allowFetch": True}, types=types)
    assert problems("javascript", {"code": "return 1", "allowFetch": True}, types=types) == []


async def test_lines_go_to_the_log_of_the_node_each_as_one(types: NodeTypeRegistry, caplog: pytest.LogCaptureFixture):
    body = "console.error('a\\nb\\u001b[31m'); console.log('é 漢')"
    with caplog.at_level(logging.DEBUG, logger="anabranch.handlers"):
        await run("javascript", {"code": body}, types=types)
    assert [(record.levelname, record.getMessage()) for record in caplog.records if record.name == "anabranch.handlers"] == [
        ("ERROR", r"a\nb\x1b[31m"), ("INFO", "é 漢")
    ]  # fmt: skip


async def test_without_a_sandbox_nothing_runs_and_the_error_says_why():
    config: dict[str, Any] = {"code": "return 1"}
    with pytest.raises(NodeFailure) as failure:
        await run("python", config)
    assert (failure.value.code, failure.value.retryable) == ("SANDBOX_UNAVAILABLE", False)
    assert problems("python", {"code": "return ("}) == []

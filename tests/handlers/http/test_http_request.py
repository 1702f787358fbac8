"""`httpRequest`: what it sends, what it makes of answers, and which failures are worth another attempt."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Mapping
from typing import Any

import pytest
from aiohttp import web

from anabranch.engine.rules.duration import DURATION_MS_MAX
from anabranch.engine.rules.values import VALUE_BYTES_MAX
from anabranch.errors import (
    EgressRefused,
    HttpAnswerInvalid,
    HttpRefused,
    HttpUnreachable,
    NodeFailure,
    NonRetryable,
    ValueNotStorable,
    ValueTooLarge,
)
from anabranch.handlers import builtin_types
from tests.egress.servers import Server, never_holding_up, serving
from tests.handlers.http.calling import call, types_for
from tests.handlers.running import NOW_MS, problems, run


def answering(
    body: bytes | str = b"", kind: str = "", status: int = 200, headers: Mapping[str, str] | None = None
) -> Any:
    async def answer(request: web.Request) -> web.Response:
        data = body.encode() if isinstance(body, str) else body
        response = web.Response(body=data, status=status, headers=headers)
        if kind:
            response.headers["Content-Type"] = kind
        return response

    return answer


async def sent(config: dict[str, Any], **options: Any) -> tuple[str, str, dict[str, str], bytes]:
    """What a server gets of a node with this config."""
    async with serving(answering()) as server:
        await call(server, config, **options)
    (request,) = server.requests
    return request


# -- what is sent --------------------------------------------------------------------------


async def test_it_sends_a_get_and_gives_status_headers_and_body() -> None:
    async with serving(answering('{"a": [1, 2.5, null]}', "application/json")) as server:
        output = await call(server, {"url": f"{server.url}/x"})

    assert (output["status"], output["body"]) == (200, {"a": [1, 2.5, None]})
    assert output["headers"]["content-type"] == "application/json"
    assert server.requests[0][:2] == ("GET", "/x")


async def test_it_sends_the_idempotency_key_of_the_activation() -> None:
    async with serving(answering()) as server:
        await call(server)
        await call(server)
    keys = {headers["idempotency-key"] for _, _, headers, _ in server.requests}
    assert len(keys) == 1 and len(keys.pop()) == 32


async def test_an_idempotency_key_of_ones_own_is_kept() -> None:
    _, _, headers, _ = await sent({"headers": {"idempotency-key": "mine"}})
    assert headers["idempotency-key"] == "mine"


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "post"])
async def test_it_sends_every_method(method: str) -> None:
    assert (await sent({"method": method}))[0] == method.upper()


@pytest.mark.parametrize(
    ("value", "raw"),
    [({"a": "ü", "n": 1}, b'{"a":"\xc3\xbc","n":1}'), (None, b"null"), ([], b"[]"), ("text", b'"text"'), (0, b"0")],
)
async def test_json_is_sent_with_its_content_type(value: Any, raw: bytes) -> None:
    _, _, headers, body = await sent({"method": "POST", "json": value})
    assert (headers["content-type"], body) == ("application/json", raw)


async def test_text_is_sent_as_text_unless_it_says_what_it_is() -> None:
    _, _, headers, body = await sent({"method": "POST", "body": "ü"})
    assert (headers["content-type"], body) == ("text/plain; charset=utf-8", "ü".encode())
    _, _, headers, _ = await sent({"method": "POST", "body": "a=b", "headers": {"content-type": "x/y"}})
    assert headers["content-type"] == "x/y"


async def test_query_and_headers_take_numbers_booleans_lists_and_leave_null_out() -> None:
    config = {
        "query": {"n": 1, "b": True, "s": "a b&c=d", "l": ["x", 2], "none": None},
        "headers": {"X-N": 1, "X-B": False, "X-None": None},
    }
    _, path, headers, _ = await sent(config)
    assert path == "/?n=1&b=true&s=a+b%26c%3Dd&l=x&l=2"
    assert (headers["x-n"], headers["x-b"], "x-none" in headers) == ("1", "false", False)


async def test_query_is_added_to_that_of_the_url() -> None:
    async with serving(answering()) as server:
        await call(server, {"url": f"{server.url}/p?a=1#part", "query": {"b": "2"}})
    assert server.requests[0][1] == "/p?a=1&b=2"


async def test_templates_are_resolved_leaf_by_leaf() -> None:
    config = {
        "method": "{{ctx.m}}",
        "json": {"id": "{{ctx.o.id}}", "all": "{{ctx.o}}"},
        "headers": {"X-Id": "{{ctx.o.id}}"},
    }
    method, _, headers, body = await sent(config, context={"m": "PUT", "o": {"id": 7}})
    assert (method, headers["x-id"], body) == ("PUT", "7", b'{"id":7,"all":{"id":7}}')


@pytest.mark.parametrize(
    ("auth", "header", "value"),
    [
        ({"type": "basic", "username": "me", "password": "p:ü"}, "authorization", "Basic bWU6cDrDvA=="),
        ({"type": "bearer", "token": "t"}, "authorization", "Bearer t"),
        ({"type": "header", "name": "X-Key", "value": "k"}, "x-key", "k"),
    ],
)
async def test_auth_becomes_a_header(auth: dict[str, str], header: str, value: str) -> None:
    assert (await sent({"auth": auth}))[2][header] == value


async def test_auth_may_be_a_part_of_the_query() -> None:
    assert (await sent({"auth": {"type": "query", "name": "key", "value": "a b"}, "query": {"x": 1}}))[
        1
    ] == "/?x=1&key=a+b"


async def test_auth_and_a_header_of_its_name_contradict_each_other() -> None:
    async with serving(answering()) as server:
        with pytest.raises(NodeFailure, match="Authorization") as failure:
            await call(server, {"auth": {"type": "bearer", "token": "t"}, "headers": {"authorization": "x"}})
    assert (failure.value.code, failure.value.retryable) == ("NODE_CONFIG_INVALID", False)


async def test_data_with_line_breaks_cannot_become_headers() -> None:
    async with serving(answering()) as server:
        with pytest.raises(HttpRefused, match="X-Name"):
            await call(server, {"headers": {"X-Name": "{{ctx.name}}"}}, context={"name": "a\r\nX-Admin: 1"})
    assert server.requests == []


async def test_data_in_a_url_cannot_lead_to_an_inner_host() -> None:
    async with serving(answering()) as inner, serving(answering()) as server:
        with pytest.raises(EgressRefused):
            await call(server, {"url": "http://{{ctx.host}}/"}, context={"host": f"127.0.0.1:{inner.port}"})
    assert inner.requests == []


# -- what comes back -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "kind", "value"),
    [
        ("text", "text/plain", "text"),
        ("ü", "text/plain; charset=utf-8", "ü"),
        ("ü".encode("latin-1"), "text/html; charset=ISO-8859-1", "ü"),
        ("ü".encode("utf-16"), "text/plain; charset=utf-16", "ü"),
        ("<a/>", "application/atom+xml", "<a/>"),
        ('{"a": 1}', "application/problem+json; charset=utf-8", {"a": 1}),
        ('{"a": 1}', "Application/JSON", {"a": 1}),
        ('\ufeff"x"', "application/json", "x"),
        ('{"a": 1}', "text/plain", '{"a": 1}'),
        ("", "application/json", None),
        ("", "text/plain", None),
        (b"\x89PNG", "image/png", {"base64": "iVBORw=="}),
        (b"\xff\xfe", "text/plain; charset=utf-8", {"base64": "//4="}),
        (b"x", "application/octet-stream", {"base64": "eA=="}),
        ("xn--" + "a" * 100_000, "text/plain; charset=idna", None),
        (b"x", "text/plain; charset=rot13", {"base64": "eA=="}),
    ],
)
async def test_a_body_is_json_text_or_base64(body: bytes | str, kind: str, value: Any) -> None:
    async with serving(answering(body, kind)) as server, never_holding_up():
        output = await call(server)
    if "idna" in kind:
        value = {"base64": base64.b64encode(body.encode() if isinstance(body, str) else body).decode()}
    assert output["body"] == value


@pytest.mark.parametrize("body", ["{", "{'a': 1}", '{"a": 1, "a": 2}', "<html>", b"\xff"])
async def test_broken_json_is_a_clear_failure(body: bytes | str) -> None:
    async with serving(answering(body, "application/json")) as server:
        with pytest.raises(HttpAnswerInvalid, match="the answer"):
            await call(server)


@pytest.mark.parametrize(
    "body", ["NaN", "[Infinity]", "99999999999999999999999", '"\\u0000"', '"\\ud800"', "[" * 70 + "]" * 70]
)
async def test_json_that_cannot_be_stored_is_refused(body: str) -> None:
    async with serving(answering(body, "application/json")) as server:
        with pytest.raises(ValueNotStorable):
            await call(server)


@pytest.mark.parametrize("body", ["[" * 100_000, "[" * 100_000 + "]" * 100_000, '{"a":' * 50_000])
async def test_deep_json_ends_in_an_error_and_not_in_the_parser(body: str) -> None:
    async with serving(answering(body, "application/json")) as server, never_holding_up():
        with pytest.raises((ValueNotStorable, HttpAnswerInvalid)):
            await call(server)


LARGE = {
    "text": ("a" * (VALUE_BYTES_MAX + 1), "text/plain"),
    "bytes": (b"\x00" * (VALUE_BYTES_MAX + 1), "image/png"),
    "JSON": ("[" + "1," * (2 * VALUE_BYTES_MAX) + "1]", "application/json"),
    "beyond the body's limit": (b" " * (11 * VALUE_BYTES_MAX), "text/plain"),
}


@pytest.mark.parametrize(("body", "kind"), LARGE.values(), ids=LARGE)
async def test_what_is_larger_than_a_value_may_be_is_refused(body: bytes | str, kind: str) -> None:
    async with serving(answering(body, kind)) as server, never_holding_up():
        with pytest.raises(ValueTooLarge):
            await call(server)


async def test_the_largest_json_is_read_without_holding_up_anybody() -> None:
    async with serving(answering("[" + "1," * 500_000 + "1]", "application/json")) as server, never_holding_up():
        assert len((await call(server))["body"]) == 500_001


async def test_two_hundred_requests_at_once_are_answered() -> None:
    async with serving(answering('"x"', "application/json")) as server, never_holding_up():
        types = types_for(server)
        outputs = await asyncio.gather(*(call(server, types=types) for _ in range(200)))
    assert [output["body"] for output in outputs] == ["x"] * 200


# -- failures ------------------------------------------------------------------------------


async def failure_of(status: int, headers: Mapping[str, str] | None = None, **config: Any) -> NodeFailure:
    async with serving(answering("not today\n\x1b[31m", "text/plain", status, headers)) as server:
        with pytest.raises(NodeFailure) as failure:
            await call(server, config)
    return failure.value


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504, 599])
async def test_a_status_that_may_pass_is_retried(status: int) -> None:
    failure = await failure_of(status)
    assert (failure.code, failure.type_name, failure.retryable) == ("HTTP_STATUS", "HttpStatus", True)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 410, 418, 422, 451, 499])
async def test_a_status_that_stays_is_not_retried(status: int) -> None:
    failure = await failure_of(status)
    assert (failure.code, failure.retryable) == ("HTTP_STATUS", False)
    assert str(status) in str(failure) and "not today" in str(failure) and "\x1b" not in str(failure)


@pytest.mark.parametrize("status", [200, 201, 204, 206, 304, 399])
async def test_below_400_is_success(status: int) -> None:
    async with serving(answering(b"", status=status)) as server:
        assert (await call(server))["status"] == status


async def test_what_ok_statuses_name_is_success_too() -> None:
    async with serving(answering("gone", "text/plain", 404)) as server:
        answer = await call(server, {"okStatuses": [404, 410]})
        assert (answer["status"], answer["headers"]["content-type"], answer["body"]) == (404, "text/plain", "gone")
    assert (await failure_of(403, okStatuses=[404])).code == "HTTP_STATUS"


@pytest.mark.parametrize(
    ("text", "delay_ms"),
    [
        ("0", 0),
        ("7", 7_000),
        (" 120 ", 120_000),
        ("Thu, 01 Jan 2026 00:00:30 GMT", 30_000),
        ("Thursday, 01-Jan-26 00:01:00 GMT", 60_000),
        ("Thu Jan  1 00:00:05 2026", 5_000),
        ("Wed, 31 Dec 2025 23:00:00 GMT", 0),
        ("soon", None),
        ("-5", None),
        ("1.5", None),
        ("\u0663", None),
        ("9" * 300, DURATION_MS_MAX),
    ],
)
async def test_retry_after_is_honoured_in_seconds_and_as_a_date(text: str, delay_ms: int | None) -> None:
    assert NOW_MS == 1_767_225_600_000, "the dates above are meant from there"
    assert (await failure_of(503, {"Retry-After": text})).retry_after_ms == delay_ms


async def test_retry_after_is_not_looked_at_where_nothing_is_retried() -> None:
    assert (await failure_of(403, {"Retry-After": "7"})).retry_after_ms is None


async def test_no_answer_is_worth_another_attempt_and_a_refusal_is_not() -> None:
    with pytest.raises(HttpUnreachable):
        await call(Server(1))
    with pytest.raises(EgressRefused):
        await call(Server(1), {"url": "http://127.0.0.1:2/"})


async def test_a_process_without_a_way_out_says_so() -> None:
    with pytest.raises(NonRetryable, match="cannot send HTTP requests"):
        await run("httpRequest", {"url": "http://good.test/"}, types=builtin_types())


# -- at save -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("config", "found"),
    [
        ({"url": "http://a/", "json": {}, "body": "x"}, ("CONFIG_INVALID", "")),
        ({}, ("SCHEMA", "")),
        ({"url": "http://a/", "method": "FETCH"}, ("SCHEMA", "/method")),
        ({"url": "http://a/", "okStatuses": [1]}, ("SCHEMA", "/okStatuses")),
        ({"url": "http://a/", "auth": {"type": "digest"}}, ("SCHEMA", "/auth")),
        ({"url": "http://a/", "surprise": 1}, ("SCHEMA", "")),
        ({"url": "{{secret}}"}, ("SECRET_NOT_ALLOWED", "/url")),
        ({"url": "{{secret.A | upper}}"}, ("SECRET_NOT_ALLOWED", "/url")),
    ],
)
def test_what_cannot_be_sent_is_refused_at_save(config: dict[str, Any], found: tuple[str, str]) -> None:
    assert found in problems("httpRequest", config)


def test_what_can_be_sent_is_saved() -> None:
    auth = {"type": "basic", "username": "{{ctx.user}}", "password": "{{secret.PASSWORD}}"}
    everything = {"method": "{{ctx.m}}", "url": "https://{{ctx.h}}/", "headers": {"A": "{{ctx.a}}", "B": 1, "C": None},
                  "query": "{{ctx.q}}", "json": {"a": ["{{ctx.x}}"]}, "auth": auth, "followRedirects": False,
                  "okStatuses": [404]}  # fmt: skip
    assert problems("httpRequest", everything) == []


@pytest.mark.parametrize("type_name", ["set", "end", "delay", "waitForEvent"])
def test_types_that_send_nothing_are_given_no_secrets(type_name: str) -> None:
    configs: dict[str, dict[str, Any]] = {
        "set": {"values": {"a": {"b": "x {{secret.A}}"}}},
        "end": {"outputParameters": {"a": "{{secret.A}}"}},
        "delay": {"duration": "{{secret.A}}"},
        "waitForEvent": {"event": "{{secret.A}}"},
    }
    assert [code for code, _ in problems(type_name, configs[type_name])] == ["SECRET_NOT_ALLOWED"]


def test_conditions_and_loops_are_given_no_secrets() -> None:
    condition = {"branches": [{"id": "a", "expression": "{{secret.A == 'x'}}"}]}
    assert "SECRET_NOT_ALLOWED" in [code for code, _ in problems("condition", condition)]
    loop = {"source": "{{ctx.a}}", "yield": "{{secret.A}}"}
    assert "SECRET_NOT_ALLOWED" in [code for code, _ in problems("loop", loop)]

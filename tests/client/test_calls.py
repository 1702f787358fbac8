"""One call: what is repeated and what is not, what answers mean, and where the key goes."""

from __future__ import annotations

import json
import ssl
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from anabranch.client.remote import RemoteGateway
from anabranch.errors import (
    InvalidInput,
    InvalidRequest,
    NotFound,
    ServerAnswerInvalid,
    ServerRefusal,
    ServerUnreachable,
    StoreUnavailable,
    TooManySignals,
    ValueNotStorable,
)
from anabranch.run_requests import StartOptions, retry_options
from tests.certificates import certificate_for
from tests.client.serving import scripted

KEY = "ab_hunter2"
RUN = {"instanceID": "i", "status": "COMPLETED"}


def ok(body: Any, status: int = 200) -> web.Response:
    return web.json_response(body, status=status)


def refused(status: int, code: str, **further: Any) -> web.Response:
    error = {"code": code, "message": "no", "hint": "later", "details": [1], **further}
    return web.json_response({"error": error}, status=status, headers={"Retry-After": "0"})


@pytest.mark.parametrize(
    "setback",
    [
        lambda: refused(503, "STORE_UNAVAILABLE"),
        lambda: refused(429, "TOO_MANY_PENDING"),
        lambda: web.Response(status=502, text="<html>bad gateway</html>"),
        lambda: None,
    ],
    ids=["away", "busy", "proxy", "broken off"],
)
async def test_what_is_only_read_is_asked_for_again(setback: Any) -> None:
    async with scripted(setback(), ok(RUN)) as server, RemoteGateway(server.url, KEY) as service:
        assert await service.get_run("i") == RUN


async def test_a_start_is_repeated_with_one_key() -> None:
    async with scripted(None, ok(RUN)) as server, RemoteGateway(server.url, KEY) as service:
        started = await service.start_run("w", {})

    assert started.created, "it met the run that it had made itself"
    first, second = (json.loads(body)["idempotencyKey"] for *_, body in server.asked)
    assert first == second


async def test_a_start_with_a_known_key_says_that_it_made_nothing() -> None:
    async with scripted(ok(RUN)) as server, RemoteGateway(server.url, KEY) as service:
        assert not (await service.start_run("w", {}, StartOptions(idempotency_key="k"))).created


async def test_a_signal_is_repeated_only_with_a_key() -> None:
    async with scripted(None, ok({"delivered": True}, 202)) as server, RemoteGateway(server.url, KEY) as service:
        assert await service.send_signal("i", "go", None, key="k")
    assert [headers["Idempotency-Key"] for _, _, headers, _ in server.asked] == ["k", "k"]

    async with scripted(None) as server, RemoteGateway(server.url, KEY) as service:
        with pytest.raises(ServerUnreachable):
            await service.send_signal("i", "go", None)
    assert len(server.asked) == 1


async def test_what_would_be_done_twice_is_not_repeated_when_the_server_is_busy() -> None:
    async with scripted(refused(429, "TOO_MANY_SIGNALS")) as server, RemoteGateway(server.url, KEY) as service:
        with pytest.raises(TooManySignals):
            await service.send_signal("i", "go", None)


async def test_the_attempts_are_bounded() -> None:
    answers = [refused(503, "STORE_UNAVAILABLE") for _ in range(9)]
    async with scripted(*answers) as server, RemoteGateway(server.url, KEY) as service:
        with pytest.raises(StoreUnavailable):
            await service.get_run("i")
    assert len(server.asked) == 5


async def test_a_refusal_keeps_its_class_and_words() -> None:
    async with scripted(refused(404, "NOT_FOUND")) as server, RemoteGateway(server.url, KEY) as service:
        with pytest.raises(NotFound) as refusal:
            await service.get_run("i")

    assert refusal.value.as_json() == {"code": "NOT_FOUND", "message": "no", "hint": "later", "details": [1]}


async def test_an_unknown_code_is_kept() -> None:
    async with scripted(refused(418, "TEAPOT")) as server, RemoteGateway(server.url, KEY) as service:
        with pytest.raises(ServerRefusal) as refusal:
            await service.get_run("i")

    assert refusal.value.as_json() == {"code": "TEAPOT", "message": "no", "hint": "later", "details": [1]}


@pytest.mark.parametrize(
    "answer",
    [
        web.Response(status=404, text="<html>nothing here</html>"),
        web.Response(status=200, text="<html>welcome</html>"),
        web.json_response([1, 2]),
        web.json_response({"error": "no"}, status=500),
        web.json_response({"error": {"code": 7, "message": "no"}}, status=400),
    ],
    ids=["strange 404", "page", "list", "no error", "number for a code"],
)
async def test_what_is_not_anabranch_is_said_to_be_something_else(answer: web.Response) -> None:
    async with scripted(answer) as server, RemoteGateway(server.url, KEY) as service:
        with pytest.raises(ServerAnswerInvalid):
            await service.get_run("i")


async def test_a_redirect_is_not_followed_and_takes_the_key_nowhere() -> None:
    async with scripted() as elsewhere:
        redirect = web.Response(status=307, headers={"Location": f"{elsewhere.url}/v1/runs/i"})
        async with scripted(redirect) as server, RemoteGateway(server.url, KEY) as service:
            with pytest.raises(ServerAnswerInvalid, match="redirect"):
                await service.get_run("i")
        assert elsewhere.asked == []


async def test_nobody_at_the_address_is_told_without_the_key() -> None:
    async with RemoteGateway("http://127.0.0.1:1", KEY) as service:
        with pytest.raises(ServerUnreachable) as failure:
            await service.send_signal("i", "go", None)

    assert "http://127.0.0.1:1" in failure.value.message
    assert KEY not in str(failure.value.as_json())


async def test_a_certificate_that_nobody_trusts_gets_no_key(tmp_path: Path) -> None:
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(certificate_for("127.0.0.1", tmp_path))
    async with scripted(ok(RUN), tls=tls) as server, RemoteGateway(server.url, KEY) as service:
        with pytest.raises(ServerUnreachable, match="certificate"):
            await service.get_run("i")
        assert server.asked == []


async def test_a_prefix_stays_before_every_path() -> None:
    async with scripted(ok(RUN)) as server, RemoteGateway(f"{server.url}/a%20b/", KEY) as service:
        await service.get_run("i")

    assert server.asked[0][1] == "/a%20b/v1/runs/i"


@pytest.mark.parametrize("name", ["a/b", "..", ".", "50%", "ä ö", "?x#y", "%2e%2e"])
async def test_a_name_stays_one_part_of_the_path(name: str) -> None:
    async with scripted(ok({})) as server, RemoteGateway(server.url, KEY) as service:
        await service.get_workflow(name)

    assert server.asked[0][1].count("/") == 3


@pytest.mark.parametrize(
    "value",
    [float("nan"), {1: 2}, {"a": {3}}, "\ud800", 2**70],
    ids=["NaN", "number for a key", "set", "surrogate", "wide"],
)
async def test_a_value_that_is_no_json_is_not_sent(value: Any) -> None:
    async with scripted() as server, RemoteGateway(server.url, KEY) as service:
        with pytest.raises(InvalidInput) as refusal:
            await service.start_run("w", value)
        assert refusal.value.details[0]["code"] == ValueNotStorable.code
        assert server.asked == []


async def test_lists_are_read_to_their_end() -> None:
    first = ok({"items": [{"seq": 1}], "nextCursor": "c"})
    last = ok({"items": [{"seq": 2}], "nextCursor": None})
    async with scripted(first, last) as server, RemoteGateway(server.url, KEY) as service:
        assert await service.get_log("i") == [{"seq": 1}, {"seq": 2}]

    assert "cursor=c" in server.asked[1][1]


async def test_waiting_looks_until_the_run_has_ended() -> None:
    answers = [ok({"status": "PENDING"}), ok({"status": "WAITING"}), ok(RUN)]
    async with scripted(*answers) as server, RemoteGateway(server.url, KEY) as service:
        assert await service.wait_for_end("i", timeout_s=30) == RUN


async def test_a_name_that_is_taken_and_freed_meanwhile_is_saved_all_the_same() -> None:
    saved = {"workflowID": "w", "name": "a", "version": 1, "warnings": []}
    answers = [refused(404, "NOT_FOUND"), refused(409, "NAME_TAKEN"), ok(saved)]
    async with scripted(*answers) as server, RemoteGateway(server.url, KEY) as service:
        assert await service.save_workflow({"name": "a"}) == saved

    assert [method for method, *_ in server.asked] == ["PUT", "POST", "PUT"]


@pytest.mark.parametrize(
    "url",
    [
        "",
        "localhost:8321",
        "ftp://a",
        "http://",
        "http://u:hunter2@a",
        "http://a?x=1",
        "http://a#x",
        "http://a b",
        "http://a:x",
    ],
)
def test_what_is_no_url_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        RemoteGateway(url, KEY)

    assert "hunter2" not in str(refusal.value.as_json())


@pytest.mark.parametrize("key", ["", "with space", "line\nbreak", "ü", "x" * 256])
def test_what_no_header_can_carry_is_no_key(key: str) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        RemoteGateway("http://a", key)

    assert not key or key not in str(refusal.value.as_json())


def test_the_caller_is_light() -> None:
    heavy = ("anabranch.service", "anabranch.engine.lifecycle", "anabranch.engine.store", "sqlalchemy", "pydantic")
    program = f"import sys, anabranch.client.remote; print([name for name in {heavy!r} if name in sys.modules])"

    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert printed.stdout.strip() == "[]"


@pytest.mark.parametrize("unknown", ["steps", "deadline_ms", "key"])
def test_an_argument_that_a_retry_does_not_take_is_named_with_those_that_it_takes(unknown: str) -> None:
    with pytest.raises(InvalidRequest, match=f"no argument '{unknown}'; it takes reason, all_failed_steps, new_keys"):
        retry_options({unknown: 1})  # type: ignore[misc]

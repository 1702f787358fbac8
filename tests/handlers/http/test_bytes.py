"""Bodies of bytes: what requests send and read, and what webhooks are answered with; and requests that wait first."""

from __future__ import annotations

import base64
import json
from typing import Any
from urllib.parse import quote

import pytest
from aiohttp import web

from anabranch.engine.rules.responses import response_of
from anabranch.errors import NodeFailure
from tests.egress.servers import serving
from tests.handlers.http.calling import call
from tests.handlers.running import problems

BYTES = b"\x00\xff{}"


async def echo(request: web.Request) -> web.Response:
    return web.Response(body=await request.read(), content_type="application/json")


async def test_base64_is_sent_as_bytes_and_every_body_can_be_read_so() -> None:
    written = base64.b64encode(BYTES).decode()
    async with serving(echo) as server:
        output = await call(
            server, {"url": f"{server.url}/x", "method": "PUT", "base64": written, "response": "base64"}
        )
    (_, _, headers, body) = server.requests[0]

    assert (headers["content-type"], body, output["body"]) == ("application/octet-stream", BYTES, {"base64": written})


async def test_what_is_no_base64_fails() -> None:
    async with serving(echo) as server:
        with pytest.raises(NodeFailure, match="`base64` is not valid base64"):
            await call(server, {"url": f"{server.url}/x", "method": "PUT", "base64": "ä"})

    assert server.requests == []


@pytest.mark.parametrize("written", ["k3y", "a/b c=d", "a long secret of Ångström"])
@pytest.mark.parametrize("asked", [{}, {"response": "base64"}])
async def test_secrets_are_masked_in_bytes_before_these_are_encoded(written: str, asked: dict[str, str]) -> None:
    async def answer(request: web.Request) -> web.Response:
        body = b"\x00\xff1 " + written.encode() + b" 2 " + quote(written, safe="").encode()
        return web.Response(body=body, content_type="application/x-own")

    async with serving(answer) as server:
        config = {"url": f"{server.url}/x", "method": "POST", "body": "{{secret.KEY}}", **asked}
        output = await call(server, config, secrets={"KEY": written})

    assert base64.b64decode(output["body"]["base64"]) == b"\x00\xff1 *** 2 ***"


async def test_parts_of_custom_credentials_are_masked_in_bytes() -> None:
    async def answer(request: web.Request) -> web.Response:
        return web.Response(body=b"\x00\xff pass%20word", content_type="application/x-own")

    async with serving(answer) as server:
        auth = {"type": "custom", "value": "{{secret.KEY}}"}
        given = json.dumps({"headers": {"X-Key": "pass word"}})
        output = await call(server, {"url": f"{server.url}/x", "auth": auth}, secrets={"KEY": given})

    assert base64.b64decode(output["body"]["base64"]) == b"\x00\xff ***"


async def test_a_request_may_wait_before_it_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)

    async with serving(echo) as server:
        monkeypatch.setattr("anabranch.handlers.types.http_request.sleep", sleep)
        await call(server, {"url": f"{server.url}/x", "delay": "150ms"})

    assert waited == [0.15]


def test_one_body_is_given_at_most_and_a_wait_has_an_end() -> None:
    two = problems("httpRequest", {"url": "https://a.example", "json": 1, "base64": "AA=="})
    long = problems("httpRequest", {"url": "https://a.example", "delay": "6m"})

    assert [two[0][0], long[0][0]] == ["CONFIG_INVALID", "CONFIG_INVALID"]


def test_a_response_of_bytes_is_sent_as_it_is() -> None:
    sent = response_of({"status": 200, "headers": {"Content-Type": "image/png"}, "base64": "AP8="})

    assert (sent.body, sent.headers["content-type"]) == (b"\x00\xff", "image/png")
    assert response_of({"base64": "AP8="}).headers["content-type"] == "application/octet-stream"


@pytest.mark.parametrize("written", ["ä", "A", 7, ["AA=="]])
def test_a_response_of_bytes_that_are_none_is_refused(written: Any) -> None:
    with pytest.raises(ValueError, match="base64"):
        response_of({"base64": written})

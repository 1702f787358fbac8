"""Bodies of bytes: what requests send and read, and what webhooks are answered with; and requests that wait first."""

from __future__ import annotations

import base64
import json
from email import message_from_bytes
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


async def test_a_form_has_texts_and_files() -> None:
    written = base64.b64encode(BYTES).decode()
    parts = [{"name": "n", "value": 7}, {"name": "text", "value": "{{ctx.text}}"}, {"name": "none", "value": None},
             {"name": "file", "base64": written, "fileName": 'ä "b".png', "contentType": "image/png"},
             {"name": "other", "base64": "", "fileName": "x"}]  # fmt: skip
    async with serving(echo) as server:
        config = {"method": "POST", "form": parts, "headers": {"content-type": "text/plain"},
                  "response": "base64"}  # fmt: skip
        await call(server, config, context={"text": "ö\r\n--x"})
        _, _, headers, body = server.requests[0]

    form = message_from_bytes(f"Content-Type: {headers['content-type']}\r\n\r\n".encode() + body)
    read = [(each.get_param("name", header="content-disposition"), each.get_content_type(), each.get_payload())
            for each in form.get_payload()]  # fmt: skip
    assert [(name, kind) for name, kind, _ in read] == [
        ("n", "text/plain"), ("text", "text/plain"), ("file", "image/png"), ("other", "application/octet-stream")
    ]  # fmt: skip
    assert "\r\n\r\nö\r\n--x\r\n--anabranch-".encode() in body
    assert b'name="file"; filename="\xc3\xa4 %22b%22.png"\r\nContent-Type: image/png\r\n\r\n\x00\xff{}\r\n' in body


async def test_no_value_of_a_form_reaches_beyond_its_part() -> None:
    async with serving(echo) as server:
        ends = {"name": 'a"\r\nX-Own: 1\r\n\r\n', "base64": "AA==", "fileName": 'b"; x="\r\n\r\n'}
        await call(server, {"method": "POST", "form": [ends], "response": "base64"})
        _, _, headers, body = server.requests[0]
        boundary = headers["content-type"].partition("boundary=")[2]
        other = {"name": "a", "value": f"\r\n--{boundary}--\r\n"}
        await call(server, {"method": "POST", "form": [other], "response": "base64"})
        _, _, other_headers, _ = server.requests[1]

    assert b"\r\nX-Own" not in body
    assert body.count(b"\r\n\r\n") == 1
    assert boundary not in other_headers["content-type"]


@pytest.mark.parametrize(
    "part",
    [
        {"name": "a"},
        {"name": "a", "value": "x", "base64": "AA=="},
        {"name": "", "value": "x"},
        {"name": "a", "base64": "AA==", "contentType": "image/png\r\nX-Own: 1"},
    ],
)
def test_a_part_of_another_form_is_refused(part: dict[str, Any]) -> None:
    assert problems("httpRequest", {"url": "https://a.example", "form": [part]})


async def test_the_url_that_answered_can_be_asked_for() -> None:
    async def answer(request: web.Request) -> web.Response:
        if request.path == "/old":
            raise web.HTTPFound("/new/name.png?k3y-of-mine")
        return web.Response(body=BYTES, content_type="image/png")

    async with serving(answer) as server:
        config = {"url": f"{server.url}/old", "finalURL": True, "headers": {"X-Key": "{{secret.KEY}}"}}
        output = await call(server, config, secrets={"KEY": "k3y-of-mine"})

    assert output["url"] == f"{server.url}/new/name.png?***"

"""`auth` of `httpRequest` that asks for a token, or that adds several parts."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs

import pytest
from aiohttp import web

from anabranch.errors import NodeFailure
from tests.egress.servers import serving
from tests.handlers.http.calling import call, types_for

RENEWING = {"type": "oauth2", "clientID": "me", "clientSecret": "s3cret", "refreshToken": "again"}


class Service:
    """Gives out tokens, and answers to the newest one only."""

    def __init__(self) -> None:
        self.given = 0
        self.asked: list[dict[str, list[str]]] = []

    async def __call__(self, request: web.Request) -> web.Response:
        if request.path == "/token":
            self.asked.append(parse_qs(await request.text()) | {"by": [request.headers.get("Authorization", "")]})
            self.given += 1
            return web.json_response({"access_token": f"token-{self.given}", "expires_in": 3600})
        said = request.headers.get("Authorization", "")
        return web.json_response({"you": said}, status=200 if said == f"Bearer token-{self.given}" else 401)


async def test_a_token_is_asked_for_once_and_renewed_when_it_is_refused() -> None:
    service = Service()
    async with serving(service) as server:
        types = types_for(server)
        config = {"url": f"{server.url}/rows", "auth": {**RENEWING, "tokenURL": f"{server.url}/token"}}
        first = await call(server, config, types=types)
        await call(server, config, types=types)
        assert service.given == 1
        service.given = 7  # what was given out before is no longer taken
        assert (await call(server, config, types=types))["status"] == 200
    assert first["body"] == {"you": "Bearer ***"}
    assert service.given == 8
    assert service.asked[0]["grant_type"] == ["refresh_token"]
    assert service.asked[0]["by"][0].startswith("Basic ")


async def test_without_a_refresh_token_the_client_gets_one_of_its_own() -> None:
    service = Service()
    async with serving(service) as server:
        auth = {"type": "oauth2", "tokenURL": f"{server.url}/token", "clientID": "me", "clientSecret": "s3cret",
                "clientIn": "body", "scope": "rows"}  # fmt: skip
        await call(server, {"auth": auth})
    assert service.asked == [{"grant_type": ["client_credentials"], "client_id": ["me"], "client_secret": ["s3cret"],
                              "scope": ["rows"], "by": [""]}]  # fmt: skip


async def test_a_refused_token_is_a_failure_that_shows_nothing_of_the_answer() -> None:
    async def refusing(request: web.Request) -> web.Response:
        return web.json_response({"error": "again is no good"}, status=400)

    async with serving(refusing) as server:
        with pytest.raises(NodeFailure) as failure:
            await call(server, {"auth": {**RENEWING, "tokenURL": f"{server.url}/token"}})
    assert (failure.value.code, str(failure.value)) == ("HTTP_STATUS", "the token was refused with 400 Bad Request")


async def test_custom_parts_go_before_what_the_request_gives_itself() -> None:
    async def answer(request: web.Request) -> web.Response:
        return web.json_response({"query": dict(request.query), "key": request.headers["x-key"],
                                  "body": await request.json()})  # fmt: skip

    parts = '{"headers": {"X-Key": "first-key"}, "qs": {"a": "2"}, "body": {"token": "third-key"}}'
    async with serving(answer) as server:
        output = await call(server, {"method": "POST", "headers": {"x-key": "mine"}, "json": {"n": 1},
                                     "auth": {"type": "custom", "value": parts}})  # fmt: skip
    assert output["body"]["key"] == "***"
    assert output["body"]["body"] == {"n": 1, "token": "***"}
    assert list(output["body"]["query"]) == ["a"]


async def test_of_custom_parts_what_may_be_secret_is_hidden_and_nothing_else() -> None:
    async def answer(request: web.Request) -> web.Response:
        return web.json_response({"told": [await request.json(), request.headers["authorization"], "2 of 2"]})

    parts = """{"headers": {"Content-Type": "application/json", "X-Version": "2",
                            "Authorization": "Bearer deep-secret"},
                "qs": {"v": 200}, "body": {"auth": {"tokens": ["first-token"]}}}"""
    async with serving(answer) as server:
        output = await call(server, {"method": "POST", "json": {}, "auth": {"type": "custom", "value": parts}})
    assert output["status"] == 200
    assert output["headers"]["content-type"].startswith("application/json")
    assert output["body"]["told"] == [{"auth": {"tokens": ["***"]}}, "***", "2 of 2"]


@pytest.mark.parametrize("value", ["", "[]", "7", '{"headers": 7}', "{"])
async def test_custom_parts_that_are_no_objects_are_refused(value: Any) -> None:
    async with serving(Service()) as server:
        with pytest.raises(NodeFailure, match="auth is not a JSON object"):
            await call(server, {"auth": {"type": "custom", "value": value}})

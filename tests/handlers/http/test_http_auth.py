"""`auth` of `httpRequest` that asks for a token, or that adds several parts."""

from __future__ import annotations

import base64
import json
from typing import Any
from urllib.parse import parse_qs

import pytest
from aiohttp import web
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from anabranch.errors import NodeFailure
from anabranch.handlers.types.http import request_signing
from anabranch.handlers.types.http.http_auth import OAuth1Auth
from anabranch.handlers.types.http_port import HttpCall
from tests.egress.servers import serving
from tests.handlers.http.calling import call, types_for
from tests.handlers.running import NOW_MS

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


async def test_a_service_account_gets_a_token_for_what_it_has_signed() -> None:
    key = rsa.generate_private_key(public_exponent=65_537, key_size=2_048)
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8,
                            serialization.NoEncryption()).decode()  # fmt: skip
    service = Service()
    async with serving(service) as server:
        auth = {"type": "serviceAccount", "email": "me@example.org", "privateKey": "{{secret.KEY}}",
                "scope": "one, two", "tokenURL": f"{server.url}/token"}  # fmt: skip
        types = types_for(server, {"KEY": pem.replace("\n", "\\n")})
        output = await call(server, {"auth": auth}, types=types)
        await call(server, {"auth": auth}, types=types)
    assert (output["body"], service.given) == ({"you": "Bearer ***"}, 1)
    [asked] = service.asked
    assert asked["grant_type"] == ["urn:ietf:params:oauth:grant-type:jwt-bearer"]
    head, claims, signature = asked["assertion"][0].split(".")
    key.public_key().verify(decoded(signature), f"{head}.{claims}".encode(), padding.PKCS1v15(), hashes.SHA256())
    assert json.loads(decoded(head)) == {"alg": "RS256", "typ": "JWT"}
    assert json.loads(decoded(claims)) == {
        "iss": "me@example.org", "sub": "me@example.org", "scope": "one two", "aud": f"{server.url}/token",
        "iat": NOW_MS // 1_000, "exp": NOW_MS // 1_000 + 3_600,
    }  # fmt: skip


def decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


@pytest.mark.parametrize("key", ["", "no key", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----"])
async def test_a_service_account_without_an_rsa_key_is_refused_and_its_key_not_shown(key: str) -> None:
    async with serving(Service()) as server:
        auth = {"type": "serviceAccount", "email": "me@example.org", "privateKey": key, "scope": "one"}
        with pytest.raises(NodeFailure) as failure:
            await call(server, {"auth": auth})
    assert str(failure.value) == "the private key of the service account is not an RSA key in PEM form"


def test_oauth_1_signs_as_the_example_in_the_documentation_of_a_service(monkeypatch: pytest.MonkeyPatch) -> None:
    # https://developer.x.com/en/docs/authentication/oauth-1-0a/creating-a-signature
    monkeypatch.setattr(request_signing, "token_hex", lambda size: "kYjzVBB8Y0ZFabxSWbWovY3uYSQ2pTgmZeNu2VS4cg")
    auth = OAuth1Auth.model_validate({
        "type": "oauth1", "consumerKey": "xvz1evFS4wEEPTGEFPHBog",
        "consumerSecret": "kAcSOqF21Fu85e7zjz7ZN2U4ZRhfV3WpwPAoE3Z7kBw",
        "token": "370773112-GmHxMAgYyLbNEtIKZeRNFsMKPR9EyMZeS9weJAEb",
        "tokenSecret": "LswwdoUaIvS8ltyTt5jkRh4J50vUPVVHtR2YPi5kE",
    })  # fmt: skip
    call = HttpCall(
        method="POST", url="https://api.twitter.com/1.1/statuses/update.json?include_entities=true",
        headers={"content-type": "application/x-www-form-urlencoded"},
        body=b"status=Hello%20Ladies%20%2B%20Gentlemen%2C%20a%20signed%20OAuth%20request%21",
    )  # fmt: skip
    made = request_signing.signed(call, auth, 1_318_622_958_000)
    assert 'oauth_signature="hCtSmYh%2BiHYCEqBWrE7C7hYmtUk%3D"' in made.headers["Authorization"]
    assert made.private_headers == {"authorization"}


async def test_a_signed_request_arrives_with_its_own_nonce() -> None:
    async def answer(request: web.Request) -> web.Response:
        return web.json_response({"ok": request.headers["Authorization"].startswith("OAuth oauth_consumer_key=")})

    auth = {"type": "oauth1", "consumerKey": "c", "consumerSecret": "s", "method": "HMAC-SHA256"}
    async with serving(answer) as server:
        for _ in range(2):
            assert (await call(server, {"url": f"{server.url}/a?b=%20c", "auth": auth}))["body"] == {"ok": True}
        sent = [headers["authorization"] for _, _, headers, _ in server.requests]
    assert sent[0] != sent[1]

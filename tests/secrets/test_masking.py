"""Secrets of an attempt come out neither in its output, nor in its errors, nor in what it logs."""

from __future__ import annotations

import base64
import json
import logging
from typing import Any
from urllib.parse import quote, quote_plus

import orjson
import pytest
from aiohttp import web

from anabranch.engine.handler_contract import HandlerResult
from anabranch.errors import EgressRefused, NodeFailure, NonRetryable, SecretUnknown
from anabranch.handlers import NodeTypeRegistry
from anabranch.handlers.masking import Masker
from anabranch.handlers.spec import HandlerSpec, NodeConfig
from tests.egress.servers import Server, serving
from tests.handlers.http.calling import Given, call
from tests.handlers.running import run

TOKEN = 't0ken/with+signs=and "quotes" ü'
SECRETS = {"TOKEN": TOKEN, "PASSWORD": "hunter2-hunter2"}


# -- forms ---------------------------------------------------------------------------------

FORMS = {
    "plain": TOKEN,
    "in text": f"before {TOKEN} after",
    "quoted": quote(TOKEN, safe=""),
    "quoted as a path": quote(TOKEN),
    "quoted as a form": quote_plus(TOKEN),
    "quoted here and there": f"q={quote(TOKEN, safe='/+ ').replace(' ', '+').lower()}",
    "in ASCII JSON": json.dumps({"t": TOKEN}),
    "in JSON in JSON": json.dumps({"t": json.dumps({"t": TOKEN})}),
    "in JSON text": orjson.dumps({"t": TOKEN}).decode(),
    "base64": base64.b64encode(TOKEN.encode()).decode(),
    "base64 after one byte": base64.b64encode(b"a" + TOKEN.encode()).decode(),
    "base64 after two bytes": base64.b64encode(b"ab" + TOKEN.encode() + b"c").decode(),
    "base64 of user and password": base64.b64encode(f"somebody:{TOKEN}".encode()).decode(),
    "base64 for URLs": base64.urlsafe_b64encode(TOKEN.encode()).decode(),
}


@pytest.mark.parametrize("text", FORMS.values(), ids=FORMS)
def test_a_secret_is_masked_in_every_usual_form(text: str) -> None:
    masked = Masker([TOKEN]).text(text)
    assert "***" in masked
    for trace in (TOKEN, quote_plus(TOKEN), "dDBr", "t0ken"):
        assert trace not in masked


def test_values_are_masked_in_keys_texts_and_numbers_at_any_depth() -> None:
    masker = Masker([TOKEN, "12345678"])
    value = {TOKEN: [{"a": f"x{TOKEN}"}, 12345678, 12345679, None, True], "n": {"m": "12345678"}}
    assert masker.value(value) == {"***": [{"a": "x***"}, "***", 12345679, None, True], "n": {"m": "***"}}


def test_what_has_no_secret_in_it_is_handed_on_as_it_is() -> None:
    value = {"a": ["b" * 100_000]}
    assert Masker([TOKEN]).value(value) is value


def test_a_secret_that_begins_like_another_leaves_nothing_of_it() -> None:
    assert Masker(["abc", "abcdef"]).text("abcdef abc") == "*** ***"


def test_a_secret_of_backslashes_is_masked_without_trying_for_ever() -> None:
    secret = "a" + "\\" * 40 + "b" + "\n\\n" * 20
    assert Masker([secret]).text(f"x {secret} y") == "x *** y"
    assert "***" not in Masker([secret]).text("a" + "\\" * 200_000)


@pytest.mark.parametrize("length", [200, 256, 257, 65_536])
def test_a_long_secret_is_masked_too(length: int) -> None:
    secret = ("line of a key/+\n" * length)[:length]
    assert Masker([secret]).text(f"x {secret} y {quote(secret)}") == "x *** y ***"


def test_masking_a_megabyte_of_base64_is_quick() -> None:
    text = base64.b64encode(b"x" * 750_000).decode()
    assert Masker([TOKEN]).text(text) == text


# -- an attempt ----------------------------------------------------------------------------


async def echo(request: web.Request) -> web.Response:
    return web.json_response(
        {"headers": dict(request.headers), "path": request.path_qs, "body": await request.text()},
        headers={"X-Echo": request.headers.get("X-Token", "")},
    )


EVERYWHERE = {
    "method": "POST",
    "url": "{{ctx.url}}/{{secret.PASSWORD}}",
    "headers": {"X-Token": "a {{secret.PASSWORD}} b"},
    "query": {"q": "{{secret.TOKEN}}"},
    "json": {"t": ["{{secret.TOKEN}}"]},
    "auth": {"type": "basic", "username": "somebody", "password": "{{secret.TOKEN}}"},
}


async def test_a_server_that_repeats_everything_repeats_no_secret() -> None:
    async with serving(echo) as server:
        output = await call(server, EVERYWHERE, context={"url": server.url}, secrets=SECRETS)

    sent = repr(server.requests)
    assert "hunter2" in sent and "t0ken" in sent, "the secrets were not sent at all"
    text = orjson.dumps(output).decode()
    assert "hunter2" not in text and "t0ken" not in text and "dDBr" not in text
    assert base64.b64encode(f"somebody:{TOKEN}".encode()).decode()[14:30] not in text
    assert output["headers"]["x-echo"] == "a *** b"


async def test_an_error_page_that_repeats_a_secret_is_masked() -> None:
    async def refuse(request: web.Request) -> web.Response:
        return web.Response(status=401, text=f"bad token {request.headers['Authorization']}")

    auth = {"type": "bearer", "token": "{{secret.PASSWORD}}"}
    async with serving(refuse) as server:
        with pytest.raises(NodeFailure, match=r"bad token Bearer \*\*\*") as failure:
            await call(server, {"auth": auth}, secrets=SECRETS)
    assert (failure.value.code, failure.value.retryable) == ("HTTP_STATUS", False)
    assert failure.value.__cause__ is None and failure.value.__suppress_context__


async def test_a_host_that_is_a_secret_is_not_named_in_the_refusal() -> None:
    with pytest.raises(EgressRefused) as refusal:
        await call(Server(1), {"url": "http://{{secret.HOST}}/"}, secrets={"HOST": "127.0.0.9"})
    assert "127.0.0.9" not in refusal.value.message


async def test_a_body_with_a_secret_goes_to_no_other_origin() -> None:
    async def away(request: web.Request) -> web.Response:
        return web.Response(status=307, headers={"Location": "http://127.0.0.1:1/"})

    async with serving(away) as server:
        with pytest.raises(EgressRefused, match="a body with a secret is not sent there"):
            await call(server, {"method": "POST", "json": {"t": "{{secret.TOKEN}}"}}, secrets=SECRETS)


async def test_an_unknown_secret_is_named_and_nothing_is_sent() -> None:
    async with serving(echo) as server:
        with pytest.raises(SecretUnknown, match="NOPE"):
            await call(server, {"headers": {"A": "{{secret.NOPE}}"}})
    assert server.requests == []


async def test_data_that_looks_like_a_secret_template_is_data() -> None:
    async with serving(echo) as server:
        output = await call(
            server,
            {"method": "POST", "body": "{{ctx.text}}", "headers": {"A": "{{secret.PASSWORD}}"}},
            context={"text": "{{secret.TOKEN}}", "url": server.url},
            secrets=SECRETS,
        )
    assert output["body"]["body"] == "{{secret.TOKEN}}"


# -- other types that are given secrets ----------------------------------------------------


class AnyConfig(NodeConfig):
    """Does what it is told with a secret."""

    secret: str
    does: str


class Stranger(Exception):
    """Somebody's own error."""


async def misuse(config: AnyConfig, context: Any, helpers: Any) -> HandlerResult:
    match config.does:
        case "log":
            helpers.log.warning("it is %s", config.secret)
            helpers.log.warning("it is %(a)s", {"a": config.secret})
            try:
                raise Stranger(config.secret)
            except Stranger:
                helpers.log.exception("it broke")
        case "raise":
            raise Stranger(f"cannot use {config.secret}")
        case "give up":
            raise NonRetryable(f"cannot use {config.secret}", code="NO_USE") from Stranger("x")
    return HandlerResult([config.secret], next_handle=None, queue_delay=5)


SPEC = HandlerSpec(type="misuse", title="Misuse", config=AnyConfig, execute=misuse, secrets=Given(SECRETS))
TYPES = NodeTypeRegistry({"misuse": SPEC})


async def test_log_lines_are_masked(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        await run("misuse", {"secret": "{{secret.PASSWORD}}", "does": "log"}, types=TYPES)
    assert [record.getMessage() for record in caplog.records][:2] == ["it is ***", "it is ***"]
    assert "hunter2" not in caplog.text and "it broke" in caplog.text


async def test_an_output_keeps_its_delay_and_loses_the_secret() -> None:
    result = await run("misuse", {"secret": "{{secret.PASSWORD}}", "does": ""}, types=TYPES)
    assert result == HandlerResult(["***"], queue_delay=5)


async def test_a_strangers_error_keeps_its_type_and_stays_retryable() -> None:
    with pytest.raises(NodeFailure, match=r"cannot use \*\*\*") as failure:
        await run("misuse", {"secret": "{{secret.PASSWORD}}", "does": "raise"}, types=TYPES)
    assert (failure.value.code, failure.value.type_name, failure.value.retryable) == ("HANDLER_ERROR", "Stranger", True)


async def test_giving_up_keeps_its_code_and_cause() -> None:
    with pytest.raises(NonRetryable, match=r"cannot use \*\*\*") as failure:
        await run("misuse", {"secret": "{{secret.PASSWORD}}", "does": "give up"}, types=TYPES)
    assert failure.value.code == "NO_USE" and isinstance(failure.value.__cause__, Stranger)

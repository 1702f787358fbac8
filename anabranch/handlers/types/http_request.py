"""`httpRequest`: sends one HTTP request and returns the response as a value.

The request is sent through the port `HttpSender`, whose guard checks the target. This module turns a config into a
request, and a response into an output or a failure that may be retried.
"""

from __future__ import annotations

import json
from asyncio import sleep
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, Literal
from urllib.parse import urlencode

from pydantic import BeforeValidator, Field, WithJsonSchema, model_validator

from anabranch.engine.handler_contract import HandlerResult, Helpers
from anabranch.errors import NodeFailure
from anabranch.handlers.config_fields import Duration, x_ui
from anabranch.handlers.masking import Masker
from anabranch.handlers.spec import HandlerSpec, NodeConfig, SecretReader
from anabranch.handlers.types.http.form_data import PARTS_MAX, FormPart, Scalar, bytes_of, form_body
from anabranch.handlers.types.http.http_answer import body_of, excerpt, reason_of, retry_after_ms
from anabranch.handlers.types.http.http_auth import (
    Auth,
    KeyAuth,
    OAuth1Auth,
    OAuthAuth,
    ServiceAccountAuth,
    authorization_of,
    custom_parts,
    secret_texts,
)
from anabranch.handlers.types.http.request_signing import signed
from anabranch.handlers.types.http.token_cache import TokenCache
from anabranch.handlers.types.http.token_store import TokensInMemory, TokenStore
from anabranch.handlers.types.http_port import HttpAnswer, HttpCall, HttpSender

# An hour: the node's timeout limits a request; this only ends requests of nodes without one.
REQUEST_S_MAX = 3_600.0

# 5 minutes: a longer pause is a `delay` node, which keeps no worker busy.
DELAY_MS_MAX = 300_000

# Statuses that tell us to come again.
_RETRIED_BELOW_500 = frozenset({408, 425, 429})

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
Method = Annotated[
    Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"],
    BeforeValidator(lambda method: method.upper() if isinstance(method, str) else method),
    WithJsonSchema({"type": "string", "enum": [*METHODS, *(method.lower() for method in METHODS)]}),
]


class HttpRequestConfig(NodeConfig):
    """What to send, and what to take for success."""

    method: Method = Field("GET", description="The HTTP method.")
    url: str = Field(
        min_length=1,
        title="URL",
        description="Where the request goes: a public address, unless the operator allows others.",
        json_schema_extra=x_ui(placeholder="https://example.org/orders/{{ ctx.input.id }}"),
    )
    query: dict[str, Scalar | list[Scalar]] = Field(
        default_factory=dict,
        description="Added to the URL's own query; a list repeats the name, null leaves it out.",
        json_schema_extra=x_ui(widget="keyValue", group="Request"),
    )
    headers: dict[str, Scalar] = Field(
        default_factory=dict,
        description="Headers by name; null leaves one out. `Idempotency-Key` is sent by itself.",
        json_schema_extra=x_ui(widget="keyValue", group="Request"),
    )
    json_value: Any = Field(
        None,
        alias="json",
        title="JSON body",
        description="The body, as JSON. Give one of this, `body`, `base64` and `form`.",
        json_schema_extra=x_ui(group="Request"),
    )
    body: str | None = Field(
        None,
        title="Text body",
        description="The body, as text.",
        json_schema_extra=x_ui(group="Request", advanced=True),
    )
    base64: str | None = Field(
        None,
        title="Body of bytes",
        description="The body, as base64: for files. Give one of this, `json`, `body` and `form`.",
        json_schema_extra=x_ui(group="Request", advanced=True),
    )
    form: list[FormPart] | None = Field(
        None,
        max_length=PARTS_MAX,
        title="Form",
        description="The body, as a form in parts (multipart/form-data), which may be files.",
        json_schema_extra=x_ui(group="Request", advanced=True),
    )
    auth: Auth | None = Field(
        None,
        title="Authentication",
        description="The credentials: a user name and a password, a token, a key, OAuth, a service account, or others.",
        json_schema_extra=x_ui(group="Authentication"),
    )
    follow_redirects: bool = Field(
        True,
        alias="followRedirects",
        title="Follow redirects",
        description="Follow redirects; secrets are not sent to another origin.",
        json_schema_extra=x_ui(group="Answer", advanced=True),
    )
    ok_statuses: list[Annotated[int, Field(ge=100, le=599)]] | None = Field(
        None,
        alias="okStatuses",
        title="OK statuses",
        description="Statuses of 400 and above that are not failures.",
        json_schema_extra=x_ui(group="Answer", advanced=True),
    )

    response: Literal["auto", "base64"] = Field(
        "auto",
        title="Read the body",
        description='`auto`: JSON and text by the content type, other bytes as `{"base64": …}`; `base64`: every body'
        " as base64.",
        json_schema_extra=x_ui(group="Answer", advanced=True),
    )
    delay: Duration = Field(
        0,
        ge=0,
        le=DELAY_MS_MAX,
        description="How long to wait before the request, at most 5 minutes. In a mapped node"
        " `{{ 60000 if ctx.index > 0 and ctx.index % 10 == 0 else 0 }}` waits after each ten requests.",
        json_schema_extra=x_ui(widget="duration", group="Request", advanced=True),
    )

    final_url: bool = Field(
        False,
        alias="finalURL",
        title="Final URL",
        description="Put the URL that answered, after redirects, into the output as `url`.",
        json_schema_extra=x_ui(group="Answer", advanced=True),
    )

    proxy: str | None = Field(
        None,
        min_length=1,
        description="An HTTP proxy to send the request through: `http://user:password@host:port`. It has to be an"
        " allowed address, and so has the target.",
        json_schema_extra=x_ui(group="Request", advanced=True),
    )

    check_certificate: bool = Field(
        True,
        alias="checkCertificate",
        title="Check the certificate",
        description="Whether the certificate of an HTTPS server has to be valid; that of a redirect always has to.",
        json_schema_extra=x_ui(group="Answer", advanced=True),
    )

    @model_validator(mode="before")
    @classmethod
    def _one_body(cls, written: dict[str, Any]) -> dict[str, Any]:
        given = [name for name in ("json", "body", "base64", "form")
                 if name in written and (name == "json" or written[name])]  # fmt: skip
        if len(given) > 1:
            raise ValueError(f"give only one of {', '.join(given)}")
        return written


def http_request_spec(sender: HttpSender, secrets: SecretReader, store: TokenStore | None = None) -> HandlerSpec:
    """The node type `httpRequest`.

    It sends its requests with `sender`, reads secrets from `secrets`, and keeps tokens that services have replaced in
    `store`: in the memory of this process if there is none.
    """
    tokens = TokenCache(sender, store or TokensInMemory())

    async def execute(config: HttpRequestConfig, context: Mapping[str, Any], helpers: Helpers) -> HandlerResult:
        """Send the request; an answer with an error status fails the node. The delay is waited for first."""
        custom = custom_parts(config.auth)
        call = _call_of(config, custom, helpers)
        if config.delay:
            await sleep(config.delay / 1_000)
        hidden = secret_texts(custom)
        if isinstance(config.auth, OAuth1Auth):
            call = signed(call, config.auth, helpers.now_ms)
        if isinstance(config.auth, OAuthAuth | ServiceAccountAuth):
            answer, given = await _fetch_with_tokens(sender, tokens, call, config.auth, helpers)
            hidden += given
        else:
            answer = await sender.fetch(call, timeout_s=REQUEST_S_MAX)
        masker = Masker(hidden) if hidden else None
        _refuse_failure(config, answer, helpers, masker)

        def mask(text: str) -> str:
            text = helpers.mask(text)
            return text if masker is None else masker.text(text)

        output = {
            "status": answer.status,
            "headers": dict(answer.headers),
            "body": await body_of(answer.headers, answer.body, mask=mask, as_bytes=config.response == "base64"),
        }
        if config.final_url:
            output["url"] = helpers.mask(answer.url)
        return HandlerResult(output if masker is None else masker.value(output))

    return HandlerSpec(
        type="httpRequest",
        title="HTTP request",
        config=HttpRequestConfig,
        execute=execute,
        secrets=secrets,
        category="network",
        icon="globe",
        description="Sends an HTTP request and returns the response.",
        side_effects="external",
        docs="#httprequest",
        output_schema=lambda config: {
            "type": "object",
            "properties": {"status": {"type": "integer"}, "headers": {"type": "object"}, "body": {}},
        },
    )


def _call_of(config: HttpRequestConfig, custom: Mapping[str, Any], helpers: Helpers) -> HttpCall:
    """The request as it is sent, without tokens and signatures; `custom` are the parts of an own authentication."""
    headers, private_headers = _headers(config, custom["headers"], helpers)
    body = _body(config, custom["body"])
    if config.form:
        kind, body = form_body(config.form)
        headers = {name: value for name, value in headers.items() if name.lower() != "content-type"}
        headers["Content-Type"] = kind
    return HttpCall(
        method=config.method,
        url=_url(config, custom["qs"]),
        headers=headers,
        body=body,
        follow_redirects=config.follow_redirects,
        check_certificate=config.check_certificate,
        proxy=config.proxy,
        private_headers=private_headers,
        private_body=body is not None and (bool(custom["body"]) or _is_private(body.decode(errors="replace"), helpers)),
    )


async def _fetch_with_tokens(
    sender: HttpSender, tokens: TokenCache, call: HttpCall, auth: OAuthAuth | ServiceAccountAuth, helpers: Helpers
) -> tuple[HttpAnswer, list[str]]:
    """The answer to a request with a token, and the tokens; with a new one, if one from before is refused."""
    given, was_known = await tokens.tokens_for(auth, helpers)
    answer = await sender.fetch(_bearing(call, given.access), timeout_s=REQUEST_S_MAX)
    if answer.status == 401 and was_known:
        given, _ = await tokens.tokens_for(auth, helpers, refused=given.access)
        answer = await sender.fetch(_bearing(call, given.access), timeout_s=REQUEST_S_MAX)
    return answer, [given.access, *([given.refresh] if given.refresh else [])]


def _bearing(call: HttpCall, token: str) -> HttpCall:
    headers = {name: value for name, value in call.headers.items() if name.lower() != "authorization"}
    headers["Authorization"] = f"Bearer {token}"
    return replace(call, headers=headers, private_headers={*call.private_headers, "authorization"})


def _url(config: HttpRequestConfig, more: Mapping[str, Any]) -> str:
    pairs = [(name, _text(each)) for name, value in config.query.items() for each in _values(value)]
    if isinstance(config.auth, KeyAuth) and config.auth.type == "query":
        pairs.append((config.auth.name, config.auth.value))
    pairs += [(name, _text(each)) for name, value in more.items() for each in _values(value)]
    if not pairs:
        return config.url
    # Put behind the URL as it was written: reading it is for the guard alone.
    address, _, _ = config.url.partition("#")
    return f"{address}{'&' if '?' in address else '?'}{urlencode(pairs)}"


def _values(value: Scalar | list[Scalar]) -> list[Scalar]:
    return [each for each in (value if isinstance(value, list) else [value]) if each is not None]


def _text(value: Scalar) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _headers(
    config: HttpRequestConfig, more: Mapping[str, Any], helpers: Helpers
) -> tuple[dict[str, str], frozenset[str]]:
    """The headers, and the lower-case names of private ones."""
    added = {name.lower() for name in more}
    headers = {name: _text(value) for name, value in config.headers.items()
               if value is not None and name.lower() not in added}  # fmt: skip
    headers |= {name: _text(value) for name, value in more.items() if value is not None}
    given = {name.lower() for name in headers}
    private = added | {name.lower() for name, value in headers.items() if _is_private(value, helpers)}
    defaults = {"Idempotency-Key": helpers.idempotency_key}
    if "json_value" in config.model_fields_set:
        defaults |= {"Content-Type": "application/json", "Accept": "application/json, */*;q=0.5"}
    elif config.base64 is not None:
        defaults["Content-Type"] = "application/octet-stream"
    elif config.body is not None:
        defaults["Content-Type"] = "text/plain; charset=utf-8"
    for name, value in defaults.items():
        if name.lower() not in given:
            headers[name] = value
    authorization = authorization_of(config.auth)
    if authorization is not None:
        name, value = authorization
        if name.lower() in given:
            raise NodeFailure(
                "NODE_CONFIG_INVALID",
                f"auth and headers both give the header {name}",
                type_name="ConfigInvalid",
                retryable=False,
            )
        headers[name] = value
        private.add(name.lower())
    return headers, frozenset(private)


def _is_private(text: str, helpers: Helpers) -> bool:
    """Whether the value contains a secret."""
    return helpers.mask(text) != text


def _body(config: HttpRequestConfig, more: Mapping[str, Any]) -> bytes | None:
    if "json_value" in config.model_fields_set:
        value = {**config.json_value, **more} if more and isinstance(config.json_value, dict) else config.json_value
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    if config.base64 is not None:
        return bytes_of(config.base64)
    return None if config.body is None else config.body.encode()


def _refuse_failure(config: HttpRequestConfig, answer: HttpAnswer, helpers: Helpers, masker: Masker | None) -> None:
    status = answer.status
    if status < 400 or status in (config.ok_statuses or ()):
        return
    retried = status >= 500 or status in _RETRIED_BELOW_500
    text = excerpt(answer.body)
    raise NodeFailure(
        "HTTP_STATUS",
        f"{config.method} was answered with {status}{reason_of(status)}{text if masker is None else masker.text(text)}",
        type_name="HttpStatus",
        retryable=retried,
        retry_after_ms=retry_after_ms(answer.headers, helpers.now_ms) if retried else None,
    )

"""Who sends a request: the forms of `auth`, and how they are sent.

Used by `http_request`. Tokens of OAuth 2 are asked for through the same port as the request itself, and kept in memory
until they run out: nothing of them is written.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import Any, Literal, TypeAlias
from urllib.parse import urlencode

from pydantic import ConfigDict, Field

from anabranch.engine.handling import Helpers
from anabranch.errors import BadJson, NodeFailure, TooLarge
from anabranch.handlers.config_fields import x_ui
from anabranch.handlers.spec import NodeConfig
from anabranch.handlers.types.http.http_answer import reason_of
from anabranch.handlers.types.http_port import HttpAnswer, HttpCall, HttpSender
from anabranch.json_input import parse_json

# 1,000 tokens of a few hundred bytes; beyond them the one that was not used for longest is asked for again.
TOKENS_MAX = 1_000

# A minute for a service to give a token.
TOKEN_S_MAX = 60.0

# Services that do not say how long a token lasts mostly mean an hour; 5 minutes are safe.
LIFETIME_S = 300

# A token is renewed a minute before it runs out: a request with it may take that long.
RENEWED_MS_BEFORE = 60_000


# 6 characters: shorter texts are versions and flags, and would be found by chance in every answer.
_SECRET_CHARACTERS_MIN = 6

_PLAIN_HEADERS = frozenset({"accept", "accept-language", "content-type", "user-agent"})


class BasicAuth(NodeConfig):
    """A user name and a password."""

    model_config = ConfigDict(title="User name and password")

    type: Literal["basic"] = Field(description="`basic`: a user name and a password.")
    username: str = Field(title="User name", description="The user name.")
    password: str = Field(description="The password.", json_schema_extra=x_ui(widget="secret"))


class BearerAuth(NodeConfig):
    """A token."""

    model_config = ConfigDict(title="Bearer token")

    type: Literal["bearer"] = Field(description="`bearer`: a token in the header Authorization.")
    token: str = Field(description="The token.", json_schema_extra=x_ui(widget="secret"))


class KeyAuth(NodeConfig):
    """A key in a header or in the query."""

    model_config = ConfigDict(title="Key")

    type: Literal["header", "query"] = Field(description="Where the key is sent: in a `header` or in the `query`.")
    name: str = Field(min_length=1, description="The name of the header or of the query parameter.")
    value: str = Field(description="The key.", json_schema_extra=x_ui(widget="secret"))


class OAuthAuth(NodeConfig):
    """A token that is asked for when it is needed, and again when it has run out."""

    model_config = ConfigDict(title="OAuth 2")

    type: Literal["oauth2"] = Field(description="`oauth2`: a token that the service gives out, and renews.")
    token_url: str = Field(alias="tokenURL", min_length=1, title="Token URL", description="Where a token is asked for.")
    client_id: str = Field(alias="clientID", title="Client ID", description="The id of the client.")
    client_secret: str = Field(
        alias="clientSecret",
        title="Client secret",
        description="The secret of the client.",
        json_schema_extra=x_ui(widget="secret"),
    )
    refresh_token: str | None = Field(
        None,
        alias="refreshToken",
        title="Refresh token",
        description="With it a token is renewed; without it, the client gets one of its own (client credentials).",
        json_schema_extra=x_ui(widget="secret"),
    )
    scope: str | None = Field(None, description="What the token is to allow, with blanks between.")
    client_in: Literal["header", "body"] = Field(
        "header", alias="clientIn", title="Client in", description="Where the client's id and secret stand."
    )


class CustomAuth(NodeConfig):
    """Headers, query and body that are together one secret."""

    model_config = ConfigDict(title="Custom")

    type: Literal["custom"] = Field(description="`custom`: headers, parameters and fields of the body.")
    value: str = Field(
        description="JSON text with any of `headers`, `qs` and `body`: objects that are added to the request.",
        json_schema_extra=x_ui(widget="secret"),
    )


Auth: TypeAlias = BasicAuth | BearerAuth | KeyAuth | OAuthAuth | CustomAuth


def authorization_of(auth: Auth | None) -> tuple[str, str] | None:
    """The header of an `auth` that has one and asks nobody."""
    match auth:
        case BasicAuth(username=username, password=password):
            return "Authorization", "Basic " + base64.b64encode(f"{username}:{password}".encode()).decode()
        case BearerAuth(token=token):
            return "Authorization", f"Bearer {token}"
        case KeyAuth(type="header", name=name, value=value):
            return name, value
    return None


def custom_parts(auth: Auth | None) -> dict[str, dict[str, Any]]:
    """The `headers`, `qs` and `body` of a custom `auth`; empty for others. Raises NodeFailure for what is not JSON."""
    if not isinstance(auth, CustomAuth):
        return {"headers": {}, "qs": {}, "body": {}}
    try:
        given = parse_json(auth.value, what="auth")
    except (BadJson, TooLarge):
        given = None
    parts = {name: given.get(name, {}) for name in ("headers", "qs", "body")} if isinstance(given, dict) else {}
    if not parts or not all(isinstance(part, dict) for part in parts.values()):
        raise _refusal("NODE_CONFIG_INVALID", "auth is not a JSON object with objects in `headers`, `qs` or `body`")
    return parts


def secret_texts(parts: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """What must not be shown of the parts of a custom `auth`: all texts, but for those that are too short to be secrets
    and for headers that say only what is sent. Of `Bearer TOKEN` also what follows the scheme."""
    texts: list[str] = []
    for name, part in parts.items():
        for key, value in part.items():
            if name == "headers" and key.lower() in _PLAIN_HEADERS:
                continue
            texts += [text for text in _texts_in(value) if len(text) >= _SECRET_CHARACTERS_MIN]
    return [*texts, *(rest for text in texts if (rest := text.partition(" ")[2]))]


def _texts_in(value: Any) -> Iterator[str]:
    if isinstance(value, dict | list):
        for child in value.values() if isinstance(value, dict) else value:
            yield from _texts_in(child)
    elif isinstance(value, str | int | float) and not isinstance(value, bool):
        yield str(value)


class TokenCache:
    """Tokens of OAuth 2 that have not run out yet."""

    def __init__(self, sender: HttpSender) -> None:
        self._sender = sender
        self._tokens: OrderedDict[str, tuple[str, int]] = OrderedDict()
        """By a hash of what was asked with: the token, and when it has to be renewed."""

    async def token_for(self, auth: OAuthAuth, helpers: Helpers, *, renew: bool = False) -> tuple[str, bool]:
        """A token, and whether it was there already. Raises NodeFailure."""
        key = hashlib.sha256(auth.model_dump_json().encode()).hexdigest()
        known = self._tokens.get(key)
        if known is not None and helpers.now_ms < known[1] and not renew:
            self._tokens.move_to_end(key)
            return known[0], True
        token, lifetime_s = _token_in(await self._sender.fetch(_asking(auth), timeout_s=TOKEN_S_MAX))
        self._tokens[key] = token, helpers.now_ms + lifetime_s * 1_000 - RENEWED_MS_BEFORE
        self._tokens.move_to_end(key)
        if len(self._tokens) > TOKENS_MAX:
            self._tokens.popitem(last=False)
        return token, False


def _asking(auth: OAuthAuth) -> HttpCall:
    form = {"grant_type": "refresh_token" if auth.refresh_token else "client_credentials"}
    if auth.refresh_token:
        form["refresh_token"] = auth.refresh_token
    if auth.scope:
        form["scope"] = auth.scope
    headers = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
    if auth.client_in == "header":
        pair = f"{auth.client_id}:{auth.client_secret}"
        headers["Authorization"] = "Basic " + base64.b64encode(pair.encode()).decode()
    else:
        form |= {"client_id": auth.client_id, "client_secret": auth.client_secret}
    return HttpCall(
        method="POST",
        url=auth.token_url,
        headers=headers,
        body=urlencode(form).encode(),
        follow_redirects=False,
        private_headers=frozenset({"authorization"}),
        private_body=True,
    )


def _token_in(answer: HttpAnswer) -> tuple[str, int]:
    """The token of an answer, and how many seconds it lasts. The answer is not shown: it may have a token in it."""
    if answer.status != 200:
        retried = answer.status >= 500 or answer.status == 429
        said = f"the token was refused with {answer.status}{reason_of(answer.status)}"
        raise _refusal("HTTP_STATUS", said, retried=retried)
    try:
        given = json.loads(answer.body)
    except ValueError:
        given = None
    token = given.get("access_token") if isinstance(given, dict) else None
    if not isinstance(token, str) or not token or not token.isascii() or not token.isprintable():
        raise _refusal("HTTP_RESPONSE_INVALID", "the service for tokens answered without a token")
    lifetime = given.get("expires_in", LIFETIME_S)
    return token, lifetime if isinstance(lifetime, int) and 0 < lifetime < 2**31 else LIFETIME_S


def _refusal(code: str, message: str, *, retried: bool = False) -> NodeFailure:
    return NodeFailure(code, message, type_name="HttpAuth", retryable=retried)

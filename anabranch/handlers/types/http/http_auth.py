"""HTTP authentication: the forms of `auth`, and how they are sent.

Used by `http_request`; tokens are asked for by `token_cache`, signatures made by `request_signing`. Knows no network.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from typing import Any, Literal, TypeAlias

from pydantic import ConfigDict, Field

from anabranch.errors import BadJson, NodeFailure, TooLarge
from anabranch.handlers.config_fields import x_ui
from anabranch.handlers.spec import NodeConfig
from anabranch.json_input import parse_json

# 6 characters: shorter texts are versions and flags, and would be found by chance in every answer.
_SECRET_CHARACTERS_MIN = 6

# Where Google gives tokens to service accounts.
GOOGLE_TOKENS = "https://oauth2.googleapis.com/token"

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


class ServiceAccountAuth(NodeConfig):
    """A token that a service gives for a text that is signed with a private key."""

    model_config = ConfigDict(title="Service account")

    type: Literal["serviceAccount"] = Field(description="`serviceAccount`: a token for a signed JWT, as of Google.")
    email: str = Field(min_length=1, description="The e-mail address of the service account, which signs.")
    private_key: str = Field(
        alias="privateKey",
        title="Private key",
        description="The RSA key in PEM form; line breaks may be written as `\\n`.",
        json_schema_extra=x_ui(widget="secret"),
    )
    scope: str = Field(description="What the token is to allow, with blanks between.")
    subject: str | None = Field(None, description="The user for whom it acts, if it may; without: the account itself.")
    token_url: str = Field(
        GOOGLE_TOKENS, alias="tokenURL", min_length=1, title="Token URL", description="Where a token is asked for."
    )


class OAuth1Auth(NodeConfig):
    """A signature of each request."""

    model_config = ConfigDict(title="OAuth 1")

    type: Literal["oauth1"] = Field(description="`oauth1`: each request is signed.")
    consumer_key: str = Field(alias="consumerKey", title="Consumer key", description="The key of the client.")
    consumer_secret: str = Field(
        alias="consumerSecret",
        title="Consumer secret",
        description="The secret of the client.",
        json_schema_extra=x_ui(widget="secret"),
    )
    token: str = Field("", description="The token of the user.", json_schema_extra=x_ui(widget="secret"))
    token_secret: str = Field(
        "",
        alias="tokenSecret",
        title="Token secret",
        description="The secret of the token.",
        json_schema_extra=x_ui(widget="secret"),
    )
    method: Literal["HMAC-SHA1", "HMAC-SHA256", "HMAC-SHA512"] = Field(
        "HMAC-SHA1", description="How it is signed; most services support only the first."
    )


Auth: TypeAlias = BasicAuth | BearerAuth | KeyAuth | OAuthAuth | ServiceAccountAuth | OAuth1Auth | CustomAuth


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
        raise refusal("NODE_CONFIG_INVALID", "auth is not a JSON object with objects in `headers`, `qs` or `body`")
    return parts


def secret_texts(parts: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Texts to be masked among the parts of a custom `auth`: all texts, but for those that are too short to be secrets
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


def refusal(code: str, message: str, *, retried: bool = False) -> NodeFailure:
    """A failure of the authentication."""
    return NodeFailure(code, message, type_name="HttpAuth", retryable=retried)

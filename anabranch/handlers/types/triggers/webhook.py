"""`webhook`: begins a run for each HTTP request to a path of its own."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from anabranch.engine.rules.entry_points import WEBHOOK_TYPE
from anabranch.handlers.config_fields import Duration, x_ui
from anabranch.handlers.spec import NodeConfig
from anabranch.handlers.types.triggers.trigger_spec import TriggerConfig, trigger_spec

# 255 characters, as for every other indexed key.
PATH_CHARACTERS_MAX = 255

_PATH = r"^[A-Za-z0-9._~-]+(/[A-Za-z0-9._~-]+)*$"

_PAYLOAD: dict[str, Any] = {
    "type": "object",
    "properties": {
        "method": {"type": "string"},
        "path": {"type": "string"},
        "headers": {"type": "object"},
        "query": {"type": "object"},
        "body": {},
        "rawBody": {"type": "string"},
    },
}

Method = Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]
SecretName = Annotated[str, Field(min_length=1, max_length=64, json_schema_extra=x_ui(widget="secret"))]


class OpenHook(NodeConfig):
    """Everybody who knows the path may call it."""

    kind: Literal["none"] = Field(description="The way.")


class HeaderOfHook(NodeConfig):
    """A header must have the value of a secret."""

    kind: Literal["header"] = Field(description="The way.")
    name: str = Field(min_length=1, max_length=128, description="The header.")
    secret: SecretName = Field(description="The name of the secret.")


class PasswordOfHook(NodeConfig):
    """User and password must be those of a secret, `user:password`."""

    kind: Literal["basic"] = Field(description="The way.")
    secret: SecretName = Field(description="The name of the secret.")


class SignatureOfHook(NodeConfig):
    """The request must be signed with a secret, as one of these services does it."""

    kind: Literal["hmac"] = Field(description="The way.")
    scheme: Literal["github", "stripe", "slack", "standard"] = Field(description="The signature scheme.")
    secret: SecretName = Field(description="The name of the secret.")


class Idempotency(NodeConfig):
    """The key that tells a repeated request from a new one."""

    header: str | None = Field(None, min_length=1, max_length=128, description="The header with the key.")
    expression: str | None = Field(None, description="A template that gives the key from the payload, `ctx.input`.")


class WebhookConfig(TriggerConfig):
    """Path, authentication and answer."""

    path: str = Field(
        min_length=1,
        max_length=PATH_CHARACTERS_MAX,
        pattern=_PATH,
        description="What follows `/hooks/TENANT/`: unique in the tenant.",
        json_schema_extra=x_ui(placeholder="orders/created"),
    )
    methods: list[Method] = Field(["POST"], min_length=1, description="The methods that it takes.")
    auth: Annotated[OpenHook | HeaderOfHook | PasswordOfHook | SignatureOfHook, Field(discriminator="kind")] = Field(
        OpenHook(kind="none"), description="How callers authenticate."
    )
    idempotency: Idempotency | None = Field(
        None,
        description="A request with the key of an earlier one does not start another run.",
        json_schema_extra=x_ui(advanced=True),
    )
    respond: Literal["immediately", "atEnd", "respondNode"] = Field(
        "immediately", description="When the response is sent: at once, when the run ends, or by a `respond` node."
    )
    timeout: Duration | None = Field(
        None,
        description="How long a caller waits for the end or the `respond` node; 30 s if not given.",
        json_schema_extra=x_ui(widget="duration", placeholder="30s", advanced=True),
    )
    rateLimit: int | None = Field(  # noqa: N815 -- the wire's names are camelCase
        None,
        ge=1,
        description="Requests a second; the operator's limit if not given.",
        json_schema_extra=x_ui(advanced=True),
    )
    bodyLimit: int | None = Field(  # noqa: N815 -- the wire's names are camelCase
        None,
        ge=1,
        description="Bytes of a body; the operator's limit if not given.",
        json_schema_extra=x_ui(advanced=True),
    )


SPEC = trigger_spec(
    WEBHOOK_TYPE,
    WebhookConfig,
    title="Webhook",
    icon="globe",
    description="Starts a run for each HTTP request to its path.",
    unresolved=frozenset({"idempotency"}),
    payload_schema=_PAYLOAD,
)

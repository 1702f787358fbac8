"""`respond`: the HTTP response to the webhook that started the run.

It sends nothing itself: its output is the response, and the server whose request waits for it sends it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from anabranch.engine.rules.responses import RESPOND_TYPE, response_of
from anabranch.engine.rules.templates.budget import TemplateBudget
from anabranch.errors import NonRetryable
from anabranch.handlers.config_fields import x_ui
from anabranch.handlers.spec import HandlerSpec, NodeConfig


class RespondConfig(NodeConfig):
    """The response."""

    status: int = Field(200, ge=200, le=599, description="The HTTP status.", json_schema_extra=x_ui(placeholder="200"))
    headers: dict[str, str | int | float] | None = Field(
        None,
        description="Names with values. Headers that frame the message, cookies and policies cannot be set.",
        json_schema_extra=x_ui(widget="keyValue", advanced=True),
    )
    body: Any = Field(
        None, description="Text is sent as it is, any other value as JSON; without it the response has no body."
    )
    base64: str | None = Field(
        None,
        title="Body of bytes",
        description="The body, as base64, in place of `body`: for files.",
        json_schema_extra=x_ui(advanced=True),
    )


def evaluate(config: RespondConfig, context: Mapping[str, Any], work: TemplateBudget) -> tuple[Any, None]:
    """The response as an object. Raises NonRetryable for one that cannot be sent."""
    response = {"status": config.status, "headers": dict(config.headers or {}), "body": config.body}
    if config.base64 is not None:
        response["base64"] = config.base64
    try:
        response_of(response)
    except ValueError as refusal:
        raise NonRetryable(str(refusal), code="RESPONSE_INVALID") from None
    return response, None


def _output_schema(config: Mapping[str, Any]) -> Mapping[str, Any]:
    fields: dict[str, Any] = {"status": {"type": "integer"}, "headers": {"type": "object"}, "body": {}}
    if config.get("base64") is not None:
        fields["base64"] = {"type": "string"}
    return {"type": "object", "properties": fields}


SPEC = HandlerSpec(
    type=RESPOND_TYPE,
    title="Respond",
    config=RespondConfig,
    evaluate=evaluate,
    category="flow",
    icon="reply",
    description="Sets the response of the webhook that started the run.",
    side_effects="none",
    docs="#respond",
    output_schema=_output_schema,
)

"""`waitForEvent`: waits for a signal with a name, optionally with certain content, optionally with a timeout."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from anabranch.engine.handler_contract import Helpers
from anabranch.engine.rules.stimuli import AwaitsSignal
from anabranch.engine.rules.values import Payload
from anabranch.handlers.config_fields import Duration, x_ui
from anabranch.handlers.spec import HandlerSpec, NodeConfig

# 255 characters, as for every key that comes from outside.
EVENT_LENGTH_MAX = 255


class WaitForEventConfig(NodeConfig):
    """What to wait for."""

    event: str = Field(
        min_length=1,
        max_length=EVENT_LENGTH_MAX,
        description="The name of the signal.",
        json_schema_extra=x_ui(placeholder="approve"),
    )
    match: Any = Field(
        None,
        description="What the payload must contain: an object fits where all of its fields are there, anything else"
        " where it is equal. Without it any payload fits.",
        json_schema_extra=x_ui(advanced=True),
    )
    timeout: Duration | None = Field(
        None,
        description="How long to wait before the node leaves by `timeout`; without it the wait may last for ever.",
        json_schema_extra=x_ui(widget="duration", placeholder="7d"),
    )


async def execute(config: WaitForEventConfig, context: Mapping[str, Any], helpers: Helpers) -> AwaitsSignal:
    """Asks the engine for the signal; the match is resolved now, once."""
    match = None if config.match is None else Payload.of(config.match)
    return AwaitsSignal(config.event, match, config.timeout)


SPEC = HandlerSpec(
    type="waitForEvent",
    title="Wait for event",
    config=WaitForEventConfig,
    execute=execute,
    handles=("default", "timeout"),
    unbounded=lambda config: config.get("timeout") is None,
    category="flow",
    icon="bell",
    description="Waits for a signal from outside, with an optional timeout.",
    side_effects="none",
    docs="#waitforevent",
)

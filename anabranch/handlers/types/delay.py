"""`delay`: waits for a length of time or until a point in time; holds no worker meanwhile."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field, model_validator

from anabranch.engine.handler_contract import HandlerResult, Helpers
from anabranch.engine.rules.duration import ACCEPTED, DURATION_MS_MAX
from anabranch.errors import NonRetryable
from anabranch.handlers.config_fields import Duration, Instant, x_ui
from anabranch.handlers.spec import HandlerSpec, NodeConfig


class DelayConfig(NodeConfig):
    """A duration or a time; exactly one of the two."""

    duration: Duration | None = Field(
        None,
        description="How long to wait: milliseconds, or 500ms, 5s, 5m, 2h, 7d, PT5M.",
        json_schema_extra=x_ui(widget="duration", placeholder="5m"),
    )
    until: Instant | None = Field(
        None,
        description="Until when to wait instead: ISO 8601 with an offset.",
        json_schema_extra=x_ui(placeholder="2030-01-31T08:00:00+01:00"),
    )

    @model_validator(mode="before")
    @classmethod
    def _exactly_one(cls, written: dict[str, Any]) -> dict[str, Any]:
        if (written.get("duration") is None) == (written.get("until") is None):
            raise ValueError(f"give either a duration ({ACCEPTED}) or until (ISO 8601 with an offset)")
        return written


async def execute(config: DelayConfig, context: Mapping[str, Any], helpers: Helpers) -> HandlerResult:
    """Asks the engine to wait; a point in time that is past is now."""
    if config.until is None:
        delay_ms = config.duration or 0
    else:
        delay_ms = max(0, config.until - helpers.now_ms)
    if delay_ms > DURATION_MS_MAX:
        raise NonRetryable("until lies more than 5 years ahead", code="NODE_CONFIG_INVALID")
    return HandlerResult({"delayedMs": delay_ms}, queue_delay=delay_ms)


SPEC = HandlerSpec(
    type="delay",
    title="Delay",
    config=DelayConfig,
    execute=execute,
    category="flow",
    icon="clock",
    description="Waits for a length of time, or until a point in time.",
    side_effects="none",
    docs="#delay",
    output_schema=lambda config: {"type": "object", "properties": {"delayedMs": {"type": "integer"}}},
)

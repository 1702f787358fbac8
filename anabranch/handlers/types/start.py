"""`start`: where a run begins; says that it did, and with which input."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from anabranch.engine.handling import HandlerResult, Helpers
from anabranch.handlers.spec import HandlerSpec, NodeConfig


class StartConfig(NodeConfig):
    """Nothing to configure."""


async def execute(config: StartConfig, context: Mapping[str, Any], helpers: Helpers) -> HandlerResult:
    """The input as the run received it."""
    return HandlerResult({"started": True, "inputReceived": context.get("input")})


SPEC = HandlerSpec(
    type="start",
    title="Start",
    config=StartConfig,
    execute=execute,
    has_error_handle=False,
    category="flow",
    icon="play",
    description="Where a run begins.",
    side_effects="none",
    docs="#start",
)

"""`start`: where a run begins; its output has the input."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from anabranch.engine.rules.templates.budget import TemplateBudget
from anabranch.handlers.spec import HandlerSpec, NodeConfig


class StartConfig(NodeConfig):
    """Nothing to configure."""


def evaluate(config: StartConfig, context: Mapping[str, Any], work: TemplateBudget) -> tuple[Any, None]:
    """The input as the run received it."""
    return {"started": True, "inputReceived": context.get("input")}, None


SPEC = HandlerSpec(
    type="start",
    title="Start",
    config=StartConfig,
    evaluate=evaluate,
    has_error_handle=False,
    category="flow",
    icon="play",
    description="Where a run starts.",
    side_effects="none",
    docs="#start",
)

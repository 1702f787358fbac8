"""`stopWithError`: fails on purpose, with a message of one's own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from anabranch.engine.rules.templates.budget import TemplateBudget
from anabranch.errors import NonRetryable
from anabranch.handlers.spec import HandlerSpec, NodeConfig


class StopWithErrorConfig(NodeConfig):
    """What the error says."""

    message: str = Field(min_length=1, max_length=1_024, description="The error's message.")
    code: str = Field("STOPPED", pattern=r"^[A-Z][A-Z0-9_]{0,63}$", description="The error's code, in capital letters.")


def evaluate(config: StopWithErrorConfig, context: Mapping[str, Any], work: TemplateBudget) -> tuple[Any, None]:
    """Raises NonRetryable: the node fails, and with it the run, unless its error is handled."""
    raise NonRetryable(config.message, code=config.code)


SPEC = HandlerSpec(
    type="stopWithError",
    title="Stop with an error",
    config=StopWithErrorConfig,
    evaluate=evaluate,
    handles=(),
    category="flow",
    icon="stop",
    description="Fails on purpose, with a message of your choice.",
    side_effects="none",
    docs="#stopwitherror",
)

"""`placeholder`: stands where an imported workflow has a node that has no counterpart here.

It says what it was and keeps its parameters. It fails when it is reached; in a test run it can be pinned, and on the
canvas it is replaced by another type.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import Field

from anabranch.engine.rules.templates.budget import TemplateBudget
from anabranch.errors import NonRetryable
from anabranch.handlers.config_fields import x_ui
from anabranch.handlers.spec import HandlerSpec, NodeConfig

# 32 exits: more than a node of any tool has.
HANDLES_MAX = 32

NOT_IMPORTED = "NOT_IMPORTED"


class PlaceholderConfig(NodeConfig):
    """What the node was."""

    was: str = Field(min_length=1, max_length=256, description="The type of the node in the other tool.")
    why: str = Field("", max_length=1_024, description="Why it was not imported.")
    parameters: dict[str, Any] = Field(
        default_factory=dict,
        description="The original parameters, kept as a reference for replacing the node.",
        json_schema_extra=x_ui(advanced=True),
    )
    handles: list[str] = Field(
        default_factory=lambda: ["default"],
        min_length=1,
        max_length=HANDLES_MAX,
        description="The handles of the node.",
        json_schema_extra=x_ui(advanced=True),
    )


def evaluate(config: PlaceholderConfig, context: Mapping[str, Any], work: TemplateBudget) -> tuple[Any, None]:
    """Raises NonRetryable: the node fails."""
    reason = f": {config.why}" if config.why else ""
    raise NonRetryable(f"this was {config.was}, which was not imported{reason}", code=NOT_IMPORTED)


def _handles(config: Mapping[str, Any]) -> Sequence[str]:
    handles = config.get("handles")
    return [str(each) for each in handles] if isinstance(handles, list) and handles else ["default"]


SPEC = HandlerSpec(
    type="placeholder",
    title="Placeholder",
    config=PlaceholderConfig,
    evaluate=evaluate,
    handles=_handles,
    fixed=frozenset({"was", "why", "handles"}),
    literal=frozenset({"parameters"}),
    category="flow",
    icon="puzzle",
    description="Stands for a node of another tool that was not imported.",
    side_effects="unknown",
    docs="#placeholder",
)

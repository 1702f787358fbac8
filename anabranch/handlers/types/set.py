"""`set`: makes an object of values and templates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from anabranch.engine.rules.templates.budget import TemplateBudget
from anabranch.handlers.config_fields import x_ui
from anabranch.handlers.spec import HandlerSpec, NodeConfig


class SetConfig(NodeConfig):
    """The object to make."""

    values: dict[str, Any] = Field(
        description="Names with values; the node's output is an object of them.",
        json_schema_extra=x_ui(widget="keyValue"),
    )


def evaluate(config: SetConfig, context: Mapping[str, Any], work: TemplateBudget) -> tuple[Any, None]:
    """The object, its templates resolved."""
    return config.values, None


SPEC = HandlerSpec(
    type="set",
    title="Set values",
    config=SetConfig,
    evaluate=evaluate,
    category="data",
    icon="pencil",
    description="Makes an object of values and expressions.",
    side_effects="none",
    docs="#set",
    output_schema=lambda config: {"type": "object", "properties": {name: {} for name in config["values"]}},
)

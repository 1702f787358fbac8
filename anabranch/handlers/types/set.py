"""`set`: builds an object from values and templates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from anabranch.engine.rules.templates.budget import TemplateBudget
from anabranch.engine.rules.values import kind_of
from anabranch.errors import NonRetryable
from anabranch.handlers.config_fields import x_ui
from anabranch.handlers.spec import HandlerSpec, NodeConfig


class SetConfig(NodeConfig):
    """The object to make."""

    values: dict[str, Any] = Field(
        description="Names with values; the node's output is an object of them.",
        json_schema_extra=x_ui(widget="keyValue"),
    )
    base: Any = Field(
        None,
        description="An object whose fields the output has as well; `values` with the same names take their place.",
        json_schema_extra=x_ui(widget="expression", placeholder="{{ ctx.item }}", advanced=True),
    )
    keep: list[str] | None = Field(
        None,
        description="The fields of `base` that are taken; all, if not given.",
        json_schema_extra=x_ui(advanced=True),
    )
    drop: list[str] | None = Field(  # not an empty list, which would be copied for every node
        None, description="Fields of `base` that are left out.", json_schema_extra=x_ui(advanced=True)
    )


def evaluate(config: SetConfig, context: Mapping[str, Any], work: TemplateBudget) -> tuple[Any, None]:
    """The object, its templates resolved. Raises NonRetryable for a base that is not an object."""
    if config.base is None:
        return config.values, None
    if not isinstance(config.base, dict):
        raise NonRetryable(f"the base of `set` is {kind_of(config.base)}, not an object", code="NODE_DATA_INVALID")
    dropped = set(config.drop or ())
    names = config.base if config.keep is None else [name for name in config.keep if name in config.base]
    kept = {name: config.base[name] for name in names if name not in dropped}
    return {**kept, **config.values}, None


def _output_schema(config: Mapping[str, Any]) -> Mapping[str, Any]:
    values = config["values"]
    names = values if isinstance(values, dict) else ()
    return {"type": "object", "properties": {name: {} for name in names}}


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
    output_schema=_output_schema,
)

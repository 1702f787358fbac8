"""Shared by node types that convert values: the source, one value or a list, and the converted output.

Used by the node types for times and texts, and by `crypto`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pydantic import Field

from anabranch.engine.rules.templates.budget import Refused, TemplateBudget
from anabranch.engine.rules.templates.filter_arguments import ABSENT
from anabranch.engine.rules.values import kind_of
from anabranch.handlers.config_fields import x_ui
from anabranch.handlers.spec import NodeConfig
from anabranch.handlers.types.data.items import FieldPath, fields_of, object_item, weight


class ValueConfig(NodeConfig):
    """Where the values are, and where the results go."""

    source: Any = Field(
        description="The value, or a list of values: a list gives a list of results. null stays null.",
        json_schema_extra=x_ui(widget="expression", placeholder="{{ ctx.order.text }}"),
    )
    field: FieldPath = Field(
        "",
        description="The field with the value, such as `customer.name`, if the source is an object or a list of them.",
        json_schema_extra=x_ui(advanced=True),
    )
    into: str | None = Field(
        None,
        min_length=1,
        max_length=128,
        description="Put each result into its object, under this name; without it the results alone come out.",
        json_schema_extra=x_ui(advanced=True),
    )


def converted(config: ValueConfig, node: str, work: TemplateBudget, convert: Callable[[Any], Any]) -> Any:
    """The result for each value of the source. Raises Refused, naming the item."""
    is_list = isinstance(config.source, list)
    items = config.source if is_list else [config.source]
    made = []
    for index, value in enumerate(fields_of(items, config.field, work)):
        try:
            made.append(None if value is ABSENT or value is None else convert(value))
        except Refused as refusal:
            raise Refused(f"item {index}: {refusal}" if is_list else str(refusal)) from None
    if config.into is not None:
        made = [
            _with(object_item(item, index, node), config.into, result, work)
            for index, (item, result) in enumerate(zip(items, made, strict=True))
        ]
    return work.built(made, weight(made, work)) if is_list else made[0]


def text_of(value: Any, node: str, work: TemplateBudget) -> str:
    """A value that has to be text; paid for. Raises Refused."""
    if not isinstance(value, str):
        raise Refused(f"`{node}` takes text, not {kind_of(value)}; name the `field` of an object, or write `| string`")
    work.spend(len(value))
    return value


def _with(item: dict[str, Any], name: str, result: Any, work: TemplateBudget) -> dict[str, Any]:
    made = {**item, name: result}
    work.built(made, work.weigh(item) + work.weigh(name) + work.weigh(result) + 2)
    return made

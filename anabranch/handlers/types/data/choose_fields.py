"""`fields`: keeps, leaves out and renames fields of objects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from anabranch.engine.rules.templates.budget import ITEM_UNITS, Refused, TemplateBudget
from anabranch.handlers.config_fields import x_ui
from anabranch.handlers.spec import HandlerSpec, NodeConfig
from anabranch.handlers.types.data.items import FIELDS_MAX, FieldPath, object_item, pure, weight


class FieldsConfig(NodeConfig):
    """The objects and what becomes of their fields."""

    source: Any = Field(
        description="An object, or a list of objects.",
        json_schema_extra=x_ui(widget="expression", placeholder="{{ ctx.orders }}"),
    )
    keep: list[FieldPath] | None = Field(
        None, max_length=FIELDS_MAX, description="The fields to keep, in this order; without it, all."
    )
    drop: list[FieldPath] = Field([], max_length=FIELDS_MAX, description="Fields to leave out.")
    rename: dict[str, str] = Field(
        {},
        max_length=FIELDS_MAX,
        description="Names of fields with their new names. Done last: `keep` and `drop` take the old names.",
    )


def evaluate(config: FieldsConfig, context: Mapping[str, Any], work: TemplateBudget) -> tuple[Any, None]:
    """The object, or a list of them; fields that one does not have are left out."""
    source = config.source
    if isinstance(source, dict):
        return _changed(source, config, work), None
    if not isinstance(source, list):
        raise Refused("`fields` takes an object, or a list of objects")
    made = [_changed(object_item(item, index, "fields"), config, work) for index, item in enumerate(source)]
    return work.built(made, weight(made, work)), None


def _changed(item: Mapping[str, Any], config: FieldsConfig, work: TemplateBudget) -> dict[str, Any]:
    work.spend(ITEM_UNITS * (len(item) + 1))
    names = item if config.keep is None else [name for name in config.keep if name in item]
    dropped = set(config.drop)
    made = {config.rename.get(name, name): item[name] for name in names if name not in dropped}
    work.built(made, 2 + sum(work.weigh(name) + work.weigh(value) + 2 for name, value in made.items()))
    return made


SPEC = HandlerSpec(
    type="fields",
    title="Choose fields",
    config=FieldsConfig,
    evaluate=pure(evaluate),
    category="data",
    icon="table",
    description="Keeps, leaves out and renames fields of objects.",
    side_effects="none",
    docs="#fields",
)

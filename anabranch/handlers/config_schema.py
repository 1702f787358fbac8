"""The JSON Schema of a config as people write it: that of the model, with templates allowed for values.

Called by `spec`. A number field may hold `"{{ctx.n}}"` until the attempt starts, so every place that would refuse text
accepts text that contains `{{`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

UI = "x-ui"
"""The keyword with hints for the forms of editors: see `fields.x_ui`."""

TEMPLATE: Mapping[str, Any] = {"type": "string", "pattern": r"\{\{", "title": "Template"}

# Keywords that describe the field, not its values, stay at the outer level, where editors look for them.
_ANNOTATIONS = ("title", "description", "default", "examples", UI)

_LISTS_OF_SCHEMAS = ("anyOf", "oneOf", "prefixItems")


def schema_with_templates(
    model: type[BaseModel],
    *,
    as_written: frozenset[str] = frozenset(),
    without_templates: frozenset[str] = frozenset(),
) -> dict[str, Any]:
    """The schema of a config before its templates are resolved.

    Fields named `as_written` hold templates where their own schema says so and nowhere else, and those
    `without_templates` none at all, which their `x-ui` says too. `x-ui.order` is the order of the model, unless
    a field has its own.
    """
    schema = _without_null_defaults(model.model_json_schema(by_alias=True))
    opened = _opened_inside(schema)
    properties = schema.get("properties", {})
    fields = {
        name: _with_ui(
            field if name in as_written | without_templates else opened["properties"][name],
            order=order,
            takes_templates=name not in without_templates,
        )
        for order, (name, field) in enumerate(properties.items())
    }
    opened["properties"] = dict(sorted(fields.items(), key=lambda named: named[1][UI]["order"]))
    return opened


def _with_ui(field: dict[str, Any], *, order: int, takes_templates: bool) -> dict[str, Any]:
    template = {} if takes_templates else {"template": False}
    return {**field, UI: {"order": order, **template, **field.get(UI, {})}}


def _without_null_defaults(schema: Any) -> Any:
    """The schema without `"default": null`: a field that may be left out needs none, and forms would write the null."""
    if isinstance(schema, list):
        return [_without_null_defaults(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    kept: dict[str, Any] = {}
    for name, part in schema.items():
        if name in ("properties", "$defs"):  # their keys are names of fields, which may be called `default`
            kept[name] = {key: _without_null_defaults(each) for key, each in part.items()}
        elif name != "default":
            kept[name] = _without_null_defaults(part)
        elif part is not None:
            kept[name] = part
    return kept


def _opened(schema: Any) -> Any:
    """A schema that accepts a template beside what it accepts."""
    if not isinstance(schema, dict) or _accepts_all_text(schema):
        return schema
    inside = _opened_inside(schema)
    described = {name: inside.pop(name) for name in _ANNOTATIONS if name in inside}
    choices = inside["anyOf"] if set(inside) == {"anyOf"} else [inside]
    return {**described, "anyOf": [*choices, TEMPLATE]}


def _opened_inside(schema: dict[str, Any]) -> dict[str, Any]:
    """A schema whose parts accept templates; the whole does not become one."""
    opened = dict(schema)
    for name in ("properties", "$defs"):
        if name in schema:
            change = _opened if name == "properties" else _opened_inside
            opened[name] = {key: change(part) for key, part in schema[name].items()}
    for name in ("items", "additionalProperties"):
        if name in schema:
            opened[name] = _opened(schema[name])
    for name in _LISTS_OF_SCHEMAS:
        if name in schema:
            opened[name] = [_opened_inside(part) for part in schema[name]]
    return opened


def _accepts_all_text(schema: Mapping[str, Any]) -> bool:
    constraints = set(schema) - set(_ANNOTATIONS)
    return not constraints or (constraints == {"type"} and schema["type"] == "string")

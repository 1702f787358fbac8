"""The JSON Schema of a config as it is written: like the model's, with templates where values will be.

Called by `spec`. A field that wants a number may hold `"{{ctx.n}}"` until the attempt starts, so
each place that would refuse text accepts text with `{{` in it besides.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

TEMPLATE: Mapping[str, Any] = {"type": "string", "pattern": r"\{\{", "title": "Template"}

# What describes a field rather than its values stays on the outside, where editors look for it.
_ANNOTATIONS = ("title", "description", "default")

_LISTS_OF_SCHEMAS = ("anyOf", "oneOf", "prefixItems")


def schema_with_templates(model: type[BaseModel], *, literal: frozenset[str] = frozenset()) -> dict[str, Any]:
    """The schema of a config before its templates are resolved; no template stands for a field named `literal`."""
    schema = model.model_json_schema(by_alias=True)
    opened = _opened_inside(schema)
    properties = schema.get("properties", {})
    opened["properties"] = {
        name: field if name in literal else opened["properties"][name] for name, field in properties.items()
    }
    return opened


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

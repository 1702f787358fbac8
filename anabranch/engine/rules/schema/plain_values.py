"""A fast check of simple JSON Schema keywords, without the library: says *certainly valid*, or leaves it open.

Most configs of nodes are such values, and the library takes a tenth of a start of a process to import. What this cannot
decide, and everything that is wrong, is left to `json_schema`, which also says what is wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

# 32 levels: deeper schemas are left to the library.
DEPTH_MAX = 32

_TYPES: Mapping[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "null": (type(None),),
}

# What says nothing about the value.
_SILENT = frozenset({"title", "description", "default", "examples", "$defs", "deprecated", "format", "x-ui"})


def is_certainly_valid(schema: Any, value: Any, *, depth: int = DEPTH_MAX) -> bool:
    """Whether the value satisfies the schema, as far as its simple keywords tell. False: perhaps."""
    if not isinstance(schema, Mapping):
        return schema is True
    if depth == 0:
        return False
    return all(
        keyword in _SILENT or _satisfies(keyword, wanted, schema, value, depth - 1)
        for keyword, wanted in schema.items()
    )


def _satisfies(keyword: str, wanted: Any, schema: Mapping[str, Any], value: Any, depth: int) -> bool:
    match keyword:
        case "type":
            return isinstance(wanted, str) and type(value) in _TYPES.get(wanted, ())
        case "properties" if isinstance(value, dict) and isinstance(wanted, Mapping):
            return all(is_certainly_valid(wanted[name], value[name], depth=depth) for name in wanted if name in value)
        case "required" if isinstance(value, dict) and isinstance(wanted, list):
            return all(name in value for name in wanted)
        case "additionalProperties" if isinstance(value, dict) and "patternProperties" not in schema:
            others = [value[name] for name in value if name not in schema.get("properties", ())]
            return all(is_certainly_valid(wanted, each, depth=depth) for each in others)
        case "items" if isinstance(value, list) and "prefixItems" not in schema:
            return all(is_certainly_valid(wanted, each, depth=depth) for each in value)
        case "anyOf" if isinstance(wanted, list):
            return any(is_certainly_valid(each, value, depth=depth) for each in wanted)
        case "enum" if isinstance(wanted, list):
            return isinstance(value, str) and value in wanted
        case "const":
            return isinstance(value, str) and value == wanted
    return False

"""Values that are valid without doubt: what the quick check says, the library says too."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from anabranch.engine.rules.schema.json_schema import ValueSchema
from anabranch.engine.rules.schema.plain_values import is_certainly_valid
from anabranch.handlers import builtin_types

SCHEMAS: list[Any] = [
    {},
    {"type": "object"},
    {"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": False},
    {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
    {"type": "object", "additionalProperties": {"type": "number"}},
    {"type": "object", "patternProperties": {"^a": {"type": "string"}}, "additionalProperties": False},
    {"properties": {"a": False}},
    {"type": "array", "items": {"type": "string"}},
    {"type": "array", "prefixItems": [{"type": "string"}], "items": False},
    {"anyOf": [{"type": "string"}, {"type": "null"}]},
    {"enum": ["x", "y"]},
    {"const": "x"},
    {"type": "string", "pattern": "^x", "title": "Only the library knows"},
    {"type": ["string", "null"]},
]
VALUES: list[Any] = [
    {},
    {"a": "x"},
    {"a": 1},
    {"a": 1.5, "b": True},
    {"b": None},
    [],
    ["x"],
    ["x", 1],
    "x",
    "z",
    1,
    1.0,
]
VALUES += [True, None]


@pytest.mark.parametrize("schema", SCHEMAS, ids=str)
def test_what_is_certainly_valid_is_valid(schema: Any) -> None:
    ready = ValueSchema(schema)

    assert [value for value in VALUES if is_certainly_valid(schema, value) and ready.problems(value)] == []


def test_simple_values_need_no_library() -> None:
    certain = [(schema, value) for schema, value in product(SCHEMAS, VALUES) if is_certainly_valid(schema, value)]

    assert ({"type": "object"}, {"a": 1}) in certain
    assert (SCHEMAS[2], {"a": "x"}) in certain
    assert (SCHEMAS[7], ["x"]) in certain
    assert (SCHEMAS[9], None) in certain
    assert is_certainly_valid(True, 1) and not is_certainly_valid(False, 1)


def test_a_schema_without_end_is_left_to_the_library() -> None:
    schema: dict[str, Any] = {"items": {}}
    for _ in range(50):
        schema = {"items": schema}
    value: list[Any] = []
    for _ in range(50):
        value = [value]

    assert not is_certainly_valid(schema, value)


@pytest.mark.parametrize(("type_name", "config"), [("start", {}), ("set", {"values": {"n": 1}}), ("end", {})])
def test_plain_configs_of_nodes_are_certainly_valid(type_name: str, config: Any) -> None:
    node_type = builtin_types().get(type_name)
    assert node_type is not None

    assert is_certainly_valid(node_type.config_schema, config)
    assert ValueSchema(node_type.config_schema).problems(config) == []

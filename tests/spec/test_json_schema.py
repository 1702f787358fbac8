"""Schemas that tenants write: checked, used, and never a way out of the machine."""

from __future__ import annotations

from typing import Any

import pytest

from anabranch.engine.rules.json_schema import PROBLEMS_MAX, ValueSchema, schema_problems


def test_a_value_that_does_not_fit_is_told_where():
    schema = ValueSchema({"type": "object", "properties": {"a/b": {"items": {"type": "integer"}}}, "required": ["c"]})
    assert schema.problems({"a/b": [1, "2"], "c": 0}) == [("/a~1b/1", "'2' is not of type 'integer'")]
    assert schema.problems({}) == [("", "'c' is a required property")]
    assert schema.problems({"c": 1}) == []


def test_problems_are_limited_in_number_and_length():
    found = ValueSchema({"items": {"enum": ["x" * 10_000]}}).problems(list(range(1_000)))
    assert len(found) == PROBLEMS_MAX
    assert all(len(message) < 500 for _, message in found)


@pytest.mark.parametrize(
    ("schema", "pointer"),
    [
        ({"type": "objekt"}, "/type"),
        ({"properties": {"a": {"pattern": "("}}}, "/properties/a/pattern"),
        ({"items": 7}, "/items"),
        ([], ""),
        ("string", ""),
    ],
)
def test_what_is_no_schema_is_told_where(schema: Any, pointer: str):
    assert [place for place, _ in schema_problems(schema)] == [pointer]


@pytest.mark.parametrize("reference", ["http://127.0.0.1:1/s", "file:///etc/passwd", "other.json", "//host/s", "urn:x"])
@pytest.mark.parametrize("keyword", ["$ref", "$dynamicRef"])
def test_a_reference_to_another_document_is_refused(keyword: str, reference: str):
    assert [place for place, _ in schema_problems({"anyOf": [{keyword: reference}]})] == [f"/anyOf/0/{keyword}"]


def test_references_inside_the_schema_are_followed():
    schema = {"$defs": {"n": {"type": "integer"}}, "additionalProperties": {"$ref": "#/$defs/n"}}
    assert schema_problems(schema) == []
    assert [place for place, _ in ValueSchema(schema).problems({"a": "x"})] == ["/a"]


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"$ref": "#/nowhere"},
        {"$id": "http://127.0.0.1:1/", "$ref": "#/nowhere"},
        {"$id": "http://127.0.0.1:1/", "$ref": "http://127.0.0.1:1/other"},
        {"$dynamicRef": "#nobody"},
    ],
)
def test_a_schema_that_leads_nowhere_is_a_problem_of_every_value_and_no_exception(schema: dict[str, Any]):
    assert len(ValueSchema(schema).problems({"a": 1})) == 1


def test_a_property_may_be_called_like_a_reference():
    assert schema_problems({"properties": {"$ref": {"type": "string"}}}) == []

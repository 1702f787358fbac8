"""Schemas that tenants write: checked, used, and never a way out of the machine."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

from anabranch.engine.rules.schema.json_schema import (
    FIELDS_MAX,
    PATTERNS_MAX,
    PROBLEMS_MAX,
    ValueSchema,
    schema_problems,
)
from anabranch.engine.rules.schema.keywords import STEPS_MAX
from anabranch.engine.rules.schema.patterns import PATTERN_CHARACTERS_MAX


def test_a_value_that_does_not_fit_is_told_where():
    schema = ValueSchema({"type": "object", "properties": {"a/b": {"items": {"type": "integer"}}}, "required": ["c"]})
    assert schema.problems({"a/b": [1, "2"], "c": 0}) == [("/a~1b/1", "'2' is not of type 'integer'")]
    assert schema.problems({}) == [("", "'c' is a required property")]
    assert schema.problems({"c": 1}) == []


def test_messages_write_null_true_and_false_as_json_does() -> None:
    assert ValueSchema({"type": "string"}).problems(None) == [("", "null is not of type 'string'")]
    told = ValueSchema({"enum": [True, "None", 'it\'s "True"']}).problems({"False": [False, None]})
    assert told == [("", "{'False': [false, null]} is not one of [true, 'None', 'it\\'s \"True\"']")]
    cut = ValueSchema({"type": "integer"}).problems(" None" * 1_000)
    assert "null" not in cut[0][1]


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


@pytest.mark.parametrize(
    ("pattern", "fits", "misfits"),
    [
        ("^[A-Z]{2}-\\d+$", "AB-12", "AB-12x"),
        ("b", "abc", "ac"),
        ("^\\p{Lu}", "Änne", "änne"),
        ("^a/b\\/c$", "a/b/c", "a/b"),
    ],
)
def test_patterns_are_found_anywhere_in_a_text(pattern: str, fits: str, misfits: str):
    schema = {"pattern": pattern}
    assert schema_problems(schema) == []
    assert ValueSchema(schema).problems(fits) == []
    assert len(ValueSchema(schema).problems(misfits)) == 1
    assert ValueSchema(schema).problems(7) == [], "a pattern says nothing about other values"


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|a)*b", "(.*)*(.*)*!", "^(\\w+\\s?)*$"])
def test_a_pattern_that_would_go_back_for_ever_does_not(pattern: str):
    assert len(ValueSchema({"pattern": pattern}).problems("a" * 5_000 + "\n?")) == 1


@pytest.mark.parametrize(
    "pattern", ["(?=a)b", "(a)\\1", "(", "a{1000}{1000}{1000}", "a" * (PATTERN_CHARACTERS_MAX + 1)]
)
def test_patterns_that_cannot_be_used_are_refused_with_their_place(pattern: str):
    assert [place for place, _ in schema_problems({"properties": {"x": {"pattern": pattern}}})] == [
        "/properties/x/pattern"
    ]
    assert len(schema_problems({"patternProperties": {pattern: True}})) == 1


def test_many_patterns_are_refused_before_they_are_tried():
    assert schema_problems({"anyOf": [{"pattern": "a"}] * (PATTERNS_MAX + 1)})[0][0] == ""
    assert schema_problems({"anyOf": [{"pattern": "a"}] * PATTERNS_MAX}) == []


def test_a_text_too_long_for_a_heavy_pattern_is_a_problem_and_takes_no_time():
    schema = ValueSchema({"pattern": "[ab]*a[ab]{5000}c"})
    (problem,) = schema.problems("ab" * 10_000)
    assert "too long for this pattern" in problem[1]
    assert ValueSchema({"pattern": "[ab]*c$"}).problems("ab" * 10_000 + "c") == []


def test_pattern_properties_and_additional_properties_share_the_names():
    schema = ValueSchema(
        {"properties": {"id": {}}, "patternProperties": {"^n_": {"type": "number"}}, "additionalProperties": False}
    )
    assert schema.problems({"id": "x", "n_a": 1}) == []
    assert [place for place, _ in schema.problems({"n_a": "x"})] == ["/n_a"]
    assert len(schema.problems({"id": 1, "other": 2})) == 1


def test_references_that_double_the_work_at_each_step_are_cut_off():
    steps = {f"s{n}": {"allOf": [{"$ref": f"#/$defs/s{n + 1}"}] * 2} for n in range(40)}
    schema = {"$defs": {**steps, "s40": {}}, "$ref": "#/$defs/s0"}
    assert schema_problems(schema) == []
    assert ValueSchema(schema).problems_within(1, STEPS_MAX // 20) is None, "2^40 steps, or a long wait, otherwise"


def test_a_long_enum_counts_for_what_it_is():
    schema = ValueSchema({"items": {"enum": list(range(10_000))}})
    assert schema.problems(list(range(100))) == []
    assert f"more than {STEPS_MAX} steps" in schema.problems(list(range(9_000)))[0][1]


def test_each_check_has_its_own_budget():
    schema = ValueSchema({"items": {"type": "integer"}})
    steps = 300
    for _ in range(3):
        assert schema.problems_within(list(range(200)), steps) == [], "what the check before took is not missing"
        assert schema.problems_within(list(range(400)), steps) is None


@pytest.mark.parametrize(
    ("items", "unique"),
    [
        ([1, True, "1", None, [1], {"a": 1}, False, 0, ["boolean", 1]], True),
        ([1, 1.0], False),
        ([[1, True], [1, 1]], True),
        ([{"a": 1, "b": 2}, {"b": 2, "a": 1}], False),
        ([{"a": n} for n in range(20_000)], True),
    ],
)
def test_items_are_unique_as_json_values(items: list[Any], unique: bool):
    assert (ValueSchema({"uniqueItems": True}).problems(items) == []) is unique


def test_what_would_walk_the_schema_again_stands_alone():
    assert schema_problems({"properties": {"a": {}}, "unevaluatedProperties": False}) == []
    refused = {"unevaluatedProperties": False, "allOf": [{"$ref": "#/$defs/a"}], "$defs": {"a": {}}}
    assert [place for place, _ in schema_problems(refused)] == ["/unevaluatedProperties"]


def _doubling(step: Callable[[dict[str, Any]], dict[str, Any]]) -> dict[str, Any]:
    """Definitions of which each uses the next one twice."""
    steps = {f"s{n}": step({"$ref": f"#/$defs/s{n + 1}"}) for n in range(30)}
    return {"$defs": {**steps, "s30": {"type": "string"}}, "$ref": "#/$defs/s0"}


def _lines_of(action: Callable[[], Any]) -> int:
    """How many lines of Python an action executes, in the library too: the same number on every machine."""
    count = 0

    def line(frame: object, event: str, argument: object) -> Any:
        nonlocal count
        count += event == "line"
        return line

    sys.settrace(line)
    try:
        action()
    finally:
        sys.settrace(None)
    return count


@pytest.mark.parametrize(
    "schema",
    [
        pytest.param(_doubling(lambda next_: {"allOf": [next_, next_]}), id="allOf"),
        pytest.param(_doubling(lambda next_: {"anyOf": [next_, next_]}), id="anyOf"),
        pytest.param(_doubling(lambda next_: {"oneOf": [next_, next_]}), id="oneOf"),
        pytest.param(_doubling(lambda next_: {"not": next_, "allOf": [next_]}), id="not"),
        pytest.param(_doubling(lambda next_: {"if": next_, "then": next_, "else": next_}), id="if"),
        pytest.param({"items": {"anyOf": [{"const": -1 - n} for n in range(100)] + [{}]}}, id="many alternatives"),
        pytest.param({"items": {"$ref": "#/$defs/a"}, "$defs": {"a": {"type": "integer"}}}, id="many references"),
    ],
)
def test_so_many_steps_cost_no_more_under_this_schema_than_under_a_plain_one(schema: dict[str, Any]):
    steps = 3_000
    numbers = list(range(steps))
    plain, expensive = ValueSchema({"items": {"type": "integer"}}), ValueSchema(schema)
    assert schema_problems(schema) == []
    fitting = numbers[: steps * 5 // 6 - 10]  # a step for each, and one for five that `items` goes through
    assert plain.problems_within(fitting, steps) == []
    allowed = _lines_of(lambda: plain.problems_within(fitting, steps))
    assert expensive.problems_within(numbers, steps) is None, "it uses up its steps"
    assert _lines_of(lambda: expensive.problems_within(numbers, steps)) <= allowed


_LONG = ["abcdefgh"] * 20_000
_NAMES = {f"k{n}": 1 for n in range(20_000)}


@pytest.mark.parametrize(
    ("keywords", "value"),
    [
        pytest.param({"anyOf": [{"type": "string"}, {}]}, _LONG, id="a message quotes the value"),
        pytest.param({"anyOf": [{"maxLength": 1}, {}]}, "a" * 200_000, id="a message quotes a text"),
        pytest.param({"anyOf": [{"const": [_LONG]}, {}]}, [[*_LONG[1:], ""]], id="const"),
        pytest.param({"anyOf": [{"enum": [[_LONG]]}, {}]}, [[*_LONG[1:], ""]], id="enum"),
        pytest.param({"anyOf": [{"uniqueItems": True}, {}]}, list(range(20_000)), id="uniqueItems"),
        pytest.param({"anyOf": [{"uniqueItems": True}, {}]}, [list(range(20_000))], id="uniqueItems inside"),
        pytest.param({"items": True}, _LONG, id="items"),
        pytest.param({"contains": True}, _LONG, id="contains"),
        pytest.param({"additionalProperties": True}, _NAMES, id="additionalProperties"),
        pytest.param({"patternProperties": {"^z": True}}, _NAMES, id="patternProperties"),
        pytest.param({"propertyNames": True}, _NAMES, id="propertyNames"),
        pytest.param({"unevaluatedProperties": True}, {f"k{n}": 1 for n in range(2_000)}, id="unevaluatedProperties"),
        pytest.param({"unevaluatedItems": True}, [0] * 2_000, id="unevaluatedItems"),
        pytest.param({"dependentRequired": {"k0": list(_NAMES)}}, _NAMES, id="dependentRequired"),
    ],
)
def test_what_a_keyword_walks_compares_or_quotes_counts(keywords: dict[str, Any], value: Any):
    schema = ValueSchema({"allOf": [keywords]})
    repeated = ValueSchema({"allOf": [keywords] * 1_000})
    assert schema.problems(value) == []
    assert "steps" in repeated.problems(value)[0][1]


@pytest.mark.parametrize(
    ("keyword", "value", "fits"),
    [
        ({"const": 1}, 1.0, True),
        ({"const": 1}, True, False),
        ({"const": [1, {"a": None}]}, [1.0, {"a": None}], True),
        ({"const": {"a": [0]}}, {"a": [False]}, False),
        ({"enum": [0, "a", [1]]}, False, False),
        ({"enum": [0, "a", [1]]}, [1], True),
        ({"enum": []}, None, False),
    ],
)
def test_values_are_compared_as_json_values(keyword: dict[str, Any], value: Any, fits: bool):
    assert (ValueSchema(keyword).problems(value) == []) is fits


def test_a_schema_has_a_bounded_number_of_fields():
    fitting = {"properties": {f"f{n}": {} for n in range(FIELDS_MAX - 1)}}
    assert schema_problems(fitting) == []
    fitting["properties"]["one more"] = {}
    assert "more than 10000 fields" in schema_problems(fitting)[0][1]

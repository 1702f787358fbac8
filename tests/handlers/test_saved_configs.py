"""Configs at save: what is written is judged, what a template will fill in is not."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from tests.handlers.running import TYPES, problems

EXPRESSION_EXPECTED = "EXPRESSION_EXPECTED"


def _branches(*expressions: Any) -> dict[str, Any]:
    return {"branches": [{"id": f"b{index}", "expression": each} for index, each in enumerate(expressions)]}


@pytest.mark.parametrize(
    ("type_name", "config"),
    [
        ("start", {}),
        ("end", {}),
        ("end", {"outputParameters": {"a": "{{ctx.a}}"}, "name": "answer", "terminate": True}),
        ("end", {"outputParameters": [{"name": "a", "value": "{{ctx.a}}"}, {"name": "b", "value": None}]}),
        ("end", {"outputParameters": "{{ctx.whole}}"}),
        ("condition", _branches("{{ctx.a > 1}}", True, False)),
        ("condition", {"branches": []}),
        ("delay", {"duration": 5}),
        ("delay", {"duration": "5m"}),
        ("delay", {"duration": "{{ctx.n}}s"}),
        ("delay", {"until": "2026-01-01T00:00:00+01:00"}),
        ("delay", {"until": "{{ctx.at}}", "duration": None}),
        ("loop", {"source": "{{ctx.items}}"}),
        ("loop", {"source": [1, "{{ctx.a}}"], "concurrency": 10_000, "onItemError": "collect", "yield": "{{ctx.x}}"}),
        ("loop", {"while": "{{ctx.index < 3}}", "maxIterations": 10}),
        ("loop", {"while": "{{ctx.index < 3}}", "mode": "while", "source": None}),
        ("set", {"values": {"a": 1, "b": "{{ctx.b}}", "c": {"d": [None]}}}),
        ("set", {"values": "{{ctx.object}}"}),
        ("waitForEvent", {"event": "paid-{{ctx.id}}", "match": {"id": "{{ctx.id}}"}, "timeout": "{{ctx.t}}"}),
        ("waitForEvent", {"event": "paid"}),
    ],
)
def test_a_good_config_has_no_problems(type_name: str, config: dict[str, Any]) -> None:
    assert problems(type_name, config) == []


@pytest.mark.parametrize(
    ("type_name", "config", "expected"),
    [
        ("start", {"a": 1}, ("SCHEMA", "")),
        ("end", {"outputs": {}}, ("SCHEMA", "")),
        ("end", {"outputParameters": 5}, ("SCHEMA", "/outputParameters")),
        ("end", {"terminate": "{{ctx.a}}"}, ("SCHEMA", "/terminate")),
        ("end", {"name": "{{ctx.a}}"}, ("TEMPLATE_NOT_ALLOWED", "/name")),
        ("condition", {}, ("SCHEMA", "")),
        ("condition", {"branches": "{{ctx.a}}"}, ("SCHEMA", "/branches")),
        ("condition", {"branches": [{"id": "a"}]}, ("SCHEMA", "/branches/0")),
        ("condition", _branches("ctx.a"), (EXPRESSION_EXPECTED, "/branches/0/expression")),
        ("condition", _branches(True, "x {{ctx.a}}"), (EXPRESSION_EXPECTED, "/branches/1/expression")),
        ("condition", _branches("{{ctx.a}} {{ctx.b}}"), (EXPRESSION_EXPECTED, "/branches/0/expression")),
        ("condition", _branches("true"), (EXPRESSION_EXPECTED, "/branches/0/expression")),
        ("condition", _branches(1), (EXPRESSION_EXPECTED, "/branches/0/expression")),
        ("condition", _branches(None), (EXPRESSION_EXPECTED, "/branches/0/expression")),
        ("condition", _branches("{{ctx.}}"), ("TEMPLATE_ERROR", "/branches/0/expression")),
        ("delay", {}, ("CONFIG_INVALID", "")),
        ("delay", {"duration": "5s", "until": "2026-01-01T00:00:00Z"}, ("CONFIG_INVALID", "")),
        ("delay", {"duration": "{{ctx.a}}", "until": "{{ctx.b}}"}, ("CONFIG_INVALID", "")),
        ("delay", {"duration": "5 apples"}, ("CONFIG_INVALID", "/duration")),
        ("delay", {"duration": "6000d"}, ("CONFIG_INVALID", "/duration")),
        ("delay", {"duration": True}, ("SCHEMA", "/duration")),
        ("delay", {"until": "2026-01-01T00:00:00"}, ("CONFIG_INVALID", "/until")),
        ("delay", {"duration": "{{ctx.a"}, ("TEMPLATE_ERROR", "/duration")),
        ("loop", {}, ("CONFIG_INVALID", "")),
        ("loop", {"source": [], "while": "{{ctx.a}}"}, ("CONFIG_INVALID", "")),
        ("loop", {"source": [], "mode": "while"}, ("CONFIG_INVALID", "")),
        ("loop", {"while": "{{ctx.a}}", "mode": "forEach"}, ("CONFIG_INVALID", "")),
        ("loop", {"while": True}, (EXPRESSION_EXPECTED, "/while")),
        ("loop", {"while": "not {{ctx.a}}"}, (EXPRESSION_EXPECTED, "/while")),
        ("loop", {"source": [], "concurrency": 0}, ("SCHEMA", "/concurrency")),
        ("loop", {"source": [], "concurrency": "{{ctx.n}}"}, ("SCHEMA", "/concurrency")),
        ("loop", {"source": [], "onItemError": "ignore"}, ("SCHEMA", "/onItemError")),
        ("loop", {"source": [], "yield": 5}, ("SCHEMA", "/yield")),
        ("loop", {"source": [], "yield": "{{ctx.}}"}, ("TEMPLATE_ERROR", "/yield")),
        ("set", {}, ("SCHEMA", "")),
        ("set", {"values": []}, ("SCHEMA", "/values")),
        ("set", {"values": {"a": ["{% x %}"]}}, ("TEMPLATE_ERROR", "/values/a/0")),
        ("waitForEvent", {}, ("SCHEMA", "")),
        ("waitForEvent", {"event": ""}, ("SCHEMA", "/event")),
        ("waitForEvent", {"event": "a", "timeout": "soon"}, ("CONFIG_INVALID", "/timeout")),
    ],
)
def test_a_bad_config_has_a_problem_with_its_code_and_place(
    type_name: str, config: dict[str, Any], expected: tuple[str, str]
) -> None:
    assert expected in problems(type_name, config)


def test_every_schema_is_a_json_schema() -> None:
    for name in TYPES.names():
        node_type = TYPES.get(name)
        assert node_type is not None
        Draft202012Validator.check_schema(dict(node_type.config_schema))


FIELDS = ("branches", "id", "expression", "source", "while", "mode", "duration", "until", "values", "event", "timeout")
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.sampled_from(["{{ctx.a}}", "{{", "5s"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=4),
    max_leaves=8,
)


@example("loop", {"source": [], "mode": "{{"})
@given(st.sampled_from(TYPES.names()), st.dictionaries(st.sampled_from(FIELDS), JSON, max_size=4))
def test_a_check_answers_whatever_the_config_holds(type_name: str, config: dict[str, Any]) -> None:
    node_type = TYPES.get(type_name)
    assert node_type is not None
    for code, pointer, message, *_ in node_type.check(config):
        assert code
        assert message
        assert pointer == "" or pointer.startswith("/")

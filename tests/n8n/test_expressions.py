"""Expressions of n8n that become templates have n8n's values, and the others are left to code.

What n8n gives was asked of its own functions (`n8n-workflow` of n8n 1.123.81).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from anabranch.engine.rules.templates.template import compile_template
from anabranch.errors import TemplateError
from anabranch.n8n.expressions import translate
from anabranch.n8n.js_reading import check_expression
from anabranch.n8n.phrases import Untranslatable
from tests.n8n.test_conditions import MISSING, OneItem

FAILS = object()

# The expression; the values of the field `a`, and what n8n gives for each: None is nothing, as well.
GIVEN: list[tuple[str, list[tuple[Any, Any]]]] = [
    ("$json.a.length", [("😀x", 3), ([1, 2], 2), ({}, None), ({"length": 3}, 3), (5, None), (None, None)]),
    ("$json.a.length - 1", [([1, 2], 1)]),
    ("$json.a.substring(1, 3)", [("abcd", "bc"), (["a", "b"], None), (None, None)]),
    ("$json.a.includes('5')", [("a5", True), (["5"], True), ([5], False), ({"5": 1}, None), (None, None)]),
    ("['x', 5].includes($json.a)", [("x", True), ("5", False), (5, True), (None, False), (True, False)]),
    (
        "$json.a.isEmpty()",
        [(0, True), (False, True), ("", True), ([], True), ({}, True), (None, True), (5, False), ("x", False)],
    ),
    ("$json.a.isNotEmpty()", [(0, False), (True, True), ("x", True), ([1], True)]),
    ("$json.a !== null", [(None, False), (0, True), (MISSING, True)]),
    ("$json.a === null", [(None, True), (MISSING, False), ("", False)]),
    ("$json.a == null", [(None, True), (MISSING, True), ("", False)]),
    ("$json.a === 1", [(1, True), (True, False), ("1", False)]),
    ("$json.a == 0", [(0, True), ("", True), (None, False), ("0", True), (False, True)]),
    ("$json.a == ''", [("", True), (0, True), ([], True), (None, False), ("x", False)]),
    ("$json.a ? $json.a.split(',')[1] : 'none'", [("a,b", "b"), ("a", None), ("", "none"), (5, None)]),
    ("$json.a.parseJson()", [('{"b": 1}', {"b": 1}), ("no JSON", FAILS), (MISSING, FAILS), (None, FAILS)]),
    ("$json.a.trim().parseJson().b", [(' {"b": 1}', 1), ("no JSON", FAILS)]),
    ("parseInt($json.a)", [("12px", 12), ([7, 8], 7), ("x", None), (None, None)]),
    ("$json.a?.trim()", [(" x ", "x"), (MISSING, None)]),
    ("$ifEmpty($json.a, 'none')", [("", "none"), (0, 0), ([], "none"), (None, "none"), ("x", "x")]),
    (
        "String($json.a)",
        [(None, "null"), ([1, None], "1,"), ({}, "[object Object]"), (2.5, "2.5"), (MISSING, "undefined")],
    ),
    ("Math.round($json.a)", [("2.5", 3), (2.4, 2)]),
    ("JSON.stringify($json.a * 2.5 * 2)", [(1, "5"), (0.3, "1.5"), ("2", "10"), ("x", None)]),
    ("JSON.stringify([0.5 * 4, -(0.5 + 0.5)])", [(None, "[2,-1]")]),
    ("$json.a * 2.5 * 2", [(1, 5), (0.3, 1.5), ("x", None)]),
    ("$json.a * 1.5 > 2 ? $json.a / 2 : 'none'", [(4, 2), (3, 1.5), (1, "none")]),
    ("Math.max($json.a / 2, 0.5 + 0.5)", [(4, 2), (1, 1)]),
    ("-$json.a", [(3.0, -3), ("1.5", -1.5)]),
    ("Number($json.a)", [(3.0, 3), ("3.0", 3), (0.5, 0.5)]),
    ("parseFloat($json.a)", [("3 kg", 3), ("3.0", 3), ("2.5e1x", 25), (".5", 0.5), ("x", None), (None, None)]),
    ("$json.a.length / 2 + 1", [("abcd", 3), ("a", 1.5)]),
    ("$json.a[0]", [([1], 1), ([], None), ({"0": 2}, None)]),
    ("$json.a[0].b.trim() + '!'", [([{"b": " x"}], "x!")]),
    ("$json.a.split(',')[0].toUpperCase()", [("a,b", "A")]),
    ("$json.a?.isEmpty()", [(None, None), (MISSING, None), ("", True), ([], True), (0, True), ("x", False)]),
    ("$json.a?.isNotEmpty()", [(None, None), (MISSING, None), ("", False), ("x", True)]),
    ("$json.a?.isNotEmpty() ? 'some' : 'none'", [(None, "none"), (MISSING, "none"), ("", "none"), ("x", "some")]),
    ("1 === $json.a", [(1, True), (True, False), ("1", False), (MISSING, False)]),
    ("0 !== $json.a", [(0, False), (False, True), (None, True)]),
    ("'x'.length() === $json.a", [(1, True), (True, False)]),
    ("JSON.parse($json.a)", [("[1]", [1]), (5, 5), (True, True), (None, None), ([2], 2), ({}, None), (MISSING, None)]),
    ("JSON.parse($json.a) || 'none'", [("0", "none"), (5, 5), (None, "none"), ("no JSON", None)]),
]


def given(text: str, value: Any) -> Any:
    """What a template gives for a value of the field `a`."""
    try:
        return compile_template("{{" + text + "}}").resolve({"item": {} if value is MISSING else {"a": value}})
    except TemplateError:
        return FAILS


@pytest.mark.parametrize(("js", "wanted"), GIVEN)
def test_a_template_gives_what_the_expression_gives_in_n8n(js: str, wanted: Sequence[tuple[Any, Any]]) -> None:
    said = translate(js, OneItem()).whole()  # type: ignore[arg-type]
    made = [(value, given(said, value)) for value, _ in wanted]
    assert made == list(wanted)
    assert [type(value) for _, value in made] == [type(value) for _, value in wanted]


@pytest.mark.parametrize(
    "js",
    [
        "$json.a.length > 0 ? 'some' : 'none'",
        "$json.a.split(',')[1] || 'none'",
        "$json.a?.trim() || 'none'",
        "$json.a.slice(0, -1) + '!'",
        "Number($json.a) || 0",
        "'sum: ' + Number($json.a)",
        "$json.a / $json.b > 2",
        "$json.a === $json.b",
        "$json.a === undefined",
        "$json.a.toString()",
        "JSON.stringify({b: $json.a})",
        "'text: ' + JSON.stringify($json.a)",
        "Object.keys($json.a)",
        "$if($json.a !== undefined, $ifEmpty($json.a, 1), 2)",
        "$json.a.find(x => x.b === 1)",
        "$json.a[0] || 'q'",
        "$json.a[0].toUpperCase()",
        "$json.a['0'].length",
        "'first: ' + $json.a[0]",
        "$json.a?.parseJson()",
        "$json.a?.toJsonString()",
        "$json.a?.b.urlEncode()",
    ],
)
def test_what_goes_on_where_a_part_of_it_fails_is_left_to_code(js: str) -> None:
    with pytest.raises(Untranslatable):
        translate(js, OneItem())  # type: ignore[arg-type]
    assert check_expression(js, "UTC") is None

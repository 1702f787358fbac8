"""Conditions on values of each kind hold, do not hold and fail as in n8n, where templates say them.

What n8n gives was asked of its own functions (n8n 1.123.81): those of `n8n-workflow` for typed conditions, those of its
node `if` for the first versions.
"""

from __future__ import annotations

from typing import Any

import pytest

from anabranch.engine.rules.templates.template import compile_template
from anabranch.errors import TemplateError
from anabranch.n8n.maps.condition_templates import (
    ConditionTemplate,
    Conversion,
    LegacyCondition,
    TypedCondition,
    old_template,
    typed_template,
)
from anabranch.n8n.refs import Ref
from anabranch.n8n.texts import Texts

MISSING = object()

VALUES = (
    MISSING, None, "", "paid", "Paid", "5", " ", 5, 0, 1.5, -3, True, False, [], ["paid"], [5], {}, {"a": 1}, "true",
    "0",
)  # fmt: skip

# Kind, operation, the second value if there is one, how values are taken; and what n8n gives for each of VALUES: it
# holds (t), does not (f), or fails (x).
TYPED = [
    ("string", "exists", None, "strict", "fftttttxxxxxxxxxxxtt"),
    ("string", "notExists", None, "strict", "ttfffffxxxxxxxxxxxff"),
    ("string", "empty", None, "strict", "tttffffxxxxxxxxxxxff"),
    ("string", "notEmpty", None, "strict", "fffttttxxxxxxxxxxxtt"),
    ("number", "exists", None, "strict", "ffxxxxxttttxxxxxxxxx"),
    ("number", "notExists", None, "strict", "ttxxxxxffffxxxxxxxxx"),
    ("number", "empty", None, "strict", "ttxxxxxffffxxxxxxxxx"),
    ("number", "notEmpty", None, "strict", "ffxxxxxttttxxxxxxxxx"),
    ("boolean", "exists", None, "strict", "ffxxxxxxxxxttxxxxxxx"),
    ("boolean", "notExists", None, "strict", "ttxxxxxxxxxffxxxxxxx"),
    ("boolean", "empty", None, "strict", "ttxxxxxxxxxffxxxxxxx"),
    ("boolean", "notEmpty", None, "strict", "ffxxxxxxxxxttxxxxxxx"),
    ("array", "exists", None, "strict", "ffxxxxxxxxxxxtttxxxx"),
    ("array", "notExists", None, "strict", "ttxxxxxxxxxxxfffxxxx"),
    ("array", "empty", None, "strict", "ttxxxxxxxxxxxtffxxxx"),
    ("array", "notEmpty", None, "strict", "ffxxxxxxxxxxxfttxxxx"),
    ("object", "exists", None, "strict", "ffxxxxxxxxxxxxxxttxx"),
    ("object", "notExists", None, "strict", "ttxxxxxxxxxxxxxxffxx"),
    ("object", "empty", None, "strict", "ttxxxxxxxxxxxxxxtfxx"),
    ("object", "notEmpty", None, "strict", "ffxxxxxxxxxxxxxxftxx"),
    ("boolean", "true", None, "strict", "ffxxxxxxxxxtfxxxxxxx"),
    ("boolean", "false", None, "strict", "ttxxxxxxxxxftxxxxxxx"),
    ("boolean", "equals", True, "strict", "ffxxxxxxxxxtfxxxxxxx"),
    ("boolean", "equals", False, "strict", "ffxxxxxxxxxftxxxxxxx"),
    ("number", "equals", 5, "strict", "ffxxxxxtfffxxxxxxxxx"),
    ("number", "equals", 0, "strict", "ffxxxxxftffxxxxxxxxx"),
    ("boolean", "notEquals", True, "strict", "ttxxxxxxxxxftxxxxxxx"),
    ("boolean", "notEquals", False, "strict", "ttxxxxxxxxxtfxxxxxxx"),
    ("number", "notEquals", 5, "strict", "ttxxxxxftttxxxxxxxxx"),
    ("number", "notEquals", 0, "strict", "ttxxxxxtfttxxxxxxxxx"),
    ("number", "gt", 5, "strict", "ffxxxxxffffxxxxxxxxx"),
    ("number", "gt", 0, "strict", "ffxxxxxtftfxxxxxxxxx"),
    ("number", "gt", -0.5, "strict", "ftxxxxxtttfxxxxxxxxx"),
    ("number", "gte", 5, "strict", "ffxxxxxtfffxxxxxxxxx"),
    ("number", "gte", 0, "strict", "ftxxxxxtttfxxxxxxxxx"),
    ("number", "gte", -0.5, "strict", "ftxxxxxtttfxxxxxxxxx"),
    ("number", "lt", 5, "strict", "ftxxxxxftttxxxxxxxxx"),
    ("number", "lt", 0, "strict", "ffxxxxxffftxxxxxxxxx"),
    ("number", "lt", -0.5, "strict", "ffxxxxxffftxxxxxxxxx"),
    ("number", "lte", 5, "strict", "ftxxxxxttttxxxxxxxxx"),
    ("number", "lte", 0, "strict", "ftxxxxxftftxxxxxxxxx"),
    ("number", "lte", -0.5, "strict", "ffxxxxxffftxxxxxxxxx"),
    ("string", "equals", "paid", "strict", "ffftfffxxxxxxxxxxxff"),
    ("string", "equals", "", "strict", "tttffffxxxxxxxxxxxff"),
    ("string", "notEquals", "paid", "strict", "tttftttxxxxxxxxxxxtt"),
    ("string", "notEquals", "", "strict", "fffttttxxxxxxxxxxxtt"),
    ("string", "contains", "paid", "strict", "ffftfffxxxxxxxxxxxff"),
    ("string", "contains", "", "strict", "tttttttxxxxxxxxxxxtt"),
    ("string", "startsWith", "paid", "strict", "ffftfffxxxxxxxxxxxff"),
    ("string", "startsWith", "", "strict", "tttttttxxxxxxxxxxxtt"),
    ("string", "notEndsWith", "paid", "strict", "tttftttxxxxxxxxxxxtt"),
    ("string", "notEndsWith", "", "strict", "fffffffxxxxxxxxxxxff"),
    ("array", "contains", "paid", "strict", "ffxxxxxxxxxxxftfxxxx"),
    ("array", "notContains", "paid", "strict", "ttxxxxxxxxxxxtftxxxx"),
    ("array", "lengthEquals", 1, "strict", "ffxxxxxxxxxxxfttxxxx"),
    ("array", "lengthGt", 1, "strict", "ffxxxxxxxxxxxfffxxxx"),
    ("string", "equals", "PAID", "strict folds", "fffttffxxxxxxxxxxxff"),
    ("string", "notEquals", "PAID", "strict folds", "tttffttxxxxxxxxxxxtt"),
    ("string", "contains", "PAID", "strict folds", "fffttffxxxxxxxxxxxff"),
    ("string", "startsWith", "PAID", "strict folds", "fffttffxxxxxxxxxxxff"),
    ("string", "notEndsWith", "PAID", "strict folds", "tttffttxxxxxxxxxxxtt"),
    ("string", "exists", None, "loose", "fftttttttttttttttttt"),
    ("string", "notExists", None, "loose", "ttffffffffffffffffff"),
    ("string", "empty", None, "loose", "tttfffffffffffffffff"),
    ("string", "notEmpty", None, "loose", "fffttttttttttttttttt"),
    ("string", "equals", "paid", "loose", "ffftffffffffffffffff"),
    ("string", "equals", "", "loose", "tttfffffffffffffffff"),
    ("string", "notEquals", "paid", "loose", "tttftttttttttttttttt"),
    ("string", "notEquals", "", "loose", "fffttttttttttttttttt"),
    ("string", "contains", "paid", "loose", "ffftfffffffffftfffff"),
    ("string", "contains", "", "loose", "tttttttttttttttttttt"),
    ("string", "startsWith", "paid", "loose", "ffftffffffffffffffff"),
    ("string", "startsWith", "", "loose", "tttttttttttttttttttt"),
    ("string", "notEndsWith", "paid", "loose", "tttftttttttttttttttt"),
    ("string", "notEndsWith", "", "loose", "ffffffffffffffffffff"),
]

# The same without kinds, which decide nothing, and without conversions.
OLD = [
    ("isEmpty", "", "tttfffffffffftfftfff"),
    ("isNotEmpty", "", "fffttttttttttfttfttt"),
    ("equal", "paid", "ffftffffffffffffffff"),
    ("equal", "", "fftfffffffffffffffff"),
    ("equal", 5, "ffffffftffffffffffff"),
    ("equal", 1, "ffffffffffffffffffff"),
    ("equal", True, "ffffffffffftffffffff"),
    ("notEqual", "paid", "tttftttttttttttttttt"),
    ("notEqual", "", "ttfttttttttttttttttt"),
    ("notEqual", 5, "tttttttftttttttttttt"),
    ("notEqual", 1, "tttttttttttttttttttt"),
    ("notEqual", True, "tttttttttttftttttttt"),
    ("larger", 5, "ffffffffffffffffffff"),
    ("larger", 1, "ffffftftftffffftffff"),
    ("larger", -0.5, "tttfftttttftttftffft"),
    ("largerEqual", 5, "ffffftftffffffftffff"),
    ("largerEqual", 1, "ffffftftftftffftffff"),
    ("largerEqual", -0.5, "tttfftttttftttftffft"),
    ("smaller", 5, "tttffftfttttttffffft"),
    ("smaller", 1, "tttffftftftfttffffft"),
    ("smaller", -0.5, "fffffffffftfffffffff"),
    ("smallerEqual", 5, "tttfftttttttttftffft"),
    ("smallerEqual", 1, "tttffftftfttttffffft"),
    ("smallerEqual", -0.5, "fffffffffftfffffffff"),
    ("contains", "paid", "ffftfffffffffftfffff"),
    ("contains", "object", "ffffffffffffffffttff"),
    ("startsWith", "paid", "xxftfffxxxxxxxxxxxff"),
    ("startsWith", "", "xxtttttxxxxxxxxxxxtt"),
    ("notEndsWith", "paid", "xxtftttxxxxxxxxxxxtt"),
    ("notEndsWith", "", "xxfffffxxxxxxxxxxxff"),
]


class OneItem:
    """The names of n8n at a node that gets an item."""

    timezone = "UTC"
    title = "Orders"

    def json(self) -> Ref:
        """`$json`."""
        return Ref("ctx.item", "ctx.item")


def texts_of_an_item() -> Texts:
    """They count nothing and compute nothing."""
    return Texts(OneItem(), lambda js: pytest.fail("it was computed"))  # type: ignore[arg-type]


def outcome(made: ConditionTemplate, value: Any) -> str:
    """What a condition gives for a value of the field `a`."""
    try:
        held = compile_template("{{" + made.text + "}}").resolve({"item": {} if value is MISSING else {"a": value}})
    except TemplateError:
        return "x"
    assert isinstance(held, bool)
    return "t" if held else "f"


@pytest.mark.parametrize(("kind", "operation", "right", "how", "given"), TYPED)
def test_a_typed_condition_does_what_it_does_in_n8n(
    kind: str, operation: str, right: Any, how: str, given: str
) -> None:
    single = right is None
    other = "any" if isinstance(right, str) and kind == "array" else "number" if kind == "array" else kind
    one = TypedCondition(kind, operation, "={{ $json.a }}", "" if single else right, other, single)
    made = typed_template(
        texts_of_an_item(), one, Conversion(strict="strict" in how, folds="folds" in how, version=2)
    )  # fmt: skip

    assert made is not None
    assert "".join(outcome(made, value) for value in VALUES) == given
    assert (made.fails, made.expressions) == ("x" in given, 1)


@pytest.mark.parametrize(("operation", "right", "given"), OLD)
def test_a_condition_of_the_first_versions_does_what_it_does_in_n8n(operation: str, right: Any, given: str) -> None:
    made = old_template(texts_of_an_item(), LegacyCondition("string", operation, "={{ $json.a }}", right))

    assert made is not None
    assert "".join(outcome(made, value) for value in VALUES) == given
    assert (made.fails, made.expressions) == ("x" in given, 1)


@pytest.mark.parametrize(
    ("kind", "operation", "right", "other"),
    [
        ("string", "regex", "^a", "string"),
        ("string", "equals", 5, "string"),
        ("string", "exists", 5, "string"),
        ("number", "gt", "={{ $json.b }}", "number"),
        ("number", "lte", 2**53, "number"),
        ("dateTime", "after", "2026-01-01", "dateTime"),
        ("dateTime", "exists", "", "dateTime"),
        ("boolean", "equals", "={{ $json.b }}", "boolean"),
        ("array", "contains", 5, "any"),
        ("any", "exists", "", "any"),
    ],
)
def test_what_templates_cannot_say_is_left_to_code(kind: str, operation: str, right: Any, other: str) -> None:
    one = TypedCondition(kind, operation, "={{ $json.a }}", right, other, single=False)
    assert typed_template(texts_of_an_item(), one, Conversion(strict=True, folds=False, version=2)) is None


@pytest.mark.parametrize(
    ("kind", "operation", "right"),
    [("dateTime", "after", "2026-01-01"), ("string", "regex", "^a"), ("string", "contains", "al"),
     ("string", "equal", "={{ $json.b }}"), ("number", "larger", "5"), ("string", "startsWith", 5)],
)  # fmt: skip
def test_what_templates_cannot_say_of_the_first_versions_is_left_to_code(kind: str, operation: str, right: Any) -> None:
    assert old_template(texts_of_an_item(), LegacyCondition(kind, operation, "={{ $json.a }}", right)) is None

"""Conditions of n8n's `if`, `switch` and `filter` as templates that hold, fail and do not hold for the same values.

Pure. Called by `conditions`, which has a program in JavaScript for the others. n8n reads what is missing and null as
the same, but in comparisons of numbers: there what is missing is given a number for which the condition does not hold.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from anabranch.dataclass import dataclass
from anabranch.n8n.phrases import Phrase
from anabranch.n8n.refs import literal
from anabranch.n8n.texts import Texts, without_sign

# Up to here each whole number is a number of JavaScript, too.
_WHOLE_MAX = 2**53

_UNARY = frozenset({"exists", "notExists", "empty", "notEmpty", "true", "false"})
_ORDERS = {"gt": ">", "gte": ">=", "lt": "<", "lte": "<="}
_LENGTHS = {"lengthEquals": "==", "lengthNotEquals": "!=", "lengthGt": ">", "lengthGte": ">=", "lengthLt": "<",
            "lengthLte": "<="}  # fmt: skip
_OLD_ORDERS = {"larger": ">", "largerEqual": ">=", "smaller": "<", "smallerEqual": "<="}
_NOTHING = {"string": "''", "array": "[]", "object": "{}"}
_TYPES: Mapping[str, type | tuple[type, ...]] = {
    "string": str,
    "number": (int, float),
    "boolean": bool,
    "array": list,
    "object": dict,
    "any": object,
}
_NEVER_TYPED = ("any", "dateTime")
_TEXTS = ("text", "string")

# What of 0 and false is found in their text: n8n's first versions take them for the empty text.
_IN_FALSY = frozenset("false"[begin:end] for begin in range(5) for end in range(begin + 1, 6)) | {"", "0"}


@dataclass(frozen=True, slots=True)
class ConditionTemplate:
    """A condition as a template."""

    text: str
    fails: bool
    """It fails for some values, as in n8n."""
    expressions: int
    """How many expressions of n8n it says."""


@dataclass(frozen=True, slots=True)
class Conversion:
    """How the values of conditions are taken."""

    strict: bool
    """Values of other types fail; otherwise they are converted."""
    folds: bool
    """Texts are compared without regard to case."""
    version: int
    """Of n8n's rules."""


@dataclass(frozen=True, slots=True)
class TypedCondition:
    """A condition since n8n's second version."""

    kind: str
    operation: str
    left: Any
    right: Any
    other: str
    """The type of the second value."""
    single: bool
    """It has no second value."""


@dataclass(frozen=True, slots=True)
class LegacyCondition:
    """A condition of the first versions."""

    kind: str
    operation: str
    left: Any
    right: Any


class _Value:
    """One value of a condition: a constant, or what an expression gives."""

    def __init__(self, texts: Texts, written: Any) -> None:
        plain = without_sign(written)
        self.is_constant = not (isinstance(plain, str) and plain.startswith("="))
        self.constant = plain if self.is_constant else None
        self.phrase: Phrase | None = None
        self.expressions = 0
        if not self.is_constant:
            self.phrase, self.expressions = texts.tried(written)

    @property
    def is_known(self) -> bool:
        """It is a constant, or templates say it."""
        return self.is_constant or self.phrase is not None

    @property
    def kind(self) -> str:
        """The kind of a value as it is written; `any` where it depends on data."""
        if self.phrase is not None:
            return self.phrase.kind
        return next((kind for kind, type_ in _TYPES.items() if self.is_a(kind)), "null")

    @property
    def is_open(self) -> bool:
        """Its type is known only when it is read, and it may be missing."""
        return not self.is_constant and self.kind not in ("text", "boolean")

    @property
    def text(self) -> str:
        """In front of a filter."""
        return self.phrase.text if self.phrase is not None and self.is_open else self.atom

    @property
    def atom(self) -> str:
        """As an operand."""
        return literal(self.constant) if self.phrase is None else self.phrase.atom

    def is_a(self, kind: str) -> bool:
        """A constant of this type."""
        is_odd = self.constant is None or (kind == "number" and isinstance(self.constant, bool))
        return self.is_constant and not is_odd and isinstance(self.constant, _TYPES.get(kind, ()))


def typed_template(texts: Texts, one: TypedCondition, how: Conversion) -> ConditionTemplate | None:
    """A typed condition as a template; None: there is none that does the same."""
    left, right = _Value(texts, one.left), _Value(texts, None if one.single else one.right)
    if not (left.is_known and right.is_known) or (left.is_constant and left.kind not in ("string", "boolean")):
        return None
    if right.is_constant and right.constant is not None and not right.is_a(one.other):
        return None
    if one.operation in _UNARY:
        text = _of_one(one, how, left) if right.is_constant else None
    elif one.single or one.kind not in _WAYS:
        text = None
    else:
        text = _WAYS[one.kind](one, how, left, right)
    if text is None:
        return None
    fails = how.strict and (left.is_open or right.is_open)
    return ConditionTemplate(text, fails, left.expressions + right.expressions)


def _of_type(value: _Value, kind: str, how: Conversion) -> Phrase | None:
    """A value that has this type, or is null."""
    if not value.is_open:
        has_it = value.is_a(kind) or (value.kind, kind) in (("text", "string"), ("boolean", "boolean"))
        return Phrase(value.atom, value.kind) if has_it else None
    if kind in _NEVER_TYPED or (kind == "number" and how.version >= 3):  # there n8n takes '' for null
        return None
    if how.strict:
        return Phrase(f"{value.text} | must_be('{kind}')", is_atom=False)
    return Phrase(f"{value.text} | js_type('string')", is_atom=False) if kind == "string" else None


def _text_of(value: _Value, how: Conversion) -> str | None:
    """A value as text; null is the empty one."""
    if value.is_constant and (value.constant is None or isinstance(value.constant, str)):
        text = value.constant or ""
        return literal(text.lower() if how.folds else text)
    typed = _of_type(value, "string", how)
    if typed is None:
        return None
    filters = (" | js_text" if value.is_open else "") + (" | lower" if how.folds else "")
    return f"({typed.text}{filters})" if filters else typed.atom


def _of_one(one: TypedCondition, how: Conversion, left: _Value) -> str | None:
    """Conditions on one value."""
    typed, negated = _of_type(left, one.kind, how), one.operation.startswith("not")
    if typed is None:
        return None
    value = typed.atom
    if one.operation in ("true", "false"):
        if one.kind != "boolean":
            return None
        if not left.is_open:
            return value if one.operation == "true" else f"not {value}"
        return f"{value} {'==' if one.operation == 'true' else '!='} true"
    if one.operation in ("exists", "notExists") or one.kind in ("number", "boolean"):
        exists = one.operation in ("exists", "notEmpty")
        return f"{value} {'!=' if exists else '=='} none"
    return f"{value} {'not in' if negated else 'in'} [{_NOTHING[one.kind]}, none]"


def _of_strings(one: TypedCondition, how: Conversion, left: _Value, right: _Value) -> str | None:
    operation, negated = one.operation.removeprefix("not").lower(), one.operation.startswith("not")
    if operation == "equals" and right.is_a("string") and right.constant and not how.folds:
        typed = _of_type(left, "string", how)
        return None if typed is None else f"{typed.atom} {'!=' if negated else '=='} {right.atom}"
    if one.other != "string":
        return None
    first, second = _text_of(left, how), _text_of(right, how)
    if first is None or second is None:
        return None
    return _compared_texts(operation, first, second, negated=negated)


def _compared_texts(operation: str, first: str, second: str, *, negated: bool) -> str | None:
    match operation:
        case "equals":
            return f"{first} {'!=' if negated else '=='} {second}"
        case "contains":
            return f"{second} {'not in' if negated else 'in'} {first}"
        case "startswith" | "endswith" as way:
            return f"{'not ' if negated else ''}({first} | {way}({second}))"
    return None


def _of_numbers(one: TypedCondition, how: Conversion, left: _Value, right: _Value) -> str | None:
    typed = _of_type(left, "number", how)
    number = right.constant if right.is_a("number") else None
    if typed is None or number is None or abs(number) >= _WHOLE_MAX:
        return None
    if one.operation in ("equals", "notEquals"):
        return f"{typed.atom} {'==' if one.operation == 'equals' else '!='} {right.atom}"
    sign = _ORDERS.get(one.operation)
    return None if sign is None else _ordered(left, sign, number)


def _ordered(left: _Value, sign: str, number: float) -> str | None:
    """An order of numbers, in which null counts as 0, and nothing holds for what is missing."""
    path, null_holds = left.text, _holds(0, sign, number)
    if null_holds:
        other = number if len(sign) == 1 else number + (1 if sign == "<=" else -1)
        if _holds(other, sign, number) or left.phrase is None or not left.phrase.is_path:
            return None
        path = f"{path} | default({literal(other)})"
    return f"({path} | must_be('number') | default(0, true)) {sign} {literal(number)}"


def _holds(first: float, sign: str, second: float) -> bool:
    if first == second:
        return len(sign) == 2
    return (first < second) == (sign[0] == "<")


def _of_booleans(one: TypedCondition, how: Conversion, left: _Value, right: _Value) -> str | None:
    typed = _of_type(left, "boolean", how)
    if one.operation == "equal" and not left.is_open:
        return "false"  # n8n does not know it, and takes such a condition for false
    if typed is None or one.operation not in ("equals", "notEquals"):
        return None
    if not right.is_a("boolean") and (left.is_open or right.kind != "boolean" or one.other != "boolean"):
        return None
    return f"{typed.atom} {'==' if one.operation == 'equals' else '!='} {right.atom}"


def _of_arrays(one: TypedCondition, how: Conversion, left: _Value, right: _Value) -> str | None:
    typed = _of_type(left, "array", how)
    if typed is None:
        return None
    if one.operation in ("contains", "notContains") and right.is_a("string") and not how.folds:
        return f"{right.atom} {'in' if one.operation == 'contains' else 'not in'} ({typed.text} | default([], true))"
    sign = _LENGTHS.get(one.operation)
    return f"({typed.text} | default([], true) | length) {sign} {right.atom}" if sign and right.is_a("number") else None


_WAYS: Mapping[str, Callable[[TypedCondition, Conversion, _Value, _Value], str | None]] = {
    "string": _of_strings,
    "number": _of_numbers,
    "boolean": _of_booleans,
    "array": _of_arrays,
}


# -- the first versions -----------------------------------------------------------------------


def old_template(texts: Texts, one: LegacyCondition) -> ConditionTemplate | None:
    """A condition of the first versions as a template: they convert nothing but dates."""
    alone = one.operation in ("isEmpty", "isNotEmpty")
    left, right = _Value(texts, one.left), _Value(texts, None if alone else one.right)
    if one.kind == "dateTime" or not (left.is_known and right.is_known):
        return None
    text = _of_old(one, left, right)
    fails = left.is_open and one.operation.endswith("With")
    return None if text is None else ConditionTemplate(text, fails, left.expressions + right.expressions)


def _of_old(one: LegacyCondition, left: _Value, right: _Value) -> str | None:
    if one.operation in ("isEmpty", "isNotEmpty"):
        return f"{_or_null(left)} {'in' if one.operation == 'isEmpty' else 'not in'} ['', none, [], {{}}]"
    if one.operation in ("equal", "notEqual"):
        return _equal(left, right, "==" if one.operation == "equal" else "!=")
    if one.operation in _OLD_ORDERS:
        return _old_order(left, right, _OLD_ORDERS[one.operation])
    operation, negated = one.operation.removeprefix("not").lower(), one.operation.startswith("not")
    if left.kind in _TEXTS and right.kind in _TEXTS:
        return _compared_texts(operation, left.atom, right.atom, negated=negated)
    if not left.is_open or not right.is_a("string"):
        return None
    if operation != "contains":
        return _compared_texts(operation, left.atom, right.atom, negated=negated)
    if right.constant in _IN_FALSY:
        return None
    return _compared_texts(operation, f"({left.text} | js_text)", right.atom, negated=negated)


def _or_null(value: _Value) -> str:
    return f"({value.text} | default(none))" if value.phrase is not None and value.phrase.is_path else value.atom


def _equal(left: _Value, right: _Value, sign: str) -> str | None:
    """JavaScript's `===`."""
    if not left.is_open:
        same = (left.kind in _TEXTS and right.kind in _TEXTS) or left.kind == right.kind == "boolean"
        return f"{left.atom} {sign} {right.atom}" if same else None
    if right.kind in _TEXTS:
        return f"{_or_null(left)} {sign} {right.atom}"
    if right.is_a("boolean") or right.is_a("number"):  # in templates true equals 1
        return f"({left.text} | must_be('{right.kind}') | otherwise(none)) {sign} {right.atom}"
    return None


def _old_order(left: _Value, right: _Value, sign: str) -> str | None:
    """A comparison in which empty values count as 0 and nothing holds for other texts than numbers."""
    if not left.is_open or not right.is_a("number"):
        return None
    return f"(({left.text} | default(0) | js_number) {sign} {right.atom}) | otherwise(false)"

"""Conditions of n8n's `if`, `switch` and `filter` as one condition of ours.

Pure. Two forms: since version 2 a list with typed operators, before that lists by type.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from anabranch.engine.rules.templates.linear_regex import find
from anabranch.engine.rules.templates.text import EXPRESSION_LENGTH_MAX
from anabranch.n8n.job import MappingJob, NotMapped
from anabranch.n8n.phrases import NeverValid, Phrase
from anabranch.n8n.refs import quoted
from anabranch.n8n.texts import Texts, js_of

_UNARY = frozenset({"exists", "notExists", "empty", "notEmpty", "true", "false"})


def condition_of(job: MappingJob, texts: Texts) -> str:
    """The condition of `if` and `filter`, of any of their versions."""
    written = job.option("conditions", default={})
    if not isinstance(written, dict):
        raise NotMapped("its conditions are computed")
    if isinstance(written.get("conditions"), list):
        loose = job.option("looseTypeValidation") or job.option("options", "looseTypeValidation")
        return typed(written, texts, loose=bool(loose), ignore_case=job.option("options", "ignoreCase") is True)
    combine = job.fixed("combineOperation", default=job.fixed("combineConditions", default="all"))
    return by_type(written, texts, combine=str(combine).lower())


def typed(written: Mapping[str, Any], texts: Texts, *, loose: bool, ignore_case: bool = False) -> str:
    """A list of conditions with typed operators."""
    options = written.get("options") if isinstance(written.get("options"), dict) else {}
    assert isinstance(options, dict)
    loose = loose or options.get("typeValidation") == "loose"
    folds = options.get("caseSensitive") is False or ignore_case
    joined = " or " if written.get("combinator") == "or" else " and "
    made = [
        _condition(each, texts, loose=loose, folds=folds)
        for each in written.get("conditions", ())
        if isinstance(each, dict)
    ]
    return _joined(made, joined)


def by_type(written: Mapping[str, Any], texts: Texts, *, combine: str) -> str:
    """Lists of conditions by type, of the first versions: values are converted."""
    made = []
    for kind, listed in written.items():
        for each in listed if isinstance(listed, list) else ():
            if isinstance(each, dict):
                operation = each.get("operation") or _FIRST.get(kind, "equal")
                made.append(old_test(kind, operation, texts, each.get("value1", ""), each.get("value2", "")))
    return _joined(made, " or " if combine in ("any", "or") else " and ")


def _joined(made: list[str], joint: str) -> str:
    if not made:
        return "true"
    text = made[0] if len(made) == 1 else joint.join(f"({each})" for each in made)
    if len(text) > EXPRESSION_LENGTH_MAX - 32:
        raise NotMapped("its conditions are longer than one of ours may be")
    return text


_FIRST = {"string": "equal", "number": "smaller", "boolean": "equal", "dateTime": "after"}


def _condition(each: Mapping[str, Any], texts: Texts, *, loose: bool, folds: bool) -> str:
    operator = each.get("operator") if isinstance(each.get("operator"), dict) else {}
    assert isinstance(operator, dict)
    kind, operation = str(operator.get("type", "string")), str(operator.get("operation", "equals"))
    left = texts.said(each.get("leftValue"))
    if operation in ("exists", "notExists"):
        return f"{left.value} {'!=' if operation == 'exists' else '=='} none"
    if operation in ("empty", "notEmpty") and kind in ("string", "array", "object", "any"):
        return f"{left.value} {'in' if operation == 'empty' else 'not in'} ['', none, [], {{}}]"
    right = Phrase("none", "null") if operation in _UNARY else texts.said(each.get("rightValue"))
    maker = _TYPED.get(kind)
    if maker is None:
        raise NotMapped(f"a condition on a value of the type {kind}")
    return maker(operation, left, right, loose, folds)


def _text_test(operation: str, left: Phrase, right: Phrase, loose: bool, folds: bool) -> str:  # noqa: FBT001 - of a table
    first, second = _text(left), _text(right)
    if folds:
        first, second = f"({first} | lower)", f"({second} | lower)"
    match operation.removeprefix("not").lower(), operation.startswith("not"):
        case "equals", negated:
            return f"{first} {'!=' if negated else '=='} {second}"
        case "contains", negated:
            return f"{second} {'not in' if negated else 'in'} {first}"
        case "startswith" | "endswith" as way, negated:
            return _not(negated) + f"({first} | {way}({second}))"
        case "regex", negated:
            return _regex(first, right, negated=negated)
    raise NotMapped(f"the operation {operation} of texts")


def _text(said: Phrase) -> str:
    if said.kind == "text" and said.text.startswith("'"):
        return said.text
    return f"({said.text if said.is_path else said.atom} | js_text)"


def _regex(first: str, right: Phrase, *, negated: bool) -> str:
    if right.kind != "text" or not right.text.startswith("'"):
        raise NotMapped("a pattern that is computed")
    source = right.text[1:-1].replace("\\\\", "\\").replace("\\'", "'")
    pattern = pattern_of(source)
    return f"({first} | regex_find({quoted(pattern)})) {'==' if negated else '!='} none"


def _computed_regex(operation: str, texts: Texts, value: Any, pattern: Any) -> str:
    """A pattern that an expression gives, as `/…/flags` or alone: tried by code."""
    said = texts.compute(
        f"((value, pattern) => {{ const whole = /^\\/(.*?)\\/([gimusy]*)$/.exec(pattern);"
        f" return String(value ?? '').match(whole ? new RegExp(whole[1], whole[2]) : new RegExp(pattern)) !== null; }})"
        f"({js_of(value)}, String({js_of(pattern)} ?? ''))"
    )
    texts.counts.as_code += sum(isinstance(each, str) and each.startswith("=") for each in (value, pattern))
    return _not(operation.startswith("not")) + f"({said.value} == true)"


def pattern_of(written: str) -> str:
    """A pattern of JavaScript, alone or as `/…/flags`, as one of ours. Raises NotMapped."""
    flags = ""
    if written.startswith("/") and written.rfind("/") > 0:
        flags = written[written.rfind("/") + 1 :]
        written = written[1 : written.rfind("/")]
    ours = "".join(flag for flag in flags if flag in "ims")
    if set(flags) - set("gimsuy"):
        raise NotMapped("a pattern with flags that are not known")
    pattern = f"(?{ours}){written}" if ours else written
    try:
        find(pattern, "", 0)
    except ValueError:
        raise NotMapped("a pattern that needs more than linear time, or a form that is not known here") from None
    return pattern


def _number_test(operation: str, left: Phrase, right: Phrase, loose: bool, folds: bool) -> str:  # noqa: FBT001 - of a table
    sign = _SIGNS.get(operation)
    if sign is None:
        if operation in ("empty", "notEmpty"):
            return f"{left.value} {'==' if operation == 'empty' else '!='} none"
        raise NotMapped(f"the operation {operation} of numbers")
    first, second = (_number(each, loose) for each in (left, right))
    missing = "true" if sign == "!=" else "false"
    if left.kind == right.kind == "number":
        return f"{first} {sign} {second}"
    return f"({first} {sign} {second}) | otherwise({missing})"


def _number(said: Phrase, loose: bool) -> str:  # noqa: FBT001 - of a table
    if said.kind == "text" and said.text.startswith("'"):
        try:
            value = float(said.text[1:-1].strip() or 0)
        except ValueError:
            raise NotMapped("a text where a number is compared") from None
        return str(int(value)) if value.is_integer() else repr(value)
    if said.kind == "number":
        return said.atom
    return f"({said.atom} | js_number)" if loose else said.atom


def _boolean_test(operation: str, left: Phrase, right: Phrase, loose: bool, folds: bool) -> str:  # noqa: FBT001 - of a table
    first = _boolean(left, loose=loose)
    if not loose and right.kind == "text" and right.text in ("'true'", "'false'"):
        raise NeverValid(f"Wrong type: {right.text} is a string but was expecting a boolean")
    if operation in ("true", "false"):
        return first if operation == "true" else f"not {first}"
    if operation in ("empty", "notEmpty"):
        return f"{left.value} {'==' if operation == 'empty' else '!='} none"
    if operation == "equal":
        return "false"  # n8n does not know it, and takes such a condition for false
    if operation not in ("equals", "notEquals"):
        raise NotMapped(f"the operation {operation} of booleans")
    second = _boolean(right, loose=loose)
    return f"{first} {'==' if operation == 'equals' else '!='} {second}"


def _boolean(said: Phrase, *, loose: bool) -> str:
    if said.kind == "boolean":
        return said.atom
    if loose:
        return f"((({said.text if said.is_path else said.atom} | js_type('boolean')) == true) | otherwise(false))"
    return f"(({said.value} | tojson) == 'true')"


def _list_test(operation: str, left: Phrase, right: Phrase, loose: bool, folds: bool) -> str:  # noqa: FBT001 - of a table
    listed = f"({left.value} or [])"
    match operation:
        case "contains" | "notContains":
            return f"{right.value} {'in' if operation == 'contains' else 'not in'} {listed}"
        case "lengthEquals" | "lengthNotEquals" | "lengthGt" | "lengthLt" | "lengthGte" | "lengthLte":
            sign = _SIGNS[operation.removeprefix("length")[0].lower() + operation.removeprefix("length")[1:]]
            return f"({listed} | length) {sign} {_number(right, loose=True)}"
    raise NotMapped(f"the operation {operation} of lists")


def _date_test(operation: str, left: Phrase, right: Phrase, loose: bool, folds: bool) -> str:  # noqa: FBT001 - of a table
    sign = _DATES.get(operation)
    if sign is None:
        if operation in ("empty", "notEmpty"):
            return f"{left.value} {'in' if operation == 'empty' else 'not in'} ['', none]"
        raise NotMapped(f"the operation {operation} of dates")
    return f"((({left.atom} | timestamp) {sign} ({right.atom} | timestamp)) | otherwise(false))"


def _object_test(operation: str, left: Phrase, right: Phrase, loose: bool, folds: bool) -> str:  # noqa: FBT001 - of a table
    raise NotMapped(f"the operation {operation} of objects")


_SIGNS = {"equals": "==", "notEquals": "!=", "gt": ">", "lt": "<", "gte": ">=", "lte": "<="}
_DATES = {"after": ">", "before": "<", "afterOrEquals": ">=", "beforeOrEquals": "<=", "equals": "==", "notEquals": "!="}
_TYPED: Mapping[str, Callable[[str, Phrase, Phrase, bool, bool], str]] = {
    "string": _text_test,
    "number": _number_test,
    "boolean": _boolean_test,
    "array": _list_test,
    "dateTime": _date_test,
    "object": _object_test,
}


def old_test(kind: str, operation: str, texts: Texts, value1: Any, value2: Any) -> str:
    """One condition of the first versions."""
    if operation in ("regex", "notRegex") and isinstance(value2, str) and value2.startswith("="):
        return _computed_regex(operation, texts, value1, value2)
    left = texts.said(value1)
    if operation in ("isEmpty", "isNotEmpty"):
        return f"{left.value} {'in' if operation == 'isEmpty' else 'not in'} ['', none, [], {{}}]"
    right = texts.said(value2)
    if kind == "string":
        name = {"equal": "equals", "notEqual": "notEquals", "notRegex": "notRegex"}.get(operation, operation)
        return _text_test(name, left, right, loose=True, folds=False)
    if kind == "number":
        name = _OLD_NUMBERS.get(operation, operation)
        return _number_test(name, left, right, loose=True, folds=False)
    if kind == "boolean":
        name = {"equal": "equals", "notEqual": "notEquals"}.get(operation, operation)
        first, second = (f"({_boolish(each)})" for each in (left, right))
        return f"{first} {'==' if name == 'equals' else '!='} {second}"
    if kind == "dateTime":
        return _date_test(operation, left, right, loose=True, folds=False)
    raise NotMapped(f"conditions of the kind {kind}")


def _boolish(said: Phrase) -> str:
    return said.atom if said.kind == "boolean" else said.truth


_OLD_NUMBERS = {
    "smaller": "lt",
    "smallerEqual": "lte",
    "equal": "equals",
    "notEqual": "notEquals",
    "larger": "gt",
    "largerEqual": "gte",
    "greater": "gt",
}


def _not(negated: bool) -> str:  # noqa: FBT001 - of a table
    return "not " if negated else ""

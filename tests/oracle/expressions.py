"""A tiny evaluator for the few template forms that the random graphs and the real shapes use.

Called by the oracle only. It shares nothing with the engine's templates on purpose: two
independent readings of the same sentence are what makes their agreement worth something.

Forms: `{{ctx.a.b}}`, `{{ctx.a | default(LITERAL)}}`, `{{ctx.a | length}}`, `{{X == Y}}`, `{{X < Y}}`,
JSON literals, and any of these inside longer text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

Lookup = Callable[[str], Any]
"""The value of a top-level name of the context; raises Missing."""


class Missing(Exception):
    """The path is not in the context: the node fails with TEMPLATE_PATH_MISSING."""


class Undetermined(Exception):
    """The course of the run hangs on a value that depends on timing: there is nothing to predict."""


class _Unknown:
    def __repr__(self) -> str:
        return "UNKNOWN"


UNKNOWN: Any = _Unknown()
"""A value that depends on timing, or that nobody promised. It agrees with everything."""

_PLACE = re.compile(r"\{\{(.*?)\}\}")
_COMPARISON = re.compile(r"(.+?)\s*(==|<)\s*(.+)")
_DEFAULT = re.compile(r"default\((.*)\)")


def resolve(template: Any, lookup: Lookup) -> Any:
    """A config value with its templates replaced, leaf by leaf."""
    if isinstance(template, dict):
        return {key: resolve(value, lookup) for key, value in template.items()}
    if isinstance(template, list):
        return [resolve(value, lookup) for value in template]
    if not isinstance(template, str):
        return template
    whole = _PLACE.fullmatch(template)
    if whole and "}}" not in whole[1]:
        return _evaluate(whole[1].strip(), lookup)
    values = [_evaluate(place.strip(), lookup) for place in _PLACE.findall(template)]
    if any(value is UNKNOWN for value in values):
        return UNKNOWN
    texts = iter(value if isinstance(value, str) else json.dumps(value) for value in values)
    return _PLACE.sub(lambda _: next(texts), template)


def _evaluate(expression: str, lookup: Lookup) -> Any:
    comparison = _COMPARISON.fullmatch(expression)
    if not comparison:
        return _operand(expression, lookup)
    left, right = _operand(comparison[1], lookup), _operand(comparison[3], lookup)
    if left is UNKNOWN or right is UNKNOWN:
        return UNKNOWN
    return left == right if comparison[2] == "==" else left < right


def _operand(text: str, lookup: Lookup) -> Any:
    path, _, filter_text = (part.strip() for part in text.partition("|"))
    if not path.startswith("ctx."):
        return json.loads(path.replace("'", '"'))
    default = _DEFAULT.fullmatch(filter_text)
    try:
        value = _walk(path.split(".")[1:], lookup)
    except Missing:
        if not default:
            raise
        return json.loads(default[1].replace("'", '"'))
    if value is UNKNOWN and not default:
        raise Undetermined(f"{text} depends on timing")
    return len(value) if filter_text == "length" else value


def _walk(names: list[str], lookup: Lookup) -> Any:
    value = lookup(names[0])
    for name in names[1:]:
        if value is UNKNOWN:
            return UNKNOWN
        if not isinstance(value, dict) or name not in value:
            raise Missing(".".join(names))
        value = value[name]
    return value

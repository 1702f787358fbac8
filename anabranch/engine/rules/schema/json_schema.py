"""JSON Schema: check schemas, and values against a schema, without network access.

Pure. The validator checks configs and `inputSchema` with it; a start checks the input. Schemas come from tenants, so
references to other documents are refused: following one would send a request from inside our network. The cost of a
check is bounded (`keywords`, `patterns`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from jsonschema import Draft202012Validator, FormatChecker
from jsonschema.exceptions import SchemaError, ValidationError
from referencing import Registry
from referencing.exceptions import Unresolvable

from anabranch.engine.rules.graph.problems import pointer_to
from anabranch.engine.rules.schema.keywords import MESSAGE_KEPT, STEPS_MAX, BoundedKeywords, CheckTooLong
from anabranch.engine.rules.schema.patterns import Pattern

# 20 problems of one value: more are rarely independent.
PROBLEMS_MAX = 20

# 300 characters: the library quotes the whole offending value in its messages.
MESSAGE_MAX = 300

# The library quotes values as Python writes them: quoted text, of which the end may be cut off, or a constant.
_TEXT_OR_CONSTANT = re.compile(
    r"""'(?:\\.|[^'\\])*(?:'|\Z)|"(?:\\.|[^"\\])*(?:"|\Z)|\b(?:None|True|False)\b""", re.DOTALL
)
_JSON_CONSTANTS = {"None": "null", "True": "true", "False": "false"}

# 32 patterns in one schema: each may take a twentieth of a second and 15 MB to compile.
PATTERNS_MAX = 32

# 10,000 fields in one schema: the library checks a schema under the schema of schemas, and takes 0.1 ms for each.
FIELDS_MAX = 10_000

# These keywords need to know which parts were evaluated, which the library finds by walking the schema again, beyond
# every bound.
_REWALKING = ("unevaluatedItems", "unevaluatedProperties")
_NOT_BESIDE_REWALKING = ("$ref", "$dynamicRef", "patternProperties")

_NO_FORMATS = FormatChecker(formats=())
_NOTHING_ELSE: Registry[Any] = Registry()
"""Knows no documents and fetches none."""


class ValueSchema:
    """A prepared schema that checks many values, one at a time. Raises nothing for any JSON value."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        """`schema` must have passed `schema_problems`, or be a built-in one."""
        self._keywords = BoundedKeywords()
        self._validator = self._keywords.validator_class(schema, registry=_NOTHING_ELSE)

    def problems(self, value: Any) -> list[tuple[str, str]]:
        """(JSON pointer, message) of each violation, at most `PROBLEMS_MAX`; empty if the value is valid."""
        found = self.problems_within(value, STEPS_MAX)
        if found is None:
            return [("", f"to check this value under the schema takes more than {STEPS_MAX} steps")]
        return found

    def problems_within(self, value: Any, steps: int) -> list[tuple[str, str]] | None:
        """The same; None if the check takes more than this many steps."""
        found: list[tuple[str, str]] = []
        self._keywords.begin(steps)
        try:
            for error in self._validator.iter_errors(value):
                found.append((pointer_to(*error.absolute_path), _message(error)))
                if len(found) == PROBLEMS_MAX:
                    break
        except Unresolvable as refusal:
            found.append(("", f"the schema refers to something that is not in it: {refusal}"[:MESSAGE_MAX]))
        except RecursionError:
            found.append(("", "the schema refers to itself without end"))
        except CheckTooLong:
            return None
        return found


def schema_problems(schema: Any) -> list[tuple[str, str]]:
    """(JSON pointer, message) of everything that makes this unusable as a JSON Schema (draft 2020-12)."""
    if isinstance(schema, bool):
        return []
    if not isinstance(schema, Mapping):
        return [("", "a JSON Schema is an object (or true or false)")]
    if sum(1 for _ in islice(_fields(schema), FIELDS_MAX + 1)) > FIELDS_MAX:
        return [("", f"has more than {FIELDS_MAX} fields")]
    for pointer, reference in _references(schema):
        if not (isinstance(reference, str) and reference.startswith("#")):
            return [(pointer, "refers to another document; only references into this schema (`#…`) are followed")]
    try:
        Draft202012Validator.check_schema(schema, format_checker=_NO_FORMATS)
    except SchemaError as refusal:
        return [(pointer_to(*refusal.absolute_path), _message(refusal))]
    except RecursionError:
        return [("", "is nested too deep")]
    return _pattern_problems(schema) + _rewalking_problems(schema)


def _references(schema: Any) -> Iterator[tuple[str, Any]]:
    """Every reference in a schema, at any depth."""
    for pointer, key, child in _fields(schema):
        if key in ("$ref", "$dynamicRef") and not isinstance(child, (Mapping, list)):
            yield pointer, child


def _pattern_problems(schema: Any) -> list[tuple[str, str]]:
    """The first unusable pattern, or a problem that there are too many, since trying all could take long."""
    patterns: list[tuple[str, str]] = []
    for pointer, key, child in _fields(schema):
        if key == "pattern" and isinstance(child, str):
            patterns.append((pointer, child))
        elif key == "patternProperties" and isinstance(child, Mapping):
            patterns += [(pointer + pointer_to(pattern), pattern) for pattern in child]
    if len(patterns) > PATTERNS_MAX:
        return [("", f"a schema has at most {PATTERNS_MAX} patterns, this one has {len(patterns)}")]
    for pointer, pattern in patterns:
        try:
            Pattern(pattern)
        except ValueError as refusal:
            return [(pointer, str(refusal))]
    return []


def _rewalking_problems(schema: Any) -> list[tuple[str, str]]:
    pointers = {key: pointer for pointer, key, _ in _fields(schema)}
    for keyword in _REWALKING:
        others = [other for other in _NOT_BESIDE_REWALKING if other in pointers]
        if keyword in pointers and others:
            return [(pointers[keyword], f"`{keyword}` cannot be checked in a schema with `{others[0]}`")]
    return []


def _fields(schema: Any) -> Iterator[tuple[str, str, Any]]:
    """(JSON pointer, name, value) of every field of every object in a schema."""
    stack: list[tuple[Any, str]] = [(schema, "")]
    while stack:
        value, pointer = stack.pop()
        if isinstance(value, Mapping):
            for key, child in value.items():
                field_pointer = pointer + pointer_to(key)
                yield field_pointer, key, child
                stack.append((child, field_pointer))
        elif isinstance(value, list):
            stack.extend((child, pointer + pointer_to(index)) for index, child in enumerate(value))


def _message(error: ValidationError | SchemaError) -> str:
    """The sentence of the library, with constants as JSON writes them; values may be quoted only in part."""
    told = str(error.message)[:MESSAGE_KEPT]
    text = _TEXT_OR_CONSTANT.sub(lambda found: _JSON_CONSTANTS.get(found[0], found[0]), told)
    return text if len(text) <= MESSAGE_MAX else text[:MESSAGE_MAX] + "…"

"""Keywords of JSON Schema with a bound on what checking a value may cost.

Pure. Called by `json_schema` alone. The library evaluates a schema as it stands: references
that lead to two references each double the work at every step, patterns run on an engine that
goes back, and `uniqueItems` compares every pair. Here every step is counted, and those
keywords have implementations that cost what the value's size says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from jsonschema import Draft202012Validator, validators
from jsonschema.exceptions import ValidationError

from anabranch.engine.rules.schema_patterns import Pattern

# 400,000 steps, of about 3 µs: enough for a megabyte of small objects, and about a second of work.
STEPS_MAX = 400_000

# What takes longer than a step. A reference is looked up by its text each time it is met. Of alternatives each one is
# tried; what does not fit is an error that is built, and then passes through every keyword around it.
_WEIGHTS = {
    "$ref": 3,
    "$dynamicRef": 3,
    "anyOf": 2,
    "oneOf": 2,
    "not": 2,
    "if": 2,
    "contains": 2,
    "dependentSchemas": 2,
}
ERROR_STEPS = 3

# A keyword that holds a list (`enum`, `required`) goes through it for every value it checks.
PARTS_PER_STEP = 20

# A letter of a text costs at worst what a thousandth of a step does, in each state a matcher may be in.
MATCH_WORK_PER_STEP = 1_000

_BOOLEAN = object()

Errors = Iterator[ValidationError]
Keyword = Callable[[Any, Any, Any, Any], Errors | None]


class TooMuchWork(Exception):
    """Checking this value under this schema takes more than `STEPS_MAX` steps."""


class BoundedKeywords:
    """The keywords of draft 2020-12 for one schema, sharing one budget: not for two threads at once."""

    def __init__(self) -> None:
        self._steps_left = 0
        self._patterns: dict[str, Pattern] = {}
        keywords: dict[str, Keyword] = {
            **Draft202012Validator.VALIDATORS,
            "pattern": self._pattern,
            "patternProperties": self._pattern_properties,
            "additionalProperties": self._additional_properties,
            "uniqueItems": _unique_items,
        }
        self.validator_class = validators.extend(
            Draft202012Validator, {name: self._counted(name, keyword) for name, keyword in keywords.items()}
        )

    def begin(self, steps: int) -> None:
        """Give the next check its budget."""
        self._steps_left = steps

    def _counted(self, name: str, keyword: Keyword) -> Keyword:
        weight = _WEIGHTS.get(name, 1)

        def check(validator: Any, wanted: Any, value: Any, schema: Any) -> Errors:
            self._spend(weight + (len(wanted) // PARTS_PER_STEP if isinstance(wanted, (list, dict)) else 0))
            for error in keyword(validator, wanted, value, schema) or ():
                self._spend(ERROR_STEPS)
                yield error

        return check

    def _spend(self, steps: int) -> None:
        self._steps_left -= steps
        if self._steps_left < 0:
            raise TooMuchWork

    def _pattern(self, validator: Any, wanted: str, value: Any, schema: Any) -> Errors:
        if not isinstance(value, str):
            return
        try:
            if not self._matches(wanted, value):
                yield ValidationError(f"{value!r} does not match {wanted!r}")
        except ValueError as refusal:
            yield ValidationError(str(refusal))

    def _pattern_properties(self, validator: Any, wanted: Mapping[str, Any], value: Any, schema: Any) -> Errors:
        for name in value if isinstance(value, dict) else ():
            try:
                fitting = [pattern for pattern in wanted if self._matches(pattern, name)]
            except ValueError as refusal:
                yield ValidationError(str(refusal))
                continue
            for pattern in fitting:
                yield from validator.descend(value[name], wanted[pattern], path=name, schema_path=pattern)

    def _additional_properties(self, validator: Any, wanted: Any, value: Any, schema: Any) -> Errors:
        known, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
        for name in value if isinstance(value, dict) else ():
            try:
                if name in known or any(self._matches(pattern, name) for pattern in patterns):
                    continue
            except ValueError:
                continue  # `patternProperties` says so
            if wanted is False:
                yield ValidationError(f"Additional properties are not allowed ({name!r} was unexpected)")
            else:
                yield from validator.descend(value[name], wanted, path=name)

    def _matches(self, pattern: str, text: str) -> bool:
        compiled = self._patterns.get(pattern)
        if compiled is None:
            compiled = self._patterns[pattern] = Pattern(pattern)
        self._steps_left -= len(text) * compiled.weight // MATCH_WORK_PER_STEP
        return compiled.matches(text)


def _unique_items(validator: Any, wanted: object, value: Any, schema: Any) -> Errors:
    if wanted and isinstance(value, list) and len({_frozen(item) for item in value}) < len(value):
        yield ValidationError("the list has equal items")


def _frozen(value: Any) -> Any:
    """A value that can be put into a set; equal where JSON values are, so true is not 1."""
    if isinstance(value, bool):
        return (_BOOLEAN, value)
    if isinstance(value, list):
        return tuple(map(_frozen, value))
    if isinstance(value, dict):
        return frozenset((name, _frozen(part)) for name, part in value.items())
    return value

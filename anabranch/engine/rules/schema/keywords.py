"""JSON Schema keywords with bounded cost.

Pure. Used by `json_schema` only. The library's own keywords can be expensive: references that lead to two references
double the work at each step, patterns backtrack, `uniqueItems` compares all pairs, and each message quotes the whole
value. Here each step is counted, and the expensive keywords (also `const` and `enum`) have implementations that are
linear in the size of the value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from jsonschema import Draft202012Validator, validators
from jsonschema.exceptions import ValidationError

from anabranch.engine.rules.schema.patterns import Pattern

# 400,000 steps, of about 3 µs: enough for a megabyte of small objects, and about a second of work.
STEPS_MAX = 400_000

# Keywords that cost more than a step. A reference is looked up by its text each time. Every alternative is tried; for
# each that fails, an error is built that passes through all enclosing keywords.
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

# Keywords with a list (`enum`, `required`) walk it for every value.
PARTS_PER_STEP = 20

# Keywords that walk the parts of a value, and how many parts one step pays for.
_WALKING = {
    "items": 5,
    "additionalProperties": 5,
    "patternProperties": 2,
    "propertyNames": 5,
    "contains": 2,
    "uniqueItems": 4,
}

# For each part of the value the library walks the whole schema again, and compares the part with all others.
_REWALKING = frozenset({"unevaluatedItems", "unevaluatedProperties"})
FIELDS_PER_STEP = 5
COMPARED_PARTS_PER_STEP = 300

# Values compared as a whole: each part takes less than a microsecond.
FROZEN_PARTS_PER_STEP = 4

# 250 characters of a message: quoting a megabyte takes 12 ms.
MESSAGE_CHARACTERS_PER_STEP = 250

# 1,000 characters of each message: there may be thousands of messages with a megabyte each.
MESSAGE_KEPT = 1_000

# A letter of a text costs at worst what a thousandth of a step does, in each state a matcher may be in.
MATCH_WORK_PER_STEP = 1_000

_BOOLEAN = object()

Errors = Iterator[ValidationError]
Keyword = Callable[[Any, Any, Any, Any], Errors | None]


class CheckTooLong(Exception):
    """Checking this value under this schema takes more than `STEPS_MAX` steps."""


class BoundedKeywords:
    """The keywords of draft 2020-12 for one schema, sharing one budget: not for two threads at once."""

    def __init__(self) -> None:
        self._steps_left = 0
        self._patterns: dict[str, Pattern] = {}
        # The prepared values of `const` and `enum`, by identity; the schema lives as long as this object.
        self._wanted: dict[int, Any] = {}
        self._sizes: dict[int, int] = {}
        keywords: dict[str, Keyword] = {
            **Draft202012Validator.VALIDATORS,
            "pattern": self._pattern,
            "patternProperties": self._pattern_properties,
            "additionalProperties": self._additional_properties,
            "uniqueItems": self._unique_items,
            "const": self._const,
            "enum": self._enum,
        }
        self.validator_class = validators.extend(
            Draft202012Validator, {name: self._counted(name, keyword) for name, keyword in keywords.items()}
        )

    def begin(self, steps: int) -> None:
        """Reset the budget for the next check."""
        self._steps_left = steps

    def _counted(self, name: str, keyword: Keyword) -> Keyword:
        weight, parts_per_step = _WEIGHTS.get(name, 1), _WALKING.get(name)

        def check(validator: Any, wanted: Any, value: Any, schema: Any) -> Errors:
            """The errors of a keyword; its steps count against the budget. Raises CheckTooLong once the budget is
            spent."""
            self._spend(weight + (len(wanted) // PARTS_PER_STEP if isinstance(wanted, (list, dict)) else 0))
            if parts_per_step is not None and isinstance(value, (list, dict)):
                walks = len(wanted) if name == "patternProperties" else 1
                self._spend(len(value) * walks // parts_per_step)
            elif name in _REWALKING and isinstance(value, (list, dict)):
                again = self._size(schema) // FIELDS_PER_STEP + len(value) // COMPARED_PARTS_PER_STEP + 1
                self._spend(len(value) * again)
            elif name == "dependentRequired":
                self._spend(sum(map(len, wanted.values())) // PARTS_PER_STEP)
            for error in keyword(validator, wanted, value, schema) or ():
                self._spend(ERROR_STEPS + len(error.message) // MESSAGE_CHARACTERS_PER_STEP)
                if len(error.message) > MESSAGE_KEPT:
                    error.message = error.message[:MESSAGE_KEPT]
                    error.args = (error.message,)
                yield error

        return check

    def _spend(self, steps: int) -> None:
        self._steps_left -= steps
        if self._steps_left < 0:
            raise CheckTooLong

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

    def _unique_items(self, validator: Any, wanted: object, value: Any, schema: Any) -> Errors:
        if wanted and isinstance(value, list) and len({self._frozen(item) for item in value}) < len(value):
            yield ValidationError("the list has equal items")

    def _const(self, validator: Any, wanted: Any, value: Any, schema: Any) -> Errors:
        if self._frozen(value) != self._ready(wanted):
            yield ValidationError(f"{wanted!r} was expected")

    def _enum(self, validator: Any, wanted: list[Any], value: Any, schema: Any) -> Errors:
        frozen = self._frozen(value)
        if not any(frozen == self._ready(one) for one in wanted):
            yield ValidationError(f"{value!r} is not one of {wanted!r}")

    def _size(self, schema: Any) -> int:
        """How many fields and list items a schema has."""
        if not isinstance(schema, (list, dict)):
            return 0
        if id(schema) not in self._sizes:
            parts = schema.values() if isinstance(schema, dict) else schema
            self._sizes[id(schema)] = len(schema) + sum(map(self._size, parts))
        return self._sizes[id(schema)]

    def _ready(self, wanted: Any) -> Any:
        if not isinstance(wanted, (list, dict)):
            return self._frozen(wanted)
        if id(wanted) not in self._wanted:
            self._wanted[id(wanted)] = self._frozen(wanted)
        return self._wanted[id(wanted)]

    def _frozen(self, value: Any) -> Any:
        """A hashable form of a value, equal where JSON values are equal, so true is not 1."""
        if isinstance(value, bool):
            return (_BOOLEAN, value)
        if isinstance(value, (list, dict)):
            self._spend(len(value) // FROZEN_PARTS_PER_STEP)
        if isinstance(value, list):
            return tuple(map(self._frozen, value))
        if isinstance(value, dict):
            return frozenset((name, self._frozen(part)) for name, part in value.items())
        return value

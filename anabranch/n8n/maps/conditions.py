"""Conditions of n8n's `if`, `switch` and `filter` as conditions of ours.

Pure. Two forms: since version 2 a list with typed operators, before that lists by type. What n8n makes of values of
other types, and when it fails, is said by one program in JavaScript (`javascript/conditions.js`). Only what has its
type by how it is written becomes a template.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from anabranch.engine.rules.templates.text import EXPRESSION_LENGTH_MAX
from anabranch.n8n.job import MappingJob, NotMapped
from anabranch.n8n.phrases import Phrase
from anabranch.n8n.texts import Texts

# Operations that have no second value.
_UNARY = frozenset({"exists", "notExists", "empty", "notEmpty", "true", "false"})

# Our templates stay below the length of an expression by this much, for what is put around them.
_ROOM = 32


@dataclass(frozen=True, slots=True)
class TestedConditions:
    """Conditions that are tested together."""

    js: Callable[[], str]
    """Makes an expression of JavaScript, which throws what fails in n8n. Raises Untranslatable."""
    template: str | None = None
    """The same as a template, where the types are known."""

    def condition(self, job: MappingJob, *, quiet: bool = False) -> str:
        """A condition of ours. `quiet`: what fails does not pass."""
        if self.template is not None:
            return self.template
        if not quiet:
            _differs_after_failures(job)
        js = self.js()
        return f"{job.texts().compute(f'n8nQuiet(() => {js})' if quiet else js).value} == true"


def one_of(job: MappingJob, tests: Sequence[TestedConditions]) -> list[str]:
    """Conditions of which the first that holds is taken: those behind it are not tested, and do not fail."""
    templates = [test.template for test in tests if test.template is not None]
    if len(templates) == len(tests):
        return templates
    _differs_after_failures(job)
    listed = ", ".join(f"() => {test.js()}" for test in tests)
    place = job.texts().compute(f"[{listed}].findIndex(test => test())").value
    return [f"{place} == {number}" for number in range(len(tests))]


def _differs_after_failures(job: MappingJob) -> None:
    if job.error_way == "beside":
        job.differs("a condition that fails fails the run, where n8n goes on")


def condition_of(job: MappingJob, texts: Texts) -> str:
    """The condition of `if` and `filter`, of any of their versions."""
    written = job.option("conditions", default={})
    if not isinstance(written, dict):
        raise NotMapped("its conditions are computed")
    if isinstance(written.get("conditions"), list):
        return typed(job, texts, written).condition(job, quiet=job.error_way != "stop")
    combine = job.fixed("combineOperation", default=job.fixed("combineConditions", default="all"))
    listed = [
        OldCondition(kind, str(each.get("operation") or first), each.get("value1", empty), each.get("value2", empty))
        for kind, (first, empty) in OLD.items()
        for each in written.get(kind) or ()
        if isinstance(each, dict)
    ]
    return old_test(texts, listed, any_of=str(combine).lower() in ("any", "or")).condition(job)


# By type, in the order in which they are tested: the operation and the values that an export leaves out.
OLD: Mapping[str, tuple[str, Any]] = {
    "boolean": ("equal", False),
    "dateTime": ("after", ""),
    "number": ("smaller", 0),
    "string": ("equal", ""),
}
_OLD_NAMES = {"equal": "equals", "notEqual": "notEquals"}
_OLD_OPERATIONS = frozenset({
    "after", "before", "larger", "largerEqual", "smaller", "smallerEqual", "equal", "notEqual", "contains",
    "notContains", "startsWith", "notStartsWith", "endsWith", "notEndsWith", "isEmpty", "isNotEmpty",
    "regex", "notRegex",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class OldCondition:
    """A condition of the first versions."""

    kind: str
    operation: str
    left: Any
    right: Any


def old_test(texts: Texts, listed: Sequence[OldCondition], *, any_of: bool) -> TestedConditions:
    """Conditions of the first versions, of whose values n8n converts dates alone."""
    made: list[str | None] = []
    for each in listed:
        if each.kind not in OLD or each.operation not in _OLD_OPERATIONS:
            raise NotMapped(f"the operation {each.operation} of the type {each.kind}")
        name = _OLD_NAMES.get(each.operation, each.operation)
        made.append(_known(texts, each.kind, name, each.left, each.right))

    def js() -> str:
        tests = [
            f"[{json.dumps(each.kind)}, {json.dumps(each.operation)}, {texts.thunk(each.left)},"
            f" {texts.thunk(each.right)}]"
            for each in listed
        ]
        return f"n8nPassesOld({json.dumps(any_of)}, [{', '.join(tests)}])"

    return TestedConditions(js, _joined(made, any_of=any_of))


def typed(job: MappingJob, texts: Texts, written: Mapping[str, Any]) -> TestedConditions:
    """A list of conditions with typed operators."""
    if written.get("combinator") not in ("and", "or"):
        raise NotMapped("its conditions are combined in a way that is not known")
    any_of, how = written["combinator"] == "or", _how(job, written)
    listed = [each for each in written["conditions"] if isinstance(each, dict)]
    made = []
    for each in listed:
        kind, operation, _ = _operator(each)
        known = None if how["folds"] else _known(texts, kind, operation, each.get("leftValue"), each.get("rightValue"))
        made.append(known)

    def js() -> str:
        tests, dates = [], ""
        for each in listed:
            kind, operation, operator = _operator(each)
            other = str(operator.get("rightType") or kind)
            dates = ", DateTime" if "dateTime" in (kind, other) else dates
            rest = ", ".join(json.dumps(value) for value in (other, operator.get("singleValue") is True))
            tests.append(
                f"[{texts.thunk(each.get('leftValue'))}, {json.dumps(kind)}, {json.dumps(operation)},"
                f" {texts.thunk(each.get('rightValue'))}, {rest}]"
            )
        if not how["strict"] and any(_operator(each)[0] == "object" for each in listed):
            job.differs("a text is taken for an object only where it is JSON; n8n reads objects of JavaScript, too")
        return f"n8nPasses({json.dumps({**how, 'any': any_of})}, [{', '.join(tests)}]{dates})"

    return TestedConditions(js, _joined(made, any_of=any_of))


def _operator(written: Mapping[str, Any]) -> tuple[str, str, Mapping[str, Any]]:
    operator = written.get("operator")
    if not isinstance(operator, dict):
        raise NotMapped("a condition without an operator")
    return str(operator.get("type", "string")), str(operator.get("operation", "equals")), operator


def _how(job: MappingJob, written: Mapping[str, Any]) -> dict[str, Any]:
    """How values are taken: the options of the conditions, of which an expression stands for the node's own."""
    options = written.get("options")
    if not isinstance(options, dict):
        raise NotMapped("its conditions do not say how values are compared")
    validation, cases, version = (options.get(name) for name in ("typeValidation", "caseSensitive", "version"))
    if isinstance(validation, str) and validation.startswith("="):
        loose = job.option("looseTypeValidation") or job.option("options", "looseTypeValidation")
        validation = "loose" if loose else "strict"
    if isinstance(cases, str) and cases.startswith("="):
        cases = job.option("options", "ignoreCase") is not True
    if isinstance(version, str):
        second, third = (3.2, 3.4) if job.node.kind == "switch" else (2.2, 2.3)
        version = 1 + (job.node.version >= second) + (job.node.version >= third)
    return {"strict": validation == "strict", "folds": not cases, "version": version or 1}


def _joined(made: Sequence[str | None], *, any_of: bool) -> str | None:
    """Templates as one, where each is there and they are not too long together."""
    said = [each for each in made if each is not None]
    if len(said) < len(made):
        return None
    if not said:
        return "false" if any_of else "true"
    text = said[0] if len(said) == 1 else (" or " if any_of else " and ").join(f"({each})" for each in said)
    return text if len(text) <= EXPRESSION_LENGTH_MAX - _ROOM else None


def _known(texts: Texts, kind: str, operation: str, left: Any, right: Any) -> str | None:
    """A condition of which both values have the type that it expects, by how they are written."""
    if kind not in ("string", "boolean"):
        return None
    first = texts.known(left)
    if first is None or first.is_path:
        return None
    second = None if operation in _UNARY else texts.known(right)
    if kind == "boolean":
        return _of_booleans(operation, first, second)
    return None if second is None or second.is_path else _of_texts(operation, first, second)


def _of_booleans(operation: str, first: Phrase, second: Phrase | None) -> str | None:
    if first.kind != "boolean":
        return None
    if operation in ("true", "false"):
        return first.atom if operation == "true" else f"not {first.atom}"
    if operation == "equal":
        return "false"  # n8n does not know it, and takes such a condition for false
    if second is None or second.kind != "boolean" or operation not in ("equals", "notEquals"):
        return None
    return f"{first.atom} {'==' if operation == 'equals' else '!='} {second.atom}"


def _of_texts(operation: str, first: Phrase, second: Phrase) -> str | None:
    if first.kind != "text" or second.kind != "text":
        return None
    negated = operation.startswith("not")
    match operation.removeprefix("not").lower():
        case "equals":
            return f"{first.atom} {'!=' if negated else '=='} {second.atom}"
        case "contains":
            return f"{second.atom} {'not in' if negated else 'in'} {first.atom}"
        case "startswith" | "endswith" as way:
            return f"{'not ' if negated else ''}({first.atom} | {way}({second.atom}))"
    return None

"""Conditions of n8n's `if`, `switch` and `filter` as conditions of ours.

Pure. Two forms: since version 2 a list with typed operators, before that lists by type. What n8n makes of values of
other types, and when it fails, is written as templates where they can do it (`condition_templates`), and else as one
program in JavaScript (`javascript/conditions.js`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from anabranch.dataclass import dataclass
from anabranch.n8n.job import MappingJob, NotMapped
from anabranch.n8n.maps.condition_templates import (
    ConditionTemplate,
    Conversion,
    LegacyCondition,
    TypedCondition,
    old_template,
    typed_template,
)
from anabranch.n8n.texts import Texts, fits, without_sign


@dataclass(frozen=True, slots=True)
class TestedConditions:
    """Conditions that are tested together."""

    js: Callable[[], str]
    """Makes an expression of JavaScript, which throws what fails in n8n. Raises Untranslatable."""
    template: ConditionTemplate | None = None
    """The same as a template."""
    never_fails: bool = False
    """They fail for no values."""

    @property
    def may_fail(self) -> bool:
        """Whether they fail for some values."""
        return not self.never_fails and (self.template is None or self.template.fails)

    def condition(self, job: MappingJob, *, quiet: bool = False) -> str:
        """A condition of ours. `quiet`: what fails does not pass."""
        fails = self.may_fail
        if fails and not quiet:
            _differs_after_failures(job)
        if self.template is not None:
            condition = f"({self.template.text}) | otherwise(false)" if fails and quiet else self.template.text
            if fits(_in_a_way(condition)):
                job.counts.rewritten += self.template.expressions
                return condition
        js = self.js()
        return f"{job.texts().compute(f'n8nQuiet(() => {js})' if quiet else js).value} == true"


def _in_a_way(condition: str) -> str:
    """The largest expression that is made of one condition."""
    return f"'true' if {condition} else 'false'"


def one_of(
    job: MappingJob, tests: Sequence[TestedConditions], within: Callable[[Sequence[str]], str] | None = None
) -> list[str]:
    """Conditions of which the first that holds is taken: those behind it are not tested, and do not fail.

    `within`: the one expression that they become.
    """
    templates = [test.template for test in tests if test.template is not None]
    if any(test.may_fail for test in tests):
        _differs_after_failures(job)
    conditions = [template.text for template in templates]
    if len(templates) == len(tests) and all(map(fits, [within(conditions)] if within else conditions)):
        job.counts.rewritten += sum(template.expressions for template in templates)
        return conditions
    listed = ", ".join(f"() => {test.js()}" for test in tests)
    first_true = job.texts().compute(f"[{listed}].findIndex(test => test())").value
    return [f"{first_true} == {number}" for number in range(len(tests))]


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
    if job.node.version >= 2:
        job.remarks.append("its conditions have the form of the first version, which n8n does not read: all items pass")
        return "true"
    combine = job.fixed("combineOperation", default=job.fixed("combineConditions", default="all"))
    listed = [
        LegacyCondition(kind, operation_of(each, first), each.get("value1", empty), each.get("value2", empty))
        for kind, (first, empty) in OLD.items()
        for each in written.get(kind) or ()
        if isinstance(each, dict)
    ]
    return old_test(texts, listed, any_of=str(combine).lower() in ("any", "or")).condition(job)


def operation_of(written: Mapping[str, Any], default: str) -> str:
    """The operation of a condition of the first versions."""
    return str(without_sign(written.get("operation")) or default)


# By type, in the order in which they are tested: the operation and the values that an export leaves out.
OLD: Mapping[str, tuple[str, Any]] = {
    "boolean": ("equal", False),
    "dateTime": ("after", ""),
    "number": ("smaller", 0),
    "string": ("equal", ""),
}
_OLD_OPERATIONS = frozenset({
    "after", "before", "larger", "largerEqual", "smaller", "smallerEqual", "equal", "notEqual", "contains",
    "notContains", "startsWith", "notStartsWith", "endsWith", "notEndsWith", "isEmpty", "isNotEmpty",
    "regex", "notRegex",
})  # fmt: skip


# They take values of any type.
_NEVER_FAIL = frozenset({"larger", "largerEqual", "smaller", "smallerEqual", "equal", "notEqual", "contains",
                         "notContains", "isEmpty", "isNotEmpty"})  # fmt: skip
# Reading the item of another node fails where none belongs to the current one.
_READS_ITEM = re.compile(r"\$\(|\$node\b|\$items\b|\$item\b")


def old_test(texts: Texts, listed: Sequence[LegacyCondition], *, any_of: bool) -> TestedConditions:
    """Conditions of the first versions, of whose values n8n converts dates alone."""
    for each in listed:
        if each.kind not in OLD or each.operation not in _OLD_OPERATIONS:
            raise NotMapped(f"the operation {each.operation} of the type {each.kind}")

    def js() -> str:
        """The conditions as a call of `n8nPassesOld`, for code."""
        tests = [
            f"[{json.dumps(each.kind)}, {json.dumps(each.operation)}, {texts.thunk(each.left)},"
            f" {texts.thunk(each.right)}]"
            for each in listed
        ]
        return f"n8nPassesOld({json.dumps(any_of)}, [{', '.join(tests)}])"

    never_fails = all(each.kind != "dateTime" and each.operation in _NEVER_FAIL for each in listed) and not any(
        _READS_ITEM.search(str(value)) for each in listed for value in (each.left, each.right)
    )
    made = _joined([old_template(texts, each) for each in listed], any_of=any_of)
    return TestedConditions(js, made, never_fails)


def typed(job: MappingJob, texts: Texts, written: Mapping[str, Any]) -> TestedConditions:
    """A list of conditions with typed operators."""
    if written.get("combinator") not in ("and", "or"):
        raise NotMapped("its conditions are combined in a way that is not known")
    any_of, how = written["combinator"] == "or", _how(job, written)
    listed = [_typed(each) for each in written["conditions"] if isinstance(each, dict)]

    def js() -> str:
        """The conditions as a call of `n8nPasses`, for code."""
        tests = [
            f"[{texts.thunk(each.left)}, {json.dumps(each.kind)}, {json.dumps(each.operation)},"
            f" {texts.thunk(each.right)}, {json.dumps(each.other)}, {json.dumps(each.single)}]"
            for each in listed
        ]
        dates = ", DateTime" if any("dateTime" in (each.kind, each.other) for each in listed) else ""
        if not how.strict and any(each.kind == "object" for each in listed):
            job.differs("a text is taken for an object only where it is JSON; n8n reads objects of JavaScript, too")
        return f"n8nPasses({json.dumps({**asdict(how), 'any': any_of})}, [{', '.join(tests)}]{dates})"

    return TestedConditions(js, _joined([typed_template(texts, each, how) for each in listed], any_of=any_of))


def _typed(written: Mapping[str, Any]) -> TypedCondition:
    operator = written.get("operator")
    if not isinstance(operator, dict):
        raise NotMapped("a condition without an operator")
    kind = str(operator.get("type", "string"))
    return TypedCondition(
        kind, str(operator.get("operation", "equals")), written.get("leftValue"), written.get("rightValue"),
        str(operator.get("rightType") or kind), operator.get("singleValue") is True,
    )  # fmt: skip


def _how(job: MappingJob, written: Mapping[str, Any]) -> Conversion:
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
    return Conversion(strict=validation == "strict", folds=not cases, version=version or 1)


def _joined(made: Sequence[ConditionTemplate | None], *, any_of: bool) -> ConditionTemplate | None:
    """Templates as one, where each is there."""
    conditions = [each for each in made if each is not None]
    if len(conditions) < len(made):
        return None
    texts = [each.text for each in conditions]
    joined = (" or " if any_of else " and ").join(f"({text})" for text in texts) if len(texts) > 1 else "".join(texts)
    return ConditionTemplate(
        joined or ("false" if any_of else "true"),
        any(each.fails for each in conditions),
        sum(each.expressions for each in conditions),
    )

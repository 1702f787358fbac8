"""The judge of functions: hears what each call of a function is told and does, and holds it against the log.

`judge` makes one; the step ledger calls it before each step and after each answer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from anabranch import StepError
from anabranch.engine.rules.events import ActivationKey, EventType
from tests.simulation.coded_facts import CodedFacts
from tests.simulation.program_functions import Call, FunctionCall, StepLedger
from tests.simulation.programs import Run

Accuse = Callable[[Callable[..., object], str, str], None]
"""(the promise, what is wrong, the run)."""


class CodedJudge:
    """Listens to the functions of one world."""

    def __init__(
        self,
        *,
        facts: Callable[[str], CodedFacts],
        is_current: Callable[[str, str], bool],
        accuse: Accuse,
        rarities: Any,
        seed: int,
    ) -> None:
        """`is_current` (worker id, run id): does this worker hold the run, and know all that is in its log?"""
        self._facts = facts
        self._is_current = is_current
        self._accuse = accuse
        self._rarities = rarities
        self.ledger = StepLedger(self, seed=seed)

    # -- what the ledger tells ------------------------------------------------------------
    def function_begins(self, call: FunctionCall) -> None:
        """A run keeps the version that it began with, and a process has one function of it at a time."""
        facts = self._facts(call.run_id)
        if call.version != facts.case.version:
            self._accuse(self.function_begins, f"a function of version {call.version} is called", call.run_id)
        before = self.ledger.functions.get((call.run_id, call.worker_id))
        if before is not None and not before.is_over and not before.cancelled:
            self._accuse(self.function_begins, f"its function is called twice at once in {call.worker_id}", call.run_id)
        if facts.endings:
            self._rarities["coded: function called again"] += 1

    def step_begins(self, function: FunctionCall, call: Call, spec: Run) -> tuple[ActivationKey, int]:
        """A step whose end is recorded is never called again, and an attempt that is not due is not begun."""
        facts = self._facts(function.run_id)
        key = facts.key_of(call, function.attempt)
        attempt = facts.open_attempt(key)
        if not function.cancelled and self._is_current(function.worker_id, function.run_id):
            if key in facts.endings:
                what = f"{key} is called in {function.worker_id}, and has ended with {facts.endings[key].type}"
                self._accuse(self.step_begins, what, function.run_id)
            elif attempt > 1 and facts.last[key].type is not EventType.NODE_DISPATCHED:
                what = f"try {attempt} of {key} begins after {facts.last[key].type}"
                self._accuse(self.step_begins, what, function.run_id)
        for other in self.ledger.under_way:
            same = other.function is function and other.key == key
            if same and not function.cancelled:
                self._accuse(self.step_begins, f"{key} is called twice at once", function.run_id)
        if any(done.key == key and done.attempt == attempt for done in self._calls_of(function.run_id)):
            self._rarities["coded: step called again after a crash"] += 1
        return key, attempt

    def told(self, function: FunctionCall, call: Call, value: Any, error: StepError | None) -> None:
        """A function is told what is committed, the same on the first run and on every replay, and nothing before."""
        facts = self._facts(function.run_id)
        end = facts.end_of(call, function.attempt)
        if end is None:
            self._accuse(self.told, f"{call} is answered before its end is committed", function.run_id)
            return
        told: tuple[bool, Any] = (True, value)
        expected = end
        if error is not None:
            told = (False, (error.type, error.message, error.code, error.attempt))
        if not end[0]:
            expected = (False, tuple(end[1][key] for key in ("type", "message", "code", "attempt")))
        if told != expected:
            self._accuse(self.told, f"{call} is told as {told}, and the log has {expected}", function.run_id)

    def looked(self, function: FunctionCall, look: int, picture: list[Any]) -> None:
        """Clock, numbers and ids of the context are the same on every replay."""
        seen = self._facts(function.run_id).pictures.setdefault((function.attempt, look), picture)
        if seen != picture:
            self._accuse(self.looked, f"look {look} was {seen} and is {picture} now", function.run_id)

    def _calls_of(self, run_id: str) -> Any:
        return (done for done in self.ledger.calls if done.function.run_id == run_id)

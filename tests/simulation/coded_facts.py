"""What the log of one coded run says so far, read row by row, without the help of the engine's journal.

Kept by `judge`; `coded_invariants` and `coded_judge` ask the questions.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from anabranch.engine.rules.events import ENDINGS, ActivationKey, Event, EventType
from tests.simulation.coded_cases import CodedCase
from tests.simulation.facts import RunFacts
from tests.simulation.program_ends import End
from tests.simulation.program_functions import Call

FUNCTION: ActivationKey = ("", "")

_OF_THE_FUNCTION = {
    EventType.NODE_DISPATCHED,
    EventType.NODE_WAITING,
    EventType.NODE_ATTEMPT_FAILED,
    EventType.SYSTEM_SET,
}

_UNDONE = {EventType.NODE_FAILED, EventType.NODE_SKIPPED}


@dataclass(slots=True, eq=False, kw_only=True)
class CodedFacts(RunFacts):
    """One coded run."""

    case: CodedCase
    ended_in: dict[ActivationKey, int] = field(default_factory=dict)
    """The attempt of the workflow that a step ended in."""
    pictures: dict[tuple[int, int], list[object]] = field(default_factory=dict)
    """What the function saw when it looked at its context, by (attempt, how many times)."""

    @property
    def function_attempt(self) -> int:
        """The attempt of the workflow; 0 before the first."""
        return self.attempts.get(FUNCTION, 0)

    def key_of(self, call: Call, attempt: int) -> ActivationKey:
        """Where a call of this attempt of the workflow stands in the log: what had failed or was given up runs anew."""
        name, number = call
        first = "" if number == 1 else f"#{number}"
        latest = (name, first)
        for again in range(2, attempt + 1):
            if (name, f"{first}@{again}") in self.last:
                latest = (name, f"{first}@{again}")
        ending = self.endings.get(latest)
        if ending is not None and ending.type in _UNDONE and self.ended_in[latest] < attempt:
            return (name, f"{first}@{attempt}")
        return latest

    def open_attempt(self, key: ActivationKey) -> int:
        """Which try of a step is the next to be answered: only failed ones count."""
        row = self.last.get(key)
        if row is None:
            return 1
        return row.attempt + (row.type is EventType.NODE_ATTEMPT_FAILED)

    def ending_for(self, call: Call, attempt: int) -> Event | None:
        """The row that a function in this attempt of the workflow may be answered from."""
        return self.endings.get(self.key_of(call, attempt))

    def end_of(self, call: Call, attempt: int) -> End | None:
        """How a call ended, for the function of this attempt."""
        ending = self.ending_for(call, attempt)
        if ending is None or ending.type is EventType.NODE_SKIPPED:
            return None  # what was given up, nobody is told
        if ending.type is EventType.NODE_COMPLETED:
            return True, ending.payload.value
        return False, ending.payload.value["error"]

    def forget(self) -> None:
        """Begin to read the log anew."""
        RunFacts.forget(self)
        self.ended_in.clear()

    def try_again(self, reopened: Event) -> None:
        """Handled failures that are not tried again are those of the next attempt, too."""
        RunFacts.try_again(self, reopened)
        if any(each["nodeID"] == "" for each in reopened.payload.value["redo"]):
            for key, ending in self.endings.items():
                if ending.type is EventType.NODE_FAILED:
                    self.ended_in[key] = self.function_attempt + 1

    def absorb_activation(self, event: Event, key: ActivationKey) -> None:
        """Take in a row about a step, or about the function."""
        if event.type is EventType.SYSTEM_SET and "leftBehind" in event.payload.value:
            # Of the run that this one was forked from: if that was retried, its function has another attempt.
            if event.payload.value["leftBehind"] == EventType.INSTANCE_REOPENED and FUNCTION in self.last:
                self.last[FUNCTION] = replace(event, type=EventType.NODE_ATTEMPT_FAILED)
            return
        if key == FUNCTION:
            if event.type in _OF_THE_FUNCTION:
                self.last[FUNCTION] = event
            if event.type is EventType.NODE_DISPATCHED:
                self.attempts[FUNCTION] = event.attempt
            return
        self.attempts[key] = event.attempt
        if event.type is EventType.NODE_WAITING:
            self.absorb_wait(event, key)
        elif event.type in ENDINGS:
            self.endings[key] = event
            self.ended_in[key] = self.function_attempt
            self.waits.pop(key, None)
        if event.type is not EventType.NODE_WAITING or "signalSeq" not in event.payload.value or key not in self.last:
            self.last[key] = event

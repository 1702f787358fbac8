"""Open calls of a workflow function: steps, waits, children, signals, timers. See `function_run`."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Callable, Mapping
from enum import Enum
from typing import TypeAlias

from anabranch.durable.branches import Branch
from anabranch.durable.workflow_loop import WorkflowFuture, WorkflowTimer
from anabranch.engine.rules.coded.arguments import shown
from anabranch.engine.rules.coded.coded_state import CodedState, Step
from anabranch.engine.rules.coded.names import StepKind
from anabranch.engine.rules.shared.retry import RetryPolicy
from anabranch.engine.rules.shared.run_state import Phase
from anabranch.engine.rules.stimuli import (
    AwaitsAnySignal,
    AwaitsInstant,
    AwaitsSignal,
    AwaitsTime,
    StepOutcome,
    StepReport,
)
from anabranch.engine.rules.transitions import PARK_AFTER_MS
from anabranch.engine.rules.values import Payload

Try: TypeAlias = Callable[[int], Awaitable[tuple[StepOutcome, BaseException | None]]]
"""One attempt of a step: what it came to, and the exception that it failed with."""

Place: TypeAlias = tuple[str, str]


class Stage(Enum):
    """Where a call stands."""

    ASKED = "the function has asked for it; nothing is done yet"
    TRYING = "a try of it is under way"
    REPORTED = "what it came to is on its way to the log"
    WAITING = "it waits for a time, a signal, a child or another try"
    ENDED = "the log has its end"
    OVER = "the function was told, or does not wait any more"

    # An enum hashes its name in Python, and these are looked up several times a step.
    __hash__ = object.__hash__


class Call:
    """One call of a verb of `ctx.step`, or one timer."""

    __slots__ = (
        "arguments",
        "asked",
        "attempt_once",
        "branch",
        "cause",
        "context",
        "future",
        "kind",
        "name",
        "place",
        "policy",
        "reported_seq",
        "scope",
        "stage",
        "task",
        "timer",
        "wait",
    )

    def __init__(self, name: str, scope: str, kind: StepKind, branch: Branch, policy: RetryPolicy) -> None:
        self.name = name
        self.scope = scope
        self.place: Place = (name, scope)
        self.kind = kind
        self.branch = branch
        self.policy = policy
        self.arguments: str | None = None
        """What it is asked for with (`coded.arguments`); None where the log has it anyway."""
        self.wait: StepOutcome | None = None
        """What it asks the log for."""
        self.attempt_once: Try | None = None
        """Or what is to be done for it, in `context`."""
        self.context: contextvars.Context | None = None
        self.future: WorkflowFuture[object] | None = None
        """Where the function waits for the answer."""
        self.timer: WorkflowTimer | None = None
        """Or what is to be called."""
        self.stage = Stage.ASKED
        self.task: asyncio.Task[None] | None = None
        """The try that is under way."""
        self.asked: StepReport | None = None
        """A wait that is not reported yet."""
        self.reported_seq = 0
        """Its latest row when something was reported of it."""
        self.cause: BaseException | None = None
        """What the latest try has failed with."""

    @property
    def shown(self) -> str:
        """As people see it: `fetch#2`."""
        return f"{self.name}{self.scope}"

    def changed_from(self, record: Step) -> str:
        """What is other about this call than about the one that the log has."""
        if record.kind is not self.kind:
            return f"step {self.shown} was a {record.kind} before and is a {self.kind} now"
        before, now = shown(record.arguments or ""), shown(self.arguments or "")
        return f"step {self.shown} was asked for with {before} before and is asked for with {now} now"


class Calls:
    """The calls of one function that are not over, by their stages, each in the order in which it came to it."""

    def __init__(self) -> None:
        self._open: dict[Place, Call] = {}
        self._stages: dict[Stage, dict[Call, None]] = {stage: {} for stage in Stage}

    def of(self, stage: Stage) -> list[Call]:
        """Those at this stage."""
        return list(self._stages[stage])

    def has(self, stage: Stage) -> bool:
        """Is any at this stage?"""
        return bool(self._stages[stage])

    def at(self, place: Place) -> Call | None:
        """The one at this place, if it is not over."""
        return self._open.get(place)

    def add(self, call: Call) -> None:
        """The function has asked for it."""
        self._open[call.place] = call
        self._stages[Stage.ASKED][call] = None

    def move(self, call: Call, stage: Stage) -> None:
        """It is at this stage now."""
        self._stages[call.stage].pop(call, None)
        call.stage = stage
        if stage is Stage.OVER:
            self._open.pop(call.place, None)
        else:
            self._stages[stage][call] = None

    def clear(self) -> None:
        """Forget all of them."""
        self._open.clear()
        for calls in self._stages.values():
            calls.clear()


def is_short(call: Call, journal: CodedState, *, now: int) -> bool:
    """Will this wait be over so soon that its function had better stay?"""
    if call.asked is None:
        record = journal.steps.get(call.place)
        if record is None:
            return False
        if record.has_ended or record.phase is Phase.DISPATCHED:
            return True  # what ends it, or begins the next try, is decided and on its way to the log
        return record.due_at is not None and record.due_at - now <= PARK_AFTER_MS
    match call.asked.outcome:
        case AwaitsTime(duration_ms):
            return duration_ms <= PARK_AFTER_MS
        case AwaitsInstant(due_at):
            return due_at - now <= PARK_AFTER_MS
        case AwaitsSignal(event, wanted, timeout_ms):
            return _is_short_wait(journal, {event: wanted}, timeout_ms)
        case AwaitsAnySignal(events, timeout_ms):
            return _is_short_wait(journal, events, timeout_ms)
    return False


def _is_short_wait(journal: CodedState, events: Mapping[str, Payload | None], timeout_ms: int | None) -> bool:
    is_kept = journal.oldest_signal(events) is not None
    return is_kept or (timeout_ms is not None and timeout_ms <= PARK_AFTER_MS)

"""Calls of steps that are not answered yet, and why they are not. Known to `body` and `steps`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from enum import Enum
from typing import TypeAlias

from anabranch.durable.branches import Branch
from anabranch.engine.rules.coded.arguments import shown
from anabranch.engine.rules.coded.places import StepKind
from anabranch.engine.rules.coded.state import CodedState, Step
from anabranch.engine.rules.run_state import Phase
from anabranch.engine.rules.stimuli import AwaitsAnySignal, AwaitsSignal, AwaitsTime, StepOutcome, StepReport
from anabranch.engine.rules.turn import PARK_AFTER_MS
from anabranch.engine.rules.values import Payload

Try: TypeAlias = Callable[[int], Awaitable[tuple[StepOutcome, BaseException | None]]]
"""One attempt of a step: what it came to, and the exception that it failed with."""


class Rest(Enum):
    """Why a call is not answered yet."""

    UNSETTLED = "its rows are on their way"
    HELD = "nothing new is done before all that the log has was asked for"
    REPLAYED = "it has ended, and its turn in the order of the log has not come"
    WAITING = "a timer, a signal, a child or another try"
    GIVEN_UP = "its task was cancelled when it rested here before, and will be again"

    # An enum hashes its name in Python, and these are looked up several times a step.
    __hash__ = object.__hash__


class Call:
    """One call of a step by the author's code, until it is answered."""

    __slots__ = ("arguments", "asked", "branch", "future", "kind", "name", "place", "rest", "scope", "since", "until")

    def __init__(self, name: str, scope: str, kind: StepKind, branch: Branch, arguments: str | None) -> None:
        self.name = name
        self.scope = scope
        self.place = (name, scope)
        self.kind = kind
        self.branch = branch
        self.arguments = arguments
        """What it is asked for with (`coded.arguments`); None where the log has it anyway."""
        self.asked: StepReport | None = None
        """A wait that is not reported yet."""
        self.future: asyncio.Future[None] | None = None
        self.rest = Rest.UNSETTLED
        self.until: Callable[[], bool] = bool
        self.since = 0.0

    @property
    def shown(self) -> str:
        """As people see it: `fetch#2`."""
        return f"{self.name}{self.scope}"

    def changed_from(self, record: Step) -> str:
        """What is other about this call than about the one that the log has."""
        before, now = shown(record.arguments or ""), shown(self.arguments or "")
        return f"step {self.shown} was asked for with {before} before and is asked for with {now} now"


class RestingCalls:
    """Calls of one body that are not answered, in the order in which they came to rest."""

    def __init__(self) -> None:
        self._calls: dict[Rest, dict[tuple[str, str], Call]] = {rest: {} for rest in Rest}

    def of(self, *rests: Rest) -> list[Call]:
        """Those that rest for one of these reasons."""
        return [call for rest in rests for call in self._calls[rest].values()]

    @property
    def is_empty(self) -> bool:
        """True if no call rests."""
        return not any(self._calls.values())

    def has(self, rest: Rest) -> bool:
        """Does any rest for this reason?"""
        return bool(self._calls[rest])

    def at(self, rest: Rest, place: tuple[str, str]) -> Call | None:
        """The one that rests for this reason at this place."""
        return self._calls[rest].get(place)

    def put(self, call: Call, rest: Rest) -> None:
        """It rests for this reason now, and for no other."""
        self.remove(call)
        call.rest = rest
        self._calls[rest][call.place] = call

    def remove(self, call: Call) -> None:
        """It does not rest any more."""
        self._calls[call.rest].pop(call.place, None)

    def answer(self, call: Call) -> None:
        """Let it go on."""
        if call.future is not None and not call.future.done():
            call.future.set_result(None)
        self.remove(call)


def is_short(call: Call, journal: CodedState, *, now: int) -> bool:
    """Will this wait be over so soon that its body had better stay?"""
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
        case AwaitsSignal(event, wanted, timeout_ms):
            return _is_short_wait(journal, {event: wanted}, timeout_ms)
        case AwaitsAnySignal(events, timeout_ms):
            return _is_short_wait(journal, events, timeout_ms)
    return False


def _is_short_wait(journal: CodedState, events: Mapping[str, Payload | None], timeout_ms: int | None) -> bool:
    is_kept = journal.oldest_signal(events) is not None
    return is_kept or (timeout_ms is not None and timeout_ms <= PARK_AFTER_MS)

"""Open calls of a workflow function, the calls that a replay must repeat, and which task knows which rows.

Made by `function_run` for each call of a function. Calls are steps, waits, children, signals and timers.

The order of the log decides: the result of a call is delivered when everything before it in the log has been delivered,
live as on replay. So when a result is delivered, the function has made every call whose first row stands before it.

A function that gathers runs in several tasks, and the traced graph has an edge for each. Each task is a branch: it
knows what the branch that started it knew then, and what it was answered since. When it ends, the branch that started
it knows that, too.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from enum import Enum
from heapq import heappop, heappush
from typing import TypeAlias

from anabranch.durable.workflow_loop import WorkflowLoop, WorkflowTimer
from anabranch.engine.rules.coded.arguments import differ, shown
from anabranch.engine.rules.coded.coded_state import CodedState, Step
from anabranch.engine.rules.coded.names import Rows, StepKind
from anabranch.engine.rules.events import ActivationKey
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

AttemptEnd: TypeAlias = tuple[StepOutcome, BaseException | None]
"""The outcome of an attempt of a step, and the exception that it failed with."""

Attempt: TypeAlias = Callable[[int], Awaitable[AttemptEnd]]
"""One attempt of a step."""


class Stage(Enum):
    """The stage of a call."""

    ASKED = "the function has asked for it; nothing is done yet"
    RUNNING = "an attempt of it is under way"
    REPORTED = "its outcome is being committed"
    WAITING = "it waits for a time, a signal, a child or another attempt"
    ENDED = "the log has its end"
    OVER = "the function has the result, or no longer waits"

    # Enums hash their names in Python, and these are looked up several times per step.
    __hash__ = object.__hash__


class StepBranch:
    """One task of a workflow function, and the latest rows that it knows: several if branches have joined."""

    __slots__ = ("inherited", "known", "task")

    def __init__(self, task: asyncio.Task[object] | None, known: Rows) -> None:
        self.task = task
        self.inherited = known
        self.known = known

    def saw(self, seq: int) -> None:
        """Note that it got the result in this row, which follows from everything that it knew before."""
        self.known = frozenset((seq,))

    def meet(self, ended: StepBranch) -> None:
        """A branch that it has begun has ended."""
        if ended.known != ended.inherited:
            self.known = self.known - ended.inherited | ended.known
        ended.forget_task()

    def forget_task(self) -> None:
        """Its task has ended, and refers to it by its context: so both are freed without the garbage collector."""
        self.task = None


_branch: ContextVar[StepBranch] = ContextVar("branch")


def begin_branch(task: asyncio.Task[object], seq: int) -> StepBranch:
    """This task is the first branch of a function that was dispatched by this row; call it in the task's context."""
    branch = StepBranch(task, frozenset((seq,)))
    _branch.set(branch)
    return branch


def present_branch(loop: WorkflowLoop, began_seq: int) -> StepBranch:
    """The branch that calls; a task that was begun since has its own. `began_seq` is the row of the first one."""
    task = asyncio.current_task(loop)
    branch = _branch.get(None)
    if branch is None:  # the task was given a context without it
        branch = StepBranch(None, frozenset((began_seq,)))
    if branch.task is not task and task is not None:
        parent = branch
        branch = StepBranch(task, parent.known)
        _branch.set(branch)
        task.add_done_callback(lambda _: parent.meet(branch))
    return branch


# Looked up once: a member of an enum costs ten times a global before Python 3.12.
_STAGES = _ASKED, _RUNNING, _REPORTED, _WAITING, _, _OVER = tuple(Stage)
_DISPATCHED = Phase.DISPATCHED


class StepCall:
    """One call of a verb of `ctx.step`, or one timer."""

    __slots__ = (
        "arguments",
        "as_copied",
        "asked",
        "attempt_began_at",
        "attempt_once",
        "branch",
        "cause",
        "context",
        "future",
        "is_elsewhere",
        "key",
        "kind",
        "name",
        "policy",
        "reported_seq",
        "scope",
        "stage",
        "task",
        "timer",
        "wait",
    )

    def __init__(self, name: str, scope: str, kind: StepKind, branch: StepBranch, policy: RetryPolicy) -> None:
        self.name = name
        self.scope = scope
        self.key: ActivationKey = (name, scope)
        self.kind = kind
        self.branch = branch
        self.policy = policy
        self.is_elsewhere = False
        """An executor calls its function: meanwhile it needs no slot here."""
        self.arguments: str | None = None
        """What it is asked for with (`coded.arguments`); None where the log has it anyway."""
        self.as_copied: Sequence[str] = ()
        """The same as rows say it that were copied from other runs, with their ids in place of this run's."""
        self.wait: StepOutcome | None = None
        """What it asks the log for."""
        self.attempt_once: Attempt | None = None
        """Or what is to be done for it, in `context`."""
        self.context: contextvars.Context | None = None
        self.future: asyncio.Future[object] | None = None
        """Where the function waits for the answer."""
        self.timer: WorkflowTimer | None = None
        """Or what is to be called."""
        self.stage = _ASKED
        self.task: asyncio.Task[None] | None = None
        """The attempt that is under way."""
        self.attempt_began_at: float | None = None
        """When its first attempt began (the worker's loop's time), as long as the log does not say that it has."""
        self.asked: StepReport | None = None
        """A wait that is not reported yet."""
        self.reported_seq = 0
        """Its latest row when something was reported of it."""
        self.cause: BaseException | None = None
        """What the latest attempt has failed with."""

    @property
    def shown(self) -> str:
        """As people see it: `fetch#2`."""
        return f"{self.name}{self.scope}"

    def differs_from(self, record: Step) -> bool:
        """Was the one that the log has asked for with other arguments?"""
        before = record.arguments
        return differ(before, self.arguments) and all(differ(before, each) for each in self.as_copied)

    def changed_from(self, record: Step) -> str:
        """What is other about this call than about the one that the log has."""
        if record.kind is not self.kind:
            return f"step {self.shown} was a {record.kind} before and is a {self.kind} now"
        before, now = shown(record.arguments or ""), shown(self.arguments or "")
        return f"step {self.shown} was asked for with {before} before and is asked for with {now} now"


class Calls:
    """The open calls of one function by stage, each in the order of arrival."""

    def __init__(self) -> None:
        self._open: dict[ActivationKey, StepCall] = {}
        self._stages: dict[Stage, dict[StepCall, None]] = {stage: {} for stage in _STAGES}
        # To see at a glance whether any call is at one of these.
        self.asked = self._stages[_ASKED]
        self.running = self._stages[_RUNNING]
        self.reported = self._stages[_REPORTED]
        self.waiting = self._stages[_WAITING]

    def of(self, stage: Stage) -> list[StepCall]:
        """Those at this stage."""
        return list(self._stages[stage])

    def at(self, key: ActivationKey) -> StepCall | None:
        """The open call with this key, if any."""
        return self._open.get(key)

    def add(self, call: StepCall) -> None:
        """Add a call that the function has made."""
        self._open[call.key] = call
        self.asked[call] = None

    def move(self, call: StepCall, stage: Stage) -> None:
        """It is at this stage now, and not over."""
        stages = self._stages
        stages[call.stage].pop(call, None)
        stages[stage][call] = None
        call.stage = stage

    def end(self, call: StepCall) -> None:
        """It is over."""
        self._stages[call.stage].pop(call, None)
        call.stage = _OVER
        self._open.pop(call.key, None)
        call.attempt_once = call.context = None  # they refer back to it

    def clear(self) -> None:
        """Forget all of them."""
        self._open.clear()
        for calls in self._stages.values():
            calls.clear()


class Replay:
    """The steps that had rows when the function was called, and the results still to deliver."""

    def __init__(self, steps: Iterable[Step], *, attempt: int) -> None:
        """`attempt` is that of the workflow; calls of earlier attempts need not be repeated."""
        asked = sorted((step.first_seq, step.key) for step in steps if step.created_in == attempt)
        self.unasked = {key for _, key in asked}
        """Empty once the function has made all calls that the log has of this attempt."""
        self._first_rows = deque(asked)
        """Of those that were not asked for yet, and of some others."""
        self._met = 0
        """How many ends of the log have had their turn."""
        self._late: list[tuple[int, ActivationKey]] = []
        """Ends that had been passed when they were asked for: they come first."""

    def ask(self, *keys: ActivationKey) -> None:
        """Note that the function has made these calls."""
        if self.unasked:
            self.unasked.difference_update(keys)

    def asked_late(self, ended: Step) -> None:
        """Note a call that ended before the last delivered result, in an earlier attempt of the workflow."""
        heappush(self._late, (ended.ended_seq, ended.key))

    def has_met(self, ended: Step, endings: Sequence[Step]) -> bool:
        """Whether it is past this result's turn."""
        return self._met > 0 and ended.ended_seq <= endings[self._met - 1].ended_seq

    def next(self, endings: Sequence[Step], committed_seq: int) -> tuple[int, ActivationKey] | None:
        """Row and key of the end that is next; None: no further one is committed."""
        if self._late:
            return self._late[0]
        if self._met < len(endings):
            ended = endings[self._met]
            if ended.ended_seq <= committed_seq:
                return ended.ended_seq, ended.key
        return None

    def pass_on(self) -> None:
        """Note that the next result was delivered."""
        if self._late:
            heappop(self._late)
        else:
            self._met += 1

    def missing(self, before: int | None = None) -> tuple[int, ActivationKey] | None:
        """The calls that the function must have made before the result in row `before` is delivered, including that one
        (None: all by now), but has not."""
        rows = self._first_rows
        while rows and rows[0][1] not in self.unasked:
            rows.popleft()
        return rows[0] if rows and (before is None or rows[0][0] <= before) else None


def is_short(call: StepCall, journal: CodedState, *, now: int) -> bool:
    """Whether this wait ends so soon that its function should stay in memory."""
    if call.asked is None:
        record = journal.steps.get(call.key)
        if record is None:
            return False
        if record.has_ended or record.phase is _DISPATCHED:
            return True  # its end, or the next attempt, is decided and being committed
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
    is_kept = journal.signals.oldest_kept(events) is not None
    return is_kept or (timeout_ms is not None and timeout_ms <= PARK_AFTER_MS)

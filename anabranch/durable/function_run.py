"""One call of a workflow function: collects its calls, answers them, and suspends or stops it.

Created by `runner` for each job; `steps` calls it for the author's code, which runs on a `WorkflowLoop`. The function
runs until no task is ready, then gets the next answer from the log, and so on. When no answer is left, its new calls
are started in order. When nothing is running either, the function only waits, and is unwound.

All of that happens in `advance`, a plain callback of the worker's loop. It uses only its run access of the engine and
decides nothing: the rules of coded runs do (`engine.rules.coded`).
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import orjson

from anabranch.durable.calls import (
    Attempt,
    Calls,
    Replay,
    Stage,
    StepBranch,
    StepCall,
    begin_branch,
    is_short,
    present_branch,
)
from anabranch.durable.execution import begun_task
from anabranch.durable.step_error import StepError, Suspended, qualified_name
from anabranch.durable.workflow_loop import WorkflowLoop, WorkflowTimer, line_of_task
from anabranch.engine.ownership.run_access import RunAccess
from anabranch.engine.plans import PYTHON
from anabranch.engine.ports import Clock
from anabranch.engine.queues import Slot
from anabranch.engine.rules.coded.coded_state import CodedState, Step
from anabranch.engine.rules.coded.names import (
    TIMER_NAME,
    Mark,
    StepKind,
    is_step_name,
    scope_of_call,
    scope_of_timer,
)
from anabranch.engine.rules.coded.replaying import seed_of
from anabranch.engine.rules.events import ActivationKey, SuspendReason
from anabranch.engine.rules.shared.failures import failed_by
from anabranch.engine.rules.shared.retry import DEFAULT_STEP_RETRY, RetryPolicy
from anabranch.engine.rules.shared.run_state import Phase, Redone
from anabranch.engine.rules.stimuli import (
    AwaitsChild,
    AwaitsInstant,
    Begun,
    FunctionBlocked,
    FunctionSuspended,
    LegacyReplayed,
    LogMatched,
    StepCancelled,
    StepOutcome,
    StepReport,
)
from anabranch.errors import InvalidDefinition, NotInWorkflow, WorkflowStuck

logger = logging.getLogger("anabranch.durable")

# 10 s for steps to end when their function is done with: time to close a connection.
STOP_PATIENCE_S = 10.0

# 200 ms until the log records that a step is under way: most steps end before that and need no row for their beginning.
WRITTEN_AFTER_S = 0.2

# 10 ms until that is recorded together with other rows: steps that begin together usually end together.
LEAST_AGE_S = 0.01

# At most 8 tasks are named if a function is stuck or leaves tasks behind: enough to see a pattern.
TASKS_SHOWN_MAX = 8

# Looked up once: a member of an enum costs ten times a global before Python 3.12, and a step needs a dozen.
_ASKED, _RUNNING, _REPORTED, _WAITING, _ENDED, _OVER = Stage
_DISPATCHED, _RUN = Phase.DISPATCHED, StepKind.RUN


class FunctionRun:
    """One call of a workflow function, from its first line until it ends or only waits."""

    def __init__(self, run_access: RunAccess, journal: CodedState, clock: Clock, slot: Slot) -> None:
        assert journal.function is not None, "a function is called when it was dispatched"
        activation = journal.function
        run_id = journal.head.instance_id
        self.attempt = activation.attempt
        self.seed: int | str = run_id if activation.seed is None else activation.seed
        """What random numbers begin with."""
        self.origins = journal.origins
        """The runs that rows of this one were copied from."""
        self.now_ms = activation.began_at
        """The time of the latest row that was delivered to the function (ms)."""
        self._run_access, self._clock, self._slot = run_access, clock, slot
        self._run_id = run_id
        self._began_at, self._began_seq = activation.began_at, activation.began_seq
        self._called_by, self._python = activation.called_by, activation.python
        self._new_rules_since = activation.loop_since
        """None: an older version recorded this attempt, which knew no timers and answered in other rounds."""
        self._worker_loop = asyncio.get_running_loop()
        self._loop = WorkflowLoop(  # type: ignore[abstract]  # what is missing, it refuses
            seed=seed_of(run_id) if activation.seed is None else activation.seed,
            timer_set=self._timer_set,
            timer_cancelled=self._timer_cancelled,
            described=f"run {run_id}",
        )
        self._main: asyncio.Task[Any] | None = None
        self._first_branch: StepBranch | None = None
        """That of the main task."""
        self._over: asyncio.Future[FunctionSuspended | FunctionBlocked | None] = self._worker_loop.create_future()
        self._has_left = False
        self.blocked_at: ActivationKey | None = None
        """The step where it does not fit its log."""
        self.has_swallowed = False
        """It caught the exception that unwinds it, and continued."""
        self._has_matched = False
        """It was reported that the code matches the log of a suspended run."""
        self._calls = Calls()
        self._numbers: dict[str, int] = {}
        settled = [step for step in journal.steps.values() if step.seq <= run_access.committed_seq]
        self._replay = Replay(settled, attempt=self.attempt)
        self._alarm: asyncio.Handle | None = None
        self._unwritten: asyncio.Handle | None = None
        """Looks at steps whose beginning is not in the log."""
        self._is_due = False
        """`advance` is about to be called."""

    # -- the runner's side ----------------------------------------------------------------
    async def run(self, function: Callable[[], Awaitable[Any]]) -> Any:
        """Run the function; returns its result, or why it was left. Raises its exceptions and interruptions."""
        self._worker_loop.call_soon(self._begin, function, contextvars.copy_context())
        try:
            left = await self._over
        except asyncio.CancelledError:
            self._worker_loop.call_soon(self._leave)  # not here: no task may be current while it is unwound
            await self._stop_steps()
            raise
        await self._stop_steps()
        if left is not None:
            return left
        assert self._main is not None, "it has begun"
        return self._main.result()

    def settled(self) -> None:
        """Continue soon: never within a task, and never in the context of a step."""
        if not self._is_due:
            self._is_due = True
            self._worker_loop.call_soon(self.advance, context=contextvars.Context())

    def steps_under_way(self) -> list[str]:
        """The steps under way."""
        return [call.shown for call in self._calls.of(_RUNNING)]

    # -- the author's side ----------------------------------------------------------------
    def ask(
        self, name: str, kind: StepKind, arguments: str | None, policy: RetryPolicy = DEFAULT_STEP_RETRY
    ) -> StepCall:
        """Number a call of a step. Raises InvalidDefinition for a name that cannot be, before anything is written."""
        journal = self._open_journal()
        if asyncio._get_running_loop() is not self._loop:
            raise NotInWorkflow(f"run {self._run_id}: step {name!r} is asked for outside of the workflow function")
        if not is_step_name(name):
            raise InvalidDefinition(f"{name!r} cannot name a step: write 1 to 128 letters, digits, `.`, `_`, `-`")
        number = self._numbers[name] = self._numbers.get(name, 0) + 1
        first_scope = scope_of_call(number)
        scope = journal.scope_for(name, first_scope, self.attempt)
        call = StepCall(name, scope, kind, present_branch(self._loop, self._began_seq), policy)
        call.arguments = arguments
        self._replay.ask(call.key, (name, first_scope))
        return call

    async def answer(self, call: StepCall, wait: StepOutcome | None = None, attempt_once: Attempt | None = None) -> Any:
        """The result of a step: it waits for something, or is attempted until it ends. Raises StepError."""
        call.wait, call.attempt_once = wait, attempt_once
        if attempt_once is not None:
            call.context = contextvars.copy_context()
        call.future = future = self._loop.create_answer()
        self._calls.add(call)
        try:
            return await future
        except asyncio.CancelledError:
            if future.cancelled():
                self._cancel_step(call)
            raise

    def redone(self, call: StepCall) -> Redone | None:
        """What a reopening of the run changed in the step."""
        step = self._open_journal().steps.get(call.key)
        return None if step is None else step.redone

    def has_begun(self, call: StepCall) -> bool:
        """Whether the step has a row."""
        return call.key in self._open_journal().steps

    # -- what the loop tells --------------------------------------------------------------
    def _timer_set(self, timer: WorkflowTimer) -> StepCall:
        due_at = self._began_at + timer.due_ms
        scope, branch = scope_of_timer(due_at, timer.number), present_branch(self._loop, self._began_seq)
        call = StepCall(TIMER_NAME, scope, StepKind.SLEEP, branch, DEFAULT_STEP_RETRY)
        call.timer, call.wait = timer, AwaitsInstant(due_at)
        self._replay.ask(call.key)
        self._calls.add(call)
        return call

    def _timer_cancelled(self, timer: WorkflowTimer) -> None:
        self._cancel_step(timer.owner)

    def _cancel_step(self, call: StepCall) -> None:
        """The function no longer awaits the step: drop its outcome."""
        if self._has_left or call.stage is _OVER:
            return
        journal = self._run_access.journal
        record = None if journal is None else journal.steps.get(call.key)
        is_open = call.stage in (_RUNNING, _REPORTED) if record is None else not record.has_ended
        self._calls.end(call)
        if call.task is not None:
            call.task.cancel()
        if is_open:
            self._run_access.report(self._report_of(call, 1, StepCancelled()))

    # -- turns ----------------------------------------------------------------------------
    def _begin(self, function: Callable[[], Awaitable[Any]], context: contextvars.Context) -> None:
        if self._over.done():
            return  # cancelled before it began
        self._main = self._loop.begin(_called(function), context)
        self._first_branch = context.run(begin_branch, self._main, self._began_seq)
        self.advance()

    def advance(self) -> None:
        """Continue with what was settled. Call it from a plain callback of the worker's loop."""
        self._is_due = False
        if self._over.done():
            return  # its slot is another job's by now
        if not self._slot.take_back(self.settled):
            return  # others execute; it is our turn before any job that has not begun
        # Neither changes before this returns: commits and re-reads are awaited by others.
        journal, committed_seq = self._run_access.journal, self._run_access.committed_seq
        if journal is None:
            return  # the run is not advanced here any more
        try:
            while not self._over.done():
                self._loop.drain()
                if not self._take_turn(journal, committed_seq):
                    return
        except Suspended:
            return  # the run is not advanced here any more
        except BaseException as failure:  # noqa: BLE001 -- the process ends, or a defect of ours: our caller's, in either case
            self._end_by(failure)

    def _take_turn(self, journal: CodedState, committed_seq: int) -> bool:
        """Make progress when no task of the function is ready. False: nothing to do until something arrives."""
        calls = self._calls
        if calls.asked:
            changed = self._look_at_new(journal, committed_seq)
            if changed is not None:
                return self._block(changed)
        if calls.reported or calls.waiting:
            self._look_at_committed(journal, committed_seq)
        answer = self._replay.next(journal.endings, committed_seq)
        if answer is not None:
            return self._deliver_next(journal, answer)
        if self._replay.unasked:
            return self._fire_unrecorded() or self._changed()
        if self._main is not None and self._main.done():
            return self._end(None)
        if self._new_rules_since is None:
            self._note_new_rules()
        if journal.stands_still:
            return self._report_match() if journal.may_perform else self._stand_still()
        self._begin_new(journal)
        if calls.running or calls.reported:
            return self._wait_for_others(journal)
        return self._only_waits(journal)

    def _look_at_new(self, journal: CodedState, committed_seq: int) -> str | None:
        """Match the new calls with the log; returns the difference if one does not match."""
        for call in [*self._calls.asked]:
            record = journal.steps.get(call.key)
            if record is None:
                continue
            changed = record.created_in == self.attempt and call.differs_from(record)
            if record.kind is not call.kind or changed:
                self.blocked_at = call.key
                return call.changed_from(record)
            self._set_stage(call, record, journal, committed_seq)
        return None

    def _look_at_committed(self, journal: CodedState, committed_seq: int) -> None:
        """Check the reported and the waiting calls for commits."""
        for call in [*self._calls.reported]:
            record = journal.steps.get(call.key)
            if record is not None and call.reported_seq < record.seq <= committed_seq:
                self._set_stage(call, record, journal, committed_seq)
        if not self._calls.waiting:
            return
        for call in [*self._calls.waiting]:
            record = None if call.asked is not None else journal.steps.get(call.key)
            if record is not None and (record.has_ended or record.phase is _DISPATCHED):
                self._set_stage(call, record, journal, committed_seq)

    def _set_stage(self, call: StepCall, record: Step, journal: CodedState, committed_seq: int) -> None:
        """Move a call to the stage of its latest row, if that is committed."""
        if record.seq > committed_seq:
            self._calls.move(call, _REPORTED)
            call.reported_seq = record.seq - 1
        elif record.ended_seq:
            self._calls.move(call, _ENDED)
            if self._replay.has_met(record, journal.endings):
                self._replay.asked_late(record)
        elif record.phase is _DISPATCHED:
            self._calls.move(call, _ASKED)
        else:
            self._calls.move(call, _WAITING)

    # -- answers --------------------------------------------------------------------------
    def _deliver_next(self, journal: CodedState, answer: tuple[int, ActivationKey]) -> bool:
        """Deliver the next result of the log, if the function has made all calls that precede it."""
        row, key = answer
        call, record = self._calls.at(key), journal.steps[key]
        if self._replay.missing(row) is not None:
            return self._fire_unrecorded() or self._changed(before=row)
        if record.step_cancelled and call is not None:
            self.blocked_at = key
            why = f"it waits for {call.shown}, which its log has as cancelled: the code has changed"
            return self._fire_unrecorded() or self._block(why)
        self._replay.pass_on()
        if call is None or call.stage is not _ENDED:
            return True  # it is no longer awaited
        self._calls.end(call)
        self._set_time(record.ended_at)
        call.branch.saw(record.ended_seq)
        if call.timer is not None:
            self._loop.fire(call.timer)
            return True
        assert call.future is not None, "a step is awaited"
        error = record.error
        if error is None:
            # A copy, because the next call of the function gets the journal's value again.
            self._loop.answer(call.future, orjson.loads(record.output.raw), None)
        else:
            failure = StepError(error.type, error.message, error.code, error.attempt)
            failure.stored, failure.__cause__ = error, call.cause
            self._loop.answer(call.future, None, failure)
        return True

    def _set_time(self, at_ms: int) -> None:
        if at_ms > self.now_ms:
            self.now_ms = at_ms
            self._loop.elapsed_ms = at_ms - self._began_at

    def _fire_unrecorded(self) -> bool:
        """A version without workflow loops recorded no timers: the earliest one is due when nothing else can happen."""
        missing = self._replay.missing()
        since = self._new_rules_since
        if since is not None and (missing is None or missing[0] > since):
            return False
        timers = [call for call in self._calls.of(_ASKED) if call.timer is not None]
        if not timers:
            return False
        first = min(timers, key=_due)
        assert first.timer is not None, "a timer has one"
        self._calls.end(first)
        self._set_time(min(_due(first)[0], self._clock.now()))
        self._loop.fire(first.timer)
        return True

    def _note_new_rules(self) -> None:
        self._new_rules_since = self._open_journal().last_seq
        known = Mark.of(_RUN, frozenset((self._began_seq,)))
        self._run_access.report(StepReport("", "", 0, known, self.attempt, LegacyReplayed()))

    # -- steps ----------------------------------------------------------------------------
    def _begin_new(self, journal: CodedState) -> None:
        """Start, in call order, every call that has not ended in the log."""
        begun: list[StepCall] = []
        for call in [*self._calls.asked]:
            if call.timer is not None:
                continue  # recorded when there is nothing else to do, or when it fires
            if call.wait is not None:
                call.asked = self._report_of(call, 1, call.wait)
                self._calls.move(call, _WAITING)
            else:
                self._calls.move(call, _RUNNING)
                begun.append(call)
        # All of them are under way before the first is tried: one that ends at once must not lend the others' slot.
        for call in begun:
            record = journal.steps.get(call.key)
            if record is None and call.kind is _RUN:
                call.attempt_began_at = self._worker_loop.time()
            self._begin_attempt(call, 1 if record is None else record.attempt)
            if call.attempt_began_at is not None and self._unwritten is None and call.stage is _RUNNING:
                self._look_at_unwritten(WRITTEN_AFTER_S)

    def _begin_attempt(self, call: StepCall, attempt: int) -> None:
        assert call.context is not None, "it is something to be done"
        task = begun_task(self._run_attempt(call, attempt), self._worker_loop, call.context, call.shown)
        if not task.done():
            call.task = task

    async def _run_attempt(self, call: StepCall, attempt: int) -> None:
        assert call.attempt_once is not None, "it is something to be done"
        try:
            outcome, cause = await call.attempt_once(attempt)
        except asyncio.CancelledError:
            raise
        except BaseException as failure:  # noqa: BLE001 -- somebody ends the process
            self._end_by(failure)
            return
        finally:
            call.task = None
        journal = self._run_access.journal
        if call.stage is not _RUNNING or self._has_left or journal is None:
            return  # it was cancelled while it ended
        call.cause = cause or call.cause
        report = self._report_of(call, attempt, outcome)
        if isinstance(outcome, AwaitsChild):
            call.asked = report
            self._calls.move(call, _WAITING)
            self.settled()
            return
        self._hand_in(call, report, journal)
        if not self._calls.running:
            self._slot.lend()  # `advance` is called after the commit

    def _look_at_unwritten(self, delay_s: float) -> None:
        # Empty, since a timer keeps its context until it is due and ours refers to the whole function.
        self._unwritten = self._worker_loop.call_later(
            delay_s, self._write_beginnings, WRITTEN_AFTER_S, context=contextvars.Context()
        )

    def _write_beginnings(self, age_s: float) -> None:
        """Record the steps that have been under way long enough."""
        journal = self._run_access.journal
        if self._has_left or journal is None:
            return
        now, next_s = self._worker_loop.time(), None
        for call in self._calls.of(_RUNNING):
            if call.attempt_began_at is None:
                continue
            if now - call.attempt_began_at < age_s:
                left_s = call.attempt_began_at + WRITTEN_AFTER_S - now
                next_s = left_s if next_s is None else min(next_s, left_s)
                continue
            call.attempt_began_at = None
            if call.key not in journal.steps and not journal.stands_still:
                self._run_access.report(self._report_of(call, 1, Begun()))
        if age_s == WRITTEN_AFTER_S:
            self._unwritten = None
            if next_s is not None:
                self._look_at_unwritten(max(next_s, LEAST_AGE_S))

    def _hand_in(self, call: StepCall, report: StepReport, journal: CodedState) -> None:
        """Report it; it continues after the commit. What else is under way is written with it."""
        record = journal.steps.get(call.key)
        call.reported_seq = 0 if record is None else record.seq
        call.asked = call.attempt_began_at = None
        self._calls.move(call, _REPORTED)
        if self._unwritten is not None and self._calls.running:
            self._write_beginnings(LEAST_AGE_S)
        self._run_access.report(report)

    def _report_of(self, call: StepCall, attempt: int, outcome: StepOutcome) -> StepReport:
        known = Mark.of(call.kind, call.branch.known)
        return StepReport(call.name, call.scope, attempt, known, self.attempt, outcome, call.policy, call.arguments)

    # -- when there is nothing to deliver -------------------------------------------------
    def _wait_for_others(self, journal: CodedState) -> bool:
        """Steps or commits are under way and will call us. Meanwhile report the waits and set the alarm."""
        calls = self._calls
        if calls.waiting:
            for call in calls.of(_WAITING):
                if call.asked is not None:
                    self._hand_in(call, call.asked, journal)
        if calls.asked or self._alarm is not None:
            self._set_alarm()
        if not calls.running or all(call.is_elsewhere for call in calls.of(_RUNNING)):
            self._slot.lend()  # `advance` is called after the commit
        return False

    def _only_waits(self, journal: CodedState) -> bool:
        """The function only waits for events of the log."""
        for timer in sorted((call for call in self._calls.of(_ASKED) if call.timer is not None), key=_due):
            assert timer.wait is not None, "a timer has a time"
            timer.asked = self._report_of(timer, 1, timer.wait)
            self._calls.move(timer, _WAITING)
        waits = self._calls.of(_WAITING)
        if not waits:
            raise self._stuck()
        if any(is_short(call, journal, now=self._clock.now()) for call in waits):
            for call in waits:
                if call.asked is not None:
                    self._hand_in(call, call.asked, journal)
            self._slot.lend()
            return False
        asked = [call.asked for call in waits if call.asked is not None]
        return self._end(FunctionSuspended([call.key for call in waits], asked, self._called_by))

    def _set_alarm(self) -> None:
        """Be called when the earliest timer that has no row is due."""
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        timers = [call for call in self._calls.of(_ASKED) if call.timer is not None]
        if timers:
            wait_s = max(0, min(map(_due, timers))[0] - self._clock.now()) / 1000
            # Empty, since a timer keeps its context until it is due and ours refers to the whole function.
            self._alarm = self._worker_loop.call_later(wait_s, self._timers_come, context=contextvars.Context())

    def _timers_come(self) -> None:
        """Record due timers; they fire in the function after the commit."""
        self._alarm = None
        journal = self._run_access.journal
        if self._has_left or journal is None:
            return
        now = self._clock.now()
        for call in sorted((call for call in self._calls.of(_ASKED) if call.timer is not None), key=_due):
            if _due(call)[0] <= now and call.wait is not None:
                self._hand_in(call, self._report_of(call, 1, call.wait), journal)
        self._set_alarm()

    def _report_match(self) -> bool:
        """Report that the code matches the log, so that the run is resumed; continue once that is committed."""
        if not self._has_matched:
            self._has_matched = True
            known = Mark.of(_RUN, frozenset((self._began_seq,)))
            self._run_access.report(StepReport("", "", 0, known, self.attempt, LogMatched()))
        self._slot.lend()
        return False

    def _stand_still(self) -> bool:
        """The run is suspended or paused: let steps end, start nothing, then unwind the function.

        It makes its latest calls again when it is called after the resume.
        """
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        if self._calls.running or self._calls.reported:
            return False
        left = [call.key for stage in (_WAITING, _ASKED) for call in self._calls.of(stage)]
        if not left:
            raise self._stuck()
        return self._end(FunctionSuspended(left, (), self._called_by))

    # -- leaving --------------------------------------------------------------------------
    def _end(self, left: FunctionSuspended | FunctionBlocked | None) -> bool:
        if not self._over.done():
            self._over.set_result(left)
        self._leave(ended=left is None)
        return False

    def _end_by(self, failure: BaseException) -> None:
        if not self._over.done():
            self._over.set_exception(failure)
        self._worker_loop.call_soon(self._leave, context=contextvars.Context())

    def _leave(self, *, ended: bool = False) -> None:
        """Unwind the function, and stop its steps."""
        if self._has_left:
            return
        self._has_left = True
        if self._main is not None and self._main.done() and not self._main.cancelled():
            self._main.exception()  # its traceback is in the run's error, if at all
        for handle in (self._alarm, self._unwritten):
            if handle is not None:
                handle.cancel()
        if ended and (left := self._loop.pending):
            names = ", ".join(map(line_of_task, left[:TASKS_SHOWN_MAX]))
            logger.warning(
                "run %s: its function ended before %d tasks that it began, which are not done: %s",
                self._run_id,
                len(left),
                names,
                extra={"instance_id": self._run_id},
            )
        for call in self._calls.of(_RUNNING):
            if call.task is not None:
                call.task.cancel()
        swallowed = self._loop.unwind()
        self.has_swallowed = bool(swallowed) and not ended
        if self._first_branch is not None:
            self._first_branch.forget_task()

    async def _stop_steps(self) -> None:
        """Return when no step of the function is running, or after `STOP_PATIENCE_S`."""
        tasks = [call.task for call in self._calls.of(_RUNNING) if call.task is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=STOP_PATIENCE_S)
        self._calls.clear()

    def _block(self, why: str) -> bool:
        activation = self._open_journal().function
        began = "" if activation is None else activation.python
        if began and began != PYTHON:
            why = f"{why} (it was recorded with Python {began}, and this is {PYTHON})"
        return self._end(FunctionBlocked(SuspendReason.NONDETERMINISM, why, self._called_by))

    def _changed(self, *, before: int | None = None) -> bool:
        missing = self._replay.missing(before)
        assert missing is not None, "something was not asked for"
        name, scope = self.blocked_at = missing[1]
        what = self._what_it_does()
        return self._block(f"{what} without having asked for {name}{scope}, which its log has: the code has changed")

    def _what_it_does(self) -> str:
        """What a function does in place of the recorded call, for messages."""
        known = self._open_journal().steps
        new = [call for call in self._calls.of(_ASKED) if call.timer is None and call.key not in known]
        if self._main is not None and self._main.done():
            return _how_it_ended(self._main)
        return f"it asks for {new[0].shown}" if new else "it waits"

    def _stuck(self) -> WorkflowStuck:
        tasks = ", ".join(map(line_of_task, self._loop.pending[:TASKS_SHOWN_MAX]))
        return WorkflowStuck(f"the function of run {self._run_id} waits for what nothing can bring about: {tasks}")

    # -- within ---------------------------------------------------------------------------
    def _open_journal(self) -> CodedState:
        """The journal, including rows in flight. Raises Suspended after the function was left."""
        journal = self._run_access.journal
        if self._has_left or journal is None:
            raise Suspended
        return journal


def _due(call: StepCall) -> tuple[int, int]:
    """The due time of a timer, and its number among those with the same time."""
    assert call.timer is not None and isinstance(call.wait, AwaitsInstant), "a timer"
    return call.wait.due_at, call.timer.number


def _how_it_ended(main: asyncio.Task[Any]) -> str:
    """How a function ended, for messages."""
    failure = None if main.cancelled() else main.exception()
    if failure is None:
        return "it ended"
    error = failed_by(failure, node_id="", scope="", attempt=0, name_of=qualified_name).error
    return f"it raised {error.type} ({error.message})"


async def _called(function: Callable[[], Awaitable[Any]]) -> Any:
    return await function()

"""One call of the body of a coded run: what it asks for, and when it is answered, suspended or told to stop.

Made by `runner` for each job, asked by `steps` on behalf of the author's code. The rules of its
answers: what has ended is answered in the order of the log, so that branches meet as they met
before; nothing new is done while the body has not asked for everything that the log has of this
attempt; and when nothing but waits can move it, it is unwound.

It knows the engine by its desk alone, and decides nothing: the journal's rules do.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

import orjson

from anabranch.durable import branches
from anabranch.durable.body_tasks import UNWIND_PATIENCE_S, BodyTasks, Interrupted, how_it_ended
from anabranch.durable.calls import Call, Rest, RestingCalls, Try, is_short
from anabranch.durable.records import Records
from anabranch.durable.replay import Replay
from anabranch.durable.resting import rests
from anabranch.durable.step_error import StepError, Suspended, SuspensionSwallowed, was_unwound
from anabranch.engine.desk import Desk
from anabranch.engine.ports import Clock
from anabranch.engine.queues import Slot
from anabranch.engine.rules.coded.arguments import differ
from anabranch.engine.rules.coded.places import StepKind, is_step_name, mark, scope_of_call
from anabranch.engine.rules.coded.state import CodedState, Step
from anabranch.engine.rules.retry import DEFAULT_STEP_RETRY, RetryPolicy
from anabranch.engine.rules.run_state import Phase
from anabranch.engine.rules.stimuli import (
    AwaitsChild,
    AwaitsSignal,
    AwaitsTime,
    BodyBlocked,
    BodySuspended,
    GivenUp,
    StepReport,
)
from anabranch.errors import InvalidDefinition

# 100 ms between looks at a body that waits for something else than its steps: nobody tells us when it has come.
LOOK_AGAIN_S = 0.1

# 60 s: a body that asked for something new is waited for so long to ask for what the log has, if it does
# something outside of its steps meanwhile that we cannot see the end of.
HELD_BACK_S_MAX = 60.0

# 20 turns of the event loop: what a task was told passes through gathers and groups to whoever waits for
# it, two or three turns a level. Two answers at once would look to the body as if they had come together.
TURNS_BETWEEN = 20


class BodyRun:
    """One call of a body, from its first line to its end, or to where it has nothing to do but wait."""

    def __init__(self, desk: Desk, journal: CodedState, clock: Clock, slot: Slot) -> None:
        assert journal.body is not None, "a body is called when it was dispatched"
        self.attempt = journal.body.attempt
        self.now_ms = journal.body.began_at
        """The time of the latest row that the body was answered from (ms)."""
        self._desk, self._slot, self._clock = desk, slot, clock
        self._loop = asyncio.get_running_loop()
        self._began_seq = journal.body.began_seq
        self._called_by = journal.body.called_by
        self._tasks = BodyTasks()
        self._calls: dict[str, int] = {}
        self._resting = RestingCalls()
        self._pause = 0
        """Turns of the event loop before the next thing is told."""
        self._executing: dict[Call, None] = {}
        self._leaving: BodyBlocked | Suspended | None = None
        self._interrupt: KeyboardInterrupt | None = None
        """Somebody ends this process: nothing is said of what was under way, and it is another worker's."""
        self._awaited: BodySuspended | None = None
        self._check: asyncio.Handle | None = None
        self._overdue: asyncio.Future[None] = self._loop.create_future()
        """Set when the body was told to leave and has not for too long."""
        self._patience: asyncio.Handle | None = None
        settled = [step for step in journal.steps.values() if step.seq <= desk.settled_seq]
        self._replay = Replay(settled, attempt=self.attempt, began_seq=self._began_seq)
        self._records = Records(desk)

    # -- the runner's side ----------------------------------------------------------------
    async def run(self, body: Coroutine[Any, Any, Any]) -> Any:
        """What the body returns, or how it came not to. Raises what it raises, and what interrupted it."""
        main = self._tasks.begin(body, began_seq=self._began_seq)
        try:
            await asyncio.wait({main, self._overdue}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            await self._unwind()
            raise
        finally:
            self._forget_check()
            self._overdue.cancel()
            if self._patience is not None:
                self._patience.cancel()  # else it would keep all of this in memory until it is due
        if self._interrupt is None and main.done() and not main.cancelled():
            raised = main.exception()
            self._interrupt = raised.interrupt if isinstance(raised, Interrupted) else None
        if self._interrupt is not None:
            await self._unwind()
            raise self._interrupt
        if self._leaving is None and not self._replay.is_complete:
            self._leaving = self._changed(how_it_ended(main))
        if isinstance(self._leaving, BodyBlocked):
            await self._unwind()
            return self._leaving
        if self._awaited is not None:
            return await self._suspended(main, self._awaited)
        await self._unwind()
        return main.result()

    def settled(self) -> None:
        """Rows were committed: answer whoever waited for them, in the order of the log, once we may execute."""
        self._slot.take_back(self._go_on)

    def _go_on(self) -> None:
        if self._desk.journal is None or self._leaving is not None:
            return
        over = [call for call in self._resting.of(Rest.UNSETTLED, Rest.WAITING) if call.until()]
        if len(over) > 1:
            over.sort(key=self._records.seq_of)
        for call in over:
            record = self._records.of(call)
            if record is not None and record.has_ended:
                self._replay.ended(call.place)
                if len(over) == 1 and not self._pause and not self._resting.has(Rest.REPLAYED):
                    self._resting.answer(call)  # nothing stands before it: told at once, if its turn has come
                else:
                    self._resting.put(call, Rest.REPLAYED)
            else:
                self._resting.answer(call)
        self._check_soon()

    def steps_under_way(self) -> list[str]:
        """The steps that are being done."""
        return [call.shown for call in self._executing]

    # -- the author's side ----------------------------------------------------------------
    def call(self, name: str, kind: StepKind, arguments: str | None) -> Call:
        """Number a call of a step. Raises InvalidDefinition for a name that cannot be, before anything is written."""
        journal = self._records.journal
        if not is_step_name(name):
            raise InvalidDefinition(f"{name!r} cannot name a step: write 1 to 128 letters, digits, `.`, `_`, `-`")
        self._tasks.note_present()
        number = self._calls[name] = self._calls.get(name, 0) + 1
        first_scope = scope_of_call(number)
        scope = journal.scope_for(name, first_scope, attempt=self.attempt)
        call = Call(name, scope, kind, branches.present(), arguments)
        self._replay.ask(call.place, (name, first_scope))
        return call

    async def answer(self, call: Call, try_once: Try, policy: RetryPolicy = DEFAULT_STEP_RETRY) -> Any:
        """What the step came to; until then it is tried, waited for, or both. Raises StepError."""
        if not self._replay.is_complete and self._records.of(call) is None:
            await self._rest(call, Rest.HELD, lambda: self._replay.is_complete)
        cause: BaseException | None = None
        while True:
            # Each time anew: between being answered and going on, another row may have been decided and not committed.
            record = self._records.of(call)
            if record is None:
                cause = await self._try(call, 1, try_once, policy)
            elif not self._records.is_settled(record):
                await self._rest(call, Rest.UNSETTLED, lambda: self._records.has_settled(call))
            elif record.kind is not call.kind:
                await self._stay_blocked(f"step {call.shown} was a {record.kind} before and is a {call.kind} now")
            elif record.born_in == self.attempt and differ(record.arguments, call.arguments):
                await self._stay_blocked(call.changed_from(record))
            elif record.given_up:
                await self._rest(call, Rest.GIVEN_UP, bool)
            elif record.has_ended:
                return await self._deliver(call, record, cause)
            elif record.phase is Phase.DISPATCHED:
                cause = await self._try(call, record.attempt, try_once, policy) or cause
            else:
                await self._rest(call, Rest.WAITING, lambda: self._records.is_over(call))

    def has_begun(self, call: Call) -> bool:
        """Has the step a row?"""
        return self._records.of(call) is not None

    # -- steps ----------------------------------------------------------------------------
    async def _try(self, call: Call, attempt: int, try_once: Try, policy: RetryPolicy) -> BaseException | None:
        """One attempt, reported; returns once that is committed, or once a wait that it opens is over."""
        known = mark(call.kind, call.branch.known)
        self._executing[call] = None
        try:
            outcome, cause = await try_once(attempt)
        except KeyboardInterrupt as interrupt:
            self._interrupt = interrupt
            self._leave(Suspended())
            raise Suspended from None
        except BaseException:
            self._check_soon()  # the body may have nothing else to do; where it goes on, it asks for a look itself
            raise
        finally:
            del self._executing[call]
        report = StepReport(call.name, call.scope, attempt, known, self.attempt, outcome, policy, call.arguments)
        if isinstance(outcome, AwaitsTime | AwaitsSignal | AwaitsChild):
            call.asked = report
            await self._rest(call, Rest.WAITING, lambda: self._records.is_over(call))
            return None
        seq = self._records.seq_of(call)
        self._desk.report(report)
        await self._rest(call, Rest.UNSETTLED, lambda: self._records.has_settled(call, after=seq))
        return cause

    async def _deliver(self, call: Call, record: Step, cause: BaseException | None) -> Any:
        """Answer from the log, when it is this row's turn."""
        if call.future is None:
            await self._let_others_begin()
        if not self._replay.was_told(call.place):
            self._replay.ended(call.place)
            if self._replay.may_tell(call.place) and not self._pause:
                self._tell(call)
            else:
                await self._rest(call, Rest.REPLAYED, bool)
        self.now_ms = max(self.now_ms, record.ended_at)
        call.branch.saw(record.ended_seq)
        if record.error is not None:
            error = record.error
            failure = StepError(error.type, error.message, error.code, error.attempt)
            failure.stored = error
            raise failure from cause
        # A copy of its own: the journal's value is answered again when the body is called again.
        return orjson.loads(record.output.raw)

    async def _rest(self, call: Call, rest: Rest, until: Callable[[], bool]) -> None:
        """Return when it is so; what is cancelled because the body leaves is unwound by Suspended."""
        call.until = until
        call.future, call.since = self._loop.create_future(), self._loop.time()
        self._resting.put(call, rest)
        if self._waits_for_a_commit_alone(call):
            self._slot.lend()  # a look would find just that
        else:
            self._check_soon()
        try:
            await call.future
        except asyncio.CancelledError:
            if self._leaving is not None:
                raise Suspended from None
            self._give_up(call)
            raise
        finally:
            self._resting.remove(call)
            call.asked = None

    def _give_up(self, call: Call) -> None:
        """The body has cancelled who waited: what the step waits for must not be consumed by nobody."""
        if call.asked is None and call.rest in (Rest.WAITING, Rest.UNSETTLED):
            known = mark(call.kind, call.branch.known)
            self._desk.report(StepReport(call.name, call.scope, 1, known, self.attempt, GivenUp(), DEFAULT_STEP_RETRY))

    async def _let_others_begin(self) -> None:
        """An answer took its time when it was given first: tasks that were begun before it have asked by now."""
        try:
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            if self._leaving is not None:
                raise Suspended from None
            raise

    async def _stay_blocked(self, why: str) -> None:
        self._block(why)
        await asyncio.sleep(UNWIND_PATIENCE_S)  # cancelled at once: the body is unwound
        raise Suspended

    # -- what can move the body -----------------------------------------------------------
    def _tell(self, call: Call) -> None:
        """Tell the body what this step came to; the next one is told when the body has drawn its conclusions."""
        self._replay.tell(call.place)
        if self._tasks.are_several:  # else it does one thing at a time
            self._pause = TURNS_BETWEEN
        self._check_soon()

    def _waits_for_a_commit_alone(self, call: Call) -> bool:
        """Is it plain, before any look, that nothing moves the body but the commit that it rests for?"""
        return (
            call.rest is Rest.UNSETTLED
            and self._tasks.is_first_present
            and not (self._executing or self._pause)
            and not (self._resting.has(Rest.REPLAYED) or self._resting.has(Rest.HELD))
        )

    def _check_soon(self, *, again: bool = False) -> None:
        """Look, when all that may run now has run, whether the body has anything to do but wait.

        While no call rests there is nothing to look for: the next one to rest has us look again.
        """
        self._forget_check()
        if self._pause or not self._resting.is_empty:
            self._check = self._loop.call_soon(partial(self._look, again=again))

    def _forget_check(self) -> None:
        if self._check is not None:
            self._check.cancel()
            self._check = None

    def _look(self, *, again: bool = False) -> None:
        main = self._tasks.main
        if main is None or main.done() or self._leaving is not None or self._desk.journal is None:
            return
        if self._pause:
            self._pause -= 1
            self._check_soon()
            return
        if self._answer_allowed():
            self._check_soon()
            return
        ours = {call.future for call in self._resting.of(*Rest) if call.future is not None}
        if self._executing:
            self._report_waits()  # we are told when it is done
        elif not rests(main, ours):
            self._look_again_later()
        elif not again:
            # Who awaits a branch hears of its end a round of the event loop later: a gather of which one has failed
            # looks until then like one that waits for the others. What rests in two rounds running does rest.
            self._check_soon(again=True)
        else:
            self._only_waits()

    def _answer_allowed(self) -> bool:
        """Answer what nothing stands before any more; was there something?"""
        if not self._resting.has(Rest.REPLAYED) and not self._resting.has(Rest.HELD):
            return False
        held = self._resting.of(Rest.HELD) if self._replay.is_complete else []
        for call in held:
            self._resting.answer(call)
        place = self._replay.next
        told = None
        if place is not None and self._replay.may_tell(place):
            told = self._resting.at(Rest.REPLAYED, place)
        if told is None:
            free = (call for call in self._resting.of(Rest.REPLAYED) if self._replay.may_tell(call.place))
            told = next(free, None)
        if told is not None:
            self._tell(told)
            self._resting.answer(told)
        return bool(held) or told is not None

    def _only_waits(self) -> None:
        """Nothing moves the body but what we answer."""
        if self._resting.has(Rest.UNSETTLED):
            self._slot.lend()  # we are told when it is settled
            return
        held, waits = self._resting.of(Rest.HELD), self._resting.of(Rest.WAITING)
        if self._resting.of(Rest.REPLAYED):
            # What ended before it is not asked for any more: go on with what is, and see where that leads.
            call = min(self._resting.of(Rest.REPLAYED), key=self._records.seq_of)
            self._tell(call)
            self._resting.answer(call)
        elif held:
            self._block(self._changed(f"it asks for {held[0].shown}").message)
        elif not waits:
            self._look_again_later()  # whatever cancelled it before, a timeout of the body's own perhaps, will again
        elif any(is_short(call, self._records.journal, now=self._clock.now()) for call in waits):
            self._report_waits()
        else:
            self._suspend(waits)

    def _look_again_later(self) -> None:
        self._report_waits()
        self._give_up_on_what_is_held_back()
        self._forget_check()
        self._check = self._loop.call_later(LOOK_AGAIN_S, self._look)

    def _report_waits(self) -> None:
        for call in self._resting.of(Rest.WAITING):
            if call.asked is not None:
                self._desk.report(call.asked)
                call.asked = None

    # -- leaving --------------------------------------------------------------------------
    def _suspend(self, waits: list[Call]) -> None:
        asked = [call.asked for call in waits if call.asked is not None]
        self._awaited = BodySuspended([call.place for call in waits], asked, self._called_by)
        self._leave(Suspended())

    def _block(self, why: str) -> None:
        self._leave(BodyBlocked("NONDETERMINISM", why, self._called_by))

    def _changed(self, what: str) -> BodyBlocked:
        why = f"{what} without having asked for {self._replay.missing}, which its log has: the code has changed"
        return BodyBlocked("NONDETERMINISM", why, self._called_by)

    def _give_up_on_what_is_held_back(self) -> None:
        latest = self._loop.time() - HELD_BACK_S_MAX
        for call in self._resting.of(Rest.HELD):
            if call.since < latest:
                self._block(self._changed(f"it asks for {call.shown}").message)
                return
        for call in self._resting.of(Rest.GIVEN_UP):
            if call.since < latest:
                self._block(f"it waits for {call.shown}, which its log has as cancelled: the code has changed")
                return

    def _leave(self, reason: BodyBlocked | Suspended) -> None:
        self._leaving = reason
        self._records.close()
        # A timer keeps its context until it is due, cancelled or not, and ours knows all of the body.
        self._patience = self._loop.call_later(UNWIND_PATIENCE_S, self._set_overdue, context=contextvars.Context())
        if self._tasks.main is not None:
            self._tasks.main.cancel()
        for call in self._resting.of(*Rest):
            if call.future is not None:
                call.future.cancel()

    def _set_overdue(self) -> None:
        if not self._overdue.done():
            self._overdue.set_result(None)

    async def _suspended(self, main: asyncio.Task[Any], suspended: BodySuspended) -> BodySuspended:
        """It was told to unwind: did it? Raises what it did instead."""
        await self._unwind()
        if main.done() and (main.cancelled() or was_unwound(main.exception())):
            return suspended
        raise SuspensionSwallowed

    async def _unwind(self) -> None:
        """End every task of the body, and wait for that as long as it is reasonable."""
        if self._leaving is None:
            self._leaving = Suspended()
        self._records.close()
        await self._tasks.unwind()

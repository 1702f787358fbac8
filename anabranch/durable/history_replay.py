"""Replay of a recorded log: a workflow function is called once with the log as its journal, and nothing is executed.

Called by `histories` for the commands `verify` and `replay`. Every step, timer, signal and child is answered from the
log; where the function asks for something that the log does not have, the replay stops.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import field
from enum import StrEnum
from functools import partial
from typing import Any, Literal

import orjson

from anabranch.dataclass import dataclass
from anabranch.durable.context import Context
from anabranch.durable.definition import Workflow
from anabranch.durable.execution import StepThreads
from anabranch.durable.function_run import FunctionRun
from anabranch.durable.runner import function_failure
from anabranch.durable.steps import Steps
from anabranch.engine.handler_contract import Helpers
from anabranch.engine.queues import Slot
from anabranch.engine.queues.task_queue import Slots
from anabranch.engine.rules.coded.coded_plan import CodedPlan
from anabranch.engine.rules.coded.coded_state import CodedState
from anabranch.engine.rules.drawn.drawn_state import ContextSnapshot
from anabranch.engine.rules.events import TERMINALS, ActivationKey, Event, EventType
from anabranch.engine.rules.evolve import fold
from anabranch.engine.rules.shared.run_state import InstanceHead
from anabranch.engine.rules.stimuli import FunctionBlocked, FunctionSuspended, StepCancelled, StepReport
from anabranch.engine.rules.values import Payload, json_equal
from anabranch.errors import AnabranchError, RunError

# 5 s for one call of a function that only computes: everything it asks for is answered at once.
REPLAY_S_MAX = 5.0

_quiet = logging.Logger("anabranch.replay")
_quiet.disabled = True


class Agreement(StrEnum):
    """How a function and a recorded log agree."""

    SAME = "same"
    """It makes the recorded calls and ends the same way; for an open run, up to the end of its log."""
    DIFFERENT = "different"
    UNKNOWN = "unknown"
    """The log cannot tell."""


@dataclass(frozen=True, slots=True)
class Replayed:
    """The result of a replay."""

    agreement: Agreement
    message: str = ""
    step: ActivationKey | None = None
    """Name and scope of the step where it differs, or where the log ends."""
    ends: Literal["returns", "raises"] | None = None
    """How it ends if the recorded run is open."""


async def replay_function(found: Workflow, plan: CodedPlan, head: InstanceHead, log: Sequence[Event]) -> Replayed:
    """Call the function with this log and compare what it does.

    Attempts of the workflow before the last one are not called again. Nothing is executed but the function itself,
    which has no access to the outside world.
    """
    ended = log[-1] if log and log[-1].type in TERMINALS else None
    journal = fold(plan, head, log if ended is None else log[:-1])
    journal.suspension = None  # to learn what it would do next
    if journal.function is None:
        return Replayed(Agreement.SAME, "its function was never called")
    replay = _Replay(journal, ends=ended is not None and ended.type is not EventType.INSTANCE_CANCELLED)
    try:
        async with asyncio.timeout(REPLAY_S_MAX):
            outcome = await replay.call(found)
    except TimeoutError:
        return Replayed(Agreement.UNKNOWN, f"its function did not end within {REPLAY_S_MAX:.0f} s")
    return replay.compared(outcome, ended)


class _PastLogEnd(BaseException):
    """Ends the replay before something would be executed."""


@dataclass(slots=True)
class _Stopped:
    """The replay stopped at the end of the log."""


@dataclass(slots=True)
class _Clock:
    """A clock fixed at the time of the last row."""

    at: int

    def now(self) -> int:
        return self.at

    def monotonic(self) -> float:
        return self.at / 1000

    def adjust(self, store_now: int, *, asked_at: float | None = None) -> None:
        """Does nothing."""

    async def sleep(self, milliseconds: int) -> None:
        """Nobody waits for it."""


class _Slot(Slot):
    """A slot that reports when the function only waits, which ends a replay."""

    def __init__(self, waits: Callable[[], None]) -> None:
        super().__init__(Slots(lambda: None))
        self._waits = waits

    def lend(self) -> None:
        self._waits()


@dataclass(eq=False)
class _Replay:
    """One call of a function on a finished journal: its run access, and everything it could reach the world by."""

    journal: CodedState
    ends: bool
    """The log has the end of this attempt."""
    _stop: asyncio.Event = field(default_factory=asyncio.Event)
    _beyond: ActivationKey | None = None
    """The first thing that it asks for and the log does not have."""
    _blocked_at: ActivationKey | None = None
    """Where it does not fit the log."""
    _pending: ActivationKey | None = None
    """A step that the log has begun and not ended."""

    # -- in place of a `RunAccess` ----------------------------------------------------------
    @property
    def committed_seq(self) -> int:
        return self.journal.last_seq

    def report(self, report: StepReport) -> None:
        if report.name and not isinstance(report.outcome, StepCancelled):
            self._asks(report.name, report.scope)

    def listen(self, settled: Callable[[], None], steps_under_way: Callable[[], Sequence[str]]) -> None:
        """Nothing is settled any more."""

    def stop_listening(self, settled: Callable[[], None]) -> None:
        """The same."""

    # -- what steps reach the world by ----------------------------------------------------
    def _around(self, run_id: str, name: str, scope: str, attempt: int) -> AbstractContextManager[None]:
        self._asks(name, scope)
        raise _PastLogEnd

    async def start(
        self, helpers: Helpers, *, workflow: str, version: int | None, input_: Any, parent_waits: bool
    ) -> str:
        """Start no child: the replay ends here."""
        self._asks(helpers.node_id, helpers.scope)
        await asyncio.get_running_loop().create_future()
        raise _PastLogEnd

    async def send(self, *, tenant_id: str, run_id: str, event: str, payload: Any, key: str) -> bool:
        """Send no signal: the replay ends here."""
        self._stop.set()
        await asyncio.get_running_loop().create_future()
        raise _PastLogEnd

    def _asks(self, name: str, scope: str) -> None:
        key = (name, scope)
        if key in self.journal.steps:
            self._pending = self._pending or key
        else:
            self._beyond = self._beyond or key
        self._stop.set()

    # -- the call -------------------------------------------------------------------------
    async def call(self, found: Workflow) -> object:
        """What the function returns, or how it came not to."""
        head, body = self.journal.head, self.journal.function
        assert body is not None, "it was called"
        slot = _Slot(self._stop.set)
        run = FunctionRun(self, self.journal, _Clock(max(body.began_at, _latest(self.journal))), slot)  # type: ignore[arg-type]
        helpers = Helpers(
            instance_id=head.instance_id,
            tenant_id=head.tenant_id,
            node_id="",
            workflow_id=head.workflow_id,
            scope="",
            attempt=body.attempt,
            now_ms=0,
            context=ContextSnapshot(()),
        )
        threads = StepThreads()
        steps = Steps(run, helpers=helpers, children=self, signals=self, threads=threads, around=self._around)
        context = Context(
            run_id=head.instance_id,
            version=found.version,
            function_run=run,
            steps=steps,
            cancelled=asyncio.Event(),
            log=_quiet,
        )
        function = partial(found.function, context, orjson.loads(self.journal.input.raw)["input"])
        task = asyncio.ensure_future(_outcome(run.run(function)))
        stopped = asyncio.ensure_future(self._stop.wait())
        try:
            await asyncio.wait((task, stopped), return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                return _Stopped()
            returned, failure = task.result()
            if isinstance(failure, _PastLogEnd):
                return _Stopped()
            if failure is not None:
                return function_failure(failure, helpers).error
            if not isinstance(returned, FunctionSuspended | FunctionBlocked):
                steps.check_awaited()
            self._blocked_at = run.blocked_at
            return returned
        except _PastLogEnd:
            return _Stopped()
        except Exception as failure:  # noqa: BLE001 -- it is the end of the function
            return function_failure(failure, helpers).error
        finally:
            for each in (task, stopped):
                each.cancel()
            await asyncio.gather(task, stopped, return_exceptions=True)
            steps.close()
            threads.stop()

    # -- comparing ------------------------------------------------------------------------
    def compared(self, outcome: object, ended: Event | None) -> Replayed:
        """Compare the outcome of the function with the log."""
        if isinstance(outcome, FunctionBlocked):
            return Replayed(Agreement.DIFFERENT, outcome.message, self._blocked_at)
        if isinstance(outcome, FunctionSuspended):
            new = [report for report in outcome.asked if (report.name, report.scope) not in self.journal.steps]
            if new:
                self._beyond = self._beyond or (new[0].name, new[0].scope)
            waits = outcome.awaited[0] if outcome.awaited else None
            return self._stopped(waits)
        if isinstance(outcome, _Stopped):
            return self._stopped(self._pending)
        return self._ended(outcome, ended)

    def _stopped(self, waits: ActivationKey | None) -> Replayed:
        """The outcome of a function that asks for more, or waits."""
        if self._beyond is not None:
            message = f"it asks for {_shown(self._beyond)}, which the log does not have"
            return Replayed(Agreement.DIFFERENT if self.ends else Agreement.SAME, message, self._beyond)
        if self.ends:
            what = "" if waits is None else f" for {_shown(waits)}"
            return Replayed(Agreement.DIFFERENT, f"it waits{what} where its log has the end of the run", waits)
        return Replayed(Agreement.SAME, "" if waits is None else f"its log ends while {_shown(waits)} is open", waits)

    def _ended(self, outcome: object, ended: Event | None) -> Replayed:
        if ended is None or ended.type is EventType.INSTANCE_CANCELLED:
            if ended is not None:
                return Replayed(Agreement.SAME)
            if isinstance(outcome, RunError):
                message = f"it raises {outcome.type} ({outcome.message}) where its log has an open run"
                return Replayed(Agreement.DIFFERENT, message, ends="raises")
            return Replayed(Agreement.DIFFERENT, "it returns where its log has an open run", ends="returns")
        was = ended.payload.value
        if isinstance(outcome, RunError):
            if ended.type is EventType.INSTANCE_FAILED and (was["code"], was["type"]) == (outcome.code, outcome.type):
                return Replayed(Agreement.SAME)
            return Replayed(
                Agreement.DIFFERENT, f"it raises {outcome.type} ({outcome.message}), and its log has {_end_of(ended)}"
            )
        if ended.type is EventType.INSTANCE_FAILED:
            return Replayed(Agreement.DIFFERENT, f"it returns, and its log has {_end_of(ended)}")
        try:
            output = Payload.of(outcome)
        except AnabranchError as refusal:
            return Replayed(Agreement.DIFFERENT, f"it returns what cannot be stored ({refusal.message})")
        if json_equal(output.value, was):
            return Replayed(Agreement.SAME)
        return Replayed(Agreement.DIFFERENT, f"it returns {output.excerpt}, and its log has {ended.payload.excerpt}")


async def _outcome(run: Awaitable[Any]) -> tuple[Any, BaseException | None]:
    # Not through the task: a function that raises CancelledError would look like a task that was cancelled, and
    # SystemExit would end the loop.
    try:
        return await run, None
    except KeyboardInterrupt:
        raise
    except BaseException as failure:  # noqa: BLE001 -- whatever the function raises is its end
        return None, failure


def _latest(journal: CodedState) -> int:
    return max((step.ended_at for step in journal.endings), default=0)


def _shown(key: ActivationKey) -> str:
    return f"'{key[0]}{key[1]}'"


def _end_of(ended: Event) -> str:
    if ended.type is EventType.INSTANCE_FAILED:
        return f"the error {ended.payload.value['type']} ({ended.payload.value['message']})"
    return f"the output {ended.payload.excerpt}"

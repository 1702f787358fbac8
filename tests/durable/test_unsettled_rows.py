"""What is decided and not committed is not acted upon: one function on a run access of the test's own, row by row."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

from anabranch.durable.function_run import FunctionRun
from anabranch.engine.clock import SystemClock
from anabranch.engine.ownership.run_access import RunAccess
from anabranch.engine.queues.task_queue import Slots
from anabranch.engine.rules.coded.coded_state import CodedState
from anabranch.engine.rules.coded.names import StepKind
from anabranch.engine.rules.shared.retry import RetryPolicy
from anabranch.engine.rules.stimuli import Completed, Failed, StepOutcome, StepReport
from anabranch.engine.rules.values import NULL
from anabranch.errors import RunError
from tests.spec.coded import Coded

RETRY_MS = 100
POLICY = RetryPolicy(base_ms=RETRY_MS)

# Rounds of the event loop after which nothing moves any more by itself.
ROUNDS = 20


class OpenDesk:
    """See `engine.ownership.run_access.RunAccess`: the test says what is committed."""

    def __init__(self, run: Coded) -> None:
        self._run = run
        self.committed_seq = run.state.last_seq
        self.reports: list[StepReport] = []

    @property
    def journal(self) -> CodedState:
        return self._run.state

    def report(self, report: StepReport) -> None:
        self.reports.append(report)

    def commit(self, settled: Callable[[], None]) -> None:
        """All that was decided is committed now."""
        self.committed_seq = self._run.state.last_seq
        settled()


async def rounds() -> None:
    for _ in range(ROUNDS):
        await asyncio.sleep(0)


async def test_a_later_attempt_begins_once_its_dispatch_is_committed() -> None:
    """Its time comes just after the failed attempt was committed, and before the function has gone on."""
    run, tries = Coded(), []
    run_access = OpenDesk(run)
    slots = Slots(lambda: None)
    slots.concurrency = 1
    function_run = FunctionRun(cast(RunAccess, run_access), run.state, SystemClock(), slots.take())

    async def attempt_once(attempt: int) -> tuple[StepOutcome, BaseException | None]:
        tries.append(attempt)
        if attempt == 1:
            return Failed(RunError("HANDLER_ERROR", "ValueError", "no", "fetch", "", 1), retryable=True), None
        return Completed(NULL), None

    async def function() -> Any:
        return await function_run.answer(
            function_run.ask("fetch", StepKind.RUN, None, POLICY), attempt_once=attempt_once
        )

    under_way = asyncio.create_task(function_run.run(function))
    await rounds()
    run.when(run_access.reports.pop())
    run_access.commit(function_run.settled)
    run.later(RETRY_MS)  # decided, and on its way to the store
    await rounds()
    assert tries == [1], "the second attempt is not in the log yet"

    run_access.commit(function_run.settled)
    await rounds()
    assert tries == [1, 2]
    run.when(run_access.reports.pop())
    run_access.commit(function_run.settled)
    assert await under_way is None


async def test_a_function_that_has_ended_leaves_its_slot_to_the_next_job() -> None:
    run = Coded()
    slots = Slots(lambda: None)
    slots.concurrency = 1
    slot = slots.take()
    function_run = FunctionRun(cast(RunAccess, OpenDesk(run)), run.state, SystemClock(), slot)

    async def function() -> None:
        return None

    assert await function_run.run(function) is None
    slot.lend()  # the next job, which has kept it
    function_run.settled()  # by a commit that came late
    await rounds()

    assert slots.has_free, "it is lent as before"


async def test_a_step_that_ends_at_once_lends_no_slot_that_the_next_step_needs() -> None:
    run = Coded()
    slots = Slots(lambda: None)
    slots.concurrency = 1
    run_access = OpenDesk(run)
    function_run = FunctionRun(cast(RunAccess, run_access), run.state, SystemClock(), slots.take())
    may_end, was_free = asyncio.Event(), []

    async def quick(attempt: int) -> tuple[StepOutcome, BaseException | None]:
        return Completed(NULL), None

    async def slow(attempt: int) -> tuple[StepOutcome, BaseException | None]:
        was_free.append(slots.has_free)
        await may_end.wait()
        was_free.append(slots.has_free)
        return Completed(NULL), None

    async def function() -> None:
        await asyncio.gather(
            *(
                function_run.answer(function_run.ask(name, StepKind.RUN, None, POLICY), attempt_once=attempt_once)
                for name, attempt_once in (("quick", quick), ("slow", slow))
            )
        )

    under_way = asyncio.create_task(function_run.run(function))
    await rounds()
    assert [report.name for report in run_access.reports] == ["quick"]
    may_end.set()
    await rounds()
    assert was_free == [False, False]
    assert slots.has_free, "both only wait for a commit"

    for report in run_access.reports:
        run.when(report)
    run_access.commit(function_run.settled)
    assert await under_way is None

"""A worker for one workflow function, in virtual time: real rules, a real call of the function, no store.

What a step takes is drawn by its name and the seed, and counts from the first time that it was called: a worker that is
lost meanwhile changes nothing. With `unwinds`, the worker is lost at every commit.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import blake2b
from typing import Any, cast

from anabranch.durable.context import Context
from anabranch.durable.execution import StepThreads
from anabranch.durable.function_run import FunctionRun
from anabranch.durable.steps import Signals, StepChildren, Steps
from anabranch.engine.handler_contract import Helpers
from anabranch.engine.ownership.run_access import RunAccess
from anabranch.engine.ports import Clock
from anabranch.engine.queues.task_queue import Slots
from anabranch.engine.rules.coded.coded_state import CodedState
from anabranch.engine.rules.drawn.drawn_state import ContextSnapshot as NoContext
from anabranch.engine.rules.events import EventType
from anabranch.engine.rules.stimuli import FunctionBlocked, FunctionSuspended, NodeResult, StepReport
from anabranch.engine.rules.values import Payload
from anabranch.errors import NonRetryable
from tests.durable.loop_programs import PROGRAMS, Function
from tests.spec.coded import BIRTH_MS, Coded, raised, returned

# Far more than any of the programs needs.
COMMITS_MAX = 2_000


class VirtualLoop(asyncio.SelectorEventLoop):
    """Its time passes when there is nothing else to do."""

    def __init__(self) -> None:
        super().__init__()
        self._now = 0.0
        select = self._selector.select  # type: ignore[attr-defined]

        def wait(timeout: float | None) -> Any:
            self._now += timeout or 0
            return select(0)

        self._selector.select = wait  # type: ignore[attr-defined]

    def time(self) -> float:
        """Seconds since it was made."""
        return self._now


@dataclass
class World:
    """One run, and what becomes of it."""

    function: Function
    seed: int
    unwinds: bool = False
    commits_max: int | None = None
    """After how many commits its worker is lost, for good."""
    run: Coded = field(default_factory=Coded)
    trace: list[str] = field(default_factory=list)
    """What the function has asked for since it was called last."""
    traces: list[list[str]] = field(default_factory=list)
    """The same of every call of it that was cut short."""
    ends_at: dict[str, float] = field(default_factory=dict)
    reports: list[StepReport] = field(default_factory=list)
    committed_seq: int = 0
    began_at: int = BIRTH_MS
    commits: int = 0
    stopped: list[str] = field(default_factory=list)
    """Steps that were stopped before they had ended."""
    outcome: Any = None
    input: Any = None

    # -- what the function sees -----------------------------------------------------------
    def context(self, function_run: FunctionRun) -> Context:
        """`ctx`, with `work` and `fail`: a step each."""
        nobody = cast(Any, None)
        helpers = Helpers(
            instance_id="run",
            tenant_id="default",
            node_id="",
            workflow_id=None,
            scope="",
            attempt=1,
            now_ms=0,
            context=NoContext(()),
        )
        steps = Steps(
            function_run,
            helpers=helpers,
            children=cast(StepChildren, nobody),
            signals=cast(Signals, nobody),
            threads=StepThreads(),
        )
        ctx = Context(
            run_id=self.run.head.instance_id,
            version=1,
            function_run=function_run,
            steps=steps,
            cancelled=asyncio.Event(),
            log=helpers.log,
        )
        calls: dict[str, int] = {}

        async def work(name: str) -> Any:
            calls[name] = calls.get(name, 0) + 1
            self.trace.append(f"{name} {calls[name]}")
            return await steps.run(name, self._perform, f"{name} {calls[name]}")

        async def fail(name: str) -> Any:
            self.trace.append(name)
            return await steps.run(name, self._fail, name)

        ctx.work, ctx.fail = work, fail  # type: ignore[attr-defined]
        return ctx

    async def _perform(self, key: str) -> str:
        loop = asyncio.get_running_loop()
        if key not in self.ends_at:
            dice = random.Random(f"{self.seed} {key}")
            self.ends_at[key] = loop.time() + dice.choice((0.3, 0.5, 1, 1, 2, 4)) + dice.random() / 10
        try:
            await asyncio.sleep(max(0, self.ends_at[key] - loop.time()))
        except asyncio.CancelledError:
            self.stopped.append(key)
            raise
        return key

    async def _fail(self, key: str) -> None:
        await self._perform(key)
        raise NonRetryable(key)

    # -- the run access -------------------------------------------------------------------------
    @property
    def journal(self) -> CodedState:
        """See `engine.ownership.run_access.RunAccess`."""
        return self.run.state

    def report(self, report: StepReport) -> None:
        """The same."""
        self.reports.append(report)
        self._changed.set()

    def now(self) -> int:
        """See `engine.ports.Clock`."""
        return self.began_at + round(asyncio.get_running_loop().time() * 1000)

    # -- the course of it -----------------------------------------------------------------
    async def live(self) -> World:
        """Until the run has ended, or is blocked."""
        for _ in range(COMMITS_MAX):
            self._changed = asyncio.Event()
            self.committed_seq = self.run.state.last_seq
            self.trace = []
            slots = Slots(lambda: None)
            slots.concurrency = 1
            function_run = FunctionRun(cast(RunAccess, self), self.journal, cast(Clock, self), slots.take())
            job = asyncio.create_task(function_run.run(partial(self._coroutine, function_run)))
            await self._until_cut_short(job, function_run.settled)
            if self._has_committed_enough:
                job.cancel()
                await asyncio.gather(job, return_exceptions=True)
                self.commits_max = None
                return self
            if not job.done():
                self.traces.append(list(self.trace))
                job.cancel()
                with suppress(asyncio.CancelledError):
                    await job
                self.run.crashed()
                continue
            if self._ended(job) or self._has_committed_enough:
                self.commits_max = None
                return self
            await self._until_woken()
        raise AssertionError("it does not end")

    async def _coroutine(self, function_run: FunctionRun) -> Any:
        return await self.function(self.context(function_run), self.input)

    async def _until_cut_short(self, job: asyncio.Task[Any], settled: Callable[[], None]) -> None:
        while not job.done():
            due_at = self.run.state.next_due()
            wait_s = None if due_at is None else max(0, due_at - self.now()) / 1000
            changed = asyncio.create_task(self._changed.wait())
            await asyncio.wait({job, changed}, timeout=wait_s, return_when=asyncio.FIRST_COMPLETED)
            changed.cancel()
            if job.done():
                return
            if self._commit():
                if self.unwinds or self._has_committed_enough:
                    return
                settled()

    @property
    def _has_committed_enough(self) -> bool:
        return self.commits_max is not None and self.commits >= self.commits_max

    def forget_loop(self) -> None:
        """Make its log one of a version that had no loops."""
        self.run.log[1] = replace(self.run.log[1], payload=Payload.of({}))
        self.run.crashed()

    def _commit(self) -> bool:
        """Decide what has come; was something written?"""
        before = self.run.state.last_seq
        self._changed.clear()
        self.run.now = self.now()
        reports, self.reports = self.reports, []
        for report in reports:
            self.run.when(report)
        self.run.later(0)
        self.committed_seq = self.run.state.last_seq
        self.commits += self.committed_seq > before
        return self.committed_seq > before

    def _ended(self, job: asyncio.Task[Any]) -> bool:
        self._commit()
        failure = job.exception()
        if failure is not None:
            self.outcome = failure
            self.run.when(raised())
            return True
        self.outcome = job.result()
        if isinstance(self.outcome, FunctionSuspended | FunctionBlocked):
            self.run.when(NodeResult("", "", 1, self.outcome))
            self.commits += 1
            return isinstance(self.outcome, FunctionBlocked)
        self.run.when(returned(Payload.of(self.outcome).value))
        return True

    async def _until_woken(self) -> None:
        while not self.run.state.running:
            due_at = self.run.state.next_due()
            assert due_at is not None, "nothing ever wakes it"
            await asyncio.sleep(max(0, due_at - self.now()) / 1000)
            self._commit()

    @property
    def log(self) -> list[Any]:
        """Its rows, without what says when its function was called and suspended, and which steps were under way.

        A step that was cancelled before it had another row has one only where it was begun by the worker that cancelled
        it.
        """
        told = [row for row in self.run.log if row.node_id and row.type is not EventType.NODE_DISPATCHED]
        begun = {(row.node_id, row.scope) for row in told if row.type is not EventType.NODE_SKIPPED}
        steps = self.run.state.steps
        return [
            (row.type, *place, row.attempt, row.payload.value, row.created_at, steps[place].arguments)
            for row in told
            if (place := (row.node_id, row.scope)) in begun
        ]


def lived(function: Function, *, seed: int = 0, unwinds: bool = False) -> World:
    """A run of this function, at its end."""
    return in_virtual_time(World(function, seed, unwinds).live())


def in_virtual_time(living: Coroutine[Any, Any, World]) -> World:
    """Run it on a loop without a clock."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(living)


def digest_of_all() -> str:
    """Of what all programs ask for, log and come to, each unwound at every commit."""
    digest = blake2b()
    for name, function in PROGRAMS.items():
        world = lived(function, unwinds=True)
        digest.update(json.dumps([name, world.outcome, world.trace, world.log], default=str).encode())
    return digest.hexdigest()


if __name__ == "__main__":
    _kept = [object() for _ in range(random.randrange(10_000))]  # so that all that follows has other addresses
    sys.stdout.write(digest_of_all())

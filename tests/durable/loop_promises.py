"""What the event loop of a workflow function promises: one function each, which raises where that does not hold.

`test_workflow_loop` calls them, and `test_loop_mutants` once more for each mistake that is put into the code.
"""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from anabranch.engine.rules.stimuli import FunctionBlocked
from anabranch.errors import NotInWorkflow, WorkflowStuck
from tests.durable.loop_programs import PROGRAMS, Function
from tests.durable.loop_world import World, in_virtual_time, lived
from tests.spec.coded import Coded

PROMISES: dict[str, Callable[[], None]] = {}

SEEDS = range(3)


def promise(check: Callable[[], None]) -> Callable[[], None]:
    """Enter it in the list."""
    PROMISES[check.__name__] = check
    return check


def _same_on_every_replay(function: Function, seed: int) -> None:
    once, often = lived(function, seed=seed), lived(function, seed=seed, unwinds=True)
    assert not isinstance(once.outcome, BaseException), once.outcome
    assert not isinstance(once.outcome, FunctionBlocked), once.outcome
    assert json.dumps(often.outcome, default=str) == json.dumps(once.outcome, default=str)
    assert often.trace == once.trace
    assert often.log == once.log
    for cut in often.traces:
        assert cut == once.trace[: len(cut)], "what was asked for so far is what is asked for in the end"


def _checked(name: str) -> Callable[[], None]:
    def check() -> None:
        for seed in SEEDS:
            _same_on_every_replay(PROGRAMS[name], seed)

    check.__name__ = f"{name}_is_the_same_when_it_is_unwound_at_every_commit"
    return check


for _name in PROGRAMS:
    promise(_checked(_name))


def _continued(world: World, function: Function) -> World:
    """The same run, on the log that it has so far, with other code."""
    world.function = function
    world.run.crashed()
    return in_virtual_time(world.live())


def _stopped(function: Function, *, commits: int) -> World:
    """A run whose worker is lost after so many commits."""
    world = World(function, 0, commits_max=commits)
    return in_virtual_time(world.live())


@contextmanager
def _logged() -> Iterator[list[str]]:
    """What is logged meanwhile, with tracebacks, and nowhere else."""
    lines: list[str] = []
    logger, handler = logging.getLogger("anabranch.durable"), logging.Handler()
    handler.emit = lambda record: lines.append(formatter.format(record))  # type: ignore[method-assign]
    formatter = logging.Formatter()
    logger.addHandler(handler)
    propagate, logger.propagate = logger.propagate, False
    try:
        yield lines
    finally:
        logger.propagate = propagate
        logger.removeHandler(handler)


# -- what there is not --------------------------------------------------------------------
OUTSIDE: dict[str, Callable[[], Any]] = {
    "create_connection": lambda: asyncio.open_connection("127.0.0.1", 1),
    "run_in_executor": lambda: asyncio.to_thread(print),
    "subprocess_exec": lambda: asyncio.create_subprocess_exec("true"),
    "getaddrinfo": lambda: asyncio.get_running_loop().getaddrinfo("localhost", 1),
    "call_soon_threadsafe": lambda: asyncio.get_running_loop().call_soon_threadsafe(print),
    "add_reader": lambda: asyncio.get_running_loop().add_reader(0, print),
}


@promise
def the_outside_world_is_refused_with_the_line_of_the_author() -> None:
    for name, call in OUTSIDE.items():

        async def function(ctx: Any, input: Any, call: Callable[[], Any] = call) -> None:
            await call()

        failure = lived(function).outcome
        assert isinstance(failure, NotInWorkflow) and isinstance(failure, RuntimeError), failure
        assert f"loop.{name} needs the outside world: do it in a step ({__file__}, line " in str(failure)


@promise
def coroutines_are_refused_by_as_completed() -> None:
    async def function(ctx: Any, input: Any) -> None:
        begun = [ctx.work("a"), ctx.work("b")]
        try:
            for each in asyncio.as_completed(begun):
                await each
        finally:
            for each in begun:
                each.close()

    failure = lived(function).outcome
    assert isinstance(failure, NotInWorkflow) and "give it tasks" in str(failure)


@promise
def nothing_is_touched_from_outside() -> None:
    async def function(ctx: Any, input: Any) -> Any:
        event = asyncio.Event()

        async def touch() -> str:
            try:
                event.set()
            except NotInWorkflow as refused:
                return refused.code
            return "touched"

        waiter = asyncio.create_task(event.wait())
        answer = await ctx.step.run("touch", touch)
        waiter.cancel()
        return answer

    assert lived(function).outcome == "NOT_IN_WORKFLOW"


@promise
def a_function_that_nothing_can_move_is_told_with_its_tasks_and_lines() -> None:
    async def function(ctx: Any, input: Any) -> None:
        lock = asyncio.Lock()
        await ctx.work("first")
        await lock.acquire()
        await lock.acquire()

    failure = lived(function).outcome
    assert isinstance(failure, WorkflowStuck) and f"main ({__file__}, line " in str(failure)


# -- unwinding ----------------------------------------------------------------------------
@promise
def unwinding_is_no_cancellation_and_asks_for_nothing() -> None:
    cancelled: list[str] = []

    async def function(ctx: Any, input: Any) -> Any:
        try:
            await ctx.work("a")
            await ctx.step.sleep("nap", "5s")
        except asyncio.CancelledError:
            cancelled.append("cancelled")
            raise
        finally:
            await ctx.work("clean-up")
        return "done"

    world = lived(function, unwinds=True)
    assert (world.outcome, cancelled) == ("done", [])
    assert [row[1] for row in world.log] == ["a", "nap", "nap", "clean-up"]


@promise
def nobody_is_told_that_another_task_was_unwound() -> None:
    seen: list[Any] = []

    async def function(ctx: Any, input: Any) -> Any:
        outcomes = await asyncio.gather(
            ctx.step.sleep("one", "5s"), ctx.step.sleep("two", "6s"), return_exceptions=True
        )
        seen.append(outcomes)
        return len(seen)

    assert lived(function, unwinds=True).outcome == 1
    assert seen == [[None, None]]


@promise
def a_question_while_unwinding_raises_at_once() -> None:
    seen: list[str] = []

    async def function(ctx: Any, input: Any) -> Any:
        try:
            await ctx.step.sleep("nap", "5s")
        finally:
            asking = ctx.step.sleep("clean-up", "1s")
            try:
                asking.send(None)
                seen.append("it waits for an answer")
            except BaseException as refusal:
                seen.append(type(refusal).__name__)
                raise
            finally:
                asking.close()

    lived(function)
    assert seen == ["Suspended", "it waits for an answer"]


@promise
def what_is_set_while_unwinding_resumes_nobody() -> None:
    resumed: list[bool] = []

    async def function(ctx: Any, input: Any) -> Any:
        done = asyncio.Event()

        async def last() -> None:
            try:
                await ctx.step.sleep("nap", "5s")
            finally:
                done.set()

        task = asyncio.create_task(last())
        await done.wait()
        resumed.append(asyncio.get_running_loop().is_closed())
        await task
        return "done"

    assert lived(function, unwinds=True).outcome == "done"
    assert resumed == [False]


@promise
def what_awaits_for_ever_while_it_is_unwound_is_left_behind() -> None:
    is_over = False

    async def function(ctx: Any, input: Any) -> Any:
        while not is_over:
            try:
                await ctx.step.sleep("nap", "5s")
                break
            except BaseException:  # noqa: BLE001 -- as somebody may
                with suppress(BaseException):
                    await asyncio.get_running_loop().create_future()
        return "slept"

    with _logged() as lines:
        assert lived(function).outcome == "slept"
    is_over = True  # so that it ends when this process does
    assert "a task could not be unwound" in "".join(lines)


@promise
def what_swallows_its_unwinding_is_called_again_all_the_same() -> None:
    async def function(ctx: Any, input: Any) -> Any:
        for _ in range(1_000):
            try:
                await ctx.step.sleep("nap", "5s")
                break
            except BaseException:  # noqa: BLE001 -- as somebody may
                continue
        return "slept"

    assert lived(function).outcome == "slept"


# -- cancelling ---------------------------------------------------------------------------
@promise
def a_cancelled_step_is_stopped_and_its_result_is_dropped() -> None:
    async def function(ctx: Any, input: Any) -> Any:
        task = asyncio.create_task(ctx.work("long"))
        await ctx.work("short")
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return [task.cancelled(), await ctx.work("after")]

    world = World(function, 0)
    world.ends_at |= {"short 1": 1.0, "long 1": 1.5, "after 1": 2.0}
    in_virtual_time(world.live())
    assert (world.outcome, world.stopped) == ([True, "after 1"], ["long 1"])
    rows = [(row.type, row.node_id) for row in world.run.log if row.node_id and row.type != "NODE_DISPATCHED"]
    assert rows == [("NODE_COMPLETED", "short"), ("NODE_SKIPPED", "long"), ("NODE_COMPLETED", "after")]


@promise
def a_result_that_comes_with_the_cancel_is_dropped_too() -> None:
    """Both ends are in one commit: the function cancels the second when it is told the first."""

    async def function(ctx: Any, input: Any) -> Any:
        task = asyncio.create_task(ctx.work("second"))
        await ctx.work("first")
        task.cancel()
        (outcome,) = await asyncio.gather(task, return_exceptions=True)
        await ctx.step.sleep("nap", "5s")
        return type(outcome).__name__

    for unwinds in (False, True):
        world = World(function, 0, unwinds)
        world.ends_at |= {"first 1": 1.0, "second 1": 1.0}
        in_virtual_time(world.live())
        assert world.outcome == "CancelledError"


# -- timers -------------------------------------------------------------------------------
@promise
def a_timeout_around_a_quick_step_has_no_row() -> None:
    async def function(ctx: Any, input: Any) -> Any:
        async with asyncio.timeout(100):
            return await ctx.work("quick")

    assert [row[1] for row in lived(function).log] == ["quick"]


@promise
def a_timer_that_was_recorded_and_is_cancelled_wakes_nobody() -> None:
    async def function(ctx: Any, input: Any) -> Any:
        async with asyncio.timeout(100):
            await ctx.step.sleep("nap", "5s")
        await ctx.step.sleep("long", "1h")
        return asyncio.get_running_loop().time()

    for unwinds in (False, True):
        world = lived(function, unwinds=unwinds)
        assert [(row[0], row[1]) for row in world.log] == [
            ("NODE_WAITING", "nap"),
            ("NODE_WAITING", "@timer"),
            ("NODE_COMPLETED", "nap"),
            ("NODE_SKIPPED", "@timer"),
            ("NODE_WAITING", "long"),
            ("NODE_COMPLETED", "long"),
        ]


@promise
def a_timer_is_told_when_its_row_is_committed_and_not_before() -> None:
    told: list[tuple[int, int]] = []

    async def function(ctx: Any, input: Any) -> Any:
        step = asyncio.create_task(ctx.work("slow"))
        await asyncio.sleep(0.1)
        told.append((world.committed_seq, len([row for row in world.run.log if row.node_id == "@timer"])))
        return await step

    world = World(function, 0)
    in_virtual_time(world.live())
    assert told == [(4, 1)], "the step that runs meanwhile is written with it"


@promise
def a_timer_that_is_added_elsewhere_shifts_none() -> None:
    def deployment(extra: float | None) -> Function:
        async def function(ctx: Any, input: Any) -> Any:
            if extra is not None:
                asyncio.create_task(asyncio.sleep(extra)).cancel()
            await asyncio.gather(asyncio.sleep(5), asyncio.sleep(7))
            return "both"

        return function

    world = _stopped(deployment(None), commits=2)
    assert _continued(world, deployment(3)).outcome == "both"


@promise
def time_is_that_of_the_log_and_moves_with_answers_alone() -> None:
    async def function(ctx: Any, input: Any) -> Any:
        loop = asyncio.get_running_loop()
        await ctx.work("a")
        before = loop.time()
        for _ in range(10):
            await asyncio.sleep(0)
        assert loop.time() == before
        await asyncio.sleep(1.5)
        return round(loop.time() - before, 6)

    for unwinds in (False, True):
        assert lived(function, unwinds=unwinds).outcome == 1.5


@promise
def a_delay_of_nothing_and_one_of_ever_have_no_row() -> None:
    async def function(ctx: Any, input: Any) -> Any:
        loop = asyncio.get_running_loop()
        for delay in (0, -1):
            await asyncio.sleep(delay)
        for never in (math.inf, 10e9):
            loop.call_later(never, print, "never")
        async with asyncio.timeout(None):
            return await ctx.work("a")

    world = lived(function)
    assert (world.outcome, [row[1] for row in world.log]) == ("a 1", ["a"])


# -- hashes -------------------------------------------------------------------------------
@promise
def tasks_hash_alike_on_every_replay_and_unlike_those_of_other_runs() -> None:
    seen: list[int] = []

    async def function(ctx: Any, input: Any) -> Any:
        seen.append(hash(asyncio.current_task()))
        await ctx.step.sleep("nap", "5s")

    for run_id in ("one", "two"):
        world = World(function, 0, unwinds=True, run=Coded(run_id=run_id))
        in_virtual_time(world.live())
    ones, twos = seen[: len(seen) // 2], seen[len(seen) // 2 :]
    assert len(ones) > 1
    assert ones == ones[:1] * len(ones) and twos == twos[:1] * len(twos)
    assert ones[0] != twos[0]


# -- what is left when the function ends --------------------------------------------------
@promise
def tasks_left_behind_are_named_and_their_failures_change_nothing() -> None:
    async def function(ctx: Any, input: Any) -> Any:
        async def fails() -> None:
            raise ValueError("nobody asks for it")

        async def stays() -> None:
            await ctx.step.sleep("nap", "1h")

        asyncio.create_task(fails())  # noqa: RUF006 -- nobody keeps it
        left = asyncio.create_task(stays(), name="left-behind")
        await ctx.work("a")
        assert not left.done()
        return "done"

    with _logged() as lines:
        assert lived(function).outcome == "done"
        gc.collect()
    left = [line for line in lines if "ended before 1 tasks that it began" in line]
    assert len(left) == 1 and f"left-behind ({__file__}, line " in left[0]
    assert [line for line in lines if "exception was never retrieved" in line and "nobody asks for it" in line]


# -- code that has changed ----------------------------------------------------------------
@promise
def changed_code_is_found_at_once_though_it_has_timers() -> None:
    async def before(ctx: Any, input: Any) -> Any:
        await ctx.work("first")
        await ctx.work("second")
        await ctx.step.sleep("nap", "1h")

    async def after(ctx: Any, input: Any) -> Any:
        await ctx.work("first")
        await asyncio.sleep(5)
        await ctx.work("second")
        await ctx.step.sleep("nap", "1h")

    world = _stopped(before, commits=3)
    blocked = _continued(world, after).outcome
    assert isinstance(blocked, FunctionBlocked), blocked
    message = blocked.message.partition(" (it was recorded with Python ")[0]
    assert message == "it waits without having asked for second, which its log has: the code has changed"


@promise
def a_log_without_loops_is_replayed_though_it_has_no_timers() -> None:
    async def function(ctx: Any, input: Any) -> Any:
        try:
            await asyncio.wait_for(ctx.work("slow"), 0.05)
        except TimeoutError:
            await ctx.work("instead")
        await ctx.step.sleep("nap", "5s")
        await ctx.work("after")
        return "done"

    async def as_the_old_version_recorded_it(ctx: Any, input: Any) -> Any:
        await ctx.work("instead")
        await ctx.step.sleep("nap", "5s")

    world = _stopped(as_the_old_version_recorded_it, commits=2)
    world.forget_loop()
    assert _continued(world, function).outcome == "done"
    assert [row.payload.value["loop"] for row in world.run.log if row.type == "SYSTEM_SET"] == [1]

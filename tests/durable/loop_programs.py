"""Workflow functions that use all of asyncio that there is on a loop without an outside world.

Each of them comes to the same, asks for the same and leaves the same log, whether it is called once or unwound and
called again at every point where it waits. Every step takes a time of its own, drawn by a seed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

Function = Callable[[Any, Any], Awaitable[Any]]

PROGRAMS: dict[str, Function] = {}


def program(function: Function) -> Function:
    """Enter it in the list."""
    PROGRAMS[function.__name__] = function
    return function


async def _chain(ctx: Any, name: str) -> list[Any]:
    return [await ctx.work(name), await ctx.work("same")]


@program
async def gathers(ctx: Any, input: Any) -> Any:
    return await asyncio.gather(*(_chain(ctx, name) for name in "abcd"))


@program
async def group(ctx: Any, input: Any) -> Any:
    async with asyncio.TaskGroup() as tasks:
        begun = [tasks.create_task(_chain(ctx, name)) for name in "abc"]
        await ctx.work("inside")
    return [task.result() for task in begun]


@program
async def failing_group(ctx: Any, input: Any) -> Any:
    seen: list[str] = []

    async def waits(name: str) -> None:
        try:
            await ctx.work(name)
            await asyncio.sleep(9)
        finally:
            seen.append(name)

    async def fails() -> None:
        await ctx.work("x")
        raise ValueError("no")

    try:
        async with asyncio.TaskGroup() as tasks:
            for number in range(40):
                tasks.create_task(waits(f"s{number}"))
            tasks.create_task(fails())
    except* ValueError:
        seen.append("caught")
    await ctx.work("after")
    return seen


@program
async def timeouts(ctx: Any, input: Any) -> Any:
    seen: list[Any] = []
    try:
        async with asyncio.timeout(0.8):
            await ctx.work("slow")
        seen.append("in time")
    except TimeoutError:
        seen.append("late")
    try:
        seen.append(await asyncio.wait_for(ctx.work("w"), 1.5))
    except TimeoutError:
        seen.append("late too")
    async with asyncio.timeout(500), asyncio.timeout(900):
        seen.append(await ctx.work("ok"))
    await asyncio.sleep(2)
    await asyncio.sleep(0)
    return seen


@program
async def semaphore(ctx: Any, input: Any) -> Any:
    room, order = asyncio.Semaphore(2), []

    async def worker(number: int) -> None:
        async with room:
            order.append(number)
            await ctx.work(f"s{number}")
            await asyncio.sleep(0.3)

    await asyncio.gather(*(worker(number) for number in range(6)))
    return order


@program
async def lock_and_condition(ctx: Any, input: Any) -> Any:
    lock, condition, event = asyncio.Lock(), asyncio.Condition(), asyncio.Event()
    seen: list[Any] = []

    async def worker(number: int) -> None:
        async with lock:
            seen.append(number)
            await ctx.work(f"l{number}")
        async with condition:
            condition.notify_all()
        if number == 3:
            event.set()

    async def waiter() -> None:
        async with condition:
            await condition.wait_for(lambda: len(seen) >= 3)
        seen.append("condition")
        await event.wait()
        seen.append("event")

    await asyncio.gather(waiter(), *(worker(number) for number in range(4)))
    return seen


@program
async def barrier(ctx: Any, input: Any) -> Any:
    gate, seen = asyncio.Barrier(3), []

    async def worker(number: int) -> None:
        await ctx.work(f"b{number}")
        seen.append((number, await gate.wait()))

    await asyncio.gather(*(worker(number) for number in range(3)))
    return seen


@program
async def queue(ctx: Any, input: Any) -> Any:
    jobs: asyncio.Queue[int] = asyncio.Queue(2)
    seen: list[Any] = []

    async def worker(number: int) -> None:
        while True:
            job = await jobs.get()
            await ctx.work(f"q{job}")
            seen.append((number, job))
            jobs.task_done()

    workers = [asyncio.create_task(worker(number)) for number in range(3)]
    for job in range(8):
        await jobs.put(job)
    await jobs.join()
    for task in workers:
        task.cancel()
    await asyncio.gather(*workers, return_exceptions=True)
    return seen


@program
async def shield(ctx: Any, input: Any) -> Any:
    inner = asyncio.create_task(_chain(ctx, "i"))
    try:
        async with asyncio.timeout(0.2):
            await asyncio.shield(inner)
    except TimeoutError:
        await ctx.work("timed")
    return await inner


@program
async def tasks_as_completed(ctx: Any, input: Any) -> Any:
    seen = []
    for each in asyncio.as_completed([asyncio.create_task(_chain(ctx, name)) for name in "abcdef"]):
        seen.append(await each)
        await ctx.work("next")
    return seen


@program
async def wait_over_sets(ctx: Any, input: Any) -> Any:
    open_ones = {asyncio.create_task(_chain(ctx, f"w{number}"), name=f"w{number}") for number in range(12)}
    seen = []
    while open_ones:
        done, open_ones = await asyncio.wait(open_ones, return_when="FIRST_COMPLETED", timeout=0.7)
        for task in done:
            seen.append(task.get_name())
            await ctx.work("seen")
    return seen


@program
async def cleanup_after_cancel(ctx: Any, input: Any) -> Any:
    async def worker() -> None:
        try:
            await ctx.work("long")
        except asyncio.CancelledError:
            await ctx.work("cleanup")
            raise
        finally:
            await ctx.work("finally")

    task = asyncio.create_task(worker())
    await ctx.work("a")
    task.cancel()
    (outcome,) = await asyncio.gather(task, return_exceptions=True)
    current = asyncio.current_task()
    return [type(outcome).__name__, current and current.get_name()]


@program
async def gathered_exceptions(ctx: Any, input: Any) -> Any:
    async def bad(name: str) -> None:
        await ctx.work(name)
        raise ValueError(name)

    outcomes = await asyncio.gather(bad("a"), _chain(ctx, "b"), bad("c"), return_exceptions=True)
    await ctx.work("after")
    return [str(each) for each in outcomes]


@program
async def generators(ctx: Any, input: Any) -> Any:
    async def numbers() -> AsyncIterator[Any]:
        for number in range(3):
            yield await ctx.work(f"g{number}")

    @asynccontextmanager
    async def around() -> AsyncIterator[None]:
        await ctx.work("enter")
        try:
            yield
        finally:
            await ctx.work("exit")

    seen = []
    async with around():
        async for each in numbers():
            seen.append(each)
    left_open = numbers()
    seen.append(await anext(left_open))
    await ctx.work("beside-an-open-one")
    return seen


@program
async def equal_due_times(ctx: Any, input: Any) -> Any:
    seen = []

    async def sleeper(number: int) -> None:
        await asyncio.sleep(1)
        seen.append(number)

    await asyncio.gather(*(sleeper(number) for number in range(5)))
    return seen


@program
async def failing_steps(ctx: Any, input: Any) -> Any:
    outcomes = await asyncio.gather(*(ctx.fail(f"f{number}") for number in range(3)), return_exceptions=True)
    return [str(each) for each in outcomes]


@program
async def waits(ctx: Any, input: Any) -> Any:
    first = asyncio.create_task(ctx.step.sleep("nap", "2s"))
    try:
        async with asyncio.timeout(3):
            await ctx.step.wait_for_event("never")
    except TimeoutError:
        await first
    timed_out = await ctx.step.wait_for_event("never", timeout="1500ms")
    return [timed_out, asyncio.get_running_loop().time() > 0]


@program
async def looks_at_the_clock(ctx: Any, input: Any) -> Any:
    loop = asyncio.get_running_loop()
    times = [loop.time()]
    for number in range(3):
        await ctx.work(f"t{number}")
        times.append(loop.time())
    await asyncio.sleep(0.25)
    return [*times, loop.time(), ctx.now().isoformat(), ctx.random(), str(ctx.uuid4())]

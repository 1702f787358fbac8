"""Workflow functions whose logs version 0.1.0 has recorded, before functions had event loops of their own.

Never change one: the recorded runs need them as they are. Each waits for the signal `go` somewhere, where it was left.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

Function = Callable[[Any, Any], Awaitable[Any]]

ONCE = {"attempts": 1}


async def same(value: Any) -> Any:
    """A step that is done at once."""
    return value


async def slow(value: Any) -> Any:
    """A step that takes longer than the timeouts around it."""
    await asyncio.sleep(30)
    return value


async def fails(value: Any) -> Any:
    """A step that fails for good."""
    raise ValueError(value)


async def line(ctx: Any, input: Any) -> Any:
    first = await ctx.step.run("first", same, 1)
    await ctx.step.sleep("nap", "20ms")
    went = await ctx.step.wait_for_event("go")
    return [first, went, await ctx.step.run("last", same, 2)]


async def gathered(ctx: Any, input: Any) -> Any:
    async def branch(name: str) -> Any:
        return [await ctx.step.run(f"{name}-1", same, name), await ctx.step.run("shared", same, name)]

    done = await asyncio.gather(*(branch(name) for name in "abc"))
    return [done, await ctx.step.wait_for_event("go")]


async def waits_in_branches(ctx: Any, input: Any) -> Any:
    return await asyncio.gather(
        ctx.step.wait_for_event("go"), ctx.step.sleep("nap", "30ms"), ctx.step.run("work", same, "done")
    )


async def group(ctx: Any, input: Any) -> Any:
    async with asyncio.TaskGroup() as tasks:
        work = [tasks.create_task(ctx.step.run(f"work-{number}", same, number)) for number in range(3)]
        went = tasks.create_task(ctx.step.wait_for_event("go"))
    return [[task.result() for task in work], went.result()]


async def timed_out_step(ctx: Any, input: Any) -> Any:
    try:
        await asyncio.wait_for(ctx.step.run("slow", slow, 1), 0.05)
    except TimeoutError:
        await ctx.step.run("instead", same, 1)
    return [await ctx.step.wait_for_event("go"), await ctx.step.run("last", same, 2)]


async def real_pause(ctx: Any, input: Any) -> Any:
    await ctx.step.run("first", same, 1)
    await asyncio.sleep(0.05)
    await ctx.step.run("second", same, 2)
    return await ctx.step.wait_for_event("go")


async def timeout_around(ctx: Any, input: Any) -> Any:
    async with asyncio.timeout(60):
        first = await ctx.step.run("first", same, 1)
    return [first, await ctx.step.wait_for_event("go")]


async def gives_up_a_wait(ctx: Any, input: Any) -> Any:
    waiter = asyncio.create_task(ctx.step.wait_for_event("stop"))
    await ctx.step.run("first", same, 1)
    await ctx.step.sleep("nap", "20ms")
    waiter.cancel()
    (gone,) = await asyncio.gather(waiter, return_exceptions=True)
    return [type(gone).__name__, await ctx.step.wait_for_event("go")]


async def timed_out_wait(ctx: Any, input: Any) -> Any:
    try:
        async with asyncio.timeout(0.05):
            await asyncio.gather(ctx.step.wait_for_event("stop"), asyncio.sleep(1))
    except TimeoutError:
        await ctx.step.run("instead", same, 1)
    return await ctx.step.wait_for_event("go")


async def catches(ctx: Any, input: Any) -> Any:
    outcomes = await asyncio.gather(
        ctx.step.run("bad", fails, "no", retry=ONCE), ctx.step.run("good", same, 1), return_exceptions=True
    )
    return [*map(str, outcomes), await ctx.step.wait_for_event("go")]


async def first_of_two(ctx: Any, input: Any) -> Any:
    tasks = [asyncio.create_task(ctx.step.run(name, same, name)) for name in ("one", "two")]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    rest = await asyncio.gather(*tasks)
    return [rest, await ctx.step.wait_for_event("go")]


async def locked(ctx: Any, input: Any) -> Any:
    lock, order = asyncio.Lock(), []

    async def worker(number: int) -> None:
        async with lock:
            order.append(await ctx.step.run(f"work-{number}", same, number))

    await asyncio.gather(*(worker(number) for number in range(3)))
    return [order, await ctx.step.wait_for_event("go")]


async def counts(ctx: Any, input: Any) -> Any:
    total = 0
    for number in range(12):
        total += await ctx.step.run("add", same, number)
    return [total, ctx.random(), str(ctx.uuid4()), await ctx.step.wait_for_event("go")]


PROGRAMS: dict[str, Function] = {
    each.__name__: each
    for each in (
        line, gathered, waits_in_branches, group, timed_out_step, real_pause, timeout_around, gives_up_a_wait,
        timed_out_wait, catches, first_of_two, locked, counts,
    )
}  # fmt: skip

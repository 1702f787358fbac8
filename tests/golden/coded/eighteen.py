"""The eighteen programs that use all of asyncio, as version 0.1.0 ran them: with real steps, and the signal `go` at the end.

Their input is a seed: how long each step takes is drawn by it. Never change one: the recorded runs need them as they are.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

Function = Callable[[Any, Any], Awaitable[Any]]

SEEDS = (1, 2, 3)
ONCE = {"attempts": 1}

REACHED: dict[str, Any] = {}
"""By run: what its function had found out when it first came to where it waits for `go`."""

PROGRAMS: dict[str, Function] = {}


def program(function: Function) -> Function:
    """Enter it in the list, with the signal at its end."""

    async def with_signal(ctx: Any, input: Any) -> Any:
        found = await function(Steps(ctx, input), input)
        REACHED.setdefault(ctx.run_id, found)
        return [found, await ctx.step.wait_for_event("go")]

    PROGRAMS[function.__name__] = with_signal
    return function


async def takes(ms: float, value: Any) -> Any:
    """A step of a certain length."""
    await asyncio.sleep(ms / 1000)
    return value


async def fails(ms: float, value: Any) -> Any:
    """A step of a certain length, which fails."""
    await asyncio.sleep(ms / 1000)
    raise ValueError(value)


class Steps:
    """`ctx` with two short verbs."""

    def __init__(self, ctx: Any, seed: Any) -> None:
        self.ctx, self.step = ctx, ctx.step
        self._seed, self._made = seed, dict[str, int]()

    def _takes(self, name: str) -> tuple[int, str]:
        self._made[name] = self._made.get(name, 0) + 1
        key = f"{name} {self._made[name]}"
        return random.Random(f"{self._seed} {key}").choice((6, 10, 20, 20, 40, 80)), key

    async def work(self, name: str) -> Any:
        """A step that returns its name and which of this name it is."""
        return await self.step.run(name, takes, *self._takes(name))

    async def fail(self, name: str) -> Any:
        """A step that fails."""
        return await self.step.run(name, fails, *self._takes(name), retry=ONCE)


async def _chain(ctx: Steps, name: str) -> list[Any]:
    return [await ctx.work(name), await ctx.work(f"{name}-then")]


@program
async def gathers(ctx: Steps, input: Any) -> Any:
    return await asyncio.gather(*(_chain(ctx, name) for name in "abcd"))


@program
async def group(ctx: Steps, input: Any) -> Any:
    async with asyncio.TaskGroup() as tasks:
        begun = [tasks.create_task(_chain(ctx, name)) for name in "abc"]
        await ctx.work("inside")
    return [task.result() for task in begun]


@program
async def failing_group(ctx: Steps, input: Any) -> Any:
    seen: list[str] = []

    async def waits(name: str) -> None:
        try:
            await ctx.step.wait_for_event("never")
        finally:
            seen.append(name)

    async def fails() -> None:
        await ctx.work("x")
        raise ValueError("no")

    try:
        async with asyncio.TaskGroup() as tasks:
            for number in range(8):
                tasks.create_task(waits(f"s{number}"))
            tasks.create_task(fails())
    except* ValueError:
        seen.append("caught")
    await ctx.work("after")
    return sorted(seen)


@program
async def timeouts(ctx: Steps, input: Any) -> Any:
    seen: list[Any] = []
    try:
        async with asyncio.timeout(0.05):
            await ctx.step.run("slow", takes, 10_000, "slow")
    except TimeoutError:
        seen.append("late")
    try:
        seen.append(await asyncio.wait_for(ctx.step.run("slow-too", takes, 10_000, "slow"), 0.05))
    except TimeoutError:
        seen.append("late too")
    async with asyncio.timeout(500), asyncio.timeout(900):
        seen.append(await ctx.work("ok"))
    await asyncio.sleep(0.02)
    await asyncio.sleep(0)
    seen.append(await ctx.work("after"))
    return seen


@program
async def semaphore(ctx: Steps, input: Any) -> Any:
    room, order = asyncio.Semaphore(2), []

    async def worker(number: int) -> None:
        async with room:
            order.append(number)
            await ctx.work(f"s{number}")

    await asyncio.gather(*(worker(number) for number in range(6)))
    return order


@program
async def lock_and_condition(ctx: Steps, input: Any) -> Any:
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
    return sorted(map(str, seen))


@program
async def barrier(ctx: Steps, input: Any) -> Any:
    gate, seen = asyncio.Barrier(3), []

    async def worker(number: int) -> None:
        await ctx.work(f"b{number}")
        await gate.wait()
        seen.append(number)

    await asyncio.gather(*(worker(number) for number in range(3)))
    return sorted(seen)


@program
async def queue(ctx: Steps, input: Any) -> Any:
    jobs: asyncio.Queue[int] = asyncio.Queue(2)
    seen: list[Any] = []

    async def worker() -> None:
        while True:
            job = await jobs.get()
            seen.append(await ctx.work(f"q{job}"))
            jobs.task_done()

    workers = [asyncio.create_task(worker()) for _ in range(3)]
    for job in range(8):
        await jobs.put(job)
    await jobs.join()
    for task in workers:
        task.cancel()
    await asyncio.gather(*workers, return_exceptions=True)
    return sorted(seen)


@program
async def shield(ctx: Steps, input: Any) -> Any:
    inner = asyncio.create_task(ctx.step.run("longer-than-any", takes, 300, "i"))
    try:
        async with asyncio.timeout(0.02):
            await asyncio.shield(inner)
    except TimeoutError:
        await ctx.work("timed")
    return await inner


@program
async def tasks_as_completed(ctx: Steps, input: Any) -> Any:
    seen = []
    for each in asyncio.as_completed([asyncio.create_task(_chain(ctx, name)) for name in "abcdef"]):
        seen.append(await each)
        await ctx.step.run("next", takes, 1, "next")
    return sorted(seen)


@program
async def wait_over_sets(ctx: Steps, input: Any) -> Any:
    open_ones = {asyncio.create_task(_chain(ctx, f"w{number}"), name=f"w{number}") for number in range(6)}
    seen = []
    while open_ones:
        done, open_ones = await asyncio.wait(open_ones, return_when="FIRST_COMPLETED")
        for task in done:
            seen.append(task.get_name())
            await ctx.step.run("seen", takes, 1, "seen")
    return sorted(seen)


@program
async def cleanup_after_cancel(ctx: Steps, input: Any) -> Any:
    async def worker() -> None:
        try:
            await ctx.step.wait_for_event("never")
        except asyncio.CancelledError:
            await ctx.work("cleanup")
            raise
        finally:
            await ctx.work("finally")

    task = asyncio.create_task(worker())
    await ctx.work("a")
    task.cancel()
    (outcome,) = await asyncio.gather(task, return_exceptions=True)
    return type(outcome).__name__


@program
async def gathered_exceptions(ctx: Steps, input: Any) -> Any:
    async def bad(name: str) -> None:
        await ctx.work(name)
        raise ValueError(name)

    outcomes = await asyncio.gather(bad("a"), _chain(ctx, "b"), bad("c"), return_exceptions=True)
    await ctx.work("after")
    return [str(each) for each in outcomes]


@program
async def generators(ctx: Steps, input: Any) -> Any:
    async def numbers() -> AsyncGenerator[Any, None]:
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
    await left_open.aclose()
    return seen


@program
async def equal_due_times(ctx: Steps, input: Any) -> Any:
    async def sleeper(number: int) -> Any:
        await asyncio.sleep(0.03)
        return await ctx.work(f"slept-{number}")

    return await asyncio.gather(*(sleeper(number) for number in range(5)))


@program
async def failing_steps(ctx: Steps, input: Any) -> Any:
    outcomes = await asyncio.gather(*(ctx.fail(f"f{number}") for number in range(3)), return_exceptions=True)
    return [str(each) for each in outcomes]


@program
async def waits(ctx: Steps, input: Any) -> Any:
    first = asyncio.create_task(ctx.step.sleep("nap", "30ms"))
    timed_out = await ctx.step.wait_for_event("never", timeout="40ms")
    await first
    return [timed_out, await ctx.work("after")]


@program
async def looks_at_the_clock(ctx: Steps, input: Any) -> Any:
    times = []
    for number in range(3):
        await ctx.work(f"t{number}")
        times.append(ctx.ctx.now().isoformat())
    return [times, ctx.ctx.random(), str(ctx.ctx.uuid4())]

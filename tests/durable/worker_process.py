"""A worker as a process of its own, to be killed: `python -m tests.durable.worker_process URL DIRECTORY LEASE`.

Its steps write each of their calls to the file `ledger` in the directory. With a further argument `again` it forks a
worker for each line that it reads, and prints how that one ended: importing everything once saves most of the time.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from asyncio import gather
from pathlib import Path
from typing import Any

from anabranch import Worker, workflow

STEPS = 8
BRANCHES = 5
QUICK_BRANCHES = 3

directory = Path(sys.argv[2]) if __name__ == "__main__" else Path()


def note(line: str) -> int:
    """Write a call down before anything else happens; how often it is there now."""
    with (directory / "ledger").open("a") as ledger:
        ledger.write(f"{line}\n")
        ledger.flush()
        os.fsync(ledger.fileno())
    return (directory / "ledger").read_text().splitlines().count(line)


@workflow(name="dies-at-every-step")
async def dies_at_every_step(ctx: Any, input: Any) -> Any:
    """Each step kills its worker the first time that it is called."""

    async def step(number: int) -> int:
        if note(f"step {number}") == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return number

    return sum([await ctx.step.run(f"step-{number}", step, number) for number in range(STEPS)])


@workflow(name="dies-in-a-gather")
async def dies_in_a_gather(ctx: Any, input: Any) -> Any:
    """The last branches hang until the file `release` is there."""

    async def branch(number: int) -> int:
        note(f"branch {number}")
        if number >= QUICK_BRANCHES and not (directory / "release").exists():
            await asyncio.Event().wait()
        return number

    return await asyncio.gather(*(ctx.step.run(f"branch-{number}", branch, number) for number in range(BRANCHES)))


@workflow(name="interrupted")
async def interrupted(ctx: Any, input: Any) -> Any:
    """The first call of the part that `input` names is where Ctrl-C meets it."""

    async def here(part: str) -> str:
        if input == part and note(part) == 1:
            raise KeyboardInterrupt
        return part

    def in_thread() -> str:
        if input == "thread" and note("thread") == 1:
            raise KeyboardInterrupt
        return "thread"

    await here("function")
    both = [ctx.step.run("branch", here, "branch"), ctx.step.run("beside", here, "beside")]
    return [await ctx.step.run("step", here, "step"), await ctx.step.run("thread", in_thread), *await gather(*both)]


async def main() -> None:
    """Work until killed."""
    known = [dies_at_every_step, dies_in_a_gather, interrupted]
    async with Worker(sys.argv[1], workflows=known, lease=sys.argv[3]):
        await asyncio.Event().wait()


def again() -> None:
    """One worker after the other, each as long as it lives."""
    for _ in sys.stdin:
        pid = os.fork()
        if pid == 0:
            asyncio.run(main())
            os._exit(0)
        _, status = os.waitpid(pid, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    if sys.argv[4:] == ["again"]:
        again()
    else:
        asyncio.run(main())

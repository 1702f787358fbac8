"""A worker as a process of its own, to be killed: `python -m tests.durable.worker_process URL DIRECTORY LEASE`.

Its steps write each of their calls to the file `ledger` in the directory.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

from anabranch import Worker, workflow

STEPS = 20
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


async def main() -> None:
    """Work until killed."""
    async with Worker(sys.argv[1], workflows=[dies_at_every_step, dies_in_a_gather], lease=sys.argv[3]):
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())

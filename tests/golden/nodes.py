"""The node types and coded workflows of the golden runs. Recorded versions know them as they stand: never change one.

A new case gets a new node type or function. `GOLDEN_DIR` names a folder; what has to hang while a recording is made
hangs until the file `release` is there.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

from anabranch import HandlerResult, NonRetryable, StepError, node_type, workflow

POLL_S = 0.02

KEPT = "1800d"
"""Long enough that no sweep removes a recorded run."""


async def released() -> None:
    """Return once the recording is over."""
    release = Path(os.environ["GOLDEN_DIR"]) / "release"
    while not release.exists():
        await asyncio.sleep(POLL_S)


@node_type("goldenEcho")
class Echo:
    """Returns its config."""

    async def execute(self, config: Any, context: Any, helpers: Any) -> HandlerResult:
        return HandlerResult(config.get("value"))


@node_type("goldenFails")
class Fails:
    """Fails its first `times` attempts, or for good."""

    async def execute(self, config: Any, context: Any, helpers: Any) -> HandlerResult:
        if helpers.attempt <= config.get("times", 1):
            if config.get("final"):
                raise NonRetryable("for good")
            raise RuntimeError("not today")
        return HandlerResult({"attempt": helpers.attempt})


@node_type("goldenGate", timeout=None)
class Gate:
    """Hangs until the recording is over."""

    async def execute(self, config: Any, context: Any, helpers: Any) -> HandlerResult:
        await released()
        return HandlerResult({"attempt": helpers.attempt, "value": config.get("value")})


@node_type("goldenWays", handles=("left", "right"))
class Ways:
    """Leaves by the handle that its config names."""

    async def execute(self, config: Any, context: Any, helpers: Any) -> HandlerResult:
        return HandlerResult({"went": config["way"]}, next_handle=config["way"])


async def echo(value: Any = None) -> Any:
    """A step that returns what it is given."""
    return value


def plain(value: Any) -> Any:
    """The same as a plain function."""
    return value


async def gate(value: Any = None) -> Any:
    """A step that hangs until the recording is over."""
    await released()
    return value


async def fails(value: Any = None) -> Any:
    """A step that always fails."""
    raise ValueError(f"no {value}")


async def refuses(value: Any = None) -> Any:
    """A step that fails for good at once."""
    raise NonRetryable(f"never {value}")


class Flaky:
    """Fails as often as it is told, counted in the folder of the recording; never again once that is over."""

    def __init__(self, run_id: str, name: str, times: int) -> None:
        self._file = Path(os.environ["GOLDEN_DIR"]) / f"{run_id}-{name}"
        self._times = times

    async def __call__(self) -> int:
        if (self._file.parent / "release").exists():
            return 7
        tried = len(self._file.read_text()) if self._file.exists() else 0
        self._file.write_text("x" * (tried + 1))
        if tried < self._times:
            raise RuntimeError(f"try {tried + 1}")
        return 7


_SOON = {"attempts": 4, "backoff": {"kind": "fixed", "base": "20ms"}}
_LATER = {"attempts": 2, "backoff": {"kind": "fixed", "base": "60s"}}


@workflow(name="golden-steps", retention=KEPT)
async def steps(ctx: Any, input: Any) -> Any:
    """Steps one after the other, async and plain, the same name twice."""
    first = await ctx.step.run("one", echo, input)
    second = await ctx.step.run("one", echo, {"second": True})
    third = await ctx.step.run("two", plain, [first, second])
    return {"third": third, "now": ctx.now().year >= 2026, "die": ctx.random() < 1, "id": str(ctx.uuid4()) != ""}


@workflow(name="golden-retries", retention=KEPT)
async def retries(ctx: Any, input: Any) -> Any:
    """A step that fails twice, and one whose failure is caught."""
    value = await ctx.step.run("flaky", Flaky(ctx.run_id, "flaky", 2), retry=_SOON)
    try:
        await ctx.step.run("bad", refuses, "way")
    except StepError as error:
        return {"value": value, "caught": error.message, "code": error.code}
    return None


@workflow(name="golden-step-fails", retention=KEPT)
async def step_fails(ctx: Any, input: Any) -> Any:
    """Ends FAILED by a step."""
    await ctx.step.run("good", echo, 1)
    await ctx.step.run("bad", fails, "luck", retry={"attempts": 2, "backoff": {"kind": "fixed", "base": 1}})


@workflow(name="golden-body-fails", retention=KEPT)
async def body_fails(ctx: Any, input: Any) -> Any:
    """Ends FAILED by an error of its own."""
    await ctx.step.run("good", echo, 1)
    raise KeyError("of its own")


@workflow(name="golden-tries-again", retention=KEPT, retry={"attempts": 3, "backoff": {"kind": "fixed", "base": 20}})
async def tries_again(ctx: Any, input: Any) -> Any:
    """The workflow's own retry: its second attempt replays what completed and runs what failed again."""
    kept = await ctx.step.run("kept", echo, {"kept": 1})
    value = await ctx.step.run("flaky", Flaky(ctx.run_id, "again", 1), retry={"attempts": 1})
    await ctx.step.run("last", echo, value)
    return {"kept": kept, "attempt": ctx.attempt}


@workflow(name="golden-retry-later", retention=KEPT)
async def retry_later(ctx: Any, input: Any) -> Any:
    """Recorded while the second attempt of a step is not due yet."""
    await ctx.step.run("before", echo, 1)
    return await ctx.step.run("flaky", Flaky(ctx.run_id, "later", 1), retry=_LATER)


@workflow(name="golden-workflow-retry-later", retention=KEPT, retry=_LATER)
async def workflow_retry_later(ctx: Any, input: Any) -> Any:
    """Recorded while its second attempt is not due yet."""
    await ctx.step.run("before", echo, 1)
    return await ctx.step.run("flaky", Flaky(ctx.run_id, "whole", 1), retry={"attempts": 1})


@workflow(name="golden-sleep", retention=KEPT)
async def sleep(ctx: Any, input: Any) -> Any:
    """A short sleep, then one that is open when the recording ends."""
    await ctx.step.sleep("short", 20)
    await ctx.step.run("between", echo, 1)
    await ctx.step.sleep("long", input["long"])
    return "slept"


@workflow(name="golden-wait", retention=KEPT)
async def wait(ctx: Any, input: Any) -> Any:
    """Waits for signals: with a match, with a timeout that passes, without either."""
    first = await ctx.step.wait_for_event("paid", match={"order": 7}, timeout="1h")
    second = await ctx.step.wait_for_event("never", timeout=20)
    third = await ctx.step.wait_for_event("shipped")
    return [first, second, third]


@workflow(name="golden-gather", retention=KEPT)
async def gather(ctx: Any, input: Any) -> Any:
    """Branches: three quick ones, two that hang."""

    async def branch(number: int) -> Any:
        await ctx.step.run("quick", echo, number)
        return await ctx.step.run(f"slow-{number}", gate if number > 2 else echo, number)

    return await asyncio.gather(*(branch(number) for number in range(5)))


@workflow(name="golden-hangs", retention=KEPT)
async def hangs(ctx: Any, input: Any) -> Any:
    """Recorded in the middle of a step."""
    await ctx.step.run("before", echo, {"before": True})
    return await ctx.step.run("hangs", gate, {"hung": True})


@workflow(name="golden-timeout", retention=KEPT)
async def timeout(ctx: Any, input: Any) -> Any:
    """A step with a time limit, tried twice."""

    async def forever() -> None:
        await asyncio.Event().wait()

    try:
        await ctx.step.run("forever", forever, timeout=20, retry={"attempts": 2, "backoff": {"base": 1}})
    except StepError as error:
        return error.code


@workflow(name="golden-parent", retention=KEPT)
async def parent(ctx: Any, input: Any) -> Any:
    """Starts a child and waits for it; the child may hang or fail."""
    try:
        return {"child": await ctx.step.invoke("child", input["child"], input.get("input"))}
    except StepError as error:
        return {"failed": error.code}


@workflow(name="golden-signals", retention=KEPT)
async def signals(ctx: Any, input: Any) -> Any:
    """Sends a signal to itself, and takes it."""
    await ctx.step.signal(ctx.run_id, "self", {"n": 1})
    return await ctx.step.wait_for_event("self")


@workflow(name="golden-gives-up", retention=KEPT)
async def gives_up(ctx: Any, input: Any) -> Any:
    """Cancels the task that waits for a signal, then goes on."""
    task = asyncio.create_task(ctx.step.wait_for_event("given-up"))
    await ctx.step.run("one", echo, 1)
    task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        pass
    return await ctx.step.wait_for_event("goes-on")


@workflow(name="golden-loop", retention=KEPT)
async def loop(ctx: Any, input: Any) -> Any:
    """The same step name thirty times, with a sleep every ten."""
    total = 0
    for number in range(30):
        total += await ctx.step.run("add", echo, number)
        if number % 10 == 9:
            await ctx.step.sleep("pause", 5)
    return total


@workflow(name="golden-deadline", retention=KEPT, deadline="65s")
async def deadline(ctx: Any, input: Any) -> Any:
    """Waits longer than it may."""
    await ctx.step.run("one", echo, 1)
    await ctx.step.wait_for_event("never-comes")


CODED = (
    steps, retries, step_fails, body_fails, tries_again, retry_later, workflow_retry_later, sleep, wait, gather, hangs,
    timeout, parent, signals, gives_up, loop, deadline,
)  # fmt: skip

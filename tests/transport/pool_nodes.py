"""Node types of the tests of executors; imported by the worker and by the executor."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

from anabranch import HandlerResult, NonRetryable, StepError, node_type, workflow


def pool_step(greeting: str, *, times: int) -> dict[str, Any]:
    """The function of a step."""
    print(f"a line of a step, {greeting}")  # noqa: T201 -- a line of the run
    if times < 0:
        raise LookupError("times is negative")
    return {"pid": os.getpid(), "said": greeting * times}


@workflow(name="far-steps")
async def far_steps(ctx: Any, input: Any) -> Any:
    """Calls it in a pool."""
    said = await ctx.step.run("say", pool_step, input["greeting"], times=2, pool="tells")
    try:
        await ctx.step.run("fail", pool_step, "", times=-1, pool="tells", retry={"maxAttempts": 1})
    except StepError as error:
        return {**said, "error": [error.type, error.message], "here": os.getpid()}


@node_type("poolTells", pool="gpu")
class PoolTells:
    """Says who executes it, with which key, and what it got."""

    async def execute(self, config: Any, context: Any, helpers: Any) -> HandlerResult:
        helpers.log.info("a line from %s", config["greeting"])
        helpers.progress(1, 2, "half")
        told = {"pid": os.getpid(), "greeting": config["greeting"], "input": context["input"]}
        return HandlerResult({**told, "database": os.environ.get("ANABRANCH_DATABASE_URL")})


@node_type("poolFails", pool="gpu")
class PoolFails:
    """Fails for good."""

    async def execute(self, config: Any, context: Any, helpers: Any) -> HandlerResult:
        raise NonRetryable("out of memory", code="GPU_FULL")


@node_type("poolDies", pool="gpu", timeout=None)
class PoolDies:
    """Kills its process at the first call."""

    def execute(self, config: Any, context: Any, helpers: Any) -> HandlerResult:
        calls = Path(config["calls"])
        with calls.open("a") as file:
            file.write(f"{os.getpid()} {helpers.idempotency_key} {helpers.attempt}\n")
        if len(calls.read_text().splitlines()) == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return HandlerResult("survived")


@node_type("poolHolds", pool="gpu", timeout=None)
class PoolHolds:
    """Notes its calls, and ends when a file says so."""

    async def execute(self, config: Any, context: Any, helpers: Any) -> HandlerResult:
        folder = Path(config["folder"])
        await asyncio.to_thread((folder / f"call-{os.getpid()}").touch, exist_ok=False)
        while not await asyncio.to_thread((folder / "go").exists):  # noqa: ASYNC110 -- another process makes it
            await asyncio.sleep(0.02)
        return HandlerResult(os.getpid())


@node_type("poolWaits", pool="gpu", timeout=None)
class PoolWaits:
    """Waits until it is cancelled, and leaves a note then."""

    async def execute(self, config: Any, context: Any, helpers: Any) -> HandlerResult:
        await asyncio.to_thread(Path(config["begun"]).touch)
        try:
            await asyncio.Event().wait()
        finally:
            Path(config["cancelled"]).touch()  # noqa: ASYNC240 -- it may not wait any more
        return HandlerResult(None)


def pool_length(text: str) -> int:
    """The function of a step with a large argument."""
    return len(text)


@workflow(name="far-length")
async def far_length(ctx: Any, input: Any) -> Any:
    """Hands its input on to a pool."""
    return await ctx.step.run("measure", pool_length, input["text"], pool="served", retry={"maxAttempts": 1})

"""Coded workflows that the tests of this folder run. Not a test."""

from __future__ import annotations

from collections import Counter
from typing import Any

from opentelemetry import trace

from anabranch.durable.definition import Workflow

tries: Counter[str] = Counter()
"""Calls of the flaky step, by run."""

OPTIONS = {"retention": None, "retry": None, "deadline": None}
AT_ONCE = {"attempts": 3, "backoff": {"kind": "fixed", "base": "1ms"}}


def coded(name: str, function: Any) -> Workflow:
    """A coded workflow that no registry of the whole process knows."""
    return Workflow(name, 1, function, OPTIONS)


async def order_function(ctx: Any, input: Any) -> Any:
    """Two steps, a sleep and a wait for being paid."""
    price = await ctx.step.run("price", lambda: 7)
    await ctx.step.sleep("pause", "1ms")
    paid = await ctx.step.wait_for_event("paid")
    return await ctx.step.run("ship", lambda: [price, paid])


async def flaky_function(ctx: Any, input: Any) -> Any:
    """A step that fails as often as the input says, of three attempts."""

    def work() -> str:
        tries[ctx.run_id] += 1
        if tries[ctx.run_id] <= input["failures"]:
            raise ValueError("not yet, says the secret message")
        return "done"

    return await ctx.step.run("work", work, retry=AT_ONCE)


async def many_function(ctx: Any, input: Any) -> Any:
    """As many steps as the input says, each with a name of its own."""
    for number in range(input["steps"]):
        await ctx.step.run(f"step-{number}", lambda: None)


async def parent_function(ctx: Any, input: Any) -> Any:
    """Awaits a run of the drawn workflow `child`."""
    return await ctx.step.invoke("ask", "child")


async def tracing_function(ctx: Any, input: Any) -> Any:
    """The ids of the current span in an async step, in one that runs in a thread, and in the function beside them."""

    async def look() -> str:
        return current_span()

    return [await ctx.step.run("async", look), await ctx.step.run("thread", current_span), current_span()]


def current_span() -> str:
    """Trace and span id of OpenTelemetry's current span."""
    found = trace.get_current_span().get_span_context()
    return f"{found.trace_id:032x}/{found.span_id:016x}"


TRACING = coded("tracing", tracing_function)
ORDER = coded("order", order_function)
FLAKY = coded("flaky", flaky_function)
MANY = coded("many", many_function)
PARENT = coded("parent", parent_function)

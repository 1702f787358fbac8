"""Coded workflows as their authors write them, imported by the processes of `test_coded.py`. Not a test."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

from anabranch import workflow

GATE_POLL_S = 0.02


@workflow(name="order", version=1, retention="3d")
async def order_of_before(ctx: Any, input: Any) -> Any:
    """The version before: still there for runs that began with it."""
    return "the old way"


@workflow(name="order", version=2, retention="5d")
async def order(ctx: Any, input: Any) -> Any:
    """Asks for each item, for two prices beside each other, and waits to be paid."""
    items = [await ctx.step.run("fetch", fetch, number) for number in range(input["items"])]
    prices = await asyncio.gather(ctx.step.run("net", price, items), ctx.step.run("tax", price, items))
    paid = await ctx.step.wait_for_event("paid", match={"order": input["order"]}, timeout="1h")
    return {"items": items, "prices": prices, "by": paid["by"], "rows": [{"item": item} for item in items]}


@workflow(name="echo")
async def echo(ctx: Any, input: Any) -> Any:
    """One step that returns the input."""
    return {"got": await ctx.step.run("repeat", lambda: input)}


@workflow(name="held")
async def held(ctx: Any, input: Any) -> Any:
    """Its second step ends once the file `gate` is there; each call of a step is a line in `calls`."""
    for name in ("first", "held", "last"):
        await ctx.step.run(name, called, name)
    return "done"


async def fetch(number: int) -> str:
    return f"item-{number}"


def price(items: list[str]) -> int:
    return 100 * len(items)


async def called(name: str) -> str:
    note(name)
    while True:
        if name != "held" or is_open():
            return name
        await asyncio.sleep(GATE_POLL_S)


def note(name: str) -> None:
    with Path("calls").open("a") as calls:
        calls.write(f"{name} {os.getpid()}\n")


def is_open() -> bool:
    return Path("gate").exists()

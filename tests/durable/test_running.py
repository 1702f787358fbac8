"""What the function of a coded workflow may rely on."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from typing import Any

from anabranch.durable.definition import workflow
from tests.durable.conftest import MakeProcess

calls: list[str] = []
executing: list[int] = []

# 30 runs on 2 slots: most of them wait for commits, or for their turn.
RUNS = 30
SLOTS = 2


def double(n: int) -> int:
    calls.append(f"double {n}")
    return 2 * n


async def add(a: int, b: int) -> int:
    calls.append(f"add {a} {b}")
    return a + b


@workflow(name="arithmetic")
async def arithmetic(ctx: Any, input: Any) -> Any:
    doubled = await ctx.step.run("double", double, input["n"])
    return {"sum": await ctx.step.run("add", add, doubled, b=1)}


@workflow(name="naps")
async def naps(ctx: Any, input: Any) -> Any:
    first = await ctx.step.run("first", double, 1)
    await ctx.step.sleep("nap", "1500ms")
    return first + await ctx.step.run("second", double, 2)


async def crowded(number: int) -> int:
    """Note how many steps execute, for as long as the others may find out."""
    executing.append(executing[-1] + 1)
    for _ in range(5):
        await asyncio.sleep(0)
    executing.append(executing[-1] - 1)
    return number


@workflow(name="crowd")
async def crowd(ctx: Any, input: Any) -> Any:
    return [await ctx.step.run(f"step-{number}", crowded, number) for number in range(5)]


async def test_as_many_steps_execute_at_once_as_there_are_slots_and_no_more(make_process: MakeProcess) -> None:
    executing[:] = [0]
    process = await make_process(crowd, concurrency=SLOTS)

    run_ids = [await process.start("crowd") for _ in range(RUNS)]
    runs = [await process.ended(run_id) for run_id in run_ids]

    assert [run["output"] for run in runs] == [[0, 1, 2, 3, 4]] * RUNS
    assert max(executing) == SLOTS
    assert len(executing) == 1 + 2 * 5 * RUNS


author: ContextVar[str] = ContextVar("author", default="nobody")


async def whose() -> str:
    return author.get()


@workflow(name="signs")
async def signs(ctx: Any, input: Any) -> Any:
    found = author.get()
    author.set(ctx.run_id)
    return [found, *[await ctx.step.run("own", whose) == ctx.run_id for _ in range(5)]]


async def test_what_a_function_sets_in_its_context_is_seen_by_its_steps_and_by_no_other_function(
    make_process: MakeProcess,
) -> None:
    process = await make_process(signs, concurrency=SLOTS)

    run_ids = [await process.start("signs") for _ in range(RUNS)]
    runs = [await process.ended(run_id) for run_id in run_ids]

    assert [run["output"] for run in runs] == [["nobody"] + [True] * 5] * RUNS


async def test_steps_are_called_in_turn_and_their_results_are_the_runs(make_process: MakeProcess) -> None:
    calls.clear()
    process = await make_process(arithmetic)
    run_id = await process.start("arithmetic", {"n": 20})

    run = await process.ended(run_id)

    assert run["output"] == {"sum": 41}, run
    assert calls == ["double 20", "add 40 1"]
    assert await process.rows(run_id) == [
        ("INPUT_SET", "", "", 0),
        ("NODE_DISPATCHED", "", "", 1),
        ("NODE_COMPLETED", "double", "", 1),
        ("NODE_COMPLETED", "add", "", 1),
        ("INSTANCE_COMPLETED", "", "", 0),
    ]


async def test_a_sleep_frees_the_worker_and_what_was_done_is_not_done_again(make_process: MakeProcess) -> None:
    calls.clear()
    process = await make_process(naps)
    run_id = await process.start("naps")

    await process.waiting(run_id)
    run = await process.ended(run_id)

    assert run["output"] == 6
    assert calls == ["double 1", "double 2"]
    assert await process.rows(run_id) == [
        ("INPUT_SET", "", "", 0),
        ("NODE_DISPATCHED", "", "", 1),
        ("NODE_COMPLETED", "first", "", 1),
        ("NODE_WAITING", "nap", "", 1),
        ("NODE_WAITING", "", "", 1),
        ("NODE_COMPLETED", "nap", "", 1),
        ("NODE_COMPLETED", "second", "", 1),
        ("INSTANCE_COMPLETED", "", "", 0),
    ]

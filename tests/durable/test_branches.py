"""Functions that do several things at once."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from anabranch.durable.definition import Workflow, workflow
from anabranch.durable.step_error import StepError
from anabranch.errors import NonRetryable
from tests.durable.conftest import MakeProcess, Process

calls: Counter[str] = Counter()


@pytest.fixture(autouse=True)
def nothing_yet() -> None:
    calls.clear()


async def count(name: str) -> str:
    calls[name] += 1
    return name


@workflow(name="gathers")
async def gathers(ctx: Any, input: Any) -> Any:
    async def branch(letter: str) -> str:
        first = await ctx.step.run(f"{letter}1", count, f"{letter}1")
        await ctx.step.sleep(f"{letter}-nap", "1200ms")
        return first + str(await ctx.step.run(f"{letter}2", count, f"{letter}2"))

    return await asyncio.gather(branch("a"), branch("b"), ctx.step.run("c", count, "c"))


async def test_gathered_branches_are_suspended_together_and_go_on(make_process: MakeProcess) -> None:
    process = await make_process(gathers)
    run_id = await process.start("gathers")

    await process.waiting(run_id)
    run = await process.ended(run_id)

    assert run["output"] == ["a1a2", "b1b2", "c"]
    assert set(calls.values()) == {1}, calls


@workflow(name="keeps-going")
async def keeps_going(ctx: Any, input: Any) -> Any:
    async def outside() -> str:
        await asyncio.sleep(0.3)
        return "outside"

    return await asyncio.gather(ctx.step.sleep("nap", "1100ms"), outside())


async def test_what_is_awaited_outside_of_steps_keeps_the_function_going(make_process: MakeProcess) -> None:
    process = await make_process(keeps_going)
    run = await process.ended(await process.start("keeps-going"))

    assert run["output"] == [None, "outside"]


async def fail() -> None:
    raise ValueError("no")


def _shape(kind: str) -> Any:
    async def function(ctx: Any, input: Any) -> Any:
        nap, work = ctx.step.sleep("nap", "1200ms"), ctx.step.run("work", count, "work")
        if kind == "task group":
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(nap), group.create_task(work)]
            results = [task.result() for task in tasks]
        elif kind == "exceptions returned":
            bad = ctx.step.run("bad", fail, retry={"attempts": 1})
            results = await asyncio.gather(nap, work, bad, return_exceptions=True)
            assert isinstance(results.pop(), StepError)
        elif kind == "wait":
            tasks = [asyncio.create_task(nap), asyncio.create_task(work)]
            await asyncio.wait(tasks)
            results = [task.result() for task in tasks]
        elif kind == "tasks":
            tasks = [asyncio.create_task(nap), asyncio.create_task(work)]
            results = [await task for task in tasks]
        else:
            results = [await asyncio.wait_for(nap, 30), await asyncio.wait_for(work, 30)]
        return [*results, await ctx.step.run("after", count, "after")]

    return workflow(name=kind.replace(" ", "-").replace("_", "-"))(function)


SHAPES = ("task group", "exceptions returned", "wait", "tasks", "wait_for")


@pytest.mark.parametrize("kind", SHAPES)
async def test_the_ways_of_asyncio_to_wait_hold_across_a_suspension(make_process: MakeProcess, kind: str) -> None:
    shaped = _shape(kind)
    process = await make_process(shaped)
    run_id = await process.start(shaped.name)
    if kind != "wait_for":  # which has a clock of its own running
        await process.waiting(run_id)

    run = await process.ended(run_id)

    assert run["output"] == [None, "work", "after"], run
    assert calls == {"work": 1, "after": 1}


@workflow(name="gives-up-waiting")
async def gives_up_waiting(ctx: Any, input: Any) -> Any:
    try:
        await asyncio.wait_for(ctx.step.run("slow", asyncio.Event().wait), 0.05)
    except TimeoutError:
        return await ctx.step.run("instead", count, "instead")


async def test_a_step_that_is_not_waited_for_any_more_is_stopped(make_process: MakeProcess) -> None:
    process = await make_process(gives_up_waiting)
    run = await process.ended(await process.start("gives-up-waiting"))

    assert run["output"] == "instead"


@workflow(name="fans-out")
async def fans_out(ctx: Any, input: Any) -> Any:
    async def item(number: int) -> int:
        calls["item"] += 1
        return number

    return sum(await asyncio.gather(*(ctx.step.run("item", item, number) for number in range(input))))


async def test_a_fan_out_of_one_name_keeps_each_result(make_process: MakeProcess) -> None:
    process = await make_process(fans_out)
    run = await process.ended(await process.start("fans-out", 300))

    assert (run["output"], calls["item"]) == (sum(range(300)), 300)


@workflow(name="one-of-both-fails")
async def one_of_both_fails(ctx: Any, input: Any) -> Any:
    chained = asyncio.Event()

    async def slow() -> None:
        await chained.wait()
        raise ValueError("slow")

    async def chain() -> None:
        for number in range(3):
            await ctx.step.run("link", count, f"link {number}")
        chained.set()

    try:
        await asyncio.gather(ctx.step.run("slow", slow, retry={"attempts": 1}), chain())
    except StepError:
        await ctx.step.sleep("cool-down", "1100ms")
        return await ctx.step.run("cleaned", count, "cleaned")


async def test_branches_meet_on_replay_as_they_met_first(make_process: MakeProcess) -> None:
    process: Process = await make_process(one_of_both_fails)
    run = await process.ended(await process.start("one-of-both-fails"))

    assert run["output"] == "cleaned", run
    assert calls == {"link 0": 1, "link 1": 1, "link 2": 1, "cleaned": 1}


@workflow(name="races")
async def races(ctx: Any, input: Any) -> Any:
    """The slower one is asked for first."""
    begun = asyncio.Event()

    async def slow() -> str:
        await begun.wait()
        return "a-slow"

    async def fast() -> str:
        return "b-fast"

    names = {asyncio.create_task(ctx.step.run(function.__name__, function)): function for function in (slow, fast)}
    done, _ = await asyncio.wait(names, return_when=asyncio.FIRST_COMPLETED)
    winner = min(task.result() for task in done)
    begun.set()
    await asyncio.wait(names)
    await ctx.step.run(f"won-{winner}", count, winner)
    await ctx.step.sleep("nap", "1100ms")
    return winner


async def test_a_race_has_the_same_winner_on_replay(make_process: MakeProcess) -> None:
    process = await make_process(races)
    run = await process.ended(await process.start("races"))

    assert (run["output"], calls) == ("b-fast", {"b-fast": 1})


@workflow(name="ties")
async def ties(ctx: Any, input: Any) -> Any:
    """Both end in one commit, or nearly so."""
    tasks = [asyncio.create_task(ctx.step.run(name, count, name)) for name in ("one", "two")]
    done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    first = sorted(task.result() for task in done)
    await asyncio.wait(tasks)
    await ctx.step.run(f"first-{'-'.join(first)}", count, "first")
    await ctx.step.sleep("nap", "1100ms")
    return first


async def test_answers_that_were_committed_together_come_one_after_the_other(make_process: MakeProcess) -> None:
    process = await make_process(ties)
    run = await process.ended(await process.start("ties"))

    assert len(run["output"]) == 1, "as on replay, where nobody knows any more what was committed together"


async def refuses() -> None:
    raise NonRetryable("refused")


@workflow(name="fails-beside-a-sleep")
async def fails_beside_a_sleep(ctx: Any, input: Any) -> Any:
    kind, where = input
    branches = [ctx.step.sleep("nap", "1h"), ctx.step.run("refuses", refuses) if where == "step" else refuses()]
    if kind == "gather":
        await asyncio.gather(*branches)
    elif kind == "group":
        async with asyncio.TaskGroup() as group:
            for branch in branches:
                group.create_task(branch)
    else:
        done, _ = await asyncio.wait(map(asyncio.create_task, branches), return_when=asyncio.FIRST_EXCEPTION)
        await next(iter(done))


@pytest.mark.parametrize("where", ["step", "branch"])
@pytest.mark.parametrize("kind", ["gather", "group", "wait"])
async def test_a_branch_that_fails_beside_a_sleep_fails_the_function(
    make_process: MakeProcess, kind: str, where: str
) -> None:
    """The failure takes a round of the event loop to reach who awaits the branches; nothing may be decided before."""
    process = await make_process(fails_beside_a_sleep)
    run = await process.ended(await process.start("fails-beside-a-sleep", [kind, where]))

    assert (run["status"], run["error"]["code"]) == ("FAILED", "HANDLER_ERROR")


released: list[asyncio.Event] = []


async def until_released(then: Any = None) -> None:
    await released[0].wait()
    if then is not None:
        await then()


@workflow(name="gives-up-listening")
async def gives_up_listening(ctx: Any, input: Any) -> Any:
    """The task that listens has not begun when the step is answered on replay, and is cancelled at once then."""
    listening = asyncio.create_task(ctx.step.wait_for_event("stop"))
    await ctx.step.run("work", until_released)
    listening.cancel()
    await ctx.step.sleep("nap", "1500ms")
    return "done"


@workflow(name="fails-beside-a-wait")
async def fails_beside_a_wait(ctx: Any, input: Any) -> Any:
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(ctx.step.wait_for_event("stop"))
            await ctx.step.run("work", until_released, fail, retry={"attempts": 1})
    except* StepError:
        pass
    await ctx.step.sleep("nap", "1500ms")
    return "done"


@pytest.mark.parametrize("function", [gives_up_listening, fails_beside_a_wait], ids=lambda function: function.name)
async def test_a_task_that_was_cancelled_asks_again_on_replay_before_it_is(
    make_process: MakeProcess, function: Workflow
) -> None:
    released[:] = [asyncio.Event()]
    process = await make_process(function)
    run_id = await process.start(function.name)

    await process.until(run_id, lambda run: [node["nodeID"] for node in run["nodes"]] == ["stop"])  # its wait has a row
    released[0].set()
    assert (await process.ended(run_id))["output"] == "done"


@workflow(name="looks-at-a-task")
async def looks_at_a_task(ctx: Any, input: Any) -> Any:
    computed: list[int] = []

    async def compute() -> None:
        computed.append(1)

    task = asyncio.create_task(compute())
    await ctx.step.run("work", count, "work")
    seen = list(computed)
    await task
    await ctx.step.sleep("nap", "1500ms")
    return seen


async def test_tasks_that_were_begun_before_a_step_have_run_when_it_is_answered(make_process: MakeProcess) -> None:
    process = await make_process(looks_at_a_task)

    assert (await process.ended(await process.start("looks-at-a-task")))["output"] == [1]


@workflow(name="asks-twice")
async def asks_twice(ctx: Any, input: Any) -> Any:
    asked = asyncio.create_task(ctx.step.wait_for_event("approve"))
    await ctx.step.run("work", until_released)
    asked.cancel()
    return await ctx.step.wait_for_event("approve")


@pytest.mark.parametrize("elsewhere", [False, True])
async def test_a_wait_that_was_cancelled_takes_no_signal_from_the_next_one(
    make_process: MakeProcess, *, elsewhere: bool
) -> None:
    released[:] = [asyncio.Event()]
    process = await make_process(asks_twice)
    run_id = await process.start("asks-twice")
    await process.until(run_id, lambda run: [node["nodeID"] for node in run["nodes"]] == ["approve"])
    released[0].set()
    await process.waiting(run_id)
    if elsewhere:
        await process.services.engine.stop()
        process = await make_process(asks_twice)

    assert await process.signal(run_id, "approve", {"n": 1})
    run = await process.ended(run_id)

    assert run["output"] == {"n": 1}
    assert [(node["scope"], node["status"]) for node in run["nodes"] if node["nodeID"] == "approve"] == [
        ("", "skipped"),
        ("#2", "success"),
    ]

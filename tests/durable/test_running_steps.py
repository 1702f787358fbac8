"""A step that is under way is in the log after a moment, and with what is written anyway; a quick one costs no row."""

from __future__ import annotations

import asyncio
from typing import Any

from anabranch.durable.definition import workflow
from tests.durable.conftest import TENANT, MakeProcess, Process


class Gates:
    """What the steps of a test wait for."""

    slow: asyncio.Event
    quick: asyncio.Event


@workflow(name="two-steps-at-once")
async def two_at_once(ctx: Any, input: Any) -> Any:
    await asyncio.gather(
        ctx.step.run("slow", Gates.slow.wait),
        ctx.step.run("quick", Gates.quick.wait),
    )


@workflow(name="one-step-ends-first")
async def one_ends_first(ctx: Any, input: Any) -> Any:
    await asyncio.gather(ctx.step.run("slow", Gates.slow.wait), ctx.step.run("quick", asyncio.sleep, 0.05))


@workflow(name="quick-steps")
async def quick_steps(ctx: Any, input: Any) -> Any:
    for _ in range(3):
        await ctx.step.run("step", int)


async def _rows(process: Process, run_id: str) -> list[tuple[int, str, str]]:
    log = await process.services.workflows.get_log(run_id, tenant_id=TENANT)
    return [(row["seq"], row["eventType"], row["nodeID"]) for row in log if row["nodeID"]]


async def test_a_step_that_takes_a_while_is_shown_as_running_and_ends_once(make_process: MakeProcess) -> None:
    Gates.slow, Gates.quick = asyncio.Event(), asyncio.Event()
    process = await make_process(two_at_once)
    run_id = await process.start("two-steps-at-once")
    run = await process.until(run_id, lambda run: len(run["nodes"]) == 2)
    assert {(each["nodeID"], each["status"], each["attempt"]) for each in run["nodes"]} == {
        ("slow", "running", 1),
        ("quick", "running", 1),
    }
    Gates.slow.set()
    Gates.quick.set()
    await process.ended(run_id)

    rows = [(event, node) for _, event, node in await _rows(process, run_id)]
    for node in ("slow", "quick"):
        assert [event for event, of in rows if of == node] == ["NODE_DISPATCHED", "NODE_COMPLETED"]


async def test_what_runs_is_written_with_what_ends(make_process: MakeProcess) -> None:
    Gates.slow = asyncio.Event()
    process = await make_process(one_ends_first)
    run_id = await process.start("one-step-ends-first")
    await process.until(run_id, lambda run: any(each["status"] == "success" for each in run["nodes"]))
    rows = [(event, node) for _, event, node in await _rows(process, run_id)]
    Gates.slow.set()
    await process.ended(run_id)

    assert rows[0] == ("NODE_DISPATCHED", "slow") and rows[-1] == ("NODE_COMPLETED", "quick")


async def test_quick_steps_have_no_rows_of_their_beginning(make_process: MakeProcess) -> None:
    process = await make_process(quick_steps)
    run_id = await process.start("quick-steps")
    await process.ended(run_id)

    assert {event for _, event, _ in await _rows(process, run_id)} == {"NODE_COMPLETED"}


async def test_a_step_that_was_written_as_running_is_tried_again_after_a_crash(make_process: MakeProcess) -> None:
    Gates.slow, Gates.quick = asyncio.Event(), asyncio.Event()
    first = await make_process(two_at_once)
    run_id = await first.start("two-steps-at-once")
    await first.until(run_id, lambda run: len(run["nodes"]) == 2)
    await first.services.engine.stop()
    second = await make_process(two_at_once)
    Gates.slow.set()
    Gates.quick.set()
    run = await second.ended(run_id)

    assert run["status"] == "COMPLETED"
    assert {each["attempt"] for each in run["nodes"]} == {1}

"""`wait_for_any`: the first signal that fits one of several names, in the order of arrival, from whoever sent it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from anabranch.durable.definition import workflow
from tests.durable.conftest import MakeProcess

EVENTS = {"approve": {"by": "ada"}, "reject": None}


@workflow(name="decides")
async def decides(ctx: Any, input: Any) -> Any:
    came = await ctx.step.wait_for_any("decision", events=EVENTS, timeout=input)
    await ctx.step.sleep("nap", "150ms")  # what was told once is told again
    return [came, isinstance(came, tuple)]


async def test_it_returns_event_and_payload_of_the_first_that_fits(make_process: MakeProcess) -> None:
    process = await make_process(decides)
    run_id = await process.start("decides")
    await process.waiting(run_id)

    assert not await process.signal(run_id, "approve", {"by": "bob"})
    assert await process.signal(run_id, "reject", {"why": "late"})

    assert (await process.ended(run_id))["output"] == [["reject", {"why": "late"}], True]
    log = await process.services.workflows.get_log(run_id, tenant_id="default")
    opened = next(row for row in log if row["nodeID"] == "decision")
    assert (opened["eventType"], opened["payload"]) == ("NODE_WAITING", {"events": EVENTS})
    steps = await process.services.workflows.get_steps(run_id, tenant_id="default")
    assert steps[0]["output"] == {"event": "reject", "payload": {"why": "late"}}


async def test_a_timeout_gives_none(make_process: MakeProcess) -> None:
    process = await make_process(decides)

    assert (await process.ended(await process.start("decides", "1100ms")))["output"] == [None, False]


async def test_a_signal_that_another_process_takes_in_wakes_the_parked_run(make_process: MakeProcess) -> None:
    worker, server = await make_process(decides), await make_process(works=False)
    run_id = await worker.start("decides", "1h")
    await worker.waiting(run_id)

    assert not await server.signal(run_id, "other", {})
    assert await server.signal(run_id, "approve", {"by": "ada", "n": 1}, key="k")
    assert await server.signal(run_id, "approve", {"by": "ada", "n": 2}, key="k"), "answered as the first was"

    assert (await worker.ended(run_id))["output"] == [["approve", {"by": "ada", "n": 1}], True]


@workflow(name="drains")
async def drains(ctx: Any, input: Any) -> Any:
    await ctx.step.wait_for_event("go")
    came = []
    while (each := await ctx.step.wait_for_any("next", {"a": None, "b": None, "c": {"n": 9}}, timeout=0)) is not None:
        came.append(each)
    return [came, await ctx.step.wait_for_event("c", timeout=0), await ctx.step.wait_for_event("c", timeout=0)]


async def test_kept_signals_are_drained_in_the_order_of_arrival_across_names(make_process: MakeProcess) -> None:
    server, worker = await make_process(works=False), await make_process(drains)
    run_id = await server.start("drains")
    for number, event in enumerate("bacab"):
        await server.signal(run_id, event, {"n": number})
    await server.signal(run_id, "go")

    run = await worker.ended(run_id)

    came = [["b", {"n": 0}], ["a", {"n": 1}], ["a", {"n": 3}], ["b", {"n": 4}]]
    assert run["output"] == [came, {"n": 2}, None]


@workflow(name="two-wait")
async def two_wait(ctx: Any, input: Any) -> Any:
    first = ctx.step.wait_for_any("any", {"go": None, "stop": None})
    return await asyncio.gather(first, ctx.step.wait_for_event("one", event="go"))


async def test_the_oldest_open_wait_gets_the_signal(make_process: MakeProcess) -> None:
    process = await make_process(two_wait)
    run_id = await process.start("two-wait")
    await process.waiting(run_id)

    assert await process.signal(run_id, "go", 1)
    assert await process.signal(run_id, "go", 2)

    assert (await process.ended(run_id))["output"] == [["go", 1], 2]


NO_EVENTS: dict[str, Any] = {
    "none": {}, "list": ["a", "b"], "text": "a", "too many": dict.fromkeys(map(str, range(101))),
    "empty name": {"": None}, "no text": {5: None},
}  # fmt: skip


@workflow(name="asks-for-nothing")
async def asks_for_nothing(ctx: Any, input: Any) -> Any:
    await ctx.step.wait_for_any("wait", NO_EVENTS[input], timeout=0)


@pytest.mark.parametrize("kind", NO_EVENTS)
async def test_what_names_no_signals_is_refused_before_anything_is_written(
    make_process: MakeProcess, kind: str
) -> None:
    process = await make_process(asks_for_nothing)
    run_id = await process.start("asks-for-nothing", kind)

    run = await process.until(run_id, lambda run: run["status"] == "SUSPENDED")
    assert run["suspended"]["reason"] == "DEFINITION_ERROR"
    assert not [row for row in await process.rows(run_id) if row[1]]

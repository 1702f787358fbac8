"""`wait_for_any`: the first signal that fits one of several names, in the order of arrival, from whoever sent it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from anabranch.durable.definition import workflow
from tests.durable.conftest import MakePlace

EVENTS = {"approve": {"by": "ada"}, "reject": None}


@workflow(name="decides")
async def decides(ctx: Any, input: Any) -> Any:
    came = await ctx.step.wait_for_any("decision", events=EVENTS, timeout=input)
    await ctx.step.sleep("nap", "150ms")  # what was told once is told again
    return [came, isinstance(came, tuple)]


async def test_it_returns_event_and_payload_of_the_first_that_fits(make_place: MakePlace) -> None:
    place = await make_place(decides)
    run_id = await place.start("decides")
    await place.waiting(run_id)

    assert not await place.signal(run_id, "approve", {"by": "bob"})
    assert await place.signal(run_id, "reject", {"why": "late"})

    assert (await place.ended(run_id))["output"] == [["reject", {"why": "late"}], True]
    log = await place.services.workflows.get_log(run_id, tenant_id="default")
    opened = next(row for row in log if row["nodeID"] == "decision")
    assert (opened["eventType"], opened["payload"]) == ("NODE_WAITING", {"events": EVENTS})
    steps = await place.services.workflows.get_steps(run_id, tenant_id="default")
    assert steps[0]["output"] == {"event": "reject", "payload": {"why": "late"}}


async def test_a_timeout_gives_none(make_place: MakePlace) -> None:
    place = await make_place(decides)

    assert (await place.ended(await place.start("decides", "1100ms")))["output"] == [None, False]


async def test_a_signal_that_another_process_takes_in_wakes_the_parked_run(make_place: MakePlace) -> None:
    worker, server = await make_place(decides), await make_place(works=False)
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


async def test_kept_signals_are_drained_in_the_order_of_arrival_across_names(make_place: MakePlace) -> None:
    server, worker = await make_place(works=False), await make_place(drains)
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


async def test_the_oldest_open_wait_gets_the_signal(make_place: MakePlace) -> None:
    place = await make_place(two_wait)
    run_id = await place.start("two-wait")
    await place.waiting(run_id)

    assert await place.signal(run_id, "go", 1)
    assert await place.signal(run_id, "go", 2)

    assert (await place.ended(run_id))["output"] == [["go", 1], 2]


NO_EVENTS: dict[str, Any] = {
    "none": {}, "list": ["a", "b"], "text": "a", "too many": dict.fromkeys(map(str, range(101))),
    "empty name": {"": None}, "no text": {5: None},
}  # fmt: skip


@workflow(name="asks-for-nothing")
async def asks_for_nothing(ctx: Any, input: Any) -> Any:
    await ctx.step.wait_for_any("wait", NO_EVENTS[input], timeout=0)


@pytest.mark.parametrize("kind", NO_EVENTS)
async def test_what_names_no_signals_is_refused_before_anything_is_written(make_place: MakePlace, kind: str) -> None:
    place = await make_place(asks_for_nothing)
    run_id = await place.start("asks-for-nothing", kind)

    run = await place.until(run_id, lambda run: run["status"] == "SUSPENDED")
    assert run["suspended"]["reason"] == "DEFINITION_ERROR"
    assert not [row for row in await place.rows(run_id) if row[1]]

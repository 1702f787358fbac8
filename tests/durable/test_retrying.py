"""A coded run that has failed goes on: its function is called again, with the steps that it failed with."""

from __future__ import annotations

import asyncio
from typing import Any

from anabranch.durable.definition import workflow
from anabranch.durable.step_error import StepError
from anabranch.engine.rules.events import EventType
from anabranch.run_requests import ForkOptions, RetryOptions
from tests.durable.breakable import WORLD
from tests.durable.conftest import TENANT, MakeProcess, Process

ONCE = {"attempts": 1}


@workflow(name="orders", retry=ONCE)
async def orders(ctx: Any, input: Any) -> Any:
    charged = await ctx.step.run("charge", lambda: WORLD.call("charge"), retry=ONCE)
    try:
        noted = await ctx.step.run("note", lambda: WORLD.call("note"), retry=ONCE)
    except StepError as error:
        noted = error.message
    if "function" in WORLD.broken:
        raise NameError("shipped")
    try:
        shipped = await ctx.step.run("ship", lambda: WORLD.call("ship"), retry=ONCE)
    except StepError:
        await ctx.step.run("apologise", lambda: WORLD.call("apologise"), retry=ONCE)
        raise
    return [charged, noted, shipped]


@workflow(name="outer", retry=ONCE)
async def outer(ctx: Any, input: Any) -> Any:
    await ctx.step.run("before", lambda: WORLD.call("before"), retry=ONCE)
    return await ctx.step.invoke("sub", "orders", input)


@workflow(name="both", retry=ONCE)
async def both(ctx: Any, input: Any) -> Any:
    async with asyncio.TaskGroup() as group:
        left = group.create_task(ctx.step.run("left", lambda: WORLD.call("left"), retry=ONCE))
        right = group.create_task(ctx.step.run("right", lambda: WORLD.call("right"), retry=ONCE))
    return [left.result(), right.result()]


async def failed(process: Process, name: str) -> dict[str, Any]:
    run = await process.ended(await process.start(name, {}))
    assert run["status"] == "FAILED", run
    return run


async def retried(process: Process, run: dict[str, Any], **options: Any) -> dict[str, Any]:
    answer = await process.services.workflows.retry_run(
        run["instanceID"], RetryOptions(**options), tenant_id=TENANT, by="spec"
    )
    return {**await process.ended(run["instanceID"]), "answer": answer}


async def test_a_function_that_was_mended_goes_on_and_no_step_is_repeated(make_process: MakeProcess) -> None:
    process = await make_process(orders)
    WORLD.broken.update({"function", "note"})
    run = await failed(process, "orders")
    assert (run["error"]["type"], run["error"]["steps"]) == ("NameError", [])
    WORLD.broken.clear()
    after = await retried(process, run)
    assert after["status"] == "COMPLETED", after["error"]
    assert after["output"] == ["charge 1", "note is broken", "ship 1"], "a handled failure is not redone"
    assert WORLD.calls == {"charge": 1, "note": 1, "ship": 1}
    assert after["answer"]["redo"] == [{"nodeID": "", "scope": "", "attempt": 2}]


async def test_the_step_that_it_failed_with_is_tried_again_in_its_own_place(make_process: MakeProcess) -> None:
    process = await make_process(orders)
    WORLD.broken.update({"ship", "note"})
    run = await failed(process, "orders")
    assert run["error"]["steps"] == [{"nodeID": "ship", "scope": ""}]
    WORLD.broken.clear()
    after = await retried(process, run)
    assert after["status"] == "COMPLETED", after["error"]
    assert after["output"] == ["charge 1", "note is broken", "ship 2"]
    assert WORLD.calls == {"charge": 1, "note": 1, "ship": 2, "apologise": 1}, "the cleanup is not demanded"
    shipped = [node for node in after["nodes"] if node["nodeID"] == "ship"]
    assert [(node["scope"], node["status"], node["attempt"]) for node in shipped] == [("", "success", 2)]


async def test_all_failed_steps_are_tried_again_where_that_is_asked_for(make_process: MakeProcess) -> None:
    process = await make_process(orders)
    WORLD.broken.update({"ship", "note"})
    run = await failed(process, "orders")
    WORLD.broken.clear()
    after = await retried(process, run, all_failed_steps=True)
    assert after["output"] == ["charge 1", "note 2", "ship 2"]


async def test_a_retried_run_may_fail_and_be_retried_again(make_process: MakeProcess) -> None:
    process = await make_process(orders)
    WORLD.broken.add("ship")
    run = await failed(process, "orders")
    again = await retried(process, run)
    assert (again["status"], again["generation"]) == ("FAILED", 1)
    WORLD.broken.clear()
    after = await retried(process, run)
    assert (after["status"], after["generation"], after["output"][2]) == ("COMPLETED", 2, "ship 3")


async def test_a_child_goes_on_with_the_function_that_awaits_it(make_process: MakeProcess) -> None:
    process = await make_process(orders, outer)
    WORLD.broken.add("function")
    run = await failed(process, "outer")
    assert run["error"]["code"] == "CHILD_FAILED"
    WORLD.broken.clear()
    after = await retried(process, run)
    assert after["status"] == "COMPLETED", after["error"]
    assert len(after["answer"]["children"]) == 1
    assert WORLD.calls == {"before": 1, "charge": 1, "note": 1, "ship": 1}


async def test_of_several_branches_those_that_failed_are_tried_again(make_process: MakeProcess) -> None:
    process = await make_process(both)
    WORLD.broken.add("right")
    run = await failed(process, "both")
    WORLD.broken.clear()
    after = await retried(process, run)
    assert after["status"] == "COMPLETED", after["error"]
    assert after["output"][1] == "right 2"


async def test_a_cancelled_run_goes_on_in_the_same_attempt(make_process: MakeProcess) -> None:
    process = await make_process(waits)
    run_id = await process.start("waits", {})
    await process.waiting(run_id)
    await process.services.workflows.cancel_run(run_id, tenant_id=TENANT, reason="by mistake")
    answer = await process.services.workflows.retry_run(run_id, tenant_id=TENANT, by="spec")
    assert answer["redo"] == []
    await process.signal(run_id, "go", 7)
    after = await process.ended(run_id)
    assert (after["status"], after["output"]) == ("COMPLETED", 7)
    assert WORLD.calls == {"before": 1}


@workflow(name="waits", retry=ONCE)
async def waits(ctx: Any, input: Any) -> Any:
    await ctx.step.run("before", lambda: WORLD.call("before"), retry=ONCE)
    return await ctx.step.wait_for_event("hold", event="go", timeout="1h")


async def test_a_retry_of_a_fork_begins_a_child_of_its_own(make_process: MakeProcess) -> None:
    """The failed child that its log was copied with belongs to the run that it was forked from."""
    process = await make_process(outer, orders)
    WORLD.broken.add("function")
    run = await failed(process, "outer")
    log = await process.services.engine.store.read_log(run["instanceID"])
    seq = next(row.seq for row in log if row.type is EventType.NODE_FAILED and row.node_id == "sub")
    fork = await process.services.workflows.fork_run(run["instanceID"], ForkOptions(at_seq=seq), tenant_id=TENANT)
    assert (await process.ended(fork["instanceID"]))["status"] == "FAILED"
    WORLD.broken.clear()
    after = await retried(process, fork)
    assert (after["status"], WORLD.calls["ship"]) == ("COMPLETED", 1), after["error"]
    assert (await process.ended(run["instanceID"]))["status"] == "FAILED"

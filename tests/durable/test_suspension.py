"""Coded runs that are paused: the function is unwound at its next question, and goes on where it was."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from anabranch.durable.definition import workflow
from tests.durable.conftest import PATIENCE_S, TENANT, MakeProcess

calls: Counter[str] = Counter()
begun: list[asyncio.Event] = []
gate: list[asyncio.Event] = []


@pytest.fixture(autouse=True)
def nothing_yet() -> None:
    calls.clear()
    begun[:] = [asyncio.Event()]
    gate[:] = [asyncio.Event()]


async def held_step() -> str:
    calls["held"] += 1
    begun[0].set()
    await gate[0].wait()
    return "held"


async def second_step() -> str:
    calls["second"] += 1
    return "second"


@workflow(name="two-steps")
async def two_steps(ctx: Any, input: Any) -> Any:
    return [await ctx.step.run("held", held_step), await ctx.step.run("second", second_step)]


async def test_the_step_under_way_ends_and_the_next_is_not_begun_before_the_resume(make_process: MakeProcess) -> None:
    process = await make_process(two_steps)
    verbs = process.services.workflows
    run_id = await process.start("two-steps")
    await asyncio.wait_for(begun[0].wait(), PATIENCE_S)

    await verbs.pause_run(run_id, tenant_id=TENANT, by="Ada")
    gate[0].set()
    stood_still = await process.until(run_id, lambda run: run["worker"] is None)
    assert (stood_still["status"], [node["nodeID"] for node in stood_still["nodes"]]) == ("SUSPENDED", ["held"])
    assert calls == {"held": 1}

    await verbs.resume_run(run_id, tenant_id=TENANT, by="Ada")
    assert (await process.ended(run_id))["output"] == ["held", "second"]
    assert calls == {"held": 1, "second": 1}


@workflow(name="sleeps-and-ends")
async def sleeps_and_ends(ctx: Any, input: Any) -> Any:
    await ctx.step.wait_for_event("go")
    return "gone"


async def test_a_function_that_only_waits_stays_so_and_hears_the_signal_on_resume(make_process: MakeProcess) -> None:
    process = await make_process(sleeps_and_ends)
    verbs = process.services.workflows
    run_id = await process.start("sleeps-and-ends")
    await process.waiting(run_id)

    await verbs.pause_run(run_id, tenant_id=TENANT, by="Ada")
    assert await verbs.send_signal(run_id, "go", None, tenant_id=TENANT) is True
    assert (await process.run_of(run_id))["status"] == "SUSPENDED"
    await verbs.resume_run(run_id, tenant_id=TENANT, by="Ada")

    assert (await process.ended(run_id))["output"] == "gone"


repaired: list[bool] = []


async def effect() -> str:
    calls["effect"] += 1
    return "done"


@workflow(name="has-a-bug", on_error="suspend")
async def has_a_bug(ctx: Any, input: Any) -> Any:
    first = await ctx.step.run("effect", effect)
    if not repaired:
        raise NameError("name 'amuont' is not defined")
    return first


async def test_a_function_with_an_error_is_suspended_and_tried_once_more_when_it_is_resumed(
    make_process: MakeProcess,
) -> None:
    repaired.clear()
    process = await make_process(has_a_bug)
    verbs = process.services.workflows
    run_id = await process.start("has-a-bug")

    broken = await process.until(run_id, lambda run: run["status"] == "SUSPENDED")
    assert (broken["suspended"]["reason"], broken["worker"]) == ("FUNCTION_ERROR", None)
    assert broken["suspended"]["message"].endswith("name 'amuont' is not defined")
    why = await process.services.explanations.why_run(run_id, tenant_id=TENANT)
    assert [reason["kind"] for reason in why["waitsFor"]] == ["suspended"], "no timer ends this"
    assert f"name 'amuont' is not defined. {broken['suspended']['hint']}" in why["sentence"]
    await verbs.resume_run(run_id, tenant_id=TENANT, by="Ada")
    await process.until(run_id, lambda run: run["status"] == "SUSPENDED" and run["suspended"] != broken["suspended"])
    repaired.append(True)
    await verbs.resume_run(run_id, tenant_id=TENANT, by="Ada")

    assert (await process.ended(run_id))["output"] == "done"
    assert calls == {"effect": 1}, "nothing that has completed is repeated"

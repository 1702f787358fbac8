"""Forks of coded runs: the rows of their steps go along, and the function judges before anything is executed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from anabranch.durable.definition import workflow
from anabranch.durable.step_error import StepError
from anabranch.engine.rules.events import EventType
from anabranch.engine.rules.verify.check_log import check_log
from anabranch.errors import ForkRefused, PlanChanged
from anabranch.forks.fork_service import STEPS_ADDED_MAX
from anabranch.run_requests import RetryOptions, read_fork
from tests.durable.breakable import WORLD
from tests.durable.conftest import TENANT, MakeProcess, Process

ONCE = {"attempts": 1}


async def step(ctx: Any, name: str, *told: Any) -> Any:
    def call(*told: Any) -> str:
        return WORLD.call(name, *told)

    return await ctx.step.run(name, call, *told, retry=ONCE)


@workflow(name="fork-line", retry=ONCE)
async def line(ctx: Any, input: Any) -> Any:
    first = await step(ctx, "first")
    second = await step(ctx, "second", first)
    return await step(ctx, "third", second)


@workflow(name="fork-line", version=2, retry=ONCE)
async def corrected(ctx: Any, input: Any) -> Any:
    second = await step(ctx, "second", await step(ctx, "first"))
    try:
        return await step(ctx, "third", second)
    except StepError:
        return await step(ctx, "instead")


@workflow(name="fork-line", version=3, retry=ONCE)
async def another(ctx: Any, input: Any) -> Any:
    return await step(ctx, "third", await step(ctx, "second", "other arguments"))


@workflow(name="fork-held", on_error="suspend", retry=ONCE)
async def held(ctx: Any, input: Any) -> Any:
    first = await step(ctx, "first")
    try:
        noted = await step(ctx, "note")
    except StepError:
        noted = "handled"
    return [first, noted, await step(ctx, "second")]


@workflow(name="fork-branches", retry=ONCE)
async def branches(ctx: Any, input: Any) -> Any:
    async def branch(name: str) -> Any:
        return await step(ctx, f"{name}-after", await step(ctx, name))

    together = await asyncio.gather(branch("left"), branch("right"))
    return await step(ctx, "last", *together)


@workflow(name="fork-waits", retry=ONCE)
async def waits(ctx: Any, input: Any) -> Any:
    before = await step(ctx, "before")
    paid = await ctx.step.wait_for_event("paid")
    if "function" in WORLD.broken:
        raise NameError("shipped")
    return [before, paid, await step(ctx, "after")]


@workflow(name="fork-parent", retry=ONCE)
async def parent(ctx: Any, input: Any) -> Any:
    below = await ctx.step.invoke("below", "fork-line", input)
    return [below, await step(ctx, "own")]


async def ended(process: Process, name: str, status: str) -> dict[str, Any]:
    run = await process.ended(await process.start(name, {}, version=1))
    assert run["status"] == status, run
    return run


async def fork(process: Process, run: dict[str, Any], **asked: Any) -> dict[str, Any]:
    services = process.services
    options, _ = read_fork(asked)
    return await services.forks.fork(run["instanceID"], asked, options, tenant_id=TENANT, waits=services.waits)


async def forked(process: Process, run: dict[str, Any], **asked: Any) -> dict[str, Any]:
    """The fork, once it has ended."""
    started = await fork(process, run, **asked)
    after = await process.ended(started["instanceID"])
    assert after["forkedFrom"] == run["instanceID"]
    return after


async def check(process: Process, run: dict[str, Any]) -> None:
    """The log of a fork is one that the rules could write."""
    engine = process.services.engine
    row = await engine.store.get_instance(run["instanceID"])
    assert row is not None
    log = await engine.store.read_log(run["instanceID"])
    assert check_log(await engine.plans.plan_of(row.head), row.head, log) == []


def names(listed: list[dict[str, Any]]) -> list[str]:
    return [each["nodeID"] + each["scope"] for each in listed]


async def test_a_fork_at_a_step_reuses_what_it_does_not_follow(make_process: MakeProcess) -> None:
    process = await make_process(line)
    run = await ended(process, "fork-line", "COMPLETED")
    planned = await fork(process, run, at={"nodeID": "second"}, dryRun=True)
    assert names(planned["reuse"]) == ["first"]
    assert [(each["nodeID"], each["because"], each["effect"]) for each in planned["run"]] == [
        ("second", "CHOSEN", "again")
    ]
    assert names(planned["undecided"]) == ["third"]
    assert (planned["agreement"], planned["warnings"]) == ("same", [])
    assert WORLD.calls["second"] == 1, "a dry run executes nothing"

    after = await forked(process, run, at={"nodeID": "second"}, ifPlan=planned["plan"])
    assert (after["status"], after["output"]) == ("COMPLETED", "third 2")
    assert WORLD.calls == {"first": 1, "second": 2, "third": 2}
    await check(process, after)
    with pytest.raises(PlanChanged):
        await fork(process, run, ifPlan=planned["plan"], at={"nodeID": "third"})


async def test_a_cut_at_a_row_keeps_the_rows_before_it_as_they_are(make_process: MakeProcess) -> None:
    process = await make_process(line)
    run = await ended(process, "fork-line", "COMPLETED")
    store = process.services.engine.store
    log = await store.read_log(run["instanceID"])
    seq = next(event.seq for event in log if event.node_id == "second")
    planned = await fork(process, run, at={"seq": seq}, dryRun=True)
    assert names(planned["reuse"]) == ["first", "second"]
    assert [(each["nodeID"], each["because"]) for each in planned["run"]] == [("third", "AFTER_CUT")]
    after = await forked(process, run, at={"seq": seq})
    assert WORLD.calls == {"first": 1, "second": 1, "third": 2}
    copied = await store.read_log(after["instanceID"])
    for was, is_now in zip(log[1:seq], copied[1:seq], strict=True):
        assert (was.seq, was.type, was.payload, was.created_at, was.mark, was.arguments) == (
            is_now.seq,
            is_now.type,
            is_now.payload,
            is_now.created_at,
            is_now.mark,
            is_now.arguments,
        )


async def test_the_steps_that_a_run_failed_with_are_executed_again(make_process: MakeProcess) -> None:
    process = await make_process(line, corrected)
    WORLD.broken.add("third")
    run = await ended(process, "fork-line", "FAILED")
    planned = await fork(process, run, dryRun=True)
    assert [(each["nodeID"], each["because"]) for each in planned["run"]] == [("third", "FAILED")]
    after = await forked(process, run, version=2)
    assert (after["status"], after["version"], after["output"]) == ("COMPLETED", 2, "instead 1")
    assert WORLD.calls == {"first": 1, "second": 1, "third": 2, "instead": 1}
    await check(process, after)


async def test_the_steps_that_suspended_a_run_are_executed_again(make_process: MakeProcess) -> None:
    process = await make_process(held)
    WORLD.broken.update({"note", "second"})
    run_id = await process.start("fork-held", {})
    run = await process.until(run_id, lambda found: found["status"] == "SUSPENDED")
    WORLD.broken.clear()
    planned = await fork(process, run, dryRun=True)
    assert [each["nodeID"] for each in planned["reuse"]] == ["first", "note"]
    assert planned["run"] == [{"nodeID": "second", "scope": "", "because": "FAILED", "effect": "again"}]
    assert planned["agreement"] == "same"
    after = await forked(process, run)
    assert (after["status"], after["output"]) == ("COMPLETED", ["first 1", "handled", "second 2"])
    await check(process, after)


async def test_branches_that_do_not_follow_the_chosen_step_are_reused(make_process: MakeProcess) -> None:
    process = await make_process(branches)
    run = await ended(process, "fork-branches", "COMPLETED")
    planned = await fork(process, run, at={"nodeID": "left"}, dryRun=True)
    assert names(planned["reuse"]) == ["right", "right-after"]
    assert (names(planned["run"]), names(planned["undecided"])) == (["left"], ["left-after", "last"])
    after = await forked(process, run, redo=[{"nodeID": "left"}])
    assert after["status"] == "COMPLETED"
    assert WORLD.calls == {"left": 2, "left-after": 2, "right": 1, "right-after": 1, "last": 2}
    await check(process, after)


async def test_code_that_does_not_make_the_calls_of_the_log_executes_nothing(make_process: MakeProcess) -> None:
    process = await make_process(line, another)
    WORLD.broken.add("third")
    run = await ended(process, "fork-line", "FAILED")
    planned = await fork(process, run, version=3, dryRun=True)
    assert planned["agreement"] == "different"
    assert "NONDETERMINISM" in planned["warnings"][0]
    started = await fork(process, run, version=3)

    def is_judged(found: dict[str, Any]) -> bool:
        noted = found.get("note") or found.get("suspended")
        return noted is not None and "NONDETERMINISM" in str(noted)

    await process.until(started["instanceID"], is_judged)
    assert WORLD.calls == {"first": 1, "second": 1, "third": 1}, "nothing was executed"
    assert names(planned["redo"]) == ["second", "first"], "of the one the arguments have changed, the other is gone"
    WORLD.broken.clear()
    after = await forked(process, run, version=3, redo=planned["redo"])
    assert (after["status"], after["output"]) == ("COMPLETED", "third 2")
    assert WORLD.calls == {"first": 1, "second": 2, "third": 2}


@workflow(name="fork-many", retry=ONCE)
async def many(ctx: Any, input: Any) -> Any:
    return await asyncio.gather(*(step(ctx, f"{input['prefix']}-{number}") for number in range(input["steps"])))


@pytest.mark.parametrize(("steps", "has_plan"), [(STEPS_ADDED_MAX, True), (STEPS_ADDED_MAX + 1, False)])
async def test_so_many_steps_are_added_to_those_that_run_again_at_most(
    make_process: MakeProcess, steps: int, has_plan: bool
) -> None:
    process = await make_process(many)
    run = await process.ended(await process.start("fork-many", {"prefix": "a", "steps": steps}))
    planned = await fork(process, run, input={"prefix": "b", "steps": steps}, dryRun=True)
    assert planned["agreement"] == "different"
    assert ("redo" in planned) is has_plan


async def test_open_waits_begin_anew_and_kept_signals_go_along(make_process: MakeProcess) -> None:
    process = await make_process(waits)
    run_id = await process.start("fork-waits", {})
    run = await process.waiting(run_id)
    again = await fork(process, run)
    await process.waiting(again["instanceID"])
    assert (await fork(process, run, dryRun=True))["warnings"] != [], "it is open still"
    assert await process.signal(again["instanceID"], "paid", 7)
    assert (await process.ended(again["instanceID"]))["output"] == ["before 1", 7, "after 1"]
    await process.signal(run_id, "note", 1)
    await process.signal(run_id, "paid", 8)
    run = await process.ended(run_id)
    planned = await fork(process, run, at={"nodeID": "after"}, dryRun=True)
    assert planned["signals"] == {"copied": 1, "left": 0}
    assert names(planned["reuse"]) == ["before", "paid"]
    left = await fork(process, run, at={"nodeID": "after"}, signals="none", dryRun=True)
    assert left["signals"] == {"copied": 0, "left": 1}
    after = await forked(process, run, at={"nodeID": "after"})
    assert after["output"] == ["before 1", 8, "after 3"]
    await check(process, after)


async def test_a_retried_run_can_be_forked(make_process: MakeProcess) -> None:
    process = await make_process(waits)
    WORLD.broken.add("function")
    run_id = await process.start("fork-waits", {})
    await process.signal(run_id, "paid", 7)
    assert (await process.ended(run_id))["status"] == "FAILED"
    WORLD.broken.clear()
    await process.services.workflows.retry_run(run_id, RetryOptions(), tenant_id=TENANT, by="test")
    run = await process.until(run_id, lambda found: found["status"] == "COMPLETED")
    after = await forked(process, run, at={"nodeID": "after"})
    assert (after["status"], after["output"]) == ("COMPLETED", ["before 1", 7, "after 2"])
    await check(process, after)


@workflow(name="fork-caught", retry=ONCE)
async def caught(ctx: Any, input: Any) -> Any:
    paid = asyncio.create_task(ctx.step.wait_for_event("paid"))
    try:
        charged = await step(ctx, "charge")
    except StepError:
        paid.cancel()
        await step(ctx, "apologize")
        raise
    return [charged, await paid]


async def test_what_followed_a_failure_that_a_retry_has_left_out_is_not_reused(make_process: MakeProcess) -> None:
    process = await make_process(caught)
    WORLD.broken.add("charge")
    run = await ended(process, "fork-caught", "FAILED")
    WORLD.broken.clear()
    await process.services.workflows.retry_run(run["instanceID"], RetryOptions(), tenant_id=TENANT, by="test")
    await process.waiting(run["instanceID"])
    await process.signal(run["instanceID"], "paid", 7)
    await process.until(run["instanceID"], lambda found: found["status"] == "COMPLETED")
    log = await process.services.engine.store.read_log(run["instanceID"])
    assert any(event.type is EventType.NODE_SKIPPED for event in log), "the wait was cancelled"
    reopened = next(event.seq for event in log if event.type is EventType.INSTANCE_REOPENED)
    planned = await fork(process, run, at={"seq": reopened}, dryRun=True)
    assert (planned["agreement"], names(planned["reuse"])) == ("same", [])
    again = await fork(process, run, at={"seq": reopened})
    await process.waiting(again["instanceID"])
    await process.signal(again["instanceID"], "paid", 8)
    after = await process.ended(again["instanceID"])
    assert (after["status"], after["output"]) == ("COMPLETED", ["charge 3", 8])
    assert WORLD.calls == {"charge": 3, "apologize": 1}
    await check(process, after)


@workflow(name="fork-limited", retry=ONCE)
async def limited(ctx: Any, input: Any) -> Any:
    limit: Any = {"lock": asyncio.Lock(), "semaphore": asyncio.Semaphore(1)}.get(input["by"])
    event, queue = asyncio.Event(), asyncio.Queue[None]()

    async def left() -> Any:
        if limit is not None:
            async with limit:
                return await step(ctx, "left")
        done = await step(ctx, "left")
        event.set()
        queue.put_nowait(None)
        return done

    async def right() -> Any:
        if limit is not None:
            async with limit:
                return await step(ctx, "right")
        await (event.wait() if input["by"] == "event" else queue.get())
        return await step(ctx, "right")

    return await asyncio.gather(left(), right())


@pytest.mark.parametrize("by", ["lock", "semaphore", "event", "queue"])
async def test_the_plan_says_which_step_began_by_a_lock_of_the_chosen_one_and_has_to_run_again_too(
    make_process: MakeProcess, by: str
) -> None:
    process = await make_process(limited)
    run = await process.ended(await process.start("fork-limited", {"by": by}))
    planned = await fork(process, run, at={"nodeID": "left"}, dryRun=True)
    assert (names(planned["reuse"]), planned["agreement"]) == (["right"], "different")
    assert planned["redo"] == [{"nodeID": "right", "scope": ""}]
    assert planned["warnings"][-1].endswith("(NONDETERMINISM) unless right runs again, too (`redo`)")
    both = {"at": {"nodeID": "left"}, "redo": planned["redo"]}
    agreeing = await fork(process, run, **both, dryRun=True)
    assert agreeing["agreement"] == "same" and "redo" not in agreeing
    after = await forked(process, run, **both)
    assert (after["status"], after["output"]) == ("COMPLETED", ["left 2", "right 2"])


@workflow(name="fork-named", retry=ONCE)
async def named(ctx: Any, input: Any) -> Any:
    return [await step(ctx, "first", ctx.run_id), await step(ctx, "second", ctx.run_id)]


async def test_the_id_of_the_run_among_arguments_is_no_other_argument_in_its_fork(make_process: MakeProcess) -> None:
    process = await make_process(named)
    run = await ended(process, "fork-named", "COMPLETED")
    first = await forked(process, run, at={"nodeID": "second"})
    again = await forked(process, first, at={"nodeID": "second"})
    assert (first["output"], again["output"]) == (["first 1", "second 2"], ["first 1", "second 3"])


async def test_children_that_have_completed_are_reused_by_their_output(make_process: MakeProcess) -> None:
    process = await make_process(parent, line)
    run = await ended(process, "fork-parent", "COMPLETED")
    assert (await forked(process, run, at={"nodeID": "own"}))["output"] == ["third 1", "own 2"]
    assert WORLD.calls["first"] == 1
    after = await forked(process, run, at={"nodeID": "below"})
    assert after["output"] == ["third 2", "own 3"], "another child was started"


async def test_a_fork_from_before_the_first_step_says_that_this_runs_at_once(make_process: MakeProcess) -> None:
    process = await make_process(line)
    run = await ended(process, "fork-line", "COMPLETED")
    planned = await fork(process, run, at={"seq": 1}, dryRun=True)
    assert [(each["nodeID"], each["because"], each["effect"]) for each in planned["run"]] == [
        ("first", "AFTER_CUT", "again")
    ]
    assert (planned["reuse"], names(planned["undecided"])) == ([], ["second", "third"])


async def test_a_fork_that_would_execute_nothing_is_refused_beforehand(make_process: MakeProcess) -> None:
    process = await make_process(line)
    run = await ended(process, "fork-line", "COMPLETED")
    with pytest.raises(ForkRefused, match="nothing would run"):
        await fork(process, run, dryRun=True)
    with pytest.raises(ForkRefused, match="follows no graph"):
        await fork(process, run, graph={"nodes": []})


async def test_a_process_without_the_code_lets_a_worker_call_the_function(make_process: MakeProcess) -> None:
    worker, server = await make_process(line), await make_process(works=False)
    run = await ended(worker, "fork-line", "COMPLETED")
    planned = await fork(server, run, at={"nodeID": "third"}, dryRun=True)
    assert (names(planned["reuse"]), names(planned["run"])) == (["first", "second"], ["third"])
    assert planned == await fork(worker, run, at={"nodeID": "third"}, dryRun=True)
    with pytest.raises(ForkRefused, match="nothing would run"):
        await fork(server, run, dryRun=True)

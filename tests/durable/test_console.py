"""`ctx.log` and `ctx.step.progress`: heard once, of the step or function that says it, however often it is replayed."""

from __future__ import annotations

from typing import Any

from anabranch.durable.definition import workflow
from anabranch.engine.console.console_rows import LinesWanted
from tests.durable.conftest import TENANT, MakeProcess, Process


def _charge(ctx: Any) -> int:
    ctx.log.info("charging")
    print("printed")  # noqa: T201
    ctx.step.progress(1, 2, "half")
    return 7


@workflow(name="says-once")
async def says(ctx: Any, input: Any) -> Any:
    ctx.log.info("begins")
    await ctx.step.run("charge", lambda: _charge(ctx))
    ctx.log.info("waits")
    await ctx.step.wait_for_event("go")
    ctx.log.info("goes on")
    await ctx.step.wait_for_event("end")
    print("ends")  # noqa: T201


async def _heard(process: Process, run_id: str) -> list[tuple[str, str]]:
    console = process.services.engine.console
    assert console is not None
    await console.stop()
    page, _ = await process.services.workflows.get_console(run_id, LinesWanted(), tenant_id=TENANT)
    return [(line["nodeID"], line["text"]) for line in page]


async def test_replay_is_silent_in_the_process_that_ran_it_and_in_another(make_process: MakeProcess) -> None:
    first = await make_process(says)
    run_id = await first.start("says-once")
    await first.waiting(run_id)
    await first.signal(run_id, "go")
    await first.until(run_id, lambda run: any(each["nodeID"] == "end" for each in run["nodes"]))
    await first.waiting(run_id)
    heard = await _heard(first, run_id)
    await first.services.engine.stop()

    second = await make_process(says)
    await second.signal(run_id, "end")
    run = await second.ended(run_id)

    before = [("", "begins"), ("charge", "charging"), ("charge", "printed"), ("", "waits"), ("", "goes on")]
    assert heard == before
    assert await _heard(second, run_id) == [*before, ("", "ends")]
    (charge,) = [each for each in run["nodes"] if each["nodeID"] == "charge"]
    assert (charge["progress"]["done"], charge["progress"]["text"]) == (1, "half")


@workflow(name="progresses-outside")
async def progresses_outside(ctx: Any, input: Any) -> Any:
    ctx.step.progress(1)


@workflow(name="hangs-silently")
async def hangs_silently(ctx: Any, input: Any) -> Any:
    await ctx.step.run("hang", ctx.cancelled.wait, heartbeat_timeout="100ms", retry={"maxAttempts": 1})


async def test_progress_outside_of_a_step_and_a_step_without_progress_fail(make_process: MakeProcess) -> None:
    process = await make_process(progresses_outside, hangs_silently)
    run_id = await process.start("progresses-outside")
    outside = await process.until(run_id, lambda run: run["status"] == "SUSPENDED")
    silent = await process.ended(await process.start("hangs-silently"))

    assert outside["suspended"]["reason"] == "DEFINITION_ERROR"
    assert (silent["error"]["code"], silent["error"]["nodeID"]) == ("HEARTBEAT_TIMEOUT", "hang")

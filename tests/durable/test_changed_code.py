"""Code that does not do any more what the log says it did, or is not there: the run waits for a worker that fits."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from sqlalchemy import text

from anabranch.durable.definition import Workflow, workflow
from anabranch.engine.store.opening import dialect_of
from tests.durable.conftest import TENANT, MakeProcess, Process

calls: Counter[str] = Counter()

Function = Callable[[Any, Any], Awaitable[Any]]


@pytest.fixture(autouse=True)
def nothing_yet() -> None:
    calls.clear()


async def count(name: str) -> str:
    calls[name] += 1
    return name


def version_of(function: Function, *, version: int = 1) -> Workflow:
    """A declaration of the same workflow, as another deployment would have it."""
    return Workflow("changes", version, function, {})


async def before(ctx: Any, input: Any) -> Any:
    await ctx.step.run("first", count, "first")
    await ctx.step.wait_for_event("go")
    return await ctx.step.run("last", count, "last")


async def renamed(ctx: Any, input: Any) -> Any:
    await ctx.step.run("renamed", count, "renamed")
    await ctx.step.wait_for_event("go")
    return "never"


async def other_kind(ctx: Any, input: Any) -> Any:
    await ctx.step.sleep("first", "1m")


async def returns_early(ctx: Any, input: Any) -> Any:
    await ctx.step.run("first", count, "first")
    return "too early"


async def fails_early(ctx: Any, input: Any) -> Any:
    raise ValueError("too early")


async def other_wait(ctx: Any, input: Any) -> Any:
    await ctx.step.run("first", count, "first")
    await ctx.step.sleep("nap", "1m")


async def swaps_in_a_gather(ctx: Any, input: Any) -> Any:
    await asyncio.gather(ctx.step.run("new", count, "new"), ctx.step.run("first", count, "first"))


def is_blocked(code: str) -> Callable[[dict[str, Any]], bool]:
    return lambda run: run["status"] == "SUSPENDED" and (run["note"] or {}).get("code") == code


CHANGES = [renamed, other_kind, returns_early, fails_early, other_wait, swaps_in_a_gather]


@pytest.mark.parametrize("changed", CHANGES, ids=lambda function: function.__name__)
async def test_a_changed_function_does_nothing_and_its_run_is_suspended(
    make_process: MakeProcess, changed: Function
) -> None:
    old = await make_process(version_of(before))
    run_id = await old.start("changes")
    await old.waiting(run_id)
    await old.services.engine.stop()
    new = await make_process(version_of(changed))
    await new.signal(run_id, "go")

    run = await new.until(run_id, is_blocked("NONDETERMINISM"))

    message = run["note"]["message"]
    assert "has changed" in message or "was a run before" in message
    assert ("ValueError (too early)" in message) is (changed is fails_early), "what new code raised is told"
    assert calls == {"first": 1}, "nothing is executed first"
    assert run["error"] is None
    assert (run["suspendedFor"], run["suspended"]["message"]) == ("NONDETERMINISM", message)
    assert run["suspended"]["hint"].startswith("Deploy code that")
    why = await new.services.explanations.why_run(run_id, tenant_id=TENANT)
    assert why["sentence"].endswith("Deploy code that does what its log says: the run goes on by itself. Or fork it.")


async def test_the_run_goes_on_with_the_code_that_fits(make_process: MakeProcess) -> None:
    wrong = await make_process(version_of(renamed))
    run_id = await started_elsewhere(make_process)
    await wrong.signal(run_id, "go")
    await wrong.until(run_id, is_blocked("NONDETERMINISM"))
    refused = await wrong.rows(run_id)
    await wrong.services.engine.stop()

    again = await make_process(version_of(renamed))
    await again.services.engine.claimer.claim_once()
    assert await again.rows(run_id) == refused, "the same code is not offered it before its time"
    await again.services.engine.stop()

    right = await make_process(version_of(before))
    run = await right.ended(run_id)

    assert (run["output"], run["note"], calls) == ("last", None, {"first": 1, "last": 1})


async def test_a_run_that_was_paused_after_wrong_code_waits_for_a_resume(make_process: MakeProcess) -> None:
    wrong = await make_process(version_of(renamed))
    run_id = await started_elsewhere(make_process)
    await wrong.signal(run_id, "go")
    await wrong.until(run_id, is_blocked("NONDETERMINISM"))
    await wrong.services.workflows.pause_run(run_id, tenant_id=TENANT, by="Ada")
    assert (await wrong.run_of(run_id))["suspended"]["reason"] == "PAUSED"
    await wrong.services.engine.stop()

    right = await make_process(version_of(before))
    await right.services.engine.claimer.claim_once()
    paused = await right.run_of(run_id)
    assert (paused["status"], paused["suspended"]["reason"]) == ("SUSPENDED", "PAUSED")
    await right.services.workflows.resume_run(run_id, tenant_id=TENANT, by="Ada")
    run = await right.ended(run_id)

    assert (run["output"], calls) == ("last", {"first": 1, "last": 1})


async def started_elsewhere(make_process: MakeProcess) -> str:
    """A run that the first form of the code has brought to its wait; its worker is gone."""
    old = await make_process(version_of(before))
    run_id = await old.start("changes")
    await old.waiting(run_id)
    await old.services.engine.stop()
    return run_id


async def test_a_run_that_no_worker_knows_is_suspended_until_one_does(make_process: MakeProcess) -> None:
    run_id = await started_elsewhere(make_process)
    stranger = await make_process()
    await stranger.signal(run_id, "go")
    store = stranger.services.engine.store
    assert await store.suspend_unfit(overdue_ms=3_600_000, seen_ms=90_000, limit=10) == 0, "somebody may come yet"
    assert await store.suspend_unfit(overdue_ms=0, seen_ms=90_000, limit=10) == 1
    assert await store.suspend_unfit(overdue_ms=0, seen_ms=90_000, limit=10) == 0, "it is said once"
    run = await stranger.until(run_id, lambda run: run["status"] == "SUSPENDED")
    assert run["suspended"]["reason"] == "UNKNOWN_WORKFLOW"
    assert run["suspended"]["message"] == "no worker has version 1 of the coded workflow 'changes'"

    knows = await make_process(version_of(before))

    assert (await knows.ended(run_id))["output"] == "last", "it goes on by itself"


async def test_after_a_rollback_with_the_older_code_active_no_start_waits_for_code_that_is_gone(
    make_process: MakeProcess,
) -> None:
    async def says_version(ctx: Any, input: Any) -> Any:
        return ctx.version

    old, new = (version_of(says_version, version=version) for version in (1, 2))
    withdrawn = await make_process(old, new)
    assert (await withdrawn.ended(await withdrawn.start("changes")))["output"] == 2
    await withdrawn.services.engine.stop()

    rolled_back = await make_process(old, active=True)
    assert (await rolled_back.ended(await rolled_back.start("changes")))["output"] == 1


async def test_a_worker_that_knows_the_code_comes_before_those_that_do_not(make_process: MakeProcess) -> None:
    stranger: Process = await make_process()
    run_id = await started_elsewhere(make_process)
    await stranger.signal(run_id, "go")
    knows = await make_process(version_of(before))

    run = await knows.ended(run_id)

    assert run["output"] == "last"
    assert not [row for row in await knows.rows(run_id) if row[0] == "SYSTEM_SET"], "nobody was offered it in vain"


async def test_a_worker_without_the_code_starts_a_run_for_others(make_process: MakeProcess) -> None:
    knows = await make_process(version_of(second_version))
    stranger = await make_process()

    run_id = await stranger.start("changes")

    assert (await knows.ended(run_id))["output"] == [2, 1]
    assert not [row for row in await knows.rows(run_id) if row[0] == "SYSTEM_SET"]


# -- arguments -----------------------------------------------------------------------------------
def priced(*items: str) -> Workflow:
    """A deployment that asks for prices in this order, as a `set` would have it under some hash seed."""

    async def function(ctx: Any, input: Any) -> Any:
        prices = {item: await ctx.step.run("price", price_of, item) for item in items}
        await ctx.step.wait_for_event("go")
        return prices

    return version_of(function)


async def price_of(item: str) -> str:
    calls[item] += 1
    return f"price of {item}"


async def left_waiting(make_process: MakeProcess, deployment: Workflow) -> str:
    """A run that this deployment has brought to where it only waits; its worker is gone."""
    old = await make_process(deployment)
    run_id = await old.start("changes")
    await old.waiting(run_id)
    await old.services.engine.stop()
    return run_id


async def test_same_named_steps_in_another_order_are_found_and_told_with_both_arguments(
    make_process: MakeProcess,
) -> None:
    run_id = await left_waiting(make_process, priced("rice", "salt"))
    new = await make_process(priced("salt", "rice"))
    await new.signal(run_id, "go")

    run = await new.until(run_id, is_blocked("NONDETERMINISM"))

    message = 'step price was asked for with ["rice"] before and is asked for with ["salt"] now'
    assert run["note"]["message"] == message
    assert calls == {"rice": 1, "salt": 1}


async def test_same_named_steps_in_their_order_are_answered(make_process: MakeProcess) -> None:
    run_id = await left_waiting(make_process, priced("rice", "salt"))
    new = await make_process(priced("rice", "salt"))
    await new.signal(run_id, "go")

    assert (await new.ended(run_id))["output"] == {"rice": "price of rice", "salt": "price of salt"}


async def test_steps_of_older_versions_are_compared_by_their_names(
    make_process: MakeProcess, database_url: str
) -> None:
    run_id = await left_waiting(make_process, priced("rice", "salt"))
    forget_arguments(database_url)
    new = await make_process(priced("salt", "rice"))
    await new.signal(run_id, "go")

    assert (await new.ended(run_id))["output"] == {"salt": "price of rice", "rice": "price of salt"}


def forget_arguments(url: str) -> None:
    """Make the log what an older version has written."""
    dialect = dialect_of(url)
    engine = dialect.engine(commits=False)
    with engine.connect() as connection, dialect.transaction(connection):
        forgotten = connection.execute(text("UPDATE workflow_instance_logs SET arguments = NULL"))
        assert forgotten.rowcount > 0
    engine.dispose()


ASKS: dict[str, Callable[[Any, bool], Awaitable[Any]]] = {
    "event": lambda step, changed: step.wait_for_event("ask", event="b" if changed else "a"),
    "match": lambda step, changed: step.wait_for_event("ask", match={"n": changed}),
    "events": lambda step, changed: step.wait_for_any("ask", {"a": {"n": changed}}),
    "child": lambda step, changed: step.invoke("ask", "changes", {"changed": changed}),
    "duration": lambda step, changed: step.sleep("ask", 90_000 if changed else 60_000),
    "timeout": lambda step, changed: step.wait_for_event("ask", timeout=90_000 if changed else 60_000),
}


def asking(what: str, *, changed: bool) -> Workflow:
    async def function(ctx: Any, input: Any) -> Any:
        if input:
            await ctx.step.wait_for_event("never")  # it is a child
        calls["changed"] += changed
        go = ctx.step.wait_for_event("go")
        await asyncio.gather(ASKS[what](ctx.step, changed), go)

    return version_of(function)


@pytest.mark.parametrize("what", ["event", "match", "events", "child"])
async def test_a_verb_that_asks_for_something_else_is_found(make_process: MakeProcess, what: str) -> None:
    run_id = await left_waiting(make_process, asking(what, changed=False))
    new = await make_process(asking(what, changed=True))
    await new.signal(run_id, "go")

    run = await new.until(run_id, is_blocked("NONDETERMINISM"))

    assert run["note"]["message"].startswith("step ask was asked for with {")


@pytest.mark.parametrize("what", ["duration", "timeout"])
async def test_how_long_to_wait_was_settled_when_it_was_first_asked_for(make_process: MakeProcess, what: str) -> None:
    run_id = await left_waiting(make_process, asking(what, changed=False))
    new = await make_process(asking(what, changed=True))
    await new.signal(run_id, "go")

    run = await new.until(run_id, lambda run: calls["changed"] > 0 and run["status"] == "WAITING")

    assert (run["note"], calls) == (None, {"changed": 1})


async def names_its_attempt(ctx: Any, input: Any) -> Any:
    done = await ctx.step.run("done", price_of, f"attempt {ctx.attempt}")
    if ctx.attempt == 1:
        raise ValueError("once more")
    return done


async def test_what_completed_in_an_earlier_attempt_is_found_by_its_name_alone(make_process: MakeProcess) -> None:
    retry = {"attempts": 2, "backoff": {"kind": "fixed", "base": "10ms", "jitter": 0}}
    process = await make_process(Workflow("changes", 1, names_its_attempt, {"retry": retry}))

    assert (await process.ended(await process.start("changes")))["output"] == "price of attempt 1"


# -- versions --------------------------------------------------------------------------------------
async def first_version(ctx: Any, input: Any) -> Any:
    await ctx.step.wait_for_event("go")
    return [1, ctx.version]


async def second_version(ctx: Any, input: Any) -> Any:
    return [2, ctx.version]


async def test_a_run_stays_with_the_version_it_began_with(make_process: MakeProcess) -> None:
    old = await make_process(version_of(first_version))
    run_id = await old.start("changes")
    await old.waiting(run_id)
    both = await make_process(version_of(first_version), version_of(second_version, version=2))
    await both.signal(run_id, "go")

    assert (await both.ended(run_id))["output"] == [1, 1]
    assert (await both.ended(await both.start("changes")))["output"] == [2, 2]
    pinned = await both.start("changes", version=1)
    await both.signal(pinned, "go")
    assert (await both.ended(pinned))["output"] == [1, 1]


# -- the function's own unwinding ------------------------------------------------------------------------
@workflow(name="swallows")
async def swallows(ctx: Any, input: Any) -> Any:
    try:
        await ctx.step.sleep("nap", input)
    except BaseException:  # noqa: BLE001
        return "as if nothing had happened"
    return "woken"


@workflow(name="cleans-up")
async def cleans_up(ctx: Any, input: Any) -> Any:
    try:
        await ctx.step.sleep("nap", "1100ms")
    except Exception:  # noqa: BLE001
        return "never"
    finally:
        calls["finally"] += 1
    return "woken"


async def test_a_function_that_swallows_its_suspension_is_suspended_all_the_same_with_one_warning(
    make_process: MakeProcess, caplog: pytest.LogCaptureFixture
) -> None:
    process = await make_process(swallows)
    runs = [await process.start("swallows", "1m"), await process.start("swallows", "1m")]
    for run_id in runs:
        await process.waiting(run_id)

    warnings = [line for line in caplog.messages if "'swallows' version 1: its function caught" in line]
    assert len(warnings) == 1
    assert (await process.ended(await process.start("swallows", "150ms")))["output"] == "woken"


async def test_what_is_in_finally_runs_at_every_suspension(make_process: MakeProcess) -> None:
    process = await make_process(cleans_up)
    run = await process.ended(await process.start("cleans-up"))

    assert (run["output"], calls["finally"]) == ("woken", 2)

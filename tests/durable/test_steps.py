"""Steps: attempts, errors, waits, children and signals, on the first run and on replay alike."""

from __future__ import annotations

import asyncio
import gc
import inspect
import threading
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from anabranch.durable.calls import StepCall
from anabranch.durable.definition import workflow
from anabranch.durable.function_run import FunctionRun
from anabranch.durable.step_error import StepError
from anabranch.engine.rules.coded.coded_state import CodedState
from anabranch.engine.rules.transitions import Outcome, Transition
from anabranch.errors import NonRetryable
from tests.durable.conftest import MakeProcess

calls: Counter[str] = Counter()
seen: list[Any] = []

QUICK = {"attempts": 3, "backoff": {"kind": "fixed", "base": "10ms", "jitter": 0}}


class Declined(Exception):
    pass


@pytest.fixture(autouse=True)
def nothing_yet() -> None:
    calls.clear()
    seen.clear()


async def count(name: str, value: Any = None) -> Any:
    calls[name] += 1
    return value


async def fails(name: str, times: int) -> str:
    calls[name] += 1
    if calls[name] <= times:
        raise Declined(f"no {calls[name]}")
    return f"yes {calls[name]}"


@workflow(name="steps-and-timers")
async def steps_and_timers(ctx: Any, input: Any) -> Any:
    for number in range(3):
        await ctx.step.run("count", count, "count", number)
        await asyncio.sleep(0.001)


async def test_a_function_that_has_ended_leaves_no_step_to_the_garbage_collector(make_process: MakeProcess) -> None:
    process = await make_process(steps_and_timers)
    gc.collect()
    gc.disable()
    try:
        await process.ended(await process.start("steps-and-timers"))
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        left = [each for each in gc.garbage if isinstance(each, FunctionRun | StepCall | CodedState)]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()

    assert left == []


@workflow(name="retries")
async def retries(ctx: Any, input: Any) -> Any:
    return await ctx.step.run("pay", fails, "pay", input, retry=QUICK)


async def test_a_failing_step_is_tried_again_and_the_later_attempts_are_in_the_log(make_process: MakeProcess) -> None:
    process = await make_process(retries)
    run_id = await process.start("retries", 2)

    assert (await process.ended(run_id))["output"] == "yes 3"
    assert [row for row in await process.rows(run_id) if row[1] == "pay"] == [
        ("NODE_ATTEMPT_FAILED", "pay", "", 1),
        ("NODE_DISPATCHED", "pay", "", 2),
        ("NODE_ATTEMPT_FAILED", "pay", "", 2),
        ("NODE_DISPATCHED", "pay", "", 3),
        ("NODE_COMPLETED", "pay", "", 3),
    ]


async def test_the_last_attempt_fails_the_run_with_type_message_and_the_authors_lines(
    make_process: MakeProcess,
) -> None:
    process = await make_process(retries)
    run_id = await process.start("retries", 9)

    run = await process.ended(run_id)

    assert run["status"] == "FAILED"
    error = run["error"]
    assert (error["code"], error["type"], error["message"]) == ("HANDLER_ERROR", f"{__name__}.Declined", "no 3")
    assert (error["nodeID"], error["scope"], error["attempt"]) == ("pay", "", 3)
    assert "in fails" in error["traceback"] and "anabranch/durable" not in error["traceback"]


@workflow(name="waits-for-a-try")
async def waits_for_an_attempt(ctx: Any, input: Any) -> Any:
    retry = {"attempts": 2, "backoff": {"kind": "fixed", "base": "1500ms", "jitter": 0}}
    return await ctx.step.run("pay", fails, "pay", 1, retry=retry)


async def test_a_long_wait_for_the_next_attempt_frees_the_worker(make_process: MakeProcess) -> None:
    process = await make_process(waits_for_an_attempt)
    run_id = await process.start("waits-for-a-try")

    await process.waiting(run_id)

    assert (await process.ended(run_id))["output"] == "yes 2"
    assert calls == {"pay": 2}


@workflow(name="catches")
async def catches(ctx: Any, input: Any) -> Any:
    try:
        await ctx.step.run("pay", fails, "pay", 9, retry={"attempts": 1})
    except StepError as failure:
        seen.append((failure, failure.__cause__))
        await ctx.step.sleep("cool-down", "1100ms")
        return [failure.type, failure.message, failure.code, failure.attempt, failure.is_a(f"{__name__}.Declined")]


async def test_a_caught_step_error_is_the_same_on_the_first_run_and_on_replay(make_process: MakeProcess) -> None:
    process = await make_process(catches)
    run = await process.ended(await process.start("catches"))

    assert run["output"] == [f"{__name__}.Declined", "no 1", "HANDLER_ERROR", 1, True]
    (first, cause), (replayed, nothing) = seen
    assert first == replayed and first is not replayed
    assert isinstance(cause, Declined) and nothing is None
    assert calls == {"pay": 1}


@workflow(name="refuses")
async def refuses(ctx: Any, input: Any) -> Any:
    def refuse() -> None:
        calls["refuse"] += 1
        raise NonRetryable("never", code="NO_FUNDS")

    await ctx.step.run("refuse", refuse)


async def test_non_retryable_stops_at_once(make_process: MakeProcess) -> None:
    process = await make_process(refuses)
    run = await process.ended(await process.start("refuses"))

    assert (run["error"]["code"], calls["refuse"]) == ("NO_FUNDS", 1)


@workflow(name="hangs")
async def hangs(ctx: Any, input: Any) -> Any:
    await ctx.step.run("hang", asyncio.Event().wait, timeout="30ms", retry={"attempts": 1})


async def test_a_step_that_is_too_slow_fails_with_node_timeout(make_process: MakeProcess) -> None:
    process = await make_process(hangs)
    run = await process.ended(await process.start("hangs"))

    assert run["error"]["code"] == "NODE_TIMEOUT"


@workflow(name="returns")
async def returns(ctx: Any, input: Any) -> Any:
    values = {"set": {1}, "large": "x" * 1_100_000, "nan": float("nan")}
    await ctx.step.run("return", count, "return", values[input])


@pytest.mark.parametrize(
    ("kind", "code"), [("set", "VALUE_NOT_STORABLE"), ("large", "VALUE_TOO_LARGE"), ("nan", "VALUE_NOT_STORABLE")]
)
async def test_what_cannot_be_stored_fails_its_step_at_once(make_process: MakeProcess, kind: str, code: str) -> None:
    process = await make_process(returns)
    run = await process.ended(await process.start("returns", kind))

    assert (run["error"]["code"], run["error"]["nodeID"]) == (code, "return")
    assert calls["return"] == 1


@workflow(name="shares")
async def shares(ctx: Any, input: Any) -> Any:
    got = await ctx.step.run("get", count, "get", {"items": [1]})
    got["items"].append(2)
    seen.append(got)
    await ctx.step.run("hold", asyncio.Event().wait)


async def test_what_a_function_does_to_a_result_does_not_change_the_journal(make_process: MakeProcess) -> None:
    process = await make_process(shares)
    run_id = await process.start("shares")
    await process.until(run_id, lambda _: seen != [])

    held = process.services.engine.orchestrator.owned.get(run_id)
    assert held is not None and isinstance(held.state, CodedState)
    assert held.state.steps["get", ""].output.value == {"items": [1]}


@workflow(name="goes-on")
async def goes_on(ctx: Any, input: Any) -> Any:
    for name in ("a", "b"):
        await ctx.step.run(name, count, name)
        seen.append(f"answered {name}")


async def test_a_function_goes_on_only_after_the_commit(
    make_process: MakeProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = await make_process(goes_on)
    store = process.services.engine.store
    commit = store.commit

    async def noted(transitions: Sequence[Transition], *, may_wait: bool = False) -> Outcome:
        outcome = await commit(transitions, may_wait=may_wait)
        events = [event for transition in transitions for event in transition.events]
        seen.extend(f"committed {event.node_id}" for event in events if event.type == "NODE_COMPLETED")
        return outcome

    monkeypatch.setattr(store, "commit", noted)
    await process.ended(await process.start("goes-on"))

    assert seen == ["committed a", "answered a", "committed b", "answered b"]


@workflow(name="repeats")
async def repeats(ctx: Any, input: Any) -> Any:
    return [await ctx.step.run("fetch", count, "fetch", number) for number in range(3)]


async def test_repeated_names_are_numbered_in_call_order(make_process: MakeProcess) -> None:
    process = await make_process(repeats)
    run_id = await process.start("repeats")

    assert (await process.ended(run_id))["output"] == [0, 1, 2]
    scopes = [scope for kind, name, scope, _ in await process.rows(run_id) if name == "fetch"]
    assert scopes == ["", "#2", "#3"]


@workflow(name="misnames")
async def misnames(ctx: Any, input: Any) -> Any:
    await ctx.step.run("a b", count, "a b")


async def test_a_name_that_cannot_be_is_refused_before_anything_is_written(make_process: MakeProcess) -> None:
    process = await make_process(misnames)
    run_id = await process.start("misnames")

    run = await process.until(run_id, lambda run: run["status"] == "SUSPENDED")
    assert run["suspended"]["reason"] == "DEFINITION_ERROR"
    assert not [row for row in await process.rows(run_id) if row[1]]
    assert not calls


NO_EVENTS: dict[str, Any] = {"empty": "", "long": "x" * 256, "number": 5, "nul": "a\0b", "surrogate": "\ud800"}


@workflow(name="waits-for-nothing")
async def waits_for_nothing(ctx: Any, input: Any) -> Any:
    await ctx.step.wait_for_event("wait", event=NO_EVENTS[input], timeout="1s")


@pytest.mark.parametrize("kind", NO_EVENTS)
async def test_a_wait_for_what_no_signal_can_be_called_is_refused_before_anything_is_written(
    make_process: MakeProcess, kind: str
) -> None:
    process = await make_process(waits_for_nothing)
    run_id = await process.start("waits-for-nothing", kind)

    run = await process.until(run_id, lambda run: run["status"] == "SUSPENDED")
    assert run["suspended"]["reason"] == "DEFINITION_ERROR"
    assert not [row for row in await process.rows(run_id) if row[1]]


@workflow(name="asks-for-no-text")
async def asks_for_no_text(ctx: Any, input: Any) -> Any:
    match input:
        case "workflow":
            await ctx.step.invoke("ask", None)
        case "run_id":
            await ctx.step.signal(None, "go", name="ask")
        case "event":
            await ctx.step.signal(ctx.run_id, 5, name="ask")


@pytest.mark.parametrize("what", ["workflow", "run_id", "event"])
async def test_what_must_be_text_is_refused_by_its_name(make_process: MakeProcess, what: str) -> None:
    process = await make_process(asks_for_no_text)
    run_id = await process.start("asks-for-no-text", what)
    run = await process.until(run_id, lambda run: run["status"] == "SUSPENDED")

    assert run["suspended"]["reason"] == "DEFINITION_ERROR"
    message = run["suspended"]["message"]
    assert message.startswith(f"step 'ask': {what}") and "is text, not" in message
    assert not [row for row in await process.rows(run_id) if row[1]]


@workflow(name="nests")
async def nests(ctx: Any, input: Any) -> Any:
    async def outer() -> Any:
        return await ctx.step.run("inner", count, "inner")

    await ctx.step.run("outer", outer, retry=QUICK)


async def test_a_step_cannot_contain_another_and_is_not_tried_again(make_process: MakeProcess) -> None:
    process = await make_process(nests)
    run = await process.ended(await process.start("nests"))

    assert (run["error"]["code"], run["error"]["attempt"]) == ("INVALID_DEFINITION", 1)
    assert "cannot contain" in run["error"]["message"]
    assert not calls


@workflow(name="threads")
async def threads(ctx: Any, input: Any) -> Any:
    def where() -> str:
        return threading.current_thread().name

    return await ctx.step.run("where", where)


async def test_a_function_that_is_not_async_runs_in_a_thread(make_process: MakeProcess) -> None:
    process = await make_process(threads)
    run = await process.ended(await process.start("threads"))

    assert run["output"].startswith("coded-step")


# -- waits -------------------------------------------------------------------------------------------
@workflow(name="asks")
async def asks(ctx: Any, input: Any) -> Any:
    return await ctx.step.wait_for_event("verify", match={"user": 1}, timeout=input)


async def test_a_wait_takes_the_fitting_signal(make_process: MakeProcess) -> None:
    process = await make_process(asks)
    run_id = await process.start("asks")
    await process.waiting(run_id)

    assert not await process.signal(run_id, "verify", {"user": 2})
    assert await process.signal(run_id, "verify", {"user": 1, "ok": True})

    assert (await process.ended(run_id))["output"] == {"user": 1, "ok": True}


async def test_a_signal_that_came_first_is_kept_for_the_wait(make_process: MakeProcess) -> None:
    early = await make_process(works=False)
    worker = await make_process(asks)
    run_id = await early.start("asks")
    await early.signal(run_id, "verify", {"user": 1})

    assert (await worker.ended(run_id))["output"] == {"user": 1}


async def test_a_wait_that_times_out_gives_none(make_process: MakeProcess) -> None:
    process = await make_process(asks)
    run_id = await process.start("asks", "50ms")

    assert (await process.ended(run_id))["output"] is None
    log = await process.services.workflows.get_log(run_id, tenant_id="default")
    assert [row["nextHandle"] for row in log if row["eventType"] == "NODE_COMPLETED"] == ["timeout"]


@workflow(name="parent")
async def parent(ctx: Any, input: Any) -> Any:
    try:
        return await ctx.step.invoke("child", input["child"], {"n": 20})
    except StepError as failure:
        return failure.code


@workflow(name="child")
async def child(ctx: Any, input: Any) -> Any:
    return {"twice": await ctx.step.run("double", count, "double", 2 * input["n"])}


@workflow(name="broken")
async def broken(ctx: Any, input: Any) -> Any:
    raise ValueError("broken")


async def test_an_invoked_run_hands_its_output_on(make_process: MakeProcess) -> None:
    process = await make_process(parent, child)
    run_id = await process.start("parent", {"child": "child"})

    assert (await process.ended(run_id))["output"] == {"twice": 40}
    assert calls == {"double": 1}
    runs = await process.services.workflows.list_runs(tenant_id="default", limit=9)
    assert [run["parentID"] for run in runs if run["name"] == "child"] == [run_id]


async def test_an_invoked_run_that_fails_raises_child_failed(make_process: MakeProcess) -> None:
    process = await make_process(parent, broken)

    assert (await process.ended(await process.start("parent", {"child": "broken"})))["output"] == "CHILD_FAILED"


async def test_a_function_error_outside_of_steps_fails_the_run(make_process: MakeProcess) -> None:
    process = await make_process(broken)
    error = (await process.ended(await process.start("broken")))["error"]

    assert (error["code"], error["type"], error["message"]) == ("HANDLER_ERROR", "ValueError", "broken")


@workflow(name="tells")
async def tells(ctx: Any, input: Any) -> Any:
    delivered = await ctx.step.signal(input, "verify", {"user": 1})
    await ctx.step.sleep("nap", "1100ms")
    return delivered


async def test_a_signal_from_a_step_is_sent_once(make_process: MakeProcess) -> None:
    process = await make_process(asks, tells)
    asking = await process.start("asks")
    await process.waiting(asking)

    telling = await process.start("tells", asking)

    assert (await process.ended(asking))["output"] == {"user": 1}
    assert (await process.ended(telling))["output"] is True
    log = await process.services.workflows.get_log(asking, tenant_id="default")
    assert sum(row["eventType"] == "SIGNAL_RECEIVED" for row in log) == 1


# -- what is not awaited -------------------------------------------------------------------------------
@workflow(name="forgets", retry=QUICK)
async def forgets(ctx: Any, input: Any) -> Any:
    await ctx.step.run("first", count, "first")
    ctx.step.run("forgotten", count, "forgotten")  # the line that is named
    await ctx.step.sleep("nap", "150ms")
    return "done"


async def test_a_step_that_is_not_awaited_fails_the_run_and_names_the_line(make_process: MakeProcess) -> None:
    process = await make_process(forgets)
    run = await process.ended(await process.start("forgets"))

    assert (run["status"], calls) == ("FAILED", {"first": 1})
    line = inspect.getsourcelines(forgets.function)[1] + 3
    message = f"step 'forgotten' was asked for in {__file__}, line {line}, but never awaited: nothing was executed"
    assert (run["error"]["code"], run["error"]["message"]) == ("STEP_NOT_AWAITED", message)


@workflow(name="gives-away")
async def gives_away(ctx: Any, input: Any) -> Any:
    """Every way to await a step without writing `await` before it, and two that need not be."""
    task = asyncio.create_task(ctx.step.run("task", count, "task", 1))
    gathered = await asyncio.gather(ctx.step.run("a", count, "a", 2), ctx.step.run("b", count, "b", 3))
    timed = await asyncio.wait_for(ctx.step.run("timed", count, "timed", 4), 60)
    async with asyncio.TaskGroup() as group:
        grouped = group.create_task(ctx.step.run("grouped", count, "grouped", 5))
    dropped = asyncio.create_task(ctx.step.run("dropped", count, "dropped"))
    dropped.cancel()
    late = asyncio.create_task(ctx.step.run("too-late", count, "too-late"))
    return [await task, *gathered, timed, grouped.result()] + [6] * late.done()


async def test_a_step_that_is_awaited_by_somebody_else_is_awaited(make_process: MakeProcess) -> None:
    process = await make_process(gives_away)
    run = await process.ended(await process.start("gives-away"))

    assert (run["error"], run["output"]) == (None, [1, 2, 3, 4, 5])


@workflow(name="fails-anyway")
async def fails_anyway(ctx: Any, input: Any) -> Any:
    ctx.step.run("forgotten", count, "forgotten")
    raise Declined("of its own")


async def test_a_function_that_fails_fails_with_its_own_error(make_process: MakeProcess) -> None:
    process = await make_process(fails_anyway)
    run = await process.ended(await process.start("fails-anyway"))

    assert run["error"]["message"] == "of its own"


# -- threads that go on --------------------------------------------------------------------------------
class Overlap:
    """A plain function that hangs in its first call until it is let go."""

    def __init__(self) -> None:
        self.release = threading.Event()
        self.first_hangs = threading.Event()
        self.running: list[int] = []
        self.most = 0

    def __call__(self) -> str:
        calls["slow"] += 1
        first = calls["slow"] == 1
        self.running.append(1)
        self.most = max(self.most, len(self.running))
        try:
            if first:
                self.first_hangs.set()
                assert self.release.wait(timeout=30)
            return "first" if first else "second"
        finally:
            self.running.pop()


@workflow(name="hangs-once")
async def hangs_once(ctx: Any, input: Any) -> Any:
    retry = {"attempts": 2, "backoff": {"kind": "fixed", "base": "10ms", "jitter": 0}}
    return await ctx.step.run("slow", seen[0], retry=retry, timeout="50ms")


async def test_the_next_attempt_waits_for_a_thread_that_goes_on_after_its_timeout(
    make_process: MakeProcess, caplog: pytest.LogCaptureFixture
) -> None:
    slow = Overlap()
    seen.append(slow)
    process = await make_process(hangs_once)
    run_id = await process.start("hangs-once")
    await process.until(run_id, lambda run: f"step slow of run {run_id} waits for an earlier attempt" in caplog.text)

    assert ("NODE_DISPATCHED", "slow", "", 2) in await process.rows(run_id)
    assert calls["slow"] == 1, "the second attempt has begun, and has not been called"
    slow.release.set()

    run = await process.ended(run_id)
    assert (run["output"], calls["slow"], slow.most) == ("second", 2, 1)


@workflow(name="hangs-in-an-attempt", retry={"attempts": 2, "backoff": {"kind": "fixed", "base": "10ms", "jitter": 0}})
async def hangs_in_an_attempt(ctx: Any, input: Any) -> Any:
    return await ctx.step.run("slow", seen[0], retry={"attempts": 1}, timeout="50ms")


async def test_the_next_attempt_of_the_workflow_waits_for_it_too(
    make_process: MakeProcess, caplog: pytest.LogCaptureFixture
) -> None:
    slow = Overlap()
    seen.append(slow)
    process = await make_process(hangs_in_an_attempt)
    run_id = await process.start("hangs-in-an-attempt")
    await process.until(run_id, lambda run: f"run {run_id} waits for an earlier attempt" in caplog.text)
    assert ("NODE_DISPATCHED", "", "", 2) in await process.rows(run_id)
    slow.release.set()

    run = await process.ended(run_id)
    assert (run["output"], slow.most) == ("second", 1)


# -- values that cannot be kept ------------------------------------------------------------------------
@workflow(name="keeps-no-set")
async def keeps_no_set(ctx: Any, input: Any) -> Any:
    match input:
        case "step":
            await ctx.step.run("fetch", count, "fetch", "a value")
            await ctx.step.run("fetch", count, "fetch", {1, 2})
        case "large step":
            await ctx.step.run("fetch", count, "fetch", "x" * 2_000_000)
        case "function":
            return {1, 2}
        case "match":
            await ctx.step.wait_for_event("fetch", match={1, 2})
    return None


WHO = {
    "step": "step fetch#2 of run {}: a value of type set at /",
    "large step": "step fetch of run {}: the value has 2000002 bytes",
    "function": "the function of run {}: a value of type set at /",
    "match": "the function of run {}: step fetch: its match: a value of type set at /",
}


@pytest.mark.parametrize("what", WHO)
async def test_a_value_that_cannot_be_kept_is_told_with_step_and_run(make_process: MakeProcess, what: str) -> None:
    process = await make_process(keeps_no_set)
    run_id = await process.start("keeps-no-set", what)

    assert (await process.ended(run_id))["error"]["message"].startswith(WHO[what].format(run_id))


@workflow(name="keeps-busy")
async def keeps_busy(ctx: Any, input: Any) -> Any:
    branches = (ctx.step.run("hold", hold_until_stopped) for _ in range(10))
    await asyncio.gather(ctx.step.sleep("nap", "1h"), *branches)


async def hold_until_stopped() -> None:
    calls["held"] += 1
    await asyncio.Event().wait()


async def test_a_run_that_is_dropped_is_told_with_the_steps_under_way(
    make_process: MakeProcess, caplog: pytest.LogCaptureFixture
) -> None:
    process = await make_process(keeps_busy)
    run_id = await process.start("keeps-busy")
    await process.until(run_id, lambda run: calls["held"] == 10)

    process.services.engine.orchestrator.owned.drop(run_id, "its lease could not be extended")

    names = ", ".join(sorted(["hold", *(f"hold#{number}" for number in range(2, 11))])[:8])
    message = f"dropped run {run_id}: its lease could not be extended; under way: {names}, 2 more"
    assert message in caplog.messages

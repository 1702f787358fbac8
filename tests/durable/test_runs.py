"""Whole runs: their own retries, ends, limits, what they know, and who may start them."""

from __future__ import annotations

import asyncio
import gc
from collections import Counter
from datetime import datetime, timedelta
from typing import Any

import pytest

from anabranch.durable.definition import Workflow, workflow
from anabranch.durable.function_run import FunctionRun
from anabranch.durable.step_error import StepError
from anabranch.engine.rules.coded import coded_decide as decide
from anabranch.engine.rules.coded.coded_state import CodedState
from anabranch.errors import InvalidDefinition, NameTaken, WorkflowIsCoded
from anabranch.worker import Worker
from tests.durable.conftest import PATIENCE_S, TENANT, MakeProcess

calls: Counter[str] = Counter()
stopped: list[bool] = []
held: list[asyncio.Event] = []


@pytest.fixture(autouse=True)
def nothing_yet() -> None:
    calls.clear()
    stopped.clear()
    held[:] = [asyncio.Event()]


async def count(name: str, value: Any = None) -> Any:
    calls[name] += 1
    return value


async def fails_until(name: str, times: int) -> str:
    calls[name] += 1
    if calls[name] <= times:
        raise ValueError(f"no {calls[name]}")
    return "done"


QUICK = {"attempts": 3, "backoff": {"kind": "fixed", "base": "20ms", "jitter": 0}}


@workflow(name="tries-again", retry=QUICK)
async def tries_again(ctx: Any, input: Any) -> Any:
    await ctx.step.run("before", count, "before")
    await ctx.step.run("pay", fails_until, "pay", 2, retry={"attempts": 1})
    return ctx.attempt


async def test_the_retry_of_a_workflow_runs_only_failed_steps_again(make_process: MakeProcess) -> None:
    process = await make_process(tries_again)
    run_id = await process.start("tries-again")

    assert (await process.ended(run_id))["output"] == 3
    assert calls == {"before": 1, "pay": 3}
    assert [row for row in await process.rows(run_id) if row[1] == "pay"] == [
        ("NODE_FAILED", "pay", "", 1),
        ("NODE_FAILED", "pay", "@2", 1),
        ("NODE_COMPLETED", "pay", "@3", 1),
    ]


@workflow(name="takes-another-way", retry=QUICK)
async def takes_another_way(ctx: Any, input: Any) -> Any:
    try:
        await ctx.step.run("pay", fails_until, "pay", 1, retry={"attempts": 1})
    except StepError:
        await ctx.step.run("refund", count, "refund")
        raise
    return "paid"


async def test_a_later_attempt_may_take_another_way(make_process: MakeProcess) -> None:
    process = await make_process(takes_another_way)
    run = await process.ended(await process.start("takes-another-way"))

    assert (run["output"], calls) == ("paid", {"pay": 2, "refund": 1})


@workflow(name="waits-for-ever", deadline=None)
async def waits_for_ever(ctx: Any, input: Any) -> Any:
    async def hold() -> None:
        held[0].set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            stopped.append(bool(ctx.cancelled))
            held[0].set()
            raise

    await ctx.step.run("hold", hold)


async def test_a_cancelled_run_stops_its_step_and_tells_it(make_process: MakeProcess) -> None:
    process = await make_process(waits_for_ever)
    run_id = await process.start("waits-for-ever")
    await asyncio.wait_for(held[0].wait(), PATIENCE_S)
    held[0].clear()

    await process.services.workflows.cancel_run(run_id, tenant_id=TENANT, reason="enough")

    await asyncio.wait_for(held[0].wait(), PATIENCE_S)
    assert stopped == [True]
    run = await process.run_of(run_id)
    assert (run["status"], run["nodes"]) == ("CANCELLED", [])


@workflow(name="calls-for-ever")
async def calls_for_ever(ctx: Any, input: Any) -> Any:
    await ctx.step.invoke("child", "asks-for-ever")


@workflow(name="asks-for-ever")
async def asks_for_ever(ctx: Any, input: Any) -> Any:
    await ctx.step.wait_for_event("never")


async def test_the_end_of_a_run_is_the_end_of_what_it_invoked(make_process: MakeProcess) -> None:
    process = await make_process(calls_for_ever, asks_for_ever)
    run_id = await process.start("calls-for-ever")
    await process.waiting(run_id)
    (child,) = [run for run in await process.services.workflows.list_runs(tenant_id=TENANT, limit=9) if run["parentID"]]

    await process.services.workflows.cancel_run(run_id, tenant_id=TENANT, reason="enough")

    assert (await process.ended(child["instanceID"]))["status"] == "CANCELLED"


@workflow(name="due", deadline="1500ms")
async def due(ctx: Any, input: Any) -> Any:
    await ctx.step.sleep("nap", "1h")


async def test_the_deadline_of_the_definition_fails_the_run(make_process: MakeProcess) -> None:
    server = await make_process(works=False)
    worker = await make_process(due)
    run_id = await server.start("due")

    assert (await worker.ended(run_id))["error"]["code"] == "DEADLINE_EXCEEDED"


@workflow(name="asks-too-much")
async def asks_too_much(ctx: Any, input: Any) -> Any:
    for _ in range(6):
        await ctx.step.run("step", count, "step")


async def test_a_run_has_only_so_many_steps(make_process: MakeProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decide, "STEPS_MAX", 5)
    process = await make_process(asks_too_much)

    assert (await process.ended(await process.start("asks-too-much")))["error"]["code"] == "STEP_LIMIT"


# -- what stays the same -----------------------------------------------------------------------------
pictures: list[Any] = []


@workflow(name="remembers")
async def remembers(ctx: Any, input: Any) -> Any:
    picture = [ctx.run_id, ctx.now().isoformat(), ctx.random(), str(ctx.uuid4()), ctx.random()]
    await ctx.step.sleep("nap", "1100ms")
    picture.append(ctx.now().isoformat())
    pictures.append(picture)
    await ctx.step.sleep("another-nap", "1100ms")
    return picture


async def test_time_and_dice_are_the_same_on_replay(make_process: MakeProcess) -> None:
    pictures.clear()
    process = await make_process(remembers)
    run = await process.ended(await process.start("remembers"))

    assert pictures == [run["output"], run["output"]]
    assert run["output"][1] < run["output"][5]
    assert run["output"][2] != run["output"][4]


# -- who sees and starts them ------------------------------------------------------------------------
@workflow(name="greets", retention="3d")
async def greets(ctx: Any, input: Any) -> Any:
    return f"hello {input}"


async def test_a_server_without_the_code_lists_and_starts_it(make_process: MakeProcess) -> None:
    worker = await make_process(greets)
    server = await make_process(works=False)
    listed = await server.services.workflows.get_all_workflows(tenant_id="another", limit=9)

    started = await server.services.workflows.execute_workflow("greets", "you", tenant_id="another")

    assert [(each["name"], each["kind"], each["version"]) for each in listed] == [("greets", "coded", 1)]
    row = await worker.services.engine.store.get_instance(started.instance_id)
    assert row is not None and (row.head.tenant_id, row.head.retention_days) == ("another", 3)


DRAWN = {
    "name": "greets",
    "nodes": [{"id": "start", "type": "start"}, {"id": "end", "type": "end"}],
    "edges": [{"id": "e", "upstreamNodeID": "start", "downstreamNodeID": "end"}],
}


async def test_the_name_of_a_coded_workflow_is_taken_for_every_tenant(make_process: MakeProcess) -> None:
    process = await make_process(greets)

    with pytest.raises(NameTaken):
        await process.services.workflows.create_workflow(DRAWN, tenant_id="another")
    with pytest.raises(NameTaken):
        await process.services.workflows.save_workflow(DRAWN, tenant_id="another")
    with pytest.raises(WorkflowIsCoded):
        await process.services.workflows.update_workflow("greets", DRAWN, tenant_id="another")
    with pytest.raises(WorkflowIsCoded):
        await process.services.workflows.delete_workflow("greets", tenant_id="another")


async def test_who_had_the_name_first_keeps_it(make_process: MakeProcess) -> None:
    server = await make_process(works=False)
    drawn, _ = await server.services.workflows.create_workflow(DRAWN, tenant_id=TENANT)
    worker = await make_process(greets)
    coded = await worker.services.workflows.get_workflow_by_id("greets", tenant_id="another")

    mine = await worker.services.workflows.get_workflow_by_id("greets", tenant_id=TENANT)
    by_id = await worker.services.workflows.get_workflow_by_id(coded.workflow_id, tenant_id=TENANT)

    assert (mine.workflow_id, by_id.kind) == (drawn.workflow_id, "coded")


async def test_a_drawn_workflow_starts_a_coded_one(make_process: MakeProcess) -> None:
    process = await make_process(greets)
    document = {
        "name": "calls-greets",
        "nodes": [
            {"id": "start", "type": "start"},
            {"id": "call", "type": "workflow", "config": {"workflow": "greets", "input": "you"}, "outputVariable": "g"},
            {"id": "end", "type": "end", "config": {"outputParameters": {"g": "{{ctx.g}}"}}},
        ],
        "edges": [
            {"id": "e1", "upstreamNodeID": "start", "downstreamNodeID": "call"},
            {"id": "e2", "upstreamNodeID": "call", "downstreamNodeID": "end"},
        ],
    }
    await process.services.workflows.create_workflow(document, tenant_id=TENANT)

    assert (await process.ended(await process.start("calls-greets")))["output"] == {"g": "hello you"}


@pytest.mark.parametrize(
    "options",
    [
        {"name": "Upper"},
        {"name": "a", "version": 0},
        {"name": "a", "retry": {"tries": 3}},
        {"name": "a", "retention": "soon"},
        {"name": "a", "retention": "0d"},
        {"name": "a", "retention": timedelta()},
        {"name": "a", "deadline": 0},
        {"name": "a", "deadline": timedelta(days=-1)},
        {},
    ],
)
def test_a_declaration_that_makes_no_sense_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidDefinition):
        workflow(**options)


def test_a_function_that_is_declared_without_a_name_is_told_how_to() -> None:
    async def one(ctx: Any, input: Any) -> None: ...

    with pytest.raises(InvalidDefinition, match=r'write `@workflow\(name="…"\)`'):
        workflow(one)  # type: ignore[arg-type]


async def nothing() -> None: ...


async def input_alone(input: Any) -> None: ...


async def three(ctx: Any, input: Any, more: Any) -> None: ...


async def keyword_only(ctx: Any, *, input: Any) -> None: ...


class Shop:
    async def method(self, ctx: Any, input: Any) -> None: ...

    async def short_method(self, input: Any) -> None: ...

    @classmethod
    async def of_the_class(cls, ctx: Any, input: Any) -> None: ...


REFUSED: dict[str, tuple[Any, str]] = {
    "nothing": (nothing, r"nothing\(\) -> 'None' cannot be called with two arguments; write `async def nothing\("),
    "input alone": (input_alone, r"cannot be called with two arguments; write `async def input_alone\(ctx, input\)`"),
    "three": (three, "cannot be called with two arguments"),
    "keyword only": (keyword_only, "cannot be called with two arguments"),
    "method": (Shop.method, r"Shop.method\(self.* is a method; a workflow is a function"),
    "method with one argument": (Shop.short_method, "is a method"),
    "class method": (Shop.__dict__["of_the_class"], "is not an `async def"),
    "no coroutine": (len, "is not an `async def"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_a_worker_could_not_call_is_refused_where_it_is_declared(kind: str) -> None:
    function, message = REFUSED[kind]
    with pytest.raises(InvalidDefinition, match=message):
        workflow(name="cannot-be-called")(function)


def test_a_function_may_have_more_arguments_that_it_does_not_need() -> None:
    async def generous(ctx: Any, input: Any, *args: Any, more: int = 1, **others: Any) -> None: ...

    assert isinstance(workflow(name="generous")(generous), Workflow)


def test_a_worker_refuses_a_function_that_is_not_declared() -> None:
    async def one(ctx: Any, input: Any) -> None: ...

    with pytest.raises(InvalidDefinition, match=r"one at .* is not a coded workflow"):
        Worker("sqlite://", workflows=[one])  # type: ignore[list-item]


@workflow(name="kept-for-days", retention=timedelta(days=2, hours=1), deadline=timedelta(hours=1))
async def kept_for_days(ctx: Any, input: Any) -> Any:
    return None


async def test_retention_and_deadline_may_be_timedeltas(make_process: MakeProcess) -> None:
    worker = await make_process(kept_for_days)
    run = await worker.ended(await worker.start("kept-for-days"))

    begun, deadline = (datetime.fromisoformat(run[at]) for at in ("createdAt", "deadlineAt"))
    assert (run["retentionDays"], deadline - begun) == (3, timedelta(hours=1))


def test_a_version_belongs_to_one_function() -> None:
    async def one(ctx: Any, input: Any) -> None: ...

    async def two(ctx: Any, input: Any) -> None: ...

    assert isinstance(workflow(name="belongs")(one), Workflow)
    with pytest.raises(InvalidDefinition, match="declared by"):
        workflow(name="belongs")(two)


# -- what a sleeping run costs -----------------------------------------------------------------------
@workflow(name="sleeps-long")
async def sleeps_long(ctx: Any, input: Any) -> Any:
    await ctx.step.run("before", count, "before")
    await ctx.step.sleep("nap", "1h")


async def test_sleeping_runs_hold_no_slot_and_leave_nothing_in_memory(make_process: MakeProcess) -> None:
    earlier = _states_in_memory()  # what other tests have left behind; held here, so that no id comes twice
    process = await make_process(sleeps_long, concurrency=2)
    ids = [await process.start("sleeps-long") for _ in range(300)]

    for run_id in ids:
        await process.waiting(run_id)

    alive = [each for each in _states_in_memory() if not any(each is known for known in earlier)]
    assert (calls["before"], alive) == (300, [])


def _states_in_memory() -> list[Any]:
    gc.collect()
    return [each for each in gc.get_objects() if isinstance(each, CodedState | FunctionRun)]

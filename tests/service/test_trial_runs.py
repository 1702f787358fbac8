"""Test runs: a graph that is not saved takes the path of every run, and can be removed before its time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from anabranch.engine.engine_options import EngineOptions
from anabranch.engine.lifecycle import Engine
from anabranch.engine.ports import Store
from anabranch.engine.rules.events import Status
from anabranch.engine.rules.run_filter import RunFilter
from anabranch.engine.store.opening import open_store
from anabranch.errors import InvalidInput, InvalidWorkflow, NotFound, StoreUnavailable, TooManyPending
from anabranch.handlers import Services
from anabranch.handlers.registry import load_types
from anabranch.service import ChildRuns
from anabranch.testing.memory_store.memory_store import MemoryDatabase, MemoryStore
from tests.engine import nodes
from tests.engine.conftest import TENANT, Process, until
from tests.engine.drawing import drawn, node

# Of a process that is to be lost.
SHORT_LEASE_MS = 600

GREETS = drawn("greets", node("end", "end", config={"outputParameters": {"hello": "{{ctx.input.name}}"}}))

MakeProcess = Callable[..., Awaitable[Process]]


@pytest.fixture(autouse=True)
def fresh_nodes() -> None:
    """Forget what earlier tests counted, and their gates: events belong to one event loop."""
    nodes.calls.clear()
    nodes.stopped.clear()
    nodes.gates.clear()


@pytest.fixture(params=["memory", "sqlite", "postgresql"])
def open_one(request: pytest.FixtureRequest) -> Callable[[], Store]:
    """Opens one more connection to the test's database, as another process would."""
    if request.param == "memory":
        database = MemoryDatabase(now=lambda: time.time_ns() // 1_000_000)
        return lambda: MemoryStore(database)
    if request.param == "sqlite":
        url = str(request.getfixturevalue("sqlite_url"))
    else:
        url = str(request.getfixturevalue("postgres_url"))
    return lambda: open_store(url)


@pytest.fixture
async def make_process(open_one: Callable[[], Store]) -> AsyncIterator[MakeProcess]:
    """Starts one more engine on the test's database."""
    started: list[Process] = []

    async def make(*, pending_max: int = 1_000, **options: Any) -> Process:
        store = open_one()
        await store.start()
        children = ChildRuns()
        types = load_types(Services(children=children))
        process = Process(
            Engine(store=store, handlers=types, options=EngineOptions(**options)), children, pending_max=pending_max
        )
        started.append(process)
        await process.engine.start()
        return process

    yield make
    for process in started:
        await process.engine.stop()
        await process.engine.store.stop()


@pytest.fixture
async def process(make_process: MakeProcess) -> Process:
    return await make_process()


def hanging(gate: str) -> dict[str, Any]:
    return drawn("hanging", node("gate", "testGate", config={"gate": gate}), node("end", "end"))


def starts(child: str, *, wait: bool) -> dict[str, Any]:
    """Starts another workflow and, once that is under way, goes on or waits for it."""
    config = {"workflow": child, "input": {}, "wait": wait}
    return drawn("starts", node("call", "workflow", config=config), node("end", "end"))


async def start(process: Process, document: dict[str, Any], input_: Any = None) -> str:
    return await process.service.test_workflow({**document, "input": input_}, tenant_id=TENANT)


async def stop(process: Process, run_id: str) -> None:
    await process.service.stop_test_workflow(run_id, tenant_id=TENANT)


async def rows_left(process: Process) -> int:
    """How many runs there are, tests and others."""
    found = [
        await process.engine.store.list_instances(RunFilter(test=test), tenant_id=TENANT, limit=100)
        for test in (True, False)
    ]
    return len(found[0]) + len(found[1])


# -- a run like any other ---------------------------------------------------------------------------
async def test_an_unsaved_graph_runs_and_is_marked_as_a_test(process: Process) -> None:
    run_id = await start(process, GREETS, {"name": "Ada"})
    run = await process.ended(run_id)
    assert (run["status"], run["output"]) == ("COMPLETED", {"hello": "Ada"})
    assert (run["test"], run["workflowID"], run["name"], run["retentionDays"]) == (True, None, "greets", 1)
    assert run["note"] is None, "the definition is no note of a person"
    assert await process.service.get_all_workflows(tenant_id=TENANT, limit=10) == []
    assert await process.service.list_runs(tenant_id=TENANT, limit=10) == []


async def test_input_and_definition_are_the_first_rows_of_the_log(process: Process) -> None:
    run_id = await start(process, GREETS, {"name": "Ada"})
    log = await process.service.get_log(run_id, tenant_id=TENANT)
    assert [event["eventType"] for event in log[:2]] == ["INPUT_SET", "SYSTEM_SET"]
    assert log[0]["payload"] == {"input": {"name": "Ada"}}
    assert log[1]["payload"] == {"__workflowDefinition": GREETS}


async def test_a_graph_without_a_name_is_called_a_test(process: Process) -> None:
    document = {"nodes": GREETS["nodes"], "edges": GREETS["edges"]}
    run = await process.ended(await start(process, document, {"name": 1}))
    assert run["name"] == "test"
    titled = await process.ended(await start(process, {**document, "title": "Order triage"}, {"name": 1}))
    assert titled["name"] == "order-triage"


async def test_it_is_refused_for_what_would_be_refused_at_save(process: Process) -> None:
    with pytest.raises(InvalidWorkflow):
        await start(process, drawn("bad", node("a", "noSuchType")))
    with pytest.raises(InvalidWorkflow):
        await process.service.test_workflow([], tenant_id=TENANT)  # type: ignore[arg-type]
    schema = {"type": "object", "required": ["name"]}
    with pytest.raises(InvalidInput):
        await start(process, {**GREETS, "workflowOptions": {"inputSchema": schema}}, {})
    assert await rows_left(process) == 0


async def test_a_definition_may_be_larger_than_one_value_but_not_than_a_commit(process: Process) -> None:
    text = "x" * 60_000
    large = [node(f"n{number}", config={"values": {"text": text}}) for number in range(20)]
    run_id = await start(process, drawn("large", *large))
    assert (await process.ended(run_id))["status"] == "COMPLETED"

    too_large = [node(f"n{number}", config={"values": {"text": text}}) for number in range(80)]
    with pytest.raises(InvalidWorkflow, match="limit is 4194304"):
        await start(process, drawn("too-large", *too_large))


async def test_a_process_that_works_not_leaves_it_to_others(make_process: MakeProcess) -> None:
    api = await make_process(works=False)
    run_id = await start(api, GREETS, {"name": "Ada"})
    assert (await api.service.get_run_status(run_id, tenant_id=TENANT)).status is Status.PENDING
    await make_process()
    assert (await api.ended(run_id))["output"] == {"hello": "Ada"}


async def test_it_counts_as_a_run_that_waits_to_start(make_process: MakeProcess) -> None:
    api = await make_process(works=False, pending_max=1)
    await start(api, GREETS)
    with pytest.raises(TooManyPending):
        await start(api, GREETS)


async def test_another_engine_takes_it_up_with_the_definition_in_its_log(make_process: MakeProcess) -> None:
    lost = await make_process(lease_ms=SHORT_LEASE_MS)
    run_id = await start(lost, hanging("API"))
    await lost.log.saw("NODE_DISPATCHED", "gate")
    lost.crash()
    heir = await make_process()
    await heir.log.saw("INSTANCE_RECOVERED", instance_id=run_id)
    nodes.open_gate("API")
    assert (await heir.ended(run_id))["status"] == "COMPLETED"
    assert len(nodes.calls) == 1


async def test_a_parked_one_is_signalled_and_goes_on_elsewhere(make_process: MakeProcess) -> None:
    first = await make_process()
    run_id = await start(
        first, drawn("waits", node("wait", "waitForEvent", config={"event": "go"}), node("end", "end"))
    )
    await first.log.saw("NODE_WAITING", "wait")
    await first.engine.stop()
    heir = await make_process()
    assert await heir.service.send_signal(run_id, "go", None, tenant_id=TENANT)
    assert (await heir.ended(run_id))["status"] == "COMPLETED"


# -- stopping ---------------------------------------------------------------------------------------
async def test_a_stopped_test_leaves_nothing(process: Process) -> None:
    run_id = await start(process, hanging("never"))
    await process.log.saw("NODE_DISPATCHED", "gate")
    await stop(process, run_id)
    await until(lambda: nodes.stopped == ["gate"])
    assert not process.engine.orchestrator.owns(run_id)
    assert await process.engine.store.read_log(run_id) == []
    assert await rows_left(process) == 0
    with pytest.raises(NotFound):
        await stop(process, run_id)


async def test_an_ended_test_is_removed_too(process: Process) -> None:
    run_id = await start(process, GREETS, {"name": "Ada"})
    await process.ended(run_id)
    await stop(process, run_id)
    assert await rows_left(process) == 0


async def test_a_test_held_elsewhere_is_stopped_and_its_worker_writes_nothing_more(make_process: MakeProcess) -> None:
    owner, other = await make_process(), await make_process(works=False)
    run_id = await start(owner, hanging("API"))
    await owner.log.saw("NODE_DISPATCHED", "gate")
    await stop(other, run_id)
    nodes.open_gate("API")  # the handler answers, for a run that is gone
    await until(lambda: not owner.engine.orchestrator.owns(run_id))
    assert await rows_left(other) == 0
    assert await other.engine.store.read_log(run_id) == []


async def test_a_crash_between_cancel_and_removal_is_made_good_by_stopping_again(make_process: MakeProcess) -> None:
    owner, other = await make_process(), await make_process(works=False)
    run_id = await start(owner, hanging("never"))
    removes = owner.engine.store.delete_test_instance

    async def gone(**_: Any) -> None:
        raise StoreUnavailable("this process is dead")

    owner.engine.store.delete_test_instance = gone  # type: ignore[method-assign]
    with pytest.raises(StoreUnavailable):
        await stop(owner, run_id)
    assert (await other.service.get_run_status(run_id, tenant_id=TENANT)).status is Status.CANCELLED
    await stop(other, run_id)
    assert await rows_left(other) == 0
    owner.engine.store.delete_test_instance = removes  # type: ignore[method-assign]


@pytest.mark.parametrize("wait", [True, False])
async def test_the_runs_that_it_started_go_with_it(process: Process, wait: bool) -> None:
    for document in (
        {**hanging("never"), "name": "grandchild"},
        {**starts("grandchild", wait=wait), "name": "child"},
    ):
        await process.service.save_workflow(document, tenant_id=TENANT)
    run_id = await start(process, starts("child", wait=wait))
    await process.log.saw("NODE_DISPATCHED", "gate")
    found = await process.engine.store.descendants(run_id, limit=10)
    assert [(row.head.test, row.head.retention_days) for row in found] == [(True, 1), (True, 1)]

    child = next(row for row in found if row.head.parent_id == run_id)
    with pytest.raises(NotFound):
        await stop(process, child.head.instance_id)  # not a test that anybody started
    await stop(process, run_id)
    assert await rows_left(process) == 0


async def test_runs_of_another_family_stay(process: Process) -> None:
    kept = [await start(process, GREETS, {"name": 1}), await process.run(GREETS, {"name": 1})]
    for run_id in kept:
        await process.ended(run_id)
    await stop(process, await start(process, hanging("never")))
    assert await rows_left(process) == 2


async def test_no_other_run_is_stopped(process: Process) -> None:
    run_id = await process.run(hanging("API"))
    tested = await start(process, hanging("API"))
    for absent, tenant_id in (
        (run_id, TENANT),
        (tested, "other"),
        ("00000000-0000-7000-8000-000000000000", TENANT),
        ("no id", TENANT),
    ):
        with pytest.raises(NotFound):
            await process.service.stop_test_workflow(absent, tenant_id=tenant_id)
    nodes.open_gate("API")
    assert [(await process.ended(each))["status"] for each in (run_id, tested)] == ["COMPLETED", "COMPLETED"]


async def test_two_who_stop_it_at_once_leave_nothing_either(make_process: MakeProcess) -> None:
    owner, other = await make_process(), await make_process(works=False)
    run_id = await start(owner, hanging("never"))
    answers = await asyncio.gather(stop(owner, run_id), stop(other, run_id), return_exceptions=True)
    assert [answer for answer in answers if answer is not None and not isinstance(answer, NotFound)] == []
    assert await rows_left(other) == 0


# -- widgets ----------------------------------------------------------------------------------------
async def test_a_widget_shows_the_output_so_far_and_at_the_end(process: Process) -> None:
    document = drawn(
        "two-ends",
        node("first", "end", config={"outputParameters": {"rows": [{"n": 1}]}}),
        node("gate", "testGate", config={"gate": "API"}),
        node("second", "end", config={"outputParameters": {"total": 7}}),
        edges=[("start", "first"), ("start", "gate"), ("gate", "second")],
    )
    run_id = await start(process, document)
    await process.log.saw("NODE_COMPLETED", "first")

    async def widget(kind: str, path: str) -> tuple[str, bool, Any]:
        answer = await process.service.get_run_status_for_widget(run_id, kind, {"path": path}, tenant_id=TENANT)
        return answer["status"], answer["ready"], answer["data"]

    status, ready, table = await widget("table", "rows")
    assert (status, ready, table["rows"]) == ("RUNNING", True, [{"n": 1}])
    assert await widget("json", "total") == ("RUNNING", False, None)
    nodes.open_gate("API")
    await process.ended(run_id)
    assert await widget("json", "total") == ("COMPLETED", True, 7)
    assert (await widget("table", "rows"))[2] == table
    with pytest.raises(NotFound):
        await process.service.get_run_status_for_widget(run_id, "json", None, tenant_id="other")


# -- nodes that are not executed ----------------------------------------------------------------------
async def test_a_disabled_node_is_passed_on_every_store(process: Process) -> None:
    document = drawn(
        "passes",
        node("a", "set", config={"values": {"v": 1}}, outputVariable="a"),
        {**node("off", "testGate", config={"gate": "never"}, outputVariable="off"), "disabled": True},
        node("end", "end", config={"outputParameters": {"a": "{{ctx.a.v}}", "off": "{{ctx.off}}"}}),
    )
    run_id = await process.run(document)
    assert (await process.ended(run_id))["output"] == {"a": 1, "off": None}
    steps = {each["nodeID"]: each for each in await process.service.get_steps(run_id, tenant_id=TENANT)}
    assert (steps["off"]["status"], steps["off"]["handles"], steps["off"]["output"]) == ("success", ["default"], None)
    assert nodes.calls == {}, "its handler was not called"


async def test_a_pinned_node_is_marked_and_not_executed_on_every_store(process: Process) -> None:
    document = drawn("pins", node("gate", "testGate", config={"gate": "never"}), node("end", "end"))
    run_id = await process.service.test_workflow({**document, "pins": {"gate": {"output": 5}}}, tenant_id=TENANT)
    run = await process.ended(run_id)
    assert run["status"] == "COMPLETED"
    for listed in (run["nodes"], await process.service.get_steps(run_id, tenant_id=TENANT)):
        assert [each["nodeID"] for each in listed if each.get("pinned")] == ["gate"]
    assert nodes.calls == {}


async def test_a_run_is_taken_over_with_its_pins_and_its_last_node(make_process: MakeProcess) -> None:
    serves = await make_process(works=False)
    document = drawn(
        "taken", node("gate", "testGate", config={"gate": "never"}), node("b", "set", config={"values": {}})
    )
    request = {**document, "pins": {"gate": {"output": 5}}, "until": "gate"}
    run_id = await serves.service.test_workflow(request, tenant_id=TENANT)
    await make_process()
    run = await serves.ended(run_id)
    assert [(each["nodeID"], each.get("pinned")) for each in run["nodes"]] == [("start", None), ("gate", True)]

"""Runs that are started by nodes of other runs: once each, awaited, and never left behind."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from anabranch.engine.ownership.owned_instances import OwnedInstance, StartResult
from anabranch.engine.rules.shared.child_ids import child_id
from anabranch.engine.rules.shared.run_state import InstanceHead
from anabranch.engine.rules.stimuli import Started
from anabranch.engine.rules.values import Payload
from anabranch.errors import StoreUnavailable
from anabranch.service.runs.child_runs import DEPTH_MAX
from tests.engine import nodes
from tests.engine.conftest import TENANT, MakeProcess, Process, turns_until, until
from tests.engine.drawing import QUICK_RETRY, drawn, node

# Of a worker that is to be lost: its leases are ended by hand, or by time where a commit is still on its way.
LEASE_MS = 6_000
# Longer than any test waits: what comes to pass did not come with the extension of a lease.
ENDLESS_LEASE_MS = 3_600_000


def calls(
    name: str, child: str, *, wait: Any = True, input_: Any = None, version: Any = None, **fields: Any
) -> dict[str, Any]:
    """A workflow with one node, `call`, that starts `child`; its output is the run's."""
    config = {"workflow": child, "wait": wait}
    if input_ is not None:
        config["input"] = input_
    if version is not None:
        config["version"] = version
    return drawn(
        name,
        node("call", "workflow", config=config, outputVariable="got", **fields),
        node("end", "end", config={"outputParameters": {"got": "{{ctx.got}}"}}),
    )


def doubles(name: str = "doubles") -> dict[str, Any]:
    """A child that answers with twice its input's `n`."""
    return drawn(name, node("end", "end", config={"outputParameters": {"twice": "{{ctx.input.n * 2}}"}}))


def gated(name: str, gate: str) -> dict[str, Any]:
    """A child that waits until the test opens a gate."""
    return drawn(
        name,
        node("gate", "testGate", config={"gate": gate}),
        node("end", "end", config={"outputParameters": {"passed": gate}}),
    )


def asks(name: str, event: str) -> dict[str, Any]:
    """A child that waits for a signal, and is parked meanwhile."""
    return drawn(
        name,
        node("ask", "waitForEvent", config={"event": event}, outputVariable="answer"),
        node("end", "end", config={"outputParameters": {"answer": "{{ctx.answer}}"}}),
    )


async def save(process: Process, *documents: dict[str, Any]) -> None:
    for document in documents:
        await process.service.save_workflow(document, tenant_id=TENANT)


async def types_of(process: Process, run_id: str, node_id: str = "") -> list[str]:
    """The types of a run's events about one node."""
    log = await process.service.get_log(run_id, tenant_id=TENANT)
    return [event["eventType"] for event in log if event["nodeID"] == node_id]


async def children_of(process: Process, run_id: str) -> list[dict[str, Any]]:
    runs = await process.service.list_runs(tenant_id=TENANT, limit=100)
    return [run for run in runs if run["parentID"] == run_id]


# -- the course of a child ------------------------------------------------------------------------
async def test_the_output_of_a_child_is_the_output_of_its_node(process: Process) -> None:
    await save(process, doubles())
    run_id = await process.run(calls("calls", "doubles", input_={"n": "{{ctx.input.n}}"}), {"n": 21})

    run = await process.ended(run_id)

    assert (run["status"], run["output"]) == ("COMPLETED", {"got": {"twice": 42}})
    (child,) = await children_of(process, run_id)
    assert child["instanceID"] == child_id(run_id, "call", "")
    log = await process.service.get_log(run_id, tenant_id=TENANT)
    assert [e["payload"] for e in log if e["eventType"] == "NODE_WAITING"] == [{"childID": child["instanceID"]}]


async def test_a_child_that_is_not_awaited_lives_on_by_itself(process: Process) -> None:
    await save(process, asks("asks", "later"))
    run_id = await process.run(calls("calls", "asks", wait=False))

    run = await process.ended(run_id)

    (child,) = await children_of(process, run_id)
    assert (run["status"], run["output"]) == ("COMPLETED", {"got": {"instanceID": child["instanceID"]}})
    assert child["status"] in ("RUNNING", "WAITING")
    assert await process.service.send_signal(child["instanceID"], "later", "now", tenant_id=TENANT)
    assert (await process.ended(child["instanceID"]))["output"] == {"answer": "now"}


async def test_a_child_that_fails_fails_its_node_for_good(process: Process) -> None:
    broken = drawn("broken", node("break", "testFails", config={"times": 9, "final": True, "message": "no luck"}))
    await save(process, broken)
    run_id = await process.run(calls("calls", "broken", retry=QUICK_RETRY))

    run = await process.ended(run_id)

    child = child_id(run_id, "call", "")
    assert (run["status"], run["error"]["code"], run["error"]["type"]) == ("FAILED", "CHILD_FAILED", "ChildFailed")
    assert run["error"]["message"] == f"the child run {child} failed with HANDLER_ERROR: no luck"
    assert (await types_of(process, run_id, "call")).count("NODE_DISPATCHED") == 1, (
        "another attempt would change nothing"
    )


async def test_a_child_that_is_cancelled_fails_its_node(process: Process) -> None:
    await save(process, asks("asks", "never"))
    document = calls("calls", "asks", errorHandling="continue")
    document["edges"][1]["sourceHandle"] = "error"
    run_id = await process.run(document)
    await process.log.saw("NODE_WAITING", "ask")

    await process.service.cancel_run(child_id(run_id, "call", ""), tenant_id=TENANT, reason="not needed")
    run = await process.ended(run_id)

    assert run["status"] == "COMPLETED"
    error = run["output"]["got"]["error"]
    assert (error["code"], error["message"].endswith("was cancelled: not needed")) == ("CHILD_CANCELLED", True)


async def test_the_newest_version_is_taken_unless_one_is_named(process: Process) -> None:
    for number in (1, 2):
        await save(process, drawn("child", node("end", "end", config={"outputParameters": {"version": number}})))
    newest = await process.ended(await process.run(calls("newest", "child")))
    named = await process.ended(await process.run(calls("named", "child", version=1)))

    assert [run["output"]["got"] for run in (newest, named)] == [{"version": 2}, {"version": 1}]


@pytest.mark.parametrize(
    ("document", "code"),
    [
        (calls("calls", "nowhere"), "NOT_FOUND"),
        (calls("calls", "picky", version=7), "NOT_FOUND"),
        (calls("calls", "picky", input_={"n": "text"}), "INVALID_INPUT"),
        (calls("calls", "{{ctx.input}}"), "NODE_CONFIG_INVALID"),
    ],
)
async def test_what_cannot_be_started_fails_its_node_at_once(
    process: Process, document: dict[str, Any], code: str
) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    await save(process, drawn("picky", node("work"), inputSchema=schema))

    run_id = await process.run(document)
    run = await process.ended(run_id)

    assert (run["status"], run["error"]["code"]) == ("FAILED", code)
    assert (await types_of(process, run_id, "call")).count("NODE_DISPATCHED") == 1


async def test_children_may_have_children(process: Process) -> None:
    await save(process, doubles(), calls("middle", "doubles", input_={"n": "{{ctx.input.n}}"}))
    run_id = await process.run(calls("top", "middle", input_={"n": 4}))

    run = await process.ended(run_id)

    assert run["output"] == {"got": {"got": {"twice": 8}}}


async def test_a_workflow_that_starts_itself_ends_at_the_limit_of_depth(make_process: MakeProcess) -> None:
    process = await make_process(hinted=True)
    run_id = await process.run(calls("endless", "endless"))

    run = await process.ended(run_id)

    runs = await process.service.list_runs(tenant_id=TENANT, limit=100)
    assert len(runs) == 1 + DEPTH_MAX == 17, "the root, and 16 below it"
    assert {each["status"] for each in runs} == {"FAILED"}
    assert run["error"]["message"].count("CHILD_FAILED") == DEPTH_MAX - 1
    assert "DEPTH_LIMIT" in run["error"]["message"]


async def test_a_loop_has_a_child_for_each_item(process: Process) -> None:
    await save(process, doubles())
    document = drawn(
        "fan",
        node("each", "loop", config={"source": "{{ctx.input}}", "concurrency": 7}, outputVariable="all"),
        node("call", "workflow", config={"workflow": "doubles", "input": {"n": "{{ctx.item}}"}}),
        node("end", "end", config={"outputParameters": {"all": "{{ctx.all}}"}}),
        edges=[("start", "each"), ("each", "call", "loop"), ("each", "end", "done")],
    )
    run_id = await process.run(document, list(range(20)))

    run = await process.ended(run_id)

    assert run["output"] == {"all": [{"twice": 2 * n} for n in range(20)]}
    assert len(await children_of(process, run_id)) == 20


# -- other processes --------------------------------------------------------------------------------
async def test_a_parent_that_nobody_holds_is_woken_by_its_child(make_process: MakeProcess) -> None:
    owner = await make_process()
    await save(owner, asks("asks", "go"))
    run_id = await owner.run(calls("calls", "asks"))
    child = child_id(run_id, "call", "")
    await until(lambda: not owner.engine.orchestrator.owns(run_id))
    row = await owner.service.get_run_status(run_id, tenant_id=TENANT)
    await owner.engine.stop()

    heir = await make_process()
    await heir.service.send_signal(child, "go", 1, tenant_id=TENANT)
    run = await heir.ended(run_id)

    assert (row.status.value, row.worker_id, row.available_at) == ("WAITING", None, None), "it waits without a worker"
    assert (run["status"], run["output"]) == ("COMPLETED", {"got": {"answer": 1}})


async def test_a_parent_whose_worker_is_lost_gets_the_end_that_it_missed(make_process: MakeProcess) -> None:
    other = await make_process(held_max=0)
    lost = await make_process(lease_ms=LEASE_MS)
    await save(lost, asks("asks", "go"))
    # A gate keeps the parent in the memory of the worker that is lost with it.
    document = calls("calls", "asks")
    document["nodes"].append(node("gate", "testGate", config={"gate": "API"}))
    document["edges"].append({"upstreamNodeID": "start", "downstreamNodeID": "gate"})
    run_id = await lost.run(document)
    child = child_id(run_id, "call", "")
    await lost.log.saw("NODE_WAITING", "call")
    await until(lambda: not lost.engine.orchestrator.owns(child))
    lost.crash()
    heir = await make_process()
    await heir.ends_leases_of(lost)
    await other.service.send_signal(child, "go", 1, tenant_id=TENANT)
    nodes.open_gate("API")

    run = await heir.ended(run_id)

    assert (run["status"], run["output"]) == ("COMPLETED", {"got": {"answer": 1}})
    assert len(await children_of(heir, run_id)) == 1


async def test_a_child_that_was_born_before_a_crash_is_not_born_again(make_process: MakeProcess) -> None:
    lost = await make_process(lease_ms=LEASE_MS)
    await save(lost, gated("gated", "API"))
    await save(lost, calls("calls", "gated"))
    commit, crashed = lost.engine.store.commit, asyncio.Event()

    async def lost_before_the_wait(transitions: Any, **how: Any) -> Any:
        """The worker is lost after the creation of the child, with the parent's NODE_WAITING on its lips."""
        if any(event.type == "NODE_WAITING" for transition in transitions for event in transition.events):
            lost.crash()
            crashed.set()
            raise StoreUnavailable("this process is dead")
        return await commit(transitions, **how)

    lost.engine.store.commit = lost_before_the_wait  # type: ignore[method-assign]
    run_id = await lost.run(calls("calls", "gated"))
    await crashed.wait()
    heir = await make_process()
    await heir.ends_leases_of(lost)
    await heir.log.saw("NODE_WAITING", "call", instance_id=run_id)
    nodes.open_gate("API")

    run = await heir.ended(run_id)

    assert run["output"] == {"got": {"passed": "API"}}
    assert len(await children_of(heir, run_id)) == 1
    assert (await types_of(heir, run_id, "call")).count("NODE_DISPATCHED") == 1


async def create_again(process: Process, child: InstanceHead) -> StartResult:
    """Ask for a child once more, as its parent's node does after this process has lost the parent and adopted it."""
    now = process.engine.clock.now()
    plan = await process.engine.plans.plan_of(child)
    later = replace(child, created_at=now, available_at=now)
    return await process.engine.orchestrator.create_run(later, plan, Started(Payload.of({})))


class SlowCreation:
    """A child whose creation is on its way to the store until `goes_on` is set."""

    def __init__(self, process: Process) -> None:
        self.goes_on = asyncio.Event()
        self.creations: list[InstanceHead] = []
        self._process = process
        self._commit = process.engine.store.commit
        process.engine.store.commit = self._slow  # type: ignore[method-assign]

    async def begin(self) -> OwnedInstance:
        """Start a parent; returns the child once it is on its way."""
        # The node of the parent, which gets the first answer, tries no more in this test.
        late = {"maxAttempts": 2, "backoff": {"kind": "fixed", "base": "1h"}}
        await self._process.run(calls("calls", "gated", retry=late))
        await until(lambda: self.creations)
        holder = self.held()
        assert holder is not None
        return holder

    def held(self) -> OwnedInstance | None:
        """The child as this process owns it."""
        return self._process.engine.orchestrator.owned.get(self.creations[0].instance_id)

    async def _slow(self, transitions: Any, **how: Any) -> Any:
        born = [each.new_run for each in transitions if each.new_run is not None and each.new_run.parent_id is not None]
        self.creations.extend(born)
        if born:
            await self.goes_on.wait()
        return await self._commit(transitions, **how)


async def test_a_child_that_is_asked_for_again_while_it_is_being_stored_is_created_once(process: Process) -> None:
    await save(process, gated("gated", "once"))
    slow = SlowCreation(process)
    holder = await slow.begin()
    first_answer = holder.created
    assert first_answer is not None
    again = asyncio.create_task(create_again(process, slow.creations[0]))
    await until(first_answer.done)
    slow.goes_on.set()

    assert (await again).created
    assert slow.held() is holder
    nodes.open_gate("once")
    assert (await process.ended(holder.instance_id))["output"] == {"passed": "once"}
    assert len(slow.creations) == 1
    assert list(nodes.calls.values()) == [1]


async def test_who_has_lost_patience_with_a_creation_does_not_end_it_for_who_asks_next(process: Process) -> None:
    await save(process, gated("gated", "patient"))
    slow = SlowCreation(process)
    holder = await slow.begin()
    assert holder.created is not None
    holder.created.set_exception(TimeoutError())
    again = create_again(process, slow.creations[0])
    again.send(None)  # it asks before the one without patience hears of it
    await turns_until(lambda: nodes_failed(process))

    assert slow.held() is holder
    slow.goes_on.set()
    await until(lambda: nodes.calls)
    nodes.open_gate("patient")
    assert (await process.ended(holder.instance_id))["output"] == {"passed": "patient"}
    again.close()


def nodes_failed(process: Process) -> bool:
    """Whether the attempt of a node has failed."""
    return any(event.type == "NODE_ATTEMPT_FAILED" for _, event in process.log.events)


async def test_a_child_that_executes_goes_on_when_it_is_asked_for_again(process: Process) -> None:
    await save(process, gated("gated", "goes on"))
    run_id = await process.run(calls("calls", "gated"))
    await until(lambda: nodes.calls)
    child = process.engine.orchestrator.head_of(child_id(run_id, "call", ""))
    assert child is not None

    again = await create_again(process, child)

    assert (again.instance_id, again.created) == (child.instance_id, False)
    nodes.open_gate("goes on")
    assert (await process.ended(run_id))["output"] == {"got": {"passed": "goes on"}}
    assert nodes.stopped == []
    assert list(nodes.calls.values()) == [1]


# -- nobody waits any more --------------------------------------------------------------------------
async def test_cancelling_a_parent_from_elsewhere_cancels_all_below_it(make_process: MakeProcess) -> None:
    owner = await make_process()
    other = await make_process(works=False)
    await save(owner, gated("gated", "never"), calls("middle", "gated"))
    run_id = await owner.run(calls("top", "middle"))
    middle = child_id(run_id, "call", "")
    lowest = child_id(middle, "call", "")
    await owner.log.saw("NODE_DISPATCHED", "gate", instance_id=lowest)

    await other.service.cancel_run(run_id, tenant_id=TENANT, reason="enough")
    rows = [await other.service.get_run(each, tenant_id=TENANT) for each in (run_id, middle, lowest)]

    assert [row["status"] for row in rows] == ["CANCELLED"] * 3, "all of them before the cancel is answered"
    assert rows[2]["note"] == f"its parent, run {middle}, does not wait for it any more"
    await until(lambda: nodes.stopped == ["gate"])


async def test_a_parent_that_fails_cancels_its_child_and_stops_its_handlers(make_process: MakeProcess) -> None:
    process = await make_process(lease_ms=ENDLESS_LEASE_MS)
    await save(process, gated("gated", "never"))
    document = drawn(
        "fails",
        node("call", "workflow", config={"workflow": "gated"}),
        node("wait", "waitForEvent", config={"event": "break"}),
        node("break", "testFails", config={"times": 9, "final": True}),
        edges=[("start", "call"), ("start", "wait"), ("wait", "break")],
    )
    run_id = await process.run(document)
    child = child_id(run_id, "call", "")
    await process.log.saw("NODE_DISPATCHED", "gate", instance_id=child)
    await until(lambda: nodes.calls)
    await process.service.send_signal(run_id, "break", None, tenant_id=TENANT)

    run = await process.ended(run_id)

    assert run["status"] == "FAILED"
    assert (await process.service.get_run_status(child, tenant_id=TENANT)).status.value == "CANCELLED"
    await until(lambda: nodes.stopped == ["gate"])
    assert not process.engine.orchestrator.owns(child)


@pytest.mark.parametrize("how", ["terminate", "iteration"])
async def test_children_of_skipped_activations_are_cancelled(process: Process, how: str) -> None:
    await save(process, asks("asks", "never"))
    call = node("call", "workflow", config={"workflow": "asks"})
    wait = node("wait", "waitForEvent", config={"event": "now"})
    if how == "terminate":
        stop = node("stop", "end", config={"terminate": True})
        document = drawn(how, call, wait, stop, edges=[("start", "call"), ("start", "wait"), ("wait", "stop")])
    else:
        each = node("each", "loop", config={"source": "{{ctx.input}}", "concurrency": 2, "onItemError": "skip"})
        broken = node("broken", "testFails", config={"times": 9, "final": True})
        edges = [("start", "each"), ("each", "call", "loop"), ("each", "wait", "loop"), ("wait", "broken")]
        document = drawn(how, each, call, wait, broken, edges=edges)
    run_id = await process.run(document, [1, 2])
    count = 1 if how == "terminate" else 2
    await process.log.saw("NODE_WAITING", "ask", count=count)
    for _ in range(count):
        await process.service.send_signal(run_id, "now", None, tenant_id=TENANT)

    run = await process.ended(run_id)

    assert run["status"] == "COMPLETED"
    children = await children_of(process, run_id)
    assert [child["status"] for child in children] == ["CANCELLED"] * count


async def test_a_deadline_of_a_parent_ends_its_children(process: Process) -> None:
    await save(process, asks("asks", "never"))
    run_id = await process.run({**calls("calls", "asks"), "workflowOptions": {"deadline": "700ms"}})

    run = await process.ended(run_id)

    assert (run["status"], run["error"]["code"]) == ("FAILED", "DEADLINE_EXCEEDED")
    assert [child["status"] for child in await children_of(process, run_id)] == ["CANCELLED"]

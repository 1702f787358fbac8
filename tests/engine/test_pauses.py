"""Paused workflows and tenants: owners release runs, starts wait, and everything continues on resume."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from anabranch.engine.rules.events import Status
from anabranch.engine.rules.run_filter import RunFilter
from tests.engine import nodes
from tests.engine.conftest import TENANT, MakeProcess, Process, until
from tests.engine.drawing import drawn, node
from tests.engine.elsewhere import NEVER_MS


async def pause(process: Process, workflow: str | None) -> None:
    if workflow is None:
        await process.service.pause_tenant(tenant_id=TENANT, by="Ada")
    else:
        await process.service.pause_workflow(workflow, tenant_id=TENANT, by="Ada")


async def resume(process: Process, workflow: str | None) -> None:
    if workflow is None:
        await process.service.resume_tenant(tenant_id=TENANT)
    else:
        await process.service.resume_workflow(workflow, tenant_id=TENANT)


async def status_of(process: Process, instance_id: str) -> tuple[str, Any]:
    run = await process.service.get_run(instance_id, tenant_id=TENANT)
    return run["status"], run["pausedBy"] and (run["pausedBy"]["kind"], run["pausedBy"]["by"])


async def types_of(process: Process, instance_id: str) -> list[str]:
    return [str(event.type) for event in await process.service.get_events(instance_id, tenant_id=TENANT)]


@pytest.mark.parametrize("paused", ["gated", None], ids=["workflow", "tenant"])
async def test_what_is_under_way_ends_and_is_recorded_and_nothing_else_begins_until_the_resume(
    make_process: MakeProcess, paused: str | None
) -> None:
    owner, other = await make_process(), await make_process(works=False)
    graph = drawn("gated", node("first", "testGate", config={"gate": "go"}), node("second"), node("third"))
    instance_id = await owner.run(graph)
    await until(lambda: nodes.calls)
    await pause(other, paused)
    await until(lambda: all(each.state.is_paused for each in owner.engine.orchestrator.owned.all()))
    nodes.open_gate("go")
    await until(lambda: not owner.engine.orchestrator.owned.ids)
    events = await owner.service.get_events(instance_id, tenant_id=TENANT)
    assert ("NODE_COMPLETED", "first") in [(event.type, event.node_id) for event in events]
    assert not any(event.node_id == "third" for event in events)
    assert await status_of(owner, instance_id) == ("RUNNING", ("workflow" if paused else "tenant", "Ada"))

    await resume(other, paused)
    assert (await owner.ended(instance_id))["status"] == "COMPLETED"
    assert await status_of(owner, instance_id) == ("COMPLETED", None)


async def test_starts_of_a_paused_workflow_stay_pending_and_others_run(process: Process) -> None:
    saved, _ = await process.service.save_workflow(drawn("slow", node("a")), tenant_id=TENANT)
    await pause(process, "slow")
    started = await process.service.execute_workflow("slow", None, tenant_id=TENANT)
    assert started.status is Status.PENDING
    assert (await process.ended(await process.run(drawn("quick", node("a")))))["status"] == "COMPLETED"
    assert await types_of(process, started.instance_id) == ["INPUT_SET"]
    assert await status_of(process, started.instance_id) == ("PENDING", ("workflow", "Ada"))
    await resume(process, saved.workflow_id)
    assert (await process.ended(started.instance_id))["status"] == "COMPLETED"


async def test_a_start_that_meets_the_pause_is_nobodys_and_goes_on_after_the_resume(
    make_process: MakeProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = await make_process(poll_ms=NEVER_MS)  # it would be claimed again: the store knows of no pause
    orchestrator = process.engine.orchestrator
    add = orchestrator.owned.add

    def add_and_hear_of_a_pause(owned: Any) -> None:
        add(owned)
        orchestrator.apply_pauses(lambda head: True)

    monkeypatch.setattr(orchestrator.owned, "add", add_and_hear_of_a_pause)
    instance_id = await process.run(drawn("met", node("a")))
    monkeypatch.undo()
    row = await process.service.get_run_status(instance_id, tenant_id=TENANT)
    assert (row.worker_id, await types_of(process, instance_id)) == (None, ["INPUT_SET", "NODE_DISPATCHED"])

    orchestrator.apply_pauses(lambda head: False)
    process.engine.claimer.soon()
    assert (await process.ended(instance_id))["status"] == "COMPLETED"


async def test_a_timer_fires_and_a_signal_is_served_only_after_the_resume(make_process: MakeProcess) -> None:
    owner, other = await make_process(), await make_process()
    graph = drawn("naps", node("nap", "delay", config={"duration": "30ms"}), node("w", "waitForEvent",
                  config={"event": "paid"}))  # fmt: skip
    await owner.service.save_workflow(graph, tenant_id=TENANT)
    started = await owner.service.execute_workflow("naps", None, tenant_id=TENANT)
    await owner.log.saw("NODE_WAITING", "w", instance_id=started.instance_id)
    await pause(other, "naps")
    await until(lambda: not owner.engine.orchestrator.owned.ids)
    before = await types_of(owner, started.instance_id)
    assert await other.service.send_signal(started.instance_id, "paid", 1, tenant_id=TENANT) is True
    await asyncio.gather(owner.engine.claimer.claim_once(), other.engine.claimer.claim_once())
    assert await types_of(owner, started.instance_id) == [*before, "SIGNAL_RECEIVED"]
    await resume(other, "naps")
    assert (await owner.ended(started.instance_id))["status"] == "COMPLETED"


async def test_the_deadline_of_a_paused_run_counts(process: Process) -> None:
    graph = drawn("late", node("w", "waitForEvent", config={"event": "paid"}), deadline="300ms")
    await process.service.save_workflow(graph, tenant_id=TENANT)
    await pause(process, "late")
    started = await process.service.execute_workflow("late", None, tenant_id=TENANT)
    ended = await process.ended(started.instance_id)
    assert (ended["status"], ended["error"]["code"]) == ("FAILED", "DEADLINE_EXCEEDED")
    assert "NODE_DISPATCHED" not in await types_of(process, started.instance_id)


async def test_a_paused_run_may_be_cancelled(process: Process) -> None:
    await process.service.save_workflow(drawn("late", node("a")), tenant_id=TENANT)
    await pause(process, None)
    started = await process.service.execute_workflow("late", None, tenant_id=TENANT)
    assert await process.service.cancel_run(started.instance_id, tenant_id=TENANT, reason="") is Status.CANCELLED


async def test_children_of_a_paused_workflow_go_on_and_are_heard_of_after_the_resume(process: Process) -> None:
    child = drawn("child", node("a", "testGate", config={"gate": "child"}))
    await process.service.save_workflow(child, tenant_id=TENANT)
    instance_id = await process.run(drawn("parent", node("call", "workflow", config={"workflow": "child"})))
    await process.log.saw("NODE_WAITING", "call", instance_id=instance_id)  # before, the call would be let end
    await until(lambda: nodes.calls)
    await pause(process, "parent")
    nodes.open_gate("child")
    (listed,) = await process.service.list_runs(RunFilter(workflow="child"), tenant_id=TENANT, limit=9)
    assert (await process.ended(listed["instanceID"]))["status"] == "COMPLETED"
    assert (await status_of(process, instance_id))[1] == ("workflow", "Ada")
    await resume(process, "parent")
    assert (await process.ended(instance_id))["status"] == "COMPLETED"


async def test_a_look_that_read_before_a_pause_does_not_undo_it(
    process: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    instance_id = await process.run(drawn("early", node("w", "waitForEvent", config={"event": "paid"})))
    await process.log.saw("NODE_WAITING", "w", instance_id=instance_id)
    store, watch = process.engine.store, process.engine.pause_watch
    read, has_read, may_answer = store.pauses, asyncio.Event(), asyncio.Event()

    async def answer_late(**asked: Any) -> list[Any]:
        found = await read(**asked)
        if not has_read.is_set():
            has_read.set()
            await may_answer.wait()
        return found

    monkeypatch.setattr(store, "pauses", answer_late)
    looking = asyncio.create_task(watch.look())
    await has_read.wait()
    pausing = asyncio.create_task(pause(process, "early"))
    await asyncio.wait({pausing}, timeout=0.3)  # longer than a look takes that would not wait for its turn
    may_answer.set()
    await asyncio.gather(looking, pausing)
    head = (await process.service.get_run_status(instance_id, tenant_id=TENANT)).head
    assert watch.is_paused(head)

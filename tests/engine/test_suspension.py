"""Runs that are paused and resumed on real engines and databases, held here, elsewhere or by nobody."""

from __future__ import annotations

from typing import Any

import pytest

from anabranch.engine.rules.events import Status
from anabranch.errors import NotFound, RunIsTerminal
from tests.engine import nodes
from tests.engine.conftest import TENANT, MakeProcess, Process, until
from tests.engine.drawing import drawn, node

ACTOR = "Ada"


async def pause(process: Process, run_id: str, **options: Any) -> Status:
    return await process.service.pause_run(run_id, tenant_id=TENANT, by=ACTOR, **options)


async def resume(process: Process, run_id: str, **options: Any) -> Status:
    return await process.service.resume_run(run_id, tenant_id=TENANT, by=ACTOR, **options)


async def row_of(process: Process, run_id: str) -> Any:
    return await process.service.get_run_status(run_id, tenant_id=TENANT)


async def test_what_is_under_way_is_let_end_and_nothing_follows_until_the_resume(process: Process) -> None:
    document = drawn("two", node("first", "testGate", config={"gate": "one"}), node("second"))
    run_id = await process.run(document)
    await until(lambda: nodes.calls.total() == 1)

    assert await pause(process, run_id) is Status.SUSPENDED
    assert (await row_of(process, run_id)).worker_id is not None, "its handler is let end under the lease"
    nodes.open_gate("one")
    await process.log.saw("NODE_COMPLETED", "first")
    await until(lambda: not process.engine.orchestrator.owns(run_id))

    shown = await process.service.get_run(run_id, tenant_id=TENANT)
    assert (shown["status"], shown["suspendedFor"]) == ("SUSPENDED", "PAUSED")
    assert shown["suspended"]["message"] == "paused by Ada"
    assert await resume(process, run_id) is not Status.SUSPENDED
    run = await process.ended(run_id)
    assert run["status"] == "COMPLETED"
    assert nodes.calls.total() == 1, "nothing that had ended is repeated"


async def test_another_process_pauses_and_resumes_what_is_held(make_process: MakeProcess) -> None:
    holder, other = await make_process(), await make_process()
    run_id = await holder.run(drawn("held", node("first", "testGate", config={"gate": "two"}), node("second")))
    await until(lambda: nodes.calls.total() == 1)

    assert await pause(other, run_id) is Status.SUSPENDED
    await resume(other, run_id)
    nodes.open_gate("two")

    assert (await holder.ended(run_id))["status"] == "COMPLETED"
    assert nodes.calls.total() == 1


async def test_a_signal_is_accepted_while_the_run_is_paused_and_served_on_resume(process: Process) -> None:
    wait = node("wait", "waitForEvent", config={"event": "paid"}, outputVariable="paid")
    run_id = await process.run(
        drawn("waits", wait, node("done", "end", config={"outputParameters": {"got": "{{ctx.paid}}"}}))
    )
    await process.log.saw("NODE_WAITING", "wait")
    await pause(process, run_id)

    assert await process.service.send_signal(run_id, "paid", 7, tenant_id=TENANT) is True
    assert (await row_of(process, run_id)).status is Status.SUSPENDED
    await resume(process, run_id)

    assert (await process.ended(run_id))["output"] == {"got": 7}


async def test_the_awaited_child_stands_still_with_its_parent_unless_it_is_left_out(process: Process) -> None:
    below = drawn("below", node("wait", "waitForEvent", config={"event": "go"}))
    await process.service.save_workflow(below, tenant_id=TENANT)
    run_id = await process.run(drawn("above", node("call", "workflow", config={"workflow": "below"})))
    await process.log.saw("NODE_WAITING", "wait")
    await process.log.saw("NODE_WAITING", "call")
    (child,) = await process.engine.store.awaited_children(run_id)
    child_id = child.head.instance_id

    await pause(process, run_id)
    assert (await row_of(process, child_id)).status is Status.SUSPENDED
    await resume(process, run_id)
    assert (await row_of(process, child_id)).status is not Status.SUSPENDED
    await pause(process, run_id, children=False)
    assert (await row_of(process, child_id)).status is not Status.SUSPENDED

    await process.service.send_signal(child_id, "go", None, tenant_id=TENANT)
    assert (await process.ended(child_id))["status"] == "COMPLETED"
    assert (await row_of(process, run_id)).status is Status.SUSPENDED, "children run on, and their parent stands still"
    await resume(process, run_id)
    assert (await process.ended(run_id))["status"] == "COMPLETED"


async def test_a_paused_run_can_be_cancelled_and_what_has_ended_cannot_be_paused(process: Process) -> None:
    run_id = await process.run(drawn("waits", node("wait", "waitForEvent", config={"event": "never"})))
    await process.log.saw("NODE_WAITING", "wait")
    await pause(process, run_id)
    assert await pause(process, run_id) is Status.SUSPENDED, "twice is once"

    assert await process.service.cancel_run(run_id, tenant_id=TENANT, reason="enough") is Status.CANCELLED
    for act in (pause, resume):
        with pytest.raises(RunIsTerminal):
            await act(process, run_id)
    with pytest.raises(NotFound):
        await process.service.pause_run(run_id, tenant_id="somebody-else", by=ACTOR)

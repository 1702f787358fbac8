"""Several processes on one database: external signals and cancels, takeovers, handovers, zombies."""

from __future__ import annotations

import asyncio

import pytest

from anabranch.engine.rules.events import Status
from tests.engine import nodes
from tests.engine.conftest import PATIENCE_S, TENANT, MakeProcess, Process, until
from tests.engine.drawing import drawn, node

# Of one that is to drop what it cannot extend.
SHORT_LEASE_MS = 600
# Of those that are to be lost: their leases are ended by hand, or by time where a commit is still on its way.
LEASE_MS = 6_000
# Longer than any test waits: what comes to pass did not come with the end of a lease.
ENDLESS_LEASE_MS = 3_600_000


def hanging(name: str, gate: str) -> dict[str, object]:
    return drawn(name, node("gate", "testGate", config={"gate": gate}, outputVariable="out"), node("after"))


async def test_a_cancel_from_another_process_stops_the_handler(make_process: MakeProcess) -> None:
    owner = await make_process(lease_ms=ENDLESS_LEASE_MS)
    other = await make_process(works=False)
    run_id = await owner.run(hanging("external-cancel", "never"))
    await until(lambda: nodes.calls)

    status = await other.service.cancel_run(run_id, tenant_id=TENANT, reason="from outside")
    await owner.log.saw("INSTANCE_CANCELLED", instance_id=run_id)

    assert status is Status.CANCELLED
    assert not owner.engine.orchestrator.owns(run_id)
    await until(lambda: nodes.stopped == ["gate"])


async def test_a_signal_from_another_process_reaches_a_held_and_a_parked_run(make_process: MakeProcess) -> None:
    owner = await make_process()
    other = await make_process(works=False)
    parked = drawn("parked", node("wait", "waitForEvent", config={"event": "go"}))
    held = drawn(
        "held",
        node("gate", "testGate", config={"gate": "never"}),
        node("wait", "waitForEvent", config={"event": "go"}),
        node("end", "end", config={"terminate": True, "outputParameters": {"got": "{{ctx.got}}"}}),
        edges=[("start", "gate"), ("start", "wait"), ("wait", "end")],
    )
    held["nodes"][2]["outputVariable"] = "got"  # type: ignore[index]
    ids = [await owner.run(parked), await owner.run(held)]
    await owner.log.saw("NODE_WAITING", "wait", count=2)

    delivered = [await other.service.send_signal(run_id, "go", "now", tenant_id=TENANT) for run_id in ids]
    ended = [await owner.ended(run_id) for run_id in ids]

    assert delivered == [True, True]
    assert [run["status"] for run in ended] == ["COMPLETED", "COMPLETED"]
    assert ended[1]["output"] == {"got": "now"}


async def test_of_two_signals_to_one_parked_wait_the_first_is_delivered(make_process: MakeProcess) -> None:
    owner = await make_process()
    other = await make_process(works=False)
    document = drawn(
        "promised",
        node("first", "waitForEvent", config={"event": "go"}),
        node("second", "waitForEvent", config={"event": "go"}),
    )
    run_id = await owner.run(document)
    await owner.log.saw("NODE_WAITING", "first")
    await owner.engine.stop()

    async def send(payload: str, key: str | None = None) -> bool:
        return await other.service.send_signal(run_id, "go", payload, tenant_id=TENANT, key=key)

    delivered = [await send("one"), await send("two", "k"), await send("repeated", "k")]
    heir = await make_process()
    run = await heir.ended(run_id)

    assert delivered == [True, False, False], "the wait was promised to the first one"
    assert run["status"] == "COMPLETED", "and the second was kept for the wait that came later"


async def test_a_run_of_a_lost_worker_is_taken_over_with_the_same_attempt_and_key(make_process: MakeProcess) -> None:
    lost = await make_process(lease_ms=LEASE_MS)
    run_id = await lost.run(hanging("taken-over", "API"))
    await lost.log.saw("NODE_DISPATCHED", "gate")
    lost.crash()

    heir = await make_process()
    await heir.ends_leases_of(lost)
    await heir.log.saw("INSTANCE_RECOVERED", instance_id=run_id)
    nodes.open_gate("API")
    run = await heir.ended(run_id)

    assert run["status"] == "COMPLETED"
    assert len(nodes.calls) == 1, "both executions had one idempotency key"
    log = await heir.service.get_log(run_id, tenant_id=TENANT)
    assert [e["nodeAttempt"] for e in log if e["eventType"] == "NODE_DISPATCHED" and e["nodeID"] == "gate"] == [1]
    recovered = [e["payload"] for e in log if e["eventType"] == "INSTANCE_RECOVERED"]
    assert recovered == [{"recoveries": 1, "company": 1, "crashes": 0}]


async def test_a_worker_that_cannot_extend_its_lease_stops_its_handlers(make_process: MakeProcess) -> None:
    cut_off = await make_process(lease_ms=SHORT_LEASE_MS)
    run_id = await cut_off.run(hanging("cut-off", "never"))
    await cut_off.log.saw("NODE_DISPATCHED", "gate")

    cut_off.crash()  # the process lives on, the store does not answer it
    await until(lambda: not cut_off.engine.orchestrator.owns(run_id))
    await until(lambda: "gate" in nodes.stopped)  # twice, where the lease had once been lost before already
    assert set(nodes.stopped) == {"gate"}


async def test_a_stopped_process_hands_its_runs_over_at_once(make_process: MakeProcess) -> None:
    leaving = await make_process()
    run_id = await leaving.run(hanging("handed-over", "API"))
    await leaving.log.saw("NODE_DISPATCHED", "gate")
    await leaving.engine.stop()
    row = await leaving.service.get_run_status(run_id, tenant_id=TENANT)

    heir = await make_process()
    await until(lambda: heir.engine.orchestrator.owns(run_id))
    nodes.open_gate("API")
    run = await heir.ended(run_id)

    assert row.worker_id is None
    assert run["status"] == "COMPLETED"
    log = await heir.service.get_log(run_id, tenant_id=TENANT)
    assert "INSTANCE_RECOVERED" not in [e["eventType"] for e in log], "a handover is not a loss"


async def test_stopping_with_grace_lets_handlers_finish_and_records_their_results(make_process: MakeProcess) -> None:
    leaving = await make_process()
    run_id = await leaving.run(hanging("graceful", "API"))
    await until(lambda: nodes.calls)

    stopping = asyncio.create_task(leaving.engine.stop(grace_s=20))
    await asyncio.sleep(0)
    nodes.open_gate("API")
    await stopping

    log = await leaving.service.get_log(run_id, tenant_id=TENANT)
    assert ("NODE_COMPLETED", "gate") in [(e["eventType"], e["nodeID"]) for e in log]


async def test_a_run_that_keeps_killing_its_worker_is_suspended(make_process: MakeProcess) -> None:
    process = await make_process(lease_ms=LEASE_MS, crashes_max=1)
    run_id = await process.run(hanging("poison", "never"))
    await process.log.saw("NODE_DISPATCHED", "gate")
    process.crash()
    victim = await make_process(lease_ms=LEASE_MS, crashes_max=1)
    await victim.ends_leases_of(process)
    await victim.log.saw("INSTANCE_RECOVERED", instance_id=run_id)
    victim.crash()

    last = await make_process(crashes_max=1)
    await last.ends_leases_of(victim)
    async with asyncio.timeout(PATIENCE_S):
        while (run := await last.service.get_run(run_id, tenant_id=TENANT))["status"] != "SUSPENDED":
            await last.engine.claimer.claim_once()

    assert run["suspended"]["reason"] == "CRASHED"
    assert "was lost once" in run["suspended"]["message"]


@pytest.mark.parametrize("processes", [2, 3])
async def test_many_runs_on_several_processes_each_end_once(make_process: MakeProcess, processes: int) -> None:
    workers: list[Process] = [await make_process() for _ in range(processes)]
    document = drawn(
        "shared",
        node("pause", "delay", config={"duration": "1100ms"}),
        node("wait", "waitForEvent", config={"event": "go", "timeout": "2s"}),
        node("end", "end", config={"outputParameters": {"n": "{{ctx.input.n}}"}}),
    )
    document["edges"][2]["sourceHandle"] = "timeout"
    await workers[0].service.save_workflow(document, tenant_id=TENANT)
    started = [
        await workers[number % processes].service.execute_workflow("shared", {"n": number}, tenant_id=TENANT)
        for number in range(30)
    ]

    ended = [await workers[0].ended(run.instance_id) for run in started]

    assert [run["output"]["n"] for run in ended] == list(range(30))
    for run in started:
        log = await workers[0].service.get_log(run.instance_id, tenant_id=TENANT)
        assert [e["seq"] for e in log] == list(range(1, len(log) + 1))
        assert len([e for e in log if e["eventType"] == "NODE_COMPLETED" and e["nodeID"] == "wait"]) == 1


async def test_what_is_not_executing_is_handed_over_before_the_grace_is_over(make_process: MakeProcess) -> None:
    leaving = await make_process(concurrency=1)
    executing = await leaving.run(hanging("executing", "API"))
    await until(lambda: nodes.calls)
    queued = await leaving.run(hanging("queued", "other-API"))
    stopping = asyncio.create_task(leaving.engine.stop(grace_s=PATIENCE_S))

    heir = await make_process()
    await until(lambda: heir.engine.orchestrator.owns(queued))

    assert not stopping.done()
    assert not heir.engine.orchestrator.owns(executing)
    nodes.open_gate("API")
    await stopping
    nodes.open_gate("other-API")
    assert [(await heir.ended(run))["status"] for run in (executing, queued)] == ["COMPLETED", "COMPLETED"]
    assert set(nodes.calls.values()) == {1}, "what had its grace was recorded, and what was queued ran once"

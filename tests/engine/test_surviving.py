"""What one bad run, one lost answer or one changed clock must not take with it: lanes, neighbours, leases, memory."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from anabranch.engine.clock import SystemClock
from anabranch.engine.ports import ClaimRequest, Loaded, Outcome
from anabranch.engine.queues import DelayQueue
from anabranch.engine.queues.delays import STALE_ENTRIES_MAX
from anabranch.engine.rules.evolve import fold
from anabranch.engine.rules.stimuli import SignalSent
from anabranch.engine.rules.transitions import Transition
from anabranch.engine.rules.values import Payload
from anabranch.errors import StoreUnavailable
from tests.engine import nodes
from tests.engine.conftest import TENANT, MakeProcess, Process, until
from tests.engine.drawing import drawn, node

MONTH_MS = 30 * 86_400_000


def gated(name: str, gate: str) -> dict[str, Any]:
    return drawn(name, node("gate", "testGate", config={"gate": gate}), node("after"))


async def test_a_run_that_cannot_be_performed_harms_none_of_its_batch(
    process: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad = await process.run(gated("bad", "bad"))
    good = await process.run(gated("good", "good"))
    await process.log.saw("NODE_DISPATCHED", "gate", count=2)
    perform = process.engine.orchestrator._perform

    def stumble(won: Any, *rest: Any) -> None:
        if won.leased.instance_id == bad:
            raise RuntimeError("stumbled")
        perform(won, *rest)

    monkeypatch.setattr(process.engine.orchestrator, "_perform", stumble)
    nodes.open_gate("bad")
    nodes.open_gate("good")

    assert (await process.ended(good))["status"] == "COMPLETED"
    assert not process.engine.orchestrator.owns(bad)


async def test_a_lease_that_was_extended_unheard_is_not_dropped(
    make_process: MakeProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = await make_process(lease_ms=3_000_000)
    run = await process.run(gated("unheard", "unheard"))
    await process.log.saw("NODE_DISPATCHED", "gate")
    held = process.engine.orchestrator.owned.get(run)
    assert held is not None
    held.extended_at = -1e9  # as if the last answer about its lease had been long ago

    await process.engine.orchestrator.refresh([run])
    process.engine._leases.drop_unextended()

    assert process.engine.orchestrator.owns(run)


async def test_a_external_signal_is_found_although_the_first_look_failed(
    make_process: MakeProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = await make_process()
    other = await make_process(works=False)
    waits = drawn(
        "watched",
        node("ask", "waitForEvent", config={"event": "go"}),
        node("gate", "testGate", config={"gate": "never"}),
    )
    waits["edges"][1]["upstreamNodeID"] = "start"  # side by side: the gate keeps the run with its worker
    run = await owner.run(waits)
    await owner.log.saw("NODE_WAITING", "ask")
    await owner.engine._external.stop()
    versions = owner.engine.store.versions

    async def away(instance_ids: Any) -> Mapping[str, Any]:
        raise StoreUnavailable("away")

    await other.service.send_signal(run, "go", 1, tenant_id=TENANT)
    monkeypatch.setattr(owner.engine.store, "versions", away)
    with pytest.raises(StoreUnavailable):
        await owner.engine._external.look()
    monkeypatch.setattr(owner.engine.store, "versions", versions)
    await owner.engine._external.look()

    await owner.log.saw("NODE_COMPLETED", "ask")


async def test_a_start_whose_first_commit_was_written_late_is_its_own_run(
    process: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commit is given up, the log does not have it yet, it is written, and the second attempt meets its own key."""
    store = process.engine.store
    commit, load = store.commit, store.load
    step_cancelled: list[Transition] = []

    async def give_up(transitions: Any, **how: Any) -> Outcome:
        if step_cancelled:
            return await commit(transitions, **how)
        step_cancelled.extend(transitions)
        raise StoreUnavailable("given up")

    async def write_just_after(instance_ids: Any) -> Mapping[str, Loaded]:
        found = await load(instance_ids)
        if len(step_cancelled) == 1:
            await commit([step_cancelled[0]])
            step_cancelled.append(step_cancelled[0])
        return found

    monkeypatch.setattr(store, "commit", give_up)
    monkeypatch.setattr(store, "load", write_just_after)
    run = await process.run(drawn("late", node("only")), None, idempotency_key="late-1")

    assert (await process.ended(run))["status"] == "COMPLETED"
    assert await process.run(drawn("late", node("only")), None, idempotency_key="late-1") == run


async def test_a_stopping_process_refuses_starts_at_once(process: Process) -> None:
    await process.run(drawn("before", node("only")))
    await process.engine.stop()
    with pytest.raises(StoreUnavailable, match="stopping"):
        await process.run(drawn("before", node("only")))


async def test_a_value_that_the_database_refuses_harms_no_signal_that_came_with_it(process: Process) -> None:
    document = drawn(
        "beside",
        node("ask", "waitForEvent", config={"event": "go"}),
        node("again", "waitForEvent", config={"event": "go"}),
        node("gate", "testGate", config={"gate": "never"}),
    )
    document["edges"][2]["upstreamNodeID"] = "start"
    run = await process.run(document)
    await process.log.saw("NODE_WAITING", "ask")
    ask = process.engine.orchestrator.ask

    answers = await asyncio.gather(
        ask(run, SignalSent("go", Payload.trusted("not \x00 storable"))), ask(run, SignalSent("go", Payload.of("fine")))
    )

    assert answers[0].refused == "VALUE_NOT_STORABLE"
    assert (answers[1].refused, answers[1].delivered) == (None, True)
    await process.log.saw("NODE_COMPLETED", "ask")


async def test_a_claimed_run_is_adopted_when_the_store_answers_again(
    make_process: MakeProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    api = await make_process(works=False)
    run = await api.run(drawn("left", node("only")))
    worker = await make_process(only=[])
    await worker.engine.claimer.stop()
    worker.engine.claimer.restrict([run])
    plan_of = worker.engine.plans.plan_of
    tries = 0

    async def away_once(head: Any) -> Any:
        nonlocal tries
        tries += 1
        if tries == 1:
            raise StoreUnavailable("away")
        return await plan_of(head)

    monkeypatch.setattr(worker.engine.plans, "plan_of", away_once)
    assert await worker.engine.claimer.claim_once() == 1
    assert not worker.engine.orchestrator.owns(run)
    await worker.engine.claimer.claim_once()

    assert (await worker.ended(run))["status"] == "COMPLETED"


async def test_a_claim_of_its_own_run_that_a_reread_has_met_changes_nothing(process: Process) -> None:
    """Two holders in one process: what the replaced one had committed was performed by nobody."""
    run = await process.run(gated("own", "own"))
    await process.log.saw("NODE_DISPATCHED", "gate")
    engine, orchestrator = process.engine, process.engine.orchestrator
    claimed = await engine.store.claim(
        ClaimRequest(worker_id=engine.worker_id, limit=1, lease_ms=30_000, only=[run], steal=True)
    )
    await orchestrator.refresh([run])
    holder = orchestrator.owned.get(run)

    head = claimed[0].row.head
    state = fold(await engine.plans.plan_of(head), head, claimed[0].events)
    adopted = list[str]()
    orchestrator.adopted, orchestrator.runs_with_lines = adopted.append, [run]
    orchestrator.adopt(claimed[0], state, asked_at=engine.clock.monotonic())
    assert adopted == [run]

    assert orchestrator.owned.get(run) is holder
    nodes.open_gate("own")
    assert (await process.ended(run))["status"] == "COMPLETED"
    assert list(nodes.calls.values()) == [1]


async def test_due_times_that_were_replaced_leave_the_heap() -> None:
    clock = SystemClock()
    delays = DelayQueue(clock, lambda instance_id: None)
    for number in range(10 * STALE_ENTRIES_MAX):
        delays.schedule("run", clock.now() + MONTH_MS + number)
    assert len(delays._heap) <= STALE_ENTRIES_MAX + 2


async def test_a_timer_is_told_soon_after_the_stores_clock_was_set_forward() -> None:
    clock = SystemClock()
    told: list[str] = []
    delays = DelayQueue(clock, told.append)
    await delays.start()
    delays.schedule("run", clock.now() + MONTH_MS)
    await asyncio.sleep(0)  # it falls asleep
    clock.adjust(clock.now() + MONTH_MS)
    await until(lambda: bool(told))
    await delays.stop()

    assert told == ["run"]

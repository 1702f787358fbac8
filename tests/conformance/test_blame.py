"""Runs of lost workers on every store: who becomes a suspect, who takes suspects, and who is suspended."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence
from typing import Any

import pytest

from anabranch.engine.ports import ClaimRequest, InstanceRow, Store, WorkerReport
from anabranch.engine.rules.event_payloads import RunResumed, RunSuspended
from anabranch.engine.rules.events import Status, SuspendReason
from anabranch.engine.rules.shared.blame import Blame, SuspectCapacity, crashed
from anabranch.engine.rules.stimuli import SignalSent
from anabranch.engine.rules.values import Payload
from tests.conformance.building import (
    LEASE_MS,
    OTHER_WORKER,
    TENANT,
    WORKER,
    born_many,
    committed,
    completed,
    created,
    dispatched,
    ending,
    log_of,
    new_id,
    row_of,
    transition,
)

LAPSED = {"available_at": 1_600_000_000_000}
"""Changes of a transition that let its lease end long ago."""

_ENDS = itertools.count(LAPSED["available_at"])
"""Ends of leases, one after the other."""

pytestmark = pytest.mark.only_on("memory", "sqlite", "postgresql", because="a pooler changes no statement")

PAUSED = RunSuspended(SuspendReason.PAUSED, "to look at it", "Resume it.")


async def claim(store: Store, *, lease_ms: int = LEASE_MS, **request: Any) -> list[InstanceRow]:
    """Claim by another worker than the one that tests begin with; with a lease of 0 ms it is lost at once."""
    taken = await store.claim(ClaimRequest(worker_id=OTHER_WORKER, limit=100, lease_ms=lease_ms, **request))
    return [each.row for each in taken]


async def blamed(store: Store, *blames: Blame | None) -> list[InstanceRow]:
    """A run for each, which nobody owns and is due; the first one is overdue the longest."""
    rows = [await suspect(store, blame) for blame in blames]
    return [await row_of(store, row.head.instance_id) for row in rows]


async def suspect(store: Store, blame: Blame | None) -> InstanceRow:
    """Bring a run to this by what happens in life."""
    worker = f"worker-{new_id()}"
    row = await created(store, worker_id=worker)
    if blame is None:
        await store.release(worker_id=worker)
        return row
    await store.report_worker(WorkerReport(worker_id=worker, executing=blame.company))
    # So many runs were executed there; the others are not of interest any more.
    others = [await created(store, worker_id=worker) for _ in range(blame.company - 1)]
    row = await committed(store, transition(row, available_at=next(_ENDS)))
    await judge(store, row)
    for other in others:
        await committed(store, ending(other))
    for _ in range(blame.crashes):
        await lose(store, row)
    return await row_of(store, row.head.instance_id)


async def judge(store: Store, row: InstanceRow, **request: Any) -> InstanceRow:
    """A claim meets its lapsed lease, and may take no suspect."""
    nobody = SuspectCapacity(owned=1_000_000, company_min=1, alone=False)
    assert await claim(store, only=[row.head.instance_id], suspects=nobody, **request) == []
    return await row_of(store, row.head.instance_id)


async def lose(store: Store, row: InstanceRow, **request: Any) -> InstanceRow:
    """Its next worker takes it, whatever it waits for, and is lost at once."""
    worker = f"worker-{new_id()}"
    only = [row.head.instance_id]
    await wake(store, row)
    taken = await store.claim(ClaimRequest(worker_id=worker, limit=1, lease_ms=-1, only=only))
    assert len(taken) == 1
    return await judge(store, row, **request)


async def wake(store: Store, row: InstanceRow) -> None:
    """Make it due now, whatever it waits for."""
    await store.append_signal(row.head.instance_id, SignalSent("wake", Payload.of(None)), tenant_id=TENANT)


async def ids_of(rows: Sequence[InstanceRow]) -> list[str]:
    return [row.head.instance_id for row in rows]


# -- who becomes one ----------------------------------------------------------------------------
async def test_all_runs_of_a_lost_worker_become_suspects_as_many_as_it_executed(store: Store) -> None:
    await store.report_worker(WorkerReport(worker_id=WORKER, executing=3))
    rows = await born_many(store, 5, **LAPSED)
    taken = await claim(store)
    assert len(taken) == 3, "and no more of them are taken at once"
    assert {row.blame for row in taken} == {Blame(3)}
    assert {(await row_of(store, row.head.instance_id)).blame for row in rows} == {Blame(3)}


async def test_a_worker_that_never_said_what_it_executes_leaves_as_many_suspects_as_runs(store: Store) -> None:
    await store.report_worker(WorkerReport(worker_id=WORKER, executing=None))
    await born_many(store, 3, **LAPSED)
    assert [row.blame for row in await claim(store)] == [Blame(3)] * 3


async def test_nobody_is_suspected_together_with_more_than_its_worker_had(store: Store) -> None:
    await store.report_worker(WorkerReport(worker_id=WORKER, executing=50))
    await created(store, turn_changes=LAPSED)
    assert [row.blame for row in await claim(store)] == [Blame(1)]


async def test_the_company_of_a_lost_worker_is_the_same_for_those_whose_leases_end_later(store: Store) -> None:
    await store.report_worker(WorkerReport(worker_id=WORKER, executing=2))
    late, *_ = await born_many(store, 2)
    (early,) = await born_many(store, 1, **LAPSED)
    assert [row.head.instance_id for row in await claim(store)] == [early.head.instance_id]
    await committed(store, transition(late, **LAPSED))
    assert [row.blame for row in await claim(store, suspects=SuspectCapacity(1, 2))] == [Blame(2)]


async def test_who_was_taken_for_lost_and_reports_again_is_judged_anew_the_next_time(store: Store) -> None:
    await store.report_worker(WorkerReport(worker_id=WORKER, executing=1))
    await created(store, turn_changes=LAPSED)
    await claim(store)
    await store.report_worker(WorkerReport(worker_id=WORKER, executing=2))
    await born_many(store, 2, **LAPSED)
    rows = await store.claim(ClaimRequest(worker_id="worker-3", limit=100, lease_ms=LEASE_MS))
    assert [each.row.blame for each in rows] == [Blame(2)] * 2


async def test_a_lease_that_ended_while_the_database_was_away_blames_nobody(store: Store) -> None:
    now = await store.now()
    away = await created(store, turn_changes={"available_at": now - 100})
    later = await created(store, turn_changes={"available_at": now - 50})
    taken = {row.head.instance_id: row.blame for row in await claim(store, away_until=now - 100)}
    assert taken == {later.head.instance_id: Blame(2)} or taken == {
        away.head.instance_id: None,
        later.head.instance_id: Blame(2),
    }


async def test_a_handover_a_due_timer_and_a_resumed_command_blame_nobody(store: Store) -> None:
    now = await store.now()
    handed_over = await created(store)
    await store.release(worker_id=WORKER, instance_ids=[handed_over.head.instance_id])
    parked = await committed(
        store, transition(await created(store), status=Status.WAITING, release=True, available_at=now)
    )
    assert {row.blame for row in await claim(store)} == {None}
    lapsed = await created(store, turn_changes=LAPSED)
    (stolen,) = await claim(store, only=[lapsed.head.instance_id], steal=True)
    assert stolen.blame is None, "who resumes a run by hand knows what it does"
    assert (await row_of(store, parked.head.instance_id)).blame is None


# -- what becomes of one ------------------------------------------------------------------------
async def test_each_further_loss_halves_the_company_and_only_the_last_one_is_counted(store: Store) -> None:
    row = await suspect(store, Blame(5))
    assert (await lose(store, row)).blame == Blame(2)
    assert (await lose(store, row)).blame == Blame(1)
    assert (await lose(store, row)).blame == Blame(1, 1)


async def test_a_run_that_crashed_alone_is_due_again_after_a_second(store: Store) -> None:
    row = await suspect(store, Blame(1))
    before = await store.now()
    after = await lose(store, row)
    assert after.blame == Blame(1, 1)
    assert after.worker_id is None
    assert after.available_at is not None
    assert before + 1_000 <= after.available_at <= await store.now() + 1_000


async def test_a_run_that_crashed_alone_too_often_is_suspended(store: Store) -> None:
    row = await suspect(store, Blame(1))
    after = await lose(store, row, crashes_max=1)
    assert (after.status, after.suspended_for, after.blame) == (Status.SUSPENDED, SuspendReason.CRASHED, Blame(1, 1))
    assert (after.worker_id, after.available_at) == (None, None)
    assert (await log_of(store, row.head.instance_id))[-1][1] == "INSTANCE_SUSPENDED"
    assert (await store.read_log(row.head.instance_id))[-1].payload.value == crashed(1).payload.value
    assert await claim(store) == []


async def test_a_resumed_run_is_alone_again_and_may_crash_as_often(store: Store) -> None:
    row = await suspect(store, Blame(1))
    await lose(store, row, crashes_max=1)
    await store.append_resumption(row.head.instance_id, RunResumed("key-1"), tenant_id=TENANT)
    (taken,) = await claim(store)
    assert taken.blame == Blame(1, 0)


async def test_a_resumed_pause_keeps_the_count(store: Store) -> None:
    row = await suspect(store, Blame(1, 1))
    await store.append_suspension(row.head.instance_id, PAUSED, tenant_id=TENANT)
    await store.append_resumption(row.head.instance_id, RunResumed("key-1"), tenant_id=TENANT)
    assert (await row_of(store, row.head.instance_id)).blame == Blame(1, 1)


async def test_no_crash_is_counted_against_a_run_that_stands_still(store: Store) -> None:
    row = await suspect(store, Blame(1))
    (owned,) = await claim(store)
    await store.append_suspension(row.head.instance_id, PAUSED, tenant_id=TENANT)
    owned = await row_of(store, row.head.instance_id)
    await committed(store, transition(owned, **LAPSED, suspended_for=SuspendReason.PAUSED))
    await store.claim(ClaimRequest(worker_id="worker-3", limit=10, lease_ms=LEASE_MS, crashes_max=1))
    after = await row_of(store, row.head.instance_id)
    assert (after.status, after.suspended_for, after.blame) == (Status.SUSPENDED, SuspendReason.PAUSED, Blame(1))
    assert (after.worker_id, after.available_at) == (None, None), "nobody has it, and it has no deadline"


async def test_the_transition_that_clears_it_ends_a_suspicion(store: Store) -> None:
    row = await suspect(store, Blame(1, 1))
    await wake(store, row)
    taken = await claim(store)
    same = await committed(store, transition(taken[0], dispatched("a")))
    assert same.blame == Blame(1, 1)
    after = await committed(store, transition(same, completed("a"), clears=True))
    assert after.blame is None
    assert row.head == after.head


# -- who takes one ------------------------------------------------------------------------------
async def test_a_suspect_whose_company_is_one_is_taken_alone(store: Store) -> None:
    first, other = await blamed(store, Blame(1), Blame(1))
    free = await created(store, worker_id=None)
    assert await ids_of(await claim(store)) == [first.head.instance_id]
    assert await ids_of(await claim(store, suspects=SuspectCapacity(1, 1, alone=False))) == [free.head.instance_id]
    assert await ids_of(await claim(store)) == [other.head.instance_id]


async def test_suspects_are_taken_up_to_the_least_company(store: Store) -> None:
    rows = await blamed(store, Blame(4), Blame(2), Blame(4))
    free = await created(store, worker_id=None)
    taken = await ids_of(await claim(store))
    assert set(taken) == {rows[0].head.instance_id, rows[1].head.instance_id, free.head.instance_id}
    assert await claim(store, suspects=SuspectCapacity(2, 2)) == []
    assert await ids_of(await claim(store, suspects=SuspectCapacity(1, 4))) == [rows[2].head.instance_id]


async def test_while_a_process_may_leave_nobody_alone_it_takes_the_others(store: Store) -> None:
    alone, other = await blamed(store, Blame(1), Blame(3))
    assert await ids_of(await claim(store, suspects=SuspectCapacity(alone=False))) == [other.head.instance_id]
    assert (await row_of(store, alone.head.instance_id)).worker_id is None


@pytest.mark.parametrize("claims", [2])
async def test_two_claims_at_once_judge_a_loss_once(store: Store, other_store: Store, claims: int) -> None:
    await store.report_worker(WorkerReport(worker_id=WORKER, executing=8))
    rows = await born_many(store, 8, **LAPSED)
    await asyncio.gather(
        *(
            connection.claim(ClaimRequest(worker_id=f"other-{number}", limit=100, lease_ms=LEASE_MS))
            for number in range(claims)
            for connection in (store, other_store)
        )
    )
    blames = {(await row_of(store, row.head.instance_id)).blame for row in rows}
    assert blames <= {Blame(8), None}, f"nobody's company is halved by a second look: {blames}"


async def test_a_worker_that_has_left_is_forgotten(store: Store) -> None:
    await store.report_worker(WorkerReport(worker_id=WORKER, executing=1))
    await store.forget_worker(WORKER)
    await store.forget_worker(WORKER)
    await born_many(store, 2, **LAPSED)
    assert {row.blame for row in await claim(store)} == {Blame(2)}, "of an unknown worker all its runs are suspects"

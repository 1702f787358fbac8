"""Suspending and resuming from a process that does not hold the instance: unconditional, once, in order."""

from __future__ import annotations

import pytest

from anabranch.engine.ports import ClaimRequest, ExternalResult, InstanceRow, Store, WorkerCode, WorkerReport
from anabranch.engine.rules.event_payloads import RunResumed, RunSuspended
from anabranch.engine.rules.events import EventType, Status, SuspendReason
from anabranch.engine.rules.run_filter import RunFilter
from anabranch.engine.rules.shared.log_limit import LogLimit
from anabranch.engine.rules.stimuli import SignalSent
from anabranch.engine.rules.values import Payload
from anabranch.service.runs.run_totals import RunTotals
from tests.conformance.building import HOUR_MS, LEASE_MS, TENANT, WORKER, created, log_of, new_id, parked, row_of

PAUSED = RunSuspended(SuspendReason.PAUSED, "paused by Ada", "Resume it.")


async def suspend(store: Store, row: InstanceRow, *, tenant_id: str = TENANT) -> ExternalResult:
    return await store.append_suspension(row.head.instance_id, PAUSED, tenant_id=tenant_id)


async def resume(store: Store, row: InstanceRow) -> ExternalResult:
    return await store.append_resumption(row.head.instance_id, RunResumed("Ada"), tenant_id=TENANT)


async def claimed(store: Store) -> list[str]:
    taken = await store.claim(ClaimRequest(worker_id=WORKER, limit=9, lease_ms=LEASE_MS))
    return [each.row.head.instance_id for each in taken]


async def test_a_suspension_is_one_row_one_version_and_the_reason(store: Store, other_store: Store) -> None:
    row = await created(store)
    result = await suspend(other_store, row)
    after = await row_of(store, row.head.instance_id)
    assert (result.row, result.seq) == (after, row.last_seq + 1)
    assert (after.status, after.suspended_for) == (Status.SUSPENDED, SuspendReason.PAUSED)
    assert (after.version, after.worker_id, after.available_at) == (row.version + 1, row.worker_id, row.available_at)
    assert (await log_of(store, row.head.instance_id))[-1][1] is EventType.INSTANCE_SUSPENDED


async def test_a_second_suspension_and_a_resumption_of_what_runs_write_nothing(store: Store) -> None:
    row = await created(store)
    assert (await resume(store, row)).seq is None
    first = await suspend(store, row)
    again = await suspend(store, row)
    assert (again.row, again.seq) == (first.row, None)


ENDS_WITHOUT_A_RESUME = {
    SuspendReason.DEFINITION_ERROR,
    SuspendReason.ENGINE_DEFECT,
    SuspendReason.NONDETERMINISM,
    SuspendReason.UNKNOWN_NODE_TYPE,
    SuspendReason.UNKNOWN_WORKFLOW,
    SuspendReason.UNSERVED_POOL,
}


@pytest.mark.parametrize("reason", SuspendReason)
async def test_a_pause_replaces_a_reason_that_ends_without_a_resume_and_no_other(
    store: Store, reason: SuspendReason
) -> None:
    row = await parked(store, available_at=None)
    run_id = row.head.instance_id
    await store.append_suspension(run_id, RunSuspended(reason, "no", "Mend it."), tenant_id=TENANT)
    before = await row_of(store, run_id)

    paused = await suspend(store, row)

    if reason not in ENDS_WITHOUT_A_RESUME:
        assert (paused.row, paused.seq) == (before, None)
        return
    after = await row_of(store, run_id)
    assert (paused.row, paused.seq) == (after, before.last_seq + 2)
    assert (after.suspended_for, after.worker_id, after.available_at) == (SuspendReason.PAUSED, None, None)
    types = [each[1] for each in await log_of(store, run_id)]
    assert types[-2:] == [EventType.INSTANCE_RESUMED, EventType.INSTANCE_SUSPENDED]
    assert (await suspend(store, row)).seq is None


async def test_a_pause_replaces_another_reason_only_where_the_log_has_room_for_both_rows(store: Store) -> None:
    row = await parked(store, available_at=None)
    run_id = row.head.instance_id
    unfit = RunSuspended(SuspendReason.UNKNOWN_NODE_TYPE, "no", "Start a worker.")
    await store.append_suspension(run_id, unfit, tenant_id=TENANT)
    before = await row_of(store, run_id)

    for room, rows in ((1, 0), (2, 2)):
        limit = LogLimit(rows_max=before.last_seq + room)
        await store.append_suspension(run_id, PAUSED, tenant_id=TENANT, log_limit=limit)
        after = await row_of(store, run_id)
        assert after.last_seq == before.last_seq + rows
        assert after.suspended_for is (SuspendReason.PAUSED if rows else SuspendReason.UNKNOWN_NODE_TYPE)


async def test_nobody_claims_a_suspended_run_before_its_deadline(store: Store) -> None:
    row = await parked(store, available_at=await store.now() - 1)
    limited = await parked(store, available_at=await store.now() - 1, deadline_at=await store.now() + HOUR_MS)
    assert (await suspend(store, row)).row.available_at is None  # type: ignore[union-attr]
    assert (await suspend(store, limited)).row.available_at == limited.head.deadline_at  # type: ignore[union-attr]
    assert await claimed(store) == []


async def test_a_signal_to_a_suspended_run_is_kept_and_wakes_nobody(store: Store) -> None:
    row = await parked(store, available_at=None)
    await suspend(store, row)
    sent = SignalSent("paid", Payload.of(1), None)
    result = await store.append_signal(row.head.instance_id, sent, tenant_id=TENANT)
    assert result.seq == row.last_seq + 2
    assert result.row is not None and (result.row.status, result.row.available_at) == (Status.SUSPENDED, None)
    assert await claimed(store) == []


async def test_a_resumed_run_is_available_at_once(store: Store) -> None:
    row = await parked(store, available_at=None)
    await suspend(store, row)
    after = (await resume(store, row)).row
    assert after is not None and after.suspended_for is None
    assert after.status is (Status.PENDING if after.started_at is None else Status.RUNNING)
    assert await claimed(store) == [row.head.instance_id]


async def test_an_end_takes_the_reason_away(store: Store) -> None:
    row = await parked(store, available_at=None)
    await suspend(store, row)
    result = await store.append_cancel(tenant_id=TENANT, instance_id=row.head.instance_id, reason="enough")
    assert result.row is not None
    assert (result.row.status, result.row.suspended_for) == (Status.CANCELLED, None)
    assert (await suspend(store, row)).seq is None, "what has ended is not suspended"


async def test_other_tenants_and_what_is_not_there_are_left_alone(store: Store) -> None:
    row = await created(store)
    assert await suspend(store, row, tenant_id="somebody-else") == ExternalResult(None, None)
    assert await store.append_suspension("no id", PAUSED, tenant_id=TENANT) == ExternalResult(None, None)
    assert await store.append_resumption(new_id(), RunResumed("Ada"), tenant_id=TENANT) == ExternalResult(None, None)


async def test_suspended_runs_are_listed_counted_and_read_with_the_reason(store: Store) -> None:
    row, _ = await created(store), await created(store)
    await suspend(store, row)
    wanted = RunFilter(statuses=[Status.SUSPENDED], reasons=[SuspendReason.PAUSED])
    assert [each.head.instance_id for each in await store.list_instances(wanted, tenant_id=TENANT, limit=9)] == [
        row.head.instance_id
    ]
    counts = await store.count_open()
    assert [runs for (_, _, status, _), runs in counts.items() if status is Status.SUSPENDED] == [1]
    reading = await store.read_run(row.head.instance_id, activations_max=9)
    assert reading is not None and reading.suspended is not None
    assert reading.suspended.payload.value["message"] == "paused by Ada"
    assert (await store.count_runs(tenant_id=TENANT)) is not None


async def test_the_totals_of_a_run_that_was_suspended_and_resumed_are_read_without_its_payloads(store: Store) -> None:
    row = await created(store)
    await suspend(store, row)
    assert (await RunTotals(store).of(await row_of(store, row.head.instance_id)))["status"] == "SUSPENDED"
    await resume(store, row)
    assert (await RunTotals(store).of(await row_of(store, row.head.instance_id)))["seq"] == 3


async def test_the_open_children_that_a_run_awaits_are_found(store: Store) -> None:
    parent = await created(store)
    child = await created(store, parent_id=parent.head.instance_id, parent_waits=True, parent_node_id="a",
                          parent_scope="", root_id=parent.head.instance_id)  # fmt: skip
    assert [each.head.instance_id for each in await store.awaited_children(parent.head.instance_id)] == [
        child.head.instance_id
    ]
    assert await store.awaited_children(child.head.instance_id) == []
    assert await store.awaited_children("no id") == []


@pytest.mark.only_on("memory", "sqlite", "postgresql", because="a pooler changes no statement")
async def test_other_code_is_offered_what_some_code_has_refused_and_another_release_what_it_could_not_decide(
    store: Store,
) -> None:
    async def refused(reason: SuspendReason, by: str, version: int = 1) -> str:
        row = await parked(store, available_at=None, workflow_name="greets", workflow_version=version, kind="coded")
        said = RunSuspended(reason, "no", "Mend it.", by)
        await store.append_suspension(row.head.instance_id, said, tenant_id=TENANT)
        return row.head.instance_id

    nondeterministic = await refused(SuspendReason.NONDETERMINISM, "old")
    undefined = await refused(SuspendReason.DEFINITION_ERROR, "old")
    await refused(SuspendReason.NONDETERMINISM, "new")
    await refused(SuspendReason.NONDETERMINISM, "old", version=2)
    defective = await refused(SuspendReason.ENGINE_DEFECT, "1.0")
    await suspend(store, await parked(store, available_at=None))
    mine = WorkerCode(digests={("greets", 1): "new"}, release="1.0")
    assert (await store.report_worker(WorkerReport(worker_id="w", executing=0))).are_refused
    later = WorkerReport(worker_id="w", executing=0, refused_since=await store.now())
    assert not (await store.report_worker(later)).are_refused, "there would be nothing to offer"
    assert await store.offer_refused(mine, since=await store.now(), limit=9) == 0, "all were suspended before"
    assert await store.offer_refused(mine, since=0, limit=9) == 2
    assert sorted(await claimed(store)) == sorted([nondeterministic, undefined])
    row = await row_of(store, undefined)
    assert (row.status, row.suspended_for) == (Status.SUSPENDED, SuspendReason.DEFINITION_ERROR)
    assert await store.offer_refused(WorkerCode(digests={}, release="1.1"), since=0, limit=9) == 1
    assert await claimed(store) == [defective]
    assert (await log_of(store, defective))[-1][1] is EventType.INSTANCE_RESUMED


@pytest.mark.only_on("memory", "sqlite", "postgresql", because="a pooler changes no statement")
async def test_a_run_that_nobody_can_decide_is_nobodys_and_fails_at_its_deadline(store: Store) -> None:
    row = await created(store, deadline_at=await store.now() + 1)
    said = RunSuspended(SuspendReason.ENGINE_DEFECT, "no", "Update.", "1.0")
    after = (await store.append_suspension(row.head.instance_id, said, tenant_id=TENANT)).row
    assert after is not None and (after.worker_id, after.available_at) == (None, None)
    while not await store.suspend_unfit(overdue_ms=3_600_000, seen_ms=90_000, limit=9):
        assert await claimed(store) == []
    assert (await row_of(store, row.head.instance_id)).status is Status.FAILED


async def test_lost_history_replaces_every_other_reason_in_one_step_and_only_once(store: Store) -> None:
    row = await parked(store, available_at=None)
    run_id = row.head.instance_id
    await store.append_suspension(
        run_id, RunSuspended(SuspendReason.UNKNOWN_NODE_TYPE, "no", "Start a worker."), tenant_id=TENANT
    )
    lost = RunSuspended(SuspendReason.HISTORY_LOST, "rows are not there any more", "Resume the run.")

    replaced = await store.append_suspension(run_id, lost, tenant_id=TENANT)
    again = await store.append_suspension(run_id, lost, tenant_id=TENANT)

    assert replaced.row is not None and replaced.seq == replaced.row.last_seq
    assert (replaced.row.status, replaced.row.suspended_for) == (Status.SUSPENDED, SuspendReason.HISTORY_LOST)
    assert again.seq is None
    types = [each[1] for each in await log_of(store, run_id)]
    assert types[-3:] == [
        EventType.INSTANCE_SUSPENDED, EventType.INSTANCE_RESUMED, EventType.INSTANCE_SUSPENDED,
    ]  # fmt: skip
    assert await claimed(store) == []
    other = RunSuspended(SuspendReason.PAUSED, "by hand", "Resume it.")
    assert (await store.append_suspension(run_id, other, tenant_id=TENANT)).seq is None

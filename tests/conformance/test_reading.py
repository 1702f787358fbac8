"""Reading: rows and logs as they were written, one snapshot at a time, never across tenants."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from anabranch.engine.ports import NewVersion, Store
from anabranch.engine.rules.coded.coded_plan import CODED_KIND
from anabranch.engine.rules.event_payloads import RunSuspended
from anabranch.engine.rules.events import EventType, Status, SuspendReason
from anabranch.engine.rules.run_filter import RunFilter
from anabranch.engine.rules.stimuli import SignalSent
from anabranch.engine.rules.values import NULL, VALUE_BYTES_MAX, Payload
from anabranch.errors import NotFound
from tests.conformance.building import (
    HOUR_MS,
    TENANT,
    WORKER,
    assert_unchanged,
    born_many,
    committed,
    completed,
    created,
    dispatched,
    ending,
    event,
    input_set,
    new_head,
    new_id,
    new_run,
    row_of,
    skipped,
    transition,
)


async def test_the_clock_does_not_go_back(store: Store) -> None:
    times = [await store.now() for _ in range(5)]
    assert times == sorted(times)
    assert times[0] > 1_600_000_000_000, "milliseconds since the epoch"


# -- load, read_log -------------------------------------------------------------------------------
async def test_load_gives_many_rows_with_their_events(store: Store) -> None:
    rows = await born_many(store, 3)
    row = await committed(store, transition(rows[1], dispatched("a"), completed("a")))
    loaded = await store.load([item.head.instance_id for item in rows])
    assert [len(loaded[item.head.instance_id].events) for item in rows] == [1, 3, 1]
    assert loaded[row.head.instance_id].row == row


async def test_load_after_a_seq_gives_the_tail_with_the_row(store: Store) -> None:
    row = await committed(store, transition(await created(store), dispatched("a"), completed("a")))
    tail = (await store.load([row.head.instance_id], after_seq=2))[row.head.instance_id]
    assert (tail.row, [item.seq for item in tail.events]) == (row, [3])
    nothing = (await store.load([row.head.instance_id], after_seq=3))[row.head.instance_id]
    assert (nothing.row, list(nothing.events)) == (row, [])


async def test_load_leaves_out_what_does_not_exist(store: Store) -> None:
    row = await created(store)
    assert set(await store.load([new_id(), row.head.instance_id])) == {row.head.instance_id}
    assert await store.load([]) == {}


async def test_load_is_one_snapshot_while_commits_race(store: Store, other_store: Store) -> None:
    rows = await born_many(store, 2)
    ids = [row.head.instance_id for row in rows]
    writing = True
    moments = 0

    async def write() -> None:
        """Write until the reader has looked often enough, however seldom it gets its turn."""
        nonlocal writing
        number = 0
        while number < 60 or moments < 5:
            number += 1
            outcome = await store.commit([transition(row, dispatched(f"n{number}")) for row in rows])
            assert len(outcome.won) == 2
            rows[:] = [replace(row, version=row.version + 1, last_seq=row.last_seq + 1) for row in rows]
        writing = False

    async def read() -> None:
        nonlocal moments
        while writing:
            for loaded in (await other_store.load(ids)).values():
                seqs = [item.seq for item in loaded.events]
                assert seqs == list(range(1, loaded.row.last_seq + 1)), "row and log are of different moments"
                assert loaded.row.version == loaded.row.last_seq, "row of a moment that never was"
            moments += 1

    async with asyncio.TaskGroup() as group:
        group.create_task(write())
        group.create_task(read())


async def test_a_log_is_read_in_pages_by_seq(store: Store) -> None:
    row = await committed(store, transition(await created(store), *(dispatched(f"n{number}") for number in range(9))))
    instance_id = row.head.instance_id
    assert [item.seq for item in await store.read_log(instance_id)] == list(range(1, 11))
    assert [item.seq for item in await store.read_log(instance_id, after_seq=4, limit=3)] == [5, 6, 7]
    assert await store.read_log(instance_id, after_seq=10) == []
    assert await store.read_log(new_id()) == []


async def test_an_event_reads_back_with_every_column(store: Store) -> None:
    written = event(
        EventType.NODE_FAILED,
        "fetch orders",
        "loop1[3]/inner[0]",
        3,
        {"error": {"code": "HTTP_STATUS"}},
        created_at=1_712_345_678_901,
        next_handle="error",
        output_variable="orders",
        error_message="503 — “später”\n\ttry again",
    )
    row = await committed(store, transition(await created(store), written))
    (read,) = await store.read_log(row.head.instance_id, after_seq=1)
    for column in ("type", "node_id", "scope", "attempt", "created_at", "next_handle", "output_variable"):
        assert getattr(read, column) == getattr(written, column), column
    assert read.error_message == written.error_message
    assert (read.seq, read.payload) == (2, written.payload)


async def test_absent_columns_read_back_as_none(store: Store) -> None:
    row = await committed(store, transition(await created(store), skipped("a")))
    (read,) = await store.read_log(row.head.instance_id, after_seq=1)
    assert (read.next_handle, read.output_variable, read.error_message) == (None, None, None)


PAYLOADS: dict[str, Any] = {
    "null": None,
    "key order": {"z": 1, "a": {"y": 1, "b": [{"x": 1, "c": 2}]}, "m": 0},
    "wide integers": [2**63 - 1, -(2**63), 2**64 - 1, 0],
    "floats stay floats": [1.0, 0.1, -2.5e-300, 1e308],
    "booleans are not numbers": [True, False, 1, 0],
    "unicode": "Ünïcödé 漢字 👩‍👩‍👧 \u2028 \u200f \x7f \ufffd",
    "control characters": 'tab\tnewline\nquote"backslash\\bell\x07',
    "text that looks like an escaped NUL": "\\u0000 and C:\\users",
    "text that looks like a placeholder": "%s :name $1 {0} {{ctx.a}} '; --",
    "empty things": {"": "", "list": [], "object": {}},
    "deep": [[[[[[[[[[[[[[[[{"end": 1}]]]]]]]]]]]]]]]],
}


@pytest.mark.parametrize("value", PAYLOADS.values(), ids=PAYLOADS)
async def test_a_payload_passes_through_unchanged(store: Store, value: Any) -> None:
    payload = Payload.of(value)
    row = await committed(store, transition(await created(store, input_set(value)), completed("a", output=payload)))
    (read,) = await store.read_log(row.head.instance_id, after_seq=1)
    assert read.payload.raw == payload.raw, "the same text: key order, numbers and all"
    assert read.payload.value == payload.value


async def test_a_payload_of_the_greatest_size_passes(store: Store) -> None:
    payload = Payload.of("€" * ((VALUE_BYTES_MAX - 2) // 3))
    row = await committed(store, transition(await created(store), completed("a", output=payload)))
    (read,) = (await store.load([row.head.instance_id], after_seq=1))[row.head.instance_id].events
    assert read.payload.value == payload.value


async def test_a_batch_of_a_thousand_turns_passes(store: Store) -> None:
    rows = await born_many(store, 1_000)
    outcome = await store.commit(
        [transition(row, completed("a", output=index), dispatched("b")) for index, row in enumerate(rows)]
    )
    assert len(outcome.won) == 1_000
    loaded = await store.load([row.head.instance_id for row in rows])
    for index, row in enumerate(rows):
        assert loaded[row.head.instance_id].events[1].payload.value == index


# -- single answers -------------------------------------------------------------------------------
async def test_a_start_is_found_by_its_key(store: Store) -> None:
    row = await created(store, idempotency_key="key-1")
    name = row.head.workflow_name
    assert await store.find_start(tenant_id=TENANT, workflow_name=name, idempotency_key="key-1") == row
    assert await store.find_start(tenant_id=TENANT, workflow_name=name, idempotency_key="key-2") is None
    assert await store.find_start(tenant_id="other", workflow_name=name, idempotency_key="key-1") is None


async def test_an_instance_reads_as_absent_to_another_tenant(store: Store) -> None:
    row = await created(store)
    assert await store.get_instance(row.head.instance_id) == row
    assert await store.get_instance(row.head.instance_id, tenant_id=TENANT) == row
    assert await store.get_instance(row.head.instance_id, tenant_id="other") is None


@pytest.mark.parametrize("instance_id", ["no id at all", "", "' OR 1=1 --"])
async def test_an_id_that_is_none_reads_as_absent(store: Store, instance_id: str) -> None:
    assert await store.get_instance(instance_id) is None
    assert await store.read_log(instance_id) == []
    assert await store.load([instance_id]) == {}
    assert await store.versions([instance_id]) == {}


async def test_pending_instances_are_counted_as_far_as_asked(store: Store) -> None:
    assert await store.count_pending(up_to=100) == {}
    now = await store.now()
    await store.commit([new_run(new_head(now=now), worker_id=None) for _ in range(3)])
    await created(store)
    cancelled = await created(store, worker_id=None)
    await store.append_cancel(tenant_id=TENANT, instance_id=cancelled.head.instance_id, reason="")
    await created(store, turn_changes={"status": Status.PENDING, "available_at": now + HOUR_MS}, worker_id=None)
    await created(store, worker_id=None, tenant_id="another")
    assert await store.count_pending(up_to=100) == {TENANT: 4, "another": 1}
    assert await store.count_pending(up_to=5) == {TENANT: 4, "another": 1}
    assert sum((await store.count_pending(up_to=3)).values()) == 3


async def test_unclaimed_instances_are_due_owned_by_nobody_and_not_held_back(store: Store) -> None:
    now = await store.now()
    await created(store)
    await created(store, worker_id=None, tenant_id="another")
    due = await created(store, worker_id=None)
    await created(store, turn_changes={"status": Status.PENDING, "available_at": now + HOUR_MS}, worker_id=None)
    assert await store.count_unclaimed() == 2
    await store.pause(tenant_id="another", workflow_id=None, by="somebody")
    assert await store.count_unclaimed() == 1
    await store.append_suspension(
        due.head.instance_id, RunSuspended(SuspendReason.PAUSED, "paused", ""), tenant_id=TENANT
    )
    assert await store.count_unclaimed() == 0


async def test_open_instances_of_all_tenants_are_counted_by_workflow_and_status(store: Store) -> None:
    assert await store.count_open() == {}
    await created(store)
    await created(store, tenant_id="another")
    await created(store, worker_id=None)
    await created(store, workflow_name="others", kind=CODED_KIND, turn_changes={"status": Status.WAITING})
    await created(store, test=True)
    cancelled = await created(store)
    await store.append_cancel(tenant_id=TENANT, instance_id=cancelled.head.instance_id, reason="")
    assert await store.count_open() == {
        ("orders", "drawn", Status.RUNNING, None): 2,
        ("orders", "drawn", Status.PENDING, None): 1,
        ("others", CODED_KIND, Status.WAITING, None): 1,
    }


# -- test runs ------------------------------------------------------------------------------------
async def test_an_ended_test_run_can_be_removed_with_its_rows(store: Store) -> None:
    ended = await committed(store, ending(await created(store, test=True)))
    neighbour = await created(store, test=True)
    await store.delete_test_instance(tenant_id=TENANT, instance_id=ended.head.instance_id)
    assert await store.get_instance(ended.head.instance_id) is None
    assert await store.read_log(ended.head.instance_id) == []
    await assert_unchanged(store, neighbour)


async def test_no_other_run_can_be_removed(store: Store) -> None:
    saved = await committed(store, ending(await created(store)))
    running = await created(store, test=True)
    ended = await committed(store, ending(await created(store, test=True)))
    for instance_id, tenant_id in (
        (saved.head.instance_id, TENANT),
        (running.head.instance_id, TENANT),
        (ended.head.instance_id, "other"),
        (new_id(), TENANT),
        ("no id at all", TENANT),
    ):
        with pytest.raises(NotFound):
            await store.delete_test_instance(tenant_id=tenant_id, instance_id=instance_id)
    for row in (saved, running, ended):
        await assert_unchanged(store, row)


async def test_the_runs_below_a_root_are_found_however_deep_and_whether_open_or_ended(store: Store) -> None:
    root = await created(store, test=True)
    kin = {"parent_node_id": "call", "parent_scope": "", "root_id": root.head.instance_id, "test": True}
    child = await created(store, parent_id=root.head.instance_id, depth=1, **kin)
    grandchild = await created(store, parent_id=child.head.instance_id, depth=2, **kin)
    await committed(store, ending(grandchild))
    await created(store, test=True)
    below = sorted(each.head.instance_id for each in (child, grandchild))
    found = await store.descendants(root.head.instance_id, limit=10)
    assert [row.head.instance_id for row in found] == below
    assert {row.status.is_terminal for row in found} == {True, False}
    assert len(await store.descendants(root.head.instance_id, limit=1)) == 1
    assert await store.descendants(child.head.instance_id, limit=10) == []
    assert await store.descendants("no id", limit=10) == []


async def test_nothing_is_written_for_a_run_that_was_removed(store: Store, other_store: Store) -> None:
    held = await created(store, dispatched("call"), test=True)
    instance_id = held.head.instance_id
    kin = {"parent_id": instance_id, "parent_node_id": "call", "parent_scope": "", "root_id": instance_id}
    await other_store.append_cancel(tenant_id=TENANT, instance_id=instance_id, reason="stopped")
    await other_store.delete_test_instance(tenant_id=TENANT, instance_id=instance_id)
    late = transition(held, completed("call"))
    child = new_run(new_head(now=await store.now(), test=True, depth=1, **kin))
    outcome = await store.commit([late, child])
    assert (outcome.won, outcome.rejected) == (set(), {child.instance_id})
    assert not await store.extend(worker_id=WORKER, instance_ids=[instance_id], lease_ms=1_000)
    signal = await store.append_signal(instance_id, SignalSent("go", NULL), tenant_id=TENANT)
    assert (signal.row, signal.seq) == (None, None)
    assert await store.load([instance_id]) == {} and await store.read_log(instance_id) == []


# -- listing --------------------------------------------------------------------------------------
async def test_runs_are_listed_newest_first_and_by_id_within_a_moment(store: Store) -> None:
    now = await store.now()
    new_runs = [new_run(new_head(now=now + offset)) for offset in (3, 1, 2, 2, 2)]
    await store.commit(new_runs)
    listed = await store.list_instances(tenant_id=TENANT, limit=10)
    order = [(row.head.created_at, row.head.instance_id) for row in listed]
    assert order == sorted(
        ((made.new_run.created_at, made.instance_id) for made in new_runs if made.new_run), reverse=True
    )


async def test_filters_say_which_runs_are_listed(store: Store) -> None:
    now = await store.now()

    async def make(**head: Any) -> str:
        made = new_run(new_head(now=now, **head))
        return (await committed(store, made)).head.instance_id

    early, middle, late = [await make(created_at=now + offset) for offset in (10, 20, 30)]
    refunds = await store.save_workflow(NewVersion(name="refunds", definition={}), tenant_id=TENANT)
    other_workflow = await make(workflow_id=refunds.workflow_id)
    of_other_tenant = await make(tenant_id="other")
    test_run = await make(test=True)
    await committed(store, ending(await row_of(store, middle)))

    async def listed(tenant_id: str = TENANT, **filters: Any) -> set[str]:
        rows = await store.list_instances(RunFilter(**filters), tenant_id=tenant_id, limit=10)
        return {row.head.instance_id for row in rows}

    assert await listed() == {early, middle, late, other_workflow}
    assert await listed(workflow=refunds.workflow_id) == {other_workflow}
    assert await listed(workflow=new_id()) == await listed(workflow="no id at all") == set()
    assert await listed(statuses=[Status.COMPLETED]) == {middle}
    assert await listed(statuses=[Status.COMPLETED, Status.RUNNING]) == {early, middle, late, other_workflow}
    assert await listed(statuses=[Status.FAILED]) == set()
    assert await listed(since=now + 20) == {middle, late}, "since is included"
    assert await listed(until=now + 30, since=now + 10) == {early, middle}, "until is not"
    assert await listed(tenant_id="other") == {of_other_tenant}
    assert await listed(test=True) == {test_run}


async def test_paging_is_exact_while_runs_are_born_and_end(store: Store) -> None:
    now = await store.now()
    heads = [new_head(now=now + number // 3) for number in range(20)]
    await store.commit([new_run(head) for head in heads])
    seen: list[str] = []
    before: tuple[int, str] | None = None
    while page := await store.list_instances(tenant_id=TENANT, limit=3, before=before):
        seen += [row.head.instance_id for row in page]
        before = (page[-1].head.created_at, page[-1].head.instance_id)
        await store.commit([ending(page[0]), new_run(new_head(now=now + 1_000))])
    assert sorted(seen) == sorted(head.instance_id for head in heads), "each exactly once, newcomers on no later page"

"""Commit: each transition wins or loses alone, by its version and its owner, and leaves a log without gaps."""

from __future__ import annotations

from dataclasses import replace

import pytest

from anabranch.engine.ports import Store
from anabranch.engine.rules.events import Event, EventType, Status
from anabranch.errors import AnabranchError
from tests.conformance.building import (
    HOUR_MS,
    LEASE_MS,
    NAP_MS,
    OTHER_WORKER,
    WORKER,
    assert_unchanged,
    attempt_failed,
    born_many,
    committed,
    completed,
    created,
    dispatched,
    ending,
    event,
    failed,
    input_set,
    instance_completed,
    log_of,
    new_head,
    new_id,
    new_run,
    row_of,
    signal_received,
    skipped,
    transition,
    waiting,
)


async def test_a_winner_gets_its_events_and_one_more_version(store: Store) -> None:
    row = await created(store)
    after = await committed(store, transition(row, dispatched("a"), completed("a")))
    assert (after.version, after.last_seq) == (row.version + 1, row.last_seq + 2)
    assert await log_of(store, row.head.instance_id) == [
        (1, EventType.INPUT_SET, ""),
        (2, EventType.NODE_DISPATCHED, "a"),
        (3, EventType.NODE_COMPLETED, "a"),
    ]


async def test_the_first_version_is_one(store: Store) -> None:
    row = await created(store)
    assert (row.version, row.last_seq) == (1, 1)


async def test_a_stale_version_loses_and_writes_nothing(store: Store) -> None:
    stale = await created(store)
    current = await committed(store, transition(stale, dispatched("a")))
    outcome = await store.commit([transition(stale, completed("a"), status=Status.COMPLETED, release=True)])
    assert outcome.won == set()
    await assert_unchanged(store, current)


async def test_a_version_that_is_not_there_yet_loses(store: Store) -> None:
    row = await created(store)
    outcome = await store.commit([transition(row, dispatched("a"), expected_version=row.version + 1)])
    assert outcome.won == set()
    await assert_unchanged(store, row)


@pytest.mark.parametrize("worker_id", [OTHER_WORKER, None])
async def test_a_turn_by_someone_who_does_not_hold_the_instance_loses(store: Store, worker_id: str | None) -> None:
    row = await created(store, worker_id=WORKER)
    outcome = await store.commit([transition(row, dispatched("a"), worker_id=worker_id)])
    assert outcome.won == set()
    await assert_unchanged(store, row)


async def test_an_unknown_instance_loses_in_silence(store: Store) -> None:
    row = await created(store)
    outcome = await store.commit([replace(transition(row, dispatched("a")), instance_id=new_id())])
    assert (outcome.won, outcome.refused) == (set(), {})


async def test_losers_events_are_not_written_while_neighbours_win(store: Store) -> None:
    stale, neighbour = await born_many(store, 2)
    current = await committed(store, transition(stale, dispatched("a")))
    outcome = await store.commit([transition(stale, dispatched("b")), transition(neighbour, dispatched("b"))])
    assert outcome.won == {neighbour.head.instance_id}
    await assert_unchanged(store, current)
    assert await log_of(store, neighbour.head.instance_id) == [
        (1, EventType.INPUT_SET, ""),
        (2, EventType.NODE_DISPATCHED, "b"),
    ]


async def test_births_and_steps_ride_in_one_batch(store: Store) -> None:
    row = await created(store)
    newborn = new_run(new_head(now=await store.now()))
    outcome = await store.commit([transition(row, dispatched("a")), newborn])
    assert outcome.won == {row.head.instance_id, newborn.instance_id}


async def test_the_order_in_which_turns_are_offered_does_not_matter(store: Store) -> None:
    rows = await born_many(store, 4)
    outcome = await store.commit([transition(row, dispatched("a")) for row in reversed(rows)])
    assert len(outcome.won) == 4


async def test_an_empty_commit_tells_the_time(store: Store) -> None:
    before = await store.now()
    outcome = await store.commit([])
    assert (outcome.won, dict(outcome.existing), dict(outcome.refused)) == (set(), {}, {})
    assert before <= outcome.store_now <= await store.now()


async def test_a_commit_tells_the_stores_time(store: Store) -> None:
    row = await created(store)
    before = await store.now()
    outcome = await store.commit([transition(row, dispatched("a"))])
    assert before <= outcome.store_now <= await store.now()


async def test_a_turn_without_events_is_a_step_all_the_same(store: Store) -> None:
    row = await created(store)
    after = await committed(store, transition(row, available_at=row.available_at))
    assert (after.version, after.last_seq) == (row.version + 1, row.last_seq)


# -- what a transition writes on the row ----------------------------------------------------------------
async def test_a_turn_without_available_at_keeps_the_lease_as_it_is(store: Store) -> None:
    row = await created(store)
    after = await committed(store, transition(row, dispatched("a"), available_at=None))
    assert (after.worker_id, after.available_at) == (row.worker_id, row.available_at)


async def test_a_turn_with_available_at_extends_the_lease(store: Store) -> None:
    row = await created(store)
    until = await store.now() + 2 * LEASE_MS
    after = await committed(store, transition(row, dispatched("a"), available_at=until))
    assert (after.worker_id, after.available_at) == (row.worker_id, until)


@pytest.mark.parametrize("wait_ms", [None, HOUR_MS])
async def test_a_release_parks_with_its_wake_time_none_included(store: Store, wait_ms: int | None) -> None:
    row = await created(store)
    wake = None if wait_ms is None else await store.now() + wait_ms
    after = await committed(
        store, transition(row, waiting("a"), status=Status.WAITING, release=True, available_at=wake)
    )
    assert (after.worker_id, after.available_at, after.status) == (None, wake, Status.WAITING)


async def test_the_first_dispatch_sets_the_start_time_and_later_turns_keep_it(store: Store) -> None:
    row = await created(store)
    assert row.started_at is None
    row = await committed(store, transition(row, dispatched("a"), started_at=1_700_000_000_123))
    row = await committed(store, transition(row, completed("a")))
    assert row.started_at == 1_700_000_000_123


async def test_an_ended_instance_has_an_end_time_no_worker_and_no_wake_time(store: Store) -> None:
    row = await created(store)
    after = await committed(store, ending(row))
    assert (after.status, after.worker_id, after.available_at) == (Status.COMPLETED, None, None)
    assert after.completed_at is not None


@pytest.mark.parametrize("status", [Status.COMPLETED, Status.FAILED, Status.CANCELLED])
async def test_terminal_is_final(store: Store, status: Status) -> None:
    row = await created(store)
    ended = await committed(store, transition(row, instance_completed(), status=status, release=True))
    for worker_id in (None, WORKER):
        outcome = await store.commit(
            [transition(ended, dispatched("late"), status=Status.RUNNING, worker_id=worker_id)]
        )
        assert outcome.won == set()
    await assert_unchanged(store, ended)


async def test_a_complete_cannot_overwrite_a_cancel(store: Store, other_store: Store) -> None:
    row = await created(store)
    cancelled = await other_store.append_cancel(
        tenant_id=row.head.tenant_id, instance_id=row.head.instance_id, reason="changed my mind"
    )
    outcome = await store.commit([ending(row)])
    assert outcome.won == set()
    assert cancelled.row is not None
    await assert_unchanged(store, cancelled.row)


# -- due times ----------------------------------------------------------------------------------
async def test_a_turn_before_its_time_does_not_win(store: Store) -> None:
    early, punctual = await born_many(store, 2)
    now = await store.now()
    outcome = await store.commit(
        [
            transition(early, completed("nap"), not_before=now + HOUR_MS),
            transition(punctual, completed("nap"), not_before=now),
        ]
    )
    assert outcome.won == {punctual.head.instance_id}
    await assert_unchanged(store, early)


async def test_a_turn_wins_once_the_stores_clock_has_reached_its_time(store: Store) -> None:
    row = await created(store)
    due = await store.now() + NAP_MS
    while not (outcome := await store.commit([transition(row, completed("nap"), not_before=due)])).won:
        pass
    assert outcome.store_now >= due


# -- unique indexes -------------------------------------------------------------------------------
DUPLICATES = {
    "completed twice": (completed("a"), completed("a")),
    "completed by another attempt": (completed("a", attempt=1), completed("a", attempt=2)),
    "completed, then failed": (completed("a"), failed("a")),
    "failed, then skipped": (failed("a"), skipped("a")),
    "skipped, then completed in an iteration": (skipped("a", "loop[3]"), completed("a", "loop[3]")),
    "the same attempt dispatched twice": (dispatched("a", attempt=2), dispatched("a", attempt=2)),
    "the same attempt failed twice": (attempt_failed("a"), attempt_failed("a")),
    "the same signal key twice": (signal_received("paid", key="k"), signal_received("refunded", key="k")),
}


@pytest.mark.parametrize(("first", "second"), DUPLICATES.values(), ids=DUPLICATES)
async def test_what_may_happen_once_is_refused_the_second_time_even_with_the_right_version(
    store: Store, first: Event, second: Event
) -> None:
    culprit, neighbour = await born_many(store, 2)
    culprit = await committed(store, transition(culprit, first))
    outcome = await store.commit([transition(culprit, dispatched("b"), second), transition(neighbour, first)])
    assert outcome.won == {neighbour.head.instance_id}, "the culprit's neighbour is not harmed"
    assert list(outcome.refused) == [culprit.head.instance_id]
    assert outcome.refused[culprit.head.instance_id], "a refusal says why"
    await assert_unchanged(store, culprit)


async def test_two_endings_of_one_activation_in_one_turn_are_refused(store: Store) -> None:
    row = await created(store)
    outcome = await store.commit([transition(row, completed("a"), failed("a"))])
    assert (outcome.won, list(outcome.refused)) == (set(), [row.head.instance_id])
    await assert_unchanged(store, row)


async def test_a_birth_whose_log_contradicts_itself_is_refused_and_leaves_nothing(store: Store) -> None:
    head = new_head(now=await store.now(), idempotency_key="k")
    outcome = await store.commit([new_run(head, input_set(), completed("a"), completed("a"))])
    assert (outcome.won, list(outcome.refused)) == (set(), [head.instance_id])
    assert await store.get_instance(head.instance_id) is None
    assert (await store.commit([new_run(head)])).won == {head.instance_id}, "its key is still free"


async def test_other_scopes_attempts_and_instances_do_not_collide(store: Store) -> None:
    one, two = await born_many(store, 2)
    events = [
        dispatched("a"),
        attempt_failed("a"),
        dispatched("a", attempt=2),
        attempt_failed("a", attempt=2),
        waiting("a"),
        waiting("a", event="paid", signalSeq=9),
        completed("a", attempt=3),
        completed("a", "loop[0]"),
        failed("a", "loop[1]"),
        skipped("a", "loop[1]/inner[0]"),
        signal_received("paid", key="k1"),
        signal_received("paid", key="k2"),
        signal_received("paid"),
        signal_received("paid"),
        event(EventType.SYSTEM_SET, payload={"note": 1}),
        event(EventType.SYSTEM_SET, payload={"note": 2}),
    ]
    outcome = await store.commit([transition(one, *events), transition(two, *events)])
    assert len(outcome.won) == 2, f"refused: {dict(outcome.refused)}"


async def test_a_seq_that_is_taken_is_refused(store: Store) -> None:
    row = await created(store)
    overlapping = transition(row, dispatched("a"))
    overlapping.events = [replace(overlapping.events[0], seq=row.last_seq)]
    outcome = await store.commit([overlapping])
    assert outcome.won == set()
    await assert_unchanged(store, row)


async def test_several_refused_turns_are_each_found_among_many_winners(store: Store) -> None:
    rows = await born_many(store, 40)
    culprits = {rows[0].head.instance_id, rows[17].head.instance_id, rows[39].head.instance_id}
    batch = [
        transition(row, completed("a"), *([failed("a")] if row.head.instance_id in culprits else [])) for row in rows
    ]
    outcome = await store.commit(batch)
    assert set(outcome.refused) == culprits
    assert outcome.won == {row.head.instance_id for row in rows} - culprits


async def test_the_store_goes_on_after_a_refusal(store: Store) -> None:
    row = await created(store)
    try:
        await store.commit([transition(row, completed("a"), completed("a"))])
    except AnabranchError as surprise:
        pytest.fail(f"a refusal is an outcome, not an exception: {surprise}")
    after = await committed(store, transition(await row_of(store, row.head.instance_id), completed("a")))
    assert after.last_seq == 2


async def test_a_turn_without_events_parks_its_instance(store: Store) -> None:
    row = await created(store)
    at = await store.now() + HOUR_MS

    after = await committed(store, transition(row, status=Status.WAITING, release=True, available_at=at))

    assert (after.version, after.last_seq) == (row.version + 1, row.last_seq)
    assert (after.worker_id, after.available_at, after.status) == (None, at, Status.WAITING)

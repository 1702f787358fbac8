"""What a store must do for functions that survive: the rules of coded runs on every store, transition by transition.

Each worker here decides with the real rules and commits to the real store; functions are what the tests
report of them. Which other test shows which part of the same contract: `tests/durable/README.md`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self

import pytest

from anabranch.engine.ports import ClaimRequest, InstanceHead, InstanceRow, Loaded, Store
from anabranch.engine.rules import transitions as transition
from anabranch.engine.rules.coded.coded_plan import coded_plan
from anabranch.engine.rules.coded.coded_state import CodedState
from anabranch.engine.rules.events import Status
from anabranch.engine.rules.evolve import fold, new_state
from anabranch.engine.rules.shared.retry import RetryPolicy
from anabranch.engine.rules.stimuli import (
    AwaitsSignal,
    AwaitsTime,
    LeaseAcquired,
    SignalSent,
    Started,
    StepReport,
    Stimulus,
    TimersDue,
)
from anabranch.engine.rules.transitions import LeasedState, apply_outcome, plan_transitions
from anabranch.engine.rules.values import Payload
from tests.conformance.building import HOUR_MS, LEASE_MS, OTHER_WORKER, TENANT, WORKER, new_head, row_of
from tests.spec.coded import broken, done, picture, raised, report, returned, suspended

CODE = ("sleeper", 1)

# A run that sleeps for longer than the first is parked; the second is longer by what a slow machine may take meanwhile.
PARK_AFTER_MS = 100
PAUSE_MS = 1_100

PLAN = coded_plan(*CODE, {"retry": {"attempts": 2, "backoff": {"kind": "fixed", "base": PAUSE_MS, "jitter": 0}}})


@pytest.fixture(autouse=True)
def parked_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a tenth of the product's second do."""
    monkeypatch.setattr(transition, "PARK_AFTER_MS", PARK_AFTER_MS)


class Worker:
    """A process that holds one run: decides, commits, and lets go of it where the transition says so."""

    def __init__(self, store: Store, state: CodedState, *, version: int, worker_id: str) -> None:
        self._store = store
        self._worker_id = worker_id
        self.leased = LeasedState(state, version, worker_id, 0)

    @classmethod
    async def starting(cls, store: Store, **head: Any) -> Worker:
        """The worker that a run is created with."""
        now = await store.now()
        values = {"workflow_name": CODE[0], "workflow_version": CODE[1], "kind": "coded", **head}
        created: InstanceHead = new_head(now=now, **values)
        worker = cls(store, new_state(PLAN, created), version=0, worker_id=WORKER)
        return await worker.does(Started(Payload.of({"n": 1})))

    @classmethod
    async def claiming(cls, store: Store, *, worker_id: str = OTHER_WORKER) -> Self | None:
        """Whoever takes up what may be taken up; None: nothing may."""
        claimed: list[Loaded] = await store.claim(
            ClaimRequest(worker_id=worker_id, limit=9, lease_ms=LEASE_MS, known_code=[CODE])
        )
        if not claimed:
            return None
        (only,) = claimed
        row = only.row
        state = fold(PLAN, row.head, only.events)
        return cls(store, state, version=row.version, worker_id=worker_id)

    @property
    def state(self) -> CodedState:
        """What it has in memory."""
        assert isinstance(self.leased.state, CodedState)
        return self.leased.state

    async def does(self, *stimuli: Stimulus) -> Worker:
        """Decide these and commit what follows; it must win."""
        planned = plan_transitions([(self.leased, stimuli)], now=await self._store.now(), lease_ms=LEASE_MS)
        outcome = await self._store.commit(planned.transitions)
        assert outcome.won == {transition.instance_id for transition in planned.transitions}, (
            f"the transition must win: {outcome}"
        )
        apply_outcome(planned, outcome)
        return self

    async def row(self) -> InstanceRow:
        """The row as it is stored."""
        return await row_of(self._store, self.state.head.instance_id)


async def due(store: Store, row: InstanceRow) -> None:
    """Return when the store's own clock has reached the row's time."""
    assert row.available_at is not None, "something wakes it"
    while await store.now() < row.available_at:
        pass  # the memory store's clock moves by being asked, the others' while they are


def sleeps(name: str, duration_ms: int) -> StepReport:
    return report(name, AwaitsTime(duration_ms))


def waits(event: str, timeout_ms: int | None = None) -> StepReport:
    return report(event, AwaitsSignal(event, None, timeout_ms))


async def test_a_run_begins_with_its_function_and_its_first_commit(store: Store) -> None:
    row = await (await Worker.starting(store)).row()

    assert (row.status, row.worker_id, row.version, row.last_seq) == (Status.RUNNING, WORKER, 1, 2)
    assert row.started_at is not None


async def test_steps_read_back_as_they_were_recorded(store: Store, other_store: Store) -> None:
    """Names that come again, later attempts of the workflow, and what each row says of where it stands."""
    worker = await Worker.starting(store)
    await worker.does(done("fetch", [1]), done("fetch", {"a": "é"}, scope="#2"), broken("pay", retryable=False))
    await worker.does(raised())

    events = await other_store.read_log(worker.state.head.instance_id)

    folded = fold(PLAN, worker.state.head, events)
    assert picture(folded) == picture(worker.state)
    assert {key: step.output.value for key, step in folded.steps.items() if step.error is None} == {
        ("fetch", ""): [1],
        ("fetch", "#2"): {"a": "é"},
    }


async def test_a_function_that_only_waits_is_parked_until_the_first_of_its_waits_is_due(store: Store) -> None:
    worker = await Worker.starting(store)
    await worker.does(suspended(sleeps("long", 2 * HOUR_MS), sleeps("short", HOUR_MS), waits("signal")))
    row = await worker.row()

    assert (row.status, row.worker_id) == (Status.WAITING, None)
    assert row.available_at == worker.state.steps["short", ""].due_at
    assert await Worker.claiming(store) is None, "it is not due"


async def test_a_parked_function_is_taken_up_when_it_is_due_with_all_that_it_knew(
    store: Store, other_store: Store
) -> None:
    worker = await Worker.starting(store)
    await worker.does(done("before", "kept"))
    await worker.does(suspended(sleeps("nap", PAUSE_MS)))
    await due(other_store, await worker.row())

    successor = await Worker.claiming(other_store)
    assert successor is not None
    await successor.does(LeaseAcquired(), TimersDue())

    assert successor.state.steps["before", ""].output.value == "kept"
    assert successor.state.steps["nap", ""].has_ended
    assert (await successor.row()).status is Status.RUNNING
    await successor.does(returned("awake", 1))
    assert (await successor.row()).status is Status.COMPLETED


async def test_a_step_tried_later_parks_its_function_and_counts_its_attempts(store: Store, other_store: Store) -> None:
    worker = await Worker.starting(store)
    await worker.does(replace(broken("fetch"), retry=RetryPolicy(base_ms=PAUSE_MS)))
    await worker.does(suspended(awaited=["fetch"]))
    row = await worker.row()
    assert row.available_at == worker.state.steps["fetch", ""].due_at
    await due(other_store, row)

    successor = await Worker.claiming(other_store)
    assert successor is not None
    await successor.does(LeaseAcquired())

    assert successor.state.steps["fetch", ""].attempt == 2
    await successor.does(done("fetch", "at last", attempt=2))
    assert (await successor.row()).last_seq == len(await other_store.read_log(row.head.instance_id))


async def test_an_attempt_of_the_workflow_that_failed_is_begun_again_when_it_is_due(
    store: Store, other_store: Store
) -> None:
    worker = await Worker.starting(store)
    await worker.does(raised())
    row = await worker.row()
    assert (row.status, row.worker_id) == (Status.WAITING, None)
    await due(other_store, row)

    successor = await Worker.claiming(other_store)
    assert successor is not None
    await successor.does(LeaseAcquired())
    await successor.does(raised(attempt=2))

    row = await successor.row()
    assert (row.status, row.worker_id, row.available_at) == (Status.FAILED, None, None)


async def test_the_deadline_wakes_a_parked_function(store: Store) -> None:
    deadline_at = await store.now() + HOUR_MS
    worker = await Worker.starting(store, deadline_at=deadline_at)
    await worker.does(suspended(sleeps("nap", 2 * HOUR_MS)))

    assert (await worker.row()).available_at == deadline_at


async def test_a_signal_wakes_a_function_that_nothing_else_would(store: Store, other_store: Store) -> None:
    worker = await Worker.starting(store)
    await worker.does(suspended(waits("verified")))
    row = await worker.row()
    assert row.available_at is None
    await other_store.append_signal(
        row.head.instance_id, SignalSent("verified", Payload.of({"by": 7}), "k1"), tenant_id=TENANT
    )

    successor = await Worker.claiming(other_store)
    assert successor is not None
    await successor.does(LeaseAcquired())

    assert successor.state.steps["verified", ""].output.value == {"by": 7}
    assert not successor.state.signals.kept, "it is consumed"


async def test_a_worker_that_was_lost_is_followed_by_one_that_knows_what_it_knew(
    store: Store, other_store: Store
) -> None:
    lost = await Worker.starting(store)
    await lost.does(done("fetch", 1))
    (taken,) = await other_store.claim(ClaimRequest(worker_id=OTHER_WORKER, limit=1, lease_ms=LEASE_MS, steal=True))
    row = taken.row
    successor = Worker(other_store, fold(PLAN, row.head, taken.events), version=row.version, worker_id=OTHER_WORKER)

    planned = plan_transitions([(lost.leased, [done("late", 2)])], now=await store.now(), lease_ms=LEASE_MS)
    outcome = await store.commit(planned.transitions)

    assert not outcome.won, "it lost its right with its lease"
    await successor.does(done("next", 3))
    assert set(successor.state.steps) == {("fetch", ""), ("next", "")}


async def test_a_cancel_ends_a_parked_function_at_once(store: Store, other_store: Store) -> None:
    worker = await Worker.starting(store)
    await worker.does(suspended(sleeps("nap", HOUR_MS)))
    run_id = worker.state.head.instance_id

    await other_store.append_cancel(tenant_id=TENANT, instance_id=run_id, reason="enough")

    assert (await worker.row()).status is Status.CANCELLED
    assert await Worker.claiming(store) is None

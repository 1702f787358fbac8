"""Group commit without I/O: what becomes a transition, what shares a batch, and what is done once it is settled."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from anabranch.engine.rules.commands import Dispatch
from anabranch.engine.rules.drawn.drawn_state import InstanceState
from anabranch.engine.rules.events import Status
from anabranch.engine.rules.evolve import fold
from anabranch.engine.rules.stimuli import Started, Stimulus
from anabranch.engine.rules.transitions import (
    BATCH_BYTES_MAX,
    BATCH_TRANSITIONS_MAX,
    PARK_AFTER_MS,
    LeasedState,
    Outcome,
    Planned,
    apply_outcome,
    owed_dispatches,
    plan_transitions,
    was_written,
)
from anabranch.engine.rules.values import NULL, VALUE_BYTES_MAX
from tests.spec.drawings import drawn
from tests.spec.scenario import TIMERS, Scenario, asks_for, begun, cancel, completed, failed, given, signal

LEASE_MS = 30_000
CHAIN = drawn("start>a, a>b")


def held(run: Scenario, *, version: int = 3, lease_left_ms: int = LEASE_MS) -> LeasedState:
    """The instance of a scenario, held by a worker."""
    return LeasedState(run.state, version, "me", run.now + lease_left_ms)


def plan(run: Scenario, *stimuli: Stimulus, **leased: int) -> Planned:
    """One instance's batch."""
    return plan_transitions([(held(run, **leased), stimuli)], now=run.now, lease_ms=LEASE_MS)


def turn_of(run: Scenario, *stimuli: Stimulus, **leased: int):
    """The one transition of one instance's batch."""
    (transition,) = plan(run, *stimuli, **leased).transitions
    return transition


def won(planned: Planned) -> Outcome:
    """Every transition is written."""
    return Outcome(won={transition.instance_id for transition in planned.transitions}, store_now=0)


# -- planning -----------------------------------------------------------------------------
def test_all_stimuli_of_an_instance_become_one_turn():
    run = begun(drawn("start>a, start>b, a>join, b>join"))
    transition = turn_of(run, completed("a"), completed("b"))
    assert [str(event.type) for event in transition.events] == ["NODE_COMPLETED", "NODE_COMPLETED", "NODE_DISPATCHED"]
    assert transition.expected_version == 3
    assert transition.worker_id == "me"


def test_stimuli_that_change_nothing_make_no_turn():
    planned = plan(begun(CHAIN), completed("start"), TIMERS)
    assert planned.transitions == []
    settled = apply_outcome(planned, won(planned))
    assert [pending.leased.version for pending in settled.idle] == [3]


def test_a_stimulus_that_changes_nothing_beside_one_that_does_costs_nothing():
    assert len(turn_of(begun(CHAIN), completed("start"), completed("a"), completed("a")).events) == 2


def test_a_turn_rests_on_the_latest_due_time_that_fired():
    run = begun(drawn("start>a, start>b")).then(completed("a", delay_ms=10), completed("b", delay_ms=20))
    due = run.now + 20
    run.now += 1_000
    assert turn_of(run, TIMERS).not_before == due


def test_a_turn_of_several_stimuli_rests_on_the_latest_of_their_due_times():
    run = begun(drawn("start>a, start>b")).then(completed("a", delay_ms=10))
    run.now += 1_000
    assert turn_of(run, TIMERS, completed("b", delay_ms=0), TIMERS).not_before == run.now


def test_a_batch_closes_when_it_is_full_and_leaves_the_rest():
    runs = [begun(CHAIN) for _ in range(5)]
    work = iter([(held(run), [completed("a")]) for run in runs])
    assert len(plan_transitions(work, now=runs[0].now, lease_ms=LEASE_MS, transitions_max=3).transitions) == 3
    assert len(list(work)) == 2
    assert "a" in runs[3].owed, "what was not taken was not decided"


def test_turnless_drafts_do_not_fill_a_batch():
    runs = [begun(CHAIN) for _ in range(4)]
    work = [(held(run), [completed("a" if index > 1 else "start")]) for index, run in enumerate(runs)]
    assert len(plan_transitions(work, now=runs[0].now, lease_ms=LEASE_MS, transitions_max=2).transitions) == 2


def test_a_batch_closes_at_four_megabytes():
    big = "x" * (VALUE_BYTES_MAX - 2)
    runs = [begun(CHAIN) for _ in range(8)]
    work = iter([(held(run), [completed("a", big)]) for run in runs])
    planned = plan_transitions(work, now=runs[0].now, lease_ms=LEASE_MS)
    assert BATCH_BYTES_MAX // VALUE_BYTES_MAX <= len(planned.transitions) <= 5


def test_the_sizes_of_a_batch_are_those_that_were_promised():
    assert (BATCH_TRANSITIONS_MAX, BATCH_BYTES_MAX) == (256, 4 * 1024 * 1024)


def test_a_decision_that_goes_wrong_does_not_harm_its_neighbours():
    broken = begun(drawn("start>end", end={"type": "end"}))
    whole = begun(CHAIN)
    not_an_object = completed("end", 5)  # which no End can collect
    planned = plan_transitions(
        [(held(broken), [not_an_object]), (held(whole), [completed("a")])], now=whole.now, lease_ms=LEASE_MS
    )
    assert [transition.events[0].node_id for transition in planned.transitions] == ["a"]
    settled = apply_outcome(planned, won(planned))
    assert [pending.leased.state for pending in settled.defective] == [broken.state]
    assert isinstance(settled.defective[0].defect, TypeError)


# -- creations -------------------------------------------------------------------------------
def new_run(*, begin: bool = True, worker_id: str | None = "me", available_in_ms: int = 0):
    """The transition that gives creation to an instance, and the time of it."""
    run = given(CHAIN, begin=begin, available_in_ms=available_in_ms)
    leased = LeasedState(InstanceState(run.plan, run.head), 0, worker_id, 0)
    (transition,) = plan_transitions(
        [(leased, [Started(NULL, begin=begin)])], now=run.now, lease_ms=LEASE_MS
    ).transitions
    return transition, run.now


def test_an_instance_is_born_leased_to_its_creator():
    transition, now = new_run()
    assert (transition.expected_version, transition.worker_id, transition.release) == (0, "me", False)
    assert transition.available_at == now + LEASE_MS
    assert transition.new_run is not None
    assert transition.status is Status.RUNNING
    assert transition.started_at == now


def test_an_instance_without_room_is_born_pending_and_available_at_once():
    transition, now = new_run(begin=False, worker_id=None)
    assert (transition.worker_id, transition.available_at, transition.status) == (None, now, Status.PENDING)
    assert transition.started_at is None


def test_an_instance_for_later_is_born_parked():
    transition, now = new_run(available_in_ms=60_000)
    assert (transition.worker_id, transition.available_at, transition.status) == (None, now + 60_000, Status.PENDING)


# -- leases and parking -------------------------------------------------------------------
def test_a_turn_leaves_a_fresh_lease_alone():
    transition = turn_of(begun(CHAIN), completed("a"))
    assert (transition.available_at, transition.release) == (None, False)


def test_a_turn_extends_a_lease_that_is_half_gone():
    run = begun(CHAIN)
    assert turn_of(run, completed("a"), lease_left_ms=LEASE_MS // 2 - 1).available_at == run.now + LEASE_MS


def test_a_long_wait_parks_the_instance_until_it_is_due():
    run = begun(CHAIN)
    transition = turn_of(run, completed("a", delay_ms=PARK_AFTER_MS + 1))
    assert (transition.release, transition.available_at, transition.status) == (
        True,
        run.now + PARK_AFTER_MS + 1,
        Status.WAITING,
    )


def test_a_wait_of_a_second_keeps_its_worker_and_stays_running():
    transition = turn_of(begun(CHAIN), completed("a", delay_ms=PARK_AFTER_MS))
    assert (transition.release, transition.status) == (False, Status.RUNNING)


def test_a_wait_without_an_end_is_parked_until_somebody_signals():
    transition = turn_of(begun(CHAIN), asks_for("a", "go"))
    assert (transition.release, transition.available_at, transition.status) == (True, None, Status.WAITING)


def test_a_wait_beside_work_is_not_parked():
    transition = turn_of(begun(drawn("start>a, start>b")), asks_for("a", "go"))
    assert (transition.release, transition.status) == (False, Status.RUNNING)


def test_a_parked_instance_is_woken_for_its_deadline():
    run = begun(CHAIN, deadline_in_ms=60_000)
    assert turn_of(run, asks_for("a", "go")).available_at == run.head.deadline_at


@pytest.mark.parametrize(
    ("stimulus", "status"),
    [(failed("a"), Status.FAILED), (cancel(), Status.CANCELLED)],
)
def test_an_ended_instance_is_released_for_good(stimulus, status):
    transition = turn_of(begun(CHAIN), stimulus)
    assert (transition.release, transition.available_at, transition.status) == (True, None, status)


# -- settling -----------------------------------------------------------------------------
def test_a_won_turn_raises_the_version_by_one_and_is_performed():
    planned = plan(begun(CHAIN), completed("a"))
    (winner,) = apply_outcome(planned, won(planned)).won
    assert winner.leased.version == 4
    assert winner.dispatches == [Dispatch("b", "", 1)]
    assert winner.next_due is None


def test_a_transition_can_be_shown_before_its_outcome_is_known():
    (pending,) = plan(begun(CHAIN), completed("a")).pending_transitions
    assert repr(pending).startswith("PendingTransition(")


def test_a_won_turn_says_when_the_next_timer_is_due():
    run = begun(CHAIN)
    planned = plan(run, completed("a", delay_ms=500))
    assert apply_outcome(planned, won(planned)).won[0].next_due == run.now + 500


def test_nothing_is_due_by_itself_once_the_instance_is_parked():
    planned = plan(begun(CHAIN), completed("a", delay_ms=500_000))
    (winner,) = apply_outcome(planned, won(planned)).won
    assert winner.next_due is None
    assert winner.parks


def test_what_a_later_stimulus_of_the_turn_undid_is_not_performed():
    planned = plan(begun(CHAIN), completed("a"), cancel())
    (winner,) = apply_outcome(planned, won(planned)).won
    assert winner.dispatches == []
    assert winner.stops == [Dispatch("b", "", 1)]


def test_a_turn_that_did_not_win_is_unknown_and_performs_nothing():
    planned = plan(begun(CHAIN), completed("a"))
    settled = apply_outcome(planned, Outcome(won=set(), store_now=0))
    assert settled.won == []
    assert [pending.leased.version for pending in settled.unknown] == [3]


def test_refused_and_repeated_turns_are_told_apart():
    refused, repeated = plan(begun(CHAIN), completed("a")), plan(begun(CHAIN), completed("a"))
    name = refused.transitions[0].instance_id
    assert apply_outcome(refused, Outcome(won=set(), store_now=0, refused={name: "why"})).refused[0][1] == "why"
    assert apply_outcome(repeated, Outcome(won=set(), store_now=0, existing={name: "other"})).existing[0][1] == "other"


def test_a_birth_whose_workflow_is_gone_is_not_offered_again():
    planned = plan(begun(CHAIN), completed("a"))
    settled = apply_outcome(planned, Outcome(won=set(), store_now=0, rejected={planned.transitions[0].instance_id}))
    assert settled.rejected == planned.pending_transitions
    assert settled.unknown == []


def test_an_extended_lease_is_noted_only_when_its_turn_has_won():
    run = begun(CHAIN)
    planned = plan(run, completed("a"), lease_left_ms=1)
    apply_outcome(planned, Outcome(won=set(), store_now=0))
    assert planned.pending_transitions[0].leased.lease_until == run.now + 1
    apply_outcome(planned, won(planned))
    assert planned.pending_transitions[0].leased.lease_until == run.now + LEASE_MS


# -- unclear commits ----------------------------------------------------------------------
def log_with(run: Scenario, events: Sequence) -> list:
    """The stored log of a scenario and these rows."""
    return [*run.log, *events]


def test_a_turn_of_unknown_fate_is_recognised_in_the_log():
    run = begun(CHAIN)
    transition = turn_of(run, completed("a"))
    assert was_written(transition, log_with(run, transition.events))
    assert not was_written(transition, run.log)


def test_a_turn_is_not_taken_for_that_of_another_worker():
    mine, theirs = begun(CHAIN), begun(CHAIN)
    theirs.now += 1
    assert not was_written(turn_of(mine, completed("a")), log_with(theirs, turn_of(theirs, completed("a")).events))
    other = turn_of(begun(CHAIN), completed("a", "another output"))
    assert not was_written(turn_of(begun(CHAIN), completed("a")), log_with(mine, other.events))


def test_the_loser_decides_again_over_what_the_winner_wrote():
    document = drawn("start>a, start>b, a>join, b>join")
    mine, theirs = begun(document), begun(document)
    lost, kept = turn_of(mine, completed("a")), turn_of(theirs, completed("b"))
    assert lost.expected_version == kept.expected_version, "the store lets one of them win"
    state = fold(mine.plan, mine.head, log_with(mine, kept.events)[: kept.events[-1].seq])
    planned = plan_transitions([(LeasedState(state, 4, "me", 0), [completed("a")])], now=mine.now, lease_ms=LEASE_MS)
    assert apply_outcome(planned, won(planned)).won[0].dispatches == [Dispatch("join", "", 1)]


def test_a_new_owner_performs_what_is_unanswered():
    run = begun(drawn("start>a, start>b, start>c")).then(failed("b", retryable=True), asks_for("c", "go"))
    assert owed_dispatches(run.crashed().state) == [Dispatch("a", "", 1)]


def test_a_signal_and_the_result_that_waits_for_it_may_share_a_turn():
    transition = turn_of(begun(CHAIN), signal("go", 1), asks_for("a", "go"))
    assert [str(event.type) for event in transition.events][-1] == "NODE_DISPATCHED"


def test_an_instance_that_was_woken_for_nothing_is_parked_again_without_a_row():
    run = begun(drawn("start>a")).then(asks_for("a", "go"))
    planned = plan(run, signal("other"), signal("other", key="k"), signal("other", key="k"))
    assert planned.transitions[0].release, "it was parked with the signals' rows"
    (transition,) = plan(run, TIMERS).transitions
    assert (list(transition.events), transition.release, transition.available_at, transition.status) == (
        [],
        True,
        None,
        Status.WAITING,
    )


def test_an_instance_that_works_makes_no_turn_without_events():
    assert plan(begun(CHAIN), TIMERS).transitions == []

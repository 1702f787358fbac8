"""Regressions: each way in which engines of this kind have lost or doubled work, closed by name.

Some holes can be reached only through a store or a second process; those are closed in the
conformance suite and the simulation. Here are the ones that the rules close.
"""

from __future__ import annotations

from anabranch.engine.rules.events import EventType
from anabranch.engine.rules.evolve import fold
from anabranch.engine.rules.transitions import LeasedState, Outcome, apply_outcome, plan_transitions
from tests.spec.drawings import condition, drawn, loop
from tests.spec.laws import differences
from tests.spec.scenario import HANDED_OVER, LAPSED, TAIL, asks_for, begun, cancel, completed, failed, given, signal

DIAMOND = drawn("start>left, start>right, left>join, right>join")
DAY = 86_400_000


def test_a_result_and_what_follows_from_it_are_one_decision():
    """A result row written first, its consequences in a second transaction: a crash between them hung the run."""
    happened = begun(DIAMOND).completed("left").when(completed("right"))
    assert happened.types == ["NODE_COMPLETED", "NODE_DISPATCHED"]


def test_a_redelivered_result_whose_first_commit_was_lost_is_decided_anew():
    """A duplicate was dropped by its id, although the transaction it belonged to had been rolled back."""
    run = begun(DIAMOND).completed("left")
    stored = list(run.log)
    first = run.when(completed("right"))
    run.log = stored
    again = run.crashed().when(completed("right"))
    assert [(e.seq, e.type, e.node_id) for e in again.decision.events] == [
        (e.seq, e.type, e.node_id) for e in first.decision.events
    ]


def test_a_dispatch_whose_job_was_lost_is_owed_to_the_next_owner():
    """The row was durable, the job only in memory, and the row forbade a second dispatch: the node was lost."""
    run = begun(DIAMOND).crashed().then(LAPSED)
    assert run.owed == {"left", "right"}


def test_two_attempts_cannot_both_complete_an_activation():
    """The unique index had no attempt, then an empty one: attempts 1 and 2 could both store an ending."""
    run = begun(drawn("start>a, a>b")).then(failed("a", retryable=True))
    run.later(1_000)
    run.completed("a#2")
    assert run.when(completed("a")).nothing
    assert run.rows("NODE_COMPLETED").count("a") + run.rows("NODE_COMPLETED").count("a#2") == 1


def test_every_dispatch_row_has_its_attempt():
    run = begun(drawn("start>a")).then(failed("a", retryable=True))
    run.later(1_000)
    attempts = [event.attempt for event in run.log if event.type is EventType.NODE_DISPATCHED]
    assert attempts == [1, 1, 2]


def test_two_branches_that_see_only_themselves_cannot_both_commit():
    """Each branch saw nothing ready and wrote without the version check: nobody dispatched the join."""
    left, right = begun(DIAMOND), begun(DIAMOND)
    planned = [
        plan_transitions([(LeasedState(run.state, 2, "me", run.now), [completed(node)])], now=run.now, lease_ms=1_000)
        for run, node in ((left, "left"), (right, "right"))
    ]
    assert [len(one.transitions) for one in planned] == [1, 1], (
        "a transition that dispatches nothing is a transition all the same"
    )
    assert {one.transitions[0].expected_version for one in planned} == {2}, "so only one of them can win"
    assert apply_outcome(planned[1], Outcome(won=set(), store_now=0)).won == []
    state = fold(right.plan, right.head, [*right.log, *planned[0].transitions[0].events])
    again = plan_transitions(
        [(LeasedState(state, 3, "me", right.now), [completed("right")])], now=right.now, lease_ms=1_000
    )
    assert [str(event.type) for event in again.transitions[0].events] == ["NODE_COMPLETED", "NODE_DISPATCHED"]


def test_rows_are_numbered_per_instance_by_the_decision():
    """An auto-increment id is not commit order: readers that paged by it missed rows."""
    run = begun(DIAMOND).completed("left", "right", "join")
    assert [event.seq for event in run.log] == list(range(1, len(run.log) + 1))


def test_an_all_join_below_a_condition_does_not_wait_for_the_branch_not_taken():
    document = drawn("start>check, check.yes>a, check.else>b, a>join, b>join", check=condition("yes"))
    run = begun(document).then(completed("check", handle="yes"))
    assert run.when(completed("a")).dispatches == ["join"]


def test_a_barrier_counts_edges_and_not_nodes():
    """Two edges from one condition counted as one finished parent of two, or as two of two."""
    document = drawn("start>check, check.yes>join, check.no>join, start>slow, slow>join", check=condition("yes", "no"))
    run = begun(document)
    assert run.when(completed("check", handle="yes")).dispatches == []
    assert run.when(completed("slow")).dispatches == ["join"]


def test_an_any_join_is_not_dispatched_again_by_a_late_parent():
    run = begun(drawn("start>left, start>right, left>join, right>join", join={"joinMode": "any"})).completed("left")
    assert run.crashed().when(completed("right")).dispatches == []
    run.completed("join")
    assert run.rows("NODE_DISPATCHED").count("join") == 1


def test_iterations_of_a_body_do_not_collide():
    """Body rows had no scope: the second iteration met the unique index of the first."""
    run = begun(drawn("start>each, each.loop>work", each=loop())).then(completed("each", [1, 2, 3]))
    for index in range(3):
        run.completed(f"each[{index}]/work")
    assert run.rows("NODE_COMPLETED") == ["start", "each[0]/work", "each[1]/work", "each[2]/work", "each"]


def test_retries_and_delays_are_in_the_log_and_not_in_timers():
    run = begun(drawn("start>a, start>b, start>c"))
    run.then(failed("a", retryable=True), completed("b", delay_ms=DAY), asks_for("c", "go", timeout_ms=2 * DAY))
    assert run.crashed().due == {"a": 1_000, "b": DAY, "c": 2 * DAY}


def test_a_start_up_fails_no_run_for_its_age():
    """Whatever had been running for five minutes was marked FAILED when any worker started."""
    run = begun(DIAMOND).crashed()
    run.now += 30 * DAY
    assert run.when(LAPSED).types == ["INSTANCE_RECOVERED"]
    assert run.when(HANDED_OVER).nothing


def test_a_decision_that_raises_writes_nothing_at_all():
    """An exception of the engine's own was stored as the failure of the run."""
    run = begun(drawn("start>end", end={"type": "end"}))
    planned = plan_transitions(
        [(LeasedState(run.state, 2, "me", 0), [completed("end", 5)])], now=run.now, lease_ms=1_000
    )
    assert planned.transitions == []
    assert not differences(run.crashed().state, begun(drawn("start>end", end={"type": "end"})).state)


def test_completion_cannot_overwrite_a_cancel():
    run = begun(drawn("start>a")).then(cancel())
    assert run.when(completed("a")).nothing
    assert run.status == "CANCELLED"


def test_a_cancel_cannot_overwrite_completion():
    run = begun(drawn("start>a")).completed("a")
    assert run.when(cancel()).nothing
    assert run.status == "COMPLETED"


def test_the_terminal_status_is_in_the_log():
    completed_run = begun(drawn("start>a")).completed("a")
    failed_run = begun(drawn("start>a")).then(failed("a"))
    cancelled_run = begun(drawn("start>a")).then(cancel())
    late_run = begun(drawn("start>a"), deadline_in_ms=10)
    late_run.later(10)
    for run in (completed_run, failed_run, cancelled_run, late_run):
        assert run.crashed().status == run.log[-1].type.removeprefix("INSTANCE_")


def test_a_signal_that_arrives_before_its_wait_is_not_lost():
    run = begun(drawn("start>wait")).then(signal("go", 1)).crashed()
    assert run.when(asks_for("wait", "go")).payload("NODE_COMPLETED") == 1


def test_a_signal_written_beside_a_commit_is_served_after_the_reload():
    run = begun(drawn("start>wait, start>a")).then(asks_for("wait", "go")).written_elsewhere(signal("go", 1))
    assert run.crashed().when(TAIL).completions == ["wait"]


def test_a_start_that_was_never_dispatched_is_dispatched_by_whoever_claims_it():
    run = given(drawn("start>a"), begin=False).crashed()
    assert run.when(HANDED_OVER).dispatches == ["start"]

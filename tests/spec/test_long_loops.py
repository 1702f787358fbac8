"""A loop with much to do does it in several decisions, so that nobody else has to wait for it."""

from __future__ import annotations

import pytest

from anabranch.engine.rules.drawn.outcomes import LOOP_WORK_MAX
from anabranch.engine.rules.transitions import LeasedState, plan_transitions
from tests.spec.drawings import drawn, loop
from tests.spec.scenario import LAPSED, TIMERS, Scenario, begun, cancel, completed, failed, given, signal

# A decision may pass its budget by one iteration, whose template may cost as much again.
WORKED_MAX = 2 * LOOP_WORK_MAX

ECHO = drawn("start>each, each.done>after", each=loop(**{"yield": "{{ctx.item}}"}))
WIDE = drawn("start>each, each.loop>work, each.done>after", each=loop(concurrency=3))


def impatient(document=ECHO, items: int = 3, **options) -> Scenario:
    """A loop over so many items, where a decision runs one iteration and then has worked enough."""
    return begun(document, work_max=1, **options).completed("each", output=list(range(items)))


def until_done(run: Scenario, node: str = "after") -> None:
    """Offer time until the node is dispatched."""
    for _ in range(10_000):
        run.when(TIMERS)
        if node in run.owed:
            return
    raise AssertionError(f"{node} is not reached")


@pytest.mark.parametrize("written", ["{{ctx.item}}", "n{{ctx.item + 1}}", None])
def test_a_hundred_thousand_iterations_without_a_body_are_shared_among_decisions(written):
    run = begun(drawn("start>each, each.done>after", each=loop(**{"yield": written})), checked=False)
    worked = [run.when(completed("each", list(range(100_000)))).decision.worked]
    while "after" not in run.owed:
        worked.append(run.when(TIMERS).decision.worked)
    assert max(worked) < WORKED_MAX
    assert len(worked) > 1
    assert len(run.row("NODE_COMPLETED", "each")) == 100_000


def test_what_a_template_works_through_counts():
    run = begun(
        drawn("start>each, each.done>after", each=loop(**{"yield": "{{ctx.input | sum}}"})), list(range(10_000))
    )
    assert run.when(completed("each", list(range(200)))).decision.worked < WORKED_MAX
    assert "after" not in run.owed, "200 iterations of 10,000 numbers are more than one decision does"
    until_done(run)
    assert run.row("NODE_COMPLETED", "each") == [sum(range(10_000))] * 200


def test_a_while_loop_without_a_body_is_shared_among_decisions():
    again = loop(**{"while": "{{ctx.index < 5}}", "yield": "{{ctx.results | length}}"})
    run = begun(drawn("start>again, again.done>after", again=again), work_max=1).completed("again")
    until_done(run)
    assert run.row("NODE_COMPLETED", "again") == [0, 1, 2, 3, 4]


def test_the_rest_of_a_loop_is_due_at_once():
    run = begun(ECHO, work_max=1)
    assert run.when(completed("each", [1, 2, 3])).wakes == {"each": 0}
    assert run.later(5).nothing
    assert run.due == {"each": -5}
    assert run.later(0).completions == ["each"]
    assert run.due == {}


def test_openings_beyond_the_budget_follow_in_the_next_decision():
    run = begun(WIDE, work_max=1)
    assert run.when(completed("each", [1, 2, 3, 4])).dispatches == ["each[0]/work"]
    assert run.when(TIMERS).dispatches == ["each[1]/work"]
    assert run.when(TIMERS).dispatches == ["each[2]/work"]
    assert run.due == {}, "three are open, and that is what concurrency allows"
    assert run.when(completed("each[1]/work")).dispatches == ["each[3]/work"]


def test_an_unfinished_loop_goes_on_after_a_crash():
    run = impatient().crashed()
    assert run.due == {"each": 0}
    run.when(LAPSED)
    until_done(run)
    assert run.row("NODE_COMPLETED", "each") == [0, 1, 2]


def test_an_unfinished_loop_that_was_tried_again_before_it_opened_goes_on_after_a_crash():
    """Its due time was once taken for that of the retry, which a fold still has among its timers."""
    run = begun(ECHO, work_max=1).then(failed("each", retryable=True))
    run.later(1_000)
    run.completed("each#2", output=[0, 1, 2]).crashed().when(LAPSED)
    until_done(run)
    assert run.row("NODE_COMPLETED", "each") == [0, 1, 2]


def test_an_unfinished_loop_is_cancelled_at_once():
    assert impatient().when(cancel()).ending == "INSTANCE_CANCELLED"


def test_an_unfinished_loop_meets_its_deadline():
    run = impatient(deadline_in_ms=1_000)
    assert run.later(1_000).ending == "INSTANCE_FAILED"
    assert run.outcome["code"] == "DEADLINE_EXCEEDED"


def test_a_signal_does_not_push_an_unfinished_loop_and_does_not_stop_it():
    run = impatient()
    run.when(signal("news"))
    assert run.due == {"each": 0}
    until_done(run)


def test_an_unfinished_loop_leaves_other_timers_their_turn():
    document = drawn("start>each, start>pause, each.done>after", each=loop(**{"yield": "{{ctx.item}}"}))
    run = begun(document, work_max=1).then(completed("pause", delay_ms=10))
    run.completed("each", output=[1, 2, 3])
    assert run.later(10).completions == ["pause"]


def test_a_failed_iteration_ends_an_unfinished_loop():
    broken = drawn("start>each", each=loop(**{"yield": "{{1 / ctx.item}}"}))
    run = begun(broken, work_max=1).completed("each", output=[1, 0, 1])
    assert run.when(TIMERS).failures == ["each"]
    assert run.due == {}


def test_all_instances_of_a_batch_share_one_budget():
    runs = [begun(ECHO, checked=False) for _ in range(3)]
    work = [
        (LeasedState(run.state, 3, "me", run.now + 30_000), [completed("each", list(range(50_000)))]) for run in runs
    ]
    planned = plan_transitions(work, now=runs[0].now, lease_ms=30_000)
    assert [pending.leased for pending in planned.pending_transitions] == [work[0][0]], (
        "the others wait for the next batch"
    )
    (transition,) = planned.transitions
    assert not transition.release, "an instance that has work left is not parked"
    assert transition.status == "RUNNING"


def test_all_stimuli_of_a_turn_share_one_budget():
    two = drawn("start>one, start>two", one=loop(**{"yield": "{{ctx.item}}"}), two=loop(**{"yield": "{{ctx.item}}"}))
    run = begun(two, checked=False)
    results = [completed(node, list(range(50_000))) for node in ("one", "two")]
    (pending,) = plan_transitions(
        [(LeasedState(run.state, 3, "me", run.now + 30_000), results)], now=run.now, lease_ms=30_000
    ).pending_transitions
    assert sum(decision.worked for decision in pending.decisions) < WORKED_MAX


def test_ten_thousand_iterations_of_one_node_still_open_in_one_decision():
    run = begun(drawn("start>each, each.loop>work", each=loop(concurrency=10_000)), checked=False)
    assert len(run.when(completed("each", list(range(10_000)))).dispatches) == 10_000


def test_nested_loops_share_the_work_of_a_decision():
    nested = drawn(
        "start>outer, outer.loop>inner, outer.done>after",
        outer=loop(concurrency=2),
        inner=loop(**{"yield": "{{ctx.item}}"}),
    )
    run = given(nested, work_max=1).completed("start").completed("outer", output=[1, 2])
    run.when(TIMERS)
    run.completed("outer[0]/inner", output=[1, 2, 3]).completed("outer[1]/inner", output=[4, 5])
    until_done(run)
    assert run.row("NODE_COMPLETED", "outer") == [[1, 2, 3], [4, 5]]

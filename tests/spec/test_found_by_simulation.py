"""Defects that the simulation found, each as the smallest case that shows it."""

from __future__ import annotations

from anabranch.engine.rules.events import Status
from anabranch.engine.rules.stimuli import Started
from anabranch.engine.rules.values import Payload
from tests.spec.drawings import drawn
from tests.spec.scenario import Scenario, given


def test_a_birth_that_is_tried_again_after_it_happened_changes_nothing():
    """The commit of a new run was reported lost, arrived late, and the start was decided again on what it wrote."""
    run = given(drawn("start>a"))
    assert run.when(Started(Payload.of(None))).nothing


def test_a_birth_that_is_tried_again_after_the_deadline_changes_nothing_either():
    """The deadline is the timers' to find: a start never ends a run."""
    run = given(drawn("start>a"), deadline_in_ms=10)
    run.now += 10
    assert run.when(Started(Payload.of(None))).nothing
    assert run.status is Status.RUNNING


def test_a_birth_that_outlasts_its_available_at_leaves_the_beginning_to_a_guarded_timer():
    """The store was away until then, and its clock is behind ours: only a timer's transition asks it for the time."""
    run = given(drawn("start>a"), available_in_ms=500, begin=False)
    created = Scenario(run.plan, run.head, checked=True)
    created.now += 600
    new_run = created.when(Started(Payload.of(None)))
    assert (new_run.dispatches, created.due) == ([], {"": -100})
    begun = created.later(0)
    assert (begun.dispatches, begun.decision.not_before) == (["start"], run.head.available_at)

"""Forks: what of a recorded run is reused, what runs again and why, and that the new log is one the rules write."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from anabranch.engine.rules.event_payloads import SignalReceived, read_input
from anabranch.engine.rules.events import Event, EventType, Status
from anabranch.engine.rules.graph.compile import compile_plan
from anabranch.engine.rules.repair.fork_plan import ForkCut, ForkPlan, RecordedRun, plan_fork
from anabranch.engine.rules.stimuli import EvaluationDue, Started
from anabranch.engine.rules.values import Payload
from anabranch.engine.rules.verify.check_log import check_log as check_definition
from anabranch.errors import ForkRefused
from anabranch.histories.graph_replay import replay_graph
from tests.spec import scenario
from tests.spec.drawings import TYPES, TypesWith, broken, condition, drawn, loop
from tests.spec.laws import check_log
from tests.spec.scenario import Scenario, asks_for, begun, completed, failed, signal
from tests.spec.shapes import random_shape
from tests.spec.test_any_order import STIMULI, Weather, finish

LINE = drawn("start>a, a>b, b>c")
NEW_ID = "00000000-0000-7000-8000-0000000000ff"
HOUR_MS = 3_600_000
PAID = SignalReceived("paid", Payload.of(7), "k1")


def fork(
    run: Scenario, document: Mapping[str, Any] | None = None, *, input_: Any = None, **cut: Any
) -> tuple[ForkPlan, Scenario]:
    """The plan, and the new run."""
    plan = run.plan if document is None else compile_plan(document, TYPES, evaluates=False)
    head = replace(run.head, instance_id=NEW_ID, generation=0, left_out=())
    given = read_input(run.log[0].payload) if input_ is None else input_
    source = RecordedRun(run.plan, run.head, run.log)
    now = run.now + HOUR_MS
    made = plan_fork(source, plan, head, Started(Payload.of(given)), cut=ForkCut(**cut), now=now)
    forked = Scenario(plan, replace(head, deadline_at=None), checked=False)
    forked.now, forked.state, forked.log = now, made.state, made.events
    return made, forked


def keys(listed: list[dict[str, Any]]) -> list[str]:
    return [scenario.address(each["nodeID"], each["scope"]) for each in listed]


def reasons(made: ForkPlan) -> dict[str, str]:
    return {scenario.address(each["nodeID"], each["scope"]): str(each["because"]) for each in made.run}


def test_a_fork_at_a_node_reuses_what_is_before_it_and_runs_the_rest() -> None:
    run = begun(LINE).completed("a", "b", "c")
    made, forked = fork(run, chosen=[("b", None)])
    assert (keys(made.reuse), reasons(made), keys(made.undecided)) == (["start", "a"], {"b": "CHOSEN"}, ["c"])
    assert made.run[0]["effect"] == "again"
    assert made.events[-1].type is EventType.FORKED_FROM
    assert made.events[-1].payload.value["instanceID"] == run.head.instance_id
    assert forked.completed("b", "c").status is Status.COMPLETED


def test_the_failure_that_a_run_ended_with_is_not_reused() -> None:
    run = begun(LINE).completed("a").then(failed("b"))
    made, forked = fork(run)
    assert reasons(made) == {"b": "FAILED"}
    assert forked.completed("b", "c").status is Status.COMPLETED


def test_a_cut_leaves_later_outcomes_out() -> None:
    run = begun(drawn("start>a, start>b")).completed("a", "b")
    seq = next(event.seq for event in run.log if event.type is EventType.NODE_COMPLETED and event.node_id == "a")
    made, _ = fork(run, seq=seq)
    assert (keys(made.reuse), reasons(made)) == (["start", "a"], {"b": "AFTER_CUT"})


def test_what_ran_after_the_cut_has_had_its_effects_and_is_undecided_in_loops_too() -> None:
    each = {"type": "loop", "config": {"source": "{{ctx.input}}"}}
    run = begun(drawn("start>a, a>each, each.loop>work, each.done>c, a.error>mend", each=each), [1, 2])
    run.completed("a").then(completed("each", [1, 2])).completed("each[0]/work", "each[1]/work", "c")
    made, _ = fork(run, seq=3)
    assert (reasons(made), made.run[0]["effect"]) == ({"a": "AFTER_CUT"}, "again")
    effects = {scenario.address(each["nodeID"], each["scope"]): each["effect"] for each in made.undecided}
    assert effects == {**dict.fromkeys(("each", "each[0]/work", "each[1]/work", "c"), "again"), "mend": "first"}


def test_results_of_node_types_that_are_not_known_here_are_reused() -> None:
    types = TypesWith(broken(handles=lambda config: ("default", "loud")))
    document = drawn("start>a, start>b, b>c", a={"type": "broken"}, b={"type": "broken"})
    run = begun(compile_plan(document, types, evaluates=False))
    run.then(completed("a", handle="loud")).completed("b", "c")
    run.plan = compile_plan(document, TYPES, evaluates=False)
    made, _ = fork(run, chosen=[("c", None)])
    assert (keys(made.reuse), reasons(made)) == (["start", "a", "b"], {"c": "CHOSEN"})
    assert replay_graph(run.plan, run.plan, run.head, run.log) == []


def test_what_is_undecided_has_its_new_name() -> None:
    run = begun(LINE).completed("a", "b", "c")
    made, _ = fork(run, drawn("start>a, a>b, b>x"), chosen=[("b", None)], renames={"x": "c"})
    assert keys(made.undecided) == ["x"]


def test_a_fork_that_would_fail_at_once_says_at_which_node_and_why() -> None:
    run = begun(drawn("start>a, a.error>mend")).then(failed("a")).completed("mend")
    with pytest.raises(ForkRefused, match="the new run would fail at once: node 'a': HANDLER_ERROR: it broke"):
        fork(run, drawn("start>a"))


def test_changed_config_and_changed_input_run_again() -> None:
    def shop(path: str) -> dict[str, Any]:
        call = {"type": "httpRequest", "config": {"url": "https://x.test/" + path}}
        return drawn("start>get, get>put", get=call, put={"type": "httpRequest", "config": {"url": "https://x.test"}})

    run = begun(shop("{{ctx.input.n}}"), {"n": 1}).completed("get").then(failed("put"))
    same, _ = fork(run)
    assert keys(same.reuse) == ["start", "get"]
    other, _ = fork(run, shop("all"))
    assert reasons(other) == {"get": "CONFIG_CHANGED"}
    changed, _ = fork(run, input_={"n": 2})
    assert reasons(changed) == {"get": "INPUT_CHANGED"}
    assert changed.run[0]["path"] == "/url"


def test_removed_and_renamed_nodes() -> None:
    run = begun(LINE).completed("a", "b", "c")
    made, _ = fork(run, drawn("start>x, x>d"), renames={"x": "a"})
    assert (keys(made.reuse), reasons(made)) == (["start", "x"], {"d": "NEW"})
    assert keys(made.drop) == ["b", "c"]


def test_handled_failures_are_reused_unless_they_are_to_be_redone() -> None:
    run = begun(drawn("start>a, a.error>mend, mend>b")).then(failed("a")).completed("mend").then(failed("b"))
    made, _ = fork(run)
    assert (keys(made.reuse), reasons(made)) == (["start", "a", "mend"], {"b": "FAILED"})
    redone, _ = fork(run, redo_failed=True)
    assert reasons(redone) == {"a": "FAILED"}


def test_outcomes_are_given_in_the_order_in_which_they_came() -> None:
    graph = drawn("start>a, start>b, a>end, b>end, end>last", a={"outputVariable": "x"}, b={"outputVariable": "x"})
    run = begun(graph).then(completed("b", "from b"), completed("a", "from a")).completed("end").then(failed("last"))
    _, forked = fork(run)
    assert forked.sees("last")["x"] == "from a"


def test_kept_signals_go_along_with_their_keys() -> None:
    run = begun(drawn("start>a, start>b")).then(signal("paid", 7, key="k1")).completed("a").then(failed("b"))
    made, forked = fork(run)
    assert made.signals == {"copied": 1, "left": 0}
    assert forked.when(signal("paid", 8, key="k1")).nothing, "the key is known"
    assert forked.when(asks_for("b", "paid")).completions == ["b"]
    left, _ = fork(run, signals=False)
    assert left.signals == {"copied": 0, "left": 1}


def test_a_fork_that_would_run_nothing_is_refused() -> None:
    with pytest.raises(ForkRefused):
        fork(begun(LINE).completed("a", "b", "c"))


def test_a_chosen_node_that_is_computed_is_named() -> None:
    asks = {"type": "waitForEvent", "config": {"event": "go"}}
    looped = drawn("start>each, each.loop>ask, ask>each", each=loop(), ask=asks)
    run = scenario.given(looped, {"items": [1]}, evaluates=True).then(EvaluationDue()).completed("each[0]/ask")
    made, _ = fork(run, chosen=[("each", None), ("ask", None)])
    assert (made.computed, keys(made.run)) == (["each"], ["each[0]/ask"])
    with pytest.raises(ForkRefused, match="computed and not executed: 'each'"):
        fork(run, chosen=[("each", None)])


def test_finished_iterations_are_reused() -> None:
    each = {"type": "loop", "config": {"source": "{{ctx.input}}", "concurrency": 3}}
    run = begun(drawn("start>each, each.loop>work, each.done>after", each=each), [1, 2, 3])
    run.then(completed("each", [1, 2, 3])).completed("each[0]/work", "each[2]/work").then(failed("each[1]/work"))
    made, forked = fork(run)
    assert reasons(made) == {"each[1]/work": "FAILED"}
    assert {"each[0]/work", "each[2]/work"} <= set(keys(made.reuse))
    assert forked.completed("each[1]/work", "after").status is Status.COMPLETED


POLL = drawn("start>ask, ask>look, look.again>ask, look.else>done, done>last", look=condition("again"))


def polled() -> Scenario:
    """A loop without a loop node that was left after its second pass, and a failure behind it."""
    run = begun(POLL).then(completed("ask#1/ask"), completed("ask#1/look", handle="again"), completed("ask#2/ask"))
    return run.then(completed("ask#2/look", handle="else")).completed("done").then(failed("last"))


def test_passes_of_loops_without_a_loop_node_are_reused_by_their_number() -> None:
    made, forked = fork(polled())
    assert reasons(made) == {"last": "FAILED"}
    assert {"ask#1/ask", "ask#1/look", "ask#2/ask", "ask#2/look"} <= set(keys(made.reuse))
    assert forked.completed("last").status is Status.COMPLETED

    second, forked = fork(polled(), chosen=[("ask", "ask#2")])
    assert (reasons(second), keys(second.undecided)) == ({"ask#2/ask": "CHOSEN"}, ["ask#2/look", "done", "last"])
    forked.then(completed("ask#2/ask"), completed("ask#2/look", handle="again"))
    assert forked.owed == {"ask#3/ask"}


def test_passes_are_found_when_the_header_of_their_loop_was_renamed() -> None:
    renamed = drawn("start>poll, poll>look, look.again>poll, look.else>done, done>last", look=condition("again"))
    made, _ = fork(polled(), renamed, renames={"poll": "ask"})
    assert reasons(made) == {"last": "FAILED"}
    assert {"poll#1/poll", "poll#1/look", "poll#2/poll", "poll#2/look"} <= set(keys(made.reuse))


def test_a_signal_that_was_meant_for_an_open_wait_goes_along() -> None:
    run = begun(drawn("start>a, start>b")).then(asks_for("b", "paid"))
    run.log.append(Event(run.state.last_seq + 1, EventType.SIGNAL_RECEIVED, "", "", 0, PAID.payload, run.now))
    made, forked = fork(run, chosen=[("a", None)])
    assert made.signals == {"copied": 1, "left": 0}
    assert forked.when(asks_for("b", "paid")).completions == ["b"]


@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(st.randoms(use_true_random=False))
def test_a_fork_of_any_run_is_a_run_that_the_rules_write_and_it_ends(rng: random.Random) -> None:
    run = scenario.given(random_shape(rng))
    Weather(rng, run).blow(STIMULI)
    seq = rng.choice([None, rng.randint(1, len(run.log))])
    try:
        made, forked = fork(run, seq=seq, redo_failed=rng.random() < 0.3)
    except ForkRefused:
        return
    check_log(made.state, made.events)
    rows = {event.seq: event for event in run.log}
    for each in made.reuse:
        row = rows[each["seq"]]
        assert (row.node_id, row.scope) == (each["nodeID"], each["scope"])
        assert seq is None or row.seq <= seq, "what came after the cut is not reused"
    finish(forked)


def test_the_log_of_a_fork_is_one_that_its_definition_leads_to() -> None:
    wait = {"type": "waitForEvent", "config": {"event": "paid"}}
    call = {"type": "httpRequest", "config": {"url": "https://x.test"}}
    run = begun(drawn("start>w, w>put", w=wait, put=call)).then(asks_for("w", "paid"), signal("paid", 1), failed("put"))
    made, forked = fork(run)
    assert keys(made.reuse) == ["start", "w"], "waits end at once with what they had come to"
    assert check_definition(forked.plan, forked.head, made.events) == []

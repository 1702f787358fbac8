"""The journal of coded runs: what is recorded of steps and function, and when the function must run."""

from __future__ import annotations

from dataclasses import replace

import pytest

from anabranch.engine.ownership.owned_instances import OwnedInstance
from anabranch.engine.rules.coded import coded_decide as coded_decide
from anabranch.engine.rules.coded.names import Mark, StepKind, scope_of_timer
from anabranch.engine.rules.coded.replaying import seed_of
from anabranch.engine.rules.coded.trace import trace
from anabranch.engine.rules.decide import decide
from anabranch.engine.rules.event_payloads import SignalReceived
from anabranch.engine.rules.events import Event, EventType, Status
from anabranch.engine.rules.evolve import evolve, fold
from anabranch.engine.rules.history import activations_of
from anabranch.engine.rules.shared.blame import Blame
from anabranch.engine.rules.shared.child_ids import child_id
from anabranch.engine.rules.shared.decisions import NOTHING, Decision
from anabranch.engine.rules.stimuli import (
    AwaitsAnySignal,
    AwaitsChild,
    AwaitsInstant,
    AwaitsSignal,
    Begun,
    CancelRequested,
    ChildEnded,
    FunctionSuspended,
    LeaseAcquired,
    LegacyReplayed,
    LogReloaded,
    PauseRequested,
    ResumeRequested,
    SignalSent,
    StepCancelled,
    StepReport,
    Stimulus,
)
from anabranch.engine.rules.transitions import LeasedState, owed_dispatches, plan_transitions
from anabranch.engine.rules.values import Payload
from tests.spec.coded import (
    FUNCTION,
    Coded,
    blocked,
    broken,
    done,
    function,
    matched,
    raised,
    report,
    returned,
    sleeps,
    suspended,
    types,
)

QUICK = {"attempts": 3, "backoff": {"kind": "fixed", "base": "5s", "jitter": 0}}


def waits_for(event: str) -> StepReport:
    return report(event, AwaitsSignal(event, None, None), kind=StepKind.EVENT)


def test_a_run_begins_with_its_function():
    run = Coded()
    assert [event.type for event in run.log] == ["INPUT_SET", "NODE_DISPATCHED"]
    assert (run.status, list(run.state.running)) == (Status.RUNNING, [("", "")])


def test_a_step_is_one_row():
    assert types(Coded().when(done("fetch", 1))) == ["NODE_COMPLETED fetch"]


def test_a_late_duplicate_changes_nothing():
    run = Coded().then(done("fetch", 1))
    assert run.when(done("fetch", 2)) == NOTHING


def test_what_a_function_reports_that_is_not_the_runs_any_more_changes_nothing():
    run = Coded(retry=QUICK).then(raised())
    run.later(5_000)
    assert run.when(done("fetch", function_attempt=1)) == NOTHING
    assert types(run.when(done("fetch", function_attempt=2))) == ["NODE_COMPLETED fetch"]


def test_the_end_of_the_function_is_the_end_of_the_run():
    run = Coded()
    decision = run.when(returned({"a": 1}))
    assert types(decision) == ["INSTANCE_COMPLETED"]
    assert (run.status, run.outcome) == (Status.COMPLETED, {"a": 1})


def test_a_failed_attempt_is_due_again_and_its_row_begins_it():
    run = Coded().then(broken("pay"))
    assert run.status is Status.RUNNING
    assert types(run.later(1_500)) == ["NODE_DISPATCHED pay"]
    assert run.when(done("pay")) == NOTHING, "a late result of the first attempt"
    assert types(run.when(done("pay", attempt=2))) == ["NODE_COMPLETED pay"]


def test_the_last_attempt_fails_the_step_and_not_the_run():
    run = Coded()
    assert types(run.when(broken("pay", retryable=False))) == ["NODE_FAILED pay"]
    assert run.status is Status.RUNNING


# -- suspension ---------------------------------------------------------------------------
def test_a_suspended_function_is_woken_by_the_end_of_a_wait():
    run = Coded()
    assert types(run.when(suspended(sleeps("nap", 60_000)))) == ["NODE_WAITING nap", "NODE_WAITING"]
    assert (run.status, run.state.next_due()) == (Status.WAITING, run.now + 60_000)
    woken = run.later(60_000)
    assert types(woken) == ["NODE_COMPLETED nap"]
    assert woken.commands == [FUNCTION]
    assert woken.not_before == run.now


def test_a_suspended_function_is_woken_by_a_due_attempt():
    run = Coded().then(broken("pay"))
    run.when(suspended(awaited=["pay"]))
    assert run.status is Status.WAITING
    assert run.later(2_000).commands == [FUNCTION]


def test_a_function_that_is_suspended_when_its_wait_is_over_runs_again_at_once():
    run = Coded().then(sleeps("nap", 10))
    run.later(10)
    decision = run.when(suspended(awaited=["nap"]))
    assert types(decision) == ["NODE_WAITING"]
    assert decision.events[0].payload.value == {"ready": True}
    assert (decision.commands, run.status) == ([FUNCTION], Status.RUNNING)


def test_a_signal_that_is_kept_ends_a_wait_with_the_suspension():
    run = Coded().then(SignalSent("go", Payload.of(7)))
    decision = run.when(suspended(waits_for("go")))
    assert types(decision) == ["NODE_WAITING go", "NODE_COMPLETED go", "NODE_WAITING"]
    assert decision.commands == [FUNCTION]


def test_a_signal_wakes_the_function_of_the_wait_that_it_fits():
    run = Coded().then(suspended(waits_for("go")))
    decision = run.when(SignalSent("go", Payload.of(7), key="k"))
    assert types(decision) == ["SIGNAL_RECEIVED", "NODE_WAITING go", "NODE_COMPLETED go"]
    assert (decision.delivered, decision.commands) == (True, [FUNCTION])
    assert run.when(SignalSent("go", Payload.of(8), key="k")).delivered is True, "answered as the first was"


def test_a_signal_that_fits_no_wait_wakes_nobody():
    run = Coded().then(suspended(waits_for("go")))
    assert run.when(SignalSent("stop", Payload.of(None))).commands == []
    assert run.status is Status.WAITING


def test_a_takeover_of_a_suspended_run_calls_no_function_until_something_is_over():
    run = Coded().then(suspended(sleeps("nap", 60_000))).crashed()
    assert run.when(LeaseAcquired()) == NOTHING
    run.now += 60_000
    assert run.when(LeaseAcquired()).commands == [FUNCTION]


def test_a_takeover_of_a_running_function_is_counted_and_progress_forgets_it():
    run = Coded().crashed()
    run.when(LeaseAcquired(Blame(1)))
    assert run.state.blame == Blame(1)
    assert run.then(done("fetch")).state.blame is None


def test_a_late_duplicate_of_a_suspension_does_not_stop_the_next_call():
    run = Coded()
    late = function(FunctionSuspended([("nap", "")], (sleeps("nap", 1_500),), run.state.function.called_by))
    run.when(late)
    run.later(1_500)
    assert run.when(late) == NOTHING
    assert run.status is Status.RUNNING


# -- children -----------------------------------------------------------------------------
CHILD = child_id("run", "call", "")


def invoking() -> Coded:
    """A function that has begun to start a child."""
    return Coded().then(report("call", Begun(), kind=StepKind.CHILD))


def test_a_child_is_in_the_log_before_it_is_born():
    run = invoking()
    assert [event.node_id for event in run.log if event.type == "NODE_DISPATCHED"] == ["", "call"]
    run.when(suspended(report("call", AwaitsChild(CHILD), kind=StepKind.CHILD)))
    decision = run.when(ChildEnded(CHILD, Status.COMPLETED, Payload.of([1])))
    assert (types(decision), decision.commands) == (["NODE_COMPLETED call"], [FUNCTION])


@pytest.mark.parametrize(("status", "code"), [(Status.FAILED, "CHILD_FAILED"), (Status.CANCELLED, "CHILD_CANCELLED")])
def test_the_bad_end_of_a_child_is_the_failure_of_its_step(status: Status, code: str):
    run = invoking().then(report("call", AwaitsChild(CHILD), kind=StepKind.CHILD))
    outcome = Payload.of({"code": "X", "message": "no"})
    assert run.when(ChildEnded(CHILD, status, outcome)).events[0].payload.value["error"]["code"] == code


@pytest.mark.parametrize("stimulus", [returned(), raised(), CancelRequested("enough")], ids=lambda s: type(s).__name__)
def test_any_end_cancels_children_that_may_be_on_their_way(stimulus: object):
    assert invoking().when(stimulus).cancels == [CHILD]


def test_a_deadline_cancels_them_too():
    run = Coded(deadline_at=1_700_000_001_000).then(report("call", Begun(), kind=StepKind.CHILD))
    assert run.later(1_000).cancels == [CHILD]
    assert run.outcome["code"] == "DEADLINE_EXCEEDED"


def test_a_child_that_has_begun_begins_once():
    """The report is decided again when its commit was taken for lost, and came to pass all the same."""
    run = invoking()
    again = run.when(report("call", Begun(), kind=StepKind.CHILD))
    assert again == NOTHING


def test_a_child_that_could_not_be_started_is_cancelled_in_case_it_was():
    """The answer to its creation may have been lost: nobody would ever wait for it."""
    decision = invoking().when(broken("call", retryable=False, kind=StepKind.CHILD))
    assert (types(decision), decision.cancels) == (["NODE_FAILED call"], [CHILD])


# -- given up by the function -------------------------------------------------------------------
def test_a_wait_that_is_given_up_leaves_signals_to_the_next_one():
    run = Coded().then(waits_for("go"))
    assert types(run.when(report("go", StepCancelled(), kind=StepKind.EVENT))) == ["NODE_SKIPPED go"]
    assert run.when(SignalSent("go", Payload.of(7))).delivered is False
    decision = run.when(report("go", AwaitsSignal("go", None, None), kind=StepKind.EVENT, scope="#2"))
    assert types(decision) == ["NODE_WAITING go#2", "NODE_COMPLETED go#2"]


def test_what_has_ended_is_not_given_up_and_what_is_given_up_ends_once():
    run = Coded().then(done("a"), waits_for("go"), report("go", StepCancelled(), kind=StepKind.EVENT))
    assert run.when(report("a", StepCancelled())) == NOTHING
    assert run.when(report("go", StepCancelled(), kind=StepKind.EVENT)) == NOTHING


def test_what_was_begun_and_has_no_row_yet_is_given_up_with_its_first():
    """No replay begins it again, and what it comes to after that is nobody's."""
    run = Coded()
    assert types(run.when(report("pay", StepCancelled()))) == ["NODE_SKIPPED pay"]
    assert run.when(done("pay")) == NOTHING


def test_a_child_that_is_given_up_is_cancelled():
    decision = invoking().when(report("call", StepCancelled(), kind=StepKind.CHILD))
    assert (types(decision), decision.cancels) == (["NODE_SKIPPED call"], [CHILD])


def test_a_sleep_that_is_given_up_is_not_due():
    run = Coded().then(sleeps("nap", 60_000), report("nap", StepCancelled(), kind=StepKind.SLEEP))
    assert run.state.next_due() is None


def test_the_next_attempt_waits_anew_for_what_was_given_up():
    run = Coded(retry=QUICK).then(waits_for("go"), report("go", StepCancelled(), kind=StepKind.EVENT), raised())
    run.later(5_000)
    assert run.state.scope_for("go", "", attempt=2) == "@2"


# -- the workflow's own retry ---------------------------------------------------------------
def test_the_next_attempt_of_the_function_begins_when_it_is_due():
    run = Coded(retry=QUICK)
    assert types(run.when(raised())) == ["NODE_ATTEMPT_FAILED"]
    assert run.status is Status.WAITING
    decision = run.later(5_000)
    assert types(decision) == ["NODE_DISPATCHED"]
    assert decision.commands == [FUNCTION._replace(attempt=2)]


def test_without_a_retry_the_first_failure_is_the_runs():
    run = Coded().then(raised())
    assert (run.status, run.outcome["message"]) == (Status.FAILED, "no")


def test_what_failed_runs_in_a_scope_of_the_attempt_and_what_completed_stays():
    run = Coded(retry=QUICK).then(done("a"), broken("b", retryable=False), raised())
    run.later(5_000)
    assert run.state.scope_for("a", "", attempt=2) == ""
    assert run.state.scope_for("b", "", attempt=2) == "@2"
    run.then(broken("b", retryable=False, scope="@2", function_attempt=2))
    assert run.state.scope_for("b", "", attempt=2) == "@2", "a replay of the same attempt finds the failure"
    assert run.state.scope_for("b", "", attempt=3) == "@3"
    run.then(broken("c", retryable=False, function_attempt=2))
    assert run.state.scope_for("c", "", attempt=2) == "", "it failed in this very attempt"


# -- blocked ------------------------------------------------------------------------------
def test_a_blocked_function_suspends_its_run_once_and_says_why():
    run = Coded()
    happened = run.when(blocked())
    assert (types(happened), happened.commands) == (["INSTANCE_SUSPENDED"], [])
    said = happened.events[0].payload.value
    assert (said["reason"], said["message"], said["refusedBy"]) == ("NONDETERMINISM", "changed", "digest")
    assert run.status is Status.SUSPENDED


def test_it_is_tried_again_and_again_without_a_row():
    run = Coded().then(blocked())
    for _ in range(3):
        assert types(run.when(LeaseAcquired())) == []
        assert (run.state.on_trial, run.state.may_perform) == (True, True)
        assert owed_dispatches(run.state) == [FUNCTION]
        assert types(run.when(blocked())) == []
        assert not run.state.may_perform


def test_a_run_whose_code_matches_its_log_goes_on_with_what_has_come_meanwhile():
    run = Coded().then(waits_for("go"), blocked())
    assert types(run.when(SignalSent("go", Payload.of(1)))) == ["SIGNAL_RECEIVED"]
    run.then(LeaseAcquired())
    assert types(run.later(600_000)) == [], "nothing fires on trial"
    happened = run.when(matched())
    assert types(happened) == ["INSTANCE_RESUMED", "NODE_WAITING go", "NODE_COMPLETED go"]
    assert run.status is Status.RUNNING


def test_a_function_that_ends_on_trial_resumes_its_run_first():
    run = Coded(retry=QUICK).then(blocked(), LeaseAcquired())
    assert types(run.when(raised())) == ["INSTANCE_RESUMED", "NODE_ATTEMPT_FAILED"]
    run = Coded().then(blocked(), LeaseAcquired())
    assert types(run.when(returned(1))) == ["INSTANCE_RESUMED", "INSTANCE_COMPLETED"]


@pytest.mark.parametrize("on_trial", [False, True])
def test_a_pause_of_a_refused_run_lasts_until_it_is_resumed(on_trial: bool):
    run = Coded().then(blocked(), *[LeaseAcquired()] * on_trial)
    happened = run.when(PauseRequested("paused by Ada"))
    assert (types(happened), happened.commands) == (["INSTANCE_RESUMED", "INSTANCE_SUSPENDED"], [])
    said = [event.payload.value for event in happened.events]
    assert (said[0], said[1]["reason"]) == ({"by": "the pause"}, "PAUSED")
    assert not run.state.may_perform
    assert types(run.when(matched())) == [], "the code matches, and nobody has resumed the run"
    assert types(run.when(LeaseAcquired())) == []
    assert types(run.when(PauseRequested("paused by Bob"))) == []
    assert types(run.when(ResumeRequested("Ada"))) == ["INSTANCE_RESUMED"]
    assert owed_dispatches(run.state) == [FUNCTION]


@pytest.mark.parametrize(("elsewhere", "may_perform"), [(None, True), (PauseRequested("paused by Ada"), False)])
def test_a_trial_ends_with_a_pause_that_another_process_wrote(elsewhere: Stimulus | None, may_perform: bool):
    run = Coded().then(blocked(), LeaseAcquired())
    owned = OwnedInstance(run.state, 1, "w", run.now)
    reread = fold(run.plan, run.head, [*run.log, *(decide(run.state, elsewhere, run.now).events if elsewhere else ())])
    owned.state.on_trial = True
    owned.replace_state(reread, version=2, worker_id="w", lease_until=run.now)
    assert owned.state.may_perform is may_perform


def test_a_refused_run_is_offered_again_later_and_later():
    run, waits = Coded().then(blocked()), []
    for _ in range(8):
        leased = LeasedState(run.state, 1, "me", run.now + 30_000)
        planned = plan_transitions([(leased, [blocked()])], now=run.now, lease_ms=30_000)
        transition = planned.transitions[0]
        assert (transition.release, transition.events, transition.status) == (True, (), Status.SUSPENDED)
        assert transition.available_at is not None
        waits.append((transition.available_at - run.now) // 1000)
        run.later(transition.available_at - run.now)
        run.then(LeaseAcquired())
    assert waits == [5, 5, 10, 20, 40, 80, 160, 300]


# -- limits -------------------------------------------------------------------------------
def test_a_run_has_only_so_many_steps(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(coded_decide, "STEPS_MAX", 3)
    run = Coded().then(done("a"), done("b"), done("c"))
    assert run.when(done("c")) == NOTHING
    assert types(run.when(done("d"))) == ["INSTANCE_FAILED"]
    assert run.outcome["code"] == "STEP_LIMIT"


def test_a_external_row_is_served_when_it_is_found():
    run = Coded().then(suspended(waits_for("go"))).crashed()
    assert run.when(LogReloaded()) == NOTHING


# -- the graph ----------------------------------------------------------------------------
def test_a_trace_shows_what_followed_from_what():
    run = Coded().then(done("a"))  # row 3
    for name, after in (("b", {3}), ("c", {3}), ("d", {4, 5}), ("e", {4, 5})):
        run.when(_after(name, frozenset(after)))
    traced = trace(activations_of(run.log))
    assert [step.id for step in traced.steps] == ["@start", "a", "b", "c", "d", "e", "join@4,5"]
    join = "join@4,5"
    assert set(traced.edges) == {
        ("@start", "a"), ("a", "b"), ("a", "c"), ("b", join), ("c", join), (join, "d"), (join, "e"),
    }  # fmt: skip


def test_a_step_may_be_called_like_the_start_of_the_graph():
    traced = trace(activations_of(Coded().then(done("start")).log))
    assert [step.id for step in traced.steps] == ["@start", "start"]
    assert traced.edges == [("@start", "start")]


def _after(name: str, rows: frozenset[int]) -> StepReport:
    return replace(done(name), mark=Mark.of(StepKind.RUN, rows))


# -- arguments ----------------------------------------------------------------------------
def test_the_first_row_of_a_step_says_what_it_was_asked_for_with():
    run = Coded()
    first = replace(broken("pay"), arguments='0123456789abcdef ["salt"]')
    noted = [run.when(first).events, run.later(2_000).events, run.when(replace(first, attempt=2)).events]
    assert [event.arguments for events in noted for event in events] == [first.arguments, None, None]
    assert run.crashed().state.steps["pay", ""].arguments == first.arguments


# -- waits for any of several signals -----------------------------------------------------
def any_of(name: str, *, timeout_ms: int | None = None, **events: object) -> StepReport:
    matches = {event: None if match is None else Payload.of(match) for event, match in events.items()}
    return report(name, AwaitsAnySignal(matches, timeout_ms), kind=StepKind.EVENT)


def ended_as(decision: Decision) -> list[object]:
    return [event.payload.value for event in decision.events if event.type == "NODE_COMPLETED"]


def test_a_wait_for_several_signals_is_one_row_that_names_them_all():
    run = Coded().then(suspended(any_of("decide", approve={"by": "ada"}, reject=None, timeout_ms=5_000)))
    row = next(event for event in run.log if event.node_id == "decide")
    assert row.payload.value["events"] == {"approve": {"by": "ada"}, "reject": None}
    assert run.state.next_due() == run.now + 5_000


def test_whichever_comes_first_ends_it_and_the_others_are_kept():
    run = Coded().then(suspended(any_of("decide", approve={"by": "ada"}, reject=None)))
    assert run.when(SignalSent("approve", Payload.of({"by": "bob"}))).delivered is False, "it does not fit"
    decision = run.when(SignalSent("reject", Payload.of({"why": 1})))
    assert types(decision) == ["SIGNAL_RECEIVED", "NODE_WAITING decide", "NODE_COMPLETED decide"]
    assert (decision.delivered, decision.commands) == (True, [FUNCTION])
    assert ended_as(decision) == [{"event": "reject", "payload": {"why": 1}}]
    assert run.when(SignalSent("approve", Payload.of({"by": "ada"}))).delivered is False
    assert not run.state.signals.waits


def test_of_kept_signals_it_takes_the_one_that_arrived_first_whatever_its_name():
    run = Coded().then(*(SignalSent(event, Payload.of(n)) for n, event in enumerate(["z", "b", "a", "b"])))
    taken = [run.when(replace(any_of("next", a=None, b=None), scope=f"#{n}")) for n in range(3)]
    assert [ended_as(decision) for decision in taken] == [
        [{"event": "b", "payload": 1}],
        [{"event": "a", "payload": 2}],
        [{"event": "b", "payload": 3}],
    ]


@pytest.mark.parametrize("order", [["one", "any"], ["any", "one"]])
def test_the_oldest_open_wait_takes_a_signal_whether_it_asks_for_one_or_several(order: list[str]):
    waits = {"one": waits_for("go"), "any": any_of("any", stop=None, go=None)}
    names = {"one": "go", "any": "any"}
    run = Coded().then(*(waits[each] for each in order))
    for each in order:
        assert f"NODE_COMPLETED {names[each]}" in types(run.when(SignalSent("go", Payload.of(1))))


def test_a_signal_promised_to_a_wait_that_ends_goes_to_the_next_one():
    """Another process has appended it: nobody has decided yet who gets it, when the first one is given up."""
    run = Coded().then(any_of("first", go=None, stop=None), any_of("second", go=None))
    row = SignalReceived("go", Payload.of(7), None).payload
    external = Event(run.state.last_seq + 1, EventType.SIGNAL_RECEIVED, "", "", 0, row, run.now)
    evolve(run.state, external)
    run.log.append(external)
    decision = run.when(report("first", StepCancelled(), kind=StepKind.EVENT))
    assert "NODE_SKIPPED first" in types(decision)
    assert ended_as(run.when(LogReloaded())) == [{"event": "go", "payload": 7}]


def test_a_wait_for_several_signals_times_out_with_none():
    run = Coded().then(suspended(any_of("decide", approve=None, timeout_ms=5_000)))
    decision = run.later(5_000)
    assert (ended_as(decision), decision.events[0].next_handle) == ([None], "timeout")


@pytest.mark.parametrize(
    "ask", [any_of("now", go=None, timeout_ms=0), report("now", AwaitsSignal("go", None, 0), kind=StepKind.EVENT)]
)
def test_a_wait_without_time_takes_what_has_come_or_nothing_at_once(ask: StepReport):
    run = Coded()
    empty = run.when(ask)
    assert (types(empty), ended_as(empty)) == (["NODE_WAITING now", "NODE_COMPLETED now"], [None])
    run.then(SignalSent("go", Payload.of(7)))
    assert types(run.when(replace(ask, scope="#2"))) == ["NODE_WAITING now#2", "NODE_COMPLETED now#2"]
    assert run.state.steps["now", "#2"].output.value in (7, {"event": "go", "payload": 7})
    assert not run.state.signals.kept


# -- timers of the function ---------------------------------------------------------------
def timer(due_at: int) -> StepReport:
    return report("@timer", AwaitsInstant(due_at), scope=scope_of_timer(due_at, 1), kind=StepKind.SLEEP)


def test_a_timer_that_outlives_what_the_function_can_do_is_a_sleep_until_its_time():
    run = Coded()
    due = run.now + 60_000
    assert types(run.when(suspended(timer(due)))) == [f"NODE_WAITING @timer#{due}", "NODE_WAITING"]
    assert run.state.next_due() == due
    woken = run.later(60_000)
    assert (types(woken), woken.commands, woken.not_before) == ([f"NODE_COMPLETED @timer#{due}"], [FUNCTION], due)


def test_a_timer_that_comes_while_steps_run_is_one_row_and_never_early():
    run = Coded()
    run.now += 500
    decision = run.when(timer(run.now - 1))
    assert (types(decision), decision.not_before) == ([f"NODE_COMPLETED @timer#{run.now - 1}"], run.now - 1)
    early = run.when(timer(run.now + 3))
    assert types(early) == [f"NODE_WAITING @timer#{run.now + 3}"]


def test_timers_with_one_due_time_are_told_apart_by_their_number():
    assert [scope_of_timer(5, number) for number in (1, 2, 3)] == ["#5", "#5.2", "#5.3"]


# -- the rules of replays -----------------------------------------------------------------
def test_every_dispatch_says_by_which_rules_the_function_runs_and_the_seed_stays():
    run = Coded(retry=QUICK).then(raised())
    run.later(5_000)
    notes = [row.payload.value for row in run.log if row.type == "NODE_DISPATCHED"]
    assert [(note["loop"], note["python"]) for note in notes] == [(1, "3.11")] * 2
    assert notes[0]["seed"] == notes[1]["seed"] == seed_of("run")


def test_a_run_of_an_older_version_has_the_new_rules_once_it_has_replayed():
    run = older_version()
    assert run.state.function is not None and run.state.function.loop_since is None
    decision = run.when(report("", LegacyReplayed()))
    assert types(decision) == ["SYSTEM_SET"]
    assert run.state.function.loop_since == run.state.last_seq
    assert run.when(report("", LegacyReplayed())) == NOTHING, "once is enough"


def older_version() -> Coded:
    """A run whose function was dispatched by a version that had no loops."""
    run = Coded()
    run.log[1] = replace(run.log[1], payload=Payload.of({}))
    return run.crashed()

"""`check_log` derives a log again: a good one has no finding, and each fault of a log is found and named."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from anabranch.engine.rules.coded.names import Mark, StepKind
from anabranch.engine.rules.events import Event, EventType
from anabranch.engine.rules.graph.compile import compile_plan
from anabranch.engine.rules.stimuli import (
    AwaitsSignal,
    EvaluationDue,
    Failed,
    PauseRequested,
    ResumeRequested,
    SignalSent,
)
from anabranch.engine.rules.values import Payload
from anabranch.engine.rules.verify.check_log import check_log
from anabranch.engine.rules.verify.finding import FINDINGS_MAX
from anabranch.errors import RunError
from tests.spec.coded import Coded, broken, done, function, report, returned, sleeps, suspended
from tests.spec.drawings import TYPES, TypesWith, drawn
from tests.spec.drawings import broken as broken_type
from tests.spec.scenario import HANDED_OVER, Scenario, asks_for, begun, completed, failed, given, signal

ORDER = drawn(
    "start>pick, pick.big>work, pick.else>other, work>join, other>join, join>each, each.loop>item, each.done>ask, "
    "ask>nap, ask.timeout>late, late>end, nap>end",
    pick={"type": "condition", "config": {"branches": [{"id": "big", "expression": "{{ctx.input.n > 5}}"}]}},
    work={"type": "python", "config": {"code": "return 1"}, "outputVariable": "worked"},
    other={"type": "python", "config": {"code": "return 2"}},
    join={"config": {"values": {"n": "{{ctx.input.n}}"}}, "outputVariable": "joined"},
    each={"type": "loop", "config": {"source": "{{ctx.input.items}}", "concurrency": 1}},
    item={"type": "python", "config": {"code": "return 3"}},
    ask={"type": "waitForEvent", "config": {"event": "approve", "timeout": "1h"}, "outputVariable": "said"},
    nap={"type": "delay", "config": {"duration": "5s"}},
    end={"type": "end", "joinMode": "any", "config": {"outputParameters": {"by": "{{ctx.said.by}}"}}},
)

Corrupt = Callable[[list[Event]], list[Event]]


def order() -> Scenario:
    """A run with a branch, a join, a retry, a loop, a signal and a delay, to its end."""
    run = given(ORDER, {"n": 9, "items": ["a", "b"]}, evaluates=True)
    run.then(EvaluationDue(), failed("work", retryable=True))
    run.later(1_000)
    run.then(completed("work#2", 1), completed("each[0]/item", 3), completed("each[1]/item", 3))
    run.then(asks_for("ask", "approve", timeout_ms=3_600_000), signal("approve", {"by": "ada"}))
    run.then(signal("approve", {"by": "bob"}))
    run.then(completed("nap", {"delayedMs": 5_000}, delay_ms=5_000))
    run.later(5_000)
    assert run.outcome == {"by": "ada"}
    return run


def codes(run: Scenario | Coded, log: Sequence[Event]) -> set[str]:
    return {finding.code.value for finding in check_log(run.plan, run.head, log)}


def at(log: list[Event], type_: EventType, node: str, number: int = 0) -> int:
    """The index of a row."""
    return [index for index, event in enumerate(log) if event.type is type_ and event.node_id == node][number]


def without(type_: EventType, node: str, number: int = 0) -> Corrupt:
    def corrupt(log: list[Event]) -> list[Event]:
        del log[at(log, type_, node, number)]
        return log

    return corrupt


def twice(type_: EventType, node: str) -> Corrupt:
    def corrupt(log: list[Event]) -> list[Event]:
        index = at(log, type_, node)
        return [*log[: index + 1], log[index], *log[index + 1 :]]

    return corrupt


def changed(type_: EventType, node: str, number: int = 0, **fields: Any) -> Corrupt:
    def corrupt(log: list[Event]) -> list[Event]:
        index = at(log, type_, node, number)
        log[index] = replace(log[index], **fields)
        return log

    return corrupt


def moved(type_: EventType, node: str, before: tuple[EventType, str]) -> Corrupt:
    def corrupt(log: list[Event]) -> list[Event]:
        row = log.pop(at(log, type_, node))
        log.insert(at(log, *before), row)
        return log

    return corrupt


def added(
    type_: EventType, node: str, scope: str = "", attempt: int = 1, after: tuple[EventType, str] | None = None
) -> Corrupt:
    def corrupt(log: list[Event]) -> list[Event]:
        index = len(log) - 1 if after is None else at(log, *after) + 1
        row = Event(0, type_, node, scope, attempt, Payload.of({}), log[index - 1].created_at)
        return [*log[:index], row, *log[index:]]

    return corrupt


DISPATCHED, COMPLETED, SKIPPED = EventType.NODE_DISPATCHED, EventType.NODE_COMPLETED, EventType.NODE_SKIPPED

COMPLETED_RUN, FAILED_RUN = EventType.INSTANCE_COMPLETED, EventType.INSTANCE_FAILED
BROKEN = RunError("X", "X", "x", "work").as_json()
TOO_LATE = RunError("DEADLINE_EXCEEDED", "X", "x").as_json()
LONG_AGO = "1970-01-01T00:00:00.000+00:00"
BY_EVE = Payload.of({"by": "eve"})


def fails(error: dict[str, Any]) -> Corrupt:
    """The run fails with this where it completed."""
    return changed(COMPLETED_RUN, "", type=FAILED_RUN, payload=Payload.of(error))


CORRUPTIONS: dict[str, tuple[Corrupt, str]] = {
    "a dispatch is missing": (without(DISPATCHED, "join"), "DISPATCH_MISSING"),
    "a skip is missing": (without(SKIPPED, "other"), "SKIP_MISSING"),
    "a join is dispatched before its edges are decided": (
        moved(DISPATCHED, "join", (EventType.NODE_ATTEMPT_FAILED, "work")),
        "DISPATCH_EARLY",
    ),
    "a branch that was not taken is dispatched": (
        changed(SKIPPED, "other", type=DISPATCHED, attempt=1),
        "DISPATCH_UNEXPECTED",
    ),
    "a node that was to run is skipped": (changed(DISPATCHED, "work", type=SKIPPED, attempt=0), "SKIP_UNEXPECTED"),
    "an activation ends twice": (twice(COMPLETED, "work"), "ENDED_TWICE"),
    "an attempt is dispatched twice": (twice(DISPATCHED, "work"), "DISPATCHED_TWICE"),
    "a node is dispatched after its end": (added(DISPATCHED, "work", attempt=3), "DISPATCHED_TWICE"),
    "a retry comes early": (changed(DISPATCHED, "work", 1, created_at=0), "TIMER_EARLY"),
    "a retry is due before its backoff is over": (
        changed(EventType.NODE_ATTEMPT_FAILED, "work", payload=Payload.of({"error": BROKEN, "dueAt": LONG_AGO})),
        "TIMER_EARLY",
    ),
    "a delay comes early": (changed(COMPLETED, "nap", created_at=0), "TIMER_EARLY"),
    "a result belongs to another attempt": (changed(COMPLETED, "work", attempt=1), "RESULT_UNEXPECTED"),
    "a condition leaves by another branch": (
        changed(COMPLETED, "pick", next_handle="else", payload=Payload.of({"branch": "else"})),
        "RESULT_DIFFERS",
    ),
    "a pure node has another output": (changed(COMPLETED, "join", payload=Payload.of({"n": 8})), "RESULT_DIFFERS"),
    "a handle that the node does not have": (changed(COMPLETED, "work", next_handle="sideways"), "HANDLE_DIFFERS"),
    "a result is stored under another variable": (
        changed(COMPLETED, "work", output_variable="joined"),
        "RESULT_DIFFERS",
    ),
    "a result is stored without its variable": (changed(COMPLETED, "ask", output_variable=None), "RESULT_DIFFERS"),
    "a wait has a variable that its node has not": (
        changed(EventType.NODE_WAITING, "nap", output_variable="said"),
        "RESULT_DIFFERS",
    ),
    "an iteration is left out": (without(DISPATCHED, "item", 1), "ITERATION_UNEXPECTED"),
    "an iteration too many": (added(DISPATCHED, "item", "each[2]", after=(COMPLETED, "item")), "ITERATION_UNEXPECTED"),
    "a loop with another output": (changed(COMPLETED, "each", payload=Payload.of([3])), "RESULT_DIFFERS"),
    "a wait takes a signal that is another's": (
        changed(EventType.NODE_WAITING, "ask", 1, payload=Payload.of({"event": "approve", "signalSeq": 1})),
        "SIGNAL_DIFFERS",
    ),
    "a wait ends with something else than its signal": (changed(COMPLETED, "ask", payload=BY_EVE), "RESULT_DIFFERS"),
    "the run ends with another output": (changed(COMPLETED_RUN, "", payload=BY_EVE), "OUTPUT_DIFFERS"),
    "the end of the run is missing": (without(EventType.INSTANCE_COMPLETED, ""), "END_MISSING"),
    "the run ends early": (moved(EventType.INSTANCE_COMPLETED, "", (DISPATCHED, "nap")), "ROW_AFTER_END"),
    "the run fails for nothing": (
        fails(BROKEN),
        "END_UNEXPECTED",
    ),
    "the run has a deadline that it did not have": (
        fails(TOO_LATE),
        "TIMER_EARLY",
    ),
    "a row of a node that is not in the graph": (added(DISPATCHED, "nowhere"), "ROW_UNEXPECTED"),
    "a payload that cannot be read": (
        changed(EventType.NODE_WAITING, "ask", payload=Payload.of([1])),
        "ROW_UNREADABLE",
    ),
}


def test_a_good_log_has_no_finding() -> None:
    run = order()
    assert codes(run, run.log) == set()


def test_a_node_of_a_type_that_is_not_known_here_may_leave_by_any_handle() -> None:
    document = drawn("start>a, a>b", a={"type": "broken"}, b={"type": "broken"})
    types = TypesWith(broken_type(handles=lambda config: ("default", "loud")))
    run = begun(compile_plan(document, types, evaluates=False)).then(completed("a"), completed("b", handle="loud"))
    findings = check_log(compile_plan(document, TYPES, evaluates=False), run.head, run.log)
    assert findings == []


def test_the_variable_of_a_node_is_checked_also_if_its_type_is_not_known_here() -> None:
    run, plan = order(), compile_plan(ORDER, TypesWith(without=["python"]))
    log = changed(COMPLETED, "work", output_variable="joined")(list(run.log))
    assert check_log(plan, run.head, run.log) == []
    assert [(each.code, each.node_id) for each in check_log(plan, run.head, log)] == [("RESULT_DIFFERS", "work")]


def test_every_prefix_of_a_log_that_ends_with_a_transaction_has_no_finding() -> None:
    run = order()
    for length in range(1, len(run.log)):
        if run.log[length].created_at != run.log[length - 1].created_at:
            assert codes(run, run.log[:length]) == set()


@pytest.mark.parametrize("what", CORRUPTIONS)
def test_each_fault_of_a_drawn_log_is_found(what: str) -> None:
    corrupt, code = CORRUPTIONS[what]
    run = order()
    log = [replace(event, seq=seq) for seq, event in enumerate(corrupt(list(run.log)), start=1)]
    assert code in codes(run, log)


def test_a_row_that_is_missing_shows_in_the_numbers_too() -> None:
    run = order()
    assert "SEQ_BROKEN" in codes(run, [*run.log[:4], *run.log[5:]])


def test_findings_are_bounded() -> None:
    run = order()
    assert len(check_log(run.plan, run.head, [run.log[2]] * 100)) == FINDINGS_MAX


def test_what_fires_while_a_run_is_suspended_is_found() -> None:
    run = order()
    index = at(run.log, EventType.NODE_WAITING, "nap") + 1
    why = Payload.of({"reason": "PAUSED", "message": "", "hint": ""})
    row = Event(0, EventType.INSTANCE_SUSPENDED, "", "", 0, why, run.log[index - 1].created_at)
    log = [*run.log[:index], row, *run.log[index:]]
    assert codes(run, [replace(event, seq=seq) for seq, event in enumerate(log, start=1)]) == {"FIRED_WHILE_SUSPENDED"}


def test_what_was_under_way_when_a_run_was_suspended_may_still_be_recorded_with_a_signal_that_was_kept() -> None:
    run = Coded().then(SignalSent("go", Payload.of(7)), PauseRequested("spec"))
    run.then(report("kept", AwaitsSignal("go", None, None), kind=StepKind.EVENT))
    run.then(report("now", AwaitsSignal("go", None, 0), kind=StepKind.EVENT))
    assert run.state.steps["kept", ""].output.value == 7
    assert not run.state.steps["now", ""].has_ended, "no timeout fires, not even one of no time"
    run.then(SignalSent("go", Payload.of(8)), ResumeRequested("spec"))
    assert run.state.steps["now", ""].output.value == 8
    assert codes(run, run.log) == set()


def shop() -> Coded:
    """A coded run with a step that is tried twice and a sleep, to its end."""
    run = Coded()
    run.then(broken("charge"))
    run.later(2_000)
    run.then(done("charge", 1, attempt=2), suspended(sleeps("nap", 5_000)))
    run.later(5_000)
    return run.then(done("ship", 2), returned({"ok": True}))


CODED_CORRUPTIONS: dict[str, tuple[Corrupt, str]] = {
    "a step ends twice": (twice(COMPLETED, "ship"), "ENDED_TWICE"),
    "a sleep ends early": (changed(COMPLETED, "nap", created_at=0), "TIMER_EARLY"),
    "an attempt comes early": (changed(DISPATCHED, "charge", created_at=0), "TIMER_EARLY"),
    "an attempt is missing": (without(DISPATCHED, "charge"), "RESULT_UNEXPECTED"),
    "a step ends before the function was called": (moved(COMPLETED, "ship", (DISPATCHED, "")), "DISPATCH_EARLY"),
    "a step that nothing can be called": (changed(COMPLETED, "ship", node_id="no name"), "ROW_UNEXPECTED"),
    "the function is dispatched twice": (twice(DISPATCHED, ""), "DISPATCHED_TWICE"),
    "the run ends while its function only waits": (
        moved(EventType.INSTANCE_COMPLETED, "", (COMPLETED, "nap")),
        "END_UNEXPECTED",
    ),
    "a row after the end": (moved(EventType.INSTANCE_COMPLETED, "", (COMPLETED, "ship")), "ROW_AFTER_END"),
    "a sleep that becomes something else": (
        changed(COMPLETED, "nap", mark=Mark.of(StepKind.CHILD, frozenset((2,)))),
        "STEP_DIFFERS",
    ),
}


def test_a_good_log_of_a_coded_run_has_no_finding() -> None:
    run = shop()
    assert run.status == "COMPLETED"
    assert codes(run, run.log) == set()


@pytest.mark.parametrize("what", CODED_CORRUPTIONS)
def test_each_fault_of_a_coded_log_is_found(what: str) -> None:
    corrupt, code = CODED_CORRUPTIONS[what]
    run = shop()
    log = [replace(event, seq=seq) for seq, event in enumerate(corrupt(list(run.log)), start=1)]
    assert code in codes(run, log)


TWICE = {"maxAttempts": 2, "backoff": {"kind": "fixed", "base": "1s"}}


def retried() -> Scenario:
    """A run that fails in an iteration's neighbour, is reopened, and completes."""
    run = begun(drawn("start>a, start>b, a>c, b>c, c>d", b={"retry": TWICE})).then(completed("a"), failed("b"))
    return run.reopened(closed_ms=60_000).then(HANDED_OVER).completed("b#2", "c", "d")


def test_a_reopened_run_is_as_defined_after_every_transition() -> None:
    run = retried()
    assert (run.status, codes(run, run.log)) == ("COMPLETED", set())
    reopened = at(run.log, EventType.INSTANCE_REOPENED, "") + 1
    assert codes(run, run.log[:reopened]) == set(), "nobody has gone on with it yet"


RETRIED_CORRUPTIONS: dict[str, tuple[Corrupt, str]] = {
    "what completed before is repeated": (added(COMPLETED, "a", after=(DISPATCHED, "c")), "ENDED_TWICE"),
    "what is to be tried again is not": (without(DISPATCHED, "b", 1), "RESULT_UNEXPECTED"),
    "it is tried again too early": (changed(DISPATCHED, "b", 1, created_at=0), "TIMER_EARLY"),
    "attempts begin anew": (changed(DISPATCHED, "b", 1, attempt=1), "DISPATCHED_TWICE"),
    "a row is not left out": (
        changed(EventType.INSTANCE_REOPENED, "", payload=Payload.of({
            "generation": 1, "leftOut": [[9, 9]], "redo": [], "closedMs": 0, "deadlineAt": None, "by": "x",
        })),
        "DISPATCHED_TWICE",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", RETRIED_CORRUPTIONS)
def test_each_fault_after_a_reopening_is_found(what: str) -> None:
    corrupt, code = RETRIED_CORRUPTIONS[what]
    run = retried()
    log = [replace(event, seq=seq) for seq, event in enumerate(corrupt(list(run.log)), start=1)]
    assert code in codes(run, log)


def mended() -> Coded:
    """A coded run whose function has an error, and that is resumed with better code."""
    run = Coded()
    error = RunError("HANDLER_ERROR", "ValueError", "no")
    run.then(done("charge", 1), function(Failed(error, retryable=True, suspends=True)))
    return run.then(ResumeRequested("spec"), returned(1, attempt=2))


def test_a_function_that_has_failed_is_tried_once_more_when_the_run_is_resumed() -> None:
    run = mended()
    assert (run.status, codes(run, run.log)) == ("COMPLETED", set())
    log = [event for event in run.log if event.type is not EventType.INSTANCE_SUSPENDED]
    assert "RETRY_UNEXPECTED" in codes(run, [replace(event, seq=seq) for seq, event in enumerate(log, start=1)])

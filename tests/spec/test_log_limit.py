"""A log has a limit: what does not fit into it ends the run, and the row that says so always fits."""

from __future__ import annotations

import pytest

from anabranch.engine.rules import decide as rules
from anabranch.engine.rules.coded.coded_plan import coded_plan
from anabranch.engine.rules.coded.names import Mark, StepKind
from anabranch.engine.rules.commands import Dispatch
from anabranch.engine.rules.decide import Decision
from anabranch.engine.rules.drawn.drawn_state import InstanceHead
from anabranch.engine.rules.events import EventType, Status
from anabranch.engine.rules.evolve import AnyState, fold, new_state, outstanding
from anabranch.engine.rules.shared.log_limit import LOG_LIMIT, LogLimit, parse_log_limit
from anabranch.engine.rules.stimuli import Completed, Started, StepReport, Stimulus
from anabranch.engine.rules.transitions import LeasedState, plan_transitions
from anabranch.engine.rules.values import Payload
from tests.spec.drawings import drawn
from tests.spec.scenario import Scenario, begun, cancel, completed, signal

CHAIN = drawn("start>a, a>b, b>c")


def decide(state: AnyState, stimulus: Stimulus, now: int, *, log_limit: LogLimit = LOG_LIMIT) -> Decision:
    """What follows while the log may hold so much."""
    state.log_limit = log_limit
    return rules.decide(state, stimulus, now)


def sizes(run: Scenario) -> tuple[int, int]:
    return run.state.log_bytes, run.state.last_seq


def limited(run: Scenario, *, bytes_more: int = 10**9, rows_more: int = 10**6) -> LogLimit:
    """A limit that has so much room left in this run."""
    log_bytes, rows = sizes(run)
    return LogLimit(log_bytes + bytes_more, rows + rows_more)


def test_a_row_that_just_fits_is_written_and_the_run_goes_on():
    run = begun(CHAIN)
    decision = decide(run.state, completed("a", "x" * 98), run.now, log_limit=limited(run, bytes_more=102))
    assert [event.type for event in decision.events] == [EventType.NODE_COMPLETED, EventType.NODE_DISPATCHED]
    assert not run.state.is_terminal


@pytest.mark.parametrize("room", [{"bytes_more": 101}, {"rows_more": 1}, {"bytes_more": 0}, {"rows_more": 0}])
def test_the_first_row_without_room_ends_the_run(room: dict[str, int]):
    run = begun(CHAIN)
    limit = limited(run, **room)
    decision = decide(run.state, completed("a", "x" * 98), run.now, log_limit=limit)
    assert [event.type for event in decision.events][-1] is EventType.INSTANCE_FAILED
    error = decision.events[-1].payload.value
    assert (error["code"], error["type"]) == ("LOG_TOO_LARGE", "LogTooLarge")
    assert str(limit.bytes_max) in error["message"] and str(limit.rows_max) in error["message"]
    assert run.state.terminal is Status.FAILED
    assert outstanding(run.state) == set() and list(decision.commands) == []
    before = decision.events[:-1]
    assert not limit.is_passed(
        log_bytes=run.state.log_bytes - len(decision.events[-1].payload.raw), rows=run.state.last_seq - 1
    ), f"nothing but the end is beyond it: {before}"


def test_what_still_runs_is_told_to_stop():
    run = begun(drawn("start>a, start>b, a>c"))
    decision = decide(run.state, completed("a"), run.now, log_limit=limited(run, rows_more=0))
    assert {stop.node_id for stop in decision.stops} == {"a", "b"}


def test_an_end_that_follows_anyway_needs_no_room():
    run = begun(drawn("start>a"))
    decision = decide(run.state, completed("a"), run.now, log_limit=limited(run, rows_more=1))
    assert decision.events[-1].type is EventType.INSTANCE_COMPLETED
    run = begun(CHAIN)
    decision = decide(run.state, cancel("why"), run.now, log_limit=limited(run, bytes_more=0, rows_more=0))
    assert decision.events[-1].type is EventType.INSTANCE_CANCELLED


def test_a_signal_without_room_is_not_kept_and_its_sender_hears_that_the_run_has_ended():
    run = begun(CHAIN)
    decision = decide(run.state, signal("e", "x" * 100), run.now, log_limit=limited(run, bytes_more=100))
    assert [event.type for event in decision.events] == [EventType.INSTANCE_FAILED]
    assert decision.delivered is None and decision.refused is None


def test_a_run_is_born_whatever_its_input_and_ends_at_its_next_row():
    state = new_state(begun(CHAIN).plan, begun(CHAIN).state.head)
    limit = LogLimit(bytes_max=100, rows_max=100)
    created = decide(state, Started(Payload.of("x" * 1_000), begin=True), 3_600_000, log_limit=limit)
    assert [event.type for event in created.events] == [EventType.INPUT_SET, EventType.NODE_DISPATCHED]
    went = decide(state, completed("start"), 3_600_000, log_limit=limit)
    assert [event.type for event in went.events] == [EventType.INSTANCE_FAILED]


def test_a_batch_passes_the_limit_on_and_later_stimuli_of_the_run_change_nothing():
    run = begun(drawn("start>a, start>b, a>c, b>c"))
    leased = LeasedState(run.state, 3, "me", run.now + 30_000)
    limit = limited(run, rows_more=0)
    run.state.log_limit = limit
    planned = plan_transitions([(leased, [completed("a"), completed("b")])], now=run.now, lease_ms=30_000)
    (transition,) = planned.transitions
    assert [event.type for event in transition.events] == [EventType.INSTANCE_FAILED]
    assert transition.status is Status.FAILED and transition.release


def test_a_coded_run_ends_at_a_step_without_room():
    head = InstanceHead("00000000-0000-7000-8000-000000000001", "default", None, "code", 1, 0, 0, kind="coded")
    state = new_state(coded_plan("code", 1, {}), head)
    decide(state, Started(Payload.of(None), begin=True), 1)
    limit = LogLimit(state.log_bytes + 100, 100)
    report = StepReport("fetch", "", 1, Mark(StepKind.RUN, "2"), 1, Completed(Payload.of("x" * 200)))
    decision = decide(state, report, 2, log_limit=limit)
    assert [event.type for event in decision.events] == [EventType.INSTANCE_FAILED]
    assert decision.events[0].payload.value["code"] == "LOG_TOO_LARGE"


@pytest.mark.parametrize("rows", range(2, 40))
def test_wherever_the_limit_falls_the_log_folds_to_what_is_in_memory(rows: int):
    plan = begun(drawn("start>a, start>b, a>c, b>c, c>d, d>e")).plan
    state = new_state(plan, begun(CHAIN).state.head)
    limit = LogLimit(rows_max=rows)
    log = []
    todo: list[Stimulus] = [Started(Payload.of(1), begin=True)]
    while todo:
        decision = decide(state, todo.pop(0), 3_600_000, log_limit=limit)
        log += decision.events
        todo += [completed(each.node_id) for each in decision.commands if isinstance(each, Dispatch)]
    folded = fold(plan, state.head, log)
    assert (folded.terminal, folded.last_seq, folded.log_bytes) == (state.terminal, state.last_seq, state.log_bytes)
    assert len(log) <= max(rows, 2) + 1
    assert folded.log_bytes == sum(len(event.payload.raw) for event in log)


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("64MB", LOG_LIMIT),
        ("1 mb", LogLimit(bytes_max=1_048_576)),
        (100_000, LogLimit(bytes_max=100_000)),
        ("5000 rows", LogLimit(rows_max=5_000)),
        ("100 rows, 64KB", LogLimit(bytes_max=65_536, rows_max=100)),
        ("4GB,100000000 rows", LogLimit(4 * 2**30, 100_000_000)),
    ],
)
def test_a_limit_is_written_as_a_size_a_number_of_rows_or_both(text: str | int, limit: LogLimit):
    assert parse_log_limit(text) == limit


@pytest.mark.parametrize(
    "text", ["", "x", "1KB", "5GB", "99 rows", "100000001 rows", "1MB,2MB", "-1", "1.5MB", "9" * 99]
)
def test_any_other_text_is_no_limit(text: str):
    with pytest.raises(ValueError, match=r"."):
        parse_log_limit(text)

"""What must hold of coded runs after every commit, beside what holds of all (`invariants`): one function a promise.

The first line of each docstring is the promise. `judge` calls them as it calls those of drawn runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from anabranch.engine.rules.coded.names import NO_MARK, StepKind
from anabranch.engine.rules.events import ENDINGS, Event, EventType
from anabranch.engine.rules.instants import from_iso
from tests.simulation import invariants
from tests.simulation.coded_facts import FUNCTION, CodedFacts
from tests.simulation.invariants import Commit
from tests.simulation.program_ends import End, Failure, Unfinished, what_it_is_worth
from tests.simulation.program_functions import Call

_OF_AN_ATTEMPT = ENDINGS | {EventType.NODE_ATTEMPT_FAILED, EventType.NODE_WAITING}

_FAILURES = {EventType.NODE_FAILED, EventType.NODE_ATTEMPT_FAILED}

# Errors that the engine gives a run, not its function.
_NOT_OF_THE_FUNCTION = {"DEADLINE_EXCEEDED", "LOG_TOO_LARGE"}


# -- each row, against the rows before it ------------------------------------------------------


_WRITTEN_AS_BEGUN = (StepKind.CHILD, StepKind.RUN)


def an_attempt_follows_a_failed_one(run: CodedFacts, row: Event, commit: Commit) -> Iterator[str]:
    """Each attempt is dispatched once and follows a failed attempt: a crash is not an attempt."""
    if row.type is not EventType.NODE_DISPATCHED:
        return
    key = (row.node_id, row.scope)
    last, before = run.last.get(key), run.attempts.get(key, 0)
    begins = last is None and (key == FUNCTION or (row.mark or NO_MARK).kind in _WRITTEN_AS_BEGUN)
    follows = last is not None and last.type is EventType.NODE_ATTEMPT_FAILED
    if row.attempt != before + 1 or not (begins or follows):
        yield f"attempt {row.attempt} of {key} follows attempt {before}, and {last and last.type}"


def an_outcome_is_that_of_the_open_attempt(run: CodedFacts, row: Event, commit: Commit) -> Iterator[str]:
    """What is recorded of a step is about the attempt that was open."""
    key = (row.node_id, row.scope)
    if row.type not in _OF_AN_ATTEMPT or key == FUNCTION:
        return
    if row.attempt != run.attempts.get(key, row.attempt if invariants.is_copied(commit) else 1):
        yield f"{row.type} of attempt {row.attempt} of {key}, while attempt {run.attempts.get(key, 1)} is open"
    last = run.last.get(key)
    if row.type is EventType.NODE_ATTEMPT_FAILED and last is not None and last.type is not EventType.NODE_DISPATCHED:
        yield f"attempt {row.attempt} of {key} fails after {last.type}"


def what_is_recorded_was_done(run: CodedFacts, row: Event, commit: Commit) -> Iterator[str]:
    """A recorded outcome of a step is what its function came to in that very try."""
    spec = run.case.runs.get(row.node_id)
    if spec is None or row.type not in {*_FAILURES, EventType.NODE_COMPLETED}:
        return
    key = (row.node_id, row.scope)
    if row.type is EventType.NODE_COMPLETED:
        done = commit.steps.calls[row.payload.value["call"]]
        if row.attempt <= spec.fails or run.function_attempt < spec.fails_below or spec.fatal:
            yield f"attempt {row.attempt} of {key} completes; it had to fail"
    else:
        error = row.payload.value["error"]
        if error["code"] != "HANDLER_ERROR":
            if spec.timeout_ms is None or error["code"] != "NODE_TIMEOUT":
                yield f"{key} fails with {error}, which is not of its making"
            return
        done = commit.steps.calls[int(error["message"].removeprefix("call "))]
        if row.type is EventType.NODE_FAILED and not spec.fatal and row.attempt < spec.tries:
            yield f"{key} is given up after {row.attempt} of {spec.tries} tries"
    if done.key != key or done.attempt != row.attempt:
        yield f"attempt {row.attempt} of {key} is told with what {done.key} came to in try {done.attempt}"


def a_function_fits_its_log(run: CodedFacts, row: Event, commit: Commit) -> Iterator[str]:
    """A function whose code has not changed is never blocked."""
    if row.type is EventType.SYSTEM_SET and "code" in row.payload.value:
        yield f"{row.payload.value}"


def no_timer_is_early(run: CodedFacts, row: Event, commit: Commit) -> Iterator[str]:
    """A timer never fires early: not by the store's own clock at the commit."""
    due = None if invariants.is_copied(commit) else _due_time_used(run, row, commit)
    if due is not None and commit.now < due:
        yield f"{row.type} of {row.node_id or 'the function'} at {commit.now}, due at {due}"


# -- the run, after the rows of one transaction -------------------------------------------------


def a_suspended_function_has_nothing_to_do(run: CodedFacts, commit: Commit) -> Iterator[str]:
    """A function is suspended when it only waits: nothing of it runs, and all that it waits for is in the log.

    One whose run was paused, by itself or with others, is unwound at its next question, which is in no log, and is
    called again.
    """
    if not any(row.type is EventType.NODE_WAITING and (row.node_id, row.scope) == FUNCTION for row in commit.rows):
        return
    function = commit.steps.functions.get((commit.run_id, commit.sender.worker_id))
    if (
        commit.operation != "commit"
        or run.ended is not None
        or function is None
        or function.attempt != run.function_attempt
    ):
        return
    for done in (*commit.steps.under_way, *function.aborted):
        is_open = done.key not in run.endings and run.open_attempt(done.key) == done.attempt
        if done.function is function and is_open:
            yield f"it is suspended while {done.key} was executed"
    if commit.may_have_been_held or any(row.type is EventType.INSTANCE_SUSPENDED for row in run.log):
        return
    for call in function.open:
        if run.key_of(call, function.attempt) not in run.last:
            yield f"it is suspended, and the log knows nothing of {call}, which a branch waits for"


def an_attempt_ends_as_its_program_says(run: CodedFacts, commit: Commit) -> Iterator[str]:
    """The recorded outcome of a function is what its program comes to, given how its steps ended."""
    for row in () if invariants.is_copied(commit) else commit.rows:
        is_end = (row.node_id, row.scope) == FUNCTION and row.type in _ENDS_OF_FUNCTIONS
        step_cancelled = row.type is EventType.INSTANCE_FAILED and row.payload.value["code"] in _NOT_OF_THE_FUNCTION
        if is_end and not step_cancelled:
            yield from _ended_as_it_must(run, row, run.function_attempt)


_ENDS_OF_FUNCTIONS = {EventType.INSTANCE_COMPLETED, EventType.INSTANCE_FAILED, EventType.NODE_ATTEMPT_FAILED}


def _ended_as_it_must(run: CodedFacts, row: Event, attempt: int) -> Iterator[str]:
    def end_of(call: Call) -> End | None:
        return run.end_of(call, attempt)

    try:
        worth = what_it_is_worth(run.case.program, attempt, end_of, lambda look: run.pictures[attempt, look])
    except Failure as failure:
        yield from _failed_so(run, row, failure)
    except Unfinished as missing:
        yield f"{row.type} of attempt {attempt}, but {missing}"
    else:
        if row.type is not EventType.INSTANCE_COMPLETED or row.payload.value != worth:
            yield f"{row.type} with {row.payload.value}, and the program is worth {worth}"


def _failed_so(run: CodedFacts, row: Event, failure: Failure) -> Iterator[str]:
    if row.type is EventType.INSTANCE_COMPLETED:
        yield f"completed with {row.payload.value}, and the program fails with {failure}"
        return
    is_last = run.function_attempt - _attempts_before(run) >= run.case.plan.retry.max_attempts
    is_given_up = row.type is EventType.INSTANCE_FAILED
    error = row.payload.value if is_given_up else row.payload.value["error"]
    if (error["code"], error["message"]) != (failure.code, failure.message):
        yield f"failed with {error}, and the program fails with {failure}"
    if is_given_up is not is_last:
        yield f"{row.type} in attempt {run.function_attempt} of {run.case.plan.retry.max_attempts}"


def _attempts_before(run: CodedFacts) -> int:
    """The attempts of the function before the run was last reopened for another one: they do not count any more."""
    redone = [
        each["attempt"]
        for row in run.log
        if row.type is EventType.INSTANCE_REOPENED
        for each in row.payload.value["redo"]
        if each["nodeID"] == ""
    ]
    return redone[-1] if redone else 0


CODED_ROW_LAWS: tuple[Callable[[CodedFacts, Event, Commit], Iterator[str]], ...] = (
    invariants.seq_counts_without_gaps,
    invariants.terminal_is_final,
    invariants.what_is_left_out_is_the_tail,
    invariants.nothing_fires_while_suspended,
    invariants.one_ending_per_activation,
    invariants.a_signal_is_consumed_once,
    invariants.a_signal_key_is_delivered_once,
    invariants.a_step_signals_once,
    an_attempt_follows_a_failed_one,
    an_outcome_is_that_of_the_open_attempt,
    what_is_recorded_was_done,
    a_function_fits_its_log,
    no_timer_is_early,
    invariants.a_log_keeps_its_limit,
)

CODED_COMMIT_LAWS: tuple[Callable[[CodedFacts, Commit], Iterator[str]], ...] = (
    invariants.the_version_goes_up_by_one,
    invariants.the_row_says_what_the_log_says,
    invariants.only_the_holder_advances_a_run,
    invariants.a_live_lease_is_not_taken,
    invariants.only_who_crashed_alone_is_counted,
    invariants.a_run_is_suspended_for_its_crashes_in_time,
    invariants.a_suspicion_ends_with_the_last_answer,
    invariants.a_handover_blames_nobody,
    invariants.memory_equals_the_folded_log,
    invariants.an_ended_run_owes_nothing,
    invariants.an_open_run_will_go_on,
    invariants.no_signal_lies_beside_a_wait_that_it_fits,
    a_suspended_function_has_nothing_to_do,
    an_attempt_ends_as_its_program_says,
)


def _due_time_used(run: CodedFacts, row: Event, commit: Commit) -> int | None:
    """The due time that this row rests on; None if it rests on none."""
    key, head = (row.node_id, row.scope), commit.after.head
    last = run.last.get(key)
    if row.type is EventType.NODE_DISPATCHED and key == FUNCTION and last is None:
        # A start that asked for no time has its time of creation there, by the clock of the process that bore it.
        return head.available_at if head.available_at != head.created_at else None
    if row.type is EventType.NODE_DISPATCHED and row.attempt > 1:
        return run.due_at(key)
    if row.type is EventType.INSTANCE_FAILED and row.payload.value["code"] == "DEADLINE_EXCEEDED":
        return head.deadline_at
    if row.type is EventType.NODE_COMPLETED and last is not None and "dueAt" in last.payload.value:
        waits_for_signal = "event" in last.payload.value
        if last.type is EventType.NODE_WAITING and (not waits_for_signal or row.next_handle == "timeout"):
            return from_iso(last.payload.value["dueAt"])
    return None

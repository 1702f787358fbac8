"""Decisions about coded runs: what follows from the outcome of a function or step, from timers, signals and children.

Pure. Called by `rules.decide`, which has already dropped stimuli that come too late. `shared.decisions` is shared with
drawn runs.
"""

from __future__ import annotations

from typing import assert_never

from anabranch.engine.rules.coded.coded_state import CodedState, FunctionActivation, Step
from anabranch.engine.rules.coded.names import FUNCTION_KEY, FUNCTION_NODE_ID, FUNCTION_SCOPE, StepKind
from anabranch.engine.rules.coded.replaying import replay_rules
from anabranch.engine.rules.commands import AwaitChild, Dispatch
from anabranch.engine.rules.event_payloads import (
    ChildAwaited,
    DelayStarted,
    FunctionPaused,
    NodeFailed,
    RetryScheduled,
    RunCancelledPayload,
    RunSuspended,
)
from anabranch.engine.rules.events import DEFAULT_HANDLE, TIMEOUT_HANDLE, EventType, SuspendReason
from anabranch.engine.rules.shared.child_ids import child_id
from anabranch.engine.rules.shared.decisions import (
    CONTEXT_BYTES_MAX,
    NOTHING,
    Decision,
    DecisionBuilder,
    child_result,
    created,
    deadline_passed,
    may_begin,
    next_attempt,
    receive_signal,
    resumed,
    suspend,
    taken_over,
)
from anabranch.engine.rules.shared.log_limit import LogFull
from anabranch.engine.rules.shared.run_state import Phase
from anabranch.engine.rules.stimuli import (
    AwaitsAnySignal,
    AwaitsChild,
    AwaitsInstant,
    AwaitsSignal,
    AwaitsTime,
    Begun,
    CancelRequested,
    ChildEnded,
    Completed,
    EvaluationDue,
    Failed,
    FunctionBlocked,
    FunctionSuspended,
    HandlerOutcome,
    LeaseAcquired,
    LegacyReplayed,
    LogMatched,
    LogReloaded,
    NodeResult,
    PauseRequested,
    ResumeRequested,
    SignalSent,
    Started,
    StepCancelled,
    StepOutcome,
    StepReport,
    Stimulus,
    TimersDue,
)
from anabranch.engine.rules.values import EMPTY, NULL, Payload
from anabranch.errors import RunError

FUNCTION_ERROR_HINT = "Deploy code without the error, and resume the run: its function is tried once more."

# 10,000 steps: each call of the function reads all of them again; split longer histories into several runs that start
# each other.
STEPS_MAX = 10_000

LOG_MATCHED = ResumeRequested("code that matches its log")

# Looked up once: a member of an enum costs ten times a global before Python 3.12.
_DISPATCHED, _NODE_COMPLETED = Phase.DISPATCHED, EventType.NODE_COMPLETED

_HINTS = {
    SuspendReason.NONDETERMINISM: "Deploy code that does what its log says: the run goes on by itself. Or fork it.",
    SuspendReason.DEFINITION_ERROR: "Correct the call that the message names, and deploy: the run goes on by itself.",
    SuspendReason.UNKNOWN_WORKFLOW: "Start a worker that imports it (`--import`): the run goes on by itself.",
}


class CodedDecisionBuilder(DecisionBuilder[CodedState]):
    """Collects the events and commands of one decision about a coded run."""

    __slots__ = ()

    def end_instance(self, event_type: EventType, payload: Payload, message: str | None = None) -> None:
        """End the run; also cancel children that its steps still await or were about to start."""
        for step in self.state.steps.values():
            if step.kind is StepKind.CHILD and not step.has_ended:
                self.cancels.append(step.child_of(self.state.head.instance_id))
        super().end_instance(event_type, payload, message)


def decide_coded(state: CodedState, stimulus: Stimulus, now: int) -> Decision:
    """What follows from a stimulus at `now` (ms). Evolves `state` by the events."""
    builder = CodedDecisionBuilder(state, now)
    try:
        return _decide(builder, stimulus)
    except LogFull:
        return builder.log_full()


def _decide(builder: CodedDecisionBuilder, stimulus: Stimulus) -> Decision:
    state = builder.state
    was_running = bool(state.running)
    if state.head.deadline_at is not None and deadline_passed(builder):
        return _build(builder, was_running=was_running)
    match stimulus:
        case StepReport():  # as mostly
            _step_reported(builder, stimulus)
        case Started():
            if created(builder, stimulus):
                _dispatch_function(builder, 1)
        case NodeResult():
            function = state.awaits(stimulus.node_id, stimulus.scope, stimulus.attempt)
            if function is None:
                return NOTHING  # a duplicate, or an attempt that was cancelled
            _function_answered(builder, function, stimulus.outcome)
            was_running = not builder.events  # its job is done: if it still runs after this, it needs another one
        case TimersDue():
            _catch_up(builder)
        case SignalSent():
            answer = receive_signal(builder, stimulus)
            if answer is not None:
                return answer
            _serve_promises(builder)
        case ChildEnded():
            _child_ended(builder, stimulus)
        case LogReloaded():
            _serve_promises(builder)
        case EvaluationDue():
            return NOTHING  # functions are called
        case CancelRequested():
            builder.end_instance(EventType.INSTANCE_CANCELLED, RunCancelledPayload(stimulus.reason).payload)
        case PauseRequested():
            suspend(builder, stimulus)
        case ResumeRequested():
            if resumed(builder, stimulus):
                _catch_up(builder)
        case LeaseAcquired():
            if taken_over(builder, stimulus):
                _catch_up(builder)
        case _:
            assert_never(stimulus)
    return _build(builder, was_running=was_running)


# -- the function --------------------------------------------------------------------------------
def _function_answered(builder: CodedDecisionBuilder, function: FunctionActivation, outcome: HandlerOutcome) -> None:
    """The function ended, or cannot continue now."""
    state = builder.state
    was_on_trial, state.on_trial = state.on_trial, False
    if was_on_trial and isinstance(outcome, Completed | Failed):
        resumed(builder, LOG_MATCHED)
    match outcome:
        case Completed():
            builder.end_instance(EventType.INSTANCE_COMPLETED, outcome.output)
        case Failed():
            _function_failed(builder, function, outcome)
        case FunctionSuspended() | FunctionBlocked() if outcome.called_by not in (None, function.called_by):
            return  # a duplicate, from an earlier call of the same attempt
        case FunctionSuspended() if was_on_trial:
            return  # its workflow was paused meanwhile; it has asked for nothing yet
        case FunctionSuspended():
            _function_suspended(builder, function, outcome)
        case FunctionBlocked() if state.suspension is None:
            suspension = RunSuspended(outcome.reason, outcome.message, _HINTS[outcome.reason], outcome.refused_by)
            builder.append(EventType.INSTANCE_SUSPENDED, "", "", 0, suspension.payload)
        case FunctionBlocked():
            return  # the log says so already
        case AwaitsSignal() | AwaitsChild():
            raise TypeError("a function waits through its steps")


def _function_failed(builder: CodedDecisionBuilder, function: FunctionActivation, failed: Failed) -> None:
    note = next_attempt(builder, builder.state.plan.retry, function.counted_attempt, failed, key="")
    is_last = note is None
    if note is None:
        if not failed.suspends:
            builder.fail_instance(failed.error)
            return
        note = RetryScheduled(failed.error, builder.now).payload  # due as soon as the run is resumed
    message = failed.error.message
    builder.append(
        EventType.NODE_ATTEMPT_FAILED, FUNCTION_NODE_ID, FUNCTION_SCOPE, function.attempt, note, error_message=message
    )
    if is_last and builder.state.suspension is None:
        suspension = RunSuspended(SuspendReason.FUNCTION_ERROR, f"{failed.error.code}: {message}", FUNCTION_ERROR_HINT)
        builder.append(EventType.INSTANCE_SUSPENDED, "", "", 0, suspension.payload)
    builder.wake(function)


def _function_suspended(
    builder: CodedDecisionBuilder, function: FunctionActivation, suspended: FunctionSuspended
) -> None:
    """Record what it asked for last and that it only waits, unless one of its waits is over by now."""
    for report in suspended.asked:
        _step_reported(builder, report)
        if builder.state.is_terminal:
            return
    ready = not all(_is_waiting(builder.state.steps.get(key)) for key in suspended.awaited)
    paused = FunctionPaused(ready).payload
    builder.append(EventType.NODE_WAITING, FUNCTION_NODE_ID, FUNCTION_SCOPE, function.attempt, paused)


def _is_waiting(step: Step | None) -> bool:
    return step is not None and not step.has_ended and step.phase in (Phase.WAITING, Phase.RETRYING)


def _dispatch_function(builder: CodedDecisionBuilder, attempt: int) -> None:
    builder.append(EventType.NODE_DISPATCHED, FUNCTION_NODE_ID, FUNCTION_SCOPE, attempt, _replay_rules(builder))


def _replay_rules(builder: CodedDecisionBuilder) -> Payload:
    state = builder.state
    seed = None if state.function is None else state.function.seed
    return replay_rules(state.head.instance_id, python=state.plan.python, seed=seed).payload


# -- steps ---------------------------------------------------------------------------------------
def _step_reported(builder: CodedDecisionBuilder, report: StepReport) -> None:
    """A step of the running function has an outcome or a request."""
    state, outcome = builder.state, report.outcome
    if state.awaits(FUNCTION_NODE_ID, FUNCTION_SCOPE, report.function_attempt) is None:
        return  # from a call that is over
    if report.name == FUNCTION_NODE_ID:
        _replay_reported(builder, outcome)
        return
    step = state.steps.get((report.name, report.scope))
    if isinstance(outcome, StepCancelled):
        _cancel_step(builder, report, step)
        return
    if step is not None and (step.has_ended or step.attempt != report.attempt or step.phase is not _DISPATCHED):
        return  # a duplicate
    if isinstance(outcome, Begun) and (step is not None or _is_only_announced(state, report)):
        return  # a duplicate: a commit that seemed lost has begun it
    if step is None and len(state.steps) >= STEPS_MAX:
        message = f"the run asks for more than {STEPS_MAX} steps; let it start other runs for parts of its work"
        builder.fail_instance(RunError("STEP_LIMIT", "StepLimit", message, report.name, report.scope))
        return
    match outcome:
        case Completed():
            _complete(builder, report, outcome.output)
        case Failed():
            _attempt_failed(builder, report, outcome)
        case AwaitsTime():
            _wait(builder, report, DelayStarted(builder.now + outcome.duration_ms).payload)
        case AwaitsInstant():
            _open_timer(builder, report, outcome.due_at)
        case AwaitsSignal() | AwaitsAnySignal():
            _open_wait(builder, report, outcome)
        case Begun():
            _append(builder, EventType.NODE_DISPATCHED, report, EMPTY)
        case AwaitsChild():
            _wait(builder, report, ChildAwaited(outcome.child_id).payload)
            builder.commands.append(AwaitChild(report.name, report.scope, outcome.child_id))
        case LogMatched() | LegacyReplayed():
            raise TypeError("a function replays its log, not a step")
        case _:
            assert_never(outcome)


def _replay_reported(builder: CodedDecisionBuilder, outcome: StepOutcome) -> None:
    """The function itself, and none of its steps, has replayed its log."""
    function = builder.state.function
    if isinstance(outcome, LogMatched):
        suspension = builder.state.suspension  # it may have been paused meanwhile
        if suspension is not None and suspension.reason.is_offered_again and resumed(builder, LOG_MATCHED):
            _catch_up(builder)
    elif isinstance(outcome, LegacyReplayed) and function is not None and function.loop_since is None:
        builder.append(EventType.SYSTEM_SET, FUNCTION_NODE_ID, FUNCTION_SCOPE, 0, _replay_rules(builder))


def _is_only_announced(state: CodedState, report: StepReport) -> bool:
    """Whether this reports the end of a step that is already executing: such an end is recorded although the run
    stands still."""
    return report.mark.kind is StepKind.RUN and state.stands_still


def _cancel_step(builder: CodedDecisionBuilder, report: StepReport, step: Step | None) -> None:
    """The function no longer waits for the step: no signal, timer or child is assigned to it, and no replay begins it
    again."""
    if step is not None and step.has_ended:
        return
    if step is not None and step.kind is StepKind.CHILD:
        builder.cancels.append(step.child_of(builder.state.head.instance_id))
    _append(builder, EventType.NODE_SKIPPED, step or report, EMPTY)


def _open_timer(builder: CodedDecisionBuilder, report: StepReport, due_at: int) -> None:
    """Open a timer that the function still waits for, or complete one that has fired. No timer fires while the run
    stands still.
    """
    if due_at > builder.now or builder.state.stands_still:
        _wait(builder, report, DelayStarted(due_at).payload)
        return
    builder.fired(due_at)
    _complete(builder, report, NULL, handle=DEFAULT_HANDLE)


def _open_wait(builder: CodedDecisionBuilder, report: StepReport, asked: AwaitsSignal | AwaitsAnySignal) -> None:
    """A step waits for a signal. A kept signal completes it at once; so does a timeout of zero, but not while the run
    stands still.
    """
    note, output = builder.state.signals.opened_wait(asked, now=builder.now)
    _wait(builder, report, note)
    step = builder.state.steps[report.name, report.scope]
    if output is not None:
        _complete(builder, step, output, handle=DEFAULT_HANDLE)
    elif asked.timeout_ms == 0 and not builder.state.stands_still:
        _complete(builder, step, NULL, handle=TIMEOUT_HANDLE)


def _wait(builder: CodedDecisionBuilder, report: StepReport, note: Payload) -> None:
    _append(builder, EventType.NODE_WAITING, report, note)
    builder.wake(builder.state.steps[report.name, report.scope])


def _attempt_failed(builder: CodedDecisionBuilder, report: StepReport, failed: Failed) -> None:
    """An attempt failed: schedule the next one, or fail the step."""
    step = builder.state.steps.get((report.name, report.scope))
    attempt = report.attempt if step is None else step.counted_attempt
    note = next_attempt(builder, report.retry, attempt, failed, key=f"{report.scope}/{report.name}")
    if note is None:
        if report.mark.kind is StepKind.CHILD:
            # The child may have been created although the response was lost.
            instance_id = builder.state.head.instance_id
            own = child_id(instance_id, report.name, report.scope) if step is None else step.child_of(instance_id)
            builder.cancels.append(own)
        _fail_step(builder, report, failed.error)
        return
    _append(builder, EventType.NODE_ATTEMPT_FAILED, report, note, error_message=failed.error.message)
    builder.wake(builder.state.steps[report.name, report.scope])


def _complete(
    builder: CodedDecisionBuilder, step: Step | StepReport, output: Payload, handle: str | None = None
) -> None:
    """Complete the step, or fail it if its output would exceed the run's limit."""
    if builder.state.bytes + output.weight > CONTEXT_BYTES_MAX:
        message = f"with this output the steps of the run would pass {CONTEXT_BYTES_MAX} bytes"
        error = RunError("CONTEXT_TOO_LARGE", "ContextTooLarge", message, step.name, step.scope, step.attempt)
        _fail_step(builder, step, error)
        return
    _append(builder, _NODE_COMPLETED, step, output, handle)


def _fail_step(builder: CodedDecisionBuilder, step: Step | StepReport, error: RunError) -> None:
    _append(builder, EventType.NODE_FAILED, step, NodeFailed(error).payload, error_message=error.message)


def _append(
    builder: CodedDecisionBuilder,
    event_type: EventType,
    step: Step | StepReport,
    payload: Payload,
    next_handle: str | None = None,
    error_message: str | None = None,
) -> None:
    is_first = (step.name, step.scope) not in builder.state.steps
    builder.append(
        event_type,
        step.name,
        step.scope,
        step.attempt,
        payload,
        next_handle,
        None,
        error_message,
        step.arguments if is_first else None,
        step.mark,
    )


# -- what arrives by itself ----------------------------------------------------------------------
def _catch_up(builder: CodedDecisionBuilder) -> None:
    """Begin if it is time, then fire whatever is due, oldest due time first.

    A signal that is in the log takes precedence over its timeout. Does nothing while the run is suspended or paused.
    """
    if builder.state.stands_still:
        return
    if may_begin(builder):
        _dispatch_function(builder, 1)
    _serve_promises(builder)
    while not builder.state.is_terminal:
        timer = builder.state.next_timer()
        if timer is None or timer.due_at is None or timer.due_at > builder.now:
            return
        builder.fired(timer.due_at)
        if isinstance(timer, Step):
            _step_due(builder, timer)
        elif timer.blocked:
            builder.append(
                EventType.NODE_WAITING,
                FUNCTION_NODE_ID,
                FUNCTION_SCOPE,
                timer.attempt,
                FunctionPaused(ready=True).payload,
            )
        else:
            _dispatch_function(builder, timer.attempt + 1)
        _serve_promises(builder)


def _step_due(builder: CodedDecisionBuilder, step: Step) -> None:
    if step.phase is Phase.RETRYING:
        builder.append(EventType.NODE_DISPATCHED, *step.key, step.attempt + 1, EMPTY, mark=step.mark)
    else:
        _complete(builder, step, NULL, handle=TIMEOUT_HANDLE if step.signal_wait is not None else DEFAULT_HANDLE)


def _serve_promises(builder: CodedDecisionBuilder) -> None:
    """Let waits take the signals assigned to them, unless the run stands still."""
    promises = builder.state.signals.promises
    while promises and not builder.state.stands_still and not builder.state.is_terminal:
        wait = next(iter(promises.values()))
        step = builder.state.steps[wait.key]
        note, output = wait.served()
        _append(builder, EventType.NODE_WAITING, step, note)
        _complete(builder, step, output, handle=DEFAULT_HANDLE)


def _child_ended(builder: CodedDecisionBuilder, ended: ChildEnded) -> None:
    step = builder.state.children.get(ended.child_id)
    if not isinstance(step, Step):
        return  # a duplicate, or the wait is over
    worth = child_result(ended)
    if isinstance(worth, Payload):
        _complete(builder, step, worth, handle=DEFAULT_HANDLE)
    else:
        _fail_step(builder, step, RunError(*worth, step.name, step.scope, step.attempt))


def _build(builder: CodedDecisionBuilder, *, was_running: bool) -> Decision:
    function = builder.state.function
    if function is not None and builder.state.running and not was_running:
        builder.commands.append(Dispatch(*FUNCTION_KEY, function.attempt))
    return builder.build()

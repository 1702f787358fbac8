"""What is judged alike for every run, drawn or coded: creation, deadline, takeovers, signals, waits, retries, children.

Pure. Called by `decide`, `outcomes`, `children` and `coded.decide`; each draws its own consequences.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from anabranch.engine.rules.commands import Wake
from anabranch.engine.rules.events import EventType, Status, SuspendReason
from anabranch.engine.rules.evolve import outstanding
from anabranch.engine.rules.instants import to_iso
from anabranch.engine.rules.payloads import (
    DefinitionSet,
    InputSet,
    Recovered,
    RetryScheduled,
    RunResumed,
    RunSuspended,
    SignalAwaited,
    SignalReceived,
    SignalTaken,
)
from anabranch.engine.rules.shared.decision import Decision, DecisionBuilder
from anabranch.engine.rules.shared.retry import RETRY_AFTER_MS_MAX, RetryPolicy
from anabranch.engine.rules.shared.run_state import OpenActivation
from anabranch.engine.rules.shared.signals import SIGNALS_KEPT_MAX, KeptSignal, output_of
from anabranch.engine.rules.stimuli import (
    AwaitsAnySignal,
    AwaitsSignal,
    ChildEnded,
    Failed,
    LeaseAcquired,
    PauseRequested,
    ResumeRequested,
    SignalSent,
    Started,
)
from anabranch.engine.rules.values import VALUE_BYTES_MAX, Payload
from anabranch.errors import RunError

AnyDecisionBuilder: TypeAlias = DecisionBuilder[Any]


def created(notes: AnyDecisionBuilder, started: Started) -> bool:
    """A start: the input. True if the run begins at once: its time has come and its creator has room."""
    head = notes.state.head
    notes.append(EventType.INPUT_SET, "", "", 0, InputSet(started.input).payload)
    if started.definition is not None:
        notes.append(EventType.SYSTEM_SET, "", "", 0, DefinitionSet(started.definition, started.differs).payload)
    if head.deadline_at is not None:
        notes.commands.append(Wake("", "", 0, head.deadline_at))
    overdue = head.deadline_at is not None and head.deadline_at <= notes.now
    # A time that was asked for is a timer, also when it has come while the creation was on its way: only
    # a timer's transition is held against the store's own clock.
    if started.begin and head.available_at <= head.created_at and not overdue:
        return True
    notes.commands.append(Wake("", "", 0, head.available_at))
    return False


def may_begin(notes: AnyDecisionBuilder) -> bool:
    """True if the run has not begun and its time has come."""
    state = notes.state
    if state.started or state.head.available_at > notes.now or state.is_terminal or state.suspension is not None:
        return False
    notes.fired(state.head.available_at)
    return True


def deadline_passed(notes: AnyDecisionBuilder) -> bool:
    """Fail the instance if its deadline has come; nothing else happens then."""
    deadline = notes.state.head.deadline_at
    if deadline is None or deadline > notes.now or notes.state.last_seq == 0:
        return False
    notes.fired(deadline)
    message = f"the run was not done by {to_iso(deadline)}"
    notes.fail_instance(RunError("DEADLINE_EXCEEDED", "DeadlineExceeded", message))
    return True


def taken_over(notes: AnyDecisionBuilder, acquired: LeaseAcquired) -> bool:
    """A takeover, counted if a worker was lost. False if there were too many: the run has failed then.

    Nor does a suspended run go on: its next owner has to watch its deadline.
    """
    state = notes.state
    if state.suspension is not None:
        return False
    if not acquired.lapsed:
        return True
    recoveries = state.recoveries + 1 if state.running else state.recoveries
    if recoveries > acquired.recoveries_max:
        message = f"{acquired.recoveries_max} workers in a row were lost while running this, without any progress"
        notes.fail_instance(RunError("RECOVERY_LIMIT", "RecoveryLimit", message))
        return False
    notes.append(EventType.INSTANCE_RECOVERED, "", "", 0, Recovered(recoveries).payload)
    return True


PAUSED_HINT = "Resume it when it is to go on."


def suspend(notes: AnyDecisionBuilder, asked: PauseRequested) -> None:
    """The run stands still from now on, if it does not already."""
    if notes.state.suspension is None:
        suspended = RunSuspended(SuspendReason.PAUSED, asked.why, PAUSED_HINT)
        notes.append(EventType.INSTANCE_SUSPENDED, "", "", 0, suspended.payload)


def resumed(notes: AnyDecisionBuilder, asked: ResumeRequested) -> bool:
    """A suspended run goes on: all that it owes is to be performed again. False: it was not suspended."""
    if notes.state.suspension is None:
        return False
    owed_meanwhile = outstanding(notes.state)
    notes.append(EventType.INSTANCE_RESUMED, "", "", 0, RunResumed(asked.by).payload)
    notes.commands += sorted(outstanding(notes.state) - owed_meanwhile, key=repr)
    return True


def signal_known_or_refused(notes: AnyDecisionBuilder, signal: SignalSent) -> Decision | None:
    """The answer to a signal that is not taken: its key has arrived before, or too many are kept. None: take it."""
    state = notes.state
    if signal.key is not None and signal.key in state.signal_answers:
        return Decision(delivered=state.signal_answers[signal.key])
    if state.kept_count >= SIGNALS_KEPT_MAX and state.oldest_wait(signal.event, signal.payload) is None:
        return Decision(refused="TOO_MANY_SIGNALS")
    return None


def accept_signal(notes: AnyDecisionBuilder, signal: SignalSent) -> bool:
    """Record a signal; was a fitting wait open?"""
    waited_for = notes.state.oldest_wait(signal.event, signal.payload) is not None
    arrived = SignalReceived(signal.event, signal.payload, signal.key)
    notes.append(EventType.SIGNAL_RECEIVED, "", "", 0, arrived.payload)
    return waited_for


def signal_wait(notes: AnyDecisionBuilder, asked: AwaitsSignal | AwaitsAnySignal) -> tuple[Payload, KeptSignal | None]:
    """What NODE_WAITING says of a wait for a signal, and the kept signal that it takes at once, if one fits."""
    names_event = isinstance(asked, AwaitsAnySignal)
    events = asked.events if isinstance(asked, AwaitsAnySignal) else {asked.event: asked.match}
    due_at = None if asked.timeout_ms is None else notes.now + asked.timeout_ms
    signal: KeptSignal | None = notes.state.oldest_signal(events)
    taken = None if signal is None else SignalTaken(signal.event, signal.seq)
    return SignalAwaited(events, names_event, due_at, taken).payload, signal


def taking(wait: OpenActivation) -> tuple[Payload, Payload]:
    """What NODE_WAITING says of a wait that takes the signal promised to it, and what it comes to."""
    signal = wait.promised
    assert signal is not None, "only who was promised a signal takes one"
    output = output_of(signal, names_event=wait.names_event)
    return SignalTaken(signal.event, signal.seq).payload, output


def next_try(
    notes: AnyDecisionBuilder, policy: RetryPolicy, attempt: int, failed: Failed, *, key: str
) -> Payload | None:
    """What NODE_ATTEMPT_FAILED says of a failed try; None: that was the last one."""
    if not failed.retryable or attempt >= policy.max_attempts:
        return None
    delay_ms = policy.delay_ms(attempt, key=f"{notes.state.head.instance_id}/{key}")
    if failed.retry_after_ms is not None:
        delay_ms = max(delay_ms, min(failed.retry_after_ms, RETRY_AFTER_MS_MAX))
    return RetryScheduled(failed.error, notes.now + delay_ms).payload


def child_result(ended: ChildEnded) -> Payload | tuple[str, str, str]:
    """The output that a child hands on, or code, type and message of the error that its end is."""
    if ended.status is Status.COMPLETED:
        size = len(ended.outcome.raw)
        if size <= VALUE_BYTES_MAX:
            return ended.outcome
        # several End nodes may have made it larger than any one output
        message = f"the output of the child run {ended.child_id} has {size} bytes of JSON, a node's {VALUE_BYTES_MAX}"
        return "VALUE_TOO_LARGE", "ValueTooLarge", message
    if ended.status is Status.FAILED:
        error = ended.outcome.value
        message = f"the child run {ended.child_id} failed with {error['code']}: {error['message']}"
        return "CHILD_FAILED", "ChildFailed", message
    return "CHILD_CANCELLED", "ChildCancelled", f"the child run {ended.child_id} was cancelled: {ended.outcome.value}"

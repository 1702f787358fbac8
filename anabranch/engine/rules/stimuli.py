"""Stimuli: what arrives at an instance and may change it.

A stimulus is not stored; the events that follow from it are. A stimulus that no longer applies (a duplicate, a stray or
late result) changes nothing.

Stimuli are immutable. (Those created for every run or node are not `frozen`, for the reason given at `Event`.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from anabranch.dataclass import dataclass
from anabranch.engine.rules.coded.names import Mark
from anabranch.engine.rules.events import ActivationKey, Status, SuspendReason
from anabranch.engine.rules.shared.blame import Blame
from anabranch.engine.rules.shared.retry import DEFAULT_STEP_RETRY, RetryPolicy
from anabranch.engine.rules.values import Payload
from anabranch.errors import RunError


@dataclass(slots=True)
class Started:
    """The instance is created with this input. Always the first stimulus.

    `begin` is False when its creator has no room to run it: it stays PENDING for any worker. A test run carries its
    `definition`; other runs are pinned to a stored version. With `only_active` it is not created if another version
    is active by then.
    """

    input: Payload
    trigger: str | None = None
    """The trigger that the run begins at; None: `start`, and the function of a coded run."""
    begin: bool = True
    definition: Payload | None = None
    differs: Payload | None = None
    """How a test run differs from its definition (`test_runs.TestRunPlan`)."""
    only_active: bool = False


@dataclass(frozen=True, slots=True)
class LeaseAcquired:
    """A worker took over the instance, which is a suspect if its row has a `blame`.

    A handover, a due timer or a store outage makes no suspects.
    """

    blame: Blame | None = None


@dataclass(slots=True)
class Completed:
    """The handler returned. `queue_delay_ms` keeps the node WAITING with its output stored."""

    output: Payload
    next_handle: str | None = None
    queue_delay_ms: int | None = None


@dataclass(frozen=True, slots=True)
class AwaitsSignal:
    """The handler (`waitForEvent`) asks for a signal; `match` is already resolved."""

    event: str
    match: Payload | None
    timeout_ms: int | None


@dataclass(frozen=True, slots=True)
class AwaitsAnySignal:
    """A coded step asks for the first signal that matches one of these, by event name."""

    events: Mapping[str, Payload | None]
    timeout_ms: int | None


@dataclass(frozen=True, slots=True)
class AwaitsChild:
    """The handler (`workflow`) has started this run and asks for its end."""

    child_id: str


@dataclass(frozen=True, slots=True)
class Failed:
    """The handler raised, timed out or returned what cannot be stored."""

    error: RunError
    retryable: bool
    retry_after_ms: int | None = None
    """As the other side asked: the next attempt is due no sooner, unless that is more than `RETRY_AFTER_MS_MAX`."""
    suspends: bool = False
    """Of a workflow function: with the last attempt the run is suspended instead of failed."""


@dataclass(frozen=True, slots=True)
class AwaitsTime:
    """A coded step sleeps for this duration, counted from the decision."""

    duration_ms: int


@dataclass(frozen=True, slots=True)
class AwaitsInstant:
    """A timer of a workflow function is due then: by `asyncio.sleep`, a timeout, or another call at a time."""

    due_at: int


@dataclass(frozen=True, slots=True)
class LegacyReplayed:
    """A function has replayed everything that a version without workflow loops recorded; from now on it follows the new
    rules."""


@dataclass(frozen=True, slots=True)
class LogMatched:
    """A function whose run is suspended because of its code has replayed the whole log: the run can be resumed."""


@dataclass(frozen=True, slots=True)
class Begun:
    """A coded step is about to start a child; that must be in the log first."""


@dataclass(frozen=True, slots=True)
class StepCancelled:
    """The function cancelled the task that awaited a step or timer: its outcome is dropped."""


StepOutcome: TypeAlias = (
    Completed
    | AwaitsSignal
    | AwaitsAnySignal
    | AwaitsChild
    | AwaitsTime
    | AwaitsInstant
    | Begun
    | Failed
    | StepCancelled
    | LegacyReplayed
    | LogMatched
)


@dataclass(slots=True)
class StepReport:
    """The outcome or request of a step of a coded run. It is delivered after the commit. Never changed once created
    (not `frozen`: see `Event`)."""

    name: str
    scope: str
    attempt: int
    mark: Mark
    """What its rows are to say of it."""
    function_attempt: int
    outcome: StepOutcome
    retry: RetryPolicy = DEFAULT_STEP_RETRY
    arguments: str | None = None
    """What it was asked for with (`coded.arguments`), for its first row."""


@dataclass(frozen=True, slots=True)
class FunctionSuspended:
    """The workflow function only waits and has been unwound. It waits for these keys, some of which it has just asked
    for."""

    awaited: Sequence[ActivationKey]
    asked: Sequence[StepReport] = ()
    called_by: int | None = None
    """The row that made the function run (`FunctionActivation.called_by`); None: whichever it was."""


@dataclass(frozen=True, slots=True)
class FunctionBlocked:
    """The function cannot continue on this worker: it is unknown here, or its code no longer matches its log."""

    reason: SuspendReason
    message: str
    called_by: int | None = None
    """As in `FunctionSuspended`."""
    refused_by: str | None = None
    """The digest of the code that cannot continue it."""


HandlerOutcome: TypeAlias = Completed | AwaitsSignal | AwaitsChild | Failed | FunctionSuspended | FunctionBlocked


@dataclass(slots=True)
class NodeResult:
    """One attempt's outcome, reported by a task worker."""

    node_id: str
    scope: str
    attempt: int
    outcome: HandlerOutcome


@dataclass(frozen=True, slots=True)
class TimersDue:
    """Whatever is due now fires, oldest due time first; then unfinished loops continue."""


@dataclass(frozen=True, slots=True)
class SignalSent:
    """A named message from outside; a repeated `key` is delivered once."""

    event: str
    payload: Payload
    key: str | None = None


@dataclass(frozen=True, slots=True)
class ChildEnded:
    """A child run has ended."""

    child_id: str
    status: Status
    outcome: Payload
    """Its output, error or the reason of its cancel."""


@dataclass(frozen=True, slots=True)
class LogReloaded:
    """The log was read again (another process appended rows) or children were checked: decide what follows."""


@dataclass(frozen=True, slots=True)
class EvaluationDue:
    """Pure nodes are dispatched but not evaluated yet: after a start, a takeover, or a decision that reached its
    bound."""


@dataclass(frozen=True, slots=True)
class CancelRequested:
    """A caller cancels the instance."""

    reason: str


@dataclass(frozen=True, slots=True)
class PauseRequested:
    """A caller pauses the run; `why` is shown to people. Executions under way may end."""

    why: str


@dataclass(frozen=True, slots=True)
class ResumeRequested:
    """A caller resumes a suspended run."""

    by: str


Stimulus: TypeAlias = (
    Started
    | LeaseAcquired
    | NodeResult
    | StepReport
    | TimersDue
    | SignalSent
    | ChildEnded
    | LogReloaded
    | EvaluationDue
    | CancelRequested
    | PauseRequested
    | ResumeRequested
)

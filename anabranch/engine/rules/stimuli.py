"""Stimuli: what arrives at an instance and may change it.

A stimulus is not stored; the events that follow from it are. One that no longer makes sense (a duplicate, a stray or
late result) changes nothing.

A stimulus never changes once it is made. (Those that are made for every node are not `frozen`, for the reason that
`Event` gives.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from anabranch.engine.rules.coded.names import Mark
from anabranch.engine.rules.events import Status
from anabranch.engine.rules.shared.blame import Blame
from anabranch.engine.rules.shared.retry import DEFAULT_STEP_RETRY, RetryPolicy
from anabranch.engine.rules.values import Payload
from anabranch.errors import RunError


@dataclass(frozen=True, slots=True)
class Started:
    """The instance is created with this input. Only ever the first stimulus.

    `begin` is False when its creator has no room to run it: it stays PENDING for any worker. A test
    run brings the `definition` that it follows; other runs are pinned to a stored version. With
    `only_newest` it is not created if that is not the workflow's newest version any more.
    """

    input: Payload
    begin: bool = True
    definition: Payload | None = None
    differs: Payload | None = None
    """How a test run differs from its definition (`test_runs.TestRunPlan`)."""
    only_newest: bool = False


@dataclass(frozen=True, slots=True)
class LeaseAcquired:
    """A worker took the instance over, which is under suspicion if its row has a `blame`.

    A handover, a due timer or a store outage puts nobody under suspicion.
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
    """A coded step asks for the first signal that fits one of these, each by the name of its event."""

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
    """What the other side asked for: the next try is due no sooner, unless that is more than `RETRY_AFTER_MS_MAX`."""
    suspends: bool = False
    """Of a workflow function: with the last attempt the run is suspended instead of failed."""


@dataclass(frozen=True, slots=True)
class AwaitsTime:
    """A coded step sleeps for so long, counted from the decision."""

    duration_ms: int


@dataclass(frozen=True, slots=True)
class AwaitsInstant:
    """A timer of a workflow function is due then: by `asyncio.sleep`, a timeout, or another call at a time."""

    due_at: int


@dataclass(frozen=True, slots=True)
class LegacyReplayed:
    """A function has replayed all that a version without workflow loops recorded: what comes now has the new rules."""


@dataclass(frozen=True, slots=True)
class Begun:
    """A coded step is about to do what must be in the log before it is done: starting a child."""


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
)


@dataclass(frozen=True, slots=True)
class StepReport:
    """The outcome or request of a step of a coded run. It is delivered after the commit."""

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
    """The workflow function only waits, and has been unwound: for these places, of which it just asked for some."""

    awaited: Sequence[tuple[str, str]]
    asked: Sequence[StepReport] = ()
    called_by: int | None = None
    """The row that made the function run (`FunctionActivation.called_by`); None: whichever it was."""


@dataclass(frozen=True, slots=True)
class FunctionBlocked:
    """The function cannot go on here: it is unknown, or its code no longer matches its log."""

    code: str
    message: str
    called_by: int | None = None
    """As in `FunctionSuspended`."""


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
    """The clock moved: whatever is due now fires, oldest due time first; then unfinished loops go on."""


@dataclass(frozen=True, slots=True)
class SignalSent:
    """A named message from outside; a repeated `key` is delivered once."""

    event: str
    payload: Payload
    key: str | None = None


@dataclass(frozen=True, slots=True)
class ChildEnded:
    """A run that a node has started is over."""

    child_id: str
    status: Status
    outcome: Payload
    """Its output, error or the reason of its cancel."""


@dataclass(frozen=True, slots=True)
class LogReloaded:
    """Something was found out (rows that another process appended, children that run on): do what follows from it."""


@dataclass(frozen=True, slots=True)
class EvaluationDue:
    """Pure nodes are dispatched and not evaluated yet: after a start, a takeover, or a decision that did enough."""


@dataclass(frozen=True, slots=True)
class CancelRequested:
    """Somebody asked for the end of the instance."""

    reason: str


@dataclass(frozen=True, slots=True)
class PauseRequested:
    """Somebody asked that the run stands still; `why` is for people. What is being done for it is let end."""

    why: str


@dataclass(frozen=True, slots=True)
class ResumeRequested:
    """Somebody asked that a suspended run goes on."""

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

"""Coded runs for the specs: given what was reported, when something arrives, then events. No event loop.

Every decision is held to the laws: memory is what the log folds to, commands are exactly what the
decision added to what is owed, an ended run owes nothing.
"""

from __future__ import annotations

from dataclasses import astuple
from typing import Any

from anabranch.engine.rules.coded.coded_plan import coded_plan
from anabranch.engine.rules.coded.coded_state import CodedState
from anabranch.engine.rules.coded.names import FUNCTION_KEY, NO_MARK, Mark, StepKind
from anabranch.engine.rules.commands import Dispatch
from anabranch.engine.rules.decide import decide
from anabranch.engine.rules.drawn.drawn_state import InstanceHead
from anabranch.engine.rules.events import Event, Status, SuspendReason
from anabranch.engine.rules.evolve import fold, new_state, outstanding
from anabranch.engine.rules.shared.decisions import Decision
from anabranch.engine.rules.stimuli import (
    AwaitsTime,
    Completed,
    Failed,
    FunctionBlocked,
    FunctionSuspended,
    HandlerOutcome,
    LogMatched,
    NodeResult,
    Started,
    StepOutcome,
    StepReport,
    Stimulus,
    TimersDue,
)
from anabranch.engine.rules.values import Payload
from anabranch.errors import RunError

BIRTH_MS = 1_700_000_000_000
FUNCTION = Dispatch(*FUNCTION_KEY, 1)


class Coded:
    """One coded run: its state, its log, its clock."""

    def __init__(self, **options: Any) -> None:
        head: dict[str, Any] = {"deadline_at": options.pop("deadline_at", None)}
        run_id = options.pop("run_id", "run")
        self.plan = coded_plan("spec", 1, options, python="3.11")
        self.head = InstanceHead(run_id, "default", "workflow", "spec", 1, BIRTH_MS, BIRTH_MS, kind="coded", **head)
        self.now = BIRTH_MS
        self.state: CodedState = new_state(self.plan, self.head)
        self.log: list[Event] = []
        self.when(Started(Payload.of({"n": 1})))

    # -- when -----------------------------------------------------------------------------
    def when(self, stimulus: Stimulus) -> Decision:
        """Decide a stimulus now, under the laws."""
        owed = outstanding(self.state)
        decision = decide(self.state, stimulus, self.now)
        job_ended = isinstance(stimulus, NodeResult) and bool(decision.events)
        self.log += decision.events
        assert [event.seq for event in self.log] == list(range(1, len(self.log) + 1))
        assert picture(self.state) == picture(fold(self.plan, self.head, self.log)), "memory is what the log folds to"
        left = {command for command in owed if not (job_ended and isinstance(command, Dispatch))}
        assert set(decision.commands) == outstanding(self.state) - left, "commands are what came to be owed"
        assert not (self.state.is_terminal and outstanding(self.state)), "an ended run owes nothing"
        return decision

    def then(self, *stimuli: Stimulus) -> Coded:
        """The same run after these stimuli."""
        for stimulus in stimuli:
            self.when(stimulus)
        return self

    def later(self, milliseconds: int) -> Decision:
        """Let time pass and offer what is due."""
        self.now += milliseconds
        return self.when(TimersDue())

    def crashed(self) -> Coded:
        """The memory is gone; another worker folds the log."""
        self.state = fold(self.plan, self.head, self.log)
        return self

    # -- then -----------------------------------------------------------------------------
    @property
    def status(self) -> Status:
        """The status of the run."""
        return self.state.status

    @property
    def outcome(self) -> Any:
        """The output, error or reason of an ended run."""
        assert self.state.outcome is not None, "the run has not ended"
        return self.state.outcome.value


def types(decision: Decision) -> list[str]:
    """The rows that a decision wrote, in short: `NODE_COMPLETED fetch#2`."""
    return [f"{event.type.value} {event.node_id}{event.scope}".strip() for event in decision.events]


def report(
    name: str,
    outcome: StepOutcome,
    *,
    scope: str = "",
    attempt: int = 1,
    kind: StepKind = StepKind.RUN,
    function_attempt: int = 1,
) -> StepReport:
    """What a step of the function came to."""
    return StepReport(name, scope, attempt, Mark.of(kind, frozenset((2,))), function_attempt, outcome)


def done(name: str, output: Any = None, **fields: Any) -> StepReport:
    """A step has returned."""
    return report(name, Completed(Payload.of(output)), **fields)


def broken(name: str, *, retryable: bool = True, attempt: int = 1, **fields: Any) -> StepReport:
    """An attempt of a step has failed."""
    failed = Failed(RunError("HANDLER_ERROR", "ValueError", "no", name, "", attempt), retryable=retryable)
    return report(name, failed, attempt=attempt, **fields)


def sleeps(name: str, duration_ms: int) -> StepReport:
    """A step asks for a sleep."""
    return report(name, AwaitsTime(duration_ms), kind=StepKind.SLEEP)


def function(outcome: HandlerOutcome, attempt: int = 1) -> NodeResult:
    """What the function came to."""
    return NodeResult(*FUNCTION_KEY, attempt, outcome)


def returned(value: Any = None, attempt: int = 1) -> NodeResult:
    """The function has returned."""
    return function(Completed(Payload.of(value)), attempt)


def raised(attempt: int = 1) -> NodeResult:
    """The function has raised."""
    return function(Failed(RunError("HANDLER_ERROR", "ValueError", "no"), retryable=True), attempt)


def suspended(*asked: StepReport, awaited: list[str] | None = None) -> NodeResult:
    """The function only waits: for what it has just asked for, or for these steps."""
    keys = [(each.name, each.scope) for each in asked] if awaited is None else [(name, "") for name in awaited]
    return function(FunctionSuspended(keys, asked))


def blocked() -> NodeResult:
    """The function cannot go on here."""
    return function(FunctionBlocked(SuspendReason.NONDETERMINISM, "changed", refused_by="digest"))


def matched() -> StepReport:
    """A function has replayed the whole log of a suspended run."""
    return StepReport("", "", 0, NO_MARK, 1, LogMatched())


def picture(state: CodedState) -> dict[str, Any]:
    """A state as plain data: everything that a later decision, or the function, could depend on."""
    steps = {
        key: (s.kind, s.phase if not s.has_ended else None, s.attempt, s.due_at,
                s.signal_wait and (s.signal_wait.events, s.signal_wait.names_event), s.child_id,
                s.ended_seq, s.seq, s.mark, s.arguments, s.created_in, s.undone_in, s.step_cancelled,
                s.first_seq, s.error, s.output.raw)
        for key, s in state.steps.items()
    }  # fmt: skip
    ours = state.function
    return {
        "steps": steps,
        "function": ours and (ours.phase, ours.attempt, ours.due_at, ours.blocked, ours.began_seq, ours.called_by),
        "running": list(state.running),
        "status": state.status,
        "last seq": state.last_seq,
        "next due": state.next_due(),
        "kept": {event: list(kept) for event, kept in state.signals.kept.items()},
        "waits": {event: list(waits) for event, waits in state.signals.waits.items()},
        "promises": list(state.signals.promises),
        "children": list(state.children),
        "answers": state.signals.answers,
        "bytes": state.bytes,
        "suspicion": None if state.suspicion is None else astuple(state.suspicion),
    }

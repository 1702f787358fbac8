"""The plan of a fork of a coded run: the rows of its log whose steps are reused, as they are.

Pure. Called by the service. Rows keep their seqs and times, because the marks of steps name rows, and timers are told
apart by their time. A row that does not go along becomes a note with its seq. What a step followed is in its mark:
where the end of a step does not go along, neither do the steps that followed it. Whether the function makes the calls
of this log, its first call judges, before it executes anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace

from anabranch.dataclass import dataclass
from anabranch.engine.rules.coded.coded_plan import CodedPlan
from anabranch.engine.rules.coded.names import FUNCTION_KEY, FUNCTION_NODE_ID, FUNCTION_SCOPE, NO_MARK, Mark, StepKind
from anabranch.engine.rules.event_payloads import (
    FunctionPaused,
    FunctionPostponed,
    InputSet,
    LeftBehind,
    RetryScheduled,
    read_error,
    read_forked_from,
    read_system,
    read_wait,
    signal_taken,
)
from anabranch.engine.rules.events import ENDINGS, TERMINALS, ActivationKey, Event, EventType
from anabranch.engine.rules.evolve import new_state
from anabranch.engine.rules.repair.fork_plan import (
    ExecutionReason,
    ForkCut,
    ForkPlan,
    RecordedRun,
    add_row,
    check_size,
    entry_of,
    forked_from,
)
from anabranch.engine.rules.shared.left_out import is_left_out
from anabranch.engine.rules.shared.run_state import InstanceHead
from anabranch.engine.rules.values import Payload
from anabranch.errors import RunError

_WAITS = frozenset({StepKind.SLEEP, StepKind.EVENT})
_OF_CRASHES = frozenset({EventType.INSTANCE_RECOVERED, EventType.INSTANCE_REOPENED, EventType.FORKED_FROM})


def plan_coded_fork(
    source: RecordedRun, plan: CodedPlan, head: InstanceHead, given: Payload, *, cut: ForkCut, now: int
) -> ForkPlan:
    """The plan of a run with this head, plan and input that reuses what `cut` lets it. Raises RunTooLarge."""
    return _CodedFork(source, plan, head, cut, now).made(given)


@dataclass(slots=True)
class _Recorded:
    """A step of the recorded run."""

    key: ActivationKey
    mark: Mark
    rows: list[int] = field(default_factory=list)
    failures_left_out: list[Event] = field(default_factory=list)
    """Its failures that reopenings have left out."""
    ending: Event | None = None
    attempt: int = 0
    """Of the function, when the step ended."""

    @property
    def first_row(self) -> int:
        """The function had asked for it by then."""
        return min((*self.rows, *(event.seq for event in self.failures_left_out)))


class _CodedFork:
    def __init__(self, source: RecordedRun, plan: CodedPlan, head: InstanceHead, cut: ForkCut, now: int) -> None:
        self._source, self._cut, self._now = source, cut, now
        self._last = source.log[-1].seq if cut.seq is None else cut.seq
        self._plan = ForkPlan([], new_state(plan, replace(head, deadline_at=None)))
        self._steps: dict[ActivationKey, _Recorded] = {}
        self._attempts: dict[tuple[str, str, int], int] = {}
        """When rows have dispatched attempts, by name, scope and number of the attempt."""
        self._attempt = 0
        self._begun_seq = 0
        """Since when the function is called: the fork calls it at once, even if its cut is before that."""
        self._origins: tuple[str, ...] = ()
        """The runs that the recorded run was forked from itself."""
        self._reopened_seq = 0
        """The last reopening before the cut."""
        self._taken_by: dict[int, ActivationKey] = {}
        """Signals that were taken by the cut, by their rows."""
        for event in source.log:
            if is_left_out(source.head.left_out, event.seq):
                self._read_left_out(event)
            else:
                self._read(event)
        self._because: dict[ActivationKey, ExecutionReason | None] = {}
        """Of the steps that do not go along; None: they follow one that does not."""

    def made(self, given: Payload) -> ForkPlan:
        """The plan of a fork with this input: its rows, and which steps are reused, executed and dropped."""
        self._choose()
        plan = self._plan
        for event in self._rows(given):
            add_row(plan, event)
        function = plan.state.activation(*FUNCTION_KEY)
        if function is not None and FUNCTION_KEY not in plan.state.running:
            ready = FunctionPaused(ready=True).payload
            self._append(EventType.NODE_WAITING, FUNCTION_NODE_ID, function.attempt, ready)
        self._describe()
        origins = (self._source.head.instance_id, *self._origins)
        forked = replace(forked_from(self._source, self._last, reused=len(plan.reuse)), origins=origins)
        self._append(EventType.FORKED_FROM, "", 0, forked.payload)
        check_size(plan, self._cut.log_limit)
        return plan

    def _append(self, event_type: EventType, node_id: str, attempt: int, payload: Payload) -> None:
        seq = self._plan.state.last_seq + 1
        add_row(self._plan, Event(seq, event_type, node_id, FUNCTION_SCOPE, attempt, payload, self._now))

    # -- the recorded run -----------------------------------------------------------------
    def _read(self, event: Event) -> None:
        if event.type is EventType.INSTANCE_REOPENED and event.seq <= self._last:
            self._reopened_seq = event.seq
        if event.type is EventType.FORKED_FROM:
            self._origins = read_forked_from(event.payload).origins
        if event.type is EventType.NODE_DISPATCHED and event.node_id == FUNCTION_NODE_ID:
            self._attempt, self._begun_seq = event.attempt, self._begun_seq or event.seq
        if event.node_id == FUNCTION_NODE_ID:
            return
        step = self._step_of(event)
        key = step.key
        step.rows.append(event.seq)
        if event.type is EventType.NODE_DISPATCHED:
            self._attempts[*key, event.attempt] = event.created_at
        if event.type in ENDINGS:
            step.ending, step.attempt = event, self._attempt
        if event.type is EventType.NODE_WAITING and event.seq <= self._last:
            taken = signal_taken(read_wait(event.payload))
            if taken is not None:
                self._taken_by[taken.seq] = step.key

    def _read_left_out(self, event: Event) -> None:
        if event.type is EventType.NODE_FAILED:
            self._step_of(event).failures_left_out.append(event)

    def _step_of(self, event: Event) -> _Recorded:
        key = (event.node_id, event.scope)
        return self._steps.setdefault(key, _Recorded(key, event.mark or NO_MARK))

    # -- choosing -------------------------------------------------------------------------
    def _choose(self) -> None:
        """Choose the steps that a fork leaves out, and why, by their first rows, so that followers come later."""
        causes, gone, delivered = self._causes(), set[int](), list[int]()
        steps = sorted(self._steps.values(), key=lambda step: step.first_row)
        for step in steps:
            because = self._why_not(step, causes)
            follows = any(row in gone or row > max(self._last, self._begun_seq) for row in step.mark.rows)
            if because is not None or follows:
                self._because[step.key] = None if follows else because
                gone.update(step.rows)
                if step.ending is not None and step.ending.type is not EventType.NODE_SKIPPED:
                    delivered.append(step.ending.seq)
            # The function knew these failures, too, although nothing says any more that it did.
            withdrawn = [event.seq for event in step.failures_left_out if not self._was_retried(event)]
            gone.update(withdrawn)
            delivered += withdrawn
        # Why the function cancelled a step, no mark says: perhaps because of an end that does not go along.
        first_delivered = min(delivered, default=self._last + 1)
        for step in steps:
            ending = step.ending
            if ending is not None and ending.type is EventType.NODE_SKIPPED and ending.seq > first_delivered:
                self._because.setdefault(step.key, ExecutionReason.NOT_ENDED)

    def _why_not(self, step: _Recorded, causes: frozenset[ActivationKey] | None) -> ExecutionReason | None:
        ending, cut = step.ending, self._cut
        if ending is None:
            return ExecutionReason.NOT_ENDED
        if ending.seq > self._last:
            return ExecutionReason.AFTER_CUT
        if (step.key[0], None) in cut.chosen or step.key in cut.chosen:
            return ExecutionReason.CHOSEN
        if ending.type is not EventType.NODE_FAILED:
            return None
        is_cause = step.attempt == self._attempt if causes is None else step.key in causes
        # After a reopening a handled failure is one of the attempt that follows, too: this no row could say here.
        was_reopened = ending.seq < self._reopened_seq
        return ExecutionReason.FAILED if cut.redo_failed or is_cause or was_reopened else None

    def _causes(self) -> frozenset[ActivationKey] | None:
        """The steps that the run had failed with by the cut, or the last attempt of its function, if that is not called
        again yet; None: its log does not say."""
        end = self._source.log[-1]
        if end.type is EventType.INSTANCE_FAILED and end.seq <= self._last:
            error = RunError.from_json(end.payload.value)
        elif failed := _open_failure([event for event in self._source.log if event.seq <= self._last]):
            error = RunError.from_json(read_error(self._source.log[failed - 1].payload))
        else:
            return frozenset()
        return None if error.steps is None else frozenset(error.steps)

    # -- copying --------------------------------------------------------------------------
    def _rows(self, given: Payload) -> list[Event]:
        """The rows up to the cut: as they are, or as notes; without the notes at the end."""
        source = self._source
        rows = [event for event in source.log if event.seq <= self._last]
        suspended, failed = _unresumed(rows), _open_failure(rows)
        copied = [replace(rows[0], payload=InputSet(given).payload)]
        for event in rows[1:]:
            if is_left_out(source.head.left_out, event.seq):
                copied.append(self._failed_attempt(event) if self._was_retried(event) else _note(event))
            else:
                goes = event.seq not in (suspended, failed) and self._goes_along(event)
                copied.append(event if goes else _note(event))
        while _is_note(copied[-1]):
            copied.pop()
        return copied

    def _goes_along(self, event: Event) -> bool:
        if event.type in TERMINALS or event.type in _OF_CRASHES:
            return False
        if event.type is EventType.SIGNAL_RECEIVED:
            taker = self._taken_by.get(event.seq)
            return self._cut.signals if taker is None else taker not in self._because
        if event.type is EventType.SYSTEM_SET:
            return not isinstance(read_system(event.payload), FunctionPostponed)
        if event.node_id == FUNCTION_NODE_ID:
            return True
        return (event.node_id, event.scope) not in self._because

    def _was_retried(self, event: Event) -> bool:
        """Was it a failure that a reopening has left out, and that another attempt of the step has followed?"""
        key = (event.node_id, event.scope)
        is_left_out_failure = event.node_id and event.type is EventType.NODE_FAILED
        return bool(is_left_out_failure) and key not in self._because and (*key, event.attempt + 1) in self._attempts

    def _failed_attempt(self, event: Event) -> Event:
        """The failure of a step that was tried again, in a log that was never reopened."""
        # The clock of the database may have gone back between the failure and the retry.
        due_at = min(event.created_at, self._attempts[event.node_id, event.scope, event.attempt + 1])
        note = RetryScheduled(RunError.from_json(read_error(event.payload)), due_at)
        return replace(event, type=EventType.NODE_ATTEMPT_FAILED, payload=note.payload)

    # -- saying what comes of it ----------------------------------------------------------
    def _describe(self) -> None:
        plan = self._plan
        for step in sorted(self._steps.values(), key=lambda step: step.first_row):
            if step.key not in self._because:
                assert step.ending is not None, "what is open does not go along"
                plan.reuse.append(entry_of(step.key, seq=step.ending.seq))
                continue
            effect = "none" if step.mark.kind in _WAITS else "again"
            because = self._because[step.key]
            if because is None:
                plan.undecided.append(entry_of(step.key, effect=effect))
            else:
                plan.run.append(entry_of(step.key, because=because, effect=effect))
        arrived = [
            event.seq
            for event in self._source.log
            if event.type is EventType.SIGNAL_RECEIVED and event.seq <= self._last and event.seq not in self._taken_by
        ]
        copied = len(arrived) if self._cut.signals else 0
        plan.signals = {"copied": copied, "left": len(arrived) - copied}


def _is_note(event: Event) -> bool:
    return event.type is EventType.SYSTEM_SET and isinstance(read_system(event.payload), LeftBehind)


def _note(event: Event) -> Event:
    """The note in place of a row that a fork leaves out."""
    return Event(event.seq, EventType.SYSTEM_SET, "", "", 0, LeftBehind(event.type).payload, event.created_at)


def _unresumed(rows: Sequence[Event]) -> int:
    """The row that suspended the run, if it is still suspended after these; otherwise 0."""
    found = 0
    for event in rows:
        if event.type is EventType.INSTANCE_SUSPENDED:
            found = event.seq
        elif event.type is EventType.INSTANCE_RESUMED:
            found = 0
    return found


def _open_failure(rows: Sequence[Event]) -> int:
    """The row of the function's last failure, if it was not called in another attempt since; 0: there is none."""
    found = 0
    for event in rows:
        if event.node_id == FUNCTION_NODE_ID and event.type is EventType.NODE_ATTEMPT_FAILED:
            found = event.seq
        elif event.node_id == FUNCTION_NODE_ID and event.type is EventType.NODE_DISPATCHED:
            found = 0
    return found

"""Replay a recorded drawn run on another graph: its handlers answer from the log, and nothing is executed.

Pure. A new state of the other plan is started; while activations wait for an answer that the log has, the one that
ended first in the log is answered, by the real rules. Pure nodes are evaluated. What the log has no answer for stays
open. Then both runs are compared, activation by activation.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import Any

from anabranch.dataclass import dataclass
from anabranch.engine.rules.decide import decide
from anabranch.engine.rules.drawn.drawn_state import Activation, ContextSnapshot
from anabranch.engine.rules.event_payloads import read_error, read_input, read_trigger
from anabranch.engine.rules.events import ENDINGS, TERMINALS, ActivationKey, Event, EventType
from anabranch.engine.rules.evolve import evolve, new_state
from anabranch.engine.rules.graph.plan import Plan
from anabranch.engine.rules.repair.same_input import changed_input
from anabranch.engine.rules.shared.left_out import is_left_out
from anabranch.engine.rules.shared.run_state import InstanceHead
from anabranch.engine.rules.stimuli import Completed, EvaluationDue, Failed, NodeResult, Started, TimersDue
from anabranch.engine.rules.values import Payload, json_equal
from anabranch.errors import RunError, UnknownTrigger


class DifferenceKind(StrEnum):
    """The kind of difference of an activation."""

    OUTCOME = "OUTCOME"
    """It ends another way: by another handle, or failed instead of completed."""
    ONLY_THEN = "ONLY_THEN"
    """It ran in the recorded run, and would not."""
    ONLY_NOW = "ONLY_NOW"
    """It would run, and did not."""
    VALUE = "VALUE"
    """It ends the same way with another output."""
    UNKNOWN = "UNKNOWN"
    """It would run with another input: its result is not in the log."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One activation that differs."""

    kind: DifferenceKind
    node_id: str
    scope: str
    seq: int | None
    """Its row in the recorded log; None if there is none."""
    message: str

    def as_json(self) -> dict[str, Any]:
        """As it is printed."""
        return {
            "kind": self.kind.value,
            "nodeID": self.node_id,
            "scope": self.scope,
            "seq": self.seq,
            "message": self.message,
        }


def replay_graph(plan: Plan, recorded: Plan, head: InstanceHead, log: Sequence[Event]) -> list[Difference]:
    """The differences if a recorded run had had this plan, in log order. `recorded` is the plan that it had.

    Raises UnknownTrigger if no run of this plan begins where that one began.
    """
    return _GraphReplay(plan, _Recording(recorded, head, log), head).differences()


class _Recording:
    """The recorded run: how its activations ended, and what they saw when they were dispatched."""

    def __init__(self, plan: Plan, head: InstanceHead, log: Sequence[Event]) -> None:
        self.plan = plan
        self.log = log
        self.endings: dict[ActivationKey, Event] = {}
        self.dispatched: dict[ActivationKey, Event] = {}
        self.contexts: dict[ActivationKey, ContextSnapshot] = {}
        self.end: Event | None = None
        state = new_state(plan, head)
        for event in log:
            evolve(state, event)
            if is_left_out(head.left_out, event.seq):
                continue
            key = (event.node_id, event.scope)
            if event.type is EventType.NODE_DISPATCHED and key not in self.dispatched:
                self.dispatched[key] = event
                activation = state.activation(*key)
                if activation is not None:
                    self.contexts[key] = activation.context
            elif event.type in ENDINGS:
                self.endings[key] = event
            elif event.type in TERMINALS:
                self.end = event


class _GraphReplay:
    """One recorded run on another plan."""

    def __init__(self, plan: Plan, recording: _Recording, head: InstanceHead) -> None:
        self._plan = plan
        self._recording = recording
        # Replay has no time, so deadlines and start times do not apply.
        self._state = new_state(
            plan, replace(head, deadline_at=None, available_at=head.created_at, left_out=(), generation=0)
        )
        dispatched = {key: event.created_at for key, event in recording.dispatched.items()}
        self._state.dispatch_times = dispatched
        self._now = head.created_at
        self._new: list[Event] = []
        self._refused: dict[ActivationKey, str] = {}
        """Activations that the log has no answer for, and why."""

    def differences(self) -> list[Difference]:
        """Run it as far as the log goes, and compare."""
        created = self._recording.log[0].payload
        trigger = read_trigger(created)
        if trigger not in self._plan.entry_point_by_trigger:
            raise UnknownTrigger(f"the recorded run began at {trigger or 'start'!r}, where no run of this graph begins")
        self._decide(Started(Payload.of(read_input(created)), trigger))
        while not self._state.is_terminal:
            if self._state.unevaluated:
                self._decide(EvaluationDue())
            elif self._state.unfinished:
                self._decide(TimersDue())
            elif (next_ := self._next_answered()) is not None:
                self._answer(*next_)
            else:
                break
        return sorted(self._compared(), key=lambda found: (found.seq is None, found.seq or 0))

    # -- running --------------------------------------------------------------------------
    def _decide(self, stimulus: Started | EvaluationDue | TimersDue | NodeResult) -> None:
        self._new += decide(self._state, stimulus, self._now).events

    def _next_answered(self) -> tuple[Activation, Event] | None:
        """The open activation that ended first in the log, if the log's answer is one for it."""
        found: list[tuple[int, Activation, Event]] = []
        for key, activation in self._state.running.items():
            ending = self._recording.endings.get(key)
            if key in self._refused or ending is None or ending.type is EventType.NODE_SKIPPED:
                continue
            why = self._why_not(activation, ending)
            if why is None:
                found.append((ending.seq, activation, ending))
            else:
                self._refused[key] = why
        if not found:
            return None
        _, activation, ending = min(found, key=lambda each: each[0])
        return activation, ending

    def _answer(self, activation: Activation, ending: Event) -> None:
        self._now = max(self._now, ending.created_at)
        outcome: Completed | Failed
        if ending.type is EventType.NODE_COMPLETED:
            outcome = Completed(ending.payload, ending.next_handle)
        else:
            outcome = Failed(RunError.from_json(read_error(ending.payload)), retryable=False)
        node_id, scope = activation.key
        self._decide(NodeResult(node_id, scope, activation.attempt, outcome))

    # -- may the log answer? --------------------------------------------------------------
    def _why_not(self, activation: Activation, ending: Event) -> str | None:
        """Why this activation cannot use the recorded result; None if it can."""
        node, was = activation.node, self._recording.plan.node_at(*activation.key)
        if was is None or was.type != node.type:
            return f"it was of the type {was.type}" if was is not None else "it was not in the graph"
        if not json_equal(dict(was.config), dict(node.config)):
            return "its config is another one"
        if ending.type is EventType.NODE_COMPLETED and not node.may_leave_by(ending.next_handle):
            return f"it left by {ending.next_handle!r}, which it does not have any more"
        before = self._recording.contexts.get(activation.key)
        changed = None if before is None else changed_input(node, before, activation.context)
        return None if changed is None else f"its input is another one: {changed.path}"

    # -- comparing ------------------------------------------------------------------------
    def _compared(self) -> Iterator[Difference]:
        endings = {(event.node_id, event.scope): event for event in self._new if event.type in ENDINGS}
        dispatched = {(event.node_id, event.scope) for event in self._new if event.type is EventType.NODE_DISPATCHED}
        for key, event in self._recording.dispatched.items():
            if key in dispatched:
                yield from self._compared_both(key, endings.get(key))
            elif key[0] not in self._plan.nodes:
                yield _difference(DifferenceKind.ONLY_THEN, key, event.seq, "it ran, and is not in this graph")
            elif key in endings:
                yield _difference(DifferenceKind.ONLY_THEN, key, event.seq, "it ran, and would be skipped")
            elif self._state.is_terminal or not self._is_undecided():
                yield _difference(DifferenceKind.ONLY_THEN, key, event.seq, "it ran, and would not be reached")
        if not self._recording.dispatched:
            return  # it had not begun: its log says nothing of its path
        for key in sorted(dispatched - self._recording.dispatched.keys()):
            skipped = self._recording.endings.get(key)
            message = "it would run, and was skipped" if skipped is not None else "it would run, and was not reached"
            seq = None if skipped is None else skipped.seq
            yield _difference(DifferenceKind.ONLY_NOW, key, seq, message)

    def _compared_both(self, key: ActivationKey, now: Event | None) -> Iterator[Difference]:
        """An activation that runs in both."""
        then = self._recording.endings.get(key)
        if key in self._refused:
            seq = self._recording.dispatched[key].seq
            yield _difference(DifferenceKind.UNKNOWN, key, seq, self._refused[key])
        elif then is None or then.type is EventType.NODE_SKIPPED:
            if now is not None and now.type is not EventType.NODE_SKIPPED and self._recording.end is None:
                return  # evaluated a little further than the recorded run had come
        elif now is None:
            return  # undecided, behind something that the log cannot tell
        elif (then.type, then.next_handle) != (now.type, now.next_handle):
            yield _difference(DifferenceKind.OUTCOME, key, then.seq, f"it {_ended(then)}, and {_ends(now)}")
        elif then.type is EventType.NODE_COMPLETED and not json_equal(then.payload.value, now.payload.value):
            yield _difference(DifferenceKind.VALUE, key, then.seq, "its output would be another one")

    def _is_undecided(self) -> bool:
        """Whether an activation stays open without a recorded result, so that everything behind it is unknown."""
        then = self._recording.dispatched
        return any(key in self._refused or key not in then for key in self._state.running)


def _difference(kind: DifferenceKind, key: ActivationKey, seq: int | None, message: str) -> Difference:
    return Difference(kind, *key, seq, message)


def _ended(event: Event) -> str:
    if event.type is EventType.NODE_SKIPPED:
        return "was skipped"
    did = "completed" if event.type is EventType.NODE_COMPLETED else "failed"
    return did if event.next_handle is None else f"{did} by {event.next_handle!r}"


def _ends(event: Event) -> str:
    if event.type is EventType.NODE_SKIPPED:
        return "would be skipped"
    does = "would complete" if event.type is EventType.NODE_COMPLETED else "would fail"
    return does if event.next_handle is None else f"{does} by {event.next_handle!r}"

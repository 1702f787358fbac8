"""Decisions: given what has happened and what arrives now, what happens next?

`decide` is the whole of the engine's judgement. It reads a state, a stimulus and the time,
and returns the events to append with the commands that follow from them. Every event is
folded into the state at once (by `evolve`, the only thing that changes a state), so the next
thought sees it; nothing is performed and nothing is stored here. A stimulus that makes no
sense any more changes nothing.

This room tells the stimuli apart and draws the consequences of what has ended. `outcomes`
judges a handler's answer, `endings` ends activations, `iterations` runs loops, `children` waits
for other runs; all of them write into one `Thought`. `coded.decide` does the same for coded runs, and
`upkeep` is what both have in common.
"""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from anabranch.engine.rules.children import close_child_wait, open_child_wait
from anabranch.engine.rules.coded.decide import decide_coded
from anabranch.engine.rules.decision import NOTHING, Decision
from anabranch.engine.rules.endings import complete
from anabranch.engine.rules.events import DEFAULT_HANDLE, TIMEOUT_HANDLE, EventType
from anabranch.engine.rules.instance import Activation, InstanceState, Phase, Scope
from anabranch.engine.rules.iterations import LOOP_WORK_MAX, go_on
from anabranch.engine.rules.log_limit import LogFull
from anabranch.engine.rules.outcomes import attempt_failed, open_wait, returned
from anabranch.engine.rules.plan import PlanNode
from anabranch.engine.rules.scheduling import Readiness, calculate_next_nodes
from anabranch.engine.rules.states import AnyState
from anabranch.engine.rules.stimuli import (
    Adopted,
    AwaitsChild,
    AwaitsSignal,
    BodyBlocked,
    BodySuspended,
    CancelRequested,
    ChildEnded,
    Completed,
    Failed,
    HandlerOutcome,
    NodeResult,
    SignalSent,
    Started,
    StepReport,
    Stimulus,
    TailLoaded,
    TimersDue,
)
from anabranch.engine.rules.thought import Thought
from anabranch.engine.rules.upkeep import (
    born,
    concluded,
    deadline_passed,
    log_full,
    may_begin,
    signal_known_or_refused,
    take_in,
    taken_over,
    taking,
)
from anabranch.engine.rules.values import NULL, Payload

__all__ = ["NOTHING", "Decision", "decide"]

# Looked up once: see `scheduling`.
_DISPATCH = Readiness.DISPATCH


def decide(state: AnyState, stimulus: Stimulus, now: int, *, work_max: int = LOOP_WORK_MAX) -> Decision:
    """What follows from a stimulus at `now` (ms): events, commands, what to stop. Evolves `state` by those events.

    Once loops have cost `work_max` they open no more iterations: the state owes a wake-up that is
    due at once, and the next `TimersDue` (or takeover) goes on. A run whose log has no room for what
    follows ends FAILED, `LOG_TOO_LARGE`.
    """
    if state.is_terminal:
        return NOTHING  # late results are not an error: someone finished first
    if isinstance(stimulus, Started) and state.last_seq > 0:
        return NOTHING  # an earlier try to be born, thought to be lost, has reached the store after all
    if not isinstance(state, InstanceState):
        return decide_coded(state, stimulus, now)
    thought = Thought(state, now, work_max)
    try:
        if deadline_passed(thought):
            return _concluded(thought)
        match stimulus:
            case Started():
                _start(thought, stimulus)
            case NodeResult():
                activation = state.awaits(stimulus.node_id, stimulus.scope, stimulus.attempt)
                if activation is None:
                    return NOTHING  # a duplicate, or an attempt that was given up
                _answer(thought, activation, stimulus.outcome)
            case TimersDue():
                _begin_if_due(thought)
                _fire_timers(thought)
                _finish_loops(thought)
            case SignalSent():
                return _receive(thought, stimulus)
            case ChildEnded():
                wait = state.children.get(stimulus.child_id)
                if wait is None:
                    return NOTHING  # heard of before, or nobody waits any more
                close_child_wait(thought, wait, stimulus)
                _draw_consequences(thought)
            case TailLoaded():
                _draw_consequences(thought)
            case CancelRequested():
                thought.end_instance(EventType.INSTANCE_CANCELLED, Payload.trusted(stimulus.reason))
            case Adopted():
                _adopt(thought, stimulus)
            case StepReport():
                return NOTHING  # nodes have no steps
            case _:
                assert_never(stimulus)
        return _concluded(thought)
    except LogFull:
        return log_full(thought)


def _start(thought: Thought, started: Started) -> None:
    """Birth: the input, and `start` unless its time has not come or its creator has no room."""
    if born(thought, started):
        thought.dispatch(thought.state.plan.start, "")


def _adopt(thought: Thought, adopted: Adopted) -> None:
    """A takeover: counted if a worker was lost; then whatever became due or arrived meanwhile."""
    if taken_over(thought, adopted):
        _begin_if_due(thought)
        _fire_timers(thought)
        _finish_loops(thought)


def _answer(thought: Thought, activation: Activation, outcome: HandlerOutcome) -> None:
    """An attempt's outcome."""
    match outcome:
        case Completed():
            returned(thought, activation, outcome)
        case AwaitsSignal():
            open_wait(thought, activation, outcome)
        case AwaitsChild():
            open_child_wait(thought, activation, outcome)
        case Failed():
            attempt_failed(thought, activation, outcome)
        case BodySuspended() | BodyBlocked():
            return  # nodes have no bodies
    _draw_consequences(thought)


def _receive(thought: Thought, signal: SignalSent) -> Decision:
    """Keep a signal, and feed it to the wait that it fits."""
    known = signal_known_or_refused(thought, signal)
    if known is not None:
        return known
    waited_for = take_in(thought, signal)
    _draw_consequences(thought)
    return replace(_concluded(thought), delivered=waited_for)


def _begin_if_due(thought: Thought) -> None:
    """Dispatch `start` if the instance has not begun and may."""
    if may_begin(thought):
        thought.dispatch(thought.state.plan.start, "")


def _fire_timers(thought: Thought) -> None:
    """Fire whatever is due, oldest due time first; a signal that is in the log already beats its timeout."""
    _draw_consequences(thought)
    while not thought.state.is_terminal:
        activation = thought.state.next_timer()
        if activation is None or activation.due_at is None or activation.due_at > thought.now:
            return
        thought.fired(activation.due_at)
        if activation.phase is Phase.RETRYING:
            thought.dispatch(activation.node, activation.scope.path, attempt=activation.attempt + 1)
        elif activation.events is not None:
            complete(thought, activation, NULL, TIMEOUT_HANDLE)
        else:
            assert activation.output is not None
            complete(thought, activation, activation.output, activation.next_handle)
        _draw_consequences(thought)


def _finish_loops(thought: Thought) -> None:
    """Go on with loops that an earlier decision left unfinished, one after the other."""
    for loop in list(thought.state.unfinished.values()):
        if thought.has_worked_enough or thought.state.is_terminal:
            return
        go_on(thought, loop)
        _draw_consequences(thought)


def _draw_consequences(thought: Thought) -> None:
    """Walk from every ended activation to what its verdicts decide, until nothing more follows.

    Waits whose signal has arrived are served here too, since ending one activation may hand
    its signal to another: after a decision no signal lies beside a wait that it fits.
    """
    promises = thought.state.promises
    while (thought.todo or promises) and not thought.state.is_terminal:
        if thought.todo:
            _follow(thought, *thought.todo.popleft())
        else:
            _take_promise(thought, next(iter(promises.values())))


def _follow(thought: Thought, scope: Scope, node: PlanNode) -> None:
    """What one ended activation decides: its targets, and perhaps the end of its scope."""
    for target, readiness in calculate_next_nodes(scope, node):
        if readiness is _DISPATCH:
            thought.dispatch(target, scope.path)
        else:
            thought.skip(target, scope)
    if scope.remaining == 0:
        if scope.owner is not None:
            go_on(thought, scope.owner)
        else:
            thought.end_instance(EventType.INSTANCE_COMPLETED, Payload.trusted(thought.state.output()))


def _take_promise(thought: Thought, wait: Activation) -> None:
    """Record which signal the wait takes, and complete it with the payload."""
    note, payload = taking(wait)
    thought.emit(EventType.NODE_WAITING, wait, payload=note)
    complete(thought, wait, payload, DEFAULT_HANDLE)


def _concluded(thought: Thought) -> Decision:
    """What the thought came to; loops that it left unfinished are to be gone on with."""
    if thought.state.unfinished:
        for place, loop in thought.state.unfinished.items():
            if place not in thought.unfinished_before:
                thought.wake(loop)
    return concluded(thought, worked=thought.worked)

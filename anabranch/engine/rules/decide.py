"""Decisions: given what has happened and what arrives now, what happens next?

`decide` reads a state, a stimulus and the time, and returns the events to append and the commands that follow from
them. `evolve` folds each event into the state at once, so the next decision sees it. Nothing is performed or stored
here. A stimulus that no longer makes sense changes nothing.

This module dispatches on the stimulus and follows edges. `drawn.joins` decides whether a node with several edges runs;
`drawn.outcomes` handles results of handlers, pure nodes, waits and loops; all add to one `DrawnDecisionBuilder`, which
ends activations. `coded_decide` does the same for coded runs; `shared.decisions` is shared by both.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, assert_never

from anabranch.engine.rules.coded.coded_decide import decide_coded
from anabranch.engine.rules.coded.coded_state import CodedState
from anabranch.engine.rules.drawn.drawn_state import Activation, Phase, Scope
from anabranch.engine.rules.drawn.joins import DISPATCH, SKIP, join_decision
from anabranch.engine.rules.drawn.outcomes import (
    EVALUATIONS_MAX,
    LOOP_WORK_MAX,
    attempt_failed,
    close_child_wait,
    evaluate_next,
    go_on,
    open_child_wait,
    open_wait,
    returned,
)
from anabranch.engine.rules.event_payloads import RunCancelledPayload
from anabranch.engine.rules.events import DEFAULT_HANDLE, TIMEOUT_HANDLE, EventType
from anabranch.engine.rules.evolve import AnyState
from anabranch.engine.rules.graph.plan import PlanEdge, PlanNode, RegionExit
from anabranch.engine.rules.shared.decisions import (
    NOTHING,
    Decision,
    DrawnDecisionBuilder,
    created,
    deadline_passed,
    may_begin,
    receive_signal,
    resumed,
    suspend,
    taken_over,
)
from anabranch.engine.rules.shared.log_limit import LogFull
from anabranch.engine.rules.shared.signals import SignalWait
from anabranch.engine.rules.stimuli import (
    AwaitsChild,
    AwaitsSignal,
    CancelRequested,
    ChildEnded,
    Completed,
    EvaluationDue,
    Failed,
    FunctionBlocked,
    FunctionSuspended,
    HandlerOutcome,
    LeaseAcquired,
    LogReloaded,
    NodeResult,
    PauseRequested,
    ResumeRequested,
    SignalSent,
    Started,
    StepReport,
    Stimulus,
    TimersDue,
)
from anabranch.engine.rules.values import NULL, Payload

__all__ = ["NOTHING", "Decision", "decide"]

_NOTHING: dict[Any, Any] = {}


def decide(
    state: AnyState,
    stimulus: Stimulus,
    now: int,
    work_max: int = LOOP_WORK_MAX,
    evaluations_max: int = EVALUATIONS_MAX,
) -> Decision:
    """What follows from a stimulus at `now` (ms): events, commands, what to stop. Evolves `state` by those events.

    Once loops have cost `work_max` they open no more iterations: a wake-up that is due at once becomes outstanding, and
    the next `TimersDue` (or takeover) continues. At most `evaluations_max` pure nodes are evaluated; the rest stays in
    `state.unevaluated` until `EvaluationDue`. A start evaluates none, so that it returns once it is stored. If the
    events do not fit into the log, the run ends FAILED with `LOG_TOO_LARGE`.
    """
    if state.terminal is not None:
        return NOTHING  # late results are not an error: someone finished first
    if isinstance(stimulus, Started) and state.last_seq > 0:
        return NOTHING  # an earlier attempt to create it was written after all
    if type(state) is CodedState:  # the exact type: to ask an abstract class takes longer
        return decide_coded(state, stimulus, now)
    builder = DrawnDecisionBuilder(state, now, work_max, evaluations_max)
    try:
        if state.head.deadline_at is not None and deadline_passed(builder):
            return _build(builder)
        match stimulus:
            case NodeResult():
                activation = state.awaits(stimulus.node_id, stimulus.scope, stimulus.attempt)
                if activation is None:
                    return NOTHING  # a duplicate, or an attempt that was cancelled
                _answer(builder, activation, stimulus.outcome)
            case Started():
                _start(builder, stimulus)
            case TimersDue():
                _catch_up(builder)
            case SignalSent():
                return _receive(builder, stimulus)
            case ChildEnded():
                wait = state.children.get(stimulus.child_id)
                if wait is None:
                    return NOTHING  # a duplicate, or the wait is over
                close_child_wait(builder, wait, stimulus)
                _propagate(builder)
            case LogReloaded() | EvaluationDue():
                _propagate(builder)
            case CancelRequested():
                builder.end_instance(EventType.INSTANCE_CANCELLED, RunCancelledPayload(stimulus.reason).payload)
            case PauseRequested():
                suspend(builder, stimulus)
            case ResumeRequested():
                if resumed(builder, stimulus):
                    _catch_up(builder)
            case LeaseAcquired():
                if taken_over(builder, stimulus):
                    _sweep(builder)
                    _catch_up(builder)
            case StepReport():
                return NOTHING  # nodes have no steps
            case _:
                assert_never(stimulus)
        return _build(builder)
    except LogFull:
        return builder.log_full()


def _start(builder: DrawnDecisionBuilder, started: Started) -> None:
    """A start: the input, and the entry point unless its time has not come or its creator has no room."""
    if created(builder, started):
        _begin(builder)


def _begin(builder: DrawnDecisionBuilder) -> None:
    """Dispatch the entry point that the run was started at, and skip the others."""
    state = builder.state
    entry_point = state.plan.entry_point_by_trigger.get(state.trigger)
    assert entry_point is not None, "who starts a run has looked for its entry point"
    builder.dispatch(entry_point, "")
    for other in state.plan.entry_points:
        if other is not entry_point:
            builder.skip(other, state.root)
    _follow_ended(builder)  # what only they lead to; a start evaluates nothing


def _catch_up(builder: DrawnDecisionBuilder) -> None:
    """Handle whatever became due or arrived meanwhile. Does nothing while the run is suspended or paused."""
    if not builder.state.stands_still:
        _begin_if_due(builder)
        _fire_timers(builder)
        _finish_loops(builder)


def _answer(builder: DrawnDecisionBuilder, activation: Activation, outcome: HandlerOutcome) -> None:
    """Handle the result of an attempt."""
    match outcome:
        case Completed():
            returned(builder, activation, outcome.output, outcome.next_handle, outcome.queue_delay_ms)
        case AwaitsSignal():
            open_wait(builder, activation, outcome)
        case AwaitsChild():
            open_child_wait(builder, activation, outcome)
        case Failed():
            attempt_failed(builder, activation, outcome)
        case FunctionSuspended() | FunctionBlocked():
            return  # nodes have no workflow function
    _propagate(builder)


def _receive(builder: DrawnDecisionBuilder, signal: SignalSent) -> Decision:
    """Keep a signal, and pass it to the wait that it matches."""
    answer = receive_signal(builder, signal)
    if answer is not None:
        return answer
    _propagate(builder)
    return _build(builder)


def _begin_if_due(builder: DrawnDecisionBuilder) -> None:
    """Begin if the instance has not begun and may."""
    if may_begin(builder):
        _begin(builder)


def _fire_timers(builder: DrawnDecisionBuilder) -> None:
    """Fire whatever is due, oldest due time first. A signal that is already in the log takes precedence over its
    timeout."""
    _propagate(builder)
    while not builder.state.is_terminal:
        activation = builder.state.next_timer()
        if activation is None or activation.due_at is None or activation.due_at > builder.now:
            return
        builder.fired(activation.due_at)
        if activation.phase is Phase.RETRYING:
            builder.dispatch(activation.node, activation.scope.path, attempt=activation.attempt + 1)
        elif activation.signal_wait is not None:
            builder.complete(activation, NULL, TIMEOUT_HANDLE)
        else:
            assert activation.output is not None
            builder.complete(activation, activation.output, activation.next_handle)
        _propagate(builder)


def _sweep(builder: DrawnDecisionBuilder) -> None:
    """Complete what the decision that ended a reopened run left undone, because it stopped at the failure."""
    if not builder.state.head.generation or builder.state.stands_still:
        return
    for scope in list(builder.state.scopes.values()):
        if builder.state.is_terminal:
            return
        for node in scope.body.nodes:
            if node.in_count and node.id not in scope.ended and node.id not in scope.open:
                decided = join_decision(scope, node)
                if decided is DISPATCH:
                    builder.dispatch(node, scope.path)
                elif decided is SKIP:
                    builder.skip(node, scope)
        _propagate(builder)
        for activation in list(scope.open.values()):
            go_on(builder, activation)
            _propagate(builder)


def _finish_loops(builder: DrawnDecisionBuilder) -> None:
    """Continue loops that an earlier decision left unfinished, one after the other."""
    for loop in list(builder.state.unfinished.values()):
        if builder.has_worked_enough or builder.state.is_terminal:
            return
        go_on(builder, loop)
        _propagate(builder)


def _propagate(builder: DrawnDecisionBuilder) -> None:
    """Follow every ended activation to the targets that its verdicts decide, until nothing more follows.

    Waits also take their signals here, since the end of one activation may free its signal for another: after a
    decision, no kept signal matches an open wait. Pure nodes come last, one by one: what follows from one is decided
    before the next is evaluated, as if each had been executed. While the run stands still, no wait takes a signal and
    no node is evaluated.
    """
    state, todo = builder.state, builder.todo
    stands_still = state.suspension is not None or state.is_paused
    promises = _NOTHING if stands_still else state.signals.promises
    unevaluated = _NOTHING if stands_still else state.unevaluated
    while state.terminal is None:
        if todo:
            _follow_ended(builder)
        elif builder.given:
            _complete_as_given(builder, *builder.given.popleft())
        elif promises:
            _take_promise(builder, next(iter(promises.values())))
        elif not (unevaluated and evaluate_next(builder)):
            return


def _follow_ended(builder: DrawnDecisionBuilder) -> None:
    """Follow the ended activations, and those that end by that, until the run has ended or nothing more follows."""
    state, todo = builder.state, builder.todo
    for scope, node in todo:  # it grows while it is walked
        if state.terminal is not None:
            return
        _follow(builder, scope, node)
    todo.clear()


def _follow(builder: DrawnDecisionBuilder, scope: Scope, node: PlanNode) -> None:
    """Apply one ended activation: dispatch or skip its targets, and perhaps end its scope."""
    edges: Sequence[PlanEdge | RegionExit] = node.edges
    if node.region is not None and node.region.body is not scope.body:
        edges = node.region.exits
    for edge in edges:
        target = edge.target
        if target is None or target.id in scope.ended or target.id in scope.open:
            continue  # it leads out of the scope, or its target is decided already
        is_only = target.in_count == 1 and scope.live.get(target.id)  # its only edge: there is nothing to wait for
        decided = DISPATCH if is_only else join_decision(scope, target)
        if decided is DISPATCH:
            builder.enter(target, scope.path)
        elif decided is SKIP:
            builder.skip(target, scope)
    if scope.remaining == 0:
        if scope.owner is not None:
            go_on(builder, scope.owner)
        elif scope.region is not None:
            _follow_pass(builder, scope.region)
        else:
            builder.end_instance(EventType.INSTANCE_COMPLETED, Payload.trusted(builder.state.output()))


def _follow_pass(builder: DrawnDecisionBuilder, region: Activation) -> None:
    """End a pass: open the next one, or end the region."""
    if region.scope.open.get(region.node.id) is region:
        go_on(builder, region)
    else:
        builder.todo.append((region.scope, region.node))


def _complete_as_given(builder: DrawnDecisionBuilder, node: PlanNode, scope: str) -> None:
    """Complete a disabled or pinned node in the decision that dispatches it, unless its iteration is over."""
    activation = builder.state.activation(node.id, scope)
    if activation is not None and node.given is not None:
        builder.complete(activation, node.given.output, node.given.handle)


def _take_promise(builder: DrawnDecisionBuilder, wait: SignalWait) -> None:
    """Record which signal the wait takes, and complete it with the payload."""
    activation = builder.state.activation(*wait.key)
    assert activation is not None, "a wait is forgotten when its activation ends"
    note, payload = wait.served()
    builder.emit(EventType.NODE_WAITING, activation, note)
    builder.complete(activation, payload, DEFAULT_HANDLE)


def _build(builder: DrawnDecisionBuilder) -> Decision:
    """The decision; loops that it left unfinished are continued later."""
    if builder.state.unfinished:
        for key, loop in builder.state.unfinished.items():
            if key not in builder.unfinished_before:
                builder.wake(loop)
    return builder.build()

"""The plan of a retry: which rows of an ended run are left out, and what is executed again.

Pure. Called by the service with the row and the whole log of a run. The end of a run is its last rows: from the failure
that the run's error names to the last row, or the last row alone. Nothing was performed because of them, so the fold
without them is the run as it was before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace

from anabranch.dataclass import dataclass
from anabranch.engine.rules.coded.coded_state import CodedState, Step
from anabranch.engine.rules.coded.names import StepKind
from anabranch.engine.rules.drawn.drawn_state import Activation, InstanceState
from anabranch.engine.rules.event_payloads import Redo
from anabranch.engine.rules.events import TERMINALS, ActivationKey, Event, EventType
from anabranch.engine.rules.evolve import AnyPlan, AnyState, evolve, failure_handle, new_state
from anabranch.engine.rules.shared.child_ids import WORKFLOW_TYPE
from anabranch.engine.rules.shared.left_out import Ranges, is_left_out, together
from anabranch.engine.rules.shared.run_state import InstanceHead, OpenActivation, Phase
from anabranch.errors import RetryRefused, RetryWouldRepeat, RunError

# Ends that no activation caused: whatever was executing continues.
_FROM_OUTSIDE = frozenset({"DEADLINE_EXCEEDED", "RECOVERY_LIMIT"})

# Ends caused by the run's own data: the same data leads to the same end.
_OF_DATA = frozenset({"CONTEXT_TOO_LARGE", "LOG_TOO_LARGE", "LOOP_LIMIT", "STEP_LIMIT"})

# Failures that report the end of a child.
_OF_CHILDREN = frozenset({"CHILD_FAILED", "CHILD_CANCELLED"})

_OF_ENDING = frozenset({EventType.NODE_FAILED, EventType.NODE_SKIPPED, *TERMINALS})


@dataclass(frozen=True, slots=True)
class AwaitedChild:
    """A run that an open activation has started, or may have started."""

    child_id: str
    key: ActivationKey
    attempt: int
    is_cause: bool
    """Its end caused the failure of the run."""
    had_ended_badly: bool
    """It was a bad end: if the child has completed since, its output can be taken."""
    is_awaited: bool
    """The log says that the activation waits for it; else its handler has not answered."""
    would_end_run: bool
    """The run failed with another child, and a failure of this one would end it as well: nothing handles it."""


@dataclass(slots=True)
class RetryPlan:
    """The rows of one run to leave out, and the activations to execute again."""

    left_out: Ranges
    """By this reopening."""
    redo: list[Redo] = field(default_factory=list)
    children: list[AwaitedChild] = field(default_factory=list)
    continued: list[ActivationKey] = field(default_factory=list)
    """Activations whose handlers were stopped: they are executed again, with the same attempt."""


def plan_retry(
    plan: AnyPlan, head: InstanceHead, events: Sequence[Event], *, all_failed_steps: bool = False
) -> RetryPlan:
    """The plan for a run that ended FAILED or CANCELLED with the last of these events, which are its whole log.

    With `all_failed_steps` every failed step of a coded run is executed again, not only the causes of its failure.
    Raises RetryWouldRepeat, RetryRefused.
    """
    end = events[-1]
    error = RunError.from_json(end.payload.value) if end.type is EventType.INSTANCE_FAILED else None
    if error is not None and error.code in _OF_DATA:
        raise RetryWouldRepeat(f"run {head.instance_id} failed with {error.code}: {error.message}")
    if error is None or error.code in _FROM_OUTSIDE:
        retry = RetryPlan(((end.seq, end.seq),))
        state, causes = _before(plan, head, events, retry.left_out), dict[ActivationKey, str]()
    elif isinstance(new_state(plan, head), CodedState):
        retry, state, causes = _of_function(plan, head, events, error, all_failed_steps=all_failed_steps)
    else:
        retry, state, causes = _of_node(plan, head, events, error)
    redone = {(each.node_id, each.scope) for each in retry.redo}
    retry.children = list(_children(state, dict.fromkeys(redone, "") | causes))
    retry.continued = sorted(key for key in state.running if key not in redone and key[0])
    return retry


def _of_node(
    plan: AnyPlan, head: InstanceHead, events: Sequence[Event], error: RunError
) -> tuple[RetryPlan, AnyState, dict[ActivationKey, str]]:
    """Plan the retry of a drawn run that failed because a node did."""
    key = (error.node_id, error.scope)
    cause = _last_failure(head, events, key)
    if cause is None:
        raise RetryRefused(f"the log of run {head.instance_id} does not say which node it failed with")
    tail = events[cause.seq - 1 :]
    if any(event.type not in _OF_ENDING for event in tail):
        raise RetryRefused(f"the log of run {head.instance_id} has other rows after its failure at {cause.seq}")
    retry = RetryPlan(((cause.seq, events[-1].seq),))
    state = _before(plan, head, events, retry.left_out)
    assert isinstance(state, InstanceState), "a drawn run has the state of one"
    activation = state.activation(*key)
    if activation is None:
        raise RetryRefused(f"node {key[0]!r} of run {head.instance_id} was not open when it failed")
    if activation.phase is Phase.LOOPING or activation.node.evaluate is not None:
        raise RetryWouldRepeat(
            f"node {key[0]!r} of run {head.instance_id} fails on the run's own data: {error.code}: {error.message}"
        )
    if activation.child_id is None:
        retry.redo.append(Redo(*key, cause.attempt))
    return retry, state, {key: error.code}


def _of_function(
    plan: AnyPlan, head: InstanceHead, events: Sequence[Event], error: RunError, *, all_failed_steps: bool
) -> tuple[RetryPlan, AnyState, dict[ActivationKey, str]]:
    """Plan the retry of a coded run whose function failed: the function is called again, and the steps that caused the
    failure are executed again."""
    end = events[-1].seq
    state = _before(plan, head, events, ((end, end),))
    assert isinstance(state, CodedState), "a coded run has the state of one"
    if state.function is None:
        raise RetryRefused(f"the function of run {head.instance_id} was never called")
    attempt = state.function.attempt
    causes = {
        step.key
        for step in state.steps.values()
        if step.error is not None and (all_failed_steps or _is_cause(step, error, attempt))
    }
    failures = [state.steps[key] for key in causes]
    retry = RetryPlan(together([(end, end)], [(step.ended_seq, step.ended_seq) for step in failures]))
    attempts = {step.key: step.attempt for step in failures}
    state = _before(plan, head, events, retry.left_out)
    assert isinstance(state, CodedState)
    retry.redo.append(Redo("", "", attempt))
    for key in sorted(causes):
        if state.steps[key].child_id is None:
            retry.redo.append(Redo(*key, attempts[key]))
    codes = {step.key: "" if step.error is None else step.error.code for step in failures}
    return retry, state, codes


def _is_cause(step: Step, error: RunError, attempt: int) -> bool:
    """Whether this failure is among the causes of the function's failure. For older logs, which do not record that: all
    failures of its last attempt."""
    if error.steps is None:
        return step.undone_in == attempt
    return step.key in error.steps


def _last_failure(head: InstanceHead, events: Sequence[Event], key: ActivationKey) -> Event | None:
    for event in reversed(events):
        if event.type is EventType.NODE_FAILED and (event.node_id, event.scope) == key:
            return None if is_left_out(head.left_out, event.seq) else event
    return None


def _before(plan: AnyPlan, head: InstanceHead, events: Sequence[Event], left_out: Ranges) -> AnyState:
    """The state without these rows and without those that were left out before."""
    state = new_state(plan, replace(head, left_out=together(head.left_out, left_out)))
    for event in events:
        evolve(state, event)
    return state


def _children(state: AnyState, causes: Mapping[ActivationKey, str]) -> list[AwaitedChild]:
    """The runs that open activations have started, or may have. `causes` are failures with their codes."""
    instance_id = state.head.instance_id
    starters: list[OpenActivation]
    ending: set[ActivationKey] = set()
    if isinstance(state, InstanceState):
        activations = [
            activation
            for scope in state.scopes.values()
            for activation in scope.open.values()
            if activation.node.type == WORKFLOW_TYPE and activation.region is None
        ]
        starters = list(activations)
        if not _OF_CHILDREN.isdisjoint(causes.values()):
            ending = {each.key for each in activations if _would_end_run(each)}
    else:
        # Only the function knows which failures it handles.
        starters = [step for step in state.steps.values() if step.kind is StepKind.CHILD and not step.has_ended]
    return [
        AwaitedChild(
            each.child_id or each.child_of(instance_id),
            each.key,
            each.attempt,
            is_cause=each.key in causes,
            had_ended_badly=causes.get(each.key) in _OF_CHILDREN,
            is_awaited=each.child_id is not None,
            would_end_run=each.key in ending,
        )
        for each in starters
    ]


def _would_end_run(activation: Activation) -> bool:
    """Whether the run fails if this activation does: no edge, `ignore` or loop around it takes the failure."""
    node, scope = activation.node, activation.scope
    if failure_handle(node, scope.body) is not None:
        return False
    loop = scope.base.owner
    if node.error_handling == "fail_workflow" or loop is None:
        return True
    return loop.node.loop is not None and loop.node.loop.on_item_error == "fail" and _would_end_run(loop)

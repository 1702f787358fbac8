"""The journal: the state of one coded run, and how each event of its log changes it (`EVOLVE_CODED`).

Plain objects that only `rules.evolve` changes. Ended steps stay in it, because the next call of the function asks for
all of them again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias, final

from anabranch.engine.rules.coded.coded_plan import CodedPlan
from anabranch.engine.rules.coded.names import FUNCTION_KEY, FUNCTION_NODE_ID, NO_MARK, scope_of_attempt
from anabranch.engine.rules.drawn.drawn_state import ContextSnapshot
from anabranch.engine.rules.event_payloads import (
    FunctionPaused,
    FunctionPostponed,
    ReplayRules,
    read_error,
    read_forked_from,
    read_retry_time,
    read_rules,
    read_system,
    read_wait,
)
from anabranch.engine.rules.events import ActivationKey, Event, EventType
from anabranch.engine.rules.shared.run_state import (
    EVOLVE_SHARED,
    InstanceHead,
    OpenActivation,
    Phase,
    RunState,
    instance_reopened,
    set_timer,
    wait,
)
from anabranch.engine.rules.values import NULL, Payload
from anabranch.errors import RunError

_NO_CONTEXT = ContextSnapshot(())

# Looked up once: a member of an enum costs ten times a global before Python 3.12, and these are read for every row.
_DISPATCHED, _WAITING = Phase.DISPATCHED, Phase.WAITING


class Step(OpenActivation):
    """What the log knows of one call of a step."""

    __slots__ = (
        "arguments",
        "created_in",
        "ended_at",
        "ended_seq",
        "error",
        "first_seq",
        "key",
        "kind",
        "mark",
        "name",
        "output",
        "scope",
        "seq",
        "step_cancelled",
        "undone_in",
    )

    def __init__(self, key: ActivationKey, first: Event, created_in: int) -> None:
        OpenActivation.__init__(self)
        self.key: ActivationKey = key  # not computed: it is read several times per step
        """Name and scope: the key of the step's activation within the run."""
        self.name, self.scope = key
        self.mark = first.mark or NO_MARK
        """What its rows say of where it stands among the others."""
        self.kind = self.mark.kind
        self.attempt = first.attempt
        self.created_in = created_in
        """The attempt of the workflow that its first row was written in."""
        self.arguments = first.arguments
        """What it was asked for with (`arguments`); None: an older version has not noted it, or it has none."""
        self.first_seq = self.seq = first.seq
        """Its first row, when its function had asked for it, and its latest one."""
        self.ended_seq = 0
        """The row that ended it; 0 while it is open."""
        self.ended_at = 0
        self.output: Payload = NULL
        self.error: RunError | None = None
        """Its final error."""
        self.step_cancelled = False
        """Its function has cancelled the task that waited for it."""
        self.undone_in = 0
        """The attempt of the workflow in which it failed or was given up; 0: neither."""

    @property
    def has_ended(self) -> bool:
        """True once it has completed or failed for good."""
        return self.ended_seq > 0


class FunctionActivation(OpenActivation):
    """The workflow function of a coded run, in its current attempt."""

    __slots__ = (
        "began_at",
        "began_seq",
        "blocked",
        "called_by",
        "context",
        "loop_since",
        "node",
        "python",
        "seed",
    )

    def __init__(self, plan: CodedPlan) -> None:
        super().__init__()
        self.node = plan.function
        self.context = _NO_CONTEXT
        """Empty: a workflow function has an input and steps, but no context of a graph."""
        self.began_at = 0
        """When this attempt was dispatched (ms)."""
        self.began_seq = 0
        self.loop_since: int | None = None
        """From which row on this attempt follows the rules of workflow loops; None: an older version recorded it."""
        self.seed: int | None = None
        """What hashes of tasks and random numbers begin with."""
        self.python = ""
        """The version that this attempt began with."""
        self.called_by = 0
        """The row that made it run: one attempt is called many times, and an answer belongs to one call."""
        self.blocked = False
        """Its worker could not continue it; it is offered again when it is due."""

    @property
    def key(self) -> ActivationKey:
        """The key of the function's activation."""
        return FUNCTION_KEY


OpenInCode: TypeAlias = Step | FunctionActivation


@final
class CodedState(RunState[OpenInCode, FunctionActivation]):
    """Everything that decisions about one coded run need, and the results for its function."""

    __slots__ = ("bytes", "endings", "function", "input", "origins", "plan", "steps")

    def __init__(self, plan: CodedPlan, head: InstanceHead) -> None:
        super().__init__(head)
        self.plan = plan
        self.input: Payload = NULL
        """The row that brought it: `{"input": …}`."""
        self.function: FunctionActivation | None = None
        self.steps: dict[ActivationKey, Step] = {}
        """Every step that has a row, by (name, scope), in the order of their first ones."""
        self.endings: list[Step] = []
        """The steps that have ended, in the order of the rows that ended them."""
        self.origins: tuple[str, ...] = ()
        """Of a fork: the ids of the runs that its first rows were copied from."""
        self.bytes = 0
        """JSON bytes of the input and of all outputs."""

    def activation(self, node_id: str, scope: str) -> OpenInCode | None:
        """The open step, or the function."""
        if node_id == FUNCTION_NODE_ID:
            return self.function
        step = self.steps.get((node_id, scope))
        return None if step is None or step.has_ended else step

    def scope_for(self, name: str, scope: str, attempt: int) -> str:
        """The scope that a call is recorded under in this attempt of the workflow.

        Steps that failed or were cancelled in an earlier attempt run again under a new scope; completed ones are found
        under their old one.
        """
        if attempt == 1:
            return scope  # there was none before
        found, latest = scope, self.steps.get((name, scope))
        for number in range(2, attempt + 1):
            again = scope_of_attempt(scope, number)
            step = self.steps.get((name, again))
            if step is not None:
                found, latest = again, step
        if latest is not None and 0 < latest.undone_in < attempt:
            return scope_of_attempt(scope, attempt)
        return found


def _input_set(state: CodedState, event: Event) -> None:
    state.input = event.payload
    state.bytes += event.payload.weight


def _system_set(state: CodedState, event: Event) -> None:
    """A blocked function gets its next due time. Other notes change nothing but the replay rules."""
    recorded, function = read_system(event.payload), state.function
    if function is None:
        return
    if isinstance(recorded, ReplayRules):
        _follow_rules(function, recorded, event.seq)
    elif isinstance(recorded, FunctionPostponed):
        state.running.pop(FUNCTION_KEY, None)
        function.phase = Phase.RETRYING
        function.blocked = True
        set_timer(state, function, recorded.due_at, event.seq)


def _dispatched(state: CodedState, event: Event) -> None:
    if event.node_id == FUNCTION_NODE_ID:
        state.started = True
        function = state.function = state.function or FunctionActivation(state.plan)
        function.attempt = event.attempt
        function.began_at, function.began_seq = event.created_at, event.seq
        function.loop_since = None
        rules = read_rules(event.payload)
        if rules is not None:
            _follow_rules(function, rules, event.seq)
        _run_function(state, function)
        return
    step = _step_of(state, event)
    step.phase = _DISPATCHED
    step.attempt = event.attempt
    step.due_at = None
    _resume(state)


def _follow_rules(function: FunctionActivation, rules: ReplayRules, seq: int) -> None:
    """From this row on, the function's event loop follows today's rules."""
    function.loop_since, function.seed, function.python = seq, rules.seed, rules.python


def _waiting(state: CodedState, event: Event) -> None:
    recorded = read_wait(event.payload)
    if isinstance(recorded, FunctionPaused):
        _function_waiting(state, ready=recorded.ready)
    else:
        wait(state, _step_of(state, event), recorded, event.seq)


def _function_waiting(state: CodedState, *, ready: bool) -> None:
    """The function was suspended; `ready` means that it runs again at once."""
    assert state.function is not None, "a function waits after it was dispatched"
    if ready:
        _run_function(state, state.function)
    else:
        state.running.pop(FUNCTION_KEY, None)
        state.function.phase = _WAITING


def _attempt_failed(state: CodedState, event: Event) -> None:
    failed: FunctionActivation | Step
    if event.node_id == FUNCTION_NODE_ID:
        assert state.function is not None, "a function fails after it was dispatched"
        state.running.pop(FUNCTION_KEY, None)
        failed = state.function
    else:
        failed = _step_of(state, event)
    failed.phase = Phase.RETRYING
    set_timer(state, failed, read_retry_time(event.payload), event.seq)


def _completed(state: CodedState, event: Event) -> None:
    step = _end_step(state, event)
    step.output = event.payload
    state.bytes += event.payload.weight


def _failed(state: CodedState, event: Event) -> None:
    step = _end_step(state, event)
    step.error = RunError.from_json(read_error(event.payload))
    step.undone_in = 0 if state.function is None else state.function.attempt


def _skipped(state: CodedState, event: Event) -> None:
    step = _end_step(state, event)
    step.step_cancelled = True
    step.undone_in = 0 if state.function is None else state.function.attempt


def leave_out(state: CodedState, event: Event) -> None:
    """Leave out the failure of a step that is executed again. The step stays known although it may have no other
    row."""
    if event.type is EventType.NODE_FAILED:
        _step_of(state, event).attempt = event.attempt


def _reopened(state: CodedState, event: Event) -> None:
    """Failed steps that are not executed again fail as recorded when the next call of the function asks for them."""
    instance_reopened(state, event)
    function = state.function
    if function is not None and function.phase is Phase.RETRYING and function.due_seq == event.seq:
        for step in state.steps.values():
            if step.error is not None:
                step.undone_in = function.attempt + 1


def _forked_from(state: CodedState, event: Event) -> None:
    """The rows before have other runs' ids in their arguments."""
    state.origins = read_forked_from(event.payload).origins


EVOLVE_CODED: dict[EventType, Callable[[CodedState, Event], None]] = {
    **EVOLVE_SHARED,
    EventType.INPUT_SET: _input_set,
    EventType.SYSTEM_SET: _system_set,
    EventType.NODE_DISPATCHED: _dispatched,
    EventType.NODE_WAITING: _waiting,
    EventType.NODE_ATTEMPT_FAILED: _attempt_failed,
    EventType.NODE_COMPLETED: _completed,
    EventType.NODE_FAILED: _failed,
    EventType.NODE_SKIPPED: _skipped,
    EventType.INSTANCE_REOPENED: _reopened,
    EventType.FORKED_FROM: _forked_from,
}
"""What each event means to a coded run; it has no loops."""


def is_reported_step(state: CodedState, event: Event) -> bool:
    """Whether this row, not folded yet, was reported by the running function and not caused by a timer, signal or
    child."""
    if event.node_id == FUNCTION_NODE_ID:
        return False
    step = state.steps.get((event.node_id, event.scope))
    return step is None or (step.phase is _DISPATCHED and not step.has_ended)


def _step_of(state: CodedState, event: Event) -> Step:
    """The step that a row is about; created by its first row."""
    key = event.node_id, event.scope
    step = state.steps.get(key)
    if step is None:
        step = state.steps[key] = Step(key, event, 0 if state.function is None else state.function.attempt)
    else:
        step.seq = event.seq
    return step


def _end_step(state: CodedState, event: Event) -> Step:
    step = _step_of(state, event)
    step.attempt = event.attempt
    step.due_at = None
    step.ended_seq, step.ended_at = event.seq, event.created_at
    state.endings.append(step)
    if step.signal_wait is not None:
        state.signals.close_wait(step.signal_wait)
    if step.child_id is not None:
        state.children.pop(step.child_id, None)
    _resume(state)
    return step


def _resume(state: CodedState) -> None:
    """Make a suspended function run again, because one of its steps has ended."""
    if state.function is not None and state.function.phase is _WAITING:
        _run_function(state, state.function)


def _run_function(state: CodedState, function: FunctionActivation) -> None:
    function.phase = _DISPATCHED
    function.due_at = None
    function.blocked = False
    function.called_by = state.last_seq
    state.running[FUNCTION_KEY] = function

"""Folding: how each event changes the state of an instance.

`evolve` folds one event into a state; `fold` does so from nothing. Nothing else changes a state: `decide` applies every
event that it emits with `evolve` at once, so the state in memory and the state that a recovery folds from the log are
equal by construction.

Work per event is O(out-degree): edges count verdicts at their target, no join rescans its
sources.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias, overload

from anabranch.engine.rules.coded.coded_plan import CodedPlan
from anabranch.engine.rules.coded.coded_state import EVOLVE_CODED, CodedState, is_reported_step, leave_out
from anabranch.engine.rules.commands import AwaitChild, Command, Dispatch, Wake
from anabranch.engine.rules.drawn.drawn_state import (
    NO_CONTEXT,
    Activation,
    InstanceHead,
    InstanceState,
    LoopRun,
    Phase,
    RegionRun,
    Scope,
)
from anabranch.engine.rules.drawn.scopes import scope_key_of
from anabranch.engine.rules.event_payloads import (
    DelayStarted,
    handled_error,
    read_error,
    read_input,
    read_items,
    read_retry_time,
    read_trigger,
    read_wait,
)
from anabranch.engine.rules.events import ERROR_HANDLE, ActivationKey, Event, EventType
from anabranch.engine.rules.graph.plan import AGAIN, Body, Plan, PlanNode
from anabranch.engine.rules.shared.blame import Suspicion
from anabranch.engine.rules.shared.left_out import is_left_out
from anabranch.engine.rules.shared.log_limit import LOG_LIMIT, LogLimit
from anabranch.engine.rules.shared.run_state import EVOLVE_SHARED, set_timer, wait
from anabranch.engine.rules.values import NULL, Payload
from anabranch.errors import RunError

AnyPlan: TypeAlias = Plan | CodedPlan
AnyState: TypeAlias = InstanceState | CodedState

# Looked up once: a member of an enum costs ten times a global before Python 3.12, and these are read for every row.
_RECOVERED, _WAITING = EventType.INSTANCE_RECOVERED, EventType.NODE_WAITING
_COMPLETED = EventType.NODE_COMPLETED
_DISPATCHED = Phase.DISPATCHED


@overload
def new_state(plan: Plan, head: InstanceHead, *, log_limit: LogLimit = LOG_LIMIT) -> InstanceState: ...


@overload
def new_state(plan: CodedPlan, head: InstanceHead, *, log_limit: LogLimit = LOG_LIMIT) -> CodedState: ...


def new_state(plan: AnyPlan, head: InstanceHead, *, log_limit: LogLimit = LOG_LIMIT) -> AnyState:
    """The state of a run that nothing has happened to yet."""
    state = CodedState(plan, head) if isinstance(plan, CodedPlan) else InstanceState(plan, head)
    state.log_limit = log_limit
    return state


@overload
def fold(plan: Plan, head: InstanceHead, events: Iterable[Event]) -> InstanceState: ...


@overload
def fold(plan: CodedPlan, head: InstanceHead, events: Iterable[Event]) -> CodedState: ...


def fold(plan: AnyPlan, head: InstanceHead, events: Iterable[Event]) -> AnyState:
    """The state that a log implies. Events must be the whole log, in seq order; `head` names the rows left out."""
    state = new_state(plan, head)
    for event in events:
        evolve(state, event)
    return state


def outstanding(state: AnyState) -> set[Command]:
    """The commands without a result in the log: open dispatches, due times, awaited children. Empty once terminal.

    While the run is suspended, only its deadline is outstanding.
    """
    if state.terminal is not None or state.last_seq == 0:
        return set()
    if state.suspension is not None:
        return {Wake("", "", 0, due_at) for due_at in state.own_due_times()}
    owed: set[Command] = {Dispatch(*key, activation.attempt) for key, activation in state.running.items()}
    for due_at, seq, activation in state.timers:
        if activation.due_at is not None and activation.due_seq == seq:
            owed.add(Wake(*activation.key, activation.attempt, due_at))
    if isinstance(state, InstanceState):
        for loop in state.unfinished.values():
            if loop.due_at is not None:
                owed.add(Wake(*loop.key, loop.attempt, loop.due_at))
    for child_id, waiting in state.children.items():
        owed.add(AwaitChild(*waiting.key, child_id))
    owed.update(Wake("", "", 0, due_at) for due_at in state.own_due_times())
    return owed


def evolve(state: AnyState, event: Event) -> None:
    """Fold one event into a state that we own. The event's seq must be the next one."""
    seq, payload = event.seq, event.payload
    assert seq == state.last_seq + 1, f"seq {seq} after {state.last_seq}: rows are missing or doubled"
    state.last_seq = seq
    state.log_bytes += payload.weight
    if payload.division is not None:
        event.payload = state.keep_parts(payload.division)
    if state.head.left_out and is_left_out(state.head.left_out, seq):
        if isinstance(state, CodedState):
            leave_out(state, event)
        return
    if state.suspicion is not None:
        _evolve_suspect(state, event, state.suspicion)
    elif type(state) is CodedState:  # the exact type: to ask an abstract class takes longer
        EVOLVE_CODED[event.type](state, event)
    else:
        _EVOLVE[event.type](state, event)


def _evolve_suspect(state: AnyState, event: Event, suspicion: Suspicion) -> None:
    """The same for a suspect, which this event may clear.

    Events that do not concern an activation open at the takeover (signals, other branches, timers) prove nothing.
    """
    if isinstance(state, InstanceState):
        _EVOLVE[event.type](state, event)
    else:
        if is_reported_step(state, event):
            suspicion.unanswered.clear()
        EVOLVE_CODED[event.type](state, event)
    if event.type is _RECOVERED:
        return
    key = (event.node_id, event.scope)
    if key in suspicion.unanswered and (key not in state.running or _is_function_answer(state, event)):
        suspicion.unanswered.discard(key)
    if not suspicion.unanswered:
        state.suspicion = None


def _is_function_answer(state: AnyState, event: Event) -> bool:
    """Whether the row ends a call of the workflow function, which may be called again under the same dispatch."""
    return isinstance(state, CodedState) and event.type is _WAITING


def failure_handle(node: PlanNode, body: Body) -> str | None:
    """The handle that is live when this node fails for good in a scope of this body; None: the failure is unhandled.

    If it is the header of a region, the region fails, and only an edge out of the region can handle that.
    """
    if node.region is not None and node.region.body is not body:
        handle = ERROR_HANDLE if node.error_handling == "continue" else node.ignored_handle
        leaves = any(edge.source is node and edge.handle == handle for edge in node.region.exits)
        return handle if leaves and node.error_handling != "fail_workflow" else None
    if node.error_handling == "continue" and node.has_error_edge:
        return ERROR_HANDLE
    if node.error_handling == "ignore":
        return node.ignored_handle
    return None


def _input_set(state: InstanceState, event: Event) -> None:
    state.root.entries = state.root.entries.set("input", (event.seq, read_input(event.payload)))
    state.root.bytes += event.payload.weight
    state.trigger = read_trigger(event.payload)


def _nothing(state: InstanceState, event: Event) -> None:
    """SYSTEM_SET and FORKED_FROM are metadata outside the context."""


def _node_dispatched(state: InstanceState, event: Event) -> None:
    state.started = True
    key = node_id, path = event.node_id, event.scope
    scope = state.scopes.get(path) or _open_scope(state, path)
    activation = scope.open.get(node_id)
    at = event.created_at
    if state.dispatch_times:
        at = state.dispatch_times.get(key, at)
    facts = state.facts_at(at)
    if activation is None:
        node = state.plan.nodes[node_id]
        if node.item is not None:
            node = node.within(scope.body)
        context = state.context_for_cursor(node, scope, facts) if node.is_cursor else state.context_of(scope, facts)
        activation = scope.open[node_id] = Activation(node, scope, context)
    else:
        activation.context = activation.context.of_attempt(facts)
        activation.phase = _DISPATCHED
        activation.due_at = None
    activation.attempt = event.attempt
    state.running[key] = activation
    if activation.node.evaluate is not None:
        state.unevaluated[key] = activation


def _node_waiting(state: InstanceState, event: Event) -> None:
    activation = state.scopes[event.scope].open[event.node_id]
    _answered(state, activation.node, (event.node_id, event.scope))
    recorded = read_wait(event.payload)
    if isinstance(recorded, DelayStarted):
        activation.output, activation.next_handle = recorded.output, recorded.next_handle
    wait(state, activation, recorded, event.seq)


def _node_attempt_failed(state: InstanceState, event: Event) -> None:
    activation = state.scopes[event.scope].open[event.node_id]
    _answered(state, activation.node, (event.node_id, event.scope))
    activation.phase = Phase.RETRYING
    set_timer(state, activation, read_retry_time(event.payload), event.seq)


def _loop_opened(state: InstanceState, event: Event) -> None:
    activation = state.scopes[event.scope].open[event.node_id]
    _answered(state, activation.node, (event.node_id, event.scope))
    activation.phase = Phase.LOOPING
    activation.loop = LoopRun(read_items(event.payload), event.created_at)
    _note_capacity(state, activation)


def _node_completed(state: InstanceState, event: Event) -> None:
    scope, node = _end_activation(state, event)
    base = scope.around or scope
    output = event.payload
    handle = event.next_handle
    base.bytes += output.weight
    _write(base, node, event.seq, output.value)
    if node.is_cursor:
        scope.advance(node, output.value)
    if base.owner is not None:
        if handle in node.back_handles:
            base.back = output
        if node.is_sink:
            base.sinks.pop(node.id, None)
            base.sinks[node.id] = (node, output)
    if node.is_end and (base.owner is None or node.terminate):
        state.ends.append((node.end_name, output.value))
    _leave(state, scope, node, handle, event)


def _node_failed(state: InstanceState, event: Event) -> None:
    scope, node = _end_activation(state, event)
    base = scope.around or scope
    error = read_error(event.payload)
    handle = failure_handle(node, scope.body)
    left = NULL
    if handle is None:
        base.error = RunError.from_json(error)
    elif handle == ERROR_HANDLE:
        folded = handled_error(error)
        left = Payload.trusted(folded)
        base.bytes += event.payload.weight
        _write(base, node, event.seq, folded)
    else:
        _write(base, node, event.seq, None)
    if handle in node.back_handles:
        base.back = left
    _leave(state, scope, node, handle, event, left)


def _node_skipped(state: InstanceState, event: Event) -> None:
    scope, node = _end_activation(state, event)
    _leave(state, scope, node, None, event)


_EVOLVE: dict[EventType, Callable[[InstanceState, Event], None]] = {
    **EVOLVE_SHARED,
    EventType.INPUT_SET: _input_set,
    EventType.SYSTEM_SET: _nothing,
    EventType.NODE_DISPATCHED: _node_dispatched,
    EventType.NODE_WAITING: _node_waiting,
    EventType.NODE_ATTEMPT_FAILED: _node_attempt_failed,
    EventType.LOOP_OPENED: _loop_opened,
    EventType.NODE_COMPLETED: _node_completed,
    EventType.NODE_FAILED: _node_failed,
    EventType.NODE_SKIPPED: _node_skipped,
    EventType.FORKED_FROM: _nothing,
}


def _open_scope(state: InstanceState, path: str) -> Scope:
    """Open the iteration or pass in which this event is the first; its loop is open in the enclosing scope.

    The first pass opens a region, and may also be the first event of an iteration.
    """
    scope_key = scope_key_of(path)
    parent = state.scopes.get(scope_key.scope) or _open_scope(state, scope_key.scope)
    if scope_key.is_pass:
        return _open_pass(state, path, parent, state.plan.nodes[scope_key.node_id], scope_key.index)
    owner = parent.open[scope_key.node_id]
    assert owner.loop is not None and owner.node.loop is not None, f"{scope_key.node_id} has not opened"
    scope = Scope(path, owner.node.loop.body, parent, owner, scope_key.index)
    scope.bindings = owner.loop.bindings(scope_key.index)
    owner.loop.opened(scope_key.index, scope)
    _note_capacity(state, owner)
    state.scopes[path] = scope
    return scope


def _open_pass(state: InstanceState, path: str, parent: Scope, header: PlanNode, number: int) -> Scope:
    assert header.region is not None, f"{header.id} is the header of no region"
    owner = parent.open.get(header.id)
    if owner is None:
        owner = parent.open[header.id] = Activation(header, parent, NO_CONTEXT)
        owner.phase, owner.attempt = Phase.LOOPING, 0
        owner.region = RegionRun()
    assert owner.region is not None and owner.region.open_pass is None, f"{header.id} runs a pass"
    scope = Scope(path, header.region.body, parent, owner, number)
    owner.region.number, owner.region.open_pass, owner.region.is_again = number, scope, False
    owner.due_at = None
    state.unfinished.pop(owner.key, None)
    state.scopes[path] = scope
    return scope


def _end_activation(state: InstanceState, event: Event) -> tuple[Scope, PlanNode]:
    key = node_id, path = event.node_id, event.scope
    scope = state.scopes.get(path) or _open_scope(state, path)
    activation = scope.open.pop(node_id, None)
    if activation is not None:
        _answered(state, activation.node, key)
        activation.due_at = None
        if activation.signal_wait is not None:
            state.signals.close_wait(activation.signal_wait)
        if activation.child_id is not None:
            del state.children[activation.child_id]
        if activation.loop is not None or activation.region is not None:
            state.unfinished.pop(key, None)
    scope.ended.add(node_id)
    node = state.plan.nodes[node_id]
    return scope, node if node.item is None else node.within(scope.body)


def _answered(state: InstanceState, node: PlanNode, key: ActivationKey) -> None:
    """Note that an attempt has ended or is no longer awaited."""
    state.running.pop(key, None)
    if node.evaluate is not None:
        state.unevaluated.pop(key, None)


def _write(scope: Scope, node: PlanNode, seq: int, value: Any) -> None:
    entry = (seq, value)
    entries = scope.entries.set(node.output_name, entry)
    if node.is_input:
        entries = entries.set("input", entry)
    scope.entries = entries if node.output_variable is None else entries.set(node.output_variable, entry)


def _leave(
    state: InstanceState, scope: Scope, node: PlanNode, handle: str | None, event: Event, left: Payload = NULL
) -> None:
    """Give every outgoing edge its verdict; close the scope when its last activation has ended.

    `left` is what a failed node passes on in place of an output.
    """
    if node.region is not None and node.region.body is not scope.body:
        exits = enumerate(node.region.exits) if handle is not None else ()  # an edge handles its failure
        _leave_region(scope, node, {n: left for n, each in exits if each.source is node and each.handle == handle})
    else:
        for edge in node.edges:
            verdicts = scope.live if edge.handle == handle else scope.dead
            target = edge.target.id
            verdicts[target] = verdicts.get(target, 0) + 1
        if node.leaving:
            output = event.payload if event.type is _COMPLETED else left
            _leave_pass(scope, node, handle, output)
    scope.remaining -= 1
    while scope.remaining == 0:
        if scope.owner is not None:
            _close_iteration(state, scope, scope.owner)
            return
        if scope.region is None or scope.parent is None:
            return  # the root
        region, scope = scope.region, scope.parent
        if not _close_pass(state, region, event):
            return
        scope.remaining -= 1


def _leave_pass(scope: Scope, node: PlanNode, handle: str | None, output: Payload) -> None:
    """Remember which edges out of the pass were live."""
    assert scope.region is not None and scope.region.region is not None
    run = scope.region.region
    for edge in node.leaving:
        if edge.handle == handle:
            _leave_by(run, edge.exit, output)


def _leave_region(scope: Scope, header: PlanNode, live: Mapping[int, Payload]) -> None:
    """Give each exit of a region its one verdict, in the scope around it."""
    assert header.region is not None
    for number, leaving in enumerate(header.region.exits):
        if leaving.target is not None:
            verdicts = scope.live if number in live else scope.dead
            verdicts[leaving.target.id] = verdicts.get(leaving.target.id, 0) + 1
    for number, output in live.items():
        leaving = header.region.exits[number]
        if leaving.returns:
            scope.base.back = output
        elif leaving.target is None:
            assert scope.region is not None and scope.region.region is not None
            _leave_by(scope.region.region, AGAIN if leaving.outer is None else leaving.outer, output)


def _leave_by(run: RegionRun, number: int, output: Payload) -> None:
    """Note that an edge out of a pass was live."""
    if number == AGAIN:
        run.is_again = True
    else:
        run.exits.pop(number, None)
        run.exits[number] = output


def _close_iteration(state: InstanceState, scope: Scope, loop: Activation) -> None:
    del state.scopes[scope.path]
    assert loop.loop is not None
    loop.loop.closed(scope, state.context_of(scope, loop.context.facts))
    _note_capacity(state, loop)


def _close_pass(state: InstanceState, owner: Activation, event: Event) -> bool:
    """Close a pass after its last activation: the region ends, or its next pass becomes due."""
    run, header = owner.region, owner.node
    assert run is not None and run.open_pass is not None
    del state.scopes[run.open_pass.path]
    run.open_pass = None
    if run.is_again:
        owner.due_at, owner.due_seq = event.created_at, 0
        state.unfinished[owner.key] = owner
        return False
    del owner.scope.open[header.id]
    owner.scope.ended.add(header.id)
    _leave_region(owner.scope, header, run.exits)
    return True


def _note_capacity(state: InstanceState, loop: Activation) -> None:
    """Note whether a loop could open another iteration; while it could, it is due."""
    assert loop.loop is not None and loop.node.loop is not None
    key = (loop.node.id, loop.scope.path)
    loop.due_seq = 0  # not a timer: a due time from before the loop opened must not count
    if loop.loop.may_open(loop.node.loop):
        state.unfinished[key] = loop
        loop.due_at = loop.loop.opened_at
    else:
        state.unfinished.pop(key, None)
        loop.due_at = None

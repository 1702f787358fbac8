"""What must hold after every decision, whatever the graph and whatever arrived.

Called by `scenario` after each stimulus. The laws: rows are numbered without gaps; memory is
what the log folds to; commands are exactly what the decision added to what is owed; an
activation is dispatched and ends once; a context never changes once taken; an ended instance
owes nothing, and an open one waits for something.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from typing import Any

from anabranch.engine.rules.commands import Command, Dispatch, Wake
from anabranch.engine.rules.decide import Decision
from anabranch.engine.rules.drawn.drawn_state import Activation, InstanceState, LoopRun, Scope
from anabranch.engine.rules.event_payloads import left_out_by
from anabranch.engine.rules.events import ENDINGS, TERMINALS, ActivationKey, Event, EventType, Status
from anabranch.engine.rules.evolve import fold, outstanding
from anabranch.engine.rules.shared.left_out import is_left_out
from anabranch.engine.rules.shared.signals import SignalWait


@dataclass(frozen=True)
class Before:
    """What a decision is measured against."""

    owed: set[Command]
    contexts: dict[ActivationKey, dict[str, Any]]
    terminal: bool
    started: bool
    running: set[Command]
    """Also what a suspended run is not owed."""

    @classmethod
    def of(cls, state: InstanceState) -> Before:
        """Note what is owed and seen now."""
        contexts = {key: dict(activation.context) for key, activation in _open_activations(state).items()}
        running = {Dispatch(*key, activation.attempt) for key, activation in state.running.items()}
        return cls(outstanding(state), contexts, state.is_terminal, state.started, running)


def check_decision(state: InstanceState, log: Sequence[Event], before: Before, decision: Decision, *, now: int) -> None:
    """Check one decision and the state that it left."""
    assert all(event.created_at == now for event in decision.events), "rows are stamped with the time of the decision"
    assert not (before.terminal and decision.events), "an ended instance was changed"
    assert not before.started or state.status is not Status.PENDING, "an instance never goes back to PENDING"
    _check_commands(state, before, decision)
    if decision.events and not state.is_terminal and state.suspension is None:
        assert not state.signals.promises, "a signal lies beside the wait that it was promised to"
    for key, seen in before.contexts.items():
        activation = _open_activations(state).get(key)
        assert activation is None or dict(activation.context) == seen, f"the context of {key} changed after dispatch"
    check_log(state, log)


def check_log(state: InstanceState, log: Sequence[Event]) -> None:
    """Check a whole log, and that the state is what it folds to."""
    assert [event.seq for event in log] == list(range(1, len(log) + 1)), "seq counts 1, 2, 3 without gaps"
    _check_once(log)
    changed = differences(state, fold(state.plan, state.head, log))
    assert not changed, "memory is not what the log folds to:\n" + "\n".join(changed)
    owed = outstanding(state)
    if state.is_terminal:
        assert log[-1].type in TERMINALS, "the terminal event is the last one"
        assert not owed, f"an ended instance owes {owed}"
    else:
        assert owed or state.signals.waits or state.suspension, "nothing would ever move this instance again"
        assert state.next_due() == min((c.due_at for c in owed if isinstance(c, Wake)), default=None)


def differences(left: InstanceState, right: InstanceState) -> list[str]:
    """In which parts two states differ; empty if they are the same."""
    pictures = picture(left), picture(right)
    return [
        f"{part}: {pictures[0].get(part)!r} != {pictures[1].get(part)!r}"
        for part in sorted({*pictures[0], *pictures[1]})
        if pictures[0].get(part) != pictures[1].get(part)
    ]


def picture(state: InstanceState) -> dict[str, Any]:
    """A state as plain data: everything that a later decision could depend on, by part."""
    drawn: dict[str, Any] = {
        "last_seq": state.last_seq,
        "started": state.started,
        "status": state.status,
        "suspension": state.suspension,
        "outcome": None if state.outcome is None else state.outcome.raw,
        "suspicion": None if state.suspicion is None else astuple(state.suspicion),
        "left out": state.head.left_out,
        "ends": state.ends,
        "running": list(state.running),
        "unevaluated": list(state.unevaluated),
        "next due": state.next_due(),
        "timers": sorted(
            (due, seq, _key(a)) for due, seq, a in state.timers if a.due_at is not None and a.due_seq == seq
        ),
        "kept signals": {event: [_signal(s) for s in kept.values()] for event, kept in state.signals.kept.items()},
        "kept count": state.signals.kept_count,
        "unfinished": list(state.unfinished),
        "waits": {event: list(waits) for event, waits in state.signals.waits.items()},
        "promises": {seq: wait.key for seq, wait in state.signals.promises.items()},
        "children": {child_id: _key(wait) for child_id, wait in state.children.items()},
        "signal answers": state.signals.answers,
    }
    for path, scope in state.scopes.items():
        drawn[f"scope {path!r}"] = _scope(scope, state)
        for activation in scope.open.values():
            drawn[f"activation {_key(activation)}"] = _activation(activation)
    return drawn


def _scope(scope: Scope, state: InstanceState) -> dict[str, Any]:
    return {
        "index": scope.index,
        "owner": None if scope.owner is None else _key(scope.owner),
        "live": scope.live,
        "dead": scope.dead,
        "open": list(scope.open),
        "ended": scope.ended,
        "remaining": scope.remaining,
        "entries": dict(scope.entries),
        "bindings": None if scope.bindings is None else dict(scope.bindings),
        "bytes": state.context_bytes(scope),
        "error": scope.error,
        "back": None if scope.back is None else scope.back.raw,
        "sinks": [(node.id, output.raw) for node, output in scope.sinks.values()],
        "region": None if scope.region is None else _key(scope.region),
        "base": scope.base.path,
    }


def _activation(activation: Activation) -> dict[str, Any]:
    run, region = activation.loop, activation.region
    return {
        "phase": activation.phase,
        "attempt": activation.attempt,
        "redone": activation.redone,
        "due": activation.due_at,
        "context": dict(activation.context),
        "output": None if activation.output is None else activation.output.raw,
        "handle": activation.next_handle,
        "signal wait": None if activation.signal_wait is None else _signal_wait(activation.signal_wait),
        "child": activation.child_id,
        "region": None
        if region is None
        else {
            "number": region.number,
            "again": region.is_again,
            "positions": region.positions,
            "pass": None if region.open_pass is None else region.open_pass.path,
            "exits": [(number, output.raw) for number, output in region.exits.items()],
        },
        "loop": None
        if run is None
        else {
            "items": run.items,
            "count": run.count,
            "open": list(run.open),
            "error": run.error,
            # How far a loop without a body has come is in no row: a takeover runs it from the beginning.
            **(_progress(run) if activation.node.loop is not None and activation.node.loop.body.nodes else {}),
        },
    }


def _progress(run: LoopRun) -> dict[str, Any]:
    return {
        "next": run.next_index,
        "outcomes": {index: None if o is None else o.raw for index, o in run.outcomes.items()},
        "bytes": run.bytes,
    }


def _signal(signal: Any) -> tuple[int, str, bytes]:
    return signal.seq, signal.event, signal.payload.raw


def _signal_wait(wait: SignalWait) -> tuple[Any, ...]:
    return wait.key, wait.events, wait.names_event, None if wait.promised is None else _signal(wait.promised)


def _key(activation: Activation) -> ActivationKey:
    return activation.node.id, activation.scope.path


def _open_activations(state: InstanceState) -> dict[ActivationKey, Activation]:
    return {_key(activation): activation for scope in state.scopes.values() for activation in scope.open.values()}


def _check_commands(state: InstanceState, before: Before, decision: Decision) -> None:
    added = outstanding(state) - before.owed
    assert set(decision.commands) == added, f"commands {decision.commands} but newly owed is {added}"
    dispatched = [command for command in decision.commands if isinstance(command, Dispatch)]
    assert len(dispatched) == len(set(dispatched)), f"dispatched twice in one decision: {dispatched}"
    for stop in decision.stops:
        assert stop in before.running, f"{stop} was told to stop though it was not running"
        assert not state.owes(stop), f"{stop} was told to stop and is still awaited"


def _check_once(log: Sequence[Event]) -> None:
    left_out = left_out_by(log)
    log = [event for event in log if not is_left_out(left_out, event.seq)]

    def at_most_once(what: str, keys: Counter[Any]) -> None:
        twice = [key for key, count in keys.items() if count > 1]
        assert not twice, f"{what} more than once: {twice}"

    at_most_once("ended", Counter((e.node_id, e.scope) for e in log if e.type in ENDINGS))
    for event_type in (EventType.NODE_DISPATCHED, EventType.NODE_ATTEMPT_FAILED):
        at_most_once(event_type, Counter((e.node_id, e.scope, e.attempt) for e in log if e.type is event_type))
    at_most_once("opened", Counter((e.node_id, e.scope) for e in log if e.type is EventType.LOOP_OPENED))
    at_most_once("ended the instance", Counter(e.type in TERMINALS for e in log if e.type in TERMINALS))

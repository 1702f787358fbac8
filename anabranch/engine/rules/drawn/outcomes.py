"""What becomes of an attempt whose handler has answered: it returned, asks for a signal, or failed.

Pure. Called by `decide` and by nobody else, with an activation that awaits this very answer.
"""

from __future__ import annotations

from typing import Any

import orjson

from anabranch.engine.rules.drawn.decision_builder import DrawnDecisionBuilder, error_about
from anabranch.engine.rules.drawn.endings import complete, fail
from anabranch.engine.rules.drawn.iterations import open_loop
from anabranch.engine.rules.drawn.state import Activation
from anabranch.engine.rules.events import DEFAULT_HANDLE, EventType
from anabranch.engine.rules.instants import to_iso
from anabranch.engine.rules.shared_decisions import next_try, signal_wait
from anabranch.engine.rules.stimuli import AwaitsSignal, Completed, Failed
from anabranch.engine.rules.values import Payload


def returned(builder: DrawnDecisionBuilder, activation: Activation, outcome: Completed) -> None:
    """A handler returned: wait out its delay, open its loop, or complete."""
    node = activation.node
    if node.loop is not None:
        open_loop(builder, activation, outcome.output)
        return
    handle = outcome.next_handle
    if handle is None and node.exits:
        handle = DEFAULT_HANDLE
    if handle is not None and handle not in node.exits:
        message = f"the handler of type {node.type!r} named a handle that the node does not have: {handle!r}"
        fail(builder, activation, error_about(activation, "UNKNOWN_HANDLE", "UnknownHandle", message))
    elif outcome.queue_delay_ms is None:
        complete(builder, activation, outcome.output, handle)
    else:
        due_at = builder.now + outcome.queue_delay_ms
        note: dict[str, Any] = {"dueAt": to_iso(due_at), "output": outcome.output.value, "nextHandle": handle}
        raw = orjson.dumps({**note, "output": orjson.Fragment(outcome.output.raw)})
        builder.emit(EventType.NODE_WAITING, activation, payload=Payload(note, raw))
        builder.wake(activation)


def open_wait(builder: DrawnDecisionBuilder, activation: Activation, asked: AwaitsSignal) -> None:
    """A node asks for a signal: one that was kept completes it at once."""
    note, signal = signal_wait(builder, asked)
    builder.emit(EventType.NODE_WAITING, activation, payload=note)
    if signal is None:
        builder.wake(activation)
    else:
        complete(builder, activation, signal.payload, DEFAULT_HANDLE)


def attempt_failed(builder: DrawnDecisionBuilder, activation: Activation, failed: Failed) -> None:
    """A try failed: another is due later, or that was the last."""
    key = f"{activation.scope.path}/{activation.node.id}"
    note = next_try(builder, activation.node.retry, activation.attempt, failed, key=key)
    if note is None:
        fail(builder, activation, failed.error)
        return
    builder.emit(EventType.NODE_ATTEMPT_FAILED, activation, payload=note, error_message=failed.error.message)
    builder.wake(activation)

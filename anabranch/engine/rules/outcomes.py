"""What becomes of an attempt whose handler has answered: it returned, asks for a signal, or failed.

Pure. Called by `decide` and by nobody else, with an activation that awaits this very answer.
"""

from __future__ import annotations

from typing import Any

import orjson

from anabranch.engine.rules.endings import complete, fail
from anabranch.engine.rules.events import DEFAULT_HANDLE, EventType
from anabranch.engine.rules.instance import Activation
from anabranch.engine.rules.instants import to_iso
from anabranch.engine.rules.iterations import open_loop
from anabranch.engine.rules.retry import RETRY_AFTER_MS_MAX
from anabranch.engine.rules.stimuli import AwaitsSignal, Completed, Failed
from anabranch.engine.rules.thought import Thought, error_about
from anabranch.engine.rules.values import Payload


def returned(thought: Thought, activation: Activation, outcome: Completed) -> None:
    """A handler returned: wait out its delay, open its loop, or complete."""
    node = activation.node
    if node.loop is not None:
        open_loop(thought, activation, outcome.output)
        return
    handle = outcome.next_handle
    if handle is None and node.exits:
        handle = DEFAULT_HANDLE
    if handle is not None and handle not in node.exits:
        message = f"the handler of type {node.type!r} named a handle that the node does not have: {handle!r}"
        fail(thought, activation, error_about(activation, "UNKNOWN_HANDLE", "UnknownHandle", message))
    elif outcome.queue_delay_ms is None:
        complete(thought, activation, outcome.output, handle)
    else:
        due_at = thought.now + outcome.queue_delay_ms
        note: dict[str, Any] = {"dueAt": to_iso(due_at), "output": outcome.output.value, "nextHandle": handle}
        raw = orjson.dumps({**note, "output": orjson.Fragment(outcome.output.raw)})
        thought.emit(EventType.NODE_WAITING, activation, payload=Payload(note, raw))
        thought.wake(activation)


def open_wait(thought: Thought, activation: Activation, asked: AwaitsSignal) -> None:
    """A node asks for a signal: one that was kept completes it at once."""
    note: dict[str, Any] = {"event": asked.event}
    if asked.match is not None:
        note["match"] = asked.match.value
    if asked.timeout_ms is not None:
        note["dueAt"] = to_iso(thought.now + asked.timeout_ms)
    signal = thought.state.oldest_signal(asked.event, asked.match)
    if signal is None:
        thought.emit(EventType.NODE_WAITING, activation, payload=Payload.trusted(note))
        thought.wake(activation)
        return
    note["signalSeq"] = signal.seq
    thought.emit(EventType.NODE_WAITING, activation, payload=Payload.trusted(note))
    complete(thought, activation, signal.payload, DEFAULT_HANDLE)


def attempt_failed(thought: Thought, activation: Activation, failed: Failed) -> None:
    """A try failed: another is due later, or that was the last."""
    policy = activation.node.retry
    if not failed.retryable or activation.attempt >= policy.max_attempts:
        fail(thought, activation, failed.error)
        return
    key = f"{thought.state.head.instance_id}/{activation.scope.path}/{activation.node.id}"
    delay_ms = policy.delay_ms(activation.attempt, key=key)
    if failed.retry_after_ms is not None:
        delay_ms = max(delay_ms, min(failed.retry_after_ms, RETRY_AFTER_MS_MAX))
    note = {"error": failed.error.as_json(), "dueAt": to_iso(thought.now + delay_ms)}
    thought.emit(
        EventType.NODE_ATTEMPT_FAILED, activation, payload=Payload.trusted(note), error_message=failed.error.message
    )
    thought.wake(activation)

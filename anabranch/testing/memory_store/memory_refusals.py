"""Why a database would refuse a transition's events: duplicate keys, values that it cannot store.

Pure. Called by `memory_database` alone; the SQL stores hear of it from their databases.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from anabranch.engine.ports import Transition
from anabranch.engine.rules.event_payloads import read_signal
from anabranch.engine.rules.events import ENDINGS, Event, EventType

# The memory store also refuses what PostgreSQL cannot store, so that tests do not pass here and fail there: NUL (in
# JSON escaped, and not by an escaped backslash followed by text), lone surrogates.
_NUL_IN_JSON = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")
_NOT_TEXT = re.compile("[\x00\ud800-\udfff]")

Key = tuple[object, ...]


def refusal_of(transition: Transition, *, last_seq: int, keys: Collection[Key]) -> str | None:
    """Why these events cannot be appended to a log that ends with `last_seq` and has these keys; None if they can."""
    seq = last_seq
    taken: set[Key] = set()
    for event in transition.events:
        seq += 1
        if event.seq != seq:
            return f"event {event.seq} where the log of {transition.instance_id} goes on with {seq}"
        key = unique_key(event, transition.generation)
        if key is not None:
            if key in taken or key in keys:
                return f"the log of {transition.instance_id} already has {' '.join(map(str, key))}"
            taken.add(key)
        if not _is_storable(event):
            return f"event {event.seq} of {transition.instance_id} has text with a NUL character or a lone surrogate"
    return None


def unique_key(event: Event, generation: int) -> Key | None:
    """The entry of an event in the unique indexes of the log; None: as many as you like."""
    if event.type in ENDINGS:
        return ("ending", event.node_id, event.scope, generation)
    if event.type is EventType.NODE_DISPATCHED or event.type is EventType.NODE_ATTEMPT_FAILED:
        return (event.type, event.node_id, event.scope, event.attempt)
    if event.type is EventType.SIGNAL_RECEIVED and (key := read_signal(event.payload).key) is not None:
        return ("signal", key)
    return None


def _is_storable(event: Event) -> bool:
    if event.error_message is not None and _NOT_TEXT.search(event.error_message):
        return False
    return b"\\u0000" not in event.payload.raw or not _NUL_IN_JSON.search(event.payload.raw)

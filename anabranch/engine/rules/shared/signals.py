"""Signal matching: which signal a wait consumes, and which signals an instance keeps.

Pure. Called by the folds, and by decisions about a new wait. One signal goes to one wait: the oldest open one of its
event whose `match` matches. A wait takes the oldest matching kept signal.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import orjson

from anabranch.engine.rules.values import Payload

# 10,000 kept signals: enough for any sensible backlog, and quick to fold. Beyond it the sender gets 429.
SIGNALS_KEPT_MAX = 10_000


@dataclass(frozen=True, slots=True)
class KeptSignal:
    """A signal that no wait has taken yet."""

    seq: int
    event: str
    payload: Payload


def fits(match: Payload | None, payload: Payload) -> bool:
    """True if a signal's payload satisfies a wait's `match`; a wait without `match` takes every payload."""
    return match is None or is_superset(payload.value, match.value)


def is_superset(value: Any, wanted: Any) -> bool:
    """Objects: recursively a superset; arrays and scalars: equal."""
    if isinstance(wanted, dict):
        return isinstance(value, dict) and all(
            key in value and is_superset(value[key], part) for key, part in wanted.items()
        )
    return json_equal(value, wanted)


def json_equal(left: Any, right: Any) -> bool:
    """Equality of JSON values: unlike in Python, true is not 1."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(json_equal, left, right))
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(json_equal(left[key], right[key]) for key in left)
    return bool(left == right)


def output_of(signal: KeptSignal, *, names_event: bool) -> Payload:
    """The output of a wait that consumed the signal: its payload, or `{"event", "payload"}`."""
    if not names_event:
        return signal.payload
    raw = orjson.dumps({"event": signal.event, "payload": orjson.Fragment(signal.payload.raw)})
    return Payload({"event": signal.event, "payload": signal.payload.value}, raw)

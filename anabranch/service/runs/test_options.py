"""What a test run takes beside a graph and an input: pins, and where it begins and ends.

Pure. Called by the façades of test runs and drafts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from anabranch.engine.rules.graph.problems import pointer_to
from anabranch.errors import InvalidRequest

_PIN_FIELDS = frozenset({"output", "handle"})


@dataclass(frozen=True, slots=True)
class Pin:
    """What a node puts out in a test run, without being executed."""

    output: Any
    handle: str | None
    """None: the one that it takes when its failures are ignored."""


def read_pins(value: Any, pointer: str) -> dict[str, Pin]:
    """Pins by node id. Raises InvalidRequest, naming each place that does not fit."""
    if not isinstance(value, Mapping):
        raise _refusal([(pointer, "pins are an object: a node's id with its pin")])
    problems: list[tuple[str, str]] = []
    pins: dict[str, Pin] = {}
    for node_id, pin in value.items():
        place = pointer + pointer_to(node_id)
        if not isinstance(pin, Mapping) or "output" not in pin:
            problems.append((place, "a pin is an object with an `output`"))
            continue
        problems += [
            (place + pointer_to(field), f"a pin has no field {field[:64]!r}")
            for field in pin
            if field not in _PIN_FIELDS
        ]
        handle = pin.get("handle")
        if handle is not None and not isinstance(handle, str):
            problems.append((place + "/handle", "a handle is text"))
            continue
        pins[node_id] = Pin(pin["output"], handle)
    if problems:
        raise _refusal(problems)
    return pins


def _refusal(problems: list[tuple[str, str]]) -> InvalidRequest:
    return InvalidRequest(
        "; ".join(f"{pointer or 'the pins'}: {message}" for pointer, message in problems[:3]),
        hint='Write pins as {"NODE_ID": {"output": …, "handle": "default"}}.',
        details=[{"code": "INVALID_VALUE", "pointer": pointer, "message": message} for pointer, message in problems],
    )

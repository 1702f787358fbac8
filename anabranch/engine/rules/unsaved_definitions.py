"""The definition of a test run: a note in its log, beside the input, instead of a stored version.

Pure. Written by `decide` at creation; read by `engine/plans` when the run is taken up, and by the
views, which do not show it as a note of a person.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from anabranch.engine.rules.events import Event, EventType
from anabranch.engine.rules.values import Payload

# The creation writes it right after the input.
DEFINITION_SEQ = 2

_KEY = "__workflowDefinition"


def unsaved_definition_event(definition: Payload) -> Payload:
    """The payload of the SYSTEM_SET that holds a definition."""
    return Payload({_KEY: definition.value}, b'{"' + _KEY.encode() + b'":' + definition.raw + b"}")


def is_unsaved_definition(event: Event) -> bool:
    """Is it that event? No other SYSTEM_SET is at its place."""
    return event.type is EventType.SYSTEM_SET and event.seq == DEFINITION_SEQ and _KEY in event.payload.value


def unsaved_definition_in(events: Iterable[Event]) -> Any | None:
    """The definition in the first events of a test run; None if it is not there."""
    return next((event.payload.value[_KEY] for event in events if is_unsaved_definition(event)), None)

"""The types that anabranch brings: a new file of a type is entered here."""

from __future__ import annotations

from collections.abc import Mapping

from anabranch.handlers import condition, delay, end, loop, set, start, wait_for_event
from anabranch.handlers.spec import HandlerSpec

_FILES = (start, end, condition, delay, loop, set, wait_for_event)

BUILTIN: Mapping[str, HandlerSpec] = {file.SPEC.type: file.SPEC for file in _FILES}
"""By type."""

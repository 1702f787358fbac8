"""Validate keys, ids and values from outside before they are used.

Pure, except for random ids. Called by the service first; the stores can keep everything that passes.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from anabranch.engine.rules.run_filter import InputFilter
from anabranch.engine.rules.values import Payload
from anabranch.errors import InvalidRequest, ValueNotStorable
from anabranch.run_requests import check_key

# 8 filters of 32 steps: more than a person uses. Each is evaluated for every run that a list scans, and SQLite joins a
# table for each step, 64 at most.
INPUT_FILTERS_MAX = 8
INPUT_PATH_STEPS_MAX = 32


def is_key(text: str) -> bool:
    """Could this be a stored key or event name?"""
    try:
        check_key(text, "a key")
    except InvalidRequest:
        return False
    return True


def check_input_filters(filters: Sequence[InputFilter]) -> None:
    """Reject filters on inputs that cost too much for each run. Raises InvalidRequest."""
    if len(filters) > INPUT_FILTERS_MAX:
        raise InvalidRequest(f"a list takes at most {INPUT_FILTERS_MAX} filters on the input, not {len(filters)}")
    for path, _ in filters:
        if len(path) > INPUT_PATH_STEPS_MAX:
            shown = ".".join(path)[:80]
            raise InvalidRequest(f"a path into the input has at most {INPUT_PATH_STEPS_MAX} steps: {shown}…")


def is_storable(text: str) -> bool:
    """Whether a column can store the text. Bytes from a terminal that are not UTF-8 arrive as lone surrogates."""
    try:
        Payload.of(text)
    except ValueNotStorable:
        return False
    return True


def is_run_id(text: str) -> bool:
    """Could this be the id of a run? If not, it is not found without a query."""
    try:
        return str(uuid.UUID(text)) == text.lower()
    except ValueError:
        return False

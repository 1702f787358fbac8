"""Validate keys, ids and values from outside before they are used.

Pure, except for random ids. Called by the service first; the stores can keep everything that passes.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

from anabranch.engine.rules.evolve import AnyPlan
from anabranch.engine.rules.run_filter import InputFilter
from anabranch.engine.rules.values import Payload
from anabranch.errors import InvalidInput, InvalidRequest, ValueNotStorable, ValueTooLarge
from anabranch.run_requests import check_key
from anabranch.service.definitions.checks import Checks

# 8 filters of 32 steps: more than a person uses. Each is evaluated for every run that a list scans, and SQLite joins a
# table for each step, 64 at most.
INPUT_FILTERS_MAX = 8
INPUT_PATH_STEPS_MAX = 32


async def input_payload(input_: Any, plan: AnyPlan, checks: Checks, *, tenant_id: str, bounded: bool = True) -> Payload:
    """A run's input, checked against its limits and the workflow's `inputSchema`.

    Raises InvalidInput; TooManyChecks unless `bounded` is false.
    """
    payload = checked_payload(input_, "the input")
    if plan.input_schema is not None:
        problems = await checks.input_problems(tenant_id, plan.input_schema, payload.value, bounded=bounded)
        if problems:
            details = [{"pointer": pointer, "message": message} for pointer, message in problems]
            pointer, message = problems[0]
            place = f" at {pointer}" if pointer else ""
            raise InvalidInput(f"the input does not fit the workflow's inputSchema{place}: {message}", details=details)
    return payload


def checked_payload(value: Any, what: str) -> Payload:
    """A value that the log can keep; `what` names it in the error. Raises InvalidInput."""
    try:
        return Payload.of(value)
    except (ValueNotStorable, ValueTooLarge) as refusal:
        raise InvalidInput(
            f"{what}: {refusal.message}", details=[{"code": refusal.code, "message": refusal.message}]
        ) from None


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
    """Can a column store it? Bytes from a terminal that are not UTF-8 arrive as lone surrogates."""
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


def new_run_id(now_ms: int) -> str:
    """A UUID of version 7 (RFC 9562): new runs lie side by side in the index."""
    random_bits = uuid.uuid4().int
    value = (now_ms & (2**48 - 1)) << 80 | 0x7 << 76 | (random_bits >> 50 & 0xFFF) << 64 | 0b10 << 62
    return str(uuid.UUID(int=value | random_bits & (2**62 - 1)))

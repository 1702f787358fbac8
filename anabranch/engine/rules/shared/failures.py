"""Failures: turn an exception of user code into code, type and message, and say whether a retry may help.

Pure. Used by the task worker for handlers, by decisions for nodes that they evaluate, and by the runner of coded
workflows for steps.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from anabranch.engine.rules.stimuli import Failed, NodeResult, StepReport
from anabranch.errors import (
    AnabranchError,
    EgressRefused,
    HttpAnswerInvalid,
    HttpRefused,
    InvalidDefinition,
    NodeFailure,
    NonRetryable,
    RunError,
    SecretKeyMissing,
    SecretKeyWrong,
    SecretUnknown,
    TemplateError,
    ValueNotStorable,
    ValueTooLarge,
)

# 4,096 characters of an error's message: enough to see the reason; a megabyte of HTML does not help.
MESSAGE_CHARACTERS_MAX = 4_096

# 8,192 characters of a traceback: some twenty frames with long paths and their source lines, and causes.
TRACEBACK_CHARACTERS_MAX = 8_192

# The form of an error code; handlers may use their own codes.
_CODE = re.compile(r"[A-Z][A-Z0-9_]{0,63}")

# As large as the column of attempts.
ATTEMPT_MAX = 2**31 - 1

# Errors that another attempt cannot fix: the same config and context give the same result.
_FINAL_ERRORS = (
    EgressRefused,
    HttpAnswerInvalid,
    HttpRefused,
    InvalidDefinition,
    SecretKeyMissing,
    SecretKeyWrong,
    SecretUnknown,
    TemplateError,
    ValueNotStorable,
    ValueTooLarge,
)


class _FailedAttempt(Protocol):
    """An attempt of an activation."""

    node_id: str
    scope: str
    attempt: int


def bare_name(kind: type) -> str:
    """The name of an exception's class, as errors of nodes show it."""
    return kind.__name__


def failed_by(
    failure: BaseException,
    *,
    node_id: str,
    scope: str,
    attempt: int,
    name_of: Callable[[type], str] = bare_name,
    traceback: str = "",
    who: str = "",
) -> Failed:
    """The failed outcome for an exception. `name_of` returns the class name for the log.

    `who` names step or node and run in messages about values that cannot be stored, since those errors know only the
    value.
    """

    def error(code: object, type_name: object, message: object, traceback: str = traceback) -> RunError:
        return kept_error(code, type_name, message, node_id, scope, attempt, traceback)

    if isinstance(failure, NonRetryable):
        cause = failure.__cause__ or failure
        return Failed(error(failure.code, name_of(type(cause)), failure), retryable=False)
    if isinstance(failure, NodeFailure):
        own = error(failure.code, failure.type_name, failure, failure.traceback or traceback)
        return Failed(own, failure.retryable, failure.retry_after_ms)
    if isinstance(failure, AnabranchError):
        is_about_value = who and isinstance(failure, ValueNotStorable | ValueTooLarge)
        message = f"{who}: {failure.message}" if is_about_value else failure.message
        own = error(failure.code, name_of(type(failure)), message)
        return Failed(own, retryable=not isinstance(failure, _FINAL_ERRORS))
    return Failed(error("HANDLER_ERROR", name_of(type(failure)), failure), retryable=True)


def kept_error(
    code: object,
    type_name: object,
    message: object,
    node_id: str = "",
    scope: str = "",
    attempt: object = 1,
    traceback: str = "",
) -> RunError:
    """An error that the log can store, whatever the handler put into its fields."""
    word = _readable(code)
    word = word if _CODE.fullmatch(word) else "HANDLER_ERROR"
    number = int(attempt) if isinstance(attempt, int) and 0 <= attempt <= ATTEMPT_MAX else 1
    name = storable(_readable(type_name))
    text = storable(_readable(message))
    if not text.strip():
        text = f"{name} without a message"
    return RunError(word, name, text, node_id, scope, number, storable(traceback, TRACEBACK_CHARACTERS_MAX))


def silence(message: str, origin: _FailedAttempt) -> Failed:
    """The outcome of an attempt that missed its heartbeat timeout."""
    error = RunError("HEARTBEAT_TIMEOUT", "HeartbeatTimeout", message, origin.node_id, origin.scope, origin.attempt)
    return Failed(error, retryable=True)


def who_did(result: NodeResult | StepReport, *, run_id: str) -> str:
    """The owner of a result, for messages."""
    if isinstance(result, StepReport):
        return f"step {result.name}{result.scope} of run {run_id}"
    return who_is(run_id, result.node_id, result.scope)


def who_is(run_id: str, node_id: str, scope: str) -> str:
    """The name of a node, or of the workflow function (which has no node id), for messages."""
    if not node_id:
        return f"the function of run {run_id}"
    return f"node {node_id} in {scope} of run {run_id}" if scope else f"node {node_id} of run {run_id}"


def storable(message: str, characters_max: int = MESSAGE_CHARACTERS_MAX) -> str:
    """Text that every database accepts: no NUL, no lone surrogates, limited length."""
    text = message[:characters_max].replace("\x00", "\ufffd")
    return text.encode("utf-8", "replace").decode()


def as_refused(result: NodeResult | StepReport, reason: str, *, run_id: str) -> NodeResult | StepReport:
    """The failure for a result that the database refused."""
    node_id = result.name if isinstance(result, StepReport) else result.node_id
    message = f"{who_did(result, run_id=run_id)}: the database does not take its output: {reason}"
    error = RunError(ValueNotStorable.code, "ValueNotStorable", message, node_id, result.scope, result.attempt)
    return replace(result, outcome=Failed(error, retryable=False))


def _readable(given: object) -> str:
    try:
        return str(given)
    except Exception:  # noqa: BLE001 -- user code's __str__
        return "its message cannot be read"

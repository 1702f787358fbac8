"""Map errors to HTTP responses: the status of each error, and the JSON form of all.

`{"error": {"code", "message", "hint", "details"}}`. Any other exception is a defect: it is
logged with a number, and the caller gets only the number.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Mapping

import orjson
from aiohttp import web

from anabranch import errors

logger = logging.getLogger("anabranch.rest")

STATUS: Mapping[type[errors.AnabranchError], int] = {
    errors.BadHttp: 400,
    errors.BadJson: 400,
    errors.NotAuthenticated: 401,
    errors.NotPermitted: 403,
    errors.NotFound: 404,
    errors.SecretUnknown: 404,
    errors.ValueMissing: 404,
    errors.MethodNotAllowed: 405,
    errors.RequestTimeout: 408,
    errors.CallbackUsed: 409,
    errors.DataSourceInUse: 409,
    errors.DraftExists: 409,
    errors.LimitReached: 409,
    errors.ArmedByNode: 409,
    errors.HookPathTaken: 409,
    errors.NameTaken: 409,
    errors.NoManualStart: 409,
    errors.NotListening: 409,
    errors.RunIsOpen: 409,
    errors.RunIsCompleted: 409,
    errors.RetryWouldRepeat: 409,
    errors.ParentNotWaiting: 409,
    errors.RetryRefused: 409,
    errors.ForkRefused: 409,
    errors.PlanChanged: 409,
    errors.RunIsTerminal: 409,
    errors.SecretKeyMissing: 409,
    errors.SecretKeyWrong: 409,
    errors.WorkflowHasRuns: 409,
    errors.WorkflowIsCoded: 409,
    errors.CallbackExpired: 410,
    errors.DraftConflict: 412,
    errors.VersionMismatch: 412,
    errors.TooLarge: 413,
    errors.EncodingRefused: 415,
    errors.MediaTypeRefused: 415,
    errors.InvalidInput: 422,
    errors.RunTooLarge: 422,
    errors.InvalidRequest: 422,
    errors.InvalidWorkflow: 422,
    errors.QueryFailed: 422,
    errors.SettingsError: 422,
    errors.SourceTooPowerful: 422,
    errors.TemplateError: 422,
    errors.ValueNotStorable: 422,
    errors.ValueTooLarge: 422,
    errors.TooManyPending: 429,
    errors.TooManySignals: 429,
    errors.WebhookBusy: 429,
    errors.LogUnreadable: 500,
    errors.RunUnreadable: 500,
    errors.NoResponse: 502,
    errors.ShuttingDown: 503,
    errors.StoreUnavailable: 503,
    errors.TooManyConnections: 503,
    errors.ResponseTimeout: 504,
}
"""The HTTP status of every error."""

RETRY_AFTER_S: Mapping[int, int] = {429: 1, 503: 5}
"""Seconds for Retry-After. 1 s: limits are counted again every second. 5 s: a database comes back, or another process
starts, in about that time."""


def status_of(error: errors.AnabranchError) -> int:
    """The status of an error, by its class or the nearest base class."""
    for kind in type(error).__mro__:
        if kind in STATUS:
            return STATUS[kind]
    return 500


def response_of(error: errors.AnabranchError) -> web.Response:
    """The response for an error."""
    status = status_of(error)
    if status == 503 and not isinstance(error, errors.TooManyConnections):  # these are logged once a minute
        logger.warning("answered 503: %s", error.message)
    elif isinstance(error, errors.LogUnreadable | errors.RunUnreadable):
        logger.error("answered 500: %s", error.message)
    headers = {}
    if status in RETRY_AFTER_S:
        headers["Retry-After"] = str(RETRY_AFTER_S[status])
    if isinstance(error, errors.EncodingRefused):
        headers["Accept-Encoding"] = "identity"  # RFC 9110, 15.5.16: the accepted encodings
    if status == 401:
        headers["WWW-Authenticate"] = 'Bearer realm="anabranch"'
    return web.Response(
        body=orjson.dumps({"error": error.as_answer()}), status=status, headers=headers, content_type="application/json"
    )


def fault_response(fault: Exception, request_line: str) -> web.Response:
    """The response for a defect: a number to find it in the log."""
    number = secrets.token_hex(6)
    logger.error("%s failed: defect number %s", request_line, number, exc_info=fault)
    error = errors.AnabranchError(
        f"internal error {number}",
        hint="The server's log has the details under this number; please report it.",
    )
    return response_of(error)

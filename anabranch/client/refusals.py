"""Turn the `{"error": {…}}` of a server into the exception that a database would raise."""

from __future__ import annotations

from typing import Any

from anabranch import errors
from anabranch.errors import AnabranchError, DatabaseAway, ServerRefusal

_BY_CODE = {
    kind.code: kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, AnabranchError) and kind not in (DatabaseAway, ServerRefusal)
}
"""Every situation by its code."""


def refusal_of(answer: Any) -> AnabranchError | None:
    """The error that an answer tells; None if it is not in our form."""
    error = answer.get("error") if isinstance(answer, dict) else None
    if not isinstance(error, dict):
        return None
    code, message, hint = error.get("code"), error.get("message"), error.get("hint")
    if not (isinstance(code, str) and code and isinstance(message, str)):
        return None
    hint = hint if isinstance(hint, str) else None
    kind = _BY_CODE.get(code)
    if kind is None:
        return ServerRefusal(code, message, hint=hint, details=error.get("details"))
    return kind(message, hint=hint, details=error.get("details"))

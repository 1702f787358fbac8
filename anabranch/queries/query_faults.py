"""Failures of queries: one function per situation, with its code and whether a retry may help.

Raised by driver processes and the query engine; the handler passes them on. Messages of a driver process go through
`Mask` in the service, because drivers often repeat the connection parameters.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import quote, quote_plus, unquote

from anabranch.errors import NodeFailure

MASKED = "***"

# 3 characters: a shorter password would turn every word that happens to hold it into stars, so
# then the whole message gives way.
_MASKED_LENGTH_MIN = 3

# 1,000 characters of a database's words: some repeat the whole statement.
_MESSAGE_CHARACTERS_MAX = 1_000

# At most 5 reasons why a role is refused.
_POWERS_SHOWN_MAX = 5

# 256 KiB of them leave a driver process: enough that after masking the first 1,000 characters are whole.
_MESSAGE_SENT_MAX = 262_144


class RoleTooPowerful(NodeFailure):
    """The role of a source may do more than queries need. `what` it may do; `hint`: how a fitting role is made."""

    def __init__(self, what: str, hint: str) -> None:
        super().__init__("SOURCE_TOO_POWERFUL", f"{what}. {hint}", type_name="SourceTooPowerful", retryable=False)
        self.what = what
        self.hint = hint


class Mask:
    """Removes the secrets of one source from texts."""

    def __init__(self, secrets: Iterable[str]) -> None:
        self._secrets = {secret for secret in secrets if secret}

    def __call__(self, text: str) -> str:
        """The text with every secret masked, in all forms that drivers write."""
        forms = {form for secret in self._secrets for form in _forms(secret)}
        # The longest first: one secret may be a part of another.
        for form in sorted(forms, key=lambda form: (-len(form), form)):
            if form in text:
                if len(form) < _MASKED_LENGTH_MIN:
                    return "the database's message holds a secret and is left out"
                text = text.replace(form, MASKED)
        return text[:_MESSAGE_CHARACTERS_MAX]

    def failure(self, failure: NodeFailure) -> NodeFailure:
        """The same failure, its message without the secrets."""
        if isinstance(failure, RoleTooPowerful):
            return RoleTooPowerful(self(failure.what), self(failure.hint))
        return NodeFailure(
            failure.code,
            self(str(failure)),
            type_name=failure.type_name,
            retryable=failure.retryable,
            retry_after_ms=failure.retry_after_ms,
        )


def _forms(secret: str) -> set[str]:
    return {secret, unquote(secret), quote(secret, safe=""), quote_plus(secret), repr(secret)[1:-1]}


def failed(message: str, *, retryable: bool = False) -> NodeFailure:
    """The database refused the statement."""
    return NodeFailure("QUERY_FAILED", message, type_name="QueryFailed", retryable=retryable)


def unreachable(message: str) -> NodeFailure:
    """The database cannot be reached, or the connection broke."""
    return NodeFailure("QUERY_FAILED", message, type_name="SourceUnreachable", retryable=True)


def not_allowed(message: str) -> NodeFailure:
    """The statement tried what a query may not do."""
    return NodeFailure("QUERY_FAILED", message, type_name="QueryNotAllowed", retryable=False)


def timed_out(timeout_ms: int) -> NodeFailure:
    """The statement took longer than it may."""
    message = f"the query took longer than its timeout of {timeout_ms} ms and was stopped"
    return NodeFailure("QUERY_TIMEOUT", message, type_name="QueryTimeout", retryable=True)


def too_large(message: str) -> NodeFailure:
    """The result has more rows or bytes than allowed."""
    return NodeFailure("QUERY_TOO_LARGE", f"the answer has {message}", type_name="QueryTooLarge", retryable=False)


def out_of_memory() -> NodeFailure:
    """The error for an answer that does not fit into the memory of the process that reads it."""
    return too_large("more than fits into the memory of a query; select fewer columns or rows")


def driver_ended(status: int | None) -> NodeFailure:
    """The process that talks to the database ended without an answer."""
    how = "without a word" if status is None else f"by signal {-status}" if status < 0 else f"with status {status}"
    message = f"the process of the database's driver ended {how}"
    return NodeFailure("QUERY_FAILED", message, type_name="DriverEnded", retryable=True)


def too_powerful(user: str, powers: Sequence[str], hint: str) -> RoleTooPowerful:
    """The role of the source is not one for queries."""
    shown = ", ".join(powers[:_POWERS_SHOWN_MAX]) + (", …" if len(powers) > _POWERS_SHOWN_MAX else "")
    return RoleTooPowerful(f"the role {user} may do more than queries need: {shown}", hint)


def source_refused(message: str) -> NodeFailure:
    """The data source may not be used from here."""
    return NodeFailure("SOURCE_REFUSED", message, type_name="SourceRefused", retryable=False)


def egress_refused(message: str) -> NodeFailure:
    """The host of the data source may not be reached from here."""
    return NodeFailure("EGRESS_REFUSED", message, type_name="EgressRefused", retryable=False)


def not_found(message: str) -> NodeFailure:
    """The tenant has no such query."""
    return NodeFailure("QUERY_NOT_FOUND", message, type_name="QueryNotFound", retryable=False)


def args_invalid(message: str) -> NodeFailure:
    """The arguments do not fit the parameters of the query."""
    return NodeFailure("QUERY_ARGS_INVALID", message, type_name="ArgumentsInvalid", retryable=False)


def failure_as_json(failure: NodeFailure) -> dict[str, Any]:
    """A failure as JSON, for a message of a driver process."""
    texts = {"message": str(failure)}
    if isinstance(failure, RoleTooPowerful):
        texts = {"message": failure.what, "hint": failure.hint}
    return {
        "code": failure.code,
        "type": failure.type_name,
        "retryable": failure.retryable,
        **{name: text[:_MESSAGE_SENT_MAX].encode(errors="replace").decode() for name, text in texts.items()},
    }


def failure_of_json(sent: Mapping[str, Any]) -> NodeFailure:
    """The failure in this JSON."""
    if "hint" in sent:
        return RoleTooPowerful(sent["message"], sent["hint"])
    return NodeFailure(sent["code"], sent["message"], type_name=sent["type"], retryable=sent["retryable"])

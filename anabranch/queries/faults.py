"""How a query fails: one function per situation, each with its code and whether another try may help.

Raised by the drivers' files and the query engine; the handler lets them through. Messages of
drivers pass `Mask` before they get here: they like to repeat how they were told to connect.
"""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import quote, quote_plus, unquote

from anabranch.errors import NodeFailure

MASKED = "***"

# 3 characters: a shorter password would turn every word that happens to hold it into stars, so
# then the whole message gives way.
_MASKED_LENGTH_MIN = 3

# 1,000 characters of a database's words: some repeat the whole statement.
_MESSAGE_CHARACTERS_MAX = 1_000


class Mask:
    """Takes the secrets of one source out of texts."""

    def __init__(self, secrets: Iterable[str]) -> None:
        self._secrets = {secret for secret in secrets if secret}

    def __call__(self, text: str) -> str:
        """The text, with stars for every secret in whatever form drivers write it."""
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
    """The answer has more rows or bytes than are let in."""
    return NodeFailure("QUERY_TOO_LARGE", f"the answer has {message}", type_name="QueryTooLarge", retryable=False)


def source_refused(message: str) -> NodeFailure:
    """The data source is not one that may be used from here."""
    return NodeFailure("SOURCE_REFUSED", message, type_name="SourceRefused", retryable=False)


def egress_refused(message: str) -> NodeFailure:
    """The host of the data source is none that may be reached from here."""
    return NodeFailure("EGRESS_REFUSED", message, type_name="EgressRefused", retryable=False)


def not_found(message: str) -> NodeFailure:
    """The tenant has no such query."""
    return NodeFailure("QUERY_NOT_FOUND", message, type_name="QueryNotFound", retryable=False)


def args_invalid(message: str) -> NodeFailure:
    """The arguments do not fit the parameters of the query."""
    return NodeFailure("QUERY_ARGS_INVALID", message, type_name="ArgumentsInvalid", retryable=False)

"""Masking: what an attempt was given in secret must not come out of it.

Called by `spec` around every execution that was given secrets. Whatever comes out (output, error,
log line) loses the secrets in it, also where somebody encoded them on the way: a server that
repeats an Authorization header repeats its base64.
"""

from __future__ import annotations

import base64
import logging
import re
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from typing import Any, NoReturn
from urllib.parse import quote, quote_plus

import orjson

from anabranch.engine.handling import HandlerResult, HandlerReturn
from anabranch.errors import AnabranchError, NodeFailure, NonRetryable

MASK = "***"

# 6 letters of base64 are 36 bits: fewer would be found by chance.
_BASE64_LENGTH_MIN = 6
_BASE64_LETTERS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=-_")


class Masker:
    """Makes these secrets unreadable, plain or encoded."""

    def __init__(self, secrets: Iterable[str]) -> None:
        values = [secret for secret in secrets if secret]
        self._values = frozenset(values)
        forms = {form for value in values for form in _forms(value)}
        # The longest first: one secret may begin like another.
        ordered = sorted(forms, key=len, reverse=True)
        self._forms = re.compile("|".join(map(re.escape, ordered))) if ordered else None
        self._cores = sorted({core for value in values for core in _base64_cores(value)}, key=len, reverse=True)
        self._marks = [orjson.dumps(form)[1:-1] for form in (*ordered, *self._cores)]

    def text(self, text: str) -> str:
        """The text without the secrets."""
        for core in self._cores:
            text = _mask_base64(text, core)
        return text if self._forms is None else self._forms.sub(MASK, text)

    def value(self, value: Any) -> Any:
        """A JSON value without the secrets, keys included; the very value if there are none in it."""
        try:
            raw = orjson.dumps(value)
        except TypeError:  # it will be refused as an output, and the refusal passes here
            return value
        # One look at the encoded text in C: a walk over a megabyte would hold up everybody else.
        return self._walk(value) if any(mark in raw for mark in self._marks) else value

    def _walk(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {self.text(key): self._walk(child) for key, child in value.items()}
        if isinstance(value, (list, tuple)):
            return [self._walk(child) for child in value]
        if isinstance(value, (int, float)) and not isinstance(value, bool) and str(value) in self._values:
            return MASK
        return value

    def returned(self, returned: HandlerReturn) -> HandlerReturn:
        """What a handler returned, its output without the secrets."""
        if not isinstance(returned, HandlerResult):
            return returned
        return HandlerResult(self.value(returned.output), returned.next_handle, returned.queue_delay)

    def reraise(self, failure: Exception) -> NoReturn:
        """Raise a failure again, as the task worker understands it, without the secrets in its message."""
        try:
            message = self.text(str(failure))
        except Exception:  # noqa: BLE001 -- a stranger's __str__
            message = "its message cannot be read"
        match failure:
            case NonRetryable():
                raise NonRetryable(message, code=failure.code) from failure.__cause__
            case NodeFailure():
                raise NodeFailure(
                    failure.code,
                    message,
                    type_name=failure.type_name,
                    retryable=failure.retryable,
                    retry_after_ms=failure.retry_after_ms,
                ) from None
            case AnabranchError():
                raise type(failure)(message) from None
        raise NodeFailure("HANDLER_ERROR", message, type_name=type(failure).__name__) from None


class MaskedLog(logging.LoggerAdapter[logging.Logger]):
    """A log whose lines lose the secrets before anybody sees them; tracebacks become one line."""

    def __init__(self, log: logging.LoggerAdapter[logging.Logger], masker: Masker) -> None:
        super().__init__(log.logger, log.extra)
        self._masker = masker

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        """Format, mask, hand on."""
        if not self.isEnabledFor(level):
            return
        text = str(msg) % _arguments(args) if args else str(msg)
        failure = kwargs.pop("exc_info", None)
        if isinstance(failure, BaseException):
            text = f"{text} ({type(failure).__name__}: {failure})"
        super().log(level, "%s", self._masker.text(text), **kwargs)

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        """Keep the fields that say which run and node it is."""
        return msg, {**kwargs, "extra": {**(self.extra or {}), **(kwargs.get("extra") or {})}}


def _arguments(args: tuple[object, ...]) -> Any:
    return args[0] if len(args) == 1 and isinstance(args[0], Mapping) else args


def _forms(value: str) -> Iterator[str]:
    """A secret as it may be written: plain, in a URL, inside of JSON text."""
    yield value
    yield quote(value, safe="")
    yield quote(value)
    yield quote_plus(value)
    escaped: str = orjson.dumps(value).decode()[1:-1]
    yield escaped


def _base64_cores(value: str) -> Iterator[str]:
    """What stays of a secret in base64 wherever in a longer text it stood: one piece for each of three shifts."""
    raw = value.encode()
    for shift in range(3):
        padded = b"\0" * shift + raw
        # Letters that share bits with what stands before and behind are not the secret's alone.
        first, last = -(-8 * shift // 6), 8 * len(padded) // 6
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            core = encode(padded).decode()[first:last]
            if len(core) >= _BASE64_LENGTH_MIN:
                yield core


def _mask_base64(text: str, core: str) -> str:
    """The text with every run of base64 masked that has the core in it."""
    parts: list[str] = []
    kept = 0
    found = text.find(core)
    while found >= 0:
        start, end = found, found + len(core)
        while start > kept and text[start - 1] in _BASE64_LETTERS:
            start -= 1
        while end < len(text) and text[end] in _BASE64_LETTERS:
            end += 1
        parts += [text[kept:start], MASK]
        kept = end
        found = text.find(core, kept)
    return "".join([*parts, text[kept:]]) if parts else text

"""Masking: remove the secrets of an attempt from everything that it puts out.

Called by `spec` around every execution that got secrets. Secrets disappear from output, errors and log lines, also in
common encodings: a server that repeats an Authorization header repeats its base64.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NoReturn
from urllib.parse import quote, quote_plus

import orjson

from anabranch.engine.handler_contract import HandlerResult, HandlerReturn
from anabranch.errors import AnabranchError, NodeFailure, NonRetryable

MASK = "***"

# 6 letters of base64 are 36 bits: fewer would be found by chance.
_BASE64_LENGTH_MIN = 6

# 256 characters: tokens and passwords. Longer secrets are keys and certificates; to look for every
# way to escape each of their characters would take longer than the request.
ESCAPES_LENGTH_MAX = 256
_BASE64_LETTERS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=-_")


class Masker:
    """Makes these secrets unreadable, plain or encoded."""

    def __init__(self, secrets: Iterable[str]) -> None:
        # The longest first: one secret may begin like another.
        values = sorted({secret for secret in secrets if secret}, key=len, reverse=True)
        self._values = frozenset(values)
        patterns = [_pattern(value) for value in values if len(value) <= ESCAPES_LENGTH_MAX]
        self._forms = re.compile("|".join(patterns)) if patterns else None
        self._long = [form for value in values if len(value) > ESCAPES_LENGTH_MAX for form in _usual_forms(value)]
        self._cores = sorted({core for value in values for core in _base64_cores(value)}, key=len, reverse=True)

    def text(self, text: str) -> str:
        """The text without the secrets."""
        for core in self._cores:
            text = _mask_base64(text, core)
        for form in self._long:
            text = text.replace(form, MASK)
        return text if self._forms is None else self._forms.sub(MASK, text)

    def value(self, value: Any) -> Any:
        """A JSON value with all secrets masked, also in keys; the same object if it has none."""
        try:
            raw = orjson.dumps(value).decode()
        except TypeError:  # it will be refused as an output, and the refusal passes here
            return value
        # One look at the encoded text in C: a walk over a megabyte would hold up everybody else.
        found = any(form in raw for form in (*self._cores, *self._long))
        found = found or (self._forms is not None and self._forms.search(raw) is not None)
        return self._walk(value) if found else value

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
        """The result of a handler, with secrets masked in the output."""
        if not isinstance(returned, HandlerResult):
            return returned
        return HandlerResult(self.value(returned.output), returned.next_handle, returned.queue_delay)

    def reraise(self, failure: Exception) -> NoReturn:
        """Raise a failure again, as the task worker understands it, without the secrets in its message.

        It keeps its traceback and its cause, whose texts the task worker masks.
        """
        raise self._masked(failure).with_traceback(failure.__traceback__) from failure.__cause__

    def _masked(self, failure: Exception) -> Exception:
        try:
            message = self.text(str(failure))
        except Exception:  # noqa: BLE001 -- user code's __str__
            message = "its message cannot be read"
        match failure:
            case NonRetryable():
                return NonRetryable(message, code=failure.code)
            case NodeFailure():
                return NodeFailure(
                    failure.code,
                    message,
                    type_name=failure.type_name,
                    retryable=failure.retryable,
                    retry_after_ms=failure.retry_after_ms,
                    traceback=self.text(failure.traceback),
                )
            case AnabranchError():
                return type(failure)(message)
        masked = NodeFailure("HANDLER_ERROR", message, type_name=type(failure).__name__)
        masked.original = failure
        return masked


def _pattern(value: str) -> str:
    """A regular expression of a secret as it may be written: plain, in URLs, in JSON text inside of JSON text.

    Escapes are a matter of taste (which characters, which case of the digits, how deep), so each
    character that may be escaped is looked for in all its forms. Possessive: never tries twice.
    """
    parts = re.findall(r"[A-Za-z0-9]+|\\+|.", value, re.DOTALL)
    return "".join(part if part.isascii() and part.isalnum() else _escapable(part) for part in parts)


def _usual_forms(value: str) -> Sequence[str]:
    """A long secret as libraries write it, the longest form first."""
    escaped: str = orjson.dumps(value).decode()[1:-1]
    return sorted({value, quote(value, safe=""), quote(value), quote_plus(value), escaped}, key=len, reverse=True)


def _escapable(part: str) -> str:
    if part.startswith("\\"):
        return r"(?>(?:\\|%5[cC]|u005[cC])+)"
    percent = "".join(f"%{byte:02x}" for byte in part.encode())
    unicode = r"\\*+".join(f"u{unit:04x}" for unit in _utf16(part))
    short = {"\n": "n", "\r": "r", "\t": "t", "\b": "b", "\f": "f", " ": r"\+"}.get(part)
    forms = [re.escape(part), f"(?i:{percent}|{unicode})", *([] if short is None else [short])]
    return rf"\\*+(?:{'|'.join(forms)})"


def _utf16(character: str) -> Sequence[int]:
    raw = character.encode("utf-16-be")
    return [int.from_bytes(raw[index : index + 2], "big") for index in range(0, len(raw), 2)]


def _base64_cores(value: str) -> Iterator[str]:
    """The invariant part of a secret in base64 text, for each of the three possible alignments."""
    raw = value.encode()
    for shift in range(3):
        padded = b"\0" * shift + raw
        # Letters at the ends share bits with the neighbouring text.
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

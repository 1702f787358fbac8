"""HTTP responses as values: body, error, Retry-After.

Used by `http_request`. The server may be hostile: all operations are bounded, and only known character sets are
decoded.
"""

from __future__ import annotations

import asyncio
import base64
import re
from collections.abc import Callable, Mapping
from datetime import UTC
from email.message import Message
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any

from anabranch.engine.rules.duration import DURATION_MS_MAX
from anabranch.engine.rules.values import VALUE_BYTES_MAX
from anabranch.errors import BadJson, HttpAnswerInvalid, TooLarge, ValueTooLarge
from anabranch.json_input import parse_json

# Twice the largest output: JSON may have as much whitespace as content. A longer body could not become an output.
JSON_BYTES_MAX = 2 * VALUE_BYTES_MAX

# 32 KiB of JSON take under a millisecond; more is read in a thread.
_JSON_BYTES_AT_ONCE = 32_768

# 300 characters of an error page: enough to see whose it is.
EXCERPT_MAX = 300

# Character sets that texts on the web have. Python knows more, among them some that take quadratic time.
_CHARSETS = re.compile(
    r"utf-?8|utf-?16(-?[bl]e)?|us-ascii|ascii|iso-?8859-?[0-9]{1,2}|latin-?1|windows-125[0-8]|cp125[0-8]"
    r"|shift[-_]jis|euc-(jp|kr)|gb2312|gbk|gb18030|big5|koi8-[ru]",
)
_TEXT_TYPES = re.compile(
    r"text/.*|application/(.*\+)?(xml|javascript|graphql|x-www-form-urlencoded|x-ndjson|yaml|toml)|image/svg\+xml"
)
_JSON_TYPES = re.compile(r"(application|text)/(.*\+)?json")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]+")


async def body_of(
    headers: Mapping[str, str], body: bytes, *, mask: Callable[[str], str], as_bytes: bool = False
) -> Any:
    """The body as a value: JSON where the content type says so, text, or `{"base64": …}` for other bytes, or for all.

    `mask` takes secrets out of what is encoded here, where they could not be found later. Null if there is no body.
    Raises HttpAnswerInvalid for invalid JSON, ValueNotStorable for JSON that cannot be stored,
    ValueTooLarge.
    """
    if not body:
        return None
    kind, charset = _content_type(headers.get("content-type", ""))
    if not as_bytes and _JSON_TYPES.fullmatch(kind):
        return await _json(body, charset)
    if len(body) > VALUE_BYTES_MAX:
        raise ValueTooLarge(f"the answer has {len(body)} bytes, the limit of a value is {VALUE_BYTES_MAX}")
    if not as_bytes and (_TEXT_TYPES.fullmatch(kind) or not kind):
        text = _text(body, charset)
        if text is not None:
            return text
    return {"base64": base64.b64encode(_masked(body, charset, mask)).decode()}


def retry_after_ms(headers: Mapping[str, str], now_ms: int) -> int | None:
    """The Retry-After of the server (seconds or a date) in milliseconds; None if absent."""
    text = headers.get("retry-after", "").strip()
    if text.isascii() and text.isdigit():
        return min(int(text[:12]) * 1_000, DURATION_MS_MAX)
    try:
        at = parsedate_to_datetime(text)
        at = at if at.tzinfo is not None else at.replace(tzinfo=UTC)
        return min(max(0, int(at.timestamp() * 1_000) - now_ms), DURATION_MS_MAX)
    except (ValueError, OverflowError, IndexError, TypeError):
        return None


def reason_of(status: int) -> str:
    """` Not Found`, or nothing for a status that has no name. The server's own words are not repeated."""
    try:
        return f" {HTTPStatus(status).phrase}"
    except ValueError:
        return ""


def excerpt(body: bytes) -> str:
    """`: ` and the beginning of an error page, on one line; nothing if it is not a text."""
    try:
        text = body[: 4 * EXCERPT_MAX].decode("utf-8", "ignore")
    except ValueError:
        return ""
    line = " ".join(_CONTROL.sub(" ", text).split())[:EXCERPT_MAX]
    return f": {line}" if line else ""


def _content_type(header: str) -> tuple[str, str]:
    message = Message()
    message["content-type"] = header[:1_000]
    kind = header.split(";", 1)[0].strip().lower()
    charset = message.get_param("charset")
    return kind, charset.strip().lower() if isinstance(charset, str) else "utf-8"


def _masked(body: bytes, charset: str, mask: Callable[[str], str]) -> bytes:
    """The bytes without the secrets that they have as text, in the declared character set and in UTF-8."""
    declared = _text(body, charset)
    if declared is not None and (masked := mask(declared)) != declared:
        body = masked.encode(charset, "replace")
    text = body.decode("utf-8", "surrogateescape")
    return body if (masked := mask(text)) == text else masked.encode("utf-8", "surrogateescape")


def _text(body: bytes, charset: str) -> str | None:
    if not _CHARSETS.fullmatch(charset):
        return None
    try:
        return body.decode(charset)
    except (UnicodeDecodeError, LookupError):
        return None


async def _json(body: bytes, charset: str) -> Any:
    if len(body) > JSON_BYTES_MAX:
        raise ValueTooLarge(f"the answer has {len(body)} bytes of JSON, the limit of a value is {VALUE_BYTES_MAX}")
    text = body if charset in ("utf-8", "utf8") else _text(body, charset)
    if text is None:
        raise HttpAnswerInvalid(f"the answer is JSON in the character set {charset[:40]!r}, which is not supported")
    try:
        if len(body) <= _JSON_BYTES_AT_ONCE:
            return parse_json(text, what="the answer")
        return await asyncio.to_thread(parse_json, text, "the answer")
    except (BadJson, TooLarge) as refusal:
        raise HttpAnswerInvalid(refusal.message) from None

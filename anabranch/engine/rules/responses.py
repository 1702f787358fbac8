"""HTTP responses that runs give: their status, headers and body, checked so that no value can write a header.

Pure. Called by the type `respond` when it is executed, and again by who sends the response: the output of a node may
have been pinned by a person.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import orjson

from anabranch.dataclass import dataclass
from anabranch.engine.rules.events import Event, EventType
from anabranch.engine.rules.values import Payload

RESPOND_TYPE = "respond"

# 50 headers of 8 KiB in all: what proxies take from a server behind them.
HEADERS_MAX = 50
HEADERS_BYTES_MAX = 8_192

_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", re.ASCII)
_VALUE = re.compile(r"[\t\x20-\x7e]*", re.ASCII)

# Headers that frame the message belong to the server. Cookies, storage and policies belong to its origin, which the
# editor shares.
REFUSED_HEADERS = frozenset(
    {
        "alt-svc",
        "clear-site-data",
        "connection",
        "content-encoding",
        "content-length",
        "content-security-policy",
        "content-security-policy-report-only",
        "date",
        "keep-alive",
        "proxy-authenticate",
        "proxy-connection",
        "public-key-pins",
        "refresh",
        "server",
        "service-worker-allowed",
        "set-cookie",
        "set-cookie2",
        "strict-transport-security",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "x-content-type-options",
    }
)

_WITHOUT_BODY = frozenset({204, 205, 304})


@dataclass(frozen=True, slots=True)
class WebhookResponse:
    """A response as it is sent."""

    status: int
    headers: Mapping[str, str]
    """With `content-type`, if there is a body."""
    body: bytes


def response_of(value: Any) -> WebhookResponse:
    """The response that `{"status", "headers", "body"}` describes: text as it is, any other value as JSON.

    `base64` in place of `body` has the bytes.

    Raises ValueError, which names the header or the status, and never a value.
    """
    if not isinstance(value, dict):
        raise ValueError("a response is an object with status, headers and body")
    status = value.get("status", 200)
    if isinstance(status, bool) or not isinstance(status, int) or not 200 <= status <= 599:
        raise ValueError("status is a whole number from 200 to 599")
    headers = _checked_headers(value.get("headers") or {})
    content = value.get("body")
    if value.get("base64") is not None:
        content = _bytes_of(value["base64"])
    if content is None or status in _WITHOUT_BODY:
        headers.pop("content-type", None)
        return WebhookResponse(status, headers, b"")
    if isinstance(content, bytes):
        headers.setdefault("content-type", "application/octet-stream")
        return WebhookResponse(status, headers, content)
    if isinstance(content, str):
        headers.setdefault("content-type", "text/plain; charset=utf-8")
        return WebhookResponse(status, headers, content.encode(errors="replace"))
    headers.setdefault("content-type", "application/json")
    return WebhookResponse(status, headers, orjson.dumps(content))


def _bytes_of(written: Any) -> bytes:
    try:
        return base64.b64decode(written, validate=True)
    except (TypeError, ValueError):
        raise ValueError("base64 has to be text that is base64") from None


def _checked_headers(given: Any) -> dict[str, str]:
    if not isinstance(given, dict):
        raise ValueError("headers is an object of names and values")
    checked: dict[str, str] = {}
    for name, value in given.items():
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise ValueError(f"{str(name)[:40]!r} is not a valid header name")
        lower = name.lower()
        if lower in REFUSED_HEADERS:
            raise ValueError(f"the header {name} cannot be set by a run")
        if lower in checked:
            raise ValueError(f"the header {name} is given twice")
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise ValueError(f"the value of the header {name} is text or a number")
        text = str(value).strip(" \t")
        if not _VALUE.fullmatch(text):
            raise ValueError(f"the header {name} has a line break or another character that is not printable ASCII")
        checked[lower] = text
    if len(checked) > HEADERS_MAX or sum(len(name) + len(text) for name, text in checked.items()) > HEADERS_BYTES_MAX:
        raise ValueError(f"there are more than {HEADERS_MAX} headers, or more than {HEADERS_BYTES_MAX} bytes of them")
    return checked


def first_output(events: Iterable[Event], node_ids: Collection[str]) -> Payload | None:
    """The first output of these nodes among some rows of a log."""
    completed = (each for each in events if each.type is EventType.NODE_COMPLETED and each.node_id in node_ids)
    found = next(completed, None)
    return None if found is None else found.payload

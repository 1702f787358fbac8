"""HTTP headers: check those that tenants send, and read those of responses.

Pure. Called by `guarded_client` and `exchange`. Only the client writes headers that frame a message or name its host: a
tenant who could write them could smuggle in a second request.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from anabranch.errors import HttpRefused

# 16 KiB of headers and 100 of them: what servers commonly take.
HEADERS_BYTES_MAX = 16_384
HEADERS_MAX = 100

_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_CONTROL = re.compile("[\x00-\x08\x0a-\x1f\x7f\ud800-\udfff]")

_CLIENTS_OWN = frozenset(
    {
        "accept-encoding",
        "connection",
        "content-length",
        "expect",
        "host",
        "keep-alive",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)


def check_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """The headers by lower-case name. Raises HttpRefused, naming the header and never its value."""
    checked: dict[str, str] = {}
    for name, value in headers.items():
        lower = name.lower()
        if not _NAME.fullmatch(name):
            raise HttpRefused(f"{name[:40]!r} is not a valid header name")
        if lower in _CLIENTS_OWN:
            raise HttpRefused(f"the header {name} is written by the client itself", hint="Leave it out.")
        if lower in checked:
            raise HttpRefused(f"the header {name} is given twice")
        if _CONTROL.search(value):
            raise HttpRefused(f"the header {name} has a line break or another control character in its value")
        checked[lower] = value.strip(" \t")
    size = sum(len(name) + len(value.encode()) for name, value in checked.items())
    if len(checked) > HEADERS_MAX or size > HEADERS_BYTES_MAX:
        raise HttpRefused(f"there are more than {HEADERS_MAX} headers, or more than {HEADERS_BYTES_MAX} bytes of them")
    return checked


def received_headers(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """An answer's headers by lower-case name, repeated ones joined by `, `, as text that can be stored."""
    received: dict[str, str] = {}
    for name, value in pairs:
        lower = name.lower()
        # Bytes that are not UTF-8 arrive as lone surrogates, which no database takes.
        text = value.encode("utf-8", "surrogateescape").decode("utf-8", "replace").replace("\x00", "\ufffd")
        received[lower] = f"{received[lower]}, {text}" if lower in received else text
    return received

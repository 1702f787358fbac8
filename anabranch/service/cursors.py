"""Cursors: opaque texts that say where a page of a list ended.

Called by every API that lists. A cursor is a position in the order of the list, not a
number of rows: the next page begins right after the last one, whatever was inserted or removed meanwhile.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from anabranch.engine.rules.instants import from_iso
from anabranch.errors import InvalidRequest

# 512 characters: a name of 64, or a time and an id, take far less; a longer text is not one of our cursors.
CURSOR_CHARACTERS_MAX = 512

_SEPARATOR = "\x1f"

T = TypeVar("T")


def make_cursor(kind: str, *position: str | int) -> str:
    """Encode a position in a list of this kind."""
    text = _SEPARATOR.join((kind, *map(str, position)))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def read_cursor(kind: str, cursor: str, *, parts: int) -> tuple[str, ...]:
    """Decode a cursor of this kind. Raises InvalidRequest for any other text."""
    decoded = _decoded(cursor) if len(cursor) <= CURSOR_CHARACTERS_MAX else ()
    if len(decoded) != parts + 1 or decoded[0] != kind:
        raise _no_cursor()
    return decoded[1:]


def read_number(text: str) -> int:
    """Read a number in a cursor, 0 to 2^53. Raises InvalidRequest."""
    if not (text.isascii() and text.isdecimal() and len(text) <= 16 and int(text) <= 2**53):
        raise _no_cursor()
    return int(text)


def run_cursor(run: Mapping[str, Any]) -> str:
    """The cursor of a run in the list of runs."""
    return make_cursor("runs", from_iso(run["createdAt"]), run["instanceID"])


def read_run_cursor(cursor: str | None) -> tuple[int, str] | None:
    """The creation time and id in such a cursor; None without a cursor. Raises InvalidRequest."""
    if cursor is None:
        return None
    created_at, instance_id = read_cursor("runs", cursor, parts=2)
    return read_number(created_at), instance_id


def cut(found: list[T], limit: int, cursor_after: Callable[[T], str]) -> tuple[list[T], str | None]:
    """Split `limit + 1` rows that were read into a page and the cursor of the next one."""
    if len(found) <= limit:
        return found, None
    return found[:limit], cursor_after(found[limit - 1])


def _decoded(cursor: str) -> tuple[str, ...]:
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        return tuple(base64.b64decode(padded, altchars=b"-_", validate=True).decode().split(_SEPARATOR))
    except (binascii.Error, ValueError):
        return ()


def _no_cursor() -> InvalidRequest:
    message = "invalid cursor"
    return InvalidRequest(
        message,
        hint="Copy `nextCursor` from the previous page, or leave the cursor out.",
        details=[{"code": "BAD_CURSOR", "pointer": "/cursor", "message": message}],
    )

"""Frames between the service and a driver process. Imported on both sides.

A frame is four bytes of length, big-endian, one byte for its kind, and a body in JSON. The service sends a `TARGET`
first and then `CHECK` and `RUN`, one at a time. The process answers each with `STARTED`, any number of `ROWS`, and
`DONE` or `FAILED`.
"""

from __future__ import annotations

import struct
from enum import IntEnum

HEAD = struct.Struct("!IB")


class Kind(IntEnum):
    """The kind of a frame."""

    TARGET = 1
    """The database to connect to."""
    CHECK = 2
    """Connect, look at the role, and disconnect."""
    RUN = 3
    """Run a query: a `QueryRequest`."""
    STARTED = 4
    """Connected, and the role is fit: the time of the query begins."""
    ROWS = 5
    """A list of rows."""
    DONE = 6
    """`{"rowCount", "reusable"}`: the process can take the next request, or is about to exit."""
    FAILED = 7
    """`{"failure", "reusable"}`."""


def frame(kind: Kind, body: bytes) -> bytes:
    """A body with its head."""
    return HEAD.pack(len(body), kind) + body

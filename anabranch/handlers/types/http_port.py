"""What whoever sends requests gives back: the part of the egress client's answers that node types look at.

Known by the ports of `http_request` and of the sandbox, whose JavaScript may fetch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol


class HttpAnswer(Protocol):
    """An answer, whole and decompressed."""

    @property
    def status(self) -> int:
        """200 and so on."""

    @property
    def headers(self) -> Mapping[str, str]:
        """By lower-case name."""

    @property
    def body(self) -> bytes:
        """The bytes of it."""

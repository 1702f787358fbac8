"""Ports of this package: a guard on hosts, a cipher for secrets, a reader of secrets.

Implemented in `anabranch.egress` and `anabranch.secrets`, or by a test; passed in by the app.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol


class HostGuard(Protocol):
    """Says which hosts may be reached from here."""

    def check(self, host: str, port: int) -> Sequence[str]:
        """The addresses to connect to, and to no others. Blocks while the name is resolved.

        Raises EgressRefused for a host that may not be reached, HttpUnreachable where the name does
        not resolve.
        """


class UrlCipher(Protocol):
    """Encrypts texts at rest, bound to a tenant and a row."""

    def seal(self, *, tenant: str, row: str, text: str) -> bytes:
        """The sealed text."""

    def open(self, *, tenant: str, row: str, sealed: bytes) -> str:
        """The text. Raises if it was sealed for another tenant or row, or with another key."""


class UrlSecretReader(Protocol):
    """Reads stored secrets by name."""

    async def read(self, tenant_id: str, names: Collection[str]) -> Mapping[str, str]:
        """The values of all these secrets. Raises, naming those that the tenant does not have."""

"""Rotated refresh tokens, encrypted: such a service accepts each refresh token once and returns the next.

Read and written by `httpRequest` through a port of the handlers. A grant is what was entered; entering another refresh
token, or another key of the secrets, begins a grant of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from anabranch.errors import SecretKeyMissing
from anabranch.secrets.cipher import SecretCipher

# 90 seconds: a service has 60 to answer, and the database has the rest. It is the pause after a process that renewed
# has died.
HOLD_MS = 90_000

_PURPOSE = b"renewed token"


class RenewedRows(Protocol):
    """The rows; the caller encrypts."""

    async def find(self, tenant_id: str, grant_id: str) -> bytes | None:
        """The sealed tokens."""

    async def hold(self, tenant_id: str, grant_id: str, holder: str, *, hold_ms: int) -> int | None:
        """The version that this holder may renew; None: another one does."""

    async def keep(self, tenant_id: str, grant_id: str, version: int, sealed: bytes) -> None:
        """Store what a renewal gave."""

    async def drop(self, tenant_id: str, grant_id: str, holder: str) -> None:
        """End the hold without a result."""


class RenewedTokens:
    """The port `TokenStore` on a database. Its methods raise SecretKeyMissing where there is no key."""

    def __init__(self, rows: RenewedRows, find_cipher: Callable[[], SecretCipher | None]) -> None:
        self._rows = rows
        self._find_cipher = find_cipher

    async def read(self, tenant_id: str, grant: str) -> str | None:
        """The tokens of the last renewal."""
        cipher, grant_id = self._with_key(grant)
        sealed = await self._rows.find(tenant_id, grant_id)
        return None if sealed is None else cipher.open(tenant=tenant_id, row=_row(grant_id), sealed=sealed)

    async def hold(self, tenant_id: str, grant: str, holder: str) -> int | None:
        """The version that this holder may renew; None: another one does."""
        return await self._rows.hold(tenant_id, self._with_key(grant)[1], holder, hold_ms=HOLD_MS)

    async def keep(self, tenant_id: str, grant: str, version: int, text: str) -> None:
        """Store what a renewal gave, and end the hold."""
        cipher, grant_id = self._with_key(grant)
        sealed = cipher.seal(tenant=tenant_id, row=_row(grant_id), text=text)
        await self._rows.keep(tenant_id, grant_id, version, sealed)

    async def drop(self, tenant_id: str, grant: str, holder: str) -> None:
        """End the hold without a result."""
        await self._rows.drop(tenant_id, self._with_key(grant)[1], holder)

    def _with_key(self, grant: str) -> tuple[SecretCipher, str]:
        cipher = self._find_cipher()
        if cipher is None:
            raise SecretKeyMissing("there is no key to encrypt renewed tokens with")
        return cipher, cipher.mac(_PURPOSE, grant.encode()).hex()


def _row(grant_id: str) -> str:
    return f"renewed token {grant_id}"

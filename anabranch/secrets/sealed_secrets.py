"""Stored secrets, and the port to their store.

The interface between `secret_store`, which encrypts and decrypts them, and the module that stores them
(`store/secrets`). Values of secrets never appear here, only sealed bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from anabranch.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class SealedSecret:
    """A secret as it is stored."""

    name: str
    version: int
    key_id: str
    sealed: bytes
    created_at: int
    updated_at: int


class SecretRows(Protocol):
    """The rows of the secrets; the caller encrypts. What an `actor` does is on record in the same transaction."""

    async def put_secret(
        self, *, tenant_id: str, name: str, seal: Callable[[int], tuple[str, bytes]], actor: str | None = None
    ) -> SealedSecret:
        """Write the next version, 1 if there is none: `seal` gets its number and returns key id and bytes.

        Concurrent writers get different numbers; the later one remains.
        """

    async def get_secrets(self, *, tenant_id: str, names: Sequence[str]) -> Sequence[SealedSecret]:
        """Those of these names that exist."""

    async def list_secrets(self, *, tenant_id: str) -> Sequence[SealedSecret]:
        """All of a tenant's, by name."""

    async def delete_secret(self, *, tenant_id: str, name: str, actor: str | None = None) -> bool:
        """Remove one; False if there was none."""

    async def secret_key_ids(self) -> Sequence[str]:
        """The keys that any tenant's secrets are encrypted with."""

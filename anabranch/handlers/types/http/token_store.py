"""The port for refresh tokens that services rotate, and a store in memory.

Implemented by the store of renewed tokens. What it keeps is opaque to it.
"""

from __future__ import annotations

from typing import Protocol

# 1,000 grants, as the tokens of a process: beyond them the one that was renewed first is forgotten.
_GRANTS_MAX = 1_000


class TokenStore(Protocol):
    """Keeps what a renewal gave, and lets one renew at a time: in all processes."""

    async def read(self, tenant_id: str, grant: str) -> str | None:
        """The tokens of the last renewal of this grant."""

    async def hold(self, tenant_id: str, grant: str, holder: str) -> int | None:
        """The version that this holder may renew; None: another one does."""

    async def keep(self, tenant_id: str, grant: str, version: int, text: str) -> None:
        """Store what a renewal of this version gave, and end the hold."""

    async def drop(self, tenant_id: str, grant: str, holder: str) -> None:
        """End the hold without a result."""


class TokensInMemory:
    """For processes without a database: what a service replaced lasts as long as they do."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str], tuple[int, str]] = {}
        self._holders: dict[tuple[str, str], str] = {}

    async def read(self, tenant_id: str, grant: str) -> str | None:
        """The tokens of the last renewal of this grant."""
        return self._kept.get((tenant_id, grant), (0, None))[1]

    async def hold(self, tenant_id: str, grant: str, holder: str) -> int | None:
        """The version that this holder may renew; None: another one does."""
        if (tenant_id, grant) in self._holders:
            return None
        self._holders[tenant_id, grant] = holder
        return self._kept.get((tenant_id, grant), (0, ""))[0]

    async def keep(self, tenant_id: str, grant: str, version: int, text: str) -> None:
        """Store what a renewal of this version gave, and end the hold."""
        self._kept[tenant_id, grant] = version + 1, text
        if len(self._kept) > _GRANTS_MAX:
            del self._kept[next(iter(self._kept))]
        self._holders.pop((tenant_id, grant), None)

    async def drop(self, tenant_id: str, grant: str, holder: str) -> None:
        """End the hold without a result."""
        if self._holders.get((tenant_id, grant)) == holder:
            del self._holders[tenant_id, grant]

"""API keys as stored, and the port to the store.

The interface between `access`, which creates and checks keys, and `key_table`, which stores them. A key itself is
never here: only its SHA-256.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Protocol

from anabranch.audit.audit_trail import AuditEntry
from anabranch.dataclass import dataclass
from anabranch.engine.rules.instants import to_iso, to_iso_or_none


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key as it is stored; times are milliseconds since the epoch."""

    key_id: str
    tenant_id: str
    role: str
    """As stored: readers reject an unknown role."""
    digest: str
    """SHA-256 of the key, in hexadecimal digits."""
    created_at: int
    created_by: str
    last_used_at: int | None = None
    expires_at: int | None = None
    revoked_at: int | None = None
    pools: str | None = None
    """Of a key of an executor: its pools, separated by commas."""


class ApiKeyRows(Protocol):
    """Keeps the keys. What changes one is written to the audit trail in the same transaction."""

    async def add_key(self, key: ApiKey, *, entry: AuditEntry, active_max: int) -> ApiKey | None:
        """Write a key; its `created_at` is the store's clock. None if the tenant has that many active keys already."""

    async def find_key(self, digest: str) -> ApiKey | None:
        """The key with this hash, if it is neither revoked nor expired by the store's clock."""

    async def valid_key_ids(self, key_ids: Collection[str]) -> set[str]:
        """Those of these keys that are neither revoked nor expired: one statement."""

    async def any_key(self) -> bool:
        """Whether there is a key that is neither revoked nor expired."""

    async def list_keys(self, *, tenant_id: str | None, limit: int) -> Sequence[ApiKey]:
        """The newest first, revoked ones too; of one tenant, or (None) of everybody."""

    async def revoke_key(self, key_id: str, *, tenant_id: str | None, entry: AuditEntry) -> ApiKey | None:
        """Revoke a key and return it; None if there is none. An already revoked key is not changed.

        `entry` is written for the key's own tenant, and only if something changed.
        """

    async def touch_key(self, key_id: str, *, pause_ms: int) -> None:
        """Write that the key was used now, unless that was written less than `pause_ms` ago."""


def key_as_json(key: ApiKey) -> dict[str, Any]:
    """An API key without the key itself."""
    times = {"lastUsedAt": key.last_used_at, "expiresAt": key.expires_at, "revokedAt": key.revoked_at}
    return {
        "keyID": key.key_id,
        "tenant": key.tenant_id or "*",
        "role": key.role,
        "pools": None if key.pools is None else key.pools.split(","),
        "createdAt": to_iso(key.created_at),
        "createdBy": key.created_by,
        **{name: to_iso_or_none(at) for name, at in times.items()},
    }

"""The rows of the API keys: a hash, a tenant and a role each.

Handed by the composition root to `keys/access`, which makes and checks the keys. Shares the
database threads of the store that it is built on. What changes a key is recorded in the same transaction.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict, replace

from sqlalchemy import ColumnElement, Connection, and_, func, insert, or_, select, update

from anabranch.audit.audit_recording import record
from anabranch.audit.audit_trail import AuditEntry
from anabranch.engine.store.sql.component import SqlComponent
from anabranch.keys.api_keys import ApiKey
from anabranch.keys.key_schema import api_keys

_COLUMNS = list(api_keys.c)


class KeyTable:
    """`api_keys.ApiKeyRows` on a SQL store."""

    def __init__(self, store: SqlComponent) -> None:
        self._store = store

    async def add_key(self, key: ApiKey, *, entry: AuditEntry, active_max: int) -> ApiKey | None:
        """The key as it was written, and its audit row; None if the tenant has `active_max` active keys already."""
        dialect = self._store.dialect

        def add(connection: Connection) -> ApiKey | None:
            """Check the limit, insert the key and its audit row, in one transaction."""
            now = dialect.now(connection)
            # Counted before the head is locked: two concurrent calls may exceed the limit by one, which does no
            # harm.
            active = select(func.count()).where(api_keys.c.tenant_id == key.tenant_id, _is_active(now))
            if connection.execute(active).scalar_one() >= active_max:
                return None
            written = replace(key, created_at=now)
            connection.execute(insert(api_keys).values(asdict(written)))
            record(connection, entry, now=now)
            return written

        return await self._store.transact(add)

    async def find_key(self, digest: str) -> ApiKey | None:
        """Uses ux_api_key_digest."""

        def find(connection: Connection) -> ApiKey | None:
            query = select(*_COLUMNS).where(api_keys.c.digest == digest, self._is_active_now(connection))
            found = connection.execute(query).one_or_none()
            return None if found is None else ApiKey(*found)

        return await self._store.read(find)

    async def valid_key_ids(self, key_ids: Collection[str]) -> set[str]:
        """Uses the primary key."""

        def look(connection: Connection) -> set[str]:
            query = select(api_keys.c.key_id).where(
                api_keys.c.key_id.in_(list(key_ids)), self._is_active_now(connection)
            )
            return set(connection.execute(query).scalars())

        return await self._store.read(look)

    async def any_key(self) -> bool:
        """A scan up to the first active key."""

        def look(connection: Connection) -> bool:
            query = select(api_keys.c.key_id).where(self._is_active_now(connection)).limit(1)
            return connection.execute(query).first() is not None

        return await self._store.read(look)

    async def list_keys(self, *, tenant_id: str | None, limit: int) -> Sequence[ApiKey]:
        """Uses ix_api_key_tenant with a tenant."""
        query = select(*_COLUMNS).order_by(api_keys.c.created_at.desc(), api_keys.c.key_id.desc()).limit(limit)
        if tenant_id is not None:
            query = query.where(api_keys.c.tenant_id == tenant_id)
        return await self._store.read(lambda connection: [ApiKey(*row) for row in connection.execute(query)])

    async def revoke_key(self, key_id: str, *, tenant_id: str | None, entry: AuditEntry) -> ApiKey | None:
        """Revoke a key. If two do so at once, one writes, and the other finds it revoked."""
        dialect = self._store.dialect
        which = api_keys.c.key_id == key_id
        if tenant_id is not None:
            which = and_(which, api_keys.c.tenant_id == tenant_id)

        def revoke(connection: Connection) -> ApiKey | None:
            """Revoke the locked key and record it; a key that was revoked before stays as it is."""
            now = dialect.now(connection)
            query = select(*_COLUMNS).where(which).with_for_update()
            found = connection.execute(query).one_or_none()
            key = None if found is None else ApiKey(*found)
            if key is None or key.revoked_at is not None:
                return key
            connection.execute(update(api_keys).where(which).values(revoked_at=now))
            record(connection, replace(entry, tenant_id=key.tenant_id), now=now)
            return replace(key, revoked_at=now)

        return await self._store.transact(revoke)

    async def touch_key(self, key_id: str, *, pause_ms: int) -> None:
        """Note that the key is used now, unless that was noted in the last `pause_ms` milliseconds."""
        dialect, last = self._store.dialect, api_keys.c.last_used_at

        def touch(connection: Connection) -> None:
            now = dialect.now(connection)
            is_due = or_(last.is_(None), last <= now - pause_ms)
            connection.execute(update(api_keys).where(api_keys.c.key_id == key_id, is_due).values(last_used_at=now))

        await self._store.write(touch)

    def _is_active_now(self, connection: Connection) -> ColumnElement[bool]:
        return _is_active(self._store.dialect.now(connection))


def _is_active(now: int) -> ColumnElement[bool]:
    expires_at = api_keys.c.expires_at
    return and_(api_keys.c.revoked_at.is_(None), or_(expires_at.is_(None), expires_at > now))

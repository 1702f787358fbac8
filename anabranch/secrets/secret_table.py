"""The rows of the secrets: sealed bytes by tenant and name.

Stores them encrypted; only `secret_store` can decrypt them. Shares the database threads
of the store that it is built on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from sqlalchemy import Connection, Select, delete, insert, select, update

from anabranch.audit.audit_recording import record_audit_event
from anabranch.engine.store.sql.component import SqlComponent
from anabranch.secrets.sealed_secrets import SealedSecret
from anabranch.secrets.secret_schema import secrets

Seal = Callable[[int], tuple[str, bytes]]


class SecretTable:
    """`ports.SecretRows` on a SQL store."""

    def __init__(self, store: SqlComponent) -> None:
        self._store = store

    async def put_secret(self, *, tenant_id: str, name: str, seal: Seal, actor: str | None = None) -> SealedSecret:
        """The secret as it was written, as version 1 or the next one, and recorded with its audit row."""

        def put(connection: Connection) -> SealedSecret:
            now = self._store.dialect.now(connection)
            written = _put(connection, tenant_id=tenant_id, name=name, seal=seal, now=now)
            details = {"version": written.version}
            record_audit_event(
                connection, actor, "secret.set", tenant_id=tenant_id, target=name, details=details, now=now
            )
            return written

        # If somebody wrote version 1 since it was looked for, it is there to be locked.
        return await self._store.transact(put, repeat_duplicate=True)

    async def get_secrets(self, *, tenant_id: str, names: Sequence[str]) -> Sequence[SealedSecret]:
        """Those of these names that the tenant has, sealed; the others are left out."""
        query = _of_tenant(tenant_id).where(secrets.c.name.in_(names))
        return await self._store.read(lambda connection: _rows(connection, query))

    async def list_secrets(self, *, tenant_id: str) -> Sequence[SealedSecret]:
        """All of the tenant's, sealed, in the order of code points of their names."""
        found = await self._store.read(lambda connection: _rows(connection, _of_tenant(tenant_id)))
        return sorted(found, key=lambda row: row.name)  # databases do not agree on the order of texts

    async def delete_secret(self, *, tenant_id: str, name: str, actor: str | None = None) -> bool:
        """Remove a secret, and record it; False if the tenant has none of this name."""
        statement = delete(secrets).where(secrets.c.tenant_id == tenant_id, secrets.c.name == name)

        def remove(connection: Connection) -> bool:
            if not connection.execute(statement).rowcount:
                return False
            now = self._store.dialect.now(connection)
            record_audit_event(
                connection, actor, "secret.deleted", tenant_id=tenant_id, target=name, details={}, now=now
            )
            return True

        return await self._store.transact(remove)

    async def secret_key_ids(self) -> Sequence[str]:
        """A scan, of a table that people fill by hand."""
        query = select(secrets.c.key_id).distinct()
        return await self._store.read(lambda connection: sorted(connection.execute(query).scalars()))


def _put(connection: Connection, *, tenant_id: str, name: str, seal: Seal, now: int) -> SealedSecret:
    # FOR UPDATE: writers of one secret come one after the other (SQLite has one writer anyway).
    conditions = (secrets.c.tenant_id == tenant_id, secrets.c.name == name)
    found = connection.execute(
        select(secrets.c.version, secrets.c.created_at).where(*conditions).with_for_update()
    ).first()
    version, created_at = (1, now) if found is None else (found.version + 1, found.created_at)
    key_id, sealed = seal(version)
    values = {"version": version, "key_id": key_id, "sealed": sealed, "updated_at": now}
    if found is None:
        connection.execute(insert(secrets).values(tenant_id=tenant_id, name=name, created_at=now, **values))
    else:
        connection.execute(update(secrets).where(*conditions).values(**values))
    return SealedSecret(name, version, key_id, sealed, created_at, now)


def _of_tenant(tenant_id: str) -> Select[Any]:
    columns = secrets.c
    return select(
        columns.name, columns.version, columns.key_id, columns.sealed, columns.created_at, columns.updated_at
    ).where(columns.tenant_id == tenant_id)


def _rows(connection: Connection, query: Select[Any]) -> list[SealedSecret]:
    return [SealedSecret(*row) for row in connection.execute(query)]

"""The rows of the audit trail, to be read, and one to be added by itself.

Shares the threads of the store that it is built on. What is recorded with a change is written by `audit_recording`.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import select

from anabranch.audit.audit_recording import THE_HEAD, record
from anabranch.audit.audit_schema import audit_head, audit_log
from anabranch.audit.audit_trail import CUT, NO_HASH, AuditEntry, AuditHead, AuditRow
from anabranch.engine.store.sql.component import SqlComponent

_COLUMNS = list(audit_log.c)


class AuditTable:
    """`audit_trail.AuditRows` on a SQL store."""

    def __init__(self, store: SqlComponent) -> None:
        self._store = store

    async def append(self, entry: AuditEntry) -> AuditRow:
        """The row as it was written, with its position and hash; one transaction. Raises StoreUnavailable."""
        return await self._store.transact(
            lambda connection: record(connection, entry, now=self._store.dialect.now(connection))
        )

    async def list_rows(self, *, tenant_id: str | None, limit: int, before: int | None) -> Sequence[AuditRow]:
        """Uses ix_audit_tenant, or without a tenant the primary key."""
        query = select(*_COLUMNS).order_by(audit_log.c.position.desc()).limit(limit)
        if tenant_id is not None:
            query = query.where(audit_log.c.tenant_id == tenant_id)
        if before is not None:
            query = query.where(audit_log.c.position < before)
        return await self._store.read(lambda connection: [AuditRow(*row) for row in connection.execute(query)])

    async def rows_after(self, position: int, *, limit: int) -> Sequence[AuditRow]:
        """Uses the primary key."""
        query = select(*_COLUMNS).where(audit_log.c.position > position).order_by(audit_log.c.position).limit(limit)
        return await self._store.read(lambda connection: [AuditRow(*row) for row in connection.execute(query)])

    async def last_cut(self) -> AuditRow | None:
        """Reads the trail from its end."""
        query = select(*_COLUMNS).where(audit_log.c.action == CUT).order_by(audit_log.c.position.desc()).limit(1)
        found = await self._store.read(lambda connection: connection.execute(query).one_or_none())
        return None if found is None else AuditRow(*found)

    async def head(self) -> AuditHead:
        """Position and hash of the newest row; position 0 if there is none."""
        query = select(audit_head.c.position, audit_head.c.hash).where(THE_HEAD)
        found = await self._store.read(lambda connection: connection.execute(query).one_or_none())
        return AuditHead(0, NO_HASH) if found is None else AuditHead(*found)

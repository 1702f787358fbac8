"""The rows of the audit trail, and the head of their chain.

Handed by the composition root to `service/audit_log`; `keys`, `secrets`, `data_queries` and
`definitions` call `record` or `record_audit_event` inside their own transactions. Nothing here changes a
row; `upkeep` removes the oldest ones (`trim_trail`), which is on record too. Shares the lanes of the store that it is
built on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import takewhile
from typing import Any

from sqlalchemy import Connection, delete, insert, select, text, update

from anabranch.engine.records.audit_trail import CUT, NO_HASH, AuditEntry, AuditHead, AuditRow, chained, cut_entry
from anabranch.engine.store.schema import audit_head, audit_log
from anabranch.engine.store.sql.component import SqlComponent

_COLUMNS = list(audit_log.c)

# The table of heads has this one row.
_THE_HEAD = audit_head.c.chain == 1

_FIRST_HEAD = text("INSERT INTO audit_head (chain, position, hash) VALUES (1, 0, '') ON CONFLICT DO NOTHING")


class AuditTable:
    """`audit_trail.AuditRows` on a SQL store."""

    def __init__(self, store: SqlComponent) -> None:
        self._store = store

    async def append(self, entry: AuditEntry) -> AuditRow:
        """See `AuditRows.append`."""

        def write(connection: Connection) -> AuditRow:
            with self._store.dialect.transaction(connection):
                return record(connection, entry, now=self._store.dialect.now(connection))

        return await self._store.write(write)

    async def list_rows(self, *, tenant_id: str | None, limit: int, before: int | None) -> Sequence[AuditRow]:
        """See `AuditRows.list_rows`. Uses ix_audit_tenant, or without a tenant the primary key."""
        query = select(*_COLUMNS).order_by(audit_log.c.position.desc()).limit(limit)
        if tenant_id is not None:
            query = query.where(audit_log.c.tenant_id == tenant_id)
        if before is not None:
            query = query.where(audit_log.c.position < before)
        return await self._store.read(lambda connection: [AuditRow(*row) for row in connection.execute(query)])

    async def rows_after(self, position: int, *, limit: int) -> Sequence[AuditRow]:
        """See `AuditRows.rows_after`. Uses the primary key."""
        query = select(*_COLUMNS).where(audit_log.c.position > position).order_by(audit_log.c.position).limit(limit)
        return await self._store.read(lambda connection: [AuditRow(*row) for row in connection.execute(query)])

    async def last_cut(self) -> AuditRow | None:
        """See `AuditRows.last_cut`. Reads the trail from its end."""
        query = select(*_COLUMNS).where(audit_log.c.action == CUT).order_by(audit_log.c.position.desc()).limit(1)
        found = await self._store.read(lambda connection: connection.execute(query).one_or_none())
        return None if found is None else AuditRow(*found)

    async def head(self) -> AuditHead:
        """See `AuditRows.head`."""
        query = select(audit_head.c.position, audit_head.c.hash).where(_THE_HEAD)
        found = await self._store.read(lambda connection: connection.execute(query).one_or_none())
        return AuditHead(0, NO_HASH) if found is None else AuditHead(*found)


def record(connection: Connection, entry: AuditEntry, *, now: int) -> AuditRow:
    """Write the next row inside the caller's transaction.

    Holds the head until that ends, so that writers come one after the other: call it last of all
    that may wait.
    """
    head = _locked_head(connection)
    row = chained(entry, head=head, at=now)
    connection.execute(insert(audit_log).values(asdict(row)))
    connection.execute(update(audit_head).where(_THE_HEAD).values(position=row.position, hash=row.hash))
    return row


def record_audit_event(
    connection: Connection,
    actor: str | None,
    action: str,
    *,
    tenant_id: str,
    target: str,
    details: Mapping[str, Any],
    now: int,
) -> None:
    """The same for what somebody did, if it is known who; what the program does by itself is not on record."""
    if actor is not None:
        record(connection, AuditEntry(tenant_id, actor, action, target, details), now=now)


def trim_trail(connection: Connection, *, before: int, every_ms: int, limit: int, now: int) -> int:
    """Remove the oldest rows, those before a time and at most so many; how many.

    The next row records where the trail was cut, with the hash of the last row that went: the chain goes on from there.
    Nothing is cut before the oldest row is `every_ms` older than it had to become. Inside the caller's transaction.
    """
    oldest = select(audit_log.c.position, audit_log.c.at, audit_log.c.hash).order_by(audit_log.c.position)
    rows = list(takewhile(lambda row: row.at < before, connection.execute(oldest.limit(limit))))
    if not rows or rows[0].at >= before - every_ms:
        return 0
    last = rows[-1]
    connection.execute(delete(audit_log).where(audit_log.c.position <= last.position))
    record(connection, cut_entry(AuditHead(last.position, last.hash), rows=len(rows)), now=now)
    return len(rows)


def _locked_head(connection: Connection) -> AuditHead:
    query = select(audit_head.c.position, audit_head.c.hash).where(_THE_HEAD).with_for_update()
    found = connection.execute(query).one_or_none()
    if found is None:
        # The first row of all. Whoever else writes a first row now is waited for, and its head is found.
        connection.execute(_FIRST_HEAD)
        found = connection.execute(query).one()
    return AuditHead(*found)

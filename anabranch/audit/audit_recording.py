"""Rows of the audit trail, written and trimmed inside the transaction of what they record.

Called by the tables of keys, secrets, queries and triggers and by the store, each on its own connection.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from itertools import takewhile
from typing import Any

from sqlalchemy import Connection, delete, insert, select, text, update

from anabranch.audit.audit_schema import audit_head, audit_log
from anabranch.audit.audit_trail import AuditEntry, AuditHead, AuditRow, chained, cut_entry

# The table of heads has this one row.
THE_HEAD = audit_head.c.chain == 1

_FIRST_HEAD = text("INSERT INTO audit_head (chain, position, hash) VALUES (1, 0, '') ON CONFLICT DO NOTHING")


def record(connection: Connection, entry: AuditEntry, *, now: int) -> AuditRow:
    """Write the next row inside the caller's transaction.

    Holds the head until that ends, so that writers come one after the other: call it last of all
    that may wait.
    """
    head = _locked_head(connection)
    row = chained(entry, head=head, at=now)
    connection.execute(insert(audit_log).values(asdict(row)))
    connection.execute(update(audit_head).where(THE_HEAD).values(position=row.position, hash=row.hash))
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
    """Record an action with a known actor; actions of the program itself are not recorded."""
    if actor is not None:
        record(connection, AuditEntry(tenant_id, actor, action, target, details), now=now)


def trim_trail(connection: Connection, *, before: int, every_ms: int, limit: int, now: int) -> int:
    """Remove the oldest rows, before a time and at most `limit`; returns how many.

    The next row records the cut with the hash of the last removed row, from which the chain continues. Nothing is
    removed until the oldest row is `every_ms` past its retention. Inside the caller's transaction.
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
    query = select(audit_head.c.position, audit_head.c.hash).where(THE_HEAD).with_for_update()
    found = connection.execute(query).one_or_none()
    if found is None:
        # The first row of all. Another writer of a first row is waited for, and its head is found.
        connection.execute(_FIRST_HEAD)
        found = connection.execute(query).one()
    return AuditHead(*found)

"""The tables of the audit trail: its rows, and the head of their chain."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Index, Integer, PrimaryKeyConstraint, Table, Text

from anabranch.engine.store.columns import metadata

# Rows are only added. Each hash covers the one before; the head tells where the chain ends.
audit_log = Table(
    "audit_log",
    metadata,
    Column("position", BigInteger, nullable=False, autoincrement=False),
    Column("tenant_id", Text, nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("actor", Text, nullable=False),
    Column("action", Text, nullable=False),
    Column("target", Text, nullable=False),
    # Text, not JSON: the hash is of these very characters.
    Column("details", Text, nullable=False),
    Column("hash", Text, nullable=False),
    PrimaryKeyConstraint("position", name="pk_audit_log"),
)


Index("ix_audit_tenant", audit_log.c.tenant_id, audit_log.c.position)


audit_head = Table(
    "audit_head",
    metadata,
    Column("chain", Integer, nullable=False, autoincrement=False),
    Column("position", BigInteger, nullable=False),
    Column("hash", Text, nullable=False),
    PrimaryKeyConstraint("chain", name="pk_audit_head"),
)

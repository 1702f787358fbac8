"""The table of dead letters."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Index, Integer, PrimaryKeyConstraint, Table, Text

from anabranch.engine.store.columns import metadata

# As the message says it, which may be anything: so the ids are text.
dead_letters = Table(
    "dead_letters",
    metadata,
    Column("letter_id", Text, nullable=False),
    Column("tenant_id", Text, nullable=False),
    Column("instance_id", Text, nullable=False),
    Column("node_id", Text, nullable=False),
    Column("scope", Text, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("queue", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("count", Integer, nullable=False),
    Column("first_at", BigInteger, nullable=False),
    Column("last_at", BigInteger, nullable=False),
    PrimaryKeyConstraint("letter_id", name="pk_dead_letters"),
)

Index("ix_dead_letter_time", dead_letters.c.last_at)

Index("ix_dead_letter_run", dead_letters.c.instance_id)

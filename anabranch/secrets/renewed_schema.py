"""The table of rotated refresh tokens."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Integer, LargeBinary, PrimaryKeyConstraint, Table, Text

from anabranch.engine.store.columns import metadata

# `grant_id` is a keyed hash of what was entered; `sealed` is null until the first renewal is over. One process at a
# time renews: its `holder`, until `held_until`.
renewed_tokens = Table(
    "renewed_tokens",
    metadata,
    Column("tenant_id", Text, nullable=False),
    Column("grant_id", Text, nullable=False),
    Column("version", Integer, nullable=False),
    Column("sealed", LargeBinary, nullable=True),
    Column("holder", Text, nullable=True),
    Column("held_until", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    PrimaryKeyConstraint("tenant_id", "grant_id", name="pk_renewed_tokens"),
)

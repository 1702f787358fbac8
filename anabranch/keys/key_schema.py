"""The table of API keys."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Index, PrimaryKeyConstraint, Table, Text

from anabranch.engine.store.columns import metadata

# The hash identifies the key without revealing it; a random key of 256 bits needs no salt.
api_keys = Table(
    "api_keys",
    metadata,
    Column("key_id", Text, nullable=False),
    Column("tenant_id", Text, nullable=False),
    Column("role", Text, nullable=False),
    Column("digest", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("created_by", Text, nullable=False),
    Column("last_used_at", BigInteger),
    Column("expires_at", BigInteger),
    Column("revoked_at", BigInteger),
    Column("pools", Text),
    PrimaryKeyConstraint("key_id", name="pk_api_keys"),
)


Index("ux_api_key_digest", api_keys.c.digest, unique=True)


Index("ix_api_key_tenant", api_keys.c.tenant_id, api_keys.c.created_at)

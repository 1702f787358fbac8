"""The table of secrets."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Integer, LargeBinary, PrimaryKeyConstraint, Table, Text

from anabranch.engine.store.columns import metadata

# The newest version of each; `sealed` opens only with its key, tenant, name and version.
secrets = Table(
    "secrets",
    metadata,
    Column("tenant_id", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("version", Integer, nullable=False),
    Column("key_id", Text, nullable=False),
    Column("sealed", LargeBinary, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    PrimaryKeyConstraint("tenant_id", "name", name="pk_secrets"),
)

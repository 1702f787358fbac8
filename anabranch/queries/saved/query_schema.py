"""The tables of data sources and saved queries."""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Column, Index, Integer, LargeBinary, PrimaryKeyConstraint, Table, Text

from anabranch.engine.store.columns import Identifier, JsonText, metadata

# The URL of a source is sealed where it holds a secret; `address` is what of it people may see.
data_sources = Table(
    "data_sources",
    metadata,
    Column("data_source_id", Identifier, nullable=False),
    Column("tenant_id", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("address", Text, nullable=False),
    Column("url", LargeBinary, nullable=False),
    Column("sealed", Boolean, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    PrimaryKeyConstraint("data_source_id", name="pk_data_sources"),
)


Index("ux_data_source_name", data_sources.c.tenant_id, data_sources.c.name, unique=True)


data_queries = Table(
    "data_queries",
    metadata,
    Column("data_query_id", Identifier, nullable=False),
    Column("tenant_id", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("data_source_id", Identifier, nullable=False),
    Column("sql", Text, nullable=False),
    Column("params", JsonText, nullable=False),
    Column("writes", Boolean, nullable=False),
    Column("timeout_ms", Integer, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    PrimaryKeyConstraint("data_query_id", name="pk_data_queries"),
)


Index("ux_data_query_name", data_queries.c.tenant_id, data_queries.c.name, unique=True)


Index("ix_data_query_source", data_queries.c.data_source_id)

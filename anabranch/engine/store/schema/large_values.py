"""The tables of large values: each is stored once by its content for a tenant, and the runs that refer to it."""

from __future__ import annotations

from sqlalchemy import Column, Index, Integer, PrimaryKeyConstraint, Table, Text

from anabranch.engine.store.columns import Identifier, metadata

# By hash first: a row of a log refers to its content by hash, whichever tenant stored it.
stored_values = Table(
    "stored_values",
    metadata,
    Column("sha256", Text, nullable=False),
    Column("tenant_id", Text, nullable=False),
    Column("size", Integer, nullable=False),
    Column("body", Text, nullable=False),
    PrimaryKeyConstraint("sha256", "tenant_id", name="pk_stored_values"),
)

# How much is stored, without a look at the rows themselves.
Index("ix_stored_values_size", stored_values.c.tenant_id, stored_values.c.size)

value_references = Table(
    "value_references",
    metadata,
    Column("instance_id", Identifier, nullable=False),
    Column("sha256", Text, nullable=False),
    Column("tenant_id", Text, nullable=False),
    PrimaryKeyConstraint("instance_id", "sha256", name="pk_value_references"),
)

# Does any run still refer to a value?
Index("ix_value_references", value_references.c.sha256, value_references.c.tenant_id)

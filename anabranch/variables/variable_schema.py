"""The table of variables."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, PrimaryKeyConstraint, Table, Text

from anabranch.engine.store.columns import metadata

# `workflow_id` is empty for those of the tenant. `value` is JSON. `writers` is a list of the nodes that wrote last.
variables = Table(
    "variables",
    metadata,
    Column("tenant_id", Text, nullable=False),
    Column("workflow_id", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("value", Text, nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("writers", Text, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    PrimaryKeyConstraint("tenant_id", "workflow_id", "name", name="pk_variables"),
)

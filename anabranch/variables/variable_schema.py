"""The table of variables."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Integer, PrimaryKeyConstraint, Table, Text

from anabranch.engine.store.columns import NameText, metadata

# `workflow_id` is empty for those of the tenant. `value` is JSON, null once it is removed, `size` its bytes.
# `writers` is a list of the nodes that wrote last.
variables = Table(
    "variables",
    metadata,
    Column("tenant_id", Text, nullable=False),
    Column("workflow_id", Text, nullable=False),
    Column("name", NameText, nullable=False),
    Column("value", Text, nullable=True),
    Column("size", Integer, nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("writers", Text, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    PrimaryKeyConstraint("tenant_id", "workflow_id", "name", name="pk_variables"),
)

"""The tables of the console: lines of user code, and its last progress."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Index, Integer, PrimaryKeyConstraint, Table, Text

from anabranch.engine.store.columns import Identifier, metadata

# A row has the lines of a run that were written together, as JSON: a row for each would cost several times as much.
# `number` is that of the last one. Numbers order the lines of a run: microseconds since the epoch, and no two alike.
# `size` and `position` are those of the whole row. Rows of older programs have no `lines`, but the last line in columns
# and those before it in `earlier`.
console_lines = Table(
    "console_lines",
    metadata,
    Column("instance_id", Identifier, nullable=False),
    Column("number", BigInteger, nullable=False),
    Column("tenant_id", Text, nullable=False),
    Column("node_id", Text, nullable=False),
    Column("scope", Text, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("level", Integer, nullable=False),
    Column("text", Text, nullable=False),
    Column("position", BigInteger, nullable=False),
    Column("size", Integer, nullable=False),
    Column("earlier", Text),
    Column("lines", Text),
    PrimaryKeyConstraint("instance_id", "number", name="pk_console_lines"),
)

# For the oldest lines of a tenant and the size of all of them, without reading the rows.
Index("ix_console_tenant", console_lines.c.tenant_id, console_lines.c.number, console_lines.c.size)

activation_progress = Table(
    "activation_progress",
    metadata,
    Column("instance_id", Identifier, nullable=False),
    Column("node_id", Text, nullable=False),
    Column("scope", Text, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("report", Text, nullable=False),
    Column("reported_at", BigInteger, nullable=False),
    PrimaryKeyConstraint("instance_id", "node_id", "scope", name="pk_activation_progress"),
)

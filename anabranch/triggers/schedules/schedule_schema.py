"""The table of schedules."""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Column, Index, Integer, PrimaryKeyConstraint, Table, Text

from anabranch.engine.store.columns import Identifier, JsonText, metadata, partial_index

# `next_at` is NULL while a schedule is disabled: the index of what is due holds nothing else.
schedules = Table(
    "schedules",
    metadata,
    Column("schedule_id", Identifier, nullable=False),
    Column("tenant_id", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("workflow", Text, nullable=False),
    Column("version", Integer),
    Column("kind", Text, nullable=False),
    Column("cron", Text),
    Column("timezone", Text, nullable=False),
    Column("every_ms", BigInteger),
    Column("anchor_at", BigInteger, nullable=False),
    Column("input", JsonText, nullable=False),
    Column("missed", Text, nullable=False),
    Column("enabled", Boolean, nullable=False),
    Column("next_at", BigInteger),
    Column("last_at", BigInteger),
    Column("last_instance_id", Identifier),
    Column("last_error", JsonText),
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    PrimaryKeyConstraint("schedule_id", name="pk_schedules"),
)


Index("ux_schedule_name", schedules.c.tenant_id, schedules.c.name, unique=True)


partial_index(
    "ix_schedule_due",
    schedules.c.next_at,
    schedules.c.schedule_id,
    where=schedules.c.next_at.is_not(None),
)

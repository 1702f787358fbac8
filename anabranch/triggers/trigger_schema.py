"""The table of triggers: what starts runs by itself.

A row is a schedule or a subscription that somebody saved, or was armed by a node of a workflow's active version
(`node_id` is set). Both are served by the same code.
"""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Column, Index, Integer, PrimaryKeyConstraint, Table, Text, and_

from anabranch.engine.store.columns import Identifier, JsonText, metadata, partial_index

# `subject`: the pattern of a topic, the path of a webhook, the workflow whose failures count ('' for any).
# `head`: what an index finds it by: the first segment of a pattern, else the subject.
# `next_at` is NULL while a schedule is disabled: the index of what is due holds nothing else.
triggers = Table(
    "triggers",
    metadata,
    Column("trigger_id", Identifier, nullable=False),
    Column("tenant_id", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("name", Text),
    Column("workflow", Text, nullable=False),
    Column("version", Integer),
    Column("workflow_id", Identifier),
    Column("node_id", Text),
    Column("subject", Text),
    Column("head", Text),
    Column("config", JsonText, nullable=False),
    Column("enabled", Boolean, nullable=False),
    Column("next_at", BigInteger),
    Column("last_at", BigInteger),
    Column("last_instance_id", Identifier),
    Column("last_error", JsonText),
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    PrimaryKeyConstraint("trigger_id", name="pk_triggers"),
)

IS_SAVED = triggers.c.node_id.is_(None)
"""Somebody saved it; no node armed it."""

partial_index("ux_trigger_name", triggers.c.tenant_id, triggers.c.name, where=triggers.c.name.is_not(None), unique=True)

partial_index("ix_trigger_due", triggers.c.next_at, triggers.c.trigger_id, where=triggers.c.next_at.is_not(None))

# A message looks up the few patterns that begin as its topic does, a failure those of its workflow.
Index("ix_trigger_head", triggers.c.tenant_id, triggers.c.kind, triggers.c.head)

partial_index(
    "ux_trigger_subscription",
    triggers.c.tenant_id,
    triggers.c.subject,
    triggers.c.workflow,
    where=and_(triggers.c.kind == "topic", IS_SAVED),
    unique=True,
)

partial_index(
    "ux_trigger_webhook",
    triggers.c.tenant_id,
    triggers.c.subject,
    where=triggers.c.kind == "webhook",
    unique=True,
)

partial_index(
    "ux_trigger_node",
    triggers.c.workflow_id,
    triggers.c.node_id,
    where=triggers.c.node_id.is_not(None),
    unique=True,
)

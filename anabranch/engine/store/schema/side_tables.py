"""The tables beside those of runs: secrets, data sources and queries, keys and their audit trail, schedules, topics."""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Column, Index, Integer, LargeBinary, PrimaryKeyConstraint, Table, Text

from anabranch.engine.store.schema.columns import Identifier, JsonText, metadata

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

# The hash says which key it is and is no way back to it; a random key of 256 bits needs no salt.
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
    PrimaryKeyConstraint("key_id", name="pk_api_keys"),
)

Index("ux_api_key_digest", api_keys.c.digest, unique=True)
Index("ix_api_key_tenant", api_keys.c.tenant_id, api_keys.c.created_at)

# Rows are only added. Each hash covers the one before; the head tells where the chain ends.
audit_log = Table(
    "audit_log",
    metadata,
    Column("position", BigInteger, nullable=False, autoincrement=False),
    Column("tenant_id", Text, nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("actor", Text, nullable=False),
    Column("action", Text, nullable=False),
    Column("target", Text, nullable=False),
    # Text, not JSON: the hash is of these very characters.
    Column("details", Text, nullable=False),
    Column("hash", Text, nullable=False),
    PrimaryKeyConstraint("position", name="pk_audit_log"),
)

Index("ix_audit_tenant", audit_log.c.tenant_id, audit_log.c.position)

audit_head = Table(
    "audit_head",
    metadata,
    Column("chain", Integer, nullable=False, autoincrement=False),
    Column("position", BigInteger, nullable=False),
    Column("hash", Text, nullable=False),
    PrimaryKeyConstraint("chain", name="pk_audit_head"),
)

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
Index(
    "ix_schedule_due",
    schedules.c.next_at,
    schedules.c.schedule_id,
    postgresql_where=schedules.c.next_at.is_not(None),
    sqlite_where=schedules.c.next_at.is_not(None),
)

topic_subscriptions = Table(
    "topic_subscriptions",
    metadata,
    Column("subscription_id", Identifier, nullable=False),
    Column("tenant_id", Text, nullable=False),
    Column("head", Text, nullable=False),
    Column("pattern", Text, nullable=False),
    Column("workflow", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    PrimaryKeyConstraint("subscription_id", name="pk_topic_subscriptions"),
)

# One index for both: a message looks up the few patterns that begin as its topic does.
Index(
    "ux_topic_subscription",
    topic_subscriptions.c.tenant_id,
    topic_subscriptions.c.head,
    topic_subscriptions.c.pattern,
    topic_subscriptions.c.workflow,
    unique=True,
)

# `due_at`: when somebody else may finish it; NULL once it is finished. Kept for a day after that.
topic_messages = Table(
    "topic_messages",
    metadata,
    Column("message_id", Identifier, nullable=False),
    Column("tenant_id", Text, nullable=False),
    Column("topic", Text, nullable=False),
    Column("key", Text, nullable=False),
    Column("payload", JsonText, nullable=False),
    Column("deliveries", JsonText, nullable=False),
    Column("due_at", BigInteger),
    Column("created_at", BigInteger, nullable=False),
    PrimaryKeyConstraint("message_id", name="pk_topic_messages"),
    # A day's messages: every row is updated when it is finished and removed a day later.
    postgresql_with={
        "autovacuum_vacuum_threshold": "1000",
        "autovacuum_vacuum_scale_factor": "0.02",
        "toast.autovacuum_vacuum_threshold": "1000",
        "toast.autovacuum_vacuum_scale_factor": "0.02",
    },
)

Index(
    "ux_topic_message_key",
    topic_messages.c.tenant_id,
    topic_messages.c.topic,
    topic_messages.c.key,
    unique=True,
)
Index(
    "ix_topic_message_due",
    topic_messages.c.due_at,
    postgresql_where=topic_messages.c.due_at.is_not(None),
    sqlite_where=topic_messages.c.due_at.is_not(None),
)
Index(
    "ix_topic_message_finished",
    topic_messages.c.created_at,
    postgresql_where=topic_messages.c.due_at.is_(None),
    sqlite_where=topic_messages.c.due_at.is_(None),
)

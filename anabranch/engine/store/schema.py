"""Tables and indexes: the only place that names them.

`statements` and the dialects build on these objects, migrations must arrive at exactly this
picture (a test compares them on both databases). A change here is a new migration and a new
`SCHEMA_REVISION`. Times are BIGINT milliseconds since the epoch, UTC; ids are UUIDs, native
where the database has them and always text in Python.
"""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    false,
    text,
)
from sqlalchemy.dialects import postgresql
from sqlalchemy.types import UserDefinedType

from anabranch.engine.rules.events import ENDINGS, EventType, Status

SCHEMA_REVISION = "0007"
"""The newest migration; a store refuses a database of any other revision."""


def _one_of(column: str, names: Iterable[str]) -> str:
    return f"{column} IN ({', '.join(repr(str(name)) for name in names)})"


# The conditions of the partial indexes, as text: a statement must repeat one word for word to be served by its index.
IS_OPEN = _one_of("status", [status for status in Status if not status.is_terminal])
IS_PENDING = f"status = '{Status.PENDING}'"
IS_ENDING = _one_of("event_type", sorted(ENDINGS))
IS_ATTEMPT = _one_of("event_type", [EventType.NODE_ATTEMPT_FAILED, EventType.NODE_DISPATCHED])
IS_SIGNAL = f"event_type = '{EventType.SIGNAL_RECEIVED}'"

# Native UUIDs take 16 bytes of every index entry of the log instead of 37.
Identifier = Text().with_variant(postgresql.UUID(as_uuid=False), "postgresql")


class _PostgresJson(UserDefinedType[str]):
    """The column type `json`, written and read as text: SQLAlchemy's own would encode and decode it again."""

    cache_ok = True

    def get_col_spec(self, **_: object) -> str:
        return "JSON"


# `json`, not `jsonb`: it keeps the text, and so the key order, and inserts a fifth faster.
JsonText = Text().with_variant(_PostgresJson(), "postgresql")

# Names are listed in the order of their characters' codes on both databases, whatever language the server speaks.
NameText = Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")

metadata = MetaData()

workflows = Table(
    "workflows",
    metadata,
    Column("workflow_id", Identifier, nullable=False),
    Column("tenant_id", Text, nullable=False),
    Column("name", NameText, nullable=False),
    Column("newest_version", Integer, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("deleted_at", BigInteger),
    PrimaryKeyConstraint("workflow_id", name="pk_workflows"),
)

# A deleted workflow frees its name and stays for the ended runs that pin one of its versions.
Index(
    "ux_workflow_name",
    workflows.c.tenant_id,
    workflows.c.name,
    unique=True,
    postgresql_where=workflows.c.deleted_at.is_(None),
    sqlite_where=workflows.c.deleted_at.is_(None),
)

workflow_versions = Table(
    "workflow_versions",
    metadata,
    Column("workflow_id", Identifier, nullable=False),
    Column("version", Integer, nullable=False),
    Column("name", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("title", Text),
    Column("definition", JsonText, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    PrimaryKeyConstraint("workflow_id", "version", name="pk_workflow_versions"),
)

workflow_instances = Table(
    "workflow_instances",
    metadata,
    Column("instance_id", Identifier, nullable=False),
    Column("tenant_id", Text, nullable=False),
    Column("workflow_id", Identifier),
    Column("workflow_name", Text, nullable=False),
    Column("workflow_version", Integer, nullable=False),
    Column("kind", Text, nullable=False),
    Column("test", Boolean, nullable=False),
    Column("status", Text, nullable=False),
    Column("version", Integer, nullable=False),
    Column("last_seq", Integer, nullable=False),
    Column("worker_id", Text),
    Column("available_at", BigInteger),
    Column("starts_at", BigInteger, nullable=False),
    Column("deadline_at", BigInteger),
    Column("retention_days", Integer, nullable=False),
    Column("idempotency_key", Text),
    Column("parent_id", Identifier),
    Column("created_at", BigInteger, nullable=False),
    Column("started_at", BigInteger),
    Column("completed_at", BigInteger),
    Column("parent_node_id", Text),
    Column("parent_scope", Text),
    Column("parent_waits", Boolean, nullable=False, server_default=false()),
    Column("depth", Integer, nullable=False, server_default="0"),
    Column("root_id", Identifier),
    PrimaryKeyConstraint("instance_id", name="pk_workflow_instances"),
    # Most updates change no indexed column; with room in the page they stay heap-only (HOT).
    postgresql_with={"fillfactor": "70"},
)

_has_key = workflow_instances.c.idempotency_key.is_not(None)

Index(
    "ix_instance_available",
    workflow_instances.c.available_at,
    workflow_instances.c.instance_id,
    postgresql_where=text(IS_OPEN),
    sqlite_where=text(IS_OPEN),
)
Index(
    "ix_instance_pending",
    workflow_instances.c.instance_id,
    postgresql_where=text(IS_PENDING),
    sqlite_where=text(IS_PENDING),
)
Index(
    "ix_instance_listing",
    workflow_instances.c.tenant_id,
    workflow_instances.c.created_at,
    workflow_instances.c.instance_id,
)
Index(
    "ix_instance_listing_by_workflow",
    workflow_instances.c.tenant_id,
    workflow_instances.c.workflow_id,
    workflow_instances.c.created_at,
    workflow_instances.c.instance_id,
)
# What has ended: found by when it may be removed, and counted by when it ended. The few different retentions are
# asked one after the other, so one index serves both.
Index(
    "ix_instance_ended",
    workflow_instances.c.retention_days,
    workflow_instances.c.completed_at,
    postgresql_where=workflow_instances.c.completed_at.is_not(None),
    sqlite_where=workflow_instances.c.completed_at.is_not(None),
)
# Only children are in these two: the birth of any other run does not write them.
Index(
    "ix_instance_parent",
    workflow_instances.c.parent_id,
    postgresql_where=workflow_instances.c.parent_id.is_not(None),
    sqlite_where=workflow_instances.c.parent_id.is_not(None),
)
Index(
    "ix_instance_root",
    workflow_instances.c.root_id,
    postgresql_where=workflow_instances.c.root_id.is_not(None),
    sqlite_where=workflow_instances.c.root_id.is_not(None),
)
Index(
    "ux_instance_idempotency",
    workflow_instances.c.tenant_id,
    workflow_instances.c.workflow_name,
    workflow_instances.c.idempotency_key,
    unique=True,
    postgresql_where=_has_key,
    sqlite_where=_has_key,
)

# No foreign key to the instances: it cost 16 % of the write rate, and rows of both tables are
# only ever written and removed together.
workflow_instance_logs = Table(
    "workflow_instance_logs",
    metadata,
    Column("instance_id", Identifier, nullable=False),
    Column("seq", Integer, nullable=False),
    Column("node_id", Text, nullable=False),
    Column("scope", Text, nullable=False),
    Column("event_type", Text, nullable=False),
    Column("node_status", Text),
    Column("next_handle", Text),
    Column("output_variable", Text),
    Column("payload", JsonText, nullable=False),
    Column("error_message", Text),
    Column("node_attempt", Integer, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    PrimaryKeyConstraint("instance_id", "seq", name="pk_workflow_instance_logs"),
)

Index(
    "ux_log_ending",
    workflow_instance_logs.c.instance_id,
    workflow_instance_logs.c.node_id,
    workflow_instance_logs.c.scope,
    unique=True,
    postgresql_where=text(IS_ENDING),
    sqlite_where=text(IS_ENDING),
)
Index(
    "ux_log_attempt",
    workflow_instance_logs.c.instance_id,
    workflow_instance_logs.c.node_id,
    workflow_instance_logs.c.scope,
    workflow_instance_logs.c.node_attempt,
    workflow_instance_logs.c.event_type,
    unique=True,
    postgresql_where=text(IS_ATTEMPT),
    sqlite_where=text(IS_ATTEMPT),
)
# NULL keys do not collide: only signals that were given a key are held to "once".
Index(
    "ux_log_signal_key",
    workflow_instance_logs.c.instance_id,
    text("(payload ->> 'key')"),
    unique=True,
    postgresql_where=text(IS_SIGNAL),
    sqlite_where=text(IS_SIGNAL),
)

# How many runs of a workflow have ended in each way, up to the watermark `run_counts`. A workflow may be
# shared by tenants, so its runs are counted for each.
run_counts = Table(
    "run_counts",
    metadata,
    Column("tenant_id", Text, nullable=False),
    Column("workflow_id", Identifier, nullable=False),
    Column("status", Text, nullable=False),
    Column("runs", BigInteger, nullable=False),
    PrimaryKeyConstraint("tenant_id", "workflow_id", "status", name="pk_run_counts"),
)

# How far something that goes through the instances by time has come (ms).
watermarks = Table(
    "watermarks",
    metadata,
    Column("name", Text, nullable=False),
    Column("reached", BigInteger, nullable=False),
    PrimaryKeyConstraint("name", name="pk_watermarks"),
)

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

"""The tables of definitions, runs and their logs, and the conditions of their partial indexes."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import BigInteger, Boolean, Column, Index, Integer, PrimaryKeyConstraint, Table, Text, false, text

from anabranch.engine.rules.events import ENDINGS, EventType, Status
from anabranch.engine.store.columns import Identifier, JsonText, NameText, metadata, partial_index, storage


def _one_of(column: str, names: Iterable[str]) -> str:
    return f"{column} IN ({', '.join(repr(str(name)) for name in names)})"


# The conditions of the partial indexes, as text: a statement must repeat one word for word to be served by its index.
IS_OPEN = _one_of("status", [status for status in Status if not status.is_terminal])
IS_PENDING = f"status = '{Status.PENDING}'"
IS_ENDING = _one_of("event_type", sorted(ENDINGS))
IS_ATTEMPT = _one_of("event_type", [EventType.NODE_ATTEMPT_FAILED, EventType.NODE_DISPATCHED])
IS_SUSPECT = "company IS NOT NULL"
IS_REFUSED = _one_of("suspended_for", ["DEFINITION_ERROR", "ENGINE_DEFECT", "NONDETERMINISM"])
IS_SIGNAL = f"event_type = '{EventType.SIGNAL_RECEIVED}'"

# The same as IS_OPEN, for statements that find rows by their ids or by those of their parents. With IS_OPEN, PostgreSQL
# may plan to read all of ix_instance_available for each row: while few runs are open, it takes that index for the
# smaller one, and the plan lives on while it grows.
HAS_NOT_ENDED = f"status NOT IN ({', '.join(repr(str(status)) for status in Status if status.is_terminal)})"

workflows = Table(
    "workflows",
    metadata,
    Column("workflow_id", Identifier, nullable=False),
    Column("tenant_id", Text, nullable=False),
    Column("name", NameText, nullable=False),
    Column("newest_version", Integer, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("deleted_at", BigInteger),
    # The version that starts take; NULL: the newest one.
    Column("active_version", Integer),
    PrimaryKeyConstraint("workflow_id", name="pk_workflows"),
)

# A deleted workflow frees its name and stays for the runs that refer to its versions.
partial_index(
    "ux_workflow_name",
    workflows.c.tenant_id,
    workflows.c.name,
    unique=True,
    where=workflows.c.deleted_at.is_(None),
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
    # JSON bytes of all payloads in the log: known without reading it.
    Column("log_bytes", BigInteger, nullable=False, server_default="0"),
    Column("rerun_of", Identifier),
    Column("started_by", Text),
    Column("suspended_for", Text),
    # How often it was reopened, and the rows of its log that this left out, as a JSON list of pairs.
    Column("generation", Integer, nullable=False, server_default="0"),
    Column("left_out", Text),
    # Suspicion after crashes; NULL: none.
    Column("company", Integer),
    Column("crashes", Integer, nullable=False, server_default="0"),
    Column("forked_from", Identifier),
    # A JSON list of the custom node types that it needs; NULL: none, or the run is coded.
    Column("needs", Text),
    PrimaryKeyConstraint("instance_id", name="pk_workflow_instances"),
    info=storage(
        {
            # Most updates change no indexed column; with room in the page they stay heap-only (HOT).
            "fillfactor": "70",
            # By default a fifth of a table may be dead rows before it is vacuumed: of ten million runs two million. At
            # a fiftieth the indexes stay small, and each vacuum has little to do.
            "autovacuum_vacuum_threshold": "1000",
            "autovacuum_vacuum_scale_factor": "0.02",
            "autovacuum_analyze_threshold": "1000",
            "autovacuum_analyze_scale_factor": "0.05",
        }
    ),
)

_has_key = workflow_instances.c.idempotency_key.is_not(None)

partial_index(
    "ix_instance_available",
    workflow_instances.c.available_at,
    workflow_instances.c.instance_id,
    where=text(IS_OPEN),
)
# Suspects are claimed separately. Other rows are not in this index, and their updates do not write it.
partial_index(
    "ix_instance_suspect",
    workflow_instances.c.available_at,
    workflow_instances.c.instance_id,
    where=text(IS_SUSPECT),
)
# Runs that other code or another release may continue: each working process looks for them.
partial_index("ix_instance_refused", workflow_instances.c.instance_id, where=text(IS_REFUSED))
partial_index(
    "ix_instance_pending",
    workflow_instances.c.instance_id,
    where=text(IS_PENDING),
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
# Ended runs, for removal by retention and for counting by end time. The few different retentions are queried one after
# the other, so one index serves both.
partial_index(
    "ix_instance_ended",
    workflow_instances.c.retention_days,
    workflow_instances.c.completed_at,
    where=workflow_instances.c.completed_at.is_not(None),
)
# These two contain only child runs, so the creation of other runs does not write them.
partial_index(
    "ix_instance_parent",
    workflow_instances.c.parent_id,
    where=workflow_instances.c.parent_id.is_not(None),
)
# This one contains only re-runs.
partial_index(
    "ix_instance_rerun",
    workflow_instances.c.rerun_of,
    where=workflow_instances.c.rerun_of.is_not(None),
)
partial_index(
    "ix_instance_root",
    workflow_instances.c.root_id,
    where=workflow_instances.c.root_id.is_not(None),
)
partial_index(
    "ux_instance_idempotency",
    workflow_instances.c.tenant_id,
    workflow_instances.c.workflow_name,
    workflow_instances.c.idempotency_key,
    unique=True,
    where=_has_key,
)

# No foreign key to the instances: it cost 16 % of the write rate, and rows of both tables are always written and
# removed together.
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
    Column("arguments", Text),
    # How often the run had been reopened when the row was written.
    Column("generation", Integer, nullable=False, server_default="0"),
    # A JSON list of the large parts of the payload, each as path, hash and bytes; null stands for them in the payload.
    Column("parts", Text),
    PrimaryKeyConstraint("instance_id", "seq", name="pk_workflow_instance_logs"),
    # Rows are inserted and removed, never changed. Large payloads are in the table's TOAST table, which has
    # thresholds of its own.
    info=storage(
        {
            "autovacuum_vacuum_threshold": "10000",
            "autovacuum_vacuum_scale_factor": "0.02",
            "autovacuum_vacuum_insert_threshold": "100000",
            "autovacuum_vacuum_insert_scale_factor": "0.1",
            "autovacuum_analyze_threshold": "10000",
            "autovacuum_analyze_scale_factor": "0.05",
            "toast.autovacuum_vacuum_threshold": "10000",
            "toast.autovacuum_vacuum_scale_factor": "0.02",
        }
    ),
)

partial_index(
    "ux_log_ending",
    workflow_instance_logs.c.instance_id,
    workflow_instance_logs.c.node_id,
    workflow_instance_logs.c.scope,
    workflow_instance_logs.c.generation,
    unique=True,
    where=text(IS_ENDING),
)
partial_index(
    "ux_log_attempt",
    workflow_instance_logs.c.instance_id,
    workflow_instance_logs.c.node_id,
    workflow_instance_logs.c.scope,
    workflow_instance_logs.c.node_attempt,
    workflow_instance_logs.c.event_type,
    unique=True,
    where=text(IS_ATTEMPT),
)
# NULL keys do not collide: only signals with a key are unique.
partial_index(
    "ux_log_signal_key",
    workflow_instance_logs.c.instance_id,
    text("(payload ->> 'key')"),
    unique=True,
    where=text(IS_SIGNAL),
)

# Paused workflows, one row each; a row without a workflow pauses all of the tenant.
pauses = Table(
    "pauses",
    metadata,
    Column("tenant_id", Text, nullable=False),
    Column("workflow_id", Identifier),
    Column("paused_by", Text, nullable=False),
    Column("paused_at", BigInteger, nullable=False),
)

partial_index(
    "ux_pause_of_workflow",
    pauses.c.tenant_id,
    pauses.c.workflow_id,
    unique=True,
    where=pauses.c.workflow_id.is_not(None),
)
partial_index("ux_pause_of_tenant", pauses.c.tenant_id, unique=True, where=pauses.c.workflow_id.is_(None))

# How many runs of a workflow have ended with each status, up to the watermark `run_counts`. Counted per tenant, because
# tenants may share a workflow.
run_counts = Table(
    "run_counts",
    metadata,
    Column("tenant_id", Text, nullable=False),
    Column("workflow_id", Identifier, nullable=False),
    Column("status", Text, nullable=False),
    Column("runs", BigInteger, nullable=False),
    PrimaryKeyConstraint("tenant_id", "workflow_id", "status", name="pk_run_counts"),
)

# How far a process that walks the instances by time has come (ms).
watermarks = Table(
    "watermarks",
    metadata,
    Column("name", Text, nullable=False),
    Column("reached", BigInteger, nullable=False),
    PrimaryKeyConstraint("name", name="pk_watermarks"),
)

# Which lines of history the database has been on, numbered; the last one is the present one. See `sql.epochs`.
database_epochs = Table(
    "database_epochs",
    metadata,
    Column("epoch", Integer, nullable=False),
    Column("line", Text, nullable=False),
    Column("began_at", BigInteger, nullable=False),
    PrimaryKeyConstraint("epoch", name="pk_database_epochs"),
)

# The processes that run on the database, each with its release and the schema that it works with.
processes = Table(
    "processes",
    metadata,
    Column("process_id", Text, nullable=False),
    Column("release", Text, nullable=False),
    Column("schema_revision", Text, nullable=False),
    Column("seen_at", BigInteger, nullable=False),
    PrimaryKeyConstraint("process_id", name="pk_processes"),
)

# The schema that was migrated to last, and the oldest one whose programs work with it.
schema_support = Table(
    "schema_support",
    metadata,
    Column("revision", Text, nullable=False),
    Column("oldest_program", Text, nullable=False),
    PrimaryKeyConstraint("revision", name="pk_schema_support"),
)

# Which worker polls for all workers, and until when (ms). One row. See `hints.leadership`.
leaders = Table(
    "leaders",
    metadata,
    Column("name", Text, nullable=False),
    Column("worker_id", Text, nullable=False),
    Column("until", BigInteger, nullable=False),
    PrimaryKeyConstraint("name", name="pk_leaders"),
)

# The report of each working process, written every third of a lease; for a lost one also how many suspects it left.
workers = Table(
    "workers",
    metadata,
    Column("worker_id", Text, nullable=False),
    Column("seen_at", BigInteger, nullable=False),
    Column("executing", Integer),
    Column("company", Integer),
    Column("node_types", Text, nullable=False, server_default="[]"),
    Column("code", Text, nullable=False, server_default="[]"),
    PrimaryKeyConstraint("worker_id", name="pk_workers"),
)

"""Tables and indexes of the engine, defined only here.

`statements` and the dialects build on these objects. Migrations must lead to the same schema (a test compares them on
both databases), so a change here needs a migration and a new `SCHEMA_REVISION`. Times are BIGINT milliseconds since the
epoch, UTC. Ids are UUIDs, native where the database has them, and always text in Python.
"""

from __future__ import annotations

from anabranch.audit.audit_schema import audit_head, audit_log
from anabranch.dead_letters.dead_letter_schema import dead_letters
from anabranch.drafts.draft_schema import drafts
from anabranch.engine.store.columns import OLDEST_PROGRAM, SCHEMA_REVISION, metadata, set_postgresql_options
from anabranch.engine.store.schema.console_schema import activation_progress, console_lines
from anabranch.engine.store.schema.large_values import stored_values, value_references
from anabranch.engine.store.schema.runs import (
    HAS_NOT_ENDED,
    IS_ATTEMPT,
    IS_ENDING,
    IS_OPEN,
    IS_PENDING,
    IS_REFUSED,
    IS_SIGNAL,
    IS_SUSPECT,
    database_epochs,
    leaders,
    pauses,
    processes,
    run_counts,
    schema_support,
    watermarks,
    workers,
    workflow_instance_logs,
    workflow_instances,
    workflow_versions,
    workflows,
)
from anabranch.keys.key_schema import api_keys
from anabranch.queries.saved.query_schema import data_queries, data_sources
from anabranch.secrets.renewed_schema import renewed_tokens
from anabranch.secrets.secret_schema import secrets
from anabranch.triggers.topics.topic_schema import topic_messages
from anabranch.triggers.trigger_schema import triggers
from anabranch.variables.variable_schema import variables

__all__ = [
    "HAS_NOT_ENDED",
    "IS_ATTEMPT",
    "IS_ENDING",
    "IS_OPEN",
    "IS_PENDING",
    "IS_REFUSED",
    "IS_SIGNAL",
    "IS_SUSPECT",
    "OLDEST_PROGRAM",
    "SCHEMA_REVISION",
    "activation_progress",
    "api_keys",
    "audit_head",
    "audit_log",
    "console_lines",
    "data_queries",
    "data_sources",
    "database_epochs",
    "dead_letters",
    "drafts",
    "leaders",
    "metadata",
    "pauses",
    "processes",
    "renewed_tokens",
    "run_counts",
    "schema_support",
    "secrets",
    "set_postgresql_options",
    "stored_values",
    "topic_messages",
    "triggers",
    "value_references",
    "variables",
    "watermarks",
    "workers",
    "workflow_instance_logs",
    "workflow_instances",
    "workflow_versions",
    "workflows",
]

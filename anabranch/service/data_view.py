"""How data sources, saved queries, secrets, keys and the audit trail look from outside: what every API answers with.

Pure; `workflow_view` and `run_view` do the same for workflows and runs. What must not come back (the
URL of a source, the value of a secret, a key) is not known here.
"""

from __future__ import annotations

import json
from typing import Any

from anabranch.engine.records.api_keys import ApiKey
from anabranch.engine.records.audit_trail import AuditRow
from anabranch.engine.records.saved_queries import DataQuery, DataSource
from anabranch.engine.rules.instants import to_iso
from anabranch.secrets import SecretEntry
from anabranch.service.data_service import SavedSource


def source_as_json(source: DataSource) -> dict[str, Any]:
    """A data source, without its URL."""
    return {
        "dataSourceID": source.data_source_id,
        "name": source.name,
        "kind": source.kind,
        "address": source.address,
        "createdAt": to_iso(source.created_at),
        "updatedAt": to_iso(source.updated_at),
    }


def saved_source_as_json(saved: SavedSource) -> dict[str, Any]:
    """A data source that was just saved, with the warnings about it."""
    warnings = [{"code": code, "pointer": pointer, "message": message} for code, pointer, message in saved.warnings]
    return {**source_as_json(saved.source), "warnings": warnings}


def query_as_json(query: DataQuery) -> dict[str, Any]:
    """A saved query with its SQL."""
    return {
        "dataQueryID": query.data_query_id,
        "name": query.name,
        "dataSourceID": query.data_source_id,
        "sql": query.sql,
        "params": dict(query.params),
        "writes": query.writes,
        "timeoutMs": query.timeout_ms,
        "createdAt": to_iso(query.created_at),
        "updatedAt": to_iso(query.updated_at),
    }


def secret_as_json(entry: SecretEntry) -> dict[str, Any]:
    """What people may know of a secret."""
    return {
        "name": entry.name,
        "version": entry.version,
        "createdAt": to_iso(entry.created_at),
        "updatedAt": to_iso(entry.updated_at),
    }


def key_as_json(key: ApiKey) -> dict[str, Any]:
    """What people may know of an API key."""
    times = {"lastUsedAt": key.last_used_at, "expiresAt": key.expires_at, "revokedAt": key.revoked_at}
    return {
        "keyID": key.key_id,
        "tenant": key.tenant_id,
        "role": key.role,
        "createdAt": to_iso(key.created_at),
        "createdBy": key.created_by,
        **{name: None if at is None else to_iso(at) for name, at in times.items()},
    }


def audit_row_as_json(row: AuditRow) -> dict[str, Any]:
    """A row of the audit trail."""
    return {
        "position": row.position,
        "at": to_iso(row.at),
        "tenant": row.tenant_id,
        "actor": row.actor,
        "action": row.action,
        "target": row.target,
        "details": json.loads(row.details),
        "hash": row.hash,
    }

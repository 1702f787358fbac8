"""Housekeeping of a memory store: remove runs whose retention is over, and count runs.

Pure reads of a `MemoryDatabase`, called by `MemoryStore`. It keeps no counters, and counts the runs in memory at every
call.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import islice

from anabranch.engine.rules.events import Status
from anabranch.testing.memory_store.database import MemoryDatabase

_DAY_MS = 86_400_000


def count_runs(database: MemoryDatabase, tenant_id: str) -> dict[str, dict[Status, int]]:
    """How many runs of each workflow are in each status, without test runs."""
    counts: dict[str, dict[Status, int]] = defaultdict(lambda: defaultdict(int))
    for row in database.rows():
        head = row.head
        if head.tenant_id == tenant_id and head.workflow_id is not None and not head.test:
            counts[head.workflow_id][row.status] += 1
    return {workflow_id: dict(by_status) for workflow_id, by_status in counts.items()}


def count_ended(database: MemoryDatabase, within_ms: int) -> dict[str, dict[str, dict[Status, int]]]:
    """How many runs ended in the last `within_ms`, by tenant, workflow and status, without test runs."""
    counts: dict[str, dict[str, dict[Status, int]]] = defaultdict(lambda: defaultdict(lambda: defaultdict(int)))
    for row in database.rows():
        head, ended_at = row.head, row.completed_at
        if head.workflow_id is not None and not head.test and (ended_at or 0) > database.now() - within_ms:
            counts[head.tenant_id][head.workflow_id][row.status] += 1
    return counts


def count_runs_by_version(database: MemoryDatabase, tenant_id: str, workflow_id: str) -> dict[int, dict[Status, int]]:
    """How many runs of each version of a workflow are in each status, without test runs."""
    counts: dict[int, dict[Status, int]] = defaultdict(lambda: defaultdict(int))
    for row in database.rows():
        head = row.head
        if head.tenant_id == tenant_id and head.workflow_id == workflow_id and not head.test:
            counts[head.workflow_version][row.status] += 1
    return {version: dict(by_status) for version, by_status in counts.items()}


def expired(database: MemoryDatabase, *, limit: int) -> list[str]:
    """The ended runs that `Store.remove_expired` may remove now, longest ended first."""
    now = database.now()
    over = sorted(
        (row.completed_at, row.head.instance_id)
        for row in database.rows()
        if row.completed_at is not None
        and row.completed_at + row.head.retention_days * _DAY_MS <= now
        and (row.head.parent_id is None or not database.is_open(row.head.parent_id))
    )
    return [instance_id for _, instance_id in islice(over, limit)]


def open_runs_of_deleted_workflows(database: MemoryDatabase, workflow_id: str | None) -> list[tuple[str, str]]:
    """Tenant and id of open runs whose workflow was deleted."""
    heads = [row.head for row in database.open_rows() if workflow_id in (None, row.head.workflow_id)]
    return [
        (head.tenant_id, head.instance_id) for head in heads if not database.definitions.may_have_runs(head.workflow_id)
    ]


def is_ended_test_run(database: MemoryDatabase, *, tenant_id: str, instance_id: str) -> bool:
    """Whether this is an ended test run of the tenant."""
    record = database.instances.get(instance_id)
    if record is None or record.row.head.tenant_id != tenant_id:
        return False
    return record.row.head.test and record.row.status.is_terminal

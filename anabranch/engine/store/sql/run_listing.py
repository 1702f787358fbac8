"""The statement behind every list of runs.

Executed by `inquiries`. The conditions on inputs come from the dialect, everything else is the
same on both databases.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Select, TextClause, or_, select

from anabranch.engine.rules.run_filter import RunFilter
from anabranch.engine.store.schema import workflow_instances
from anabranch.engine.store.sql.rows import INSTANCE_COLUMNS


def list_instances(
    wanted: RunFilter,
    inputs: Sequence[TextClause],
    *,
    tenant_id: str,
    limit: int,
    before: tuple[int, str] | None,
) -> Select[tuple[object, ...]]:
    """Newest first, strictly before the cursor.

    Uses ix_instance_listing, or ix_instance_listing_by_workflow with a workflow. The cursor is
    bounded by its time alone as well, because only that lets SQLite start in mid-index.
    """
    c = workflow_instances.c
    query = select(*(c[name] for name in INSTANCE_COLUMNS))
    query = query.where(c.tenant_id == tenant_id, c.test.is_(wanted.test), *inputs)
    if wanted.workflow is not None:
        query = query.where(c.workflow_id == wanted.workflow)
    if wanted.statuses:
        query = query.where(c.status.in_([status.value for status in wanted.statuses]))
    if wanted.since is not None:
        query = query.where(c.created_at >= wanted.since)
    if wanted.until is not None:
        query = query.where(c.created_at < wanted.until)
    if wanted.version is not None:
        query = query.where(c.workflow_version == wanted.version)
    if wanted.rerun_of is not None:
        query = query.where(c.rerun_of == wanted.rerun_of)
    if before is not None:
        created_at, instance_id = before
        query = query.where(c.created_at <= created_at, or_(c.created_at < created_at, c.instance_id < instance_id))
    return query.order_by(c.created_at.desc(), c.instance_id.desc()).limit(limit)

"""The statement behind every list of runs.

Executed by `inquiries`. The conditions on inputs come from the dialect, everything else is the
same on both databases.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Select, TextClause, or_, select

from anabranch.engine.store.schema import workflow_instances
from anabranch.engine.store.sql.rows import INSTANCE_COLUMNS


def list_instances(
    *,
    tenant_id: str,
    limit: int,
    before: tuple[int, str] | None,
    workflow_id: str | None,
    statuses: Sequence[str],
    since: int | None,
    until: int | None,
    version: int | None,
    test: bool,
    inputs: Sequence[TextClause],
) -> Select[tuple[object, ...]]:
    """Newest first, strictly before the cursor.

    Uses ix_instance_listing, or ix_instance_listing_by_workflow with a workflow. The cursor is
    bounded by its time alone as well, because only that lets SQLite start in mid-index.
    """
    c = workflow_instances.c
    query = select(*(c[name] for name in INSTANCE_COLUMNS)).where(c.tenant_id == tenant_id, c.test.is_(test), *inputs)
    if workflow_id is not None:
        query = query.where(c.workflow_id == workflow_id)
    if statuses:
        query = query.where(c.status.in_(statuses))
    if since is not None:
        query = query.where(c.created_at >= since)
    if until is not None:
        query = query.where(c.created_at < until)
    if version is not None:
        query = query.where(c.workflow_version == version)
    if before is not None:
        created_at, instance_id = before
        query = query.where(c.created_at <= created_at, or_(c.created_at < created_at, c.instance_id < instance_id))
    return query.order_by(c.created_at.desc(), c.instance_id.desc()).limit(limit)

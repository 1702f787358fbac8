"""The statement behind every list of runs.

Executed by `reads`. The dialect provides the conditions on inputs; everything else is the same on both databases.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import ColumnElement, Select, TextClause, exists, or_, select

from anabranch.engine.rules.events import Status
from anabranch.engine.rules.run_filter import RunFilter
from anabranch.engine.store.schema import workflow_instance_logs, workflow_instances
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

    Uses ix_instance_listing, or ix_instance_listing_by_workflow with a workflow. The cursor also bounds the time alone,
    because only then does SQLite start in the middle of the index.
    """
    c = workflow_instances.c
    query = select(*(c[name] for name in INSTANCE_COLUMNS))
    query = query.where(c.tenant_id == tenant_id, c.test.is_(wanted.test), *inputs)
    if wanted.workflow is not None:
        query = query.where(c.workflow_id == wanted.workflow)
    if wanted.statuses:
        query = query.where(c.status.in_([status.value for status in wanted.statuses]))
    if wanted.reasons:
        query = query.where(c.suspended_for.in_([reason.value for reason in wanted.reasons]))
    if wanted.since is not None:
        query = query.where(c.created_at >= wanted.since)
    if wanted.until is not None:
        query = query.where(c.created_at < wanted.until)
    if wanted.version is not None:
        query = query.where(c.workflow_version == wanted.version)
    if wanted.rerun_of is not None:
        query = query.where(c.rerun_of == wanted.rerun_of)
    if wanted.error is not None:
        query = query.where(c.status == Status.FAILED.value, _failed_with(wanted.error))
    if before is not None:
        created_at, instance_id = before
        query = query.where(c.created_at <= created_at, or_(c.created_at < created_at, c.instance_id < instance_id))
    return query.order_by(c.created_at.desc(), c.instance_id.desc()).limit(limit)


def _failed_with(text: str) -> ColumnElement[bool]:
    """The condition that the last row of a failed run has this code, or this text in its message. Uses the primary key
    of the log."""
    run, log = workflow_instances.c, workflow_instance_logs.c
    has_text = or_(log.error_message.icontains(text, autoescape=True), log.payload.op("->>")("code") == text)
    return exists().where(log.instance_id == run.instance_id, log.seq == run.last_seq, has_text)

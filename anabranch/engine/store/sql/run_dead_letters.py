"""The dead letters of runs: a letter belongs to the tenant of its run, and is removed with the run.

Code that adds a letter calls `locks_run` first; code that removes runs removes their letters in the same transaction.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, delete, select

from anabranch.engine.store.schema import dead_letters, workflow_instances
from anabranch.engine.store.sql.dialect import Dialect
from anabranch.engine.store.sql.reading.reads import is_uuid


def locks_run(connection: Connection, dialect: Dialect, instance_id: str, *, tenant_id: str) -> bool:
    """Whether the tenant has the run, which is not removed then before the transaction ends."""
    if not is_uuid(instance_id):
        return False
    run = workflow_instances.c
    query = select(run.tenant_id).where(run.instance_id == instance_id, run.tenant_id == tenant_id)
    if dialect.row_lock:
        query = query.with_for_update(read=True, key_share=True)
    return connection.execute(query).first() is not None


def remove_letters_of(connection: Connection, instance_ids: Sequence[str]) -> None:
    """Remove the letters about these runs. Comes after the removal of the runs, which waits for letters that are being
    added. Uses ix_dead_letter_run."""
    connection.execute(delete(dead_letters).where(dead_letters.c.instance_id.in_(list(map(str, instance_ids)))))


def remove_old_letters(connection: Connection, *, before: int) -> None:
    """Remove the letters that came last before this time. Uses ix_dead_letter_time."""
    connection.execute(delete(dead_letters).where(dead_letters.c.last_at < before))

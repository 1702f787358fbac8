"""Row locks of PostgreSQL, held and watched from a bare connection (the fixture `locker`)."""

from __future__ import annotations

import psycopg


async def lock(locker: psycopg.AsyncConnection, instance_id: str, strength: str = "UPDATE") -> None:
    """Hold the row until the next rollback or commit."""
    await locker.execute(
        f"SELECT FROM workflow_instances WHERE instance_id = %s FOR {strength}",
        [instance_id],
    )


async def waiting_backend(locker: psycopg.AsyncConnection) -> int:
    """The process that waits for a lock in this database, as soon as there is one."""
    while True:
        await locker.execute("SELECT pg_stat_clear_snapshot()")
        found = await locker.execute(
            "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
        )
        backend = await found.fetchone()
        if backend is not None:
            return int(backend[0])

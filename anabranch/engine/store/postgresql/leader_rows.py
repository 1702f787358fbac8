"""The row that says which worker leads, and its look at due runs, on PostgreSQL. Used by `engine.hints.leadership`."""

# Statements are put together from this package's own conditions; values are always parameters.
# ruff: noqa: S608

from __future__ import annotations

from sqlalchemy import text

from anabranch.engine.store.postgresql.postgresql_statements import NOW_MS
from anabranch.engine.store.schema import IS_OPEN
from anabranch.engine.store.sql.component import SqlComponent
from anabranch.engine.store.sql.statements import MAY_GO_ON

_TAKE = text(f"""
    INSERT INTO leaders AS l (name, worker_id, until) VALUES ('looks', :worker_id, {NOW_MS} + :lease_ms)
    ON CONFLICT (name) DO UPDATE SET worker_id = :worker_id, until = {NOW_MS} + :lease_ms
        WHERE l.worker_id = :worker_id OR l.until <= {NOW_MS}
""")
"""Of two workers that take it at once, the second sees the first one's row, and changes nothing."""

_HOLDER = text(f"SELECT worker_id FROM leaders WHERE name = 'looks' AND until > {NOW_MS}")

_GIVE_UP = text("UPDATE leaders SET until = 0 WHERE name = 'looks' AND worker_id = :worker_id")

_DUE = text(f"""
    SELECT count(*), coalesce(max(available_at), 0) FROM (
        SELECT available_at FROM workflow_instances
        WHERE {IS_OPEN} AND available_at <= {NOW_MS} AND ({MAY_GO_ON} OR deadline_at <= {NOW_MS})
        ORDER BY available_at DESC LIMIT :limit) AS due
""")
"""The latest due runs. Uses ix_instance_available, from its end."""


class PostgresqlLeaderRows:
    """`LeaderRows` on a PostgreSQL store, whose threads it shares."""

    def __init__(self, store: SqlComponent) -> None:
        self._store = store

    async def take(self, *, worker_id: str, lease_ms: int) -> bool:
        """Take or keep the lead for so long; False: another worker has it."""
        asked = {"worker_id": worker_id, "lease_ms": lease_ms}
        return await self._store.write_without_waiting(
            lambda connection: connection.execute(_TAKE, asked).rowcount == 1
        )

    async def holder(self) -> str | None:
        """The worker that has the lead now; None: nobody."""
        return await self._store.read(lambda connection: connection.execute(_HOLDER).scalar_one_or_none())

    async def give_up(self, *, worker_id: str) -> None:
        """Free the lead if this worker has it."""
        await self._store.write_without_waiting(
            lambda connection: connection.execute(_GIVE_UP, {"worker_id": worker_id})
        )

    async def due(self, *, limit: int) -> tuple[int, int]:
        """How many runs a worker could claim now, and when the last of them became due."""
        count, last = await self._store.read(lambda connection: connection.execute(_DUE, {"limit": limit}).one())
        return count, last

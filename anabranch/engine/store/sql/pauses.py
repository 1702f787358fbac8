"""Pauses of workflows and tenants: one row each, which claims and owners of runs look at.

The part of a store that keeps them; `store.SqlStore` inherits it. A pause writes to no run: owners release them.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import ColumnElement, Connection, delete, select, text

from anabranch.audit.audit_recording import record_audit_event
from anabranch.engine.ports import Pause
from anabranch.engine.store.schema import pauses
from anabranch.engine.store.sql.component import SqlComponent

_PAUSE = text("""
    INSERT INTO pauses (tenant_id, workflow_id, paused_by, paused_at)
    VALUES (:tenant_id, :workflow_id, :by, :now) ON CONFLICT DO NOTHING
""")
"""Two at once make one, by ux_pause_of_workflow and ux_pause_of_tenant."""

_ALL = select(pauses)


class Pauses(SqlComponent):
    """The pauses of all tenants."""

    async def pause(self, *, tenant_id: str, workflow_id: str | None, by: str, actor: str | None = None) -> Pause:
        """Pause the runs of a workflow (None: of all workflows) of the tenant; returns the pause, new or existing."""
        asked = {"tenant_id": tenant_id, "workflow_id": workflow_id, "by": by}
        found = select(pauses).where(*_which(tenant_id, workflow_id))

        def insert(connection: Connection) -> Pause:
            now = self.dialect.now(connection)
            if connection.execute(_PAUSE, {**asked, "now": now}).rowcount:
                _record(connection, actor, "paused", tenant_id, workflow_id, now)
            return Pause(*connection.execute(found).one())

        return await self.transact(insert)

    async def unpause(self, *, tenant_id: str, workflow_id: str | None, actor: str | None = None) -> bool:
        """Remove the pause; False if there is none."""
        statement = delete(pauses).where(*_which(tenant_id, workflow_id))

        def remove(connection: Connection) -> bool:
            removed = connection.execute(statement).rowcount > 0
            if removed:
                _record(connection, actor, "resumed", tenant_id, workflow_id, self.dialect.now(connection))
            return removed

        return await self.transact(remove)

    async def pauses(self, *, tenant_id: str | None = None) -> list[Pause]:
        """All pauses, or those of one tenant."""
        query = _ALL if tenant_id is None else _ALL.where(pauses.c.tenant_id == tenant_id)
        return await self.read(lambda connection: [Pause(*row) for row in connection.execute(query)])


def _which(tenant_id: str, workflow_id: str | None) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    """`workflow_id = NULL` is written IS NULL."""
    return pauses.c.tenant_id == tenant_id, pauses.c.workflow_id == workflow_id


def _record(
    connection: Connection, actor: str | None, what: str, tenant_id: str, workflow_id: str | None, now: int
) -> None:
    of = ("tenant", tenant_id) if workflow_id is None else ("workflow", workflow_id)
    details: dict[str, Any] = {}
    record_audit_event(
        connection, actor, f"{of[0]}.{what}", tenant_id=tenant_id, target=of[1], details=details, now=now
    )

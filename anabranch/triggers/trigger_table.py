"""Armed triggers in the table of triggers. Shares the database threads of the store that it is built on."""

from __future__ import annotations

from collections.abc import Sequence

import orjson
from sqlalchemy import RowMapping, select

from anabranch.engine.rules.entry_points import WEBHOOK_TYPE
from anabranch.engine.store.sql.component import SqlComponent
from anabranch.triggers.armed_triggers import ArmedTrigger
from anabranch.triggers.trigger_schema import triggers

_ARMED = (
    triggers.c.trigger_id,
    triggers.c.tenant_id,
    triggers.c.kind,
    triggers.c.workflow_id,
    triggers.c.workflow,
    triggers.c.version,
    triggers.c.node_id,
    triggers.c.subject,
    triggers.c.config,
)
"""Named like the fields of `ArmedTrigger`."""


class TriggerTable:
    """`armed_triggers.ArmedTriggers` on a SQL store."""

    def __init__(self, store: SqlComponent) -> None:
        self._store = store

    async def find_hook(self, path: str, *, tenant_id: str) -> ArmedTrigger | None:
        """Uses ux_trigger_webhook."""
        wanted = select(*_ARMED).where(
            triggers.c.tenant_id == tenant_id, triggers.c.kind == WEBHOOK_TYPE, triggers.c.subject == path
        )
        row = await self._store.read(lambda connection: connection.execute(wanted).mappings().one_or_none())
        return None if row is None else _armed(row)

    async def list_hooks(self, *, tenant_id: str) -> Sequence[ArmedTrigger]:
        """Uses ux_trigger_webhook."""
        wanted = select(*_ARMED).where(triggers.c.tenant_id == tenant_id, triggers.c.kind == WEBHOOK_TYPE)
        rows = await self._store.read(lambda connection: connection.execute(wanted).mappings().all())
        return sorted(map(_armed, rows), key=lambda hook: hook.subject)


def _armed(row: RowMapping) -> ArmedTrigger:
    return ArmedTrigger(**{**row, "config": orjson.loads(row["config"])})

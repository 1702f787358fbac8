"""Schedules in the table of triggers: their settings, and the next occurrence of each.

Used by the service and by the scheduler. Shares the database threads of the store
that it is built on. What is hot is one look at the due ones, twice a second and process.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import orjson
from sqlalchemy import Connection, Row, Select, and_, delete, func, insert, or_, select, update

from anabranch.audit.audit_recording import record_audit_event
from anabranch.engine.rules.entry_points import SCHEDULE_TYPE
from anabranch.engine.store.sql.component import SqlComponent
from anabranch.engine.store.sql.database_errors import DuplicateRefused
from anabranch.engine.store.sql.reading.reads import is_uuid
from anabranch.errors import LimitReached, NameTaken
from anabranch.triggers.schedules.saved_schedules import Schedule
from anabranch.triggers.trigger_schema import IS_SAVED, triggers

_COLUMNS = (
    triggers.c.trigger_id,
    triggers.c.tenant_id,
    triggers.c.name,
    triggers.c.workflow,
    triggers.c.version,
    triggers.c.config,
    triggers.c.enabled,
    triggers.c.next_at,
    triggers.c.last_at,
    triggers.c.last_instance_id,
    triggers.c.last_error,
    triggers.c.created_at,
    triggers.c.updated_at,
    triggers.c.workflow_id,
    triggers.c.node_id,
)

_SCHEDULES = select(*_COLUMNS).where(triggers.c.kind == SCHEDULE_TYPE)

# What has come of it is written by `advance` alone: a run that was started since we looked stays noted.
_SAVED = ("name", "workflow", "version", "enabled", "next_at", "updated_at")


class ScheduleTable:
    """`saved_schedules.SavedSchedules` on a SQL store."""

    def __init__(self, store: SqlComponent) -> None:
        self._store = store

    async def save_schedule(self, schedule: Schedule, *, count_max: int, actor: str | None = None) -> Schedule:
        """The schedule as it was written. Raises NameTaken; LimitReached where the tenant has `count_max` of them."""

        def save(connection: Connection) -> Schedule:
            now = self._store.dialect.now(connection)
            saved = _save(connection, schedule, now=now, count_max=count_max)
            _record(connection, actor, "schedule.saved", saved.tenant_id, saved.schedule_id, saved.name, now=now)
            return saved

        try:
            return await self._store.transact(save)
        except DuplicateRefused:
            hint = "Choose another name, or update that one."
            raise NameTaken(f"there is a schedule {schedule.name!r} already", hint=hint) from None

    async def find_schedule(self, key: str, *, tenant_id: str) -> Schedule | None:
        """By primary key or ux_trigger_name: a name never looks like an id."""
        column = triggers.c.trigger_id if is_uuid(key) else triggers.c.name
        found = await self._rows(_SCHEDULES.where(triggers.c.tenant_id == tenant_id, column == key))
        return found[0] if found else None

    async def list_schedules(self, *, tenant_id: str) -> Sequence[Schedule]:
        """Uses ix_trigger_head."""
        found = await self._rows(_SCHEDULES.where(triggers.c.tenant_id == tenant_id))
        return sorted(found, key=lambda schedule: schedule.name)  # databases do not agree on the order of texts

    async def delete_schedule(self, schedule_id: str, *, tenant_id: str, actor: str | None = None) -> bool:
        """Remove a schedule, and record it; False if the tenant has none with this id."""
        row = and_(triggers.c.trigger_id == schedule_id, triggers.c.tenant_id == tenant_id, IS_SAVED)
        statement = delete(triggers).where(row).returning(triggers.c.name)

        def remove(connection: Connection) -> bool:
            name = connection.execute(statement).scalar_one_or_none()
            if name is None:
                return False
            now = self._store.dialect.now(connection)
            _record(connection, actor, "schedule.deleted", tenant_id, schedule_id, name, now=now)
            return True

        return is_uuid(schedule_id) and await self._store.transact(remove)

    async def record_use(
        self, schedule: Schedule, action: str, details: Mapping[str, Any], *, actor: str | None
    ) -> None:
        """Write an audit row about what was done with a schedule, such as a trigger by hand."""

        def record(connection: Connection) -> None:
            """Write the row of the audit trail."""
            now = self._store.dialect.now(connection)
            record_audit_event(
                connection,
                actor,
                action,
                tenant_id=schedule.tenant_id,
                target=schedule.schedule_id,
                details={"name": schedule.name, **details},
                now=now,
            )

        if actor is not None:
            await self._store.transact(record)

    async def due_schedules(self, *, now: int, limit: int, after: tuple[int, str] | None) -> Sequence[Schedule]:
        """Uses ix_trigger_due."""
        due = _SCHEDULES.where(triggers.c.next_at.is_not(None), triggers.c.next_at <= now)
        if after is not None:
            at, schedule_id = after
            later = or_(triggers.c.next_at > at, and_(triggers.c.next_at == at, triggers.c.trigger_id > schedule_id))
            due = due.where(triggers.c.next_at >= at, later)
        return await self._rows(due.order_by(triggers.c.next_at, triggers.c.trigger_id).limit(limit))

    async def advance(self, was: Schedule, becomes: Schedule) -> bool:
        """One statement, no lock: the first to compare wins."""
        statement = (
            update(triggers)
            .where(
                triggers.c.trigger_id == was.schedule_id,
                triggers.c.next_at == was.next_at,
                triggers.c.version.is_not_distinct_from(was.version),
            )
            .values(
                next_at=becomes.next_at,
                last_at=becomes.last_at,
                last_instance_id=becomes.last_instance_id,
                last_error=_text(becomes.last_error),
            )
        )
        return await self._store.write(lambda connection: connection.execute(statement).rowcount > 0)

    async def _rows(self, query: Select[Any]) -> list[Schedule]:
        return await self._store.read(lambda connection: [_schedule(row) for row in connection.execute(query)])


def _save(connection: Connection, wanted: Schedule, *, now: int, count_max: int) -> Schedule:
    row = and_(triggers.c.trigger_id == wanted.schedule_id, triggers.c.tenant_id == wanted.tenant_id)
    created_at = connection.execute(select(triggers.c.created_at).where(row)).scalar_one_or_none()
    if created_at is None:
        of_tenant = and_(triggers.c.tenant_id == wanted.tenant_id, triggers.c.kind == SCHEDULE_TYPE)
        count = select(func.count()).select_from(triggers).where(of_tenant)
        if connection.execute(count).scalar_one() >= count_max:
            raise LimitReached(f"there are {count_max} schedules already")
        saved = replace(wanted, created_at=now, updated_at=now)
        values = _values(saved) | {"trigger_id": saved.schedule_id, "tenant_id": saved.tenant_id}
        connection.execute(insert(triggers).values(values | {"kind": SCHEDULE_TYPE, "created_at": now}))
    else:
        saved = replace(wanted, created_at=created_at, updated_at=now)
        connection.execute(update(triggers).where(row).values(_values(saved)))
    return saved


def _record(
    connection: Connection, actor: str | None, action: str, tenant_id: str, schedule_id: str, name: str, *, now: int
) -> None:
    record_audit_event(
        connection, actor, action, tenant_id=tenant_id, target=schedule_id, details={"name": name}, now=now
    )


def _values(schedule: Schedule) -> dict[str, Any]:
    timing = {
        "cron": schedule.cron,
        "timezone": schedule.timezone,
        "everyMs": schedule.every_ms,
        "anchorAt": schedule.anchor_at,
        "missed": schedule.missed,
        "input": schedule.input_,
    }
    return {name: getattr(schedule, name) for name in _SAVED} | {"config": orjson.dumps(timing).decode()}


def _text(error: dict[str, Any] | None) -> str | None:
    return None if error is None else orjson.dumps(error).decode()


def _schedule(row: Row[Any]) -> Schedule:
    config = orjson.loads(row.config)
    return Schedule(
        schedule_id=row.trigger_id,
        tenant_id=row.tenant_id,
        name=row.name or f"{row.workflow}/{row.node_id}",
        workflow=row.workflow,
        version=row.version,
        kind="interval" if config["cron"] is None else "cron",
        cron=config["cron"],
        timezone=config["timezone"],
        every_ms=config["everyMs"],
        anchor_at=config["anchorAt"],
        input_=config.get("input"),
        missed=config["missed"],
        enabled=bool(row.enabled),
        next_at=row.next_at,
        last_at=row.last_at,
        last_instance_id=row.last_instance_id,
        last_error=None if row.last_error is None else orjson.loads(row.last_error),
        created_at=row.created_at,
        updated_at=row.updated_at,
        workflow_id=row.workflow_id,
        node_id=row.node_id,
        gives_time=row.node_id is not None and "input" not in config,
    )

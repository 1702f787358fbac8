"""The tables of schedules: their settings, and the next occurrence of each.

Used by the service and by the scheduler. Shares the database threads of the store
that it is built on. What is hot is one look at the due ones, twice a second and process.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import orjson
from sqlalchemy import Connection, Select, and_, delete, func, insert, or_, select, update

from anabranch.audit.audit_recording import record_audit_event
from anabranch.engine.store.sql.component import SqlComponent
from anabranch.engine.store.sql.faults import DuplicateRefused
from anabranch.engine.store.sql.reads import is_uuid
from anabranch.errors import LimitReached, NameTaken
from anabranch.triggers.schedules.saved_schedules import Schedule
from anabranch.triggers.schedules.schedule_schema import schedules

_COLUMNS = (
    schedules.c.schedule_id,
    schedules.c.tenant_id,
    schedules.c.name,
    schedules.c.workflow,
    schedules.c.version,
    schedules.c.kind,
    schedules.c.cron,
    schedules.c.timezone,
    schedules.c.every_ms,
    schedules.c.anchor_at,
    schedules.c.input,
    schedules.c.missed,
    schedules.c.enabled,
    schedules.c.next_at,
    schedules.c.last_at,
    schedules.c.last_instance_id,
    schedules.c.last_error,
    schedules.c.created_at,
    schedules.c.updated_at,
)
"""In the order of the fields of `Schedule`."""


class ScheduleTable:
    """`saved_schedules.SavedSchedules` on a SQL store."""

    def __init__(self, store: SqlComponent) -> None:
        self._store = store

    async def save_schedule(self, schedule: Schedule, *, count_max: int, actor: str | None = None) -> Schedule:
        """The schedule as it was written. Raises NameTaken; LimitReached where the tenant has `count_max` of them."""

        def save(connection: Connection) -> Schedule:
            with self._store.dialect.transaction(connection):
                now = self._store.dialect.now(connection)
                saved = _save(connection, schedule, now=now, count_max=count_max)
                _record(connection, actor, "schedule.saved", saved.tenant_id, saved.schedule_id, saved.name, now=now)
                return saved

        try:
            return await self._store.write(save)
        except DuplicateRefused:
            hint = "Choose another name, or update that one."
            raise NameTaken(f"there is a schedule {schedule.name!r} already", hint=hint) from None

    async def find_schedule(self, key: str, *, tenant_id: str) -> Schedule | None:
        """By primary key or ux_schedule_name: a name never looks like an id."""
        column = schedules.c.schedule_id if is_uuid(key) else schedules.c.name
        found = await self._rows(select(*_COLUMNS).where(schedules.c.tenant_id == tenant_id, column == key))
        return found[0] if found else None

    async def list_schedules(self, *, tenant_id: str) -> Sequence[Schedule]:
        """Uses ux_schedule_name."""
        found = await self._rows(select(*_COLUMNS).where(schedules.c.tenant_id == tenant_id))
        return sorted(found, key=lambda schedule: schedule.name)  # databases do not agree on the order of texts

    async def delete_schedule(self, schedule_id: str, *, tenant_id: str, actor: str | None = None) -> bool:
        """Remove a schedule, and record it; False if the tenant has none with this id."""
        row = and_(schedules.c.schedule_id == schedule_id, schedules.c.tenant_id == tenant_id)
        statement = delete(schedules).where(row).returning(schedules.c.name)

        def remove(connection: Connection) -> bool:
            with self._store.dialect.transaction(connection):
                name = connection.execute(statement).scalar_one_or_none()
                if name is None:
                    return False
                now = self._store.dialect.now(connection)
                _record(connection, actor, "schedule.deleted", tenant_id, schedule_id, name, now=now)
                return True

        return is_uuid(schedule_id) and await self._store.write(remove)

    async def record_use(
        self, schedule: Schedule, action: str, details: Mapping[str, Any], *, actor: str | None
    ) -> None:
        """Write an audit row about what was done with a schedule, such as a trigger by hand."""

        def record(connection: Connection) -> None:
            with self._store.dialect.transaction(connection):
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
            await self._store.write(record)

    async def due_schedules(self, *, now: int, limit: int, after: tuple[int, str] | None) -> Sequence[Schedule]:
        """Uses ix_schedule_due."""
        due = select(*_COLUMNS).where(schedules.c.next_at.is_not(None), schedules.c.next_at <= now)
        if after is not None:
            at, schedule_id = after
            later = or_(
                schedules.c.next_at > at, and_(schedules.c.next_at == at, schedules.c.schedule_id > schedule_id)
            )
            due = due.where(schedules.c.next_at >= at, later)
        return await self._rows(due.order_by(schedules.c.next_at, schedules.c.schedule_id).limit(limit))

    async def advance(self, was: Schedule, becomes: Schedule) -> bool:
        """One statement, no lock: the first to compare wins."""
        statement = (
            update(schedules)
            .where(
                schedules.c.schedule_id == was.schedule_id,
                schedules.c.next_at == was.next_at,
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
    row = and_(schedules.c.schedule_id == wanted.schedule_id, schedules.c.tenant_id == wanted.tenant_id)
    created_at = connection.execute(select(schedules.c.created_at).where(row)).scalar_one_or_none()
    if created_at is None:
        of_tenant = select(func.count()).select_from(schedules).where(schedules.c.tenant_id == wanted.tenant_id)
        if connection.execute(of_tenant).scalar_one() >= count_max:
            raise LimitReached(f"there are {count_max} schedules already")
        saved = replace(wanted, created_at=now, updated_at=now)
        connection.execute(insert(schedules).values(_values(saved)))
    else:
        saved = replace(wanted, created_at=created_at, updated_at=now)
        # What has come of it is `advance`'s to write: a run that was started since we looked stays noted.
        saying = {name: value for name, value in _values(saved).items() if not name.startswith("last_")}
        connection.execute(update(schedules).where(row).values(saying))
    return saved


def _record(
    connection: Connection, actor: str | None, action: str, tenant_id: str, schedule_id: str, name: str, *, now: int
) -> None:
    record_audit_event(
        connection, actor, action, tenant_id=tenant_id, target=schedule_id, details={"name": name}, now=now
    )


def _values(schedule: Schedule) -> dict[str, Any]:
    values = {column.name: getattr(schedule, column.name) for column in _COLUMNS if column.name != "input"}
    return values | {"input": orjson.dumps(schedule.input_).decode(), "last_error": _text(schedule.last_error)}


def _text(error: dict[str, Any] | None) -> str | None:
    return None if error is None else orjson.dumps(error).decode()


def _schedule(row: Sequence[Any]) -> Schedule:
    found = Schedule(*row)
    return replace(
        found,
        input_=orjson.loads(found.input_),
        enabled=bool(found.enabled),
        last_error=None if found.last_error is None else orjson.loads(str(found.last_error)),
    )

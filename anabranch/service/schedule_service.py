"""The façade of schedules: every verb that people and programs have.

Called by the command line, and by every later front door. Knows the store's room for schedules, the
façade of workflows and when schedules are due; no HTTP. Every verb takes the tenant; another tenant's
schedules read as absent. What an `actor` (the id of a key, or the command line) changes is on record.
Their runs are started by `triggers.Scheduler`.
"""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any

from anabranch.engine.saved_triggers import SavedSchedules, Schedule
from anabranch.errors import NotFound
from anabranch.service.admission import is_storable
from anabranch.service.documents import refused
from anabranch.service.schedule_documents import ScheduleWish, read_schedule
from anabranch.service.workflow_service import WorkflowService
from anabranch.triggers.occurrences import next_after
from anabranch.triggers.scheduler import timing_of

# 10,000 schedules per tenant: were all due in one second, the last would start half a minute late on a small machine.
SCHEDULES_MAX = 10_000


class ScheduleService:
    """Schedules of one database."""

    def __init__(
        self, *, saved: SavedSchedules, workflows: WorkflowService, store_now: Callable[[], Awaitable[int]]
    ) -> None:
        """`store_now` is the clock that schedules are due by."""
        self._saved = saved
        self._workflows = workflows
        self._store_now = store_now

    async def create_schedule(self, document: Any, *, tenant_id: str, actor: str | None = None) -> Schedule:
        """Save a new schedule; its first occurrence is later than now.

        The document is `{"name", "workflow", "cron", "timezone"?}` or `{"name", "workflow", "every"}`, each with
        `"version"?, "input"?, "missed"?, "enabled"?`. Raises InvalidRequest, NameTaken, LimitReached.
        """
        wish = await self._read(document, tenant_id)
        now = await self._store_now()
        schedule = _awaiting_next(wish.as_schedule(str(uuid.uuid4()), tenant_id, anchor_at=now), now)
        return await self._saved.save_schedule(schedule, count_max=SCHEDULES_MAX, actor=actor)

    async def update_schedule(self, key: str, document: Any, *, tenant_id: str, actor: str | None = None) -> Schedule:
        """Replace a schedule as a whole; what the document leaves out takes its default. Raises NotFound too.

        If timing and workflow stay the same, so does what is due. Otherwise, and when it is enabled again, the
        next occurrence is the first one later than now. An interval that stays the same keeps its rhythm.
        """
        known = await self.get_schedule(key, tenant_id=tenant_id)
        wish = await self._read(document, tenant_id)
        now = await self._store_now()
        keeps_rhythm = wish.every_ms is not None and wish.every_ms == known.every_ms
        wanted = replace(
            wish.as_schedule(known.schedule_id, tenant_id, anchor_at=known.anchor_at if keeps_rhythm else now),
            last_at=known.last_at,
            last_instance_id=known.last_instance_id,
            last_error=known.last_error,
        )
        if wanted.enabled and _starts_the_same(known, wanted):
            wanted = replace(wanted, next_at=known.next_at)
        else:
            # With another workflow an occurrence that has just been started could get a second run.
            wanted = _awaiting_next(wanted, now)
        return await self._saved.save_schedule(wanted, count_max=SCHEDULES_MAX, actor=actor)

    async def list_schedules(self, *, tenant_id: str) -> Sequence[Schedule]:
        """All of them, by name."""
        return await self._saved.list_schedules(tenant_id=tenant_id)

    async def get_schedule(self, key: str, *, tenant_id: str) -> Schedule:
        """One by id or name. Raises NotFound."""
        found = await self._saved.find_schedule(key, tenant_id=tenant_id) if is_storable(key) else None
        if found is None:
            raise NotFound(f"there is no schedule {key!r}", hint="`anabranch schedules list` shows them.")
        return found

    async def delete_schedule(self, key: str, *, tenant_id: str, actor: str | None = None) -> None:
        """Remove one; the runs that it has started go on. Raises NotFound."""
        known = await self.get_schedule(key, tenant_id=tenant_id)
        await self._saved.delete_schedule(known.schedule_id, tenant_id=tenant_id, actor=actor)

    async def _read(self, document: Any, tenant_id: str) -> ScheduleWish:
        wish, problems = read_schedule(document)
        try:
            await self._workflows.get_workflow_by_id(wish.workflow, tenant_id=tenant_id, version=wish.version)
        except NotFound as absent:
            problems.append((absent.code, "/workflow", absent.message))
        if problems:
            raise refused(problems)
        return wish


def _awaiting_next(schedule: Schedule, now: int) -> Schedule:
    return replace(schedule, next_at=next_after(timing_of(schedule), now) if schedule.enabled else None)


def _starts_the_same(known: Schedule, wanted: Schedule) -> bool:
    return (
        known.enabled
        and timing_of(known) == timing_of(wanted)
        and (known.workflow, known.version) == (wanted.workflow, wanted.version)
    )

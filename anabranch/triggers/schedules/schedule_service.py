"""ScheduleService: save, read, delete, trigger and backfill schedules.

Called by the APIs and the command line. It knows the port of schedules, the workflow service and
`occurrences`; no HTTP. Every method takes the tenant and does not see other tenants' schedules. Changes by an `actor`
(the id of a key, or `cli`) are in the audit trail. `Scheduler` starts the runs.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any

from anabranch.engine.rules.instants import to_iso
from anabranch.engine.rules.values import check_key, is_storable
from anabranch.errors import ArmedByNode, NoManualStart, NotFound
from anabranch.run_requests import StartedRun
from anabranch.service.documents import refused
from anabranch.service.workflow_service import WorkflowService
from anabranch.triggers.run_starter import check_start_by_hand
from anabranch.triggers.schedules.occurrences import MADE_UP_FOR_MAX, next_after, occurrences_between
from anabranch.triggers.schedules.saved_schedules import SavedSchedules, Schedule
from anabranch.triggers.schedules.schedule_documents import ParsedSchedule, read_schedule
from anabranch.triggers.schedules.scheduler import occurrence_key, options_of, timing_of, trigger_key

# 10,000 schedules per tenant: were all due in one second, the last would start half a minute late on a small machine.
SCHEDULES_MAX = 10_000

# 1,000 occurrences in one call, as many as the scheduler starts late at once; call again for more.
BACKFILL_MAX = MADE_UP_FOR_MAX

# 32 starts at once: as many as share a commit well, and most of the database threads stay free for the runs.
STARTS_AT_ONCE_MAX = 32


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
        """Replace a schedule as a whole; what the document leaves out takes its default. Raises NotFound and
        ArmedByNode, too.

        If timing and workflow stay the same, so does what is due. Otherwise, and when it is enabled again, the
        next occurrence is the first one later than now. An interval that stays the same keeps its rhythm.
        """
        known = await self._get_saved(key, tenant_id=tenant_id)
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
        """Remove one; the runs that it has started go on. Raises NotFound, ArmedByNode."""
        known = await self._get_saved(key, tenant_id=tenant_id)
        await self._saved.delete_schedule(known.schedule_id, tenant_id=tenant_id, actor=actor)

    async def trigger_now(
        self, key: str, *, tenant_id: str, idempotency_key: str | None = None, actor: str | None = None
    ) -> StartedRun:
        """Start a run of a schedule now, beside its occurrences, which stay as they are; also while it is disabled.

        A repeated `idempotency_key` gives the first run. On record before the start, so that no run is without a
        row. Raises what a start raises.
        """
        if idempotency_key is not None:
            check_key(idempotency_key, "an idempotency key")
        schedule = await self.get_schedule(key, tenant_id=tenant_id)
        await self._saved.record_use(schedule, "schedule.triggered", {}, actor=actor)
        once = str(uuid.uuid4()) if idempotency_key is None else idempotency_key
        payload = schedule.payload_at(await self._store_now())
        return await self._start(schedule, payload, trigger_key(schedule.schedule_id, once))

    async def backfill(
        self, key: str, *, tenant_id: str, since: int, until: int, actor: str | None = None
    ) -> list[tuple[int, StartedRun]]:
        """Start the runs of the occurrences with since ≤ t < until that have none: each with its time and its run.

        On record before the first start. They have the keys that the scheduler gives them, so that none has two
        runs, by whichever process and however often. Raises InvalidRequest for a range that is empty, reaches into the
        future or holds more than `BACKFILL_MAX` occurrences; and what a start raises: the same call then goes on.
        """
        schedule = await self.get_schedule(key, tenant_id=tenant_id)
        _check_range(since, until, now=await self._store_now())
        # In a thread: to count thousands of occurrences takes some tenths of a second.
        occurrences = await asyncio.to_thread(
            occurrences_between, timing_of(schedule), since=since, until=until, count_max=BACKFILL_MAX + 1
        )
        if len(occurrences) > BACKFILL_MAX:
            last = to_iso(occurrences[BACKFILL_MAX])
            text = f"there are more than {BACKFILL_MAX} occurrences; the first {BACKFILL_MAX} are before {last}"
            raise refused(
                [("TOO_MANY_OCCURRENCES", "/to", text)], hint=f"Backfill up to {last}, then go on from there."
            )
        details = {"from": to_iso(since), "to": to_iso(until), "occurrences": len(occurrences)}
        await self._saved.record_use(schedule, "schedule.backfilled", details, actor=actor)
        slots = asyncio.Semaphore(STARTS_AT_ONCE_MAX)

        async def start(occurrence: int) -> tuple[int, StartedRun]:
            async with slots:
                key = occurrence_key(schedule.schedule_id, occurrence)
                return occurrence, await self._start(schedule, schedule.payload_at(occurrence), key)

        answers = await asyncio.gather(*map(start, occurrences), return_exceptions=True)
        started: list[tuple[int, StartedRun]] = []
        for answer in answers:
            if isinstance(answer, BaseException):
                raise answer
            started.append(answer)
        return started

    async def _start(self, schedule: Schedule, payload: Any, key: str) -> StartedRun:
        return await self._workflows.start_triggered_run(
            schedule.starts, payload, options_of(schedule, key), tenant_id=schedule.tenant_id
        )

    async def _get_saved(self, key: str, *, tenant_id: str) -> Schedule:
        found = await self.get_schedule(key, tenant_id=tenant_id)
        if found.node_id is not None:
            where = f"by node {found.node_id!r} of workflow {found.workflow}, version {found.version}"
            raise ArmedByNode(f"schedule {found.schedule_id} is armed {where}")
        return found

    async def _read(self, document: Any, tenant_id: str) -> ParsedSchedule:
        wish, problems = read_schedule(document)
        try:
            found = await self._workflows.get_startable(wish.workflow, tenant_id=tenant_id, version=wish.version)
            check_start_by_hand(found)
        except (NotFound, NoManualStart) as refusal:
            problems.append((refusal.code, "/workflow", refusal.message))
        if problems:
            raise refused(problems)
        return wish


def _check_range(since: int, until: int, *, now: int) -> None:
    problems = []
    if since >= until:
        problems.append(("EMPTY_RANGE", "/to", f"{to_iso(until)} is not after {to_iso(since)}"))
    if until > now:
        text = f"{to_iso(until)} is in the future: the database's clock says {to_iso(now)}"
        problems.append(("IN_THE_FUTURE", "/to", text))
    if problems:
        raise refused(problems, hint="Give another range.")


def _awaiting_next(schedule: Schedule, now: int) -> Schedule:
    return replace(schedule, next_at=next_after(timing_of(schedule), now) if schedule.enabled else None)


def _starts_the_same(known: Schedule, wanted: Schedule) -> bool:
    return (
        known.enabled
        and timing_of(known) == timing_of(wanted)
        and (known.workflow, known.version) == (wanted.workflow, wanted.version)
    )

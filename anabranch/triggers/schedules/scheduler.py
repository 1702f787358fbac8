"""The scheduler: starts the runs of due schedules; every working process has one.

Started and stopped with the engine. Several schedulers need no coordination: an
occurrence is started under an idempotency key of its own, so it has one run whichever process starts it and
however often, and only then the schedule is moved on, by the first process. A crash in between
leaves an occurrence that is due again, and whose start finds the run.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace

from anabranch.engine.periodic_poller import Poller
from anabranch.engine.ports import Clock
from anabranch.engine.rules.instants import to_iso
from anabranch.errors import AnabranchError, InvalidRequest, StoreUnavailable
from anabranch.run_requests import StartOptions
from anabranch.triggers.run_starter import REFUSED_FOR_GOOD, Starter
from anabranch.triggers.schedules.occurrences import BadTiming, Cron, Interval, MissedPolicy, Timing, due_occurrences
from anabranch.triggers.schedules.saved_schedules import SavedSchedules, Schedule

logger = logging.getLogger("anabranch.triggers")

# Half the promised second of lateness.
POLL_MS = 500

# 500 schedules a statement; the next ones follow at once.
DUE_MAX = 500

# 16 schedules at once: their starts share commits, and leave most of the database threads to the runs.
AT_ONCE_MAX = 16

# 25 occurrences of one schedule in a look: one that makes up for a thousand does not make others late.
STARTS_MAX = 25


class Scheduler(Poller):
    """Looks for due occurrences and starts their runs."""

    def __init__(
        self,
        *,
        saved: SavedSchedules,
        starter: Starter,
        clock: Clock,
        store_now: Callable[[], Awaitable[int]],
        covers: Callable[[], bool] | None = None,
    ) -> None:
        """`store_now` is the clock that occurrences are judged by; `clock` only waits between two looks. `covers`:
        whether another process does it now."""
        super().__init__(
            self.look_once, name="starting what is due", every_ms=POLL_MS, sleep=clock.sleep, only_on_request=covers
        )
        self._saved = saved
        self._starter = starter
        self._store_now = store_now
        self._awake_since: int | None = None
        self._slots = asyncio.Semaphore(AT_ONCE_MAX)

    async def start(self) -> None:
        """Start polling. Another process starts what a `stop` interrupts."""
        self.soon()
        await super().start()

    async def look_once(self) -> bool:
        """Start what is due now; True if a schedule has more missed occurrences. Raises StoreUnavailable."""
        now = await self._store_now()
        if self._awake_since is None:
            self._awake_since = now
        after: tuple[int, str] | None = None
        has_more = False
        while True:
            due = await self._saved.due_schedules(now=now, limit=DUE_MAX, after=after)
            answers = await asyncio.gather(
                *(self._attend(schedule, now=now, awake_since=self._awake_since) for schedule in due),
                return_exceptions=True,
            )
            for answer in answers:
                if isinstance(answer, BaseException):
                    raise answer
                has_more = has_more or answer
            if len(due) < DUE_MAX:
                return has_more
            last = due[-1]
            after = (last.next_at or 0, last.schedule_id)

    async def _attend(self, schedule: Schedule, *, now: int, awake_since: int) -> bool:
        """Start what is due of one schedule; True if more could be started at once."""
        assert schedule.next_at is not None, "what has no next occurrence is not due"
        async with self._slots:
            try:
                # In a thread: to look back over a long absence takes a tenth of a second.
                due = await asyncio.to_thread(
                    due_occurrences,
                    timing_of(schedule),
                    next_at=schedule.next_at,
                    now=now,
                    missed=MissedPolicy(schedule.missed),
                    awake_since=awake_since,
                )
            except BadTiming as problem:  # a time zone that this machine does not know: another one may
                await self._note(schedule, InvalidRequest.code, str(problem), schedule.next_at)
                return False
            starts, rest = due.starts[:STARTS_MAX], due.starts[STARTS_MAX:]
            if not starts:
                await self._saved.advance(schedule, replace(schedule, next_at=due.following))
            upcoming = (*starts[1:], rest[0] if rest else due.following)
            for occurrence, following in zip(starts, upcoming, strict=False):
                moved = await self._start_run(schedule, occurrence, following)
                if moved is None:
                    return False
                schedule = moved
            return bool(rest)

    async def _start_run(self, schedule: Schedule, occurrence: int, following: int | None) -> Schedule | None:
        """Start one occurrence and advance the schedule; None if it must be retried, or another process has advanced
        it."""
        try:
            run = await self._starter.start_triggered_run(
                schedule.starts,
                schedule.payload_at(occurrence),
                options_of(schedule, occurrence_key(schedule.schedule_id, occurrence)),
                tenant_id=schedule.tenant_id,
            )
        except StoreUnavailable:
            raise
        except REFUSED_FOR_GOOD as refusal:
            error = _error(refusal.code, refusal.message, occurrence)
            moved = replace(schedule, next_at=following, last_error=error)
        except AnabranchError as hindrance:
            await self._note(schedule, hindrance.code, hindrance.message, occurrence)
            return None
        except Exception as fault:
            # Any error: the other schedules continue, and this one is retried until its next occurrence.
            if await self._note(schedule, AnabranchError.code, f"{type(fault).__name__}: {fault}", occurrence):
                logger.exception("schedule %s could not start its run; retrying", schedule.schedule_id)
            return None
        else:
            moved = replace(
                schedule, next_at=following, last_at=occurrence, last_instance_id=run.instance_id, last_error=None
            )
        return moved if await self._saved.advance(schedule, moved) else None

    async def _note(self, schedule: Schedule, code: str, message: str, occurrence: int) -> bool:
        """Store why an occurrence has not started yet, once: True if that has changed."""
        error = _error(code, message, occurrence)
        if error == schedule.last_error:
            return False
        return await self._saved.advance(schedule, replace(schedule, last_error=error))


def timing_of(schedule: Schedule) -> Timing:
    """The timing that its occurrences are computed from."""
    if schedule.cron is not None:
        return Cron(schedule.cron, schedule.timezone)
    assert schedule.every_ms is not None, "a schedule has a cron expression or an interval"
    return Interval(schedule.anchor_at, schedule.every_ms)


def options_of(schedule: Schedule, key: str) -> StartOptions:
    """The options with which its runs are started: one that a node has armed begins at this node."""
    return StartOptions(
        version=schedule.version, idempotency_key=key, trigger=schedule.node_id, started_by=schedule.node_id
    )


def occurrence_key(schedule_id: str, occurrence: int) -> str:
    """The idempotency key of an occurrence's run, which shows when it was due."""
    return f"schedule:{schedule_id}:{to_iso(occurrence)}"


def trigger_key(schedule_id: str, key: str) -> str:
    """The idempotency key of a manually triggered run, hashed so that every key fits."""
    return f"schedule:{schedule_id}:now:{hashlib.sha256(key.encode()).hexdigest()}"


def _error(code: str, message: str, occurrence: int) -> dict[str, str]:
    return {"code": code, "message": message, "occurrenceAt": to_iso(occurrence)}

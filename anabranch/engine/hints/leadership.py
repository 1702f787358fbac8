"""Leadership: one worker of a database does the looks that concern all, and the others wait for hints.

Due runs, pauses, schedules, messages and upkeep are the same for every worker, so one of them looks, and sends a hint
when there is something to do. The leader is who holds the lease of a row. It sends a beat after each extension; a
worker that hears beats is covered and does not poll while it is idle. One that hears none for `SILENCE_MS` polls by
itself and tries to take the lead. Leadership saves statements only: every look may be done by any number of workers.

Made by `lifecycle` for databases with a hint line. A worker without one is never covered, and never leads.
"""

from __future__ import annotations

import asyncio
import logging
import zlib
from collections.abc import Callable, Sequence

from anabranch.engine.hints.hint_line import LeaderRows
from anabranch.engine.poller import Poller
from anabranch.engine.ports import Clock
from anabranch.errors import StoreUnavailable

logger = logging.getLogger("anabranch.engine")

# A beat every 2 s is one short statement, however many workers hear it.
BEAT_MS = 2_000

# 5 s, two lost beats and some: so long after the last one, workers look for themselves and the lease is over.
SILENCE_MS = 5_000

# Workers notice the silence up to 1 s apart: the first becomes the leader, and the others hear it before their turn.
APART_MS = 1_000

# 10 min, then another worker leads: what one of them cannot do (a time zone that its machine does not know) waits no
# longer for another. For 6 s the former leader does not try again; meanwhile it looks as before until it hears a beat.
TERM_S = 600.0
REST_S = 6.0

# Runs that stay due, because no worker that is free can execute them, are hinted at again after 1 s, then after twice
# as long each time, up to 30 s: each hint makes all idle workers look.
REMIND_FIRST_S = 1.0
REMIND_LAST_S = 30.0

# 1,000 due runs are looked at: more only come after a standstill, when all workers are busy.
DUE_MAX = 1_000

# 1 s to free the row: a stopping process does not wait longer for that.
RESIGN_S = 1.0

LEADS = "leads"
RESIGNS = "resigns"


class Leadership:
    """Whether this worker leads, or is covered by one that does."""

    def __init__(
        self,
        *,
        rows: LeaderRows | None,
        worker_id: str,
        clock: Clock,
        poll_ms: int,
        say: Callable[[str], None],
        offer: Callable[[], None],
    ) -> None:
        """`rows` is None where nobody leads. `say` sends a word to the other workers; `offer` tells them of due
        runs."""
        self._rows = rows
        self._worker_id = worker_id
        self._clock = clock
        self._say = say
        self._offer = offer
        self._apart_s = zlib.crc32(worker_id.encode()) % APART_MS / 1000
        self._covered_until = 0.0
        self._leads_since: float | None = None
        self._rests_until = 0.0
        self._uncovered: list[Callable[[], None]] = []
        self._seen = (0, 0)
        """The due runs of the last look, as `LeaderRows.due` has them."""
        self._reminds_at = self._remind_s = 0.0
        self._listens = False
        self._holding = Poller(self.look, name="leading", every_ms=self._until_next_ms, sleep=clock.sleep,
                               unavailable=self._database_away)  # fmt: skip
        self._searching = Poller(self.look_for_due, name="looking for due runs", every_ms=poll_ms, sleep=clock.sleep,
                                 only_on_request=lambda: not self.leads, unavailable=self._database_away)  # fmt: skip

    @property
    def leads(self) -> bool:
        """Whether this worker does the looks for all."""
        return self._leads_since is not None

    def covers(self) -> bool:
        """Whether another worker does the looks for all, and this one would hear of what they find."""
        return not self.leads and self._listens and self._clock.monotonic() < self._covered_until

    def when_uncovered(self, look: Callable[[], None]) -> None:
        """`look` is called when this worker has to look for itself again."""
        self._uncovered.append(look)

    async def start(self) -> None:
        """Begin; until a beat is heard this worker looks for itself."""
        if self._rows is not None:
            await self._holding.start()
            await self._searching.start()

    async def stop(self) -> None:
        """Stop, and let another worker lead at once. May be called twice, or before start."""
        await self._searching.stop()
        await self._holding.stop()
        try:
            async with asyncio.timeout(RESIGN_S):
                await self._resign()
        except (StoreUnavailable, TimeoutError):
            logger.debug("the lead was not given up; it expires")

    def listens(self, *, connected: bool) -> None:
        """The hint line of this worker is connected, or lost."""
        self._listens = connected
        self._holding.soon()

    def heard(self, words: Sequence[str]) -> None:
        """Another worker leads, or leads no more."""
        silence_s = SILENCE_MS / 1000 if LEADS in words else 0.0
        self._covered_until = self._clock.monotonic() + silence_s + self._apart_s
        self._holding.soon()  # of two that lead, the row tells which one goes on

    async def look(self) -> None:
        """Extend the lead, or take it if nobody's beat is heard. Raises StoreUnavailable."""
        now = self._clock.monotonic()
        if self._rows is None or self.covers():
            return
        if self._leads_since is not None and now - self._leads_since > TERM_S:
            await self._resign()
        if not self.leads:
            for look in self._uncovered:
                look()
        if not self._listens or now < self._rests_until:
            return  # who cannot hear another's beat would not notice that two lead
        has_it = await self._rows.take(worker_id=self._worker_id, lease_ms=SILENCE_MS)
        if has_it != self.leads:
            logger.debug("this worker %s for all", "looks" if has_it else "does not look")
            self._leads_since = now if has_it else None
            self._searching.soon()
        if has_it:
            self._say(LEADS)

    async def look_for_due(self) -> None:
        """Tell the others of runs that have become due, and remind them of those that stay. Raises StoreUnavailable."""
        if self._rows is None or not self.leads:
            return
        now = self._clock.monotonic()
        seen, before = await self._rows.due(limit=DUE_MAX), self._seen
        self._seen = seen
        if seen[0] > before[0] or seen[1] > before[1]:
            self._remind_s = REMIND_FIRST_S
        elif seen[0] and now >= self._reminds_at:
            self._remind_s = min(self._remind_s * 2, REMIND_LAST_S)
        else:
            return
        self._reminds_at = now + self._remind_s
        self._offer()

    async def _resign(self) -> None:
        if self._rows is not None and self.leads:
            self._leads_since, self._covered_until = None, 0.0
            self._rests_until = self._clock.monotonic() + REST_S
            await self._rows.give_up(worker_id=self._worker_id)
            self._say(RESIGNS)

    def _until_next_ms(self) -> int:
        if not self.covers():
            return BEAT_MS
        return max(1, round((self._covered_until - self._clock.monotonic()) * 1000))

    def _database_away(self, failure: StoreUnavailable) -> None:
        """The engine says so already; meanwhile nobody is covered."""
        logger.debug("leading waits for the database: %s", failure.message)

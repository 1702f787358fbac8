"""Leadership: one worker of a database polls for all workers, and the others wait for its hints.

Due runs, pauses, schedules, messages and housekeeping are the same for every worker, so one of them polls, and sends a
hint when there is something to do. The leader is the worker that holds the lease of a row. It sends a beat with its
worker id after each extension. A worker is covered, and does not poll while it is idle, if it receives the beats of the
worker that the row names: beats alone may be forged, or come from an installation in another schema. It reads the row
when it is not covered, and with each of its reports. One that receives no beat for `SILENCE_MS` polls by itself and
tries to take the lead. A leader whose own polls fail or hang resigns. Leadership only saves statements: any number of
workers may poll.

Made by `lifecycle` for databases with a hint line. A worker without one is never covered, and never leads. Processes
without schedules and topics (`anabranch run`) are covered like others, but never lead.
"""

from __future__ import annotations

import logging
import secrets
from asyncio import timeout
from collections.abc import Callable, Sequence

from anabranch.dataclass import dataclass
from anabranch.engine.hints.hint_line import LeaderRows
from anabranch.engine.periodic_poller import Poller
from anabranch.engine.ports import Clock
from anabranch.errors import StoreUnavailable

logger = logging.getLogger("anabranch.engine")

# A beat every 2 s is one short statement, however many workers hear it.
BEAT_MS = 2_000

# 5 s, two lost beats and some: so long after the last one, workers look for themselves and the lease is over.
SILENCE_MS = 5_000

# Workers notice the silence up to 1 s apart: the first becomes the leader, and the others hear it before their turn.
# Each draws its delay anew for every change of the leader.
APART_MS = 1_000

# 10 min, then another worker leads, each of the others with the same chance: what one of them cannot do (a time zone
# that its machine does not know) waits until one leads that can. For 6 s the former leader does not try again;
# meanwhile it looks as before until it receives a beat.
TERM_S = 600.0
REST_S = 6.0

# A leader resigns if one of its own looks fails, or has not succeeded for 3 of its intervals and 10 s, and does not try
# again for 1 min: others may be able to look. The 10 s are for a look that has much to do.
OVERDUE_INTERVALS = 3
OVERDUE_S = 10.0
AILING_REST_S = 60.0

# What the row says is believed for 30 s, three reports with the default lease: so long may forged beats cover a worker
# whose leader is dead. A worker that reports more rarely reads the row itself: 33 statements a second of 1,000 workers.
CONFIRMED_S = 30.0

# 16 senders of beats are remembered: more than one at a time come only from other schemas, or are forged.
SENDERS_MAX = 16

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


@dataclass(slots=True)
class _Look:
    """One of the pollers that a leader runs for all workers."""

    poller: Poller
    succeeded: int
    """How often it had succeeded when the leader last counted, and since when (monotonic)."""
    since: float

    def is_ailing(self, now: float) -> bool:
        """Whether it fails, or has not succeeded for too long."""
        if self.poller.succeeded != self.succeeded:
            self.succeeded, self.since = self.poller.succeeded, now
        every_ms = self.poller.interval_ms
        is_overdue = every_ms is not None and now - self.since > OVERDUE_INTERVALS * every_ms / 1000 + OVERDUE_S
        return self.poller.fails or is_overdue


class Leadership:
    """Whether this worker leads, or is covered by one that does."""

    def __init__(
        self,
        *,
        rows: LeaderRows | None,
        worker_id: str,
        clock: Clock,
        poll_ms: int,
        send: Callable[[str], None],
        offer: Callable[[], None],
        may_lead: bool = True,
        draw: Callable[[int], int] = secrets.randbelow,
    ) -> None:
        """`rows` is None where nobody leads. `send` sends a word to the other workers; `offer` tells them of due runs.
        `draw` returns a random number below its argument."""
        self._rows = rows
        self._worker_id = worker_id
        self._clock = clock
        self._send = send
        self._offer = offer
        self._may_lead = may_lead
        self._draw = draw
        self._apart_s = draw(APART_MS) / 1000
        self._leader: str | None = None
        """Who held the lease when the row was last read."""
        self._confirmed_until = 0.0
        self._beats: dict[str, float] = {}
        """Who says that they lead, and until when (monotonic) that would cover this worker."""
        self._leads_since: float | None = None
        self._rests_until = 0.0
        self._looks: list[_Look] = []
        self._seen = (0, 0)
        """The due runs of the last look, as `LeaderRows.due` has them."""
        self._reminds_at = self._remind_s = 0.0
        self._listens = False
        self._holding = Poller(self.look, name="leading", every_ms=self._until_next_ms, sleep=clock.sleep,
                               unavailable=self._database_away)  # fmt: skip
        self._searching = Poller(self.look_for_due, name="looking for due runs", every_ms=poll_ms, sleep=clock.sleep,
                                 only_on_request=lambda: not self.leads, unavailable=self._database_away)  # fmt: skip
        self.add(self._searching)

    @property
    def leads(self) -> bool:
        """Whether this worker polls for all workers."""
        return self._leads_since is not None

    def covers(self) -> bool:
        """Whether another worker polls for all workers, and its hints reach this one."""
        return not self.leads and self._listens and self._clock.monotonic() < self._covered_until

    def add(self, poller: Poller) -> None:
        """Add one of the pollers that a leader runs for all workers: it is requested when this worker has to poll for
        itself again, and a leader resigns if it fails or hangs."""
        self._looks.append(_Look(poller, poller.succeeded, self._clock.monotonic()))

    async def start(self) -> None:
        """Begin; until a leader is known this worker polls for itself."""
        if self._rows is not None:
            await self._holding.start()
            await self._searching.start()

    async def stop(self) -> None:
        """Stop, and let another worker lead at once. May be called twice, or before start."""
        await self._searching.stop()
        await self._holding.stop()
        try:
            async with timeout(RESIGN_S):
                await self._resign(REST_S)
        except (StoreUnavailable, TimeoutError):
            logger.debug("the lead was not given up; it expires")

    def listens(self, *, connected: bool) -> None:
        """The hint line of this worker is connected, or lost."""
        self._listens = connected
        self._holding.soon()

    def receive(self, words: Sequence[str]) -> None:
        """Take a message of a worker that leads, or that has resigned."""
        now = self._clock.monotonic()
        self._beats = {sender: until for sender, until in self._beats.items() if until > now}
        for word in words:
            verb, _, sender = word.partition(":")
            if verb == LEADS and (sender in self._beats or sender == self._leader or len(self._beats) < SENDERS_MAX):
                self._beats[sender] = now + SILENCE_MS / 1000 + self._apart_s
            elif verb == RESIGNS and sender == self._leader:
                self._apart_s = self._draw(APART_MS) / 1000
                self._beats[sender] = now + self._apart_s
                self._holding.soon()

    def confirm(self, holder: str | None) -> None:
        """Take the leader that a report has read from the row; None: nobody leads."""
        was_covered = self.covers()
        self._note(holder)
        if was_covered and not self.covers():
            self._holding.soon()

    async def look(self) -> None:
        """Extend the lead, or find out who leads, or take the lead if nobody has it. Raises StoreUnavailable."""
        if self._rows is None or self.covers():
            return
        if self.leads:
            await self._go_on(self._rows)
        if not self.leads and not await self._is_led(self._rows):
            await self._try_to_lead(self._rows)

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

    # -- within ---------------------------------------------------------------------------
    @property
    def _covered_until(self) -> float:
        """Until when (monotonic) the leader that the row names covers this worker, if no more beats come."""
        if self._leader is None:
            return 0.0
        return min(self._confirmed_until, self._beats.get(self._leader, 0.0))

    def _note(self, holder: str | None) -> None:
        """The row names this worker as the holder of the lease."""
        if holder != self._leader:
            self._leader = holder
            self._apart_s = self._draw(APART_MS) / 1000
        self._confirmed_until = self._clock.monotonic() + CONFIRMED_S

    async def _go_on(self, rows: LeaderRows) -> None:
        """Extend the lead, or resign."""
        now = self._clock.monotonic()
        assert self._leads_since is not None, "it leads"
        ailing = [look.poller.name for look in self._looks if look.is_ailing(now)]
        if ailing:
            logger.warning(
                "this worker stops looking for all, because of failing or hanging looks: %s", ", ".join(ailing)
            )
            await self._resign(AILING_REST_S)
        elif now - self._leads_since > TERM_S or not self._listens:
            await self._resign(REST_S)
        else:
            await self._take(rows)

    async def _is_led(self, rows: LeaderRows) -> bool:
        """Read the row: does somebody lead whose beats arrive? Otherwise this worker polls for itself."""
        try:
            if self._listens:
                self._note(await rows.holder())
        finally:
            if not self.covers():
                for look in self._looks:
                    look.poller.soon()
        return self.covers()

    async def _try_to_lead(self, rows: LeaderRows) -> None:
        """Try to lead, unless this process cannot hear the beats of others: it would not notice two leaders."""
        is_free = self._leader is None or self._leader == self._worker_id
        if self._may_lead and self._listens and is_free and self._clock.monotonic() >= self._rests_until:
            await self._take(rows)

    async def _take(self, rows: LeaderRows) -> None:
        """Take or extend the lead, unless another worker has it."""
        has_it = await rows.take(worker_id=self._worker_id, lease_ms=SILENCE_MS)
        if has_it != self.leads:
            logger.debug("this worker %s for all", "looks" if has_it else "does not look")
            now = self._clock.monotonic()
            self._leads_since = now if has_it else None
            for look in self._looks:
                look.since = now
            self._searching.soon()
        if has_it:
            self._send(f"{LEADS}:{self._worker_id}")

    async def _resign(self, rest_s: float) -> None:
        if self._rows is not None and self.leads:
            self._leads_since = None
            self._rests_until = self._clock.monotonic() + rest_s
            await self._rows.give_up(worker_id=self._worker_id)
            self._send(f"{RESIGNS}:{self._worker_id}")

    def _until_next_ms(self) -> int:
        if not self.covers():
            return BEAT_MS
        return max(1, round((self._covered_until - self._clock.monotonic()) * 1000))

    def _database_away(self, failure: StoreUnavailable) -> None:
        """The engine says so already; meanwhile nobody is covered."""
        logger.debug("leading waits for the database: %s", failure.message)

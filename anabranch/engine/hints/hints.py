"""Hints: shorten the time until a process notices what another one wrote.

Made by `lifecycle`. A store reports what was written (`Notices`), APIs report which runs are watched
(`ports.ChangeHints`), and the line (`HintLine`) carries hints between processes. A hint may be lost, repeated, late,
forged, or from an installation in another schema: it only causes a read, and polling works without any. Beats of a
leader also save polls, but only while its row in the database agrees (`leadership`). Each hint is sent after the commit
that it is about.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress

from anabranch.engine.hints.hint_line import Channel, HintLine, VersionWatch
from anabranch.engine.hints.leadership import Leadership
from anabranch.engine.hints.local_peers import LocalPeers
from anabranch.engine.periodic_poller import Poller
from anabranch.engine.ports import ChangeSubscriber, Clock, InstanceRow, Outcome, Transition
from anabranch.errors import StoreUnavailable

logger = logging.getLogger("anabranch.engine")

# A watching process repeats its hints every 5 s; others remember them three times as long, so that two lost hints in a
# row do no harm.
ANNOUNCE_MS = 5_000
WATCHED_TTL_S = 15.0

# 100,000 runs that are watched elsewhere or wait to be announced: some megabytes. Beyond that nothing is remembered,
# and watchers depend on polling.
REMEMBERED_MAX = 100_000

# The length of a run's id. Other messages on a channel are not ours.
ID_CHARACTERS = 36

# A lost line is reconnected with growing pauses, up to a minute: a restarting database is back soon, but a pooler never
# supports LISTEN.
RETRY_LAST_MS = 60_000

# 1 s without sending after a failure: hints in that time are dropped, not queued.
SILENCE_AFTER_FAILURE_S = 1.0

# 2 ms between two looks at the version of the database while there is activity, since callers await one run after the
# other at that pace. Then an eighth of the time since the last activity, up to 50 ms, and 100 ms after ten seconds:
# wake-ups of an idle process must cost less than a hundredth of a processor.
WATCH_MS_MIN = 2
WATCH_MS_MAX = 50
WATCH_SHARE = 8
WATCH_IDLE_MS_MAX = 100
WATCH_IDLE_SHARE = 100

# 8 awaited runs: their ends are read on the event loop, by one statement of some tenths of a millisecond at most. The
# ends of more are looked for in a thread, all together.
ENDS_READ_MAX = 8

# 5 times in a row, 10 ms: while this process commits, it cannot be said at once whether others did. Then a thread asks.
UNSURE_MAX = 5

# 1 s for the last hints: a stopping process does not wait longer for them.
LAST_WORDS_S = 1.0


class Hints:
    """One engine's end of the hint line. Without a line it receives hints from other engines in this process and from
    the version watch."""

    def __init__(
        self,
        *,
        line: HintLine | None,
        watch: VersionWatch | None = None,
        target: str | None = None,
        clock: Clock,
        works: bool,
        compare: Callable[[Collection[str]], None],
        pending: Callable[[], None],
        moved: Callable[[], None],
        paused: Callable[[], None] = lambda: None,
        leader: Leadership | None = None,
    ) -> None:
        """`compare` and `pending` are called when runs should be compared, or may be claimed, here, and `paused` when
        the pauses have changed. The `leader` receives what other workers send about leading.

        `moved` is called when the `watch` has seen a commit that may be another process's; only where runs are
        executed. `target` identifies the store for other engines of this process; None: no other engines.
        """
        self._line = line
        self._watch = watch
        self._peers = LocalPeers(target, receive=self._receive, watches=self._watches, line=line)
        self._clock = clock
        self._works = works
        self._compare = compare
        self._look_for_work = pending
        self._look_at_all = moved
        self._look_at_pauses = paused
        self._leader = leader
        self._watched_here: Counter[str] = Counter()
        """How often each run is watched: several services may watch one."""
        self._awaited_here: Counter[str] = Counter()
        """The same of runs of which only the end is awaited."""
        self._watched_elsewhere: dict[str, float] = {}
        """Runs that somebody watches in another process, and until when (monotonic) we believe it."""
        self._awaited_elsewhere: dict[str, float] = {}
        """The same of runs of which only the end is awaited."""
        self._subscribers: list[ChangeSubscriber] = []
        self._outbox: dict[Channel, set[str]] = {}
        self._sender = Poller(
            self._send,
            name="sending hints",
            every_ms=None,
            sleep=clock.sleep,
            unavailable=lambda failure: logger.debug("a hint was not sent: %s", failure.message),
        )
        self._announcer = Poller(self._announce, name="announcing", every_ms=ANNOUNCE_MS, sleep=clock.sleep)
        self._listener = Poller(
            self._listen,
            name="listening for hints",
            every_ms=None,
            retry_last_ms=RETRY_LAST_MS,
            sleep=clock.sleep,
            unavailable=self._complain,
        )
        self._watching = Poller(self._watch_version, name="watching for commits", every_ms=None, sleep=clock.sleep)
        self._watch_is_open = False
        self._commit: asyncio.Future[None] | None = None
        """Done once the open watch has moved."""
        self._unsure = 0
        """How often in a row it could not be said who committed."""
        self._next_ask: asyncio.TimerHandle | None = None
        self._news_at = 0.0
        """When another process or a run here last committed, or somebody began to watch a run here (monotonic)."""
        self._runs_committed = False
        """Have runs been committed here since the watch last moved? Other writes of ours, such as heartbeats, announce
        no others."""
        self._silent_until = 0.0
        self._complained = self._listening = False

    # -- life -----------------------------------------------------------------------------
    async def start(self) -> None:
        """Begin to listen if this process works or has subscribers; returns at once."""
        self._peers.join()
        if self._works:
            self._listener.soon()
        if self._line is not None:
            for part in (self._sender, self._announcer, self._listener):
                await part.start()
        if self._watch is not None:
            if self._works:
                self._watching.soon()
            await self._watching.start()

    async def stop(self) -> None:
        """Stop listening, send the remaining hints, and close; may be called twice, or before start."""
        self._peers.leave()
        await self._watching.stop()
        if self._watch is not None:
            self._watch.close()
        await self._listener.stop()
        await self._announcer.stop()
        with suppress(TimeoutError):
            async with asyncio.timeout(LAST_WORDS_S):
                await self._sender.finish()
        await self._sender.stop()
        if self._line is not None:
            await self._line.close()

    @property
    def listening(self) -> bool:
        """Whether this process receives hints about commits of others. False: it depends on polling."""
        return self._listening or self._watch_is_open

    # -- for watchers (ports.ChangeHints) --------------------------------------------------
    def watch(self, instance_id: str, *, end_only: bool = False) -> None:
        """Receive hints about changes of this run, or its end, until an `unwatch` like it for each `watch`."""
        here = self._awaited_here if end_only else self._watched_here
        here[instance_id] += 1
        if here[instance_id] == 1:
            self._hint_on_line(Channel.AWAITED if end_only else Channel.WATCHED, [instance_id])
            self._news_at = self._clock.monotonic()
            if self._commit is not None:
                self._ask_later()
            elif not self._watch_is_open:  # an open watch asks by itself; a request would make it pause
                self._watching.soon()

    def unwatch(self, instance_id: str, *, end_only: bool = False) -> None:
        """Undo one `watch`."""
        here = self._awaited_here if end_only else self._watched_here
        here[instance_id] -= 1
        if here[instance_id] <= 0:
            del here[instance_id]

    def is_watched(self, instance_id: str) -> bool:
        """Whether this run is watched here or, as far as hints tell, in another process."""
        if instance_id in self._watched_here or self._peers.watch(instance_id):
            return True
        until = self._watched_elsewhere.get(instance_id)
        return until is not None and until > self._clock.monotonic()

    def subscribe(self, subscriber: ChangeSubscriber) -> None:
        """Add a subscriber for hints about watched runs."""
        self._subscribers.append(subscriber)
        self._listener.soon()

    # -- from the store (hint_line.Notices) -----------------------------------------------
    def committed(self, transitions: Sequence[Transition], outcome: Outcome) -> None:
        """Send hints about the runs in our commit that other processes own, wait for, or watch."""
        self._runs_committed = True
        if any(transition.new_run is not None and transition.worker_id is None for transition in transitions):
            self.offer_work()
        if outcome.woken or outcome.cancelled:
            self._touch([*outcome.woken, *outcome.cancelled])
        if outcome.woken:
            self.offer_work()  # a parked parent may be claimed now
        if self._watched_elsewhere or self._awaited_elsewhere or self._peers.present:
            won = [transition for transition in transitions if transition.instance_id in outcome.won]
            self._notify_watchers(Channel.CHANGED, [each.instance_id for each in won if not each.status.is_terminal])
            self._notify_watchers(Channel.ENDED, [each.instance_id for each in won if each.status.is_terminal])

    def appended(self, row: InstanceRow, *, signal: str | None) -> None:
        """Send a hint to its owner, or to workers if there is none. An end may also free a parent."""
        parent_id = row.head.parent_id if row.status.is_terminal else None
        self._touch([row.head.instance_id] if parent_id is None else [row.head.instance_id, parent_id])
        if row.worker_id is None:
            self.offer_work()

    def released(self) -> None:
        """Send a hint that there are runs to claim."""
        self._hint(Channel.PENDING, [""])

    # -- from the engine -----------------------------------------------------------------
    def offer_work(self) -> None:
        """Tell workers that there are runs to claim, and look here."""
        self._hint(Channel.PENDING, [""])
        self._look_for_work()

    def send_pauses_changed(self) -> None:
        """Tell workers that a workflow or tenant was paused or resumed."""
        self._hint(Channel.PAUSED, [""])

    def send_leader_hint(self, word: str) -> None:
        """Tell workers who looks for all."""
        self._hint(Channel.LEADER, [word])

    # -- within: sending ------------------------------------------------------------------
    def _touch(self, instance_ids: Sequence[str]) -> None:
        self._hint(Channel.TOUCHED, instance_ids)
        self._notify_subscribers(instance_ids, ended=True)

    def _notify_watchers(self, channel: Channel, instance_ids: Collection[str]) -> None:
        if self._peers.present:
            self._peers.send_to_watchers(channel, instance_ids)
        known = [self._watched_elsewhere, *([self._awaited_elsewhere] if channel is Channel.ENDED else [])]
        now = self._clock.monotonic()
        self._hint_on_line(channel, [each for each in instance_ids if any(of.get(each, 0.0) > now for of in known)])

    def _hint(self, channel: Channel, instance_ids: Collection[str]) -> None:
        if self._peers.present:
            self._peers.send(channel, instance_ids)
        self._hint_on_line(channel, instance_ids)

    def _hint_on_line(self, channel: Channel, instance_ids: Collection[str]) -> None:
        if self._line is None or not instance_ids:
            return
        waiting = self._outbox.setdefault(channel, set())
        if len(waiting) < REMEMBERED_MAX:
            waiting.update(instance_ids)
        self._sender.soon()

    async def _send(self) -> None:
        """Send all pending hints, each once; hints that arrive during a message go with the next one."""
        outbox, self._outbox = self._outbox, {}
        if not outbox or self._line is None or self._clock.monotonic() < self._silent_until:
            return
        try:
            await self._line.send(outbox)
        except StoreUnavailable:
            self._silent_until = self._clock.monotonic() + SILENCE_AFTER_FAILURE_S
            raise

    async def _announce(self) -> None:
        """Repeat which runs are watched here, and forget runs that are no longer watched elsewhere."""
        self._hint_watched()
        now = self._clock.monotonic()
        for elsewhere in (self._watched_elsewhere, self._awaited_elsewhere):
            for instance_id in [each for each, until in elsewhere.items() if until <= now]:
                del elsewhere[instance_id]

    def _hint_watched(self) -> None:
        self._hint_on_line(Channel.WATCHED, self._watched_here)
        self._hint_on_line(Channel.AWAITED, self._awaited_here)

    # -- within: listening ----------------------------------------------------------------
    async def _listen(self) -> bool:
        """Listen until the line is lost; True if it had worked for a while, so that it is reconnected at once."""
        assert self._line is not None, "started only with a line"
        asked_at = self._clock.monotonic()
        try:
            await self._line.listen(self._receive, connected=self._connected, ignores=self._peers.is_speaker)
        except StoreUnavailable as failure:
            if self._clock.monotonic() - asked_at <= RETRY_LAST_MS / 1000:
                raise
            self._complain(failure)
        finally:
            self._listening = False
            if self._leader is not None:
                self._leader.listens(connected=False)
        return True

    def _complain(self, failure: StoreUnavailable) -> None:
        if not self._complained:
            self._complained = True
            logger.warning("no hints from other processes; polling continues: %s", failure.message)

    def _connected(self) -> None:
        """The line is connected. Earlier hints are lost: look at everything once, and announce what is watched here."""
        self._listening = True
        if self._leader is not None:
            self._leader.listens(connected=True)
        if self._complained:
            self._complained = False
            logger.info("hints from other processes arrive again")
        self._look_for_work()
        self._look_at_pauses()
        self._notify_subscribers([*self._watched_here, *self._awaited_here], ended=True)
        self._hint_watched()

    def _receive(self, channel: Channel, words: Sequence[str]) -> None:
        instance_ids = [word for word in words if len(word) == ID_CHARACTERS]
        match channel:
            case Channel.TOUCHED:
                self._compare(instance_ids)
                self._notify_subscribers(instance_ids, ended=True)
            case Channel.PENDING:
                self._look_for_work()
            case Channel.WATCHED:
                self._remember(instance_ids, self._watched_elsewhere)
            case Channel.AWAITED:
                self._remember(instance_ids, self._awaited_elsewhere)
            case Channel.CHANGED:
                self._notify_subscribers(instance_ids, ended=False)
            case Channel.ENDED:
                self._notify_subscribers(instance_ids, ended=True)
            case Channel.PAUSED:
                self._look_at_pauses()
                self._look_for_work()
            case Channel.LEADER:
                if self._leader is not None:
                    self._leader.receive(words)

    def _remember(self, instance_ids: Iterable[str], elsewhere: dict[str, float]) -> None:
        until = self._clock.monotonic() + WATCHED_TTL_S
        for instance_id in instance_ids:
            if len(elsewhere) < REMEMBERED_MAX or instance_id in elsewhere:
                elsewhere[instance_id] = until

    def _notify_subscribers(self, instance_ids: Collection[str], *, ended: bool) -> None:
        for instance_id in instance_ids:
            if self._watches(instance_id, ended=ended):
                for subscriber in self._subscribers:
                    subscriber.changed(instance_id, ended=ended)

    def _watches(self, instance_id: str, *, ended: bool) -> bool:
        return instance_id in self._watched_here or (ended and instance_id in self._awaited_here)

    # -- within: the version watch --------------------------------------------------------
    async def _watch_version(self) -> bool:
        """Report the next commit; True: there may be another."""
        assert self._watch is not None, "started only with a watch"
        if self._watch_is_open:
            try:
                await self._next_commit()
            except StoreUnavailable:
                self._watch_is_open = False
                raise
        else:
            await self._watch.open()
            self._watch_is_open = True  # earlier commits are unknown: look
        others_wrote = self._works and self._others_may_have_written()
        if others_wrote or self._runs_committed or not self._works:
            self._news_at, self._runs_committed = self._clock.monotonic(), False
        if others_wrote:
            self._look_at_all()
        ends_are_known = self._notify_ended()
        if self._watched_here or not ends_are_known:
            for subscriber in self._subscribers:
                subscriber.moved(ends_are_known=ends_are_known)
        return True

    def _others_may_have_written(self) -> bool:
        """Whether to look for what others wrote. If that cannot be said, the next look at the version asks again."""
        assert self._watch is not None, "asked only with a watch"
        others_wrote = self._watch.others_wrote()
        self._unsure = self._unsure + 1 if others_wrote is None else 0
        if self._unsure < UNSURE_MAX:
            return bool(others_wrote)
        self._unsure = 0
        return True

    def _notify_ended(self) -> bool:
        """Tell which awaited runs have ended, if the watch can read it at once; returns whether it could."""
        if not self._awaited_here:
            return True
        if self._watch is None or len(self._awaited_here) > ENDS_READ_MAX:
            return False
        ended = self._watch.ended(self._awaited_here)
        if ended is None:
            return False
        self._notify_subscribers(ended, ended=True)
        return True

    async def _next_commit(self) -> None:
        """Return when the watch has seen a commit. Uses a timer, because a sleeping task would cost five times as
        much."""
        commit = self._commit = asyncio.get_running_loop().create_future()
        self._ask_later()
        try:
            await commit
        finally:
            self._commit = None
            self._stop_asking()

    def _ask_later(self) -> None:
        self._stop_asking()
        pause_ms = self._watch_pause_ms()
        if pause_ms is not None:
            self._next_ask = asyncio.get_running_loop().call_later(pause_ms / 1000, self._ask)

    def _stop_asking(self) -> None:
        if self._next_ask is not None:
            self._next_ask.cancel()
            self._next_ask = None

    def _ask(self) -> None:
        assert self._watch is not None and self._commit is not None, "asked only meanwhile"
        if self._commit.done():
            return
        try:
            if self._watch.moved() or self._unsure:
                self._commit.set_result(None)
            else:
                self._ask_later()
        except StoreUnavailable as failure:
            self._commit.set_exception(failure)

    def _watch_pause_ms(self) -> int | None:
        """The pause before the next look; None if nothing depends on the watch."""
        if not self._works and not self._watched_here and not self._awaited_here:
            return None
        if self._unsure:
            return WATCH_MS_MIN
        quiet_ms = round((self._clock.monotonic() - self._news_at) * 1000)
        idle_ms = min(quiet_ms // WATCH_IDLE_SHARE, WATCH_IDLE_MS_MAX)
        return max(min(quiet_ms // WATCH_SHARE, WATCH_MS_MAX), idle_ms, WATCH_MS_MIN)

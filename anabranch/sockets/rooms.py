"""A room: one run, and the clients that watch it.

Called by the broadcaster, with what was committed. Does no I/O: the time and a log reader are arguments. Committed
events are collected first and processed once for all members: at once under low load, every 100 ms under high load.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Protocol

from anabranch.engine.ports import InstanceRow
from anabranch.engine.rules.events import ActivationKey, Event, Status
from anabranch.sockets.clients import Membership, SocketClient
from anabranch.sockets.messages import SNAPSHOT, SocketMessage, Update
from anabranch.sockets.watcher_updates import RunProgress
from anabranch.token_bucket import TokenBucket

logger = logging.getLogger("anabranch.sockets")

# Up to 50 updates a second are sent as single messages; beyond that they cannot be followed one by one.
SINGLE_UPDATES_PER_S = 50

# 100 ms: a batch still looks like motion.
BATCH_S = 0.1

# Telling a room takes at most a tenth of the time: with hundreds of watchers of a run that moves as fast
# as it can, batches come less often than every 100 ms, rather than take the processor from the engine.
TELLING_SHARE_MAX = 0.1

# 5,000 updates in one batch are a megabyte per watcher: a snapshot is sent instead.
BATCH_UPDATES_MAX = 5_000

# A snapshot a second at most: it may be hundreds of kilobytes, for each of hundreds of watchers.
SNAPSHOT_S = 1.0

# 10,000 events may be put aside while the log is read; beyond that they are read from it, too.
EVENTS_ASIDE_MAX = 10_000


class Timer(Protocol):
    """Time as a room knows it: seconds that do not go back."""

    def now(self) -> float:
        """The time."""

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> None:
        """Call this once, from the event loop."""


class Room:
    """The watchers of one run. `needs_tail` and `emptied` tell the broadcaster."""

    def __init__(
        self,
        instance_id: str,
        *,
        timer: Timer,
        needs_tail: Callable[[Room], None],
        emptied: Callable[[Room], None],
    ) -> None:
        self.instance_id = instance_id
        self.progress = RunProgress(instance_id)
        self.is_open = False
        """The log was read: members can get a snapshot."""
        self.version: int | None = None
        """The version of the instance when its row was last read; None: it has moved since, by our own doing."""
        self.lines_after = 0
        """The last console line that was sent, while another process owns the run."""
        self.follows_console = False
        """The console of this process announces what the run says."""
        self.guests = 0
        """The number of joins under way."""
        self.members: dict[SocketClient, Membership] = {}
        self._timer = timer
        self._needs_tail = needs_tail
        self._emptied = emptied
        self._aside: list[tuple[Sequence[Event], Status]] = []
        self._events_aside = 0
        self._singly = TokenBucket(rate=SINGLE_UPDATES_PER_S, burst=SINGLE_UPDATES_PER_S)
        self._next_batch_at = 0.0
        self._next_snapshot_at = 0.0
        self._flush_at: float | None = None

    @property
    def is_empty(self) -> bool:
        """Whether there are no members, nor any that are joining."""
        return not self.members and not self.guests

    # -- what happens to the run ----------------------------------------------------------
    def committed(self, events: Sequence[Event], status: Status) -> None:
        """This process has committed these events. Cheap."""
        self.version = None
        self._aside.append((events, status))
        self._events_aside += len(events)
        if self._events_aside > EVENTS_ASIDE_MAX:
            self._aside.clear()
            self._events_aside = 0
            self._needs_tail(self)
        elif self._flush_at is None:
            self.wake()

    def open_at(self, version: int) -> None:
        """Set the progress before the first member joined, up to this version of the row."""
        self.version = version
        self.is_open = True
        self.wake()

    def take_rows(self, events: Sequence[Event], *, of: int) -> None:
        """Rows of the log after what was known when they were read, of so many.

        If these are too many to send one by one, all members get a snapshot.
        """
        updates = self.progress.take(events, None)
        if of <= BATCH_UPDATES_MAX:
            self._send_updates(updates)
        else:
            self._fall_behind()

    def take_row(self, row: InstanceRow) -> None:
        """The run as it was after the rows that were read."""
        self.version = row.version
        if row.last_seq >= self.progress.seq:
            self._send_updates(self.progress.take((), row.status))
        self.wake()

    def run_removed(self) -> None:
        """The run's rows are gone."""
        self._send_updates(self.progress.end_removed())

    def hint_of(self, key: ActivationKey, attempt: int) -> None:
        """Send a hint that a step has begun, unless the load is too high."""
        now = self._timer.now()
        if self._singly.covers(1, now):
            self._singly.use(1, now)
            self.send([SocketMessage.of(self.progress.beginning(key, attempt))])

    def send(self, messages: Sequence[SocketMessage]) -> None:
        """Send all members a message that is not in the log, after what they already have."""
        for membership in list(self.members.values()):
            for message in messages:
                membership.client.queue(membership, message)

    # -- members --------------------------------------------------------------------------
    def admit(self, client: SocketClient, *, holds_back: bool) -> Membership:
        """Add a client: it gets everything after the current snapshot. An earlier membership of it ends.

        With `holds_back` nothing is sent before `resume`.
        """
        known = self.members.get(client)
        if known is not None:
            known.is_over = True
        membership = Membership(client, self, held=[] if holds_back else None)
        self.members[client] = client.memberships[self.instance_id] = membership
        return membership

    def release(self, membership: Membership) -> None:
        """Remove a member; the last one closes the room."""
        membership.is_over = True
        if self.members.get(membership.client) is membership:
            del self.members[membership.client]
            del membership.client.memberships[self.instance_id]
        if self.is_empty:
            self._emptied(self)

    # -- telling --------------------------------------------------------------------------
    def wake(self) -> None:
        """Check soon for updates to send."""
        self._flush_in(0.0)

    def _flush_in(self, delay_s: float) -> None:
        at = self._timer.now() + delay_s
        if self._flush_at is None or at < self._flush_at:
            self._flush_at = at
            self._timer.call_later(delay_s, self._flush)

    def _flush(self) -> None:
        now = self._timer.now()
        if self._flush_at is None or now < self._flush_at:
            return  # an earlier call has done it
        self._flush_at = None
        if not self.is_open:
            return
        if self._aside and (self._singly.covers(self._events_aside, now) or now >= self._next_batch_at):
            self._send_updates(self._digest())
        self._serve_those_behind(now)
        if self._aside:
            self._flush_in(max(0.0, self._next_batch_at - now))
        if any(membership.is_behind for membership in self.members.values()):
            self._flush_in(max(BATCH_S, self._next_snapshot_at - now))

    def _digest(self) -> list[Update]:
        """Process the collected events. If earlier rows are missing, they are requested first, and the events stay
        collected."""
        aside, self._aside, self._events_aside = self._aside, [], 0
        updates: list[Update] = []
        for index, (events, status) in enumerate(aside):
            if events[-1].seq <= self.progress.seq:
                continue  # read from the log before it was announced
            if events[0].seq > self.progress.seq + 1:
                self._aside = aside[index:]
                self._events_aside = sum(len(each) for each, _ in self._aside)
                self._next_batch_at = self._timer.now() + BATCH_S
                self._needs_tail(self)
                break
            updates += self.progress.take(events, status)
        return updates

    def _send_updates(self, updates: Sequence[Update]) -> None:
        """Send updates to all members: one by one, in one message, or, if there are too many, as a snapshot."""
        if not updates:
            return
        began = self._timer.now()
        singly = self._singly.covers(len(updates), began)
        self._singly.use(len(updates), began)
        self._next_batch_at = began + BATCH_S
        memberships = list(self.members.values())
        if len(updates) > BATCH_UPDATES_MAX:
            self._fall_behind()
            return
        messages = list(map(SocketMessage.of, updates)) if singly else SocketMessage.batches(self.instance_id, updates)
        for membership in memberships:
            for message in messages:
                membership.client.queue(membership, message)
        self._next_batch_at = max(self._next_batch_at, self._rested(began))

    def _fall_behind(self) -> None:
        """Everybody gets a snapshot in place of the next updates."""
        for membership in self.members.values():
            membership.is_behind = True
        self.wake()

    def _rested(self, began: float) -> float:
        """When to continue, after sending since `began`."""
        return began + (self._timer.now() - began) / TELLING_SHARE_MAX

    def _serve_those_behind(self, now: float) -> None:
        """Send a snapshot to members that have missed updates, once they have read earlier messages."""
        if now < self._next_snapshot_at:
            return
        behind = [each for each in self.members.values() if each.is_behind and each.held is None]
        ready = [each for each in behind if each.client.takes_more]
        if not ready:
            return
        messages = self.snapshot_message()
        for membership in ready:
            membership.is_behind = False
            for message in messages:
                membership.client.queue(membership, message)
        self._next_snapshot_at = max(now + SNAPSHOT_S, self._rested(now))

    def snapshot_message(self) -> list[SocketMessage]:
        """A snapshot in place of all updates so far, with the end of the run if it has ended."""
        messages = [SocketMessage(SNAPSHOT, self.progress.snapshot(), updates=1)]
        if self.progress.end_update is not None:
            messages.append(SocketMessage.of(self.progress.end_update))
        return messages

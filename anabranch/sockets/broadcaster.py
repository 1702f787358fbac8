"""The broadcaster: sends the updates of runs to the clients that watch them.

An observer of the engine: it receives what this process commits at once. It reads what other processes commit from
the log: when rows are missing before an event, after a hint, and by polling the versions of watched runs every half
second. Hints only shorten the wait. Without watchers it costs next to nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from anabranch.engine.console.console import Console
from anabranch.engine.console.console_rows import Line, ProgressReport
from anabranch.engine.log_pages import log_pages
from anabranch.engine.periodic_poller import Poller
from anabranch.engine.ports import ChangeHints, Store
from anabranch.engine.rules.events import ActivationKey, Event, Status
from anabranch.engine.rules.shared.left_out import Ranges
from anabranch.errors import NotFound, StoreUnavailable
from anabranch.sockets.clients import UPDATES_BEHIND_MAX, Membership, SocketClient
from anabranch.sockets.messages import SocketMessage, Update
from anabranch.sockets.rooms import BATCH_S, SINGLE_UPDATES_PER_S, Room, Timer
from anabranch.sockets.watcher_updates import RunProgress

logger = logging.getLogger("anabranch.sockets")

# 500 ms, as long as the engine takes to notice what others did: watchers see it within the same second.
LOOK_S = 0.5

# 4 reads at once: a thousand watched runs that move elsewhere must not take all connections to the database.
READS_AT_ONCE = 4


# 2,000 lines a look; the rest comes with the next one.
LINES_READ_MAX = 2_000


class SleepingTimer(Timer, Protocol):
    """A timer that can also be awaited."""

    async def sleep(self, delay_s: float) -> None:
        """Sleep."""


class Broadcaster:
    """All rooms of one process. `owns` says whether this process owns a run."""

    def __init__(
        self,
        *,
        store: Store,
        owns: Callable[[str], bool],
        timer: SleepingTimer,
        hints: ChangeHints | None = None,
        console: Console | None = None,
    ) -> None:
        self._store = store
        self._owns = owns
        self._timer = timer
        self._hints = hints
        self._console = console
        self._rooms: dict[str, Room] = {}
        self._openings: dict[Room, asyncio.Task[None]] = {}
        self._readers: dict[Room, asyncio.Task[None]] = {}
        self._unread: set[Room] = set()
        """Rooms whose log holds more than they know; read, or tried again at the next look."""
        self._reads = asyncio.Semaphore(READS_AT_ONCE)
        self._looking = Poller(
            self.look,
            name="looking at watched runs",
            every_ms=int(LOOK_S * 1000),
            retry_last_ms=int(LOOK_S * 1000),
            sleep=lambda milliseconds: timer.sleep(milliseconds / 1000),
        )

    @property
    def rooms_count(self) -> int:
        """How many runs are watched."""
        return len(self._rooms)

    async def start(self) -> None:
        """Start polling for commits of other processes."""
        if self._hints is not None:
            self._hints.subscribe(self)
        if self._console is not None:
            self._console.add(self)
        await self._looking.start()

    async def stop(self) -> None:
        """Stop polling; may be called twice, or before start."""
        if self._console is not None:
            self._console.remove(self)
        tasks = [*self._openings.values(), *self._readers.values()]
        await self._looking.stop()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # -- news -----------------------------------------------------------------------------
    def committed(self, instance_id: str, events: Sequence[Event], status: Status) -> None:
        """The engine announces what it has written."""
        room = self._rooms.get(instance_id)
        if room is not None:
            if status.is_terminal and self._console is not None:
                self._console.announce_now()  # nothing follows the end
            room.committed(events, status)

    def lines_logged(self, instance_id: str, lines: Sequence[Line]) -> None:
        """Send console lines that the code of a run has written here."""
        room = self._rooms.get(instance_id)
        if room is not None:
            room.lines_after = max(room.lines_after, lines[-1].number)
            room.send(SocketMessage.console(instance_id, lines))

    def step_began(self, instance_id: str, key: ActivationKey, attempt: int) -> None:
        """Announce that a step of a coded run begins here, before it is in the log."""
        room = self._rooms.get(instance_id)
        if room is not None and room.is_open:
            room.hint_of(key, attempt)

    def progress_made(self, reports: Sequence[ProgressReport]) -> None:
        """Send new progress of activations."""
        by_run: dict[str, list[ProgressReport]] = {}
        for report in reports:
            by_run.setdefault(report.instance_id, []).append(report)
        for instance_id, of_run in by_run.items():
            room = self._rooms.get(instance_id)
            if room is not None:
                room.send([SocketMessage.of(update) for update in room.progress.add_reports(of_run)])

    def changed(self, instance_id: str, *, ended: bool = False) -> None:
        """Another process may have written to this run: read its new rows, unless our engine reads them anyway."""
        room = self._rooms.get(instance_id)
        if room is not None and not room.progress.is_over and not self._owns(instance_id):
            self._read_on(room)

    def moved(self, *, ends_are_known: bool) -> None:
        """Another process may have written to any run."""
        self._looking.soon()

    async def look(self) -> None:
        """Find the watched runs that other processes have changed. Raises StoreUnavailable."""
        for room in list(self._unread):
            self._read_on(room)
        watched = {
            instance_id: room
            for instance_id, room in self._rooms.items()
            if room.is_open and not room.progress.is_over and not self._owns(instance_id)
        }
        if not watched:
            return
        stored = await self._store.versions(list(watched))
        for instance_id, room in watched.items():
            version, _ = stored.get(instance_id, (None, None))
            if version is None or version != room.version:
                self._read_on(room)
        await self._read_console(watched)

    # -- watching -------------------------------------------------------------------------
    async def join(self, client: SocketClient, instance_id: str, *, since: int | None = None) -> dict[str, Any]:
        """Let a client watch a run: send a snapshot, then every update once and in order.

        With `since` the updates after that seq are sent, too, before all others; a snapshot in
        their place where they are more than 1,000. A run that has ended is left by itself after
        its last update. Whether the client may see it has been checked. Raises NotFound, StoreUnavailable.
        """
        room = self._enter(instance_id)
        try:
            await self._opened(room)
            if self._console is not None and not room.follows_console:
                room.follows_console = True
                self._console.follow(instance_id)
            # Nothing is awaited from here to the membership: no update falls between it and the snapshot.
            progress = room.progress
            known, status = progress.snapshot(), progress.status
            left_out = progress.left_out
            # What a client has seen of rows that were left out since, only the snapshot sets right.
            replays = since is not None and since < progress.seq and not (left_out and left_out[-1][1] > since)
            membership = room.admit(client, holds_back=replays)
            if since is not None and replays:
                await self._replay(membership, known["seq"], status, since=since, left_out=left_out)
            elif status.is_terminal:
                room.release(membership)
            return known
        finally:
            room.guests -= 1
            self._close_if_empty(room)

    def leave(self, client: SocketClient, instance_id: str) -> None:
        """End a client's watch; does nothing if there is none."""
        membership = client.memberships.get(instance_id)
        if membership is not None:
            membership.room.release(membership)

    # -- rooms ----------------------------------------------------------------------------
    def _enter(self, instance_id: str) -> Room:
        room = self._rooms.get(instance_id)
        if room is None:
            room = self._rooms[instance_id] = Room(
                instance_id, timer=self._timer, needs_tail=self._read_on, emptied=self._close_if_empty
            )
            if self._hints is not None:
                self._hints.watch(instance_id)
        room.guests += 1
        return room

    async def _opened(self, room: Room) -> None:
        """Return when the room knows its run, which many may wait for together."""
        if room.is_open:
            return
        opening = self._openings.get(room)
        if opening is None:
            opening = self._openings[room] = asyncio.create_task(self._open(room))
            opening.add_done_callback(lambda task: self._opening_done(room, task))
        # Shielded: a client that goes away must not take the answer from the others.
        await asyncio.shield(opening)

    async def _open(self, room: Room) -> None:
        progress = RunProgress(room.instance_id)
        async with self._reads:
            row = await self._store.get_instance(room.instance_id)
            if row is not None:
                progress = RunProgress(room.instance_id, left_out=row.head.left_out)
                async for page in log_pages(self._store, room.instance_id, up_to=row.last_seq):
                    progress.take(page, None)
        if row is None or progress.seq < row.last_seq:
            raise NotFound(f"there is no run {room.instance_id}")
        progress.take((), row.status)
        if self._console is not None:
            rows = self._console.rows
            room.lines_after = (await rows.last_numbers([room.instance_id])).get(room.instance_id, 0)
            progress.add_reports(await rows.read_progress([room.instance_id]))
        room.progress = progress
        room.open_at(row.version)

    def _opening_done(self, room: Room, task: asyncio.Task[None]) -> None:
        del self._openings[room]
        if not task.cancelled():
            task.exception()  # only needed by a caller that still waits

    def _close_if_empty(self, room: Room) -> None:
        if not room.is_empty or self._rooms.get(room.instance_id) is not room:
            return
        del self._rooms[room.instance_id]
        self._unread.discard(room)
        if self._console is not None and room.follows_console:
            self._console.unfollow(room.instance_id)
        if self._hints is not None:
            self._hints.unwatch(room.instance_id)

    # -- reading --------------------------------------------------------------------------
    def _read_on(self, room: Room) -> None:
        """Read what the log has after what the room knows, soon and once."""
        self._unread.add(room)
        if room.is_open and room not in self._readers:
            reader = self._readers[room] = asyncio.create_task(self._read_tails(room))
            reader.add_done_callback(lambda task: self._readers.pop(room, None))

    async def _read_tails(self, room: Room) -> None:
        while room in self._unread and self._rooms.get(room.instance_id) is room:
            self._unread.discard(room)
            try:
                await self._read_tail(room)
            except StoreUnavailable as failure:
                logger.info("%s", failure.message, extra={"instance_id": room.instance_id})
                self._unread.add(room)  # until the next look
                return
            except Exception:
                logger.exception("a watched run could not be read", extra={"instance_id": room.instance_id})
                return
            await self._timer.sleep(BATCH_S)  # hints may arrive faster than updates can be shown

    async def _read_tail(self, room: Room) -> None:
        instance_id, after_seq = room.instance_id, room.progress.seq
        async with self._reads:
            row = await self._store.get_instance(instance_id)
            if row is not None:
                async for page in log_pages(self._store, instance_id, after_seq=after_seq, up_to=row.last_seq):
                    room.take_rows(page, of=row.last_seq - after_seq)
        if row is None:
            room.run_removed()
            return
        if row.status.is_terminal:
            await self._read_console({instance_id: room})  # nothing follows the end
        room.take_row(row)

    async def _read_console(self, rooms: Mapping[str, Room]) -> None:
        """Send new console lines of runs that other processes own. Raises StoreUnavailable."""
        if self._console is None:
            return
        positions = {instance_id: room.lines_after for instance_id, room in rooms.items()}
        lines = await self._console.rows.read_since(positions, limit=LINES_READ_MAX)
        by_run: dict[str, list[Line]] = {}
        for line in lines:
            by_run.setdefault(line.instance_id, []).append(line)
        for instance_id, of_run in by_run.items():
            self.lines_logged(instance_id, of_run)
        self.progress_made(await self._console.rows.read_progress(list(rooms)))

    async def _replay(self, membership: Membership, seq: int, status: Status, *, since: int, left_out: Ranges) -> None:
        """Send a new member what it has missed, up to the `seq` of its snapshot; later updates follow."""
        instance_id = membership.room.instance_id
        progress, missed = RunProgress(instance_id, left_out=left_out), list[Update]()
        try:
            async with self._reads:
                async for page in log_pages(self._store, instance_id, up_to=seq):
                    missed += (update for update in progress.take(page, None) if update.seq > since)
                    if len(missed) > UPDATES_BEHIND_MAX:
                        break  # a snapshot is sent instead
        except StoreUnavailable:
            membership.room.release(membership)
            raise
        missed += (update for update in progress.take((), status) if update.seq > since)
        membership.is_behind = len(missed) > UPDATES_BEHIND_MAX
        singly = len(missed) <= SINGLE_UPDATES_PER_S
        messages = list(map(SocketMessage.of, missed)) if singly else SocketMessage.batches(instance_id, missed)
        # At the next turn of the event loop: the answer to the join is on its way by then.
        self._timer.call_later(0.0, lambda: membership.resume(messages))

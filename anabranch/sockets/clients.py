"""A connected client: its rooms and its queue of messages.

Called by rooms with messages, and by the server with its connection. A slow client's
messages wait here, are bounded, and are replaced by a snapshot.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import field
from typing import Protocol

from anabranch.dataclass import dataclass
from anabranch.sockets.messages import SocketMessage
from anabranch.sockets.socketio_adapter import EncodedMessage

# 1,000 updates: a client that is further behind gets a snapshot instead.
UPDATES_BEHIND_MAX = 1_000

# 8 messages at once keep a connection busy; what was handed over cannot be replaced by a snapshot any more.
PARCELS_AT_ONCE = 8


class ClientConnection(Protocol):
    """The connection of a client."""

    def waiting(self) -> int:
        """How many messages were put in and not taken yet."""

    def put(self, message: EncodedMessage) -> None:
        """Send this next."""

    async def cleared(self) -> None:
        """Return when all messages were taken."""


class ClientRoom(Protocol):
    """The part of a room that a client uses."""

    instance_id: str

    def wake(self) -> None:
        """Wake up soon: a member has fallen behind."""

    def release(self, membership: Membership) -> None:
        """A member has got the last update, or leaves."""


@dataclass(slots=True, eq=False)
class Membership:
    """A client in a room."""

    client: SocketClient
    room: ClientRoom
    is_behind: bool = False
    """It has missed updates; a snapshot is next."""
    is_over: bool = False
    """It has left: what still waits is not sent."""
    held: list[SocketMessage] | None = None
    """Updates held back while earlier ones are being read; None: nothing is held back."""

    def resume(self, replay: list[SocketMessage]) -> None:
        """Send the updates missed before this membership, then those held back meanwhile."""
        held, self.held = self.held or [], None
        for message in [*replay, *held]:
            self.client.queue(self, message)
        if self.is_behind:
            self.room.wake()


@dataclass(slots=True, eq=False)
class SocketClient:
    """One connected client."""

    outlet: ClientConnection
    memberships: dict[str, Membership] = field(default_factory=dict)
    """By run."""
    _outbox: deque[tuple[Membership, SocketMessage]] = field(default_factory=deque)
    _updates_waiting: int = 0
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def takes_more(self) -> bool:
        """Whether the client reads its messages fast enough."""
        return not self._outbox and self.outlet.waiting() < PARCELS_AT_ONCE

    def queue(self, membership: Membership, message: SocketMessage) -> None:
        """Send a message of a room, now if nothing waits, otherwise after what does."""
        if membership.is_over or membership.is_behind:
            return
        if membership.held is not None:
            membership.held.append(message)
            if sum(each.updates for each in membership.held) > UPDATES_BEHIND_MAX:
                membership.held.clear()
                membership.is_behind = True
        elif self.takes_more:
            self._hand_over(membership, message)
        else:
            self._outbox.append((membership, message))
            self._updates_waiting += message.updates
            if self._updates_waiting > UPDATES_BEHIND_MAX:
                self._fall_behind()
            self._news.set()

    async def deliver(self) -> None:
        """Send waiting messages as fast as the client reads them, until cancelled."""
        while True:
            await self._news.wait()
            self._news.clear()
            while self._outbox:
                await self.outlet.cleared()
                for _ in range(min(PARCELS_AT_ONCE, len(self._outbox))):
                    membership, message = self._outbox.popleft()
                    self._updates_waiting -= message.updates
                    self._hand_over(membership, message)

    def leave_all(self) -> None:
        """The client has disconnected: leave all rooms."""
        for membership in list(self.memberships.values()):
            membership.room.release(membership)
        self._outbox.clear()

    def _hand_over(self, membership: Membership, message: SocketMessage) -> None:
        if membership.is_over:
            return
        self.outlet.put(message.encoded)
        if message.is_last:
            membership.room.release(membership)

    def _fall_behind(self) -> None:
        """Forget what waits: the rooms that it came from owe a snapshot instead."""
        memberships = dict.fromkeys(membership for membership, _ in self._outbox)
        self._outbox.clear()
        self._updates_waiting = 0
        for membership in memberships:
            membership.is_behind = True
            membership.room.wake()

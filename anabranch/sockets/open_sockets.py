"""Open connections, before and after authentication, and their rate limits.

Called by the server. Does no I/O. It finds connections that show no key in time, send too many requests,
or whose key is no longer valid; the server closes them.
"""

from __future__ import annotations

import asyncio
from dataclasses import field

from anabranch.dataclass import dataclass
from anabranch.keys.access import Principal
from anabranch.sockets.clients import SocketClient
from anabranch.token_bucket import TokenBucket

# 10,000 connections: each holds some tens of kilobytes and a file descriptor.
CLIENTS_MAX = 10_000

# 10 s to send a key after connecting; libraries take less than one.
PATIENCE_S = 10.0

# 50 requests a second, 200 at once: a page that reconnects joins all its runs again.
REQUESTS_PER_S = 50
REQUESTS_BURST = 200

# 100 requests are answered with a refusal, then the connection ends: it does not listen.
REFUSALS_MAX = 100

# 1,000 runs: more than a person can look at, and each keeps the progress of a run in memory.
JOINS_MAX = 1_000


@dataclass(slots=True, eq=False)
class Member:
    """A connection that has shown a valid key."""

    principal: Principal
    client: SocketClient
    delivery: asyncio.Task[None]
    visitor: SocketConnection


@dataclass(slots=True, eq=False)
class SocketConnection:
    """One connection."""

    since: float
    """When it was opened, in seconds of the monotonic clock."""
    member: Member | None = None
    is_over_limit: bool = False
    """The current request exceeds the rate limit."""
    _requests: TokenBucket = field(default_factory=lambda: TokenBucket(rate=REQUESTS_PER_S, burst=REQUESTS_BURST))
    _refusals: int = 0

    def asks(self, now: float) -> bool:
        """Count a packet from it; False: it was refused so often that it must be disconnected."""
        self.is_over_limit = not self._requests.covers(1, now)
        self._refusals = self._refusals + 1 if self.is_over_limit else 0
        self._requests.use(1, now)
        return self._refusals <= REFUSALS_MAX

    def is_overdue(self, now: float) -> bool:
        """Whether its time to send a key is over."""
        return self.member is None and now - self.since > PATIENCE_S

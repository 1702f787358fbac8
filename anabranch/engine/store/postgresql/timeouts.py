"""Timeouts for the database: of a statement, of a lock, and of a transaction.

Made by `opening` from the length of the lease, used by the PostgreSQL dialect on every connection. Knows no SQL.
"""

from __future__ import annotations

from anabranch.dataclass import dataclass

# 10 s: no statement of the engine moves more than a few megabytes, so one that takes longer is stuck. A third of the
# lease if that is shorter, so that a stuck statement is noticed before the lease is lost; but at least 2 s, because a
# busy machine may take that long.
STATEMENT_MAX_MS = 10_000
STATEMENT_MIN_MS = 2_000

# The client gives up 1 s after the server's timeout, so that the server's error usually arrives first.
CLIENT_MARGIN_S = 1.0

# 500 ms: the engine's own transactions hold a lock for milliseconds. An operation that waits longer returns its
# connection and retries, so that a leaked lock does not block connections.
LOCK_MAX_MS = 500

# 5 s: the engine's transactions never wait between two statements, so a longer silence means a frozen or disconnected
# process, and the server should end its transaction and free its locks.
IDLE_IN_TRANSACTION_MAX_MS = 5_000


@dataclass(frozen=True, slots=True)
class Timeouts:
    """The limits of one connection, in milliseconds."""

    statement_ms: int
    lock_ms: int
    idle_in_transaction_ms: int

    @classmethod
    def below(cls, lease_ms: int) -> Timeouts:
        """Limits that leave a worker with this lease time for a retry before the lease expires."""
        return cls(
            statement_ms=max(STATEMENT_MIN_MS, min(STATEMENT_MAX_MS, lease_ms // 3)),
            lock_ms=min(LOCK_MAX_MS, lease_ms // 4),
            idle_in_transaction_ms=min(IDLE_IN_TRANSACTION_MAX_MS, lease_ms // 2),
        )

    @property
    def client_s(self) -> float:
        """When the client stops waiting for the response to a statement (seconds)."""
        return self.statement_ms / 1000 + CLIENT_MARGIN_S

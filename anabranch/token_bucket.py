"""A token bucket: a rate limit with a burst.

Pure. Used for the requests of a client and for the updates of a room. Times are seconds of any
clock that does not go back.
"""

from __future__ import annotations


class TokenBucket:
    """Grows by `rate` a second up to `burst`, and is full at first."""

    __slots__ = ("_at", "_burst", "_left", "_rate")

    def __init__(self, *, rate: float, burst: float) -> None:
        self._rate = rate
        self._burst = burst
        self._left = burst
        self._at: float | None = None

    def covers(self, amount: float, now: float) -> bool:
        """Whether that much is left."""
        self._refill(now)
        return self._left >= amount

    def use(self, amount: float, now: float) -> None:
        """Take so much, or what there is."""
        self._refill(now)
        self._left = max(0.0, self._left - amount)

    def _refill(self, now: float) -> None:
        if self._at is not None:
            self._left = min(self._burst, self._left + (now - self._at) * self._rate)
        self._at = now

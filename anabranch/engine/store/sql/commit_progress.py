"""Do commits get through? What the store has seen of them lately.

Kept by `state_manager` around each commit, asked by whoever wants to know whether a process is fit to take work.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from anabranch.errors import StoreUnavailable

# 2 s: a commit takes milliseconds, so one that has been under way for longer is not going through.
SLOW_AFTER_S = 2.0

# 5 s: a failure that is older tells nothing about the next commit; nobody may have tried again since.
FAILURE_COUNTS_S = 5.0


class CommitProgress:
    """Times of the commits of one store (monotonic seconds)."""

    def __init__(self) -> None:
        self._began: dict[object, float] = {}
        """The commits under way, oldest first."""
        self._answered_at = 0.0
        self._failure: tuple[float, str] | None = None
        """When a commit failed, and why; None once another one was answered."""

    @contextmanager
    def under_way(self) -> Iterator[None]:
        """Around a commit."""
        commit = object()
        self._began[commit] = time.monotonic()
        try:
            yield
            self._answered_at = time.monotonic()
            self._failure = None
        except StoreUnavailable as failure:
            self._failure = (time.monotonic(), str(failure.as_answer()["message"]))
            raise
        finally:
            del self._began[commit]

    def stuck(self) -> str | None:
        """Why commits do not get through, if they do not, in words that anybody may read."""
        now = time.monotonic()
        if self._failure is not None and now - self._failure[0] < FAILURE_COUNTS_S:
            return f"the last commit failed: {self._failure[1]}"
        oldest = next(iter(self._began.values()), now)
        if now - oldest > SLOW_AFTER_S and now - self._answered_at > SLOW_AFTER_S:
            return f"a commit has been under way for {now - oldest:.0f} s"
        return None

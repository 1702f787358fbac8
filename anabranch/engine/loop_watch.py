"""The watchdog: a thread that detects a blocked event loop, logs what blocks it, and keeps leases extended.

Started by `lifecycle`; all engines on one event loop share it. While a handler blocks the loop nothing else runs: no
lease would be extended, and other workers would take over all runs of this process. So the thread extends them, for at
most `keep_ms`; a process that hangs for longer loses its runs.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator
from inspect import getattr_static
from types import FrameType
from weakref import WeakKeyDictionary

from anabranch.engine.handler_contract import Helpers

logger = logging.getLogger("anabranch.engine")

# 1 s: longer than a busy machine alone would explain.
BLOCKED_AFTER_S = 1.0

# A look four times a second, more often for short leases.
LOOK_S = 0.25
LOOKS_PER_LEASE = 12

# 4 frames at the inner end, where it is stuck, and 8 at the outer end, the author's own; the rest is left out.
INNER_FRAMES_MAX = 4
OUTER_FRAMES_MAX = 8


class LoopWatch:
    """One engine's part of the watchdog of its event loop: keeps its leases and counts blocks."""

    def __init__(self, *, lease_ms: int, keep_ms: int, keep_leases: Callable[[], None]) -> None:
        """`keep_leases` is called repeatedly in the thread while the loop is blocked; it may raise."""
        self.look_s = min(LOOK_S, lease_ms / 1000 / LOOKS_PER_LEASE)
        """How often the loop is looked at, at least."""
        self.blockings = 0
        """How often the loop was blocked for longer than `BLOCKED_AFTER_S`."""
        self.blocked_s = 0.0
        """For how long in all."""
        self._keep_every_s = lease_ms / 1000 / 6
        self._keep_s = keep_ms / 1000
        self._keep_leases = keep_leases
        self._kept_at = 0.0
        self._watchdog: _Watchdog | None = None

    def start(self) -> None:
        """Begin to watch the running loop, together with the other engines on it."""
        self._watchdog = _watchdog_of(asyncio.get_running_loop())
        self._watchdog.add(self)

    def stop(self) -> None:
        """Stop watching; may be called twice, or before start."""
        watchdog, self._watchdog = self._watchdog, None
        if watchdog is not None:
            watchdog.remove(self)

    def keep(self, blocked_s: float, now: float) -> None:
        """Extend the leases if it is time to. Called in the thread while the loop is blocked."""
        if not self._keep_every_s <= blocked_s <= self._keep_s or now - self._kept_at < self._keep_every_s:
            return
        self._kept_at = now
        try:
            self._keep_leases()
        except Exception as failure:  # noqa: BLE001 -- the next call may succeed, and the thread must not end
            logger.warning("leases could not be kept while the event loop is blocked: %s", failure)


class _Watchdog:
    """A thread that watches one event loop for all engines on it, and logs each block once."""

    def __init__(self) -> None:
        self._watches: tuple[LoopWatch, ...] = ()  # replaced as a whole: the thread reads it
        self._look_s = LOOK_S
        self._beaten_at = 0.0
        self._beat: asyncio.TimerHandle | None = None
        self._watched = 0
        self._stopping = threading.Event()

    # -- in the loop ----------------------------------------------------------------------
    def add(self, watch: LoopWatch) -> None:
        """Add an engine."""
        is_first = not self._watches
        self._change((*self._watches, watch))
        if is_first:
            self._watched = threading.get_ident()
            self._stopping = threading.Event()
            threading.Thread(target=self._watch, args=(self._stopping,), name="loop-watch", daemon=True).start()

    def remove(self, watch: LoopWatch) -> None:
        """Remove an engine; the thread ends with the last one."""
        self._change(tuple(other for other in self._watches if other is not watch))
        if not self._watches:
            self._stopping.set()

    def _change(self, watches: tuple[LoopWatch, ...]) -> None:
        self._watches = watches
        self._look_s = min((watch.look_s for watch in watches), default=LOOK_S)
        self._beaten_at = time.monotonic()
        if self._beat is not None:
            self._beat.cancel()
        self._beat = asyncio.get_running_loop().call_later(self._look_s, self._go_on) if watches else None

    def _go_on(self) -> None:
        now = time.monotonic()
        late_s = now - self._beaten_at - self._look_s
        if late_s >= BLOCKED_AFTER_S:
            for watch in self._watches:
                watch.blocked_s += late_s
        self._beaten_at = now
        self._beat = asyncio.get_running_loop().call_later(self._look_s, self._go_on)

    # -- in the thread --------------------------------------------------------------------
    def _watch(self, stopping: threading.Event) -> None:
        reported_for = 0.0
        looked_at = time.monotonic()
        while not stopping.wait(self._look_s):
            now, beaten_at = time.monotonic(), self._beaten_at
            stood_still = now - looked_at > self._look_s + BLOCKED_AFTER_S / 2  # the whole process was stopped
            looked_at = now
            blocked_s = now - beaten_at - self._look_s
            if stood_still or blocked_s < self._look_s:
                continue
            if blocked_s >= BLOCKED_AFTER_S and reported_for != beaten_at:
                reported_for = beaten_at
                for watch in self._watches:
                    watch.blockings += 1
                self._report(blocked_s)
            for watch in self._watches:
                watch.keep(blocked_s, now)

    def _report(self, blocked_s: float) -> None:
        """Log one line: how long, which attempt, and where it is stuck."""
        frames = list(_frames(sys._current_frames().get(self._watched)))
        helpers, step, calls = _culprit(frames)
        node = (helpers.node_id if step is None else step) if helpers is not None else None
        who = "code that belongs to no node" if helpers is None else f"node {node!r} of run {helpers.instance_id}"
        where = [f"{frame.f_code.co_name} ({frame.f_code.co_filename}:{frame.f_lineno})" for frame in frames[:calls]]
        if len(where) > INNER_FRAMES_MAX + OUTER_FRAMES_MAX:
            where[INNER_FRAMES_MAX:-OUTER_FRAMES_MAX] = ["…"]
        extra = {} if helpers is None else {"instance_id": helpers.instance_id, "node_id": node}
        logger.warning("the event loop is blocked for %.1f s by %s: %s", blocked_s, who, " < ".join(where), extra=extra)


_watchdogs: WeakKeyDictionary[asyncio.AbstractEventLoop, _Watchdog] = WeakKeyDictionary()
_watchdogs_lock = threading.Lock()  # loops of several threads


def _watchdog_of(loop: asyncio.AbstractEventLoop) -> _Watchdog:
    with _watchdogs_lock:
        return _watchdogs.setdefault(loop, _Watchdog())


def _frames(innermost: FrameType | None) -> Iterator[FrameType]:
    frame = innermost
    while frame is not None:
        yield frame
        frame = frame.f_back


def _culprit(frames: list[FrameType]) -> tuple[Helpers | None, str | None, int]:
    """The attempt that the innermost frames belong to, the name of its step in a coded run, and the number of these
    frames.

    Found through the helpers in their local variables, so executions need no bookkeeping for it.
    """
    for calls, frame in enumerate(frames, start=1):
        names = frame.f_locals
        if isinstance(names.get("helpers"), Helpers):
            return names["helpers"], None, calls
        of_steps = getattr_static(names.get("self"), "_helpers", None)  # runs no code of the object's
        if isinstance(of_steps, Helpers):
            step = getattr(names.get("call"), "name", None)
            return of_steps, step if isinstance(step, str) else None, calls
    return None, None, len(frames)

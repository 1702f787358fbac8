"""Notices, from a thread, when the event loop does not go on, tells who blocks it, and has leases kept meanwhile.

Started by `lifecycle`. Nothing else runs while a handler blocks the loop: no lease is extended, and the runs of every
other handler would be lost to other workers. So the thread has them extended, for `keep_ms` at most: a process that
hangs for longer is to lose its runs.
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

from anabranch.engine.handling import Helpers

logger = logging.getLogger("anabranch.engine")

# 1 s: a pause that nobody explains by a busy machine alone.
BLOCKED_AFTER_S = 1.0

# A look four times a second, and more often where leases are so short that a later one would lose them.
LOOK_S = 0.25
LOOKS_PER_LEASE = 12

# 4 calls at the inner end, where it is stuck, and 8 at the outer, the author's own; what is between is left out.
INNER_FRAMES_MAX = 4
OUTER_FRAMES_MAX = 8


class LoopWatch:
    """Watches the event loop that starts it."""

    def __init__(self, *, lease_ms: int, keep_ms: int, keep_leases: Callable[[], None]) -> None:
        """`keep_leases` is called in the thread, again and again while the loop is blocked; it may raise."""
        self._look_s = min(LOOK_S, lease_ms / 1000 / LOOKS_PER_LEASE)
        self._keep_every_s = lease_ms / 1000 / 6
        self._keep_s = keep_ms / 1000
        self._keep_leases = keep_leases
        self._stopping = threading.Event()
        self._beaten_at = 0.0
        self._beat: asyncio.TimerHandle | None = None
        self._watched = 0
        self.blockings = 0
        """How often the loop was blocked for longer than `BLOCKED_AFTER_S`."""
        self.blocked_s = 0.0
        """For how long in all."""

    def start(self) -> None:
        """Watch the running loop from now on."""
        self._watched = threading.get_ident()
        self._beaten_at = time.monotonic()
        self._beat = asyncio.get_running_loop().call_later(self._look_s, self._go_on)
        threading.Thread(target=self._watch, name="loop-watch", daemon=True).start()

    def stop(self) -> None:
        """Watch no more; may be called twice, or before start."""
        self._stopping.set()
        if self._beat is not None:
            self._beat.cancel()

    def _go_on(self) -> None:
        now = time.monotonic()
        late_s = now - self._beaten_at - self._look_s
        if late_s >= BLOCKED_AFTER_S:
            self.blocked_s += late_s
        self._beaten_at = now
        self._beat = asyncio.get_running_loop().call_later(self._look_s, self._go_on)

    # -- in the thread --------------------------------------------------------------------
    def _watch(self) -> None:
        told_of = kept_at = 0.0
        looked_at = time.monotonic()
        while not self._stopping.wait(self._look_s):
            now, beaten_at = time.monotonic(), self._beaten_at
            stood_still = now - looked_at > self._look_s + BLOCKED_AFTER_S / 2  # the whole process: nobody's fault
            looked_at = now
            blocked_s = now - beaten_at - self._look_s
            if stood_still or blocked_s < self._look_s:
                continue
            if blocked_s >= BLOCKED_AFTER_S and told_of != beaten_at:
                told_of = beaten_at
                self.blockings += 1
                self._tell(blocked_s)
            if self._keep_every_s <= blocked_s <= self._keep_s and now - kept_at >= self._keep_every_s:
                kept_at = now
                self._keep()

    def _keep(self) -> None:
        try:
            self._keep_leases()
        except Exception as failure:  # noqa: BLE001 -- the next call may succeed, and the thread must not end
            logger.warning("leases could not be kept while the event loop is blocked: %s", failure)

    def _tell(self, blocked_s: float) -> None:
        """One line: for how long, by whom, and where it is."""
        frames = list(_frames(sys._current_frames().get(self._watched)))
        helpers, step, calls = _culprit(frames)
        node = (helpers.node_id if step is None else step) if helpers is not None else None
        who = "code that belongs to no node" if helpers is None else f"node {node!r} of run {helpers.instance_id}"
        where = [f"{frame.f_code.co_name} ({frame.f_code.co_filename}:{frame.f_lineno})" for frame in frames[:calls]]
        if len(where) > INNER_FRAMES_MAX + OUTER_FRAMES_MAX:
            where[INNER_FRAMES_MAX:-OUTER_FRAMES_MAX] = ["…"]
        extra = {} if helpers is None else {"instance_id": helpers.instance_id, "node_id": node}
        logger.warning("the event loop is blocked for %.1f s by %s: %s", blocked_s, who, " < ".join(where), extra=extra)


def _frames(innermost: FrameType | None) -> Iterator[FrameType]:
    frame = innermost
    while frame is not None:
        yield frame
        frame = frame.f_back


def _culprit(frames: list[FrameType]) -> tuple[Helpers | None, str | None, int]:
    """Whose attempt the innermost frames belong to, the step's name if it is one of a coded run, and how many they are.

    Whoever executes something has its helpers at hand: looking for them costs the executions nothing.
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

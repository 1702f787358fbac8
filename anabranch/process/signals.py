"""SIGTERM and SIGINT of a process that stays: the first asks it to end, the second ends it, and so does its time.

Used by `life`.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

EXIT_AT_ONCE = 1
"""How a process exits that was told twice, or is not done in time: nothing is handed over, its leases lapse."""

_ASKING = (signal.SIGTERM, signal.SIGINT)


def _end_overdue() -> None:
    sys.stderr.write("stopped after its grace; what was not handed over is taken up when its leases lapse\n")
    sys.stderr.flush()
    os._exit(EXIT_AT_ONCE)


class StopSignals:
    """What a process was told."""

    def __init__(self, *, end_within_s: float) -> None:
        self._end_within_s = end_within_s
        self.asked = asyncio.Event()
        """Set by the first signal."""
        self._starting: asyncio.Task[object] | None = None

    @contextmanager
    def heard(self) -> Iterator[None]:
        """Hear signals within. Before `started`, the first one cancels what is under way."""
        loop = asyncio.get_running_loop()
        self._starting = asyncio.current_task()
        for number in _ASKING:
            # Handlers of our own, because a shell starts what it puts in the background with SIGINT ignored.
            loop.add_signal_handler(number, self._receive)
        try:
            yield
        finally:
            for number in _ASKING:
                loop.remove_signal_handler(number)

    def started(self) -> None:
        """There is something to end in order now: the first signal only sets `asked`."""
        self._starting = None

    def _receive(self) -> None:
        if self.asked.is_set():
            sys.stderr.write("stopped at once; what was under way is taken up when its leases lapse\n")
            sys.stderr.flush()
            os._exit(EXIT_AT_ONCE)  # no unwinding: whoever says it twice does not want to wait for any of it
        self.asked.set()
        # A thread: also a loop that hangs comes to its end.
        overdue = threading.Timer(self._end_within_s, _end_overdue)
        overdue.daemon = True
        overdue.start()
        if self._starting is not None:
            self._starting.cancel()

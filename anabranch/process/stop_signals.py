"""SIGTERM and SIGINT of a long-running process: the first stops it in order, the second ends it at once.

Used by `process_lifecycle`, and by its commands before they have anything to stop. When the grace is over, the process
ends as well.
"""

from __future__ import annotations

import asyncio
import os
import select
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from anabranch.grace import Grace

EXIT_IN_ORDER = 0
EXIT_AT_ONCE = 1
"""The exit code after a second signal or when the grace is over: nothing is handed over, and leases expire."""

_ASKING = (signal.SIGTERM, signal.SIGINT)
_SIGNAL, _NO_MORE = b"s", b"n"


@contextmanager
def ended_by_sigterm() -> Iterator[None]:
    """Within this context SIGTERM ends the process at once, in order: it has nothing yet that it could hand over.

    Without a handler the first process of a container would ignore the signal.
    """
    before = signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(EXIT_IN_ORDER))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


class StopSignals:
    """The stop signals of a process, received in a thread, so that a process with a blocked event loop also ends after
    its grace or at a second signal.
    """

    def __init__(self, grace: Grace) -> None:
        """The `grace` begins with the first signal; when nothing is left of it, the process ends."""
        self._grace = grace
        self._in_order = False
        self.asked = asyncio.Event()
        """Set by the first signal."""
        self._starting: asyncio.Task[object] | None = None
        # A signal handler may run in the middle of anything, so it takes no locks: it writes a byte.
        self._read_end, self._write_end = os.pipe()

    @contextmanager
    def handled(self) -> Iterator[None]:
        """Receive signals within this context. Before `started`, the first one cancels what is under way."""
        self._loop = asyncio.get_running_loop()
        self._starting = asyncio.current_task()
        threading.Thread(target=self._listen, daemon=True, name="stop-signals").start()
        # Explicit handlers, because a shell starts background processes with SIGINT ignored.
        before = {number: signal.signal(number, self._receive) for number in _ASKING}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
            if not self.asked.is_set():
                os.write(self._write_end, _NO_MORE)  # else the thread sees to it that the process ends

    def started(self) -> None:
        """There is something to end in order now: the first signal only sets `asked`."""
        self._starting = None

    def ended_in_order(self) -> None:
        """Everything is handed over: the rest of the stop may be cut off."""
        self._in_order = True

    def _receive(self, number: int, frame: FrameType | None) -> None:
        os.write(self._write_end, _SIGNAL)

    # -- in the thread --------------------------------------------------------------------
    def _listen(self) -> None:
        if os.read(self._read_end, 1) == _NO_MORE:
            return
        self._grace.begin()
        self._loop.call_soon_threadsafe(self._ask)
        further = select.poll()
        further.register(self._read_end, select.POLLIN)
        if further.poll(1000 * self._grace.left_s()):
            _end("stopped at once; other workers take over its runs when its leases expire")
        if self._in_order:
            os._exit(EXIT_IN_ORDER)
        _end("stopped after its grace; other workers take over the rest when its leases expire")

    def _ask(self) -> None:
        self.asked.set()
        if self._starting is not None:
            self._starting.cancel()


def _end(why: str) -> None:
    """End the process without unwinding, which might never finish."""
    os.write(2, f"{why}\n".encode())
    os._exit(EXIT_AT_ONCE)

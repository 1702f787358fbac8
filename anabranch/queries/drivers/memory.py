"""Memory limits of a driver process: small until the server has accepted the login, then enough for a result.

Called by `serve`. The limit is on address space (RLIMIT_AS), so nothing that a server sends can pass it, whatever
library reads it. Linux only: elsewhere the process is unlimited, but still a separate process.
"""

from __future__ import annotations

import resource
import sys
from pathlib import Path
from typing import Protocol

# 24 MiB until the server has accepted the login: a TLS handshake takes two, the certificates of a system one.
CONNECTING_BYTES = 24 << 20

# 96 MiB for an answer. The largest row that is let in (10 MiB) is held six times for a moment: in the buffer of
# the C library, which grows by doubling, in its result, as a Python value and as JSON.
ANSWERING_BYTES = 96 << 20

# 256 MiB for each temporary file of a reading SQLite query (sorts, materialised subqueries).
TEMPORARY_FILE_BYTES = 256 << 20

# 64 descriptors: a process has a socket, its lifeline, and a handful of files if it is SQLite's.
_FILES_MAX = 64

_STATM = Path("/proc/self/statm")


class MemoryLimiter(Protocol):
    """Sets how much memory a driver may use."""

    def limit_connecting(self) -> None:
        """The limit until the server has accepted the login."""

    def limit_answering(self) -> None:
        """For a query."""


class ProcessMemory:
    """The limits of this process. Made once everything is imported: they count from what is in use then."""

    def __init__(self) -> None:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_NOFILE, (_FILES_MAX, _FILES_MAX))
        self._most = _in_use() + ANSWERING_BYTES if sys.platform == "linux" else 0
        self._limit(self._most)

    def limit_connecting(self) -> None:
        """Let the process take `CONNECTING_BYTES` more than it has now, up to its limit."""
        if self._most:
            self._limit(min(_in_use() + CONNECTING_BYTES, self._most))

    def limit_answering(self) -> None:
        """Let the process take up to its limit."""
        self._limit(self._most)

    def _limit(self, size: int) -> None:
        if self._most:
            resource.setrlimit(resource.RLIMIT_AS, (size, self._most))


def _in_use() -> int:
    """The address space that is taken now."""
    return int(_STATM.read_text().split()[0]) * resource.getpagesize()


def limit_files(size: int | None) -> None:
    """No file that this process writes may become longer; None: no limit. What writes beyond it gets an error."""
    most = resource.RLIM_INFINITY if size is None else size
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))

"""File descriptors of a long-running process: how many it may open, and how many of them are for HTTP.

Called by `process_lifecycle` at start. Everything that a process opens counts against one limit: client connections,
database connections, pipes to the sandbox, log files. Without a free descriptor a process cannot work, so clients get
what the engine does not need.
"""

from __future__ import annotations

import resource

# 64: what a server has open when it is idle (some 30: database connections, the event loop, the fork
# servers of the sandbox, standard streams) with room for as much again.
BASE = 64

# 3 for each execution: an HTTP request has one socket, a code node a socket and two pipes.
PER_EXECUTION = 3

# Half: a server with very few descriptors still answers, and still works.
SHARE_FOR_HTTP_MIN = 0.5


def raise_limit() -> int:
    """Raise the soft limit of descriptors to the hard one, as far as the system allows; returns the new limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (OSError, ValueError):
            return soft  # macOS reports "unlimited" but accepts less; keep the old limit
    return hard


def connections_max(*, limit: int, concurrency: int, wanted: int) -> int:
    """How many connections of clients there may be under this limit of descriptors; at least 1."""
    if limit == resource.RLIM_INFINITY:
        return wanted
    for_engine = BASE + PER_EXECUTION * concurrency
    return max(1, min(wanted, max(limit - for_engine, int(limit * SHARE_FOR_HTTP_MIN))))

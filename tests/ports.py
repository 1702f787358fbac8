"""Ports for servers that are started again where they were: between two of them nobody else may come to have theirs.
The workers of pytest-xdist have ports of their own.

Called by tests that stop a server and start another, or that have to know a port before its server runs.
"""

from __future__ import annotations

import os
import random
import socket
from collections import deque
from pathlib import Path

# What the system gives to who asks for any port begins here or above, unless it says otherwise.
_GIVEN_FROM = 32_768
_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")

# Below are those that well-known services have.
_LOWEST = 10_000

# Of a worker's seven hundred ports a few are taken; two hundred in a row are not.
_ATTEMPTS_MAX = 200

# Worker n has the ports that leave the same remainder; more of them than a small machine ever runs.
_WORKERS_MAX = 32
_WORKER = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % _WORKERS_MAX

# The last hundred that were given: who has one of them may not listen there yet.
_given: deque[int] = deque(maxlen=100)


def lasting_port() -> int:
    """A free port of 127.0.0.1 that the system gives to nobody by itself. Raises OSError if none is found."""
    given_from = int(_RANGE.read_text().split()[0]) if _RANGE.exists() else _GIVEN_FROM
    for _ in range(_ATTEMPTS_MAX):
        port = random.randrange(_LOWEST + _WORKER, max(given_from, _LOWEST + 1_000), _WORKERS_MAX)
        if port in _given:
            continue
        try:
            with socket.create_server(("127.0.0.1", port)):
                _given.append(port)
                return port
        except OSError:
            continue
    raise OSError(f"no free port below {given_from}")

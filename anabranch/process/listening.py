"""Bind the address of a server before anything else is opened, so that a taken port is one clear error.

Called by the commands, before the database is opened. The socket accepts no connection until the server is ready.
"""

from __future__ import annotations

import errno
import ipaddress
import socket
from urllib.parse import quote

from anabranch.errors import AddressUnusable

_WILDCARDS = frozenset({"0.0.0.0", "::"})  # noqa: S104 -- compared with, not bound to

_WHY_TAKEN = "Stop the process that has it, or choose another with --port (0 picks a free one)."
_WHY_ABSENT = "Choose an address of this machine with --host: 127.0.0.1 for this machine alone, 0.0.0.0 for everybody."


def bind(host: str, port: int) -> socket.socket:
    """A socket that has the address and does not listen yet; port 0 takes a free one. Raises AddressUnusable."""
    try:
        # IPv4 where a name has both: it is what people write into a browser.
        family, kind, protocol, _, address = min(
            socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE),
            key=lambda found: found[0] != socket.AF_INET,
        )
    except (OSError, UnicodeError) as unknown:
        raise AddressUnusable(f"{host!r} is not an address: {unknown}", hint=_WHY_ABSENT) from unknown
    listener = socket.socket(family, kind, protocol)
    try:
        # What a server before us left in TIME_WAIT is not in the way; one that still listens is.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except OSError as refusal:
        listener.close()
        if refusal.errno == errno.EADDRINUSE:
            raise AddressUnusable(f"port {port} of {host} is taken", hint=_WHY_TAKEN) from refusal
        raise AddressUnusable(
            f"port {port} of {host} cannot be opened: {refusal.strerror}", hint=_WHY_ABSENT
        ) from refusal
    return listener


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the address. False for names other than localhost, which may be anything."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def url_of(listener: socket.socket, *, key: str | None = None) -> str:
    """The URL that the server is reached by from this machine; with a key, the one that signs its owner in."""
    host, port = listener.getsockname()[:2]
    if host in _WILDCARDS:
        host = "127.0.0.1"
    base = f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"
    return base if key is None else f"{base}?key={quote(key, safe='')}"

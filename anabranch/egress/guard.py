"""The egress guard: resolves a host to addresses that may be reached.

Called by `guarded_client` for HTTP and by the query engine for database hosts. A name is resolved once. If any of its
addresses is neither public nor allowed, the name is refused. The caller must connect to the returned addresses, never
to the name, which may resolve differently the next time.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeAlias

from anabranch.egress.addresses import AllowList, parse_address, why_not_public
from anabranch.errors import EgressRefused, HttpUnreachable

logger = logging.getLogger("anabranch.egress")

# 16 names at once: resolving blocks a thread, and a name server that does not answer blocks it for seconds. The guard
# has its own threads, so that this delays nothing else.
RESOLVING_MAX = 16

# 32 addresses of one name: the largest services have eight.
ADDRESSES_MAX = 32

Resolve: TypeAlias = Callable[[str, int], Sequence[str]]
"""The addresses of a name, as text. Blocks. Raises OSError if there are none."""


def resolve_with_system(host: str, port: int) -> Sequence[str]:
    """Resolve a name with the operating system, /etc/hosts included."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(answer[4][0]) for answer in found))


class Guard:
    """Judges hosts. One per process; safe to call from several threads."""

    def __init__(self, allow: AllowList | None = None, *, resolve: Resolve = resolve_with_system) -> None:
        self._allow = allow or AllowList()
        self._resolve = resolve
        self._threads = ThreadPoolExecutor(max_workers=RESOLVING_MAX, thread_name_prefix="anabranch-resolve")

    def check(self, host: str, port: int) -> Sequence[str]:
        """The addresses to connect to, and no others. Blocks while a name is resolved.

        `host` is a name or an address without brackets. Raises EgressRefused if any address is
        neither public nor allowed, HttpUnreachable if the name does not resolve.
        """
        name = host.lower().removesuffix(".")
        if parse_address(name) is not None:
            return self._judge(name, port, [name])
        try:
            found = self._resolve(name, port)
        except (OSError, UnicodeError):
            raise HttpUnreachable(f"the name {name} does not resolve") from None
        return self._judge(name, port, found)

    async def check_soon(self, host: str, port: int) -> Sequence[str]:
        """As `check`, without holding up the event loop."""
        if parse_address(host) is not None:
            return self.check(host, port)
        return await asyncio.get_running_loop().run_in_executor(self._threads, self.check, host, port)

    def close(self) -> None:
        """Let the resolving threads end; those that wait for a name server end when it gives up."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _judge(self, host: str, port: int, found: Sequence[str]) -> Sequence[str]:
        if not found or len(found) > ADDRESSES_MAX:
            raise HttpUnreachable(f"the name {host} has {len(found) or 'no'} addresses")
        if self._allow.has_name(host, port):
            return list(found)
        for text in found:
            address = parse_address(text)
            reason = "an address with a scope" if address is None else why_not_public(address)
            if reason is None or (address is not None and self._allow.has_address(address, port)):
                continue
            # Only the log shows the address of an internal name, not the tenant's error. The name is not logged,
            # because it may come from a secret.
            logger.warning("refused to connect to port %d at %s (%s)", port, text, reason)
            raise EgressRefused(
                f"{host} port {port} may not be reached: its address is not public ({reason}),"
                " and ANABRANCH_EGRESS_ALLOW does not list it"
            )
        return list(found)

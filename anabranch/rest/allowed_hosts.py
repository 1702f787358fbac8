"""Check the headers Host and Origin: protection against DNS rebinding and cross-origin requests.

A foreign page may rebind its name to our address (Host is then its name), or send a cross-origin request (Origin is
then its origin). Neither can set the header with the key, so this is the second line of defence.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

from aiohttp import web

from anabranch.errors import NotPermitted

LOOPBACK_HOSTS = frozenset({"127.0.0.1", "localhost", "::1"})
"""Host names of a server that is only reachable from this machine."""

_READING = frozenset({"GET", "HEAD", "OPTIONS"})


@dataclass(frozen=True, slots=True)
class AllowedHosts:
    """The allowed values of Host and Origin."""

    hosts: frozenset[str] | None = None
    """Allowed names in Host, without port; None: any, for a server with an unknown public name."""

    def check(self, request: web.Request) -> None:
        """Raise NotPermitted for another host name, or for a write from another origin."""
        host = host_of(request.host)
        if self.hosts is not None and host not in self.hosts:
            raise NotPermitted(
                f"the host {host!r} is not allowed",
                hint="List the server's host names in ANABRANCH_ALLOWED_HOSTS.",
            )
        origin = request.headers.get("Origin")
        if origin is not None and request.method not in _READING and not self.is_own_origin(origin, request.host):
            raise NotPermitted(
                f"requests from the origin {origin!r} are not allowed",
                hint="Use a page of this server or a program.",
            )

    def is_own_origin(self, origin: str, host: str) -> bool:
        """Is this origin that of the server with this `host`?"""
        try:
            return urlsplit(origin).netloc.lower() == host.lower()
        except ValueError:
            return False


def host_of(authority: str) -> str:
    """The name in `name:port`, without the brackets of an IPv6 address; empty if invalid."""
    try:
        return (urlsplit(f"//{authority}").hostname or "").lower()
    except ValueError:
        return ""

"""Which hosts and origins are ours: against pages of others that make a browser call us.

A page of a stranger may rebind its own name to our address (then Host is the stranger's name), or
send a request across origins (then Origin is). Keys travel in a header that neither can set, so this
is the second wall, not the first.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

from aiohttp import web

from anabranch.errors import NotPermitted

LOOPBACK_HOSTS = frozenset({"127.0.0.1", "localhost", "::1"})
"""The names of a server that only this machine reaches."""

_READING = frozenset({"GET", "HEAD", "OPTIONS"})


@dataclass(frozen=True, slots=True)
class AllowedHosts:
    """What a request may say of where it comes from and goes to."""

    hosts: frozenset[str] | None = None
    """Names in the header Host, without port; None: any, for a server whose name only its operator knows."""

    def check(self, request: web.Request) -> None:
        """Raise NotPermitted for a request to another name, or a writing one from another origin."""
        host = host_of(request.host)
        if self.hosts is not None and host not in self.hosts:
            raise NotPermitted(
                f"this server is not called {host!r}",
                hint="Name the hosts that it is reached by in ANABRANCH_ALLOWED_HOSTS.",
            )
        origin = request.headers.get("Origin")
        if origin is not None and request.method not in _READING and not self.is_own_origin(origin, request.host):
            raise NotPermitted(
                f"requests from {origin!r} are not taken", hint="Call from a page of this server, or from no page."
            )

    def is_own_origin(self, origin: str, host: str) -> bool:
        """Does a page of this origin belong to the server that is called `host`?"""
        try:
            return urlsplit(origin).netloc.lower() == host.lower()
        except ValueError:
            return False


def host_of(authority: str) -> str:
    """The name in `name:port`, without the brackets of an IPv6 address; empty if it is no authority."""
    try:
        return (urlsplit(f"//{authority}").hostname or "").lower()
    except ValueError:
        return ""

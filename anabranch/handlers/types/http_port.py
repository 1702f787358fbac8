"""The port for requests of `httpRequest` and of `fetch` in JavaScript.

Implemented by the egress client. Knows neither side.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import field
from typing import Protocol

from anabranch.dataclass import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpCall:
    """A request to send."""

    method: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    follow_redirects: bool = True
    check_certificate: bool = True
    """False: the certificate of the URL's origin is not checked. That of a redirect always is."""
    private_headers: Set[str] = frozenset()
    """Names, in lower case, of headers that go to no other origin than the URL's."""
    proxy: str | None = None
    """The URL of an HTTP proxy to send it through. Both the proxy and the target have to be allowed."""
    private_body: bool = False
    """True: the body goes to no other origin, either."""


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """An answer, whole and decompressed."""

    status: int
    headers: Mapping[str, str]
    """By lower-case name; repeated ones joined by `, `."""
    body: bytes
    url: str = ""
    """Where it came from, after redirects."""


class HttpSender(Protocol):
    """Sends requests of tenants to the world, past a guard that refuses what they must not reach."""

    async def fetch(self, call: HttpCall, *, timeout_s: float) -> HttpAnswer:
        """The response, with any status. Raises an error with `code` and a message for the tenant."""

"""The HTTP client for requests of tenants: guarded, bounded, stateless.

Called through ports by `httpRequest` and by `fetch` in code nodes. Every redirect is checked like the first URL. Two
requests share nothing: no cookies, no connections, no proxies of the environment. `exchange` does one hop.
"""

from __future__ import annotations

import asyncio
import errno
import os
import re
import ssl
from dataclasses import replace
from typing import TYPE_CHECKING

from anabranch.deferred import deferred
from anabranch.egress.guard import Guard
from anabranch.egress.request import BODY_BYTES_MAX, EgressRequest
from anabranch.errors import EgressRefused, HttpAnswerInvalid, HttpRefused, HttpTimeout, HttpUnreachable
from anabranch.handlers.types.http_port import HttpAnswer, HttpCall

# Needed only to send a request; aiohttp takes more than a tenth of a second to import:
if TYPE_CHECKING:
    import aiohttp
    import yarl

    from anabranch.egress import exchange, headers, targets
else:
    aiohttp = deferred("aiohttp")
    yarl = deferred("yarl")
    exchange = deferred("anabranch.egress.exchange")
    headers = deferred("anabranch.egress.headers")
    targets = deferred("anabranch.egress.targets")

# 5 redirects: http → https → www → path → slash is four, and loops should end soon.
REDIRECTS_MAX = 5

METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})

_HAS_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_REDIRECTS = frozenset({301, 302, 303, 307, 308})

# Headers that are kept on a redirect to another origin. Any other header may contain a credential.
_HEADERS_FOR_OTHER_ORIGINS = frozenset(
    {"accept", "accept-language", "content-type", "content-language", "idempotency-key", "user-agent"}
)


class GuardedClient:
    """Sends requests to targets that the guard allows."""

    def __init__(
        self, guard: Guard, *, body_bytes_max: int = BODY_BYTES_MAX, tls: ssl.SSLContext | None = None
    ) -> None:
        """`tls` replaces the context that trusts the system's certificate authorities."""
        self._guard = guard
        self._body_bytes_max = body_bytes_max
        self._tls = tls or True

    async def fetch(self, call: HttpCall, *, timeout_s: float) -> HttpAnswer:
        """The answer to a request, whatever its status, after at most `REDIRECTS_MAX` redirects.

        On a redirect to another origin only headers that cannot be credentials go along, and nothing private. Raises
        EgressRefused, HttpRefused, HttpAnswerInvalid, ValueTooLarge, for which a retry is useless; HttpUnreachable,
        HttpTimeout, for which it may help.
        """
        method = call.method.upper()
        if method not in METHODS:
            raise HttpRefused(f"the method is not one of {', '.join(sorted(METHODS))}")
        proxy = None if call.proxy is None else targets.parse_proxy(call.proxy)
        request = EgressRequest(
            method, targets.parse_target(call.url), headers.check_headers(call.headers), call.body, proxy
        )
        try:
            async with asyncio.timeout(timeout_s):
                return await self._follow(request, call)
        except TimeoutError:
            raise HttpTimeout(f"{request.target.origin} did not answer within {timeout_s:g} s") from None

    async def _follow(self, request: EgressRequest, call: HttpCall) -> HttpAnswer:
        left, first = REDIRECTS_MAX, request.target.origin
        while True:
            checks = call.check_certificate or request.target.origin != first
            response, location = await self._one_hop(request, tls=self._tls if checks else False)
            if not call.follow_redirects or location is None or response.status not in _REDIRECTS:
                return response
            if left == 0:
                raise HttpAnswerInvalid(f"{request.target.origin} redirects more than {REDIRECTS_MAX} times")
            left -= 1
            request = _redirected(request, response.status, location, call)

    async def _one_hop(self, request: EgressRequest, *, tls: ssl.SSLContext | bool) -> tuple[HttpAnswer, str | None]:
        target = request.target
        addresses = await self._guard.check_soon(target.host, target.port)
        if request.proxy is not None:  # the target has to be allowed as well: the proxy asks it for us
            addresses = await self._guard.check_soon(request.proxy.target.host, request.proxy.target.port)
        try:
            answer = await exchange.exchange(request, addresses, bytes_max=self._body_bytes_max, tls=tls)
        except (aiohttp.ClientError, OSError) as failure:
            raise HttpUnreachable(f"{target.origin}: {_reason(failure)}") from None
        return HttpAnswer(answer.status, answer.headers, answer.body, str(target.url)), answer.headers.get("location")


def _redirected(request: EgressRequest, status: int, location: str, call: HttpCall) -> EgressRequest:
    """The request of the next hop. Raises EgressRefused for a redirect that is not allowed."""
    target = _next_target(request.target, location)
    method, body, headers = request.method, request.body, request.headers
    becomes_get = (status == 303 and method != "HEAD") or (status in (301, 302) and method == "POST")
    if becomes_get:
        method, body = "GET", None
        headers = {name: value for name, value in headers.items() if not name.startswith("content-")}
    if target.origin != request.target.origin:
        headers = {
            name: value
            for name, value in headers.items()
            if name in _HEADERS_FOR_OTHER_ORIGINS and name not in call.private_headers
        }
        if body is not None and call.private_body:
            raise EgressRefused(
                f"{request.target.origin} redirects to {target.origin}; a body with a secret is not sent there",
                hint="Write the final URL.",
            )
    return replace(request, method=method, target=target, headers=headers, body=body)


def _next_target(target: targets.RequestTarget, location: str) -> targets.RequestTarget:
    """The target of a Location header. A relative one is joined; a whole one is read as it is, by our own reading."""
    if _HAS_SCHEME.match(location):
        return targets.parse_target(location)
    if location.startswith("//"):
        return targets.parse_target(f"{target.url.scheme}:{location}")
    try:
        joined = str(target.url.join(yarl.URL(location)))
    except ValueError:
        raise EgressRefused("the redirect leads to something that is not a URL", hint="Write the final URL.") from None
    return targets.parse_target(joined)


def _reason(failure: BaseException) -> str:
    """Why there was no answer. Never in the words of the failure: they hold addresses, and whole URLs."""
    match failure:
        case aiohttp.ClientConnectorCertificateError():
            return "its certificate is not trusted, or is not for this name"
        case aiohttp.ClientSSLError():
            return "TLS could not be agreed on"
        case TimeoutError():
            return "it took too long to answer"
        case aiohttp.ServerDisconnectedError():
            return "the connection was closed before an answer came"
        case aiohttp.ClientPayloadError():
            return "the answer broke off"
        case OSError(errno=int(number)) if number in errno.errorcode:
            return os.strerror(number).lower()
        case OSError():
            return "the connection failed"
        case _:
            return "the answer is not HTTP"

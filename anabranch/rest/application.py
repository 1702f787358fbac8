"""The REST API on aiohttp: middlewares for authentication, errors and metrics around the table of routes.

Called by the composition root of a server, with the services of its process. Every request is authenticated and
authorised, then parsed, then executed; all responses have one JSON form. Unknown paths get 404, unknown methods 405.
Besides the table only the static pages of `anabranch.pages` are served.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from hmac import compare_digest
from itertools import product
from urllib.parse import urlsplit

import orjson
from aiohttp import web
from aiohttp.typedefs import Handler, Middleware
from prometheus_client import CONTENT_TYPE_LATEST

from anabranch import pages
from anabranch.app_services import AppServices
from anabranch.dataclass import dataclass
from anabranch.errors import AnabranchError, MethodNotAllowed, NotAuthenticated, NotFound, NotPermitted, ShuttingDown
from anabranch.json_input import TEXT_BYTES_MAX
from anabranch.keys.access import Principal, Role, bearer_key
from anabranch.rest.bodies import BODY_PATIENCE_S, read_body, read_query
from anabranch.rest.error_responses import fault_response, response_of
from anabranch.rest.metrics import Metrics
from anabranch.rest.openapi import openapi_document
from anabranch.rest.public_routes import PUBLIC_PREFIXES, add_public_routes
from anabranch.rest.routes.all_routes import ROUTES
from anabranch.rest.routes.route import PUBLIC, Reply, Route, RouteCall
from anabranch.rest.routes.system_routes import HEALTH

logger = logging.getLogger("anabranch.rest")


LOOPBACK_HOSTS = frozenset({"127.0.0.1", "localhost", "::1"})
"""Host names of a server that is only reachable from this machine."""

_READING = frozenset({"GET", "HEAD", "OPTIONS"})


@dataclass(frozen=True, slots=True)
class AllowedHosts:
    """The allowed values of Host and Origin: protection against DNS rebinding and cross-origin requests.

    A page of another site may rebind its name to our address (Host is then its name), or send a cross-origin request
    (Origin is then its origin). Neither can set the header with the key, so this is the second line of defence.
    """

    hosts: frozenset[str] | None = None
    """Allowed names in Host, without port; None: any, for a server with an unknown public name."""

    def check(self, request: web.Request) -> None:
        """Raise NotPermitted for another host name, or for a write from another origin to a route with keys."""
        host = _host_of(request.host)
        if self.hosts is not None and host not in self.hosts:
            raise NotPermitted(
                f"the host {host!r} is not allowed",
                hint="List the server's host names in ANABRANCH_ALLOWED_HOSTS.",
            )
        origin = request.headers.get("Origin")
        is_write = request.method not in _READING and not request.path.startswith(PUBLIC_PREFIXES)
        if origin is not None and is_write and not self.is_own_origin(origin, request.host):
            raise NotPermitted(
                f"requests from the origin {origin!r} are not allowed",
                hint="Use a page of this server or a program.",
            )

    def is_own_origin(self, origin: str, host: str) -> bool:
        """Whether this origin is that of the server with this `host`."""
        try:
            return urlsplit(origin).netloc.lower() == host.lower()
        except ValueError:
            return False


def _methods(route: Route) -> tuple[str, ...]:
    """HEAD is GET without the body, for caches and probes; it needs the same role."""
    return ("GET", "HEAD") if route.method == "GET" else (route.method,)


# Of paths that are also an id in another route, such as /v1/runs/bulk: what they themselves support.
_METHODS_OF = {
    path: {method for route in ROUTES if path in (route.path, *route.aliases) for method in _methods(route)}
    for path in {path for route in ROUTES for path in (route.path, *route.aliases) if "{" not in path}
}

METRICS = web.AppKey("metrics", Metrics)
"""The metrics of an application, for the APIs attached to it."""

AUTHENTICATED = web.RequestKey("authenticated", bool)
"""Set on requests with a valid key. A process short of connections closes others first."""

# Any other method is a client's invention and must not become a label of a metric.
_METHODS_COUNTED = frozenset({"GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"})

# The status of a request that became a WebSocket.
_SWITCHING_PROTOCOLS = 101

# nginx's status for a client that disconnected: never sent, only counted.
CLIENT_GONE = 499

_HEADERS = {"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cache-Control": "no-store"}
"""Headers of every response, unless it sets its own."""

_ID_PARAMETERS = frozenset({"workflow", "instanceID", "draft", "source", "query", "schedule", "subscription"})
"""The parameters of paths that are ids, or ids and names."""

_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")

_NOBODY = Principal(tenant_id="", role=Role.VIEWER, key_id="")
"""The caller of a public route: a tenant without data."""


def build_application(
    services: AppServices,
    *,
    allowed_hosts: AllowedHosts | None = None,
    routes: Sequence[Route] = ROUTES,
    body_patience_s: float = BODY_PATIENCE_S,
) -> web.Application:
    """Create the REST application of a process; `allowed_hosts` lists its hosts and origins.

    A body that does not arrive within `body_patience_s` gets 408.

    Further APIs (sockets, pages) are attached to it by the composition root.
    """
    application = _application(services, allowed_hosts or AllowedHosts(), routes, body_patience_s)
    add_public_routes(application, services, body_patience_s)
    application.router.add_get("/openapi.json", _OpenapiPage(routes).serve)
    for page in pages.paths():
        application.router.add_get(page, _send_page)
    return application


def build_health_application(services: AppServices, *, allowed_hosts: AllowedHosts | None = None) -> web.Application:
    """Only `/healthz`, `/readyz` and `/metrics`: for a process without the API."""
    return _application(services, allowed_hosts or AllowedHosts(), HEALTH.routes, BODY_PATIENCE_S)


def _application(
    services: AppServices, allowed_hosts: AllowedHosts, routes: Sequence[Route], body_patience_s: float
) -> web.Application:
    metrics = Metrics(services)
    application = web.Application(
        client_max_size=TEXT_BYTES_MAX,
        middlewares=[_middleware(_answer_everything, metrics), _middleware(_look_around, allowed_hosts)],
    )
    application[METRICS] = metrics
    application.on_response_prepare.append(_sign)
    application.router.add_get("/metrics", partial(_send_metrics, metrics, services.metrics_key))
    for route in routes:
        for path, method in product((route.path, *route.aliases), _methods(route)):
            application.router.add_route(method, path, partial(_serve, services, route, body_patience_s))
    return application


def _middleware(function: Callable[..., Awaitable[web.StreamResponse]], first: object) -> Middleware:
    """A middleware with an additional argument."""

    @web.middleware
    async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
        return await function(first, request, handler)

    return middleware


async def _answer_everything(metrics: Metrics, request: web.Request, handler: Handler) -> web.StreamResponse:
    """Count every response, and turn every error into a JSON response."""
    began, status = time.perf_counter(), 500
    try:
        response = await _answer(request, handler)
        status = response.status
        return response
    finally:
        resource = request.match_info.route.resource
        route = "unknown" if resource is None else resource.canonical
        method = request.method if request.method in _METHODS_COUNTED else "OTHER"
        if status != _SWITCHING_PROTOCOLS:  # a WebSocket is not a request that takes hours
            metrics.seconds.labels(method, route).observe(time.perf_counter() - began)
        metrics.requests.labels(method, route, str(status)).inc()


async def _answer(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        response = await handler(request)
    except AnabranchError as refusal:
        response = response_of(refusal)
    except web.HTTPMethodNotAllowed as refusal:
        response = response_of(MethodNotAllowed(f"{request.path} does not support {request.method}"))
        methods = _METHODS_OF.get(request.path, refusal.allowed_methods)
        response.headers["Allow"] = ", ".join(sorted(methods))
    except web.HTTPNotFound:
        response = response_of(NotFound(f"there is nothing at {request.path}", hint="/docs lists what there is."))
    except web.HTTPException:
        raise  # the response of an attached API
    except Exception as fault:  # noqa: BLE001 -- the last border: no traceback reaches a caller
        if _has_gone(request, fault):
            response = web.Response(status=CLIENT_GONE)
        else:
            response = fault_response(fault, f"{request.method} {request.path}")
    for name, value in _HEADERS.items():
        response.headers.setdefault(name, value)
    if request.content.exception() is not None and not response.prepared:
        response.force_close()  # the next request cannot be separated from the broken body
    return response


def _has_gone(request: web.Request, fault: Exception) -> bool:
    """Whether this was raised by a read from a disconnected client, which is not a defect."""
    if request.transport is not None and not request.transport.is_closing():
        return False
    # aiohttp raises RuntimeError for reading on once it has closed the connection.
    return isinstance(fault, (ConnectionError, web.RequestPayloadError)) or (
        isinstance(fault, RuntimeError) and not request.content.is_eof()
    )


async def _sign(request: web.Request, response: web.StreamResponse) -> None:
    """By default aiohttp sends its version and Python's, which only helps attackers."""
    response.headers["Server"] = "anabranch"


async def _look_around(allowed_hosts: AllowedHosts, request: web.Request, handler: Handler) -> web.StreamResponse:
    allowed_hosts.check(request)
    return await handler(request)


async def _serve(
    services: AppServices, route: Route, body_patience_s: float, request: web.Request
) -> web.StreamResponse:
    principal = await _principal(services, route, request)
    query = read_query(request.rel_url.query, route.query, open_prefix=route.open_query)
    body, raw_body = await read_body(request, route.body, required=route.body_required, patience_s=body_patience_s)
    call = RouteCall(
        services=services,
        principal=principal,
        tenant_id=principal.tenant_id,
        actor=principal.key_id,
        path={name: _canonical(name, text) for name, text in request.match_info.items()},
        query=query,
        body=body,
        raw_body=raw_body,
        headers=request.headers,
        raw_query=request.rel_url.query,
        is_gone=lambda: request.transport is None,
    )
    if services.readiness.stopping and ShuttingDown in route.errors:
        raise ShuttingDown("this process is stopping and takes no new work")
    reply = await route.serve(call)
    if reply.stream is not None and request.method == "GET":
        return await _streamed(reply, reply.stream, request)
    return _response(reply)


async def _streamed(reply: Reply, stream: AsyncIterator[bytes], request: web.Request) -> web.StreamResponse:
    """Send piece by piece until the stream ends, or the client is gone."""
    response = web.StreamResponse(
        status=reply.status, headers={**_HEADERS, **reply.headers, "Content-Type": reply.content_type}
    )
    await response.prepare(request)
    try:
        async for piece in stream:
            await response.write(piece)
        await response.write_eof()
    except (ConnectionError, AnabranchError) as end:
        # Too late for an error response: the status has been sent. The client sees that the response is incomplete.
        logger.info("a stream has ended: %s", end)
        response.force_close()
    return response


def _canonical(name: str, text: str) -> str:
    """An id as it is stored: UUIDs are the same in upper case (RFC 9562). Names and events stay as they are."""
    return text.lower() if name in _ID_PARAMETERS and _UUID.fullmatch(text) else text


async def _principal(services: AppServices, route: Route, request: web.Request) -> Principal:
    if route.needs is PUBLIC:
        return _NOBODY
    key = bearer_key(request.headers.get("Authorization", ""))
    principal = None if key is None else await services.access.authenticate(key)
    if principal is None:
        raise NotAuthenticated("there is no API key in the request" if key is None else "the API key is not valid")
    is_executor = route.for_executors and principal.role is Role.EXECUTOR
    if not (is_executor or principal.role.may(route.needs)):
        raise NotPermitted(f"this needs the role {route.needs}; the key has {principal.role}")
    request[AUTHENTICATED] = True
    return principal


class _OpenapiPage:
    """The OpenAPI document. Built in a thread at the first request: that takes longer than all else at the start."""

    def __init__(self, routes: Sequence[Route]) -> None:
        self._routes = routes
        self._building: asyncio.Future[bytes] | None = None

    async def serve(self, request: web.Request) -> web.Response:
        if self._building is None or (self._building.done() and self._building.exception() is not None):
            self._building = asyncio.ensure_future(asyncio.to_thread(self._build))
        # The client that asked first may disconnect while others still wait.
        return web.Response(body=await asyncio.shield(self._building), content_type="application/json")

    def _build(self) -> bytes:
        return orjson.dumps(openapi_document(self._routes))


async def _send_metrics(metrics: Metrics, key: str | None, request: web.Request) -> web.Response:
    if key is not None:
        shown = bearer_key(request.headers.get("Authorization", ""))
        if shown is None or not compare_digest(shown.encode(), key.encode()):
            raise NotAuthenticated("/metrics needs the operator's key (ANABRANCH_METRICS_KEY)")
    return web.Response(body=await metrics.text(), headers={"Content-Type": CONTENT_TYPE_LATEST})


async def _send_page(request: web.Request) -> web.Response:
    page = pages.find(request.path)
    assert page is not None, "only known paths are routed here"
    headers = {"Cache-Control": page.cache_control, "Content-Security-Policy": page.csp}
    if page.etag is not None:
        headers |= {"ETag": page.etag, "Vary": "Accept-Encoding"}
        if request.headers.get("If-None-Match") == page.etag:
            return web.Response(status=304, headers=headers)
    body = page.body
    if page.gzipped is not None and "gzip" in request.headers.get("Accept-Encoding", ""):
        body, headers["Content-Encoding"] = page.gzipped, "gzip"
    return web.Response(body=body, headers={**headers, "Content-Type": page.content_type})


def _response(reply: Reply) -> web.Response:
    if reply.body is None and reply.status == 204:
        return web.Response(status=204, headers=reply.headers)
    body = reply.body if isinstance(reply.body, bytes) else orjson.dumps(reply.body)
    return web.Response(body=body, status=reply.status, headers={**reply.headers, "Content-Type": reply.content_type})


def _host_of(authority: str) -> str:
    """The name in `name:port`, without the brackets of an IPv6 address; empty if invalid."""
    try:
        return (urlsplit(f"//{authority}").hostname or "").lower()
    except ValueError:
        return ""

"""The public routes, which need no API key: webhooks, test addresses of drafts, and one-time addresses.

Called by `application`. Each webhook authenticates its own callers, and each address is signed. Requests have no fixed
form. A content security policy sandboxes the responses of runs, so that they never act as pages of this origin.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Any

import orjson
from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from anabranch.app_services import AppServices
from anabranch.engine.rules.responses import WebhookResponse
from anabranch.errors import AnabranchError, BadJson, EncodingRefused, RequestTimeout, ShuttingDown
from anabranch.rest import callback_pages
from anabranch.rest.error_responses import status_of
from anabranch.triggers.webhooks.test_addresses import TEST_PATH
from anabranch.triggers.webhooks.webhook_requests import HookRequest, Incoming, hook_url

PUBLIC_PREFIXES = ("/hooks/", "/callbacks/", TEST_PATH)
"""Paths that accept requests from other origins: their callers do not authenticate with a key."""

_SANDBOX = {"Content-Security-Policy": "sandbox; default-src 'none'"}

_ASKING = frozenset({"GET", "HEAD"})

Serve = Callable[[AppServices, float, web.Request], Awaitable[web.StreamResponse]]


def add_public_routes(application: web.Application, services: AppServices, body_patience_s: float) -> None:
    """Add them to an application."""
    routes: dict[str, Serve] = {
        "/hooks/{tenant}/{path:.+}": _receive,
        "/callbacks/{token}": _called_back,
        f"{TEST_PATH}{{token}}": _receive_test,
    }
    for path, serve in routes.items():
        application.router.add_route("*", path, partial(serve, services, body_patience_s))


async def _receive(services: AppServices, body_patience_s: float, request: web.Request) -> web.StreamResponse:
    """Any method: start the run of a webhook, and respond as the webhook is configured."""
    _check_request(services, request)
    tenant_id, path = request.match_info["tenant"], request.match_info["path"]
    url = hook_url(services.addresses.base_url, tenant_id, path)
    incoming = _incoming(request, tenant_id, path, body_patience_s, url=url)
    return _sandboxed(await services.webhooks.receive(incoming))


async def _receive_test(services: AppServices, body_patience_s: float, request: web.Request) -> web.StreamResponse:
    """Any method: feed the test run that waits for a request, and answer as its webhook says."""
    _check_request(services, request)
    incoming = _incoming(request, "", "", body_patience_s)
    return _sandboxed(await services.test_hooks.receive(request.match_info["token"], incoming))


async def _called_back(services: AppServices, body_patience_s: float, request: web.Request) -> web.StreamResponse:
    """GET returns a confirmation page and changes nothing; every other method passes the request to the waiting run."""
    _check_request(services, request)
    token, wants_page = request.match_info["token"], "text/html" in request.headers.get("Accept", "")
    try:
        if request.method in _ASKING:
            await services.callbacks.look(token)
            return callback_pages.question(request.rel_url.query.items())
        await services.callbacks.deliver(token, _incoming(request, "", "callback", body_patience_s))
    except AnabranchError as refusal:
        if not wants_page or status_of(refusal) >= 500:
            raise
        return callback_pages.message("This did not work", refusal.message, status=status_of(refusal))
    if wants_page:
        return callback_pages.message("Thank you", "Your answer has been recorded. You can close this page.")
    return web.Response(body=orjson.dumps({"accepted": True}), status=202, content_type="application/json")


def _sandboxed(answer: WebhookResponse) -> web.Response:
    return web.Response(body=answer.body, status=answer.status, headers={**answer.headers, **_SANDBOX})


def _is_gone(request: web.Request) -> bool:
    return request.transport is None or request.transport.is_closing()


def _check_request(services: AppServices, request: web.Request) -> None:
    encoding = request.headers.get("Content-Encoding", "").strip().lower()
    if encoding not in ("", "identity"):
        raise EncodingRefused(f"the body has the content encoding {encoding[:40]!r}; send it without one")
    if services.readiness.stopping:
        raise ShuttingDown("this process is stopping and takes no new work")


def _incoming(request: web.Request, tenant_id: str, path: str, patience_s: float, *, url: str = "") -> Incoming:
    headers: dict[str, list[str]] = {}
    for name, value in request.headers.items():
        headers.setdefault(name.lower(), []).append(value)
    read = HookRequest(request.method, tenant_id, path, headers, list(request.rel_url.query.items()), url)
    return Incoming(read, _pieces(request, patience_s), partial(_is_gone, request))


async def _pieces(request: web.Request, patience_s: float) -> AsyncIterator[bytes]:
    """The body as it arrives, all of it within `patience_s`. Raises RequestTimeout, BadJson."""
    until = asyncio.get_running_loop().time() + patience_s
    pieces = request.content.iter_any()
    while True:
        try:
            async with asyncio.timeout_at(until):
                piece: Any = await anext(pieces, None)
        except TimeoutError:
            raise RequestTimeout(f"the body did not arrive within {patience_s:g} s") from None
        except (HttpProcessingError, web.RequestPayloadError) as broken:
            raise BadJson(f"the body cannot be read: {type(broken).__name__}") from None
        if piece is None:
            return
        yield piece

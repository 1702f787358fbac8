"""The lifecycle of a server or worker process: start, run, stop in order.

It stops on SIGTERM or SIGINT: `/readyz` returns 503 at once and new starts are refused, executions get their grace,
leases are handed over so that other workers continue, requests under way are answered, then the port is closed. A
second signal ends it immediately.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

from aiohttp import web

from anabranch.app import App
from anabranch.app_services import AppServices
from anabranch.grace import Grace
from anabranch.process.acceptor import accepting
from anabranch.process.descriptors import connections_max, raise_limit
from anabranch.process.listening import is_loopback
from anabranch.process.stop_signals import StopSignals
from anabranch.rest.application import LOOPBACK_HOSTS, AllowedHosts, build_application, build_health_application
from anabranch.service import Readiness
from anabranch.sockets import SocketServer

# If a load balancer polls /readyz, the port stays open for at least 1 s and until the balancer has seen the 503, at
# most 5 s: a closed port would lose the requests that it sends meanwhile. Without polls there is no wait.
REFUSING_S_MIN = 1.0
REFUSING_S_MAX = 5.0

# 0.5 s of the remaining grace for threads: everything is handed over by then, and their results are not needed.
THREADS_S_MAX = 0.5


Apis = Callable[[AppServices, AllowedHosts], web.Application]
"""The HTTP API of the process."""


def all_apis(services: AppServices, allowed_hosts: AllowedHosts) -> web.Application:
    """REST, sockets and pages."""
    application = build_application(services, allowed_hosts=allowed_hosts)
    sockets = SocketServer(
        engine=services.engine,
        workflows=services.workflows,
        access=services.access,
        is_own_origin=allowed_hosts.is_own_origin,
    )
    sockets.mount(application)
    return application


def health_api(services: AppServices, allowed_hosts: AllowedHosts) -> web.Application:
    """The HTTP endpoints of a worker: `/healthz`, `/readyz` and `/metrics`."""
    return build_health_application(services, allowed_hosts=allowed_hosts)


def run(living: Coroutine[Any, Any, None]) -> None:
    """Run a life to its end, also one that a signal ends before it is ready; the last thing that a process does.

    Threads that do not end then (a synchronous handler may be left in one, or a connection attempt) are waited for no
    longer than `THREADS_S_MAX`, by the event loop and by the interpreter's own end: the process ends beside them.
    """

    async def lived() -> None:
        try:
            await living
        except asyncio.CancelledError:
            _end_within(THREADS_S_MAX)
            raise
        _end_within(THREADS_S_MAX)

    with suppress(asyncio.CancelledError):
        asyncio.run(lived())


def _end_within(seconds: float) -> None:
    """End the process in order after this time, whatever is left to do."""

    def end() -> None:
        time.sleep(seconds)
        os._exit(0)

    threading.Thread(target=end, daemon=True, name="end-in-order").start()


async def live(
    app: App,
    *,
    works: bool,
    ready: Callable[[AppServices], Awaitable[None]],
    listener: socket.socket | None = None,
    apis: Apis | None = None,
    makes_key: bool = False,
) -> None:
    """Live until a signal; returns when everything is handed over.

    With a `listener` HTTP is answered there, by `apis` (default: `all_apis`); `works` runs nodes.
    `ready` is awaited once both are so. Raises StoreUnavailable, SchemaMismatch; CancelledError for a
    signal before it is ready.
    """
    grace = Grace(app.settings.grace_ms / 1000)
    signals = StopSignals(grace)
    descriptors = raise_limit()
    with signals.handled():
        async with (
            app.open_services(
                works=works,
                makes_key=makes_key,
                counts=listener is not None,
                grace=grace,
                console_stream=sys.stderr,
            ) as services,
            _answering(app, services, listener, apis or all_apis, descriptors=descriptors, grace=grace),
        ):
            await ready(services)
            signals.started()
            await signals.asked.wait()
            services.readiness.stop_intake()
            stopping = services.engine.stop(grace_s=grace.executions_left_s(), within_s=grace.engine_left_s())
            await asyncio.gather(stopping, _await_refusal(services.readiness, grace))
            # All is handed over that can be. Connections to a database that does not answer are left as they are.
            signals.ended_in_order()


async def execute(app: App, *, modules: Sequence[str], ready: Callable[[str], None]) -> None:
    """Execute jobs of a broker until a signal; `ready` is called with the executor's name once it is connected.

    Of steps it calls the functions in these modules. What executes at the end has its grace, and the rest goes to other
    executors. Raises SettingsError.
    """
    grace = Grace(app.settings.grace_ms / 1000)
    signals = StopSignals(grace)
    with signals.handled():
        async with app.open_executor(modules) as executor:
            signals.started()
            await executor.run_until(signals.asked, grace=grace, ready=ready)
            signals.ended_in_order()


@asynccontextmanager
async def _answering(
    app: App, services: AppServices, listener: socket.socket | None, apis: Apis, *, descriptors: int, grace: Grace
) -> AsyncIterator[None]:
    """HTTP is answered within, if there is a listener; requests under way at the end have half of the closing time."""
    if listener is None:
        yield
        return
    host = listener.getsockname()[0]
    named = app.settings.allowed_hosts or (LOOPBACK_HOSTS if is_loopback(host) else None)
    allowed_hosts = AllowedHosts(hosts=None if named is None else frozenset(named))
    allowed = connections_max(
        limit=descriptors, concurrency=app.settings.concurrency, wanted=app.settings.connections_max
    )
    async with accepting(apis(services, allowed_hosts), listener, connections_max=allowed, shutdown_s=grace.requests_s):
        yield


async def _await_refusal(readiness: Readiness, grace: Grace) -> None:
    """Return when the readiness check has seen that we are not ready, or when the engine's time is up."""
    if not readiness.is_asked:
        return
    await asyncio.sleep(min(REFUSING_S_MIN, grace.engine_left_s()))
    try:
        async with asyncio.timeout(min(REFUSING_S_MAX - REFUSING_S_MIN, grace.engine_left_s())):
            await readiness.refusal_sent.wait()
    except TimeoutError:
        return

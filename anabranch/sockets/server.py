"""The Socket.IO server: live progress of runs, and test runs of graphs that are not saved.

Mounted on the HTTP application by `process_lifecycle`. It authenticates connections and serves requests;
the broadcaster sends the updates. A client needs a valid key and does not see other tenants' runs. Its messages are
answered and never forwarded to other clients.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web
from socketio.exceptions import ConnectionRefusedError as Refused

from anabranch.engine.lifecycle import Engine
from anabranch.engine.periodic_poller import Poller
from anabranch.errors import (
    AnabranchError,
    InvalidRequest,
    NotAuthenticated,
    NotPermitted,
    StoreUnavailable,
    TooManyJoins,
    TooManyRequests,
)
from anabranch.keys.access import AccessService, Principal, Role, bearer_key
from anabranch.service.workflow_service import WorkflowService
from anabranch.sockets.broadcaster import Broadcaster
from anabranch.sockets.clients import SocketClient
from anabranch.sockets.open_sockets import CLIENTS_MAX, JOINS_MAX, Member, SocketConnection
from anabranch.sockets.requests import JoinRequest, RunRequest, RunTestRequest, read_request, refusal_of
from anabranch.sockets.socketio_adapter import OwnOrigin, SocketOutlet, evict, hang_up, is_garbage, open_protocol

logger = logging.getLogger("anabranch.sockets")

# Where clients look for it by themselves.
PATH = "socket.io"

# Every 2 s the keys of all connections are looked at in one statement: a revoked one is out within 5 s,
# also when one look fails.
KEY_LOOK_MS = 2_000

Arguments = tuple[Any, ...]
Verb = Callable[[Member, Arguments], Awaitable[dict[str, Any]]]


class SocketServer:
    """The connections of one process. `start` before use; `stop` ends them."""

    def __init__(
        self,
        *,
        engine: Engine,
        workflows: WorkflowService,
        access: AccessService,
        is_own_origin: OwnOrigin,
    ) -> None:
        """`is_own_origin` decides by the headers Origin and Host whether a page may connect; programs, which send no
        Origin, always may."""
        self._engine = engine
        self._workflows = workflows
        self._access = access
        self._timer = LoopTimer()
        self.broadcaster = Broadcaster(
            store=engine.store,
            owns=engine.orchestrator.owns,
            timer=self._timer,
            hints=engine.hints,
            console=engine.console,
        )
        self._visitors: dict[str, SocketConnection] = {}
        """By the id of the connection."""
        self._members: dict[str, Member] = {}
        """By the id of the client."""
        self._key_looks = Poller(
            self._look_at_keys, name="looking at keys", every_ms=KEY_LOOK_MS, sleep=engine.clock.sleep
        )
        self._is_running = False
        self._protocol = open_protocol(is_own_origin, self._has_shown_key)
        self._verbs: dict[str, tuple[Role, Verb]] = {
            "workflow_run_join": (Role.VIEWER, self._join),
            "workflow_run_leave": (Role.VIEWER, self._leave),
            "workflow_test_run": (Role.EDITOR, self._run_test),
            "workflow_test_stop": (Role.EDITOR, self._stop_test),
        }
        self._listen()

    def mount(self, application: web.Application) -> None:
        """Serve Socket.IO as a part of this application, from its start to its shutdown."""
        self._protocol.attach(application, PATH)
        application.on_startup.append(lambda _: self.start())
        application.on_shutdown.append(lambda _: self.stop())

    async def start(self) -> None:
        """Observe commits of the engine, and start checking keys."""
        self._engine.observers.add(self.broadcaster)
        await self.broadcaster.start()
        await self._key_looks.start()
        self._is_running = True

    async def stop(self) -> None:
        """End all connections; may be called twice, or before start."""
        if not self._is_running:
            return
        self._is_running = False
        await self._key_looks.stop()
        for eio_sid in list(self._visitors):
            await self._hang_up(eio_sid)
        self._engine.observers.remove(self.broadcaster)
        await self.broadcaster.stop()
        await self._protocol.shutdown()

    # -- verbs ----------------------------------------------------------------------------
    async def _join(self, member: Member, arguments: Arguments) -> dict[str, Any]:
        request = read_request(JoinRequest, arguments)
        row = await self._workflows.get_run_status(request.run_id, tenant_id=member.principal.tenant_id)
        run_id = row.head.instance_id
        self._check_room_for(member, run_id)
        return {"ok": True, **await self.broadcaster.join(member.client, run_id, since=request.since)}

    async def _leave(self, member: Member, arguments: Arguments) -> dict[str, Any]:
        request = read_request(RunRequest, arguments)
        self.broadcaster.leave(member.client, request.run_id)
        return {"ok": True, "instanceID": request.run_id}

    async def _run_test(self, member: Member, arguments: Arguments) -> dict[str, Any]:
        request = read_request(RunTestRequest, arguments)
        self._check_room_for(member, "")
        run_id = await self._workflows.test_workflow(request.fields(), tenant_id=member.principal.tenant_id)
        await self.broadcaster.join(member.client, run_id, since=0)
        return {"ok": True, "instanceID": run_id}

    async def _stop_test(self, member: Member, arguments: Arguments) -> dict[str, Any]:
        request = read_request(RunRequest, arguments)
        await self._workflows.stop_test_workflow(request.run_id, tenant_id=member.principal.tenant_id)
        return {"ok": True, "instanceID": request.run_id}

    def _check_room_for(self, member: Member, run_id: str) -> None:
        memberships = member.client.memberships
        if run_id not in memberships and len(memberships) >= JOINS_MAX:
            raise TooManyJoins(f"this connection already watches {JOINS_MAX} runs")

    # -- requests -------------------------------------------------------------------------
    def _listen(self) -> None:
        """Filter what the library receives: invalid or excessive packets end the connection."""
        self._protocol.on("connect", self._connected)
        self._protocol.on("disconnect", self._disconnected)
        self._protocol.on("*", self._asked)
        eio = self._protocol.eio
        arrived, received, left = (eio.handlers[name] for name in ("connect", "message", "disconnect"))

        async def arrive(eio_sid: str, environ: dict[str, Any]) -> Any:
            if len(self._visitors) >= CLIENTS_MAX:
                return False
            self._visitors[eio_sid] = SocketConnection(self._timer.now())
            return await arrived(eio_sid, environ)

        async def receive(eio_sid: str, packet: Any) -> None:
            """Pass a packet on; who sends too many, or what cannot be read, is disconnected."""
            visitor = self._visitors.get(eio_sid)
            if visitor is None or not visitor.asks(self._timer.now()) or is_garbage(packet):
                await self._hang_up(eio_sid)
                return
            try:
                await received(eio_sid, packet)
            except Exception as garbled:  # noqa: BLE001 -- our own verbs catch theirs: this is the client's
                logger.debug("a packet that cannot be read: %s", garbled)
                await self._hang_up(eio_sid)

        async def leave(eio_sid: str, reason: Any) -> None:
            self._visitors.pop(eio_sid, None)
            evict(self._protocol, eio_sid)
            await left(eio_sid, reason)

        eio.on("connect", arrive)
        eio.on("message", receive)
        eio.on("disconnect", leave)

    async def _connected(self, sid: str, environ: Any, auth: Any) -> None:
        eio_sid = self._protocol.manager.eio_sid_from_sid(sid, "/")
        if sid in self._members or eio_sid not in self._visitors:
            return
        try:
            key = _key_of(environ, auth)
            principal = None if key is None else await self._access.authenticate(key)
        except StoreUnavailable as failure:
            answer = failure.as_answer()
            raise Refused(answer["message"], answer) from None
        if principal is not None and not principal.role.may(Role.VIEWER):
            principal = None  # of an executor
        if principal is None:
            refusal = NotAuthenticated(
                "there is no API key in the handshake" if key is None else "the key is not valid"
            )
            raise Refused(refusal.message, refusal.as_json())
        visitor = self._visitors.get(eio_sid)
        if visitor is None:
            return  # it has gone while its key was looked up
        client = SocketClient(SocketOutlet(self._protocol, eio_sid))
        delivery = asyncio.create_task(client.deliver(), name="socket-delivery")
        visitor.member = self._members[sid] = Member(principal, client, delivery, visitor)

    async def _disconnected(self, sid: str, reason: Any = None) -> None:
        member = self._members.pop(sid, None)
        if member is not None:
            member.visitor.member = None  # its connection may stay: it is one that has shown no key then
            member.delivery.cancel()
            member.client.leave_all()

    async def _asked(self, event: Any, sid: str, *arguments: Any) -> dict[str, Any]:
        """Answer a client's request."""
        member = self._members.get(sid)
        try:
            if member is None:
                raise NotAuthenticated("this connection has shown no key")
            if member.visitor.is_over_limit:
                raise TooManyRequests("this connection asks more than it may")
            if event not in self._verbs:
                raise InvalidRequest(
                    f"there is no event {str(event)[:64]!r}", hint=f"There are {', '.join(self._verbs)}."
                )
            needed, verb = self._verbs[event]
            _check_role(member.principal, needed)
            return await verb(member, arguments)
        except AnabranchError as refusal:
            return refusal_of(refusal)
        except Exception as fault:
            number = secrets.token_hex(6)
            logger.error("%s failed: defect number %s", event, number, exc_info=fault)
            return refusal_of(AnabranchError(f"internal error {number}"))

    def _has_shown_key(self, eio_sid: str) -> bool:
        visitor = self._visitors.get(eio_sid)
        return visitor is not None and visitor.member is not None

    # -- keys -----------------------------------------------------------------------------
    async def _look_at_keys(self) -> None:
        """Close connections whose key is no longer valid, or that have sent none in time."""
        now = self._timer.now()
        for eio_sid, visitor in list(self._visitors.items()):
            if visitor.is_overdue(now):
                await self._hang_up(eio_sid)
        key_ids = {member.principal.key_id for member in self._members.values()}
        if not key_ids:
            return
        valid = await self._access.valid_keys(key_ids)
        for eio_sid, visitor in list(self._visitors.items()):
            key_id = None if visitor.member is None else visitor.member.principal.key_id
            if key_id in key_ids and key_id not in valid:
                await self._hang_up(eio_sid)

    async def _hang_up(self, eio_sid: str) -> None:
        await hang_up(self._protocol, eio_sid)


def _key_of(environ: Any, auth: Any) -> str | None:
    """The API key of a handshake: `auth {key}`, else the header `Authorization: Bearer KEY`."""
    if isinstance(auth, dict) and "key" in auth:
        return auth["key"] if isinstance(auth["key"], str) else None
    return bearer_key(environ["aiohttp.request"].headers.get("Authorization", ""))


def _check_role(principal: Principal, needed: Role) -> None:
    if not principal.role.may(needed):
        raise NotPermitted(f"this needs the role {needed}; the key has {principal.role}")


class LoopTimer:
    """The clock and timers of rooms, in seconds, from the running event loop. Tests use their own."""

    def now(self) -> float:
        """The time."""
        return asyncio.get_running_loop().time()

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> None:
        """Call this once, from the event loop."""
        asyncio.get_running_loop().call_later(delay_s, callback)

    async def sleep(self, delay_s: float) -> None:
        """Sleep."""
        await asyncio.sleep(delay_s)

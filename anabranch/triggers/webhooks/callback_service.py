"""Calls of one-time addresses: each sends one signal to its run, once.

Called by the public routes. Knows no HTTP but the request. An address contains its run and wait, signed
(`callback_addresses`). That it was used is in the log of the run, so all servers know it, also after a crash.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from anabranch.engine.ports import Clock
from anabranch.engine.rules.callbacks import CallbackProgress, callback_progress
from anabranch.engine.rules.events import ActivationKey, Event
from anabranch.engine.rules.values import VALUE_BYTES_MAX
from anabranch.errors import CallbackExpired, CallbackUsed, NotFound, RunIsTerminal
from anabranch.service.workflow_service import WorkflowService
from anabranch.triggers.webhooks.callback_addresses import Callback, CallbackAddresses
from anabranch.triggers.webhooks.webhook_requests import Incoming, payload_of

# What two calls have in common if one repeats the other; headers differ by proxy and time.
_COMPARED = ("method", "query", "body", "json", "form", "files")


class SignalRows(Protocol):
    """Reads the rows about signals."""

    async def read_signal_waits(
        self, instance_id: str, *, after_seq: int, open_waits: Sequence[ActivationKey]
    ) -> list[Event]:
        """The rows after a seq about signals and waits for signals, with the ends of these, in seq order."""


class CallbackService:
    """Receives calls."""

    def __init__(
        self,
        *,
        addresses: CallbackAddresses,
        workflows: WorkflowService,
        rows: SignalRows,
        clock: Clock,
        body_bytes_max: int,
    ) -> None:
        self._addresses = addresses
        self._workflows = workflows
        self._rows = rows
        self._clock = clock
        self._body_bytes_max = body_bytes_max

    async def look(self, token: str) -> Callback:
        """The wait of an address that can be used now. Raises NotFound, CallbackExpired, CallbackUsed."""
        callback = self._read(token)
        if (await self._progress(callback.instance_id, callback.event)).first is not None:
            raise CallbackUsed("this address has been used already")
        return callback

    async def deliver(self, token: str, incoming: Incoming) -> None:
        """Hand a request to the run; durable when this returns. A call that repeats the first one changes nothing.
        The body is read only if the address is valid.

        Raises NotFound, CallbackExpired, CallbackUsed for another call than the first, TooLarge, and the errors of
        `payload_of`.
        """
        callback = self._read(token)
        body = await incoming.read(self._body_bytes_max)
        payload = payload_of(incoming.request, body, bytes_max=VALUE_BYTES_MAX)
        await self.hand_over(callback.instance_id, callback.event, payload, tenant_id=callback.tenant_id)

    async def hand_over(self, instance_id: str, event: str, payload: dict[str, Any], *, tenant_id: str) -> bool:
        """Send the payload to the wait for this event; durable when this returns. False if it repeats the first call.

        Raises CallbackExpired, CallbackUsed.
        """
        progress = await self._progress(instance_id, event)
        is_first = progress.first is None
        if is_first:
            try:
                await self._workflows.send_signal(instance_id, event, payload, tenant_id=tenant_id, key=event)
            except (RunIsTerminal, NotFound):
                raise CallbackExpired("the run that this address belongs to has ended") from None
            progress = await self._progress(instance_id, event)
        if progress.first is not None and not _is_same(progress.first, payload):
            raise CallbackUsed("this address has been used already")
        return is_first

    def _read(self, token: str) -> Callback:
        callback = self._addresses.read(token)
        if callback is None:
            raise NotFound("there is no such address", hint="Use the whole address as it was sent.")
        if callback.expires_at <= self._clock.now():
            raise CallbackExpired("this address has expired")
        return callback

    async def _progress(self, instance_id: str, event: str) -> CallbackProgress:
        """The progress of the callback, from the log. Raises CallbackExpired if the wait ended without a call."""
        rows = await self._rows.read_signal_waits(instance_id, after_seq=0, open_waits=())
        progress = callback_progress(rows, event)
        if progress.first is None and progress.is_over:
            raise CallbackExpired("nothing waits for this address any more")
        return progress


def _is_same(first: Any, payload: dict[str, Any]) -> bool:
    return isinstance(first, dict) and all(first.get(name) == payload.get(name) for name in _COMPARED)

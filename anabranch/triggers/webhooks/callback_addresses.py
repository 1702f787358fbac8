"""One-time addresses of `waitForWebhook` nodes: signed and expiring.

Called by the engine for nodes that send an address, by views that show one, and by `callback_service`, which receives
the calls. An address names tenant, run, wait and expiry, and is signed (`signed_tokens`).
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

from anabranch.dataclass import dataclass
from anabranch.engine.rules.callbacks import event_id, event_of_id, is_callback_event
from anabranch.engine.rules.instants import from_iso
from anabranch.errors import SecretKeyMissing
from anabranch.triggers.webhooks.signed_tokens import MessageSigner, SignedTokens

# Of the form of a token: another one would begin with another byte.
_FORM = 1
_HEAD = struct.Struct(">BQ16s16s")


@dataclass(frozen=True, slots=True)
class Callback:
    """The wait that an address stands for."""

    tenant_id: str
    instance_id: str
    event: str
    """The signal that a call sends to the run."""
    expires_at: int


class CallbackAddresses:
    """Makes addresses, and reads those that it made."""

    def __init__(self, find_signer: Callable[[], MessageSigner | None], *, base_url: str) -> None:
        """`find_signer` is called at every use; it returns None if there is no secret key."""
        self._tokens = SignedTokens(find_signer, purpose=b"anabranch callback addresses 1\x00")
        self.base_url = base_url.rstrip("/")
        """The base URL of addresses."""

    def check(self) -> None:
        """Raise SecretKeyMissing if there is no key to sign addresses with."""
        self._tokens.check()

    def address(self, instance_id: str, event: str, *, tenant_id: str, expires_at: int) -> str:
        """The address by which a wait can be called until `expires_at` (ms). Raises SecretKeyMissing."""
        message = _HEAD.pack(_FORM, expires_at, uuid.UUID(instance_id).bytes, event_id(event)) + tenant_id.encode()
        return f"{self.base_url}/callbacks/{self._tokens.token(message)}"

    def show(self, instance_id: str, activations: Iterable[dict[str, Any]], *, tenant_id: str) -> None:
        """Add `url` to what these activations of a run wait for, where it is a callback; for callers that may operate
        the run: who has the address can answer."""
        for activation in activations:
            wait = activation["waitsFor"]
            if wait is not None and is_callback_event(wait.get("event") or "") and wait.get("dueAt") is not None:
                with suppress(SecretKeyMissing):
                    due_at = from_iso(wait["dueAt"])
                    wait["url"] = self.address(instance_id, wait["event"], tenant_id=tenant_id, expires_at=due_at)

    def read(self, token: str) -> Callback | None:
        """The callback of a token, expired or not; None for one that was not made here, whatever is wrong with it."""
        message = self._tokens.message(token)
        if message is None or len(message) <= _HEAD.size:
            return None
        form, expires_at, instance, event = _HEAD.unpack_from(message)
        if form != _FORM:
            return None
        tenant_id = message[_HEAD.size :].decode()
        return Callback(tenant_id, str(uuid.UUID(bytes=instance)), event_of_id(event), expires_at)

"""One-time addresses of `waitForWebhook` nodes: signed and expiring.

Called by the engine for nodes that send an address, by views that show one, and by `callback_service`, which receives
the calls. An address names tenant, run, wait and expiry, signed with HMAC-SHA256 under a key derived from the secret
key. Nothing is stored: a server that has the key knows an address again.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import struct
import uuid
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

from anabranch.engine.rules.callbacks import event_id, event_of_id, is_callback_event
from anabranch.engine.rules.instants import from_iso
from anabranch.errors import SecretKeyMissing

# Of the form of a token: another one would begin with another byte.
_FORM = 1
_HEAD = struct.Struct(">BQ16s16s")
_MAC_BYTES = 32

# 1,024 characters: a tenant of 64 characters of 4 bytes makes one of 440.
TOKEN_CHARACTERS_MAX = 1_024

_PURPOSE = b"anabranch callback addresses 1\x00"


class MessageSigner(Protocol):
    """Signs with the secret key."""

    def mac(self, purpose: bytes, message: bytes) -> bytes:
        """32 bytes that only the holder of the key can compute, others for each purpose."""


@dataclass(frozen=True, slots=True)
class Callback:
    """What an address stands for."""

    tenant_id: str
    instance_id: str
    event: str
    """The signal that a call sends to the run."""
    expires_at: int


class CallbackAddresses:
    """Makes addresses, and reads those that it made."""

    def __init__(self, find_signer: Callable[[], MessageSigner | None], *, base_url: str) -> None:
        """`find_signer` is called at every use; it returns None if there is no secret key."""
        self._find_signer = find_signer
        self.base_url = base_url.rstrip("/")
        """The base URL of addresses."""

    def check(self) -> None:
        """Raise SecretKeyMissing if there is no key to sign addresses with."""
        self._signer()

    def address(self, instance_id: str, event: str, *, tenant_id: str, expires_at: int) -> str:
        """The address by which a wait can be called until `expires_at` (ms). Raises SecretKeyMissing."""
        message = _HEAD.pack(_FORM, expires_at, uuid.UUID(instance_id).bytes, event_id(event)) + tenant_id.encode()
        token = base64.urlsafe_b64encode(self._signer().mac(_PURPOSE, message) + message).decode().rstrip("=")
        return f"{self.base_url}/callbacks/{token}"

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
        """What a token stands for, expired or not; None for one that was not made here, whatever is wrong with it."""
        signer = self._find_signer()
        try:
            given = base64.b64decode(token.encode("ascii") + b"=" * (-len(token) % 4), altchars=b"-_", validate=True)
        except (binascii.Error, ValueError):
            return None
        mac, message = given[:_MAC_BYTES], given[_MAC_BYTES:]
        if signer is None or len(token) > TOKEN_CHARACTERS_MAX or len(message) <= _HEAD.size:
            return None
        if not hmac.compare_digest(mac, signer.mac(_PURPOSE, message)):
            return None
        form, expires_at, instance, event = _HEAD.unpack_from(message)
        if form != _FORM:
            return None
        tenant_id = message[_HEAD.size :].decode()
        return Callback(tenant_id, str(uuid.UUID(bytes=instance)), event_of_id(event), expires_at)

    def _signer(self) -> MessageSigner:
        signer = self._find_signer()
        if signer is None:
            raise SecretKeyMissing("there is no key to sign the addresses of callbacks with")
        return signer

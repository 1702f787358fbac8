"""Signed tokens for addresses: a message with an HMAC-SHA256 under a key derived from the secret key.

Called by `callback_addresses` and `test_addresses`. Nothing is stored: any server with the key can verify a
token.
"""

from __future__ import annotations

import base64
import binascii
import hmac
from collections.abc import Callable
from typing import Protocol

from anabranch.errors import SecretKeyMissing

_MAC_BYTES = 32

# 1,024 characters: a tenant of 64 characters of 4 bytes makes a token of 440.
TOKEN_CHARACTERS_MAX = 1_024


class MessageSigner(Protocol):
    """Signs with the secret key."""

    def mac(self, purpose: bytes, message: bytes) -> bytes:
        """The HMAC of a message, 32 bytes, different for each purpose."""


class SignedTokens:
    """Makes and verifies the tokens of one purpose."""

    def __init__(self, find_signer: Callable[[], MessageSigner | None], *, purpose: bytes) -> None:
        """`find_signer` is called at every use; it returns None if there is no secret key."""
        self._find_signer = find_signer
        self._purpose = purpose

    def check(self) -> None:
        """Raise SecretKeyMissing if there is no key to sign with."""
        self._signer()

    def token(self, message: bytes) -> str:
        """The token of a message, always the same under one key. Raises SecretKeyMissing."""
        mac = self._signer().mac(self._purpose, message)
        return base64.urlsafe_b64encode(mac + message).decode().rstrip("=")

    def message(self, token: str) -> bytes | None:
        """The message in a token; None if the token is invalid."""
        signer = self._find_signer()
        if signer is None or len(token) > TOKEN_CHARACTERS_MAX:
            return None
        try:
            given = base64.b64decode(token.encode("ascii") + b"=" * (-len(token) % 4), altchars=b"-_", validate=True)
        except (binascii.Error, ValueError):
            return None
        mac, message = given[:_MAC_BYTES], given[_MAC_BYTES:]
        return message if hmac.compare_digest(mac, signer.mac(self._purpose, message)) else None

    def _signer(self) -> MessageSigner:
        signer = self._find_signer()
        if signer is None:
            raise SecretKeyMissing("there is no key to sign the addresses of callbacks with")
        return signer

"""The cipher: encrypts texts with AES-256-GCM, each bound to its tenant and row.

Called by `secret_store`, and by other modules that store a text with a password in it. A sealed text can only be opened
with the key, tenant and row that it was sealed with, not from another row. Its first bytes name its form and its key,
so that keys can change one day.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import os
from functools import cached_property
from typing import TYPE_CHECKING

from anabranch.deferred import deferred
from anabranch.errors import SecretKeyWrong, SettingsError

if TYPE_CHECKING:
    from cryptography import exceptions
    from cryptography.hazmat.primitives.ciphers import aead
else:
    exceptions = deferred("cryptography.exceptions")
    aead = deferred("cryptography.hazmat.primitives.ciphers.aead")

KEY_BYTES = 32

# 96 bits of chance per text, as GCM wants them; the same key may seal billions before two meet.
_NONCE_BYTES = 12
_KEY_ID_BYTES = 8
_FORM = b"\x01"
_HEAD_BYTES = len(_FORM) + _KEY_ID_BYTES + _NONCE_BYTES


def parse_key(text: str) -> bytes:
    """The 32 bytes of a key in base64. Raises SettingsError."""
    try:
        key = base64.b64decode(text.strip(), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if len(key) != KEY_BYTES:
        raise SettingsError(
            f"the secret key is not {KEY_BYTES} bytes in base64", hint="Make one with `openssl rand -base64 32`."
        )
    return key


class SecretCipher:
    """Seals and opens texts with one key."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        # Of the key, but no way back to it; prefixed, so that it is the hash of nothing else.
        self._key_id = hashlib.sha256(b"anabranch secret key\x00" + key).digest()[:_KEY_ID_BYTES]

    @property
    def key_id(self) -> str:
        """A name of the key in 16 hexadecimal digits; it reveals nothing about the key."""
        return self._key_id.hex()

    @cached_property
    def _cipher(self) -> aead.AESGCM:
        """Made when something is sealed or opened: most processes that have a key do neither at first."""
        return aead.AESGCM(self._key)

    def mac(self, purpose: bytes, message: bytes) -> bytes:
        """An HMAC-SHA256 under a key that is derived from this one for a purpose."""
        derived = hmac.digest(self._key, purpose, hashlib.sha256)
        return hmac.digest(derived, message, hashlib.sha256)

    def seal(self, *, tenant: str, row: str, text: str) -> bytes:
        """The text, encrypted for this row. Sealing it again gives other bytes."""
        nonce = os.urandom(_NONCE_BYTES)
        sealed = self._cipher.encrypt(nonce, text.encode(), _associated_data(tenant, row))
        return _FORM + self._key_id + nonce + sealed

    def open(self, *, tenant: str, row: str, sealed: bytes) -> str:
        """The text that was sealed for this row. Raises SecretKeyWrong for another key, row or content."""
        key_id = sealed[len(_FORM) : len(_FORM) + _KEY_ID_BYTES]
        if sealed[:1] != _FORM or len(sealed) < _HEAD_BYTES:
            raise SecretKeyWrong(f"{row} is stored in a form that this program does not know")
        if key_id != self._key_id:
            raise SecretKeyWrong(f"{row} is encrypted with the key {key_id.hex()}, and the key here is {self.key_id}")
        try:
            nonce = sealed[_HEAD_BYTES - _NONCE_BYTES : _HEAD_BYTES]
            return self._cipher.decrypt(nonce, sealed[_HEAD_BYTES:], _associated_data(tenant, row)).decode()
        except exceptions.InvalidTag:
            raise SecretKeyWrong(
                f"{row} cannot be decrypted: it was changed, or copied from another place",
                hint="Store the value again, and find out who changed the database.",
            ) from None


def _associated_data(tenant: str, row: str) -> bytes:
    """Tenant and row, in a form in which no two rows look alike."""
    return json.dumps([tenant, row]).encode()

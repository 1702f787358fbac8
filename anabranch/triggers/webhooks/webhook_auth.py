"""Authentication of webhook callers: none, a secret in a header, basic authentication, or a signature of the request.

Called by `webhook_service`. Every check takes the whole body and compares in constant time, and an unknown webhook is
checked against a random key, so that the time of an answer does not tell what was wrong.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
from collections.abc import Collection, Mapping
from typing import Any, Protocol

from anabranch.errors import AnabranchError
from anabranch.triggers.webhooks.signatures import SCHEMES, Claim, Headers, SignatureCheck

_NOBODYS_NAME = "_"
"""A name that is looked up in place of that of an unknown webhook."""


class Secrets(Protocol):
    """The secrets of tenants, decrypted."""

    async def read(self, tenant_id: str, names: Collection[str]) -> Mapping[str, str]:
        """The values of all these secrets. Raises SecretUnknown, SecretKeyMissing, SecretKeyWrong."""


class AuthCheck:
    """Whether one request may call one webhook. The body is given first, piece by piece."""

    def __init__(self, *, passes: bool, signature: SignatureCheck, is_signed: bool, reason: str = "") -> None:
        self._passes = passes
        self._signature = signature
        self._is_signed = is_signed
        self.reason = reason
        """Why it cannot pass, if that is known before the body is."""

    def update(self, piece: bytes) -> None:
        """Take the next piece of the body."""
        self._signature.update(piece)

    def is_passed(self, now_s: float) -> bool:
        """Whether the request may call the webhook. Call it after the whole body."""
        is_right = self._signature.is_right(now_s)
        return self._passes and (is_right or not self._is_signed)

    @property
    def identity(self) -> str | None:
        """The part that a copied request has in common with it; None: nothing is signed."""
        return self._signature.identity if self._is_signed else None


def unknown() -> AuthCheck:
    """The check of a webhook that does not exist; it works as much as others, and never passes."""
    return AuthCheck(passes=False, signature=_nothing_signed(), is_signed=True, reason="unknown")


async def check_of(auth: Mapping[str, Any], headers: Headers, *, tenant_id: str, known: Secrets) -> AuthCheck:
    """The check for a request with these headers. Raises StoreUnavailable."""
    kind = auth.get("kind", "none")
    if kind == "none":
        return AuthCheck(passes=True, signature=_nothing_signed(), is_signed=False)
    try:
        secret = (await known.read(tenant_id, [auth["secret"]]))[auth["secret"]]
    except AnabranchError as refusal:
        if refusal.code not in ("SECRET_UNKNOWN", "SECRET_KEY_MISSING", "SECRET_KEY_WRONG"):
            raise
        check = unknown()
        check.reason = refusal.code
        return check
    if kind == "hmac":
        return _signed(auth["scheme"], secret, headers)
    given = _given(headers, auth["name"]) if kind == "header" else _basic(_given(headers, "authorization"))
    is_right = _same(given, secret.encode())
    return AuthCheck(
        passes=is_right, signature=_nothing_signed(), is_signed=False, reason="" if is_right else "wrong secret"
    )


async def pretend(known: Secrets, tenant_id: str) -> AuthCheck:
    """`unknown`, after as much reading as a known webhook needs. Raises StoreUnavailable."""
    try:
        await known.read(tenant_id, [_NOBODYS_NAME])
    except AnabranchError as refusal:
        if refusal.code not in ("SECRET_UNKNOWN", "SECRET_KEY_MISSING", "SECRET_KEY_WRONG"):
            raise
    return unknown()


def signed_headers(auth: Mapping[str, Any]) -> frozenset[str]:
    """The headers that a signature covers."""
    return SCHEMES[auth["scheme"]].signed_headers if auth.get("kind") == "hmac" else frozenset()


def _signed(scheme_name: str, secret: str, headers: Headers) -> AuthCheck:
    scheme = SCHEMES[scheme_name]
    claim, key = scheme.read(headers), scheme.key(secret)
    if claim is None or key is None:
        reason = "no signature" if claim is None else "SECRET_KEY_WRONG"
        return AuthCheck(passes=False, signature=_nothing_signed(), is_signed=True, reason=reason)
    return AuthCheck(passes=True, signature=SignatureCheck(claim, key), is_signed=True)


def _nothing_signed() -> SignatureCheck:
    return SignatureCheck(Claim((bytes(32),)), secrets.token_bytes(32))


def _given(headers: Headers, name: str) -> bytes:
    """The only value of a header; empty for none, and for several."""
    values = headers.get(name.lower(), ())
    return values[0].encode(errors="surrogateescape") if len(values) == 1 else b""


def _basic(header: bytes) -> bytes:
    """`user:password` of a header `Authorization: Basic …`; empty for any other."""
    scheme, _, encoded = header.partition(b" ")
    if scheme.lower() != b"basic":
        return b""
    try:
        return base64.b64decode(encoded.strip(), validate=True)
    except (binascii.Error, ValueError):
        return b""


def _same(given: bytes, secret: bytes) -> bool:
    """Compares digests, so that the time tells nothing of the length either."""
    return hmac.compare_digest(hashlib.sha256(given).digest(), hashlib.sha256(secret).digest()) and bool(secret)

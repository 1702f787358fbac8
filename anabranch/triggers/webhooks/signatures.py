"""Signatures of webhooks: the HMAC schemes of GitHub, Stripe, Slack and Standard Webhooks.

Pure. Called by `webhook_auth`. Each scheme signs some text of its headers and the raw body with HMAC-SHA256. The body
is given in pieces, so that a large one is never kept only to be refused.

* GitHub (docs.github.com, "Validating webhook deliveries"): `X-Hub-Signature-256: sha256=HEX`, over the body.
* Stripe (docs.stripe.com/webhooks, "Verify webhook signatures manually"): `Stripe-Signature: t=SECONDS,v1=HEX,…`, over
  `SECONDS.BODY`.
* Slack (docs.slack.dev, "Verifying requests from Slack"): `X-Slack-Signature: v0=HEX` and `X-Slack-Request-Timestamp`,
  over `v0:SECONDS:BODY`.
* Standard Webhooks (standardwebhooks.com, specification): `webhook-id`, `webhook-timestamp` and
  `webhook-signature: v1,BASE64 …`, over `ID.SECONDS.BODY`, with the key in base64 after `whsec_`.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Callable, Mapping, Sequence

from anabranch.dataclass import dataclass

# 5 minutes, as Stripe, Slack and the libraries of Standard Webhooks have it.
TOLERANCE_S = 300

# 10 signatures in one header: senders that change their key send two. More would be a way to let us compute.
SIGNATURES_MAX = 10

_SECONDS = re.compile(r"[0-9]{1,12}", re.ASCII)
_HEX = re.compile(r"[0-9a-f]{64}", re.ASCII)
# No dot, which separates what is signed: another id and time could otherwise stand for the same text.
_MESSAGE_ID = re.compile(r"[!-\-/-~]{1,255}", re.ASCII)

STANDARD_PREFIX = "whsec_"

Headers = Mapping[str, Sequence[str]]
"""By lower-case name, with all values."""


@dataclass(frozen=True, slots=True)
class Claim:
    """The signature that the headers of a request claim."""

    signatures: tuple[bytes, ...]
    signed_first: bytes = b""
    """What is signed before the body."""
    timestamp: int | None = None
    """Seconds since the epoch; None: the scheme has none."""
    message_id: str | None = None
    """The signed id of the message, the same when it is sent again; None: the scheme has none."""


class SignatureCheck:
    """Computes the signature of a body piece by piece."""

    def __init__(self, claim: Claim, key: bytes) -> None:
        self._claim = claim
        self._mac = hmac.new(key, claim.signed_first, hashlib.sha256)

    def update(self, piece: bytes) -> None:
        """Take the next piece of the body."""
        self._mac.update(piece)

    def is_right(self, now_s: float, *, tolerance_s: float = TOLERANCE_S) -> bool:
        """Whether one of the signatures is right, and its time near enough. Every signature is compared, in constant
        time."""
        computed = self._mac.digest()
        found = False
        for given in self._claim.signatures:
            found |= hmac.compare_digest(computed, given)
        timestamp = self._claim.timestamp
        return found and (timestamp is None or abs(now_s - timestamp) <= tolerance_s)

    @property
    def identity(self) -> str:
        """Names what was signed: the signed id of the message, else a digest. A copy of the request has the same."""
        if self._claim.message_id is not None:
            return f"id {self._claim.message_id}"
        return f"signed {hashlib.sha256(self._mac.digest()).hexdigest()}"


@dataclass(frozen=True, slots=True)
class Scheme:
    """The signature scheme of one vendor."""

    read: Callable[[Headers], Claim | None]
    """What the headers say; None if they are missing, repeated or garbled."""
    key: Callable[[str], bytes | None]
    """The key that a secret stands for; None if it stands for none."""
    signed_headers: frozenset[str] = frozenset()
    """The headers whose values are signed."""


def _one(headers: Headers, name: str) -> str | None:
    """The only value of a header; None for none, and for several, of which another reader might take another."""
    values = headers.get(name, ())
    return values[0].strip() if len(values) == 1 else None


def _seconds(text: str | None) -> int | None:
    return int(text) if text is not None and _SECONDS.fullmatch(text) else None


def _from_hex(text: str) -> bytes | None:
    return bytes.fromhex(text) if _HEX.fullmatch(text) else None


def _of_github(headers: Headers) -> Claim | None:
    name, _, text = (_one(headers, "x-hub-signature-256") or "").partition("=")
    signature = _from_hex(text)
    return None if name != "sha256" or signature is None else Claim((signature,))


def _of_stripe(headers: Headers) -> Claim | None:
    pairs = [part.strip().partition("=") for part in (_one(headers, "stripe-signature") or "").split(",")]
    times = [_seconds(value) for name, _, value in pairs if name == "t"]
    found = [signature for name, _, value in pairs if name == "v1" and (signature := _from_hex(value)) is not None]
    if len(times) != 1 or times[0] is None or not 1 <= len(found) <= SIGNATURES_MAX:
        return None
    text = next(value for name, _, value in pairs if name == "t")
    return Claim(tuple(found), f"{text}.".encode(), times[0])


def _of_slack(headers: Headers) -> Claim | None:
    version, _, text = (_one(headers, "x-slack-signature") or "").partition("=")
    signature, written = _from_hex(text), _one(headers, "x-slack-request-timestamp")
    timestamp = _seconds(written)
    if version != "v0" or signature is None or timestamp is None:
        return None
    return Claim((signature,), f"v0:{written}:".encode(), timestamp)


def _of_standard(headers: Headers) -> Claim | None:
    message_id, written = _one(headers, "webhook-id"), _one(headers, "webhook-timestamp")
    timestamp = _seconds(written)
    parts = (_one(headers, "webhook-signature") or "").split()
    found = [_from_base64(part.removeprefix("v1,")) for part in parts if part.startswith("v1,")]
    signatures = tuple(signature for signature in found if signature is not None)
    if message_id is None or not _MESSAGE_ID.fullmatch(message_id) or timestamp is None:
        return None
    if not 1 <= len(signatures) <= SIGNATURES_MAX:
        return None
    return Claim(signatures, f"{message_id}.{written}.".encode(), timestamp, message_id)


def _from_base64(text: str) -> bytes | None:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None


def _text_key(secret: str) -> bytes | None:
    return secret.encode() or None


def _standard_key(secret: str) -> bytes | None:
    return _from_base64(secret.strip().removeprefix(STANDARD_PREFIX)) or None


SCHEMES: Mapping[str, Scheme] = {
    "github": Scheme(_of_github, _text_key),
    "stripe": Scheme(_of_stripe, _text_key),
    "slack": Scheme(_of_slack, _text_key, frozenset({"x-slack-request-timestamp"})),
    "standard": Scheme(_of_standard, _standard_key, frozenset({"webhook-id", "webhook-timestamp"})),
}

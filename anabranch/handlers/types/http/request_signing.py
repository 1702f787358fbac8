"""Request signing: requests of OAuth 1, and the JWT of a service account.

Pure but for the nonce of OAuth 1, which has to be new for each request.
"""

from __future__ import annotations

import base64
import hmac
import json
from collections.abc import Mapping
from dataclasses import replace
from secrets import token_hex
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, quote, urlsplit

from anabranch.deferred import deferred
from anabranch.handlers.types.http.http_auth import OAuth1Auth, ServiceAccountAuth, refusal
from anabranch.handlers.types.http_port import HttpCall

if TYPE_CHECKING:
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import padding, rsa
else:
    hashes = deferred("cryptography.hazmat.primitives.hashes")
    serialization = deferred("cryptography.hazmat.primitives.serialization")
    padding = deferred("cryptography.hazmat.primitives.asymmetric.padding")
    rsa = deferred("cryptography.hazmat.primitives.asymmetric.rsa")

# An hour: the longest that Google takes.
_ASSERTION_S = 3_600

_DEFAULT_PORTS = {"http": 80, "https": 443}


def assertion(auth: ServiceAccountAuth, now_ms: int) -> str:
    """The signed JWT of a service account. Raises NodeFailure for a key that is not an RSA key."""
    try:
        pem = auth.private_key.replace("\\n", "\n").strip().encode()
        key = serialization.load_pem_private_key(pem, password=None)
    except (ValueError, TypeError):
        key = None
    if not isinstance(key, rsa.RSAPrivateKey):
        raise refusal("NODE_CONFIG_INVALID", "the private key of the service account is not an RSA key in PEM form")
    now = now_ms // 1_000
    claims = {
        "iss": auth.email,
        "sub": auth.subject or auth.email,
        "scope": " ".join(auth.scope.replace(",", " ").split()),
        "aud": auth.token_url,
        "iat": now,
        "exp": now + _ASSERTION_S,
    }
    signed = f"{_part({'alg': 'RS256', 'typ': 'JWT'})}.{_part(claims)}"
    return f"{signed}.{_encoded(key.sign(signed.encode(), padding.PKCS1v15(), hashes.SHA256()))}"


def signed(call: HttpCall, auth: OAuth1Auth, now_ms: int) -> HttpCall:
    """The request with a signature in its header Authorization, which goes to no other origin.

    A form in the body is part of what is signed, other bodies are not (RFC 5849, 3.4.1.3).
    """
    oauth = {
        "oauth_consumer_key": auth.consumer_key,
        "oauth_nonce": token_hex(16),
        "oauth_signature_method": auth.method,
        "oauth_timestamp": str(now_ms // 1_000),
        "oauth_version": "1.0",
        **({"oauth_token": auth.token} if auth.token else {}),
    }
    address = urlsplit(call.url)
    pairs = [*oauth.items(), *parse_qsl(address.query, keep_blank_values=True), *_form_of(call)]
    parameters = "&".join(
        f"{name}={value}" for name, value in sorted((_escaped(name), _escaped(value)) for name, value in pairs)
    )
    base = "&".join(map(_escaped, (call.method.upper(), _address_of(call.url), parameters)))
    key = f"{_escaped(auth.consumer_secret)}&{_escaped(auth.token_secret)}"
    digest = hmac.digest(key.encode(), base.encode(), auth.method.removeprefix("HMAC-").lower())
    oauth["oauth_signature"] = base64.b64encode(digest).decode()
    header = "OAuth " + ", ".join(f'{name}="{_escaped(oauth[name])}"' for name in sorted(oauth))
    headers = {name: value for name, value in call.headers.items() if name.lower() != "authorization"}
    return replace(
        call,
        headers={**headers, "Authorization": header},
        private_headers={*call.private_headers, "authorization"},
    )


def _form_of(call: HttpCall) -> list[tuple[str, str]]:
    kind = next((value for name, value in call.headers.items() if name.lower() == "content-type"), "")
    if call.body is None or kind.split(";", 1)[0].strip().lower() != "application/x-www-form-urlencoded":
        return []
    return parse_qsl(call.body.decode("utf-8", "replace"), keep_blank_values=True)


def _address_of(url: str) -> str:
    """The URL as it is signed: without query, and without the port of its scheme."""
    address = urlsplit(url)
    scheme, host = address.scheme.lower(), (address.hostname or "").lower()
    host = f"[{host}]" if ":" in host else host
    try:
        port = address.port
    except ValueError:
        raise refusal("NODE_CONFIG_INVALID", "the URL has no valid port") from None
    authority = host if port in (None, _DEFAULT_PORTS.get(scheme)) else f"{host}:{port}"
    return f"{scheme}://{authority}{address.path or '/'}"


def _escaped(text: str) -> str:
    return quote(text, safe="-._~")


def _part(value: Mapping[str, Any]) -> str:
    return _encoded(json.dumps(value, separators=(",", ":")).encode())


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()

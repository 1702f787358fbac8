"""The requests that webhooks receive, and the payloads made from them for runs and waits.

Pure. Called by `webhook_service` and `callback_service`.
"""

from __future__ import annotations

import base64
import re
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl, quote

from anabranch.dataclass import dataclass
from anabranch.engine.rules.values import WEBHOOK_INPUT_BYTES_MAX, Payload
from anabranch.errors import BadJson, InvalidInput, TooLarge, ValueTooLarge
from anabranch.json_input import parse_json
from anabranch.triggers.webhooks.form_parts import FormRefused, ReceivedPart, parts_of
from anabranch.triggers.webhooks.header_parameters import TooManyParameters, parameters_of

# 16 MB, as of every body: more is refused before it is known whose it is.
BODY_BYTES_MAX = 16 * 1_048_576

OUTCOMES = ("accepted", "repeated", "unknown", "unauthenticated", "limited", "refused")
"""How a request can end: a new run, an earlier one, no such webhook, no valid credentials, too many, a bad request."""

# 1,000 fields of a form or a query: forms that people fill in have dozens.
FIELDS_MAX = 1_000

# 64 KB: even if each byte of the body became six in JSON, twice, that would fit.
SURELY_FITS_BYTES = 65_536

# Headers that prove who the caller is. Runs keep their input for weeks, and viewers may read it.
_CREDENTIALS = frozenset(
    {
        "authorization",
        "cookie",
        "proxy-authorization",
        "stripe-signature",
        "webhook-signature",
        "x-hub-signature",
        "x-hub-signature-256",
        "x-slack-signature",
    }
)

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


def hook_url(base_url: str, tenant_id: str, path: str) -> str:
    """The address of a webhook, always spelled in the same way."""
    return f"{base_url}/hooks/{quote(tenant_id, safe='')}/{quote(path)}"


@dataclass(frozen=True, slots=True)
class HookRequest:
    """One request to a webhook, without its body."""

    method: str
    tenant_id: str
    path: str
    headers: Mapping[str, Sequence[str]]
    """By lower-case name, with all values."""
    query: Sequence[tuple[str, str]]
    url: str = ""
    """The address of the webhook, without the query; empty for one-time addresses, which work like keys."""

    @property
    def content_type(self) -> tuple[str, str]:
        """The media type and the charset of the body, in lower case; empty where the caller names none."""
        if "content-type" not in self.headers:
            return "", ""
        written = (self.headers["content-type"] or [""])[0]
        kind = written.split(";", 1)[0].strip().lower()
        try:
            charset = parameters_of(written).get("charset", "").lower()
        except TooManyParameters:
            charset = ""
        return (kind if kind.count("/") == 1 else "text/plain"), charset


@dataclass(frozen=True, slots=True)
class Incoming:
    """One request, whose body is still to be read."""

    request: HookRequest
    body: AsyncIterator[bytes]
    is_gone: Callable[[], bool]
    """Whether the client has disconnected."""

    async def read(self, bytes_max: int) -> bytes:
        """The body. Raises TooLarge as soon as it is longer than `bytes_max`."""
        kept = bytearray()
        async for piece in self.body:
            kept += piece
            if len(kept) > bytes_max:
                raise too_large(bytes_max)
        return bytes(kept)


def too_large(bytes_max: int) -> TooLarge:
    """The error for a longer body."""
    return TooLarge(
        f"the body is larger than {bytes_max} bytes", hint="Send less, or a reference to where the data is."
    )


def payload_of(
    request: HookRequest, body: bytes, *, hidden: Iterable[str] = (), bytes_max: int = WEBHOOK_INPUT_BYTES_MAX
) -> dict[str, Any]:
    """The payload for a run: method, path, url, query, headers, body, json and form of a request, and of a form in
    parts the files.

    `body` is the raw body as text, or in base64 (`bodyEncoding`) if it is not UTF-8. It is null where `json` or
    `form` has its content and both would not fit into one value. Headers that prove who the caller is, and those in
    `hidden`, are left out. Raises BadJson or ValueNotStorable for JSON that no run can take, InvalidInput for a body
    that is too large for one.
    """
    media_type, _ = request.content_type
    payload: dict[str, Any] = {
        "method": request.method,
        "path": request.path,
        "url": request.url or None,
        "query": _fields(request.query),
        "headers": _headers(request.headers, {*_CREDENTIALS, *hidden}),
        "bodyEncoding": "utf-8",
        "body": None,
        "json": None,
        "form": None,
    }
    text = _text(body)
    if media_type == "application/json" or media_type.endswith("+json"):
        payload["json"] = parse_json(body, what="the body") if body.strip() else None
    elif media_type == "application/x-www-form-urlencoded" and text is not None:
        payload["form"] = _form(text)
    elif media_type == "multipart/form-data":
        payload |= _parts(request, body)
    for form in _forms(payload, body, text):
        if len(body) <= SURELY_FITS_BYTES or _fits(form, bytes_max):
            return form
    raise InvalidInput(
        f"the request does not fit into the input of a run, which has at most {bytes_max} bytes of JSON",
        hint="Send less, or a reference to where the data is.",
    )


def _forms(payload: dict[str, Any], body: bytes, text: str | None) -> Iterator[dict[str, Any]]:
    """The payload with the raw body, as one would like it best."""
    understood = payload["json"] is not None or payload["form"] is not None
    if text is not None:
        yield {**payload, "body": text}
    if understood:
        yield payload
    else:
        # Also for text with many control characters, each of which takes six bytes in JSON.
        yield {**payload, "bodyEncoding": "base64", "body": base64.b64encode(body).decode()}


def _fits(payload: dict[str, Any], bytes_max: int) -> bool:
    try:
        Payload.of(payload, bytes_max=bytes_max)
    except ValueTooLarge:
        return False
    return True


def _text(body: bytes) -> str | None:
    """The body as text; None if it is not UTF-8 or has NUL characters, which no database takes in JSON."""
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return None
    return None if "\x00" in text else text


def _form(text: str) -> dict[str, Any]:
    try:
        return _fields(parse_qsl(text, keep_blank_values=True, max_num_fields=FIELDS_MAX))
    except ValueError:
        raise BadJson(f"the form has more than {FIELDS_MAX} fields") from None


def _parts(request: HookRequest, body: bytes) -> dict[str, Any]:
    """`form` and `files` of a form in parts; nothing if it cannot be read."""
    try:
        parts = parts_of(request.headers["content-type"][0], body, parts_max=FIELDS_MAX)
    except FormRefused as refusal:
        raise BadJson(str(refusal)) from None
    if parts is None:
        return {}
    texts = [(part.name, part.content.decode("utf-8", "replace")) for part in parts if not part.is_file]
    files = [(part.name, _file(part)) for part in parts if part.is_file]
    return {"form": _fields(texts), "files": _by_name((_storable(name), file) for name, file in files)}


def _file(part: ReceivedPart) -> dict[str, Any]:
    return {
        "fileName": None if part.file_name is None else _storable(part.file_name),
        "mimeType": None if part.content_type is None else _storable(part.content_type),
        "base64": base64.b64encode(part.content).decode(),
    }


def _fields(pairs: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """Fields by name; those that are repeated as lists."""
    return _by_name((_storable(name), _storable(value)) for name, value in pairs)


def _by_name(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name not in found:
            found[name] = value
        elif isinstance(found[name], list):
            found[name].append(value)
        else:
            found[name] = [found[name], value]
    return found


def _headers(headers: Mapping[str, Sequence[str]], hidden: set[str]) -> dict[str, str]:
    return {_storable(name): _storable(", ".join(values)) for name, values in headers.items() if name not in hidden}


def _storable(text: str) -> str:
    """Text that every database takes; bytes of a header that are not UTF-8 arrive as lone surrogates."""
    return _UNSTORABLE.sub("\ufffd", text) if _UNSTORABLE.search(text) else text

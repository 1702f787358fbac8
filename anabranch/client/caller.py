"""One REST call: sent, repeated where that is safe, and the response read within bounds.

Called by the verbs of `remote`. The key travels in one header, to the named server only: redirects are not followed,
proxies of the environment are not used, and no message contains the key.
"""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, Final
from urllib.parse import quote

import aiohttp
import orjson
from yarl import URL

from anabranch import errors
from anabranch.dataclass import dataclass
from anabranch.engine.rules.graph.source_texts import has_source_texts, keep_source_texts, plain
from anabranch.engine.rules.values import Payload
from anabranch.errors import (
    AnabranchError,
    DatabaseUnreachable,
    InvalidRequest,
    ServerAnswerInvalid,
    ServerRefusal,
    ServerUnreachable,
)

# 5 s for a connection: a server that is up takes it in milliseconds.
CONNECT_PATIENCE_S = 5.0

# 60 s for a response: a start or a cancel may wait up to 30 s for the database.
ANSWER_PATIENCE_S = 60.0

# 5 attempts within some 3 s: a restarted server is back by then; callers that can wait longer retry themselves.
ATTEMPTS_MAX = 5
FIRST_PAUSE_S = 0.2

# 10 s: twice what our servers ask for. A longer wait is the caller's to decide.
RETRY_AFTER_MAX_S = 10.0

# 16 MB, as servers take it.
REQUEST_BYTES_MAX = 16 * 1_048_576

# 128 MB: a page of a log is 100 events of at most 1 MB each, and their names.
ANSWER_BYTES_MAX = 128 * 1_048_576

_CHUNK_BYTES = 65_536

# As servers take them: 1 to 255 visible ASCII characters.
_KEY = re.compile(r"[!-~]{1,255}")

_BY_CODE = {
    kind.code: kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, AnabranchError) and kind not in (DatabaseUnreachable, ServerRefusal)
}
"""Every situation by its code."""


class _NoBody:
    """Marks a request without a body, because None is a value."""


NO_BODY: Final = _NoBody()


@dataclass(frozen=True, slots=True)
class ServerRequest:
    """A request. `repeatable`: idempotent, so it is sent again if there was no response."""

    method: str
    path: Sequence[str]
    """Its segments, not yet quoted."""
    query: Mapping[str, str | Sequence[str]] = field(default_factory=dict)
    body: Any = NO_BODY
    """A JSON value."""
    headers: Mapping[str, str] = field(default_factory=dict)
    repeatable: bool = False


@dataclass(frozen=True, slots=True)
class ServerResponse:
    """A successful answer."""

    status: int
    body: Any
    text: bytes = b"null"
    """The text that `body` was parsed from."""

    def workflow(self) -> dict[str, Any]:
        """The workflow in the response, with the source text of unknown fields. Raises like `document`."""
        kept: dict[str, Any] = keep_source_texts(self.document(), self.text)
        return kept

    def document(self) -> dict[str, Any]:
        """The JSON object that it holds. Raises ServerAnswerInvalid for anything else."""
        if not isinstance(self.body, dict):
            raise ServerAnswerInvalid("the server's response is not a JSON object")
        return self.body


@dataclass(frozen=True, slots=True)
class _FailedRequest:
    """No response, or one that asks for a retry: the error if there is no further attempt, and the wait."""

    error: AnabranchError
    retry_after_s: float = 0.0


class Caller:
    """Connections to one server, with one key. `start` and `stop` enclose its calls."""

    def __init__(self, url: str, key: str) -> None:
        """Raises InvalidRequest for a URL or a key that cannot be one."""
        self._url = server_url(url)
        self._key = check_api_key(key)
        self._session: aiohttp.ClientSession | None = None

    async def start(self) -> None:
        """Be ready for calls; nothing is sent yet."""
        self._session = aiohttp.ClientSession(
            headers={"Authorization": f"Bearer {self._key}", "Accept": "application/json"},
            timeout=aiohttp.ClientTimeout(total=ANSWER_PATIENCE_S, connect=CONNECT_PATIENCE_S),
            cookie_jar=aiohttp.DummyCookieJar(),
        )

    async def stop(self) -> None:
        """Close the connections; may be called twice."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def call(self, request: ServerRequest) -> ServerResponse:
        """The answer to a request. Raises what the server refuses with, ServerUnreachable, ServerAnswerInvalid."""
        attempts_left = ATTEMPTS_MAX if request.repeatable else 1
        pause_s = FIRST_PAUSE_S
        while True:
            outcome = await self._once(request)
            if isinstance(outcome, ServerResponse):
                return outcome
            attempts_left -= 1
            if not attempts_left:
                raise outcome.error
            # Random, so that many clients of a lost server do not return at the same moment.
            await asyncio.sleep(max(random.uniform(pause_s / 2, pause_s), outcome.retry_after_s))  # noqa: S311
            pause_s *= 2

    async def _once(self, request: ServerRequest) -> ServerResponse | _FailedRequest:
        assert self._session is not None, "the caller was not started"
        body, headers = None, dict(request.headers)
        if request.body is not NO_BODY:
            body = Payload.of(plain(request.body), bytes_max=REQUEST_BYTES_MAX).raw
            if has_source_texts(request.body):
                body = orjson.dumps(request.body)
            headers["Content-Type"] = "application/json"
        url = self._url.joinpath(*map(_segment, request.path), encoded=True).with_query(request.query)
        try:
            async with self._session.request(
                request.method, url, data=body, headers=headers, allow_redirects=False
            ) as response:
                return self._judge(response, await _read(response))
        except TimeoutError:
            return self._setback(f"did not answer within {ANSWER_PATIENCE_S:.0f} s")
        except aiohttp.ClientConnectorCertificateError:
            raise ServerUnreachable(
                f"the server at {self._url} has a certificate that is not trusted here",
                hint="Nothing was sent. Add the authority that signed it to the trusted ones (SSL_CERT_FILE).",
            ) from None
        except aiohttp.ClientConnectorError as failure:
            return self._setback(f"cannot be reached: {failure.os_error.strerror or type(failure).__name__}")
        except (aiohttp.ClientError, OSError) as failure:
            return self._setback(f"closed the connection ({type(failure).__name__})")

    def _judge(self, response: aiohttp.ClientResponse, content: bytes) -> ServerResponse | _FailedRequest:
        status = response.status
        if status == 204:
            return ServerResponse(status, None)
        if 300 <= status < 400:
            raise ServerAnswerInvalid(
                f"the server at {self._url} answers with a redirect ({status})",
                hint="Name the URL that it leads to: redirects are not followed, so that the key goes nowhere else.",
            )
        try:
            value = orjson.loads(content)
        except orjson.JSONDecodeError:
            value = None
        if status < 300 and value is not None:
            return ServerResponse(status, value, content)
        refusal = refusal_of(value)
        if status in (429, 503) and refusal is not None:
            return _FailedRequest(refusal, _retry_after_s(response))
        if refusal is not None:
            raise refusal
        if status in (429, 502, 503, 504):
            # Not our words: something in front of the server answers in its place.
            return _FailedRequest(
                self._setback(f"is not available: a proxy answered {status}").error, _retry_after_s(response)
            )
        raise ServerAnswerInvalid(f"the server at {self._url} answers {status}, but not in the format of anabranch")

    def _setback(self, what: str) -> _FailedRequest:
        return _FailedRequest(ServerUnreachable(f"the server at {self._url} {what}"))


async def _read(response: aiohttp.ClientResponse) -> bytes:
    parts: list[bytes] = []
    size = 0
    async for part in response.content.iter_chunked(_CHUNK_BYTES):
        size += len(part)
        if size > ANSWER_BYTES_MAX:
            raise ServerAnswerInvalid(
                f"the server's response is larger than {ANSWER_BYTES_MAX // 1_048_576} MB", hint="Ask for less at once."
            )
        parts.append(part)
    return b"".join(parts)


def _segment(text: str) -> str:
    """A quoted path segment; `.` and `..` are quoted, too. Text that is not UTF-8 stays recognizable."""
    quoted = quote(text, safe="", errors="replace")
    return quoted.replace(".", "%2E") if text in (".", "..") else quoted


def _retry_after_s(response: aiohttp.ClientResponse) -> float:
    """The seconds that the server asks for, within our bound; dates, which few send, count as nothing."""
    text = response.headers.get("Retry-After", "")
    return min(float(text), RETRY_AFTER_MAX_S) if text.isascii() and text.isdecimal() and len(text) < 10 else 0.0


def server_url(text: str) -> URL:
    """The URL below which the server's paths are. Raises InvalidRequest, which does not repeat a password."""
    try:
        url = URL(text)
    except ValueError:
        raise _no_url() from None
    is_plain = url.user is None and url.password is None and not url.query_string and not url.fragment
    if url.scheme not in ("http", "https") or not url.host or not is_plain or not text.isprintable() or " " in text:
        raise _no_url()
    return url.with_path(url.raw_path.rstrip("/"), encoded=True)


def check_api_key(text: str) -> str:
    """The key, if a header can carry it. Raises InvalidRequest, which does not repeat it."""
    if not _KEY.fullmatch(text):
        raise InvalidRequest(
            "an API key is 1 to 255 visible ASCII characters",
            hint="Give it as --token or ANABRANCH_TOKEN; `anabranch keys create` makes one.",
        )
    return text


def _no_url() -> InvalidRequest:
    return InvalidRequest(
        "the URL of a server is http(s)://host[:port][/prefix]",
        hint="Leave user, password, query and fragment out; the key is given as --token or ANABRANCH_TOKEN.",
    )


def refusal_of(answer: Any) -> AnabranchError | None:
    """The error in a response; None if it is not in our format."""
    error = answer.get("error") if isinstance(answer, dict) else None
    if not isinstance(error, dict):
        return None
    code, message, hint = error.get("code"), error.get("message"), error.get("hint")
    if not (isinstance(code, str) and code and isinstance(message, str)):
        return None
    hint = hint if isinstance(hint, str) else None
    kind = _BY_CODE.get(code)
    if kind is None:
        return ServerRefusal(code, message, hint=hint, details=error.get("details"))
    return kind(message, hint=hint, details=error.get("details"))

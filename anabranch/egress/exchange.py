"""One HTTP request on a new connection to addresses that the guard has checked.

Called by `guarded_client` only. The name is never resolved here, and the socket's address is checked once more before
it connects: a host written as an address would pass any resolver. The body is read and decompressed in pieces and
dropped at its limit.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import zlib
from collections.abc import AsyncIterator, Mapping, Sequence

from aiohttp import (
    AddrInfoType,
    ClientResponse,
    ClientSession,
    ClientTimeout,
    DummyCookieJar,
    SocketFactoryType,
    TCPConnector,
)
from aiohttp.abc import AbstractResolver, ResolveResult

from anabranch.dataclass import dataclass
from anabranch.egress.headers import received_headers
from anabranch.egress.request import EgressRequest
from anabranch.errors import EgressRefused, HttpAnswerInvalid, ValueTooLarge

# 10 seconds to connect to one address: a packet that was lost twice still makes it.
CONNECT_S_MAX = 10.0

# 64 KiB: a piece is read, inflated and counted before the event loop has its next turn.
PIECE_BYTES = 65_536

# Head lines of an answer: what browsers take.
_HEAD_LINE_MAX = 16_384
_HEAD_LINES_MAX = 200

_ENDLESS = ("text/event-stream", "multipart/x-mixed-replace")


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """The response to a request."""

    status: int
    headers: dict[str, str]
    body: bytes


async def exchange(
    request: EgressRequest, addresses: Sequence[str], *, bytes_max: int, tls: ssl.SSLContext | bool
) -> HttpResponse:
    """Send a request to one of the addresses. Raises what aiohttp does, HttpAnswerInvalid and ValueTooLarge.

    `tls`: whom to trust; True for the system's authorities, False for everybody.
    """
    proxy = request.proxy
    headers = {"user-agent": "anabranch", "accept": "*/*", **request.headers, "accept-encoding": "gzip, deflate"}
    async with (
        _session(addresses, tls=tls) as session,
        session.request(
            request.method,
            request.target.url,
            headers=headers,
            data=request.body,
            allow_redirects=False,
            skip_auto_headers=["content-type"],
            proxy=None if proxy is None else proxy.target.url,
            proxy_headers=None if proxy is None else proxy.headers,
        ) as response,
    ):
        received = received_headers(response.headers.items())
        _refuse_streams(request, received)
        return HttpResponse(response.status, received, await _read_body(request, response, bytes_max))


def _session(addresses: Sequence[str], *, tls: ssl.SSLContext | bool) -> ClientSession:
    connector = TCPConnector(
        resolver=_CheckedResolver(addresses),
        socket_factory=_only(addresses),
        use_dns_cache=False,
        force_close=True,
        ssl=tls,
    )
    return ClientSession(
        connector=connector,
        cookie_jar=DummyCookieJar(),
        trust_env=False,
        auto_decompress=False,
        # The caller's time limit is around all of it.
        timeout=ClientTimeout(total=None, sock_connect=CONNECT_S_MAX),
        max_line_size=_HEAD_LINE_MAX,
        max_field_size=_HEAD_LINE_MAX,
        max_headers=_HEAD_LINES_MAX,
    )


class _CheckedResolver(AbstractResolver):
    """A resolver that returns the checked addresses, so that a changed DNS entry has no effect."""

    def __init__(self, addresses: Sequence[str]) -> None:
        self._addresses = addresses

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """The judged addresses, with this port, as aiohttp takes them; nothing is looked up."""
        return [
            {
                "hostname": host,
                "host": address,
                "port": port,
                "family": socket.AF_INET6 if ":" in address else socket.AF_INET,
                "proto": 0,
                "flags": socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
            }
            for address in self._addresses
        ]

    async def close(self) -> None:
        """Holds nothing."""


def _only(addresses: Sequence[str]) -> SocketFactoryType:
    """Makes sockets for these addresses and for no others."""

    def make_socket(info: AddrInfoType) -> socket.socket:
        """A socket that does not block, for an address that was judged. Raises EgressRefused for any other."""
        family, kind, protocol, _, address = info
        if address[0] not in addresses:
            raise EgressRefused("the connection was about to go to an address that was not checked")
        return socket.socket(family, kind, protocol)

    return make_socket


def _refuse_streams(request: EgressRequest, headers: Mapping[str, str]) -> None:
    kind = headers.get("content-type", "").split(";", 1)[0].strip().lower()
    if kind in _ENDLESS:
        raise HttpAnswerInvalid(
            f"{request.target.origin} answers with a stream ({kind}), which does not end",
            hint="Ask for a complete response; many servers take `stream: false`.",
        )


async def _read_body(request: EgressRequest, response: ClientResponse, bytes_max: int) -> bytes:
    inflate = _inflater(request, response.headers.get("content-encoding", ""))
    body, read = bytearray(), 0
    async for piece in _pieces(response):
        read += len(piece)
        body += piece if inflate is None else inflate.inflate(piece, bytes_max + 1 - len(body))
        if max(read, len(body)) > bytes_max:
            raise ValueTooLarge(f"the answer of {request.target.origin} has more than {bytes_max} bytes")
    if inflate is not None and read and not inflate.complete:
        raise HttpAnswerInvalid(f"the compressed answer of {request.target.origin} is cut off")
    return bytes(body)


async def _pieces(response: ClientResponse) -> AsyncIterator[bytes]:
    while piece := await response.content.read(PIECE_BYTES):
        yield piece
        await asyncio.sleep(0)  # data that is there already would be read without ever giving way


class _Inflate:
    """Decompresses a body in pieces of limited size."""

    def __init__(self, request: EgressRequest, *, raw_allowed: bool) -> None:
        self._origin = request.target.origin
        self._raw_allowed = raw_allowed
        self._decompressor = zlib.decompressobj(wbits=zlib.MAX_WBITS | 32)  # gzip or zlib, by its first bytes
        self._begun = False

    @property
    def complete(self) -> bool:
        """The end of the compressed data was reached."""
        return self._decompressor.eof

    def inflate(self, piece: bytes, bytes_max: int) -> bytes:
        """The next bytes; at most `bytes_max`, which is enough to know that it is too many."""
        if self._raw_allowed and not self._begun and piece[0] & 0x0F != zlib.DEFLATED:
            # Some servers call it deflate and leave out the two bytes in front.
            self._decompressor = zlib.decompressobj(wbits=-zlib.MAX_WBITS)
        self._begun = True
        if self.complete:
            raise HttpAnswerInvalid(f"the compressed answer of {self._origin} continues after its end")
        try:
            inflated = self._decompressor.decompress(piece, max(1, bytes_max))
        except zlib.error:
            raise HttpAnswerInvalid(f"the answer of {self._origin} is not compressed as it says") from None
        if self._decompressor.unused_data:
            raise HttpAnswerInvalid(f"the compressed answer of {self._origin} continues after its end")
        return inflated


def _inflater(request: EgressRequest, encoding: str) -> _Inflate | None:
    name = encoding.strip().lower()
    if name in ("", "identity"):
        return None
    if name not in ("gzip", "x-gzip", "deflate"):
        raise HttpAnswerInvalid(
            f"{request.target.origin} answers with the content encoding {name[:40]!r}; gzip and deflate were offered"
        )
    return _Inflate(request, raw_allowed=name == "deflate")

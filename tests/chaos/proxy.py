"""A TCP proxy in front of PostgreSQL or a broker that cuts connections, withholds answers, holds up a direction or
drops what is sent in it, is slow, and falls silent.

A withheld answer is the unclear commit: the statement reaches the server and happens, the
client never hears of it and sees its connection end. A silent proxy acknowledges whatever is sent, as its
kernel does, and passes nothing on.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Iterator
from urllib.parse import parse_qs, urlsplit


def socket_of(url: str) -> str:
    """The path of the socket that a server on this machine listens on, by a database's URL."""
    parts = urlsplit(url)
    directory = parse_qs(parts.query).get("host", [""])[0]
    return f"{directory}/.s.PGSQL.{parts.port or 5432}"


class Proxy:
    """Listens on a loopback port and passes bytes to the server, while it pleases."""

    def __init__(self, server: str | int, *, seed: int) -> None:
        """`server` is the path of its socket, or its port on this machine."""
        self._server_address = server
        self._random = random.Random(seed)
        self._server: asyncio.Server | None = None
        self._pairs: set[_Pair] = set()
        self.port = 0
        self.cut = 0
        self.withheld = 0
        self._dropped = (False, False)
        self._ways = _Ways(random.Random(seed))

    def slow_down(self, *, delay_s: float, bytes_per_s: int | None = None) -> None:
        """Deliver what is sent from now on after up to so long, each way, and at most so much a second in all."""
        self._ways.delay_s, self._ways.bytes_per_s = delay_s, bytes_per_s

    def leave_half_open(self) -> bool:
        """End the server's side of a connection, and let the client believe that it stands; is there one?"""
        standing = [pair for pair in self._pairs if not pair.is_half_open]
        if not standing:
            return False
        self._random.choice(sorted(standing, key=lambda pair: pair.number)).drop(requests=True, answers=True)
        return True

    async def __aenter__(self) -> Proxy:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for pair in list(self._pairs):
            pair.close()

    def url_of(self, url: str) -> str:
        """The way to this database through the proxy."""
        return f"postgresql://postgres@127.0.0.1:{self.port}{urlsplit(url).path}"

    def cut_one(self) -> bool:
        """End a connection now, whatever is on its way; is there one?"""
        if not self._pairs:
            return False
        self._random.choice(sorted(self._pairs, key=lambda pair: pair.number)).close()
        self.cut += 1
        return True

    def withhold_one(self) -> bool:
        """Pass the next statement of a connection on, keep its answer, and end the connection; is there one?"""
        if not self._pairs:
            return False
        self._random.choice(sorted(self._pairs, key=lambda pair: pair.number)).withhold_next = True
        self.withheld += 1
        return True

    @contextlib.contextmanager
    def partition(self, *, requests: bool, answers: bool) -> Iterator[None]:
        """Hold up what is sent in these directions; it arrives afterwards, as after a partition of the network."""
        held_up = [way for way, is_held in ((self._ways.up, requests), (self._ways.down, answers)) if is_held]
        for way in held_up:
            way.clear()
        try:
            yield
        finally:
            for way in held_up:
                way.set()

    @contextlib.contextmanager
    def dropping(self, *, requests: bool, answers: bool) -> Iterator[None]:
        """Drop what is sent in these directions. Connections that stood or were tried meanwhile stay half open."""
        self._dropped = requests, answers
        for pair in self._pairs:
            pair.drop(requests=requests, answers=answers)
        try:
            yield
        finally:
            self._dropped = (False, False)

    def fall_silent(self) -> None:
        """Pass nothing on any more, on the connections that there are and on new ones."""
        self._dropped = (True, True)
        self.silence_those_open()

    def silence_those_open(self) -> None:
        """Pass nothing on any more on the connections that there are; new ones are served."""
        for pair in self._pairs:
            pair.drop(requests=True, answers=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            up_reader, up_writer = await self._connected()
        except OSError:
            writer.close()
            return
        pair = _Pair(len(self._pairs) + self.cut + self.withheld, writer, up_writer, self._ways)
        requests, answers = self._dropped
        pair.drop(requests=requests, answers=answers)
        self._pairs.add(pair)
        try:
            await asyncio.gather(pair.upstream(reader), pair.downstream(up_reader))
        finally:
            self._pairs.discard(pair)
            pair.close()

    async def _connected(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if isinstance(self._server_address, int):
            return await asyncio.open_connection("127.0.0.1", self._server_address)
        return await asyncio.open_unix_connection(self._server_address)


class _Ways:
    """Both directions; each is open or held up, and as fast as both are."""

    def __init__(self, dice: random.Random) -> None:
        self.up, self.down = asyncio.Event(), asyncio.Event()
        self.up.set()
        self.down.set()
        self.delay_s = 0.0
        self.bytes_per_s: int | None = None
        self._dice = dice
        self._free_at = 0.0

    async def travel(self, size: int) -> None:
        """Take the time that so many bytes need; bytes of one connection stay in order."""
        if not self.delay_s:
            return
        loop = asyncio.get_running_loop()
        arrives = loop.time() + self._dice.uniform(self.delay_s / 4, self.delay_s)
        if self.bytes_per_s is not None:
            self._free_at = max(self._free_at, loop.time()) + size / self.bytes_per_s
            arrives = max(arrives, self._free_at)
        await asyncio.sleep(arrives - loop.time())


class _Pair:
    """One client's connection and ours to the server."""

    def __init__(self, number: int, client: asyncio.StreamWriter, server: asyncio.StreamWriter, ways: _Ways) -> None:
        self._ways = ways
        self.number = number
        self.withhold_next = False
        self._drops_requests = self._drops_answers = False
        self._swallow = False
        self._client = client
        self._server = server

    @property
    def is_half_open(self) -> bool:
        """Whether a direction is lost."""
        return self._drops_requests or self._drops_answers

    def drop(self, *, requests: bool, answers: bool) -> None:
        """Drop what is sent in these directions from now on; without answers, also that the server has closed it."""
        self._drops_requests |= requests
        self._drops_answers |= answers

    async def upstream(self, reader: asyncio.StreamReader) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65_536):
                if self._drops_requests:
                    continue
                if self.withhold_next:
                    self._swallow = True
                await self._ways.up.wait()
                await self._ways.travel(len(data))
                self._server.write(data)
                await self._server.drain()
        self.close()  # a client that has left minds nothing more; its server is told, as by a timeout of its own

    async def downstream(self, reader: asyncio.StreamReader) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65_536):
                if self._drops_answers:
                    continue
                if self._swallow:
                    break  # the server has done it; the client shall not know
                await self._ways.down.wait()
                await self._ways.travel(len(data))
                self._client.write(data)
                await self._client.drain()
        if not self._drops_answers:
            self.close()

    def close(self) -> None:
        self._client.close()
        self._server.close()

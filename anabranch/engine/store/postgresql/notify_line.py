"""Hints over PostgreSQL: LISTEN on one connection, NOTIFY on another, both outside of commits.

Made by `open_hint_line`, used by `engine.hints`. A NOTIFY inside a commit would make all such commits wait for each
other, so it is sent after the commit. LISTEN needs a connection of its own. LISTEN does not work behind a pooler in
transaction mode, which may accept the statement and deliver nothing. So each new line first sends itself a message.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping
from contextlib import aclosing, asynccontextmanager

import psycopg
from psycopg import sql

from anabranch.engine.hints.hint_line import Channel, Receive
from anabranch.engine.store.postgresql.postgresql_connections import BoundedAsyncConnection
from anabranch.engine.store.postgresql.postgresql_dialect import PostgresqlDialect
from anabranch.errors import StoreUnavailable

# PostgreSQL takes payloads of less than 8,000 bytes: some two hundred ids.
PAYLOAD_BYTES_MAX = 7_999

# 5 s to receive our own message: a slower line would be no better than polling.
ECHO_PATIENCE_S = 5.0

# After 30 s without any message the listening connection is tested: nothing else would reveal that a proxy has dropped
# it. A leader's beats arrive more often.
SILENCE_S = 30.0

_CHANNELS = frozenset(Channel)
_ECHO = "anabranch_echo"

# A hint need not survive a crash of the server, so this does not wait for the disk. Set for this transaction only,
# because a pooler may lend the session to others next.
_NOTIFY = """
    SELECT pg_notify(channel, payload), set_config('synchronous_commit', 'off', true)
    FROM unnest(%s::text[], %s::text[]) AS hints(channel, payload)"""


class PostgresqlHintLine:
    """The channels of one database; connects when it is first used, and anew after a failure."""

    def __init__(self, dialect: PostgresqlDialect) -> None:
        self._dialect = dialect
        self._target = dialect.target
        self._sending: BoundedAsyncConnection | None = None
        self.speaker: int | None = None
        """The server process behind the sending connection."""

    async def send(self, hints: Mapping[Channel, Collection[str]]) -> None:
        """One statement, however many messages it takes."""
        messages = [(channel, payload) for channel, ids in hints.items() for payload in _payloads(ids)]
        try:
            if self._sending is None:
                self._sending = await self._connect()
                self.speaker = self._sending.info.backend_pid
            await self._sending.execute(_NOTIFY, [[m[0].value for m in messages], [m[1] for m in messages]])
        except (psycopg.Error, OSError) as failure:
            await self.close()
            raise StoreUnavailable(f"{self._target}: {failure}") from failure
        except asyncio.CancelledError:
            await self.close()  # interrupted within a statement: the state of the connection is unknown
            raise

    async def listen(
        self, receive: Receive, *, connected: Callable[[], None], ignores: Callable[[int], bool] = lambda _: False
    ) -> None:
        """Pass on messages of other processes until the connection is lost, which raises StoreUnavailable."""
        if self._dialect.pooled:
            raise StoreUnavailable(f"{self._target}: a pooler lends connections by the transaction, so none can listen")
        try:
            async with self._listening() as connection:
                connected()
                while True:
                    is_silent = True
                    async for message in connection.notifies(timeout=SILENCE_S):
                        is_silent = False
                        if message.pid != self.speaker and message.channel in _CHANNELS and not ignores(message.pid):
                            receive(Channel(message.channel), message.payload.split())
                    if is_silent:
                        await connection.execute("SELECT 1")
        except (psycopg.Error, OSError) as failure:
            raise StoreUnavailable(f"{self._target}: {failure}") from failure

    async def close(self) -> None:
        """Close the sending connection; may be called twice."""
        connection, self._sending, self.speaker = self._sending, None, None
        if connection is not None:
            await connection.close()

    # -- within ---------------------------------------------------------------------------
    @asynccontextmanager
    async def _listening(self) -> AsyncIterator[BoundedAsyncConnection]:
        """A listening connection that has received its own message. Raises StoreUnavailable if it does not."""
        connection = await self._connect()
        try:
            for channel in (*_CHANNELS, _ECHO):
                await connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel)))
            word = secrets.token_hex(8)
            await connection.execute(_NOTIFY, [[_ECHO], [word]])
            if not await _receives_echo(connection, word):
                raise StoreUnavailable(f"{self._target}: the connection takes LISTEN and delivers nothing")
            await connection.execute(sql.SQL("UNLISTEN {}").format(sql.Identifier(_ECHO)))
            yield connection
        finally:
            await connection.close()

    async def _connect(self) -> BoundedAsyncConnection:
        return await self._dialect.connect_asynchronously(application_name="anabranch hints")


async def _receives_echo(connection: BoundedAsyncConnection, word: str) -> bool:
    async with aclosing(connection.notifies(timeout=ECHO_PATIENCE_S)) as messages:
        async for message in messages:
            if message.payload == word:
                return True
    return False


def _payloads(instance_ids: Collection[str]) -> Iterator[str]:
    """The ids, separated by spaces, in as few messages as possible."""
    payload = ""
    for instance_id in sorted(instance_ids):
        longer = f"{payload} {instance_id}" if payload else instance_id
        if len(longer.encode()) > PAYLOAD_BYTES_MAX:
            yield payload
            longer = instance_id
        payload = longer
    yield payload

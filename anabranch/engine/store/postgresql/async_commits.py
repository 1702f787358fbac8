"""Commits on connections of the event loop.

Made by `postgresql_dialect`, used by `sql.store`. A thread would wait for Python's lock at each step of a commit while
others hold it, and a run alone would be handed to it and back for each of its commits. What an error means is the same
as in the threads (`component.verdict_on`), and so is the handling of a lost connection: the others are replaced, too. A
commit that finds no connection free goes to a thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import cache
from typing import Any

import psycopg
from sqlalchemy import TextClause
from sqlalchemy.dialects.postgresql import psycopg as sqlalchemy_psycopg

from anabranch.engine.ports import Outcome, Transition
from anabranch.engine.store.postgresql.postgresql_commit import Question, Rows, writing
from anabranch.engine.store.postgresql.postgresql_connections import BoundedAsyncConnection
from anabranch.engine.store.sql.component import ATTEMPTS_MAX, verdict_on
from anabranch.engine.store.sql.dialect import Dialect, Outages
from anabranch.engine.store.sql.families import failures
from anabranch.errors import DatabaseUnreachable

# 2 MB: so much are 2,000 rows, the most of a batch, with payloads of a few hundred bytes.
SENT_AT_ONCE_BYTES = 2_097_152


class PostgresqlAsyncCommits:
    """A connection for each concurrent commit, connected when it is first used, and anew after a failure."""

    def __init__(
        self,
        dialect: Dialect,
        outages: Outages,
        *,
        connect: Callable[[], Awaitable[BoundedAsyncConnection]],
        beginning: Callable[[], str | None],
    ) -> None:
        """`outages` are those of the threads that commit; each transaction begins with `beginning`, if there is one."""
        self._all = [
            _Committer(dialect, outages, connect=connect, beginning=beginning)
            for _ in range(dialect.commits_in_flight_max)
        ]
        self._free = self._all[::-1]
        """Those that commit nothing now; the last is the next, so that a run alone always meets the same one."""

    def takes(self, transitions: Sequence[Transition]) -> bool:
        """Is a connection free, and is one statement enough: are there no large values and no failures?"""
        return bool(self._free) and not failures(transitions) and not _have_large_values(transitions)

    async def commit(self, transitions: Sequence[Transition]) -> Outcome:
        """As `Dialect.commit`, for transitions that `takes` accepts and that concern no family.

        Raises StoreUnavailable (it may have happened or not), LocksHeld or DataRefused (nothing happened).
        """
        committer = self._free.pop()
        try:
            return await committer.commit(transitions)
        finally:
            self._free.append(committer)

    async def close(self, *, patience_s: float | None = None) -> None:
        """Disconnect once what is under way is finished; what takes longer than `patience_s` is cut off."""
        await asyncio.gather(*(committer.close(patience_s=patience_s) for committer in self._all))


class _Committer:
    """One connection of them."""

    def __init__(
        self,
        dialect: Dialect,
        outages: Outages,
        *,
        connect: Callable[[], Awaitable[BoundedAsyncConnection]],
        beginning: Callable[[], str | None],
    ) -> None:
        self._dialect = dialect
        self._outages = outages
        self._connect = connect
        self._beginning = beginning
        self._outages_met = 0
        self._connection: BoundedAsyncConnection | None = None
        self._cursor: psycopg.AsyncCursor[Any] | None = None
        """Its only cursor: a new one for each commit would cost a third of the time that the driver takes."""
        self._busy = asyncio.Lock()
        self._closing = False

    async def commit(self, transitions: Sequence[Transition]) -> Outcome:
        """Write them, again after a deadlock."""
        async with self._busy:
            attempts_left = ATTEMPTS_MAX
            while True:
                attempts_left -= 1
                try:
                    return await self._write(transitions)
                except psycopg.Error as error:
                    verdict = verdict_on(error, self._dialect, attempts_left=attempts_left)
                    if verdict.is_lost:
                        self._outages.count += 1
                    if verdict.raised is error:
                        raise
                    if verdict.raised is not None:
                        raise verdict.raised from error

    async def close(self, *, patience_s: float | None) -> None:
        self._closing = True
        try:
            async with asyncio.timeout(patience_s), self._busy:
                await self._disconnect()
        except TimeoutError:
            if self._connection is not None:
                self._connection.sever()

    async def _write(self, transitions: Sequence[Transition]) -> Outcome:
        connection, cursor = await self._connected()
        beginning = self._beginning()
        if beginning is None:
            return await _answer(cursor, transitions)
        await connection.execute(beginning.encode())
        try:
            written = await _answer(cursor, transitions)
            await connection.execute("COMMIT")
        except BaseException:
            with suppress(psycopg.Error):
                await connection.rollback()
            raise
        return written

    async def _connected(self) -> tuple[BoundedAsyncConnection, psycopg.AsyncCursor[Any]]:
        connection, cursor = self._connection, self._cursor
        if connection is not None and (connection.closed or self._outages_met != self._outages.count):
            await self._disconnect()
            connection = None
        if connection is None or cursor is None:
            outages = self._outages.count
            connection = await self._connect()
            connection.send_at_once(SENT_AT_ONCE_BYTES)
            connection.cursor_factory = psycopg.AsyncRawCursor
            cursor = connection.cursor()
            self._connection, self._cursor, self._outages_met = connection, cursor, outages
            if self._closing:
                await self._disconnect()
                raise DatabaseUnreachable(f"{self._dialect.target}: the store has been stopped")
        return connection, cursor

    async def _disconnect(self) -> None:
        connection, self._connection, self._cursor = self._connection, None, None
        if connection is not None:
            await connection.close()


def _have_large_values(transitions: Sequence[Transition]) -> bool:
    for transition in transitions:
        for event in transition.events:  # not `any`: this is asked for each row, and a generator costs as much again
            if event.payload.division is not None:
                return True
    return False


async def _answer(cursor: psycopg.AsyncCursor[Any], transitions: Sequence[Transition]) -> Outcome:
    """Ask what `writing` asks."""
    questions = writing(transitions)
    question = next(questions)
    while True:
        rows = await _ask(cursor, question)
        try:
            question = questions.send(rows)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]


async def _ask(cursor: psycopg.AsyncCursor[Any], question: Question) -> Rows:
    statement, parameters = question
    words, names = _words(statement)
    await cursor.execute(words, [parameters[name] for name in names])
    return await cursor.fetchall()


@cache
def _words(statement: TextClause) -> tuple[bytes, Sequence[str]]:
    """The statement as the server takes it, and the names of its parameters in their order: the driver would look for
    them in a long statement each time."""
    compiled = statement.compile(dialect=sqlalchemy_psycopg.dialect(paramstyle="numeric_dollar"))  # type: ignore[no-untyped-call]
    assert compiled.positiontup is not None, "its parameters are numbered"
    return str(compiled).encode(), compiled.positiontup

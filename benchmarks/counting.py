"""Work that is counted and not timed: the same number on a fast machine, a slow one and a busy one.

Used by `guard`. Loops inside C functions are not seen: what they do is weighed by the bytes it
leaves (`held_bytes`, the write-ahead log), or not at all.
"""

from __future__ import annotations

import sqlite3
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from types import FrameType
from typing import Any

import psycopg
from sqlalchemy import Connection, Engine, event

from anabranch.engine.store.sql.store import SqlStore


class Count:
    """A number that grows while its context is open."""

    def __init__(self) -> None:
        self.value = 0


@contextmanager
def opcodes() -> Iterator[Count]:
    """Bytecode instructions of this thread."""
    count = Count()

    def enter(frame: FrameType, _event: str, _argument: Any) -> Any:
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        return step

    def step(_frame: FrameType, what: str, _argument: Any) -> Any:
        count.value += what == "opcode"
        return step

    before = sys.gettrace()
    sys.settrace(enter)
    try:
        yield count
    finally:
        sys.settrace(before)


@contextmanager
def calls() -> Iterator[Count]:
    """Function calls, Python's and C's, of this thread."""
    count = Count()

    def note(_frame: FrameType, what: str, _argument: Any) -> None:
        count.value += what in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        yield count
    finally:
        sys.setprofile(before)


class ThreadCalls:
    """Function calls, Python's and C's, of the threads that are started after this was made."""

    def __init__(self) -> None:
        self._counting = False
        self._calls = 0
        threading.setprofile(self._profile)

    @contextmanager
    def counted(self) -> Iterator[Count]:
        """The calls while the context is open."""
        count, before = Count(), self._calls
        self._counting = True
        try:
            yield count
        finally:
            self._counting = False
            count.value = self._calls - before

    def close(self) -> None:
        """Leave the threads to come alone."""
        threading.setprofile(None)  # None ends it, as with sys.setprofile

    def _profile(self, _frame: FrameType, what: str, _argument: Any) -> None:
        if self._counting and what in ("call", "c_call"):
            self._calls += 1


@contextmanager
def statements() -> Iterator[Count]:
    """SQL statements, of every connection of this process: those of threads and those of the event loop."""
    count = Count()
    execute = psycopg.AsyncCursor.execute

    def note(*_: Any) -> None:
        count.value += 1

    async def counted(*given: Any, **named: Any) -> Any:
        note()
        return await execute(*given, **named)

    event.listen(Engine, "before_cursor_execute", note)
    psycopg.AsyncCursor.execute = counted  # type: ignore[method-assign]
    try:
        yield count
    finally:
        psycopg.AsyncCursor.execute = execute  # type: ignore[method-assign]
        event.remove(Engine, "before_cursor_execute", note)


@asynccontextmanager
async def statements_of_commits(store: SqlStore) -> AsyncIterator[Count]:
    """SQL statements on the connection that writes to a SQLite file, the driver's own included; on PostgreSQL those
    of every connection of this process."""
    if store.dialect.is_remote:
        with statements() as count:
            yield count
        return
    count = Count()

    def note(_: str) -> None:
        count.value += 1

    await store.write(partial(_trace, note))
    try:
        yield count
    finally:
        await store.write(partial(_trace, None))


def _trace(note: Callable[[str], None] | None, connection: Connection) -> None:
    driver = connection.connection.driver_connection
    assert isinstance(driver, sqlite3.Connection), "SQLite's"
    driver.set_trace_callback(note)

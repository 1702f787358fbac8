"""DatabaseThreads: threads that each own one database connection.

`state_manager`, `inquiries` and `definitions` hand functions to a lane and await what they
return. A function is one whole transaction, so a lane may call it again after a deadlock.
Errors of the driver leave as ours; a broken connection is replaced by the next call.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError, SQLAlchemyError, StatementError

from anabranch.engine.store.sql.dialect import Dialect
from anabranch.engine.store.sql.faults import DataRefused, DuplicateRefused, Fault, LocksHeld
from anabranch.errors import DatabaseAway

# 5 tries: batches are offered in id order, so a deadlock needs a stranger's statement; five in
# a row is an outage, not bad luck.
TRIES_MAX = 5

# A lock that somebody else has is tried again for 15 s, three times as long as the server lets a frozen process keep
# one, with pauses of 50 ms at first and 1 s at last: the connection is others' meanwhile.
LOCK_PATIENCE_S = 15.0
LOCK_PAUSE_FIRST_S = 0.05
LOCK_PAUSE_LAST_S = 1.0

Answer = TypeVar("Answer")


class DatabaseThreads:
    """A few threads of one kind; `run` takes the next free one."""

    def __init__(self, dialect: Dialect, *, count: int, commits: bool, name: str) -> None:
        self._dialect = dialect
        self._commits = commits
        self._engine: Engine = dialect.engine(commits=commits)
        self._threads = ThreadPoolExecutor(max_workers=count, thread_name_prefix=f"anabranch-{name}")
        self._own = threading.local()
        self._open: set[Connection] = set()
        self._outages = 0

    async def run(
        self,
        work: Callable[[Connection], Answer],
        *,
        reads_only: bool = False,
        lock_patience_s: float | None = None,
    ) -> Answer:
        """What `work` returns, called in a thread with its connection.

        Work that only reads is done again on a new connection when the old one turns out to be
        broken. Where somebody else holds a lock, the connection is given back before each further try.
        Raises StoreUnavailable (it may have happened or not), LocksHeld or DataRefused (nothing
        happened).
        """
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + (LOCK_PATIENCE_S if lock_patience_s is None else lock_patience_s)
        pause_s = LOCK_PAUSE_FIRST_S
        while True:
            try:
                return await loop.run_in_executor(self._threads, self._attempt, work, reads_only)
            except LocksHeld:
                if loop.time() + pause_s > give_up_at:
                    raise
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, LOCK_PAUSE_LAST_S)

    def run_blocking(self, work: Callable[[Connection], Answer], *, patience_s: float) -> Answer:
        """What `work` returns, for a caller that is no event loop.

        Raises as `run` does, and StoreUnavailable if there is no answer within `patience_s`: `work` may then still be
        done.
        """
        answer = self._threads.submit(self._attempt, work, False)
        try:
            return answer.result(patience_s)
        except TimeoutError:
            answer.cancel()
            raise DatabaseAway(f"{self._dialect.place}: no answer within {patience_s:.1f} s") from None

    def renew(self) -> None:
        """Let every thread replace its connection before it is used again."""
        self._outages += 1

    def close(self, *, patience_s: float | None = None) -> None:
        """Wait for what is under way, then close the connections. Blocks; may be called twice.

        What takes longer than `patience_s` is left behind, with its connection cut.
        """
        ending = threading.Thread(target=self._threads.shutdown, daemon=True, name="anabranch-lanes-end")
        ending.start()
        ending.join(patience_s)
        if ending.is_alive():
            self._threads.shutdown(wait=False, cancel_futures=True)
            for connection in list(self._open):
                self._dialect.sever(connection)
            return
        while self._open:
            self._open.pop().close()
        self._engine.dispose()

    def _attempt(self, work: Callable[[Connection], Answer], reads_only: bool) -> Answer:  # noqa: FBT001
        tries_left = TRIES_MAX
        while True:
            tries_left -= 1
            may_be_stale = reads_only and getattr(self._own, "connection", None) is not None
            try:
                connection = self._connection()
                with self._dialect.whole(connection, commits=self._commits):
                    return work(connection)
            except DBAPIError as error:
                fault = self._dialect.fault_of(error)
                if fault is Fault.BUG:
                    raise
                if fault is Fault.REFUSED:
                    refusal = DuplicateRefused if self._dialect.is_duplicate(error) else DataRefused
                    raise refusal(self._dialect.describe(error)) from error
                if fault is Fault.LOCKED:
                    raise LocksHeld(self._dialect.describe(error)) from error
                if fault is Fault.UNAVAILABLE or fault is Fault.STALE:
                    self._drop_connections()
                if not tries_left or (fault is Fault.UNAVAILABLE and not may_be_stale):
                    raise DatabaseAway(self._dialect.describe(error)) from error
            except StatementError:
                raise  # a statement or value that never reached the driver: a fault of ours
            except SQLAlchemyError as error:
                # No word of the database's: the connection is in a state that nothing can be done with.
                self._close_own()
                raise DatabaseAway(self._dialect.describe(error)) from error

    def _connection(self) -> Connection:
        connection: Connection | None = getattr(self._own, "connection", None)
        if connection is not None and (connection.invalidated or self._own.outage != self._outages):
            self._close_own()
            connection = None
        if connection is None:
            connection = self._engine.connect()
            self._own.connection = connection
            self._own.outage = self._outages
            self._open.add(connection)
        return connection

    def _drop_connections(self) -> None:
        """Replace our connection, and let every other thread replace its own before it is used again.

        A server that went away took all of them along; without this each lane would fail once
        after it is back.
        """
        self.renew()
        self._close_own()

    def _close_own(self) -> None:
        connection: Connection | None = getattr(self._own, "connection", None)
        if connection is not None:
            self._own.connection = None
            self._open.discard(connection)
            connection.invalidate()
            connection.close()

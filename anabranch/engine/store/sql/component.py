"""Database access of the SQL store: threads with a connection each, transactions, and retries.

Components of a store hand functions to threads and await the result. A function is one whole transaction, so a thread
may call it again after a deadlock. Driver errors are translated; the next call replaces a broken connection. Commits
have their own threads, so that no list delays them, and so do operations that may wait for a lock. On a database with a
single writer, everything that writes uses the first thread.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError, SQLAlchemyError, StatementError

from anabranch.dataclass import dataclass
from anabranch.engine.ports import Outcome, Transition
from anabranch.engine.store.sql.database_errors import DatabaseErrorKind, DataRefused, DuplicateRefused, LocksHeld
from anabranch.engine.store.sql.dialect import AsyncCommits, Dialect, Outages
from anabranch.errors import DatabaseUnreachable, StoreUnavailable

# 5 attempts: batches are in id order, so a deadlock needs a statement of another program; five in a row mean an outage.
ATTEMPTS_MAX = 5

# A lock of another session is retried for 15 s, three times as long as the server lets a frozen process keep one, with
# pauses from 50 ms to 1 s, during which others can use the connection.
LOCK_PATIENCE_S = 15.0
LOCK_PAUSE_FIRST_S = 0.05
LOCK_PAUSE_LAST_S = 1.0

# 2 s: a commit takes milliseconds, so one that takes longer is stuck.
SLOW_AFTER_S = 2.0

# 5 s: an older failure says nothing about the next commit; there may have been no commit since.
FAILURE_COUNTS_S = 5.0

Answer = TypeVar("Answer")


class SqlComponent:
    """Runs functions on connections: to read, to write, to commit."""

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect
        self._reading: DatabaseThreads | None = None
        self._committing: DatabaseThreads | None = None
        self._writing: DatabaseThreads | None = None
        """For writes other than commits that may wait for a lock."""
        self._families: DatabaseThreads | None = None
        """For commits that may wait for a lock."""
        self._async_commits: AsyncCommits | None = None

    async def read(self, work: Callable[[Connection], Answer]) -> Answer:
        """Run one reading statement."""
        return await self._started(self._reading).run(work, reads_only=True)

    async def write(self, work: Callable[[Connection], Answer]) -> Answer:
        """Run a writing transaction that is not a commit of transitions and may wait for locks."""
        return await self._started(self._writing).run(work)

    async def transact(self, work: Callable[[Connection], Answer], *, repeat_duplicate: bool = False) -> Answer:
        """The same for work of several statements, which this makes one transaction.

        With `repeat_duplicate` it is repeated if it inserted a row that somebody else inserted at the same moment: it
        finds that row then.
        """

        def transaction(connection: Connection) -> Answer:
            with self.dialect.transaction(connection):
                return work(connection)

        try:
            return await self.write(transaction)
        except DuplicateRefused:
            if not repeat_duplicate:
                raise
            return await self.write(transaction)

    async def write_without_waiting(self, work: Callable[[Connection], Answer]) -> Answer:
        """Run a writing transaction that is not a commit of transitions and never waits for a lock."""
        return await self._started(self._reading if self.dialect.writing_threads else self._committing).run(work)

    async def drain_writing_without_waiting(self, *, patience_s: float) -> None:
        """Return when such transactions have ended, also those whose callers are gone, or after `patience_s`."""
        await self._started(self._reading if self.dialect.writing_threads else self._committing).drain(
            patience_s=patience_s
        )

    def write_blocking(self, work: Callable[[Connection], Answer], *, patience_s: float) -> Answer:
        """Do the same and wait for it in this thread, which must not be the event loop's."""
        threads = self._started(self._reading if self.dialect.writing_threads else self._committing)
        return threads.run_blocking(work, patience_s=patience_s)

    def ask_idle_writer(self, look: Callable[[Connection], Answer]) -> Answer | None:
        """Take a look of microseconds, which never waits, on the connection that commits; None while that is in use, or
        if there are several."""
        return self._started(self._committing).ask_idle(look)

    async def commit_without_thread(self, transitions: Sequence[Transition]) -> Outcome | None:
        """Commit transitions without parents or children on the event loop; None: they need a thread."""
        commits = self._async_commits
        return await commits.commit(transitions) if commits is not None and commits.takes(transitions) else None

    async def commit_transitions(self, work: Callable[[Connection], Answer], *, may_wait: bool) -> Answer:
        """Run a commit of transitions, apart from the others if it may wait for a lock. Raises LocksHeld at once."""
        return await self._started(self._families if may_wait else self._committing).run(work, lock_patience_s=0)

    def open_threads(self) -> None:
        """Create the threads; they connect on first use."""
        dialect = self.dialect
        self._reading = DatabaseThreads(dialect, count=dialect.reading_threads, commits=False, name="store-read")
        self._committing = DatabaseThreads(dialect, count=dialect.commit_threads, commits=True, name="store-commit")
        self._async_commits = dialect.async_commits(self._committing.outages)
        self._writing = self._families = self._committing
        if dialect.writing_threads:
            self._writing = DatabaseThreads(dialect, count=dialect.writing_threads, commits=False, name="store-write")
            self._families = DatabaseThreads(dialect, count=dialect.commit_threads, commits=True, name="store-families")

    def renew_threads(self) -> None:
        """Replace every connection before its next use."""
        for pool in self._all():
            pool.renew()

    async def close_threads(self, *, patience_s: float | None = None) -> None:
        """Finish the calls under way and disconnect; does nothing if nothing is open.

        Calls that take longer than `patience_s` are abandoned.
        """
        threads, commits = self._all(), self._async_commits
        self._reading = self._committing = self._writing = self._families = self._async_commits = None
        closing = [asyncio.to_thread(pool.close, patience_s=patience_s) for pool in threads]
        await asyncio.gather(*closing, *([commits.close(patience_s=patience_s)] if commits is not None else []))

    def _all(self) -> set[DatabaseThreads]:
        threads = (self._reading, self._committing, self._writing, self._families)
        return {pool for pool in threads if pool is not None}

    def _started(self, threads: DatabaseThreads | None) -> DatabaseThreads:
        if threads is None:
            raise DatabaseUnreachable(f"{self.dialect.target}: the store is not started, or has been stopped")
        return threads


class DatabaseThreads:
    """A few threads of one kind; `run` takes the next free one."""

    def __init__(self, dialect: Dialect, *, count: int, commits: bool, name: str) -> None:
        self._dialect = dialect
        self._commits = commits
        self._count = count
        self._engine: Engine = dialect.engine(commits=commits)
        self._threads = ThreadPoolExecutor(max_workers=count, thread_name_prefix=f"anabranch-{name}")
        self._own = threading.local()
        self._open: set[Connection] = set()
        self._awaited: dict[Future[None], asyncio.Future[Any]] = {}
        """The answers that event loops wait for, by the call in the thread."""
        self._is_abandoned = False
        """It was closed while calls were under way."""
        self._in_use = threading.Lock() if count == 1 else None
        """Held by the only thread while it uses its connection."""
        self.outages = Outages()

    async def run(
        self,
        work: Callable[[Connection], Answer],
        *,
        reads_only: bool = False,
        lock_patience_s: float | None = None,
    ) -> Answer:
        """Call `work` in a thread with its connection and return the result.

        Work that only reads is repeated on a new connection if the old one is broken. While another session holds a
        lock, the connection is returned between retries. Raises StoreUnavailable (outcome unknown), LocksHeld or
        DataRefused (nothing happened).
        """
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + (LOCK_PATIENCE_S if lock_patience_s is None else lock_patience_s)
        pause_s = LOCK_PAUSE_FIRST_S
        while True:
            try:
                return await self._called_in_thread(loop, work, reads_only=reads_only)
            except LocksHeld:
                if loop.time() + pause_s > give_up_at:
                    raise
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, LOCK_PAUSE_LAST_S)

    async def _called_in_thread(
        self, loop: asyncio.AbstractEventLoop, work: Callable[[Connection], Answer], *, reads_only: bool
    ) -> Answer:
        # Not `run_in_executor`: it chains two futures with locks of their own, which costs a run alone a third of the
        # way to the thread and back.
        answer: asyncio.Future[Answer] = loop.create_future()
        call = self._threads.submit(self._attempt_for, loop, [(answer, work)], reads_only)
        self._awaited[call] = answer
        try:
            if self._is_abandoned and call.cancelled():
                answer.cancel()  # `close` has looked for awaited calls before it could find this one
            return await answer
        except asyncio.CancelledError:
            call.cancel()  # if it has not begun; otherwise it ends unheeded
            raise
        finally:
            del self._awaited[call]
            del answer  # a failure refers to this frame: together they would stay until the next collection

    def _attempt_for(
        self,
        loop: asyncio.AbstractEventLoop,
        given: list[tuple[asyncio.Future[Answer], Callable[[Connection], Answer]]],
        reads_only: bool,  # noqa: FBT001 -- threads are given positions
    ) -> None:
        answer, work = given.pop()  # a failure refers to the frames of this thread, and these to what they were given
        try:
            returned = self._attempt(work, reads_only)
        except BaseException as failure:  # noqa: BLE001 -- the awaiting caller gets it
            loop.call_soon_threadsafe(_fail, answer, failure)
        else:
            loop.call_soon_threadsafe(_answer, answer, returned)
        finally:
            del answer, work

    def run_blocking(self, work: Callable[[Connection], Answer], *, patience_s: float) -> Answer:
        """The same for a caller in a thread without event loop.

        Raises like `run`, and StoreUnavailable without a result within `patience_s`; `work` may then still happen.
        """
        answer = self._threads.submit(self._attempt, work, False)
        try:
            return answer.result(patience_s)
        except TimeoutError:
            answer.cancel()
            raise DatabaseUnreachable(f"{self._dialect.target}: no answer within {patience_s:.1f} s") from None

    def ask_idle(self, look: Callable[[Connection], Answer]) -> Answer | None:
        """Take a look on the connection of the only thread, from another one; None if it is in use or to be replaced.

        The thread waits meanwhile.
        """
        if self._in_use is None or not self._in_use.acquire(blocking=False):
            return None
        try:
            connection = next(iter(self._open), None)
            return None if connection is None or connection.invalidated else look(connection)
        finally:
            self._in_use.release()

    async def drain(self, *, patience_s: float) -> None:
        """Return when the calls under way have ended, also those whose callers are gone, or after `patience_s`."""
        together = threading.Barrier(self._count)

        def meet() -> None:
            """Every thread comes here after what it was given before."""
            with suppress(threading.BrokenBarrierError):
                together.wait(patience_s)

        meetings = [asyncio.wrap_future(self._threads.submit(meet)) for _ in range(self._count)]
        await asyncio.wait(meetings, timeout=patience_s)

    def renew(self) -> None:
        """Make every thread replace its connection before the next use."""
        self.outages.count += 1

    def close(self, *, patience_s: float | None = None) -> None:
        """Wait for the calls under way, then close the connections. Blocks; may be called twice.

        Calls that take longer than `patience_s` are abandoned and their connections severed.
        """
        ending = threading.Thread(target=self._threads.shutdown, daemon=True, name="anabranch-threads-end")
        ending.start()
        ending.join(patience_s)
        if ending.is_alive():
            self._is_abandoned = True
            self._threads.shutdown(wait=False, cancel_futures=True)
            for call, answer in list(self._awaited.items()):
                if call.cancelled():
                    answer.get_loop().call_soon_threadsafe(answer.cancel)
            for connection in list(self._open):
                self._dialect.sever(connection)
            return
        while self._open:
            self._open.pop().close()
        self._engine.dispose()

    def _attempt(self, work: Callable[[Connection], Answer], reads_only: bool) -> Answer:  # noqa: FBT001
        if self._in_use is None:
            return self._attempt_alone(work, reads_only=reads_only)
        with self._in_use:
            return self._attempt_alone(work, reads_only=reads_only)

    def _attempt_alone(self, work: Callable[[Connection], Answer], *, reads_only: bool) -> Answer:
        attempts_left = ATTEMPTS_MAX
        while True:
            attempts_left -= 1
            may_be_stale = reads_only and getattr(self._own, "connection", None) is not None
            try:
                connection = self._connection()
                with self._dialect.whole(connection, commits=self._commits):
                    return work(connection)
            except DBAPIError as error:
                verdict = verdict_on(error, self._dialect, attempts_left=attempts_left, may_be_stale=may_be_stale)
                if verdict.is_lost:
                    self._drop_connections()
                if verdict.raised is error:
                    raise
                if verdict.raised is not None:
                    raise verdict.raised from error
            except StatementError:
                raise  # a statement or value that never reached the driver: a programming error
            except SQLAlchemyError as error:
                # Not an error of the database: the state of the connection is unknown.
                self._close_own()
                raise DatabaseUnreachable(self._dialect.describe(error)) from error

    def _connection(self) -> Connection:
        connection: Connection | None = getattr(self._own, "connection", None)
        if connection is not None and (connection.invalidated or self._own.outage != self.outages.count):
            self._close_own()
            connection = None
        if connection is None:
            connection = self._engine.connect()
            self._own.connection = connection
            self._own.outage = self.outages.count
            self._open.add(connection)
        return connection

    def _drop_connections(self) -> None:
        """Replace our connection, and make the other threads replace theirs before the next use.

        A server that stopped has closed all of them; without this each would fail once.
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


def _answer(awaited: asyncio.Future[Answer], returned: Answer) -> None:
    if not awaited.done():  # else its caller was cancelled
        awaited.set_result(returned)


def _fail(awaited: asyncio.Future[Answer], failure: BaseException) -> None:
    if not awaited.done():
        awaited.set_exception(failure)


@dataclass(frozen=True, slots=True)
class ErrorVerdict:
    """The meaning of a driver's error for a call."""

    raised: Exception | None
    """The error for the caller; None: retry."""
    is_lost: bool
    """Whether its connection and those beside it must be replaced."""


def verdict_on(error: Exception, dialect: Dialect, *, attempts_left: int, may_be_stale: bool = False) -> ErrorVerdict:
    """`may_be_stale`: a connection that turns out to be broken only means that it has not been used for a while."""
    kind = dialect.error_kind_of(error)
    raised: Exception | None = None
    if kind is DatabaseErrorKind.BUG:
        raised = error
    elif kind is DatabaseErrorKind.REFUSED:
        refusal = DuplicateRefused if dialect.is_duplicate(error) else DataRefused
        raised = refusal(dialect.describe(error))
    elif kind is DatabaseErrorKind.LOCKED:
        raised = LocksHeld(dialect.describe(error))
    elif not attempts_left or (kind is DatabaseErrorKind.UNAVAILABLE and not may_be_stale):
        raised = DatabaseUnreachable(dialect.describe(error))
    return ErrorVerdict(raised, is_lost=kind in (DatabaseErrorKind.UNAVAILABLE, DatabaseErrorKind.STALE))


class CommitProgress:
    """Times of the commits of one store (monotonic seconds)."""

    def __init__(self) -> None:
        self._began: dict[object, float] = {}
        """The commits under way, oldest first."""
        self._answered_at = 0.0
        self._failure: tuple[float, str] | None = None
        """When a commit failed, and why; None once another one was answered."""

    @contextmanager
    def under_way(self) -> Iterator[None]:
        """A context around a commit."""
        commit = object()
        self._began[commit] = time.monotonic()
        try:
            yield
            self._answered_at = time.monotonic()
            self._failure = None
        except StoreUnavailable as failure:
            self._failure = (time.monotonic(), str(failure.as_answer()["message"]))
            raise
        finally:
            del self._began[commit]

    def stuck(self) -> str | None:
        """Why commits fail, without internals; None if they succeed."""
        now = time.monotonic()
        if self._failure is not None and now - self._failure[0] < FAILURE_COUNTS_S:
            return f"the last commit failed: {self._failure[1]}"
        oldest = next(iter(self._began.values()), now)
        if now - oldest > SLOW_AFTER_S and now - self._answered_at > SLOW_AFTER_S:
            return f"a commit has been under way for {now - oldest:.0f} s"
        return None


@contextmanager
def transaction(
    connection: Connection,
    begin: str,
    *,
    driver_error: type[Exception],
    execute: Callable[[str], object] | None = None,
) -> Iterator[None]:
    """A context that commits what was executed in it, or rolls back if it raises.

    `execute` is the connection's `exec_driver_sql`, or the driver's own method, which is faster; its errors are raw.
    """
    execute = execute or connection.exec_driver_sql
    execute(begin)
    try:
        yield
        execute("COMMIT")
    except BaseException:
        _roll_back(connection, driver_error)
        raise


def _roll_back(connection: Connection, driver_error: type[Exception]) -> None:
    """Roll back. A connection that cannot is discarded, which also rolls back."""
    if connection.invalidated:
        return
    driver = connection.connection.driver_connection
    assert driver is not None, "a connection that is in use has its driver's"
    try:
        driver.rollback()
    except driver_error:  # the original error is raised
        connection.invalidate()

"""Execute a query in a thread, with a pooled connection, and release it in time.

Called by `QueryEngine` only. A pool belongs to one source of one tenant, so session state never reaches another tenant.
Between two queries of one tenant the session is reset. A caller may be cancelled at any moment: then the query is
interrupted and its process killed.
"""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import field

from anabranch.dataclass import dataclass
from anabranch.queries.limits import Limits
from anabranch.queries.query_faults import timed_out
from anabranch.queries.query_results import QueryResult
from anabranch.queries.query_session import QueryExecution, QuerySession

# 32 queries at once in one process: half of what a worker executes at once; threads wait, they do not work.
THREADS_MAX = 32

# 1.5 s more than a query's own timeout, so that the database can report it.
_GRACE_MS = 1_500

Opening = Callable[[], QuerySession]


@dataclass(slots=True, eq=False)
class _Pool:
    slots: asyncio.Semaphore
    idle: list[QuerySession] = field(default_factory=list)
    users: int = 0
    is_closed: bool = False
    closing: asyncio.TimerHandle | None = None


class _Job:
    """One execution in its thread; `stop` may be called from outside at any time."""

    def __init__(self, opening: Opening, work: QueryExecution | None, session: QuerySession | None) -> None:
        """Without `work` it only checks the source."""
        self._opening = opening
        self._work = work
        self._lock = threading.Lock()
        self._stopped = False
        self.session = session

    def run(self) -> QueryResult:
        """The answer; `session` is then one that may be used again, or None."""
        session = self.session
        if session is None and not self._stopped:
            session = self._opening()
        with self._lock:
            self.session = session
            stopped = self._stopped
        try:
            if stopped or session is None:  # while it waited for a thread, or for a name to be resolved
                raise timed_out(0 if self._work is None else self._work.timeout_ms)
            if self._work is not None:
                return session.run(self._work)
            session.check()
            return QueryResult([], 0)
        finally:
            if session is not None and (self._stopped or not session.is_reusable):
                with self._lock:
                    self.session = None
                session.close()

    def stop(self) -> None:
        """End the query."""
        with self._lock:
            self._stopped = True
            if self.session is not None:
                self.session.interrupt()


class Executions:
    """Pools of connections, by source, and the threads that use them."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._threads = ThreadPoolExecutor(max_workers=THREADS_MAX, thread_name_prefix="anabranch-query")
        self._pools: dict[str, _Pool] = {}
        # A query waits for a thread here, where the time of the query does not run yet.
        self._free_threads = asyncio.Semaphore(THREADS_MAX)
        self._under_way: dict[_Job, asyncio.Future[QueryResult]] = {}

    async def run(self, key: str, opening: Opening, work: QueryExecution) -> QueryResult:
        """The answer of one query. `key` names the source as it is now: a changed URL is another key."""
        pool = self._pools.setdefault(key, _Pool(asyncio.Semaphore(self._limits.connections_per_source)))
        pool.users += 1
        if pool.closing is not None:
            pool.closing.cancel()
            pool.closing = None
        try:
            async with pool.slots:
                await self._free_threads.acquire()  # given back by the thread's end, which may come after ours
                job = _Job(opening, work, pool.idle.pop() if pool.idle else None)
                return await self._run(pool, job, self._limits.connect_timeout_ms, timeout_ms=work.timeout_ms)
        finally:
            pool.users -= 1
            if pool.users == 0:
                later = asyncio.get_running_loop().call_later
                pool.closing = later(self._limits.idle_close_ms / 1000, self._close, key, pool)

    async def check(self, opening: Opening) -> None:
        """Connect once, and refuse what is not for queries. Raises NodeFailure."""
        await self._free_threads.acquire()
        alone = _Pool(asyncio.Semaphore(1), is_closed=True)
        await self._run(alone, _Job(opening, None, None), self._limits.check_timeout_ms, timeout_ms=0)

    async def stop(self, *, patience_s: float = math.inf) -> None:
        """Interrupt what runs and close every connection; may be called twice. Waits no longer than a limit, either."""
        for job in list(self._under_way):
            job.stop()
        for key, pool in list(self._pools.items()):
            self._close(key, pool)
        if self._under_way:
            limit_s = self._limits.stop_wait_ms / 1000
            await asyncio.wait(list(self._under_way.values()), timeout=min(patience_s, limit_s))
        # A thread that does not react to the interruption in time is abandoned.
        is_quiet = all(future.done() for future in self._under_way.values())
        await asyncio.to_thread(self._threads.shutdown, wait=is_quiet)

    def connections_open(self) -> int:
        """How many connections are kept for later: for tests and health."""
        return sum(len(pool.idle) for pool in self._pools.values())

    async def _run(self, pool: _Pool, job: _Job, connect_timeout_ms: int, *, timeout_ms: int) -> QueryResult:
        loop = asyncio.get_running_loop()
        future = loop.run_in_executor(self._threads, job.run)
        self._under_way[job] = future

        def done(_: asyncio.Future[QueryResult]) -> None:
            """Free the thread, and keep the session for the next query or close it."""
            self._under_way.pop(job, None)
            self._free_threads.release()
            if not future.cancelled():
                future.exception()  # retrieved here, because it may not be awaited any more
            if job.session is not None and pool.is_closed:
                self._let_go(job.session)
            elif job.session is not None:
                pool.idle.append(job.session)
                if self.connections_open() > self._limits.connections_idle_max:
                    oldest = next(each for each in self._pools.values() if each.idle)
                    self._let_go(oldest.idle.pop(0))

        future.add_done_callback(done)
        bound_ms = timeout_ms + connect_timeout_ms + _GRACE_MS
        try:
            async with asyncio.timeout(bound_ms / 1000):
                return await asyncio.shield(future)
        except TimeoutError:
            job.stop()
            raise timed_out(timeout_ms or connect_timeout_ms) from None
        except asyncio.CancelledError:
            job.stop()
            raise

    def _close(self, key: str, pool: _Pool) -> None:
        if self._pools.get(key) is pool:
            del self._pools[key]
        if pool.closing is not None:
            pool.closing.cancel()
        pool.is_closed = True
        while pool.idle:
            self._let_go(pool.idle.pop())

    def _let_go(self, session: QuerySession) -> None:
        """Close it in a thread: it waits until its process is gone."""
        try:
            self._threads.submit(session.close)
        except RuntimeError:  # the threads have been stopped
            session.close()

"""Running a query in a thread, with a connection from a pool, and letting go of it in time.

Called by `QueryEngine` alone. A pool belongs to one source of one tenant, so a session's state can
never reach another tenant; between two queries of one tenant the session is made as new. Whoever
waits here may be cancelled at any moment: then the query is interrupted and its connection dropped.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from anabranch.errors import NodeFailure
from anabranch.queries.answers import Answer
from anabranch.queries.faults import timed_out
from anabranch.queries.limits import Limits
from anabranch.queries.session import Session, Work

# 32 queries at once in one process: half of what a worker executes at once; threads wait, they do not work.
THREADS_MAX = 32

# 1.5 s beyond a query's own timeout: time for the database to say so itself.
_GRACE_MS = 1_500

Opening = Callable[[], Session]


@dataclass(slots=True, eq=False)
class _Pool:
    slots: asyncio.Semaphore
    idle: list[Session] = field(default_factory=list)
    users: int = 0
    is_closed: bool = False
    closing: asyncio.TimerHandle | None = None


class _Job:
    """One execution in its thread; `stop` may be called from outside at any time."""

    def __init__(self, opening: Opening, work: Work, session: Session | None) -> None:
        self._opening = opening
        self._work = work
        self._lock = threading.Lock()
        self._stopped = False
        self._is_used = session is not None
        self.session = session

    def run(self) -> Answer:
        """The answer; `session` is then one that may be used again, or None."""
        try:
            answer = self._first_or_second_try()
        except NodeFailure:
            self._settle(reusable=True)  # a query that fails leaves the connection whole; one that is not says so
            raise
        except BaseException:
            self._settle(reusable=False)
            raise
        self._settle(reusable=True)
        return answer

    def stop(self) -> None:
        """End it, whatever it is doing."""
        with self._lock:
            self._stopped = True
            if self.session is not None:
                self.session.interrupt()

    def _first_or_second_try(self) -> Answer:
        if self._stopped:  # while it waited for a thread
            raise timed_out(self._work.timeout_ms)
        if self._is_used and self.session is not None:
            try:
                return self.session.run(self._work)
            except NodeFailure as failure:
                # The server closed the connection while nobody looked. What only reads is asked again.
                if failure.type_name != "SourceUnreachable" or self._work.writes or self._stopped:
                    raise
                self.session.close()
        session = self._opening()
        with self._lock:
            self.session = session
            if self._stopped:
                raise timed_out(self._work.timeout_ms)
        return session.run(self._work)

    def _settle(self, *, reusable: bool) -> None:
        session = self.session
        if session is None or (reusable and not self._stopped and session.reset()):
            return
        with self._lock:
            self.session = None
        session.close()


class Executions:
    """Pools of connections, by source, and the threads that use them."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._threads = ThreadPoolExecutor(max_workers=THREADS_MAX, thread_name_prefix="anabranch-query")
        self._pools: dict[str, _Pool] = {}
        # Whoever waits for a thread waits here, where the time of the query does not run yet.
        self._free_threads = asyncio.Semaphore(THREADS_MAX)
        self._under_way: dict[_Job, asyncio.Future[Answer]] = {}

    async def run(self, key: str, opening: Opening, work: Work) -> Answer:
        """The answer of one query. `key` names the source as it is now: a changed URL is another key."""
        pool = self._pools.setdefault(key, _Pool(asyncio.Semaphore(self._limits.connections_per_source)))
        pool.users += 1
        if pool.closing is not None:
            pool.closing.cancel()
            pool.closing = None
        try:
            async with pool.slots:
                await self._free_threads.acquire()  # given back by the thread's end, which may come after ours
                return await self._run(pool, _Job(opening, work, pool.idle.pop() if pool.idle else None), work)
        finally:
            pool.users -= 1
            if pool.users == 0:
                later = asyncio.get_running_loop().call_later
                pool.closing = later(self._limits.idle_close_ms / 1000, self._close, key, pool)

    async def stop(self) -> None:
        """Interrupt what runs and close every connection; may be called twice."""
        for job in list(self._under_way):
            job.stop()
        for key, pool in list(self._pools.items()):
            self._close(key, pool)
        if self._under_way:
            await asyncio.wait(list(self._under_way.values()), timeout=self._limits.stop_wait_ms / 1000)
        # A thread that has not noticed the interruption in time is left behind.
        is_quiet = all(future.done() for future in self._under_way.values())
        await asyncio.to_thread(self._threads.shutdown, wait=is_quiet, cancel_futures=True)

    def connections_open(self) -> int:
        """How many connections are kept for later: for tests and health."""
        return sum(len(pool.idle) for pool in self._pools.values())

    async def _run(self, pool: _Pool, job: _Job, work: Work) -> Answer:
        loop = asyncio.get_running_loop()
        future = loop.run_in_executor(self._threads, job.run)
        self._under_way[job] = future

        def done(_: asyncio.Future[Answer]) -> None:
            self._under_way.pop(job, None)
            self._free_threads.release()
            if not future.cancelled():
                future.exception()  # looked at: nobody may be left to do so
            if job.session is not None and pool.is_closed:
                job.session.close()
            elif job.session is not None:
                pool.idle.append(job.session)

        future.add_done_callback(done)
        bound_ms = work.timeout_ms + work.limits.connect_timeout_ms + _GRACE_MS
        try:
            async with asyncio.timeout(bound_ms / 1000):
                return await asyncio.shield(future)
        except TimeoutError:
            job.stop()
            raise timed_out(work.timeout_ms) from None
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
            pool.idle.pop().close()

"""Wait for the end of a run (`?wait=30s`), until it has ended or the time is over.

Called by the REST API, and by programs and commands with an open database. A waiter wakes up when this process commits
the end, when another process sends a hint, or at the next poll of the versions of all awaited runs (one statement):
when the database shows a commit, and every half second.
The number of waiting requests is limited. A process that stops wakes all waiters. A waiter whose client has
disconnected is dropped at the next poll.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import field

from anabranch.dataclass import dataclass
from anabranch.engine.lifecycle import Engine
from anabranch.engine.periodic_poller import Poller
from anabranch.engine.rules.events import Event, Status
from anabranch.engine.rules.responses import first_output
from anabranch.engine.rules.stimuli import ChildEnded
from anabranch.engine.rules.values import Payload
from anabranch.errors import ShuttingDown, StoreUnavailable

# 60 s: the default timeout of proxies and clients. To wait longer, repeat the request.
WAIT_S_MAX = 60.0

# 1,000 waiting requests, each with its connection and a few kilobytes; one tenant may have half of them. Beyond that a
# request is answered at once.
WAITERS_MAX = 1_000
WAITERS_OF_TENANT_MAX = 500

# 500 ms, as for all changes by other processes. The first polls come sooner, 20 ms after a wait began and then after
# twice as long each time, because many runs end quickly, before other processes know about the wait.
LOOK_MS = 500
FIRST_LOOK_MS = 20


@dataclass(frozen=True, slots=True)
class RunResponse:
    """The end or the first response of a run, as far as known."""

    response: Payload | None
    """The output of the node that responds; None: the run has ended without one."""
    end: ChildEnded | None


@dataclass(slots=True, eq=False)
class _Waiter:
    is_gone: Callable[[], bool]
    exists: bool = False
    """Whether the waiter has found its run."""
    end: ChildEnded | None = None
    """How it ended."""
    responding: frozenset[str] = frozenset()
    """Nodes whose first output is awaited, too."""
    response: Payload | None = None
    """That output."""
    woken: asyncio.Event = field(default_factory=asyncio.Event)

    def see(self, events: Iterable[Event]) -> bool:
        """Take the first awaited output among these rows; whether there is one."""
        output = first_output(events, self.responding)
        if output is not None and self.response is None:
            self.response = output
        return output is not None


class RunWaits:
    """The waiters of one process."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._waiters: defaultdict[str, set[_Waiter]] = defaultdict(set)
        """By the id of the run."""
        self._of_tenant: Counter[str] = Counter()
        self._looking = Poller(
            self.look,
            name="looking at awaited runs",
            every_ms=self._pause_ms,
            retry_last_ms=LOOK_MS,
            sleep=engine.clock.sleep,
        )
        self._look_in_ms = FIRST_LOOK_MS
        self._stopping = self._subscribed = False

    async def until_ended(
        self, instance_id: str, *, tenant_id: str, wait_s: float, is_gone: Callable[[], bool]
    ) -> bool:
        """Return when the run has ended or does not exist, `wait_s` is over, the client `is_gone`, or the process
        stops.

        Returns False at once if the limit of waiters is reached. The caller then reads the run.
        """
        if self._is_full(tenant_id):
            return False
        with suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                await self._wait(instance_id, tenant_id, is_gone)
        return True

    async def ended(self, instance_id: str, *, tenant_id: str, timeout_s: float | None = None) -> ChildEnded | None:
        """Return how the run has ended, or None if it does not exist, for a caller in this process.

        The run is read at least once, however short the time is. Raises ShuttingDown, TimeoutError.
        """
        waiter = await self._wait(instance_id, tenant_id, lambda: False, timeout_s=timeout_s)
        if self._stopping:
            raise ShuttingDown(f"this process stops and no longer waits for run {instance_id}", hint="The run goes on.")
        return waiter.end

    async def responded(
        self, instance_id: str, node_ids: Collection[str], *, tenant_id: str, wait_s: float, is_gone: Callable[[], bool]
    ) -> RunResponse | None:
        """Return the first output of these nodes, or the end of the run, whichever comes first.

        Returns None when the time is over, the client `is_gone`, the process stops, or too many requests wait.
        """
        if self._is_full(tenant_id):
            return None
        waiter: _Waiter | None = None
        with suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                waiter = await self._wait(instance_id, tenant_id, is_gone, responding=frozenset(node_ids))
        if waiter is None or (waiter.response is None and waiter.end is None):
            return None
        return RunResponse(waiter.response, waiter.end)

    def release(self) -> None:
        """Wake all waiters and accept no new ones: the process is stopping."""
        self._stopping = True
        self._wake(list(self._waiters))

    async def stop(self) -> None:
        """Do the same and stop polling; may be called twice."""
        self.release()
        await self._looking.stop()

    @property
    def waiters_count(self) -> int:
        """The number of waiting requests."""
        return self._of_tenant.total()

    # -- news -----------------------------------------------------------------------------
    def committed(self, instance_id: str, events: Sequence[Event], status: Status) -> None:
        """Observe the engine: what this process commits."""
        for waiter in self._waiters.get(instance_id, ()):
            if waiter.responding and waiter.see(events):
                waiter.woken.set()
        if status.is_terminal:
            self._wake([instance_id])

    def changed(self, instance_id: str, *, ended: bool) -> None:
        """Another process may have written to this run."""
        for waiter in self._waiters.get(instance_id, ()):
            if ended or waiter.responding:
                waiter.woken.set()

    def moved(self, *, ends_are_known: bool) -> None:
        """Other processes may have written to any run."""
        if not ends_are_known:
            self._looking.soon()

    async def look(self) -> None:
        """Wake the waiters of runs that other processes changed, and those whose clients disconnected.

        Raises StoreUnavailable.
        """
        for waiters in self._waiters.values():
            for waiter in waiters:
                if waiter.is_gone():
                    waiter.woken.set()
        # Who has not read yet will do so anyway.
        waiting = [each for each, those in self._waiters.items() if any(one.exists for one in those)]
        elsewhere = [each for each in waiting if not self._engine.orchestrator.owns(each)]
        if not elsewhere:
            return
        for end in await self._engine.store.ended_children(elsewhere):
            for waiter in self._waiters.get(end.child_id, ()):
                if not waiter.responding:
                    waiter.end = end
                    waiter.woken.set()
        for instance_id in elsewhere:
            for waiter in self._waiters.get(instance_id, ()):
                if waiter.responding:
                    waiter.woken.set()  # it reads by itself

    # -- within ---------------------------------------------------------------------------
    async def _wait(
        self,
        instance_id: str,
        tenant_id: str,
        is_gone: Callable[[], bool],
        *,
        timeout_s: float | None = None,
        responding: frozenset[str] = frozenset(),
    ) -> _Waiter:
        """The waiter, with what it found."""
        until = None if timeout_s is None else asyncio.get_running_loop().time() + timeout_s
        await self._begin_looking()
        waiter = self._enter(instance_id, tenant_id, _Waiter(is_gone, responding=responding))
        try:
            is_over = await self._is_over(waiter, instance_id, tenant_id)
            async with asyncio.timeout_at(until):
                while not is_over:
                    await waiter.woken.wait()
                    is_over = await self._is_over(waiter, instance_id, tenant_id)
        finally:
            self._leave(waiter, instance_id, tenant_id)
        return waiter

    async def _is_over(self, waiter: _Waiter, instance_id: str, tenant_id: str) -> bool:
        waiter.woken.clear()  # before reading: later changes wake it again
        if self._stopping or waiter.is_gone() or waiter.end is not None or waiter.response is not None:
            return True
        store = self._engine.store
        try:
            if not waiter.exists:
                row = await store.get_instance(instance_id, tenant_id=tenant_id)
                if row is None:
                    return True
                waiter.exists = True
                if not row.status.is_terminal and not waiter.responding:
                    return False
            ends = await store.ended_children([instance_id])
            if waiter.responding:
                # Read after the end: a response is written before it.
                waiter.see(await store.read_outputs(instance_id, sorted(waiter.responding), all_scopes=True))
            for end in ends:
                waiter.end = end
        except StoreUnavailable:
            return False  # the database may be back in time; keep polling
        return waiter.end is not None or waiter.response is not None

    async def _begin_looking(self) -> None:
        if not self._subscribed and not self._stopping:
            self._subscribed = True
            self._engine.observers.add(self)
            self._engine.hints.subscribe(self)
            await self._looking.start()

    def _enter(self, instance_id: str, tenant_id: str, waiter: _Waiter) -> _Waiter:
        if not self._waiters:
            self._looking.soon()  # it pauses while there are no waiters
        self._look_in_ms = FIRST_LOOK_MS
        if instance_id not in self._waiters:
            self._engine.hints.watch(instance_id, end_only=True)
        self._waiters[instance_id].add(waiter)
        self._of_tenant[tenant_id] += 1
        return waiter

    def _leave(self, waiter: _Waiter, instance_id: str, tenant_id: str) -> None:
        self._of_tenant[tenant_id] -= 1
        if not self._of_tenant[tenant_id]:
            del self._of_tenant[tenant_id]
        self._waiters[instance_id].discard(waiter)
        if not self._waiters[instance_id]:
            del self._waiters[instance_id]
            self._engine.hints.unwatch(instance_id, end_only=True)

    def _wake(self, instance_ids: Sequence[str]) -> None:
        for instance_id in instance_ids:
            for waiter in self._waiters.get(instance_id, ()):
                waiter.woken.set()

    def _pause_ms(self) -> int | None:
        """The pause until the next look; None without waiters."""
        if not self._waiters:
            return None
        pause_ms = self._look_in_ms
        self._look_in_ms = min(2 * self._look_in_ms, LOOK_MS)
        return pause_ms

    def _is_full(self, tenant_id: str) -> bool:
        return self._of_tenant.total() >= WAITERS_MAX or self._of_tenant[tenant_id] >= WAITERS_OF_TENANT_MAX

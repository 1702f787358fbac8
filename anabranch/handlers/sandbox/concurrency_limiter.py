"""Limit concurrent executions, fairly among tenants.

Called by the sandbox. Tenants take turns, however many jobs each has waiting. No tenant may use all slots, so that
others never wait for its timeouts. The engine's queue asks `has_capacity` and `admits` first and keeps jobs that would
have to wait; other callers wait here.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager


class ConcurrencyLimiter:
    """Lets `slots` in at once, `slots_per_tenant` of one tenant."""

    def __init__(self, *, slots: int, slots_per_tenant: int) -> None:
        self._slots = slots
        self._slots_per_tenant = slots_per_tenant
        self._inside: Counter[str] = Counter()
        # Tenants in the order in which they are asked next; each with those of it that wait.
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        self._on_leave: list[Callable[[], None]] = []

    @property
    def inside(self) -> int:
        """How many are in."""
        return self._inside.total()

    @property
    def waiting(self) -> int:
        """How many wait."""
        return sum(len(queue) for queue in self._waiting.values())

    @property
    def has_capacity(self) -> bool:
        """Whether there is a free slot."""
        return self.inside < self._slots

    def admits(self, tenant_id: str) -> bool:
        """Whether a job of this tenant would be admitted at once."""
        return self.has_capacity and self._inside[tenant_id] < self._slots_per_tenant

    def subscribe(self, left: Callable[[], None]) -> None:
        """Call this whenever a slot has become free."""
        self._on_leave.append(left)

    @asynccontextmanager
    async def slot(self, tenant_id: str) -> AsyncIterator[None]:
        """A context that holds a slot."""
        await self._enter(tenant_id)
        try:
            yield
        finally:
            self._leave(tenant_id)

    async def _enter(self, tenant_id: str) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(tenant_id, deque()).append(turn)
        self._admit()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._leave(tenant_id)  # admitted and stopped at the same moment
            else:
                self._forget(tenant_id, turn)
            raise

    def _leave(self, tenant_id: str) -> None:
        self._inside[tenant_id] -= 1
        if not self._inside[tenant_id]:
            del self._inside[tenant_id]
        self._admit()
        for left in self._on_leave:
            left()

    def _admit(self) -> None:
        while self.has_capacity:
            tenant_id = self._next_tenant()
            if tenant_id is None:
                return
            queue = self._waiting.pop(tenant_id)
            turn = queue.popleft()
            if queue:
                self._waiting[tenant_id] = queue  # at the end: the others come first now
            if not turn.done():
                self._inside[tenant_id] += 1
                turn.set_result(None)

    def _next_tenant(self) -> str | None:
        return next((each for each in self._waiting if self._inside[each] < self._slots_per_tenant), None)

    def _forget(self, tenant_id: str, turn: asyncio.Future[None]) -> None:
        queue = self._waiting.get(tenant_id)
        if queue is not None and turn in queue:
            queue.remove(turn)
            if not queue:
                del self._waiting[tenant_id]

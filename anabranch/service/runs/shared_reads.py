"""Shared reads: concurrent callers of the same read share one query.

Called by the service to read a version of a workflow: a thousand starts at once cost a few reads. Each caller gets the
result of a read that began after its call, so no caller gets a version that was replaced before its call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class SharedReads(Generic[Key, Value]):
    """Calls `read(key)` once for all callers that arrive while an earlier read of that key is running."""

    def __init__(self, read: Callable[[Key], Awaitable[Value]]) -> None:
        self._read = read
        self._under_way: dict[Key, asyncio.Task[Value]] = {}
        self._next: dict[Key, asyncio.Task[Value]] = {}
        """The next read, shared by all callers until it begins."""

    async def get(self, key: Key) -> Value:
        """Return the value from a read that begins after this call. Raises what `read` raises."""
        # Shielded: a caller that is cancelled must not cancel the read of the others.
        return await asyncio.shield(self._task_for(key))

    def _task_for(self, key: Key) -> asyncio.Task[Value]:
        under_way = self._under_way.get(key)
        if under_way is None:
            task = self._under_way[key] = asyncio.create_task(self._read_once(key))
            return task
        if key not in self._next:
            self._next[key] = asyncio.create_task(self._read_after(key, under_way))
        return self._next[key]

    async def _read_after(self, key: Key, earlier: asyncio.Task[Value]) -> Value:
        await asyncio.wait([earlier])
        self._under_way[key] = self._next.pop(key)
        return await self._read_once(key)

    async def _read_once(self, key: Key) -> Value:
        try:
            return await self._read(key)
        finally:
            if self._under_way.get(key) is asyncio.current_task():
                del self._under_way[key]

"""Checks that may take long: whole workflows, and large inputs under an `inputSchema`.

Called by the other modules of the service. They run in two threads that nothing else uses, one at a time for each
tenant, so that neither the event loop nor another tenant waits for them. `engine.rules` bounds the cost of each
check; this module bounds how many may wait.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import field
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from anabranch.dataclass import dataclass
from anabranch.deferred import deferred
from anabranch.errors import TooManyChecks

if TYPE_CHECKING:
    from anabranch.engine.rules.schema import json_schema
else:
    json_schema = deferred("anabranch.engine.rules.schema.json_schema")

# 2 threads: checks are pure Python, so more would only take turns, and take them from the event loop.
THREADS = 2

# 64 of one tenant may wait: each takes a second at worst, so the last one is answered within a minute.
WAITING_MAX = 64

# 500 steps, a millisecond or two: most inputs are checked in less, and a thread would cost them as much again.
INLINE_STEPS = 500

# 256 compiled schemas: a few megabytes.
SCHEMAS_KEPT_MAX = 256

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(slots=True)
class _Queue:
    """The checks of one tenant."""

    transition: asyncio.Lock = field(default_factory=asyncio.Lock)
    size: int = 0


class Checks:
    """Runs checks, fairly."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="anabranch-checks")
        self._queues: dict[str, _Queue] = {}
        self._schemas: OrderedDict[int, tuple[Mapping[str, Any], json_schema.ValueSchema]] = OrderedDict()

    async def run(self, tenant_id: str, check: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run `check` when its turn comes, and return its result. Raises TooManyChecks, and what `check` raises."""
        return await self._run(tenant_id, lambda: check(*args, **kwargs), bounded=True)

    async def input_problems(
        self, tenant_id: str, schema: Mapping[str, Any], value: Any, *, bounded: bool = True
    ) -> list[tuple[str, str]]:
        """(JSON pointer, message) for each problem of a value; empty if it is valid.

        Raises TooManyChecks; unless `bounded` is false, for work that is under way and not refused halfway.
        """
        quick = self._ready(schema).problems_within(value, INLINE_STEPS)
        if quick is not None:
            return quick
        # With a schema of its own: one that is made ready counts the steps of one check at a time.
        return await self._run(tenant_id, lambda: json_schema.ValueSchema(schema).problems(value), bounded=bounded)

    async def _run(self, tenant_id: str, check: Callable[[], T], *, bounded: bool) -> T:
        queue = self._queues.setdefault(tenant_id, _Queue())
        if bounded and queue.size > WAITING_MAX:
            raise TooManyChecks(f"{WAITING_MAX} checks of this tenant are waiting")
        queue.size += 1
        try:
            async with queue.transition:
                return await asyncio.get_running_loop().run_in_executor(self._threads, check)
        finally:
            queue.size -= 1
            if queue.size == 0:
                del self._queues[tenant_id]

    def _ready(self, schema: Mapping[str, Any]) -> json_schema.ValueSchema:
        """The compiled schema; compiling takes a millisecond. The schemas of plans do not change."""
        kept = self._schemas.get(id(schema))
        if kept is None:
            kept = self._schemas[id(schema)] = (schema, json_schema.ValueSchema(schema))
            if len(self._schemas) > SCHEMAS_KEPT_MAX:
                self._schemas.popitem(last=False)
        self._schemas.move_to_end(id(schema))
        return kept[1]

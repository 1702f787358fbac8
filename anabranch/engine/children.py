"""Awaited children: find out which of them ended before their parent was looking.

Called by the orchestrator after each settlement. A child that ends raises its parent's version in
the same transaction. So whoever holds the parent needs to ask only once about each child, after
that no end can escape it; and who has not asked yet must not park it (`LeasedState.unchecked`).
"""

from __future__ import annotations

import asyncio
import logging

from anabranch.engine.ownership.owned import OwnedInstance, OwnedInstances
from anabranch.engine.ports import Clock, Store
from anabranch.engine.rules.stimuli import LogReloaded
from anabranch.errors import StoreUnavailable

logger = logging.getLogger("anabranch.engine")

# 64 children a question: their outputs, of up to 1 MB each, are in memory at once.
CHILDREN_ASKED_MAX = 64

# 250 ms between tries while the store is away, as with everything that waits for it.
STORE_RETRY_MS = 250


class AwaitedChildren:
    """Asks the store about the children that held instances have begun to wait for, and offers what it says."""

    def __init__(self, *, store: Store, held: OwnedInstances, clock: Clock) -> None:
        self._store = store
        self._held = held
        self._clock = clock
        self._waiting: dict[str, None] = {}
        """Instances with unchecked children, in the order in which they came."""
        self._arrived = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin to look."""
        self._task = asyncio.create_task(self._look_forever(), name="children")

    async def stop(self) -> None:
        """Look no more; may be called twice, or before start."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def look_at(self, held: OwnedInstance) -> None:
        """Find out soon about the unchecked children of this instance."""
        self._waiting[held.instance_id] = None
        self._arrived.set()

    async def _look_forever(self) -> None:
        while True:
            await self._arrived.wait()
            self._arrived.clear()
            try:
                await self._look()
            except StoreUnavailable as failure:
                logger.warning("%s", failure.message)
                self._arrived.set()
                await self._clock.sleep(STORE_RETRY_MS)
            except Exception:
                logger.exception("looking for the ends of children went wrong; tried again")
                self._arrived.set()
                await self._clock.sleep(STORE_RETRY_MS)

    async def _look(self) -> None:
        """One question for as many instances as fit into it, and again until nobody waits."""
        while self._waiting:
            asked: dict[str, OwnedInstance] = {}
            for instance_id in list(self._waiting):
                held = self._held.get(instance_id)
                unchecked = [] if held is None else sorted(held.unchecked)
                if held is not None:
                    asked.update(dict.fromkeys(unchecked[: CHILDREN_ASKED_MAX - len(asked)], held))
                if len(asked) >= CHILDREN_ASKED_MAX:
                    break
                del self._waiting[instance_id]
            if asked:
                await self._ask(asked)

    async def _ask(self, asked: dict[str, OwnedInstance]) -> None:
        states = {held: held.state for held in asked.values()}
        try:
            ended = await self._store.ended_children(list(asked))
        except BaseException:
            self._waiting.update(dict.fromkeys(held.instance_id for held in states))
            raise
        for held, state in states.items():
            # Folded anew meanwhile, everything is unchecked again: it was asked too early.
            if held.is_held and held.state is state:
                held.unchecked.difference_update(asked)
                for child in ended:
                    if asked[child.child_id] is held:
                        self._held.offer(held, child)
                self._held.offer(held, LogReloaded())  # though none has ended, it may be parked now

"""Awaited children: find those that ended before their parent's owner was watching.

Called by the orchestrator after each settlement. When a child ends, its transaction raises the version of its parent.
So the owner reads each child's status once; after that it cannot miss the end. Until then it must not park the parent
(`LeasedState.unchecked`).
"""

from __future__ import annotations

from anabranch.engine.ownership.owned import OwnedInstance, OwnedInstances
from anabranch.engine.poller import Poller
from anabranch.engine.ports import Clock, Store
from anabranch.engine.rules.stimuli import LogReloaded

# 64 children per query: their outputs, up to 1 MB each, are in memory at once.
CHILDREN_ASKED_MAX = 64


class AwaitedChildren(Poller):
    """Reads the status of children that owned instances have begun to await, and offers the ends as stimuli."""

    def __init__(self, *, store: Store, held: OwnedInstances, clock: Clock) -> None:
        super().__init__(self._look_at_waiting, name="looking for the ends of children", every_ms=None, apart_ms=0,
                         sleep=clock.sleep)  # fmt: skip
        self._store = store
        self._held = held
        self._waiting: dict[str, None] = {}
        """Instances with unchecked children, in the order in which they came."""

    def look_at(self, held: OwnedInstance) -> None:
        """Read the status of the unchecked children of this instance soon."""
        self._waiting[held.instance_id] = None
        self.soon()

    async def _look_at_waiting(self) -> None:
        """Query as many instances at once as fit, until none is left."""
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
            # It was folded anew meanwhile, so its children are unchecked again.
            if held.is_held and held.state is state:
                held.unchecked.difference_update(asked)
                for child in ended:
                    if asked[child.child_id] is held:
                        self._held.offer(held, child)
                self._held.offer(held, LogReloaded())  # even if none has ended, the parent may be parked now

"""Awaited children: find those that ended before this process adopted their parent.

Called by the orchestrator after each settlement. When a child ends, its transaction raises the version of its parent.
So the owner reads each child's status once; after that it cannot miss the end. Until then it must not park the parent
(`LeasedState.unchecked`).
"""

from __future__ import annotations

from anabranch.engine.ownership.owned_instances import OwnedInstance, OwnedInstances
from anabranch.engine.periodic_poller import Poller
from anabranch.engine.ports import Clock, Store
from anabranch.engine.rules.stimuli import LogReloaded

# 64 children per query: their outputs, up to 1 MB each, are in memory at once.
CHILDREN_ASKED_MAX = 64


class AwaitedChildren(Poller):
    """Reads the status of children that owned instances have begun to await, and offers the ends as stimuli."""

    def __init__(self, *, store: Store, owned: OwnedInstances, clock: Clock) -> None:
        super().__init__(self._look_at_waiting, name="looking for the ends of children", every_ms=None, apart_ms=0,
                         sleep=clock.sleep)  # fmt: skip
        self._store = store
        self._owned = owned
        self._waiting: dict[str, None] = {}
        """Instances with unchecked children, in the order in which they came."""

    def look_at(self, owned: OwnedInstance) -> None:
        """Read the status of the unchecked children of this instance soon."""
        self._waiting[owned.instance_id] = None
        self.soon()

    async def _look_at_waiting(self) -> None:
        """Query as many instances at once as fit, until none is left."""
        while self._waiting:
            asked: dict[str, OwnedInstance] = {}
            for instance_id in list(self._waiting):
                owned = self._owned.get(instance_id)
                unchecked = [] if owned is None else sorted(owned.unchecked)
                if owned is not None:
                    asked.update(dict.fromkeys(unchecked[: CHILDREN_ASKED_MAX - len(asked)], owned))
                if len(asked) >= CHILDREN_ASKED_MAX:
                    break
                del self._waiting[instance_id]
            if asked:
                await self._ask(asked)

    async def _ask(self, asked: dict[str, OwnedInstance]) -> None:
        states = {owned: owned.state for owned in asked.values()}
        try:
            ended = await self._store.ended_children(list(asked))
        except BaseException:
            self._waiting.update(dict.fromkeys(owned.instance_id for owned in states))
            raise
        for owned, state in states.items():
            # It was folded anew meanwhile, so its children are unchecked again.
            if owned.is_owned and owned.state is state:
                owned.unchecked.difference_update(asked)
                for child in ended:
                    if asked[child.child_id] is owned:
                        self._owned.offer(owned, child)
                self._owned.offer(owned, LogReloaded())  # even if none has ended, the parent may be parked now

"""External changes: notice within half a second that another process wrote to an instance that we own.

A cancel or signal from another process raises the version. Our next commit would lose and reveal it; this poll covers
instances without a next commit. It also finds pauses of workflows and tenants.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection

from anabranch.engine.hints.leadership import Leadership
from anabranch.engine.orchestrator import Orchestrator
from anabranch.engine.ownership.pause_watch import PauseWatch
from anabranch.engine.periodic_poller import Poller
from anabranch.engine.ports import Clock, Store

# With a commit after it, an external signal or cancel takes effect within the promised second.
LOOK_MS = 500

# A tenth as often while the version of the database is watched: the watch triggers looks when needed.
WATCHED_LOOKS = 10


class ExternalChanges:
    """Compares the versions of all owned instances with the store's, in one statement."""

    def __init__(
        self,
        *,
        store: Store,
        orchestrator: Orchestrator,
        clock: Clock,
        pause_watch: PauseWatch,
        look_ms: int = LOOK_MS,
        others_wrote: Callable[[], None] | None = None,
        watched: Callable[[], bool] = lambda: False,
        leadership: Leadership | None = None,
        pauses_changed: Callable[[], None] = lambda: None,
    ) -> None:
        """`others_wrote` is called when another process has written something; only for stores that can tell.

        `watched`: whether `soon` is called after every commit. With `leadership` a worker without runs leaves the look
        at pauses to the leader, which calls `pauses_changed`.
        """
        self._store = store
        self._orchestrator = orchestrator
        self._pause_watch = pause_watch
        self._others_wrote = others_wrote
        self._leadership = leadership
        self._pauses_changed = pauses_changed

        def poller(look: Callable[[], Awaitable[None]], every_ms: Callable[[], int] | None) -> Poller:
            name = "looking for external changes"
            return Poller(look, name=name, every_ms=every_ms, sleep=clock.sleep, unavailable=orchestrator.note_failure)

        self._looking = poller(self.look, lambda: look_ms * WATCHED_LOOKS if watched() else look_ms)
        if leadership is not None:
            leadership.add(self._looking)
        self._hinted = poller(self._look_at_hinted, None)
        self._pausing = poller(self._look_at_pauses, None)
        self._uncompared: set[str] = set()
        """Owned instances that another process may have written to since we last looked at them."""
        self._hinted_ids: set[str] = set()
        """Owned instances that another process is said to have written to."""

    async def start(self) -> None:
        """Begin to poll."""
        await self._looking.start()
        await self._hinted.start()
        await self._pausing.start()

    async def stop(self) -> None:
        """Stop polling; may be called twice, or before start."""
        await self._pausing.stop()
        await self._hinted.stop()
        await self._looking.stop()

    async def look(self) -> None:
        """Re-read every owned instance whose version has changed.

        Instances with a transition in flight cannot be compared, and the store may be unavailable: the next look
        compares what this one could not.
        """
        owned = self._orchestrator.owned
        if not owned and self._leadership is not None and self._leadership.covers():
            return
        if await self._store.external_changes_possible():
            self._uncompared.update(owned.ids)
            if self._others_wrote is not None:
                self._others_wrote()
            if await self._pause_watch.look() and self._leadership is not None and self._leadership.leads:
                self._pauses_changed()
        self._uncompared.intersection_update(owned.ids)
        await self._compare(self._uncompared)

    def soon(self) -> None:
        """Look soon, because some process, perhaps this one, has committed."""
        self._looking.soon()

    def compare_soon(self, instance_ids: Collection[str]) -> None:
        """Look soon at those of these instances that are owned here, because of a hint."""
        owned = [instance_id for instance_id in instance_ids if self._orchestrator.owns(instance_id)]
        if owned:
            self._hinted_ids.update(owned)
            self._hinted.soon()

    def pauses_changed(self) -> None:
        """Look at the pauses soon, because of a hint."""
        self._pausing.soon()

    async def _look_at_pauses(self) -> None:
        await self._pause_watch.look()

    async def _look_at_hinted(self) -> None:
        """Re-read the instances that hints are about whose version has changed.

        One with a transition in flight is left to that transition, which loses if it missed the write, and to the next
        `look`.
        """
        hinted, self._hinted_ids = self._hinted_ids, set()
        self._uncompared.update(hinted)
        await self._compare(hinted)

    async def _compare(self, instance_ids: Collection[str]) -> None:
        owned = self._orchestrator.owned
        known = {instance_id: version for instance_id, version, _ in owned.settled_leases()}
        known = {instance_id: version for instance_id, version in known.items() if instance_id in instance_ids}
        if not known:
            return
        stored = await self._store.versions(list(known))
        comparable = [
            instance_id for instance_id, version, _ in owned.settled_leases() if known.get(instance_id) == version
        ]
        ours = self._orchestrator.worker_id
        changed = [each for each in comparable if stored.get(each, (None, None)) != (known[each], ours)]
        self._uncompared.difference_update(comparable)
        if changed:
            await self._orchestrator.refresh(changed)

"""What is not known: commits without an answer, versions that moved without us. Read it anew and go on.

Called by the orchestrator after a commit that was lost or not answered, and when another process
wrote to a held instance. A draft of unknown fate is looked for in the log: written means done,
everything else is decided again on what is stored.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from anabranch.engine.held import Birth, Held, HeldInstances
from anabranch.engine.ports import Clock, Loaded, Observer, Store
from anabranch.engine.rules.evolve import fold
from anabranch.engine.rules.states import new_state
from anabranch.engine.rules.stimuli import TailLoaded
from anabranch.engine.rules.turn import Draft, Holding, was_written
from anabranch.engine.task_worker import TaskWorker
from anabranch.errors import StoreUnavailable

logger = logging.getLogger("anabranch.engine")

# 250 ms between tries while the store is away: soon enough to lose no lease over a short
# restart, rare enough not to disturb one.
STORE_RETRY_MS = 250


class Rereader:
    """Folds held instances anew from the store, waiting for it if it is away."""

    def __init__(
        self,
        *,
        store: Store,
        held: HeldInstances,
        task_worker: TaskWorker,
        clock: Clock,
        observer: Observer,
        worker_id: str,
        lease_ms: int,
    ) -> None:
        self._store = store
        self._held = held
        self._task_worker = task_worker
        self._clock = clock
        self._observer = observer
        self._worker_id = worker_id
        self._lease_ms = lease_ms
        self._commits_failed = 0
        """Commits in a row that the store did not answer."""
        self.stopping = False
        """Set once the process stops: nobody waits for an absent store then."""
        self.store_failed_at: int | None = None
        """When the store last did not answer (ms): leases that ended before were lost with it, not with a worker."""

    def note_success(self) -> None:
        """A commit was answered."""
        self._commits_failed = 0

    def note_failure(self, failure: StoreUnavailable) -> None:
        """Remember that the store was away: leases that lapse meanwhile tell nothing about their workers."""
        logger.warning("%s", failure.message)
        self.store_failed_at = self._clock.now()

    def was_away_at(self, lapsed_at: int | None) -> bool:
        """Did this lease end while the store did not answer?"""
        return lapsed_at is not None and self.store_failed_at is not None and lapsed_at <= self.store_failed_at

    async def after_failed_commit(self, taken: Sequence[Held], drafts: Sequence[Draft]) -> None:
        """Read what became of the batch, and let it be tried again.

        The first failure may have been a broken connection, so its batch is tried again at once. A
        store that answers reads but no commits (a full disk) must neither be asked without a
        pause nor keep a stopping process for ever.
        """
        self._commits_failed += 1
        if self._commits_failed > 1:
            if self.stopping:
                for held in taken:
                    self._held.let_go(held)  # whoever takes it next goes on from what is committed
                return
            await self._clock.sleep(STORE_RETRY_MS)
        await self.reread([(held, draft) for held, draft in zip(taken, drafts, strict=True)])

    async def reread(self, unclear: Sequence[tuple[Held, Draft | None]]) -> None:
        """Go on from what is stored, each with its draft of unknown fate, if there is one."""
        while unclear:
            try:
                loaded = await self._store.load([held.holding.instance_id for held, _ in unclear])
            except StoreUnavailable as failure:
                self.note_failure(failure)
                if self.stopping:
                    for held, _ in unclear:
                        self._held.let_go(held)  # whoever takes it next reads what became of it
                    return
                await self._clock.sleep(STORE_RETRY_MS)
                unclear = [pair for pair in unclear if self._held.still_has(pair[0])]
                continue
            for held, draft in unclear:
                if self._held.still_has(held):
                    self._refold_or_let_go(held, draft, loaded.get(held.holding.instance_id))
            return

    def _refold_or_let_go(self, held: Held, draft: Draft | None, loaded: Loaded | None) -> None:
        try:
            self._refold(held, draft, loaded)
        except Exception:
            # One instance's trouble must not become its neighbours'; its lease lapses, and it is taken up again.
            logger.exception("a run could not be read anew", extra={"instance_id": held.holding.instance_id})
            self._held.let_go(held)

    def _refold(self, held: Held, draft: Draft | None, loaded: Loaded | None) -> None:
        old = held.holding
        written = False
        if draft is not None and draft.turn is not None and loaded is not None:
            written = was_written(draft.turn, loaded.events)
        if draft is not None and draft.turn is not None and written:
            self._held.tell_written(held, old, draft.turn.events)
            held.tell_asked(draft)
            held.forget_answered(draft)
        elif draft is not None:
            held.inbox[:0] = draft.stimuli
        if loaded is None:
            if held.born is None:
                self._held.let_go(held)  # its rows were removed
            else:
                held.holding = Holding(new_state(old.state.plan, old.state.head), 0, old.worker_id, 0)
            return
        row = loaded.row
        self._tell_unseen(held, draft, loaded)
        if held.born is not None:
            held.tell_birth(Birth(row.head.instance_id, row.status, created=True))
        # A birth that was offered twice may be stored as the first one was decided, by a plan that is not ours.
        has_our_plan = row.head.workflow_version == old.state.head.workflow_version
        if row.worker_id != self._worker_id or row.status.is_terminal or not has_our_plan:
            self._held.let_go(held)
            return
        state = fold(old.state.plan, row.head, loaded.events)
        held.holding = Holding(state, row.version, self._worker_id, row.available_at or old.lease_until)
        held.extended_at = max(held.extended_at, self._extended_at(held.holding.lease_until))
        held.owes_all = True
        held.inbox.insert(0, TailLoaded())
        self._stop_unawaited(held)

    def _extended_at(self, lease_until: int) -> float:
        """When a lease that ends then was extended, by the monotonic clock; never later than now.

        A commit that was written without our hearing of it may have extended the lease: the guard
        would drop a run whose lease has just begun.
        """
        left_s = (lease_until - self._clock.now()) / 1000
        return self._clock.monotonic() - max(0.0, self._lease_ms / 1000 - left_s)

    def _tell_unseen(self, held: Held, draft: Draft | None, loaded: Loaded) -> None:
        """Observers here see the rows that they have not seen: a turn found written, a foreign write."""
        seen = held.holding.state.last_seq
        if draft is not None and draft.turn is not None and draft.turn.events:
            seen = draft.turn.events[0].seq - 1
        news = [event for event in loaded.events if event.seq > seen]
        if news:
            self._observer.committed(held.holding.instance_id, news, loaded.row.status)

    def _stop_unawaited(self, held: Held) -> None:
        state = held.holding.state
        for dispatch in list(held.performing):
            if not state.owes(dispatch):
                held.performing.discard(dispatch)
                self._task_worker.stop_job(state.head.instance_id, dispatch)

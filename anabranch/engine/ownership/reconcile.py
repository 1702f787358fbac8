"""Reconciler: re-reads instances after a lost response or an external write, and settles transitions that were not
written.

Called by the orchestrator. If a pending transition is found in the log, it was written; everything else is decided
again on the stored state.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TypeAlias

from anabranch.dataclass import dataclass
from anabranch.engine.log_pages import pages_of
from anabranch.engine.observers import CommittedEvents, Observers
from anabranch.engine.ownership.history_watch import suspend_for_lost_rows
from anabranch.engine.ownership.owned_instances import (
    NAMES_SHOWN_MAX,
    OwnedInstance,
    OwnedInstances,
    StartResult,
    owner_of,
)
from anabranch.engine.ports import CLAIM_WEIGHT_MAX, Clock, InstanceRow, Loaded, Store
from anabranch.engine.rules.event_payloads import RunSuspended
from anabranch.engine.rules.events import Event, Status, SuspendReason
from anabranch.engine.rules.evolve import AnyState, evolve, new_state
from anabranch.engine.rules.shared.failures import as_refused, who_did
from anabranch.engine.rules.shared.log_limit import ROW_WEIGHT, UNLIMITED_LOG
from anabranch.engine.rules.shared.run_state import InstanceHead
from anabranch.engine.rules.stimuli import ChildEnded, Completed, LogReloaded, NodeResult, SignalSent, StepReport
from anabranch.engine.rules.transitions import AppliedOutcome, LeasedState, PendingTransition, answered, was_written
from anabranch.engine.rules.values import NULL
from anabranch.engine.task_worker import TaskWorker
from anabranch.errors import AnabranchError, NotFound, StoreUnavailable, ValueNotStorable

logger = logging.getLogger("anabranch.engine")

# 3 times in a row: once may have been bad luck (memory, a signal), three times is a defect. Each process counts for
# itself: what raises writes nothing and executes nothing, so a few more attempts by others cost no more than a claim,
# and a process that is short of memory does not suspend what another one can decide.
DEFECTS_MAX = 3
DEFECT_HINT = (
    "Update anabranch: another release goes on with the run by itself. Please report what the worker's log says."
)

# 1,000 characters of what was raised: the worker's log has all of it.
DEFECT_CHARACTERS_MAX = 1_000

# 250 ms between retries while the store is unavailable: soon enough to lose no lease over a short restart, rare enough
# not to disturb it.
STORE_RETRY_MS = 250


_Unresolved: TypeAlias = tuple[OwnedInstance, PendingTransition | None]


@dataclass(frozen=True, slots=True)
class _Read:
    """The stored state of a run."""

    row: InstanceRow
    state: AnyState | None
    """None: the run is no longer owned."""
    tail: Sequence[Event]
    """Events that observers here have not seen."""


class Reconciler:
    """Folds owned instances anew from the store; waits while it is unavailable."""

    def __init__(
        self,
        *,
        store: Store,
        owned: OwnedInstances,
        task_worker: TaskWorker,
        clock: Clock,
        observers: Observers,
        worker_id: str,
        lease_ms: int,
        release: str,
    ) -> None:
        self._store = store
        self._acknowledged = observers.acknowledged
        self._release = release
        self._owned = owned
        self._task_worker = task_worker
        self._clock = clock
        self._observers = observers
        self._worker_id = worker_id
        self._lease_ms = lease_ms
        self.defective: list[tuple[InstanceHead, BaseException | None]] = []
        """Runs that were dropped for a defect, and are not handed over yet."""
        self.defects: dict[str, int] = {}
        """How often in a row the rules have raised over a run."""
        self.commits_failed = 0
        """Commits in a row that the store did not answer."""
        self.stopping = False
        """Set once the process stops: then nothing waits for an unavailable store."""
        self.store_failed_at: int | None = None
        """When the store last did not answer (ms): leases that ended before were lost with it, not with a worker."""

    def note_failure(self, failure: StoreUnavailable) -> None:
        """Note that the store was unavailable: leases that expire meanwhile make no suspects."""
        logger.warning("%s", failure.message)
        self.store_failed_at = self._clock.now()

    async def after_failed_commit(self, unresolved: Sequence[_Unresolved]) -> None:
        """Read the outcome of the batch and repeat what was not written.

        After the first failure, which may be a broken connection, at once. A store that answers reads but no commits (a
        full disk) must not be queried without pauses, nor delay a stopping process for ever.
        """
        self.commits_failed += 1
        if self.commits_failed > 1:
            if self.stopping:
                for owned, _ in unresolved:
                    self._owned.evict(owned)  # the next owner continues from the stored state
                return
            await self._clock.sleep(STORE_RETRY_MS)
        await self.reread(unresolved)

    async def settle_others(self, applied: AppliedOutcome) -> None:
        """Settle the transitions that were not written."""
        for pending, existing_id in applied.existing:
            self._answer_creation(pending, StartResult(existing_id, Status.PENDING, created=False))
        for pending in applied.rejected:
            self._answer_creation(pending, _why_rejected(pending.leased.state.head))
        for pending in applied.defective:
            self.drop_defective(pending, pending.defect)
        again = [pending for pending, reason in applied.refused if self._replace_refused(pending, reason)]
        pairs = [(owner_of(pending), pending) for pending in applied.unknown + again]
        await self.reread([(owned, pending) for owned, pending in pairs if owned.is_owned])

    def _answer_creation(self, pending: PendingTransition, answer: StartResult | AnabranchError) -> None:
        """Answer the caller of a start that created no run: the reason, or the existing run."""
        owned = owner_of(pending)
        if owned.is_owned and owned.is_new:
            owned.answer_start(answer)
            self._owned.evict(owned)

    def drop_defective(self, pending: PendingTransition, defect: Exception | None) -> None:
        """Drop a run whose decision or action raised; `settle_defective` hands it over, or suspends it."""
        instance_id = pending.leased.instance_id
        results = [each for each in pending.stimuli if isinstance(each, NodeResult | StepReport)]
        about = ", ".join(who_did(each, run_id=instance_id) for each in results[:NAMES_SHOWN_MAX])
        extra = {"instance_id": instance_id}
        logger.error("a decision about %s failed", about or f"run {instance_id}", exc_info=defect, extra=extra)
        self._owned.drop(instance_id, "its state cannot be decided")
        self.defective.append((pending.leased.state.head, defect))

    async def settle_defective(self) -> None:
        """Release the dropped runs for adoption, or suspend them."""
        defective, self.defective = self.defective, []
        for head, defect in defective:
            await self.after_defect(head, defect)

    async def after_defect(self, head: InstanceHead, defect: BaseException | None) -> None:
        """Hand over a run whose decision or fold raised; at the limit suspend it until another release tries it."""
        raised = self.defects[head.instance_id] = self.defects.get(head.instance_id, 0) + 1
        try:
            if raised < DEFECTS_MAX:
                await self._store.release(worker_id=self._worker_id, instance_ids=[head.instance_id])
                return
            del self.defects[head.instance_id]
            what = "nothing was raised" if defect is None else f"{type(defect).__name__}: {defect}"
            suspension = RunSuspended(
                SuspendReason.ENGINE_DEFECT, what[:DEFECT_CHARACTERS_MAX], DEFECT_HINT, self._release
            )
            await self._store.append_suspension(
                head.instance_id, suspension, tenant_id=head.tenant_id, log_limit=UNLIMITED_LOG
            )
        except StoreUnavailable as failure:
            self.note_failure(failure)  # its lease expires, and it is tried again

    def decided(self, instance_id: str) -> None:
        """A transition of this run was written: its decisions can be made after all."""
        self.defects.pop(instance_id, None)

    def _replace_refused(self, pending: PendingTransition, reason: str) -> bool:
        """Replace the stimuli of a transition whose data the database refused. Evaluated pure nodes are left out, and
        evaluated one by one after the rest is written; one that was alone fails.

        Several stimuli are decided again one by one, to affect only the bad one. A single result becomes a failure, a
        signal is refused, a start gets the reason as its answer.
        """
        instance_id = pending.leased.instance_id
        logger.error("the store refused data: %s", reason, extra={"instance_id": instance_id})
        owned = owner_of(pending)
        if not owned.is_owned:
            return False
        if owned.is_new:
            owned.answer_start(ValueNotStorable(f"the database does not take the input: {reason}"))
        elif (evaluated := pending.evaluated) and not owned.evaluates_singly:
            owned.evaluates_singly = True
            return True
        elif evaluated:
            refused = as_refused(NodeResult(*evaluated[0], Completed(NULL)), reason, run_id=instance_id)
            pending.stimuli = [refused]
            return True
        elif len(pending.stimuli) > 1:
            owned.mailbox.one_at_a_time = True
            return True
        elif isinstance(result := pending.stimuli[0], NodeResult | StepReport):
            pending.stimuli = [as_refused(result, reason, run_id=instance_id)]
            return True
        elif isinstance(signal := pending.stimuli[0], SignalSent):
            owned.refuse_request(signal, ValueNotStorable.code)
            pending.stimuli = []
            return True
        self._owned.evict(owned)
        return False

    async def reread(self, unresolved: Sequence[_Unresolved]) -> None:
        """Continue from the stored state, each instance with its transition of unknown outcome, if any."""
        for some in _by_weight(unresolved):
            await self._reread_together(some)

    async def _reread_together(self, unresolved: Sequence[_Unresolved]) -> None:
        """The same for those whose logs are read with one statement."""
        left = deque(unresolved)
        while left:
            try:
                known = [max(owned.committed_seq, self._acknowledged.last_seq(owned.instance_id)) for owned, _ in left]
                loaded = await self._store.load([owned.instance_id for owned, _ in left])
                for (owned, _), seq in zip(left, known, strict=True):
                    found = loaded.get(owned.instance_id)
                    if found is not None and found.row.last_seq < seq:
                        await self._set_aside(owned, found.row, acknowledged=seq)
                while left:
                    owned, pending = left[0]
                    if owned.is_owned:
                        await self._refold_or_evict(owned, pending, loaded.get(owned.instance_id))
                    left.popleft()
            except StoreUnavailable as failure:
                self.note_failure(failure)
                if self.stopping:
                    for owned, _ in left:
                        self._owned.evict(owned)  # the next owner reads the outcome
                    return
                await self._clock.sleep(STORE_RETRY_MS)
                left = deque(pair for pair in left if pair[0].is_owned)

    async def _set_aside(self, owned: OwnedInstance, row: InstanceRow, *, acknowledged: int) -> None:
        """The database lost rows of the run: nothing may follow from the older state."""
        head = row.head
        if row.status.is_terminal:
            self._acknowledged.forget(head.instance_id)
        else:
            await suspend_for_lost_rows(
                head.instance_id,
                tenant_id=head.tenant_id,
                seq=acknowledged,
                stored=row.last_seq,
                store=self._store,
                acknowledged=self._acknowledged,
            )
        self._owned.evict(owned)

    async def _refold_or_evict(
        self, owned: OwnedInstance, pending: PendingTransition | None, loaded: Loaded | None
    ) -> None:
        try:
            read = None if loaded is None else await self._read(owned, pending, loaded)
            if owned.is_owned:
                self._refold(owned, pending, read)
        except StoreUnavailable:
            raise
        except Exception:
            # An exception for one instance must not affect the others; its lease expires, and it is adopted again.
            logger.exception("a run could not be read again", extra={"instance_id": owned.instance_id})
            self._owned.evict(owned)

    async def _read(self, owned: OwnedInstance, pending: PendingTransition | None, loaded: Loaded) -> _Read | None:
        """Fold the log, if we still own the run; None if its rows were removed meanwhile."""
        row = loaded.row
        # A creation that was repeated may be stored as first decided, with another plan.
        has_our_plan = row.head.workflow_version == owned.state.head.workflow_version
        is_ours = row.worker_id == self._worker_id and not row.status.is_terminal and has_our_plan
        state = _anew(owned.state, row.head) if is_ours else None
        seen, read_up_to = _seen(owned, pending), 0
        tail: list[Event] = []
        async for page in pages_of(self._store, loaded):
            read_up_to = page[-1].seq
            if page[-1].seq > seen:
                tail += [event for event in page if event.seq > seen]
            if state is not None:
                for event in page:
                    evolve(state, event)
        return _Read(row, state, tail) if read_up_to == row.last_seq else None

    def _refold(self, owned: OwnedInstance, pending: PendingTransition | None, read: _Read | None) -> None:
        transition = None if pending is None else pending.transition
        written = transition is not None and read is not None and was_written(transition, read.tail)
        if pending is not None and written:
            owned.answer_requests(pending)
            owned.performing.difference_update(answered(pending.stimuli))
        elif pending is not None:
            owned.mailbox.stimuli[:0] = pending.stimuli
        if read is None:
            if owned.is_new:
                anew = _anew(owned.state, owned.state.head)
                owned.replace_state(anew, version=0, worker_id=owned.worker_id, lease_until=0)
            else:
                self._owned.evict(owned)  # its rows were removed
            return
        row = read.row
        # Observers here see the rows that they have not seen: a transition found written, an external write.
        if read.tail:
            news = CommittedEvents(owned.instance_id, read.tail, row.status)
            if transition is not None and written:
                news = replace(news, written=transition.events, owned=owned)
            self._observers.committed([news])
        if owned.is_new:
            owned.answer_start(StartResult(row.head.instance_id, row.status, created=True))
        if read.state is None:
            self._owned.evict(owned)
            return
        lease_until = row.available_at or owned.lease_until
        owned.replace_state(read.state, version=row.version, worker_id=self._worker_id, lease_until=lease_until)
        self._owned.note_blame(owned, row.blame)
        owned.extended_at = max(owned.extended_at, self._extended_at(lease_until))
        owned.owes_all = True
        # Children are checked again: an ended one may have been reopened.
        owned.mailbox.stimuli[:] = [each for each in owned.mailbox.stimuli if not isinstance(each, ChildEnded)]
        owned.mailbox.stimuli.insert(0, LogReloaded())
        self._stop_unawaited(owned)

    def _extended_at(self, lease_until: int) -> float:
        """When a lease with this end was extended, by the monotonic clock; never later than now.

        A commit whose response was lost may have extended it, and a run with a new lease must not be dropped.
        """
        left_s = (lease_until - self._clock.now()) / 1000
        return self._clock.monotonic() - max(0.0, self._lease_ms / 1000 - left_s)

    def _stop_unawaited(self, owned: OwnedInstance) -> None:
        state = owned.state
        for dispatch in list(owned.performing):
            if state.awaits(*dispatch) is None:
                owned.performing.discard(dispatch)
                self._task_worker.stop_job(state.head.instance_id, dispatch)


def _why_rejected(head: InstanceHead) -> NotFound:
    """The answer to the start of a rejected run."""
    if head.parent_id is None:
        return NotFound(f"workflow {head.workflow_id} was deleted before the run could begin")
    return NotFound(f"run {head.instance_id}: its workflow was deleted, or its parent no longer needs it")


def _anew(state: AnyState, head: InstanceHead) -> AnyState:
    """A new state for a run with this head, with the plan and kind of this one."""
    return new_state(state.plan, head, log_limit=state.log_limit)


def _seen(leased: LeasedState, pending: PendingTransition | None) -> int:
    """The last row that observers here have seen."""
    if pending is not None and pending.transition is not None and pending.transition.events:
        return pending.transition.events[0].seq - 1
    return leased.state.last_seq


def _by_weight(unresolved: Sequence[_Unresolved]) -> Iterator[Sequence[_Unresolved]]:
    """Split into parts whose logs are small enough to be read at once."""
    part: list[_Unresolved] = []
    weight = 0
    for owned, pending in unresolved:
        state = owned.state
        if weight >= CLAIM_WEIGHT_MAX:
            yield part
            part, weight = [], 0
        part.append((owned, pending))
        weight += state.log_bytes + ROW_WEIGHT * state.last_seq
    yield part

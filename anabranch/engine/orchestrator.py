"""The loop: drain → plan → commit → apply_outcome → perform.

Whatever concerns a held instance (a result, a due timer, a signal, a cancel, its creation) is
offered as a stimulus; lanes take what has piled up, decide it in memory, commit it in one
transaction and only then act. What concerns parents and children has lanes of its own, because it may
wait for locks. Nobody else touches the state of a held instance. `recovery`
adopts, `leases` extends and drops, `external` refreshes, all through the methods here.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from anabranch.engine.children import AwaitedChildren
from anabranch.engine.failures import as_refused, who_did
from anabranch.engine.ownership.adoption import Adoption
from anabranch.engine.ownership.owned import (
    NAMES_TOLD_MAX,
    Answer,
    OwnedInstance,
    OwnedInstances,
    StartResult,
    why_rejected,
)
from anabranch.engine.ownership.reconcile import Reconciler
from anabranch.engine.ports import Claimed, Clock, Observer, Outcome, Store
from anabranch.engine.queues import NodeJob
from anabranch.engine.rules.commands import Dispatch
from anabranch.engine.rules.drawn.state import InstanceHead
from anabranch.engine.rules.events import Status
from anabranch.engine.rules.log_limit import LogLimit
from anabranch.engine.rules.states import AnyPlan, new_state
from anabranch.engine.rules.stimuli import (
    CancelRequested,
    ChildEnded,
    LeaseAcquired,
    NodeResult,
    SignalSent,
    Started,
    StepReport,
)
from anabranch.engine.rules.transitions import (
    BATCH_BYTES_MAX,
    AppliedOutcome,
    LeasedState,
    PendingTransition,
    Planned,
    Won,
    apply_outcome,
    concerns_family,
    owed_dispatches,
    plan_transitions,
)
from anabranch.engine.task_worker import TaskWorker
from anabranch.engine.telemetry import Telemetry
from anabranch.errors import AnabranchError, StoreUnavailable, ValueNotStorable

logger = logging.getLogger("anabranch.engine")

# 30 s: as long as an absent database is waited for at start. Then whoever starts, signals or
# cancels a run hears that it is not known to be stored, instead of waiting for the database with it.
REQUEST_PATIENCE_S = 30.0

# 100 ms until a transition that met another's lock is tried again, then twice as long each time, up to a second: as
# soon as a frozen process has lost its lock the transition is written, and until then the tries cost next to nothing.
LOCKED_PAUSE_MS = 100
LOCKED_PAUSE_MAX_MS = 1_000

NO_OUTCOME = Outcome(won=frozenset(), store_now=0)


@dataclass(slots=True)
class _Batch:
    """Owned instances in flight, each with what was decided for it."""

    taken: list[OwnedInstance]
    pending_transitions: list[PendingTransition]

    def planned(self) -> Planned:
        """As `Store.commit` and `apply_outcome` want it."""
        return Planned(
            self.pending_transitions,
            [pending.transition for pending in self.pending_transitions if pending.transition is not None],
        )

    def has_room_for(self, other: _Batch, *, turns_max: int) -> bool:
        """May the other, which must not be empty, be committed together with this one?"""
        transitions = len(self.pending_transitions) + len(other.pending_transitions)
        return bool(other.taken) and transitions <= turns_max and self._size() + other._size() <= BATCH_BYTES_MAX

    def with_more(self, other: _Batch) -> _Batch:
        """Both in one."""
        return _Batch(self.taken + other.taken, self.pending_transitions + other.pending_transitions)

    def _size(self) -> int:
        transitions = [pending.transition for pending in self.pending_transitions if pending.transition is not None]
        return sum(len(event.payload.raw) for transition in transitions for event in transition.events)


def _concerns_family(pending: PendingTransition) -> bool:
    """A transition that may wait for a parent's or a child's lock; or that of a parent: its children's ends raise its
    version, so it is committed together with them, or it would lose against them again and again.
    """
    transition = pending.transition
    return transition is not None and (concerns_family(transition) or bool(pending.leased.state.children))


class Orchestrator:
    """Advances the instances it holds. `start` before use; `stop` finishes the commits under way."""

    def __init__(
        self,
        *,
        store: Store,
        task_worker: TaskWorker,
        clock: Clock,
        observer: Observer,
        worker_id: str,
        lease_ms: int,
        recoveries_max: int,
        batch_transitions_max: int,
        log_limit: LogLimit,
        telemetry: Telemetry | None = None,
    ) -> None:
        self._store = store
        self._task_worker = task_worker
        self._clock = clock
        self._observer = observer
        self._lease_ms = lease_ms
        self._recoveries_max = recoveries_max
        self._batch_turns_max = batch_transitions_max
        self._log_limit = log_limit
        self._held = OwnedInstances(clock, task_worker, telemetry)
        self._unclear = Reconciler(
            store=store,
            held=self._held,
            task_worker=task_worker,
            clock=clock,
            observer=observer,
            worker_id=worker_id,
            lease_ms=lease_ms,
        )
        self._children = AwaitedChildren(store=store, held=self._held, clock=clock)
        self._cancelled: set[str] = set()
        """Owned instances that our own commits have cancelled, because nobody awaits them any more."""
        self._threads_of_store: list[asyncio.Task[None]] = []
        self._families: deque[_Batch] = deque()
        """Transitions that concern parents and children, where these are committed apart."""
        self._family_arrived = asyncio.Event()
        self._family_lanes: list[asyncio.Task[None]] = []
        self._locked: set[asyncio.Task[None]] = set()
        """Tries of transitions that have met somebody else's lock."""
        self._one_locked = asyncio.Semaphore(1)
        """One such try at a time: it may take as long as a lock is waited for, and other transitions go first."""
        self._stopping = False
        self.worker_id = worker_id

    # -- life -----------------------------------------------------------------------------
    async def start(self) -> None:
        """Begin to commit: one lane for each commit that the store takes at once, and as many for families."""
        await self._held.delays.start()
        await self._children.start()
        numbers = range(self._store.commits_in_flight_max)
        self._threads_of_store = [asyncio.create_task(self._lane(), name=f"lane-{number}") for number in numbers]
        if self._store.families_apart:
            self._family_lanes = [
                asyncio.create_task(self._family_lane(), name=f"family-lane-{number}") for number in numbers
            ]

    async def stop(self) -> None:
        """Commit what has arrived, then return; may be called twice, or before start."""
        await self._held.delays.stop()
        await self._children.stop()
        self._stopping = self._unclear.stopping = True
        self._held.arrived.set()
        lanes, self._threads_of_store = self._threads_of_store, []
        try:
            await asyncio.gather(*lanes, return_exceptions=True)
            family_lanes, self._family_lanes = self._family_lanes, []
            for _ in family_lanes:
                self._families.append(_Batch([], []))  # after what has arrived: the word that nothing follows
            self._family_arrived.set()
            await asyncio.gather(*family_lanes, return_exceptions=True)
        finally:
            self._abandon()

    def _abandon(self) -> None:
        """Let go of everything: what is not committed by now is decided again by whoever takes it up."""
        for task in self._locked:
            task.cancel()
        for held in filter(None, map(self._held.get, self._held.ids)):
            self._held.evict(held)

    # -- what is held ---------------------------------------------------------------------
    @property
    def held(self) -> OwnedInstances:
        """The held instances, for whoever looks after their leases."""
        return self._held

    @property
    def held_ids(self) -> list[str]:
        """Ids of the held instances."""
        return self._held.ids

    def holds(self, instance_id: str) -> bool:
        """Is this instance advanced here?"""
        return self._held.get(instance_id) is not None

    def head_of(self, instance_id: str) -> InstanceHead | None:
        """What a held instance was created with; None: it is not advanced here."""
        held = self._held.get(instance_id)
        return None if held is None else held.leased.state.head

    def note_failure(self, failure: StoreUnavailable) -> None:
        """The store did not answer: leases that lapse meanwhile tell nothing about their workers."""
        self._unclear.note_failure(failure)

    # -- stimuli --------------------------------------------------------------------------
    async def create_run(self, head: InstanceHead, plan: AnyPlan, started: Started) -> StartResult:
        """Create an instance, held here if it is to `begin`.

        Raises StoreUnavailable; NotFound if its workflow is gone, or not at the version that it must be at.
        """
        if self._stopping:
            raise StoreUnavailable(f"run {head.instance_id} was not started: this process is stopping")
        leased = LeasedState(
            new_state(plan, head, log_limit=self._log_limit), 0, self.worker_id if started.begin else None, 0
        )
        created: asyncio.Future[StartResult] = asyncio.get_running_loop().create_future()
        held = OwnedInstance(leased, inbox=[started], created=created, extended_at=self._clock.monotonic())
        self._held.add(held)
        try:
            async with asyncio.timeout(REQUEST_PATIENCE_S):
                return await created
        except TimeoutError:
            self._held.evict(held)
            message = f"run {head.instance_id} could not be stored within {REQUEST_PATIENCE_S:.0f} s"
            raise StoreUnavailable(message, hint="Start it again with the same idempotency key.") from None

    def begin_adoption(self, claimed: Claimed, plan: AnyPlan) -> Adoption:
        """An instance that a claim has just given us, to be taken over once its log is folded."""
        head = claimed.loaded.row.head
        state = new_state(plan, head, log_limit=self._log_limit)
        return Adoption(claimed, state, self._held.telemetry_of(head, plan))

    def adopt(self, adoption: Adoption, *, asked_at: float) -> None:
        """Take over an instance whose log is folded; its lease was last extended by a request at `asked_at`."""
        claimed, row = adoption.claimed, adoption.claimed.loaded.row
        known = self._held.get(row.head.instance_id)
        if known is not None and known.leased.version >= row.version:
            return  # our own lease had run out, and a re-read has met this claim before its answer came: it goes on
        counts = claimed.lapsed and not self._unclear.was_away_at(claimed.lapsed_at)
        lease_until = row.available_at or self._clock.now() + self._lease_ms
        held = OwnedInstance(
            LeasedState(adoption.state, row.version, self.worker_id, lease_until),
            inbox=[LeaseAcquired(counts, self._recoveries_max)],
            owes_all=True,
            extended_at=asked_at,
            telemetry=adoption.telemetry,
        )
        self._held.add(held)

    def receive_result(self, instance_id: str, result: NodeResult | StepReport) -> None:
        """A task worker or the body of a coded run reports; results for what is not held any more are dropped."""
        held = self._held.get(instance_id)
        if held is not None:
            self._held.offer(held, result)

    async def ask(self, instance_id: str, stimulus: SignalSent | CancelRequested) -> Answer:
        """Offer a signal or cancel to a held instance and wait until what follows is committed.

        Raises StoreUnavailable if that is not known to have happened in time.
        """
        held = self._held.get(instance_id)
        if held is None or held.created is not None:
            return Answer(held=False)
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        held.asked.append((stimulus, answer))
        self._held.offer(held, stimulus)
        try:
            async with asyncio.timeout(REQUEST_PATIENCE_S):
                return await answer
        except TimeoutError:
            what = "the cancel" if isinstance(stimulus, CancelRequested) else f"signal {stimulus.event!r}"
            message = f"run {instance_id}: {what} could not be stored within {REQUEST_PATIENCE_S:.0f} s"
            raise StoreUnavailable(message, hint="Send it again; a signal with the same key.") from None

    async def refresh(self, instance_ids: Sequence[str]) -> None:
        """Another process wrote to these held instances: fold what it appended, or let them go."""
        held_now = [held for held in map(self._held.get, instance_ids) if held is not None and not held.in_flight]
        for held in held_now:
            held.in_flight = True
        try:
            await self._unclear.reread([(held, None) for held in held_now])
        finally:
            self._held.put_back(held_now)

    # -- the loop -------------------------------------------------------------------------
    async def _lane(self) -> None:
        while True:
            if not self._held.has_ready:
                if self._stopping:
                    return
                self._held.arrived.clear()
                await self._held.arrived.wait()
                continue
            try:
                if not await self._one_batch():
                    await asyncio.sleep(0)  # nothing was committed: others get their transition all the same
            except Exception:
                logger.exception("a lane went wrong; it goes on with the next batch")

    async def _one_batch(self) -> bool:
        """Decide what has piled up, commit it, perform it; was there something to commit?"""
        taken: list[OwnedInstance] = []
        try:
            planned = plan_transitions(
                self._held.take_work(taken),
                now=self._clock.now(),
                lease_ms=self._lease_ms,
                turns_max=self._batch_turns_max,
            )
        except Exception:
            logger.exception("a decision went wrong; its runs are taken up again when their leases lapse")
            self._let_all_go(taken)
            self._held.put_back(taken)
            return False
        batch = _Batch(taken, planned.pending_transitions)
        if self._store.families_apart:
            batch = self._set_families_apart(batch)
        await self._carry_out(batch)
        return bool(planned.transitions)

    def _set_families_apart(self, batch: _Batch) -> _Batch:
        """Leave what concerns parents and children to the lanes for it; returns the rest."""
        if not any(map(_concerns_family, batch.pending_transitions)):
            return batch
        families, rest = _Batch([], []), _Batch([], [])
        for held, pending in zip(batch.taken, batch.pending_transitions, strict=True):
            part = families if _concerns_family(pending) else rest
            part.taken.append(held)
            part.pending_transitions.append(pending)
        self._families.append(families)
        self._family_arrived.set()
        return rest

    async def _family_lane(self) -> None:
        """Commit what concerns parents and children, until there is a batch of nothing."""
        while True:
            while not self._families:
                self._family_arrived.clear()
                await self._family_arrived.wait()
            batch = self._families.popleft()
            if not batch.taken:
                return
            while self._families and batch.has_room_for(self._families[0], turns_max=self._batch_turns_max):
                batch = batch.with_more(self._families.popleft())
            await self._carry_out(batch)

    async def _carry_out(self, batch: _Batch, *, may_wait: bool = False, pause_ms: int = LOCKED_PAUSE_MS) -> None:
        """Commit the transitions of a batch, and act upon what became of them."""
        locked: Sequence[PendingTransition] = ()
        try:
            try:
                locked = await self._commit(batch.planned(), may_wait=may_wait)
            except StoreUnavailable as failure:
                self._unclear.note_failure(failure)
                await self._unclear.after_failed_commit(batch.taken, batch.pending_transitions)
        except Exception:
            logger.exception("a batch went wrong; its runs are taken up again when their leases lapse")
            self._let_all_go(batch.taken)
        finally:
            self._put_back(batch, locked, pause_ms=pause_ms)
        if self._cancelled:
            await self._refresh_cancelled()

    def _let_all_go(self, taken: Sequence[OwnedInstance]) -> None:
        for held in taken:
            self._held.evict(held)

    def _put_back(self, batch: _Batch, locked: Sequence[PendingTransition], *, pause_ms: int) -> None:
        """What is decided is in flight no more; what has met a lock stays so until that is gone."""
        if not locked:
            self._held.put_back(batch.taken)
            return
        of_locked = {id(pending) for pending in locked}
        for held, pending in zip(batch.taken, batch.pending_transitions, strict=True):
            if id(pending) not in of_locked:
                self._held.put_back([held])
                continue
            task = asyncio.create_task(self._commit_later(held, pending, pause_ms), name="commit-later")
            self._locked.add(task)
            task.add_done_callback(self._locked.discard)

    async def _commit_later(self, held: OwnedInstance, pending: PendingTransition, pause_ms: int) -> None:
        """Commit a transition as it is once more, if it is ours to make then."""
        await self._clock.sleep(pause_ms)
        async with self._one_locked:
            if self._held.still_has(held):
                pause_ms = min(2 * pause_ms, LOCKED_PAUSE_MAX_MS)
                await self._carry_out(_Batch([held], [pending]), may_wait=True, pause_ms=pause_ms)

    async def _commit(self, planned: Planned, *, may_wait: bool) -> Sequence[PendingTransition]:
        """Commit a batch and act upon it; returns the pending transitions that have met somebody else's lock."""
        asked_at = self._clock.monotonic()
        outcome = NO_OUTCOME
        if planned.transitions:
            outcome = await self._store.commit(planned.transitions, may_wait=may_wait)
            self._unclear.note_success()
            self._clock.adjust(outcome.store_now)
        settled = apply_outcome(planned, outcome)
        await self._settle(settled, outcome, asked_at)
        return settled.locked

    async def _settle(self, settled: AppliedOutcome, outcome: Outcome, asked_at: float) -> None:
        self._cancelled.update(instance_id for instance_id in outcome.cancelled if self.holds(instance_id))
        self._tell_parents(settled, outcome)
        for won in settled.won:
            try:
                self._perform(won, asked_at)
            except Exception as defect:  # noqa: BLE001 -- one instance's trouble must not become its neighbours'
                self._drop_defective(won.pending, defect)
        for pending in settled.idle:
            try:
                self._settle_idle(pending)
            except Exception as defect:  # noqa: BLE001 -- the same
                self._drop_defective(pending, defect)
        for pending, existing_id in settled.existing:
            self._answer_birth(pending, StartResult(existing_id, Status.PENDING, created=False))
        for pending in settled.rejected:
            self._answer_birth(pending, why_rejected(pending.leased.state.head))
        for pending in settled.defective:
            self._drop_defective(pending, pending.defect)
        again = [pending for pending, reason in settled.refused if self._replace_refused(pending, reason)]
        pairs = [(self._held_of(pending), pending) for pending in settled.unknown + again]
        await self._unclear.reread([(held, pending) for held, pending in pairs if held is not None])

    # -- after the commit -----------------------------------------------------------------
    def _tell_parents(self, settled: AppliedOutcome, outcome: Outcome) -> None:
        """Children have ended here: their parents, where they are held here too, need not read that anew.

        The commit has raised a parent's version, so that nobody who decided without knowing of the
        end can win. We know: where nothing else has happened to the parent, we go on from there.
        """
        for won in settled.won:
            transition, state = won.pending.transition, won.pending.leased.state
            parent = None if transition is None or transition.wakes is None else self._held.get(transition.wakes)
            if parent is None or state.terminal is None or state.outcome is None:
                continue
            version = outcome.woken.get(parent.leased.instance_id)
            if version == parent.leased.version + 1:
                parent.leased.version = version
            self._held.offer(parent, ChildEnded(state.head.instance_id, state.terminal, state.outcome))

    async def _refresh_cancelled(self) -> None:
        """Let go of what our own commits have cancelled; what has a transition in flight, after that."""
        ids = [instance_id for instance_id in sorted(self._cancelled) if not self._held.is_in_flight(instance_id)]
        self._cancelled.difference_update(ids)
        await self.refresh(ids)

    def _held_of(self, pending: PendingTransition) -> OwnedInstance | None:
        """Whose pending transition it is, unless that was let go while the commit was under way."""
        held = self._held.get(pending.leased.instance_id)
        return held if held is not None and held.leased is pending.leased else None

    def _perform(self, won: Won, asked_at: float) -> None:
        """Do what a committed transition asks for, and tell who wants to know."""
        pending, transition = won.pending, won.pending.transition
        assert transition is not None
        if won.events:
            self._observer.committed(transition.instance_id, won.events, transition.status)
        held = self._held_of(pending)
        if won.events:
            self._held.tell_written(held, pending.leased, won.events)
        if held is None:
            return
        if transition.available_at is not None:
            held.extended_at = asked_at
        for stop in won.stops:
            held.performing.discard(stop)
            self._task_worker.stop_job(transition.instance_id, stop)
        held.answer_callers(pending)
        if held.created is not None:
            held.tell_new_run(StartResult(transition.instance_id, transition.status, created=True))
        if pending.parks:
            self._held.evict(held)
            return
        held.forget_answered(pending)
        self._dispatch(held, won.dispatches)
        held.note_settled()
        self._held.delays.schedule(transition.instance_id, won.next_due)
        self._children.look_at(held)

    def _settle_idle(self, pending: PendingTransition) -> None:
        """Stimuli that changed nothing: answer who asked, and perform what an adoption owes."""
        held = self._held_of(pending)
        if held is None:
            return
        held.answer_callers(pending)
        held.forget_answered(pending)
        self._dispatch(held, [])
        held.note_settled()
        self._held.delays.schedule(pending.leased.instance_id, pending.leased.state.next_due())
        self._children.look_at(held)

    def _dispatch(self, held: OwnedInstance, dispatches: Sequence[Dispatch]) -> None:
        state = held.leased.state
        if held.owes_all:
            held.owes_all = False
            dispatches = owed_dispatches(state)
        for dispatch in dispatches:
            activation = state.awaits(dispatch.node_id, dispatch.scope, dispatch.attempt)
            if activation is None or dispatch in held.performing:
                continue
            held.performing.add(dispatch)
            self._task_worker.add_node_job(
                NodeJob(
                    instance_id=state.head.instance_id,
                    tenant_id=state.head.tenant_id,
                    workflow_id=state.head.workflow_id,
                    dispatch=dispatch,
                    node=activation.node,
                    context=activation.context,
                )
            )

    def _answer_birth(self, pending: PendingTransition, answer: StartResult | AnabranchError) -> None:
        """The run is not created: tell whoever started it why, or which run stands for it."""
        held = self._held.get(pending.leased.instance_id)
        if held is not None and held.created is not None:
            held.tell_new_run(answer)
            self._held.evict(held)

    def _drop_defective(self, pending: PendingTransition, defect: Exception | None) -> None:
        instance_id = pending.leased.instance_id
        results = [each for each in pending.stimuli if isinstance(each, NodeResult | StepReport)]
        about = ", ".join(who_did(each, run_id=instance_id) for each in results[:NAMES_TOLD_MAX])
        extra = {"instance_id": instance_id}
        logger.error("a decision about %s went wrong", about or f"run {instance_id}", exc_info=defect, extra=extra)
        self._held.drop(instance_id, "its state cannot be decided; it is tried again when its lease lapses")

    def _replace_refused(self, pending: PendingTransition, reason: str) -> bool:
        """The database does not take what a transition holds. What is to be decided again?

        Several stimuli are decided again one by one, to harm only the bad one. A result that stood
        alone becomes a failure; a signal is refused; a start is answered with the reason.
        """
        instance_id = pending.leased.instance_id
        logger.error("the store refused data: %s", reason, extra={"instance_id": instance_id})
        held = self._held_of(pending)
        if held is None:
            return False
        if held.created is not None:
            held.tell_new_run(ValueNotStorable(f"the database does not take the input: {reason}"))
        elif len(pending.stimuli) > 1:
            held.one_at_a_time = True
            return True
        elif isinstance(result := pending.stimuli[0], NodeResult | StepReport):
            pending.stimuli = [as_refused(result, reason, run_id=instance_id)]
            return True
        elif isinstance(asked := pending.stimuli[0], SignalSent):
            held.refuse_caller(asked, ValueNotStorable.code)
            pending.stimuli = []
            return True
        self._held.evict(held)
        return False

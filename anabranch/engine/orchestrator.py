"""The commit loop: collect stimuli, decide in memory, commit, then act.

Everything about an owned instance (a result, a due timer, a signal, a cancel, its creation) arrives here as a stimulus.
Commit loops take the collected stimuli, decide them, commit in one transaction, and act only after that. Transitions
that involve parents or children have loops of their own, because they may wait for locks. No other module changes the
state of an owned instance: `claiming` adopts, `leases` extends and drops, `external_changes` refreshes, all through the
methods here.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Container, Sequence
from typing import Any, TypeAlias, TypeVar

from anabranch.dataclass import dataclass
from anabranch.engine.children import AwaitedChildren
from anabranch.engine.engine_options import EngineOptions
from anabranch.engine.observers import CommittedEvents, Observers
from anabranch.engine.ownership.owned_instances import (
    Mailbox,
    OfferResult,
    OwnedInstance,
    OwnedInstances,
    StartResult,
    owner_of,
)
from anabranch.engine.ownership.reconcile import Reconciler
from anabranch.engine.ports import Clock, Loaded, Outcome, Store
from anabranch.engine.rules.commands import Dispatch
from anabranch.engine.rules.evolve import AnyPlan, AnyState, new_state
from anabranch.engine.rules.shared.run_state import InstanceHead
from anabranch.engine.rules.stimuli import (
    CancelRequested,
    ChildEnded,
    LeaseAcquired,
    LogReloaded,
    PauseRequested,
    ResumeRequested,
    SignalSent,
    Started,
    TimersDue,
)
from anabranch.engine.rules.transitions import (
    BATCH_BYTES_MAX,
    AppliedOutcome,
    PendingTransition,
    Planned,
    answered,
    apply_outcome,
    owed_dispatches,
    plan_transitions,
)
from anabranch.engine.task_worker import TaskWorker
from anabranch.engine.telemetry import RunTelemetry
from anabranch.errors import StoreUnavailable

logger = logging.getLogger("anabranch.engine")

# 30 s, like the wait for an unavailable database at start. After that, the caller of a start, signal or cancel gets an
# error that the outcome is unknown.
REQUEST_PATIENCE_S = 30.0

# 100 ms until a transition that met a lock of another session is tried again, then twice as long each time, up to a
# second: cheap, and soon enough after a frozen process has lost its lock.
LOCKED_PAUSE_MS = 100
LOCKED_PAUSE_MAX_MS = 1_000

_Answer = TypeVar("_Answer")

RunRequest: TypeAlias = SignalSent | CancelRequested | PauseRequested | ResumeRequested
"""Requests of callers to a run."""

_REQUEST_NAMES = {CancelRequested: "the cancel", PauseRequested: "the pause", ResumeRequested: "the resume"}

NO_OUTCOME = Outcome(won=frozenset(), store_now=0)


@dataclass(slots=True)
class _Batch:
    """Decided transitions of owned instances, on their way through a commit."""

    pending_transitions: list[PendingTransition]
    asked_at: float
    """Monotonic seconds just before the decisions: the leases that the batch extends count from there."""

    @property
    def owned(self) -> list[OwnedInstance]:
        """The owned instances in the batch."""
        return [owner_of(pending) for pending in self.pending_transitions]

    def planned(self) -> Planned:
        """The batch in the form for `Store.commit` and `apply_outcome`."""
        return Planned(
            self.pending_transitions,
            [pending.transition for pending in self.pending_transitions if pending.transition is not None],
        )

    def has_capacity_for(self, other: _Batch, *, transitions_max: int) -> bool:
        """Whether the other batch, which must not be empty, fits into one commit with this one."""
        transitions = len(self.pending_transitions) + len(other.pending_transitions)
        return (
            bool(other.pending_transitions)
            and transitions <= transitions_max
            and self._size() + other._size() <= BATCH_BYTES_MAX
        )

    def with_more(self, other: _Batch) -> _Batch:
        """Both batches as one."""
        return _Batch(self.pending_transitions + other.pending_transitions, min(self.asked_at, other.asked_at))

    def _size(self) -> int:
        transitions = [pending.transition for pending in self.pending_transitions if pending.transition is not None]
        return sum(transition.payload_bytes for transition in transitions)


async def _patiently(answer: asyncio.Future[_Answer]) -> _Answer:
    """The answer to a request. Raises TimeoutError after `REQUEST_PATIENCE_S`."""
    # A timer of its own: `asyncio.timeout` costs more, and every start would pay for it.
    timer = asyncio.get_running_loop().call_later(REQUEST_PATIENCE_S, _give_up, answer)
    try:
        return await answer
    finally:
        timer.cancel()


def _give_up(answer: asyncio.Future[Any]) -> None:
    if not answer.done():
        answer.set_exception(TimeoutError())


def _call_all(listeners: Sequence[Callable[[], None]]) -> None:
    """Call each of them; one that raises is logged as a callback of its own would be, and delays no other one."""
    for listener in listeners:
        try:
            listener()
        except Exception as defect:  # noqa: BLE001 -- whatever it is, it is this run's
            details = {"message": "a workflow function could not take its reports", "exception": defect}
            asyncio.get_running_loop().call_exception_handler(details)


class Orchestrator:
    """Advances owned instances. `start` before use; `stop` finishes the commits under way."""

    def __init__(
        self,
        *,
        store: Store,
        task_worker: TaskWorker,
        clock: Clock,
        observers: Observers,
        worker_id: str,
        options: EngineOptions,
    ) -> None:
        self._store = store
        self._task_worker = task_worker
        self._clock = clock
        self._observers = observers
        self._options = options
        self._owned = OwnedInstances(clock, task_worker, options)
        task_worker.report_to(self._owned.receive)
        self._reconciler = Reconciler(
            store=store,
            owned=self._owned,
            task_worker=task_worker,
            clock=clock,
            observers=observers,
            worker_id=worker_id,
            lease_ms=options.lease_ms,
            release=options.release,
        )
        self._children = AwaitedChildren(store=store, owned=self._owned, clock=clock)
        self._cancelled: set[str] = set()
        """Owned instances that our own commits have cancelled, because no parent awaits them any more."""
        self._commit_loops: list[asyncio.Task[None]] = []
        self._families: deque[_Batch] = deque()
        """Transitions that concern parents and children, where these are committed apart."""
        self._family_arrived = asyncio.Event()
        self._family_loops: list[asyncio.Task[None]] = []
        self._locked: set[asyncio.Task[None]] = set()
        """Attempts of transitions that have met somebody else's lock."""
        self._one_locked = asyncio.Semaphore(1)
        """One such attempt at a time: it may take as long as a lock is waited for, and other transitions go first."""
        self.adopted: Callable[[str], None] = lambda _: None
        """Called with the id of each instance with console lines here that is taken over."""
        self.runs_with_lines: Container[str] = ()
        """The instances that this process has console lines of."""
        self._listeners: list[Callable[[], None]] = []
        """Of the workflow functions whose reports are settled by the commit that is acted on just now."""
        self._stopping = False
        self._evaluates = True
        """False once this process stops: the next owners evaluate the remaining pure nodes."""
        self.worker_id = worker_id

    # -- life -----------------------------------------------------------------------------
    async def start(self) -> None:
        """Begin to commit: one loop for each concurrent commit of the store, and as many for families."""
        await self._owned.delays.start()
        await self._children.start()
        numbers = range(self._store.commits_in_flight_max)
        self._commit_loops = [
            asyncio.create_task(self._commit_loop(), name=f"commit-loop-{number}") for number in numbers
        ]
        if self._store.families_apart:
            self._family_loops = [
                asyncio.create_task(self._family_loop(), name=f"family-loop-{number}") for number in numbers
            ]

    def stop_evaluating(self) -> None:
        """Evaluate no more pure nodes; the next owner of the run continues."""
        self._evaluates = False

    async def stop(self) -> None:
        """Commit what has arrived, then return; may be called twice, or before start."""
        await self._owned.delays.stop()
        await self._children.stop()
        self._stopping = self._reconciler.stopping = True
        self._owned.wake_all()
        loops, self._commit_loops = self._commit_loops, []
        try:
            await asyncio.gather(*loops, return_exceptions=True)
            family_loops, self._family_loops = self._family_loops, []
            for _ in family_loops:
                self._families.append(_Batch([], 0.0))  # after everything that has arrived: the end marker
            self._family_arrived.set()
            await asyncio.gather(*family_loops, return_exceptions=True)
        finally:
            self._abandon()

    def _abandon(self) -> None:
        """Drop everything: the next owners decide again what is not committed by now."""
        for task in self._locked:
            task.cancel()
        for owned in filter(None, map(self._owned.get, self._owned.ids)):
            self._owned.evict(owned)

    # -- owned instances ------------------------------------------------------------------
    @property
    def owned(self) -> OwnedInstances:
        """The owned instances, for `leases`."""
        return self._owned

    @property
    def owned_ids(self) -> list[str]:
        """Ids of the owned instances."""
        return self._owned.ids

    def owns(self, instance_id: str) -> bool:
        """Whether this process owns the instance."""
        return self._owned.get(instance_id) is not None

    def head_of(self, instance_id: str) -> InstanceHead | None:
        """The head of an owned instance; None if this process does not own it."""
        owned = self._owned.get(instance_id)
        return None if owned is None else owned.state.head

    @property
    def store_failed_at(self) -> int | None:
        """When the store was last unavailable (ms)."""
        return self._reconciler.store_failed_at

    def note_failure(self, failure: StoreUnavailable) -> None:
        """Note that the store is unavailable: leases that expire meanwhile make no suspects."""
        self._reconciler.note_failure(failure)

    # -- stimuli --------------------------------------------------------------------------
    async def create_run(self, head: InstanceHead, plan: AnyPlan, started: Started) -> StartResult:
        """Create an instance, owned here if `begin`.

        A child that is asked for again while it is being created, or is owned here already, is created once; the
        answer goes to who has asked last. Raises StoreUnavailable, also if somebody else asks after this call, or
        NotFound if its workflow is deleted or, with `only_active`, another version is active.
        """
        if self._stopping:
            raise StoreUnavailable(f"run {head.instance_id} was not started: this process is stopping")
        created: asyncio.Future[StartResult] = asyncio.get_running_loop().create_future()
        owned = self._owned.get(head.instance_id)
        if owned is None:
            owned = self._new_run(head, plan, started, created)
            self._owned.add(owned)
        elif owned.is_new:
            # An earlier attempt of the parent's node has asked for it, perhaps before this process lost the parent and
            # adopted it again. A second creation would take the place of the first in memory, and not in the store.
            owned.answer_start(StoreUnavailable(f"run {head.instance_id}: a later attempt awaits its creation"))
            owned.created = created
        else:
            return StartResult(owned.instance_id, owned.state.status, created=False)
        try:
            return await _patiently(created)
        except TimeoutError:
            if owned.created is created:  # else a later attempt awaits it
                self._owned.evict(owned)
            message = f"run {head.instance_id} could not be stored within {REQUEST_PATIENCE_S:.0f} s"
            raise StoreUnavailable(message, hint="Start it again with the same idempotency key.") from None

    def _new_run(
        self, head: InstanceHead, plan: AnyPlan, started: Started, created: asyncio.Future[StartResult]
    ) -> OwnedInstance:
        return OwnedInstance(
            new_state(plan, head, log_limit=self._options.log_limit),
            0,
            self.worker_id if started.begin else None,
            0,
            mailbox=Mailbox(started),
            created=created,
            extended_at=self._clock.monotonic(),
        )

    def adopt(
        self, claimed: Loaded, state: AnyState, *, asked_at: float, telemetry: RunTelemetry | None = None
    ) -> None:
        """Take over a claimed instance with this state, to which its log was folded.

        Its lease was last extended by a request at `asked_at`. `telemetry` has read the log if that was too large to be
        claimed with it.
        """
        row = claimed.row
        if row.head.instance_id in self.runs_with_lines:
            self.adopted(row.head.instance_id)
        known = self._owned.get(row.head.instance_id)
        if known is not None and known.version >= row.version:
            return  # our lease had expired, and a re-read has found this claim already
        lease_until = row.available_at or self._clock.now() + self._options.lease_ms
        state.is_paused = self._owned.is_paused(row.head)
        owned = OwnedInstance(
            state,
            row.version,
            self.worker_id,
            lease_until,
            mailbox=Mailbox(LeaseAcquired(row.blame)),
            blame=row.blame,
            owes_all=True,
            extended_at=asked_at,
            telemetry=telemetry,
        )
        self._owned.add(owned)
        if claimed.events:
            self._observers.adopted(owned, claimed.events)

    async def ask(self, instance_id: str, stimulus: RunRequest) -> OfferResult:
        """Offer a request to an owned instance and wait until its outcome is committed.

        Raises StoreUnavailable if the outcome is not known in time.
        """
        owned = self._owned.get(instance_id)
        if owned is None or owned.is_new:
            return OfferResult(owned=False)
        answer: asyncio.Future[OfferResult] = asyncio.get_running_loop().create_future()
        owned.requests.append((stimulus, answer))
        self._owned.offer(owned, stimulus)
        try:
            return await _patiently(answer)
        except TimeoutError:
            what = f"signal {stimulus.event!r}" if isinstance(stimulus, SignalSent) else _REQUEST_NAMES[type(stimulus)]
            message = f"run {instance_id}: {what} could not be stored within {REQUEST_PATIENCE_S:.0f} s"
            raise StoreUnavailable(message, hint="Send it again; a signal with the same key.") from None

    async def after_defect(self, head: InstanceHead, defect: Exception) -> None:
        """A claimed run could not be adopted: hand it over, or suspend it. Raises nothing."""
        await self._reconciler.after_defect(head, defect)

    def apply_pauses(self, is_paused: Callable[[InstanceHead], bool]) -> None:
        """Stop runs whose workflow or tenant is paused after what they have begun, and continue the others.

        What is adopted later is asked for, too.
        """
        self._owned.is_paused = is_paused
        for owned in self._owned.all():
            now_paused = is_paused(owned.state.head)
            if now_paused and not owned.state.is_paused:
                owned.state.is_paused = True
                self._begin_nothing(owned)
                self._owned.offer(owned, LogReloaded())  # it may be parked now
            elif owned.state.is_paused and not now_paused:
                owned.state.is_paused, owned.owes_all = False, True
                self._owned.offer(owned, TimersDue())

    async def refresh(self, instance_ids: Sequence[str]) -> None:
        """Re-read owned instances that another process wrote to: fold the new rows, or drop them."""
        known = [owned for owned in map(self._owned.get, instance_ids) if owned is not None]
        settled = [owned for owned in known if not owned.mailbox.in_flight]
        for owned in settled:
            owned.mailbox.in_flight = True
        try:
            await self._reconciler.reread([(owned, None) for owned in settled])
        finally:
            self._owned.put_back(settled)

    # -- the loop -------------------------------------------------------------------------
    async def _commit_loop(self) -> None:
        while True:
            if not self._owned.ready:
                if self._stopping:
                    return
                await self._owned.something_ready()
                continue
            try:
                if not await self._one_batch():
                    await asyncio.sleep(0)  # nothing was committed: let other tasks run
            except Exception:
                logger.exception("a commit loop failed; it continues with the next batch")

    async def _one_batch(self) -> bool:
        """Decide the collected stimuli, commit and perform; False if there was nothing to commit."""
        now, asked_at = self._clock.now(), self._clock.monotonic()
        taken = self._owned.take(self._options.batch_transitions_max)
        try:
            planned = plan_transitions(
                taken,
                now=now,
                lease_ms=self._options.lease_ms,
                transitions_max=self._options.batch_transitions_max,
                evaluations_max=self._options.evaluations_max,
            )
        except Exception:
            logger.exception("a decision failed; its runs are adopted again when their leases expire")
            for owned, _ in taken:
                self._owned.evict(owned)
            return False
        if len(planned.pending_transitions) < len(taken):
            self._owned.return_undecided(taken[len(planned.pending_transitions) :])
        batch = _Batch(planned.pending_transitions, asked_at)
        if self._store.families_apart:
            batch = self._set_families_apart(batch)
        await self._carry_out(batch)
        return bool(planned.transitions)

    def _set_families_apart(self, batch: _Batch) -> _Batch:
        """Move transitions of parents, and those that may wait for the lock of a parent or child, to the family loops;
        returns the rest.

        Ends of children raise the version of their parent, so its transitions are committed together with them;
        otherwise they would keep losing against them.
        """
        families = [
            pending
            for pending in batch.pending_transitions
            if pending.transition is not None and (pending.transition.concerns_family or pending.leased.state.children)
        ]
        if not families:
            return batch
        self._families.append(_Batch(families, batch.asked_at))
        self._family_arrived.set()
        apart = set(map(id, families))
        return _Batch([each for each in batch.pending_transitions if id(each) not in apart], batch.asked_at)

    async def _family_loop(self) -> None:
        """Commit transitions about parents and children, until an empty batch ends the loop."""
        while True:
            while not self._families:
                self._family_arrived.clear()
                await self._family_arrived.wait()
            batch = self._families.popleft()
            if not batch.pending_transitions:
                return
            while self._families and batch.has_capacity_for(
                self._families[0], transitions_max=self._options.batch_transitions_max
            ):
                batch = batch.with_more(self._families.popleft())
            await self._carry_out(batch)

    async def _carry_out(self, batch: _Batch, *, may_wait: bool = False, pause_ms: int = LOCKED_PAUSE_MS) -> None:
        """Commit the transitions of a batch, and act on the outcome."""
        locked: Sequence[PendingTransition] = ()
        try:
            try:
                locked = await self._commit(batch, may_wait=may_wait)
            except StoreUnavailable as failure:
                self._reconciler.note_failure(failure)
                await self._reconciler.after_failed_commit(
                    [(owner_of(pending), pending) for pending in batch.pending_transitions]
                )
        except Exception:
            logger.exception("a batch failed; its runs are adopted again when their leases expire")
            for owned in batch.owned:
                self._owned.evict(owned)
        finally:
            if locked:
                self._put_back_around(batch, locked, pause_ms=pause_ms)
            else:
                self._owned.put_back(batch.owned)
        if self._reconciler.defective:
            await self._reconciler.settle_defective()
        if self._cancelled:
            await self._refresh_cancelled()

    def _put_back_around(self, batch: _Batch, locked: Sequence[PendingTransition], *, pause_ms: int) -> None:
        """Put settled instances back; transitions that met a lock stay in flight until it is gone."""
        of_locked = {id(pending) for pending in locked}
        for pending in batch.pending_transitions:
            if id(pending) not in of_locked:
                self._owned.put_back([owner_of(pending)])
                continue
            later = self._commit_later(_Batch([pending], batch.asked_at), pause_ms)
            task = asyncio.create_task(later, name="commit-later")
            self._locked.add(task)
            task.add_done_callback(self._locked.discard)

    async def _commit_later(self, batch: _Batch, pause_ms: int) -> None:
        """Commit a transition unchanged once more, if we still own the instance then."""
        await self._clock.sleep(pause_ms)
        async with self._one_locked:
            if all(owned.is_owned for owned in batch.owned):
                await self._carry_out(batch, may_wait=True, pause_ms=min(2 * pause_ms, LOCKED_PAUSE_MAX_MS))

    async def _commit(self, batch: _Batch, *, may_wait: bool) -> Sequence[PendingTransition]:
        """Commit a batch and act on its outcome; returns the transitions that met a lock of another session."""
        planned, outcome = batch.planned(), NO_OUTCOME
        if planned.transitions:
            asked_at = self._clock.monotonic()
            outcome = await self._store.commit(planned.transitions, may_wait=may_wait)
            self._reconciler.commits_failed = 0
            self._clock.adjust(outcome.store_now, asked_at=asked_at)
        applied = apply_outcome(planned, outcome)
        if outcome.cancelled:
            self._cancelled.update(filter(self.owns, outcome.cancelled))
        self._notify_parents(applied, outcome)
        news: list[CommittedEvents] = []
        # One by one: what raises over one run must not affect the others in the batch.
        for won in applied.won:
            try:
                self._perform(won, batch.asked_at, news)
            except Exception as defect:  # noqa: BLE001 -- whatever it is, it is this run's
                self._reconciler.drop_defective(won, defect)
        for pending in applied.idle:
            try:
                self._settle_idle(pending)
            except Exception as defect:  # noqa: BLE001 -- the same
                self._reconciler.drop_defective(pending, defect)
        if self._listeners:
            # All in one callback: one for each function would cost as much as a part of its step.
            asyncio.get_running_loop().call_soon(_call_all, self._listeners)
            self._listeners = []
        if news:
            self._observers.committed(news)
        if len(applied.won) + len(applied.idle) + len(applied.locked) < len(planned.pending_transitions):
            await self._reconciler.settle_others(applied)
        return applied.locked

    # -- after the commit -----------------------------------------------------------------
    def _notify_parents(self, applied: AppliedOutcome, outcome: Outcome) -> None:
        """Pass ends of children to parents that are owned here, too, without a re-read. The commit raised the parent's
        version, so that decisions made without knowing of the end lose.

        We know of it: unless something else happened to the parent, we continue from the new version.
        """
        for won in applied.won:
            transition = won.transition
            if transition is None or transition.wakes is None:
                continue
            parent, state = self._owned.get(transition.wakes), won.leased.state
            if parent is None or state.terminal is None or state.outcome is None:
                continue
            if outcome.woken.get(parent.instance_id) == parent.version + 1:
                parent.version += 1
            self._owned.offer(parent, ChildEnded(state.head.instance_id, state.terminal, state.outcome))

    async def _refresh_cancelled(self) -> None:
        """Re-read the instances that our own commits have cancelled; those with a transition in flight after it."""
        ids = [instance_id for instance_id in sorted(self._cancelled) if not self._owned.is_in_flight(instance_id)]
        self._cancelled.difference_update(ids)
        await self.refresh(ids)

    def _perform(self, won: PendingTransition, asked_at: float, news: list[CommittedEvents]) -> None:
        """Perform the commands of a committed transition; adds its events for observers to `news`."""
        transition, owned = won.transition, won.leased
        assert transition is not None
        assert isinstance(owned, OwnedInstance), "this process decides for what it owns"
        events = transition.events
        if events:
            news.append(CommittedEvents(owned.instance_id, events, transition.status, events, owned))
        if not owned.is_owned:
            return
        if transition.available_at is not None:
            owned.extended_at = asked_at
        if self._reconciler.defects:
            self._reconciler.decided(owned.instance_id)
        if transition.clears:
            self._owned.suspects.note(owned.instance_id, None)
        for stop in won.stops:
            owned.performing.discard(stop)
            self._task_worker.stop_job(owned.instance_id, stop)
        if owned.created is not None:
            owned.answer_start(StartResult(owned.instance_id, transition.status, created=True))
        if won.parks:
            if owned.requests:
                owned.answer_requests(won)
            self._owned.evict(owned)
            return
        self._go_on(owned, won, won.dispatches, won.next_due)

    def _settle_idle(self, pending: PendingTransition) -> None:
        """Settle stimuli that changed nothing: answer their callers, and perform what is outstanding after an
        adoption."""
        owned = owner_of(pending)
        if owned.is_owned:
            self._go_on(owned, pending, [], owned.state.next_due())

    def _go_on(
        self, owned: OwnedInstance, pending: PendingTransition, dispatches: Sequence[Dispatch], next_due: int | None
    ) -> None:
        """Continue after a commit: perform commands, and schedule due times."""
        if owned.performing:
            owned.performing.difference_update(answered(pending.stimuli))
        if owned.requests:
            owned.answer_requests(pending)
        self._dispatch(owned, dispatches)
        if owned.state.unevaluated:
            if self._evaluates and not owned.state.stands_still:
                self._owned.offer_evaluation(owned)
        elif owned.evaluates_singly:
            owned.evaluates_singly = False  # the node whose output the database refused has failed by now
        owned.committed_seq = owned.state.last_seq
        if owned.listener is not None:
            self._listeners.append(owned.listener)
        if owned.due_at != next_due:
            self._owned.schedule(owned, next_due)
        if owned.unchecked:
            self._children.look_at(owned)

    def _dispatch(self, owned: OwnedInstance, dispatches: Sequence[Dispatch]) -> None:
        state = owned.state
        if not state.may_perform:
            self._begin_nothing(owned)
            return
        if owned.owes_all:
            owned.owes_all = False
            new, dispatches = set(dispatches), owed_dispatches(state)
            self._task_worker.note_dispatched_before(
                owned.instance_id, [each for each in dispatches if each not in new]
            )
        for dispatch in dispatches:
            activation = state.awaits(dispatch.node_id, dispatch.scope, dispatch.attempt)
            if activation is None or activation.node.evaluate is not None or dispatch in owned.performing:
                continue  # the next decision evaluates pure nodes
            owned.performing.add(dispatch)
            self._task_worker.execute(state.head, dispatch, activation.node, activation.context, activation.redone)

    def _begin_nothing(self, owned: OwnedInstance) -> None:
        """The run stands still: executions may end, and after the resume everything else is outstanding again."""
        owned.owes_all = True
        queued = self._task_worker.withdraw(owned.instance_id)
        if queued:
            owned.performing.difference_update(queued)
            self._owned.offer(owned, LogReloaded())  # it may be parked now

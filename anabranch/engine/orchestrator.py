"""The loop: drain → plan → commit → settle → perform.

Holds the instances that this process advances. Whatever concerns one of them (a result, a due
timer, a signal, a cancel, its birth) is offered as a stimulus; lanes take what has piled up,
decide it in memory, commit it in one transaction and only then act. Nobody else touches the
state of a held instance. `recovery` adopts, `leases` extends and drops, `foreign` refreshes,
all through the methods here.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from anabranch.engine.plans import PlanCache
from anabranch.engine.ports import Claimed, Clock, Loaded, Observer, Outcome, Store
from anabranch.engine.queues import DelayQueue, NodeJob
from anabranch.engine.rules.commands import Dispatch
from anabranch.engine.rules.events import Status
from anabranch.engine.rules.evolve import fold
from anabranch.engine.rules.instance import InstanceHead, InstanceState
from anabranch.engine.rules.plan import Plan
from anabranch.engine.rules.stimuli import (
    Adopted,
    CancelRequested,
    Failed,
    NodeResult,
    SignalSent,
    Started,
    Stimulus,
    TailLoaded,
    TimersDue,
)
from anabranch.engine.rules.turn import Draft, Holding, Planned, Won, owed_dispatches, plan_turns, settle, was_written
from anabranch.engine.rules.values import Payload
from anabranch.engine.task_worker import TaskWorker
from anabranch.errors import AnabranchError, RunError, StoreUnavailable, ValueNotStorable

logger = logging.getLogger("anabranch.engine")

# 250 ms between tries while the store is away: soon enough to lose no lease over a short
# restart, rare enough not to disturb one.
STORE_RETRY_MS = 250

# 30 s: as long as an absent database is waited for at start. Then whoever starts a run hears
# that it is not known to be stored, instead of waiting for the database with it.
START_PATIENCE_S = 30.0

NO_OUTCOME = Outcome(won=frozenset(), store_now=0)


@dataclass(frozen=True, slots=True)
class Birth:
    """How a start ended: the instance that stands for it, and whether this call made it."""

    instance_id: str
    status: Status
    created: bool


@dataclass(frozen=True, slots=True)
class Answer:
    """How a signal or cancel offered to a held instance ended; `held` False: it is not ours any more."""

    held: bool
    status: Status = Status.RUNNING
    delivered: bool | None = False
    """For a signal: was a fitting wait open? None: the run ended before it, so it was not kept."""
    refused: str | None = None


@dataclass(slots=True, eq=False)
class _Held:
    """A held instance with its unread stimuli and what we perform for it."""

    holding: Holding
    inbox: list[Stimulus] = field(default_factory=list)
    asked: list[tuple[Stimulus, asyncio.Future[Answer]]] = field(default_factory=list)
    performing: set[Dispatch] = field(default_factory=set)
    born: asyncio.Future[Birth] | None = None
    in_flight: bool = False
    queued: bool = False
    owes_all: bool = False
    """After adoption or a re-read: the next settlement performs everything outstanding, not only what is new."""
    extended_at: float = 0.0
    """Monotonic seconds just before the last request that extended the lease."""

    def tell_birth(self, birth: Birth | AnabranchError) -> None:
        """Answer whoever started it, unless they have stopped waiting. It is no birth any more."""
        born, self.born = self.born, None
        if born is None or born.done():
            return
        if isinstance(birth, Birth):
            born.set_result(birth)
        else:
            born.set_exception(birth)


class Orchestrator:
    """Advances the instances it holds. `start` before use; `stop` finishes the commits under way."""

    def __init__(
        self,
        *,
        store: Store,
        plans: PlanCache,
        task_worker: TaskWorker,
        clock: Clock,
        observer: Observer,
        worker_id: str,
        lease_ms: int,
        recoveries_max: int,
        batch_turns_max: int,
    ) -> None:
        self._store = store
        self._plans = plans
        self._task_worker = task_worker
        self._clock = clock
        self._observer = observer
        self._lease_ms = lease_ms
        self._recoveries_max = recoveries_max
        self._batch_turns_max = batch_turns_max
        self._held: dict[str, _Held] = {}
        self._ready: deque[str] = deque()
        self._arrived = asyncio.Event()
        self._settled = asyncio.Event()
        self._lanes: list[asyncio.Task[None]] = []
        self._stopping = False
        self._commits_failed = 0
        """Commits in a row that the store did not answer."""
        self.worker_id = worker_id
        self.delays = DelayQueue(clock, self._timer_due)
        self.store_failed_at: int | None = None
        """When the store last did not answer (ms): leases that ended before were lost with it, not with a worker."""

    # -- life -----------------------------------------------------------------------------
    async def start(self) -> None:
        """Begin to commit: one lane for each commit that the store takes at once."""
        await self.delays.start()
        self._lanes = [
            asyncio.create_task(self._lane(), name=f"lane-{number}")
            for number in range(self._store.commits_in_flight_max)
        ]

    async def stop(self) -> None:
        """Commit what has arrived, then return; may be called twice, or before start."""
        await self.delays.stop()
        self._stopping = True
        self._arrived.set()
        lanes, self._lanes = self._lanes, []
        await asyncio.gather(*lanes, return_exceptions=True)
        for held in list(self._held.values()):
            self._let_go(held)

    # -- what is held ---------------------------------------------------------------------
    @property
    def held_ids(self) -> list[str]:
        """Ids of the held instances."""
        return list(self._held)

    def holds(self, instance_id: str) -> bool:
        """Is this instance advanced here?"""
        return instance_id in self._held

    def settled_leases(self) -> Iterator[tuple[str, int, int, float]]:
        """(id, version, lease end ms, monotonic time of the last extension) where no turn is in flight."""
        for instance_id, held in self._held.items():
            if not held.in_flight and held.born is None:
                yield instance_id, held.holding.version, held.holding.lease_until, held.extended_at

    def extensions(self) -> list[tuple[str, float]]:
        """(id, monotonic time of the last extension) of every held instance that is stored."""
        return [(instance_id, held.extended_at) for instance_id, held in self._held.items() if held.born is None]

    def lease_extended(self, instance_id: str, *, until: int, asked_at: float) -> None:
        """Note that a held instance's lease now runs until then."""
        held = self._held.get(instance_id)
        if held is not None:
            held.holding.lease_until = max(held.holding.lease_until, until)
            held.extended_at = asked_at

    def drop(self, instance_id: str, why: str) -> None:
        """Stop the handlers of an instance and forget it: it is, or may soon be, another worker's."""
        held = self._held.get(instance_id)
        if held is not None:
            logger.warning("dropped a run: %s", why, extra={"instance_id": instance_id})
            self._let_go(held)

    # -- stimuli --------------------------------------------------------------------------
    async def give_birth(self, head: InstanceHead, plan: Plan, input_: Payload, *, hold: bool) -> Birth:
        """Create an instance, held here if `hold` says that there is room. Raises StoreUnavailable."""
        holding = Holding(InstanceState(plan, head), 0, self.worker_id if hold else None, 0)
        held = _Held(
            holding,
            inbox=[Started(input_, begin=hold)],
            born=asyncio.get_running_loop().create_future(),
            extended_at=self._clock.monotonic(),
        )
        self._held[head.instance_id] = held
        self._enqueue(held)
        assert held.born is not None
        try:
            async with asyncio.timeout(START_PATIENCE_S):
                return await held.born
        except TimeoutError:
            self._let_go(held)
            message = f"run {head.instance_id} could not be stored within {START_PATIENCE_S:.0f} s"
            raise StoreUnavailable(message, hint="Start it again with the same idempotency key.") from None

    def adopt(self, claimed: Claimed, plan: Plan, *, asked_at: float) -> None:
        """Take over an instance that a claim has just given us."""
        row = claimed.loaded.row
        counts = claimed.lapsed and not self._lost_with_the_store(claimed.lapsed_at)
        state = fold(plan, row.head, claimed.loaded.events)
        holding = Holding(state, row.version, self.worker_id, row.available_at or self._clock.now() + self._lease_ms)
        held = _Held(holding, inbox=[Adopted(counts, self._recoveries_max)], owes_all=True, extended_at=asked_at)
        stale = self._held.get(row.head.instance_id)
        if stale is not None:
            self._let_go(stale)
        self._held[row.head.instance_id] = held
        self._enqueue(held)

    def receive_result(self, instance_id: str, result: NodeResult) -> None:
        """A task worker reports; results for what is not held any more are dropped."""
        held = self._held.get(instance_id)
        if held is not None:
            held.inbox.append(result)
            self._enqueue(held)

    async def ask(self, instance_id: str, stimulus: SignalSent | CancelRequested) -> Answer:
        """Offer a signal or cancel to a held instance and wait until what follows is committed."""
        held = self._held.get(instance_id)
        if held is None or held.born is not None:
            return Answer(held=False)
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        held.asked.append((stimulus, future))
        held.inbox.append(stimulus)
        self._enqueue(held)
        return await future

    async def refresh(self, instance_ids: Sequence[str]) -> None:
        """Another process wrote to these held instances: fold what it appended, or let them go."""
        held_now = [h for h in map(self._held.get, instance_ids) if h is not None and not h.in_flight]
        for held in held_now:
            held.in_flight = True
        try:
            await self._reread([(held, None) for held in held_now])
        finally:
            for held in held_now:
                held.in_flight = False
                self._enqueue(held)

    def _timer_due(self, instance_id: str) -> None:
        held = self._held.get(instance_id)
        if held is not None:
            held.inbox.append(TimersDue())
            self._enqueue(held)

    def _enqueue(self, held: _Held) -> None:
        if held.inbox and not held.queued and not held.in_flight and self._held.get(held.holding.instance_id) is held:
            held.queued = True
            self._ready.append(held.holding.instance_id)
            self._arrived.set()

    # -- the loop -------------------------------------------------------------------------
    async def _lane(self) -> None:
        while True:
            if not self._ready:
                if self._stopping:
                    return
                self._arrived.clear()
                await self._arrived.wait()
                continue
            await self._one_batch()

    async def _one_batch(self) -> None:
        """Decide what has piled up, commit it, perform it."""
        taken: list[_Held] = []
        planned = plan_turns(
            self._work(taken), now=self._clock.now(), lease_ms=self._lease_ms, turns_max=self._batch_turns_max
        )
        asked_at = self._clock.monotonic()
        try:
            if planned.turns:
                outcome = await self._store.commit(planned.turns)
                self._commits_failed = 0
            else:
                outcome = NO_OUTCOME
            await self._settle(planned, outcome, asked_at)
        except StoreUnavailable as failure:
            self.note_failure(failure)
            await self._after_failed_commit(taken, planned.drafts)
        except Exception:
            logger.exception("a batch went wrong; its runs are taken up again when their leases lapse")
            for held in taken:
                self._let_go(held)
        finally:
            for held in taken:
                held.in_flight = False
                self._enqueue(held)

    def _work(self, taken: list[_Held]) -> Iterator[tuple[Holding, Sequence[Stimulus]]]:
        """Ready holdings with their stimuli, marked in flight as they are taken."""
        while self._ready:
            held = self._held.get(self._ready.popleft())
            if held is None or not held.queued:
                continue
            held.queued = False
            if held.in_flight:
                continue  # being refreshed: it is queued again after that
            held.in_flight = True
            taken.append(held)
            stimuli, held.inbox = held.inbox, []
            yield held.holding, stimuli

    async def _settle(self, planned: Planned, outcome: Outcome, asked_at: float) -> None:
        if planned.turns:
            self._clock.adjust(outcome.store_now)
        settled = settle(planned, outcome)
        for won in settled.won:
            self._perform(won, asked_at)
        for draft in settled.idle:
            self._settle_idle(draft)
        for draft, existing_id in settled.existing:
            self._answer_repeated_birth(draft, existing_id)
        for draft in settled.defective:
            logger.error(
                "a decision went wrong", exc_info=draft.defect, extra={"instance_id": draft.holding.instance_id}
            )
            self.drop(draft.holding.instance_id, "its state cannot be decided; it is tried again when its lease lapses")
        again = [draft for draft, reason in settled.refused if self._replace_refused(draft, reason)]
        pairs = [(self._held.get(draft.holding.instance_id), draft) for draft in settled.unknown + again]
        await self._reread(
            [(held, draft) for held, draft in pairs if held is not None and held.holding is draft.holding]
        )

    # -- after the commit -----------------------------------------------------------------
    def _perform(self, won: Won, asked_at: float) -> None:
        """Do what a committed turn asks for, and tell who wants to know."""
        draft, turn = won.draft, won.draft.turn
        assert turn is not None
        held = self._held.get(turn.instance_id)
        if won.events:
            self._observer.committed(turn.instance_id, won.events, turn.status)
        if held is None or held.holding is not draft.holding:
            return  # dropped while the commit was under way
        if turn.available_at is not None:
            held.extended_at = asked_at
        for stop in won.stops:
            held.performing.discard(stop)
            self._task_worker.stop_job(turn.instance_id, stop)
        self._answer(held, draft)
        if held.born is not None:
            held.tell_birth(Birth(turn.instance_id, turn.status, created=True))
        if draft.parks:
            self._let_go(held)
            return
        self._forget_answered(held, draft)
        self._dispatch(held, won.dispatches)
        self.delays.schedule(turn.instance_id, won.next_due)

    def _settle_idle(self, draft: Draft) -> None:
        """Stimuli that changed nothing: answer who asked, and perform what an adoption owes."""
        held = self._held.get(draft.holding.instance_id)
        if held is None or held.holding is not draft.holding:
            return
        self._answer(held, draft)
        self._forget_answered(held, draft)
        self._dispatch(held, [])
        self.delays.schedule(draft.holding.instance_id, draft.holding.state.next_due())

    def _dispatch(self, held: _Held, dispatches: Sequence[Dispatch]) -> None:
        state = held.holding.state
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

    def _forget_answered(self, held: _Held, draft: Draft) -> None:
        for stimulus in draft.stimuli:
            if isinstance(stimulus, NodeResult):
                held.performing.discard(Dispatch(stimulus.node_id, stimulus.scope, stimulus.attempt))

    def _answer(self, held: _Held, draft: Draft) -> None:
        """Tell those who asked what became of their signal or cancel."""
        if not held.asked:
            return
        decided = {id(stimulus): decision for stimulus, decision in zip(draft.stimuli, draft.decisions, strict=True)}
        waiting = []
        for stimulus, future in held.asked:
            decision = decided.get(id(stimulus))
            if decision is None:
                waiting.append((stimulus, future))
            elif not future.done():
                status = draft.holding.state.status
                future.set_result(
                    Answer(held=True, status=status, delivered=decision.delivered, refused=decision.refused)
                )
        held.asked = waiting

    def _answer_repeated_birth(self, draft: Draft, existing_id: str) -> None:
        held = self._held.get(draft.holding.instance_id)
        if held is not None and held.born is not None:
            held.tell_birth(Birth(existing_id, Status.PENDING, created=False))
            self._let_go(held)

    def _replace_refused(self, draft: Draft, reason: str) -> bool:
        """The database does not take what a turn holds: a result of ours becomes a failure, to be decided again."""
        instance_id = draft.holding.instance_id
        logger.error("the store refused data: %s", reason, extra={"instance_id": instance_id})
        held = self._held.get(instance_id)
        if held is None or held.holding is not draft.holding:
            return False
        if held.born is not None:
            held.tell_birth(ValueNotStorable(f"the database does not take the input: {reason}"))
        results = [_refused_result(stimulus, reason) for stimulus in draft.stimuli if isinstance(stimulus, NodeResult)]
        for stimulus, future in held.asked:
            if not isinstance(stimulus, NodeResult) and not future.done():
                future.set_result(Answer(held=True, refused=ValueNotStorable.code))
        held.asked = []
        if not results:
            self._let_go(held)
            return False
        draft.stimuli = results
        return True

    def _let_go(self, held: _Held) -> None:
        """Forget an instance: its handlers are stopped, its timers cleared, who still asks is told to ask the store."""
        instance_id = held.holding.instance_id
        if self._held.get(instance_id) is held:
            del self._held[instance_id]
            self.delays.schedule(instance_id, None)
            if held.performing:
                self._task_worker.stop_instance(instance_id)
        held.queued = False
        for _, future in held.asked:
            if not future.done():
                future.set_result(Answer(held=False))
        if held.born is not None and not held.born.done():
            held.born.set_exception(
                StoreUnavailable(f"run {instance_id}: stopped before its start was known to be stored")
            )

    # -- unclear commits ------------------------------------------------------------------
    async def _after_failed_commit(self, taken: Sequence[_Held], drafts: Sequence[Draft]) -> None:
        """Read what became of the batch, and let it be tried again.

        The first failure may have been a broken connection, so its batch is tried again at once. A
        store that answers reads but no commits (a full disk) must neither be asked without a
        pause nor keep a stopping process for ever.
        """
        self._commits_failed += 1
        if self._commits_failed > 1:
            if self._stopping:
                for held in taken:
                    self._let_go(held)  # whoever takes it next goes on from what is committed
                return
            await self._clock.sleep(STORE_RETRY_MS)
        await self._reread([(held, draft) for held, draft in zip(taken, drafts, strict=True)])

    async def _reread(self, unclear: list[tuple[_Held, Draft | None]]) -> None:
        """Fold these instances anew from the store, waiting for it if it is away."""
        while unclear:
            try:
                loaded = await self._store.load([held.holding.instance_id for held, _ in unclear])
            except StoreUnavailable as failure:
                self.note_failure(failure)
                if self._stopping:
                    for held, _ in unclear:
                        self._let_go(held)  # whoever takes it next reads what became of it
                    return
                await self._clock.sleep(STORE_RETRY_MS)
                unclear = [pair for pair in unclear if self._held.get(pair[0].holding.instance_id) is pair[0]]
                continue
            for held, draft in unclear:
                if self._held.get(held.holding.instance_id) is held:
                    self._refold(held, draft, loaded.get(held.holding.instance_id))
            return

    def _refold(self, held: _Held, draft: Draft | None, loaded: Loaded | None) -> None:
        """Go on from what is stored. A draft of unknown fate was written, or is decided again."""
        old = held.holding
        written = False
        if draft is not None and draft.turn is not None and loaded is not None:
            written = was_written(draft.turn, loaded.events)
        if draft is not None and written:
            self._answer(held, draft)
            self._forget_answered(held, draft)
        elif draft is not None:
            held.inbox[:0] = draft.stimuli
        if loaded is None:
            if held.born is None:
                self._let_go(held)  # its rows were removed
            else:
                held.holding = Holding(InstanceState(old.state.plan, old.state.head), 0, old.worker_id, 0)
            return
        row = loaded.row
        self._tell_unseen(held, draft, loaded)
        if held.born is not None:
            held.tell_birth(Birth(row.head.instance_id, row.status, created=True))
        if row.worker_id != self.worker_id or row.status.is_terminal:
            self._let_go(held)
            return
        state = fold(old.state.plan, row.head, loaded.events)
        held.holding = Holding(state, row.version, self.worker_id, row.available_at or old.lease_until)
        held.owes_all = True
        held.inbox.insert(0, TailLoaded())
        self._stop_unawaited(held)

    def _tell_unseen(self, held: _Held, draft: Draft | None, loaded: Loaded) -> None:
        """Observers here see the rows that they have not seen: a turn found written, a foreign write."""
        seen = held.holding.state.last_seq
        if draft is not None and draft.turn is not None and draft.turn.events:
            seen = draft.turn.events[0].seq - 1
        news = [event for event in loaded.events if event.seq > seen]
        if news:
            self._observer.committed(held.holding.instance_id, news, loaded.row.status)

    def _stop_unawaited(self, held: _Held) -> None:
        state = held.holding.state
        for dispatch in list(held.performing):
            if not state.owes(dispatch):
                held.performing.discard(dispatch)
                self._task_worker.stop_job(state.head.instance_id, dispatch)

    def note_failure(self, failure: StoreUnavailable) -> None:
        """Remember that the store was away: leases that lapse meanwhile tell nothing about their workers."""
        logger.warning("%s", failure.message)
        self.store_failed_at = self._clock.now()

    def _lost_with_the_store(self, lapsed_at: int | None) -> bool:
        return lapsed_at is not None and self.store_failed_at is not None and lapsed_at <= self.store_failed_at


def _refused_result(result: NodeResult, reason: str) -> NodeResult:
    message = f"the database does not take this output: {reason}"
    error = RunError(ValueNotStorable.code, "ValueNotStorable", message, result.node_id, result.scope, result.attempt)
    return NodeResult(result.node_id, result.scope, result.attempt, Failed(error, retryable=False))

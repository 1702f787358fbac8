"""Owned instances: their states, mailboxes, waiting callers and ready queue.

A result is put into the mailbox of its run, taken out for a decision, and after the commit the run is put back.
`orchestrator` decides, commits and performs; `reconcile` reads again what may have changed; `leases` and
`external_changes` only read. Nothing here calls the store.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field

from anabranch.dataclass import dataclass
from anabranch.engine.engine_options import EngineOptions
from anabranch.engine.ports import Clock
from anabranch.engine.queues import DelayQueue
from anabranch.engine.rules.coded.coded_plan import CODED_KIND
from anabranch.engine.rules.events import Status
from anabranch.engine.rules.evolve import AnyState
from anabranch.engine.rules.shared.blame import ALONE_MS, Blame, SuspectCapacity
from anabranch.engine.rules.shared.run_state import InstanceHead
from anabranch.engine.rules.stimuli import EvaluationDue, NodeResult, Started, StepReport, Stimulus, TimersDue
from anabranch.engine.rules.transitions import LeasedState, PendingTransition
from anabranch.engine.task_worker import TaskWorker
from anabranch.engine.telemetry import RunTelemetry
from anabranch.errors import AnabranchError, StoreUnavailable

logger = logging.getLogger("anabranch.engine")

# At most 8 nodes or steps in a log line: enough to find the cause.
NAMES_SHOWN_MAX = 8


@dataclass(frozen=True, slots=True)
class StartResult:
    """The result of a start: the instance, and whether this call created it."""

    instance_id: str
    status: Status
    created: bool


@dataclass(frozen=True, slots=True)
class OfferResult:
    """The result of a request that was offered to an owned instance; `owned` False: it is not owned here any more."""

    owned: bool
    status: Status = Status.RUNNING
    delivered: bool | None = False
    """For a signal: whether a matching wait was open. None: the run ended first, so the signal was not kept."""
    refused: str | None = None


class Mailbox:
    """Stimuli of one instance that are not decided yet."""

    __slots__ = ("in_flight", "one_at_a_time", "queued", "stimuli")

    def __init__(self, *stimuli: Stimulus) -> None:
        self.stimuli: list[Stimulus] = list(stimuli)
        self.queued = False
        """It is among those that have something to decide."""
        self.in_flight = False
        """What was taken out of it is being decided or committed; the rest waits until that is settled."""
        self.one_at_a_time = False
        """The store refused a transition: its stimuli are decided one by one, to find out which it does not take."""

    def take(self) -> list[Stimulus]:
        """Take the stimuli to decide next; the rest stays. A creation is decided alone: it stores the input only."""
        if len(self.stimuli) > 1 and (self.one_at_a_time or isinstance(self.stimuli[0], Started)):
            return [self.stimuli.pop(0)]
        self.one_at_a_time = False
        stimuli, self.stimuli = self.stimuli, []
        return stimuli


@dataclass(slots=True, eq=False)
class OwnedInstance(LeasedState):
    """An owned instance: its state, its mailbox, its timer and its executions."""

    mailbox: Mailbox = field(default_factory=Mailbox)
    created: asyncio.Future[StartResult] | None = None
    """The caller of the start, until the run is known to be stored."""
    requests: list[tuple[Stimulus, asyncio.Future[OfferResult]]] = field(default_factory=list)
    """Signals, cancels, pauses and resumes that are not answered, with the futures that their callers await."""
    is_owned: bool = False
    """It is still owned and was not replaced since it was added."""
    owes_all: bool = False
    """After adoption or a re-read: the next settlement performs everything outstanding, not only what is new."""
    committed_seq: int = 0
    """The last row of the state that is known to be committed; later ones are in flight."""
    due_at: int | None = None
    """When the delay queue calls for it."""
    listener: Callable[[], None] | None = None
    """The current call of the workflow function: notified whenever its reports are settled."""
    steps_under_way: Callable[[], Sequence[str]] = tuple
    """The steps that the current call of the function is executing."""
    extended_at: float = 0.0
    """Monotonic seconds just before the last request that extended the lease."""
    telemetry: RunTelemetry | None = None
    """Receives the rows written here; None without telemetry, and before the first rows are counted."""

    @property
    def is_new(self) -> bool:
        """Whether it is not known to be stored yet."""
        return self.created is not None

    def answer_start(self, result: StartResult | AnabranchError) -> None:
        """Answer the caller of the start, unless it has stopped waiting."""
        created, self.created = self.created, None
        if created is None or created.done():
            return
        if isinstance(result, StartResult):
            created.set_result(result)
        else:
            created.set_exception(result)

    def answer_requests(self, pending: PendingTransition) -> None:
        """Answer the callers whose requests a committed transition has decided."""
        decided = {id(each): decision for each, decision in zip(pending.stimuli, pending.decisions, strict=True)}
        waiting, status = [], self.state.status
        for request, answer in self.requests:
            decision = decided.get(id(request))
            if decision is None:
                waiting.append((request, answer))
            elif not answer.done():
                answer.set_result(OfferResult(True, status, decision.delivered, decision.refused))
        self.requests = waiting

    def refuse_request(self, refused: Stimulus, code: str) -> None:
        """Answer the caller of a request that cannot be stored."""
        for request, answer in self.requests:
            if request is refused and not answer.done():
                answer.set_result(OfferResult(owned=True, refused=code))
        self.requests = [(request, answer) for request, answer in self.requests if request is not refused]

    def replace_state(self, state: AnyState, *, version: int, worker_id: str | None, lease_until: int) -> None:
        """Continue from a newly folded state; decisions on the old one are void."""
        state.is_paused = self.state.is_paused
        state.on_trial = (
            self.state.on_trial and state.suspension is not None and state.suspension.reason.is_offered_again
        )
        self.state, self.version, self.worker_id, self.lease_until = state, version, worker_id, lease_until
        self.unchecked = set(state.children)

    @property
    def under_way(self) -> str:
        """The executing nodes and steps, for log lines."""
        nodes = [f"{each.node_id} {each.scope}".strip() for each in self.performing if each.node_id]
        names = [*nodes, *self.steps_under_way()]
        more = [f"{len(names) - NAMES_SHOWN_MAX} more"] if len(names) > NAMES_SHOWN_MAX else []
        return ", ".join([*sorted(names)[:NAMES_SHOWN_MAX], *more]) or "nothing"


def owner_of(pending: PendingTransition) -> OwnedInstance:
    """The owned instance of a pending transition."""
    assert isinstance(pending.leased, OwnedInstance), "this process decides for what it owns"
    return pending.leased


class Suspects:
    """Owned runs that may have crashed a process, and how many more of them this process may own.

    The store decides which runs are suspects (`rules.shared.blame`). A process owns at most as many as the smallest
    company among them. While it owns one with company 1, it starts no other handler for `ALONE_MS` and claims nothing:
    if it dies then, the culprit is known. Executions under way continue.
    """

    def __init__(self, clock: Clock, leave_alone: Callable[[str | None], None]) -> None:
        """`leave_alone` lets only jobs of one run begin; with None, jobs of all runs."""
        self._clock = clock
        self._leave_alone = leave_alone
        self._companies: dict[str, int] = {}
        self._alone: str | None = None
        """The suspect for which other runs are held back."""
        self._alone_since = 0.0
        self._not_before = 0.0
        """Monotonic seconds before which no other run is left alone: others have had as much time by then."""

    def note(self, instance_id: str, blame: Blame | None) -> None:
        """Record the suspicion against an owned run; None if it was cleared or is no longer owned."""
        if blame is None:
            self._companies.pop(instance_id, None)
            if instance_id == self._alone:
                self._end_alone()
            return
        self._companies[instance_id] = blame.company
        if blame.company == 1 and self._alone is None:
            self._alone, self._alone_since = instance_id, self._clock.monotonic()
            self._leave_alone(instance_id)

    @property
    def keeps_others_back(self) -> bool:
        """Whether a suspect runs alone at this moment. Ends that if it has lasted long enough."""
        if self._alone is not None and self._clock.monotonic() - self._alone_since >= ALONE_MS / 1000:
            self._end_alone()
        return self._alone is not None

    @property
    def capacity(self) -> SuspectCapacity:
        """How many more suspects may be taken."""
        may_be_alone = not self._companies and self._clock.monotonic() >= self._not_before
        return SuspectCapacity(len(self._companies), min(self._companies.values(), default=None), alone=may_be_alone)

    def _end_alone(self) -> None:
        now = self._clock.monotonic()
        self._alone = None
        self._not_before = 2 * now - self._alone_since  # suspects run alone for at most half of the time
        self._leave_alone(None)


class OwnedInstances:
    """Owned instances by id, and those with stimuli to decide, in order of arrival."""

    def __init__(self, clock: Clock, task_worker: TaskWorker, options: EngineOptions) -> None:
        self._task_worker = task_worker
        self._held_max, self._tenant_max = options.held_max, options.tenant_max
        self.is_paused: Callable[[InstanceHead], bool] = lambda _: False
        """Whether the workflow or the tenant of an instance is paused, as of the last look."""
        self.accepts = options.works
        """False: new runs are left to other workers."""
        self.suspects = Suspects(clock, task_worker.leave_alone)
        self._owned: dict[str, OwnedInstance] = {}
        self._of_tenant: Counter[str] = Counter()
        self.ready: deque[OwnedInstance] = deque()
        """Instances with something to decide, and some that were released since."""
        self._idle: deque[asyncio.Future[None]] = deque()
        """Commit loops that wait until something becomes ready."""
        self.delays = DelayQueue(clock, self._timer_due)

    def __len__(self) -> int:
        return len(self._owned)

    def count_of(self, tenant_id: str) -> int:
        """How many instances of this tenant are owned."""
        return self._of_tenant[tenant_id]

    @property
    def by_tenant(self) -> Mapping[str, int]:
        """How many instances of each tenant are owned."""
        return self._of_tenant

    def may_begin(self, head: InstanceHead) -> bool:
        """Whether an instance may start here as soon as it is created: there is room, and it is not paused."""
        tenant_id = head.tenant_id
        return (
            self.accepts
            and not self.is_paused(head)
            and not self.suspects.keeps_others_back
            and len(self._owned) < self._held_max
            and self._of_tenant[tenant_id] < self._tenant_max
        )

    @property
    def ids(self) -> list[str]:
        """Ids of the owned instances."""
        return list(self._owned)

    def all(self) -> list[OwnedInstance]:
        """The owned instances."""
        return list(self._owned.values())

    def get(self, instance_id: str) -> OwnedInstance | None:
        """The owned instance, or None."""
        return self._owned.get(instance_id)

    def is_in_flight(self, instance_id: str) -> bool:
        """Whether it is owned and has a transition in flight."""
        owned = self._owned.get(instance_id)
        return owned is not None and owned.mailbox.in_flight

    @property
    def heads(self) -> list[InstanceHead]:
        """The heads of the owned instances. Thread-safe."""
        return [owned.state.head for owned in list(self._owned.values())]

    def add(self, owned: OwnedInstance) -> None:
        """Add an instance, replacing the one with the same id."""
        stale = self._owned.get(owned.instance_id)
        if stale is not None:
            self.evict(stale)
        self._owned[owned.instance_id] = owned
        owned.is_owned = True
        self._of_tenant[owned.state.head.tenant_id] += 1
        self.suspects.note(owned.instance_id, owned.blame)
        self.enqueue(owned)

    def note_blame(self, owned: OwnedInstance, blame: Blame | None) -> None:
        """Record the suspicion against it, or None if it was cleared."""
        if owned.blame is not None or blame is not None:
            owned.blame = blame
            self.suspects.note(owned.instance_id, blame)

    # -- the mailboxes --------------------------------------------------------------------
    def receive(self, instance_id: str, result: NodeResult | StepReport) -> None:
        """Put a result into its run's mailbox. Duplicates and strays are harmless; results for other runs are
        dropped."""
        owned = self._owned.get(instance_id)
        if owned is not None:
            self.offer(owned, result)

    def offer(self, owned: OwnedInstance, stimulus: Stimulus) -> None:
        """Put a stimulus into the instance's mailbox."""
        mailbox = owned.mailbox
        mailbox.stimuli.append(stimulus)
        if not mailbox.queued:
            self.enqueue(owned)

    def offer_evaluation(self, owned: OwnedInstance) -> None:
        """Let the next decision evaluate the instance's pure nodes."""
        if not any(isinstance(each, EvaluationDue) for each in owned.mailbox.stimuli):
            self.offer(owned, EvaluationDue())

    def enqueue(self, owned: OwnedInstance) -> None:
        """Queue the instance for a commit loop, unless it is queued."""
        mailbox = owned.mailbox
        if mailbox.stimuli and not mailbox.queued and not mailbox.in_flight and owned.is_owned:
            mailbox.queued = True
            self.ready.append(owned)
            if self._idle:
                self._wake_one()

    async def something_ready(self) -> None:
        """Return when something becomes ready, or the process stops.

        Each instance that becomes ready wakes one commit loop: another one would mostly find nothing.
        """
        idle = asyncio.get_running_loop().create_future()
        self._idle.append(idle)
        await idle

    def wake_all(self) -> None:
        """Wake all commit loops."""
        while self._idle:
            self._wake_one()

    def _wake_one(self) -> None:
        while self._idle:
            idle = self._idle.popleft()
            if not idle.done():  # else its loop was cancelled
                idle.set_result(None)
                return

    def take(self, count: int) -> list[tuple[OwnedInstance, Sequence[Stimulus]]]:
        """Take at most `limit` ready instances with their stimuli, and mark them in flight."""
        taken: list[tuple[OwnedInstance, Sequence[Stimulus]]] = []
        while self.ready and len(taken) < count:
            owned = self.ready.popleft()
            mailbox = owned.mailbox
            if not mailbox.queued:
                continue  # dropped meanwhile
            mailbox.queued = False
            if mailbox.in_flight:
                continue  # being refreshed: it is queued again after that
            mailbox.in_flight = True
            taken.append((owned, mailbox.take()))
        return taken

    def return_undecided(self, taken: Sequence[tuple[OwnedInstance, Sequence[Stimulus]]]) -> None:
        """Put back instances that did not fit into the batch; they come first next time."""
        for owned, stimuli in reversed(taken):
            mailbox = owned.mailbox
            mailbox.stimuli[:0] = stimuli
            mailbox.in_flight, mailbox.queued = False, True
            self.ready.appendleft(owned)

    def put_back(self, taken: Sequence[OwnedInstance]) -> None:
        """Note that these have no transition in flight any more."""
        for owned in taken:
            owned.mailbox.in_flight = False
            if owned.mailbox.stimuli:
                self.enqueue(owned)

    # -- dropping -------------------------------------------------------------------------
    def evict(self, owned: OwnedInstance) -> None:
        """Forget an instance: stop its handlers, clear its timers, and refer its callers to the store."""
        instance_id = owned.instance_id
        if owned.is_owned:
            owned.is_owned = False
            del self._owned[instance_id]
            self.suspects.note(instance_id, None)
            tenant_id = owned.state.head.tenant_id
            self._of_tenant[tenant_id] -= 1
            if not self._of_tenant[tenant_id]:
                del self._of_tenant[tenant_id]
            self.schedule(owned, None)
            # A function may be called twice under one dispatch: a late repeat of the first call's report removes the
            # second call from `performing`, so it is stopped here as well.
            if owned.performing or owned.state.head.kind == CODED_KIND:
                self._task_worker.stop_instance(instance_id)
        owned.mailbox.queued = False
        if owned.created is not None:
            owned.answer_start(StoreUnavailable(f"run {instance_id}: stopped before its start was known to be stored"))
        for _, answer in owned.requests:
            if not answer.done():
                answer.set_result(OfferResult(owned=False))

    def drop(self, instance_id: str, why: str) -> None:
        """Stop the handlers of an instance and forget it, because another worker owns it or soon may."""
        owned = self._owned.get(instance_id)
        if owned is not None:
            extra = {"instance_id": instance_id}
            logger.warning("dropped run %s: %s; under way: %s", instance_id, why, owned.under_way, extra=extra)
            self.evict(owned)

    def idle_ids(self) -> list[str]:
        """Ids of instances without stimuli and without a transition in flight."""
        return [
            instance_id
            for instance_id, owned in self._owned.items()
            if not owned.mailbox.in_flight and not owned.mailbox.stimuli and not owned.is_new
        ]

    def release(self, instance_id: str) -> None:
        """Forget an instance that is handed over; the next owner dispatches its queued jobs."""
        owned = self._owned.get(instance_id)
        if owned is not None:
            self.evict(owned)

    # -- leases ---------------------------------------------------------------------------
    def settled_leases(self) -> Iterator[tuple[str, int, int]]:
        """(id, version, lease end in ms) of stored instances without a transition in flight."""
        for instance_id, owned in self._owned.items():
            if not owned.mailbox.in_flight and not owned.is_new:
                yield instance_id, owned.version, owned.lease_until

    def extensions(self) -> list[tuple[str, float]]:
        """(id, monotonic time of the last extension) of every owned instance that is stored."""
        return [(instance_id, owned.extended_at) for instance_id, owned in self._owned.items() if not owned.is_new]

    def lease_extended(self, instance_id: str, *, until: int, asked_at: float) -> None:
        """Note the new end of an owned instance's lease."""
        owned = self._owned.get(instance_id)
        if owned is not None:
            owned.lease_until = max(owned.lease_until, until)
            owned.extended_at = max(owned.extended_at, asked_at)

    # -- timers ---------------------------------------------------------------------------
    def schedule(self, owned: OwnedInstance, due_at: int | None) -> None:
        """Offer `TimersDue` at that time; None clears it."""
        if owned.due_at != due_at:
            owned.due_at = due_at
            self.delays.schedule(owned.instance_id, due_at)

    def _timer_due(self, instance_id: str) -> None:
        owned = self._owned.get(instance_id)
        if owned is not None:
            owned.due_at = None
            self.offer(owned, TimersDue())

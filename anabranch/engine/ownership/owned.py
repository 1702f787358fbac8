"""The instances that this process holds: their unread stimuli, who waits for what of each, and letting go.

The orchestrator's memory. `orchestrator` decides, commits and performs; `unclear` reads anew what
may have changed without us; both go through this module, and so do `leases` and `external`, which
only look. Nothing here talks to the store.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from anabranch.engine.ports import Clock
from anabranch.engine.queues import DelayQueue
from anabranch.engine.rules.coded.plan import CODED_KIND
from anabranch.engine.rules.commands import Dispatch
from anabranch.engine.rules.drawn.state import InstanceHead
from anabranch.engine.rules.events import Event, Status
from anabranch.engine.rules.states import AnyPlan
from anabranch.engine.rules.stimuli import NodeResult, Stimulus, TimersDue
from anabranch.engine.rules.transitions import LeasedState, PendingTransition
from anabranch.engine.task_worker import TaskWorker
from anabranch.engine.telemetry import RunTelemetry, Telemetry
from anabranch.errors import AnabranchError, NotFound, StoreUnavailable

logger = logging.getLogger("anabranch.engine")

# 8 nodes or steps are named in a line of the log: enough to find the one that is to blame.
NAMES_TOLD_MAX = 8


@dataclass(frozen=True, slots=True)
class StartResult:
    """How a start ended: the instance that stands for it, and whether this call made it."""

    instance_id: str
    status: Status
    created: bool


def why_rejected(head: InstanceHead) -> NotFound:
    """What to tell whoever started a run that must not be."""
    if head.parent_id is None:
        return NotFound(f"workflow {head.workflow_id} was deleted before the run could begin")
    return NotFound(f"run {head.instance_id}: its workflow was deleted, or its parent does not ask for it any more")


@dataclass(frozen=True, slots=True)
class Answer:
    """How a signal or cancel offered to a held instance ended; `held` False: it is not ours any more."""

    held: bool
    status: Status = Status.RUNNING
    delivered: bool | None = False
    """For a signal: was a fitting wait open? None: the run ended before it, so it was not kept."""
    refused: str | None = None


@dataclass(slots=True, eq=False)
class OwnedInstance:
    """A held instance with its unread stimuli and what we perform for it."""

    leased: LeasedState
    inbox: list[Stimulus] = field(default_factory=list)
    asked: list[tuple[Stimulus, asyncio.Future[Answer]]] = field(default_factory=list)
    performing: set[Dispatch] = field(default_factory=set)
    created: asyncio.Future[StartResult] | None = None
    in_flight: bool = False
    queued: bool = False
    owes_all: bool = False
    """After adoption or a re-read: the next settlement performs everything outstanding, not only what is new."""
    one_at_a_time: bool = False
    """The store refused a transition: its stimuli are decided one by one, to find out which it does not take."""
    settled_seq: int = 0
    """The last row of the state that is known to be committed; later ones are on their way."""
    listener: Callable[[], None] | None = None
    """The body of a coded run, while it is under way: told whenever what it reported is settled."""
    steps_under_way: Callable[[], Sequence[str]] = tuple
    """The steps of a coded run that are being done, while its function is called."""
    extended_at: float = 0.0
    """Monotonic seconds just before the last request that extended the lease."""
    telemetry: RunTelemetry | None = None
    """Told what is written of it here; None where nobody counts."""

    def take_stimuli(self) -> list[Stimulus]:
        """What is to be decided next; the rest stays in the inbox."""
        if self.one_at_a_time and len(self.inbox) > 1:
            return [self.inbox.pop(0)]
        self.one_at_a_time = False
        stimuli, self.inbox = self.inbox, []
        return stimuli

    def tell_new_run(self, new_run: StartResult | AnabranchError) -> None:
        """Answer whoever started it, unless they have stopped waiting. It is no creation any more."""
        created, self.created = self.created, None
        if created is None or created.done():
            return
        if isinstance(new_run, StartResult):
            created.set_result(new_run)
        else:
            created.set_exception(new_run)

    def answer_callers(self, pending: PendingTransition) -> None:
        """Tell those who asked what became of their signal or cancel."""
        if not self.asked:
            return
        decided = {
            id(stimulus): decision for stimulus, decision in zip(pending.stimuli, pending.decisions, strict=True)
        }
        waiting = []
        for stimulus, future in self.asked:
            decision = decided.get(id(stimulus))
            if decision is None:
                waiting.append((stimulus, future))
            elif not future.done():
                status = pending.leased.state.status
                future.set_result(
                    Answer(held=True, status=status, delivered=decision.delivered, refused=decision.refused)
                )
        self.asked = waiting

    def refuse_caller(self, stimulus: Stimulus, code: str) -> None:
        """Tell whoever asked for this that it cannot be."""
        for asked, future in self.asked:
            if asked is stimulus and not future.done():
                future.set_result(Answer(held=True, refused=code))
        self.asked = [(asked, future) for asked, future in self.asked if asked is not stimulus]

    def note_settled(self) -> None:
        """What the state holds now is committed: let the body of a coded run look at it."""
        self.settled_seq = self.leased.state.last_seq
        if self.listener is not None:
            self.listener()

    def forget_answered(self, pending: PendingTransition) -> None:
        """What has its answer is not performed any more."""
        for stimulus in pending.stimuli:
            if isinstance(stimulus, NodeResult):
                self.performing.discard(Dispatch(stimulus.node_id, stimulus.scope, stimulus.attempt))

    @property
    def under_way(self) -> str:
        """The nodes and steps that are being done, for people."""
        nodes = [f"{each.node_id} {each.scope}".strip() for each in self.performing if each.node_id]
        names = [*nodes, *self.steps_under_way()]
        more = [f"{len(names) - NAMES_TOLD_MAX} more"] if len(names) > NAMES_TOLD_MAX else []
        return ", ".join([*sorted(names)[:NAMES_TOLD_MAX], *more]) or "nothing"

    def fail_waiters(self) -> None:
        """Send whoever still waits for an answer to the store."""
        for _, future in self.asked:
            if not future.done():
                future.set_result(Answer(held=False))
        instance_id = self.leased.instance_id
        self.tell_new_run(StoreUnavailable(f"run {instance_id}: stopped before its start was known to be stored"))


class OwnedInstances:
    """Owned instances by id, and which of them have something to decide, in the order in which it arrived."""

    def __init__(self, clock: Clock, task_worker: TaskWorker, telemetry: Telemetry | None = None) -> None:
        self._task_worker = task_worker
        self._telemetry = telemetry
        self._held: dict[str, OwnedInstance] = {}
        self._of_tenant: Counter[str] = Counter()
        self._ready: deque[str] = deque()
        self.arrived = asyncio.Event()
        """Set when something becomes ready."""
        self.delays = DelayQueue(clock, self._timer_due)

    def __len__(self) -> int:
        return len(self._held)

    def count_of(self, tenant_id: str) -> int:
        """How many are held of this tenant."""
        return self._of_tenant[tenant_id]

    @property
    def by_tenant(self) -> Mapping[str, int]:
        """How many are held of each tenant of whom any is."""
        return self._of_tenant

    @property
    def ids(self) -> list[str]:
        """Ids of the held instances."""
        return list(self._held)

    @property
    def has_ready(self) -> bool:
        """Is there something to decide?"""
        return bool(self._ready)

    def get(self, instance_id: str) -> OwnedInstance | None:
        """The held instance, or None: it is not advanced here."""
        return self._held.get(instance_id)

    def is_in_flight(self, instance_id: str) -> bool:
        """Is it held, with a transition that is not settled?"""
        held = self._held.get(instance_id)
        return held is not None and held.in_flight

    def still_has(self, held: OwnedInstance) -> bool:
        """Was it neither let go nor replaced since?"""
        return self._held.get(held.leased.instance_id) is held

    @property
    def heads(self) -> list[InstanceHead]:
        """What the held instances were created with. Any thread may ask."""
        return [held.leased.state.head for held in list(self._held.values())]

    def telemetry_of(self, head: InstanceHead, plan: AnyPlan) -> RunTelemetry | None:
        """Who is to be told of a run that is about to be held; None where nobody counts."""
        return None if self._telemetry is None else self._telemetry.of_run(head, plan)

    def add(self, held: OwnedInstance) -> None:
        """Hold it, in place of what was held under its id."""
        stale = self._held.get(held.leased.instance_id)
        if stale is not None:
            self.evict(stale)
        self._held[held.leased.instance_id] = held
        self._of_tenant[held.leased.state.head.tenant_id] += 1
        if held.telemetry is None:
            held.telemetry = self.telemetry_of(held.leased.state.head, held.leased.state.plan)
        self.enqueue(held)

    def tell_written(self, held: OwnedInstance | None, leased: LeasedState, events: Sequence[Event]) -> None:
        """Who counts is told of a transition that was written, also of a run that was let go meanwhile."""
        if held is not None and held.telemetry is not None:
            held.telemetry.wrote(events)
        elif self._telemetry is not None:
            self._telemetry.of_run(leased.state.head, leased.state.plan).wrote(events)

    def offer(self, held: OwnedInstance, stimulus: Stimulus) -> None:
        """Put a stimulus into its inbox."""
        held.inbox.append(stimulus)
        if not held.queued:
            self.enqueue(held)

    def enqueue(self, held: OwnedInstance) -> None:
        """Let a lane decide what is in its inbox, if that is not arranged already."""
        if held.inbox and not held.queued and not held.in_flight and self._held.get(held.leased.instance_id) is held:
            held.queued = True
            self._ready.append(held.leased.instance_id)
            self.arrived.set()

    def take_work(self, taken: list[OwnedInstance]) -> Iterator[tuple[LeasedState, Sequence[Stimulus]]]:
        """Ready holdings with their stimuli, marked in flight and noted in `taken` as they are taken."""
        while self._ready:
            held = self._held.get(self._ready.popleft())
            if held is None or not held.queued:
                continue
            held.queued = False
            if held.in_flight:
                continue  # being refreshed: it is queued again after that
            held.in_flight = True
            taken.append(held)
            yield held.leased, held.take_stimuli()

    def put_back(self, taken: Sequence[OwnedInstance]) -> None:
        """No transition of these is in flight any more."""
        for held in taken:
            held.in_flight = False
            self.enqueue(held)

    def evict(self, held: OwnedInstance) -> None:
        """Forget an instance: its handlers are stopped, its timers cleared, who still asks is told to ask the store."""
        instance_id = held.leased.instance_id
        if self.still_has(held):
            del self._held[instance_id]
            tenant_id = held.leased.state.head.tenant_id
            self._of_tenant[tenant_id] -= 1
            if not self._of_tenant[tenant_id]:
                del self._of_tenant[tenant_id]
            self.delays.schedule(instance_id, None)
            # A body is called again under one dispatch: a late repeat of what its first call came to takes the
            # second out of `performing`, and it must not run on.
            if held.performing or held.leased.state.head.kind == CODED_KIND:
                self._task_worker.stop_instance(instance_id)
        held.queued = False
        held.telemetry = None  # what is unwound may keep `held` for a while
        held.fail_waiters()

    def drop(self, instance_id: str, why: str) -> None:
        """Stop the handlers of an instance and forget it: it is, or may soon be, another worker's."""
        held = self._held.get(instance_id)
        if held is not None:
            extra = {"instance_id": instance_id}
            logger.warning("dropped run %s: %s; under way: %s", instance_id, why, held.under_way, extra=extra)
            self.evict(held)

    def idle_ids(self) -> list[str]:
        """Those that nothing is to be decided for, and that have no transition in flight."""
        return [
            instance_id
            for instance_id, held in self._held.items()
            if not held.in_flight and not held.inbox and held.created is None
        ]

    def release(self, instance_id: str) -> None:
        """Forget an instance that is handed over: its queued jobs are its next holder's."""
        held = self._held.get(instance_id)
        if held is not None:
            self.evict(held)

    # -- leases ---------------------------------------------------------------------------
    def settled_leases(self) -> Iterator[tuple[str, int, int]]:
        """(id, version, lease end ms) of those that are stored and have no transition in flight."""
        for instance_id, held in self._held.items():
            if not held.in_flight and held.created is None:
                yield instance_id, held.leased.version, held.leased.lease_until

    def extensions(self) -> list[tuple[str, float]]:
        """(id, monotonic time of the last extension) of every held instance that is stored."""
        return [(instance_id, held.extended_at) for instance_id, held in self._held.items() if held.created is None]

    def lease_extended(self, instance_id: str, *, until: int, asked_at: float) -> None:
        """Note that a held instance's lease now runs until then."""
        held = self._held.get(instance_id)
        if held is not None:
            held.leased.lease_until = max(held.leased.lease_until, until)
            held.extended_at = max(held.extended_at, asked_at)

    # -- within ---------------------------------------------------------------------------
    def _timer_due(self, instance_id: str) -> None:
        held = self._held.get(instance_id)
        if held is not None:
            self.offer(held, TimersDue())

"""Group commit without I/O: many instances' stimuli in, one batch of transitions out, and back again.

Shared by the orchestrator, the stress executor and the simulator:

    planned = plan_transitions(work, now=…, lease_ms=…)
    outcome = await store.commit(planned.transitions)      # the only await between decision and effect
    settled = apply_outcome(planned, outcome)               # won: what to perform; unknown: what to re-read
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field

from anabranch.dataclass import dataclass
from anabranch.engine.rules.commands import AwaitChild, Dispatch
from anabranch.engine.rules.decide import decide
from anabranch.engine.rules.drawn.outcomes import EVALUATIONS_MAX, LOOP_WORK_MAX
from anabranch.engine.rules.events import Event, Status, SuspendReason
from anabranch.engine.rules.evolve import AnyState
from anabranch.engine.rules.shared.blame import Blame
from anabranch.engine.rules.shared.decisions import Decision
from anabranch.engine.rules.shared.run_state import InstanceHead
from anabranch.engine.rules.stimuli import EvaluationDue, LeaseAcquired, NodeResult, Started, Stimulus

# 256 transitions or 4 MB per commit: throughput stops growing between 100 and 500 transitions per batch, and a larger
# batch only delays everything in it.
BATCH_TRANSITIONS_MAX = 256
BATCH_BYTES_MAX = 4_194_304

# 2,000 rows per commit: with pure nodes, one stimulus can lead to hundreds of rows.
BATCH_ROWS_MAX = 2_000

# A run whose code does not match its log is offered again after 5 s, then after twice as long, up to 5 min: a
# deployment takes seconds, and a forgotten one must cost next to nothing.
OFFER_FIRST_MS = 5_000
OFFER_LAST_MS = 300_000

# Waits longer than a second are parked (the instance leaves memory); shorter ones would cost
# a claim for nothing.
PARK_AFTER_MS = 1_000

# Looked up once: a member of an enum costs ten times a global before Python 3.12.
_RUNNING, _WAITING = Status.RUNNING, Status.WAITING


@dataclass(slots=True, eq=False)
class Transition:
    """One instance's share of a commit: a guarded step of its version, its events, its new row.

    It wins only if the row still has `expected_version` **and** `worker_id`, the instance is
    open, and the store's own clock has reached `not_before`. A creation (`new_run` set,
    `expected_version` 0) wins if its id and its idempotency key are new, its workflow, if it
    has one, is not deleted (with `only_active`: nor at another version than the creation's), and
    its parent's activation, if it has a parent, is not over.
    """

    instance_id: str
    expected_version: int
    worker_id: str | None
    """The owner who makes the transition; for a new run the worker it is leased to (None: left for any worker)."""
    events: Sequence[Event]
    payload_bytes: int
    """The JSON bytes of their payloads: by so much the log grows."""
    status: Status
    available_at: int | None
    """Written only when not None or `release`: the end of an extended lease, or the wake time."""
    release: bool = False
    """Clear worker_id: parked, finished, or handed over. `available_at` is then written as it is, None included."""
    not_before: int | None = None
    new_run: InstanceHead | None = None
    only_active: bool = False
    """Of a creation that was decided without reading whether its version is still its workflow's active one."""
    suspended_for: SuspendReason | None = None
    """Why the run is SUSPENDED after it; None: it is not."""
    started_at: int | None = None
    """Set by the transition with the first NODE_DISPATCHED."""
    generation: int = 0
    """How often the run was reopened: each activation ends at most once in each generation."""
    wakes: str | None = None
    """The parent that awaits the end which this transition is: its version is raised, so that it is looked at."""
    cancels: Sequence[str] = ()
    """Children that are not awaited any more: cancelled in the same transaction, with all that they await."""
    needs: Sequence[str] = ()
    """Of a creation: the node types that only some workers have."""
    clears: bool = False
    """The run is cleared of suspicion."""

    @property
    def concerns_family(self) -> bool:
        """Whether there is more to do for it than to write its own instance."""
        if self.wakes is not None or self.cancels:
            return True
        new_run = self.new_run
        return new_run is not None and new_run.parent_id is not None


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a commit.

    `won` names the instances whose transitions are written. Every other one is *unknown*, not lost (a skipped lock
    looks the same as a changed version): re-read before deciding again. `existing` maps a creation with a used
    idempotency key to the instance that has it. `refused` names transitions whose data the database refuses even alone,
    with its reason; the others in the batch are not affected. `rejected` names creations whose workflow is deleted or
    has another active version, or whose parent's activation has ended. `woken` has the versions of parents that a
    child's end woke, `cancelled` the cancelled children. `locked` names transitions that were not written because other
    sessions lock their rows; they may win later, unchanged.
    """

    won: frozenset[str] | set[str]
    store_now: int
    existing: Mapping[str, str] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)
    rejected: frozenset[str] | set[str] = frozenset()
    woken: Mapping[str, int] = field(default_factory=dict)
    cancelled: frozenset[str] | set[str] = frozenset()
    locked: frozenset[str] | set[str] = frozenset()


@dataclass(slots=True, eq=False)
class LeasedState:
    """An instance that this worker owns: its state in memory and the guard values of its row."""

    state: AnyState
    version: int
    """0 while it is being created."""
    worker_id: str | None
    lease_until: int
    """End of the lease by the store-adjusted clock (ms)."""

    instance_id: str = field(init=False)
    unchecked: set[str] = field(init=False)
    """Awaited children that may have ended before we owned this version: not parked until that is known."""
    evaluates_singly: bool = field(init=False)
    """The database refused what was decided together with pure nodes: they are evaluated apart, one by one."""
    performing: set[Dispatch] = field(init=False)
    """The attempts that are under way here, or queued."""
    blame: Blame | None = None
    """What the row says of crashes."""

    def __post_init__(self) -> None:
        self.instance_id = self.state.head.instance_id
        self.unchecked = set(self.state.children)
        self.evaluates_singly = False
        self.performing = set()


@dataclass(slots=True, eq=False)
class PendingTransition:
    """One instance's part of a planned commit: stimuli, decisions, the resulting transition, and what is to be
    performed once that has won."""

    leased: LeasedState
    stimuli: Sequence[Stimulus]
    decisions: Sequence[Decision]
    transition: Transition | None = None
    """None if no stimulus changed anything: there is nothing to commit."""
    worked: int = 0
    """What running loops and evaluating nodes has cost, in the units of `templates.budget`."""
    values_bytes: int = 0
    """JSON bytes of the large values that it writes for its run for the first time."""
    defect: Exception | None = None
    """What the rules raised over this instance; its neighbours are not harmed."""

    # Set once its transition has won.
    dispatches: Sequence[Dispatch] = field(init=False, repr=False)
    """Attempts to perform."""
    stops: Sequence[Dispatch] = field(init=False, repr=False)
    """Handlers to stop, because their activation is over."""
    parks: bool = field(init=False, repr=False)
    """The instance leaves this worker with the transition: it waits, has ended, or was created unheld."""
    next_due: int | None = field(init=False, repr=False)
    """When to offer `TimersDue`; None if parked, ended, or nothing is due by itself."""

    @property
    def events(self) -> Sequence[Event]:
        """The rows of its transition."""
        return () if self.transition is None else self.transition.events

    @property
    def evaluated(self) -> list[Dispatch]:
        """The pure nodes that were evaluated for it."""
        return [Dispatch(*attempt) for decision in self.decisions for attempt in decision.evaluated]


@dataclass(slots=True, eq=False)
class Planned:
    """A batch ready to commit. `pending_transitions` also has the instances without a transition."""

    pending_transitions: list[PendingTransition]
    transitions: list[Transition]


@dataclass(slots=True, eq=False)
class AppliedOutcome:
    """A batch after its commit."""

    won: list[PendingTransition]
    """Written: what they say is performed now."""
    unknown: list[PendingTransition]
    """Re-read, then decide their stimuli again."""
    refused: list[tuple[PendingTransition, str]]
    """The database does not take their data, for this reason."""
    idle: list[PendingTransition]
    """Nothing changed."""
    existing: list[tuple[PendingTransition, str]]
    """New runs whose idempotency key another instance has: its id."""
    rejected: list[PendingTransition]
    """New runs whose workflow was deleted or saved meanwhile, or whose parent no longer awaits them."""
    defective: list[PendingTransition]
    """The rules raised: the state must be discarded."""
    locked: list[PendingTransition]
    """Another session locks their rows: commit them again later, unchanged."""


def plan_transitions(
    work: Iterable[tuple[LeasedState, Sequence[Stimulus]]],
    *,
    now: int,
    lease_ms: int,
    transitions_max: int = BATCH_TRANSITIONS_MAX,
    evaluations_max: int = EVALUATIONS_MAX,
) -> Planned:
    """Decide the stimuli of each instance in order, until the batch is full.

    Takes from `work` only what fits: at most `transitions_max` transitions, and no further one once 4 MB or 2,000 rows
    are reached, or loops and pure nodes have worked for `LOOP_WORK_MAX`. Each transition evaluates `evaluations_max`
    pure nodes at most. Each instance may appear once. Its state is evolved at once and must be discarded if its
    transition does not win.
    """
    pendings: list[PendingTransition] = []
    transitions: list[Transition] = []
    size = rows = 0
    work_left = LOOP_WORK_MAX
    for leased, stimuli in work:
        try:
            evaluations = _evaluations_allowed(leased, stimuli, evaluations_max)
            pending = _pending(leased, stimuli, now, lease_ms, work_left, evaluations)
        except Exception as defect:  # noqa: BLE001 -- one instance's trouble must not become its neighbours'
            pending = PendingTransition(leased, stimuli, (), defect=defect)
        pendings.append(pending)
        work_left -= pending.worked
        transition = pending.transition
        if transition is not None:
            transitions.append(transition)
            size += transition.payload_bytes + pending.values_bytes
            rows += len(transition.events)
            if len(transitions) >= transitions_max or size >= BATCH_BYTES_MAX or rows >= BATCH_ROWS_MAX:
                break
        if work_left <= 0:
            break
    return Planned(pendings, transitions)


def _evaluations_allowed(leased: LeasedState, stimuli: Sequence[Stimulus], evaluations_max: int) -> int:
    """How many pure nodes these stimuli may evaluate.

    An evaluation that may have killed a worker, or that the database refused, is repeated only by `EvaluationDue`, so
    that other stimuli, such as a handler's result, are stored first.
    """
    if leased.state.suspicion is None and not leased.evaluates_singly:
        if len(stimuli) == 1 and type(stimuli[0]) is not LeaseAcquired:  # as nearly always
            return evaluations_max
        if not any(isinstance(each, LeaseAcquired) and each.blame is not None for each in stimuli):
            return evaluations_max
    if not all(isinstance(each, EvaluationDue) for each in stimuli):
        return 0
    return min(1, evaluations_max) if leased.evaluates_singly else evaluations_max


def apply_outcome(planned: Planned, outcome: Outcome) -> AppliedOutcome:
    """Sort a batch by outcome. The instances of winners get their new version and lease here."""
    settled = AppliedOutcome([], [], [], [], [], [], [], [])
    for pending in planned.pending_transitions:
        transition = pending.transition
        if transition is None:
            (settled.idle if pending.defect is None else settled.defective).append(pending)
        elif transition.instance_id in outcome.won:
            _apply_win(pending, transition)
            settled.won.append(pending)
        elif transition.instance_id in outcome.locked:
            settled.locked.append(pending)
        elif transition.instance_id in outcome.refused:
            settled.refused.append((pending, outcome.refused[transition.instance_id]))
        elif outcome.existing.get(transition.instance_id, transition.instance_id) != transition.instance_id:
            settled.existing.append((pending, outcome.existing[transition.instance_id]))
        elif transition.instance_id in outcome.rejected:
            settled.rejected.append(pending)
        else:
            settled.unknown.append(pending)
    return settled


def was_written(transition: Transition, log: Sequence[Event]) -> bool:
    """Whether a transition of unknown outcome is in this log. `log` must reach back to the transition's first event.

    Seqs are assigned under the version check, so if the rows at these seqs are ours, the transition was written.
    """
    stored = {event.seq: event for event in log}
    return all(_same_row(event, stored.get(event.seq)) for event in transition.events)


def _same_row(event: Event, stored: Event | None) -> bool:
    return stored is not None and (
        (event.type, event.node_id, event.scope, event.attempt, event.created_at)
        == (stored.type, stored.node_id, stored.scope, stored.attempt, stored.created_at)
        and event.payload.is_stored_like(stored.payload)
    )


def owed_dispatches(state: AnyState) -> list[Dispatch]:
    """The unanswered dispatches of a state, for a worker that has just taken it over."""
    return [Dispatch(node_id, scope, activation.attempt) for (node_id, scope), activation in state.running.items()]


def _pending(
    leased: LeasedState, stimuli: Sequence[Stimulus], now: int, lease_ms: int, work_max: int, evaluations_max: int
) -> PendingTransition:
    state = leased.state
    was_started, bytes_before, was_suspected = state.started, state.log_bytes, state.suspicion
    values_before = state.values_bytes
    events: Sequence[Event]
    cancels: Sequence[str]
    if len(stimuli) == 1:  # as nearly always
        decision = decide(state, stimuli[0], now, work_max, evaluations_max)
        events, cancels, not_before = decision.events, decision.cancels, decision.not_before
        pending = PendingTransition(leased, stimuli, (decision,), None, decision.worked)
    else:
        decisions = []
        worked = 0
        for stimulus in stimuli:
            decision = decide(state, stimulus, now, work_max - worked, evaluations_max)
            worked += decision.worked
            evaluations_max -= len(decision.evaluated)
            decisions.append(decision)
        events = [event for decision in decisions for event in decision.events]
        cancels = [child_id for decision in decisions for child_id in decision.cancels]
        due_times = [decision.not_before for decision in decisions if decision.not_before is not None]
        not_before = max(due_times, default=None)
        pending = PendingTransition(leased, stimuli, decisions, None, worked)
    if state.children:
        commands = [command for decision in pending.decisions for command in decision.commands]
        leased.unchecked.update(each.child_id for each in commands if isinstance(each, AwaitChild))
    parks = _is_idle(leased, stimuli, now)
    if not events and not parks:
        return pending
    size = state.log_bytes - bytes_before
    transition = Transition(leased.instance_id, leased.version, leased.worker_id, events, size, state.status, None)
    transition.not_before, transition.cancels = not_before, cancels
    transition.generation = state.head.generation
    if events and events[0].seq == 1:
        transition.new_run = state.head
        transition.only_active = isinstance(stimuli[0], Started) and stimuli[0].only_active
        transition.needs = state.plan.needs
    if state.suspension is not None and state.terminal is None:
        transition.suspended_for = state.suspension.reason
    if state.started and not was_started:
        transition.started_at = now
    if leased.blame is not None and state.suspicion is None:
        transition.clears = was_suspected is not None or (_is_takeover(stimuli) and state.suspension is None)
    _set_lease(transition, leased, now, lease_ms, parks=parks)
    pending.transition, pending.values_bytes = transition, state.values_bytes - values_before
    return pending


def _is_takeover(stimuli: Sequence[Stimulus]) -> bool:
    return any(isinstance(each, LeaseAcquired) for each in stimuli)


def _is_idle(leased: LeasedState, stimuli: Sequence[Stimulus], now: int) -> bool:
    """Whether nothing runs and nothing is due soon, so that the instance can be parked, by a transition without events
    if need be. (An instance woken by a signal that matches no wait has no events, but must leave memory.) An instance
    that stands still stays until its executions have ended, which may be by these stimuli.
    """
    state = leased.state
    if state.running and state.suspension is None and not state.is_paused:
        return False  # as mostly
    if state.on_trial and state.may_perform:
        return False
    if state.stands_still:
        return state.terminal is None and leased.performing <= set(answered(stimuli))
    if state.terminal is not None or state.running or leased.unchecked:
        return False
    due = state.next_due()
    return due is None or due - now > PARK_AFTER_MS


def _set_lease(transition: Transition, leased: LeasedState, now: int, lease_ms: int, *, parks: bool) -> None:
    """Keep, extend, park or release the instance as part of this transition."""
    state = leased.state
    if state.terminal is not None:
        transition.release = True
        if state.head.parent_waits:
            transition.wakes = state.head.parent_id
        return
    if transition.new_run is not None and (parks or leased.worker_id is None):
        transition.worker_id, transition.available_at = None, _available_at(state, now)
        return
    if parks:
        transition.release, transition.available_at = True, _available_at(state, now)
        return
    if transition.new_run is not None or leased.lease_until - now < lease_ms // 2:
        # Extending only when half of the lease is gone keeps most updates off the available_at index (HOT).
        transition.available_at = now + lease_ms
    if transition.status is _WAITING:
        transition.status = _RUNNING  # a wait under a second keeps its worker


def _available_at(state: AnyState, now: int) -> int | None:
    """When a run that is created or parked without an owner may be claimed; None: after a change from outside only."""
    due_at, suspension = state.next_due(), state.suspension
    if suspension is None:
        # Claims leave out what is paused with its workflow or tenant, until that is resumed.
        return now if state.is_paused else due_at
    if suspension.reason.is_offered_again:
        offered_at = now + min(max(now - state.suspended_at, OFFER_FIRST_MS), OFFER_LAST_MS)
        return min(offered_at, due_at or offered_at)
    return now if suspension.reason.ends_by_itself else due_at


def _apply_win(pending: PendingTransition, transition: Transition) -> None:
    """Give the instance its new version and lease, and note what is to be performed."""
    leased, state = pending.leased, pending.leased.state
    leased.version += 1
    if transition.clears:
        leased.blame = None
    if transition.available_at is not None and not transition.release:
        leased.lease_until = transition.available_at
    if len(pending.decisions) == 1:  # as nearly always
        decision = pending.decisions[0]
        pending.stops = decision.stops
        commands = decision.commands  # none where a step of a coded run ends
        pending.dispatches = [each for each in commands if type(each) is Dispatch] if commands else ()
    else:
        pending.stops = [stop for decision in pending.decisions for stop in decision.stops]
        commands = [command for decision in pending.decisions for command in decision.commands]
        # A later decision may have undone what an earlier one asked for.
        pending.dispatches = [each for each in commands if isinstance(each, Dispatch) and state.owes(each)]
    pending.parks = transition.release or transition.worker_id is None
    pending.next_due = None if pending.parks else state.next_due()


def answered(stimuli: Sequence[Stimulus]) -> list[tuple[str, str, int]]:
    """The attempts that end with these stimuli: what a `Dispatch` of them equals."""
    if len(stimuli) == 1:  # as nearly always
        only = stimuli[0]
        return [(only.node_id, only.scope, only.attempt)] if type(only) is NodeResult else []
    return [(each.node_id, each.scope, each.attempt) for each in stimuli if type(each) is NodeResult]

"""Group commit without I/O: many instances' stimuli in, one batch of turns out, and back again.

Shared by the orchestrator, the stress executor and the simulator:

    planned = plan_turns(work, now=…, lease_ms=…)
    outcome = await store.commit(planned.turns)      # the only await between thought and deed
    settled = settle(planned, outcome)               # won: what to perform; unknown: what to re-read
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from anabranch.engine.rules.commands import AwaitChild, Dispatch
from anabranch.engine.rules.decide import decide
from anabranch.engine.rules.decision import Decision
from anabranch.engine.rules.events import Event, Status
from anabranch.engine.rules.instance import InstanceHead
from anabranch.engine.rules.iterations import LOOP_WORK_MAX
from anabranch.engine.rules.states import AnyState
from anabranch.engine.rules.stimuli import Started, Stimulus

# 256 turns or 4 MB a commit: throughput stops growing between 100 and 500 turns a batch, and
# a bigger batch only makes everybody in it wait longer.
BATCH_TURNS_MAX = 256
BATCH_BYTES_MAX = 4_194_304

# Waits longer than a second are parked (the instance leaves memory); shorter ones would cost
# a claim for nothing.
PARK_AFTER_MS = 1_000

# Looked up once: a member of an enum costs ten times a global before Python 3.12.
_RUNNING, _WAITING = Status.RUNNING, Status.WAITING


@dataclass(slots=True, eq=False)
class Turn:
    """One instance's share of a commit: a guarded step of its version, its events, its new row.

    It wins only if the row still has `expected_version` **and** `worker_id`, the instance is
    open, and the store's own clock has reached `not_before`. A birth (`birth` set,
    `expected_version` 0) wins if its id and its idempotency key are new, its workflow, if it
    has one, is not deleted (with `only_newest`: nor at another version than the birth's), and
    its parent's activation, if it has a parent, is not over.
    """

    instance_id: str
    expected_version: int
    worker_id: str | None
    """The owner who makes the turn; for a birth the one it is born leased to (None: left for any worker)."""
    events: Sequence[Event]
    payload_bytes: int
    """The JSON bytes of their payloads: by so much the log grows."""
    status: Status
    available_at: int | None
    """Written only when not None or `release`: the end of an extended lease, or the wake time."""
    release: bool = False
    """Clear worker_id: parked, finished, or handed over. `available_at` is then written as it is, None included."""
    not_before: int | None = None
    birth: InstanceHead | None = None
    only_newest: bool = False
    """Of a birth that was decided without reading whether its version is still its workflow's newest."""
    started_at: int | None = None
    """Set by the turn with the first NODE_DISPATCHED."""
    wakes: str | None = None
    """The parent that awaits the end which this turn is: its version is raised, so that it is looked at."""
    cancels: Sequence[str] = ()
    """Children that are not awaited any more: cancelled in the same transaction, with all that they await."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a commit.

    `won` names the instances whose turns are written. Every other is *unknown*, not lost
    (a lock skipped looks the same as a version moved): re-read before deciding again.
    `existing` maps a birth that met its idempotency key to the instance that has it.
    `refused` names turns whose data the database does not take, with its reason: they stood
    alone and still failed; their neighbours are not harmed. `orphaned` names births whose
    workflow is not there any more, or not at the version that must be its newest, or that no
    activation of their parent asks for any more.
    `woken` has the versions of the parents that were woken by a child's end, `cancelled` the
    children that were cancelled. `locked` names turns that were not written because somebody else
    has locked what they need: they may win later, as they are.
    """

    won: frozenset[str] | set[str]
    store_now: int
    existing: Mapping[str, str] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)
    orphaned: frozenset[str] | set[str] = frozenset()
    woken: Mapping[str, int] = field(default_factory=dict)
    cancelled: frozenset[str] | set[str] = frozenset()
    locked: frozenset[str] | set[str] = frozenset()


@dataclass(slots=True, eq=False)
class Holding:
    """An instance that this worker holds: its state in memory and the row's guard values."""

    state: AnyState
    version: int
    """0 while it is being born."""
    worker_id: str | None
    lease_until: int
    """End of the lease by the store-adjusted clock (ms)."""

    instance_id: str = field(init=False)
    unchecked: set[str] = field(init=False)
    """Awaited children that may have ended before we held this version: not parked until that is known."""

    def __post_init__(self) -> None:
        self.instance_id = self.state.head.instance_id
        self.unchecked = set(self.state.children)


@dataclass(slots=True, eq=False)
class Draft:
    """What one instance wants to do in a commit: the stimuli, the decisions, the turn they add up to."""

    holding: Holding
    stimuli: Sequence[Stimulus]
    decisions: list[Decision]
    turn: Turn | None
    """None if no stimulus changed anything: there is nothing to commit."""
    defect: Exception | None = None
    """What the rules raised over this instance; its neighbours are not harmed."""

    @property
    def parks(self) -> bool:
        """The instance leaves this worker with the turn: it waits, has ended, or was born unheld."""
        return self.turn is not None and (self.turn.release or self.turn.worker_id is None)


@dataclass(slots=True, eq=False)
class Planned:
    """A batch ready to commit. `drafts` has the turnless ones too."""

    drafts: list[Draft]
    turns: list[Turn]


@dataclass(slots=True, eq=False)
class Won:
    """A committed draft and what must be performed because of it."""

    draft: Draft
    events: Sequence[Event]
    dispatches: list[Dispatch]
    stops: list[Dispatch]
    """Handlers whose activation is over: told to stop."""
    next_due: int | None
    """When to offer `TimersDue`; None if parked, ended, or nothing is due by itself."""


@dataclass(slots=True, eq=False)
class Settled:
    """A batch after its commit."""

    won: list[Won]
    unknown: list[Draft]
    """Re-read, then decide their stimuli again."""
    refused: list[tuple[Draft, str]]
    """The database does not take their data, for this reason."""
    idle: list[Draft]
    """Nothing changed."""
    existing: list[tuple[Draft, str]]
    """Births whose idempotency key another instance has: its id."""
    orphaned: list[Draft]
    """Births whose workflow was deleted or saved meanwhile, or whose parent does not ask for them any more."""
    defective: list[Draft]
    """The rules raised: the state is not to be trusted any more."""
    locked: list[Draft]
    """Somebody else has locked what they need: commit them again later, as they are."""


def plan_turns(
    work: Iterable[tuple[Holding, Sequence[Stimulus]]],
    *,
    now: int,
    lease_ms: int,
    turns_max: int = BATCH_TURNS_MAX,
) -> Planned:
    """Decide the stimuli of each holding in order, until the batch is full.

    Takes from `work` only what fits: at most `turns_max` turns, and no further one once 4 MB
    are reached or loops have worked for `LOOP_WORK_MAX`. Each holding may appear once; its
    state is evolved at once and must be thrown away if its turn does not win.
    """
    planned = Planned([], [])
    size = 0
    work_left = LOOP_WORK_MAX
    for holding, stimuli in work:
        try:
            draft = _draft(holding, stimuli, now=now, lease_ms=lease_ms, work_max=work_left)
        except Exception as defect:  # noqa: BLE001 -- one instance's trouble must not become its neighbours'
            draft = Draft(holding, stimuli, [], None, defect)
        planned.drafts.append(draft)
        for decision in draft.decisions:
            work_left -= decision.worked
        turn = draft.turn
        if turn is not None:
            planned.turns.append(turn)
            size += turn.payload_bytes
        if len(planned.turns) >= turns_max or size >= BATCH_BYTES_MAX or work_left <= 0:
            break
    return planned


def concerns_family(turn: Turn) -> bool:
    """Is there more to do for this turn than to write its own instance?"""
    is_child = turn.birth is not None and turn.birth.parent_id is not None
    return turn.wakes is not None or bool(turn.cancels) or is_child


def settle(planned: Planned, outcome: Outcome) -> Settled:
    """Sort a batch by what became of it. Winners' holdings get their new version and lease here."""
    settled = Settled([], [], [], [], [], [], [], [])
    for draft in planned.drafts:
        turn = draft.turn
        if draft.defect is not None:
            settled.defective.append(draft)
        elif turn is None:
            settled.idle.append(draft)
        elif turn.instance_id in outcome.won:
            settled.won.append(_won(draft, turn))
        elif turn.instance_id in outcome.locked:
            settled.locked.append(draft)
        elif turn.instance_id in outcome.refused:
            settled.refused.append((draft, outcome.refused[turn.instance_id]))
        elif outcome.existing.get(turn.instance_id, turn.instance_id) != turn.instance_id:
            settled.existing.append((draft, outcome.existing[turn.instance_id]))
        elif turn.instance_id in outcome.orphaned:
            settled.orphaned.append(draft)
        else:
            settled.unknown.append(draft)
    return settled


def was_written(turn: Turn, log: Sequence[Event]) -> bool:
    """Is a turn of unknown fate in this log? `log` must reach back to the turn's first event.

    Seqs are given under the version check, so whoever won the version wrote these seqs: if
    the rows there are ours, we did.
    """
    stored = {event.seq: event for event in log}
    return all(_same_row(event, stored.get(event.seq)) for event in turn.events)


def _same_row(event: Event, stored: Event | None) -> bool:
    return stored is not None and (
        (event.type, event.node_id, event.scope, event.attempt, event.created_at, event.payload.raw)
        == (stored.type, stored.node_id, stored.scope, stored.attempt, stored.created_at, stored.payload.raw)
    )


def owed_dispatches(state: AnyState) -> list[Dispatch]:
    """The unanswered dispatches of a state, for a worker that has just taken it over."""
    return [Dispatch(node_id, scope, activation.attempt) for (node_id, scope), activation in state.running.items()]


def _draft(holding: Holding, stimuli: Sequence[Stimulus], *, now: int, lease_ms: int, work_max: int) -> Draft:
    state = holding.state
    was_started, bytes_before = state.started, state.log_bytes
    decisions: list[Decision] = []
    events: list[Event] = []
    cancels: list[str] = []
    not_before: int | None = None
    for stimulus in stimuli:
        decision = decide(state, stimulus, now, work_max=work_max)
        work_max -= decision.worked
        decisions.append(decision)
        events += decision.events
        cancels += decision.cancels
        if decision.not_before is not None:
            not_before = max(decision.not_before, not_before or 0)
    draft = Draft(holding, stimuli, decisions, None)
    if state.children:
        commands = [command for decision in decisions for command in decision.commands]
        holding.unchecked.update(each.child_id for each in commands if isinstance(each, AwaitChild))
    if not events and not _is_idle(holding, now):
        return draft
    is_birth = bool(events) and events[0].seq == 1
    turn = Turn(
        instance_id=holding.instance_id,
        expected_version=holding.version,
        worker_id=holding.worker_id,
        events=events,
        payload_bytes=state.log_bytes - bytes_before,
        status=state.status,
        available_at=None,
        not_before=not_before,
        birth=state.head if is_birth else None,
        only_newest=is_birth and isinstance(stimuli[0], Started) and stimuli[0].only_newest,
        started_at=now if state.started and not was_started else None,
        cancels=cancels,
    )
    _set_lease(turn, holding, now=now, lease_ms=lease_ms)
    draft.turn = turn
    return draft


def _is_idle(holding: Holding, now: int) -> bool:
    """Nothing runs and nothing is due soon: the instance is parked, by a turn without events if need be.

    (One that was woken by a signal which fits no wait has nothing to say, and shall not stay in memory.)
    """
    state = holding.state
    if state.is_terminal or state.running or holding.unchecked:
        return False
    due = state.next_due()
    return due is None or due - now > PARK_AFTER_MS


def _set_lease(turn: Turn, holding: Holding, *, now: int, lease_ms: int) -> None:
    """Keep, extend, park or give up the instance with this very turn."""
    state = holding.state
    if state.is_terminal:
        turn.release = True
        turn.wakes = state.head.parent_id if state.head.parent_waits else None
        return
    parks = _is_idle(holding, now)
    if turn.birth is not None and (parks or holding.worker_id is None):
        turn.worker_id, turn.available_at = None, state.next_due()
        return
    if parks:
        turn.release, turn.available_at = True, state.next_due()
        return
    if turn.birth is not None or holding.lease_until - now < lease_ms // 2:
        # Extending only when half is gone keeps most updates off the available_at index (HOT).
        turn.available_at = now + lease_ms
    if turn.status is _WAITING:
        turn.status = _RUNNING  # a wait under a second keeps its worker


def _won(draft: Draft, turn: Turn) -> Won:
    holding, state = draft.holding, draft.holding.state
    holding.version += 1
    if turn.available_at is not None and not turn.release:
        holding.lease_until = turn.available_at
    dispatches: list[Dispatch] = []
    stops: list[Dispatch] = []
    for decision in draft.decisions:
        stops += decision.stops
        dispatches += [each for each in decision.commands if isinstance(each, Dispatch)]
    if len(draft.decisions) > 1:  # a later decision may have undone what an earlier one asked for
        dispatches = [dispatch for dispatch in dispatches if state.owes(dispatch)]
    return Won(draft, turn.events, dispatches, stops, None if draft.parks else state.next_due())

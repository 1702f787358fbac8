"""Interfaces of the engine to the outside: stores, clock, observers, handlers.

Protocols and the small frozen types that they exchange. `tests/conformance` tests each promise below on every store.
Times are integer milliseconds since the epoch (UTC); `available_at` None means that the instance need not be woken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from anabranch.engine.rules.drawn.drawn_state import InstanceHead
from anabranch.engine.rules.events import Event, Status, SuspendReason
from anabranch.engine.rules.history import ALL_ACTIVATIONS, ActivationFilter
from anabranch.engine.rules.payloads import RunReopened, RunResumed, RunSuspended
from anabranch.engine.rules.run_filter import ALL_RUNS, RunFilter
from anabranch.engine.rules.shared.blame import ANY_ROOM, CRASHES_MAX, Blame, SuspectRoom
from anabranch.engine.rules.shared.left_out import Ranges
from anabranch.engine.rules.shared.log_limit import LOG_LIMIT, ROW_WEIGHT, LogLimit
from anabranch.engine.rules.stimuli import ChildEnded, SignalSent
from anabranch.engine.rules.transitions import Outcome, Transition
from anabranch.engine.rules.values import Payload

__all__ = [
    "ChangeHints",
    "ClaimRequest",
    "Clock",
    "ExternalResult",
    "FamilyReopening",
    "Gate",
    "InstanceHead",
    "InstanceRow",
    "Loaded",
    "NewVersion",
    "Observer",
    "OpenRuns",
    "Outcome",
    "Reopening",
    "Store",
    "TenantRooms",
    "Transition",
    "WorkflowEntry",
    "WorkflowVersion",
]


@dataclass(frozen=True, slots=True)
class InstanceRow:
    """The instance row: the head, and the cache of what the log says."""

    head: InstanceHead
    status: Status
    version: int
    last_seq: int
    worker_id: str | None
    available_at: int | None
    """Owned: the end of the lease. Not held: when it may be claimed (None: only an external stimulus wakes it)."""
    started_at: int | None = None
    completed_at: int | None = None
    log_bytes: int = 0
    """JSON bytes of all payloads in the log; 0 for runs that had ended before this was counted."""
    suspended_for: SuspendReason | None = None
    """Why it is SUSPENDED; None: it is not."""
    blame: Blame | None = None
    """It may have killed a process; None: it is above suspicion."""
    needs: Sequence[str] = ()
    """The node types that a worker must have besides those that every worker has."""

    @property
    def log_weight(self) -> int:
        """What the log takes in memory, about."""
        return self.log_bytes + ROW_WEIGHT * self.last_seq


@dataclass(frozen=True, slots=True)
class Loaded:
    """A row and its events after some seq, read in one snapshot.

    `events[-1].seq == row.last_seq`, but for a log that is too large to be read at once (`WHOLE_LOG_WEIGHT_MAX`): of
    that there are no events, and readers fetch it page by page.
    """

    row: InstanceRow
    events: Sequence[Event]


@dataclass(frozen=True, slots=True)
class ActivationPage:
    """Activations of one run, in the order in which they began: the first row of each and its latest.

    Payloads are those of errors and waits, and of outputs where they were asked for; every other one is empty.
    """

    events: Sequence[Event]
    """In seq order."""
    times: Mapping[int, int]
    """When the rows were written that steps of a coded run followed, by seq."""
    next_seq: int | None
    """The next page has the activations that began after this; None: there is none."""
    iterated: frozenset[tuple[str, str]] = frozenset()
    """Loops among them that opened an iteration."""


NO_ACTIVATIONS = ActivationPage((), {}, None)


@dataclass(frozen=True, slots=True)
class RunReading:
    """What is shown of one run, all of one moment, without its log."""

    row: InstanceRow
    created: Event
    """INPUT_SET."""
    end: Event | None
    """The last row, once the run has ended."""
    note: Event | None
    """The note of an open coded run, unless it has made progress since."""
    activations: ActivationPage
    suspended: Event | None = None
    """The row that has suspended it, while it is SUSPENDED."""


@dataclass(frozen=True, slots=True)
class ExternalResult:
    """What an unconditional statement from a process that does not hold the instance did.

    `row` is the row after it (None: no such instance). `seq` is the event's seq, None when
    nothing was written: a terminal instance, or a repeated signal key (`repeated`).
    """

    row: InstanceRow | None
    seq: int | None
    repeated: bool = False


@dataclass(frozen=True, slots=True)
class WorkflowVersion:
    """One immutable version of a definition."""

    workflow_id: str
    tenant_id: str
    name: str
    title: str | None
    kind: str
    version: int
    definition: Mapping[str, Any]
    created_at: int
    updated_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NewVersion:
    """What is saved as a version of a workflow."""

    name: str
    title: str | None = None
    definition: Mapping[str, Any]
    kind: str = "drawn"
    workflow_id: str | None = None
    """The workflow whose next version it becomes; None: a new one."""
    expected_version: int | None = None
    """Only if the newest version is this one."""


@dataclass(frozen=True, slots=True)
class WorkflowEntry:
    """One version as lists show it."""

    workflow_id: str
    name: str
    title: str | None
    kind: str
    version: int
    created_at: int
    """When the workflow was made."""
    updated_at: int
    """When this version was saved."""
    definition: Mapping[str, Any] | None = None
    """None unless it was asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerReport:
    """What a working process says of itself, every third of a lease."""

    worker_id: str
    executing: int | None
    """The most executions at once since its last report; None: it has just begun."""
    code: Sequence[tuple[str, int]] = ()
    """The coded workflows that it knows, and their versions."""
    node_types: Sequence[str] = ()
    """The node types that it has besides those of every worker."""


@dataclass(frozen=True, slots=True)
class TenantRooms:
    """How many more runs of each tenant a worker takes."""

    each: int
    of: Mapping[str, int]
    """Of these tenants so many instead; 0: their runs are left out, and take no place in the claim."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reopening:
    """A run that has ended badly and is to go on, as it was planned on its log."""

    instance_id: str
    last_seq: int
    """Its end."""
    said: RunReopened
    left_out: Ranges
    """The rows left out by this reopening and those before."""
    parent_waits: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class FamilyReopening:
    """A run with the runs below it that go on together."""

    tenant_id: str
    runs: Sequence[Reopening]
    """From the topmost down."""
    awaited_by: tuple[str, str, str] | None = None
    """The parent of the topmost, and the activation (node id, scope) that must await it."""
    attached: Sequence[str] = ()
    """Open children whose parents await them again."""


# 32 MB of logs per claim: in memory they take a few times that, and 500 usual logs stay far below.
CLAIM_WEIGHT_MAX = 32 * 1_048_576


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimRequest:
    """Which instances a worker takes, and for how long."""

    worker_id: str
    limit: int
    lease_ms: int
    only: Sequence[str] | None = None
    """Only these instances and the families below them (`anabranch run`)."""
    steal: bool = False
    """Take them from a live lease too (`run --resume`). That does not count as lapsed: the worker had not crashed."""
    known_code: Sequence[tuple[str, int]] | None = None
    """Names and versions: coded runs of others are left to the workers that know them."""
    known_types: Sequence[str] | None = None
    """Node types besides those that every worker has: runs that need others are left to workers that have them."""
    rooms: TenantRooms | None = None
    """How many of each tenant are taken; those beyond it stay as they are, although they count towards `limit`."""
    weight_max: int = CLAIM_WEIGHT_MAX
    """No further one is taken once the logs of those taken weigh this much; a single log may weigh more."""
    large: bool = True
    """False: leave instances whose log cannot be read at once (see `Loaded`)."""
    suspects: SuspectRoom = ANY_ROOM
    """How many suspects are taken besides those that the worker has; see `blame.may_join`."""
    crashes_max: int = CRASHES_MAX
    """A run that has crashed alone so often is suspended instead of taken."""
    away_until: int | None = None
    """Leases that ended up to then (ms) were lost with the store, not with their workers: nobody is blamed."""


OpenRuns: TypeAlias = Mapping[tuple[str, str, Status, SuspendReason | None], int]
"""How many runs are open, by the workflow's name and kind, the run's status, and why it is suspended."""


# 4 MB: a log up to this is read in one statement together with others; most have some kilobytes.
WHOLE_LOG_WEIGHT_MAX = 4 * 1_048_576


class Store(Protocol):
    """One database (or memory) that keeps instances, their logs and the definitions.

    Raises `StoreUnavailable` where the database cannot be reached or does not write; a commit
    that raised it may or may not have happened. Every method may be called concurrently.
    """

    commits_in_flight_max: int
    """Commits on disjoint instances that may be under way at once: 2 on PostgreSQL and SQLite, 1 in memory."""

    families_apart: bool
    """True: transitions that concern parents or children may wait for locks, and should be committed apart from the
    others, so that these never do."""

    async def start(self) -> None:
        """Open connections and check the schema. Raises SchemaMismatch (naming both versions) or StoreUnavailable."""

    async def stop(self) -> None:
        """Close everything; may be called twice or before start."""

    async def now(self) -> int:
        """The store's clock: the one that leases, parked timers and `not_before` are judged by."""

    # -- the hot path ---------------------------------------------------------------------
    async def commit(self, transitions: Sequence[Transition], *, may_wait: bool = False) -> Outcome:
        """Advance (or give creation to) many instances in one transaction; each wins or loses alone.

        Instance ids are distinct within a call. Winners get version + 1, last_seq advanced by
        their events, status, lease; terminal statuses also get completed_at and no worker.

        In the same transaction the parents that winners wake get version + 1 (and are available
        now if nobody holds them), and the children that winners do not await any more are
        cancelled, with all that these await.

        `may_wait` says that these transitions may meet locks which others hold for long, so that no other
        commit is to wait behind them.
        """

    async def check_commits(self) -> None:
        """Return if commits get through. Raises StoreUnavailable, which says why they do not."""

    async def claim(self, wanted: ClaimRequest) -> list[Loaded]:
        """Take open instances whose `available_at` has come, longest overdue first, and load them.

        The claim raises the version although it appends no event: a worker that lost its lease
        without knowing must lose its next commit too. Rows another claim holds locked are skipped.

        Instances whose lease another worker let run out are judged first (`blame.judged`): they become suspects, or
        are suspended for what they have done. A suspect whose company is 1 is taken alone.
        """

    async def report_worker(self, report: WorkerReport) -> None:
        """Keep what a working process says of itself, in place of what it said before."""

    async def suspend_unfit(self, *, overdue_ms: int, seen_ms: int, limit: int) -> int:
        """Suspend runs that are due for so long and that no worker seen so lately can run; how many.

        Those whose deadline has passed meanwhile fail instead.
        """

    async def forget_worker(self, worker_id: str) -> None:
        """Remove what a process has said of itself, once it has handed over everything."""

    async def extend(self, *, worker_id: str, instance_ids: Sequence[str], lease_ms: int) -> set[str]:
        """Give these leases `lease_ms` from the store's now; returns those that are still ours. No version bump."""

    def extend_blocking(
        self, *, worker_id: str, instance_ids: Sequence[str], lease_ms: int, patience_s: float
    ) -> set[str]:
        """The same from another thread than the event loop's, which may stand still meanwhile.

        Raises StoreUnavailable if there is no answer within `patience_s`.
        """

    async def release(self, *, worker_id: str, instance_ids: Sequence[str] | None = None) -> int:
        """Hand open instances (None: all of the worker's) over: no worker, available now, version + 1. How many."""

    async def versions(self, instance_ids: Sequence[str]) -> dict[str, tuple[int, str | None]]:
        """(version, worker_id) of each id that exists: one statement, to notice external changes."""

    async def external_changes_possible(self) -> bool:
        """False if certainly no other connection wrote since the last call (SQLite `data_version`); else True."""

    # -- external stimuli ------------------------------------------------------------------
    async def append_signal(
        self,
        instance_id: str,
        signal: SignalSent,
        *,
        tenant_id: str,
        awaited: bool = False,
        log_limit: LogLimit = LOG_LIMIT,
    ) -> ExternalResult:
        """Append SIGNAL_RECEIVED to an open instance, held or not: version + 1, last_seq + 1, unconditional.

        An instance that nobody holds becomes available now. A repeated key writes nothing.
        Raises TooManySignals past the limit of unconsumed signals; one that is `awaited` is consumed at once.
        One that the log has no room for is not written, and ends the run: see `fail_full`.
        """

    async def fail_full(self, *, tenant_id: str, instance_id: str, log_limit: LogLimit) -> ExternalResult:
        """Append INSTANCE_FAILED (LOG_TOO_LARGE) to an open instance, held or not and close it; unconditional.

        Its parent is woken and its children are cancelled, as by `append_cancel`.
        """

    async def append_suspension(
        self,
        instance_id: str,
        suspension: RunSuspended,
        *,
        tenant_id: str,
        log_limit: LogLimit = LOG_LIMIT,
    ) -> ExternalResult:
        """Append INSTANCE_SUSPENDED to an open instance, held or not, unless it is suspended already.

        Who holds it keeps it until what is under way has ended; where nobody does, nobody claims it before its
        deadline. A log without room ends the run: see `fail_full`.
        """

    async def append_resumption(
        self, instance_id: str, resumed: RunResumed, *, tenant_id: str, log_limit: LogLimit = LOG_LIMIT
    ) -> ExternalResult:
        """Append INSTANCE_RESUMED to a suspended instance, held or not; where nobody does, it is available now."""

    async def reopen(self, family: FamilyReopening) -> list[InstanceRow] | None:
        """Append INSTANCE_REOPENED to runs that have ended, all of them or none; None: something is not as planned.

        Each must have ended FAILED or CANCELLED, with the row `last_seq`, and its workflow must not be deleted. They
        are open, available now, with `left_out` and the new deadline; the counters of ended runs have them no more.
        The version of the parent in `awaited_by` is raised: a decision that knows the old end loses.
        """

    async def append_cancel(self, *, tenant_id: str, instance_id: str, reason: str) -> ExternalResult:
        """Append INSTANCE_CANCELLED to an open instance, held or not and close it; unconditional.

        In the same transaction its parent is woken and its children are cancelled, as by `commit`.
        """

    # -- reading --------------------------------------------------------------------------
    async def load(self, instance_ids: Sequence[str], *, after_seq: int = 0) -> dict[str, Loaded]:
        """Rows with their events after `after_seq`, each pair from one snapshot; see `Loaded` for large logs."""

    async def get_instance(self, instance_id: str, *, tenant_id: str | None = None) -> InstanceRow | None:
        """The row alone. With a tenant, another tenant's reads as absent."""

    async def find_start(self, *, tenant_id: str, workflow_name: str, idempotency_key: str) -> InstanceRow | None:
        """The run that a start with this key made, if it is stored."""

    async def ended_children(self, instance_ids: Sequence[str]) -> list[ChildEnded]:
        """How those of these runs ended that have; one whose rows were removed reads as cancelled."""

    async def awaited_children(self, instance_id: str) -> list[InstanceRow]:
        """The open runs that an instance has started and awaits, by id."""

    async def descendants(self, root_id: str, *, limit: int) -> list[InstanceRow]:
        """The runs below a root, however deep, open or ended, by id; none below one that is no root."""

    async def read_log(
        self,
        instance_id: str,
        *,
        after_seq: int = 0,
        limit: int = 1000,
        bytes_max: int | None = None,
        inline: bool = True,
    ) -> list[Event]:
        """At most `limit` events in seq order; no further one once their payloads have `bytes_max`.

        Without `inline` the large parts of payloads are not fetched: only shape and size of these are known.
        """

    async def fetch_values(self, payloads: Iterable[Payload]) -> None:
        """Fetch the large parts of these payloads that are not there yet; what is not stored stays absent."""

    async def read_value(self, *, tenant_id: str, sha256: str) -> bytes | None:
        """The JSON of a large value that a run of the tenant refers to; None: there is none."""

    async def count_values(self) -> tuple[int, int]:
        """How many large values are stored, and how many bytes they have."""

    async def read_run(self, instance_id: str, *, activations_max: int) -> RunReading | None:
        """What is shown of a run, with its first activations; none of their outputs is read."""

    async def read_rows(self, instance_id: str, *, after_seq: int, limit: int) -> list[Event]:
        """At most `limit` events in seq order, with the payloads of errors, suspensions and waits only."""

    async def read_activations(
        self,
        instance_id: str,
        *,
        after_seq: int,
        limit: int,
        bytes_max: int = 0,
        only: ActivationFilter = ALL_ACTIVATIONS,
    ) -> tuple[InstanceRow, ActivationPage] | None:
        """A row with a page of activations that began after a seq; with `bytes_max` with their outputs.

        No further activation once the outputs have so many bytes. Of open activations, `only` tells apart where they
        are, not how they are.
        """

    async def read_outputs(self, instance_id: str, node_ids: Sequence[str]) -> list[Event]:
        """The NODE_COMPLETED rows of these nodes at the root scope, in seq order."""

    async def read_signal_waits(
        self, instance_id: str, *, after_seq: int, open_waits: Sequence[tuple[str, str]]
    ) -> list[Event]:
        """The rows after a seq that are about signals and the waits for them, in seq order.

        Of waits that were open before (node id, scope) the end too.
        """

    async def list_instances(
        self, wanted: RunFilter = ALL_RUNS, *, tenant_id: str, limit: int, before: tuple[int, str] | None = None
    ) -> list[InstanceRow]:
        """By (created_at, instance_id) descending, strictly before the cursor."""

    async def get_completed_node_ids(self, instance_id: str, node_ids: Sequence[str] = ()) -> set[str]:
        """Which (of these) nodes have a NODE_COMPLETED row at the root scope."""

    async def get_dispatched_node_ids(self, instance_id: str, node_ids: Sequence[str] = ()) -> set[str]:
        """Which (of these) nodes have a NODE_DISPATCHED row at the root scope."""

    async def get_stale_running_instances(self, *, limit: int) -> list[InstanceRow]:
        """Open instances held under a lease that has run out, longest overdue first."""

    async def count_pending(self, *, up_to: int) -> dict[str, int]:
        """PENDING instances by tenant, due now or later; counting stops when there are `up_to` in all."""

    # -- upkeep ---------------------------------------------------------------------------
    async def count_open(self) -> OpenRuns:
        """The open runs of all tenants, without test runs. Looks at each of them."""

    async def count_runs(self, *, tenant_id: str) -> dict[str, dict[Status, int]]:
        """How many runs of each workflow are in each status, without test runs; exact at one moment.

        Costs what is open and what has ended since the last `fold_counts`, not what is stored.
        """

    async def count_runs_by_version(self, *, tenant_id: str, workflow_id: str) -> dict[int, dict[Status, int]]:
        """How many runs of each version of a workflow are in each status, without test runs.

        Costs a look at every stored run of the workflow.
        """

    async def fold_counts(self, *, limit: int) -> bool:
        """Count about that many ended runs for good; True if more can be counted at once.

        False too if another process is counting. Nothing is counted twice or left out, even after a crash.
        """

    async def remove_expired(self, *, limit: int) -> int | None:
        """Remove at most that many ended runs whose retention is over, each with its log; how many.

        Never an open run, and no child whose parent is open: it may still be asked how the child
        ended. None: another process is at it, so ask again later.
        """

    async def delete_run(self, *, tenant_id: str, instance_id: str, actor: str | None = None) -> bool:
        """Remove an ended run with its log; on record in the same transaction where there is an `actor`.

        False: another process counts or removes runs at this moment, so ask again. Raises NotFound;
        RunIsOpen for an open run, and for one whose parent is open.
        """

    async def remove_unused_workflows(self, *, limit: int) -> int | None:
        """Remove at most that many deleted workflows that no run needs, with their versions; how many.

        Schedules and subscriptions that name one go with it, 30 days after it was deleted, unless another workflow
        has its name by then. None: another process is at it, so ask again later.
        """

    async def trim_audit(self, *, retention_days: int, limit: int) -> int:
        """Remove at most that many rows of the audit trail that are older, and record that; how many.

        A day's rows at once. The chain of hashes goes on from the last row that went.
        """

    async def give_back_space(self) -> bool:
        """Give a little of what removed rows have left back to the file system; True if there is more."""

    # -- definitions ----------------------------------------------------------------------
    async def save_workflow(self, version: NewVersion, *, tenant_id: str, actor: str | None = None) -> WorkflowVersion:
        """A new workflow, or the next version of one; equal to the newest: that version again.

        Raises NameTaken, NotFound, VersionMismatch. Two savers at once get different numbers. With an
        `actor` a new version is on record in the same transaction, in stores that keep an audit trail.
        """

    async def get_workflow(
        self, *, tenant_id: str, workflow: str, version: int | None = None
    ) -> WorkflowVersion | None:
        """By id or name; the newest version unless one is named.

        The tenant's own, else the coded one of this name, which all tenants see.
        """

    async def register_code(self, *, name: str, version: int, definition: Mapping[str, Any]) -> WorkflowVersion:
        """Note what a worker can run: a version of a coded workflow, with the options that it is declared with now.

        From then on no other workflow may be saved under its name; a tenant that has one keeps it,
        and sees the coded one by its id only. Two workers at once register one.
        """

    async def get_definition(self, workflow_id: str, version: int) -> WorkflowVersion | None:
        """The pinned version of an instance, also after the workflow was deleted while runs remain readable."""

    async def list_workflows(
        self, *, tenant_id: str, limit: int, after: str | None = None, with_definitions: bool = False
    ) -> list[WorkflowEntry]:
        """The newest version of each, by name (in the order of its characters' codes), strictly after that one."""

    async def list_versions(
        self, *, tenant_id: str, workflow_id: str, limit: int, before: int | None = None
    ) -> list[WorkflowEntry]:
        """The versions of one that is not deleted, newest first, strictly before that one."""

    async def delete_workflow(
        self, *, tenant_id: str, workflow_id: str, force: bool = False, actor: str | None = None
    ) -> None:
        """Free the name; from then on nothing is created on it. Raises NotFound. `actor`: as when saving.

        Raises WorkflowHasRuns while instances are open, unless forced: then they go on until
        somebody cancels what `runs_of_deleted_workflows` names.
        """

    async def runs_of_deleted_workflows(self, *, limit: int, workflow_id: str | None = None) -> list[tuple[str, str]]:
        """(tenant_id, instance_id) of open runs of deleted workflows, or of this one if it is deleted."""

    async def delete_test_instance(self, *, tenant_id: str, instance_id: str) -> None:
        """Remove the rows of a terminal test run in one transaction. Raises NotFound for any other run."""


class Clock(Protocol):
    """Time as the shell knows it. Tests and the simulator bring their own."""

    def now(self) -> int:
        """Milliseconds since the epoch: monotonic time plus an offset kept by `adjust`."""

    def monotonic(self) -> float:
        """Seconds that never go back."""

    def adjust(self, store_now: int) -> None:
        """Learn the store's time from an answer of its."""

    async def sleep(self, milliseconds: int) -> None:
        """Return after so long as `monotonic` counts, whatever `adjust` does to `now` meanwhile."""


class Observer(Protocol):
    """Someone who is told what is committed, in log order, after the commit. Must not block or raise."""

    def committed(self, instance_id: str, events: Sequence[Event], status: Status) -> None:
        """These events are in the log."""


class Gate(Protocol):
    """Something scarce that nodes of some types need: their jobs stay queued, without a slot, until it admits them."""

    def is_open(self) -> bool:
        """May any job begin now? If something has to be made ready first, that is started here."""

    def admits(self, tenant_id: str) -> bool:
        """May a job of this tenant begin now?"""

    def subscribe(self, opened: Callable[[], None]) -> None:
        """Call this whenever a job that had to wait may perhaps begin; it must not block or raise."""


class ChangeSubscriber(Protocol):
    """Told of watched runs that may have changed in another process. Must not block or raise."""

    def changed(self, instance_id: str, *, ended: bool) -> None:
        """This run may have changed, and may have `ended` by that."""

    def moved(self) -> None:
        """Any of them may have changed or ended: somebody has committed to the store."""


class ChangeHints(Protocol):
    """Hints that a run which another process may advance has changed: look sooner than you would have anyway.

    They may be lost, doubled, late or wrong, and there may be none at all (a pooler before PostgreSQL). Who
    watches polls besides; what this process commits itself its Observer tells.
    """

    def watch(self, instance_id: str) -> None:
        """Ask the other processes for hints about this run, until each `watch` is undone by an `unwatch`."""

    def unwatch(self, instance_id: str) -> None:
        """Undo one `watch`."""

    def subscribe(self, subscriber: ChangeSubscriber) -> None:
        """Tell this one of watched runs from now on."""

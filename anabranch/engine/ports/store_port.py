"""The store: one database that keeps instances, their logs and the definitions.

`tests/conformance` tests each promise below on every store. Times are integer milliseconds since the epoch (UTC).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Protocol

from anabranch.engine.ports.store_records import (
    NO_OUTPUTS,
    ActivationPage,
    ClaimRequest,
    Epoch,
    ExternalResult,
    FamilyReopening,
    InstanceRow,
    Loaded,
    NewVersion,
    OpenRuns,
    OutputsRead,
    Pause,
    Position,
    ReportAnswer,
    RunReading,
    WorkerCode,
    WorkerReport,
    WorkflowEntry,
    WorkflowVersion,
)
from anabranch.engine.rules.event_payloads import RunResumed, RunSuspended
from anabranch.engine.rules.events import ActivationKey, Event, Status
from anabranch.engine.rules.history import ALL_ACTIVATIONS, ActivationFilter
from anabranch.engine.rules.run_filter import ALL_RUNS, RunFilter
from anabranch.engine.rules.shared.log_limit import LOG_LIMIT, LogLimit
from anabranch.engine.rules.stimuli import ChildEnded, SignalSent
from anabranch.engine.rules.transitions import Outcome, Transition
from anabranch.engine.rules.values import Payload


class Store(Protocol):
    """One database (or memory) that keeps instances, their logs and the definitions.

    Raises `StoreUnavailable` if the database cannot be reached or cannot write; a commit that raised it may or may not
    have happened. Every method may be called concurrently.
    """

    commits_in_flight_max: int
    """Concurrent commits on disjoint instances: 2 on PostgreSQL and SQLite, 1 in memory."""

    families_apart: bool
    """True: transitions about parents or children may wait for locks, and should be committed separately, so that
    others never wait."""

    async def start(self) -> None:
        """Open connections and check the schema. Raises SchemaMismatch (naming both versions) or StoreUnavailable."""

    async def stop(self) -> None:
        """Close everything; may be called twice or before start."""

    async def now(self) -> int:
        """The store's clock, which leases, parked timers and `not_before` use."""

    # -- the hot path ---------------------------------------------------------------------
    async def commit(self, transitions: Sequence[Transition], *, may_wait: bool = False) -> Outcome:
        """Advance or create many instances in one transaction; each wins or loses alone.

        Instance ids are distinct within a call. Winners get version + 1, last_seq advanced by
        their events, status, lease; terminal statuses also get completed_at and no worker.

        In the same transaction, parents that winners wake get version + 1 (and are available now if no worker owns
        them), and children that winners no longer await are cancelled, with everything that these await.

        `may_wait`: these transitions may wait for locks of others, so no other commit may wait behind them.
        """

    async def check_commits(self) -> None:
        """Return if commits succeed. Raises StoreUnavailable with the reason if they do not."""

    async def claim(self, wanted: ClaimRequest) -> list[Loaded]:
        """Take open instances whose `available_at` has come, longest overdue first, and load them.

        The claim raises the version although it appends no event: a worker that lost its lease without knowing must
        lose its next commit too. Rows locked by another claim are skipped. With `parked`, one waiting instance is taken
        before it is due.

        Instances whose lease expired under another worker are judged first (`blame.judged`): they become suspects, or
        are suspended. A suspect whose company is 1 is taken alone.
        """

    async def report_worker(self, report: WorkerReport) -> ReportAnswer:
        """Store the report of a working process, replacing the previous one."""

    async def suspend_unfit(self, *, overdue_ms: int, seen_ms: int, limit: int) -> int:
        """Suspend runs that have been due for this long and that no recently reporting worker can run; returns how
        many.

        Those whose deadline has passed fail instead.
        """

    async def offer_refused(self, mine: WorkerCode, *, since: int, limit: int) -> int:
        """Make runs due that are suspended because of their code (NONDETERMINISM, DEFINITION_ERROR), where that was
        another one than the worker's; the number of runs. Only those suspended after `since` (ms).

        Also resumes runs suspended for a defect of another release (ENGINE_DEFECT).
        """

    async def forget_worker(self, worker_id: str) -> None:
        """Remove the report of a process that has handed over everything."""

    async def extend(self, *, worker_id: str, instance_ids: Sequence[str], lease_ms: int) -> set[str]:
        """Extend these leases to `lease_ms` from the store's now; returns those that are still ours. Does not raise
        versions."""

    def extend_blocking(
        self, *, worker_id: str, instance_ids: Sequence[str], lease_ms: int, patience_s: float
    ) -> set[str]:
        """The same, from another thread than the event loop's, which may be blocked.

        Raises StoreUnavailable without a response within `patience_s`.
        """

    async def release(self, *, worker_id: str, instance_ids: Sequence[str] | None = None) -> int:
        """Release open instances (None: all of the worker's): no worker, available now, version + 1. Returns how
        many."""

    async def epoch(self) -> Epoch | None:
        """The present epoch; None if this kind of database does not tell. A new one begins when a process meets another
        line of history.

        For one lease after that `claim` finds nothing, so that all processes can set aside runs whose history was lost.
        Raises StoreUnavailable if the database is on an earlier line than one that this process has seen.
        """

    async def positions(self, seqs: Mapping[str, int]) -> dict[str, Position]:
        """How far these runs are stored, of those that exist, and when the given row of each was written."""

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
        """Append SIGNAL_RECEIVED to an open instance, owned or not: version + 1, last_seq + 1, unconditional.

        An instance without owner becomes available now. A repeated key writes nothing. Raises TooManySignals beyond the
        limit of kept signals; one that is `awaited` is consumed at once and does not count. If the log has no room, the
        signal is not written and the run ends: see `fail_full`.
        """

    async def fail_full(self, *, tenant_id: str, instance_id: str, log_limit: LogLimit) -> ExternalResult:
        """Append INSTANCE_FAILED (LOG_TOO_LARGE) to an open instance, owned or not, and close it; unconditional.

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
        """Append INSTANCE_SUSPENDED to an open instance, owned or not, unless it is suspended already. Where this
        reason replaces that one (`SuspendReason.replaces`) and the log has room, the run is resumed (`REPLACED_BY`)
        and suspended in one transaction.

        An owner keeps it until its executions have ended; without an owner it is not claimed before its deadline. If
        the log has no room, the run ends: see `fail_full`.
        """

    async def append_resumption(
        self, instance_id: str, resumed: RunResumed, *, tenant_id: str, log_limit: LogLimit = LOG_LIMIT
    ) -> ExternalResult:
        """Append INSTANCE_RESUMED to a suspended instance, owned or not; without an owner it becomes available now."""

    async def reopen(self, family: FamilyReopening) -> list[InstanceRow] | None:
        """Append INSTANCE_REOPENED to ended runs, all or none; returns None if something is not as planned. Each must
        have ended FAILED or CANCELLED with the row `last_seq`, and its workflow must not be deleted.

        Afterwards they are open and available, with `left_out` and the new deadline, and no longer counted as ended.
        The version of the parent in `awaited_by` is raised, so that a decision that knows the old end loses.
        """

    async def append_cancel(self, *, tenant_id: str, instance_id: str, reason: str) -> ExternalResult:
        """Append INSTANCE_CANCELLED to an open instance, owned or not, and close it; unconditional.

        In the same transaction its parent is woken and its children are cancelled, as by `commit`.
        """

    # -- reading --------------------------------------------------------------------------
    async def load(self, instance_ids: Sequence[str], *, after_seq: int = 0) -> dict[str, Loaded]:
        """Rows with their events after `after_seq`, each pair from one snapshot; see `Loaded` for large logs."""

    async def get_instance(self, instance_id: str, *, tenant_id: str | None = None) -> InstanceRow | None:
        """The row alone; None if absent, or if a tenant is given and it belongs to another."""

    async def find_start(self, *, tenant_id: str, workflow_name: str, idempotency_key: str) -> InstanceRow | None:
        """The run that a start with this key created, if it is stored."""

    async def ended_children(self, instance_ids: Sequence[str]) -> list[ChildEnded]:
        """The ends of those of these runs that have ended; a removed run reads as cancelled."""

    async def awaited_children(self, instance_id: str) -> list[InstanceRow]:
        """The open runs that an instance has started and awaits, by id."""

    async def descendants(self, root_id: str, *, limit: int) -> list[InstanceRow]:
        """All runs below a root, open or ended, by id; none if it is not a root."""

    async def read_log(
        self,
        instance_id: str,
        *,
        after_seq: int = 0,
        limit: int = 1000,
        bytes_max: int | None = None,
        inline: bool = True,
    ) -> list[Event]:
        """At most `limit` events in seq order; stops once their payloads have `bytes_max`.

        Without `inline` the large parts of payloads are not fetched: only shape and size of these are known.
        """

    async def fetch_values(self, payloads: Iterable[Payload]) -> None:
        """Fetch the large parts of these payloads that are not there yet; what is not stored stays absent."""

    async def referenced_values(self, instance_id: str, sha256s: Collection[str]) -> Collection[str]:
        """Those of these hashes that the log of a run refers to. Raises StoreUnavailable."""

    async def read_value(self, *, tenant_id: str, sha256: str) -> bytes | None:
        """The JSON of a large value that a run of the tenant refers to; None: there is none."""

    async def count_values(self) -> tuple[int, int]:
        """How many large values are stored, and how many bytes they have."""

    async def read_run(self, instance_id: str, *, activations_max: int) -> RunReading | None:
        """The data of a run's view, with its first activations, without outputs."""

    async def read_rows(self, instance_id: str, *, after_seq: int, limit: int) -> list[Event]:
        """At most `limit` events in seq order, with the payloads of errors, suspensions and waits only."""

    async def read_activations(
        self,
        instance_id: str,
        *,
        after_seq: int,
        limit: int,
        outputs: OutputsRead = NO_OUTPUTS,
        only: ActivationFilter = ALL_ACTIVATIONS,
    ) -> tuple[InstanceRow, ActivationPage] | None:
        """A row with a page of activations that began after a seq; with `bytes_max` with their outputs.

        Stops once the outputs have that many bytes. For open activations, `only` filters by place but not by status.
        """

    async def read_outputs(self, instance_id: str, node_ids: Sequence[str], *, all_scopes: bool = False) -> list[Event]:
        """The NODE_COMPLETED rows of these nodes at the root scope, or with `all_scopes` in any, in seq order."""

    async def read_signal_waits(
        self, instance_id: str, *, after_seq: int, open_waits: Sequence[ActivationKey]
    ) -> list[Event]:
        """The rows after a seq about signals and waits for signals, in seq order, and the ends of the given earlier
        waits (node id, scope).
        """

    async def list_instances(
        self, wanted: RunFilter = ALL_RUNS, *, tenant_id: str, limit: int, before: tuple[int, str] | None = None
    ) -> list[InstanceRow]:
        """By (created_at, instance_id) descending, strictly before the cursor."""

    async def count_pending(self, *, up_to: int) -> dict[str, int]:
        """PENDING instances by tenant, due now or later; counting stops when there are `up_to` in all."""

    async def count_unclaimed(self) -> int:
        """How many instances of all tenants a worker could claim now: due, owned by nobody, and not paused."""

    # -- housekeeping ---------------------------------------------------------------------
    async def count_open(self) -> OpenRuns:
        """Counts the open runs of all tenants, without test runs, in a scan of the open runs."""

    async def count_runs(self, *, tenant_id: str) -> dict[str, dict[Status, int]]:
        """How many runs of each workflow are in each status, without test runs; exact at one moment.

        Costs what is open and what has ended since the last `fold_counts`, not what is stored.
        """

    async def count_ended(self, *, within_ms: int) -> Mapping[str, Mapping[str, Mapping[Status, int]]]:
        """How many runs ended in the last `within_ms`, by tenant, workflow and status, without test runs.

        Costs a look at each of these runs, of all tenants together.
        """

    async def count_runs_by_version(self, *, tenant_id: str, workflow_id: str) -> dict[int, dict[Status, int]]:
        """How many runs of each version of a workflow are in each status, without test runs.

        Costs a look at every stored run of the workflow.
        """

    async def fold_counts(self, *, limit: int) -> bool:
        """Fold about that many ended runs into the counters; True if more can be folded at once.

        False also if another process is counting. Each run is counted exactly once, even after a crash.
        """

    async def remove_expired(self, *, limit: int) -> int | None:
        """Remove at most `limit` ended runs past their retention, each with its log; returns how many.

        Never removes an open run, nor a child whose parent is open and may read its end. None: another process is
        removing; try later.
        """

    async def delete_run(self, *, tenant_id: str, instance_id: str, actor: str | None = None) -> bool:
        """Remove an ended run with its log; with an `actor`, recorded in the audit trail in the same transaction.

        False: another process counts or removes runs; try again. Raises NotFound; RunIsOpen for an open run, and for
        one whose parent is open.
        """

    async def remove_unused_workflows(self, *, limit: int) -> int | None:
        """Remove at most `limit` deleted workflows that no run needs, with their versions; returns how many.

        Schedules and subscriptions that name one are removed with it, 30 days after its deletion, unless another
        workflow has its name by then. None: another process is removing; try later.
        """

    async def trim_audit(self, *, retention_days: int, limit: int) -> int:
        """Remove at most `limit` older rows of the audit trail, a day's rows at once, and record that; returns how
        many.

        The chain of hashes continues from the last removed row. Older dead letters are removed, too.
        """

    async def give_back_space(self) -> bool:
        """Return some free space to the file system; True if there is more."""

    # -- definitions ----------------------------------------------------------------------
    async def save_workflow(self, version: NewVersion, *, tenant_id: str, actor: str | None = None) -> WorkflowVersion:
        """Save a new workflow or the next version of one; if equal to the newest version, returns that one. Raises
        NameTaken, NotFound, VersionMismatch.

        Concurrent saves get different numbers. With an `actor`, a new version is recorded in the audit trail in the
        same transaction, if the store has one.
        """

    async def get_workflow(
        self, *, tenant_id: str, workflow: str, version: int | None = None, active: bool = False
    ) -> WorkflowVersion | None:
        """By id or name; unless a version is given the newest one, or with `active` the one that starts take.

        The tenant's own workflow takes precedence over a coded one of this name, which all tenants see.
        """

    async def activate_version(
        self, *, tenant_id: str, workflow_id: str, version: int, actor: str | None = None
    ) -> WorkflowVersion:
        """Make this the version that starts take. Raises NotFound. `actor`: as when saving."""

    async def register_code(
        self, *, name: str, version: int, definition: Mapping[str, Any], active: bool = False
    ) -> WorkflowVersion:
        """Register a version of a coded workflow with its current options. From then on no other workflow can be saved
        under its name; a tenant that has one keeps it, and sees the coded one by its id only.

        A version that is newer than all others becomes active, with `active` an older one, too. Concurrent
        registrations create one.
        """

    # -- pauses ---------------------------------------------------------------------------
    async def pause(self, *, tenant_id: str, workflow_id: str | None, by: str, actor: str | None = None) -> Pause:
        """Pause the runs of a workflow (None: of all workflows) of the tenant; returns the pause, new or existing.

        Claims leave them out, except those whose deadline has passed; owners poll `pauses`. `actor`: as when saving; an
        existing pause is not recorded again.
        """

    async def unpause(self, *, tenant_id: str, workflow_id: str | None, actor: str | None = None) -> bool:
        """Remove the pause; False if there is none."""

    async def pauses(self, *, tenant_id: str | None = None) -> list[Pause]:
        """All pauses, or those of one tenant."""

    async def get_document(self, workflow_id: str, version: int) -> str | None:
        """The definition of a version as it is stored; None if it is not."""

    async def get_definition(self, workflow_id: str, version: int) -> WorkflowVersion | None:
        """The pinned version of an instance, also after the workflow was deleted while runs remain readable."""

    async def list_workflows(
        self, *, tenant_id: str, limit: int, after: str | None = None, with_definitions: bool = False
    ) -> list[WorkflowEntry]:
        """The newest version of each, by name (in code point order), strictly after the given one."""

    async def list_versions(
        self, *, tenant_id: str, workflow_id: str, limit: int, before: int | None = None
    ) -> list[WorkflowEntry]:
        """The versions of a workflow that is not deleted, newest first, strictly before the given one."""

    async def delete_workflow(
        self, *, tenant_id: str, workflow_id: str, force: bool = False, actor: str | None = None
    ) -> None:
        """Delete the workflow and free its name; no run is created on it any more. Raises NotFound, and WorkflowHasRuns
        while instances are open, unless forced: the caller then cancels what `runs_of_deleted_workflows` returns. With
        an `actor`, it is recorded in the audit trail.
        """

    async def runs_of_deleted_workflows(self, *, limit: int, workflow_id: str | None = None) -> list[tuple[str, str]]:
        """(tenant_id, instance_id) of open runs of deleted workflows, or of this one if it is deleted."""

    async def delete_test_instance(self, *, tenant_id: str, instance_id: str) -> None:
        """Remove the rows of a terminal test run in one transaction. Raises NotFound for any other run."""

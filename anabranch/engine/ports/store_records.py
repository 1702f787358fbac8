"""Arguments and results of the store: rows, pages of a run, versions of workflows, claims, reports.

Frozen values without behaviour. Times are integer milliseconds since the epoch (UTC); `available_at` None means that
the instance need not be woken.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from anabranch.dataclass import dataclass
from anabranch.engine.rules.drawn.drawn_state import InstanceHead
from anabranch.engine.rules.event_payloads import RunReopened
from anabranch.engine.rules.events import ActivationKey, Event, Status, SuspendReason
from anabranch.engine.rules.shared.blame import ANY_CAPACITY, CRASHES_MAX, Blame, SuspectCapacity
from anabranch.engine.rules.shared.left_out import Ranges
from anabranch.engine.rules.shared.log_limit import ROW_WEIGHT


@dataclass(frozen=True, slots=True)
class InstanceRow:
    """The instance row: the head, and the cache of what the log says."""

    head: InstanceHead
    status: Status
    version: int
    last_seq: int
    worker_id: str | None
    available_at: int | None
    """If owned: the end of the lease. Otherwise when it may be claimed (None: only an external stimulus wakes it)."""
    started_at: int | None = None
    completed_at: int | None = None
    log_bytes: int = 0
    """JSON bytes of all payloads in the log; 0 for runs that ended before this was counted."""
    suspended_for: SuspendReason | None = None
    """Why it is SUSPENDED; None if it is not."""
    blame: Blame | None = None
    """The suspicion that it may have crashed a process; None if there is none."""
    needs: Sequence[str] = ()
    """The node types that a worker needs beyond the built-in ones."""

    @property
    def log_weight(self) -> int:
        """The approximate size of the log in memory, in bytes."""
        return self.log_bytes + ROW_WEIGHT * self.last_seq


@dataclass(frozen=True, slots=True)
class Loaded:
    """A row and its events after some seq, read in one snapshot.

    `events[-1].seq == row.last_seq`, except for a log that is too large to be read at once (`WHOLE_LOG_WEIGHT_MAX`): it
    comes without events, and readers fetch it page by page.
    """

    row: InstanceRow
    events: Sequence[Event]


@dataclass(frozen=True, slots=True)
class ActivationPage:
    """Activations of one run, in the order in which they began: the first row of each and its latest, and the
    reopenings after the first of them.

    Payloads of errors and waits are included, those of outputs on request; all others are empty.
    """

    events: Sequence[Event]
    """In seq order."""
    times: Mapping[int, int]
    """The times of the rows that steps of a coded run followed, by seq."""
    next_seq: int | None
    """The next page has the activations that began after this seq; None: there is no next page."""
    iterated: frozenset[ActivationKey] = frozenset()
    """The loops among them that opened an iteration."""


NO_ACTIVATIONS = ActivationPage((), {}, None)


@dataclass(frozen=True, slots=True)
class OutputsRead:
    """The number of outputs that are read with activations."""

    bytes_max: int
    """Stop at this many bytes; 0: read none."""
    inline: bool = True
    """Also the large parts of them; else only where these are."""


NO_OUTPUTS = OutputsRead(0)


@dataclass(frozen=True, slots=True)
class RunReading:
    """The data of a run's view, from one snapshot, without the whole log."""

    row: InstanceRow
    created: Event
    """INPUT_SET."""
    end: Event | None
    """The last row, once the run has ended."""
    note: Event | None
    """The note of an open coded run, unless it has progressed since."""
    activations: ActivationPage
    suspended: Event | None = None
    """The row that has suspended it, while it is SUSPENDED."""


@dataclass(frozen=True, slots=True)
class ExternalResult:
    """The result of an unconditional statement by a process that need not own the instance.

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
    active_version: int
    """The version that starts take unless they name one."""


@dataclass(frozen=True, slots=True)
class Pause:
    """A pause of one workflow of a tenant, or of all its workflows: their runs do not continue."""

    tenant_id: str
    workflow_id: str | None
    """None: all of the tenant's."""
    paused_by: str
    paused_at: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NewVersion:
    """A version of a workflow to save."""

    name: str
    title: str | None = None
    definition: Mapping[str, Any]
    text: str | None = None
    """The JSON of the definition as it is stored; None: without whitespace."""
    kind: str = "drawn"
    workflow_id: str | None = None
    """The workflow that gets the version; None: a new one."""
    expected_version: int | None = None
    """Save only if this is the newest version."""
    activate: bool = True
    """False: starts keep taking the version that was active before."""


@dataclass(frozen=True, slots=True)
class WorkflowEntry:
    """One version as lists show it."""

    workflow_id: str
    name: str
    title: str | None
    kind: str
    version: int
    created_at: int
    """When the workflow was created."""
    updated_at: int
    """When this version was saved."""
    active_version: int
    definition: Mapping[str, Any] | None = None
    """None unless requested."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerReport:
    """The report of a working process, written every third of a lease."""

    worker_id: str
    executing: int | None
    """The maximum of concurrent executions since its last report; None: it has just started."""
    code: Sequence[tuple[str, int]] = ()
    """The coded workflows that it can run, with their versions."""
    node_types: Sequence[str] = ()
    """The node types that it has beyond the built-in ones."""
    refused_since: int = 0
    """It was offered the runs that were refused before (ms)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportAnswer:
    """The store's answer to a worker's report."""

    are_refused: bool
    """Whether `offer_refused` may find something since `refused_since`."""
    leader: str | None = None
    """The worker that polls for all workers; None: nobody."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerCode:
    """The code and release with which a worker would continue runs."""

    digests: Mapping[tuple[str, int], str]
    """Of its coded workflows, by name and version."""
    release: str
    """Of the engine."""


@dataclass(frozen=True, slots=True)
class TenantCapacities:
    """The number of further runs of each tenant that a worker takes."""

    each: int
    of: Mapping[str, int]
    """Other limits for these tenants; 0: their runs are left out, and do not count towards the claim."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reopening:
    """The planned reopening of a failed or cancelled run."""

    instance_id: str
    last_seq: int
    """The seq of its last row."""
    reopened: RunReopened
    left_out: Ranges
    """The rows left out by this reopening and earlier ones."""
    parent_waits: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class FamilyReopening:
    """A run with the runs below it that are reopened together."""

    tenant_id: str
    runs: Sequence[Reopening]
    """From the topmost down."""
    awaited_by: tuple[str, str, str] | None = None
    """The parent of the topmost, and the activation (node id, scope) that must await it."""
    attached: Sequence[str] = ()
    """Open children whose parents await them again."""


# 32 MB of logs per claim: in memory they take a few times that, and 500 usual logs stay far below.
CLAIM_WEIGHT_MAX = 32 * 1_048_576


@dataclass(frozen=True, slots=True)
class ParkedRun:
    """A run of a tenant that waits and that no worker owns."""

    instance_id: str
    tenant_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimRequest:
    """A request for instances to own, and for how long."""

    worker_id: str
    limit: int
    lease_ms: int
    only: Sequence[str] | None = None
    """Only these instances and the families below them (`anabranch run`)."""
    steal: bool = False
    """Also take instances with a live lease (`run --resume`). They do not become suspects: the worker did not crash."""
    parked: ParkedRun | None = None
    """Only this run, before it is due, if it is WAITING, no worker owns it and its log is short: a signal has come for
    it."""
    known_code: Sequence[tuple[str, int]] | None = None
    """Names and versions of code; other coded runs are left to workers that know them."""
    known_types: Sequence[str] | None = None
    """Node types beyond the built-in ones; runs that need others are left to workers that have them."""
    capacities: TenantCapacities | None = None
    """How many of each tenant are taken; further ones are left, although they count towards `limit`."""
    weight_max: int = CLAIM_WEIGHT_MAX
    """Stop once the logs of the taken instances have this size; a single log may be larger."""
    large: bool = True
    """False: leave instances whose log cannot be read at once (see `Loaded`)."""
    suspects: SuspectCapacity = ANY_CAPACITY
    """How many further suspects are taken; see `blame.may_join`."""
    crashes_max: int = CRASHES_MAX
    """A run that has crashed alone this often is suspended instead of taken."""
    away_until: int | None = None
    """Leases that ended by then (ms) expired because the store was unavailable: they make no suspects."""


OpenRuns: TypeAlias = Mapping[tuple[str, str, Status, SuspendReason | None], int]
"""How many runs are open, by the workflow's name and kind, the run's status, and why it is suspended."""


# 4 MB: a log up to this is read in one statement together with others; most have some kilobytes.
WHOLE_LOG_WEIGHT_MAX = 4 * 1_048_576

# 256 KB, at most 512 rows, are folded within some milliseconds: who sends a signal to a parked run waits for that.
SHORT_LOG_WEIGHT_MAX = 262_144


@dataclass(frozen=True, slots=True)
class Epoch:
    """A line of history of the database: the time between two failovers or restores."""

    number: int
    """Only goes up."""
    began_at: int
    """When a process first met it (ms)."""


@dataclass(frozen=True, slots=True)
class Position:
    """The end of the log of a stored run."""

    tenant_id: str
    status: Status
    last_seq: int
    written_at: int | None
    """When the row that was asked for was written; None: there is none of this seq."""

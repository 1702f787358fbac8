"""The memory store: a complete store without a disk, for tests and the simulator.

It keeps every promise of `ports.Store` (true version checks, true unique indexes, leases by an
injected clock) and passes `tests/conformance`. Several `MemoryStore`s on one `MemoryDatabase`
are several processes on one database; the data outlives each of them. It brings no clock and
no dice of its own: with the same calls it always does the same. `Faults` makes it fail.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from functools import wraps
from itertools import accumulate, islice
from typing import Any, Concatenate, ParamSpec, TypeVar

from anabranch.engine.ports import (
    NO_OUTPUTS,
    ActivationPage,
    ClaimRequest,
    Epoch,
    InstanceRow,
    Loaded,
    NewVersion,
    OpenRuns,
    Outcome,
    OutputsRead,
    Pause,
    Position,
    RunReading,
    Transition,
    WorkerCode,
    WorkflowEntry,
    WorkflowVersion,
)
from anabranch.engine.rules.event_payloads import read_input
from anabranch.engine.rules.events import ActivationKey, Event, EventType, Status
from anabranch.engine.rules.history import ALL_ACTIVATIONS, ActivationFilter
from anabranch.engine.rules.run_filter import ALL_RUNS, RunFilter, matches, read_filters
from anabranch.engine.rules.values import Payload
from anabranch.errors import NotFound, RunIsOpen
from anabranch.testing.memory_store import memory_housekeeping as memory_housekeeping
from anabranch.testing.memory_store import reading as memory_reading
from anabranch.testing.memory_store.database import MemoryDatabase
from anabranch.testing.memory_store.records import Change, InstanceRecord, Transaction

__all__ = ["Change", "Faults", "InstanceRecord", "MemoryDatabase", "MemoryStore", "Transaction"]


P = ParamSpec("P")
T = TypeVar("T")


class Faults:
    """Faults between a process and its database; this base class causes none.

    Override to delay (await something), to lose the request (raise `StoreUnavailable` in
    `before`: nothing happened), to lose the answer (raise it in `after`: everything happened,
    and the caller cannot know), or to make a transition look as if its row was locked (`skip`).
    `operation` is the name of the store's method.
    """

    async def before(self, operation: str) -> None:
        """The request travels; by default as long as one turn of the event loop."""
        await asyncio.sleep(0)

    async def after(self, operation: str) -> None:
        """The answer travels; by default no time at all."""

    def skip(self, transition: Transition) -> bool:
        """True: this transition does not win although its guard holds. Not called for creations."""
        return False


def _remote(
    call: Callable[Concatenate[MemoryStore, P], T],
) -> Callable[Concatenate[MemoryStore, P], Coroutine[Any, Any, T]]:
    """A method of the store from what it does at the database: the request travels there, and the answer back."""
    operation = call.__name__

    @wraps(call)
    async def method(store: MemoryStore, /, *args: P.args, **kwargs: P.kwargs) -> T:
        await store.faults.before(operation)
        answer = call(store, *args, **kwargs)
        await store.faults.after(operation)
        return answer

    return method


def _of_database(
    transaction: Callable[Concatenate[MemoryDatabase, P], T],
) -> Callable[Concatenate[MemoryStore, P], Coroutine[Any, Any, T]]:
    """The method of the store that is one of the database."""

    @wraps(transaction)
    def call(store: MemoryStore, /, *args: P.args, **kwargs: P.kwargs) -> T:
        answer: T = getattr(store.database, transaction.__name__)(*args, **kwargs)
        return answer

    return _remote(call)


class MemoryStore:
    """One process's connection to a `MemoryDatabase`."""

    def __init__(
        self, database: MemoryDatabase, *, faults: Faults | None = None, commits_in_flight_max: int = 1
    ) -> None:
        self.database = database
        self.faults = faults or Faults()
        self.commits_in_flight_max = commits_in_flight_max
        self.families_apart = commits_in_flight_max > 1
        self._external_writes_seen: int | None = None
        self._own_writes = 0

    async def start(self) -> None:
        """Nothing to open."""
        await self.faults.before("start")

    async def stop(self) -> None:
        """Nothing to close; the database stays."""
        await asyncio.sleep(0)

    async def now(self) -> int:
        """The database's clock (ms)."""
        await self.faults.before("now")
        return self.database.now()

    # -- the hot path ---------------------------------------------------------------------
    async def check_commits(self) -> None:
        """They always do."""

    @_remote
    def commit(self, transitions: Sequence[Transition], *, may_wait: bool = False) -> Outcome:
        """No lock is ever waited for here."""
        writes = self.database.writes
        outcome = self.database.commit(transitions, skip=self.faults.skip)
        if not (outcome.woken or outcome.cancelled):  # other touched runs are checked
            self._own_writes += self.database.writes - writes
        return outcome

    @_remote
    def claim(self, wanted: ClaimRequest) -> list[Loaded]:
        """A lost answer leaves a claim that nobody knows of, as on a server."""
        writes = self.database.writes
        claimed = self.database.claim(wanted)
        self._own_writes += self.database.writes - writes
        return claimed

    report_worker = _of_database(MemoryDatabase.report_worker)
    suspend_unfit = _of_database(MemoryDatabase.suspend_unfit)
    forget_worker = _of_database(MemoryDatabase.forget_worker)
    extend = _of_database(MemoryDatabase.extend)

    async def offer_refused(self, mine: WorkerCode, *, since: int, limit: int) -> int:
        """Told together with the report: what goes wrong there is the same."""
        return self.database.offer_refused(mine, since=since, limit=limit)

    def extend_blocking(
        self, *, worker_id: str, instance_ids: Sequence[str], lease_ms: int, patience_s: float
    ) -> set[str]:
        return self.database.extend(worker_id=worker_id, instance_ids=instance_ids, lease_ms=lease_ms)

    @_remote
    def release(self, *, worker_id: str, instance_ids: Sequence[str] | None = None) -> int:
        writes = self.database.writes
        released = self.database.release(worker_id=worker_id, instance_ids=instance_ids)
        self._own_writes += self.database.writes - writes
        return released

    async def epoch(self) -> Epoch | None:
        if self.database.epoch is not None:
            await self.faults.before("epoch")
        return self.database.epoch

    async def positions(self, seqs: Mapping[str, int]) -> dict[str, Position]:
        """The positions of the runs that exist, with the time of the given row."""
        await self.faults.before("positions")
        found = {each: self.database.instances[each] for each in seqs if each in self.database.instances}
        return {
            instance_id: Position(
                record.row.head.tenant_id,
                record.row.status,
                record.row.last_seq,
                next((event.created_at for event in record.events if event.seq == seqs[instance_id]), None),
            )
            for instance_id, record in found.items()
        }

    async def versions(self, instance_ids: Sequence[str]) -> dict[str, tuple[int, str | None]]:
        await self.faults.before("versions")
        found = ((id_, self.database.instances.get(id_)) for id_ in instance_ids)
        return {id_: (record.row.version, record.row.worker_id) for id_, record in found if record is not None}

    async def external_changes_possible(self) -> bool:
        """Exact here."""
        await self.faults.before("external_changes_possible")
        external, seen = self.database.writes - self._own_writes, self._external_writes_seen
        self._external_writes_seen = external
        return external != seen

    # -- external stimuli ------------------------------------------------------------------
    # External writes: a process that owns the run has to notice them.
    append_signal = _of_database(MemoryDatabase.append_signal)
    append_suspension = _of_database(MemoryDatabase.append_suspension)
    append_resumption = _of_database(MemoryDatabase.append_resumption)
    reopen = _of_database(MemoryDatabase.reopen)
    append_cancel = _of_database(MemoryDatabase.append_cancel)
    fail_full = _of_database(MemoryDatabase.fail_full)

    # -- reading --------------------------------------------------------------------------
    @_remote
    def load(self, instance_ids: Sequence[str], *, after_seq: int = 0) -> dict[str, Loaded]:
        found = ((id_, self.database.instances.get(id_)) for id_ in instance_ids)
        return {id_: record.loaded_after(after_seq) for id_, record in found if record is not None}

    async def get_instance(self, instance_id: str, *, tenant_id: str | None = None) -> InstanceRow | None:
        await self.faults.before("get_instance")
        record = self.database.instances.get(instance_id)
        if record is None or tenant_id not in (None, record.row.head.tenant_id):
            return None
        return record.row

    async def find_start(self, *, tenant_id: str, workflow_name: str, idempotency_key: str) -> InstanceRow | None:
        await self.faults.before("find_start")
        return self.database.row_of_key(tenant_id, workflow_name, idempotency_key)

    ended_children = _of_database(MemoryDatabase.ended_children)

    async def awaited_children(self, instance_id: str) -> list[InstanceRow]:
        await self.faults.before("awaited_children")
        awaited = [
            row for row in self.database.open_rows() if row.head.parent_id == instance_id and row.head.parent_waits
        ]
        return sorted(awaited, key=lambda row: row.head.instance_id)

    async def descendants(self, root_id: str, *, limit: int) -> list[InstanceRow]:
        await self.faults.before("descendants")
        below = (row for row in self.database.rows() if row.head.root_id == root_id)
        return sorted(below, key=lambda row: row.head.instance_id)[:limit]

    async def read_log(
        self,
        instance_id: str,
        *,
        after_seq: int = 0,
        limit: int = 1000,
        bytes_max: int | None = None,
        inline: bool = True,
    ) -> list[Event]:
        """The large parts are all there; the page ends with the event that reaches `bytes_max`."""
        await self.faults.before("read_log")
        events = self._log(instance_id)[after_seq : after_seq + limit]
        if bytes_max is None:
            return events
        before = accumulate((event.payload.size if inline else event.payload.weight for event in events), initial=0)
        return [event for event, size in zip(events, before, strict=False) if size < bytes_max]

    async def fetch_values(self, payloads: Iterable[Payload]) -> None:
        """Payloads are whole."""

    async def referenced_values(self, instance_id: str, sha256s: Collection[str]) -> Collection[str]:
        await self.faults.before("referenced_values")
        return self.database.values.names_of(instance_id).intersection(sha256s)

    async def read_value(self, *, tenant_id: str, sha256: str) -> bytes | None:
        await self.faults.before("read_value")
        return self.database.values.bodies.get((tenant_id, sha256))

    async def count_values(self) -> tuple[int, int]:
        await self.faults.before("count_values")
        bodies = self.database.values.bodies.values()
        return len(bodies), sum(map(len, bodies))

    async def read_run(self, instance_id: str, *, activations_max: int) -> RunReading | None:
        await self.faults.before("read_run")
        record = self.database.instances.get(instance_id)
        return None if record is None else memory_reading.run_of(record, activations_max=activations_max)

    async def read_rows(self, instance_id: str, *, after_seq: int, limit: int) -> list[Event]:
        """Payloads are all there, since they cost nothing."""
        return await self.read_log(instance_id, after_seq=after_seq, limit=limit)

    async def read_activations(
        self,
        instance_id: str,
        *,
        after_seq: int,
        limit: int,
        outputs: OutputsRead = NO_OUTPUTS,
        only: ActivationFilter = ALL_ACTIVATIONS,
    ) -> tuple[InstanceRow, ActivationPage] | None:
        """The row and the page, from one moment."""
        await self.faults.before("read_activations")
        record = self.database.instances.get(instance_id)
        if record is None:
            return None
        page = memory_reading.activations_of(
            record, after_seq=after_seq, limit=limit, bytes_max=outputs.bytes_max, only=only
        )
        return record.row, page

    async def read_outputs(self, instance_id: str, node_ids: Sequence[str], *, all_scopes: bool = False) -> list[Event]:
        await self.faults.before("read_outputs")
        completed = (event for event in self._log(instance_id) if event.type is EventType.NODE_COMPLETED)
        return [event for event in completed if (all_scopes or event.scope == "") and event.node_id in node_ids]

    async def read_signal_waits(
        self, instance_id: str, *, after_seq: int, open_waits: Sequence[ActivationKey]
    ) -> list[Event]:
        await self.faults.before("read_signal_waits")
        record = self.database.instances.get(instance_id)
        if record is None:
            return []
        return memory_reading.signal_rows(record, after_seq=after_seq, open_waits=open_waits)

    async def list_instances(
        self, wanted: RunFilter = ALL_RUNS, *, tenant_id: str, limit: int, before: tuple[int, str] | None = None
    ) -> list[InstanceRow]:
        """Filters every run: there are no indexes here."""
        await self.faults.before("list_instances")
        filters = read_filters(wanted.input_filters)
        rows = [
            row
            for row in self.database.rows()
            if row.head.tenant_id == tenant_id
            and row.head.test == wanted.test
            and (before is None or _listing_order(row) < before)
            and wanted.workflow in (None, row.head.workflow_id)
            and (not wanted.statuses or row.status in wanted.statuses)
            and (not wanted.reasons or row.suspended_for in wanted.reasons)
            and (wanted.since is None or wanted.since <= row.head.created_at)
            and (wanted.until is None or row.head.created_at < wanted.until)
            and wanted.version in (None, row.head.workflow_version)
            and wanted.rerun_of in (None, row.head.rerun_of)
            and (wanted.error is None or self._failed_with(row, wanted.error))
            and (not filters or matches(read_input(self._log(row.head.instance_id)[0].payload), filters))
        ]
        return sorted(rows, key=_listing_order, reverse=True)[:limit]

    def _failed_with(self, row: InstanceRow, text: str) -> bool:
        if row.status is not Status.FAILED:
            return False
        last = self._log(row.head.instance_id)[-1]
        return text.lower() in (last.error_message or "").lower() or last.payload.value["code"] == text

    async def count_pending(self, *, up_to: int) -> dict[str, int]:
        await self.faults.before("count_pending")
        pending = (row.head.tenant_id for row in self.database.open_rows() if row.status is Status.PENDING)
        return dict(Counter(islice(pending, up_to)))

    async def count_unclaimed(self) -> int:
        """Looks at every open run."""
        await self.faults.before("count_unclaimed")
        now = self.database.now()
        return sum(
            row.worker_id is None
            and row.available_at is not None
            and row.available_at <= now
            and row.status is not Status.SUSPENDED
            and self.database.may_go_on(row)
            for row in self.database.open_rows()
        )

    # -- housekeeping ---------------------------------------------------------------------
    async def count_open(self) -> OpenRuns:
        await self.faults.before("count_open")
        counted = (row for row in self.database.open_rows() if not row.head.test)
        return Counter((row.head.workflow_name, row.head.kind, row.status, row.suspended_for) for row in counted)

    async def count_runs(self, *, tenant_id: str) -> dict[str, dict[Status, int]]:
        await self.faults.before("count_runs")
        return memory_housekeeping.count_runs(self.database, tenant_id)

    async def count_ended(self, *, within_ms: int) -> dict[str, dict[str, dict[Status, int]]]:
        await self.faults.before("count_ended")
        return memory_housekeeping.count_ended(self.database, within_ms)

    async def count_runs_by_version(self, *, tenant_id: str, workflow_id: str) -> dict[int, dict[Status, int]]:
        await self.faults.before("count_runs_by_version")
        return memory_housekeeping.count_runs_by_version(self.database, tenant_id, workflow_id)

    async def fold_counts(self, *, limit: int) -> bool:
        """There is nothing to fold where every look counts."""
        await self.faults.before("fold_counts")
        return False

    @_remote
    def remove_expired(self, *, limit: int) -> int | None:
        """Nobody else is ever at it."""
        expired = memory_housekeeping.expired(self.database, limit=limit)
        self.database.remove("remove_expired", expired)
        return len(expired)

    @_remote
    def delete_run(self, *, tenant_id: str, instance_id: str, actor: str | None = None) -> bool:
        """Nobody else is ever at it."""
        record = self.database.instances.get(instance_id)
        if record is None or record.row.head.tenant_id != tenant_id:
            raise NotFound(f"there is no run {instance_id}")
        parent_id = record.row.head.parent_id
        if not record.row.status.is_terminal or (parent_id is not None and self.database.is_open(parent_id)):
            raise RunIsOpen(f"run {instance_id} or its parent is open")
        self.database.remove("delete_run", [instance_id])
        return True

    @_remote
    def remove_unused_workflows(self, *, limit: int) -> int | None:
        """There are no schedules here."""
        needed = {row.head.workflow_id for row in self.database.rows()}
        return self.database.definitions.remove_deleted(needed, limit=limit)

    async def trim_audit(self, *, retention_days: int, limit: int) -> int:
        """There is no audit trail here."""
        return 0

    async def give_back_space(self) -> bool:
        """Does nothing: memory needs no freeing."""
        return False

    # -- definitions ----------------------------------------------------------------------
    @_remote
    def save_workflow(self, version: NewVersion, *, tenant_id: str, actor: str | None = None) -> WorkflowVersion:
        """There is no audit trail here."""
        return self.database.definitions.save(version, tenant_id=tenant_id)

    async def get_workflow(
        self, *, tenant_id: str, workflow: str, version: int | None = None, active: bool = False
    ) -> WorkflowVersion | None:
        await self.faults.before("get_workflow")
        return self.database.definitions.get(tenant_id=tenant_id, workflow=workflow, version=version, active=active)

    @_remote
    def activate_version(
        self, *, tenant_id: str, workflow_id: str, version: int, actor: str | None = None
    ) -> WorkflowVersion:
        """There is no audit trail here."""
        return self.database.definitions.activate(tenant_id=tenant_id, workflow_id=workflow_id, version=version)

    @_remote
    def register_code(
        self, *, name: str, version: int, definition: Mapping[str, Any], active: bool = False
    ) -> WorkflowVersion:
        return self.database.definitions.register(name=name, version=version, definition=definition, active=active)

    # -- pauses ---------------------------------------------------------------------------
    @_remote
    def pause(self, *, tenant_id: str, workflow_id: str | None, by: str, actor: str | None = None) -> Pause:
        """There is no audit trail here."""
        return self.database.pause(tenant_id=tenant_id, workflow_id=workflow_id, by=by)

    @_remote
    def unpause(self, *, tenant_id: str, workflow_id: str | None, actor: str | None = None) -> bool:
        """There is no audit trail here."""
        return self.database.unpause(tenant_id=tenant_id, workflow_id=workflow_id)

    async def pauses(self, *, tenant_id: str | None = None) -> list[Pause]:
        """Read together with `external_changes_possible`: what goes wrong there is the same."""
        return [each for each in self.database.pauses.values() if tenant_id in (None, each.tenant_id)]

    async def get_document(self, workflow_id: str, version: int) -> str | None:
        await self.faults.before("get_document")
        return self.database.definitions.document(workflow_id, version)

    async def get_definition(self, workflow_id: str, version: int) -> WorkflowVersion | None:
        await self.faults.before("get_definition")
        return self.database.definitions.pinned(workflow_id, version)

    async def list_workflows(
        self, *, tenant_id: str, limit: int, after: str | None = None, with_definitions: bool = False
    ) -> list[WorkflowEntry]:
        await self.faults.before("list_workflows")
        newest = self.database.definitions.newest(tenant_id=tenant_id)
        later = (version for version in newest if after is None or version.name > after)
        return [_entry(version, with_definition=with_definitions) for version in islice(later, limit)]

    async def list_versions(
        self, *, tenant_id: str, workflow_id: str, limit: int, before: int | None = None
    ) -> list[WorkflowEntry]:
        await self.faults.before("list_versions")
        versions = reversed(self.database.definitions.versions_of(tenant_id=tenant_id, workflow_id=workflow_id))
        earlier = (version for version in versions if before is None or version.version < before)
        return [_entry(version, with_definition=False) for version in islice(earlier, limit)]

    @_remote
    def delete_workflow(
        self, *, tenant_id: str, workflow_id: str, force: bool = False, actor: str | None = None
    ) -> None:
        """There is no audit trail here."""
        self.database.definitions.delete(tenant_id=tenant_id, workflow_id=workflow_id, force=force)

    async def runs_of_deleted_workflows(self, *, limit: int, workflow_id: str | None = None) -> list[tuple[str, str]]:
        await self.faults.before("runs_of_deleted_workflows")
        return memory_housekeeping.open_runs_of_deleted_workflows(self.database, workflow_id)[:limit]

    @_remote
    def delete_test_instance(self, *, tenant_id: str, instance_id: str) -> None:
        if not memory_housekeeping.is_ended_test_run(self.database, tenant_id=tenant_id, instance_id=instance_id):
            raise NotFound(f"there is no ended test run {instance_id}")
        self.database.remove("delete_test_instance", [instance_id])

    # -- inside ---------------------------------------------------------------------------
    def _log(self, instance_id: str) -> list[Event]:
        record = self.database.instances.get(instance_id)
        return [] if record is None else record.events


def _entry(version: WorkflowVersion, *, with_definition: bool) -> WorkflowEntry:
    return WorkflowEntry(
        version.workflow_id,
        version.name,
        version.title,
        version.kind,
        version.version,
        version.created_at,
        version.updated_at,
        version.active_version,
        version.definition if with_definition else None,
    )


def _listing_order(row: InstanceRow) -> tuple[int, str]:
    return (row.head.created_at, row.head.instance_id)

"""The database of a memory store: instance rows, logs and their unique indexes, in one process.

Called by `memory.MemoryStore`, which may be many: each is one process's connection to the
same database. Nothing here awaits, so every method is one transaction. Tests and the
simulator read `instances` and listen with `on_commit`; nobody but this file writes.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace

from anabranch.engine.ports import (
    SHORT_LOG_WEIGHT_MAX,
    WHOLE_LOG_WEIGHT_MAX,
    ClaimRequest,
    Epoch,
    ExternalResult,
    FamilyReopening,
    InstanceHead,
    InstanceRow,
    Loaded,
    Outcome,
    Pause,
    Reopening,
    ReportAnswer,
    TenantCapacities,
    Transition,
    WorkerCode,
    WorkerReport,
)
from anabranch.engine.rules.coded.coded_plan import CODED_KIND
from anabranch.engine.rules.event_payloads import (
    REPLACED_BY,
    RunCancelledPayload,
    RunFailedPayload,
    RunResumed,
    RunSuspended,
    SignalReceived,
    read_suspension,
)
from anabranch.engine.rules.events import Event, EventType, Status, SuspendReason
from anabranch.engine.rules.graph.pools import Needs, are_served
from anabranch.engine.rules.shared.blame import (
    EXECUTING_UNKNOWN,
    Blame,
    SuspectCapacity,
    crashed,
    judged,
    may_join,
)
from anabranch.engine.rules.shared.log_limit import LOG_LIMIT, LogLimit
from anabranch.engine.rules.shared.signals import SIGNALS_KEPT_MAX
from anabranch.engine.rules.shared.unrunnable import deadline_passed_unfit, nobody_fits
from anabranch.engine.rules.stimuli import ChildEnded, SignalSent
from anabranch.engine.rules.values import Payload
from anabranch.engine.store.sql.families import cancel_reason, cancelled_children, woken_parents
from anabranch.errors import TooManySignals
from anabranch.testing.memory_store.memory_definitions import MemoryDefinitions
from anabranch.testing.memory_store.memory_refusals import refusal_of
from anabranch.testing.memory_store.memory_values import MemoryValues
from anabranch.testing.memory_store.records import Change, InstanceRecord, Transaction

_REFUSED = (SuspendReason.DEFINITION_ERROR, SuspendReason.ENGINE_DEFECT, SuspendReason.NONDETERMINISM)


class MemoryDatabase:
    """Instances and definitions that outlive the simulated processes connected to them.

    `now` is the database's clock (ms); `new_id` names new workflows. `on_commit` is called
    inside every transaction that wrote instances, after the writes: raise there to stop a
    test at the first broken invariant.
    """

    def __init__(
        self,
        *,
        now: Callable[[], int],
        new_id: Callable[[], str] | None = None,
        on_commit: Callable[[Transaction], None] | None = None,
    ) -> None:
        self.now = now
        self.on_commit = on_commit
        self.instances: dict[str, InstanceRecord] = {}
        self.values = MemoryValues()
        self.definitions = MemoryDefinitions(now=now, new_id=new_id, has_open_runs=self._has_open_runs)
        self.epoch: Epoch | None = None
        """None: one epoch for ever; otherwise set by a test that takes the database back."""
        self.writes = 0
        """Transactions that wrote an instance."""
        self.pauses: dict[tuple[str, str | None], Pause] = {}
        """By tenant and workflow."""
        self._open: dict[str, InstanceRecord] = {}
        self._keys: dict[tuple[str, str, str], str] = {}
        self._executing: dict[str, int | None] = {}
        """How many runs each working process says that it executes."""
        self._reports: dict[str, tuple[int, WorkerReport]] = {}
        """The last report of each working process, and when it came."""
        self._companies: dict[str, int] = {}
        """How many suspects each lost process leaves."""

    # -- the hot path ---------------------------------------------------------------------
    def commit(self, transitions: Sequence[Transition], *, skip: Callable[[Transition], bool]) -> Outcome:
        """Write each transition whose guard holds; `skip` makes one look as if its row was locked."""
        now = self.now()
        won: set[str] = set()
        existing: dict[str, str] = {}
        refused: dict[str, str] = {}
        rejected: set[str] = set()
        changes: list[Change] = []
        assert len({transition.instance_id for transition in transitions}) == len(transitions), (
            "a batch names an instance once"
        )
        for transition in transitions:
            record = self.instances.get(transition.instance_id)
            if transition.new_run is not None:
                holder = (
                    self._keys.get(_idempotency(transition.new_run)) if transition.new_run.idempotency_key else None
                )
                if holder is not None:
                    existing[transition.instance_id] = holder
                if holder is not None or record is not None:
                    continue
                active = transition.new_run.workflow_version if transition.only_active else None
                may_be = self.definitions.may_have_runs(transition.new_run.workflow_id, active=active)
                if not (may_be and self._is_wanted(transition.new_run)):
                    rejected.add(transition.instance_id)
                    continue
            elif record is None or not _guard_holds(record.row, transition, now) or skip(transition):
                continue
            last_seq, keys = (0, ()) if record is None else (record.row.last_seq, record.unique)
            reason = refusal_of(transition, last_seq=last_seq, keys=keys)
            if reason is not None:
                refused[transition.instance_id] = reason
                continue
            changes.append(self._advance(transition, record, now))
            won.add(transition.instance_id)
        woken = self._wake(woken_parents(transitions, won), now, changes)
        cancelled = self._cancel(cancelled_children(transitions, won), now, changes)
        self._committed("commit", now, changes)
        return Outcome(won, now, existing, refused, rejected, woken, cancelled)

    def claim(self, wanted: ClaimRequest) -> list[Loaded]:
        """Give due instances to this worker, longest overdue first; runs of lost workers are judged first."""
        now, capacities, worker_id = self.now(), wanted.capacities, wanted.worker_id
        if self.epoch is not None and self.epoch.number > 1 and now < self.epoch.began_at + wanted.lease_ms:
            return []
        self._judge_lapsed(wanted, now)
        if wanted.parked is not None:
            record = self._of_tenant(wanted.parked.instance_id, wanted.parked.tenant_id)
            due = [record.row] if record is not None and _is_parked(record.row) else []
        else:
            due = [
                row
                for row in self._family_rows(wanted.only)
                if _is_due(row, now) or (wanted.steal and row.worker_id is not None)
            ]
        due = [row for row in due if self.may_go_on(row) or _is_over(row, now)]
        if wanted.known_code is not None:
            code, node_types = wanted.known_code, wanted.known_types or ()
            due = [row for row in due if _needs(row).met_by(code=code, node_types=node_types)]
        if capacities is not None:
            due = [row for row in due if capacities.of.get(row.head.tenant_id) != 0]
        if not wanted.large:
            due = [row for row in due if row.log_weight <= WHOLE_LOG_WEIGHT_MAX]
        suspects = _fitting(wanted.suspects, [row for row in due if row.blame is not None])
        free = [row for row in due if row.blame is None]
        if any(row.blame is not None and row.blame.company == 1 for row in suspects):
            free = []
        claimed: list[Loaded] = []
        changes: list[Change] = []
        weight = 0
        for row in [*suspects, *_within(capacities, heapq.nsmallest(wanted.limit, free, key=_overdue_order))]:
            if weight >= wanted.weight_max:
                break
            weight += row.log_weight
            record = self._open[row.head.instance_id]
            until = now + wanted.lease_ms
            record.row = _replaced(row, version=row.version + 1, worker_id=worker_id, available_at=until)
            claimed.append(record.loaded)
            changes.append(Change(row, record.row, ()))
        self._committed("claim", now, changes, for_signal=wanted.parked is not None)
        return claimed

    def _judge_lapsed(self, wanted: ClaimRequest, now: int) -> None:
        """Make suspects of instances whose leases expired under other workers, or suspend them."""
        if wanted.steal or wanted.parked is not None:
            return
        lapsed = [
            row
            for row in self._family_rows(wanted.only)
            if row.worker_id not in (None, wanted.worker_id)
            and _is_due(row, now)
            and (wanted.away_until is None or (row.available_at or 0) > wanted.away_until)
            and (self.may_go_on(row) or _is_over(row, now))
        ]
        changes: list[Change] = []
        for row in sorted(lapsed, key=lambda each: each.head.instance_id):
            assert row.worker_id is not None, "somebody let its lease run out"
            is_suspended = row.status is Status.SUSPENDED
            judgement = judged(
                row.blame,
                executing=self._company_of(row.worker_id),
                crashes_max=wanted.crashes_max,
                suspended=is_suspended,
            )
            available_at = row.available_at if judgement.delay_ms is None else now + judgement.delay_ms
            deadline_at = row.head.deadline_at
            is_refused = row.suspended_for is not None and row.suspended_for.is_offered_again
            if (is_suspended and not is_refused) or (
                deadline_at is not None and available_at is not None and deadline_at < available_at
            ):
                available_at = deadline_at
            record = self._open[row.head.instance_id]
            record.row = replace(
                row,
                version=row.version + 1,
                worker_id=None,
                available_at=available_at,
                blame=judgement.blame,
            )
            changes.append(Change(row, record.row, ()))
            if judgement.suspends:
                note = crashed(judgement.blame.crashes).payload
                changes.append(self._append(record, EventType.INSTANCE_SUSPENDED, note, Status.SUSPENDED, now))
        self._committed("judge", now, changes)

    def may_go_on(self, row: InstanceRow) -> bool:
        """Neither its workflow nor its tenant is paused."""
        tenant_id = row.head.tenant_id
        return (tenant_id, None) not in self.pauses and (
            row.head.workflow_id is None or (tenant_id, row.head.workflow_id) not in self.pauses
        )

    def pause(self, *, tenant_id: str, workflow_id: str | None, by: str) -> Pause:
        """Pause the runs of a workflow or of the tenant."""
        self.writes += 1
        return self.pauses.setdefault(
            (tenant_id, workflow_id), Pause(tenant_id, workflow_id, paused_by=by, paused_at=self.now())
        )

    def unpause(self, *, tenant_id: str, workflow_id: str | None) -> bool:
        """Resume them."""
        self.writes += 1
        return self.pauses.pop((tenant_id, workflow_id), None) is not None

    def _company_of(self, lost: str) -> int:
        """How many suspects a lost worker leaves: as many as it executed, and no more than it has."""
        if lost not in self._companies:
            executing = self._executing.get(lost)
            owned = sum(row.worker_id == lost for row in self.open_rows())
            self._companies[lost] = max(1, min(EXECUTING_UNKNOWN if executing is None else executing, owned))
        return self._companies[lost]

    def report_worker(self, report: WorkerReport) -> ReportAnswer:
        """Store the report of a working process. Nobody leads: there is no hint line."""
        self._executing[report.worker_id] = report.executing
        self._reports[report.worker_id] = (self.now(), report)
        self._companies.pop(report.worker_id, None)
        return ReportAnswer(are_refused=any(event.created_at > report.refused_since for _, event in self._refused()))

    def forget_worker(self, worker_id: str) -> None:
        """Remove the report of a process."""
        self._executing.pop(worker_id, None)
        self._reports.pop(worker_id, None)

    def suspend_unfit(self, *, overdue_ms: int, seen_ms: int, limit: int) -> int:
        """Suspend runs that have been due for this long and that no recently reporting worker can run; past their
        deadlines they fail."""
        now = self.now()
        living = [report for seen_at, report in self._reports.values() if seen_at > now - seen_ms]
        needs_less = bool(living) and not any(are_served((), each.node_types) for each in living)
        unfit = [
            row
            for row in sorted(self.open_rows(), key=_overdue_order)
            if row.worker_id is None
            and (_is_due(row, now - overdue_ms) or (_is_defective(row) and _is_over(row, now)))
            and ((row.status is not Status.SUSPENDED and self.may_go_on(row)) or _is_over(row, now))
            and (
                _is_defective(row)
                or not any(_needs(row).met_by(code=each.code, node_types=each.node_types) for each in living)
            )
            and (_is_defective(row) or needs_less or not _needs(row).met_by(code=(), node_types=()))
        ]
        for row in unfit[:limit]:
            record = self._open[row.head.instance_id]
            if row.head.deadline_at is not None and _is_over(row, now):
                failed = deadline_passed_unfit(row.head.deadline_at)
                message = failed.error.message
                self._append_external(record, EventType.INSTANCE_FAILED, failed.payload, Status.FAILED, message)
            else:
                note = nobody_fits(_needs(row), [(each.code, each.node_types) for each in living]).payload
                self._append_external(record, EventType.INSTANCE_SUSPENDED, note, Status.SUSPENDED)
        return len(unfit[:limit])

    def _refused(self) -> list[tuple[InstanceRow, Event]]:
        """The suspended runs that no worker is trying, with the rows that have suspended them."""
        rows = [each for each in self.open_rows() if each.suspended_for in _REFUSED and each.worker_id is None]
        return [
            (row, next(each for each in reversed(self._open[row.head.instance_id].events)
                       if each.type is EventType.INSTANCE_SUSPENDED))
            for row in rows
        ]  # fmt: skip

    def offer_refused(self, mine: WorkerCode, *, since: int, limit: int) -> int:
        """Make runs due that other code has refused; resume those that another release could not decide."""
        now, offered = self.now(), 0
        for row, event in self._refused():
            record = self._open[row.head.instance_id]
            why, key = read_suspension(event.payload), (row.head.workflow_name, row.head.workflow_version)
            if event.created_at <= since or offered >= limit:
                continue
            if why.reason is SuspendReason.ENGINE_DEFECT:
                if why.refused_by != mine.release:
                    status = Status.PENDING if row.started_at is None else Status.RUNNING
                    note = RunResumed(f"release {mine.release}").payload
                    self._append_external(record, EventType.INSTANCE_RESUMED, note, status)
                    offered += 1
            elif mine.digests.get(key, why.refused_by) != why.refused_by:
                record.row = _replaced(row, version=row.version, worker_id=None, available_at=now)
                offered += 1
        return offered

    def extend(self, *, worker_id: str, instance_ids: Collection[str], lease_ms: int) -> set[str]:
        """Move the end of these leases, where they are still this worker's."""
        until = self.now() + lease_ms
        ours = set()
        for row in self._open_rows(instance_ids):
            if row.worker_id == worker_id:
                record = self._open[row.head.instance_id]
                record.row = _replaced(row, version=row.version, worker_id=worker_id, available_at=until)
                ours.add(row.head.instance_id)
        return ours

    def release(self, *, worker_id: str, instance_ids: Collection[str] | None) -> int:
        """Release this worker's instances."""
        now = self.now()
        changes: list[Change] = []
        for row in self._open_rows(instance_ids):
            if row.worker_id == worker_id:
                record = self._open[row.head.instance_id]
                record.row = _replaced(row, version=row.version + 1, worker_id=None, available_at=now)
                changes.append(Change(row, record.row, ()))
        self._committed("release", now, changes)
        return len(changes)

    # -- external stimuli ------------------------------------------------------------------
    def append_signal(
        self,
        instance_id: str,
        signal: SignalSent,
        *,
        tenant_id: str,
        awaited: bool = False,
        log_limit: LogLimit = LOG_LIMIT,
    ) -> ExternalResult:
        """Append SIGNAL_RECEIVED, whether the instance is owned or not, once per key."""
        record = self._of_tenant(instance_id, tenant_id)
        if record is None:
            return ExternalResult(None, None)
        if signal.key is not None and ("signal", signal.key) in record.unique:
            return ExternalResult(record.row, None, repeated=True)
        if record.row.status.is_terminal:
            return ExternalResult(record.row, None)
        if record.signals_kept >= SIGNALS_KEPT_MAX and not awaited:
            raise TooManySignals(f"run {instance_id} keeps {SIGNALS_KEPT_MAX} signals that nothing has taken")
        note, row = SignalReceived(signal.event, signal.payload, signal.key).payload, record.row
        if log_limit.is_passed(log_bytes=row.log_bytes + note.weight, rows=row.last_seq + 1):
            ended = self.fail_full(tenant_id=tenant_id, instance_id=instance_id, log_limit=log_limit)
            return ExternalResult(ended.row, None)
        return self._append_external(record, EventType.SIGNAL_RECEIVED, note, row.status)

    def append_suspension(
        self, instance_id: str, suspension: RunSuspended, *, tenant_id: str, log_limit: LogLimit = LOG_LIMIT
    ) -> ExternalResult:
        """Append INSTANCE_SUSPENDED, whether the instance is owned or not, unless it is suspended for a reason that
        this one does not replace."""
        record = self._of_tenant(instance_id, tenant_id)
        was = None if record is None else record.row.suspended_for
        if record is not None and was is not None and suspension.reason.replaces(was):
            resumed = RunResumed(REPLACED_BY[suspension.reason])
            log_bytes = record.row.log_bytes + resumed.payload.weight + suspension.payload.weight
            if log_limit.is_passed(log_bytes=log_bytes, rows=record.row.last_seq + 2):
                return ExternalResult(record.row, None)
            self._suspend_or_resume(instance_id, tenant_id, resumed, log_limit)
        return self._suspend_or_resume(instance_id, tenant_id, suspension, log_limit)

    def append_resumption(
        self, instance_id: str, resumed: RunResumed, *, tenant_id: str, log_limit: LogLimit = LOG_LIMIT
    ) -> ExternalResult:
        """Append INSTANCE_RESUMED, whether the instance is owned or not, if it is suspended."""
        return self._suspend_or_resume(instance_id, tenant_id, resumed, log_limit)

    def reopen(self, family: FamilyReopening) -> list[InstanceRow] | None:
        """Reopen these ended runs, all or none."""
        now = self.now()
        found = [self._of_tenant(run.instance_id, family.tenant_id) for run in family.runs]
        records = [record for record in found if record is not None]
        if len(records) < len(found) or not all(map(self._may_reopen, records, family.runs)):
            return None
        changes: list[Change] = []
        if family.awaited_by is not None:
            parent_id, *key = family.awaited_by
            parent = self._open.get(parent_id)
            if parent is None or parent.has_ended(*key):
                return None
            changes.append(self._touch(parent))
        for record, run in zip(records, family.runs, strict=True):
            changes.append(self._reopen(record, run, now))
        for child in (self._open[each] for each in family.attached if each in self._open):
            changes.append(self._touch(child, parent_waits=True))
        self._committed("reopen", now, changes)
        return [record.row for record in records]

    def append_cancel(self, *, tenant_id: str, instance_id: str, reason: str) -> ExternalResult:
        """Append INSTANCE_CANCELLED, whether the instance is owned or not, and close it."""
        record = self._of_tenant(instance_id, tenant_id)
        if record is None or record.row.status.is_terminal:
            return ExternalResult(None if record is None else record.row, None)
        return self._append_external(
            record, EventType.INSTANCE_CANCELLED, RunCancelledPayload(reason).payload, Status.CANCELLED
        )

    def fail_full(self, *, tenant_id: str, instance_id: str, log_limit: LogLimit) -> ExternalResult:
        """Append INSTANCE_FAILED, whether the instance is owned or not, and close it."""
        record = self._of_tenant(instance_id, tenant_id)
        if record is None or record.row.status.is_terminal:
            return ExternalResult(None if record is None else record.row, None)
        error = log_limit.error()
        payload = RunFailedPayload(error).payload
        return self._append_external(record, EventType.INSTANCE_FAILED, payload, Status.FAILED, error.message)

    def remove(self, operation: str, instance_ids: Collection[str]) -> None:
        """Remove ended instances with their logs and keys, in one transaction."""
        removed = [self.instances.pop(instance_id) for instance_id in instance_ids]
        for instance_id in instance_ids:
            self.values.remove(instance_id)
        self._keys = {key: holder for key, holder in self._keys.items() if holder in self.instances}
        self._committed(operation, self.now(), [Change(record.row, None, ()) for record in removed])

    # -- reading --------------------------------------------------------------------------
    def ended_children(self, instance_ids: Collection[str]) -> list[ChildEnded]:
        """The ends of those instances that have ended; one that is missing was cancelled."""
        ended = []
        for instance_id in instance_ids:
            record = self.instances.get(instance_id)
            if record is None:
                ended.append(
                    ChildEnded(instance_id, Status.CANCELLED, RunCancelledPayload("its rows were removed").payload)
                )
            elif record.row.status.is_terminal:
                ended.append(ChildEnded(instance_id, record.row.status, record.events[-1].payload))
        return ended

    def rows(self) -> Iterator[InstanceRow]:
        """Every instance row, oldest creation first."""
        return (record.row for record in self.instances.values())

    def open_rows(self) -> Iterator[InstanceRow]:
        """The rows of instances that have not ended."""
        return (record.row for record in self._open.values())

    def is_open(self, instance_id: str) -> bool:
        """Whether the instance exists and is open."""
        return instance_id in self._open

    def row_of_key(self, tenant_id: str, workflow_name: str, idempotency_key: str) -> InstanceRow | None:
        """The row of the run that a start with this key made."""
        instance_id = self._keys.get((tenant_id, workflow_name, idempotency_key))
        return None if instance_id is None else self.instances[instance_id].row

    # -- inside ---------------------------------------------------------------------------
    def _may_reopen(self, record: InstanceRecord, run: Reopening) -> bool:
        row = record.row
        ended_badly = row.status in (Status.FAILED, Status.CANCELLED) and row.last_seq == run.last_seq
        return ended_badly and self.definitions.may_have_runs(row.head.workflow_id, active=None)

    def _touch(self, record: InstanceRecord, *, parent_waits: bool | None = None) -> Change:
        before = record.row
        waits = before.head.parent_waits if parent_waits is None else parent_waits
        record.row = replace(before, head=replace(before.head, parent_waits=waits), version=before.version + 1)
        return Change(before, record.row, (), by_family=True)

    def _reopen(self, record: InstanceRecord, run: Reopening, now: int) -> Change:
        before, reopened = record.row, run.reopened
        event = Event(before.last_seq + 1, EventType.INSTANCE_REOPENED, "", "", 0, reopened.payload, now)
        head = replace(
            before.head,
            deadline_at=reopened.deadline_at,
            generation=reopened.generation,
            left_out=run.left_out,
            parent_waits=run.parent_waits,
        )
        status = Status.PENDING if before.started_at is None else Status.RUNNING
        size = before.log_bytes + event.payload.weight
        record.row = replace(
            before,
            head=head,
            status=status,
            version=before.version + 1,
            last_seq=event.seq,
            worker_id=None,
            available_at=now,
            completed_at=None,
            log_bytes=size,
            suspended_for=None,
            blame=None if before.blame is None else Blame(1),
        )
        record.append([event], generation=reopened.generation)
        self._open[head.instance_id] = record
        return Change(before, record.row, [event])

    def _advance(self, transition: Transition, record: InstanceRecord | None, now: int) -> Change:
        before = None if record is None else record.row
        row = _row_after(transition, before, now)
        if record is None:
            record = self.instances[transition.instance_id] = self._open[transition.instance_id] = InstanceRecord(row)
            if row.head.idempotency_key:
                self._keys[_idempotency(row.head)] = transition.instance_id
        record.row = row
        record.append(transition.events, generation=transition.generation)
        if row.status.is_terminal:
            del self._open[transition.instance_id]
        return Change(before, row, transition.events)

    def _suspend_or_resume(
        self, instance_id: str, tenant_id: str, change: RunSuspended | RunResumed, log_limit: LogLimit
    ) -> ExternalResult:
        record = self._of_tenant(instance_id, tenant_id)
        if record is None:
            return ExternalResult(None, None)
        row, suspends = record.row, isinstance(change, RunSuspended)
        if row.status.is_terminal or suspends == (row.status is Status.SUSPENDED):
            return ExternalResult(row, None)
        if log_limit.is_passed(log_bytes=row.log_bytes + change.payload.weight, rows=row.last_seq + 1):
            ended = self.fail_full(tenant_id=tenant_id, instance_id=instance_id, log_limit=log_limit)
            return ExternalResult(ended.row, None)
        if suspends:
            return self._append_external(record, EventType.INSTANCE_SUSPENDED, change.payload, Status.SUSPENDED)
        status = Status.PENDING if row.started_at is None else Status.RUNNING
        return self._append_external(record, EventType.INSTANCE_RESUMED, change.payload, status)

    def _append_external(
        self, record: InstanceRecord, type_: EventType, payload: Payload, status: Status, message: str | None = None
    ) -> ExternalResult:
        now = self.now()
        change = self._append(record, type_, payload, status, now, message)
        changes = [change]
        if status.is_terminal:
            head = record.row.head
            self._wake([head.parent_id] if head.parent_id and head.parent_waits else [], now, changes)
            self._cancel(self._awaited_by(head.instance_id), now, changes)
        self._committed("external", now, changes)
        return ExternalResult(record.row, record.row.last_seq)

    def _append(
        self,
        record: InstanceRecord,
        type_: EventType,
        payload: Payload,
        status: Status,
        now: int,
        message: str | None = None,
    ) -> Change:
        before = record.row
        event = Event(before.last_seq + 1, type_, "", "", 0, payload, now, error_message=message)
        worker_id, available_at = before.worker_id, before.available_at
        if status.is_terminal:
            worker_id = available_at = None
            del self._open[before.head.instance_id]
        elif type_ is EventType.INSTANCE_SUSPENDED and read_suspension(payload).reason is SuspendReason.ENGINE_DEFECT:
            worker_id = available_at = None
        elif type_ is EventType.INSTANCE_SUSPENDED and read_suspension(payload).reason.releases:
            worker_id, available_at = None, before.head.deadline_at
        elif worker_id is None and type_ is EventType.INSTANCE_SUSPENDED:
            if not read_suspension(payload).reason.ends_by_itself:
                available_at = before.head.deadline_at
        elif worker_id is None and status is not Status.SUSPENDED:
            available_at = now if available_at is None else min(now, available_at)
        record.row = InstanceRow(
            before.head,
            status,
            before.version + 1,
            event.seq,
            worker_id,
            available_at,
            before.started_at,
            now if status.is_terminal else None,
            before.log_bytes + payload.weight,
            _suspended_for(before, status, payload),
            _blame_after(before, type_),
            before.needs,
        )
        record.append([event])
        return Change(before, record.row, [event])

    def _is_wanted(self, head: InstanceHead) -> bool:
        """Whether it has no parent, or one whose activation is open."""
        if head.parent_id is None:
            return True
        parent = self._open.get(head.parent_id)
        return parent is not None and not parent.has_ended(head.parent_node_id, head.parent_scope)

    def _wake(self, parents: Sequence[str], now: int, changes: list[Change]) -> dict[str, int]:
        """Raise the versions of open parents whose children have ended."""
        woken: dict[str, int] = {}
        for record in (self._open[parent] for parent in parents if parent in self._open):
            row, available_at = record.row, record.row.available_at
            if row.worker_id is None and row.status is not Status.SUSPENDED:
                available_at = now if available_at is None else min(now, available_at)
            record.row = _replaced(row, version=row.version + 1, worker_id=row.worker_id, available_at=available_at)
            woken[row.head.instance_id] = record.row.version
            changes.append(Change(row, record.row, (), by_family=True))
        return woken

    def _cancel(self, ids: Sequence[str], now: int, changes: list[Change]) -> set[str]:
        """Cancel these children where they are open and awaited, with all that they await."""
        cancelled: set[str] = set()
        todo = list(ids)
        for instance_id in todo:  # grows while it is walked
            record = self._open.get(instance_id)
            if record is not None and record.row.head.parent_waits:
                reason = RunCancelledPayload(cancel_reason(record.row.head.parent_id)).payload
                change = self._append(record, EventType.INSTANCE_CANCELLED, reason, Status.CANCELLED, now)
                changes.append(replace(change, by_family=True))
                cancelled.add(instance_id)
                todo += self._awaited_by(instance_id)
        return cancelled

    def _awaited_by(self, parent_id: str) -> list[str]:
        return [row.head.instance_id for row in self.open_rows() if row.head.parent_id == parent_id]

    def _family_rows(self, roots: Collection[str] | None) -> Iterator[InstanceRow]:
        """Open rows of these instances and of the families below them."""
        if roots is None:
            return self.open_rows()
        return (row for row in self.open_rows() if row.head.instance_id in roots or row.head.root_id in roots)

    def _open_rows(self, instance_ids: Collection[str] | None) -> Iterator[InstanceRow]:
        if instance_ids is None:
            return self.open_rows()
        return (self._open[id_].row for id_ in dict.fromkeys(instance_ids) if id_ in self._open)

    def _of_tenant(self, instance_id: str, tenant_id: str) -> InstanceRecord | None:
        record = self.instances.get(instance_id)
        return record if record is not None and record.row.head.tenant_id == tenant_id else None

    def _has_open_runs(self, workflow_id: str) -> bool:
        return any(row.head.workflow_id == workflow_id for row in self.open_rows())

    def _committed(self, operation: str, now: int, changes: Sequence[Change], *, for_signal: bool = False) -> None:
        if changes:
            for change in changes:
                if change.after is not None:
                    head = change.after.head
                    self.values.keep(head.tenant_id, head.instance_id, change.events)
            self.writes += 1
            if self.on_commit is not None:
                self.on_commit(Transaction(operation, now, changes, for_signal))


def _guard_holds(row: InstanceRow, transition: Transition, now: int) -> bool:
    return (
        row.version == transition.expected_version
        and row.worker_id == transition.worker_id
        and not row.status.is_terminal
        and (transition.not_before is None or now >= transition.not_before)
    )


def _row_after(transition: Transition, before: InstanceRow | None, now: int) -> InstanceRow:
    worker_id, available_at = transition.worker_id, transition.available_at
    if transition.status.is_terminal:
        worker_id = available_at = None
    elif transition.release:
        worker_id = None
    elif available_at is None and before is not None:
        available_at = before.available_at
    if before is None:
        assert transition.new_run is not None, "only a creation has no row before it"
        head, version, last_seq, log_bytes, started_at = transition.new_run, 0, 0, 0, None
    else:
        head, version, last_seq, log_bytes = before.head, before.version, before.last_seq, before.log_bytes
        started_at = before.started_at
    return InstanceRow(
        head,
        transition.status,
        version + 1,
        last_seq + len(transition.events),
        worker_id,
        available_at,
        transition.started_at if started_at is None else started_at,
        now if transition.status.is_terminal else None,
        log_bytes + transition.payload_bytes,
        transition.suspended_for,
        None if before is None or transition.clears else before.blame,
        transition.needs if before is None else before.needs,
    )


def _replaced(row: InstanceRow, *, version: int, worker_id: str | None, available_at: int | None) -> InstanceRow:
    # Spelled out because dataclasses.replace is several times slower, and claims are frequent.
    return InstanceRow(
        row.head,
        row.status,
        version,
        row.last_seq,
        worker_id,
        available_at,
        row.started_at,
        None,
        row.log_bytes,
        row.suspended_for,
        row.blame,
        row.needs,
    )


def _needs(row: InstanceRow) -> Needs:
    return Needs(row.head.kind == CODED_KIND, row.head.workflow_name, row.head.workflow_version, row.needs)


def _is_defective(row: InstanceRow) -> bool:
    return row.suspended_for is SuspendReason.ENGINE_DEFECT


def _is_over(row: InstanceRow, now: int) -> bool:
    return row.head.deadline_at is not None and row.head.deadline_at <= now


def _blame_after(before: InstanceRow, type_: EventType) -> Blame | None:
    """After a resume, a run that crashed alone has a full budget of crashes."""
    is_resumed = type_ is EventType.INSTANCE_RESUMED and before.suspended_for is SuspendReason.CRASHED
    return Blame(1) if is_resumed else before.blame


def _fitting(capacity: SuspectCapacity, due: Sequence[InstanceRow]) -> list[InstanceRow]:
    """The first suspects in order that may run together with those of the worker; stops at one that may not."""
    companies: list[int] = []
    fitting: list[InstanceRow] = []
    for row in sorted(due, key=_overdue_order):
        assert row.blame is not None, "all of these are suspects"
        if capacity.alone or row.blame.company > 1:
            companies.append(row.blame.company)
            if not may_join(capacity, companies):
                break
            fitting.append(row)
    return fitting


def _suspended_for(before: InstanceRow, status: Status, payload: Payload) -> SuspendReason | None:
    """Why a row with this status is SUSPENDED: still for the same reason, or for the one that its new event names."""
    if status is not Status.SUSPENDED:
        return None
    return before.suspended_for or read_suspension(payload).reason


def _is_due(row: InstanceRow, now: int) -> bool:
    return row.available_at is not None and row.available_at <= now


def _is_parked(row: InstanceRow) -> bool:
    is_short = row.log_weight <= SHORT_LOG_WEIGHT_MAX
    return row.status is Status.WAITING and row.worker_id is None and is_short


def _within(capacities: TenantCapacities | None, due: Sequence[InstanceRow]) -> Iterator[InstanceRow]:
    """The first ones of each tenant, as many as its capacity allows."""
    taken: Counter[str] = Counter()
    for row in due:
        tenant_id = row.head.tenant_id
        taken[tenant_id] += 1
        if capacities is None or taken[tenant_id] <= capacities.of.get(tenant_id, capacities.each):
            yield row


def _overdue_order(row: InstanceRow) -> tuple[int, str]:
    return (row.available_at or 0, row.head.instance_id)


def _idempotency(head: InstanceHead) -> tuple[str, str, str]:
    return (head.tenant_id, head.workflow_name, head.idempotency_key or "")

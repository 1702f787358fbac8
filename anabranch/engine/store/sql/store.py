"""The SQL store: commits, claims, leases and external events.

`open_store` creates one; orchestrator, service and command line use it as `ports.Store`. It decides nothing about
workflows: it writes transitions if their version still holds, and reports which of them won. Reads are in `reads`,
definitions in `definitions`, counts and removal in `housekeeping`; what differs between databases is in `dialect`.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

from sqlalchemy import Connection

from anabranch.engine.hints.hint_line import Notices
from anabranch.engine.ports import (
    ClaimRequest,
    Epoch,
    ExternalResult,
    FamilyReopening,
    InstanceRow,
    Loaded,
    Outcome,
    Position,
    ReportAnswer,
    Transition,
    WorkerCode,
    WorkerReport,
)
from anabranch.engine.rules.event_payloads import (
    REPLACED_BY,
    RunCancelledPayload,
    RunFailedPayload,
    RunResumed,
    RunSuspended,
    SignalReceived,
)
from anabranch.engine.rules.events import EventType, Status
from anabranch.engine.rules.shared.log_limit import LOG_LIMIT, LogLimit
from anabranch.engine.rules.shared.signals import SIGNALS_KEPT_MAX
from anabranch.engine.rules.stimuli import SignalSent
from anabranch.engine.store.sql import lost_workers, processes, statements
from anabranch.engine.store.sql.component import CommitProgress
from anabranch.engine.store.sql.console_table import remove_console_of
from anabranch.engine.store.sql.data_checks import DataChecks
from anabranch.engine.store.sql.database_errors import DataRefused, DuplicateRefused, LocksHeld
from anabranch.engine.store.sql.definitions import Definitions
from anabranch.engine.store.sql.dialect import ClaimedRow, Dialect
from anabranch.engine.store.sql.epochs import Epochs, positions_of
from anabranch.engine.store.sql.families import touches_family
from anabranch.engine.store.sql.housekeeping.purging import Purging
from anabranch.engine.store.sql.pauses import Pauses
from anabranch.engine.store.sql.reading.reads import Reads, find_instance, is_uuid
from anabranch.engine.store.sql.reading.run_reading import RunReader
from anabranch.engine.store.sql.reopenings import Reopenings
from anabranch.engine.store.sql.revision import check_revision
from anabranch.engine.store.sql.rows import ExternalEvent
from anabranch.engine.store.sql.run_dead_letters import remove_letters_of
from anabranch.engine.store.value_table import keep_values, remove_values_of
from anabranch.errors import NotFound, StoreUnavailable, TooManySignals

log = logging.getLogger("anabranch.store")

# 30 s: a database that starts at the same time (one compose file, one reboot) is up by then.
CONNECT_WAIT_S = 30.0

# 1 s between attempts: soon enough, with few log lines.
CONNECT_PAUSE_S = 1.0

# At most 4 looks for runs of lost workers per claim, each of which finds a claim's worth; the next claim, half a second
# later, finds the rest.
LOOKS_MAX = 4

# 10 sendings of a signal that is refused for a reason which is gone when it is looked for: the second one mostly fits.
SENDINGS_MAX = 10

# 1 s, looking every 20 ms: a statement that lost its client ends within milliseconds. A stop has no more to spare for a
# session that stands still with its locks.
RELEASE_S = 1.0
RELEASE_PAUSE_S = 0.02

# The largest 32-bit integer: no run keeps so many signals, since seqs end there, too.
_NO_LIMIT = 2**31 - 1


class SqlStore(Reads, RunReader, Definitions, Pauses, Purging, Reopenings, DataChecks):
    """A store on a SQL database; see `ports.Store` for what each method promises."""

    def __init__(self, dialect: Dialect, *, connect_wait_s: float = CONNECT_WAIT_S) -> None:
        super().__init__(dialect)
        self.commits_in_flight_max = dialect.commits_in_flight_max
        self._connect_wait_s = connect_wait_s
        self.families_apart = dialect.commits_in_flight_max > 1
        self._external_wrote_here = False
        self._notices: Notices | None = None
        self._progress = CommitProgress()
        line = dialect.line_of_history
        self._epochs = None if line is None else Epochs(dialect, line, changed=self.renew_threads)

    # -- life -----------------------------------------------------------------------------
    async def start(self) -> None:
        """Open connections and check the schema; waits for an unavailable database.

        Raises SchemaMismatch, which names both versions, or StoreUnavailable.
        """
        self.open_threads()
        try:
            await self._wait_for_database()
            if await self.read(self.dialect.apply_outcome):
                self.renew_threads()
            await self.read(lambda connection: check_revision(connection, target=self.dialect.target))
        except BaseException:
            await self.stop()
            raise

    async def stop(self, *, patience_s: float | None = None) -> None:
        """Finish the calls under way and close everything; may be called twice or before start.

        Calls that take longer than `patience_s` are abandoned.
        """
        await self.close_threads(patience_s=patience_s)

    def report_to(self, notices: Notices) -> None:
        """Set the receiver of notices about writes that concern other processes."""
        self._notices = notices

    async def _wait_for_database(self) -> None:
        give_up_at = time.monotonic() + (self._connect_wait_s if self.dialect.is_remote else 0)
        while True:
            try:
                await self.read(self.dialect.now)
                return
            except StoreUnavailable as absent:
                if time.monotonic() + CONNECT_PAUSE_S > give_up_at:
                    raise
                log.warning("waiting for the database: %s", absent.message)
            await asyncio.sleep(CONNECT_PAUSE_S)

    # -- the hot path ---------------------------------------------------------------------
    async def commit(self, transitions: Sequence[Transition], *, may_wait: bool = False) -> Outcome:
        """Advance or create many instances in one transaction; each wins or loses alone.

        If the database refuses data, the transition is found by halving the batch, so the others are written in several
        transactions. The same happens around a transition that needs a locked row.
        """
        # In id order, so that two batches cannot deadlock.
        ordered = sorted(transitions, key=lambda transition: transition.instance_id)
        with self._progress.under_way():
            outcome = await self._commit(ordered, may_wait=may_wait or touches_family(ordered))
        if self._notices is not None:
            self._notices.committed(ordered, outcome)
        return outcome

    async def check_commits(self) -> None:
        """Return if commits succeed. Raises StoreUnavailable with the reason if they do not."""
        stuck = self._progress.stuck()
        if stuck is not None:
            raise StoreUnavailable(stuck)
        await self.commit_transitions(self.dialect.check_writable, may_wait=False)

    async def _commit(self, transitions: Sequence[Transition], *, may_wait: bool) -> Outcome:
        try:
            written = None if may_wait else await self.commit_without_thread(transitions)
            if written is not None:
                return written
            commit = partial(self.dialect.commit, transitions=transitions)
            return await self.commit_transitions(commit, may_wait=may_wait)
        except LocksHeld:
            return await self._commit_around_locks(transitions, may_wait=may_wait)
        except DataRefused as refusal:
            if len(transitions) == 1:
                return Outcome(set(), await self.now(), refused={transitions[0].instance_id: refusal.message})
        half = len(transitions) // 2
        first = await self._commit(transitions[:half], may_wait=may_wait)
        return _together(first, await self._commit(transitions[half:], may_wait=may_wait))

    async def _commit_around_locks(self, transitions: Sequence[Transition], *, may_wait: bool) -> Outcome:
        """Commit the transitions that need no locked row; the others are `locked`, all of them in case of doubt."""
        if not may_wait:  # a creation waits for a concurrent one with the same key
            locked = {
                transition.instance_id
                for transition in transitions
                if transition.new_run is not None and transition.new_run.idempotency_key
            }
        else:
            locked = await self.write(lambda connection: self.dialect.locked_transitions(connection, transitions))
        free = [transition for transition in transitions if transition.instance_id not in locked]
        if len(free) in (0, len(transitions)):
            return Outcome(set(), await self.now(), locked={transition.instance_id for transition in transitions})
        outcome = await self._commit(free, may_wait=may_wait)
        return _together(outcome, Outcome(set(), outcome.store_now, locked=locked))

    async def claim(self, wanted: ClaimRequest) -> list[Loaded]:
        """Take open instances whose `available_at` has come, longest overdue first, and load them.

        Runs of lost workers are judged first; usually there are none.
        """
        taken: list[ClaimedRow] = []
        for _ in range(LOOKS_MAX):
            taken = await self.write_without_waiting(partial(self._claim, wanted=wanted))
            lost = [one.instance_id for one in taken if one.lost_by is not None]
            if not lost:
                break
            await self._judge(wanted, lost)
            taken = []
        if not taken:
            return []
        # A separate statement: rows locked by a claim may be newer than its snapshot, and their logs would then be
        # older than the rows.
        loaded = await self.load([one.instance_id for one in taken])
        found_again = [loaded[one.instance_id] for one in taken if one.instance_id in loaded]
        return [one for one in found_again if one.row.worker_id == wanted.worker_id]

    async def load(self, instance_ids: Sequence[str], *, after_seq: int = 0) -> dict[str, Loaded]:
        """Rows with their events after `after_seq`, each pair from one snapshot; no events of large logs."""
        loaded = await self.read(lambda connection: self.dialect.load(connection, instance_ids, after_seq=after_seq))
        payloads = (event.payload for each in loaded.values() for event in each.events)
        if divided := [payload for payload in payloads if payload.division is not None]:
            await self.fetch_values(divided)
        return loaded

    def _claim(self, connection: Connection, wanted: ClaimRequest) -> list[ClaimedRow]:
        if self._epochs is not None and not self._epochs.is_settled(connection, lease_ms=wanted.lease_ms):
            return []
        return self.dialect.claim(connection, wanted)

    async def _judge(self, wanted: ClaimRequest, lost: Sequence[str]) -> None:
        suspended = await self.write_without_waiting(
            lambda connection: lost_workers.judge_lapsed(connection, self.dialect, wanted, lost)
        )
        self._note_appended(*suspended)

    async def report_worker(self, report: WorkerReport) -> ReportAnswer:
        """Store the report of a working process, replacing the previous one."""
        return await self.write_without_waiting(
            lambda connection: lost_workers.report_worker(connection, self.dialect, report)
        )

    async def suspend_unfit(self, *, overdue_ms: int, seen_ms: int, limit: int) -> int:
        """Suspend runs that have been due for this long and that no recently reporting worker can run; returns how
        many."""
        rows = await self.write(
            lambda connection: lost_workers.suspend_unfit(
                connection, self.dialect, overdue_ms=overdue_ms, seen_ms=seen_ms, limit=limit
            )
        )
        self._note_appended(*rows)
        return len(rows)

    async def offer_refused(self, mine: WorkerCode, *, since: int, limit: int) -> int:
        """Make runs due that were suspended after `since` because of other code, or of another release."""
        due, resumed = await self.write(
            lambda connection: lost_workers.offer_refused(connection, self.dialect, mine, since=since, limit=limit)
        )
        self._note_appended(*resumed)
        if due and self._notices is not None:
            self._notices.released()
        return due + len(resumed)

    async def forget_worker(self, worker_id: str) -> None:
        """Remove the report of a process that has handed over everything."""
        await self.write_without_waiting(lambda connection: lost_workers.forget_worker(connection, worker_id))

    async def extend(self, *, worker_id: str, instance_ids: Sequence[str], lease_ms: int) -> set[str]:
        """Extend these leases to `lease_ms` from the store's now; returns the extended ones. Does not raise versions.

        The others are no longer ours, or are locked by another session.
        """
        return await self.write_without_waiting(self._extension(worker_id, instance_ids, lease_ms))

    def extend_blocking(
        self, *, worker_id: str, instance_ids: Sequence[str], lease_ms: int, patience_s: float
    ) -> set[str]:
        """The same, from another thread than the event loop's, which may be blocked."""
        return self.write_blocking(self._extension(worker_id, instance_ids, lease_ms), patience_s=patience_s)

    def _extension(
        self, worker_id: str, instance_ids: Sequence[str], lease_ms: int
    ) -> Callable[[Connection], set[str]]:
        def move(connection: Connection) -> set[str]:
            """Extend the leases by the store's clock; returns the ids of those that are still ours."""
            parameters = {
                "ids": self.dialect.ids(instance_ids),
                "worker_id": worker_id,
                "available_at": self.dialect.now(connection) + lease_ms,
            }
            extend = statements.extend(self.dialect.among_ids, self.dialect.row_lock)
            return set(connection.execute(extend, parameters).scalars())

        return move

    async def release(self, *, worker_id: str, instance_ids: Sequence[str] | None = None) -> int:
        """Release open instances (None: all of the worker's): no worker, available now.

        Those that another session has locked are left out. After an interrupt, the worker's last claim and its last
        commit may still be under way: where all are to be released, both are waited for, for `RELEASE_S` each.
        """

        def give_back(connection: Connection) -> tuple[int, int]:
            """Take the worker off its runs; returns how many, and how many are locked."""
            parameters: dict[str, object] = {"worker_id": worker_id, "now": self.dialect.now(connection)}
            among_ids: str | None = None
            if instance_ids is not None:
                among_ids, parameters["ids"] = self.dialect.among_ids, self.dialect.ids(instance_ids)
            release = statements.release(among_ids, self.dialect.row_lock)
            released = connection.execute(release, parameters).rowcount
            if instance_ids is not None:
                return released, 0
            return released, connection.execute(statements.OWNED, {"worker_id": worker_id}).scalar_one()

        if instance_ids is None:
            await self.drain_writing_without_waiting(patience_s=RELEASE_S)
        until = time.monotonic() + RELEASE_S
        released, locked = await self.write_without_waiting(give_back)
        while locked and time.monotonic() < until:
            await asyncio.sleep(RELEASE_PAUSE_S)
            more, locked = await self.write_without_waiting(give_back)
            released += more
        if locked:
            log.warning("%d runs are locked by other sessions and are not handed over; their leases expire", locked)
        if released and self._notices is not None:
            self._notices.released()
        return released

    async def epoch(self) -> Epoch | None:
        """The present epoch; None if this kind of database does not tell."""
        return None if self._epochs is None else await self.read(self._epochs.look)

    async def positions(self, seqs: Mapping[str, int]) -> dict[str, Position]:
        """How far these runs are stored, of those that exist, and when the given row of each was written."""
        asked = {instance_id: seq for instance_id, seq in seqs.items() if is_uuid(instance_id)}
        return await self.read(partial(positions_of, dialect=self.dialect, seqs=asked))

    async def report_process(self, *, process_id: str, release: str) -> None:
        """Say that a process runs, for who migrates."""
        report = partial(processes.report_process, dialect=self.dialect, process_id=process_id, release=release)
        await self.write_without_waiting(report)

    async def forget_process(self, process_id: str) -> None:
        """Remove the report of a process that ends."""
        await self.write_without_waiting(partial(processes.forget_process, dialect=self.dialect, process_id=process_id))

    async def versions(self, instance_ids: Sequence[str]) -> dict[str, tuple[int, str | None]]:
        """(version, worker_id) of each id that exists: one statement, to notice external changes."""
        parameters = {"ids": self.dialect.ids(instance_ids)}
        rows = await self.read(
            lambda connection: connection.execute(statements.versions(self.dialect.among_ids), parameters).all()
        )
        return {instance_id: (version, worker_id) for instance_id, version, worker_id in rows}

    async def external_changes_possible(self) -> bool:
        """False if certainly nothing but our own commits was written since the last call."""
        external_wrote_here, self._external_wrote_here = self._external_wrote_here, False
        # With a single writing connection, use it: all other writers are in other processes.
        elsewhere = await self.write_without_waiting(self.dialect.external_changes_possible)
        return elsewhere or external_wrote_here

    def others_wrote(self, look: Callable[[Connection], bool | None]) -> bool | None:
        """The answer of `external_changes_possible` now, found by this `look` without waiting; None: not known."""
        return True if self._external_wrote_here else self.ask_idle_writer(look)

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
        """Append SIGNAL_RECEIVED to an open instance, owned or not: version + 1, last_seq + 1, unconditional."""
        payload = SignalReceived(signal.event, signal.payload, signal.key).payload
        event = ExternalEvent(
            tenant_id,
            instance_id,
            EventType.SIGNAL_RECEIVED,
            payload,
            key=signal.key,
            awaited=awaited,
            log_limit=log_limit,
        )
        for _ in range(SENDINGS_MAX):
            row = None
            with suppress(DuplicateRefused):  # the same key sent twice at once: the other one was written
                row = await self._append(event, signal=signal.event)
            if row is not None:
                return ExternalResult(row, row.last_seq)
            refused = await self._explain_refusal(event)
            if refused is not None:
                return refused
        raise StoreUnavailable(f"run {instance_id} changes too often to be signalled")

    async def append_suspension(
        self,
        instance_id: str,
        suspension: RunSuspended,
        *,
        tenant_id: str,
        log_limit: LogLimit = LOG_LIMIT,
    ) -> ExternalResult:
        """Append INSTANCE_SUSPENDED to an open instance, owned or not, unless it is suspended already for a reason that
        this one does not replace."""
        event = ExternalEvent(
            tenant_id,
            instance_id,
            EventType.INSTANCE_SUSPENDED,
            suspension.payload,
            suspends=suspension.reason,
            log_limit=log_limit,
        )
        result = await self._append_or_explain(event)
        if result.seq is None and result.row is not None and result.row.suspended_for is not None:
            replaced = await self.write(lambda connection: self._replace_suspension(connection, event))
            if replaced is not None:
                self._note_appended(replaced)
                return ExternalResult(replaced, replaced.last_seq)
        return result

    async def append_resumption(
        self, instance_id: str, resumed: RunResumed, *, tenant_id: str, log_limit: LogLimit = LOG_LIMIT
    ) -> ExternalResult:
        """Append INSTANCE_RESUMED to a suspended instance, owned or not."""
        return await self._append_or_explain(
            ExternalEvent(
                tenant_id, instance_id, EventType.INSTANCE_RESUMED, resumed.payload, resumes=True, log_limit=log_limit
            )
        )

    async def reopen(self, family: FamilyReopening) -> list[InstanceRow] | None:
        """Append INSTANCE_REOPENED to failed or cancelled runs, all or none; None: not as planned."""
        self._external_wrote_here = True
        rows = await self.reopen_family(family)
        self._note_appended(*(rows or ()))
        return rows

    async def append_cancel(self, *, tenant_id: str, instance_id: str, reason: str) -> ExternalResult:
        """Append INSTANCE_CANCELLED to an open instance, owned or not, and close it; unconditional."""
        payload = RunCancelledPayload(reason).payload
        return await self._append_or_explain(
            ExternalEvent(tenant_id, instance_id, EventType.INSTANCE_CANCELLED, payload, ends=Status.CANCELLED)
        )

    async def fail_full(self, *, tenant_id: str, instance_id: str, log_limit: LogLimit) -> ExternalResult:
        """Append INSTANCE_FAILED (LOG_TOO_LARGE) to an open instance, owned or not, and close it; unconditional."""
        error = log_limit.error()
        return await self._append_or_explain(
            ExternalEvent(
                tenant_id,
                instance_id,
                EventType.INSTANCE_FAILED,
                RunFailedPayload(error).payload,
                ends=Status.FAILED,
                message=error.message,
            )
        )

    async def _append_or_explain(self, event: ExternalEvent) -> ExternalResult:
        row = await self._append(event)
        if row is not None:
            return ExternalResult(row, row.last_seq)
        refused = await self._explain_refusal(event)
        assert refused is not None, "only a signal is sent again"
        return refused

    async def _append(self, event: ExternalEvent, *, signal: str | None = None) -> InstanceRow | None:
        if not is_uuid(event.instance_id):
            return None
        self._external_wrote_here = True
        signals_max = _NO_LIMIT if event.awaited else SIGNALS_KEPT_MAX
        row = await self.write(lambda connection: self._append_with_values(connection, event, signals_max))
        if row is not None:
            self._note_appended(row, signal=signal)
        return row

    def _note_appended(self, *rows: InstanceRow, signal: str | None = None) -> None:
        if self._notices is not None:
            for row in rows:
                self._notices.appended(row, signal=signal)

    def _replace_suspension(self, connection: Connection, event: ExternalEvent) -> InstanceRow | None:
        """Resume a run that is suspended for another reason, and suspend it, so that nobody sees it awake; None: it is
        not."""
        with self.dialect.transaction(connection):
            row, reason, limit = find_instance(connection, event.instance_id), event.suspends, event.log_limit
            if row is None or row.suspended_for is None or reason is None or not reason.replaces(row.suspended_for):
                return None
            resumed = replace(
                event,
                event_type=EventType.INSTANCE_RESUMED,
                payload=RunResumed(REPLACED_BY[reason]).payload,
                suspends=None,
                resumes=True,
                log_limit=LogLimit(limit.bytes_max - event.payload.weight, limit.rows_max - 1),  # both have room
            )
            if self.dialect.append_external(connection, resumed, signals_max=0) is None:
                return None
            return self.dialect.append_external(connection, event, signals_max=0)

    def _append_with_values(self, connection: Connection, event: ExternalEvent, signals_max: int) -> InstanceRow | None:
        division = event.payload.division
        if division is None:
            return self.dialect.append_external(connection, event, signals_max=signals_max)
        with self.dialect.transaction(connection):
            row = self.dialect.append_external(connection, event, signals_max=signals_max)
            if row is not None:
                keep_values(connection, self.dialect, {event.instance_id: division.parts})
            return row

    async def _explain_refusal(self, event: ExternalEvent) -> ExternalResult | None:
        """Find out why nothing was appended:

        no such run, it has ended, it is (or is not) suspended, a repeated key, too many signals, no room. None: the
        reason against a signal is gone, as when the run was created meanwhile. Raises TooManySignals.
        """
        if not is_uuid(event.instance_id):
            return ExternalResult(None, None)

        def look(connection: Connection) -> tuple[InstanceRow | None, bool, bool]:
            parameters = {"instance_id": event.instance_id, "key": event.key}
            repeated = event.key is not None and connection.execute(statements.SIGNAL_KEY_EXISTS, parameters).first()
            row = find_instance(connection, event.instance_id)
            has_many = row is not None and not row.status.is_terminal and row.last_seq >= SIGNALS_KEPT_MAX
            is_full = False
            if has_many and event.is_signal and not event.awaited and not repeated:  # the count reads the whole log
                is_full = connection.execute(statements.COUNT_SIGNALS_KEPT, parameters).scalar_one() >= SIGNALS_KEPT_MAX
            return row, bool(repeated), is_full

        row, repeated, is_full = await self.read(look)
        if row is None or row.head.tenant_id != event.tenant_id:
            return ExternalResult(None, None)
        if repeated or row.status.is_terminal:
            return ExternalResult(row, None, repeated=repeated)
        limit, size = event.log_limit, event.payload.weight
        if limit.is_passed(log_bytes=row.log_bytes + size, rows=row.last_seq + 1):
            ended = await self.fail_full(tenant_id=event.tenant_id, instance_id=event.instance_id, log_limit=limit)
            return ExternalResult(ended.row, None)
        if not event.is_signal:
            return ExternalResult(row, None)
        if not is_full:
            return None
        raise TooManySignals(f"run {event.instance_id} keeps {SIGNALS_KEPT_MAX} signals that nothing has taken")

    # -- test runs ------------------------------------------------------------------------
    async def delete_test_instance(self, *, tenant_id: str, instance_id: str) -> None:
        """Remove the rows of a terminal test run in one transaction. Raises NotFound for any other run."""

        def delete(connection: Connection) -> bool:
            """Remove the row, the log and what belongs to them; False if there is no such ended test run."""
            parameters = {"instance_id": instance_id, "tenant_id": tenant_id}
            if not connection.execute(statements.DELETE_TEST_ROW, parameters).rowcount:
                return False
            connection.execute(statements.DELETE_LOG, {"instance_id": instance_id})
            remove_console_of(connection, self.dialect, [instance_id])
            remove_letters_of(connection, [instance_id])
            remove_values_of(connection, self.dialect, [instance_id])
            return True

        if not is_uuid(instance_id) or not await self.transact(delete):
            raise NotFound(f"there is no ended test run {instance_id}")


def _together(first: Outcome, second: Outcome) -> Outcome:
    """The outcome of a batch that was committed in two parts."""
    return Outcome(
        first.won | second.won,
        second.store_now,
        {**first.existing, **second.existing},
        {**first.refused, **second.refused},
        first.rejected | second.rejected,
        {**first.woken, **second.woken},
        first.cancelled | second.cancelled,
        first.locked | second.locked,
    )

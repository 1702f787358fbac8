"""Runs of lost workers: make them suspects or suspend them.

Also the reports of working processes. Called by `store`. A run is judged before its log is read, so a run whose loading
crashes the process is caught, too. Each judgement is one transaction: if a process dies during it, the next one judges
the run.
"""

# Statements are put together from this package's own column names and conditions; values are always parameters.
# ruff: noqa: S608

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import cache

import orjson
from sqlalchemy import Connection, TextClause, text

from anabranch.engine.ports import ClaimRequest, InstanceRow, ReportAnswer, WorkerCode, WorkerReport
from anabranch.engine.rules.coded.coded_plan import CODED_KIND
from anabranch.engine.rules.event_payloads import RunResumed, RunSuspended, read_suspension
from anabranch.engine.rules.events import EventType, Status, SuspendReason
from anabranch.engine.rules.graph.pools import Needs, are_served
from anabranch.engine.rules.shared.blame import EXECUTING_UNKNOWN, Blame, Judgement, crashed, judged
from anabranch.engine.rules.shared.log_limit import UNLIMITED_LOG
from anabranch.engine.rules.shared.unrunnable import deadline_passed_unfit, nobody_fits
from anabranch.engine.rules.values import Payload
from anabranch.engine.store.schema import HAS_NOT_ENDED, IS_OPEN, IS_REFUSED
from anabranch.engine.store.sql.dialect import Dialect
from anabranch.engine.store.sql.rows import ExternalEvent
from anabranch.engine.store.sql.statements import IS_AWAKE, MAY_GO_ON, OWNED

# A day: the runs of lost processes are judged by then, and their reports are no longer needed.
FORGOTTEN_AFTER_MS = 86_400_000

_FORGET_OLD = text("DELETE FROM workers WHERE seen_at < (SELECT seen_at FROM workers WHERE worker_id = :me) - :age")
"""Remove reports of processes that have not reported for long."""

_FORGET = text("DELETE FROM workers WHERE worker_id = :worker_id")
"""Remove the report of a process that has handed over everything."""

_WORKER = text("SELECT executing, company FROM workers WHERE worker_id = :worker_id")

_NOTE_COMPANY = text("""
    INSERT INTO workers (worker_id, seen_at, executing, company) VALUES (:worker_id, :now, NULL, :company)
    ON CONFLICT (worker_id) DO UPDATE SET company = :company
""")
"""Store how many suspects it leaves, decided at the first of them, because its leases do not all end at once."""


_UNFIT = text(f"""
    SELECT instance_id, tenant_id, kind, workflow_name, workflow_version, needs, deadline_at, suspended_for
    FROM workflow_instances
    WHERE {IS_OPEN} AND worker_id IS NULL
      AND (available_at <= :due_before OR (suspended_for = '{SuspendReason.ENGINE_DEFECT}' AND deadline_at <= :now))
      AND (needs IS NOT NULL OR :needs_less = 1
           OR suspended_for = '{SuspendReason.ENGINE_DEFECT}' OR kind = '{CODED_KIND}')
      AND (({IS_AWAKE} AND {MAY_GO_ON}) OR deadline_at <= :now)
    ORDER BY available_at, instance_id LIMIT :limit
""")
"""Due, unclaimed runs that need particular code, node types or pools; with `needs_less` also those that only need a
worker of the default pool. Uses ix_instance_available."""

_LIVING = text("SELECT code, node_types FROM workers WHERE seen_at > :seen_after")
"""The code and node types of recently reporting workers: a few rows."""


_REFUSED_SINCE = f"""
    FROM (SELECT * FROM workflow_instances WHERE {IS_OPEN} AND {IS_REFUSED} AND worker_id IS NULL) AS i
    JOIN workflow_instance_logs AS l ON l.instance_id = i.instance_id AND l.seq = (
        SELECT max(s.seq) FROM workflow_instance_logs AS s
        WHERE s.instance_id = i.instance_id AND s.event_type = '{EventType.INSTANCE_SUSPENDED}')
    WHERE l.created_at > :since
"""
"""Suspended runs that no worker is trying, with the rows that have suspended them. Uses ix_instance_refused."""

_REFUSED = text(f"""
    SELECT i.instance_id, i.tenant_id, i.workflow_name, i.workflow_version, CAST(l.payload AS text) AS payload
    {_REFUSED_SINCE} ORDER BY i.instance_id LIMIT :limit
""")


@cache
def _report(clock: str) -> TextClause:
    """Write the report of a process, replacing the previous one; return whether runs were refused lately, and who
    leads.

    A process that seemed lost is active again. One statement: idle workers cause no other.
    """
    return text(f"""
        INSERT INTO workers (worker_id, seen_at, executing, company, node_types, code)
        VALUES (:worker_id, {clock}, :executing, NULL, :node_types, :code)
        ON CONFLICT (worker_id) DO UPDATE SET seen_at = {clock}, executing = :executing, company = NULL,
            node_types = :node_types, code = :code
        RETURNING EXISTS (SELECT 1 {_REFUSED_SINCE}),
            (SELECT l.worker_id FROM leaders AS l WHERE l.name = 'looks' AND l.until > {clock})
    """)


@cache
def _offer(among_ids: str) -> TextClause:
    """Make refused runs due that no worker owns."""
    return text(f"""
        UPDATE workflow_instances SET available_at = :now
        WHERE {among_ids} AND {IS_REFUSED} AND worker_id IS NULL AND (available_at IS NULL OR available_at > :now)
    """)


@cache
def _lapsed(among_ids: str, row_lock: str) -> TextClause:
    """Those of the instances whose lease expired under another worker. Skips rows locked by others."""
    return text(f"""
        SELECT instance_id, tenant_id, worker_id, status, company, crashes FROM workflow_instances
        WHERE {among_ids} AND {HAS_NOT_ENDED} AND worker_id <> :worker_id
          AND available_at <= :now AND available_at > :away_until
        ORDER BY instance_id {row_lock}
    """)


@cache
def _release(among_ids: str) -> TextClause:
    """Release instances of a lost worker; a suspended one can only be claimed at its deadline."""
    return text(f"""
        UPDATE workflow_instances SET version = version + 1, worker_id = NULL, company = :company, crashes = :crashes,
            available_at = CASE WHEN (status = '{Status.SUSPENDED}' AND NOT {IS_REFUSED})
                                    OR deadline_at < CAST(:due_at AS bigint)
                                    THEN deadline_at
                                ELSE coalesce(CAST(:due_at AS bigint), available_at) END
        WHERE {among_ids}
    """)


def report_worker(connection: Connection, dialect: Dialect, report: WorkerReport) -> ReportAnswer:
    """Store the report of a working process; the first report also removes those of long lost processes."""
    asked = {
        "worker_id": report.worker_id,
        "executing": report.executing,
        "node_types": orjson.dumps(list(report.node_types)).decode(),
        "code": orjson.dumps(list(report.code)).decode(),
        "since": report.refused_since,
    }
    are_refused, leader = connection.execute(_report(dialect.clock), asked).one()
    if report.executing is None:
        connection.execute(_FORGET_OLD, {"me": report.worker_id, "age": FORGOTTEN_AFTER_MS})
    return ReportAnswer(are_refused=bool(are_refused), leader=leader)


def forget_worker(connection: Connection, worker_id: str) -> None:
    """Remove the report of a process."""
    connection.execute(_FORGET, {"worker_id": worker_id})


def judge_lapsed(
    connection: Connection, dialect: Dialect, wanted: ClaimRequest, instance_ids: Sequence[str]
) -> list[InstanceRow]:
    """Make suspects of those of these instances whose worker was lost, or suspend them; returns the rows of the
    suspended ones.

    Afterwards they have no owner, and are due at once or after a delay.
    """
    with dialect.transaction(connection):
        now = dialect.now(connection)
        asked = {
            "ids": dialect.ids(instance_ids),
            "worker_id": wanted.worker_id,
            "now": now,
            "away_until": wanted.away_until or 0,
        }
        companies: dict[str, int] = {}
        alike: dict[Judgement, list[str]] = defaultdict(list)
        to_suspend: list[tuple[str, str, int]] = []
        for row in connection.execute(_lapsed(dialect.among_ids, dialect.row_lock), asked).all():
            instance_id, tenant_id, lost, status, company, crashes = row
            if lost not in companies:
                companies[lost] = _company_of(connection, lost, now)
            judgement = judged(
                None if company is None else Blame(company, crashes),
                executing=companies[lost],
                crashes_max=wanted.crashes_max,
                suspended=status == Status.SUSPENDED,
            )
            alike[judgement].append(instance_id)
            if judgement.suspends:
                to_suspend.append((tenant_id, instance_id, judgement.blame.crashes))
        for judgement, ids in alike.items():
            blame, delay_ms = judgement.blame, judgement.delay_ms
            outcome = {"company": blame.company, "crashes": blame.crashes}
            due_at = None if delay_ms is None else now + delay_ms
            connection.execute(_release(dialect.among_ids), {"ids": dialect.ids(ids), "due_at": due_at, **outcome})
        suspended = [_suspend(connection, dialect, *each) for each in to_suspend]
    return [row for row in suspended if row is not None]


def suspend_unfit(
    connection: Connection, dialect: Dialect, *, overdue_ms: int, seen_ms: int, limit: int
) -> list[InstanceRow]:
    """Suspend runs that have been due for this long and that no recently reporting worker can run; returns their new
    rows.

    Each is suspended in its own transaction, unless it was claimed.
    """
    now = dialect.now(connection)
    living = [
        ({(name, version) for name, version in orjson.loads(code)}, set(orjson.loads(node_types)))
        for code, node_types in connection.execute(_LIVING, {"seen_after": now - seen_ms})
    ]
    needs_less = bool(living) and not any(are_served((), entries) for _, entries in living)
    asked = {"due_before": now - overdue_ms, "now": now, "limit": limit, "needs_less": int(needs_less)}
    found = connection.execute(_UNFIT, asked).all()
    rows = []
    for instance_id, tenant_id, kind, workflow, version, needed, deadline_at, suspended_for in found:
        needs = Needs(kind == CODED_KIND, workflow, version, () if needed is None else orjson.loads(needed))
        is_over = deadline_at is not None and deadline_at <= now
        if (is_over and suspended_for == SuspendReason.ENGINE_DEFECT) or not any(
            needs.met_by(code=code, node_types=node_types) for code, node_types in living
        ):
            why = None if is_over else nobody_fits(needs, living)
            event = _unfit_event(tenant_id, instance_id, why, deadline_at)
            rows.append(dialect.append_external(connection, event, signals_max=0))
    return [row for row in rows if row is not None]


def offer_refused(
    connection: Connection, dialect: Dialect, mine: WorkerCode, *, since: int, limit: int
) -> tuple[int, list[InstanceRow]]:
    """Make runs due that were suspended under other code, and resume those suspended under another release; returns how
    many, and the rows of the resumed ones. No commit waits for it.
    """
    due: list[str] = []
    resumed: list[InstanceRow | None] = []
    for row in connection.execute(_REFUSED, {"since": since, "limit": limit}).all():
        why = read_suspension(Payload.trusted(orjson.loads(row.payload)))
        if why.reason is SuspendReason.ENGINE_DEFECT:
            if why.refused_by != mine.release:
                raw = RunResumed(f"release {mine.release}").payload
                event = ExternalEvent(
                    row.tenant_id,
                    row.instance_id,
                    EventType.INSTANCE_RESUMED,
                    raw,
                    resumes=True,
                    log_limit=UNLIMITED_LOG,
                )
                resumed.append(dialect.append_external(connection, event, signals_max=0))
        elif mine.digests.get((row.workflow_name, row.workflow_version), why.refused_by) != why.refused_by:
            due.append(row.instance_id)
    if due:
        asked = {"ids": dialect.ids(due), "now": dialect.now(connection)}
        connection.execute(_offer(dialect.among_ids), asked)
    return len(due), [row for row in resumed if row is not None]


def _unfit_event(
    tenant_id: str, instance_id: str, suspended: RunSuspended | None, deadline_at: int | None
) -> ExternalEvent:
    """The event: a suspension, or without one a failure, because its deadline has passed."""
    if suspended is None:
        assert deadline_at is not None, "only a deadline ends such a run"
        failed = deadline_passed_unfit(deadline_at)
        payload, message = failed.payload, failed.error.message
        return ExternalEvent(
            tenant_id, instance_id, EventType.INSTANCE_FAILED, payload, ends=Status.FAILED, message=message
        )
    return ExternalEvent(
        tenant_id,
        instance_id,
        EventType.INSTANCE_SUSPENDED,
        suspended.payload,
        suspends=suspended.reason,
        log_limit=UNLIMITED_LOG,
    )


def _company_of(connection: Connection, lost: str, now: int) -> int:
    """How many suspects a lost worker leaves: as many as it executed, at most as many as it owned."""
    known = connection.execute(_WORKER, {"worker_id": lost}).one_or_none()
    if known is not None and known.company is not None:
        return int(known.company)
    owned = connection.execute(OWNED, {"worker_id": lost}).scalar_one()
    executing = EXECUTING_UNKNOWN if known is None or known.executing is None else known.executing
    company = max(1, min(int(executing), int(owned)))
    connection.execute(_NOTE_COMPANY, {"worker_id": lost, "now": now, "company": company})
    return company


def _suspend(
    connection: Connection, dialect: Dialect, tenant_id: str, instance_id: str, crashes: int
) -> InstanceRow | None:
    event = ExternalEvent(
        tenant_id,
        instance_id,
        EventType.INSTANCE_SUSPENDED,
        crashed(crashes).payload,
        suspends=SuspendReason.CRASHED,
        log_limit=UNLIMITED_LOG,
    )
    return dialect.append_external(connection, event, signals_max=0)

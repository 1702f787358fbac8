"""What is not needed any more goes, and its space with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from anabranch.audit.audit_log import AuditLog
from anabranch.audit.audit_table import AuditTable
from anabranch.audit.audit_trail import CUT, AuditEntry
from anabranch.dead_letters.dead_letter_table import DeadLetterTable
from anabranch.dead_letters.dead_letters import DeadLetter
from anabranch.engine.ports import InstanceRow, NewVersion, Store
from anabranch.engine.rules.events import Status
from anabranch.engine.store.sql.housekeeping import sql_housekeeping
from anabranch.engine.store.sql.housekeeping.purging import FIRST_POSITION, PurgeFilter
from anabranch.engine.store.sql.store import SqlStore
from anabranch.engine.store.sqlite.sqlite_dialect import PAGES_GIVEN_BACK, SqliteDialect
from anabranch.service.purge import Purge, PurgeConditions
from tests.conformance.building import TENANT, committed, completed, created, ending, input_set, new_id, transition

DAY_MS = 86_400_000
only_sql = pytest.mark.only_on("sqlite", "postgresql", because="the memory store has no such tables")
only_sqlite = pytest.mark.only_on("sqlite", because="PostgreSQL gives space back by itself")

_SCHEDULE = text("""
    INSERT INTO triggers (trigger_id, tenant_id, kind, name, workflow, config, enabled, created_at, updated_at)
    VALUES (:id, 'default', 'schedule', CAST(:workflow AS text), CAST(:workflow AS text), '{}', true, 0, 0)
""")
_SUBSCRIPTION = text("""
    INSERT INTO triggers (trigger_id, tenant_id, kind, workflow, subject, head, config, enabled, created_at, updated_at)
    VALUES (:id, 'default', 'topic', CAST(:workflow AS text), 'a.*', 'a', '{}', true, 0, 0)
""")


async def ended(store: Store, *, output: Any = None, **head: Any) -> InstanceRow:
    row = await created(store, input_set(), completed("a", output=output), **head)
    return await committed(store, ending(row))


async def execute(store: Store, statement: str, **parameters: Any) -> Any:
    assert isinstance(store, SqlStore)

    def run(connection: Any) -> Any:
        result = connection.execute(text(statement), parameters)
        return result.all() if result.returns_rows else None

    return await store.write(run)


async def saved(store: Store, name: str, **definition: Any) -> str:
    return (await store.save_workflow(NewVersion(name=name, definition=definition), tenant_id=TENANT)).workflow_id


# -- disk --------------------------------------------------------------------------------------
@only_sqlite
async def test_space_is_given_back_in_small_steps(store: SqlStore) -> None:
    rows = [await ended(store, output="x" * (100_000 + each), retention_days=0) for each in range(60)]
    await store.compact()
    before = await store.disk_bytes()
    assert before > 6_000_000
    while await store.remove_expired(limit=100):
        pass
    assert await store.disk_bytes() > 6_000_000, "pages are free, and still there"
    steps = 1
    while await store.give_back_space():
        steps += 1
        await created(store)  # commits go in between
    assert steps > 6_000_000 / 4_096 / PAGES_GIVEN_BACK - 1
    assert await store.disk_bytes() < 1_000_000
    assert await store.get_instance(rows[0].head.instance_id) is None


@only_sqlite
async def test_a_file_from_before_gets_its_map_by_being_compacted(tmp_path: Path) -> None:
    from anabranch.engine.store.opening import open_store
    from anabranch.migrations import ensure_schema

    url = f"sqlite:///{tmp_path / 'old.db'}"
    ensure_schema(url, auto_migrate=True)
    store = open_store(url)
    await store.start()
    try:
        await execute(store, "PRAGMA auto_vacuum = NONE")
        await execute(store, "VACUUM")
        assert await execute(store, "PRAGMA auto_vacuum") == [(0,)]
        assert not await store.give_back_space()
        await store.compact()
        assert await execute(store, "PRAGMA auto_vacuum") == [(2,)]
        assert isinstance(store.dialect, SqliteDialect)
    finally:
        await store.stop()


@only_sql
async def test_a_sweep_removes_no_more_bytes_at_once_than_it_may(
    store: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sql_housekeeping, "BYTES_REMOVED_MAX", 250_000)
    for each in range(5):
        await ended(store, output="x" * (100_000 + each), retention_days=0)
    assert [await store.remove_expired(limit=100) for _ in range(3)] == [3, 2, 0]


# -- deleted workflows ---------------------------------------------------------------------------
async def test_a_deleted_workflow_goes_once_no_run_needs_it_and_a_live_one_stays(store: Store) -> None:
    gone, kept = await saved(store, "gone"), await saved(store, "kept")
    await store.save_workflow(NewVersion(name="kept", definition={"a": 1}, workflow_id=kept), tenant_id=TENANT)
    run = await ended(store, workflow_id=gone, retention_days=0)
    await store.delete_workflow(tenant_id=TENANT, workflow_id=gone)
    assert await store.remove_unused_workflows(limit=9) == 0
    assert await store.get_definition(gone, 1) is not None
    assert await store.remove_expired(limit=9) == 1
    assert await store.remove_unused_workflows(limit=9) == 1
    assert await store.get_definition(gone, run.head.workflow_version) is None
    assert [await store.get_definition(kept, version) is not None for version in (1, 2)] == [True, True]


async def test_so_many_workflows_at_once(store: Store) -> None:
    for number in range(3):
        await store.delete_workflow(tenant_id=TENANT, workflow_id=await saved(store, f"w{number}"))
    assert [await store.remove_unused_workflows(limit=2) for _ in range(3)] == [2, 1, 0]


@only_sql
async def test_what_starts_a_deleted_workflow_goes_with_it_after_a_month(store: SqlStore) -> None:
    deleted = await saved(store, "named")
    await execute(store, str(_SCHEDULE), id=new_id(), workflow="named")
    await execute(store, str(_SUBSCRIPTION), id=new_id(), workflow=deleted)
    await execute(store, str(_SCHEDULE), id=new_id(), workflow="other")
    await store.delete_workflow(tenant_id=TENANT, workflow_id=deleted)
    assert await store.remove_unused_workflows(limit=9) == 0
    await execute(store, "UPDATE workflows SET deleted_at = deleted_at - :by", by=31 * DAY_MS)
    assert await store.remove_unused_workflows(limit=9) == 1
    assert await execute(store, "SELECT workflow, kind FROM triggers") == [("other", "schedule")]
    assert await execute(store, "SELECT count(*) FROM workflow_versions") == [(0,)]


@only_sql
async def test_what_names_a_deleted_workflow_stays_if_another_has_its_name(store: SqlStore) -> None:
    deleted = await saved(store, "named")
    await execute(store, str(_SCHEDULE), id=new_id(), workflow="named")
    await store.delete_workflow(tenant_id=TENANT, workflow_id=deleted)
    replacement = await saved(store, "named")
    await execute(
        store, "UPDATE workflows SET deleted_at = deleted_at - :by WHERE deleted_at IS NOT NULL", by=31 * DAY_MS
    )
    assert await store.remove_unused_workflows(limit=9) == 1
    assert await execute(store, "SELECT workflow FROM triggers") == [("named",)]
    assert await store.get_definition(replacement, 1) is not None


# -- dead letters --------------------------------------------------------------------------------
async def with_letter(store: SqlStore, row: InstanceRow) -> InstanceRow:
    run_id = row.head.instance_id
    await DeadLetterTable(store).add_letter(DeadLetter(run_id, TENANT, run_id, "far", "", 1, "q", "refused"))
    return row


async def runs_with_letters(store: SqlStore) -> set[str]:
    return {letter.instance_id for letter in await DeadLetterTable(store).list_letters(tenant_id=None)}


@only_sql
async def test_dead_letters_go_with_their_run_however_it_goes(store: SqlStore) -> None:
    kept = (await with_letter(store, await created(store))).head.instance_id
    deleted = await with_letter(store, await ended(store))
    await store.delete_run(tenant_id=TENANT, instance_id=deleted.head.instance_id)
    assert await runs_with_letters(store) == {kept}
    tested = await with_letter(store, await ended(store, test=True))
    await store.delete_test_instance(tenant_id=TENANT, instance_id=tested.head.instance_id)
    assert await runs_with_letters(store) == {kept}
    await with_letter(store, await ended(store, retention_days=0))
    assert await store.remove_expired(limit=9) == 1
    assert await runs_with_letters(store) == {kept}
    await with_letter(store, await ended(store))
    everything = PurgeFilter(TENANT, ended_before=await store.now() + DAY_MS)
    assert await store.purge_runs(everything, after=FIRST_POSITION, dry_run=True, actor="cli")
    assert len(await runs_with_letters(store)) == 2
    assert await store.purge_runs(everything, after=FIRST_POSITION, dry_run=False, actor="cli")
    assert await runs_with_letters(store) == {kept}
    await store.remove_logs([kept])
    assert await runs_with_letters(store) == set()


@only_sql
async def test_dead_letters_are_kept_no_longer_than_the_audit_trail(store: SqlStore) -> None:
    old, new = [await with_letter(store, await created(store)) for _ in range(2)]
    statement = "UPDATE dead_letters SET last_at = last_at - :by WHERE instance_id = :run_id"
    await execute(store, statement, by=400 * DAY_MS + 1, run_id=old.head.instance_id)
    await store.trim_audit(retention_days=401, limit=9)
    assert len(await runs_with_letters(store)) == 2
    await store.trim_audit(retention_days=400, limit=9)
    assert await runs_with_letters(store) == {new.head.instance_id}


# -- the audit trail -----------------------------------------------------------------------------
async def trail_of(store: SqlStore, *, rows: int, old: int) -> AuditLog:
    """A trail of so many rows, the first of them older than a year, by more than a day."""
    table = AuditTable(store)
    now = await store.now()
    at = iter([now - 400 * DAY_MS] * old + [now] * 100)
    store.dialect.now = lambda connection: next(at)  # type: ignore[method-assign]
    for number in range(rows):
        await table.append(AuditEntry("acme", "cli", "key.created", f"key_{number}", {}))
    store.dialect.now = lambda connection: now  # type: ignore[method-assign]
    return AuditLog(table)


@only_sql
async def test_old_rows_of_the_trail_go_and_the_rest_is_still_proved(store: SqlStore) -> None:
    log = await trail_of(store, rows=7, old=4)
    assert await store.trim_audit(retention_days=365, limit=100) == 4
    rows = await log.list(None)
    assert [(row.position, row.action) for row in rows] == [(8, CUT), *((n, "key.created") for n in (7, 6, 5))]
    verified = await log.verify()
    assert (verified.broken_at, verified.rows) == (None, 4)
    assert verified.cut is not None and verified.cut.target == "4"
    assert await store.trim_audit(retention_days=365, limit=100) == 0


@only_sql
async def test_a_trail_may_be_cut_again_where_it_was_cut(store: SqlStore) -> None:
    log = await trail_of(store, rows=7, old=6)
    assert await store.trim_audit(retention_days=365, limit=3) == 3
    assert await store.trim_audit(retention_days=365, limit=3) == 3
    verified = await log.verify()
    assert (verified.broken_at, verified.rows) == (None, 3)
    assert [row.target for row in await log.list(None)] == ["6", "3", "key_6"]


@only_sql
async def test_rows_are_cut_a_day_at_a_time(store: SqlStore) -> None:
    await trail_of(store, rows=3, old=3)
    assert await store.trim_audit(retention_days=400, limit=9) == 0, "just over: the rest of the day is waited for"
    assert await store.trim_audit(retention_days=398, limit=9) == 3


@only_sql
@pytest.mark.parametrize(
    ("forgery", "broken_at"),
    [
        ("DELETE FROM audit_log WHERE position = 5", 5),
        ("DELETE FROM audit_log WHERE position <= 6", 5),
        ("UPDATE audit_log SET actor = 'nobody' WHERE position = 6", 6),
        ("UPDATE audit_log SET details = replace(details, '\"rows\": 4', '\"rows\": 3') WHERE position = 8", 8),
        ("UPDATE audit_log SET action = 'key.created' WHERE position = 8", 1),
    ],
)
async def test_a_trail_that_was_cut_by_hand_is_broken(store: SqlStore, forgery: str, broken_at: int) -> None:
    log = await trail_of(store, rows=7, old=4)
    await store.trim_audit(retention_days=365, limit=100)
    await execute(store, forgery)
    assert (await log.verify()).broken_at == broken_at


@only_sql
async def test_a_row_that_is_put_back_before_the_cut_shows(store: SqlStore) -> None:
    log = await trail_of(store, rows=7, old=4)
    await store.trim_audit(retention_days=365, limit=100)
    await execute(
        store,
        "INSERT INTO audit_log (position, tenant_id, at, actor, action, target, details, hash)"
        " SELECT 2, tenant_id, at, actor, action, target, details, hash FROM audit_log WHERE position = 6",
    )
    assert (await log.verify()).broken_at == 1


# -- purging -------------------------------------------------------------------------------------
@only_sql
async def test_a_purge_takes_the_ended_runs_that_are_meant_and_no_other(store: SqlStore) -> None:
    workflow = await saved(store, "orders")
    parent = await created(store)
    child = await ended(store, parent_id=parent.head.instance_id)
    other_tenant = await ended(store, tenant_id="other")
    await created(store)
    plain, of_workflow = await ended(store), await ended(store, workflow_id=workflow)
    failed = await created(store)
    await store.append_cancel(tenant_id=TENANT, instance_id=failed.head.instance_id, reason="no")
    purge = Purge(store)

    async def count(**wanted: Any) -> int:
        return (await purge.purge(PurgeConditions(**wanted), tenant_id=TENANT, actor="cli", dry_run=True)).runs

    assert await count(older_than_ms=0) == 3
    assert await count(older_than_ms=3_600_000) == 0
    assert await count(workflow="orders") == 1
    assert await count(workflow=workflow, statuses=[Status.FAILED]) == 0
    assert await count(statuses=[Status.CANCELLED, Status.COMPLETED]) == 3
    assert await count() == 0, "no retention is over"
    report = await purge.purge(PurgeConditions(statuses=[Status.COMPLETED]), tenant_id=TENANT, actor="cli")
    assert (report.runs, report.events) == (2, plain.last_seq + of_workflow.last_seq)
    assert await store.get_instance(child.head.instance_id) is not None, "its parent may ask for it"
    assert await store.get_instance(other_tenant.head.instance_id) is not None
    assert await store.get_instance(plain.head.instance_id) is None
    (row,) = await AuditTable(store).list_rows(tenant_id=TENANT, limit=9, before=None)
    assert (row.action, row.details) == ("runs.purged", '{"runs": 2}')


@only_sql
async def test_a_purge_goes_from_page_to_page(store: SqlStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("anabranch.engine.store.sql.housekeeping.purging.RUNS_AT_ONCE", 2)
    monkeypatch.setattr("anabranch.engine.store.sql.housekeeping.purging.RUNS_LOOKED_AT", 3)
    monkeypatch.setattr("anabranch.engine.store.sql.housekeeping.purging.LOGS_LOOKED_AT", 2)
    monkeypatch.setattr(sql_housekeeping, "EVENTS_REMOVED_MAX", 3)
    for _ in range(7):
        await ended(store)
    wanted = PurgeFilter(TENANT, await store.now() + 1)
    first = await store.purge_runs(wanted, after=FIRST_POSITION, dry_run=True, actor="cli")
    assert first is not None and first.runs == 1 and first.position is not None
    purge = Purge(store)
    assert (await purge.purge(PurgeConditions(older_than_ms=0), tenant_id=TENANT, actor="cli", dry_run=True)).runs == 7
    assert (await purge.purge(PurgeConditions(older_than_ms=0), tenant_id=TENANT, actor="cli")).runs == 7
    assert (await store.count_runs(tenant_id=TENANT)) == {}


@only_sql
async def test_a_purge_removes_orphans_and_says_so(store: SqlStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("anabranch.engine.store.sql.housekeeping.purging.LOGS_LOOKED_AT", 3)
    rows = [await created(store) for _ in range(4)]
    for row in rows[:2]:
        await execute(store, "DELETE FROM workflow_instances WHERE instance_id = :id", id=row.head.instance_id)
    workflow = await saved(store, "orders")
    await execute(store, "DELETE FROM workflows WHERE workflow_id = :id", id=workflow)
    purge = Purge(store)
    dry = await purge.purge(tenant_id=TENANT, actor="cli", dry_run=True)
    assert (dry.orphaned_logs, dry.orphaned_versions) == (2, 1)
    report = await purge.purge(tenant_id=TENANT, actor="cli")
    assert (report.orphaned_logs, report.orphaned_versions) == (2, 1)
    again = await purge.purge(tenant_id=TENANT, actor="cli")
    assert (again.orphaned_logs, again.orphaned_versions) == (0, 0)
    assert len(await store.read_log(rows[2].head.instance_id)) == 1
    assert transition(rows[2]).events == []

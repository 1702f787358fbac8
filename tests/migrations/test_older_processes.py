"""Migrations beside running processes: refused where these could not go on, and supported where they can."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import psycopg
import pytest
from alembic import command
from sqlalchemy import text

from anabranch import migrations
from anabranch.app.composition import App
from anabranch.engine.store.opening import dialect_of, open_store
from anabranch.engine.store.schema import OLDEST_PROGRAM, SCHEMA_REVISION
from anabranch.engine.store.sql import processes
from anabranch.errors import OlderProcesses, SchemaMismatch
from anabranch.migrations.running import _configuration
from anabranch.settings import Settings

BEFORE_REPORTS = "0025"
OWNED = """
    INSERT INTO workflow_instances (instance_id, tenant_id, workflow_name, workflow_version, kind, test, status,
        version, last_seq, worker_id, available_at, starts_at, retention_days, created_at)
    VALUES ('00000000-0000-0000-0000-000000000001', 'default', 'w', 1, 'drawn', FALSE, 'RUNNING', 1, 0, 'old-worker',
        :until, 0, 30, 0)
"""
FAR_AWAY = 9_000_000_000_000


def on(url: str, work: Any) -> Any:
    dialect = dialect_of(url)
    engine = dialect.engine(commits=False)
    try:
        with engine.connect() as connection, dialect.migration(connection):
            return work(connection)
    finally:
        engine.dispose()


def run(url: str, statement: str, **parameters: Any) -> Any:
    return on(url, lambda connection: connection.execute(text(statement), parameters))


def go_back(url: str) -> None:
    """Migrate an empty database to the last schema whose programs do not report themselves."""
    on(url, lambda connection: command.upgrade(_configuration(connection), BEFORE_REPORTS))


@pytest.fixture
def older_url(empty_url: str) -> str:
    """A database with that schema."""
    go_back(empty_url)
    return empty_url


def test_nothing_is_migrated_while_a_process_that_does_not_report_itself_owns_runs(older_url: str) -> None:
    run(older_url, OWNED, until=FAR_AWAY)
    with pytest.raises(OlderProcesses, match="worker old-worker, which owns runs"):
        migrations.upgrade(older_url)
    assert migrations.current(older_url) == BEFORE_REPORTS
    with pytest.raises(OlderProcesses):
        migrations.ensure_schema(older_url, auto_migrate=True)

    run(older_url, "UPDATE workflow_instances SET available_at = 1")
    assert migrations.upgrade(older_url) == SCHEMA_REVISION


def test_force_migrates_all_the_same(older_url: str) -> None:
    run(older_url, OWNED, until=FAR_AWAY)
    assert migrations.upgrade(older_url, force=True) == SCHEMA_REVISION


def test_on_a_server_sessions_of_older_processes_are_found(empty_postgres_url: str) -> None:
    go_back(empty_postgres_url)
    session = psycopg.connect(empty_postgres_url, application_name="anabranch commits")
    with session, pytest.raises(OlderProcesses, match="1 sessions of anabranch"):
        migrations.upgrade(empty_postgres_url)


async def test_a_process_reports_itself_while_it_runs(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def older() -> list[str]:
        dialect = dialect_of(database_url)
        return list(on(database_url, lambda one: processes.older_processes(one, dialect, found=SCHEMA_REVISION)))

    app = App(Settings.load(database_url=database_url))
    async with app.open_runs(works=False) as runs:
        assert older() == [], "it works with the schema"
        monkeypatch.setattr(processes, "OLDEST_PROGRAM", "9999")
        (named,) = older()
        assert named.startswith(f"{runs.engine.worker_id} (release ")
        run(database_url, "UPDATE processes SET seen_at = seen_at - 90000")
        assert older() == [], "one that was killed is forgotten"
        run(database_url, "UPDATE processes SET seen_at = seen_at + 90000")
    assert older() == [], "it has ended"


@pytest.fixture
def newer_url(empty_url: str) -> str:
    """A database that a later release has migrated, which still supports this one."""
    migrations.upgrade(empty_url)
    run(empty_url, "UPDATE alembic_version SET version_num = '9998'")
    run(empty_url, "UPDATE schema_support SET revision = '9998'")
    return empty_url


async def test_a_program_starts_on_a_newer_schema_that_supports_it_and_leaves_it_as_it_is(newer_url: str) -> None:
    assert migrations.upgrade(newer_url) == "9998"
    migrations.ensure_schema(newer_url, auto_migrate=True)
    store = open_store(newer_url)
    await store.start()
    await store.stop()
    assert migrations.current(newer_url) == "9998"


async def test_a_program_refuses_a_newer_schema_that_does_not_support_it(newer_url: str) -> None:
    run(newer_url, "UPDATE schema_support SET oldest_program = '9998'")
    with pytest.raises(SchemaMismatch, match="9998, which is newer"):
        await open_store(newer_url).start()
    with pytest.raises(SchemaMismatch, match="9998, which is newer"):
        migrations.upgrade(newer_url)


_TAKES_AWAY = re.compile(r"op\.(?:drop_|alter_column|rename_)|\b(?:DROP|RENAME)\b|nullable=False(?!.*server_default)")


def takes_away(source: str) -> bool:
    """Whether a migration removes or renames what older programs use, or demands what they do not write."""
    upgrade = source.partition("def upgrade()")[2]
    without_new_tables = re.sub(r"op\.create_table\((?:.|\n)*?\n    \)", "", upgrade)
    return bool(_TAKES_AWAY.search(without_new_tables))


def test_a_migration_that_only_adds_is_told_from_one_that_takes_away() -> None:
    files = sorted(Path(migrations.__file__).parent.glob("versions/0*.py"))
    sources = {path.name[:4]: path.read_text() for path in files}
    assert not takes_away(sources["0022"])
    assert not takes_away(sources["0026"])
    assert takes_away(sources["0023"])
    assert takes_away("def upgrade():\n    op.add_column('t', sa.Column('c', sa.Text(), nullable=False))")


def test_programs_that_a_migration_breaks_are_not_said_to_work_with_it() -> None:
    for path in Path(migrations.__file__).parent.glob("versions/0*.py"):
        assert not takes_away(path.read_text()) or path.name[:4] <= OLDEST_PROGRAM, (
            f"{path.name} takes something away: raise OLDEST_PROGRAM, or do it in a later release"
        )
    assert OLDEST_PROGRAM <= SCHEMA_REVISION

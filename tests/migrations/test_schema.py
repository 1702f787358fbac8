"""Migrations arrive at the schema that the code is written against, once, and refuse what they do not know."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, text

import anabranch.migrations
from anabranch.engine.store.opening import dialect_of, open_store
from anabranch.engine.store.schema import SCHEMA_REVISION, metadata
from anabranch.errors import SchemaMismatch
from anabranch.migrations import current, ensure_schema, upgrade
from anabranch.migrations.running import run_migrations
from tests.postgres import PostgresServer

Answer = TypeVar("Answer")

_STARTER = """
import sys
from anabranch.migrations import upgrade
print("ready", flush=True)
sys.stdin.readline()
upgrade(sys.argv[1])
"""

# Part by part: SQLite keeps the words of each CREATE TABLE, and adds what ALTER TABLE added to their end.
_SQLITE_PICTURE = """
    SELECT 'column', t.name, c.name, c.type, c."notnull", c.dflt_value, c.pk, c.hidden
    FROM sqlite_master AS t JOIN pragma_table_xinfo(t.name) AS c WHERE t.type = 'table'
    UNION ALL SELECT 'table', name, wr, strict, '', '', '', '' FROM pragma_table_list
    UNION ALL SELECT 'reference', t.name, f."table", f."from", f."to", f.on_update, f.on_delete, f."match"
    FROM sqlite_master AS t JOIN pragma_foreign_key_list(t.name) AS f WHERE t.type = 'table'
    UNION ALL SELECT 'key', t.name, i."unique", i.origin, i.partial, c.name, c.coll, c."desc"
    FROM sqlite_master AS t JOIN pragma_index_list(t.name) AS i JOIN pragma_index_xinfo(i.name) AS c
    WHERE t.type = 'table'
    UNION ALL SELECT type, name, CASE WHEN type = 'table' THEN sql LIKE '%CHECK%' ELSE sql END, '', '', '', '', ''
    FROM sqlite_master WHERE sql IS NOT NULL
"""

_POSTGRES_PICTURE = """
    SELECT table_name, column_name, concat_ws(' ', data_type, collation_name), is_nullable, column_default
    FROM information_schema.columns WHERE table_schema = 'public'
    UNION ALL SELECT tablename, indexname, indexdef, '', '' FROM pg_indexes WHERE schemaname = 'public'
    UNION ALL SELECT c.relname, 'options', array_to_string(c.reloptions, ','), array_to_string(t.reloptions, ','), ''
    FROM pg_class AS c LEFT JOIN pg_class AS t ON t.oid = c.reltoastrelid
    WHERE c.relkind = 'r' AND c.relnamespace = 'public'::regnamespace
"""


def test_the_newest_migration_is_the_one_that_the_code_works_with() -> None:
    configuration = Config()
    configuration.set_main_option("script_location", str(Path(anabranch.migrations.__file__).parent))
    assert ScriptDirectory.from_config(configuration).get_current_head() == SCHEMA_REVISION


def test_running_all_migrations_gives_the_tables_of_the_code_on_sqlite(tmp_path: Path) -> None:
    migrated, made = f"sqlite:///{tmp_path / 'migrated.db'}", f"sqlite:///{tmp_path / 'made.db'}"
    _on(migrated, lambda connection: run_migrations(connection, target=migrated))
    upgrade(made)
    assert _on(migrated, _everything) == _on(made, _everything)
    assert current(made) == current(migrated) == SCHEMA_REVISION


def test_running_all_migrations_gives_the_tables_of_the_code_on_postgresql(
    postgres_url: str, postgres_server: PostgresServer
) -> None:
    made = postgres_server.create()
    _on(made, metadata.create_all)
    assert _on(postgres_url, _picture) == _on(made, _picture)


def test_an_empty_database_has_no_version_and_looking_does_not_make_one(empty_url: str) -> None:
    assert current(empty_url) is None
    assert current(empty_url) is None


def test_upgrading_twice_changes_nothing(empty_url: str) -> None:
    assert upgrade(empty_url) == SCHEMA_REVISION
    before = _on(empty_url, _picture)
    assert upgrade(empty_url) == SCHEMA_REVISION
    assert _on(empty_url, _picture) == before
    assert current(empty_url) == SCHEMA_REVISION


def test_processes_that_start_together_migrate_once(empty_url: str) -> None:
    starters = [
        subprocess.Popen(
            [sys.executable, "-c", _STARTER, empty_url],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    for starter in starters:
        assert starter.stdout is not None and starter.stdout.readline() == "ready\n"
    for starter in starters:
        assert starter.stdin is not None
        starter.stdin.write("go\n")
        starter.stdin.flush()
    complaints = [starter.communicate()[1] for starter in starters]
    assert [starter.returncode for starter in starters] == [0, 0], "\n".join(complaints)
    assert current(empty_url) == SCHEMA_REVISION


def test_start_up_brings_an_empty_database_to_the_current_schema(empty_url: str) -> None:
    ensure_schema(empty_url, auto_migrate=False)
    assert current(empty_url) == SCHEMA_REVISION


@pytest.mark.parametrize("found", ["0000", "9999"])
def test_another_schema_is_refused_with_both_versions_named(empty_url: str, found: str) -> None:
    upgrade(empty_url)
    _set_version(empty_url, found)
    with pytest.raises(SchemaMismatch) as caught:
        ensure_schema(empty_url, auto_migrate=False)
    assert found in caught.value.message and SCHEMA_REVISION in caught.value.message


def test_an_older_schema_says_how_to_migrate(empty_url: str) -> None:
    upgrade(empty_url)
    _set_version(empty_url, "0000")
    with pytest.raises(SchemaMismatch) as caught:
        ensure_schema(empty_url, auto_migrate=False)
    assert "anabranch migrate" in caught.value.advice


def test_a_newer_schema_is_never_migrated(empty_url: str) -> None:
    upgrade(empty_url)
    _set_version(empty_url, "9999")
    with pytest.raises(SchemaMismatch):
        upgrade(empty_url)
    with pytest.raises(SchemaMismatch):
        ensure_schema(empty_url, auto_migrate=True)
    assert current(empty_url) == "9999"


async def test_a_store_does_not_start_on_another_schema(empty_url: str) -> None:
    upgrade(empty_url)
    _set_version(empty_url, "9999")
    store = open_store(empty_url)
    with pytest.raises(SchemaMismatch, match="9999"):
        await store.start()


async def test_a_store_does_not_start_without_tables(empty_url: str) -> None:
    with pytest.raises(SchemaMismatch, match="no tables"):
        await open_store(empty_url).start()


def test_tables_without_a_version_are_refused_and_left_alone(empty_url: str) -> None:
    upgrade(empty_url)
    _on(empty_url, lambda connection: connection.execute(text("DELETE FROM alembic_version")))
    before = _on(empty_url, _picture)
    for attempt in (upgrade, lambda url: ensure_schema(url, auto_migrate=True)):
        with pytest.raises(SchemaMismatch, match=r"workflow_instances.*no schema version") as caught:
            attempt(empty_url)
        assert "of its own" in caught.value.advice, "it says what to do"
    assert _on(empty_url, _picture) == before


async def test_a_store_does_not_start_on_tables_without_a_version(empty_url: str) -> None:
    _on(empty_url, lambda connection: connection.execute(text("CREATE TABLE workflows (name TEXT)")))
    with pytest.raises(SchemaMismatch, match=r"workflows.*no schema version"):
        await open_store(empty_url).start()


def test_a_version_that_another_program_left_is_told_apart_from_a_newer_one(empty_url: str) -> None:
    upgrade(empty_url)
    _set_version(empty_url, "ae1027a6acf")
    with pytest.raises(SchemaMismatch, match=r"ae1027a6acf.*another program"):
        ensure_schema(empty_url, auto_migrate=False)


def _on(url: str, work: Callable[[Connection], Answer]) -> Answer:
    engine = dialect_of(url).engine(commits=False)
    try:
        with engine.connect() as connection:
            return work(connection)
    finally:
        engine.dispose()


def _picture(connection: Connection) -> list[str]:
    """Every table, column and index of a database as one sorted list of texts."""
    if connection.dialect.name == "sqlite":
        rows = connection.execute(text(_SQLITE_PICTURE)).all()
    else:
        rows = connection.execute(text(_POSTGRES_PICTURE)).all()
    lines = (" ".join(" ".join(map(str, row)).split()) for row in rows)
    return sorted(line for line in lines if "alembic_version" not in line)


def _everything(connection: Connection) -> list[str]:
    """The same with the table of versions, and all rows."""
    parts = [" ".join(" ".join(map(str, row)).split()) for row in connection.execute(text(_SQLITE_PICTURE))]
    tables = connection.execute(text("SELECT name FROM sqlite_master WHERE type = 'table'")).scalars().all()
    return sorted(parts) + [
        f"{name} {connection.execute(text(f'SELECT * FROM {name}')).all()}" for name in sorted(tables)
    ]


def _set_version(url: str, version: str) -> None:
    _on(url, lambda connection: connection.execute(text(f"UPDATE alembic_version SET version_num = '{version}'")))

"""What an older release has written is still there, and means the same, after the newer migrations."""

from __future__ import annotations

import uuid
from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import text

import anabranch.migrations
from anabranch.engine.store.opening import dialect_of, open_store
from anabranch.migrations import ensure_schema

_INSTANCE = text("""
    INSERT INTO workflow_instances (instance_id, tenant_id, workflow_name, workflow_version, kind, test, status,
        version, last_seq, starts_at, retention_days, created_at)
    VALUES (:instance_id, 'default', 'orders', 1, 'drawn', false, 'PENDING', 1, 0, 5, 30, 5)
""")

_EVENT = text("""
    INSERT INTO workflow_instance_logs (instance_id, seq, node_id, scope, event_type, payload, node_attempt, created_at)
    VALUES (:instance_id, :seq, '', '', 'INPUT_SET', :payload, 0, 5)
""")


async def test_runs_from_before_families_are_roots_and_nobodys_children(empty_url: str) -> None:
    run_id = str(uuid.uuid4())
    dialect = dialect_of(empty_url)
    engine = dialect.engine(commits=False)
    with engine.connect() as connection, dialect.transaction(connection):
        configuration = Config()
        configuration.set_main_option("script_location", str(Path(anabranch.migrations.__file__).parent))
        configuration.attributes["connection"] = connection
        command.upgrade(configuration, "0001")
        connection.execute(_INSTANCE, {"instance_id": run_id})
    engine.dispose()

    ensure_schema(empty_url, auto_migrate=True)

    store = open_store(empty_url)
    await store.start()
    row = await store.get_instance(run_id)
    await store.stop()
    assert row is not None
    head = row.head
    assert (head.parent_id, head.parent_waits, head.depth, head.root_id) == (None, False, 0, None)


async def test_open_runs_from_before_know_the_size_of_their_logs(empty_url: str) -> None:
    run_id = str(uuid.uuid4())
    dialect = dialect_of(empty_url)
    engine = dialect.engine(commits=False)
    with engine.connect() as connection, dialect.transaction(connection):
        configuration = Config()
        configuration.set_main_option("script_location", str(Path(anabranch.migrations.__file__).parent))
        configuration.attributes["connection"] = connection
        command.upgrade(configuration, "0001")
        connection.execute(_INSTANCE, {"instance_id": run_id})
        for seq, payload in ((1, '{"input": "ä"}'), (2, "{}")):
            connection.execute(_EVENT, {"instance_id": run_id, "seq": seq, "payload": payload})
    engine.dispose()

    ensure_schema(empty_url, auto_migrate=True)

    store = open_store(empty_url)
    await store.start()
    row = await store.get_instance(run_id)
    await store.stop()
    assert row is not None and row.log_bytes == len('{"input": "ä"}'.encode()) + 2

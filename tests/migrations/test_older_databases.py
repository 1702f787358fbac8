"""What an older release has written is still there, and means the same, after the newer migrations."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, text

import anabranch.migrations
from anabranch.engine.store.opening import dialect_of, open_store
from anabranch.migrations import ensure_schema
from anabranch.triggers.schedules.saved_schedules import Schedule
from anabranch.triggers.schedules.schedule_table import ScheduleTable
from anabranch.triggers.topics.saved_topics import Subscription
from anabranch.triggers.topics.topic_tables import TopicTable

_INSTANCE = text("""
    INSERT INTO workflow_instances (instance_id, tenant_id, workflow_name, workflow_version, kind, test, status,
        version, last_seq, starts_at, retention_days, created_at)
    VALUES (:instance_id, 'default', 'orders', 1, 'drawn', false, 'PENDING', 1, 0, 5, 30, 5)
""")

_EVENT = text("""
    INSERT INTO workflow_instance_logs (instance_id, seq, node_id, scope, event_type, payload, node_attempt, created_at)
    VALUES (:instance_id, :seq, '', '', 'INPUT_SET', :payload, 0, 5)
""")


_SCHEDULE = text("""
    INSERT INTO schedules (schedule_id, tenant_id, name, workflow, version, kind, cron, timezone, anchor_at, input,
        missed, enabled, next_at, last_at, last_instance_id, last_error, created_at, updated_at)
    VALUES (:schedule_id, 'acme', 'mornings', 'report', 2, 'cron', '0 9 * * *', 'Europe/Zurich', 7, :input, 'all', true,
        100, 50, :run_id, :error, 5, 6)
""")

_SUBSCRIPTION = text("""
    INSERT INTO topic_subscriptions (subscription_id, tenant_id, head, pattern, workflow, created_at)
    VALUES (:subscription_id, 'acme', 'orders', 'orders.*', 'report', 5)
""")


@contextmanager
def database_of(url: str, revision: str) -> Iterator[Connection]:
    """A connection to a database that has just been brought to an older schema."""
    dialect = dialect_of(url)
    engine = dialect.engine(commits=False)
    with engine.connect() as connection, dialect.transaction(connection):
        configuration = Config()
        configuration.set_main_option("script_location", str(Path(anabranch.migrations.__file__).parent))
        configuration.attributes["connection"] = connection
        command.upgrade(configuration, revision)
        yield connection
    engine.dispose()


async def test_runs_from_before_families_are_roots_and_nobodys_children(empty_url: str) -> None:
    run_id = str(uuid.uuid4())
    with database_of(empty_url, "0001") as connection:
        connection.execute(_INSTANCE, {"instance_id": run_id})

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
    with database_of(empty_url, "0001") as connection:
        connection.execute(_INSTANCE, {"instance_id": run_id})
        for seq, payload in ((1, '{"input": "ä"}'), (2, "{}")):
            connection.execute(_EVENT, {"instance_id": run_id, "seq": seq, "payload": payload})

    ensure_schema(empty_url, auto_migrate=True)

    store = open_store(empty_url)
    await store.start()
    row = await store.get_instance(run_id)
    await store.stop()
    assert row is not None and row.log_bytes == len('{"input": "ä"}'.encode()) + 2


async def test_schedules_and_subscriptions_from_before_are_triggers(empty_url: str) -> None:
    schedule_id, subscription_id, run_id = (str(uuid.uuid4()) for _ in range(3))
    with database_of(empty_url, "0022") as connection:
        values = {"schedule_id": schedule_id, "run_id": run_id, "subscription_id": subscription_id}
        connection.execute(_SCHEDULE, {**values, "input": '{"b": 1, "a": [1.50]}', "error": '{"code": "NOT_FOUND"}'})
        connection.execute(_SUBSCRIPTION, values)

    ensure_schema(empty_url, auto_migrate=True)

    store = open_store(empty_url)
    await store.start()
    [schedule] = await ScheduleTable(store).list_schedules(tenant_id="acme")
    [subscription] = await TopicTable(store).list_subscriptions(tenant_id="acme", pattern="orders.*")
    await store.stop()
    assert schedule == Schedule(
        schedule_id=schedule_id,
        tenant_id="acme",
        name="mornings",
        workflow="report",
        version=2,
        kind="cron",
        cron="0 9 * * *",
        timezone="Europe/Zurich",
        every_ms=None,
        anchor_at=7,
        input_={"b": 1, "a": [1.5]},
        missed="all",
        enabled=True,
        next_at=100,
        last_at=50,
        last_instance_id=run_id,
        last_error={"code": "NOT_FOUND"},
        created_at=5,
        updated_at=6,
    )
    assert subscription == Subscription(subscription_id, "acme", "orders.*", "orders", "report", 5)

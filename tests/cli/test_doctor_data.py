"""`doctor --data`: each of these corruptions, made by hand, is found and named, and a healthy database has none."""

from __future__ import annotations

import asyncio
import hashlib
import json
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, select, text

from anabranch import Client, Worker, workflow
from anabranch.app import build
from anabranch.engine.rules.event_payloads import RunSuspended
from anabranch.engine.rules.events import SuspendReason
from anabranch.engine.rules.shared.child_ids import child_id
from anabranch.engine.store.opening import dialect_of, open_store
from anabranch.engine.store.schema import metadata
from anabranch.engine.store.sql.housekeeping.housekeeping_statements import (
    BEGIN_COUNTING,
    COUNT_CHUNK,
    MOVE_COUNTED_UNTIL,
    RETENTIONS,
)
from anabranch.engine.store.sql.store import SqlStore
from anabranch.handlers.registry import builtin_types
from anabranch.service.data_check.data_doctor import DataDoctor, DataReport
from anabranch.service.data_check.data_finding import HINTS, DataFault
from anabranch.settings import Settings
from tests.cli.conftest import GREETING, Command


@workflow(name="dozes")
async def dozes(ctx: Any, input: Any) -> Any:
    await ctx.step.sleep("nap", "1h")


@workflow(name="doctor-hangs")
async def hangs(ctx: Any, input: Any) -> Any:
    await ctx.step.run("hang", asyncio.Event().wait)


def drawn(name: str, **middle: Any) -> dict[str, Any]:
    """A workflow of one node."""
    nodes = [{"id": "start", "type": "start"}, {"id": "node", **middle}]
    return {"name": name, "nodes": nodes, "edges": [{"upstreamNodeID": "start", "downstreamNodeID": "node"}]}


WAITS = drawn("waits", type="waitForEvent", config={"event": "go"})
CALLS = drawn("calls", type="workflow", config={"workflow": "waits"})
FAILS = drawn("fails", type="set", config={"values": {"x": "{{ctx.nothing.at.all}}"}})


async def _filled(url: str) -> dict[str, str]:
    """Runs of every kind: their ids by what they do."""
    async with Worker(url, workflows=[dozes, hangs], grace="0s"), Client(url) as client:
        async with build(Settings.load(database_url=url)).open_services(works=False) as services:
            for document in (GREETING, WAITS, CALLS, FAILS):
                await services.workflows.save_workflow(document, tenant_id="default", actor=None)
        runs = {}
        for name in ("greeting", "waits", "calls", "fails", "dozes"):
            runs[name] = (await client.start(name, {"name": "Ada"})).run_id
        paused = runs["paused"] = (await client.start("waits", {})).run_id
        child = child_id(runs["calls"], "node", "")
        for run_id in (*runs.values(), child):
            await _settled(client, run_id)
        hanging = runs["hangs"] = (await client.start("doctor-hangs", {})).run_id
        await _settled(client, hanging, ("RUNNING",))
        await client.pause(paused)
        runs["fork"] = (await client.fork(runs["waits"]))["instanceID"]
        reopened = runs["reopened"] = (await client.start("waits", {})).run_id
        in_an_hour = datetime.now(UTC) + timedelta(hours=1)
        defective = runs["defective"] = (await client.start("waits", {}, deadline_at=in_an_hour)).run_id
        for run_id in (runs["fork"], reopened, defective):
            await _settled(client, run_id)
        await client.cancel(reopened)
        await client.retry(reopened)
        await client.signal(reopened, "go", {})
        await _settled(client, reopened, ("COMPLETED",))
        await client.signal(runs["waits"], "else", {}, key="k")
        for _ in range(500):
            if (await client.get(runs["waits"]))["status"] == "WAITING":
                break
            await asyncio.sleep(0.02)
    async with _opened(url) as store:
        defect = RunSuspended(SuspendReason.ENGINE_DEFECT, "no", "Update.", "1.0")
        await store.append_suspension(defective, defect, tenant_id="default")
    return {**runs, "child": child}


async def _settled(client: Client, run_id: str, statuses: tuple[str, ...] = ("WAITING", "COMPLETED", "FAILED")) -> None:
    """Until it has ended or is parked."""
    while True:
        try:
            run = await client.get(run_id)
        except Exception:  # noqa: BLE001 -- the child may not be there yet
            run = {"status": "RUNNING"}
        if run["status"] in statuses:
            return
        await asyncio.sleep(0.02)


LOGS, RUNS = "workflow_instance_logs", "workflow_instances"

LIKE_IT = (
    "node_id, scope, event_type, node_status, next_handle, output_variable, payload, error_message, node_attempt,"
    " created_at"
)


def row(run: str, seq: str) -> str:
    """The condition for rows of a log; `{waits}` stands for the id of that run."""
    return f"instance_id = '{{{run}}}' AND seq {seq}"


def update(run: str, change: str) -> str:
    """Change the row of a run."""
    return f"UPDATE {RUNS} SET {change} WHERE instance_id = '{{{run}}}'"


def remove(run: str) -> str:
    """Remove the row of a run, and leave its log."""
    return f"DELETE FROM {RUNS} WHERE instance_id = '{{{run}}}'"


def again(run: str, condition: str) -> list[str]:
    """One more row like this one at the end of the log, and the row of the run knows it."""
    last = f"(SELECT last_seq + 1 FROM {RUNS} WHERE instance_id = '{{{run}}}')"
    which = f"instance_id = '{{{run}}}' AND {condition}"
    copied = f"INSERT INTO {LOGS} (instance_id, seq, {LIKE_IT}) SELECT instance_id, {last}, {LIKE_IT} FROM {LOGS}"
    return [f"{copied} WHERE {which}", update(run, "last_seq = last_seq + 1")]


def changed(run: str, change: str, condition: str) -> str:
    """Change rows of the log of a run."""
    return f"UPDATE {LOGS} SET {change} WHERE instance_id = '{{{run}}}' AND {condition}"


COUNTED_41 = (
    "INSERT INTO run_counts (tenant_id, workflow_id, status, runs)"
    f" SELECT tenant_id, workflow_id, 'FAILED', 41 FROM {RUNS} WHERE instance_id = '{{greeting}}'"
)


def value(content: str, *, named_like: str | None = None) -> str:
    """A large value, perhaps under the hash of another one."""
    return f"INSERT INTO stored_values VALUES ('{sha256(named_like or content)}', 'default', 4, '{content}')"


def reference(run: str, content: str) -> str:
    """A run refers to a value."""
    return f"INSERT INTO value_references VALUES ('{run}', '{sha256(content)}', 'default')"


def sha256(content: str) -> str:
    """The name of a value."""
    return hashlib.sha256(content.encode()).hexdigest()


COMPLETED = "event_type = 'NODE_COMPLETED'"

CORRUPTIONS: dict[DataFault, dict[str, list[str]]] = {
    DataFault.RUN_UNREADABLE: {
        "a status that no version knows": [update("greeting", "status = 'BANANA'")],
        "a reason that no version knows": [update("calls", "suspended_for = 'BANANA'")],
        "what is left out is no JSON": [update("child", "left_out = '{{'")],
        "a suspect without company": [update("waits", "company = 0")],
        "fewer crashes than none": [update("waits", "crashes = -1")],
    },
    DataFault.LOG_BROKEN: {
        "a row of a log is deleted": [f"DELETE FROM {LOGS} WHERE {row('greeting', '= 3')}"],
        "the last rows of a log are deleted": [f"DELETE FROM {LOGS} WHERE {row('waits', '> 4')}"],
    },
    DataFault.ENDING_REPEATED: {"an activation ends twice": ["DROP INDEX ux_log_ending", *again("waits", COMPLETED)]},
    DataFault.END_REPEATED: {"a run ends twice": again("greeting", "event_type = 'INSTANCE_COMPLETED'")},
    DataFault.LOG_UNREADABLE: {
        "an unknown row": [f"UPDATE {LOGS} SET event_type = 'NODE_EXPLODED' WHERE {row('greeting', '= 3')}"],
        "a row without its payload": [f"UPDATE {LOGS} SET payload = '[]' WHERE {row('greeting', '= 1')}"],
    },
    DataFault.VALUE_MISSING: {"a reference without its value": [reference("{greeting}", '"m"')]},
    DataFault.VALUE_DIFFERS: {
        "a value that was changed": [value('"yx"', named_like='"xy"'), reference("{greeting}", '"xy"')]
    },
    DataFault.VALUE_ORPHANED: {"a value that no run refers to": [value('"zz"')]},
    DataFault.VALUE_REFERENCE_ORPHANED: {
        "a reference without its run": [value('"ab"'), reference("00000000-0000-7000-8000-000000000000", '"ab"')]
    },
    DataFault.LOG_ORPHANED: {"a log without its run": [remove("fails")]},
    DataFault.LOG_ROW_DIFFERS: {
        "a status of a node that its row does not have": [changed("waits", "node_status = 'error'", COMPLETED)],
        "a completed node without its status": [changed("waits", "node_status = NULL", COMPLETED)],
        "a generation that the run does not have": [changed("waits", "generation = 7", COMPLETED)],
        "a generation before that of the run": [
            changed("reopened", "generation = 0", "event_type = 'NODE_COMPLETED' AND node_id = 'node'")
        ],
        "another message than the error's": [changed("fails", "error_message = 'x'", "event_type = 'NODE_FAILED'")],
        "a message without an error": [changed("fails", "error_message = 'x'", "event_type = 'NODE_DISPATCHED'")],
    },
    DataFault.LOG_SIZE_DIFFERS: {"a wrong size": [update("greeting", "log_bytes = log_bytes + 7")]},
    DataFault.STATUS_DIFFERS: {
        "a status that is not the log's": [update("greeting", "status = 'CANCELLED'")],
        "a generation that is not the log's": [update("greeting", "generation = 1")],
    },
    DataFault.TIMES_DIFFER: {
        "a run without its beginning": [update("greeting", "started_at = NULL")],
        "a run without its end": [update("greeting", "completed_at = NULL")],
    },
    DataFault.SUSPENSION_DIFFERS: {"a suspended run without a reason": [update("paused", "suspended_for = NULL")]},
    DataFault.ENDED_RUN_HELD: {"an ended run that is held": [update("greeting", "worker_id = 'w', available_at = 1")]},
    DataFault.LEASE_ENDLESS: {"a lease of years": [update("waits", "worker_id = 'w', available_at = 99999999999999")]},
    DataFault.RUN_STUCK: {
        "a timer that nobody wakes": [update("dozes", "available_at = NULL")],
        "a timer that is woken late": [update("dozes", "available_at = available_at + 1")],
        "a run that waits for a signal is due in years": [update("waits", "available_at = 99999999999999")],
        "a paused run is due in years": [update("paused", "available_at = 99999999999999")],
        "a suspect is due in years": [update("dozes", "company = 1, available_at = 99999999999999")],
    },
    DataFault.SIGNAL_REPEATED: {
        "a signal is stored twice": ["DROP INDEX ux_log_signal_key", *again("waits", "event_type = 'SIGNAL_RECEIVED'")]
    },
    DataFault.DEFINITION_MISSING: {
        "a version is gone": ["DELETE FROM workflow_versions WHERE name = 'greeting'"],
        "a definition is none": ["UPDATE workflow_versions SET definition = '7' WHERE name = 'greeting'"],
        "the active version is gone": ["UPDATE workflows SET active_version = 99 WHERE name = 'greeting'"],
    },
    DataFault.CHILD_MISSING: {"a child is gone": [remove("child")]},
    DataFault.CHILD_ABANDONED: {"a parent is gone": [remove("calls")]},
    DataFault.PARENT_NOT_WOKEN: {
        "a parent has not heard": [update("child", "status = 'CANCELLED', completed_at = 1, available_at = NULL")]
    },
    DataFault.FAMILY_DIFFERS: {
        "a child of another depth": [update("child", "depth = 7")],
        "a child of another run": [update("child", "parent_id = '{fails}', root_id = '{fails}'")],
        "a child without its parent": [update("child", "parent_id = NULL")],
        "a fork without its origin": [update("fork", "forked_from = NULL")],
        "a fork of another run": [update("fork", "forked_from = '{fails}'")],
        "a run that is no fork": [update("greeting", "forked_from = '{fails}'")],
    },
    DataFault.COUNTS_DIFFER: {
        "a wrong count": [COUNTED_41],
        "no counters": ["DELETE FROM run_counts"],
        "a counter is gone": ["DELETE FROM run_counts WHERE status = 'COMPLETED'"],
    },
    DataFault.INDEX_MISSING: {"an index is gone": ["DROP INDEX ux_log_attempt"]},
}

TABLES = ("stored_values", "value_references", RUNS, LOGS, "workflow_versions", "workflows", "run_counts")


@contextmanager
def _restored(connection: Connection, index_names: str) -> Iterator[None]:
    """What is changed within is undone at the end."""
    tables = [metadata.tables[name] for name in TABLES]
    before = {table: [dict(row._mapping) for row in connection.execute(select(table))] for table in tables}
    try:
        yield
    finally:
        for table, rows in before.items():
            connection.execute(table.delete())
            if rows:
                connection.execute(table.insert(), rows)
            for index in table.indexes:
                if index.name not in connection.execute(text(index_names)).scalars().all():
                    index.create(connection)


@asynccontextmanager
async def _opened(url: str) -> AsyncIterator[SqlStore]:
    store = open_store(url)
    await store.start()
    try:
        yield store
    finally:
        await store.stop()


def _count(connection: Connection) -> None:
    """Count all ended runs, as housekeeping does after some minutes."""
    until = connection.execute(text(f"SELECT max(completed_at) FROM {RUNS}")).scalar_one()
    connection.execute(BEGIN_COUNTING)
    connection.execute(MOVE_COUNTED_UNTIL, {"until": until})
    for days in connection.execute(RETENTIONS).scalars().all():
        connection.execute(COUNT_CHUNK, {"retention_days": days, "after": 0, "until": until})


async def _checked(store: SqlStore) -> DataReport:
    return await DataDoctor(store, builtin_types(), look_again_s=0).check()


async def test_each_corruption_is_found_and_named_and_a_healthy_database_has_none(database_url: str) -> None:
    runs = await _filled(database_url)
    missed = {}
    dialect = dialect_of(database_url)
    engine = dialect.engine(commits=False)
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        _count(connection)
    async with _opened(database_url) as store:
        healthy = await _checked(store)
        assert [finding.message for finding in healthy.findings] == []
        assert healthy.runs == len(runs)
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            for fault, ways in CORRUPTIONS.items():
                for name, statements in ways.items():
                    with _restored(connection, dialect.index_names):
                        for statement in statements:
                            changed = connection.execute(text(statement.format(**runs)))
                            assert changed.rowcount != 0, name
                        found = await _checked(store)
                    if fault not in {finding.fault for finding in found.findings}:
                        missed[name] = [(finding.fault, finding.message) for finding in found.findings]
        assert missed == {}
        assert (await _checked(store)).findings == []
    engine.dispose()


def test_every_fault_has_a_corruption_that_shows_it_and_says_what_to_do() -> None:
    assert CORRUPTIONS.keys() == set(DataFault) == HINTS.keys()
    assert sum(map(len, CORRUPTIONS.values())) >= 12


def test_the_command_names_the_run_and_says_what_to_do(anabranch: Command, folder: Path) -> None:
    (folder / "greeting.json").write_text(json.dumps(GREETING))
    run_id = anabranch("run", "greeting.json", "--input", '{"name": "Ada"}', "--json").document["instanceID"]
    healthy = anabranch("doctor", "--data")
    with sqlite3.connect(".anabranch/anabranch.db") as connection:
        connection.execute("UPDATE workflow_instances SET status = 'CANCELLED'")
    connection.close()

    printed, document = anabranch("doctor", "--data"), anabranch("doctor", "--data", "--json")

    assert (healthy.code, healthy.out) == (0, "checked 1 run with 8 rows: nothing is wrong\n")
    assert (printed.code, document.code) == (1, 1)
    assert f"STATUS_DIFFERS run {run_id}: the row says CANCELLED, the log COMPLETED" in printed.out
    assert "hint for STATUS_DIFFERS: The log is right." in printed.out
    (finding,) = document.document["findings"]
    assert (finding["code"], finding["instanceID"]) == ("STATUS_DIFFERS", run_id)


def test_without_a_database_there_is_nothing_to_check(anabranch: Command, folder: Path) -> None:
    printed = anabranch("doctor", "--data")
    assert printed.code == 2
    assert list(folder.iterdir()) == []

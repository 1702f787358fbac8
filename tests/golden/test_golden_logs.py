"""What older versions stored means the same to this one: migrated, read, folded, and brought to its end.

Each file of this folder is a database as its version left it when it was killed, what that version read in it, and
how its runs ended there (`record.py`). A change that breaks one of them breaks runs that people have.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, text

import anabranch.migrations
from anabranch import Client, Worker
from anabranch.engine.store.opening import dialect_of
from anabranch.errors import RunCancelled, RunFailed
from anabranch.migrations import ensure_schema
from tests.golden import later, nodes
from tests.golden.cases import CASES
from tests.golden.describing import describe_all, faults_of

RECORDINGS = sorted(Path(__file__).parent.glob("*.json"))
RUNS_MIN = 60
ENDED_IN_S = 60


@pytest.fixture(params=["sqlite", "postgresql"])
def empty_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of a database without any table."""
    if request.param == "postgresql":
        yield str(request.getfixturevalue("empty_postgres_url"))
    else:
        yield f"sqlite:///{tmp_path / 'golden.db'}"


def restore(recording: Mapping[str, Any], url: str) -> None:
    """Put a recording into an empty database, in the schema of its version."""
    dialect = dialect_of(url)
    engine = dialect.engine(commits=False)
    with engine.connect() as connection, dialect.transaction(connection):
        configuration = Config()
        configuration.set_main_option("script_location", str(Path(anabranch.migrations.__file__).parent))
        configuration.attributes["connection"] = connection
        command.upgrade(configuration, recording["schema"])
        for name, rows in recording["tables"].items():
            _insert(connection, name, rows)
    engine.dispose()


def _insert(connection: Connection, name: str, rows: list[dict[str, Any]]) -> None:
    """What is recorded is SQLite's form of the values: JSON and ids as text, truth as numbers."""
    types: dict[str, str] = {}
    if connection.dialect.name == "postgresql":
        found = connection.execute(_COLUMNS, {"name": name})
        types = {row.column_name: row.data_type for row in found}
    values = ", ".join(f"CAST(:{key} AS {types[key]})" if key in types else f":{key}" for key in rows[0])
    connection.execute(text(f"DELETE FROM {name}"))  # a migration may have put the first row there
    for row in rows:
        given = {key: str(value) if types.get(key) == "boolean" else value for key, value in row.items()}
        connection.execute(text(f"INSERT INTO {name} ({', '.join(row)}) VALUES ({values})"), given)


_COLUMNS = text("SELECT column_name, data_type FROM information_schema.columns WHERE table_name = :name")


@pytest.mark.parametrize("file", RECORDINGS, ids=lambda file: file.stem)
async def test_runs_of_an_older_version_read_fold_and_end_as_they_did_there(
    file: Path, empty_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recording = _read(file)
    runs = recording["runs"]
    restore(recording, empty_url)

    ensure_schema(empty_url, auto_migrate=True)

    async with Client(empty_url) as client:
        for run in runs:
            view = await client.get(run["runID"])
            assert known_then(view, run["view"]) == run["view"], f"case {run['case']}: read otherwise"
    states = await describe_all(empty_url, [run["runID"] for run in runs])
    for run in runs:
        assert _as_json(states[run["runID"]]) == run["state"], f"case {run['case']}: folded otherwise"

    assert await faults_of(empty_url, [run["runID"] for run in runs]) == []

    monkeypatch.setenv("GOLDEN_DIR", str(tmp_path))
    (tmp_path / "release").touch()
    functions = (*nodes.CODED, later.later_versions)
    async with Client(empty_url) as client:
        for run in runs:  # before anybody works: what was recorded as open is due by now, and signals came first there
            for event, payload in CASES[run["case"]].finish:
                await client.signal(run["runID"], event, payload)
    _keep_all(empty_url)
    async with (
        asyncio.timeout(ENDED_IN_S),
        Worker(empty_url, workflows=functions, lease="5s"),
        Client(empty_url) as client,
    ):
        for run in runs:
            ended = await _ended(client, run["runID"])
            assert _result(ended) == _result(run["end"]), f"case {run['case']}: ended otherwise"
    assert await faults_of(empty_url, [run["runID"] for run in runs]) == []


def _keep_all(url: str) -> None:
    """Test runs are kept for a day: the worker would remove recorded ones, whose day is over."""
    dialect = dialect_of(url)
    engine = dialect.engine(commits=False)
    with engine.connect() as connection, dialect.transaction(connection):
        connection.execute(text("UPDATE workflow_instances SET retention_days = 36500"))
    engine.dispose()


def known_then(shown: Any, recorded: Any) -> Any:
    """What is shown now, without the fields of objects that were not there then."""
    if isinstance(shown, dict) and isinstance(recorded, dict):
        return {key: known_then(shown[key], recorded[key]) for key in recorded if key in shown}
    if isinstance(shown, list) and isinstance(recorded, list) and len(shown) == len(recorded):
        return [known_then(*pair) for pair in zip(shown, recorded, strict=True)]
    return shown


def test_a_recording_has_every_form_of_event_and_runs_of_every_status() -> None:
    for file in RECORDINGS:
        recording = _read(file)
        kinds = {row["event_type"] for row in recording["tables"]["workflow_instance_logs"]}
        statuses = {row["status"] for row in recording["tables"]["workflow_instances"]}
        assert len(recording["runs"]) >= RUNS_MIN
        assert kinds == EVENTS_OF[file.stem]
        assert statuses >= {"RUNNING", "WAITING", "COMPLETED", "FAILED", "CANCELLED"}


EVENTS_OF = {
    "0.1.0": {
        "INPUT_SET", "SYSTEM_SET", "NODE_DISPATCHED", "NODE_WAITING", "NODE_ATTEMPT_FAILED", "NODE_COMPLETED",
        "NODE_FAILED", "NODE_SKIPPED", "LOOP_OPENED", "SIGNAL_RECEIVED", "INSTANCE_RECOVERED", "INSTANCE_COMPLETED", "INSTANCE_FAILED",
        "INSTANCE_CANCELLED",
    }
}  # fmt: skip
"""The forms of events that each version knew."""


async def _ended(client: Client, run_id: str) -> dict[str, Any]:
    with contextlib.suppress(RunFailed, RunCancelled):
        await client.result(run_id)
    return await client.get(run_id)


def _result(run: Mapping[str, Any]) -> dict[str, Any]:
    """How a run ended, and how each of its nodes did; attempts too, times not."""
    steps = {(node["nodeID"], node["scope"]): (node["status"], node["attempt"]) for node in run["nodes"]}
    return {"status": run["status"], "output": run["output"], "error": run["error"], "nodes": steps}


def _read(file: Path) -> dict[str, Any]:
    recording: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return recording


def _as_json(value: Any) -> Any:
    return json.loads(json.dumps(value))

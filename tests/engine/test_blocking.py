"""Handlers that block: plain functions in threads, and those that block the event loop."""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import text

from anabranch.engine import threads as threads_module
from anabranch.engine.store.opening import open_store
from tests.engine import nodes
from tests.engine.conftest import MakeProcess, Process, until
from tests.engine.drawing import QUICK_RETRY, drawn, node

PATIENCE_S = 30.0
LEASE_MS = 1_500


def threaded(name: str, **fields: Any) -> dict[str, Any]:
    return drawn(name, node("work", "testThreaded", config={"name": name}, **fields))


def blocking(name: str, **fields: Any) -> dict[str, Any]:
    return drawn(name, node("work", "testBlocks", config={"name": name}, **fields))


# -- plain functions ------------------------------------------------------------------------------
async def test_a_plain_function_runs_in_a_thread_with_the_context_variables_of_its_job(
    make_process: MakeProcess,
) -> None:
    nodes.author.set("who started the worker")
    process, loops = await make_process(), threading.get_ident()
    nodes.threads["plain"] = lambda helpers: [threading.get_ident() != loops, helpers.attempt, nodes.author.get()]
    run = await process.run(threaded("plain"))
    assert (await process.ended(run))["status"] == "COMPLETED"
    events = await process.service.get_events(run, tenant_id="default")
    (output,) = [event.payload.value for event in events if (event.type, event.node_id) == ("NODE_COMPLETED", "work")]
    assert output == [True, 1, "who started the worker"]


async def test_what_a_plain_function_raises_fails_its_attempt(process: Process) -> None:
    def fail(helpers: Any) -> None:
        raise StopIteration("odd, but possible") if helpers.attempt == 1 else SystemExit(3)

    nodes.threads["raises"] = fail
    document = threaded("raises", retry={**QUICK_RETRY, "maxAttempts": 2}, errorHandling="fail_workflow")
    ended = await process.ended(await process.run(document))
    assert (ended["status"], ended["error"]["type"], ended["error"]["attempt"]) == ("FAILED", "SystemExit", 2)


async def test_attempts_of_one_activation_do_not_overlap_though_a_thread_cannot_be_stopped(process: Process) -> None:
    may_end, told, at_once = threading.Event(), [], []

    def stubborn(helpers: Any) -> str:
        at_once.append(helpers.attempt)
        may_end.wait(PATIENCE_S)
        told.append(helpers.cancelled.is_set())
        at_once.remove(helpers.attempt)
        return "too late"

    nodes.threads["stubborn"] = stubborn
    document = threaded(
        "stubborn", timeout="100ms", retry={**QUICK_RETRY, "maxAttempts": 3}, errorHandling="fail_workflow"
    )
    ended = await process.ended(await process.run(document))
    assert ended["error"]["code"] == "NODE_TIMEOUT"
    assert "an earlier attempt of it still runs in its thread" in ended["error"]["message"]
    assert at_once == [1], "the second and the third attempt did not begin beside it"
    assert (process.engine.threads.running, process.engine.threads.overrun) == (1, 1)

    may_end.set()
    await until(lambda: process.engine.threads.running == 0)
    assert (told, process.engine.threads.overrun) == ([True], 0)


async def test_threads_are_bounded_and_others_wait_for_one(
    make_process: MakeProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = await make_process()
    process.engine.threads._threads_max = 1
    may_end = threading.Event()
    nodes.threads["first"] = lambda helpers: may_end.wait(PATIENCE_S)
    nodes.threads["second"] = lambda helpers: "it had its turn"
    first = await process.run(threaded("first"))
    await until(lambda: process.engine.threads.running == 1)
    impatient = threaded("second", timeout="50ms", retry={"maxAttempts": 1}, errorHandling="fail_workflow")
    failed = await process.ended(await process.run(impatient))
    assert "all 1 threads for handlers are taken, 0 by attempts that are over" in failed["error"]["message"]

    second = await process.run(drawn("patient", node("work", "testThreaded", config={"name": "second"})))
    may_end.set()
    assert (await process.ended(first))["status"] == "COMPLETED"
    assert (await process.ended(second))["status"] == "COMPLETED"
    assert threads_module.THREADS_MAX >= 64


# -- a blocked event loop -------------------------------------------------------------------------
@pytest.mark.parametrize("name", ["at-once", "later"])
async def test_a_handler_that_blocks_the_loop_past_its_timeout_has_timed_out(process: Process, name: str) -> None:
    nodes.threads[name] = lambda helpers: time.sleep(0.3)
    document = blocking(name, timeout="100ms", retry={"maxAttempts": 1}, errorHandling="fail_workflow")
    ended = await process.ended(await process.run(document))
    assert (ended["status"], ended["error"]["code"]) == ("FAILED", "NODE_TIMEOUT")
    assert re.search(r"it blocked the event loop for \d+\.\d", ended["error"]["message"])


async def test_leases_are_kept_while_a_handler_blocks_the_loop_and_the_culprit_is_named(
    make_process: MakeProcess, database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "anabranch.engine")
    worker = await make_process(lease_ms=LEASE_MS)
    neighbour = await worker.run(drawn("neighbour", node("gate", "testGate", config={"gate": "neighbour"})))
    await worker.log.saw("NODE_DISPATCHED", "gate")
    moved: list[int] = []

    def block_until_the_lease_was_moved(helpers: Any) -> None:
        with _leases(database_url) as lease_of:
            moved.append(lease_of(neighbour))
            give_up_at = time.monotonic() + PATIENCE_S
            while time.monotonic() < give_up_at and (
                moved[-1] - moved[0] <= LEASE_MS or worker.engine.loop_watch.blockings == 0
            ):
                if (now := lease_of(neighbour)) != moved[-1]:
                    moved.append(now)

    nodes.threads["culprit"] = block_until_the_lease_was_moved
    culprit = await worker.run(blocking("culprit"))
    assert (await worker.ended(culprit))["status"] == "COMPLETED"
    assert moved[-1] - moved[0] > LEASE_MS, "it was blocked for longer than a lease"
    assert worker.engine.orchestrator.owns(neighbour)
    nodes.open_gate("neighbour")
    assert (await worker.ended(neighbour))["status"] == "COMPLETED"
    events = await worker.service.get_events(neighbour, tenant_id="default")
    assert not [event for event in events if event.type == "INSTANCE_RECOVERED"]
    assert set(nodes.calls.values()) == {1}

    (line,) = [record for record in caplog.records if "event loop is blocked" in record.getMessage()]
    assert f"by node 'work' of run {culprit}" in line.getMessage()
    assert "block_until_the_lease_was_moved" in line.getMessage()
    assert "\n" not in line.getMessage()
    assert worker.engine.loop_watch.blockings == 1


async def test_engines_on_one_event_loop_tell_of_a_blocking_once(
    make_process: MakeProcess, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "anabranch.engine")
    watching = ["loop-watch"]
    worker, client = await make_process(), await make_process(works=False)
    assert [thread.name for thread in threading.enumerate() if thread.name in watching] == watching
    watches = (worker.engine.loop_watch, client.engine.loop_watch)

    def block_until_it_was_noticed(helpers: Any) -> None:
        give_up_at = time.monotonic() + PATIENCE_S
        while not all(watch.blockings for watch in watches) and time.monotonic() < give_up_at:
            time.sleep(0.01)

    nodes.threads["culprit"] = block_until_it_was_noticed
    culprit = await worker.run(blocking("culprit"))
    assert (await worker.ended(culprit))["status"] == "COMPLETED"
    assert [watch.blockings for watch in watches] == [1, 1]
    (line,) = [record for record in caplog.records if "event loop is blocked" in record.getMessage()]
    assert f"by node 'work' of run {culprit}" in line.getMessage()

    await worker.engine.stop()
    assert [thread.name for thread in threading.enumerate() if thread.name in watching] == watching, "one is left"
    await client.engine.stop()
    await until(lambda: not [thread for thread in threading.enumerate() if thread.name in watching])


async def test_leases_lapse_when_the_loop_is_blocked_for_longer_than_they_are_kept(
    make_process: MakeProcess, database_url: str
) -> None:
    worker = await make_process(lease_ms=LEASE_MS, blocked_max_ms=0)
    neighbour = await worker.run(drawn("neighbour", node("gate", "testGate", config={"gate": "neighbour"})))
    await worker.log.saw("NODE_DISPATCHED", "gate")
    leases: list[int] = []

    def block_until_the_lease_has_lapsed(helpers: Any) -> None:
        with _leases(database_url) as lease_of:
            give_up_at = time.monotonic() + PATIENCE_S
            while time.monotonic() < give_up_at:
                leases.append(lease_of(neighbour))
                if leases[-1] < time.time() * 1000:
                    return

    nodes.threads["hangs"] = block_until_the_lease_has_lapsed
    await worker.run(blocking("hangs"))
    await until(lambda: leases and leases[-1] < time.time() * 1000)
    assert len(set(leases)) <= 2, "nobody moved it; once a commit that was on its way may have"
    nodes.open_gate("neighbour")
    assert (await worker.ended(neighbour))["status"] == "COMPLETED", "and it is taken up again"


class _leases:  # noqa: N801 -- used like a function
    """Gives the end of a run's lease by a connection that needs no event loop."""

    def __init__(self, database_url: str) -> None:
        self._engine = open_store(database_url).dialect.engine(commits=False)

    def __enter__(self) -> Callable[[str], int]:
        self._connection = self._engine.connect()
        asked = text("SELECT available_at FROM workflow_instances WHERE instance_id = :id")
        return lambda run: int(self._connection.execute(asked, {"id": run}).scalar_one() or 0)

    def __exit__(self, *_: object) -> None:
        self._connection.close()
        self._engine.dispose()

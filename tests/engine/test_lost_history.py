"""A database that goes back to a past which a process has acted upon: what it had lost is set aside, and nothing is
done twice unasked.
"""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest
from sqlalchemy import text

from anabranch.engine.clock import SystemClock
from anabranch.engine.observers import REMEMBERED_MS, Acknowledged
from anabranch.engine.ownership.history_watch import HistoryWatch
from anabranch.engine.rules.event_payloads import RunSuspended
from anabranch.engine.rules.events import EventType, SuspendReason
from anabranch.errors import StoreUnavailable
from tests.engine import nodes
from tests.engine.conftest import TENANT, MakeProcess, Process, until
from tests.engine.drawing import drawn, node


async def take_back(process: Process, run_id: str, *, rows: int) -> None:
    """Let the database forget everything of a run after its first rows, as a restored backup would."""
    log = await process.engine.store.read_log(run_id)
    lost = {"run": run_id, "rows": rows, "before": len(log) - rows}

    def forget(connection: Any) -> None:
        connection.execute(text("DELETE FROM workflow_instance_logs WHERE instance_id = :run AND seq > :rows"), lost)
        connection.execute(
            text("""
                UPDATE workflow_instances SET version = version - :before, last_seq = :rows, status = 'RUNNING',
                    completed_at = NULL WHERE instance_id = :run
            """),
            lost,
        )

    await process.engine.store.write(forget)  # type: ignore[attr-defined]


async def suspended(process: Process, run_id: str) -> dict[str, Any]:
    await process.log_has(run_id, EventType.INSTANCE_SUSPENDED)
    shown: dict[str, Any] = await process.service.get_run(run_id, tenant_id=TENANT)
    return shown


async def test_an_owned_run_that_lost_rows_is_suspended_and_executes_nothing_more(make_process: MakeProcess) -> None:
    owner, other = await make_process(), await make_process(works=False)
    run_id = await owner.run(
        drawn(
            "owned-loses",
            node("first", "testGate", config={"gate": "1"}),
            node("then", "testGate", config={"gate": "2"}),
        )
    )
    nodes.open_gate("1")
    await until(lambda: nodes.calls.total() == 2)
    await owner.log.saw("NODE_DISPATCHED", "then")

    await take_back(other, run_id, rows=2)

    shown = await suspended(other, run_id)
    assert (shown["status"], shown["suspendedFor"], shown["worker"]) == ("SUSPENDED", "HISTORY_LOST", None)
    assert shown["suspended"]["message"].startswith("rows 3 to ")
    assert "idempotency keys" in shown["suspended"]["hint"]
    await until(lambda: not owner.engine.orchestrator.owns(run_id))
    assert nodes.calls.total() == 2, "neither node was executed once more"
    assert nodes.stopped == ["then"], "and what had begun is stopped"


async def test_a_run_that_ended_here_is_suspended_when_its_end_is_lost_and_can_be_resumed(
    process: Process, caplog: pytest.LogCaptureFixture
) -> None:
    document = drawn("ended-loses", node("only", "testFails", config={"times": 0}))
    run_id, whole_id = await process.run(document), await process.run(document)
    await process.ended(run_id)
    await process.ended(whole_id)
    assert nodes.calls.total() == 2
    await take_back(process, run_id, rows=2)

    await process.engine.history.compare()

    shown = await suspended(process, run_id)
    assert shown["suspendedFor"] == "HISTORY_LOST"
    assert f"run {run_id} is suspended" in caplog.text
    assert whole_id not in caplog.text, "what has all its rows is left alone"
    await process.engine.history.compare()
    await process.service.resume_run(run_id, tenant_id=TENANT, by="Ada")
    assert (await process.ended(run_id))["status"] == "COMPLETED"
    assert nodes.calls.total() == 3, "on request, under the same key"
    assert len(nodes.calls) == 2


async def test_a_run_that_is_suspended_in_the_past_that_came_back_is_set_aside_and_does_not_go_on_by_itself(
    process: Process,
) -> None:
    run_id = await process.run(drawn("unserved-then", node("only", "testFails", config={"times": 0})))
    await process.ended(run_id)
    await take_back(process, run_id, rows=2)
    unserved = RunSuspended(SuspendReason.UNKNOWN_NODE_TYPE, "no worker knew it then", "Start one.")
    await process.engine.store.append_suspension(run_id, unserved, tenant_id=TENANT)

    await process.engine.history.compare()

    shown = await process.service.get_run(run_id, tenant_id=TENANT)
    assert (shown["status"], shown["suspendedFor"]) == ("SUSPENDED", "HISTORY_LOST")
    await process.engine.claimer.claim_once()
    await process.engine.history.compare()
    types = [event.type for event in await process.engine.store.read_log(run_id)]
    assert types[-1] is EventType.INSTANCE_SUSPENDED
    assert types.count(EventType.INSTANCE_SUSPENDED) == 2
    assert nodes.calls.total() == 1, "it was not done once more"


async def test_a_run_that_was_done_again_by_another_process_is_noticed_by_the_time_of_its_row(process: Process) -> None:
    run_id = await process.run(drawn("rewritten", node("wait", "waitForEvent", config={"event": "go"})))
    await process.log.saw("NODE_WAITING", "wait")
    again = text("UPDATE workflow_instance_logs SET created_at = created_at + 1 WHERE instance_id = :run")
    await process.engine.store.write(lambda connection: connection.execute(again, {"run": run_id}))  # type: ignore[attr-defined]

    await process.engine.history.compare()

    shown = await suspended(process, run_id)
    assert "is not the one that was stored" in shown["suspended"]["message"]


async def test_runs_that_are_gone_altogether_are_named_in_the_log_once(
    process: Process, caplog: pytest.LogCaptureFixture
) -> None:
    run_id = await process.run(drawn("gone", node("only")))
    await process.ended(run_id)
    await process.engine.store.delete_run(tenant_id=TENANT, instance_id=run_id)

    await process.engine.history.compare()
    await process.engine.history.compare()

    assert caplog.text.count(run_id) == 1
    assert "1 runs that were stored are not there any more" in caplog.text


async def test_a_run_that_somebody_else_advances_meanwhile_is_not_mistaken_for_a_lost_one(
    make_process: MakeProcess,
) -> None:
    owner, other = await make_process(), await make_process()
    run_id = await owner.run(drawn("signalled", node("wait", "waitForEvent", config={"event": "go"}), node("after")))
    await owner.log.saw("NODE_WAITING", "wait")
    await other.service.send_signal(run_id, "go", None, tenant_id=TENANT)
    await other.ended(run_id)

    await asyncio.gather(owner.engine.history.compare(), other.engine.history.compare())

    log = await owner.engine.store.read_log(run_id)
    assert EventType.INSTANCE_SUSPENDED not in [event.type for event in log]


async def test_a_server_that_refuses_to_tell_its_line_keeps_no_process_from_starting() -> None:
    class Untold:
        asked = 0

        async def epoch(self) -> None:
            self.asked += 1
            if self.asked == 1:  # as PostgreSQL does where pg_control_system() may not be executed
                raise StoreUnavailable("permission denied for function pg_control_system")

    store, clock = Untold(), SystemClock()
    watch = HistoryWatch(store=cast("Any", store), acknowledged=Acknowledged(clock), clock=clock, every_ms=1_000)
    await watch.start()
    assert store.asked == 2
    await watch.stop()


async def test_without_epochs_old_rows_are_forgotten_all_the_same() -> None:
    class NoEpochs:
        asked = 0

        async def epoch(self) -> None:
            self.asked += 1

    class Slept(SystemClock):
        past_s = 0.0

        def __init__(self) -> None:
            super().__init__()
            self.sleeps: list[int] = []
            self.enough = asyncio.Event()

        def monotonic(self) -> float:
            return self.past_s

        async def sleep(self, ms: int) -> None:
            self.past_s += ms / 1000 + 1
            self.sleeps.append(ms)
            if len(self.sleeps) > 2:
                self.enough.set()
                await asyncio.Event().wait()

    store, clock = NoEpochs(), Slept()
    acknowledged = Acknowledged(clock)
    acknowledged.note("run", 7)
    watch = HistoryWatch(store=cast("Any", store), acknowledged=acknowledged, clock=clock, every_ms=1_000)
    await watch.start()
    await clock.enough.wait()
    assert (acknowledged.last_seq("run"), acknowledged.all(), store.asked) == (0, {}, 1)
    assert clock.sleeps == [REMEMBERED_MS] * 3
    await watch.stop()

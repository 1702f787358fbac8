"""What watchers are told of a log: its context is the engine's own, and nothing in it counts twice."""

from __future__ import annotations

from typing import Any

import pytest

from anabranch.engine.console.console_rows import ProgressReport
from anabranch.engine.console.lines import Progress
from anabranch.engine.rules.events import Event, EventType, Status
from anabranch.engine.rules.evolve import fold
from anabranch.engine.rules.values import EMPTY, Payload
from anabranch.sockets.watcher_updates import CONTEXT_BYTES_MAX, ITERATION_NODES_MAX, RunProgress
from tests.engine.conftest import TENANT, MakeProcess, Process, fresh_nodes, make_process, process
from tests.engine.drawing import drawn, node
from tests.engine.nodes import open_gate

__all__ = ["fresh_nodes", "make_process", "process"]

RUN = "0190b5a0-0000-7000-8000-000000000001"
FAILS = {"times": 9, "final": True}
SHAPES = {
    "chain": drawn("chain", node("a", outputVariable="x"), node("b", outputVariable="x"), node("end", "end")),
    "handled": drawn(
        "handled",
        node("bad", "testFails", config=FAILS, outputVariable="went", errorHandling="continue"),
        node("after"),
        edges=[("start", "bad"), ("bad", "after", "error")],
    ),
    "ignored": drawn("ignored", node("bad", "testFails", config=FAILS, outputVariable="y", errorHandling="ignore")),
    "unhandled": drawn("unhandled", node("bad", "testFails", config=FAILS, outputVariable="z")),
    "looping": drawn(
        "looping",
        node("each", "loop", config={"source": "{{ctx.input.items}}"}, outputVariable="all"),
        node("work", config={"values": {"v": "{{ctx.item}}"}}, outputVariable="inner"),
        node("after"),
        edges=[("start", "each"), ("each", "work", "loop"), ("each", "after", "done")],
    ),
}


@pytest.mark.parametrize("shape", SHAPES)
async def test_the_context_is_the_one_that_the_engine_folds(process: Process, shape: str) -> None:
    run_id = await process.run(SHAPES[shape], {"items": [1, 2, 3]})
    await process.ended(run_id)
    loaded = (await process.engine.store.load([run_id]))[run_id]
    state = fold(await process.engine.plans.plan_of(loaded.row.head), loaded.row.head, loaded.events)
    expected = dict(state.context_of(state.root))
    end = told(loaded.events, loaded.row.status)[-1]
    assert end["contextData"] == expected and end["status"] == loaded.row.status.value


async def test_events_that_were_told_before_are_passed_over(process: Process) -> None:
    run_id = await process.run(SHAPES["chain"])
    await process.ended(run_id)
    loaded = (await process.engine.store.load([run_id]))[run_id]
    progress = RunProgress(RUN)
    first = progress.take(loaded.events[:4], Status.RUNNING)
    rest = progress.take(loaded.events[2:], loaded.row.status)
    assert [each.data for each in [*first, *rest]] == told(loaded.events, loaded.row.status)
    assert progress.take(loaded.events, loaded.row.status) == []


async def test_a_context_over_its_limit_is_not_told(process: Process) -> None:
    copies = [node(f"n{number}", config={"values": {"v": "{{ctx.input}}"}}) for number in range(3)]
    run_id = await process.run(drawn("large", *copies), "x" * (CONTEXT_BYTES_MAX // 3))
    await process.ended(run_id)
    loaded = (await process.engine.store.load([run_id]))[run_id]
    end = told(loaded.events, loaded.row.status)[-1]
    assert end["status"] == "COMPLETED" and end["contextData"] is None


async def test_a_takeover_is_told_as_a_status_update_that_says_how_often(make_process: MakeProcess) -> None:
    dead, worker = await make_process(lease_ms=6_000), await make_process()
    run_id = await dead.run(drawn("long", node("gate", "testGate", config={"gate": "taken-over"})))
    await dead.log.saw("NODE_DISPATCHED", "gate")
    dead.crash()
    await worker.ends_leases_of(dead)
    await worker.log.saw("INSTANCE_RECOVERED", instance_id=run_id)
    open_gate("taken-over")
    await worker.ended(run_id)
    loaded = (await worker.engine.store.load([run_id]))[run_id]

    statuses = [each for each in told(loaded.events, loaded.row.status) if "nodeID" not in each]
    assert [each["status"] for each in statuses] == ["RUNNING", "RUNNING", "COMPLETED"]
    assert [each.get("recoveries") for each in statuses] == [None, 1, None]
    (recovered,) = [event for event in loaded.events if event.type == "INSTANCE_RECOVERED"]
    assert statuses[1]["seq"] == recovered.seq
    assert {*statuses[1]} == {*statuses[0], "recoveries"}


async def test_watchers_are_told_when_a_run_is_paused_and_when_it_goes_on(process: Process) -> None:
    run_id = await process.run(drawn("stands-still", node("wait", "waitForEvent", config={"event": "go"})))
    await process.log.saw("NODE_WAITING", "wait")
    await process.service.pause_run(run_id, tenant_id=TENANT, by="Ada")
    await process.service.resume_run(run_id, tenant_id=TENANT, by="Ada")
    await process.service.send_signal(run_id, "go", 1, tenant_id=TENANT)
    await process.ended(run_id)
    loaded = (await process.engine.store.load([run_id]))[run_id]

    statuses = [each["status"] for each in told(loaded.events, loaded.row.status) if "nodeID" not in each]
    assert statuses[1:] == ["SUSPENDED", "RUNNING", "COMPLETED"]


def told(events: Any, status: Status) -> list[dict[str, Any]]:
    """All that a watcher from the beginning is told."""
    return [each.data for each in RunProgress(RUN).take(events, status)]


def row(seq: int, type_: EventType, node: str, scope: str = "", payload: Any = None, **changes: Any) -> Event:
    content = EMPTY if payload is None else Payload.of(payload)
    return Event(seq, type_, node, scope, 1, content, 1_700_000_000_000 + seq, **changes)


def test_an_early_failure_among_many_iterations_is_listed_and_all_are_counted() -> None:
    iterations, failing = ITERATION_NODES_MAX + 500, 3
    error = {"error": {"code": "E", "type": "E", "message": "no", "attempt": 1}}
    events = [row(1, EventType.NODE_DISPATCHED, "each")]
    for index in range(iterations):
        scope = f"each[{index}]"
        events.append(row(len(events) + 1, EventType.NODE_DISPATCHED, "part", scope))
        end = EventType.NODE_FAILED if index == failing else EventType.NODE_COMPLETED
        events.append(row(len(events) + 1, end, "part", scope, error if index == failing else 1))
    progress = RunProgress(RUN)
    progress.take(events, Status.RUNNING)
    snapshot = progress.snapshot()
    assert snapshot["counts"] == {"each": {"running": 1}, "part": {"success": iterations - 1, "error": 1}}
    assert snapshot["nodesOmitted"] == 499
    assert [node["scope"] for node in snapshot["nodes"] if node["status"] == "error"] == [f"each[{failing}]"]
    assert snapshot["nodes"][1]["scope"] == f"each[{failing}]", "in the order in which they were reached"


WAITS = [
    ({"dueAt": "2030-01-01T00:00:00.000+00:00"}, {"kind": "timer", "dueAt": "2030-01-01T00:00:00.000+00:00"}),
    ({"event": "go"}, {"kind": "signal", "event": "go"}),
    (
        {"event": "go", "match": {"a": 1}, "dueAt": "2030-01-01T00:00:00.000+00:00"},
        {"kind": "signal", "event": "go", "match": {"a": 1}, "dueAt": "2030-01-01T00:00:00.000+00:00"},
    ),
    ({"events": {"a": None, "b": {"n": 1}}}, {"kind": "signal", "events": {"a": None, "b": {"n": 1}}}),
    ({"childID": "child"}, {"kind": "child", "childID": "child"}),
]


@pytest.mark.parametrize(("stored", "told"), WAITS)
def test_an_update_says_what_its_node_waits_for_and_which_exits_are_live(
    stored: dict[str, Any], told: dict[str, Any]
) -> None:
    events = [
        row(1, EventType.NODE_DISPATCHED, "ask"),
        row(2, EventType.NODE_WAITING, "ask", payload=stored),
        row(3, EventType.NODE_COMPLETED, "ask", payload=1, next_handle="timeout"),
        row(4, EventType.NODE_SKIPPED, "other"),
    ]
    updates = [each.data for each in RunProgress(RUN).take(events, None) if each.event == "workflow_node_update"]
    assert [each["waitsFor"] for each in updates] == [None, told, None, None]
    assert [each["handles"] for each in updates] == [None, None, ["timeout"], []]
    assert [each["at"] for each in updates] == [f"2023-11-14T22:13:20.00{seq}+00:00" for seq in (1, 2, 3, 4)]


def test_the_beginning_of_a_step_is_a_hint_that_is_not_folded():
    progress = RunProgress("run")
    before = progress.snapshot()
    told = progress.beginning(("fetch", "#2"), 1)
    assert (told.data["nodeID"], told.data["scope"], told.data["status"], told.data["seq"]) == (
        "fetch",
        "#2",
        "running",
        None,
    )
    assert progress.snapshot() == before


def test_an_attempt_is_queued_until_its_handler_is_known_to_have_begun():
    progress = RunProgress(RUN)
    (dispatched, _) = progress.take([row(1, EventType.NODE_DISPATCHED, "ask")], None)
    assert dispatched.data["queued"] is True
    assert "beganAt" not in dispatched.data

    began = ProgressReport(RUN, "ask", "", 1, 5, None, began_at=1_700_000_000_004)
    (hint,) = progress.add_reports([began])
    assert (hint.data["seq"], hint.data["beganAt"]) == (None, "2023-11-14T22:13:20.004+00:00")
    assert "queued" not in hint.data
    assert "progress" not in hint.data
    assert progress.add_reports([began._replace(at=6)]) == []

    # What is told later says how far it is, and keeps its beginning; so does the end.
    (further,) = progress.add_reports([ProgressReport(RUN, "ask", "", 1, 7, Progress(1, 2, "half"))])
    assert (further.data["progress"]["done"], further.data["beganAt"]) == (1, hint.data["beganAt"])
    (ended,) = progress.take([row(2, EventType.NODE_COMPLETED, "ask", payload=1)], None)
    assert ended.data["beganAt"] == hint.data["beganAt"]

    # Another attempt is queued anew; a loop never is.
    retried = [
        row(3, EventType.NODE_DISPATCHED, "again"),
        row(4, EventType.LOOP_OPENED, "each", payload={"items": [1], "count": 1}),
    ]
    progress.add_reports([ProgressReport(RUN, "again", "", 2, 5, None, began_at=1)])
    again, each = (update.data for update in progress.take(retried, None))
    assert again["queued"] is True
    assert "queued" not in each

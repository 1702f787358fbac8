"""Runs on a real engine and real databases: from start to end, with waits, retries, signals and cancels."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest

from anabranch.engine.rules.events import Status
from anabranch.engine.rules.instants import from_iso
from anabranch.engine.rules.values import VALUE_BYTES_MAX
from anabranch.engine.task_worker import Execution
from anabranch.errors import InvalidInput, InvalidRequest, NotFound, RunIsTerminal, TooManyPending
from tests.engine import nodes
from tests.engine.conftest import TENANT, MakeProcess, Process, turns_until, until
from tests.engine.drawing import QUICK_RETRY, drawn, node


async def test_a_run_completes_with_the_output_of_its_end(process: Process) -> None:
    document = drawn(
        "greet",
        node("hello", config={"values": {"text": "hello {{ctx.input.name}}"}}, outputVariable="greeting"),
        node("done", "end", config={"outputParameters": {"said": "{{ctx.greeting.text}}"}}),
    )

    run = await process.ended(await process.run(document, {"name": "Ada"}))

    assert run["status"] == "COMPLETED"
    assert run["output"] == {"said": "hello Ada"}
    assert [step["status"] for step in run["nodes"]] == ["success"] * 3
    assert from_iso(run["createdAt"]) <= from_iso(run["startedAt"]) <= from_iso(run["completedAt"])


async def test_a_delay_is_waited_out_and_never_ends_early(process: Process) -> None:
    run_id = await process.run(drawn("pause", node("pause", "delay", config={"duration": "60ms"})))

    await process.ended(run_id)

    log = await process.service.get_log(run_id, tenant_id=TENANT)
    waiting = next(entry for entry in log if entry["eventType"] == "NODE_WAITING")
    ended = next(entry for entry in log if entry["eventType"] == "NODE_COMPLETED" and entry["nodeID"] == "pause")
    assert from_iso(ended["createdAt"]) >= from_iso(waiting["payload"]["dueAt"])
    assert ended["payload"] == {"delayedMs": 60}


async def test_a_long_wait_is_parked_and_taken_up_again(process: Process) -> None:
    run_id = await process.run(drawn("nap", node("nap", "delay", config={"duration": "1200ms"})))

    await process.log.saw("NODE_WAITING", "nap")
    row = await process.service.get_run_status(run_id, tenant_id=TENANT)
    run = await process.ended(run_id)

    assert (row.status, row.worker_id) == (Status.WAITING, None)
    assert run["status"] == "COMPLETED"
    log = await process.service.get_log(run_id, tenant_id=TENANT)
    assert "INSTANCE_RECOVERED" not in [entry["eventType"] for entry in log]


async def test_a_commit_loop_is_woken_only_for_something_to_decide(process: Process) -> None:
    nodes.gates["OPEN"] = asyncio.Event()
    nodes.gates["OPEN"].set()
    document = drawn("alone", *(node(f"n{number}", "testGate", config={"gate": "OPEN"}) for number in range(5)))
    await process.ended(await process.run(document))  # all loops have waited once
    owned = process.engine.orchestrator.owned
    wait, found = owned.something_ready, list[int]()

    async def something_ready() -> None:
        await wait()
        found.append(len(owned.ready))

    owned.something_ready = something_ready  # type: ignore[method-assign]
    await process.ended(await process.run(document))
    await process.ended(await process.run(document))

    assert len(found) > 5 * 2
    # Once a run, when its start is to be evaluated: that is known within a commit, whose loop goes on with it itself.
    assert found.count(0) <= 2


async def test_an_attempt_that_has_ended_leaves_nothing_to_the_garbage_collector(process: Process) -> None:
    document = drawn(
        "tidy",
        node("returns", "testLogs", config={"waits": False}, retry=QUICK_RETRY),
        node("waits", "testLogs", config={"waits": True}, retry=QUICK_RETRY),
    )
    gc.collect()
    gc.disable()
    try:
        await process.ended(await process.run(document))
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        left = [each for each in gc.garbage if isinstance(each, Execution)]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()

    assert [(execution.node_id, execution.attempt) for execution in left] == []


async def test_a_failed_attempt_is_retried_with_the_same_idempotency_key(process: Process) -> None:
    document = drawn("retry", node("shaky", "testFails", config={"times": 2}, retry=QUICK_RETRY, outputVariable="out"))

    run_id = await process.run(document)
    run = await process.ended(run_id)

    assert run["status"] == "COMPLETED"
    assert list(nodes.calls.values()) == [3]
    log = await process.service.get_log(run_id, tenant_id=TENANT)
    tries = [(e["eventType"], e["nodeAttempt"]) for e in log if e["nodeID"] == "shaky"]
    assert tries == [
        ("NODE_DISPATCHED", 1),
        ("NODE_ATTEMPT_FAILED", 1),
        ("NODE_DISPATCHED", 2),
        ("NODE_ATTEMPT_FAILED", 2),
        ("NODE_DISPATCHED", 3),
        ("NODE_COMPLETED", 3),
    ]


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        ("nan", "VALUE_NOT_STORABLE"),
        ("nul", "VALUE_NOT_STORABLE"),
        ("surrogate", "VALUE_NOT_STORABLE"),
        ("wide", "VALUE_NOT_STORABLE"),
        ("object", "VALUE_NOT_STORABLE"),
        ("large", "VALUE_TOO_LARGE"),
        ("handle", "UNKNOWN_HANDLE"),
    ],
)
async def test_an_output_that_cannot_be_stored_fails_its_node_at_once(process: Process, kind: str, code: str) -> None:
    run = await process.ended(
        await process.run(drawn(f"bad-{kind}", node("bad", "testReturns", config={"kind": kind})))
    )

    assert run["status"] == "FAILED"
    assert (run["error"]["code"], run["error"]["nodeID"], run["error"]["attempt"]) == (code, "bad", 1)


async def test_an_input_of_the_full_size_is_run(process: Process) -> None:
    input_ = "x" * (VALUE_BYTES_MAX - 2)

    run = await process.ended(await process.run(drawn("large-input", node("only")), input_))

    assert run["status"] == "COMPLETED"


async def test_an_error_message_that_no_database_takes_is_made_storable(process: Process) -> None:
    retry = {"maxAttempts": 1}
    document = drawn("bad-message", node("bad", "testReturns", config={"kind": "raises"}, retry=retry))

    run = await process.ended(await process.run(document))

    assert run["error"]["message"] == "bad \ufffd and ? in a message"


async def test_a_handler_that_takes_too_long_is_stopped(process: Process) -> None:
    hangs = node("hangs", "testGate", config={"gate": "never"}, timeout="30ms", retry={"maxAttempts": 1})

    run = await process.ended(await process.run(drawn("slow", hangs)))

    assert run["error"]["code"] == "NODE_TIMEOUT"
    await until(lambda: nodes.stopped == ["hangs"])


@pytest.mark.parametrize("waits", [False, True])
async def test_what_a_handler_sets_in_its_context_no_other_one_sees(make_process: MakeProcess, *, waits: bool) -> None:
    process = await make_process(concurrency=1)
    document = drawn(
        "sign",
        *(node(name, "testSigns", config={"waits": waits}, outputVariable=name) for name in ("first", "second")),
        node("done", "end", config={"outputParameters": {"signed": ["{{ctx.first}}", "{{ctx.second}}"]}}),
    )

    runs = [await process.ended(await process.run(document)) for _ in range(2)]

    assert [run["output"]["signed"] for run in runs] == [[{"found": "nobody", "own": True}] * 2] * 2


async def test_a_signal_feeds_the_wait_that_it_fits(process: Process) -> None:
    wait = node("wait", "waitForEvent", config={"event": "paid", "match": {"order": 7}}, outputVariable="payment")
    run_id = await process.run(drawn("await-payment", wait))
    await process.log.saw("NODE_WAITING", "wait")

    other = await process.service.send_signal(run_id, "paid", {"order": 8}, tenant_id=TENANT)
    fitting = await process.service.send_signal(run_id, "paid", {"order": 7, "sum": 5}, tenant_id=TENANT)
    run = await process.ended(run_id)

    assert (other, fitting) == (False, True)
    log = await process.service.get_log(run_id, tenant_id=TENANT)
    taken = next(e for e in log if e["eventType"] == "NODE_WAITING" and "signalSeq" in e["payload"])
    signals = [e for e in log if e["eventType"] == "SIGNAL_RECEIVED"]
    assert taken["payload"]["signalSeq"] == signals[1]["seq"]
    completed = next(e for e in log if e["eventType"] == "NODE_COMPLETED" and e["nodeID"] == "wait")
    assert completed["payload"] == {"order": 7, "sum": 5}
    assert run["status"] == "COMPLETED"


async def test_a_signal_that_came_early_is_kept_and_a_repeated_key_delivered_once(process: Process) -> None:
    nodes.gates["early"] = asyncio.Event()
    document = drawn(
        "early",
        node("gate", "testGate", config={"gate": "early"}),
        node("wait", "waitForEvent", config={"event": "go"}, outputVariable="went"),
    )
    run_id = await process.run(document)
    await process.log.saw("NODE_DISPATCHED", "gate")

    first = await process.service.send_signal(run_id, "go", 1, tenant_id=TENANT, key="k")
    second = await process.service.send_signal(run_id, "go", 2, tenant_id=TENANT, key="k")
    nodes.open_gate("early")
    await process.ended(run_id)

    assert (first, second) == (False, False)
    log = await process.service.get_log(run_id, tenant_id=TENANT)
    assert [e["payload"]["payload"] for e in log if e["eventType"] == "SIGNAL_RECEIVED"] == [1]
    assert next(e for e in log if e["eventType"] == "NODE_COMPLETED" and e["nodeID"] == "wait")["payload"] == 1


async def test_a_wait_that_nobody_answers_leaves_by_its_timeout(process: Process) -> None:
    document = drawn(
        "unanswered",
        node("wait", "waitForEvent", config={"event": "never", "timeout": "30ms"}),
        node("late", "end", config={"outputParameters": {"late": True}}),
        node("intime", "end", config={"outputParameters": {"late": False}}),
        edges=[("start", "wait"), ("wait", "late", "timeout"), ("wait", "intime")],
    )

    run = await process.ended(await process.run(document))

    assert run["output"] == {"late": True}


async def test_a_cancelled_run_stops_its_handlers_and_stays_cancelled(process: Process) -> None:
    run_id = await process.run(drawn("cancel-me", node("hangs", "testGate", config={"gate": "never"})))
    await process.log.saw("NODE_DISPATCHED", "hangs")

    status = await process.service.cancel_run(run_id, tenant_id=TENANT, reason="changed my mind")
    again = await process.service.cancel_run(run_id, tenant_id=TENANT, reason="twice")
    run = await process.service.get_run(run_id, tenant_id=TENANT)

    assert (status, again) == (Status.CANCELLED, Status.CANCELLED)
    assert run["note"] == "changed my mind"
    assert [step["status"] for step in run["nodes"] if step["nodeID"] == "hangs"] == ["cancelled"]
    await until(lambda: nodes.stopped == ["hangs"])
    with pytest.raises(RunIsTerminal):
        await process.service.send_signal(run_id, "late", None, tenant_id=TENANT)


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        ("cancelled", "HANDLER_ERROR"),
        ("cancelled at once", "HANDLER_ERROR"),
        ("exit", "HANDLER_ERROR"),
        ("unreadable", "HANDLER_ERROR"),
        ("odd code", "HANDLER_ERROR"),
        ("swallows", "NODE_TIMEOUT"),
        ("replaces", "NODE_TIMEOUT"),
    ],
)
async def test_a_handler_that_misbehaves_fails_its_node_and_nothing_else(
    make_process: MakeProcess, kind: str, code: str
) -> None:
    process = await make_process(concurrency=1)
    bad = node("bad", "testMisbehaves", config={"kind": kind}, retry={"maxAttempts": 1})

    run = await process.ended(await process.run(drawn("misbehaves", bad)))
    after = await process.ended(await process.run(drawn("after", node("only"))))

    assert (run["status"], run["error"]["code"]) == ("FAILED", code)
    assert after["status"] == "COMPLETED", "the only consumer has survived"


async def test_a_handler_that_cleans_up_after_its_timeout_may_be_told_to_stop_once_more(process: Process) -> None:
    run_id = await process.run(drawn("slow-to-stop", node("slow", "testSlowToStop", config={"gate": "cleaned"})))
    await until(lambda: nodes.stopped == ["slow"])

    status = await process.service.cancel_run(run_id, tenant_id=TENANT, reason="while it cleans up")
    nodes.open_gate("cleaned")

    assert status is Status.CANCELLED
    assert (await process.ended(await process.run(drawn("next", node("only")))))["status"] == "COMPLETED"


async def test_a_completed_run_cannot_be_cancelled(process: Process) -> None:
    run_id = await process.run(drawn("short", node("only")))
    await process.ended(run_id)

    with pytest.raises(RunIsTerminal):
        await process.service.cancel_run(run_id, tenant_id=TENANT, reason="too late")


async def test_a_deadline_fails_the_run_whatever_it_is_doing(process: Process) -> None:
    document = drawn("in-time", node("hangs", "testGate", config={"gate": "never"}), deadline="50ms")

    run = await process.ended(await process.run(document))

    assert run["error"]["code"] == "DEADLINE_EXCEEDED"


async def test_a_past_deadline_is_accepted_and_fails_with_nothing_dispatched(process: Process) -> None:
    now = process.engine.clock.now()

    run = await process.ended(await process.run(drawn("too-late", node("only")), None, deadline_at=now - 1))

    assert (run["status"], run["error"]["code"], run["nodes"]) == ("FAILED", "DEADLINE_EXCEEDED", [])


async def test_a_start_for_later_is_pending_until_its_time(process: Process) -> None:
    at = process.engine.clock.now() + 3_000  # long enough for a slow machine to read the row before
    run_id = await process.run(drawn("later", node("only")), None, available_at=at)

    row = await process.service.get_run_status(run_id, tenant_id=TENANT)
    run = await process.ended(run_id)

    assert (row.status, row.worker_id) == (Status.PENDING, None)
    assert from_iso(run["startedAt"]) >= at


async def test_a_deadline_before_the_start_is_refused(process: Process) -> None:
    now = process.engine.clock.now()
    with pytest.raises(InvalidRequest, match="deadlineAt"):
        await process.run(drawn("nonsense", node("only")), None, available_at=now + 2_000, deadline_at=now + 1_000)


async def test_a_start_whose_caller_gave_up_goes_on(process: Process) -> None:
    saved, _ = await process.service.save_workflow(drawn("abandoned", node("only")), tenant_id=TENANT)
    start = asyncio.create_task(process.service.execute_workflow(saved.name, None, tenant_id=TENANT))
    await turns_until(lambda: process.engine.orchestrator.owned_ids)
    start.cancel()

    await process.log.saw("INSTANCE_COMPLETED")
    run = await process.run(drawn("unharmed", node("only")))
    assert (await process.ended(run))["status"] == "COMPLETED"


async def test_an_idempotency_key_stands_for_one_run(process: Process) -> None:
    document = drawn("once", node("only"))
    first = await process.run(document, {"n": 1}, idempotency_key="key-1")

    repeats = await asyncio.gather(*(process.run(document, {"n": 2}, idempotency_key="key-1") for _ in range(5)))

    assert set(repeats) == {first}
    assert (await process.ended(first))["input"] == {"n": 1}


async def test_input_is_judged_by_the_workflows_schema(process: Process) -> None:
    schema = {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}}
    with pytest.raises(InvalidInput) as refusal:
        await process.run(drawn("strict", node("only"), inputSchema=schema), {"name": 3})

    assert refusal.value.details[0]["pointer"] == "/name"


async def test_a_process_that_only_accepts_leaves_the_running_to_others(make_process: MakeProcess) -> None:
    api = await make_process(works=False)
    worker = await make_process()

    run_id = await api.run(drawn("handed-over", node("only")))
    accepted = await api.service.get_run(run_id, tenant_id=TENANT)
    run = await worker.ended(run_id)

    assert accepted["status"] in ("PENDING", "RUNNING", "COMPLETED")
    assert run["status"] == "COMPLETED"


async def test_starts_beyond_the_pending_limit_are_refused(make_process: MakeProcess) -> None:
    api = await make_process(works=False, pending_max=2)
    document = drawn("crowd", node("only"))
    for _ in range(2):
        await api.run(document)

    with pytest.raises(TooManyPending):
        await api.run(document)


async def test_starts_for_later_count_as_pending_although_there_is_room(make_process: MakeProcess) -> None:
    process = await make_process(pending_max=2)
    document = drawn("later", node("only"))
    tomorrow = process.engine.clock.now() + 86_400_000
    for _ in range(2):
        await process.run(document, available_at=tomorrow)

    with pytest.raises(TooManyPending):
        await process.run(document, available_at=tomorrow)
    run = await process.ended(await process.run(document))
    assert run["status"] == "COMPLETED", "what begins at once does not wait, so the limit is none for it"


async def test_a_repeated_start_finds_its_run_although_the_pending_limit_is_reached(make_process: MakeProcess) -> None:
    api = await make_process(works=False, pending_max=1)
    first = await api.run(drawn("full", node("only")), None, idempotency_key="first")

    assert await api.run(drawn("full", node("only")), None, idempotency_key="first") == first
    with pytest.raises(TooManyPending):
        await api.run(drawn("full", node("only")), None, idempotency_key="second")


async def test_another_tenants_run_reads_as_absent(process: Process) -> None:
    run_id = await process.run(drawn("mine", node("only")))
    with pytest.raises(NotFound):
        await process.service.get_run(run_id, tenant_id="somebody-else")
    with pytest.raises(NotFound):
        await process.service.cancel_run(run_id, tenant_id="somebody-else", reason="no")


async def test_a_thousand_runs_at_once_all_complete(process: Process) -> None:
    document = drawn(
        "many",
        node("left"),
        node("right"),
        node("join", config={"values": {"n": "{{ctx.input.n}}"}}),
        edges=[("start", "left"), ("start", "right"), ("left", "join"), ("right", "join")],
    )
    await process.service.save_workflow(document, tenant_id=TENANT)

    async def one(number: int) -> Any:
        return await process.service.execute_workflow("many", {"n": number}, tenant_id=TENANT)

    runs = await asyncio.gather(*(one(number) for number in range(1_000)))
    await process.log.saw("INSTANCE_COMPLETED", count=1_000)

    loaded = await process.engine.store.load([run.instance_id for run in runs])
    assert {each.row.status for each in loaded.values()} == {Status.COMPLETED}
    joins = [e for each in loaded.values() for e in each.events if e.node_id == "join" and e.type == "NODE_DISPATCHED"]
    assert len(joins) == 1_000

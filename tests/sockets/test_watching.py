"""Watching runs: a snapshot, then every committed update, once and in log order."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import aiohttp
import pytest

from tests.engine import nodes
from tests.engine.conftest import TENANT, MakeProcess, until
from tests.engine.drawing import drawn, node
from tests.sockets.conftest import PATIENCE_S, Connect, Serve, Served, Watcher, fact

HEAVY = {"values": {"text": "{{ctx.input}}"}}
GATED = drawn("gated", node("gate", "testGate", config={"gate": "g"}), node("after"), node("end", "end"))


def told_by(log: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """The node updates that a log asks for, as facts."""
    statuses = {
        "NODE_DISPATCHED": "running",
        "NODE_WAITING": "waiting",
        "NODE_ATTEMPT_FAILED": "retrying",
        "LOOP_OPENED": "running",
        "NODE_COMPLETED": "success",
        "NODE_FAILED": "error",
        "NODE_SKIPPED": "skipped",
    }
    return [
        (entry["seq"], entry["nodeID"], entry["scope"], statuses[entry["eventType"]])
        for entry in log
        if entry["eventType"] in statuses
    ]


def node_facts(watcher: Watcher, run_id: str) -> list[tuple[Any, ...]]:
    return [each for each in watcher.facts(run_id) if each[1]]


def status_facts(watcher: Watcher, run_id: str) -> list[tuple[int, str]]:
    return [(seq, status) for seq, node_id, _, status in watcher.facts(run_id) if not node_id]


async def open_gate(name: str = "g") -> None:
    await until(lambda: name in nodes.gates)
    nodes.gates[name].set()


async def test_a_joined_client_is_told_all_that_follows_its_snapshot(served: Served, connect: Connect) -> None:
    run_id = await served.process.run(GATED)
    await served.process.log.saw("NODE_DISPATCHED", "gate")
    watcher = await connect(served)

    answer = await watcher.ask("workflow_run_join", {"runId": run_id})
    assert (answer["ok"], answer["instanceID"], answer["status"]) == (True, run_id, "RUNNING")
    assert [(each["nodeID"], each["status"]) for each in answer["nodes"]] == [("start", "success"), ("gate", "running")]

    await open_gate()
    end = await watcher.ended(run_id)
    log = await served.service.get_log(run_id, tenant_id=TENANT)
    assert node_facts(watcher, run_id) == [each for each in told_by(log) if each[0] > answer["seq"]]
    assert end["status"] == "COMPLETED" and end["seq"] == log[-1]["seq"] and end["output"] == {}
    assert [event for event, _ in watcher.updates(run_id)][-1] == "workflow_status_update"


async def test_an_update_says_what_its_node_came_to(served: Served, connect: Connect) -> None:
    document = drawn(
        "flaky",
        node(
            "shaky",
            "testFails",
            config={"times": 1},
            retry={"maxAttempts": 2, "backoff": {"kind": "fixed", "base": "20ms"}},
        ),
        node("gate", "testGate", config={"gate": "g"}),
        node("broken", "testFails", config={"times": 9, "final": True, "message": "no way"}),
    )
    watcher = await connect(served)
    run_id = await served.process.run(document)
    await watcher.ask("workflow_run_join", {"runId": run_id, "since": 0})

    def nodes_told() -> list[dict[str, Any]]:
        return [data for event, data in watcher.updates(run_id) if event == "workflow_node_update"]

    await watcher.until(lambda: any(data["nodeID"] == "gate" and "beganAt" in data for data in nodes_told()))
    await open_gate()
    end = await watcher.ended(run_id)
    told = {(data["nodeID"], data["status"]): data for data in nodes_told()}

    assert told["shaky", "retrying"]["error"]["message"] == "not today" and told["shaky", "retrying"]["output"] is None
    assert told["shaky", "success"]["attempt"] == 2 and told["shaky", "success"]["output"] == {"attempt": 2}
    assert told["broken", "error"]["error"]["message"] == "no way"
    assert set(told["gate", "success"]) == {
        "event", "instanceID", "nodeID", "scope", "status", "output", "error", "attempt", "seq",
        "at", "beganAt", "handles", "waitsFor",
    }  # fmt: skip
    assert end["status"] == "FAILED" and end["error"]["message"] == "no way" and end["output"] is None


async def test_statuses_are_told_with_the_seq_of_their_transition(served: Served, connect: Connect) -> None:
    document = drawn("waits", node("wait", "waitForEvent", config={"event": "go"}), node("end", "end"))
    watcher = await connect(served)
    run_id = await served.process.run(document)
    await watcher.ask("workflow_run_join", {"runId": run_id, "since": 0})
    await watcher.until(lambda: ("WAITING") in [status for _, status in status_facts(watcher, run_id)])
    await served.service.send_signal(run_id, "go", 1, tenant_id=TENANT)
    await watcher.ended(run_id)

    log = await served.service.get_log(run_id, tenant_id=TENANT)
    first = next(entry["seq"] for entry in log if entry["eventType"] == "NODE_DISPATCHED")
    statuses = status_facts(watcher, run_id)
    assert statuses[0] == (first, "RUNNING") and statuses[-1] == (log[-1]["seq"], "COMPLETED")
    assert [status for _, status in statuses] == ["RUNNING", "WAITING", "RUNNING", "COMPLETED"]
    assert [seq for seq, *_ in watcher.facts(run_id)] == sorted(seq for seq, *_ in watcher.facts(run_id))


async def test_the_context_is_told_with_the_end(served: Served, connect: Connect) -> None:
    document = drawn(
        "context",
        node("one", config={"values": {"a": "{{ctx.input.x}}"}}, outputVariable="first"),
        node("gate", "testGate", config={"gate": "g"}),
        node("end", "end", config={"outputParameters": {"r": "{{ctx.first.a}}"}}),
    )
    watcher = await connect(served)
    run_id = await served.process.run(document, {"x": 7})
    await watcher.ask("workflow_run_join", {"runId": run_id, "since": 0})
    await open_gate()
    end = await watcher.ended(run_id)
    assert end["output"] == {"r": 7}
    assert end["contextData"]["input"] == {"x": 7} and end["contextData"]["first"] == {"a": 7}
    assert end["contextData"]["__node_one"] == {"a": 7} and end["contextData"]["__node_end"] == {"r": 7}
    before = [data for event, data in watcher.updates(run_id) if event == "workflow_status_update"][:-1]
    assert before and all(data["contextData"] is None for data in before)


async def test_a_large_output_is_told_by_its_size(served: Served, connect: Connect) -> None:
    text = "x" * 70_000
    document = drawn("large", node("big", config={"values": {"text": "{{ctx.input}}"}}), node("end", "end"))
    watcher = await connect(served)
    run_id = await served.process.run(document, text)
    answer = await watcher.ask("workflow_run_join", {"runId": run_id, "since": 0})
    await watcher.ended(run_id)
    told = {data["nodeID"]: data["output"] for event, data in watcher.updates(run_id) if data["status"] == "success"}
    assert told["big"] == {"truncated": True, "bytes": len('{"text":""}') + len(text)}
    assert answer["ok"]


async def test_a_cancelled_run_says_which_nodes_it_left(served: Served, connect: Connect) -> None:
    run_id = await served.process.run(GATED)
    await served.process.log.saw("NODE_DISPATCHED", "gate")
    watcher = await connect(served)
    await watcher.ask("workflow_run_join", {"runId": run_id})
    await served.service.cancel_run(run_id, tenant_id=TENANT, reason="enough")
    end = await watcher.ended(run_id)
    assert watcher.facts(run_id) == [(end["seq"], "gate", "", "cancelled"), (end["seq"], "", "", "CANCELLED")]
    assert (end["output"], end["error"]) == (None, None)


async def test_what_was_missed_follows_the_answer(served: Served, connect: Connect) -> None:
    run_id = await served.process.run(GATED)
    await served.process.log.saw("NODE_DISPATCHED", "gate")
    watcher = await connect(served)
    answer = await watcher.ask("workflow_run_join", {"runId": run_id, "since": 2})
    await open_gate()
    await watcher.ended(run_id)
    log = await served.service.get_log(run_id, tenant_id=TENANT)
    assert answer["seq"] >= 4
    assert node_facts(watcher, run_id) == [each for each in told_by(log) if each[0] > 2]


async def test_an_ended_run_can_be_joined_and_replayed(served: Served, connect: Connect) -> None:
    run_id = await served.process.run(drawn("short", node("a"), node("end", "end")))
    await served.process.ended(run_id)
    watcher = await connect(served)
    plain = await watcher.ask("workflow_run_join", {"runId": run_id})
    assert plain["status"] == "COMPLETED" and {each["status"] for each in plain["nodes"]} == {"success"}
    await until(lambda: served.api.broadcaster.rooms_count == 0)
    await watcher.ask("workflow_run_join", {"runId": run_id, "since": 0})
    end = await watcher.ended(run_id)
    log = await served.service.get_log(run_id, tenant_id=TENANT)
    assert node_facts(watcher, run_id) == told_by(log)
    assert end["contextData"]["__node_a"] == {}
    await until(lambda: served.api.broadcaster.rooms_count == 0)


async def test_who_has_left_is_told_nothing(served: Served, connect: Connect) -> None:
    run_id = await served.process.run(GATED)
    await served.process.log.saw("NODE_DISPATCHED", "gate")
    gone, stays = await connect(served), await connect(served)
    for watcher in (gone, stays):
        await watcher.ask("workflow_run_join", {"runId": run_id})
    assert (await gone.ask("workflow_run_leave", {"runId": run_id}))["ok"]
    await open_gate()
    await stays.ended(run_id)
    await gone.ask("workflow_run_leave", {"runId": run_id})  # whatever was on its way is here now
    assert gone.messages == []
    await until(lambda: served.api.broadcaster.rooms_count == 0)


async def test_joining_again_doubles_nothing(served: Served, connect: Connect) -> None:
    run_id = await served.process.run(GATED)
    await served.process.log.saw("NODE_DISPATCHED", "gate")
    watcher = await connect(served)
    for _ in range(3):
        answer = await watcher.ask("workflow_run_join", {"runId": run_id})
    await open_gate()
    await watcher.ended(run_id)
    log = await served.service.get_log(run_id, tenant_id=TENANT)
    assert node_facts(watcher, run_id) == [each for each in told_by(log) if each[0] > answer["seq"]]


async def test_no_update_falls_between_a_join_and_its_stream(served: Served, connect: Connect) -> None:
    """Joins at every moment of a run that moves all the time."""
    chain = drawn("chain", *(node(f"n{number}") for number in range(60)), node("end", "end"))
    watchers = [await connect(served) for _ in range(8)]
    run_id = await served.process.run(chain)
    answers = await asyncio.gather(*(each.ask("workflow_run_join", {"runId": run_id}) for each in watchers))
    await served.process.ended(run_id)
    log = await served.service.get_log(run_id, tenant_id=TENANT)
    for watcher, answer in zip(watchers, answers, strict=True):
        if answer["status"] != "COMPLETED":
            await watcher.ended(run_id)
        known = {(each["seq"], each["nodeID"], "", each["status"]) for each in answer["nodes"]}
        newest = {}
        for each in told_by(log):
            if each[0] <= answer["seq"]:
                newest[each[1]] = each
        assert known == set(newest.values())
        assert node_facts(watcher, run_id) == [each for each in told_by(log) if each[0] > answer["seq"]]


async def test_a_busy_run_is_told_in_batches(served: Served, connect: Connect) -> None:
    chain = drawn("busy", *(node(f"n{number}") for number in range(200)), node("end", "end"))
    watcher = await connect(served)
    run_id = await served.process.run(chain)
    await watcher.ask("workflow_run_join", {"runId": run_id, "since": 0})
    await watcher.ended(run_id)
    batches = [data for event, data in watcher.messages if event == "workflow_updates"]
    assert batches and all(data["instanceID"] == run_id for data in batches)
    assert {part["event"] for data in batches for part in data["updates"]} <= {
        "workflow_node_update",
        "workflow_status_update",
    }
    log = await served.service.get_log(run_id, tenant_id=TENANT)
    assert node_facts(watcher, run_id) == told_by(log)


async def test_a_run_of_another_process_is_told_from_the_log(
    make_process: MakeProcess, serve: Serve, connect: Connect
) -> None:
    works, serves = await make_process(), await make_process(works=False)
    served = await serve(serves)
    watcher = await connect(served)
    run_id = await works.run(GATED)
    await works.log.saw("NODE_DISPATCHED", "gate")
    answer = await watcher.ask("workflow_run_join", {"runId": run_id})
    await open_gate()
    end = await watcher.ended(run_id)
    log = await works.service.get_log(run_id, tenant_id=TENANT)
    assert node_facts(watcher, run_id) == [each for each in told_by(log) if each[0] > answer["seq"]]
    assert end["contextData"]["input"] is None and "__node_gate" in end["contextData"]


async def test_a_run_that_is_parked_and_taken_up_elsewhere_is_told_to_its_end(
    make_process: MakeProcess, serve: Serve, connect: Connect
) -> None:
    document = drawn("moves", node("wait", "waitForEvent", config={"event": "go"}), node("end", "end"))
    here, there = await make_process(), await make_process()
    watcher = await connect(await serve(here))
    run_id = await here.run(document)
    await watcher.ask("workflow_run_join", {"runId": run_id, "since": 0})
    await watcher.until(lambda: (2, "", "", "RUNNING") in watcher.facts(run_id))
    await here.engine.stop()
    await there.service.send_signal(run_id, "go", 1, tenant_id=TENANT)
    await watcher.ended(run_id)
    log = await there.service.get_log(run_id, tenant_id=TENANT)
    assert node_facts(watcher, run_id) == told_by(log)


@pytest.mark.parametrize("transport", ["polling", "websocket"])
async def test_every_transport_gets_the_same(served: Served, connect: Connect, transport: str) -> None:
    watcher = await connect(served, transports=[transport])
    run_id = await served.process.run(GATED)
    await watcher.ask("workflow_run_join", {"runId": run_id, "since": 0})
    await open_gate()
    end = await watcher.ended(run_id)
    log = await served.service.get_log(run_id, tenant_id=TENANT)
    assert node_facts(watcher, run_id) == told_by(log)
    assert fact(end) == (log[-1]["seq"], "", "", "COMPLETED")


async def test_a_client_that_stops_reading_gets_what_is_left_in_order_and_the_end(served: Served) -> None:
    """Outputs of 60 KB by the hundred fill every buffer between us and a client that does not read."""
    chain = drawn("heavy", *(node(f"n{number}", config=HEAVY) for number in range(200)), node("end", "end"))
    key = await served.key()
    run_id = await served.process.run(chain, "x" * 60_000)
    url = f"{served.url}/socket.io/?EIO=4&transport=websocket"
    async with aiohttp.ClientSession() as session, session.ws_connect(url, max_msg_size=0) as socket:
        await socket.receive()
        await socket.send_str("40" + json.dumps({"key": key.key}))
        await socket.receive()
        await socket.send_str("420" + json.dumps(["workflow_run_join", {"runId": run_id, "since": 0}]))
        await served.process.ended(run_id)
        seqs, last = [], None
        while last is None or last["status"] != "COMPLETED":
            text = (await asyncio.wait_for(socket.receive(), PATIENCE_S)).data
            if text == "2" or text.startswith("43"):
                continue
            event, data = json.loads(text[2:])
            parts = data["updates"] if event == "workflow_updates" else [data]
            seqs += [part["seq"] for part in parts]
            last = parts[-1] if "contextData" in parts[-1] else None
    assert seqs == sorted(seqs)
    assert last["seq"] == len(await served.service.get_log(run_id, tenant_id=TENANT))

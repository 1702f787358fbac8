"""A run outlives its process: kill -9 and Ctrl-C at any moment, and whoever takes it up goes on where it was."""

from __future__ import annotations

import asyncio
import json
import shlex
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from anabranch.app import build
from anabranch.engine.rules.instants import from_iso
from anabranch.settings import Settings
from tests.hardening.command_line import Command, Launched
from tests.hardening.conftest import Launch, Write
from tests.hardening.drawing import EFFECTS, chain, effect

GATE = "gate"

# One second for the retry and the delay: longer than it takes to kill what waits for them.
DEVIATIONS = chain(
    "deviations",
    effect("quick"),
    effect("held", gate=GATE),
    effect("flaky", failures=1, retry={"maxAttempts": 2, "backoff": {"kind": "fixed", "base": "1s"}}),
    {"id": "pause", "type": "delay", "config": {"duration": "1500ms"}},
    {"id": "wait", "type": "waitForEvent", "config": {"event": "go"}, "outputVariable": "answer"},
    effect("last"),
)
HELD = chain("held", effect("quick"), effect("held", gate=GATE))

MOMENTS = {
    "while its handler runs": ("effect of held",),
    "while a retry is due": ("retrying", "flaky"),
    "while a delay is due": ("waiting", "pause"),
    "while it waits for a signal": ("waiting", "wait"),
}


def ledger(folder: Path) -> list[dict[str, Any]]:
    """Every execution that ever began."""
    return [json.loads(line) for line in (folder / "effects.jsonl").read_text().splitlines()]


def log_of(anabranch: Command, instance_id: str) -> list[dict[str, Any]]:
    """The committed events."""
    events: list[dict[str, Any]] = anabranch("runs", "log", instance_id, "--json").document["items"]
    return events


def only_run(anabranch: Command) -> str:
    """The id of the only run in the database."""
    (run,) = anabranch("runs", "list", "--json").document["items"]
    instance_id: str = run["instanceID"]
    return instance_id


def completed(events: list[dict[str, Any]]) -> set[str]:
    """The nodes that are recorded as completed."""
    return {event["nodeID"] for event in events if event["eventType"] == "NODE_COMPLETED"}


def resumed(launch: Launch, instance_id: str) -> Launched:
    """A process that goes on with the run."""
    return launch("run", "--resume", instance_id, "--import", EFFECTS, "--watch")


# Five processes after one another: each takes a second, and four on a machine that is busy otherwise.
@pytest.mark.timeout(180)
def test_a_run_killed_at_every_moment_ends_once(
    database: str, anabranch: Command, launch: Launch, write: Write, folder: Path
) -> None:
    process = launch("run", write("deviations.json", DEVIATIONS), "--import", EFFECTS, "--watch")
    executed_when_recorded: dict[str, int] = {}
    instance_id = ""
    for moment, words in MOMENTS.items():
        process.saw(*words)
        assert process.send(signal.SIGKILL) == -signal.SIGKILL
        instance_id = instance_id or only_run(anabranch)
        for node in completed(log_of(anabranch, instance_id)):
            executed_when_recorded.setdefault(node, sum(line["node"] == node for line in ledger(folder)))
        (folder / GATE).touch()
        if moment == "while it waits for a signal":
            assert anabranch("runs", "signal", instance_id, "go", "--payload", "7").code == 0
        process = resumed(launch, instance_id)
    assert process.ended() == 0
    events = log_of(anabranch, instance_id)
    assert events[-1]["eventType"] == "INSTANCE_COMPLETED"
    assert_recorded_once(events)
    executions = Counter(line["node"] for line in ledger(folder))
    assert {node: executions[node] for node in executed_when_recorded} == executed_when_recorded, (
        "what was recorded before a kill was executed again after it"
    )
    assert executions == {"quick": 1, "held": 2, "flaky": 2, "last": 1}
    assert_one_key_per_activation(ledger(folder))
    assert_due_times_kept(events)


def test_a_killed_run_is_resumed_with_the_runs_that_it_has_started(
    database: str, anabranch: Command, launch: Launch, write: Write, folder: Path
) -> None:
    lowest = chain("lowest", effect("held", gate=GATE))
    for document in (lowest, chain("middle", _call("lowest"))):
        assert anabranch("workflows", "import", write("child.json", document), "--import", EFFECTS).code == 0
    process = launch("run", write("top.json", chain("top", _call("middle"))), "--import", EFFECTS, "--watch")
    process.saw("effect of held")
    assert process.send(signal.SIGKILL) == -signal.SIGKILL
    runs = anabranch("runs", "list", "--json").document["items"]
    top = next(run["instanceID"] for run in runs if run["parentID"] is None)

    (folder / GATE).touch()
    again = resumed(launch, top)

    assert again.ended() == 0
    runs = anabranch("runs", "list", "--json").document["items"]
    assert [run["name"] for run in runs] == ["lowest", "middle", "top"], "each was started once"
    assert {run["status"] for run in runs} == {"COMPLETED"}
    for run in runs:
        assert_recorded_once(log_of(anabranch, run["instanceID"]))
    assert [line["attempt"] for line in ledger(folder)] == [1, 1]
    assert_one_key_per_activation(ledger(folder))


def test_a_run_killed_in_a_pass_and_among_the_items_of_a_node_goes_on_there(
    database: str, anabranch: Command, launch: Launch, write: Write, folder: Path
) -> None:
    document = chain(
        "passes",
        {"id": "list", "type": "cursor", "config": {"source": [1, 2, 3]}, "outputVariable": "batch"},
        {**effect("each", gate="each-{{ctx.item}}"), "forEach": [1, 2]},
    )
    document["nodes"].append(effect("work", gate="pass-{{ctx.batch[0]}}"))
    document["edges"][1]["sourceHandle"] = "done"
    document["edges"] += [
        {"upstreamNodeID": "list", "downstreamNodeID": "work", "sourceHandle": "loop"},
        {"upstreamNodeID": "work", "downstreamNodeID": "list"},
    ]
    for gate in ("pass-1", "pass-3", "each-1"):
        (folder / gate).touch()
    process = launch("run", write("passes.json", document), "--import", EFFECTS, "--watch")
    for gate, effects in (("pass-2", ("work", "work")), ("each-2", ("work", "work", "each", "each"))):
        for node in effects:
            process.saw(f"effect of {node}")
        assert process.send(signal.SIGKILL) == -signal.SIGKILL
        (folder / gate).touch()
        process = resumed(launch, only_run(anabranch))

    assert process.ended() == 0
    events = log_of(anabranch, only_run(anabranch))
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    batches = [e["payload"] for e in events if e["nodeID"] == "list" and e["eventType"] == "NODE_COMPLETED"]
    assert batches == [[1], [2], [3], []]
    endings = Counter((e["nodeID"], e["scope"]) for e in events if e["eventType"] == "NODE_COMPLETED")
    assert set(endings.values()) == {1}
    passes, items = {f"list#{number}" for number in (1, 2, 3)}, {"", "each[0]", "each[1]"}
    assert {scope for node, scope in endings if node == "work"} == passes
    assert {scope for node, scope in endings if node == "each"} == items
    executions = Counter(line["node"] for line in ledger(folder))
    assert executions == {"work": 4, "each": 3}, "what a kill interrupted was executed again, and nothing else"
    assert len({line["key"] for line in ledger(folder)}) == 5


def _call(workflow: str) -> dict[str, Any]:
    """A node that starts another workflow and waits for it."""
    return {"id": "call", "type": "workflow", "config": {"workflow": workflow}}


def assert_recorded_once(events: list[dict[str, Any]]) -> None:
    """Every activation has one ending, every attempt one dispatch, the run one end, the log no gap."""
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    endings = Counter(
        e["nodeID"] for e in events if e["eventType"] in ("NODE_COMPLETED", "NODE_FAILED", "NODE_SKIPPED")
    )
    dispatches = Counter((e["nodeID"], e["nodeAttempt"]) for e in events if e["eventType"] == "NODE_DISPATCHED")
    ends = [e for e in events if e["eventType"].startswith("INSTANCE_") and e["eventType"] != "INSTANCE_RECOVERED"]
    assert set(endings.values()) == {1} and set(dispatches.values()) == {1} and len(ends) == 1


def assert_one_key_per_activation(lines: list[dict[str, Any]]) -> None:
    """Whoever receives the effects can tell a repeated one by its key."""
    for node in {line["node"] for line in lines}:
        assert len({line["key"] for line in lines if line["node"] == node}) == 1, f"{node} had several keys"
    assert len({line["key"] for line in lines}) == len({line["node"] for line in lines})


def assert_due_times_kept(events: list[dict[str, Any]]) -> None:
    """The retry and the delay have one due time each, and nothing happened before it."""
    due = {
        event["nodeID"]: event["payload"]["dueAt"]
        for event in events
        if event["eventType"] in ("NODE_ATTEMPT_FAILED", "NODE_WAITING") and "dueAt" in event["payload"]
    }
    assert set(due) == {"flaky", "pause"}
    for node, follower in (("flaky", "NODE_DISPATCHED"), ("pause", "NODE_COMPLETED")):
        waits = [e for e in events if e["nodeID"] == node and "dueAt" in e["payload"]]
        after = next(
            e for e in events if e["seq"] > waits[0]["seq"] and e["nodeID"] == node and e["eventType"] == follower
        )
        assert len(waits) == 1, f"{node} was given another due time"
        assert from_iso(after["createdAt"]) >= _milliseconds(due[node]), f"{node} went on too early"


def _milliseconds(due_at: str | int) -> int:
    return due_at if isinstance(due_at, int) else from_iso(due_at)


def test_ctrl_c_in_a_handler_gives_the_lease_back_and_the_printed_command_goes_on(
    database: str, anabranch: Command, launch: Launch, write: Write, folder: Path
) -> None:
    process = launch("run", write("held.json", HELD), "--import", EFFECTS, "--watch")
    process.saw("effect of held")

    assert process.send(signal.SIGINT) == 130
    instance_id = only_run(anabranch)
    command = next(line for line in process.text.splitlines() if line.startswith("resume it: "))
    words = shlex.split(command.removeprefix("resume it: "))
    assert Path(words[0]).name == "anabranch"
    assert words[1:] == ["run", "--resume", instance_id, "--import", str(EFFECTS)]
    assert worker_of(database, instance_id) is None, "the lease was kept"

    (folder / GATE).touch()
    again = launch(*words[1:])
    assert again.ended() == 0
    executions = [(line["node"], line["attempt"]) for line in ledger(folder)]
    assert executions == [("quick", 1), ("held", 1), ("held", 1)]
    assert_one_key_per_activation(ledger(folder))
    assert_recorded_once(log_of(anabranch, instance_id))


def test_two_resumes_at_once_of_a_run_that_a_third_process_holds_all_see_one_end(
    database: str, anabranch: Command, launch: Launch, write: Write, folder: Path
) -> None:
    holder = launch("run", write("held.json", HELD), "--import", EFFECTS, "--watch")
    holder.saw("effect of held")
    instance_id = only_run(anabranch)

    rivals = [resumed(launch, instance_id) for _ in range(2)]
    for rival in rivals:
        rival.saw("success", "quick")  # what was there before it came; from now on it may be robbed of the run again
    (folder / GATE).touch()

    assert [process.ended() for process in (holder, *rivals)] == [0, 0, 0]
    assert all(f"run {instance_id} is COMPLETED" in process.text for process in (holder, *rivals))
    assert_recorded_once(log_of(anabranch, instance_id))
    lines = ledger(folder)
    assert [line["node"] for line in lines].count("quick") == 1
    assert_one_key_per_activation(lines)


def test_a_worker_without_its_node_types_leaves_a_run_to_one_that_has_them(
    database: str, anabranch: Command, launch: Launch, write: Write
) -> None:
    wait = {"id": "wait", "type": "waitForEvent", "config": {"event": "go"}}
    process = launch("run", write("own.json", chain("own", wait, effect("late"))), "--import", EFFECTS, "--watch")
    process.saw("waiting", "wait")
    assert process.send(signal.SIGINT) == 130
    instance_id = only_run(anabranch)
    anabranch("runs", "signal", instance_id, "go")  # it is due from now on

    launch("worker")
    anabranch("workflows", "import", write("plain.json", chain("plain")))
    other = anabranch("runs", "start", "plain", "--json").document["instanceID"]
    assert anabranch("runs", "watch", other).code == 0, "the worker works"

    assert worker_of(database, instance_id) is None, "and takes nothing that it cannot run"
    refused = launch("run", "--resume", instance_id)  # in this process other tests have loaded the types
    assert (refused.ended(), "UNKNOWN_NODE_TYPE" in refused.text) == (2, True)
    assert launch("run", "--resume", instance_id, "--import", EFFECTS).ended() == 0
    assert anabranch("runs", "show", instance_id, "--json").document["status"] == "COMPLETED"


def worker_of(database: str, instance_id: str) -> str | None:
    """Who holds the run."""

    async def ask() -> str | None:
        async with build(Settings(database_url=database)).open_runs(works=False) as runs:
            return (await runs.workflows.get_run_status(instance_id, tenant_id="default")).worker_id

    return asyncio.run(ask())

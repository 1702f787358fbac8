"""Functions whose logs an older version has recorded go on, and come to what they came to there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from anabranch.durable.definition import Workflow
from anabranch.durable.history_replay import Agreement, replay_function
from anabranch.engine.rules.coded.coded_plan import coded_plan
from anabranch.engine.rules.coded.names import variable_and_mark
from anabranch.engine.rules.drawn.drawn_state import InstanceHead
from anabranch.engine.rules.events import Event, EventType
from anabranch.engine.rules.evolve import fold
from anabranch.engine.rules.instants import from_iso
from anabranch.engine.rules.stimuli import SignalSent
from anabranch.engine.rules.values import Payload
from anabranch.engine.rules.verify.check_log import check_log
from tests.durable.loop_world import World, in_virtual_time
from tests.golden.coded.cases import CASES

RECORDED: dict[str, dict[str, dict[str, Any]]] = {
    path.stem: json.loads(path.read_text()) for path in Path(__file__).parent.glob("*.json")
}
RUNS = [(version, name) for version, runs in RECORDED.items() for name in runs]


@pytest.mark.parametrize("unwinds", [False, True])
@pytest.mark.parametrize(("version", "name"), RUNS)
def test_a_run_of_an_older_version_comes_to_what_it_came_to_there(version: str, name: str, *, unwinds: bool) -> None:
    recorded = RECORDED[version][name]
    function, input = CASES[name]
    world = World(function, 0, unwinds, input=input)
    take_up(world, recorded["instanceID"], [_event(row) for row in recorded["log"]])

    world.run.when(SignalSent("go", Payload.of({"n": 1})))
    in_virtual_time(world.live())

    assert world.outcome == recorded["output"]


@pytest.mark.parametrize("version", RECORDED)
async def test_their_logs_are_as_defined_and_their_functions_still_fit_them(version: str) -> None:
    for name, recorded in RECORDED[version].items():
        function = Workflow("golden", 1, CASES[name][0], {})
        log = [_event(row) for row in recorded["log"]]
        began = log[0].created_at
        head = InstanceHead(recorded["instanceID"], "default", "workflow", "golden", 1, began, began, kind="coded")
        plan = coded_plan("golden", 1, {})
        assert check_log(plan, head, log) == [], name
        replayed = await replay_function(function, plan, head, log)
        assert replayed.agreement is Agreement.SAME, f"{name}: {replayed}"


def test_there_are_enough_of_them() -> None:
    assert len(RECORDED["0.1.0"]) >= 60
    assert set(RECORDED["0.1.0"]) == set(CASES)


FORMS = {
    "NODE_ATTEMPT_FAILED run", "NODE_ATTEMPT_FAILED function", "NODE_COMPLETED child", "NODE_COMPLETED event",
    "NODE_COMPLETED run", "NODE_COMPLETED signal", "NODE_COMPLETED sleep", "NODE_DISPATCHED child",
    "NODE_DISPATCHED function", "NODE_DISPATCHED run", "NODE_FAILED child", "NODE_FAILED run", "NODE_SKIPPED event",
    "NODE_WAITING child", "NODE_WAITING event", "NODE_WAITING sleep", "NODE_WAITING function",
    "INPUT_SET", "SYSTEM_SET", "SIGNAL_RECEIVED", "INSTANCE_RECOVERED", "INSTANCE_COMPLETED", "INSTANCE_FAILED",
    "INSTANCE_CANCELLED",
}  # fmt: skip
"""Every row that version 0.1.0 wrote for coded runs, with the kind of its step."""


def test_every_form_of_a_coded_row_is_recorded() -> None:
    tables = json.loads((Path(__file__).parents[1] / "0.1.0.json").read_text(encoding="utf-8"))["tables"]
    coded = {run["instance_id"] for run in tables["workflow_instances"] if run["kind"] == "coded"}
    forms = {
        _form(row["event_type"], row["output_variable"])
        for row in tables["workflow_instance_logs"]
        if row["instance_id"] in coded
    }
    for run in RECORDED["0.1.0"].values():
        forms |= {_form(row["eventType"], row["outputVariable"]) for row in run["log"]}
    assert forms == FORMS


def _form(event_type: str, mark: str | None) -> str:
    if not event_type.startswith("NODE_"):
        return event_type
    return f"{event_type} {(mark or 'function').partition(':')[0]}"


def take_up(world: World, run_id: str, log: list[Event]) -> None:
    """Let the world's run be this one."""
    began = log[0].created_at
    run = world.run
    run.plan = coded_plan("golden", 1, {})
    run.head = InstanceHead(run_id, "default", "workflow", "golden", 1, began, began, kind="coded")
    run.log, run.now = log, log[-1].created_at
    run.state = fold(run.plan, run.head, log)
    world.began_at = run.now


def _event(row: dict[str, Any]) -> Event:
    variable, mark = variable_and_mark(row["outputVariable"])
    return Event(
        row["seq"],
        EventType(row["eventType"]),
        row["nodeID"],
        row["scope"],
        row["nodeAttempt"],
        Payload.of(row["payload"]),
        from_iso(row["createdAt"]),
        row["nextHandle"],
        variable,
        row["errorMessage"],
        mark=mark,
    )

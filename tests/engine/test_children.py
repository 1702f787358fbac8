"""Runs that are started by nodes of other runs: once each, awaited, and never left behind."""

from __future__ import annotations

from typing import Any

import pytest

from anabranch.engine.rules.child_ids import child_id
from anabranch.service.child_runs import DEPTH_MAX
from tests.engine import nodes
from tests.engine.conftest import TENANT, MakeProcess, Process, until
from tests.engine.drawing import QUICK_RETRY, drawn, node

SHORT_LEASE_MS = 600


def calls(
    name: str, child: str, *, wait: Any = True, input_: Any = None, version: Any = None, **fields: Any
) -> dict[str, Any]:
    """A workflow with one node, `call`, that starts `child`; its output is the run's."""
    config = {"workflow": child, "wait": wait}
    if input_ is not None:
        config["input"] = input_
    if version is not None:
        config["version"] = version
    return drawn(
        name,
        node("call", "workflow", config=config, outputVariable="got", **fields),
        node("end", "end", config={"outputParameters": {"got": "{{ctx.got}}"}}),
    )


def doubles(name: str = "doubles") -> dict[str, Any]:
    """A child that answers with twice its input's `n`."""
    return drawn(name, node("end", "end", config={"outputParameters": {"twice": "{{ctx.input.n * 2}}"}}))


def gated(name: str, gate: str) -> dict[str, Any]:
    """A child that waits until the test opens a gate."""
    return drawn(
        name,
        node("gate", "testGate", config={"gate": gate}),
        node("end", "end", config={"outputParameters": {"passed": gate}}),
    )


def asks(name: str, event: str) -> dict[str, Any]:
    """A child that waits for a signal, and is parked meanwhile."""
    return drawn(
        name,
        node("ask", "waitForEvent", config={"event": event}, outputVariable="answer"),
        node("end", "end", config={"outputParameters": {"answer": "{{ctx.answer}}"}}),
    )


async def save(process: Process, *documents: dict[str, Any]) -> None:
    for document in documents:
        await process.service.save_workflow(document, tenant_id=TENANT)


async def types_of(process: Process, run_id: str, node_id: str = "") -> list[str]:
    """The types of a run's events about one node."""
    log = await process.service.get_log(run_id, tenant_id=TENANT)
    return [event["eventType"] for event in log if event["nodeID"] == node_id]


async def children_of(process: Process, run_id: str) -> list[dict[str, Any]]:
    runs = await process.service.list_runs(tenant_id=TENANT, limit=100)
    return [run for run in runs if run["parentID"] == run_id]


# -- the course of a child ------------------------------------------------------------------------
async def test_the_output_of_a_child_is_the_output_of_its_node(process: Process) -> None:
    await save(process, doubles())
    run_id = await process.run(calls("calls", "doubles", input_={"n": "{{ctx.input.n}}"}), {"n": 21})

    run = await process.ended(run_id)

    assert (run["status"], run["output"]) == ("COMPLETED", {"got": {"twice": 42}})
    (child,) = await children_of(process, run_id)
    assert child["instanceID"] == child_id(run_id, "call", "")
    log = await process.service.get_log(run_id, tenant_id=TENANT)
    assert [e["payload"] for e in log if e["eventType"] == "NODE_WAITING"] == [{"childID": child["instanceID"]}]

"""Pure nodes in a real engine: how many commits they take, what a refusal and a stop do to them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from anabranch.engine.ports import Outcome
from anabranch.engine.rules.events import Event
from anabranch.engine.rules.transitions import Transition
from tests.engine import nodes
from tests.engine.conftest import TENANT, MakeProcess, Process
from tests.engine.drawing import drawn, node


def chain(name: str, length: int) -> dict[str, Any]:
    """`length` nodes, each of which takes the value of the one before."""
    first = node("n1", config={"values": {"n": "{{ctx.input.n}}"}}, outputVariable="v")
    rest = [
        node(f"n{number}", config={"values": {"n": "{{ctx.v.n + 1}}"}}, outputVariable="v")
        for number in range(2, length + 1)
    ]
    end = node("end", "end", config={"outputParameters": {"n": "{{ctx.v.n}}"}})
    return drawn(name, first, *rest, end)


def endless(name: str) -> dict[str, Any]:
    """A loop of pure nodes that goes on for 100,000 rounds."""
    config = {"while": "{{ctx.count == null}}", "maxIterations": 100_000}
    step = node("step", config={"values": {"n": "{{ctx.index}}"}})
    return drawn(
        name, node("again", "loop", config=config), step, edges=[("start", "again"), ("again", "step", "loop")]
    )


async def log_of(process: Process, run: str) -> Sequence[Event]:
    return await process.engine.store.read_log(run, limit=1_000)


def rows(log: Sequence[Event]) -> list[tuple[Any, ...]]:
    return [(row.seq, row.type, row.node_id, row.scope, row.attempt, row.payload.raw, row.next_handle) for row in log]


async def test_a_chain_takes_two_commits(process: Process, monkeypatch: pytest.MonkeyPatch) -> None:
    batches: list[Sequence[Transition]] = []
    commit = process.engine.store.commit

    async def counted(transitions: Sequence[Transition], *, may_wait: bool = False) -> Outcome:
        batches.append(transitions)
        return await commit(transitions, may_wait=may_wait)

    monkeypatch.setattr(process.engine.store, "commit", counted)
    run = await process.run(chain("short", 10), {"n": 1})
    assert (await process.ended(run))["output"] == {"n": 10}
    assert len(batches) == 2, "the start, and everything that follows from it"


async def test_pure_nodes_of_one_decision_begin_and_end_at_one_time(process: Process) -> None:
    run = await process.run(chain("instant", 10), {"n": 1})
    await process.ended(run)
    times = {row.created_at for row in await log_of(process, run) if row.seq > 2}
    assert len(times) == 1


async def test_evaluated_and_executed_they_write_the_same_log(make_process: MakeProcess) -> None:
    evaluates = await make_process()
    executes = await make_process(evaluations_max=0)
    document = chain("both", 5)
    document["nodes"].append(
        node("pick", "condition", config={"branches": [{"id": "big", "expression": "{{ctx.v.n > 4}}"}]})
    )
    document["edges"].append({"upstreamNodeID": "n5", "downstreamNodeID": "pick", "sourceHandle": None})
    logs = []
    for process in (evaluates, executes):
        run = await process.run(document, {"n": 1})
        assert (await process.ended(run))["status"] == "COMPLETED"
        logs.append(rows(await log_of(process, run)))
    evaluated, executed = logs
    assert sorted(row[1:] for row in evaluated) == sorted(row[1:] for row in executed)


@pytest.mark.parametrize("evaluations_max", [1, 3])
async def test_what_a_transition_leaves_the_next_ones_evaluate(make_process: MakeProcess, evaluations_max: int) -> None:
    process = await make_process(evaluations_max=evaluations_max)
    run = await process.run(chain("few", 10), {"n": 1})
    assert (await process.ended(run))["output"] == {"n": 10}


async def test_a_database_that_refuses_an_output_fails_its_node_and_not_the_effect_before_it(
    process: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = process.engine.store.commit

    async def refuse(transitions: Sequence[Transition], *, may_wait: bool = False) -> Outcome:
        bad = {
            each.instance_id: "no cats"
            for each in transitions
            if any(b"a cat" in event.payload.raw and b"no cats" not in event.payload.raw for event in each.events)
        }
        outcome = await commit([each for each in transitions if each.instance_id not in bad], may_wait=may_wait)
        return replace(outcome, refused={**outcome.refused, **bad})

    monkeypatch.setattr(process.engine.store, "commit", refuse)
    run = await process.run(
        drawn(
            "refused",
            node("effect", "testFails", config={"times": 0}),
            node("good", config={"values": {"is": "fine"}}),
            node("bad", config={"values": {"is": "{{'a ' ~ 'cat'}}"}}),
            node("after"),
        )
    )
    row = await process.ended(run)
    assert row["status"] == "FAILED"
    log = await log_of(process, run)
    ended = {event.node_id: str(event.type) for event in log if event.node_id}
    assert ended["effect"] == ended["good"] == "NODE_COMPLETED"
    assert ended["bad"] == "NODE_FAILED"
    (failure,) = (event for event in log if event.type == "NODE_FAILED")
    assert failure.payload.value["error"]["code"] == "VALUE_NOT_STORABLE"
    assert sum(nodes.calls.values()) == 1, "the effect is not repeated"


async def test_a_stopping_process_leaves_pure_nodes_to_the_next_owner(
    make_process: MakeProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await make_process(evaluations_max=3)
    seen: list[int] = []

    def rounds() -> int:
        return sum(event.type == "NODE_COMPLETED" for _, event in first.log.events)

    stop_evaluating = first.engine.orchestrator.stop_evaluating

    def stop_and_count() -> None:
        stop_evaluating()
        seen.append(rounds())

    monkeypatch.setattr(first.engine.orchestrator, "stop_evaluating", stop_and_count)
    run = await first.run(endless("endless"))
    await first.log.saw("NODE_COMPLETED", "step", count=10)
    await first.engine.stop(grace_s=5.0)
    (at_stop,) = seen
    assert rounds() - at_stop <= 2 * 3, "what was being committed, and what was offered before"

    second = await make_process(evaluations_max=3)
    await second.log.saw("NODE_COMPLETED", "step", instance_id=run, count=10)
    await second.service.cancel_run(run, tenant_id=TENANT, reason="enough")
    assert (await second.ended(run))["status"] == "CANCELLED"

"""Faults of our own: one run's decision that cannot be made harms no other run, and the log says whose it is."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, cast

import pytest

from anabranch.engine.orchestrator import _call_all
from anabranch.engine.ownership.reconcile import DEFECTS_MAX
from anabranch.engine.ports import WorkerCode
from anabranch.engine.rules.shared.failures import failed_by, who_did
from anabranch.engine.rules.stimuli import Completed, NodeResult, StepReport
from tests.engine import nodes
from tests.engine.conftest import TENANT, MakeProcess, until
from tests.engine.drawing import drawn, node

# An output that is no payload: the decision about it raises.
NONSENSE = Completed(cast(Any, None))


async def test_a_decision_that_cannot_be_made_names_node_and_run_and_the_run_is_taken_up_again(
    make_process: MakeProcess, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "anabranch.engine")
    process = await make_process(lease_ms=3_000)
    harmed, neighbour = [
        await process.run(drawn(name, node("gate", "testGate", config={"gate": name}))) for name in ("harmed", "well")
    ]
    for run in (harmed, neighbour):
        await process.log.saw("NODE_DISPATCHED", "gate", instance_id=run)

    process.engine.orchestrator.owned.receive(harmed, NodeResult("gate", "", 1, NONSENSE))

    await until(lambda: any("a decision about node gate" in record.getMessage() for record in caplog.records))
    (line,) = [record for record in caplog.records if "a decision about node gate" in record.getMessage()]
    assert line.getMessage() == f"a decision about node gate of run {harmed} failed"
    assert line.exc_info is not None and line.exc_info[0] is not None
    assert process.engine.orchestrator.owns(neighbour)
    nodes.open_gate("harmed")
    nodes.open_gate("well")
    assert [(await process.ended(run))["status"] for run in (harmed, neighbour)] == ["COMPLETED"] * 2


async def test_a_run_that_cannot_be_decided_is_suspended_until_another_release_takes_it_up(
    make_process: MakeProcess,
) -> None:
    process = await make_process(release="1.0")
    run_id = await process.run(drawn("undecidable", node("gate", "testGate", config={"gate": "never-mind"})))
    held, store = process.engine.orchestrator.owned, process.engine.store

    for tries in range(1, DEFECTS_MAX + 1):
        await until(lambda tries=tries: nodes.calls.total() == tries and process.engine.orchestrator.owns(run_id))
        held.receive(run_id, NodeResult("gate", "", 1, NONSENSE))
        await until(lambda: not process.engine.orchestrator.owns(run_id))
        process.engine.claimer.soon()
    await process.log_has(run_id, "INSTANCE_SUSPENDED")

    shown = await process.service.get_run(run_id, tenant_id=TENANT)
    assert (shown["suspended"]["reason"], shown["worker"]) == ("ENGINE_DEFECT", None)
    assert shown["suspended"]["message"].startswith("AttributeError: ")
    await process.engine.claimer.claim_once()
    assert not process.engine.orchestrator.owns(run_id), "nobody of this release takes it"
    nodes.open_gate("never-mind")
    same, another = (WorkerCode(digests={}, release=each) for each in ("1.0", "1.1"))
    assert await store.offer_refused(same, since=0, limit=9) == 0
    assert await store.offer_refused(another, since=0, limit=9) == 1
    assert (await process.ended(run_id))["status"] == "COMPLETED"


def test_a_step_is_named_with_its_run() -> None:
    report = StepReport(name="charge", scope="#2", attempt=1, mark="run:1", function_attempt=1, outcome=NONSENSE)
    assert who_did(report, run_id="r-1") == "step charge#2 of run r-1"


@pytest.mark.parametrize("failure", [SystemExit(), ValueError(), ValueError(""), KeyError(""), RuntimeError("  \n")])
def test_an_exception_without_text_has_a_message(failure: BaseException) -> None:
    error = failed_by(failure, node_id="charge", scope="", attempt=1).error
    assert error.message.strip(), repr(failure)
    assert type(failure).__name__ in error.message or str(failure).strip()


async def test_a_function_that_cannot_be_told_of_its_reports_keeps_no_other_one_waiting() -> None:
    loop, told = asyncio.get_running_loop(), list[str]()
    defects: list[dict[str, Any]] = []
    loop.set_exception_handler(lambda _, context: defects.append(context))

    def defective() -> None:
        raise LookupError("defective")

    _call_all([lambda: told.append("first"), defective, lambda: told.append("last")])
    assert told == ["first", "last"]
    assert [str(each["exception"]) for each in defects] == ["defective"]

"""A start takes the workflow's newest version, although it is not read for each: others may have saved meanwhile."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from anabranch.engine.rules.stimuli import Started
from anabranch.engine.rules.values import Payload
from anabranch.errors import InvalidInput, NotFound, StoreUnavailable, TooManyPending
from anabranch.run_requests import StartOptions
from tests.engine import nodes
from tests.engine.conftest import TENANT, MakeProcess, Process, until
from tests.engine.drawing import drawn, node


def greeting(number: int, **options: Any) -> dict[str, Any]:
    return drawn("greeting", node("end", "end", config={"outputParameters": {"version": number}}), **options)


async def save(process: Process, document: dict[str, Any], workflow: str | None = None) -> str:
    if workflow is None:
        saved, _ = await process.service.save_workflow(document, tenant_id=TENANT)
    else:
        saved, _ = await process.service.update_workflow(workflow, document, tenant_id=TENANT)
    return saved.workflow_id


async def started(process: Process, workflow: str = "greeting", input_: Any = None, **options: Any) -> str:
    return (
        await process.service.execute_workflow(workflow, input_, StartOptions(**options), tenant_id=TENANT)
    ).instance_id


async def version_of(process: Process, instance_id: str) -> int:
    return (await process.service.get_run_status(instance_id, tenant_id=TENANT)).head.workflow_version


@pytest.fixture
async def saver(make_process: MakeProcess) -> Process:
    """Another process on the same database."""
    return await make_process(works=False)


async def test_a_start_after_a_save_elsewhere_takes_the_new_version(process: Process, saver: Process) -> None:
    workflow_id = await save(saver, greeting(1))
    for number in range(2, 6):
        for workflow in ("greeting", workflow_id):
            assert await version_of(process, await started(process, workflow)) == number - 1
        await save(saver, greeting(number))
        ended = await process.ended(await started(process))
        assert ended["output"] == {"version": number}


async def test_a_workflow_is_not_read_for_every_start(process: Process, monkeypatch: pytest.MonkeyPatch) -> None:
    await save(process, greeting(1))
    await started(process)

    async def unread(**_: Any) -> None:
        raise StoreUnavailable("nothing needs to be read")

    monkeypatch.setattr(process.engine.store, "get_workflow", unread)
    assert await version_of(process, await started(process)) == 1


async def test_a_named_version_is_taken_whatever_is_newest(process: Process, saver: Process) -> None:
    await save(saver, greeting(1))
    await started(process)
    await save(saver, greeting(2))
    assert await version_of(process, await started(process, version=1)) == 1
    assert await version_of(process, await started(process)) == 2


async def test_a_start_after_a_delete_elsewhere_finds_nothing_or_what_has_the_name_now(
    process: Process, saver: Process
) -> None:
    first = await save(saver, greeting(1))
    await process.ended(await started(process))
    await saver.service.delete_workflow("greeting", tenant_id=TENANT)
    with pytest.raises(NotFound, match="there is no workflow"):
        await started(process)
    second = await save(saver, greeting(2))
    found = await process.service.get_run_status(await started(process), tenant_id=TENANT)
    assert (found.head.workflow_id, found.head.workflow_version) == (second, 1)
    with pytest.raises(NotFound, match="there is no workflow"):
        await started(process, first)


async def test_a_name_that_another_workflow_has_taken_over_starts_that_one(process: Process, saver: Process) -> None:
    first = await save(saver, greeting(1))
    await started(process)
    await save(saver, {**greeting(2), "name": "welcome"}, first)
    second = await save(saver, greeting(3))
    for workflow, expected in (("greeting", second), ("welcome", first), (first, first)):
        found = await process.service.get_run_status(await started(process, workflow), tenant_id=TENANT)
        assert found.head.workflow_id == expected


async def test_an_input_is_held_against_the_newest_schema(process: Process, saver: Process) -> None:
    number = {"type": "object", "required": ["n"]}
    await save(saver, greeting(1, inputSchema=number))
    await started(process, input_={"n": 1})
    await save(saver, greeting(2))
    assert await version_of(process, await started(process, input_={})) == 2
    await save(saver, greeting(3, inputSchema=number))
    with pytest.raises(InvalidInput):
        await started(process, input_={})


async def test_a_repeated_start_finds_its_run_whatever_was_saved_meanwhile(process: Process, saver: Process) -> None:
    await save(saver, greeting(1))
    first = await started(process, idempotency_key="order-1")
    assert await started(process, idempotency_key="order-1") == first
    await save(saver, greeting(2))
    assert await started(process, idempotency_key="order-1") == first


async def test_a_key_belongs_to_the_name_that_the_workflow_has_now(process: Process, saver: Process) -> None:
    workflow_id = await save(saver, greeting(1))
    first = await started(process, workflow_id, idempotency_key="order-1")
    await save(saver, {**greeting(2), "name": "welcome"}, workflow_id)
    assert await started(process, workflow_id, idempotency_key="order-1") != first


async def test_the_limit_of_pending_runs_is_no_answer_for_a_workflow_that_is_gone(make_process: MakeProcess) -> None:
    process, saver = await make_process(works=False, pending_max=1), await make_process(works=False)
    await save(saver, greeting(1))
    await started(process)
    with pytest.raises(TooManyPending):
        await started(process)
    await saver.service.delete_workflow("greeting", tenant_id=TENANT, force=True)
    with pytest.raises(NotFound):
        await started(process)


async def test_a_run_that_was_born_by_another_version_is_not_advanced_by_ours(process: Process) -> None:
    """Its first creation was written although its answer was lost; the second was decided after a save."""
    gate = node("gate", "testGate", config={"gate": "never"})
    await save(process, drawn("gated", gate))
    instance_id = await started(process, "gated")
    await until(lambda: nodes.calls)
    await save(process, drawn("gated", gate, node("further")))
    row = await process.service.get_run_status(instance_id, tenant_id=TENANT)
    second = replace(row.head, workflow_version=2)
    plan = await process.engine.plans.plan_of(second)
    again = Started(Payload.of(None), only_active=True)
    process.engine.orchestrator.owned.drop(instance_id, "its first creation was given up")
    new_run = await process.engine.orchestrator.create_run(second, plan, again)
    assert (new_run.instance_id, new_run.created) == (instance_id, True)
    assert not process.engine.orchestrator.owns(instance_id), "whoever takes it up reads by which plan"

"""A start whose workflow is deleted between the look at it and the commit of the run."""

from __future__ import annotations

from dataclasses import replace

import pytest

from anabranch.engine.rules.stimuli import Started
from anabranch.engine.rules.values import Payload
from anabranch.errors import NotFound
from tests.conformance.building import new_id
from tests.engine.conftest import TENANT, Process
from tests.engine.drawing import drawn, node


async def test_a_start_that_a_delete_has_overtaken_is_answered_at_once_and_leaves_nothing(process: Process) -> None:
    first = await process.run(drawn("leaving", node("only")))
    await process.ended(first)
    row = await process.service.get_run_status(first, tenant_id=TENANT)
    await process.service.delete_workflow("leaving", tenant_id=TENANT)

    late = replace(row.head, instance_id=new_id())
    plan = await process.engine.plans.plan_of(late)
    with pytest.raises(NotFound, match="deleted before"):
        await process.engine.orchestrator.create_run(late, plan, Started(Payload.of(None)))

    assert not process.engine.orchestrator.owns(late.instance_id)
    assert await process.engine.store.get_instance(late.instance_id) is None

"""Saving under a name when others save in the same moment."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from anabranch.engine.engine_options import EngineOptions
from anabranch.engine.lifecycle import Engine
from anabranch.engine.store.opening import open_store
from anabranch.errors import NameTaken
from anabranch.handlers.registry import builtin_types
from anabranch.service import WorkflowService

TENANT = "default"
SAVERS = 4


@pytest.fixture
async def service(sqlite_url: str) -> AsyncIterator[WorkflowService]:
    store = open_store(sqlite_url)
    await store.start()
    engine = Engine(store=store, handlers=builtin_types(), options=EngineOptions())
    await engine.start()
    yield WorkflowService(engine=engine, node_types=builtin_types(), retention_days_max=1, pending_max=1)
    await engine.stop()
    await store.stop()


def document(number: int, **fields: Any) -> dict[str, Any]:
    return {"nodes": [{"id": "start", "type": "start", "name": f"Saved by {number}"}], "edges": [], **fields}


async def test_savers_of_one_name_at_once_get_a_version_each(service: WorkflowService):
    saved = await asyncio.gather(
        *(service.save_workflow(document(number, name="triage"), tenant_id=TENANT) for number in range(SAVERS))
    )
    assert sorted(version.version for version, _ in saved) == list(range(1, SAVERS + 1))
    assert len({version.workflow_id for version, _ in saved}) == 1


async def test_savers_of_one_file_at_once_get_the_same_version(service: WorkflowService):
    saved = await asyncio.gather(
        *(service.save_workflow(document(1, name="triage"), tenant_id=TENANT) for _ in range(SAVERS))
    )
    assert {version.version for version, _ in saved} == {1}


async def test_creators_of_one_title_at_once_get_a_name_each(service: WorkflowService):
    saved = await asyncio.gather(
        *(service.create_workflow(document(number, title="Triage"), tenant_id=TENANT) for number in range(SAVERS))
    )
    assert sorted(version.name for version, _ in saved) == ["triage", "triage-2", "triage-3", "triage-4"]


async def test_a_name_that_was_asked_for_and_is_taken_is_refused(service: WorkflowService):
    await service.create_workflow(document(1, name="triage"), tenant_id=TENANT)
    with pytest.raises(NameTaken):
        await service.create_workflow(document(2, name="triage"), tenant_id=TENANT)

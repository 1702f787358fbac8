"""Lists of workflows, versions and runs, and pages of logs: complete, in order, nothing of another tenant."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from anabranch.engine.engine_options import EngineOptions
from anabranch.engine.lifecycle import Engine
from anabranch.engine.rules.run_filter import RunFilter
from anabranch.errors import InvalidRequest, NotFound
from anabranch.handlers.registry import builtin_types
from anabranch.run_requests import INPUT_FILTERS_MAX, INPUT_PATH_STEPS_MAX
from anabranch.service import WorkflowService
from anabranch.testing.memory_store.database import MemoryDatabase
from anabranch.testing.memory_store.memory_store import MemoryStore

TENANT = "default"
NOON_MS = 1_800_000_000_000
NOON = "2027-01-15T08:00:00.000+00:00"


def drawn(name: str, *, hours: int = 1) -> dict[str, Any]:
    """A workflow that sleeps for some hours."""
    nap = {"id": "nap", "type": "delay", "config": {"duration": f"{hours}h"}}
    edges = [{"upstreamNodeID": "start", "downstreamNodeID": "nap"}]
    return {"name": name, "title": name.upper(), "nodes": [{"id": "start", "type": "start"}, nap], "edges": edges}


@pytest.fixture
async def service() -> AsyncIterator[WorkflowService]:
    store = MemoryStore(MemoryDatabase(now=lambda: NOON_MS))
    engine = Engine(store=store, handlers=builtin_types(), options=EngineOptions())
    await engine.start()
    yield WorkflowService(engine=engine, node_types=builtin_types(), retention_days_max=1, pending_max=1)
    await engine.stop()


async def test_a_workflow_is_listed_with_its_newest_version_and_its_run_counts(service: WorkflowService):
    saved, _ = await service.save_workflow(drawn("nap"), tenant_id=TENANT)
    saved, _ = await service.save_workflow(drawn("nap", hours=2), tenant_id=TENANT)
    await service.save_workflow(drawn("other"), tenant_id="somebody-else")
    run = await service.execute_workflow("nap", {}, tenant_id=TENANT)
    await service.cancel_run(run.instance_id, tenant_id=TENANT, reason="")
    (listed,) = await service.get_all_workflows(tenant_id=TENANT, limit=10)
    expected = {
        "workflowID": saved.workflow_id,
        "name": "nap",
        "title": "NAP",
        "kind": "drawn",
        "version": 2,
        "activeVersion": 2,
        "paused": None,
        "runCounts": {"CANCELLED": 1},
        "createdAt": NOON,
        "updatedAt": NOON,
    }
    assert listed == expected
    graph = {"nodes": drawn("nap", hours=2)["nodes"], "edges": drawn("nap")["edges"], "workflowOptions": None}
    (with_graph,) = await service.get_all_workflows(tenant_id=TENANT, limit=10, include_graph=True)
    assert with_graph == {**expected, **graph}
    assert await service.get_workflow_details("nap", tenant_id=TENANT) == {**expected, **graph}
    first = await service.get_workflow_details("nap", tenant_id=TENANT, version=1)
    assert (first["version"], first["nodes"]) == (1, drawn("nap")["nodes"])


async def test_workflows_are_paged_by_name(service: WorkflowService):
    for name in ("c", "a", "b"):
        await service.save_workflow(drawn(name), tenant_id=TENANT)
    first = await service.get_all_workflows(tenant_id=TENANT, limit=2)
    second = await service.get_all_workflows(tenant_id=TENANT, limit=2, after=first[-1]["name"])
    assert [item["name"] for item in first + second] == ["a", "b", "c"]


async def test_versions_are_listed_newest_first(service: WorkflowService):
    for hours in (1, 2, 3):
        await service.save_workflow(drawn("nap", hours=hours), tenant_id=TENANT)
    newest = await service.get_workflow_versions("nap", tenant_id=TENANT, limit=2)
    assert [item["version"] for item in newest] == [3, 2]
    (first,) = await service.get_workflow_versions("nap", tenant_id=TENANT, limit=2, before=2)
    saved = await service.get_workflow_by_id("nap", tenant_id=TENANT, version=1)
    assert first == {
        "workflowID": saved.workflow_id,
        "name": "nap",
        "title": "NAP",
        "kind": "drawn",
        "version": 1,
        "active": False,
        "createdAt": NOON,
    }
    with pytest.raises(NotFound):
        await service.get_workflow_versions("nap", tenant_id="somebody-else", limit=2)


async def test_runs_are_found_by_their_workflow_whatever_it_is_called_now(service: WorkflowService):
    saved, _ = await service.save_workflow(drawn("old"), tenant_id=TENANT)
    run = await service.execute_workflow("old", {}, tenant_id=TENANT)
    await service.update_workflow("old", drawn("new"), tenant_id=TENANT)
    (listed,) = await service.list_runs(RunFilter(workflow="new"), tenant_id=TENANT, limit=10)
    assert listed["instanceID"] == run.instance_id
    await service.save_workflow(drawn("old"), tenant_id=TENANT)
    assert await service.list_runs(RunFilter(workflow="old"), tenant_id=TENANT, limit=10) == [], (
        "another one took the name"
    )
    assert saved.name == "old"


async def test_runs_are_found_by_their_input(service: WorkflowService):
    await service.save_workflow(drawn("nap"), tenant_id=TENANT)
    runs = [(await service.execute_workflow("nap", {"n": n}, tenant_id=TENANT)).instance_id for n in range(3)]
    wanted = RunFilter(workflow="nap", input_filters=[(("n",), "1")])
    found = await service.list_runs(wanted, tenant_id=TENANT, limit=10)
    assert [item["instanceID"] for item in found] == [runs[1]]
    assert await service.list_runs(RunFilter(test=True), tenant_id=TENANT, limit=10) == []


async def test_filters_that_would_cost_too_much_are_refused(service: WorkflowService):
    for filters in ([(("n",), "1")] * (INPUT_FILTERS_MAX + 1), [(("n",) * (INPUT_PATH_STEPS_MAX + 1), "1")]):
        with pytest.raises(InvalidRequest, match="at most"):
            await service.list_runs(RunFilter(input_filters=filters), tenant_id=TENANT, limit=10)


async def test_a_place_that_no_page_has_named_is_refused(service: WorkflowService):
    with pytest.raises(InvalidRequest, match="invalid"):
        await service.get_all_workflows(tenant_id=TENANT, limit=10, after="nap\x00")
    with pytest.raises(InvalidRequest, match="invalid"):
        await service.list_runs(tenant_id=TENANT, limit=10, before=(NOON_MS, "no id at all"))


async def test_a_log_and_its_steps_are_paged_by_seq(service: WorkflowService):
    await service.save_workflow(drawn("nap"), tenant_id=TENANT)
    run = (await service.execute_workflow("nap", {}, tenant_id=TENANT)).instance_id
    await service.cancel_run(run, tenant_id=TENANT, reason="")
    for whole, read_page in (
        (await service.get_log(run, tenant_id=TENANT), service.get_log_page),
        (await service.get_steps(run, tenant_id=TENANT), service.get_steps_page),
    ):
        assert len(whole) >= 2
        seen: list[dict[str, Any]] = []
        after: int | None = 0
        while after is not None:
            page, after = await read_page(run, tenant_id=TENANT, limit=1, after_seq=after)
            assert len(page) == 1
            seen += page
        assert seen == whole
        assert await read_page(run, tenant_id=TENANT, limit=10, after_seq=1_000) == ([], None)
        with pytest.raises(NotFound, match="there is no run"):
            await read_page(run, tenant_id="somebody-else", limit=10)

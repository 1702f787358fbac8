"""The graph of a run for drawing: of a saved version, of a test run's definition, or traced from a coded run.

Called by the service. A version stays readable while a run uses it, even if its workflow is deleted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from anabranch.engine.ports import InstanceRow, Store
from anabranch.engine.rules.event_payloads import DEFINITION_SEQ, read_definition, read_test_run
from anabranch.engine.rules.test_runs import WHOLE, TestRunPlan
from anabranch.errors import NotFound
from anabranch.service.runs.run_view import run_summary

_DRAWN_FIELDS = ("title", "workflowOptions", "notes", "viewport")


async def drawn_graph(store: Store, row: InstanceRow) -> dict[str, Any]:
    """The graph of a drawn run, with the pins and the last node of a test run. Raises NotFound."""
    return _shown(row, *await _definition(store, row))


async def history_head(store: Store, row: InstanceRow) -> dict[str, Any]:
    """A run, and the definition that it is pinned to: what a replay needs beside the log. Raises NotFound."""
    return {"run": run_summary(row), "definition": (await _definition(store, row))[0]}


async def _definition(store: Store, row: InstanceRow) -> tuple[Mapping[str, Any], TestRunPlan]:
    """The definition that a run is pinned to, and how a test run differs from it. Raises NotFound."""
    head = row.head
    if head.workflow_id is None:
        first = await store.read_log(head.instance_id, limit=DEFINITION_SEQ)
        definition, differs = read_definition(first), read_test_run(first)
    else:
        stored = await store.get_definition(head.workflow_id, head.workflow_version)
        definition, differs = None if stored is None else stored.definition, WHOLE
    if definition is None:
        raise NotFound(f"the definition of run {head.instance_id} is no longer stored")
    return definition, differs


def coded_graph(row: InstanceRow, traced: Mapping[str, Any]) -> dict[str, Any]:
    """The graph that a coded run has traced so far."""
    return _shown(row, traced, WHOLE)


def _shown(row: InstanceRow, graph: Mapping[str, Any], differs: TestRunPlan) -> dict[str, Any]:
    head = row.head
    return {
        "instanceID": head.instance_id,
        "kind": head.kind,
        "test": head.test,
        "workflowID": head.workflow_id,
        "name": head.workflow_name,
        "version": head.workflow_version,
        "nodes": graph.get("nodes", []),
        "edges": graph.get("edges") or [],
        **{field: graph.get(field) for field in _DRAWN_FIELDS},
        **differs.as_json(),
    }

"""BulkService: start bulk runs, and show their progress."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

from anabranch.bulk.bulk_actions import (
    BULK_NAME,
    DONE,
    PAGE_RUNS,
    RUNS_MAX,
    USUALLY,
    BulkAction,
    BulkActions,
    BulkRequest,
    check_bulk,
)
from anabranch.bulk.bulk_workflow import BULK_VERSION
from anabranch.durable.definition import Workflow
from anabranch.engine.ports import Store
from anabranch.engine.rules.history import ActivationFilter
from anabranch.errors import InvalidInput, NotFound
from anabranch.run_requests import StartOptions
from anabranch.service.runs.read_verbs import StepFilter
from anabranch.service.workflow_service import WorkflowService

# 20 runs of each refusal: enough to see what they have in common.
EXAMPLES = 20

# 1,000 pages of 100 runs.
PAGES_READ = 1_000


class BulkService:
    """Starts and shows bulk runs of tenants."""

    def __init__(self, *, workflows: WorkflowService, store: Store, actions: BulkActions, system: Workflow) -> None:
        self._workflows = workflows
        self._store = store
        self._actions = actions
        self._system = system

    async def start(self, request: BulkRequest, *, tenant_id: str, by: str, key: str | None = None) -> dict[str, Any]:
        """Start a bulk run: `{bulkID, status}`. A repeated key returns the first.

        Raises InvalidRequest (no condition; unknown options; no event), InvalidInput (more than 100,000 runs),
        NotFound (workflow, or the version of re-runs), TooManyPending, StoreUnavailable.
        """
        request = await self._checked(request, tenant_id=tenant_id)
        if await self._actions.count(request, tenant_id=tenant_id) > RUNS_MAX:
            raise InvalidInput(f"more than {RUNS_MAX:,} runs meet the filter", hint="Narrow the filter, by `since`.")
        # Only now: a database without bulk runs lists no workflow of the system's.
        known = await self._store.register_code(
            name=BULK_NAME, version=BULK_VERSION, definition={"workflowOptions": dict(self._system.options)}
        )
        options = StartOptions(version=BULK_VERSION, idempotency_key=key, started_by=by)
        started = await self._workflows.execute_workflow(
            known.workflow_id, request.as_json(), options, tenant_id=tenant_id
        )
        return {"bulkID": started.instance_id, "status": started.status.value}

    async def get(self, bulk_id: str, *, tenant_id: str) -> dict[str, Any]:
        """The progress of a bulk run: `{bulkID, action, status, dryRun, total, done, underWay, succeeded, counts,
        refused, error}`. Raises NotFound."""
        run = await self._workflows.get_run(bulk_id, tenant_id=tenant_id)
        if run["name"] != BULK_NAME:
            raise NotFound(f"there is no bulk run {bulk_id}")
        total, counts, refused = None, Counter[str](), list[dict[str, str]]()
        shown = Counter[str]()
        for node_id in ("total", "page"):
            after: int | None = 0
            while after is not None:
                steps, after = await self._workflows.get_steps_page(
                    bulk_id,
                    tenant_id=tenant_id,
                    limit=PAGES_READ,
                    after_seq=after,
                    wanted=StepFilter(ActivationFilter(node_id=node_id), outputs=True),
                )
                for output in (step["output"] for step in steps if step["output"] is not None):
                    if node_id == "total":
                        total = output
                        continue
                    counts.update(output["counts"])
                    for run_id, code in output["refused"]:
                        shown[code] += 1
                        if shown[code] <= EXAMPLES:
                            refused.append({"instanceID": run_id, "code": code})
        return {
            "bulkID": bulk_id,
            "action": run["input"]["action"],
            "status": run["status"],
            "dryRun": run["input"]["dryRun"],
            "total": total,
            "done": counts.total(),
            "underWay": min(PAGE_RUNS, (total or 0) - counts.total()),
            "succeeded": counts[DONE],
            "counts": dict(counts),
            "refused": refused,
            "error": run["error"],
        }

    async def _checked(self, request: BulkRequest, *, tenant_id: str) -> BulkRequest:
        check_bulk(request)
        wanted = request.filter
        if wanted.workflow is not None:
            # A re-run names the version that it takes: without it, each run would be refused by itself.
            version = request.options.get("version") if request.action is BulkAction.RERUN else None
            found = await self._workflows.get_workflow_by_id(wanted.workflow, tenant_id=tenant_id, version=version)
            wanted = replace(wanted, workflow=found.workflow_id)
        return replace(request, filter=replace(wanted, statuses=wanted.statuses or USUALLY[request.action]))

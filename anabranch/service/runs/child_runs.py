"""Child runs: start a run for a `workflow` node of another run.

The composition root passes this to the `workflow` type as its `Children`, and connects it with the engine and the
service later, because they need the node types first.
"""

from __future__ import annotations

from typing import Any

from anabranch.engine.handler_contract import Helpers
from anabranch.engine.lifecycle import Engine
from anabranch.engine.ports import WorkflowVersion
from anabranch.engine.rules.coded.coded_plan import CodedPlan
from anabranch.engine.rules.evolve import AnyPlan
from anabranch.engine.rules.shared.child_ids import child_id
from anabranch.engine.rules.shared.run_state import InstanceHead
from anabranch.engine.rules.stimuli import Started
from anabranch.errors import InvalidInput, NonRetryable, NotFound
from anabranch.service.runs.start_verbs import TEST_RETENTION_DAYS, deadline_of, input_payload, retention_days_of
from anabranch.service.workflow_service import WorkflowService

# 16 runs above a run: a deeper one is a workflow that starts itself without end.
DEPTH_MAX = 16


class ChildRuns:
    """Starts one child per activation, however often it is called."""

    def __init__(self) -> None:
        self._engine: Engine | None = None
        self._service: WorkflowService | None = None

    def connect(self, engine: Engine, service: WorkflowService) -> None:
        """Start runs in this engine from now on."""
        self._engine, self._service = engine, service

    async def start(
        self, helpers: Helpers, *, workflow: str, version: int | None, input_: Any, parent_waits: bool
    ) -> str:
        """Start the child of this activation and return its id; every attempt returns the same durable run.

        Raises NonRetryable (DEPTH_LIMIT, NOT_FOUND, NOT_CALLABLE, INVALID_INPUT), StoreUnavailable.
        """
        assert self._engine is not None and self._service is not None, "connect comes before any run"
        parent = self._engine.orchestrator.head_of(helpers.instance_id)
        if parent is None:
            raise NonRetryable(f"run {helpers.instance_id} is no longer advanced here")  # never shown
        if parent.depth >= DEPTH_MAX:
            message = f"{DEPTH_MAX} runs are above this one already: does the workflow start itself?"
            raise NonRetryable(message, code="DEPTH_LIMIT")
        generation = 0 if helpers.redone is None else helpers.redone.child_generation
        instance_id = child_id(helpers.instance_id, helpers.node_id, helpers.scope, generation)
        if await self._engine.store.get_instance(instance_id) is not None:
            return instance_id  # an earlier attempt, or one before a crash, has started it
        try:
            found = await self._service.get_startable(workflow, tenant_id=helpers.tenant_id, version=version)
            plan = await self._engine.plans.plan(found.workflow_id, found.version)
            trigger = _called_at(plan, found.name)
            payload = await input_payload(
                input_, plan, self._service.checks, tenant_id=helpers.tenant_id, trigger=trigger, bounded=False
            )
            head = self._child_head(found, plan, parent, helpers, instance_id=instance_id, parent_waits=parent_waits)
            # No limit of PENDING runs here: running work must not be refused halfway.
            may_begin = self._engine.orchestrator.owned.may_begin(head)
            started = Started(payload, trigger, begin=may_begin and self._engine.plans.can_run_plan(head, plan))
            await self._engine.orchestrator.create_run(head, plan, started)
        except (NotFound, InvalidInput) as refusal:
            raise NonRetryable(refusal.message, code=refusal.code) from refusal
        return instance_id

    def _child_head(
        self,
        found: WorkflowVersion,
        plan: AnyPlan,
        parent: InstanceHead,
        helpers: Helpers,
        *,
        instance_id: str,
        parent_waits: bool,
    ) -> InstanceHead:
        """The head of a run that an activation of `parent` starts; deadline and retention are its own workflow's.

        Children of a test run are kept no longer than test runs.
        """
        assert self._engine is not None and self._service is not None, "connect comes before any run"
        now = self._engine.clock.now()
        retention_days = min(max(1, retention_days_of(plan)), self._service.retention_days_max)
        return InstanceHead(
            instance_id=instance_id,
            tenant_id=parent.tenant_id,
            workflow_id=found.workflow_id,
            workflow_name=found.name,
            workflow_version=found.version,
            created_at=now,
            available_at=now,
            deadline_at=deadline_of(plan, now),
            retention_days=TEST_RETENTION_DAYS if parent.test else retention_days,
            parent_id=parent.instance_id,
            kind=found.kind,
            test=parent.test,
            parent_node_id=helpers.node_id,
            parent_scope=helpers.scope,
            parent_waits=parent_waits,
            depth=parent.depth + 1,
            root_id=parent.root_id or parent.instance_id,
        )


def _called_at(plan: AnyPlan, name: str) -> str | None:
    """The trigger at which a child begins; None: `start`, or the function of a coded workflow."""
    if isinstance(plan, CodedPlan):
        return None
    if plan.called is None:
        message = f"workflow {name} has neither a workflowCall node nor a start node: no other run can start it"
        raise NonRetryable(message, code="NOT_CALLABLE")
    return None if plan.called is plan.start else plan.called.id

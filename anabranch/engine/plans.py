"""Compiled plans of the workflow versions in use, read from the store once each."""

from __future__ import annotations

import asyncio
from collections import OrderedDict

from anabranch.engine.ports import Store, WorkflowVersion
from anabranch.engine.rules.coded.plan import CODED_KIND, coded_plan
from anabranch.engine.rules.compile import compile_plan
from anabranch.engine.rules.instance import InstanceHead
from anabranch.engine.rules.node_types import NodeTypes
from anabranch.engine.rules.states import AnyPlan
from anabranch.errors import NotFound

# 1,000 versions: a plan of a few dozen nodes takes some 50 KB, so this stays within 50 MB.
PLANS_KEPT_MAX = 1_000


class PlanCache:
    """Plans by (workflow, version): versions never change, so a plan is compiled once."""

    def __init__(self, store: Store, node_types: NodeTypes) -> None:
        self._store = store
        self._node_types = node_types
        self._plans: OrderedDict[tuple[str, int], AnyPlan] = OrderedDict()
        self._reading: dict[tuple[str, int], asyncio.Event] = {}

    async def plan_of(self, head: InstanceHead) -> AnyPlan:
        """The plan that an instance is pinned to. Raises NotFound if its version is gone, StoreUnavailable."""
        if head.workflow_id is None:
            raise NotFound(f"run {head.instance_id} has no stored workflow")
        return await self.plan(head.workflow_id, head.workflow_version)

    async def plan(self, workflow_id: str, version: int) -> AnyPlan:
        """The plan of a workflow version."""
        key = (workflow_id, version)
        while key not in self._plans:
            under_way = self._reading.get(key)
            if under_way is None:
                await self._read(key)
            else:
                await under_way.wait()  # a thousand starts at once read and compile once
        self._plans.move_to_end(key)
        return self._plans[key]

    async def _read(self, key: tuple[str, int]) -> None:
        workflow_id, version = key
        read = self._reading[key] = asyncio.Event()
        try:
            stored = await self._store.get_definition(workflow_id, version)
            if stored is None:
                raise NotFound(f"version {version} of workflow {workflow_id} is not stored")
            self._plans[key] = self._compiled(stored)
            if len(self._plans) > PLANS_KEPT_MAX:
                self._plans.popitem(last=False)
        finally:
            del self._reading[key]
            read.set()

    def _compiled(self, stored: WorkflowVersion) -> AnyPlan:
        if stored.kind == CODED_KIND:
            return coded_plan(stored.name, stored.version, stored.definition)
        return compile_plan(stored.definition, self._node_types)

"""Compiled plans of workflow versions and test runs, which of them can be run here, and the active versions."""

from __future__ import annotations

import asyncio
import sys
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, Protocol

from anabranch.engine.ports import Store, WorkflowVersion
from anabranch.engine.rules.coded.coded_plan import CODED_KIND, coded_plan
from anabranch.engine.rules.drawn.drawn_state import InstanceHead
from anabranch.engine.rules.event_payloads import DEFINITION_SEQ, read_definition, read_test_run
from anabranch.engine.rules.evolve import AnyPlan
from anabranch.engine.rules.graph.compile import compile_plan
from anabranch.engine.rules.graph.node_types import BUILTIN_TYPES, NodeTypes
from anabranch.engine.rules.graph.plan import Plan
from anabranch.engine.rules.graph.pools import DEFAULT_POOL, Needs, are_served, served, types_in
from anabranch.engine.rules.test_runs import WHOLE, TestRunPlan
from anabranch.errors import NotFound

# 1,000 versions: a plan of a few dozen nodes takes some 50 KB, so this stays within 50 MB.
PLANS_KEPT_MAX = 1_000

# As many as plans: without a plan the definition is read anyway.
VERSIONS_KEPT_MAX = 1_000

PYTHON = f"{sys.version_info[0]}.{sys.version_info[1]}"
"""The version number of coded plans in this process."""

# Stored versions are numbered from 1.
TEST_VERSION = 0


class KnownCode(Protocol):
    """Workflow functions that can be called here."""

    @property
    def revision(self) -> int:
        """Another number after every change."""

    def known(self) -> Sequence[tuple[str, int]]:
        """Name and version of each."""


class PlanCache:
    """Plans by (workflow, version): versions never change, so a plan is compiled once.

    A test run has no stored version: its plan is kept under its own id and the number 0.
    """

    def __init__(
        self,
        store: Store,
        node_types: NodeTypes,
        code: Sequence[KnownCode] = (),
        *,
        evaluates: bool = True,
        pools: Sequence[str] = (DEFAULT_POOL,),
    ) -> None:
        """With `evaluates` decisions evaluate pure nodes; without, these are executed as jobs.

        `code` has the workflow functions of this process, `pools` are those that it serves.
        """
        self._code = code
        self._known_code: Sequence[tuple[str, int]] = ()
        self._known_at: list[int] = []
        """The revisions of the code that `_known_code` was read at."""
        self._evaluates = evaluates
        self._served = served(pools)
        self._store = store
        self._node_types = node_types
        self._plans: OrderedDict[tuple[str, int], AnyPlan] = OrderedDict()
        self._types_of = lru_cache(maxsize=PLANS_KEPT_MAX)(self._types_if_served)
        self._reading: dict[tuple[str, int], asyncio.Event] = {}

    def known_code(self) -> Sequence[tuple[str, int]]:
        """Name and version of the workflow functions that can be called here."""
        revisions = [each.revision for each in self._code]
        if revisions != self._known_at:  # asked at every claim
            self._known_code = [named for each in self._code for named in each.known()]
            self._known_at = revisions
        return self._known_code

    def known_types(self) -> Sequence[str]:
        """The node types that are here and not with every worker; and the pools that are served here."""
        return (*(name for name in self._node_types.names() if name not in BUILTIN_TYPES), *self._served)

    def can_run(self, needs: Needs) -> bool:
        """Is what a run needs here? A coded one needs its function, in this version."""
        code = self.known_code() if needs.coded else ()
        here = [name for name in needs.node_types if self._node_types.get(name) is not None]
        return needs.met_by(code=code, node_types=[*here, *self._served])

    def can_run_plan(self, head: InstanceHead, plan: AnyPlan) -> bool:
        """Is what this run needs here?"""
        if head.kind == CODED_KIND:
            return self.can_run(Needs(True, head.workflow_name, head.workflow_version, plan.needs))
        types = self._types_of(plan.needs)
        return types is not None and all(self._node_types.get(name) is not None for name in types)

    def _types_if_served(self, needs: tuple[str, ...]) -> tuple[str, ...] | None:
        """The node types in a list of needs; None if a pool in it is not served here."""
        return types_in(needs) if are_served(needs, by=self._served) else None

    async def plan_of(self, head: InstanceHead) -> AnyPlan:
        """The plan of an instance's version, or of the definition in a test run's log.

        Raises NotFound if it was removed, StoreUnavailable.
        """
        if head.workflow_id is None:
            return await self.plan(head.instance_id, TEST_VERSION)
        return await self.plan(head.workflow_id, head.workflow_version)

    def compile(self, definition: Mapping[str, Any], test_run: TestRunPlan = WHOLE) -> Plan:
        """The plan of a valid definition that is not stored."""
        return compile_plan(definition, self._node_types, test_run, evaluates=self._evaluates)

    async def plan(self, workflow_id: str, version: int) -> AnyPlan:
        """The plan of a workflow version, or with `TEST_VERSION` that of the test run with this id."""
        key = (workflow_id, version)
        while key not in self._plans:
            under_way = self._reading.get(key)
            if under_way is None:
                await self._read(key)
            else:
                await under_way.wait()  # a thousand concurrent starts read and compile once
        self._plans.move_to_end(key)
        return self._plans[key]

    async def _read(self, key: tuple[str, int]) -> None:
        read = self._reading[key] = asyncio.Event()
        try:
            self._plans[key] = await self._plan_of_stored(*key)
            if len(self._plans) > PLANS_KEPT_MAX:
                self._plans.popitem(last=False)
        finally:
            del self._reading[key]
            read.set()

    async def _plan_of_stored(self, key_id: str, version: int) -> AnyPlan:
        if version == TEST_VERSION:
            first = await self._store.read_log(key_id, limit=DEFINITION_SEQ)
            definition = read_definition(first)
            if definition is None:
                raise NotFound(f"run {key_id} has neither a stored workflow nor a definition in its log")
            return self.compile(dict(definition), read_test_run(first))
        stored = await self._store.get_definition(key_id, version)
        if stored is None:
            raise NotFound(f"version {version} of workflow {key_id} is not stored")
        if stored.kind == CODED_KIND:
            return coded_plan(stored.name, stored.version, stored.definition["workflowOptions"], python=PYTHON)
        return self.compile(stored.definition)


class ActiveVersions:
    """The active version last read, by tenant and id or name; without its graph. For starts.

    Entries may be outdated: the statement that creates a run checks that the workflow is still at this version. So no
    run gets a version that was replaced or deleted before, here or by another process.
    """

    def __init__(self) -> None:
        self._versions: OrderedDict[tuple[str, str], WorkflowVersion] = OrderedDict()

    def get(self, tenant_id: str, workflow: str) -> WorkflowVersion | None:
        """The active version when it was read; its definition is empty."""
        found = self._versions.get((tenant_id, workflow))
        if found is not None:
            self._versions.move_to_end((tenant_id, workflow))
        return found

    def note(self, tenant_id: str, workflow: str, found: WorkflowVersion) -> None:
        """Remember a version that was just read."""
        self._versions[tenant_id, workflow] = replace(found, definition={})
        self._versions.move_to_end((tenant_id, workflow))
        if len(self._versions) > VERSIONS_KEPT_MAX:
            self._versions.popitem(last=False)

"""Node jobs, and the fair order in which they leave the queue.

Called by the task queue. Tenants take turns. Of one tenant the jobs come first in, first out, but jobs of gated types
have a round of their own: at a closed gate they wait without holding up any other job. Nothing here knows of slots.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from anabranch.engine.ports import Gate
from anabranch.engine.rules.commands import Dispatch
from anabranch.engine.rules.drawn.context import Context
from anabranch.engine.rules.graph.plan import PlanNode


@dataclass(slots=True, eq=False)
class NodeJob:
    """One attempt to execute: ids, and references to the shared plan node and context snapshot. Never changed."""

    instance_id: str
    tenant_id: str
    workflow_id: str | None
    dispatch: Dispatch
    node: PlanNode
    context: Context


class _Round:
    """Tenants in the order in which they are served next, each with its jobs."""

    __slots__ = ("jobs", "tenants")

    def __init__(self) -> None:
        self.jobs: dict[str, deque[NodeJob]] = {}
        self.tenants: deque[str] = deque()

    def begin(self, job: NodeJob) -> None:
        """Queue the first job of a tenant, which comes last."""
        self.jobs[job.tenant_id] = deque((job,))
        self.tenants.append(job.tenant_id)

    def pop(self, admits: Callable[[str], bool]) -> NodeJob | None:
        """The job of the next tenant that is admitted; None: of no such tenant a job waits."""
        tenants = self.tenants
        for _ in range(len(tenants)):
            tenant_id = tenants.popleft()
            jobs = self.jobs[tenant_id]
            job = jobs.popleft() if jobs and admits(tenant_id) else None
            if jobs:
                tenants.append(tenant_id)
            else:
                del self.jobs[tenant_id]
            if job is not None:
                return job
        return None


def _everybody(tenant_id: str) -> bool:
    return True


class FairJobs:
    """Jobs that wait for a slot."""

    __slots__ = ("_gated", "_gates", "_round_of", "_ungated", "waiting")

    def __init__(self, gates: Mapping[str, Gate]) -> None:
        """`gates` are those of gated node types, by the type's name."""
        self._gates = gates
        self.clear()

    def clear(self) -> None:
        """Forget all of them."""
        self.waiting = 0
        """How many jobs wait, also at closed gates."""
        self._ungated = _Round()
        self._gated: dict[Gate, _Round] = {gate: _Round() for gate in self._gates.values()}
        self._round_of = {type_name: self._gated[gate] for type_name, gate in self._gates.items()}

    def add(self, job: NodeJob) -> None:
        """Queue a job behind those of its tenant."""
        of = self._round_of.get(job.node.type, self._ungated)
        jobs = of.jobs.get(job.tenant_id)
        if jobs is None:
            of.begin(job)
        else:
            jobs.append(job)
        self.waiting += 1

    def pop(self) -> NodeJob | None:
        """The next job that may begin now; None: there is none, or all have to wait.

        Gated jobs come first. They cannot keep the others waiting: a gate admits few at a time.
        """
        if not self.waiting:
            return None
        job = self._pop_gated() if self._gated else None
        if job is None:
            tenants, jobs = self._ungated.tenants, self._ungated.jobs
            if len(tenants) != 1:
                job = self._ungated.pop(_everybody)
            elif left := jobs[tenants[0]]:  # a tenant alone keeps its place: mostly the next job is its own
                job = left.popleft()
        if job is not None:
            self.waiting -= 1
        return job

    def _pop_gated(self) -> NodeJob | None:
        for gate, of in self._gated.items():
            if of.tenants and gate.is_open() and (job := of.pop(gate.admits)) is not None:
                return job
        return None

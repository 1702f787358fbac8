"""Which job is next: tenants take turns, and a job at a closed gate holds up no other."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from anabranch.engine.queues import LocalTaskQueue
from anabranch.engine.queues.task_queue import FairJobs
from anabranch.engine.rules.graph.compile import compile_plan
from anabranch.engine.rules.graph.plan import PlanNode
from anabranch.handlers.registry import builtin_types

CODE = {"code": "return 1"}


class DoorKeeper:
    """A gate that a test opens: so many slots, and so many of them for one tenant."""

    def __init__(self, slots: int, of_one: int) -> None:
        self.slots = slots
        self.of_one = of_one
        self.inside: list[str] = []
        self._opened: list[Callable[[], None]] = []

    def is_open(self) -> bool:
        return len(self.inside) < self.slots

    def admits(self, tenant_id: str) -> bool:
        return self.is_open() and self.inside.count(tenant_id) < self.of_one

    def subscribe(self, opened: Callable[[], None]) -> None:
        self._opened.append(opened)

    def enter(self, tenant_id: str) -> None:
        self.inside.append(tenant_id)

    def leave(self, tenant_id: str) -> None:
        self.inside.remove(tenant_id)
        for opened in self._opened:
            opened()


def test_tenants_take_turns_however_many_jobs_each_has():
    jobs = FairJobs({})
    for number in range(80):
        jobs.add(_job("busy", number))
    for number in range(3):
        jobs.add(_job("quiet", number))

    order = [_told(jobs.pop()) for _ in range(83)]

    assert order[:6] == ["busy 0", "quiet 0", "busy 1", "quiet 1", "busy 2", "quiet 2"]
    assert order[6:] == [f"busy {number}" for number in range(3, 80)], "of one tenant first in, first out"
    assert jobs.pop() is None
    assert jobs.waiting == 0


def test_a_tenant_that_comes_back_waits_for_all_others():
    jobs = FairJobs({})
    for tenant in "abc":
        jobs.add(_job(tenant, 1))
    assert _told(jobs.pop()) == "a 1"
    jobs.add(_job("a", 2))
    assert [_told(jobs.pop()) for _ in range(3)] == ["b 1", "c 1", "a 2"]


def test_jobs_at_a_closed_gate_hold_up_neither_their_own_tenant_nor_another():
    gate = DoorKeeper(slots=2, of_one=1)
    jobs = FairJobs({"python": gate})
    for number in range(3):
        jobs.add(_job("busy", number, "python"))
    jobs.add(_job("busy", 9))
    jobs.add(_job("quiet", 0, "python"))

    assert _told(jobs.pop()) == "busy 0"
    gate.enter("busy")
    assert _told(jobs.pop()) == "quiet 0", "the tenant that has its share is passed over"
    gate.enter("quiet")
    assert _told(jobs.pop()) == "busy 9"
    assert jobs.pop() is None, "all others have to wait"
    assert jobs.waiting == 2
    gate.leave("quiet")
    assert jobs.pop() is None, "the free slot is not for the tenant that has its share"
    gate.leave("busy")
    assert _told(jobs.pop()) == "busy 1"


@dataclass
class NodeJob:
    """A job as the queue sees it, with a number to know it by."""

    instance_id: str
    tenant_id: str
    node: PlanNode
    number: int


async def test_jobs_that_wait_for_a_gate_hold_no_slot():
    """One slot: it is always free for a neighbour's job, however many wait for the gate."""
    gate, done = DoorKeeper(slots=1, of_one=1), []
    queue = LocalTaskQueue({"python": gate})
    release = asyncio.Event()

    async def process(job: NodeJob) -> None:
        if job.node.type == "python":
            gate.enter(job.tenant_id)
            done.append(_told(job))
            await release.wait()
            gate.leave(job.tenant_id)
        else:
            done.append(_told(job))

    queue.register_task_worker(process, concurrency=2)
    await queue.start()
    for number in range(80):
        queue.add(_job("busy", number, "python"))
    for number in range(3):
        queue.add(_job("quiet", number))
    await _turns(20)
    assert sorted(done) == ["busy 0", "quiet 0", "quiet 1", "quiet 2"]

    release.set()
    await _turns(2_000)
    assert done[4:] == [f"busy {number}" for number in range(1, 80)], "each leaving lets the next one in"
    await queue.stop()


async def _turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def _told(job: NodeJob | None) -> str:
    assert job is not None
    return f"{job.tenant_id} {job.number}"


_DOCUMENT = {
    "nodes": [
        {"id": "start", "type": "start"},
        {"id": "set", "type": "set", "config": {"values": {}}},
        {"id": "python", "type": "python", "config": CODE},
    ],
    "edges": [
        {"upstreamNodeID": "start", "downstreamNodeID": "set"},
        {"upstreamNodeID": "set", "downstreamNodeID": "python"},
    ],
}
_NODES = compile_plan(_DOCUMENT, builtin_types()).nodes


def _job(tenant_id: str, number: int, node_id: str = "set") -> NodeJob:
    return NodeJob("run", tenant_id, _NODES[node_id], number)

"""Every shape comes to its end, whatever the order of results and though each of them arrives twice.

Real rules, real handlers and the memory store, driven without queues: each run is drained on
its own, several results a batch.
"""

from __future__ import annotations

from collections import Counter

import pytest

from anabranch.handlers.registry import builtin_types
from anabranch.testing.memory_store.memory_store import MemoryDatabase, MemoryStore
from tests.driving import Driver, Run
from tests.oracle.flaky import WithFlaky
from tests.oracle.order import disorder
from tests.oracle.script import Script
from tests.spec.laws import check_log
from tests.spec.scenario import address
from tests.stress.topologies import DIAMOND_ALL, LINEAR, TOPOLOGIES, Topology

TYPES = builtin_types()
SEEDS = range(3)

each_topology = pytest.mark.parametrize("shape", [pytest.param(shape, id=shape.name) for shape in TOPOLOGIES])


def driver(*, seed: int = 0, duplicate: bool = False, script: Script | None = None) -> Driver:
    """A driver over a memory store of its own."""
    database = MemoryDatabase(now=lambda: made.now)
    made = Driver(MemoryStore(database), WithFlaky(TYPES, script or {}), seed=seed, duplicate=duplicate)
    return made


def assert_ended(run: Run, shape: Topology) -> None:
    """The run has ended as its shape must, and did nothing twice."""
    ended = {
        how: frozenset(address(node_id, scope) for node_id, scope in run.ended(event_type))
        for how, event_type in (
            ("completed", "NODE_COMPLETED"),
            ("skipped", "NODE_SKIPPED"),
            ("failed", "NODE_FAILED"),
        )
    }
    assert ended == {"completed": shape.completed, "skipped": shape.skipped, "failed": shape.failed}
    assert run.status == shape.status
    if shape.status == "COMPLETED":
        assert run.log[-1].payload.value == shape.output
    assert not [*disorder(shape.document, run.log)]
    twice = [dispatch for dispatch, count in Counter(run.dispatched).items() if count > 1]
    assert not twice, f"dispatched twice: {twice}"
    check_log(run.state, run.log)


@each_topology
@pytest.mark.parametrize("duplicate", [False, True], ids=["once", "twice"])
async def test_every_shape_ends_as_it_must(shape: Topology, duplicate: bool) -> None:
    for seed in SEEDS:
        driven = driver(seed=seed, duplicate=duplicate, script=shape.script)
        run = driven.add(shape.document, shape.input)
        await driven.drive()
        assert_ended(run, shape)


async def test_all_shapes_at_once_end_as_they_must() -> None:
    scriptless = [shape for shape in TOPOLOGIES if shape.script is None]
    driven = driver(duplicate=True)
    runs = [(driven.add(shape.document, shape.input), shape) for shape in scriptless]
    await driven.drive()
    for run, shape in runs:
        assert_ended(run, shape)


async def test_a_hundred_linear_runs_at_once_complete() -> None:
    driven = driver(duplicate=True)
    runs = [driven.add(LINEAR.document) for _ in range(100)]
    await driven.drive()
    assert {run.status for run in runs} == {"COMPLETED"}
    for run in runs:
        assert_ended(run, LINEAR)


async def test_fifty_diamonds_at_once_dispatch_every_join_once() -> None:
    driven = driver(duplicate=True)
    runs = [driven.add(DIAMOND_ALL.document) for _ in range(50)]
    await driven.drive()
    for run in runs:
        assert_ended(run, DIAMOND_ALL)
        assert Counter(dispatch.node_id for dispatch in run.dispatched)["join"] == 1


async def test_ten_thousand_sleeping_runs_wake_up() -> None:
    shape = next(shape for shape in TOPOLOGIES if shape.name == "delay")
    driven = driver()
    plan = driven.add(shape.document).state.plan
    for _ in range(9_999):
        driven.add(plan)
    await driven.drive()
    assert Counter(run.status for run in driven.runs.values()) == {"COMPLETED": 10_000}


async def test_a_map_over_ten_thousand_items_completes() -> None:
    shape = next(shape for shape in TOPOLOGIES if shape.name == "parallel map")
    driven = driver()
    run = driven.add(shape.document, {"items": list(range(10_000))})
    await driven.drive()
    assert run.log[-1].payload.value == {"doubled": list(range(0, 20_000, 2))}

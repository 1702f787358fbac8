"""What a run needs of a worker, on every store: who takes it, and what becomes of one that nobody can run."""

from __future__ import annotations

from typing import Any

import pytest

from anabranch.engine.ports import ClaimRequest, InstanceRow, Store, WorkerReport
from anabranch.engine.rules.events import Status, SuspendReason
from tests.conformance.building import LEASE_MS, OTHER_WORKER, TENANT, WORKER, created, log_of, row_of

pytestmark = pytest.mark.only_on("memory", "sqlite", "postgresql", because="a pooler changes no statement")

MIXED = ("pool:default", "pool:gpu")
LONG_AGO = {"available_at": 1_600_000_000_000}
NOW_AND_LATELY: dict[str, Any] = {"overdue_ms": 0, "seen_ms": 90_000, "limit": 10}


async def waiting(store: Store, *needs: str, **head: Any) -> InstanceRow:
    """A run that is due, and needs these types."""
    return await created(store, worker_id=None, turn_changes={**LONG_AGO, "needs": needs}, **head)


async def takes(store: Store, *node_types: str, code: tuple[tuple[str, int], ...] = ()) -> list[str]:
    """What a worker with these types of its own claims."""
    request = ClaimRequest(worker_id=OTHER_WORKER, limit=10, lease_ms=LEASE_MS, known_code=code, known_types=node_types)
    return sorted(each.row.head.instance_id for each in await store.claim(request))


async def test_a_worker_takes_only_what_it_can_run(store: Store) -> None:
    plain, shout, both = await waiting(store), await waiting(store, "shout"), await waiting(store, "shout", "it's")
    assert (await row_of(store, both.head.instance_id)).needs == ("shout", "it's")
    assert await takes(store) == [plain.head.instance_id]
    assert await takes(store, "it's") == []
    assert await takes(store, "shout", "other") == [shout.head.instance_id]
    assert await takes(store, "it's", "shout") == [both.head.instance_id]


async def test_what_no_living_worker_can_run_is_suspended_until_one_can(store: Store) -> None:
    row = await waiting(store, "shout")
    plain = await waiting(store)
    assert await store.suspend_unfit(overdue_ms=10**12, seen_ms=90_000, limit=10) == 0, "not due for so long"
    await store.report_worker(WorkerReport(worker_id=WORKER, executing=0, node_types=["shout"]))
    assert await store.suspend_unfit(**NOW_AND_LATELY) == 0, "somebody can"
    await store.report_worker(WorkerReport(worker_id=WORKER, executing=0, node_types=["whisper"]))
    assert await store.suspend_unfit(**NOW_AND_LATELY) == 1
    assert await store.suspend_unfit(**NOW_AND_LATELY) == 0, "once"

    after = await row_of(store, row.head.instance_id)
    assert (after.status, after.suspended_for) == (Status.SUSPENDED, SuspendReason.UNKNOWN_NODE_TYPE)
    assert (await log_of(store, row.head.instance_id))[-1][1] == "INSTANCE_SUSPENDED"
    assert await takes(store) == [plain.head.instance_id]
    assert await takes(store, "shout") == [row.head.instance_id]


async def test_what_nobody_can_run_fails_at_its_deadline_all_the_same(store: Store) -> None:
    now = await store.now()
    row = await waiting(store, kind="coded", workflow_name="greets", deadline_at=now - 1)
    await store.suspend_unfit(**NOW_AND_LATELY)
    await store.suspend_unfit(**NOW_AND_LATELY)
    after = await row_of(store, row.head.instance_id)
    assert after.status is Status.FAILED
    assert (await store.read_log(row.head.instance_id))[-1].payload.value["code"] == "DEADLINE_EXCEEDED"
    assert row.head.tenant_id == TENANT


async def test_a_worker_takes_only_runs_whose_pools_it_serves(store: Store) -> None:
    plain, gpu, mixed = await waiting(store), await waiting(store, "pool:gpu"), await waiting(store, *MIXED)
    shout = await waiting(store, "shout", "pool:gpu")
    await report(store, "pool:*")  # nobody is suspended meanwhile
    of = {each.head.instance_id: name for each, name in ((plain, "plain"), (gpu, "gpu"), (mixed, "mixed"))}
    of[shout.head.instance_id] = "shout"
    seen: dict[tuple[str, ...], list[str]] = {}
    for entries in ((), ("pool:cpu",), ("pool:gpu",), ("pool:default", "pool:gpu"), ("shout", "pool:*")):
        seen[entries] = sorted(of[instance_id] for instance_id in await takes(store, *entries))
    assert seen == {
        (): ["plain"],
        ("pool:cpu",): [],
        ("pool:gpu",): ["gpu"],
        ("pool:default", "pool:gpu"): ["mixed"],
        ("shout", "pool:*"): ["shout"],
    }


async def test_a_worker_without_the_default_pool_leaves_what_names_no_pool(store: Store) -> None:
    await waiting(store)
    await waiting(store, "shout")
    coded = await waiting(store, "pool:gpu", kind="coded", workflow_name="trains")
    await waiting(store, kind="coded", workflow_name="trains")
    assert await takes(store, "shout", "pool:gpu", code=(("trains", 1),)) == [coded.head.instance_id]


async def test_a_run_whose_pools_nobody_serves_is_suspended_and_says_which(store: Store) -> None:
    row = await waiting(store, *MIXED)
    await report(store, "pool:cpu")
    assert await store.suspend_unfit(**NOW_AND_LATELY) == 1
    after = await row_of(store, row.head.instance_id)
    assert (after.status, after.suspended_for) == (Status.SUSPENDED, SuspendReason.UNSERVED_POOL)
    said = (await store.read_log(row.head.instance_id))[-1].payload.value
    assert said["message"] == "no worker serves the pools 'default', 'gpu'"
    assert "--pools default,gpu" in said["hint"]
    assert await takes(store, *MIXED) == [row.head.instance_id], "it goes on by itself"


async def test_a_run_of_the_default_pool_waits_for_nobody_who_serves_it(store: Store) -> None:
    row = await waiting(store)
    assert await store.suspend_unfit(**NOW_AND_LATELY) == 0, "no worker reports at all: one may be about to start"
    await report(store, "pool:gpu")
    assert await store.suspend_unfit(**NOW_AND_LATELY) == 1
    after = await row_of(store, row.head.instance_id)
    assert (after.status, after.suspended_for) == (Status.SUSPENDED, SuspendReason.UNSERVED_POOL)
    said = (await store.read_log(row.head.instance_id))[-1].payload.value
    assert said["message"] == "no worker serves the pool 'default'"
    assert await takes(store) == [row.head.instance_id], "it goes on by itself"


async def report(store: Store, *node_types: str) -> None:
    await store.report_worker(WorkerReport(worker_id=WORKER, executing=0, node_types=node_types))

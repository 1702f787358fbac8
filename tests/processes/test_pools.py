"""Workers of one database that serve different pools: each takes the runs whose nodes are all in its pools."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from anabranch import Client, Worker

CODE = {"id": "work", "type": "python", "config": {"code": "return 1"}}


def document(name: str, **node: Any) -> dict[str, Any]:
    return {
        "name": name,
        "nodes": [{"id": "start", "type": "start"}, {**CODE, **node}],
        "edges": [{"upstreamNodeID": "start", "downstreamNodeID": "work"}],
    }


async def test_a_run_waits_for_a_worker_of_its_pool(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'pools.db'}"
    async with Worker(url, pools="gpu") as worker:
        assert worker.services is not None
        workflows = worker.services.workflows
        for name, node in (("in-pool", {"pool": "gpu"}), ("in-none", {})):
            await workflows.save_workflow(document(name, **node), tenant_id="default")
        async with Client(url) as client:
            elsewhere = await client.start("in-none", {})
            here = await client.start("in-pool", {})
            assert (await here.result(timeout=30)) is None
            row = await worker.services.engine.store.get_instance(here.run_id)
            other = await worker.services.engine.store.get_instance(elsewhere.run_id)
            assert (row and row.needs, other and other.status) == (("pool:gpu",), "PENDING")
            async with Worker(url, pools="default,near"):
                assert (await elsewhere.result(timeout=30)) is None

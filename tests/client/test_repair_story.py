"""A bug is deployed, twenty runs fail, it is mended, and all of them finish: by REST, by client and by command line."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession

from anabranch.client.client import Client
from anabranch.durable.definition import DECLARED, Workflow
from anabranch.errors import RunIsCompleted
from anabranch.forks import fork_service
from tests.cli.conftest import Command, anabranch, folder  # noqa: F401 -- fixtures
from tests.client.serving import served

RUNS = 20
CHARGED: Counter[str] = Counter()


async def charge(order: str) -> str:
    CHARGED[order] += 1
    return f"charged {order}"


async def broken(ctx: Any, input: Any) -> Any:
    charged = await ctx.step.run("charge", charge, input)
    return shipping_label(charged)  # type: ignore[name-defined]  # noqa: F821 -- the bug


async def mended(ctx: Any, input: Any) -> Any:
    charged = await ctx.step.run("charge", charge, input)
    return f"{charged}, shipped"


def deploy(function: Any) -> None:
    function.__qualname__ = function.__name__ = "ship"
    DECLARED._workflows["ship", 1] = Workflow("ship", 1, function, ONCE)


ONCE = {"retention": None, "retry": {"maxAttempts": 1}, "deadline": None}


@pytest.fixture
def deployed() -> Iterator[None]:
    CHARGED.clear()
    deploy(broken)
    yield
    DECLARED._workflows.pop(("ship", 1), None)


async def test_a_bug_is_mended_and_all_runs_finish_with_each_order_charged_once(
    deployed: None,
    folder: Path,  # noqa: F811
    anabranch: Command,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with served(folder) as server, Client(server.url, key=server.keys["operator"]) as client:
        runs = [await client.start("ship", f"order {number}") for number in range(RUNS)]
        for run in runs:
            assert (await failed(client, run.run_id))["error"]["type"] == "NameError"
        deploy(mended)

        async with ClientSession(headers={"Authorization": f"Bearer {server.keys['operator']}"}) as session:
            by_rest, by_client, by_command, *_ = runs
            async with session.post(f"{server.url}/v1/runs/{by_rest.run_id}/retry") as answered:
                assert answered.status == 200, await answered.text()
            assert await by_rest.result(timeout=30) == "charged order 0, shipped"
            assert (await by_client.retry(reason="mended"))["generation"] == 1
            assert await by_client.result(timeout=30) == "charged order 1, shipped"

            flags = ("--url", server.url, "--token", server.keys["operator"])
            printed = await asyncio.to_thread(anabranch, "runs", "retry", by_command.run_id, *flags)
            assert (printed.code, "again: the function, attempt 2" in printed.out) == (0, True), printed
            assert await by_command.result(timeout=30) == "charged order 2, shipped"
            command = ("runs", "bulk", "retry", "--workflow", "ship", "--dry-run", *flags)
            printed = await asyncio.to_thread(anabranch, *command)
            assert f"retry: {RUNS - 3} of {RUNS - 3} runs would be retried" in printed.out, printed

            planned = await client.bulk("retry", {"workflow": "ship"}, dry_run=True)
            await client.result(planned, timeout=30)
            assert (await client.bulk_progress(planned))["counts"] == {"DONE": RUNS - 3}
            asked = {"action": "retry", "filter": {"workflow": "ship"}}
            keyed = {"Idempotency-Key": "mend-1"}
            async with session.post(f"{server.url}/v1/runs/bulk", json=asked, headers=keyed) as answered:
                assert answered.status == 202, await answered.text()
                bulk_id = (await answered.json())["bulkID"]
            async with session.post(f"{server.url}/v1/runs/bulk", json=asked, headers=keyed) as answered:
                assert (await answered.json())["bulkID"] == bulk_id
            await client.result(bulk_id, timeout=30)
            progress = await client.bulk_progress(bulk_id)
            assert (progress["total"], progress["done"], progress["succeeded"]) == (RUNS - 3,) * 3
            async with session.post(f"{server.url}/v1/runs/bulk", json={"action": "retry", "filter": {}}) as answered:
                assert answered.status == 422

        for number, run in enumerate(runs):
            assert await run.result(timeout=30) == f"charged order {number}, shipped"
        with pytest.raises(RunIsCompleted):
            await by_client.retry()
        assert dict(CHARGED) == {f"order {number}": 1 for number in range(RUNS)}, "no effect is repeated"

        at_charge = {"at": {"nodeID": "charge"}}
        editor = {"Authorization": f"Bearer {server.keys['editor']}"}
        async with ClientSession(headers=editor) as session:
            forks = f"{server.url}/v1/runs/{by_rest.run_id}/fork"
            async with session.post(forks, json={**at_charge, "dryRun": True}) as answered:
                plan = await answered.json()
                assert (answered.status, plan["agreement"]) == (200, "same"), plan
            async with session.post(forks, json={"dryRun": True}) as answered:
                assert (await answered.json())["error"]["code"] == "FORK_REFUSED", "nothing would run"
            with monkeypatch.context() as nobody:
                nobody.delitem(DECLARED._workflows, ("ship", 1))
                nobody.setattr(DECLARED, "revision", DECLARED.revision + 1)
                nobody.setattr(fork_service, "CHECK_S", 0.1)
                async with session.post(forks, json={**at_charge, "dryRun": True}) as answered:
                    check = await answered.json()
                    assert (answered.status, check["status"]) == (202, "PENDING"), "no worker has the code"
                    assert answered.headers["Location"] == f"/v1/runs/{check['instanceID']}"
            assert (await client.result(check["instanceID"], timeout=30))["plan"] == plan["plan"], "one has it again"
        flags = ("--url", server.url, "--token", server.keys["editor"])
        command = ("runs", "fork", by_rest.run_id, "--redo", "charge", "--if-plan", plan["plan"], *flags)
        printed = await asyncio.to_thread(anabranch, *command, "--dry-run")
        assert "runs: charge (CHOSEN, effect again)" in printed.out, printed
        printed = await asyncio.to_thread(anabranch, *command, "--json")
        assert printed.code == 0, printed
        assert await client.result(json.loads(printed.out)["instanceID"], timeout=30) == "charged order 0, shipped"
        async with Client(server.url, key=server.keys["editor"]) as person:
            forked = await person.fork(by_client.run_id, at_charge)
            assert await person.result(forked["instanceID"], timeout=30) == "charged order 1, shipped"
        assert {order: times for order, times in CHARGED.items() if times > 1} == {"order 0": 2, "order 1": 2}


async def failed(client: Client, run_id: str) -> dict[str, Any]:
    async with asyncio.timeout(30):
        return await client._open_gateway.wait_for_end(run_id)

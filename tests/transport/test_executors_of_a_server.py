"""Executors fetch what their jobs refer to from a real server, with a key of their own: everything is a process here,
and the broker is RabbitMQ.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from anabranch.app import build
from anabranch.keys.access import Role
from anabranch.settings import Settings
from tests.hardening.drawing import chain
from tests.processes.conftest import Installation
from tests.processes.launching import Staying, until
from tests.rabbitmq import RabbitMQ
from tests.transport import pool_nodes
from tests.transport.conftest import FOLDER, Executors
from tests.transport.test_conformance import node_executor

SECRET = "hush-hush"
LARGE = "l" * 70_000
SIGNATURE = hmac.new(SECRET.encode(), LARGE.encode(), "sha256").hexdigest()
NAME = hashlib.sha256(f'"{LARGE}"'.encode()).hexdigest()

SIGNS = chain(
    "far-signs",
    {
        "id": "far",
        "type": "crypto",
        "pool": "served",
        "config": {
            "operation": "hmac",
            "source": "{{ctx.input.text}}",
            "key": "{{secret.FAR_KEY}}",
            "algorithm": "sha256",
        },
        "retry": {"maxAttempts": 1},
        "outputVariable": "signature",
    },
)
SIGNS["nodes"][-1]["config"] = {"outputParameters": {"signature": "{{ctx.signature}}"}}


@pytest.fixture
async def server(broker: RabbitMQ, tmp_path: Path) -> AsyncIterator[Staying]:
    """`anabranch serve` with a worker, on a database and a broker."""
    installation = Installation(tmp_path, f"sqlite:///{tmp_path / 'runs.db'}")
    key = await asyncio.to_thread(installation.make_key)
    own = {
        "ANABRANCH_BROKER_URL": broker.url,
        "ANABRANCH_SECRET_KEY": base64.b64encode(b"k" * 32).decode(),
        "PYTHONPATH": str(FOLDER),
    }
    arguments = ["serve", "--port", "0", "--import", pool_nodes.__name__]
    running = Staying(arguments, tmp_path, {**installation.environment, **own})
    try:
        await asyncio.to_thread(running.ready)
        running.key = key
        yield running
    finally:
        await asyncio.to_thread(running.close)


async def key_of_executor(folder: Path, tenant_id: str) -> str:
    async with build(Settings(database_url=f"sqlite:///{folder / 'runs.db'}")).open_access() as access:
        made = await access.create_key(tenant_id=tenant_id, role=Role.EXECUTOR, actor="test", pools=["served"])
    return made.key


async def prepare(server: Staying) -> None:
    """Save the secret and the workflow that needs it."""
    answer = await asyncio.to_thread(server.ask, "POST", "/v1/secrets", {"name": "FAR_KEY", "value": SECRET})
    assert answer.status == 201, answer
    await asyncio.to_thread(server.save, SIGNS)


def started(server: Staying) -> list[str]:
    """A run whose node needs a secret and a large value, and one whose step has a large argument."""
    return [server.start(name, {"text": LARGE}) for name in ("far-signs", "far-length")]


def ended(server: Staying, run_ids: list[str]) -> list[dict[str, Any]]:
    return [server.ended_run(run_id) for run_id in run_ids]


async def test_an_executor_gets_secrets_and_large_values_of_its_tenant_only_and_from_the_server(
    server: Staying, broker: RabbitMQ, executors: Executors, tmp_path: Path
) -> None:
    await prepare(server)
    own, other = await key_of_executor(tmp_path, "default"), await key_of_executor(tmp_path, "other")

    stranger = await executors.start(broker.url, "served", ANABRANCH_URL=server.url, ANABRANCH_TOKEN=other)
    refused = await asyncio.to_thread(started, server)
    for run in await asyncio.to_thread(ended, server, refused):
        assert (run["status"], run["error"]["code"]) == ("FAILED", "EXECUTOR_REFUSED")
        assert "not for the tenant 'default'" in run["error"]["message"]
    stranger.kill()

    await executors.start(broker.url, "served", ANABRANCH_URL=server.url, ANABRANCH_TOKEN=own)
    signs, length = await asyncio.to_thread(started, server)
    assert (await asyncio.to_thread(server.ended_run, signs))["output"] == {"signature": SIGNATURE}
    assert (await asyncio.to_thread(server.ended_run, length))["output"] == len(LARGE)

    server.key = own
    path = f"/v1/values/{NAME}?instanceID={signs}"
    assert (await asyncio.to_thread(server.ask, "GET", path)).status == 404, "the run has ended"
    server.key = other
    assert (await asyncio.to_thread(server.ask, "GET", f"{path}&tenantID=default")).status == 403


async def test_the_executor_in_node_gets_them_too_and_tells_no_secret(
    server: Staying, broker: RabbitMQ, tmp_path: Path
) -> None:
    await prepare(server)
    settings = {
        "ANABRANCH_BROKER_URL": broker.url,
        "ANABRANCH_POOLS": "served",
        "ANABRANCH_URL": server.url,
        "ANABRANCH_TOKEN": await key_of_executor(tmp_path, "default"),
    }
    executor = await asyncio.create_subprocess_exec(
        *node_executor(Path(__file__).with_name("served_handlers.mjs")),
        env=os.environ | settings,
        stdout=asyncio.subprocess.DEVNULL,
    )
    try:
        signs = await asyncio.to_thread(server.start, "far-signs", {"text": LARGE})
        assert (await asyncio.to_thread(server.ended_run, signs))["output"] == {"signature": SIGNATURE}
        line = "the key is ***, and the input as long as the source: true"
        await asyncio.to_thread(until, lambda: line in str(server.ask("GET", f"/v1/runs/{signs}/console").body))
    finally:
        executor.terminate()
        assert await executor.wait() == 0

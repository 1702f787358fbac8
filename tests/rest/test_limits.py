"""Limits that are reached: what a caller is told, and that the server goes on."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeVar

import pytest

from anabranch.settings import Settings
from tests.rest.conftest import Served, serving
from tests.rest.drawing import echo

LATER = "2100-01-01T00:00:00Z"

# 10 s of processor time: on a fast core eight times what the 400,000 steps of one check take, and nothing beside what
# schemas and templates without the limit take.
CHECK_S_MAX = 10

T = TypeVar("T")


@pytest.fixture
def database_url(sqlite_url: str) -> str:
    """One kind is enough: what the store counts is tested with the stores."""
    return sqlite_url


@pytest.fixture
async def impatient(settings_of: Callable[..., Settings]) -> AsyncIterator[Served]:
    """A server that waits a tenth of a second for a body, and lets four runs wait to start, two of each tenant."""
    async for each in serving(settings_of(pending_max=4), body_patience_s=0.1):
        yield each


async def test_a_body_that_does_not_come_is_given_up_on(impatient: Served):
    await impatient.save(echo())
    reader, writer = await asyncio.open_connection("127.0.0.1", impatient.port)
    writer.write(
        f"POST /v1/workflows/echo/runs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {impatient.keys['admin']}\r\n"
        'Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{"input"'.encode()
    )
    await writer.drain()
    answer = await reader.readuntil(b"\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 408 "), answer
    assert b'"code":"REQUEST_TIMEOUT"' in await reader.read(4096)
    writer.close()
    assert (await impatient.ask("GET", "/v1/runs")).json["items"] == []


async def test_starts_are_refused_before_the_queue_grows_without_bound(impatient: Served):
    await impatient.save(echo())
    path = "/v1/workflows/echo/runs"
    for number in range(2):
        kept = await impatient.ask("POST", path, json={"availableAt": LATER, "idempotencyKey": f"key-{number}"})
        assert kept.status == 201
    refused = await impatient.ask("POST", path, json={"availableAt": LATER})
    assert (refused.status, refused.code) == (429, "TOO_MANY_PENDING")
    assert refused.json["error"]["details"] == {"limit": 2, "scope": "tenant"}
    assert int(refused.headers["Retry-After"]) >= 1
    repeated = await impatient.ask("POST", path, json={"availableAt": LATER, "idempotencyKey": "key-1"})
    assert repeated.status == 200
    assert (await impatient.ask("POST", path, json={})).status == 201, "one that begins at once waits for nobody"


def doubling(levels: int) -> dict[str, Any]:
    """A schema of which each definition uses the next one twice."""
    steps = {f"s{n}": {"allOf": [{"$ref": f"#/$defs/s{n + 1}"}] * 2} for n in range(levels)}
    return {"$defs": {**steps, f"s{levels}": {}}, "$ref": "#/$defs/s0"}


async def costs(asking: Awaitable[T]) -> tuple[T, float]:
    """The answer, and the seconds of processor time that this process, the server included, needed for it."""
    before = time.process_time()
    return await asking, time.process_time() - before


async def test_references_that_double_cost_a_start_and_a_check_no_more_than_others(served: Served):
    document = echo("doubling", workflowOptions={"inputSchema": doubling(40)})
    verdict, seconds = await costs(served.ask("POST", "/v1/validate", json=document, role="viewer"))
    assert (verdict.status, seconds < CHECK_S_MAX) == (200, True), f"{seconds:.1f} s"
    await served.save(document)
    start = served.ask("POST", "/v1/workflows/doubling/runs", json={"input": 1}, role="operator")
    refused, seconds = await costs(start)
    assert (refused.status, refused.code) == (422, "INVALID_INPUT")
    assert "steps" in refused.text
    assert seconds < CHECK_S_MAX, f"{seconds:.1f} s"


async def test_megabytes_of_templates_are_refused_before_they_are_checked_one_by_one(served: Served):
    values = {f"v{n}": "{{ctx.input.a | default(1)}}" for n in range(60_000)}
    document = echo("templates")
    document["nodes"].insert(1, {"id": "many", "type": "set", "config": {"values": values}})
    check = asyncio.ensure_future(costs(served.ask("POST", "/v1/validate", json=document, role="viewer")))
    live = await served.ask("GET", "/healthz", role=None)
    verdict, seconds = await check
    assert live.status == 200
    assert verdict.json["valid"] is False
    assert "TOO_MANY_EXPRESSIONS" in {each["code"] for each in verdict.json["errors"]}
    assert seconds < CHECK_S_MAX, f"{seconds:.1f} s"

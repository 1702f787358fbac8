"""Limits that are reached: what a caller is told, and that the server goes on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from anabranch.settings import Settings
from tests.rest.conftest import Served, serving
from tests.rest.drawing import echo

LATER = "2100-01-01T00:00:00Z"


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

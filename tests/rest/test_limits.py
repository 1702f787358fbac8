"""Limits that are reached: what a caller is told, and that the server goes on."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from anabranch.engine.rules.templates.template import Template
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


def doubling(levels: int) -> dict[str, Any]:
    """A schema of which each definition uses the next one twice."""
    steps = {f"s{n}": {"allOf": [{"$ref": f"#/$defs/s{n + 1}"}] * 2} for n in range(levels)}
    return {"$defs": {**steps, f"s{levels}": {}}, "$ref": "#/$defs/s0"}


async def test_references_that_double_cost_a_start_and_a_check_no_more_than_others(served: Served):
    """Without their limit both would take a million million steps, so they would not return."""
    document = echo("doubling", workflowOptions={"inputSchema": doubling(40)})
    assert (await served.ask("POST", "/v1/validate", json=document, role="viewer")).status == 200
    await served.save(document)
    refused = await served.ask("POST", "/v1/workflows/doubling/runs", json={"input": 1}, role="operator")
    assert (refused.status, refused.code) == (422, "INVALID_INPUT")
    assert "steps" in refused.text


async def test_megabytes_of_templates_are_refused_before_they_are_checked_one_by_one(
    served: Served, monkeypatch: pytest.MonkeyPatch
):
    compiled = Counter[str]()
    compile_one = Template.__init__

    def count(template: Template, text: str, **options: Any) -> None:
        compiled[text] += 1
        compile_one(template, text, **options)

    monkeypatch.setattr(Template, "__init__", count)
    values = {f"v{n}": f"{{{{ctx.input.a | default({n})}}}}" for n in range(60_000)}
    document = echo("templates")
    document["nodes"].insert(1, {"id": "many", "type": "set", "config": {"values": values}})
    check = asyncio.ensure_future(served.ask("POST", "/v1/validate", json=document, role="viewer"))
    live = await served.ask("GET", "/healthz", role=None)
    verdict = await check
    assert live.status == 200
    assert compiled.total() == 0, "none is checked"
    assert verdict.json["valid"] is False
    assert "TOO_MANY_EXPRESSIONS" in {each["code"] for each in verdict.json["errors"]}

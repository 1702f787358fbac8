"""What HTTP itself promises: HEAD, headers of every answer, ids in either case, connections after broken bodies."""

from __future__ import annotations

import asyncio
import uuid

import pytest

from tests.rest.conftest import Served
from tests.rest.drawing import echo


@pytest.fixture
def database_url(sqlite_url: str) -> str:
    """One kind is enough: nothing of this depends on the database."""
    return sqlite_url


async def test_head_is_get_without_the_body(served: Served):
    await served.save(echo())
    for path in ("/v1/workflows/echo", "/v1/runs", "/healthz", "/openapi.json", "/docs"):
        got, head = await served.ask("GET", path), await served.ask("HEAD", path)
        assert (head.status, head.text) == (200, "")
        for name in ("Content-Length", "Content-Type", "ETag"):
            assert head.headers.get(name) == got.headers.get(name)
    assert (await served.ask("HEAD", "/v1/runs", role=None)).status == 401
    assert (await served.ask("HEAD", "/v1/keys", role="viewer")).status == 403


async def test_every_answer_has_the_headers_that_keep_browsers_and_caches_off(served: Served):
    asked = {
        200: ("GET", "/v1/runs", "viewer"),
        401: ("GET", "/v1/runs", None),
        403: ("GET", "/v1/keys", "viewer"),
        404: ("GET", "/nothing", None),
        405: ("PATCH", "/v1/runs", "viewer"),
        422: ("GET", "/v1/runs?limit=0", "viewer"),
    }
    for status, (method, path, role) in asked.items():
        answered = await served.ask(method, path, role=role)
        assert answered.status == status
        assert answered.headers["X-Content-Type-Options"] == "nosniff", status
        assert answered.headers["Cache-Control"] == "no-store", status
        assert answered.headers["Referrer-Policy"] == "no-referrer", status


async def test_an_id_in_upper_case_is_the_same_id(served: Served):
    workflow_id = (await served.save(echo()))["workflowID"]
    instance_id = await served.start(workflow_id.upper())
    await served.ended(instance_id)
    for path in (f"/v1/runs/{instance_id.upper()}", f"/v1/workflows/{workflow_id.upper()}/runs/{instance_id.upper()}"):
        assert (await served.ask("GET", path)).json["instanceID"] == instance_id
    assert (await served.ask("GET", f"/v1/workflows/{workflow_id.upper()}")).json["workflowID"] == workflow_id
    assert (await served.ask("GET", f"/v1/runs/{str(uuid.uuid4()).upper()}")).status == 404


async def test_no_answer_names_a_version_of_what_we_are_made_of(served: Served):
    for method, path in (("GET", "/healthz"), ("GET", "/docs"), ("GET", "/nothing"), ("PATCH", "/v1/runs")):
        answered = await served.ask(method, path)
        assert answered.headers["Server"] == "anabranch"
        assert "aiohttp" not in str(answered.headers)


async def test_a_connection_is_closed_after_a_body_that_cannot_be_read(served: Served):
    reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
    head = (
        f"POST /v1/validate HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {served.keys['viewer']}\r\n"
        "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    writer.write(head.encode())
    await writer.drain()
    writer.write(b"no length\r\n")
    answer = (await reader.read()).decode()
    writer.close()
    assert answer.split(" ")[1] == "400"
    assert '"BAD_HTTP"' in answer or '"BAD_JSON"' in answer, "before or after the head was looked at"

"""Bodies and requests that nobody sane sends: the right 4xx, and a server that goes on."""

from __future__ import annotations

import asyncio
import gzip
import json

import pytest

from tests.rest.conftest import Served
from tests.rest.drawing import echo

JSON = {"Content-Type": "application/json"}
START = "/v1/workflows/echo/runs"
MEGABYTE = 1_048_576


@pytest.fixture
def database_url(sqlite_url: str) -> str:
    """One kind is enough: nothing of this reaches a database."""
    return sqlite_url


@pytest.fixture(autouse=True)
async def unharmed(served: Served):
    """Whatever was sent, the next request is answered, and nothing was started."""
    await served.save(echo())
    yield
    assert (await served.ask("GET", "/v1/runs")).json == {"items": [], "nextCursor": None}
    assert (await served.ask("GET", "/readyz", role=None)).status == 200


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"", 400, "BAD_JSON"),
        (b"{", 400, "BAD_JSON"),
        (b"nonsense", 400, "BAD_JSON"),
        (b'{"input": 1, "input": 2}', 400, "BAD_JSON"),
        (b'{"input": "\xff"}', 400, "BAD_JSON"),
        (b'{"input": NaN}', 422, "VALUE_NOT_STORABLE"),
        (b'{"input": Infinity}', 422, "VALUE_NOT_STORABLE"),
        (b'{"input": "\\u0000"}', 422, "VALUE_NOT_STORABLE"),
        (b'{"input": "\\ud800"}', 422, "VALUE_NOT_STORABLE"),
        (b'{"input": 99999999999999999999999}', 422, "VALUE_NOT_STORABLE"),
        (b'{"input": 1e400}', 422, "VALUE_NOT_STORABLE"),
        (b'{"input": ' + b"[" * 65 + b"]" * 65 + b"}", 422, "VALUE_NOT_STORABLE"),
        (b"[" * 100_000, 422, "VALUE_NOT_STORABLE"),
        (b"[" * 100_000 + b"]" * 100_000, 422, "VALUE_NOT_STORABLE"),
        (b"[]", 422, "INVALID_REQUEST"),
        (b"null", 422, "INVALID_REQUEST"),
        (b'{"version": "1"}', 422, "INVALID_REQUEST"),
        (b'{"version": 0}', 422, "INVALID_REQUEST"),
        (b'{"version": true}', 422, "INVALID_REQUEST"),
        (b'{"retentionDays": 0}', 422, "INVALID_REQUEST"),
        (b'{"idempotencyKey": ""}', 422, "INVALID_REQUEST"),
        (b'{"unknown": 1}', 422, "INVALID_REQUEST"),
    ],
)
async def test_a_body_that_is_none_is_refused(served: Served, body: bytes, status: int, code: str):
    answered = await served.ask("POST", START, data=body, headers=JSON)
    assert (answered.status, answered.code) == (status, code), answered.text
    assert "Traceback" not in answered.text


async def test_an_input_over_a_megabyte_is_refused_with_its_limit(served: Served):
    answered = await served.ask("POST", START, json={"input": "x" * MEGABYTE})
    assert (answered.status, answered.code) == (422, "INVALID_INPUT")
    assert answered.json["error"]["details"][0]["code"] == "VALUE_TOO_LARGE"


async def test_a_body_over_sixteen_megabytes_is_refused_before_it_is_read(served: Served):
    answered = await served.ask("POST", START, data=b" " * (16 * MEGABYTE + 1), headers=JSON)
    assert (answered.status, answered.code) == (413, "TOO_LARGE")


async def test_a_body_of_unknown_length_is_counted_while_it_is_read(served: Served):
    async def endless():
        for _ in range(17 * 16):
            yield b" " * (MEGABYTE // 16)

    answered = await served.ask("POST", START, data=endless(), headers=JSON)
    assert (answered.status, answered.code) == (413, "TOO_LARGE")


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd", "nonsense", "GZIP", "gzip, gzip", "x" * 4_000])
@pytest.mark.parametrize("path", [START, "/v1/validate"])
async def test_a_compressed_body_is_refused_without_being_unpacked(
    served: Served, encoding: str, path: str, monkeypatch: pytest.MonkeyPatch
):
    def unpack(*_: object, **__: object) -> None:
        raise AssertionError("nothing is unpacked")

    monkeypatch.setattr("aiohttp.http_parser.DeflateBuffer.__init__", unpack)
    bomb = gzip.compress(b" " * (17 * MEGABYTE))
    answered = await served.ask("POST", path, data=bomb, headers={**JSON, "Content-Encoding": encoding})
    assert (answered.status, answered.code) == (415, "UNSUPPORTED_ENCODING")
    assert answered.headers["Accept-Encoding"] == "identity"


async def test_a_body_may_say_that_it_is_not_compressed(served: Served):
    answered = await served.ask("POST", "/v1/validate", json=echo(), headers={"Content-Encoding": "identity"})
    assert answered.status == 200


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"])
async def test_a_body_of_another_kind_is_refused(served: Served, kind: str):
    answered = await served.ask("POST", START, data=b"{}", headers={"Content-Type": kind})
    assert (answered.status, answered.code) == (415, "UNSUPPORTED_MEDIA_TYPE")


async def test_a_page_of_another_origin_cannot_write(served: Served):
    external = {"Origin": "https://evil.example"}
    answered = await served.ask("POST", START, json={}, headers=external)
    assert (answered.status, answered.code) == (403, "FORBIDDEN")
    assert "Access-Control-Allow-Origin" not in answered.headers
    own = {"Origin": served.url}
    assert (await served.ask("POST", "/v1/validate", json=echo(), headers=own)).status == 200


async def test_a_body_that_stops_halfway_harms_nobody(served: Served):
    reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
    writer.write(
        f"POST {START} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {served.keys['admin']}\r\n"
        'Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{"input"'.encode()
    )
    await writer.drain()
    writer.close()
    await writer.wait_closed()
    del reader

    runs = await served.ask("GET", "/v1/runs")
    assert (runs.status, runs.json["items"]) == (200, []), "no run has begun, and others are served"


@pytest.mark.parametrize(
    "request_",
    [
        b"\x00\x01\x02\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"X: " + b"y" * 20_000 + b"\r\n\r\n",
        b"POST /v1/validate HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
        b"POST /v1/validate HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    ],
)
async def test_what_is_no_http_is_turned_away(served: Served, request_: bytes):
    reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
    writer.write(request_)
    await writer.drain()
    answer = await reader.read(4096)
    writer.close()
    assert answer.startswith(b"HTTP/1.0 400 "), answer[:200]
    head, _, body = answer.partition(b"\r\n\r\n")
    assert json.loads(body)["error"]["code"] == "BAD_HTTP"
    assert b"Server: anabranch\r\n" in head and b"aiohttp" not in head


@pytest.mark.parametrize(
    "path",
    ["/v1/runs/x", "/v1/runs/%00", "/v1/workflows/%00", "/v1/workflows/..%2f..%2fetc", "/v1/workflows/" + "a" * 5000,
     "/v1/data-sources/%ff", "/v1/runs/%F0%9F%92%A9/log", "/static/../app.py", "/static/%2e%2e/app.py"],
)  # fmt: skip
async def test_a_path_that_names_nothing_is_not_found(served: Served, path: str):
    answered = await served.ask("GET", path)
    assert answered.status == 404, answered.text
    assert json.loads(answered.text)["error"]["code"] == "NOT_FOUND"


async def test_an_unknown_method_is_told_which_are_known(served: Served):
    answered = await served.ask("PATCH", "/v1/workflows")
    assert (answered.status, answered.code) == (405, "METHOD_NOT_ALLOWED")
    assert answered.headers["Allow"] == "GET, HEAD, POST"

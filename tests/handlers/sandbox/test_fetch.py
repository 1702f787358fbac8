"""`fetch` in javascript: asked of the service, answered by its fetcher, counted there."""

# ruff: noqa: E501 -- programs

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from anabranch.egress.client import FetchResponse
from anabranch.errors import NodeFailure
from anabranch.handlers.sandbox.conversation import FETCHED_BYTES_MAX, FETCHES_AT_ONCE_MAX, FETCHES_MAX
from tests.handlers.sandbox.running import coding


class Recording:
    """A fetcher without a network: what it was asked, and how many at once."""

    def __init__(self, body: bytes = b'{"a": [1]}') -> None:
        self.body = body
        self.requests: list[dict[str, Any]] = []
        self.at_once = self.most_at_once = 0
        self.together = asyncio.Barrier(FETCHES_AT_ONCE_MAX)

    async def fetch(
        self, *, method: str, url: str, headers: Mapping[str, str], body: bytes | None, timeout_s: float
    ) -> FetchResponse:
        self.requests.append({"method": method, "url": url, "headers": dict(headers), "body": body})
        if "forbidden" in url:
            raise NodeFailure("EGRESS_REFUSED", f"{url} is not a public address")
        if "broken" in url:
            raise ConnectionError("reset")
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            if "endless" in url:
                await asyncio.Event().wait()
            if "together" in url:
                await self.together.wait()
        finally:
            self.at_once -= 1
        return FetchResponse(201, {"Content-Type": "application/json"}, self.body)


async def test_a_request_goes_out_and_its_response_comes_back():
    fetcher = Recording()
    body = """
const response = await fetch('https://a.example/x', {method: 'POST', headers: {'X-Y': 1}, body: '{}'});
return [response.status, response.ok, response.headers.get('content-TYPE'), response.headers.has('x'), await response.json(),
        await response.text()]
"""
    async with coding(fetcher=fetcher) as code:
        value = await code.run("javascript", body, allow_fetch=True)
    assert value == [201, True, "application/json", False, {"a": [1]}, '{"a": [1]}']
    assert fetcher.requests == [
        {"method": "POST", "url": "https://a.example/x", "headers": {"X-Y": "1"}, "body": b"{}"}
    ]


async def test_without_permission_nothing_is_asked():
    fetcher = Recording()
    async with coding(fetcher=fetcher) as code:
        assert "allowFetch" in str(await code.failure("javascript", "await fetch('https://a.example')"))
    async with coding() as code:
        failure = await code.failure("javascript", "await fetch('https://a.example')", allow_fetch=True)
        assert "EGRESS_REFUSED" in str(failure)
    assert fetcher.requests == []


async def test_requests_run_side_by_side_but_not_all_at_once():
    fetcher = Recording()
    async with coding(fetcher=fetcher) as code:
        body = "return (await Promise.all(Array.from({length: 40}, (_, i) => fetch('https://together/' + i)))).length"
        assert await code.run("javascript", body, allow_fetch=True) == 40
    assert fetcher.most_at_once == FETCHES_AT_ONCE_MAX
    assert len(fetcher.requests) == 40


async def test_a_refusal_is_an_error_that_the_code_may_catch():
    body = "try { await fetch('https://forbidden') } catch (e) { return [e.name, e.code, e.message] }"
    async with coding(fetcher=Recording()) as code:
        assert await code.run("javascript", body, allow_fetch=True) == [
            "TypeError", "EGRESS_REFUSED", "EGRESS_REFUSED: https://forbidden is not a public address"
        ]  # fmt: skip
        assert "FETCH_FAILED: ConnectionError: reset" in str(
            await code.failure("javascript", "await fetch('https://broken')", allow_fetch=True)
        )


async def test_requests_and_answers_are_counted():
    async with coding(fetcher=(fetcher := Recording())) as code:
        body = "for (let i = 0; ; i++) { try { await fetch('https://a/') } catch (e) { return [i, e.code] } }"
        assert await code.run("javascript", body, allow_fetch=True) == [FETCHES_MAX, "EGRESS_REFUSED"]
        assert len(fetcher.requests) == FETCHES_MAX
    async with coding(fetcher=Recording(b"x" * (FETCHED_BYTES_MAX // 4 + 1))) as code:
        assert await code.run("javascript", body, allow_fetch=True) == [3, "VALUE_TOO_LARGE"]


async def test_waiting_for_an_answer_takes_from_the_time_of_the_code():
    fetcher = Recording()
    async with coding(fetcher=fetcher) as code:
        failure = await code.failure("javascript", "await fetch('https://endless')", allow_fetch=True, timeout_ms=300)
        assert failure.code == "CODE_TIMEOUT"
        assert fetcher.at_once == 0, "the request was stopped with its code"

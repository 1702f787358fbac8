"""`fetch` in javascript: asked of the service, answered by its fetcher, counted there."""

# ruff: noqa: E501 -- programs

from __future__ import annotations

import asyncio
from typing import Any

from aiohttp import web

from anabranch.errors import NodeFailure
from anabranch.handlers.sandbox.conversation import FETCHED_BYTES_MAX, FETCHES_AT_ONCE_MAX
from anabranch.handlers.sandbox.inside.sealed_wire import FETCHES_MAX, REQUEST_BYTES_MAX
from anabranch.handlers.types.http_port import HttpAnswer, HttpCall
from tests.egress.servers import client_allowed, serving
from tests.handlers.sandbox.running import coding


class Recording:
    """A fetcher without a network: what it was asked, and how many at once."""

    def __init__(self, body: bytes = b'{"a": [1]}') -> None:
        self.body = body
        self.requests: list[dict[str, Any]] = []
        self.at_once = self.most_at_once = 0
        self.together = asyncio.Barrier(FETCHES_AT_ONCE_MAX)

    async def fetch(self, call: HttpCall, *, timeout_s: float) -> HttpAnswer:
        url = call.url
        self.requests.append({"method": call.method, "url": url, "headers": dict(call.headers), "body": call.body})
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
        return HttpAnswer(201, {"Content-Type": "application/json"}, self.body)


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


async def test_once_the_answers_are_too_large_nothing_more_is_asked():
    body = "for (let i = 0; i < 9; i++) { try { await fetch('https://a/') } catch (e) { codes.push(e.code) } } return codes"
    async with coding(fetcher=(fetcher := Recording(b"x" * (FETCHED_BYTES_MAX + 1)))) as code:
        codes = await code.run("javascript", f"const codes = []; {body}", allow_fetch=True)
    assert codes == ["VALUE_TOO_LARGE"] * 9
    assert len(fetcher.requests) == 1


async def test_a_flood_of_requests_is_refused_without_waiting_for_anybody():
    body = """
const outcomes = await Promise.allSettled(Array.from({length: 5000}, () => fetch('https://a/' + 'x'.repeat(2000))))
return [outcomes.filter(o => o.value).length, outcomes.filter(o => o.reason?.code === 'EGRESS_REFUSED').length]
"""
    async with coding(fetcher=Recording()) as code:
        assert await code.run("javascript", body, allow_fetch=True) == [FETCHES_MAX, 5_000 - FETCHES_MAX]


async def test_a_request_that_is_too_large_is_an_error_of_the_code_and_counts_for_nothing():
    body = """
const send = (body) => fetch('https://a', {method: 'POST', body}).then(r => r.status, e => [e.name, e.code])
return [await send('x'.repeat(ctx.max)), await send('é'.repeat(ctx.max / 2)), await send('é'.repeat(ctx.max / 2 - 100))]
"""
    async with coding(fetcher=(fetcher := Recording())) as code:
        value = await code.run("javascript", body, {"max": REQUEST_BYTES_MAX}, allow_fetch=True)
    assert value == [["TypeError", "VALUE_TOO_LARGE"], ["TypeError", "VALUE_TOO_LARGE"], 201]
    assert [request["body"] for request in fetcher.requests] == ["é".encode() * (REQUEST_BYTES_MAX // 2 - 100)]


async def test_half_a_character_in_a_request_is_replaced():
    body = r"return (await fetch('https://a/\ud800', {method: 'POST', headers: {a: '\udc00'}, body: '\ud800x'})).status"
    async with coding(fetcher=(fetcher := Recording())) as code:
        assert await code.run("javascript", body, allow_fetch=True) == 201
    (request,) = fetcher.requests
    assert (request["url"], request["headers"], request["body"]) == (
        "https://a/\ufffd", {"a": "\ufffd"}, "\ufffdx".encode()
    )  # fmt: skip


async def test_what_asks_while_it_is_made_a_request_gets_its_own_answer():
    body = """
let inner; const url = {toString() { inner = fetch('https://a'); return 'https://b' }}
const outer = await fetch(url)
return [(await inner).url, outer.url]
"""
    async with coding(fetcher=Recording()) as code:
        assert await code.run("javascript", body, allow_fetch=True) == ["https://a", "https://b"]


async def test_fetch_goes_past_the_guard_on_all_that_leaves_the_machine():
    async def handle(request: web.Request) -> web.Response:
        return web.json_response({"path": request.path})

    body = "try { return await (await fetch(ctx.url + '/x')).json() } catch (e) { return [e.name, e.code] }"
    async with serving(handle) as server:
        async with coding(fetcher=client_allowed()) as code:
            refused = await code.run("javascript", body, {"url": server.url}, allow_fetch=True)
            assert refused == ["TypeError", "EGRESS_REFUSED"]
            assert server.requests == []
        async with coding(fetcher=client_allowed(server.port)) as code:
            assert await code.run("javascript", body, {"url": server.url}, allow_fetch=True) == {"path": "/x"}
    async with coding(fetcher=client_allowed(server.port)) as code:  # which nobody answers at any more
        unreachable = await code.run("javascript", body, {"url": server.url}, allow_fetch=True)
        assert unreachable == ["TypeError", "HTTP_UNREACHABLE"]
        odd = "try { await fetch(ctx.url, {method: 'BREW'}) } catch (e) { return e.code }"
        assert await code.run("javascript", odd, {"url": server.url}, allow_fetch=True) == "HTTP_REQUEST_INVALID"


async def test_waiting_for_an_answer_takes_from_the_time_of_the_code():
    fetcher = Recording()
    async with coding(fetcher=fetcher) as code:
        failure = await code.failure("javascript", "await fetch('https://endless')", allow_fetch=True, timeout_ms=300)
        assert failure.code == "CODE_TIMEOUT"
        assert fetcher.at_once == 0, "the request was stopped with its code"

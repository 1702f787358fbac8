"""Redirects are judged hop by hop, and what is private stays with the origin that it was meant for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from anabranch.egress import AllowList, Guard, GuardedClient
from anabranch.errors import EgressRefused, HttpAnswerInvalid
from anabranch.handlers.types.http_port import HttpAnswer, HttpCall
from tests.egress.attacks import SCHEMES
from tests.egress.servers import Server, client_allowed, serving

HEADERS = {
    "Authorization": "Bearer t0ken",
    "Cookie": "session=t0ken",
    "X-Api-Key": "t0ken",
    "X-Custom-Auth": "t0ken",
    "Accept": "text/plain",
}


async def hello(request: web.Request) -> web.Response:
    return web.Response(text="hello")


def leading_to(location: str, status: int = 302) -> Any:
    async def redirect(request: web.Request) -> web.Response:
        return web.Response(status=status, headers={"Location": location})

    return redirect


async def get(client: GuardedClient, url: str, **options: Any) -> HttpAnswer:
    timeout_s = options.pop("timeout_s", 10.0)
    return await client.fetch(HttpCall(**{"method": "GET", "url": url, **options}), timeout_s=timeout_s)


LOCATIONS_OF_B = ["{b}/", "//127.0.0.1:{port}/", "HTTP://127.0.0.1:{port}/x?y#z"]


@pytest.mark.parametrize("location", LOCATIONS_OF_B)
async def test_a_redirect_to_an_inner_host_is_refused(location: str) -> None:
    async with serving(hello) as inner, serving(leading_to(location.format(b=inner.url, port=inner.port))) as outer:
        with pytest.raises(EgressRefused):
            await get(client_allowed(outer.port), outer.url)
        assert inner.requests == []

        async with aiohttp.ClientSession() as naive, naive.get(outer.url) as answer:
            assert await answer.text() == "hello", "the redirect harms nobody"


DISGUISED = ["http://user@127.0.0.1:{port}/", "http://127.1:{port}/", "http://2130706433:{port}/",
             "http:\\\\127.0.0.1:{port}/", "http://[::ffff:127.0.0.1]:{port}/", "http://169.254.169.254/latest/",
             "http://localhost:{port}/", "http://127.0.0.1:{port}\\@good.test/"]  # fmt: skip


@pytest.mark.parametrize("location", [*DISGUISED, *(scheme for scheme in SCHEMES if ":" in scheme)])
async def test_a_redirect_in_disguise_is_refused(location: str) -> None:
    async with serving(hello) as inner, serving(leading_to(location.format(port=inner.port))) as outer:
        with pytest.raises(EgressRefused):
            await get(client_allowed(outer.port), outer.url)
        assert inner.requests == []


async def test_the_last_of_several_hops_is_judged_too() -> None:
    async with (
        serving(hello) as inner,
        serving(leading_to(f"{inner.url}/")) as second,
        serving(leading_to(f"{second.url}/")) as first,
    ):
        with pytest.raises(EgressRefused):
            await get(client_allowed(first.port, second.port), first.url)
        assert (len(first.requests), len(second.requests), len(inner.requests)) == (1, 1, 0)


async def test_five_redirects_are_followed_and_a_sixth_is_not() -> None:
    async def count(request: web.Request) -> web.Response:
        left = int(request.path.strip("/"))
        return web.Response(status=302, headers={"Location": f"/{left - 1}"}) if left else web.Response(text="there")

    async with serving(count) as server:
        client = client_allowed(server.port)
        assert (await get(client, f"{server.url}/5")).body == b"there"
        with pytest.raises(HttpAnswerInvalid, match="more than 5 times"):
            await get(client, f"{server.url}/6")


@pytest.mark.parametrize(
    ("location", "path"), [("/b?c=d", "/b?c=d"), ("b", "/a/b"), ("?x=1", "/a/?x=1"), ("../c", "/c"), ("", "/a/")]
)
async def test_a_relative_redirect_stays_where_it_is(location: str, path: str) -> None:
    async def once(request: web.Request) -> web.Response:
        if len(server.requests) > 1:
            return web.Response(text="there")
        return web.Response(status=302, headers={"Location": location})

    async with serving(once) as server:
        assert (await get(client_allowed(server.port), f"{server.url}/a/")).status == 200
        assert server.requests[-1][1] == path


async def test_without_following_the_redirect_is_the_answer() -> None:
    async with serving(leading_to("/elsewhere")) as server:
        answer = await get(client_allowed(server.port), server.url, follow_redirects=False)
    assert (answer.status, answer.headers["location"], len(server.requests)) == (302, "/elsewhere", 1)


async def _two_origins(status: int, **options: Any) -> tuple[Server, Server]:
    """Where a request went that one origin redirects to another; both may be reached."""
    async with serving(hello) as second, serving(leading_to(f"{second.url}/", status)) as first:
        await get(client_allowed(first.port, second.port), first.url, **options)
        return first, second


async def test_no_credential_of_any_name_goes_to_another_origin() -> None:
    first, second = await _two_origins(302, headers=HEADERS)

    assert "t0ken" in str(first.requests) and "t0ken" not in str(second.requests)
    assert second.requests[0][2]["accept"] == "text/plain"


async def test_a_naive_client_hands_a_key_of_its_own_name_on() -> None:
    async with (
        serving(hello) as second,
        serving(leading_to(f"{second.url}/")) as first,
        aiohttp.ClientSession() as naive,
        naive.get(first.url, headers=HEADERS),
    ):
        pass
    assert second.requests[0][2]["x-api-key"] == "t0ken"


async def test_a_private_header_goes_to_no_other_origin_under_any_name() -> None:
    _, second = await _two_origins(307, headers={"Accept": "t0ken"}, private_headers=frozenset({"accept"}))
    assert "t0ken" not in str(second.requests)


async def test_credentials_stay_on_a_redirect_within_the_origin() -> None:
    async def twice(request: web.Request) -> web.Response:
        return web.Response() if request.path == "/b" else web.Response(status=302, headers={"Location": "/b"})

    async with serving(twice) as server:
        await get(client_allowed(server.port), server.url, headers=HEADERS)
    assert server.requests[1][2]["authorization"] == "Bearer t0ken"


@pytest.mark.parametrize(
    ("status", "method", "then"),
    [(301, "POST", "GET"), (302, "POST", "GET"), (303, "POST", "GET"), (303, "PUT", "GET"), (302, "PUT", "PUT"),
     (307, "POST", "POST"), (308, "PATCH", "PATCH"), (303, "HEAD", "HEAD")],
)  # fmt: skip
async def test_the_method_changes_as_browsers_change_it(status: int, method: str, then: str) -> None:
    body = None if method == "HEAD" else b"data"
    _, second = await _two_origins(status, method=method, body=body)
    assert second.requests[0][0] == then
    assert second.requests[0][3] == (b"" if then in ("GET", "HEAD") else b"data")


@pytest.mark.parametrize("status", [307, 308])
async def test_a_private_body_goes_to_no_other_origin(status: int) -> None:
    async with serving(hello) as second, serving(leading_to(f"{second.url}/", status)) as first:
        with pytest.raises(EgressRefused, match="a body with a secret is not sent there"):
            await get(client_allowed(first.port, second.port), first.url, method="POST", body=b"x", private_body=True)
        assert second.requests == []


async def test_a_name_that_changes_its_mind_is_asked_once() -> None:
    asked: list[str] = []

    async with serving(hello) as public, serving(hello, host="127.0.0.2") as inner:

        def resolve(host: str, port: int) -> Sequence[str]:
            asked.append(host)
            return ["127.0.0.1"] if len(asked) == 1 else ["127.0.0.2"]

        guard = Guard(AllowList.parse(["127.0.0.1"]), resolve=resolve)
        answer = await get(GuardedClient(guard), f"http://rebinding.test:{public.port}/")

        assert answer.body == b"hello" and asked == ["rebinding.test"]
        assert public.requests[0][2]["host"] == f"rebinding.test:{public.port}"

        # Who asks once to judge, and lets the connection ask again, is led to the inner host.
        assert resolve("rebinding.test", inner.port) == ["127.0.0.2"]
        with pytest.raises(EgressRefused):
            await get(GuardedClient(guard), f"http://rebinding.test:{inner.port}/")
        assert inner.requests == []


async def test_no_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    async with serving(hello) as server, serving(hello) as proxy:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, proxy.url)
        for name in ("NO_PROXY", "no_proxy"):
            monkeypatch.delenv(name, raising=False)
        await get(client_allowed(server.port, proxy.port), server.url)
        assert len(server.requests) == 1

        async with aiohttp.ClientSession(trust_env=True) as naive, naive.get(server.url):
            pass
        assert len(server.requests) == 1, "the proxy harms nobody"


async def test_cookies_are_not_kept() -> None:
    async def bake(request: web.Request) -> web.Response:
        return web.Response(headers={"Set-Cookie": "a=b; Path=/"})

    async with serving(bake) as server:
        client = client_allowed(server.port)
        await get(client, server.url)
        await get(client, server.url)
    assert "cookie" not in server.requests[1][2]

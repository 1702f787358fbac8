"""Who may ask for what, and what is answered to requests that make no sense."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import aiohttp
import pytest
import socketio
from socketio.exceptions import ConnectionError as NotConnected

from anabranch.keys.access import Role
from anabranch.sockets import open_sockets as visitors
from tests.engine.conftest import TENANT, until
from tests.engine.drawing import drawn, node
from tests.sockets.conftest import PATIENCE_S, Connect, Served
from tests.sockets.test_watching import GATED, open_gate

# Less than any silence that ends a connection, and time enough for a slow machine.
SOON_S = 15.0

GRAPH = drawn("tried", node("a"), node("end", "end", config={"outputParameters": {"r": "{{ctx.input}}"}}))


async def refusal(served: Served, **options: Any) -> dict[str, Any]:
    """How a connection is refused."""
    client = socketio.AsyncClient(reconnection=False)
    refused: list[dict[str, Any]] = []
    client.on("connect_error", refused.append)
    with pytest.raises(NotConnected):
        await client.connect(served.url, **{"transports": ["websocket"], **options})
    return refused[0]


@pytest.mark.parametrize(
    "auth", [None, {}, {"key": ""}, {"key": "ab_wrong"}, {"key": 5}, {"key": None}, "text", [1], 7]
)
async def test_nobody_comes_in_without_a_valid_key(served: Served, auth: Any) -> None:
    told = await refusal(served, auth=auth)
    assert told["data"]["code"] == "UNAUTHORIZED"


async def test_the_key_may_stand_in_the_header(served: Served, connect: Connect) -> None:
    key = await served.key()
    watcher = await connect(served, auth=None, headers={"Authorization": f"Bearer {key.key}"})
    assert (await watcher.ask("workflow_run_leave", {"runId": "x"}))["ok"]


async def test_a_revoked_key_ends_its_connections(served: Served, connect: Connect) -> None:
    revoked, kept = await served.key(), await served.key()
    out, stays = await connect(served, revoked), await connect(served, kept)
    run_id = await served.process.run(GATED)
    await out.ask("workflow_run_join", {"runId": run_id})
    await served.access.revoke_key(revoked.key_id, tenant_id=TENANT, actor="test")
    await out.until(lambda: not out.io.connected)
    assert stays.io.connected and (await stays.ask("workflow_run_join", {"runId": run_id}))["ok"]
    await open_gate()
    await stays.ended(run_id)
    assert "success" not in [data["status"] for _, data in out.updates(run_id) if data.get("nodeID") == "gate"]


async def test_a_connection_that_shows_no_key_is_ended(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(visitors, "PATIENCE_S", 0.1)
    url = f"{served.url}/socket.io/?EIO=4&transport=websocket"
    async with aiohttp.ClientSession() as session, session.ws_connect(url) as socket:
        kinds = [message.type async for message in socket]
    assert kinds[0] == aiohttp.WSMsgType.TEXT and socket.closed


@pytest.mark.parametrize(("origin", "status"), [("http://evil.example", 400), ("null", 400), (None, 200), ("own", 200)])
async def test_only_pages_of_this_server_may_connect(served: Served, origin: str | None, status: int) -> None:
    headers = {} if origin is None else {"Origin": served.url if origin == "own" else origin}
    url = f"{served.url}/socket.io/?EIO=4&transport=polling"
    async with aiohttp.ClientSession() as session, session.get(url, headers=headers) as answer:
        assert answer.status == status


async def test_runs_of_another_tenant_read_as_absent(served: Served, connect: Connect) -> None:
    run_id = await served.process.run(GATED)
    stranger = await connect(served, await served.key(tenant="other"))
    unknown = "0190b5a0-0000-7000-8000-000000000000"
    for each in (run_id, unknown, "no id", "", "../etc", "x" * 5_000):
        answer = await stranger.ask("workflow_run_join", {"runId": each})
        assert (answer["ok"], answer["code"]) == (False, "NOT_FOUND")
    await until(lambda: served.api.broadcaster.rooms_count == 0)


async def test_a_viewer_watches_and_does_nothing_else(served: Served, connect: Connect) -> None:
    run_id = await served.process.run(GATED)
    viewer = await connect(served, await served.key(Role.VIEWER))
    assert (await viewer.ask("workflow_run_join", {"runId": run_id}))["ok"]
    for event, payload in (("workflow_test_run", GRAPH), ("workflow_test_stop", {"runId": run_id})):
        answer = await viewer.ask(event, payload)
        assert (answer["ok"], answer["code"]) == (False, "FORBIDDEN")


NONSENSE: list[Any] = [
    *(None, 1, "text", True, [], [1], {}, b"bytes", (1, 2), ()),
    *({"runId": each} for each in (5, None, ["x"], b"x", "\ud800", "a\x00b")),
    *({"runId": "x", "since": each} for each in ("1", -1, 1.5, True)),
]


@pytest.mark.parametrize("event", ["workflow_run_join", "workflow_test_run", "workflow_test_stop", "workflow_nothing"])
async def test_nonsense_is_answered(served: Served, connect: Connect, event: str) -> None:
    watcher = await connect(served)
    for payload in NONSENSE:
        answer = await watcher.ask(event, payload)
        assert answer["ok"] is False and answer["code"] in ("INVALID_REQUEST", "NOT_FOUND"), (payload, answer)
        assert isinstance(answer["message"], str) and answer["message"]
    run_id = await served.process.run(GATED)
    assert (await watcher.ask("workflow_run_join", {"runId": run_id}))["ok"]


@pytest.mark.parametrize(
    "packet",
    [
        *("", "x", "4", "49", "4x", "42", "42{}", "42[]", "42[[]]", "42[5]", '42["a"', "42" + "[" * 5_000),
        *("45999-[]", '4599999999-["a"]', "45-", "4/ns", "40/other", '42["connect",{},{}]', '42["disconnect"]'),
        *('43["x"]', "431[]", "44", "46", "9", "\u0660", "4\u0660"),
    ],
)
async def test_garbage_ends_its_connection_and_no_other(served: Served, connect: Connect, packet: str) -> None:
    watcher = await connect(served)
    key = await served.key()
    url = f"{served.url}/socket.io/?EIO=4&transport=websocket"
    async with aiohttp.ClientSession() as session, session.ws_connect(url) as socket:
        await socket.receive()
        await socket.send_str("40" + json.dumps({"key": key.key}))
        await socket.receive()
        await socket.send_str(packet)
        await socket.send_str('420["workflow_run_leave",{"runId":"x"}]')
        await asyncio.wait_for(socket.receive(), PATIENCE_S)
    assert (await watcher.ask("workflow_run_leave", {"runId": "x"}))["ok"]


async def test_an_endless_message_ends_its_connection(served: Served, connect: Connect) -> None:
    watcher, other = await connect(served), await connect(served)
    await watcher.io.emit("workflow_run_join", {"runId": "x" * 1_100_000})
    await watcher.until(lambda: not watcher.io.connected)
    assert (await other.ask("workflow_run_leave", {"runId": "x"}))["ok"]


@pytest.mark.parametrize("body", ["4" + "x" * 1_100_000, "0{}"], ids=["endless", "not for a server"])
async def test_a_poll_that_makes_no_sense_is_refused_at_once(served: Served, body: str) -> None:
    """Also of a client that does not fetch what it is told: nothing waits for it."""
    url = f"{served.url}/socket.io/?EIO=4&transport=polling"
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=SOON_S)) as session:
        async with session.get(url) as opened:
            sid = json.loads((await opened.text())[1:])["sid"]
        async with session.post(f"{url}&sid={sid}", data=body) as refused:
            assert refused.status == 400
        async with session.post(f"{url}&sid={sid}", data="3") as after:
            assert after.status == 400, "its connection has ended"


@pytest.mark.parametrize("packet", ["41", '420["disconnect"]'], ids=["leaves", "says that it left"])
async def test_a_connection_that_gave_up_its_key_is_ended(
    served: Served, monkeypatch: pytest.MonkeyPatch, packet: str
) -> None:
    monkeypatch.setattr("anabranch.sockets.open_sockets.PATIENCE_S", 0.0)
    key = await served.key()
    url = f"{served.url}/socket.io/?EIO=4&transport=websocket"
    async with aiohttp.ClientSession() as session, session.ws_connect(url) as socket:
        await socket.receive()
        await socket.send_str("40" + json.dumps({"key": key.key}))
        await socket.receive()
        await socket.send_str(packet)
        async with asyncio.timeout(PATIENCE_S):
            async for _ in socket:
                pass  # it ends with the connection
        assert socket.closed


async def test_too_many_requests_are_refused_and_then_cut_off(served: Served, connect: Connect) -> None:
    watcher = await connect(served)
    answers: list[dict[str, Any]] = []
    async with asyncio.timeout(PATIENCE_S):
        while watcher.io.connected:  # as fast as it can, for as long as it is let in
            await watcher.io.emit("workflow_run_leave", {"runId": "x"}, callback=answers.append)
            await asyncio.sleep(0)
    assert answers[0]["ok"]
    assert answers[-1]["ok"] is False and answers[-1]["code"] == "TOO_MANY_REQUESTS"


async def test_a_client_watches_only_so_many_runs(
    served: Served, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("anabranch.sockets.server.JOINS_MAX", 2)
    watcher = await connect(served)
    runs = [await served.process.run(GATED) for _ in range(3)]
    answers = [await watcher.ask("workflow_run_join", {"runId": run_id}) for run_id in runs]
    assert [answer["ok"] for answer in answers] == [True, True, False]
    assert answers[2]["code"] == "TOO_MANY_JOINS"
    await watcher.ask("workflow_run_leave", {"runId": runs[0]})
    assert (await watcher.ask("workflow_run_join", {"runId": runs[2]}))["ok"]


async def test_what_a_client_sends_reaches_nobody_else(served: Served, connect: Connect) -> None:
    run_id = await served.process.run(GATED)
    one, other = await connect(served), await connect(served)
    for watcher in (one, other):
        await watcher.ask("workflow_run_join", {"runId": run_id})
    answer = await one.ask("workflow_node_update", {"instanceID": run_id, "status": "success", "seq": 99})
    assert answer["code"] == "INVALID_REQUEST"
    await open_gate()
    await other.ended(run_id)
    assert 99 not in [data["seq"] for _, data in other.updates(run_id)]

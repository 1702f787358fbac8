"""The test address of a webhook of a draft: stable, secret, and heard by the test run that waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from anabranch.settings import Settings
from tests.rest.conftest import Answered, Served, serving
from tests.rest.drawing import chain

END = {"id": "end", "type": "end", "config": {"outputParameters": {"got": "{{ctx.input}}"}}}


def document(*nodes: dict[str, Any], **config: Any) -> dict[str, Any]:
    """A workflow that begins at a webhook."""
    drawn = chain("drawn", *(nodes or (END,)))
    drawn["nodes"][0] = {"id": "hook", "type": "webhook", "config": {"path": "a/b", **config}}
    drawn["edges"][0]["upstreamNodeID"] = "hook"
    del drawn["name"]
    return drawn


async def drafted(served: Served, drawn: dict[str, Any]) -> str:
    """A draft; the path of its webhook's test address below `/v1`."""
    made = await served.ask("POST", "/v1/drafts", json={"document": drawn}, role="editor")
    assert made.status == 201, made.text
    return f"/v1/drafts/{made.json['draftID']}/test-hooks/hook"


async def address_of(served: Served, hook: str) -> str:
    """The path of the test address."""
    return urlsplit((await served.ask("GET", hook, role="operator")).json["url"]).path


async def listen(served: Served, hook: str) -> str:
    """Start a test run that waits for a request; its id."""
    listening = await served.ask("POST", f"{hook}/listen", role="editor")
    assert listening.status == 201, listening.text
    return str(listening.json["instanceID"])


async def waits(served: Served, run: str) -> None:
    """The run has come to its wait and is still there."""
    await served.until(f"/v1/runs/{run}", lambda found: found["status"] == "WAITING")


async def call(served: Served, path: str, method: str = "POST", **request: Any) -> Answered:
    return await served.ask(method, path, role=None, **request)


async def test_a_request_feeds_the_test_run_that_waits_and_each_one_has_the_same_address(served: Served):
    hook = await drafted(served, document())
    address = await address_of(served, hook)
    for n in (1, 2):
        run = await listen(served, hook)
        assert (await served.ask("GET", hook)).json == {
            "nodeID": "hook",
            "url": f"http://127.0.0.1:8321{address}",
            "instanceID": run,
        }
        fed = await call(served, f"{address}?a=b", json={"n": n}, headers={"Authorization": "Bearer x"})
        assert (fed.status, fed.json) == (202, {"instanceID": run})
        again = await call(served, f"{address}?a=b", json={"n": n})
        assert (again.status, again.json) == (200, {"instanceID": run})
        got = (await served.ended(run))["output"]["got"]
        assert (got["json"], got["query"], got["path"], got["method"]) == ({"n": n}, {"a": "b"}, "a/b", "POST")
        assert "authorization" not in got["headers"]


async def test_a_request_that_no_test_run_waits_for_is_told_so(served: Served):
    hook = await drafted(served, document())
    address = await address_of(served, hook)
    never = await call(served, address)
    assert (never.status, never.code) == (409, "NOT_LISTENING")
    fed = await listen(served, hook)
    assert (await call(served, address, json=1)).status == 202
    await served.ended(fed)
    assert (await call(served, address, json=2)).code == "NOT_LISTENING"
    cancelled = await listen(served, hook)
    await served.ask("POST", f"/v1/runs/{cancelled}/cancel")
    assert (await call(served, address, json=3)).code == "NOT_LISTENING"
    removed = await listen(served, hook)
    await served.ask("DELETE", f"/v1/test-runs/{removed}")
    assert (await call(served, address, json=4)).code == "NOT_LISTENING"
    await served.ask("DELETE", hook.partition("/test-hooks")[0])
    assert (await call(served, address, json=5)).status == 404


async def test_of_two_test_runs_the_newest_is_fed(served: Served):
    hook = await drafted(served, document())
    address = await address_of(served, hook)
    older, newer = await listen(served, hook), await listen(served, hook)
    answers = await asyncio.gather(*(call(served, address, json={"same": True}) for _ in range(6)))
    assert {(answer.status, answer.json["instanceID"]) for answer in answers} <= {(202, newer), (200, newer)}
    assert (await served.ended(newer))["output"]["got"]["json"] == {"same": True}
    await waits(served, older)


async def test_of_requests_that_race_one_feeds_the_run(served: Served):
    hook = await drafted(served, document())
    address = await address_of(served, hook)
    run = await listen(served, hook)
    answers = await asyncio.gather(*(call(served, address, json=n) for n in range(6)))
    taken = [n for n, answer in enumerate(answers) if answer.status in (200, 202)]
    assert (await served.ended(run))["output"]["got"]["json"] == taken[0]
    assert len(taken) == 1
    assert {answer.code for n, answer in enumerate(answers) if n not in taken} == {"NOT_LISTENING"}


async def test_the_webhook_says_what_is_taken_and_how_it_is_answered(served: Served):
    say = {"id": "say", "type": "respond", "config": {"status": 201, "body": {"n": "{{ctx.input.json.n}}"}}}
    schema = {"properties": {"json": {"required": ["n"]}}}
    token = {"kind": "header", "name": "X-Token", "secret": "NONE"}
    drawn = document(say, END, methods=["PUT"], respond="respondNode", inputSchema=schema, bodyLimit=20, auth=token)
    hook = await drafted(served, drawn)
    address = await address_of(served, hook)
    run = await listen(served, hook)
    for method, body, status in (("POST", {"n": 1}, 405), ("GET", None, 405), ("PUT", {}, 422), ("PUT", "x" * 20, 413)):
        assert (await call(served, address, method, json=body)).status == status
    fed = await call(served, address, "PUT", json={"n": 7}, headers={"X-Token": "a secret"})
    assert (fed.status, fed.json, fed.headers["Content-Security-Policy"][:7]) == (201, {"n": 7}, "sandbox")
    assert "x-token" not in (await served.ended(run))["output"]["got"]["headers"]


async def test_an_address_cannot_be_guessed_or_made_with_another_key(
    served: Served, settings_of: Callable[..., Settings]
):
    hook, other = await drafted(served, document()), await drafted(served, document())
    address = await address_of(served, hook)
    assert address != await address_of(served, other)
    assert address != await address_of(served, hook.replace("/hook", "/hooks"))
    run = await listen(served, hook)
    token = address.rpartition("/")[2]
    swapped = ("B" if token[0] == "A" else "A") + token[1:]
    for wrong in (swapped, token[:-4], token + "AAAA", "x", "%00", "a" * 5_000):
        guessed = await call(served, f"/test-hooks/{wrong}", json=1)
        assert (guessed.status, guessed.code) == (404, "NOT_FOUND")
    assert (await served.ask("GET", hook, role="viewer")).status == 403
    assert (await served.ask("GET", hook, role="other")).status == 404
    assert (await served.ask("POST", f"{hook}/listen", role="operator")).status == 403
    await waits(served, run)
    key = "TXlPdGhlcktleTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="
    async for elsewhere in serving(settings_of(secret_key=key), works=False):
        assert (await call(elsewhere, address, json=1)).status == 404


async def begun(served: Served, path: str, sent: bytes, *, of: int) -> int:
    """The status of the answer to a POST of which only the first bytes are sent."""
    reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
    writer.write(f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {of}\r\n\r\n".encode() + sent)
    await writer.drain()
    status = (await reader.readline()).split()[1]
    writer.close()
    return int(status)


async def test_a_body_is_not_awaited_where_nobody_may_send_one(served: Served):
    hook = await drafted(served, document(methods=["PUT"]))
    address = await address_of(served, hook)
    for path in ("/test-hooks/x", f"{address}x", "/callbacks/x", f"/callbacks/{address.rpartition('/')[2]}"):
        assert await begun(served, path, b"x", of=16_000_000) == 404
    assert await begun(served, address, b"x", of=16_000_000) == 409
    run = await listen(served, hook)
    await waits(served, run)
    assert await begun(served, address, b"x", of=16_000_000) == 405


async def test_no_more_of_a_body_is_read_than_the_limit(served: Served):
    hook = await drafted(served, document(bodyLimit=20))
    run = await listen(served, hook)
    assert await begun(served, await address_of(served, hook), b"x" * 21, of=16_000_000) == 413
    await waits(served, run)
    await served.save(chain("called", {"id": "ask", "type": "waitForWebhook", "config": {"timeout": "1h"}}))
    waiting = await served.start("called")
    found = await served.until(f"/v1/runs/{waiting}", lambda found: found["status"] == "WAITING")
    url = next(node["waitsFor"]["url"] for node in found["nodes"] if node["waitsFor"])
    assert await begun(served, urlsplit(url).path, b"x" * 1_048_577, of=16_000_000) == 413
    await waits(served, waiting)


async def test_what_cannot_listen_is_refused_and_the_address_stays_as_it_was(served: Served):
    hook = await drafted(served, chain("plain", END))
    missing = await served.ask("POST", f"{hook}/listen", role="editor")
    assert missing.code == "UNKNOWN_TRIGGER"
    start = await served.ask("POST", hook.replace("/hook", "/start") + "/listen", role="editor")
    assert (start.status, start.json["error"]["details"][0]["pointer"]) == (422, "/listen")
    broken = await drafted(served, {"nodes": "none yet"})
    assert (await served.ask("POST", f"{broken}/listen", role="editor")).code == "INVALID_WORKFLOW"
    assert (await served.ask("GET", hook)).json["instanceID"] is None
    gone = "/v1/drafts/00000000-0000-4000-8000-000000000000/test-hooks/hook"
    assert (await served.ask("GET", gone)).status == 404
    assert (await served.ask("GET", "/v1/drafts/x/test-hooks/hook")).status == 404


async def test_pins_of_the_draft_count(served: Served):
    made = {"id": "made", "type": "set", "config": {"values": {"by": "hand"}}, "outputVariable": "made"}
    drawn = document(made, {**END, "config": {"outputParameters": {"made": "{{ctx.made}}"}}})
    hook = await drafted(served, drawn)
    pins = {"made": {"output": {"by": "pin"}}, "removed": {"output": 1}}
    await served.ask("PUT", hook.replace("test-hooks/hook", "pins"), json=pins, role="editor")
    run = await listen(served, hook)
    await call(served, await address_of(served, hook))
    assert (await served.ended(run))["output"] == {"made": {"by": "pin"}}

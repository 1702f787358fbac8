"""Webhooks over HTTP: who may call, what a run gets, what the caller is answered."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any
from urllib.parse import urlsplit

from anabranch.app import build
from anabranch.settings import Settings
from tests.rest.conftest import TENANT, Answered, Served, serving

END = {"id": "end", "type": "end", "config": {"outputParameters": {"got": "{{ctx.input}}"}}}
SECRET = "correct horse battery staple"
GITHUB = {"kind": "hmac", "scheme": "github", "secret": "HOOK"}


def hooked(name: str, *nodes: dict[str, Any], **config: Any) -> dict[str, Any]:
    """A workflow that begins at a webhook with the path of its name."""
    row = [{"id": "hook", "type": "webhook", "config": {"path": name, **config}}, *(nodes or (END,))]
    edges = [{"upstreamNodeID": a["id"], "downstreamNodeID": b["id"]} for a, b in pairwise(row)]
    return {"name": name, "nodes": row, "edges": edges}


async def call(served: Served, path: str, method: str = "POST", **request: Any) -> Answered:
    return await served.ask(method, f"/hooks/{TENANT}/{path}", role=None, **request)


async def keep_secret(served: Served, value: str = SECRET) -> None:
    await served.services.secrets.set(tenant_id=TENANT, name="HOOK", value=value)


async def input_of(served: Served, answered: Answered) -> dict[str, Any]:
    """What the run of an answer got."""
    run = await served.ended(answered.json["instanceID"])
    assert run["status"] == "COMPLETED", run
    got: dict[str, Any] = run["output"]["got"]
    return got


def github(body: bytes, secret: str = SECRET) -> dict[str, str]:
    return {"X-Hub-Signature-256": "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()}


async def runs_of(served: Served, workflow: str) -> int:
    return len((await served.ask("GET", f"/v1/workflows/{workflow}/runs")).json["items"])


async def test_a_run_gets_the_request(served: Served):
    await served.save(hooked("take", methods=["POST", "PUT"]))
    answered = await call(served, "take?a=1&b=2&b=3", json={"n": 1.5}, headers={"X-Kind": "new", "Cookie": "c=1"})
    assert (answered.status, list(answered.json)) == (202, ["instanceID"])
    got = await input_of(served, answered)
    assert (got["method"], got["path"], got["query"]) == ("POST", "take", {"a": "1", "b": ["2", "3"]})
    assert got["url"].endswith("/hooks/acme/take")
    assert (got["body"], got["json"], got["form"], got["bodyEncoding"]) == ('{"n": 1.5}', {"n": 1.5}, None, "utf-8")
    assert got["headers"]["x-kind"] == "new"
    assert "cookie" not in got["headers"]
    form = await call(served, "take", "PUT", data={"a": "1 2", "b": ""})
    got = await input_of(served, form)
    assert (got["method"], got["form"], got["json"]) == ("PUT", {"a": "1 2", "b": ""}, None)
    binary = await call(served, "take", data=b"\xff\x00", headers={"Content-Type": "image/png"})
    got = await input_of(served, binary)
    assert (got["bodyEncoding"], base64.b64decode(got["body"])) == ("base64", b"\xff\x00")
    empty = await call(served, "take")
    assert (await input_of(served, empty))["body"] == ""


async def test_bad_bodies_start_nothing(served: Served):
    schema = {"type": "object", "properties": {"json": {"type": "object", "required": ["id"]}}}
    await served.save(hooked("strict", inputSchema=schema))
    headers = {"Content-Type": "application/json"}
    for data, status in ((b"{", 400), (b'{"a": NaN}', 422), (b'{"a": 1, "a": 2}', 400), (b"{}", 422)):
        assert (await call(served, "strict", data=data, headers=headers)).status == status
    zipped = await call(served, "strict", data=b"x", headers={"Content-Encoding": "gzip"})
    assert zipped.status in (400, 415)
    assert await runs_of(served, "strict") == 0


async def test_a_body_may_have_as_many_bytes_as_the_limit_and_no_more(served: Served):
    sizes = {"body": "{{ctx.input.body | length}}", "text": "{{ctx.input.json.a | default('') | length}}"}
    count = {"id": "end", "type": "end", "config": {"outputParameters": {"got": sizes}}}
    await served.save(hooked("sized", count, inputSchema={"required": ["body"]}))
    await served.save(hooked("small", bodyLimit=10))
    text = await call(served, "sized", data=b"x" * 1_048_576, headers={"Content-Type": "text/plain"})
    assert await input_of(served, text) == {"body": 1_048_576, "text": 0}
    document = json.dumps({"a": "x" * 1_048_000}).encode()
    both = await call(served, "sized", data=document, headers={"Content-Type": "application/json"})
    assert await input_of(served, both) == {"body": len(document), "text": 1_048_000}
    assert (await call(served, "sized", data=b"x" * 1_048_577)).status == 413
    assert (await call(served, "small", data=b"x" * 10)).status == 202
    large = await call(served, "small", data=b"x" * 11)
    assert (large.status, large.code) == (413, "TOO_LARGE")


async def test_a_header_or_a_password_lets_in_and_nothing_else_does(served: Served):
    await keep_secret(served, "ada:lovelace")
    await served.save(hooked("headed", auth={"kind": "header", "name": "X-Token", "secret": "HOOK"}))
    await served.save(hooked("based", auth={"kind": "basic", "secret": "HOOK"}))
    right = {"Authorization": "Basic " + base64.b64encode(b"ada:lovelace").decode()}
    assert (await call(served, "headed", headers={"X-Token": "ada:lovelace"})).status == 202
    answered = await call(served, "based", headers=right)
    assert "authorization" not in (await input_of(served, answered))["headers"]
    answered = await call(served, "headed", headers={"X-Token": "ada:lovelace"})
    assert "x-token" not in (await input_of(served, answered))["headers"]
    for path, headers in (
        ("headed", {}),
        ("headed", {"X-Token": ""}),
        ("headed", {"X-Token": "ada:lovelac"}),
        ("headed", right),
        ("based", {"Authorization": "Basic !"}),
        ("based", {"Authorization": "Bearer ada:lovelace"}),
        ("based", {"Authorization": "Basic " + base64.b64encode(b"ada:").decode()}),
        ("based", {"Authorization": f"Bearer {served.keys['admin']}"}),
    ):
        assert (await call(served, path, headers=headers)).status == 404
    assert (await runs_of(served, "headed"), await runs_of(served, "based")) == (2, 1)


async def test_a_signed_request_starts_one_run_however_often_it_is_sent(served: Served):
    await keep_secret(served)
    await served.save(hooked("signed", auth=GITHUB))
    body = b'{"zen": "Design for failure."}'
    headers = {**github(body), "Content-Type": "application/json"}
    answers = await asyncio.gather(
        *(call(served, "signed", data=body, headers={**headers, "X-GitHub-Delivery": str(n)}) for n in range(8))
    )
    assert sorted(answer.status for answer in answers) == [200] * 7 + [202]
    assert len({answer.json["instanceID"] for answer in answers}) == 1
    got = await input_of(served, answers[0])
    assert (got["json"], "x-hub-signature-256" in got["headers"]) == ({"zen": "Design for failure."}, False)
    for data, wrong in ((body + b" ", headers), (body, github(body, "other")), (body, {})):
        assert (await call(served, "signed", data=data, headers=wrong)).status == 404
    assert await runs_of(served, "signed") == 1


async def test_a_copy_with_another_unsigned_header_starts_no_second_run(served: Served):
    await keep_secret(served)
    by_header = {"header": "X-GitHub-Delivery"}
    await served.save(hooked("delivered", auth=GITHUB, idempotency=by_header))
    by_query = {"expression": "{{ctx.input.query.n}}"}
    await served.save(hooked("queried", auth=GITHUB, idempotency=by_query))
    by_body = {"expression": "{{ctx.input.json.id}}"}
    await served.save(hooked("bodied", auth=GITHUB, idempotency=by_body))
    body = b'{"id": 1}'
    for n in range(2):
        headers = {**github(body), "X-GitHub-Delivery": str(n), "Content-Type": "application/json"}
        assert (await call(served, "delivered", data=body, headers=headers)).status == (202, 200)[n]
        assert (await call(served, f"queried?n={n}", data=body, headers=headers)).status == (202, 200)[n]
        other = b'{"id": 1, "try": %d}' % n
        headers = {**github(other), "Content-Type": "application/json"}
        assert (await call(served, "bodied", data=other, headers=headers)).status == (202, 200)[n]


async def test_another_process_answers_a_replay_with_the_same_run(served: Served, settings_of: Callable[..., Settings]):
    await keep_secret(served)
    await served.save(hooked("spread", auth={"kind": "hmac", "scheme": "stripe", "secret": "HOOK"}))
    body, now = b'{"id": "evt_1"}', int(time.time())
    mac = hmac.new(SECRET.encode(), f"{now}.".encode() + body, hashlib.sha256).hexdigest()
    headers = {"Stripe-Signature": f"t={now},v1={mac}"}
    first = await call(served, "spread", data=body, headers=headers)
    assert first.status == 202
    async for other in serving(settings_of()):
        again = await call(other, "spread", data=body, headers=headers)
        assert (again.status, again.json) == (200, first.json)
    old = now - 400
    mac = hmac.new(SECRET.encode(), f"{old}.".encode() + body, hashlib.sha256).hexdigest()
    assert (await call(served, "spread", data=body, headers={"Stripe-Signature": f"t={old},v1={mac}"})).status == 404


async def test_a_key_of_the_sender_starts_one_run(served: Served):
    await served.save(hooked("keyed", idempotency={"header": "X-Request-Id"}))
    await served.save(hooked("found", idempotency={"expression": "{{ctx.input.json.id}}"}))
    first = await call(served, "keyed", json=1, headers={"X-Request-Id": "a"})
    again = await call(served, "keyed", json=2, headers={"X-Request-Id": "a"})
    assert (first.status, again.status, again.json) == (202, 200, first.json)
    assert (await call(served, "keyed", json=1, headers={"X-Request-Id": "b"})).status == 202
    assert [(await call(served, "keyed", json=1)).status for _ in range(2)] == [202, 202]
    assert [(await call(served, "found", json={"id": 7, "try": n})).status for n in range(2)] == [202, 200]
    assert [(await call(served, "found", json={"try": n})).status for n in range(2)] == [202, 202]


async def test_the_answer_is_the_output_once_the_run_has_ended(served: Served):
    await served.save(hooked("whole", respond="atEnd"))
    answered = await call(served, "whole", json={"n": 1})
    assert (answered.status, answered.json["got"]["json"]) == (200, {"n": 1})
    fails = {"id": "stop", "type": "stopWithError", "config": {"message": "a secret of ours"}}
    await served.save(hooked("fails", fails, respond="atEnd"))
    failed = await call(served, "fails")
    assert (failed.status, failed.code) == (502, "NO_RESPONSE")
    assert "secret of ours" not in failed.text
    waits = {"id": "wait", "type": "waitForEvent", "config": {"event": "go"}}
    await served.save(hooked("slow", waits, END, respond="atEnd", timeout="50ms"))
    late = await call(served, "slow")
    assert (late.status, late.code) == (504, "RESPONSE_TIMEOUT")
    run = late.json["error"]["details"]["instanceID"]
    assert (await served.ask("GET", f"/v1/runs/{run}")).json["status"] == "WAITING"


async def test_a_server_that_stops_answers_who_waits_at_once_and_the_run_goes_on(served: Served):
    waits = {"id": "wait", "type": "waitForEvent", "config": {"event": "go"}}
    await served.save(hooked("stopped", waits, END, respond="atEnd", timeout="60s"))
    waiting = asyncio.create_task(call(served, "stopped"))
    runs: list[dict[str, Any]] = []
    while not runs or runs[0]["status"] != "WAITING":
        runs = (await served.ask("GET", "/v1/workflows/stopped/runs")).json["items"]
    served.services.readiness.stop_intake()
    answered = await waiting
    assert (answered.status, answered.code) == (504, "RESPONSE_TIMEOUT")
    assert (await served.ask("GET", f"/v1/runs/{runs[0]['instanceID']}")).json["status"] == "WAITING"


async def test_a_respond_node_answers_before_the_run_has_ended(served: Served):
    respond = {
        "id": "say",
        "type": "respond",
        "config": {"status": 201, "headers": {"X-Kind": "{{ctx.input.json.kind}}"}, "body": {"ok": True}},
    }
    waits = {"id": "wait", "type": "waitForEvent", "config": {"event": "go"}}
    await served.save(hooked("says", respond, waits, END, respond="respondNode", idempotency={"header": "X-Id"}))
    answered = await call(served, "says", json={"kind": "tea"}, headers={"X-Id": "1"})
    assert (answered.status, answered.json, answered.headers["X-Kind"]) == (201, {"ok": True}, "tea")
    assert answered.headers["Content-Security-Policy"].startswith("sandbox")
    assert answered.headers["X-Content-Type-Options"] == "nosniff"
    again = await call(served, "says", json={"kind": "milk"}, headers={"X-Id": "1"})
    assert (again.status, again.headers["X-Kind"]) == (201, "tea")
    await served.save(hooked("mute", respond="respondNode"))
    assert (await call(served, "mute")).code == "NO_RESPONSE"


async def test_a_worker_in_another_process_answers(settings_of: Callable[..., Settings]):
    respond = {"id": "say", "type": "respond", "config": {"body": "{{ctx.input.body}}"}}
    waits = {"id": "wait", "type": "waitForEvent", "config": {"event": "go"}}
    async for served in serving(settings_of(), works=False):
        await served.save(hooked("far", respond, waits, END, respond="respondNode"))
        async with build(settings_of()).open_services(works=True):
            answered = await call(served, "far", data=b"hello")
    assert (answered.status, answered.text) == (200, "hello")
    assert answered.headers["Content-Type"] == "text/plain; charset=utf-8"


async def test_a_client_that_has_gone_is_no_failure(served: Served):
    respond = {"id": "say", "type": "respond", "config": {"body": "late"}}
    waits = {"id": "wait", "type": "waitForEvent", "config": {"event": "go"}}
    await served.save(hooked("left", waits, respond, END, respond="respondNode"))
    client = asyncio.create_task(call(served, "left"))
    await served.until("/v1/workflows/left/runs", lambda found: bool(found["items"]))
    client.cancel()
    run = (await served.ask("GET", "/v1/workflows/left/runs")).json["items"][0]["instanceID"]
    await served.ask("POST", f"/v1/runs/{run}/signals/go")
    assert (await served.ended(run))["status"] == "COMPLETED"


async def test_a_webhook_takes_so_many_requests_a_second(served: Served):
    await keep_secret(served)
    await served.save(hooked("rated", rateLimit=2, auth=GITHUB))
    for _ in range(5):  # strangers use nothing up
        assert (await call(served, "rated", data=b"x")).status == 404
    served.services.webhooks._monotonic = lambda: 1.0  # time stands still
    answers = [await call(served, "rated", data=bytes([n]), headers=github(bytes([n]))) for n in range(3)]
    assert [answer.status for answer in answers] == [202, 202, 429]
    assert (answers[2].code, answers[2].headers["Retry-After"]) == ("RATE_LIMITED", "1")
    served.services.webhooks._monotonic = lambda: 1.5
    assert (await call(served, "rated", data=b"again", headers=github(b"again"))).status == 202


async def test_a_guess_tells_nothing(served: Served):
    await keep_secret(served)
    await served.save(hooked("guarded", auth=GITHUB))
    await served.save(hooked("open", methods=["PUT"]))
    guesses = [
        await served.ask("POST", path, role=None, data=b"x")
        for path in (
            f"/hooks/{TENANT}/guarded",
            f"/hooks/{TENANT}/open",
            f"/hooks/{TENANT}/unknown",
            "/hooks/nobody/guarded",
            f"/hooks/{TENANT}/guarded/more",
            f"/hooks/{TENANT}/%00",
            f"/hooks/{TENANT}/{'x' * 2_000}",
        )
    ]
    told = {(guess.status, guess.text, *sorted(set(guess.headers) - {"Date"})) for guess in guesses}
    assert len(told) == 1
    metrics = (await served.ask("GET", "/metrics", role=None)).text
    assert 'anabranch_webhook_requests_total{outcome="unauthenticated"} 1.0' in metrics
    assert 'anabranch_webhook_requests_total{outcome="unknown"}' in metrics
    await served.services.webhooks.stop()
    rows = (await served.ask("GET", "/v1/audit")).json["items"]
    refused = next(row for row in rows if row["action"] == "webhook.refused")
    assert (refused["target"], refused["details"]) == ("guarded", {"count": 1, "reason": "no signature"})
    assert SECRET not in json.dumps(rows)


async def test_the_webhooks_of_active_versions_are_listed(served: Served):
    await served.save(hooked("listed-b", methods=["GET", "PUT"], respond="atEnd"))
    graph = hooked("listed-a", auth={"kind": "header", "name": "X-Key", "secret": "HOOK"})
    await served.save(graph)
    listed = (await served.ask("GET", "/v1/webhooks", role="viewer")).json
    a, b = (each for each in listed["items"] if each["path"].startswith("listed-"))
    assert (a["path"], a["methods"], a["auth"], a["respond"]) == ("listed-a", ["POST"], "header", "immediately")
    assert (b["path"], b["methods"], b["auth"], b["respond"]) == ("listed-b", ["GET", "PUT"], "none", "atEnd")
    assert (b["name"], b["version"], b["nodeID"]) == ("listed-b", 1, "hook")
    assert urlsplit(b["url"]).path == f"/hooks/{TENANT}/listed-b"
    assert SECRET not in json.dumps(listed)
    first = (await served.ask("GET", "/v1/webhooks?limit=1")).json
    rest = (await served.ask("GET", f"/v1/webhooks?cursor={first['nextCursor']}")).json
    assert first["items"] + rest["items"] == listed["items"]
    assert (await served.ask("GET", "/v1/webhooks", role="other")).json["items"] == []
    graph["nodes"][0] = {"id": "hook", "type": "start"}
    assert (await served.ask("PUT", "/v1/workflows/listed-a", json=graph)).status == 200
    assert "listed-a" not in [each["path"] for each in (await served.ask("GET", "/v1/webhooks")).json["items"]]


async def test_a_page_of_another_origin_may_call_a_webhook_and_no_route_with_keys(served: Served):
    await served.save(hooked("anywhere"))
    headers = {"Origin": "https://shop.example.org"}
    assert (await call(served, "anywhere", headers=headers)).status == 202
    assert (await served.ask("POST", "/v1/workflows/anywhere/runs", json={}, headers=headers)).status == 403


async def test_a_test_run_of_a_draft_waits_for_a_request_at_its_own_address(served: Served):
    graph = hooked("tried", inputSchema={"required": ["never"]}, auth=GITHUB)
    graph["nodes"][0]["outputVariable"] = "sent"
    same = {"got": "{{ctx.input}}", "same": "{{ctx.sent == ctx.input}}"}
    graph["nodes"][1] = {"id": "end", "type": "end", "config": {"outputParameters": same}}
    refused = await served.ask("POST", "/v1/test-runs", json={**graph, "trigger": "end", "listen": True})
    assert refused.status == 422
    tried = await served.ask("POST", "/v1/test-runs", json={**graph, "listen": True})
    assert tried.status == 201, tried.text
    run = f"/v1/runs/{tried.json['instanceID']}"
    found = await served.until(run, lambda found: found["status"] == "WAITING")
    address = urlsplit(found["nodes"][0]["waitsFor"]["url"]).path
    assert found["nodes"][0]["nodeID"] == "hook"
    fed = await served.ask("POST", f"{address}?a=1", role=None, json={"n": 1})
    assert fed.status == 202, fed.text
    ended = await served.ended(tried.json["instanceID"])
    assert ended["output"]["same"] is True
    assert (ended["status"], ended["output"]["got"]["json"], ended["output"]["got"]["query"]) == (
        "COMPLETED",
        {"n": 1},
        {"a": "1"},
    )
    assert (await served.ask("POST", address, role=None, json={"n": 2})).status == 409
    whole = chain_of_start("plain")
    refused = await served.ask("POST", "/v1/test-runs", json={**whole, "listen": True})
    assert (refused.status, refused.json["error"]["details"][0]["pointer"]) == (422, "/listen")


def chain_of_start(name: str) -> dict[str, Any]:
    """A workflow without a webhook."""
    edge = {"upstreamNodeID": "start", "downstreamNodeID": "end"}
    return {"name": name, "nodes": [{"id": "start", "type": "start"}, END], "edges": [edge]}

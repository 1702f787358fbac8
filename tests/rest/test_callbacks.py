"""One-time addresses in the middle of a run: approvals by link, and callbacks of slow services."""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import urlsplit

from anabranch.triggers.webhooks.callback_addresses import CallbackAddresses
from tests.rest.conftest import Answered, Served
from tests.rest.drawing import chain

HTML = {"Accept": "text/html"}

LINK = {"id": "link", "type": "set", "config": {"values": {"url": "{{ctx.callbacks.ask}}"}}, "outputVariable": "sent"}
ASK = {"id": "ask", "type": "waitForWebhook", "config": {"timeout": "1h"}, "outputVariable": "answer"}
END = {"id": "end", "type": "end", "config": {"outputParameters": {"answer": "{{ctx.answer}}", "sent": "{{ctx.sent}}"}}}


def path_of(url: str) -> str:
    """The path and query of an address."""
    parts = urlsplit(url)
    return parts.path + (f"?{parts.query}" if parts.query else "")


async def asked(served: Served, name: str, **ask: Any) -> tuple[str, str]:
    """A run that waits for a call, and the path of its address."""
    await served.save(chain(name, LINK, {**ASK, **ask}, END))
    run = await served.start(name)
    found = await served.until(f"/v1/runs/{run}", lambda found: found["status"] == "WAITING")
    waits = {node["nodeID"]: node["waitsFor"] for node in found["nodes"]}
    return run, path_of(waits["ask"]["url"])


async def call(served: Served, method: str, path: str, **request: Any) -> Answered:
    return await served.ask(method, path, role=None, **request)


async def test_a_get_only_asks_and_a_post_answers(served: Served):
    run, path = await asked(served, "approve")
    page = await call(served, "GET", f"{path}?decision=<b>yes</b>", headers=HTML)
    assert (page.status, page.headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    assert "&lt;b&gt;yes&lt;/b&gt;" in page.text
    assert "<b>yes" not in page.text
    assert "script" not in page.text
    assert "default-src 'none'" in page.headers["Content-Security-Policy"]
    assert (await call(served, "HEAD", path)).status == 200
    assert (await served.ask("GET", f"/v1/runs/{run}")).json["status"] == "WAITING"
    thanks = await call(
        served, "POST", f"{path}?decision=yes", headers={**HTML, "Origin": "null"}, data={"comment": "fine"}
    )
    assert (thanks.status, "Thank you" in thanks.text) == (200, True)
    output = (await served.ended(run))["output"]
    assert output["answer"]["query"] == {"decision": "yes"}
    assert output["answer"]["form"] == {"comment": "fine"}
    assert output["answer"]["method"] == "POST"


async def test_a_node_before_the_wait_gets_the_address(served: Served):
    run, path = await asked(served, "send")
    accepted = await call(served, "POST", path, json={"state": "done"})
    assert (accepted.status, accepted.json) == (202, {"accepted": True})
    output = (await served.ended(run))["output"]
    assert output["answer"]["json"] == {"state": "done"}
    # It has the same wait and another expiry, so it is used as well.
    used = await call(served, "POST", path_of(output["sent"]["url"]), json={"state": "other"})
    assert (used.status, used.code) == (409, "CALLBACK_USED")


async def test_an_address_is_used_once_and_a_repeat_changes_nothing(served: Served):
    run, path = await asked(served, "once")
    calls = [call(served, "POST", f"{path}?answer={answer}") for answer in ("yes", "no", "yes", "no")]
    answers = await asyncio.gather(*calls)
    given = (await served.ended(run))["output"]["answer"]["query"]["answer"]
    statuses = {"yes": [answers[0].status, answers[2].status], "no": [answers[1].status, answers[3].status]}
    assert statuses.pop(given) == [202, 202]
    assert list(statuses.values()) == [[409, 409]]
    assert (await call(served, "GET", path)).status == 409
    assert (await call(served, "POST", f"{path}?answer={given}")).status == 202


async def test_a_call_that_comes_before_the_wait_is_kept(served: Served):
    first = {"id": "first", "type": "waitForEvent", "config": {"event": "go"}}
    await served.save(chain("early", LINK, first, ASK, END))
    run = await served.start("early")
    await served.until(f"/v1/runs/{run}", lambda found: found["status"] == "WAITING")
    steps = (await served.ask("GET", f"/v1/runs/{run}/steps?nodeID=link")).json["items"]
    path = path_of(steps[0]["output"]["url"])
    assert (await call(served, "POST", path, json=1)).status == 202
    await served.ask("POST", f"/v1/runs/{run}/signals/go")
    assert (await served.ended(run))["output"]["answer"]["json"] == 1


async def test_an_address_that_was_changed_or_made_elsewhere_is_not_found(served: Served):
    run, path = await asked(served, "forged")
    token = path.rpartition("/")[2]
    other = CallbackAddresses(lambda: None, base_url="http://localhost")
    assert other.read(token) is None
    for index in range(0, len(token), 7):
        changed = token[:index] + ("A" if token[index] != "A" else "B") + token[index + 1 :]
        refused = await call(served, "POST", f"/callbacks/{changed}", json=1)
        assert (refused.status, refused.code) == (404, "NOT_FOUND")
    for garbled in ("x", token[:-1], token + "A", "%00", "é", "A" * 5_000, token.replace("_", "/") + "=="):
        assert (await call(served, "POST", f"/callbacks/{garbled}", json=1)).status in (404, 400)
    assert (await served.ask("GET", f"/v1/runs/{run}")).json["status"] == "WAITING"


async def test_an_expired_address_and_one_of_an_ended_run_are_gone(served: Served):
    run, path = await asked(served, "gone")
    callback = served.services.addresses.read(path.rpartition("/")[2])
    assert callback is not None
    late = served.services.addresses.address(
        callback.instance_id, callback.event, tenant_id=callback.tenant_id, expires_at=1
    )
    expired = await call(served, "POST", path_of(late), json=1)
    assert (expired.status, expired.code) == (410, "CALLBACK_EXPIRED")
    page = await call(served, "GET", path_of(late), headers=HTML)
    assert (page.status, "has expired" in page.text) == (410, True)
    await served.ask("POST", f"/v1/runs/{run}/cancel")
    assert (await call(served, "POST", path, json=1)).status == 410


async def test_a_wait_that_somebody_else_has_answered_takes_no_call(served: Served):
    hold = {"id": "hold", "type": "waitForEvent", "config": {"event": "go"}}
    await served.save(chain("answered", LINK, ASK, hold, END))
    run = await served.start("answered")
    found = await served.until(f"/v1/runs/{run}", lambda found: found["status"] == "WAITING")
    wait = next(node["waitsFor"] for node in found["nodes"] if node["nodeID"] == "ask")
    signalled = await served.ask("POST", f"/v1/runs/{run}/signals/{wait['event']}", json={"by": "hand"})
    assert signalled.json == {"delivered": True}
    await served.until(f"/v1/runs/{run}", lambda found: any(node["nodeID"] == "hold" for node in found["nodes"]))
    gone = await call(served, "POST", path_of(wait["url"]), json=1)
    assert (gone.status, gone.code) == (410, "CALLBACK_EXPIRED")


async def test_only_those_who_could_answer_anyway_see_the_address(served: Served):
    run, _ = await asked(served, "seen")
    for role, seen in (("viewer", False), ("operator", True)):
        for path, name in ((f"/v1/runs/{run}", "nodes"), (f"/v1/runs/{run}/steps", "items")):
            nodes = (await served.ask("GET", path, role=role)).json[name]
            waits = next(node["waitsFor"] for node in nodes if node["nodeID"] == "ask")
            assert ("url" in waits and waits["url"] is not None) is seen
        why = (await served.ask("GET", f"/v1/runs/{run}/why", role=role)).json["waitsFor"]
        assert ("url" in why[0]) is seen


async def test_each_iteration_has_an_address_of_its_own(served: Served):
    each = {"id": "each", "type": "loop", "config": {"source": [1, 2]}}
    end = {"id": "end", "type": "end", "config": {"outputParameters": {"got": "{{ctx.got}}"}}}
    nodes = [{"id": "start", "type": "start"}, {**each, "outputVariable": "got"}, LINK, ASK, end]
    edges = [("start", "each", None), ("each", "link", "loop"), ("link", "ask", None), ("ask", "each", None)]
    drawn = [
        {"upstreamNodeID": source, "downstreamNodeID": target, **({"sourceHandle": handle} if handle else {})}
        for source, target, handle in [*edges, ("each", "end", "done")]
    ]
    saved = await served.ask("POST", "/v1/workflows", json={"name": "rounds", "nodes": nodes, "edges": drawn})
    assert saved.status == 201, saved.text
    run = await served.start("rounds")
    seen = set()
    for number in (1, 2):
        found = await served.until(
            f"/v1/runs/{run}",
            lambda found: any(
                node["nodeID"] == "ask" and node["waitsFor"] and node["scope"] not in seen for node in found["nodes"]
            ),
        )
        node = next(n for n in found["nodes"] if n["nodeID"] == "ask" and n["waitsFor"] and n["scope"] not in seen)
        steps = (await served.ask("GET", f"/v1/runs/{run}/steps?nodeID=link&scope={node['scope']}")).json["items"]
        seen.add(node["scope"])
        assert (await call(served, "POST", path_of(steps[0]["output"]["url"]), json=number)).status == 202
    got = (await served.ended(run))["output"]["got"]
    assert [each["json"] for each in got] == [1, 2]

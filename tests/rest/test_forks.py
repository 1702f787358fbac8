"""Forking runs over REST: the plan beforehand, the new run, and what is refused."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from anabranch.engine.rules.repair import fork_plan
from tests.rest.conftest import Served
from tests.rest.drawing import chain, echo
from tests.rest.test_retries import calling, failed


async def fork(served: Served, run: dict[str, Any], role: str = "editor", **asked: Any) -> Any:
    key = asked.pop("key", None)
    headers = {} if key is None else {"Idempotency-Key": key}
    return await served.ask("POST", f"/v1/runs/{run['instanceID']}/fork", json=asked, headers=headers, role=role)


async def test_a_fork_onto_a_corrected_version_reuses_what_holds(served: Served):
    called = {"id": "first", "type": "workflow", "config": {"workflow": "fine", "input": "{{ctx.input}}"}}
    wrong = {"id": "call", "type": "workflow", "config": {"workflow": "wrong", "input": "{{ctx.input}}"}}
    await served.save(echo("fine"))
    await served.save(chain("orders", called, wrong))
    run = await failed(served, "orders")
    corrected = chain("orders", called, {**wrong, "config": {"workflow": "fine", "input": "{{ctx.input}}"}})
    assert (await served.ask("PUT", "/v1/workflows/orders", json=corrected)).json["version"] == 2

    planned = await fork(served, run, version=2, dryRun=True)
    assert planned.status == 200, planned.text
    assert [each["nodeID"] for each in planned.json["reuse"]] == ["first"], "what is computed is computed again"
    assert [(each["nodeID"], each["because"]) for each in planned.json["run"]] == [("call", "FAILED")]
    started = await fork(served, run, version=2, ifPlan=planned.json["plan"], key="f1")
    assert started.status == 201, started.text
    after = await served.ended(started.json["instanceID"])
    assert (after["status"], after["version"], after["forkedFrom"]) == ("COMPLETED", 2, run["instanceID"])
    for asked in ({"version": 2}, {"version": 1, "redo": [{"nodeID": "first"}], "ifPlan": "another"}):
        again = await fork(served, run, key="f1", **asked)
        assert (again.status, again.json) == (200, {**started.json, "status": "COMPLETED", "plan": None})
    children = (await served.ask("GET", "/v1/workflows/fine/runs")).json["items"]
    assert len(children) == 2, "the first node was not executed again"
    log = (await served.ask("GET", f"/v1/runs/{after['instanceID']}/log")).json["items"]
    assert "FORKED_FROM" in [each["eventType"] for each in log]
    assert (await fork(served, run, version=2, ifPlan="another")).code == "PLAN_CHANGED"
    assert (await fork(served, run, role="operator")).status == 403


async def test_an_edited_graph_is_forked_as_a_test_run(served: Served):
    await served.save(calling("orders", "nowhere"))
    run = await failed(served, "orders")
    await served.save(echo("somewhere"))
    edited = calling("orders", "somewhere")
    planned = await fork(served, run, graph=edited, dryRun=True)
    assert planned.json["run"][0]["because"] in ("FAILED", "CONFIG_CHANGED")
    started = await fork(served, run, graph=edited)
    assert started.status == 201, started.text
    after = await served.ended(started.json["instanceID"])
    assert (after["status"], after["test"], after["forkedFrom"]) == ("COMPLETED", True, run["instanceID"])
    assert (await fork(served, run, graph={"nodes": []})).status == 422


async def test_what_cannot_be_forked_says_why(served: Served):
    await served.save(echo())
    done = await served.ended(await served.start("echo"))
    assert (await fork(served, done)).code == "FORK_REFUSED"
    assert (await fork(served, done, at={"seq": 10_000})).status == 422
    for typo in (
        {"at": {}},
        {"at": {"nodeID": "ecko"}},
        {"at": {"nodeID": "echo", "scope": "7"}},
        {"redo": [{"nodeID": "ecko"}]},
        {"renames": {"echo": "ecko"}},
        {"renames": {"ecko": "echo"}},
    ):
        refused = await fork(served, done, **typo)
        assert (refused.status, refused.code) == (422, "INVALID_REQUEST"), typo
    absent = await fork(served, done, version=9)
    assert (absent.status, "'echo'" in absent.json["error"]["message"]) == (404, True)
    assert (await fork(served, done, nonsense=1)).status == 422


async def test_a_log_over_the_limit_is_not_forked(served: Served, monkeypatch: pytest.MonkeyPatch):
    await served.save(echo())
    done = await served.ended(await served.start("echo"))
    monkeypatch.setattr(fork_plan, "FORK_ROWS_MAX", 2)
    refused = await fork(served, done, redo=[{"nodeID": "end"}])
    assert (refused.status, refused.code) == (422, "RUN_TOO_LARGE")


async def test_a_saved_query_that_has_changed_runs_again(served: Served, tmp_path: Path):
    with closing(sqlite3.connect(tmp_path / "shop.db")) as shop:
        shop.execute("CREATE TABLE orders (id INTEGER)")
    shop_url = f"sqlite:///{tmp_path / 'shop.db'}"
    source = (await served.ask("POST", "/v1/data-sources", json={"name": "shop", "url": shop_url})).json
    query = {"name": "orders", "dataSourceID": source["dataSourceID"], "sql": "SELECT 1 AS n"}
    assert (await served.ask("POST", "/v1/data-queries", json=query)).status == 201
    ask = {"id": "ask", "type": "dataQuery", "config": {"dataQueryID": "orders"}}
    other = {"id": "other", "type": "httpRequest", "config": {"url": "https://x.test/{{secret.token}}"}}
    wrong = {"id": "call", "type": "workflow", "config": {"workflow": "wrong"}}
    await served.save(chain("reports", ask, {**other, "errorHandling": "ignore", "retry": {"maxAttempts": 1}}, wrong))
    run = await failed(served, "reports")

    planned = (await fork(served, run, dryRun=True)).json
    assert [each["nodeID"] for each in planned["reuse"]] == ["ask", "other"]
    assert (planned["secrets"], planned["warnings"]) == (["token"], [])
    assert planned["run"] == [{"nodeID": "call", "scope": "", "because": "FAILED", "effect": "again"}]
    await served.ask("PUT", "/v1/data-queries/orders", json={**query, "sql": "SELECT 2 AS n"})
    planned = (await fork(served, run, dryRun=True)).json
    assert planned["run"] == [{"nodeID": "ask", "scope": "", "because": "QUERY_CHANGED", "effect": "again"}]
    assert [(each["nodeID"], each["effect"]) for each in planned["undecided"]] == [
        ("other", "again"),
        ("call", "again"),
    ]
    await served.ask("DELETE", "/v1/data-queries/orders")
    assert (await fork(served, run, dryRun=True)).json["run"][0]["because"] == "QUERY_CHANGED", "it is gone"


async def test_a_plan_says_what_has_changed_and_what_was_never_done(served: Served):
    note = {"id": "note", "type": "httpRequest", "config": {"url": "https://x.test/{{ctx.input.n}}"}}
    last = {"id": "last", "type": "httpRequest", "config": {"url": "https://x.test"}}
    ignored = {"errorHandling": "ignore", "retry": {"maxAttempts": 1}}
    wrong = {"id": "call", "type": "workflow", "config": {"workflow": "wrong"}}
    await served.save(chain("notes", {**note, **ignored}, wrong, last))
    run = await served.ended(await served.start("notes", input={"n": 1}))
    planned = (await fork(served, run, dryRun=True, input={"n": [2] * 3_000})).json
    log = (await served.ask("GET", f"/v1/runs/{run['instanceID']}/log")).json["items"]
    assert (planned["at"], planned["version"]) == (log[-1]["seq"], 1)
    assert (planned["reuse"], planned["drop"], planned["signals"]) == ([], [], {"copied": 0, "left": 0})
    (first,) = planned["run"]
    assert (first["because"], first["path"], first["before"]) == ("INPUT_CHANGED", "/url", "https://x.test/1")
    assert first["after"]["truncated"] is True
    effects = [(each["nodeID"], each["effect"]) for each in planned["undecided"]]
    assert effects == [("call", "again"), ("last", "first")]
    assert (planned["rows"] > 0, planned["bytes"] > 0) == (True, True)


async def test_large_values_stay_with_the_fork_when_the_run_that_made_them_is_removed(served: Served):
    large = "x" * 200_000
    make = {"id": "make", "type": "workflow", "config": {"workflow": "echo", "input": "{{ctx.input}}"}}
    wrong = {"id": "call", "type": "workflow", "config": {"workflow": "later", "input": 1}}
    await served.save(echo())
    await served.save(chain("large", {**make, "outputVariable": "made"}, wrong))
    run = await served.ended(await served.start("large", input=large))
    assert run["status"] == "FAILED"
    await served.save(echo("later"))
    started = await fork(served, run)
    assert started.status == 201, started.text
    after = await served.ended(started.json["instanceID"])
    assert after["status"] == "COMPLETED"
    for found in (await served.ask("GET", "/v1/workflows/echo/runs")).json["items"]:
        assert (await served.ask("DELETE", f"/v1/runs/{found['instanceID']}?purge=true")).status == 204
    assert (await served.ask("DELETE", f"/v1/runs/{run['instanceID']}?purge=true")).status == 204
    shown = await served.ask("GET", f"/v1/runs/{after['instanceID']}/steps?inline=true")
    made = next(each for each in shown.json["items"] if each["nodeID"] == "make")
    assert made["output"]["said"] == large

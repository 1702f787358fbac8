"""Definitions over REST: saving, versions, names, lists, deletion."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tests.rest.conftest import Served
from tests.rest.drawing import chain, echo, waiting


async def test_a_saved_workflow_reads_as_it_was_drawn(served: Served):
    document = echo("triage", title="Order triage", workflowOptions={"retention": "30d"})
    saved = await served.save(document)
    assert saved == {
        "workflowID": saved["workflowID"],
        "name": "triage",
        "version": 1,
        "activeVersion": 1,
        "warnings": [],
        "terminates": True,
        "unbounded": [],
        "activationsMax": 2,
    }
    for key in ("triage", saved["workflowID"]):
        read = await served.ask("GET", f"/v1/workflows/{key}", role="viewer")
        assert read.status == 200
        assert read.headers["ETag"] == '"1"'
        assert {name: read.json[name] for name in ("name", "title", "kind", "version", "runCounts")} == {
            "name": "triage",
            "title": "Order triage",
            "kind": "drawn",
            "version": 1,
            "runCounts": {},
        }
        assert (read.json["nodes"], read.json["edges"]) == (document["nodes"], document["edges"])
        assert read.json["workflowOptions"] == {"retention": "30d"}


async def test_the_answer_to_a_save_says_where_it_is(served: Served):
    answered = await served.ask("POST", "/v1/workflows", json=echo())
    assert answered.status == 201
    assert answered.headers["Location"] == f"/v1/workflows/{answered.json['workflowID']}"


async def test_a_taken_name_is_refused_and_a_derived_one_is_numbered(served: Served):
    await served.save(echo("triage"))
    refused = await served.ask("POST", "/v1/workflows", json=echo("triage"))
    assert (refused.status, refused.code) == (409, "NAME_TAKEN")
    assert (await served.save(echo(None, title="Triage")))["name"] == "triage-2"


async def test_a_save_of_the_same_is_no_new_version(served: Served):
    await served.save(echo("triage"))
    again = await served.ask("PUT", "/v1/workflows/triage", json=echo("triage"))
    assert (again.status, again.json["version"]) == (200, 1)
    changed = await served.ask("PUT", "/v1/workflows/triage", json=echo("triage", title="Changed"))
    assert (changed.json["version"], changed.headers["ETag"]) == (2, '"2"')


async def test_a_save_answers_how_far_runs_can_go_as_validate_does(served: Served):
    told = ("warnings", "terminates", "unbounded", "activationsMax")
    checked = (await served.ask("POST", "/v1/validate", json=waiting())).json
    assert (checked["terminates"], checked["unbounded"]) == (False, ["wait"])
    saved = await served.save(waiting())
    changed = (await served.ask("PUT", "/v1/workflows/waiting", json=waiting() | {"title": "Changed"})).json
    for answer in (saved, changed):
        assert {name: answer[name] for name in told} == {name: checked[name] for name in told}


RICH = {
    "x-first": {"z": 1, "a": [18446744073709551615, -9223372036854775808, 1.5, "é"]},
    **echo("rich", title="Rich", workflowOptions={"inputSchema": {"type": "object"}}),
    "viewport": {"zoom": 1, "x": 0},
    "$schema": "https://example.org/schema",
    "palette": {"b": None, "a": 1},
}


async def test_a_list_that_n8n_exports_is_recognised(served: Served):
    await served.save(echo("triage"))
    node = {"parameters": {}, "id": "1", "name": "Set", "type": "n8n-nodes-base.set", "position": [0, 0]}
    exported = [{"name": "Mine", "nodes": [node], "connections": {}}]
    verdict = await served.ask("POST", "/v1/validate", json=exported)
    assert (verdict.status, [each["code"] for each in verdict.json["errors"]]) == (200, ["N8N_WORKFLOW"])
    for method, path in (("POST", "/v1/workflows"), ("PUT", "/v1/workflows/triage")):
        refused = await served.ask(method, path, json=exported)
        assert (refused.status, refused.code) == (422, "INVALID_WORKFLOW")
        assert [each["code"] for each in refused.json["error"]["details"]] == ["N8N_WORKFLOW"]
        other = await served.ask(method, path, json=[1])
        assert (other.status, other.code) == (422, "INVALID_REQUEST")


async def test_a_change_of_the_graph_keeps_every_other_field(served: Served):
    await served.save(RICH)
    other = echo("rich")
    other["nodes"][1]["config"]["outputParameters"] = {"heard": "{{ctx.input}}"}
    changed = await served.ask(
        "PUT", "/v1/workflows/rich", json={"nodes": other["nodes"], "edges": other["edges"]}, role="editor"
    )
    assert (changed.status, changed.json["version"]) == (200, 2)
    document = await served.ask("GET", "/v1/workflows/rich/document", role="viewer")
    assert document.headers["ETag"] == '"2"'
    assert list(json.loads(document.text).items()) == list({**RICH, "nodes": other["nodes"]}.items())
    first = await served.ask("GET", "/v1/workflows/rich/document?version=1")
    assert list(json.loads(first.text).items()) == list(RICH.items()), "key order included"
    assert (await served.ask("GET", "/v1/workflows/rich")).json["palette"] == RICH["palette"]


async def test_null_clears_a_field_and_a_whole_document_clears_what_it_leaves_out(served: Served):
    await served.save(RICH)
    cleared = {"title": None, "workflowOptions": None, "palette": None}
    assert (await served.ask("PUT", "/v1/workflows/rich", json=cleared)).json["version"] == 2
    kept = (await served.ask("GET", "/v1/workflows/rich/document")).json
    assert kept == {name: value for name, value in RICH.items() if name not in cleared}
    whole = echo("rich")
    assert (await served.ask("PUT", "/v1/workflows/rich?replace=true", json=whole)).json["version"] == 3
    assert (await served.ask("GET", "/v1/workflows/rich/document")).json == whole


async def test_what_was_read_is_the_same_version_when_it_is_saved(served: Served):
    alone = {"name": "alone", "nodes": [{"id": "start", "type": "start"}]}
    for document in (RICH, echo("plain", notes=None), alone, alone | {"name": "alone-null", "edges": None}):
        saved = await served.save(document)
        for path in (f"/v1/workflows/{saved['name']}", f"/v1/workflows/{saved['name']}/document"):
            read = (await served.ask("GET", path)).json
            for query in ("", "?replace=true"):
                again = await served.ask("PUT", f"/v1/workflows/{saved['name']}{query}", json=read)
                assert (again.status, again.json) == (200, saved), f"{path}{query}"
    read = (await served.ask("GET", "/v1/workflows/rich")).json
    stale = read | {"version": 7, "runCounts": {"FAILED": 1}, "createdAt": "then", "updatedAt": "now"}
    assert (await served.ask("PUT", "/v1/workflows/rich", json=stale)).json["version"] == 1


# How other tools may write: numbers, escapes and whitespace of their own.
TOOLS_TEXTS = {
    "x-numbers": "[1e3, 1.0,-0, 1E-2 ,18446744073709551615, 0.1000]",
    'x-"quoted": {': '{"z" : 1,\n\t"a":[ ] , "nodes": {}}',
    "viewport": '{ "zoom":1.50 }',
    "palette": '"caf\\u00e9 \\/ \\" é"',
    "x-empty": "{  }",
    "x-off": "false",
}


def written(title: str, **further: str) -> str:
    """A document with these texts, on several lines."""
    parts = {
        **{name: json.dumps(value) for name, value in echo("tools", title=title).items()},
        **TOOLS_TEXTS,
        **further,
    }
    return "{\n" + " ,\n".join(f"  {json.dumps(name)} : {text}" for name, text in parts.items()) + "\n}\n"


async def test_fields_that_nobody_reads_come_back_byte_for_byte(served: Served):
    headers = {"Content-Type": "application/json"}
    created = await served.ask("POST", "/v1/workflows", data=written("Tools"), headers=headers)
    assert created.status == 201, created.text
    changed = await served.ask("PUT", "/v1/workflows/tools", json={"title": "Changed"})
    assert changed.json["version"] == 2
    for path in ("/document", "/document?version=1", ""):
        text = (await served.ask("GET", f"/v1/workflows/tools{path}")).text
        for name, value in TOOLS_TEXTS.items():
            assert f"{json.dumps(name)}:{value}" in text, path
    items = (await served.ask("GET", "/v1/workflows?include=graph")).text
    assert TOOLS_TEXTS["x-numbers"] in items
    for path in ("/document", ""):
        text = (await served.ask("GET", f"/v1/workflows/tools{path}")).text
        for query in ("", "?replace=true"):
            for sent in (text, json.dumps(json.loads(text), indent=1)):
                again = await served.ask("PUT", f"/v1/workflows/tools{query}", data=sent, headers=headers)
                assert again.json == changed.json, "as it was read, or read and encoded by a program"
    assert TOOLS_TEXTS["x-numbers"] in (await served.ask("GET", "/v1/workflows/tools/document")).text
    other = written("Changed", **{"x-numbers": "[1e4]"})
    assert (await served.ask("PUT", "/v1/workflows/tools", data=other, headers=headers)).json["version"] == 3
    assert '"x-numbers":[1e4]' in (await served.ask("GET", "/v1/workflows/tools/document")).text


async def test_whitespace_of_fields_that_nobody_reads_counts_towards_the_size_of_a_document(served: Served):
    large = written("Tools", **{"x-wide": f"[{' ' * 4_200_000}]"})
    refused = await served.ask("POST", "/v1/workflows", data=large, headers={"Content-Type": "application/json"})
    assert (refused.status, refused.json["error"]["details"][0]["code"]) == (422, "DOCUMENT_TOO_LARGE")


@pytest.mark.parametrize(
    ("field", "value"), [("workflowID", "0190a5e0-0000-7000-8000-000000000000"), ("kind", "coded")]
)
async def test_a_document_of_another_workflow_is_refused(served: Served, field: str, value: str):
    await served.save(echo("triage"))
    refused = await served.ask("PUT", "/v1/workflows/triage", json={**echo("triage"), field: value})
    assert (refused.status, refused.code) == (422, "INVALID_REQUEST")
    assert [(each["code"], each["pointer"]) for each in refused.json["error"]["details"]] == [
        ("DIFFERENT_WORKFLOW", f"/{field}")
    ]


async def test_changes_of_different_fields_at_once_are_all_kept(served: Served):
    await served.save(echo("triage"))
    answers = await asyncio.gather(
        *(served.ask("PUT", "/v1/workflows/triage", json={f"x-{number}": number}) for number in range(8))
    )
    assert sorted(answered.json["version"] for answered in answers) == list(range(2, 10))
    document = (await served.ask("GET", "/v1/workflows/triage/document")).json
    assert {name: value for name, value in document.items() if name.startswith("x-")} == {
        f"x-{number}": number for number in range(8)
    }


async def test_of_many_who_save_over_one_version_one_wins(served: Served):
    await served.save(echo("triage"))
    answers = await asyncio.gather(
        *(
            served.ask(
                "PUT", "/v1/workflows/triage", json=echo("triage", title=f"By {number}"), headers={"If-Match": '"1"'}
            )
            for number in range(8)
        )
    )
    assert sorted(answered.status for answered in answers) == [200] + [412] * 7


async def test_every_problem_of_a_refused_graph_is_listed(served: Served):
    document = echo()
    document["nodes"].append({"id": "end", "type": "nonsense"})
    document["edges"].append({"upstreamNodeID": "nowhere", "downstreamNodeID": "end"})
    refused = await served.ask("POST", "/v1/workflows", json=document)
    assert (refused.status, refused.code) == (422, "INVALID_WORKFLOW")
    codes = {problem["code"] for problem in refused.json["error"]["details"]}
    assert {"DUPLICATE_NODE_ID", "EDGE_FROM_NOWHERE"} <= codes
    checked = await served.ask("POST", "/v1/validate", json=document, role="viewer")
    assert (checked.status, checked.json["valid"]) == (200, False)
    assert {problem["code"] for problem in checked.json["errors"]} == codes


async def test_a_secret_of_a_webhook_that_is_not_there_is_a_warning(served: Served):
    auth = {"kind": "basic", "secret": "HOOK"}
    hook = {"id": "hook", "type": "webhook", "config": {"path": "unknown-secret", "auth": auth}}
    saved = await served.save({"name": "unknown-secret", "nodes": [hook], "edges": []})
    assert [(warning["code"], warning["pointer"]) for warning in saved["warnings"]] == [
        ("REFERENCE_MISSING", "/nodes/0/config/auth/secret")
    ]
    await served.ask("POST", "/v1/secrets", json={"name": "HOOK", "value": "ada:lovelace"})
    checked = await served.ask("POST", "/v1/validate", json={"nodes": [hook], "edges": []})
    assert checked.json["warnings"] == []


async def test_a_workflow_of_another_tenant_cannot_be_referred_to(served: Served):
    theirs = (await served.ask("POST", "/v1/workflows", role="other", json=echo("theirs"))).json["workflowID"]
    node = {"id": "child", "type": "workflow", "config": {"workflow": theirs}}
    refused = await served.ask("POST", "/v1/workflows", json=chain("mine", node))
    assert [problem["code"] for problem in refused.json["error"]["details"]] == ["REFERENCE_NOT_FOUND"]
    node["config"] = {"workflow": "theirs"}
    saved = await served.save(chain("mine", node))
    assert [warning["code"] for warning in saved["warnings"]] == ["REFERENCE_MISSING"]
    run = await served.ended(await served.start("mine"))
    assert (run["status"], run["error"]["code"]) == ("FAILED", "NOT_FOUND")


async def test_versions_are_listed_newest_first_and_read_one_by_one(served: Served):
    await served.save(echo("triage"))
    for number in range(2, 6):
        await served.ask("PUT", "/v1/workflows/triage", json=echo("triage", title=f"Version {number}"))
    listed = await all_pages(served, "/v1/workflows/triage/versions", limit=2)
    assert [version["version"] for version in listed] == [5, 4, 3, 2, 1]
    second = await served.ask("GET", "/v1/workflows/triage?version=2")
    assert (second.json["title"], second.headers["ETag"]) == ("Version 2", '"2"')
    assert (await served.ask("GET", "/v1/workflows/triage?version=6")).status == 404


async def test_workflows_are_listed_by_name_while_others_are_saved(served: Served):
    for name in ("delta", "alpha", "charlie"):
        await served.save(echo(name))
    first = await served.ask("GET", "/v1/workflows?limit=2")
    assert [item["name"] for item in first.json["items"]] == ["alpha", "charlie"]
    await served.save(echo("bravo"))
    await served.save(echo("echo"))
    second = await served.ask("GET", "/v1/workflows", params={"limit": "2", "cursor": first.json["nextCursor"]})
    assert [item["name"] for item in second.json["items"]] == ["delta", "echo"]
    assert second.json["nextCursor"] is None
    assert all("nodes" not in item for item in second.json["items"])
    with_graph = await served.ask("GET", "/v1/workflows?include=graph")
    assert all(item["nodes"] and item["edges"] for item in with_graph.json["items"])


async def test_a_workflow_with_open_runs_is_deleted_only_by_force(served: Served):
    await served.save(waiting())
    open_run = await served.start("waiting")
    refused = await served.ask("DELETE", "/v1/workflows/waiting")
    assert (refused.status, refused.code) == (409, "WORKFLOW_HAS_RUNS")
    assert (await served.ask("DELETE", "/v1/workflows/waiting?force=true")).status == 204
    assert (await served.ask("GET", "/v1/workflows/waiting")).status == 404
    run = await served.ask("GET", f"/v1/runs/{open_run}")
    assert run.json["status"] == "CANCELLED"
    await served.save(waiting())  # the name is free


async def all_pages(served: Served, path: str, *, limit: int, **params: str) -> list[dict[str, Any]]:
    """Every item of a list, page by page."""
    items: list[dict[str, Any]] = []
    cursor: str | None = None
    while True:
        paging = {"limit": str(limit)} if cursor is None else {"limit": str(limit), "cursor": cursor}
        page = await served.ask("GET", path, params={**params, **paging})
        assert page.status == 200, page.text
        assert len(page.json["items"]) <= limit
        items += page.json["items"]
        cursor = page.json["nextCursor"]
        if cursor is None:
            return items

"""Variables over REST, and the nodes that read and write them."""

from __future__ import annotations

from typing import Any

from tests.rest.conftest import Served


def keeping(name: str) -> dict[str, Any]:
    """Answers with what it reads, and keeps what it is given."""
    return {
        "name": name,
        "nodes": [
            {"id": "start", "type": "start"},
            {"id": "read", "type": "readVariables", "config": {"names": ["REGION", "ABSENT"]}, "outputVariable": "set"},
            {"id": "before", "type": "readVariables", "config": {"of": "workflow"}, "outputVariable": "before"},
            {"id": "write", "type": "writeVariables", "config": {"values": {"last": "{{ctx.input.id}}"}}},
            {"id": "end", "type": "end", "config": {"outputParameters": {
                "set": "{{ctx.set}}", "before": "{{ctx.before}}"}}},
        ],
        "edges": [{"upstreamNodeID": one, "downstreamNodeID": other} for one, other in (
            ("start", "read"), ("read", "before"), ("before", "write"), ("write", "end"))],
    }  # fmt: skip


async def test_a_run_reads_what_is_set_and_what_the_run_before_kept(served: Served):
    put = await served.ask("PUT", "/v1/variables/REGION", json={"value": "EU"})
    assert (put.status, put.json["name"], put.json["value"], put.json["version"]) == (200, "REGION", "EU", 1)
    await served.save(keeping("keeping"))
    outputs = []
    for number in (7, 8):
        run_id = await served.start("keeping", input={"id": number})
        outputs.append((await served.ended(run_id))["output"])
    assert outputs == [{"set": {"REGION": "EU"}, "before": {}}, {"set": {"REGION": "EU"}, "before": {"last": 7}}]
    kept = (await served.ask("GET", "/v1/workflows/keeping/variables")).json["items"]
    assert [(each["name"], each["value"], each["version"]) for each in kept] == [("last", 8, 2)]
    assert (await served.ask("DELETE", "/v1/workflows/keeping/variables/last")).status == 204
    assert (await served.ask("DELETE", "/v1/workflows/keeping/variables/last")).status == 404


async def test_variables_are_of_one_tenant_and_never_null(served: Served):
    await served.ask("PUT", "/v1/variables/REGION", json={"value": "EU"})
    assert [each["name"] for each in (await served.ask("GET", "/v1/variables")).json["items"]] == ["REGION"]
    assert (await served.ask("GET", "/v1/variables", role="other")).json["items"] == []
    again = await served.ask("PUT", "/v1/variables/REGION", json={"value": "EU"}, headers={"If-Match": '"1"'})
    assert (again.status, again.headers["ETag"]) == (200, '"2"')
    late = await served.ask("PUT", "/v1/variables/REGION", json={"value": "US"}, headers={"If-Match": '"1"'})
    assert (late.status, late.code) == (412, "VERSION_MISMATCH")
    await served.ask("PUT", "/v1/variables/LARGE", json={"value": "x" * 5_000})
    listed = (await served.ask("GET", "/v1/variables?limit=1")).json
    assert [(each["name"], each["value"], each["size"]) for each in listed["items"]] == [("LARGE", None, 5_002)]
    following = (await served.ask("GET", f"/v1/variables?limit=1&cursor={listed['nextCursor']}")).json
    assert ([each["value"] for each in following["items"]], following["nextCursor"]) == (["EU"], None)
    assert (await served.ask("GET", "/v1/variables/LARGE")).json["value"] == "x" * 5_000
    assert (await served.ask("GET", "/v1/variables/LARGE", role="other")).status == 404
    assert (await served.ask("PUT", "/v1/variables/REGION", json={"value": None})).status == 422
    assert (await served.ask("PUT", "/v1/variables/1x", json={"value": 1})).status == 422
    assert (await served.ask("PUT", "/v1/workflows/nobody/variables/a", json={"value": 1})).status == 404
    assert (await served.ask("DELETE", "/v1/variables/REGION")).status == 204
    assert (await served.ask("DELETE", "/v1/variables/REGION")).status == 404

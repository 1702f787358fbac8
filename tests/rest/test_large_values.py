"""Values over 64 kB over REST: stored once, shown by their size and name, fetched where they are asked for."""

from __future__ import annotations

import hashlib
import random
import string
from itertools import pairwise
from typing import Any, cast

import orjson

from anabranch.engine.store.sql.store import SqlStore
from tests.rest.conftest import Served
from tests.rest.drawing import waiting

TEXT = "".join(random.Random(1).choices(string.ascii_letters, k=1_000_000))
"""It cannot be compressed."""
NAME = hashlib.sha256(orjson.dumps(TEXT)).hexdigest()
PASSES = 20


def passing(name: str) -> dict[str, Any]:
    """A chain of nodes each of which hands on what the one before has."""
    nodes: list[dict[str, Any]] = [{"id": "start", "type": "start"}]
    for number in range(PASSES):
        source = f"{{{{ctx.v{number - 1}.text}}}}" if number else "{{ctx.input.text}}"
        config = {"values": {"text": source, "number": number}}
        nodes.append({"id": f"n{number}", "type": "set", "config": config, "outputVariable": f"v{number}"})
    last = f"{{{{ctx.v{PASSES - 1}.text}}}}"
    nodes.append({"id": "end", "type": "end", "config": {"outputParameters": {"result": last}}})
    edges = [{"upstreamNodeID": before["id"], "downstreamNodeID": after["id"]} for before, after in pairwise(nodes)]
    return {"name": name, "nodes": nodes, "edges": edges}


async def test_a_megabyte_through_twenty_nodes_is_stored_once_and_fetched_where_it_is_asked_for(served: Served):
    await served.save(passing("passing"))
    store = cast("SqlStore", served.services.engine.store)
    before = await store.disk_bytes()
    instance_id = await served.start("passing", input={"text": TEXT, "small": 1})
    run = await served.ended(instance_id)
    assert (run["status"], run["input"], run["output"]) == ("COMPLETED", {"text": TEXT, "small": 1}, {"result": TEXT})
    assert await store.count_values() == (1, len(TEXT) + 2)
    # The file and its write-ahead log have it once each; 22 rows hand it on.
    assert await store.disk_bytes() - before < 3_500_000
    assert (await store.load([instance_id]))[instance_id].row.log_bytes < 20_000

    reference = {"sha256": NAME, "bytes": len(TEXT) + 2}
    path = f"/v1/runs/{instance_id}"
    short = (await served.ask("GET", f"{path}?inline=false")).json
    assert short["input"]["values"] == [{"path": ["text"], **reference}]
    assert (short["output"]["truncated"], short["output"]["bytes"]) == (True, len(TEXT) + len('{"result":""}'))

    log = await served.ask("GET", f"{path}/log?limit=1000")
    assert len(log.text) < 60_000
    outputs = [row["payload"] for row in log.json["items"] if row["eventType"] == "NODE_COMPLETED" and row["seq"] > 4]
    assert all(each["truncated"] and each["values"] == [{"path": ["text"], **reference}] for each in outputs[:PASSES])
    steps = (await served.ask("GET", f"{path}/steps?limit=1000")).json["items"]
    assert [step["output"]["truncated"] for step in steps] == [True] * (PASSES + 2)

    node = await served.ask("GET", f"{path}/steps?nodeID=n7&inline=true")
    assert node.json["items"][0]["output"] == {"text": TEXT, "number": 7}
    first = await served.ask("GET", f"{path}/log?limit=1&inline=true")
    assert first.json["items"][0]["payload"] == {"input": {"text": TEXT, "small": 1}}
    value = await served.ask("GET", f"/v1/values/{NAME}", role="viewer")
    assert value.json == TEXT


async def test_values_are_their_tenants(served: Served):
    await served.save(passing("passing"))
    await served.ended(await served.start("passing", input={"text": TEXT}))
    assert (await served.ask("GET", f"/v1/values/{NAME}")).status == 200
    for sha256 in (NAME[:-1], NAME.upper(), "0" * 64):
        assert (await served.ask("GET", f"/v1/values/{sha256}")).code == "NOT_FOUND"
    assert (await served.ask("GET", f"/v1/values/{NAME}", role="other")).code == "NOT_FOUND"


async def test_runs_are_found_by_what_is_in_their_large_inputs(served: Served):
    await served.save(waiting("waits"))
    rows = [{"id": number, "text": "t" * 50} for number in range(2_000)]
    instance_id = await served.start("waits", input={"of": {"rows": rows}, "small": 1})
    await served.start("waits", input={"of": {"rows": [{"id": 8}]}, "small": 1})

    async def found(query: str) -> list[str]:
        answered = await served.ask("GET", f"/v1/runs?{query}")
        return [run["instanceID"] for run in answered.json["items"]]

    assert await found("input.of.rows.7.id=7") == [instance_id]
    assert len(await found("input.small=1")) == 2
    assert await found("input.of.rows.7.id=8") == []

"""Previews of templates: evaluated as runs do, without running anything."""

from __future__ import annotations

from typing import Any

from tests.rest.conftest import Served
from tests.rest.test_test_runs import THREE, looping, tried


async def previewed(served: Served, *templates: str, **context: Any) -> list[dict[str, Any]]:
    items = [{"id": str(number), "template": text} for number, text in enumerate(templates)]
    answered = await served.ask("POST", "/v1/preview", json={"items": items, **context}, role="editor")
    assert answered.status == 200, answered.text
    found: list[dict[str, Any]] = answered.json["items"]
    assert [each["id"] for each in found] == [item["id"] for item in items]
    return found


async def test_templates_are_evaluated_in_a_given_context(served: Served):
    ctx = {"n": 9007199254740993, "list": [1, 2]}
    assert await previewed(served, "{{ctx.n}}", "{{ctx.list | sum}} of {{ctx.n}}", "plain", ctx=ctx) == [
        {"id": "0", "value": 9007199254740993, "bytes": 16},
        {"id": "1", "value": "3 of 9007199254740993", "bytes": 23},
        {"id": "2", "value": "plain", "bytes": 7},
    ]
    assert (await previewed(served, "{{1 + 1}}"))[0]["value"] == 2


async def test_an_error_says_where_its_expression_stands(served: Served):
    missing, broken, open_, secret = await previewed(
        served, "a {{ctx.n}} {{ctx.gone.x}}", "é{{ctx.n +}}", "{{ctx.n", "\U0001f600{{ctx.gone}}", ctx={"n": 1}
    )
    assert (missing["error"]["code"], missing["error"]["start"], missing["error"]["end"]) == (
        "TEMPLATE_PATH_MISSING",
        12,
        26,
    )
    assert (broken["error"]["code"], broken["error"]["start"], broken["error"]["end"]) == ("TEMPLATE_ERROR", 1, 12)
    assert (open_["error"]["start"], open_["error"]["end"]) == (0, 7)
    assert (secret["error"]["start"], secret["error"]["end"]) == (2, 14), "as JavaScript counts"


async def test_secrets_are_dots_and_large_values_are_cut(served: Served):
    await served.ask("POST", "/v1/secrets", json={"name": "TOKEN", "value": "hidden"})
    secret, large = await previewed(served, "Bearer {{secret.TOKEN}}", "{{ctx.text}}", ctx={"text": "x" * 70_000})
    assert secret["value"] == "Bearer •••"
    assert large == {"id": "1", "value": {"truncated": True, "bytes": 70_002}, "bytes": 70_002}


async def test_the_context_is_what_a_node_of_a_run_saw(served: Served):
    run = await tried(served, THREE, input={"n": 5})
    at = {"instanceID": run["instanceID"], "nodeID": "b"}
    seen = await previewed(served, "{{ctx.a.v}}", "{{ctx.b.v}}", at=at)
    assert seen[0]["value"] == 5
    assert seen[1]["error"]["code"] == "TEMPLATE_PATH_MISSING", "it had not written yet"
    pinned = await previewed(served, "{{ctx.a.v}}", "{{ctx.input.n}}", at=at, pins={"a": {"output": {"v": 1}}})
    assert [each["value"] for each in pinned] == [1, 5]
    unreached = await previewed(served, "{{ctx.b.v}}", at={**at, "nodeID": "new"})
    assert unreached[0]["value"] == 6, "a node that was not there sees what there is"


async def test_facts_are_those_of_the_attempt_or_of_the_preview(served: Served):
    run = await tried(served, THREE, input={"n": 5})
    at = {"instanceID": run["instanceID"], "nodeID": "b"}
    facts = ("{{now}}", "{{ctx.run.id}}")
    seen = await previewed(served, *facts, at=at)
    assert seen[1]["value"] == run["instanceID"]
    again = await previewed(served, *facts, at=at, pins={"a": {"output": {"v": 1}}})
    assert again == seen, "it is over: its time does not change"
    outside = await previewed(served, "{{now | date_format('%Y') | length}}", "{{ctx.run.id}} {{ctx.workflow.name}}")
    assert [each["value"] for each in outside] == [4, "••• •••"]


async def test_in_a_body_the_iteration_can_be_named(served: Served):
    run = await tried(served, looping(), input=["x", "y"])
    at = {"instanceID": run["instanceID"], "nodeID": "b"}
    for scope, item in ((None, "x"), ("each[1]", "y")):
        (seen,) = await previewed(
            served, "{{ctx.item}} {{ctx.a.v}}", at=at if scope is None else {**at, "scope": scope}
        )
        assert seen["value"] == f"{item} {item}"


async def test_what_makes_no_sense_or_is_too_much_is_refused(served: Served):
    run = await tried(served, THREE, input={"n": 5})
    at = {"instanceID": run["instanceID"], "nodeID": "b"}
    for body in (
        {"items": [{"id": "a", "template": "x"}] * 101},
        {"items": [], "ctx": {}, "at": at},
        {"items": [{"id": "a", "template": 5}]},
        {"items": [], "context": {}},
    ):
        refused = await served.ask("POST", "/v1/preview", json=body)
        assert (refused.status, refused.code) == (422, "INVALID_REQUEST"), body
    refused = await served.ask("POST", "/v1/preview", json={"items": [], "at": at}, role="other")
    assert (refused.status, refused.code) == (404, "NOT_FOUND")
    assert (await previewed(served, "{{range(9)}}", "{{ ctx.x * 10 }}", ctx={"x": "y"}))[0]["error"]

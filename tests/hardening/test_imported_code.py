"""Code and texts of imported workflows get no further than other code and texts do."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from anabranch.handlers import builtin_types
from anabranch.n8n.exports import read_exports
from anabranch.n8n.importing import import_workflow
from anabranch.testing import run_workflow
from tests.n8n.drawn import Drawn, node, set_to

# Each asks for something that is outside of the sealed process, by the names that the import binds.
ESCAPES = [
    "$input.constructor.constructor('return process')().env",
    "$input.all.constructor('return process')().env",
    "$('Begin').all.constructor('return require')()('fs')",
    "$('Begin').item.constructor.constructor('return globalThis.process.env')()",
    "$node.Begin.all.constructor('return require')()('child_process')",
    "$items.constructor('return std')().loadFile('/etc/passwd')",
    "items.constructor.constructor('return os')().exec(['id'])",
    "$json.constructor.constructor('return std.getenviron()')()",
    "$json.__proto__.constructor.constructor('return import(\"os\")')()",
    "Object.getPrototypeOf(async () => 0).constructor('return await import(\"std\")')()",
    "$('__proto__').all()",
    "$('constructor').all()",
    "(() => { Object.prototype.polluted = 1; return fetch('http://127.0.0.1:1/') })()",
]


def ran(*nodes: Any) -> Any:
    """How a workflow of these nodes ends."""
    [workflow] = read_exports(Drawn("Attack", "", nodes, [], []).export())
    document = import_workflow(workflow, builtin_types()).document
    return asyncio.run(run_workflow(document, {"n8nItems": [{"a": 1}]}))


@pytest.mark.parametrize("escape", ESCAPES)
def test_code_does_not_escape_by_the_names_of_n8n(escape: str) -> None:
    run = ran(node("Code", "code", 2, jsCode=f"return [{{json: {{got: String(await {escape})}}}}]"))

    assert run.status == "FAILED"
    assert run.error["code"] in ("CODE_ERROR", "NOT_IMPORTED"), run.error


ELSEWHERE = [
    "https://b.example/rows",
    "http://a.example/rows",
    "https://a.example:444/rows",
    "https://a.example\\@b.example/rows",
    "https://a.example\t.b.example/rows",
    ["https://b.example/rows"],
]
CARRIED = [
    {"sendHeaders": True, "headerParameters": {"parameters": [{"name": "X-Key", "value": "s3cret"}]}},
    {"sendQuery": True, "queryParameters": {"parameters": [{"name": "key", "value": "s3cret"}]}},
    {"authentication": "genericCredentialType", "genericAuthType": "httpBasicAuth"},
    {"method": "POST", "sendBody": True, "bodyParameters": {"parameters": [{"name": "key", "value": "s3cret"}]}},
]


def paged(following: Any, carried: dict[str, Any]) -> Any:
    """How a request ends whose first answer names another address for the next page; and its status in the report."""
    pages = {"paginationMode": "responseContainsNextURL", "nextURL": "={{ $response.body.next }}",
             "paginationCompleteWhen": "other", "completeExpression": "={{ !$response.body.next }}"}  # fmt: skip
    request = node("Get", "httpRequest", 4.2, url="https://A.example:443/rows", **carried,
                   options={"pagination": {"pagination": pages}})  # fmt: skip
    one = node("All", "aggregate", 1, aggregate="aggregateAllItemData", options={})
    [workflow] = read_exports(Drawn("Attack", "", [one, request], [], []).export())
    made = import_workflow(workflow, builtin_types())

    def server(sent: Any) -> Any:
        return {} if "last" in sent.url else {"next": following}

    return asyncio.run(run_workflow(made.document, {"n8nItems": [{}]}, http=server)), made.report.nodes[-1]


@pytest.mark.parametrize("carried", CARRIED)
def test_what_a_request_carries_goes_to_no_other_origin_than_that_of_the_first_page(carried: dict[str, Any]) -> None:
    run, said = paged(ELSEWHERE[0], carried)

    assert (run.status, [each.url.partition("?")[0] for each in run.requests]) == (
        "FAILED",
        ["https://A.example:443/rows"],
    )
    assert "another origin" in run.error["message"]
    assert (said.status, "another origin" in said.why) == ("equal", True)


@pytest.mark.parametrize("following", ELSEWHERE)
def test_an_address_that_may_be_of_another_origin_is_none_of_the_first_page(following: Any) -> None:
    run, _ = paged(following, CARRIED[0])

    assert (run.status, len(run.requests)) == ("FAILED", 1)


def test_pages_of_the_same_origin_get_what_the_request_carries() -> None:
    run, _ = paged("https://a.example/rows?last=1", CARRIED[0])

    assert (run.status, run.error) == ("COMPLETED", None)
    assert [each.headers["X-Key"] for each in run.requests] == ["s3cret"] * 2


def test_a_request_that_carries_nothing_may_go_on_elsewhere() -> None:
    run, said = paged("https://b.example/rows?last=1", {})

    assert (run.status, len(run.requests), said.status) == ("COMPLETED", 2, "exact")


def test_an_expression_does_not_leave_its_place_in_the_code() -> None:
    run = ran(
        set_to("Fields", a="={{ 1)), $json.x = ((() => 2)(), $json.a.toFixed(1 }}", b="={{ $json.a.toFixed(1) }}")
    )

    assert run.status == "FAILED"


def test_names_of_nodes_and_fields_are_texts_and_nothing_else() -> None:
    odd = "x\"]; throw 1; //'`${1}}} {{secret.A}}\n"
    [workflow] = read_exports(Drawn("Names", "", [
        {**set_to("A", n="={{ $json.a }}"), "name": odd},
        node("Code", "code", 2, jsCode="return [{json: {n: $('Begin').first().json.a}}]"),
        set_to("B", **{odd.replace(".", ""): "{{secret.A}} {{ctx.input}} {% x %}"}),
    ], [], []).export())  # fmt: skip
    document = import_workflow(workflow, builtin_types()).document

    run = asyncio.run(run_workflow(document, {"n8nItems": [{"a": 1}]}))

    assert (run.status, run.output["n8nItems"]) == (
        "COMPLETED",
        [{odd.replace(".", ""): "{{secret.A}} {{ctx.input}} {% x %}"}],
    )

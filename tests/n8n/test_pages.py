"""Requests whose answers come in pages, and requests that go out in batches with pauses."""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from anabranch.testing import Answer, run_workflow
from tests.n8n.drawn import Drawn, node, set_to
from tests.n8n.test_workflows_of_n8n import imported

DOCS = "https://docs.n8n.io/integrations/builtin/core-nodes/n8n-nodes-base.httprequest/"
ONE = node("All", "aggregate", 1, aggregate="aggregateAllItemData", options={})
FIRST = set_to("Fields", first="={{ $json.rows[0] }}")
AFTER = {"parameters": [{"type": "qs", "name": "after", "value": "={{ $response.body.rows.last() }}"}]}
NUMBERED = {"parameters": [{"type": "qs", "name": "after", "value": "={{ $pageCount * 2 }}"}]}
AT_END = {"paginationCompleteWhen": "other", "completeExpression": "={{ $response.body.more === false }}"}


def server(request: Any) -> Answer:
    """Three pages of two rows, and then nothing."""
    at = int(parse_qs(urlsplit(request.url).query).get("after", ["0"])[0])
    if at > 4:
        return Answer(None, status=404)
    page = {"rows": [at + 1, at + 2], "more": at < 4, "next": f"https://a.example/rows?after={at + 2}"}
    return Answer(page)


def pages(given: dict[str, Any]) -> Any:
    request = node("Get", "httpRequest", 4.2, url="https://a.example/rows?x=1",
                   options={"pagination": {"pagination": given}})  # fmt: skip
    made = imported(Drawn("pages", DOCS, [ONE, request, FIRST], [{}], []).export())
    assert made.report.status == "exact", [(each.name, each.why) for each in made.report.nodes]
    return asyncio.run(run_workflow(made.document, {"n8nItems": [{}]}, http=server))


@pytest.mark.parametrize(
    "given",
    [
        {"parameters": AFTER, "requestInterval": 1, **AT_END},
        {"paginationMode": "responseContainsNextURL", "nextURL": "={{ $response.body.next }}", **AT_END},
        {"parameters": NUMBERED, "limitPagesFetched": True, "maxRequests": 3},
    ],
)
def test_each_page_is_an_item_until_the_end(given: dict[str, Any]) -> None:
    run = pages(given)

    assert (run.status, run.error) == ("COMPLETED", None)
    assert run.output["n8nItems"] == [{"first": "1"}, {"first": "3"}, {"first": "5"}]
    assert len(run.requests) == 3


def test_a_status_ends_the_pages_where_that_is_said() -> None:
    codes = {"paginationCompleteWhen": "receiveSpecificStatusCodes", "statusCodesWhenComplete": "404"}
    run = pages({"parameters": NUMBERED, **codes})

    assert (run.status, len(run.requests), len(run.output["n8nItems"])) == ("COMPLETED", 4, 4)


def test_a_page_that_comes_again_and_again_fails_as_in_n8n() -> None:
    run = pages({"parameters": {"parameters": [{"type": "headers", "name": "x", "value": "={{ $pageCount }}"}]}})

    assert (run.status, len(run.requests)) == ("FAILED", 4)
    assert "identical" in run.error["message"]


def test_requests_pause_after_each_batch() -> None:
    request = node("Get", "httpRequest", 4.2, url="https://a.example/rows",
                   options={"batching": {"batch": {"batchSize": 2, "batchInterval": 1}}})  # fmt: skip
    made = imported(Drawn("batches", DOCS, [request], [{}] * 3, []).export())
    config = next(each["config"] for each in made.document["nodes"] if each["type"] == "httpRequest")
    run = asyncio.run(run_workflow(made.document, {"n8nItems": [{}] * 3}, http=server))

    assert made.report.status == "exact"
    assert config["delay"] == "{{1 if ctx.index > 0 and ctx.index % 2 == 0 else 0}}"
    assert (run.status, len(run.output["n8nItems"])) == ("COMPLETED", 3)

"""Requests whose answers come in pages, and requests that go out in batches with pauses."""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from anabranch.engine.task_worker import outcome_of
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


def asking(given: dict[str, Any], **more: Any) -> dict[str, Any]:
    return node("Get", "httpRequest", 4.2, url="https://a.example/rows?x=1",
                options={"pagination": {"pagination": given}}) | more  # fmt: skip


def pages(given: dict[str, Any], *, http: Any = server, **more: Any) -> Any:
    made = imported(Drawn("pages", DOCS, [ONE, asking(given, **more), FIRST], [{}], []).export())
    assert made.report.status == "exact", [(each.name, each.why) for each in made.report.nodes]
    return asyncio.run(run_workflow(made.document, {"n8nItems": [{}]}, http=http))


class Failing:
    """The server, which cannot be reached with some of the requests."""

    def __init__(self, *failing: int, status: int = 503) -> None:
        self.count, self.failing, self.status = 0, failing, status

    def __call__(self, request: Any) -> Answer:
        self.count += 1
        return Answer({"no": 1}, status=self.status) if self.count in self.failing else server(request)


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


TRIED = {"retryOnFail": True, "maxTries": 3, "waitBetweenTries": 1}


@pytest.mark.parametrize("status", [503, 404])
def test_a_page_that_fails_is_asked_for_again_as_often_as_the_node_tries(status: int) -> None:
    run = pages({"parameters": AFTER, **AT_END}, http=Failing(2, 3, 5, status=status), **TRIED)

    assert (run.status, run.error) == ("COMPLETED", None)
    assert run.output["n8nItems"] == [{"first": "1"}, {"first": "3"}, {"first": "5"}]
    assert [each.query.get("after") for each in run.requests] == [None, "2", "2", "2", "4", "4"]


def test_the_node_waits_before_a_page_is_asked_for_again_and_pauses_between_pages(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waited: list[float] = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)

    monkeypatch.setattr("anabranch.handlers.types.http_request.sleep", sleep)
    run = pages({"parameters": AFTER, "requestInterval": 5, **AT_END}, http=Failing(2),
                **{**TRIED, "waitBetweenTries": 2_000})  # fmt: skip

    assert (run.status, waited) == ("COMPLETED", [0.005, 2.0, 0.005])


def test_a_page_that_fails_at_each_attempt_fails_the_node() -> None:
    run = pages({"parameters": AFTER, **AT_END}, http=Failing(2, 3, 4), **TRIED)

    assert (run.status, len(run.requests)) == ("FAILED", 4)
    assert "503" in run.error["message"]


def test_a_status_that_ends_the_pages_is_not_tried_again() -> None:
    codes = {"paginationCompleteWhen": "receiveSpecificStatusCodes", "statusCodesWhenComplete": "503"}
    run = pages({"parameters": NUMBERED, **codes}, http=Failing(2), **TRIED)

    assert (run.status, len(run.requests), len(run.output["n8nItems"])) == ("COMPLETED", 2, 2)


def test_no_step_holds_the_pages_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: dict[str, list[int]] = {}

    async def noted(types: Any, step: Any, helpers: Any) -> Any:
        outcome = await outcome_of(types, step, helpers)
        sizes.setdefault(step.id, []).append(outcome.output.size // 100_000)
        return outcome

    def large(request: Any) -> Answer:
        page = server(request).json
        return Answer({**page, "long": str(page["rows"][0]) * 100_000})

    monkeypatch.setattr("anabranch.testing.workflow_runs.outcome_of", noted)
    run = pages({"parameters": AFTER, **AT_END}, http=large)

    assert run.status == "COMPLETED"
    assert (sizes["get_page"], sizes["get_answer"], sizes["get_seen"]) == ([0, 0, 0], [1, 1, 1], [2, 2, 2])


def test_pages_in_a_loop_are_those_of_the_current_item() -> None:
    request = asking({"parameters": AFTER, **AT_END})
    request["parameters"]["url"] = "=https://a.example/{{ $json.id }}"
    given = [node("Loop", "splitInBatches", 3, options={}), request, node("Done", "noOp", 1)]
    links = [("Begin", 0, "Loop", 0), ("Loop", 1, "Get", 0), ("Get", 0, "Loop", 0), ("Loop", 0, "Done", 0)]
    items = [{"id": 7}, {"id": 8}]
    made = imported(Drawn("pages", DOCS, given, items, [], links).export())
    run = asyncio.run(run_workflow(made.document, {"n8nItems": items}, http=server))

    assert (made.report.status, run.status, run.error) == ("exact", "COMPLETED", None)
    assert [each.path for each in run.requests] == ["/7"] * 3 + ["/8"] * 3


def test_requests_pause_after_each_batch() -> None:
    request = node("Get", "httpRequest", 4.2, url="https://a.example/rows",
                   options={"batching": {"batch": {"batchSize": 2, "batchInterval": 1}}})  # fmt: skip
    made = imported(Drawn("batches", DOCS, [request], [{}] * 3, []).export())
    config = next(each["config"] for each in made.document["nodes"] if each["type"] == "httpRequest")
    run = asyncio.run(run_workflow(made.document, {"n8nItems": [{}] * 3}, http=server))

    assert made.report.status == "exact"
    assert config["delay"] == "{{1 if ctx.index > 0 and ctx.index % 2 == 0 else 0}}"
    assert (run.status, len(run.output["n8nItems"])) == ("COMPLETED", 3)

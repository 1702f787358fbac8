"""An example of every built-in node type: a small workflow, what it gets, and what it answers.

`nodes_page` shows them, `test_node_examples` runs them. What comes from outside (a server, a database, a sandbox,
another run) is given: the output of that node, as the types' own tests prove it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

ORDERS = [
    {"id": 1, "customer": "Ada", "sum": 30},
    {"id": 2, "customer": "Bob", "sum": 12},
    {"id": 3, "customer": "Ada", "sum": 5},
]


@dataclass(frozen=True)
class Example:
    """A workflow, its input and its output."""

    nodes: list[dict[str, Any]]
    edges: list[tuple[str, ...]]
    output: Any
    input: Any = None
    given: Mapping[str, Any] = field(default_factory=dict)
    """Outputs of nodes that reach outside."""
    trigger: str | None = None
    """The node that the run begins with; else the start."""
    error: str | None = None
    """The code that the run fails with."""

    @property
    def document(self) -> dict[str, Any]:
        """The graph."""
        edges = [
            {"upstreamNodeID": source, "downstreamNodeID": target, **({"sourceHandle": handle[0]} if handle else {})}
            for source, target, *handle in self.edges
        ]
        return {"nodes": self.nodes, "edges": edges}


START = {"id": "start", "type": "start"}


def end(of: Any = "{{ctx.result}}", name: str = "end") -> dict[str, Any]:
    return {"id": name, "type": "end", "config": {"outputParameters": {"result": of}}}


def chain(*nodes: dict[str, Any]) -> tuple[list[dict[str, Any]], list[tuple[str, ...]]]:
    return list(nodes), [(one["id"], other["id"]) for one, other in pairwise(nodes)]


def single(type_: str, config: dict[str, Any], result: Any, *, given: Any = None, input_: Any = None) -> Example:
    """A node between start and end; `given` is its output where it reaches outside."""
    node = {"id": type_, "type": type_, "config": config, "outputVariable": "result"}
    return Example(*chain(START, node, end()), {"result": result}, input_, {} if given is None else {type_: given})


def begun(type_: str, config: dict[str, Any], payload: Any, of: str, result: Any) -> Example:
    """A run that a trigger begins."""
    node = {"id": type_, "type": type_, "config": config}
    return Example(*chain(node, end(of)), {"result": result}, payload, trigger=type_)


EXAMPLES: dict[str, Example] = {
    "start": Example(*chain(START, end("{{ctx.input.name}}")), {"result": "Ada"}, {"name": "Ada"}),
    "webhook": begun(
        "webhook",
        {"path": "orders", "methods": ["POST"], "auth": {"kind": "hmac", "scheme": "github", "secret": "SHOP"}},
        {"body": {"order": 7}},
        "{{ctx.input.body.order}}",
        7,
    ),
    "schedule": begun(
        "schedule",
        {"cron": "0 9 * * MON-FRI", "timezone": "Europe/Zurich", "input": {"region": "EU"}},
        {"region": "EU"},
        "{{ctx.input.region}}",
        "EU",
    ),
    "topic": begun("topic", {"topic": "orders.*"}, {"order": 7}, "{{ctx.input.order}}", 7),
    "workflowCall": begun("workflowCall", {}, {"sum": 100}, "{{ctx.input.sum * 0.1}}", 10.0),
    "failure": begun("failure", {}, {"error": {"code": "HTTP_STATUS"}}, "{{ctx.input.error.code}}", "HTTP_STATUS"),
    "end": Example(
        *chain(START, end({"sum": "{{ctx.input.a + ctx.input.b}}"})), {"result": {"sum": 5}}, {"a": 2, "b": 3}
    ),
    "condition": Example(
        [
            START,
            {
                "id": "large",
                "type": "condition",
                "config": {"branches": [{"id": "yes", "expression": "{{ctx.input.total > 100}}"}]},
            },
            end("large", "yes"),
            end("small", "no"),
        ],
        [("start", "large"), ("large", "yes", "yes"), ("large", "no", "else")],
        {"result": "large"},
        {"total": 250},
    ),
    "switch": Example(
        [
            START,
            {
                "id": "status",
                "type": "switch",
                "config": {"value": "{{ctx.input.status}}", "cases": [{"id": "paid", "values": ["paid", "settled"]}]},
            },
            end("ship it", "ship"),
            end("wait", "wait"),
        ],
        [("start", "status"), ("status", "ship", "paid"), ("status", "wait", "else")],
        {"result": "ship it"},
        {"status": "settled"},
    ),
    "loop": Example(
        [
            START,
            {
                "id": "each",
                "type": "loop",
                "config": {"source": "{{ctx.input}}", "concurrency": 2, "yield": "{{ctx.double.value}}"},
                "outputVariable": "result",
            },
            {
                "id": "double",
                "type": "set",
                "config": {"values": {"value": "{{ctx.item * 2}}"}},
                "outputVariable": "double",
            },
            end(),
        ],
        [("start", "each"), ("each", "double", "loop"), ("double", "each"), ("each", "end", "done")],
        {"result": [2, 4, 6]},
        [1, 2, 3],
    ),
    "cursor": Example(
        [
            START,
            {
                "id": "next",
                "type": "cursor",
                "config": {"source": "{{ctx.input}}", "batchSize": 2},
                "outputVariable": "batch",
            },
            {
                "id": "sum",
                "type": "set",
                "config": {"values": {"total": "{{(ctx.sums.total | default(0)) + (ctx.batch | sum)}}"}},
                "outputVariable": "sums",
            },
            end("{{ctx.sums.total}}"),
        ],
        [("start", "next"), ("next", "sum", "loop"), ("sum", "next"), ("next", "end", "done")],
        {"result": 6},
        [1, 2, 3],
    ),
    "delay": Example(
        *chain(START, {"id": "wait", "type": "delay", "config": {"duration": "5m"}}, end("later")), {"result": "later"}
    ),
    "waitForEvent": Example(
        [
            START,
            {
                "id": "approval",
                "type": "waitForEvent",
                "config": {"event": "approve", "match": {"order": "{{ctx.input.order}}"}, "timeout": "2d"},
                "outputVariable": "answer",
            },
            end("{{ctx.answer.by}}", "approved"),
            end("nobody answered", "late"),
        ],
        [("start", "approval"), ("approval", "approved"), ("approval", "late", "timeout")],
        {"result": "nobody answered"},
        {"order": 7},
    ),
    "waitForWebhook": Example(
        [
            START,
            {
                "id": "approval",
                "type": "waitForWebhook",
                "config": {"timeout": "3d"},
                "outputVariable": "answer",
            },
            end("{{ctx.answer.query.decision}}", "decided"),
            end("nobody answered", "late"),
        ],
        [("start", "approval"), ("approval", "decided"), ("approval", "late", "timeout")],
        {"result": "yes"},
        given={"approval": {"method": "POST", "query": {"decision": "yes"}, "headers": {}, "body": None}},
    ),
    "respond": Example(
        *chain(
            {
                "id": "webhook",
                "type": "webhook",
                "config": {"path": "quotes", "auth": {"kind": "basic", "secret": "QUOTES"}, "respond": "respondNode"},
            },
            {"id": "respond", "type": "respond", "config": {"status": 201, "body": {"price": 42}}},
            end("answered"),
        ),
        {"result": "answered"},
        {"body": {}},
        trigger="webhook",
    ),
    "set": single(
        "set", {"values": {"text": "Hello {{ctx.input.name}}"}}, {"text": "Hello Ada"}, input_={"name": "Ada"}
    ),
    "httpRequest": single(
        "httpRequest",
        {
            "method": "POST",
            "url": "https://api.example.com/orders",
            "json": {"order": "{{ctx.input.order}}"},
            "auth": {"type": "bearer", "token": "{{secret.API_TOKEN}}"},
        },
        {"status": 201, "headers": {}, "body": {"id": 17}},
        given={"status": 201, "headers": {}, "body": {"id": 17}},
        input_={"order": 7},
    ),
    "javascript": single(
        "javascript", {"code": "return ctx.input.map(n => n * 2)"}, [2, 4], given=[2, 4], input_=[1, 2]
    ),
    "python": single("python", {"code": "return [n * 2 for n in ctx['input']]"}, [2, 4], given=[2, 4], input_=[1, 2]),
    "dataQuery": single(
        "dataQuery",
        {"dataQueryID": "orders-of", "args": {"name": "{{ctx.input}}"}},
        {"rows": [{"id": 1}], "rowCount": 1, "truncated": False},
        given={"rows": [{"id": 1}], "rowCount": 1, "truncated": False},
        input_="Ada",
    ),
    "readVariables": single("readVariables", {"names": ["REGION"]}, {"REGION": "EU"}, given={"REGION": "EU"}),
    "writeVariables": single(
        "writeVariables", {"values": {"lastId": "{{ctx.input}}"}}, {"lastId": 7}, given={"lastId": 7}, input_=7
    ),
    "workflow": single(
        "workflow", {"workflow": "tax", "input": {"sum": "{{ctx.input}}"}}, {"tax": 10}, given={"tax": 10}, input_=100
    ),
    "stopWithError": Example(
        *chain(
            START, {"id": "stop", "type": "stopWithError", "config": {"message": "no stock", "code": "OUT_OF_STOCK"}}
        ),
        None,
        error="OUT_OF_STOCK",
    ),
    "placeholder": Example(
        *chain(
            START,
            {
                "id": "rows",
                "type": "placeholder",
                "config": {"was": "n8n-nodes-base.googleSheets", "parameters": {"operation": "read"}},
            },
        ),
        None,
        error="NOT_IMPORTED",
    ),
    "filter": single(
        "filter",
        {"source": "{{ctx.input}}", "tests": [{"field": "sum", "test": "greater", "value": 10}]},
        [ORDERS[0], ORDERS[1]],
        input_=ORDERS,
    ),
    "sort": single("sort", {"source": "{{ctx.input}}", "by": [{"field": "sum"}]}, ORDERS[::-1], input_=ORDERS),
    "limit": single("limit", {"source": "{{ctx.input}}", "count": 1, "skip": 1}, [ORDERS[1]], input_=ORDERS),
    "unique": single("unique", {"source": "{{ctx.input}}", "by": ["customer"]}, ORDERS[:2], input_=ORDERS),
    "aggregate": single(
        "aggregate",
        {"source": "{{ctx.input}}", "values": {"total": {"operation": "sum", "field": "sum"}}},
        {"total": 47},
        input_=ORDERS,
    ),
    "group": single(
        "group",
        {
            "source": "{{ctx.input}}",
            "by": ["customer"],
            "values": {"total": {"operation": "sum", "field": "sum"}},
        },
        [{"customer": "Ada", "total": 35}, {"customer": "Bob", "total": 12}],
        input_=ORDERS,
    ),
    "splitOut": single(
        "splitOut",
        {"source": "{{ctx.input}}", "field": "tags"},
        ["a", "b", "c"],
        input_=[{"tags": ["a", "b"]}, {"tags": ["c"]}],
    ),
    "merge": single(
        "merge",
        {"mode": "byKey", "key": ["id"], "keep": "matching", "sources": ["{{ctx.input.orders}}", "{{ctx.input.paid}}"]},
        [{"id": 1, "sum": 30, "paid": True}],
        input_={"orders": [{"id": 1, "sum": 30}, {"id": 2, "sum": 12}], "paid": [{"id": 1, "paid": True}]},
    ),
    "fields": single(
        "fields",
        {"source": "{{ctx.input}}", "keep": ["id", "sum"], "rename": {"sum": "total"}},
        {"id": 1, "total": 30},
        input_=ORDERS[0],
    ),
    "dateTime": single(
        "dateTime",
        {"operation": "add", "source": "{{ctx.input}}", "amount": 1, "unit": "months", "timezone": "Europe/Berlin"},
        "2026-02-28T09:00:00.000+01:00",
        input_="2026-01-31T08:00:00Z",
    ),
    "text": single(
        "text",
        {"operation": "extract", "source": "{{ctx.input}}", "pattern": "order #([0-9]+)", "group": 1},
        ["4711", "12"],
        input_="About order #4711 and order #12.",
    ),
    "html": single(
        "html",
        {
            "source": "{{ctx.input}}",
            "values": {
                "title": {"selector": "h1"},
                "links": {"selector": "main a", "take": "attribute", "attribute": "href", "all": True},
            },
        },
        {"title": "News", "links": ["/1", "/2"]},
        input_="<h1>News</h1><main><a href='/1'>One</a> <a href='/2'>Two</a></main>",
    ),
    "markdown": single(
        "markdown",
        {"operation": "fromHtml", "source": "{{ctx.input}}"},
        "## Thanks\n\nSee *you* at [noon](https://example.org).",
        input_="<h2>Thanks</h2><p>See <em>you</em> at <a href='https://example.org'>noon</a>.</p>",
    ),
    "csv": single(
        "csv",
        {"operation": "parse", "source": "{{ctx.input}}", "delimiter": ";"},
        [{"id": "1", "name": "Ada; Countess"}],
        input_='id;name\n1;"Ada; Countess"\n',
    ),
    "xml": single(
        "xml",
        {"operation": "parse", "source": "{{ctx.input}}"},
        {"order": {"@id": "7", "line": ["a", "b"]}},
        input_='<order id="7"><line>a</line><line>b</line></order>',
    ),
    "crypto": single(
        "crypto",
        {"operation": "hash", "source": "{{ctx.input}}", "algorithm": "sha256", "encoding": "base64"},
        "ypeBEsobvcr6wjGzmiPcTaeG7/gUfE5yuYB3ha/uSLs=",
        input_="a",
    ),
}

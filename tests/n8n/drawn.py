"""Workflows in n8n's format, what flows into each, and what n8n's documentation says comes out.

Used by `test_workflows_of_n8n` and by the script that asks a real n8n.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

DOCS = "https://docs.n8n.io/integrations/builtin/core-nodes"


@dataclass(frozen=True)
class Drawn:
    """A workflow that begins with `items` and ends with `gives`."""

    name: str
    source: str
    """The page that says so."""
    nodes: Sequence[Mapping[str, Any]]
    items: Sequence[Mapping[str, Any]]
    gives: Sequence[Any]
    links: Sequence[tuple[str, int, str, int]] | None = None
    """(from, output, to, input); None: one node after the other."""
    answers: Mapping[str, Any] = field(default_factory=dict)
    """What requests to a path are answered."""

    def export(self) -> dict[str, Any]:
        """As n8n would export it; it begins when another workflow calls it."""
        begin = {"name": "Begin", "type": "n8n-nodes-base.executeWorkflowTrigger", "typeVersion": 1, "parameters": {}}
        nodes = [begin, *self.nodes]
        links = self.links
        if links is None:
            names = [node["name"] for node in nodes]
            links = [(one, 0, other, 0) for one, other in pairwise(names)]
        connections: dict[str, Any] = {}
        for source, output, target, into in links:
            outputs = connections.setdefault(source, {"main": []})["main"]
            outputs.extend([] for _ in range(output + 1 - len(outputs)))
            outputs[output].append({"node": target, "type": "main", "index": into})
        positioned = [{"position": [number * 200, 0], **node} for number, node in enumerate(nodes)]
        return {"name": self.name, "nodes": positioned, "connections": connections, "settings": {}}


def node(name: str, kind: str, version: float, **parameters: Any) -> dict[str, Any]:
    """A node of n8n's own package."""
    return {"name": name, "type": f"n8n-nodes-base.{kind}", "typeVersion": version, "parameters": parameters}


def set_to(name: str, *, keeps: bool = False, **fields: Any) -> dict[str, Any]:
    """An Edit Fields node."""
    kinds = {bool: "boolean", int: "number", str: "string"}
    listed = [{"name": each, "value": value, "type": kinds[type(value)]} for each, value in fields.items()]
    return node(name, "set", 3.4, assignments={"assignments": listed}, includeOtherFields=keeps, options={})


def test_of(left: Any, kind: str, operation: str, right: Any = "") -> dict[str, Any]:
    """Conditions of one test."""
    return {
        "options": {"caseSensitive": True, "typeValidation": "strict", "version": 2},
        "combinator": "and",
        "conditions": [
            {
                "leftValue": left,
                "rightValue": right,
                "operator": {"type": kind, "operation": operation} | ({"rightType": "any"} if kind == "array" else {}),
            }
        ],
    }


ORDERS = [
    {"id": 1, "customer": "Ada", "sum": 30, "tags": ["new", "paid"]},
    {"id": 2, "customer": "Bob", "sum": 5, "tags": []},
    {"id": 3, "customer": "Ada", "sum": 12, "tags": ["paid"]},
]

PAGE = (
    "<h1>A title &amp; more</h1><p>Some text with <a href='/x?a=1&b=2'>a link</a> and<br>a line</p><ul><li>one"
    "<li>two<ol><li>x<li>y</ol></ul><blockquote>said</blockquote><table><tr><td>1<tr><td><img src=i.png> 2</table>"
    "<script>no()</script><input type=checkbox checked><select><option>a<option selected>b</select>"
)

DRAWN = (
    Drawn(
        "fields for each item",
        f"{DOCS}/n8n-nodes-base.set/",
        [
            set_to(
                "Fields", keeps=True, text="={{ $json.customer.toUpperCase() }} owes {{ $json.sum }}, {{ $json.none }}."
            )
        ],
        ORDERS[:1],
        [{**ORDERS[0], "text": "ADA owes 30, ."}],
    ),
    Drawn(
        "fields in place of all others, converted to their types",
        f"{DOCS}/n8n-nodes-base.set/",
        [
            node(
                "Fields",
                "set",
                3.4,
                options={},
                assignments={
                    "assignments": [
                        {"name": "a.b", "type": "string", "value": "={{ $json.id }}"},
                        {"name": "n", "type": "number", "value": "={{ '4' + '2' }}"},
                        {"name": "tags", "type": "array", "value": "={{ $json.tags }}"},
                    ]
                },
            )
        ],
        ORDERS[:1],
        [{"a": {"b": "1"}, "n": 42, "tags": ["new", "paid"]}],
    ),
    Drawn(
        "each item takes its way, and both ways come together",
        f"{DOCS}/n8n-nodes-base.if/",
        [
            node("If", "if", 2.2, conditions=test_of("={{ $json.sum }}", "number", "gt", 10), options={}),
            set_to("Large", id="={{ $json.id }}", large=True),
            set_to("Small", id="={{ $json.id }}", large=False),
            node("Merge", "merge", 3, mode="append"),
        ],
        ORDERS,
        [{"id": "1", "large": True}, {"id": "3", "large": True}, {"id": "2", "large": False}],
        [
            ("Begin", 0, "If", 0),
            ("If", 0, "Large", 0),
            ("If", 1, "Small", 0),
            ("Large", 0, "Merge", 0),
            ("Small", 0, "Merge", 1),
        ],
    ),
    Drawn(
        "a filter keeps what passes",
        f"{DOCS}/n8n-nodes-base.filter/",
        [
            node(
                "Filter",
                "filter",
                2.2,
                conditions=test_of("={{ $json.tags }}", "array", "contains", "paid"),
                options={},
            )
        ],
        ORDERS,
        [ORDERS[0], ORDERS[2]],
    ),
    Drawn(
        "a switch with an output for the rest",
        f"{DOCS}/n8n-nodes-base.switch/",
        [
            node(
                "Switch",
                "switch",
                3.2,
                options={"fallbackOutput": "extra"},
                rules={
                    "values": [
                        {"conditions": test_of("={{ $json.customer }}", "string", "equals", "Ada"), "outputKey": "ada"}
                    ]
                },
            ),
            set_to("Rest", who="={{ $json.customer }}"),
        ],
        ORDERS,
        [{"who": "Bob"}],
        [("Begin", 0, "Switch", 0), ("Switch", 1, "Rest", 0)],
    ),
    Drawn(
        "lists become items, and items a list",
        f"{DOCS}/n8n-nodes-base.splitout/",
        [
            node(
                "Split",
                "splitOut",
                1,
                fieldToSplitOut="tags",
                include="selectedOtherFields",
                fieldsToInclude="id",
                options={},
            ),
            set_to("Tag", text="={{ $json.id }}-{{ $json.tags }} of {{ $('Begin').item.json.customer }}"),
            node(
                "All",
                "aggregate",
                1,
                fieldsToAggregate={"fieldToAggregate": [{"fieldToAggregate": "text"}]},
                options={},
            ),
        ],
        ORDERS,
        [{"text": ["1-new of Ada", "1-paid of Ada", "3-paid of Ada"]}],
    ),
    Drawn(
        "sorted, without duplicates, and cut off",
        f"{DOCS}/n8n-nodes-base.sort/",
        [
            node(
                "Sort", "sort", 1, sortFieldsUi={"sortField": [{"fieldName": "sum", "order": "descending"}]}, options={}
            ),
            node("Once", "removeDuplicates", 2, compare="selectedFields", fieldsToCompare="customer", options={}),
            node("First", "limit", 1, maxItems=5, keep="lastItems"),
            set_to("Fields", id="={{ $json.id }}"),
        ],
        ORDERS,
        [{"id": "1"}, {"id": "2"}],
    ),
    Drawn(
        "figures of groups",
        f"{DOCS}/n8n-nodes-base.summarize/",
        [
            node(
                "Sums",
                "summarize",
                1.1,
                options={},
                fieldsToSplitBy="customer",
                fieldsToSummarize={
                    "values": [{"aggregation": "sum", "field": "sum"}, {"aggregation": "count", "field": "id"}]
                },
            )
        ],
        ORDERS,
        [{"customer": "Ada", "sum_sum": 42, "count_id": 2}, {"customer": "Bob", "sum_sum": 5, "count_id": 1}],
    ),
    Drawn(
        "two lists joined by a field",
        f"{DOCS}/n8n-nodes-base.merge/",
        [
            set_to("Left", id="={{ $json.id }}", sum="={{ $json.sum }}"),
            node("Code", "code", 2, jsCode="return [{id: '1', town: 'Bern'}, {id: '9', town: 'Rome'}]"),
            node("Merge", "merge", 3, mode="combine", fieldsToMatchString="id", joinMode="enrichInput1", options={}),
        ],
        ORDERS,
        [{"id": "1", "sum": "30", "town": "Bern"}, {"id": "2", "sum": "5"}, {"id": "3", "sum": "12"}],
        [("Begin", 0, "Left", 0), ("Begin", 0, "Code", 0), ("Left", 0, "Merge", 0), ("Code", 0, "Merge", 1)],
    ),
    Drawn(
        "code for all items",
        f"{DOCS}/n8n-nodes-base.code/",
        [
            node(
                "Code",
                "code",
                2,
                jsCode="let sum = 0;\nfor (const item of $input.all()) sum += item.json.sum;\n"
                "return [{json: {sum, first: $('Begin').first().json.customer, last: $input.last().json.id}}];",
            )
        ],
        ORDERS,
        [{"sum": 47, "first": "Ada", "last": 3}],
    ),
    Drawn(
        "code for each item, in JavaScript and in Python",
        f"{DOCS}/n8n-nodes-base.code/",
        [
            node(
                "Code", "code", 2, mode="runOnceForEachItem", jsCode="$json.twice = $json.sum * 2;\nreturn $input.item;"
            ),
            node(
                "Python",
                "code",
                2,
                language="python",
                pythonCode="rows = []\nfor item in _input.all():\n"
                "    row = item['json']\n    rows.append({'id': row['id'], 'twice': row['twice'] + 1})\nreturn rows",
            ),
        ],
        ORDERS[:2],
        [{"id": 1, "twice": 61}, {"id": 2, "twice": 11}],
    ),
    Drawn(
        "a request for each item, whose lists become items",
        f"{DOCS}/n8n-nodes-base.httprequest/",
        [
            node("Request", "httpRequest", 4.2, url="=https://shop.example/rows/{{ $json.id }}", options={}),
            set_to("Fields", row="={{ $json.row }}", of="={{ $('Begin').item.json.customer }}"),
        ],
        ORDERS[:2],
        [{"row": "a", "of": "Ada"}, {"row": "b", "of": "Ada"}, {"row": "c", "of": "Bob"}],
        answers={"/rows/1": [{"row": "a"}, {"row": "b"}], "/rows/2": {"row": "c"}},
    ),
    Drawn(
        "a loop over items",
        f"{DOCS}/n8n-nodes-base.splitinbatches/",
        [
            node("Loop", "splitInBatches", 3, options={}),
            set_to("Body", id="={{ $json.id }}", text="={{ $('Loop').item.json.customer }}"),
            node("All", "aggregate", 1, aggregate="aggregateAllItemData", destinationFieldName="rows", options={}),
        ],
        ORDERS,
        [{"rows": [{"id": "1", "text": "Ada"}, {"id": "2", "text": "Bob"}, {"id": "3", "text": "Ada"}]}],
        [("Begin", 0, "Loop", 0), ("Loop", 1, "Body", 0), ("Body", 0, "Loop", 0), ("Loop", 0, "All", 0)],
    ),
    Drawn(
        "nothing runs for no items",
        "https://docs.n8n.io/data/data-structure/",
        [
            node("Filter", "filter", 2.2, conditions=test_of("={{ $json.sum }}", "number", "gt", 100), options={}),
            node("All", "aggregate", 1, aggregate="aggregateAllItemData", options={}),
        ],
        ORDERS,
        [],
    ),
    Drawn(
        "expressions that templates cannot say",
        "https://docs.n8n.io/code/expressions/",
        [
            set_to(
                "Fields",
                fixed="={{ $json.sum.toFixed(2) }}",
                many="={{ $json.tags.map(tag => tag.length).join('+') }}",
                other="={{ $json.none?.deep || 'nothing' }}",
                code="{{ no expression }}",
            )
        ],
        ORDERS[:1],
        [{"fixed": "30.00", "many": "3+4", "other": "nothing", "code": "{{ no expression }}"}],
    ),
    Drawn(
        "fields within fields that are kept",
        f"{DOCS}/n8n-nodes-base.set/",
        [
            set_to("Fields", keeps=True, **{"customer.name": "={{ $json.customer }}", "tags[1]": "up", "a.b[0].c": 1}),
        ],
        ORDERS[:2],
        [
            {**ORDERS[0], "customer": {"name": "Ada"}, "tags": ["new", "up"], "a": {"b": [{"c": 1}]}},
            {**ORDERS[1], "customer": {"name": "Bob"}, "tags": [None, "up"], "a": {"b": [{"c": 1}]}},
        ],
    ),
    Drawn(
        "texts of a page",
        f"{DOCS}/n8n-nodes-base.html/",
        [
            set_to("Page", data="<ul><li> one \n two</li><li>three</li></ul><b></b><a href=' /x '>y</a>"),
            node(
                "Html",
                "html",
                1,
                operation="extractHtmlContent",
                options={"trimValues": True},
                extractionValues={
                    "values": [
                        {"key": "all", "cssSelector": "li", "returnValue": "text", "returnArray": True},
                        {"key": "link", "cssSelector": "a", "returnValue": "attribute", "attribute": "href"},
                    ]
                },
            ),
        ],
        ORDERS[:1],
        [{"all": ["one \n two", "three"], "link": "/x"}],
    ),
    Drawn(
        "a page laid out in lines, and parts of it as HTML",
        f"{DOCS}/n8n-nodes-base.html/",
        [
            set_to("Page", data=PAGE),
            node(
                "Html",
                "html",
                1.2,
                operation="extractHtmlContent",
                options={},
                extractionValues={
                    "values": [
                        {"key": "text", "cssSelector": "body", "returnValue": "text"},
                        {"key": "rows", "cssSelector": "tr", "returnValue": "html", "returnArray": True},
                        {"key": "none", "cssSelector": "h6", "returnValue": "text"},
                        {"key": "gone", "cssSelector": "h6", "returnValue": "html"},
                        {"key": "chosen", "cssSelector": "select, input", "returnValue": "value", "returnArray": True},
                        {"key": "mark", "cssSelector": "input", "returnValue": "attribute", "attribute": "checked"},
                    ]
                },
            ),
        ],
        ORDERS[:1],
        [
            {
                "text": "A TITLE & MORE\n\nSome text with a link [/x?a=1&b=2] and\na line\n\n * one\n * two\n   1. x\n"
                "   2. y\n\n"
                "> said\n\n1[i.png] 2\n\nab",
                "rows": ["<td>1</td>", '<td><img src="i.png"> 2</td>'],
                "none": "",
                "chosen": ["on", "b"],
                "mark": "checked",
            }
        ],
    ),
    Drawn(
        "an item for each of several pages, with all texts together",
        f"{DOCS}/n8n-nodes-base.htmlextract/",
        [
            node(
                "Pages",
                "set",
                3.4,
                mode="raw",
                options={},
                jsonOutput=json.dumps({"pages": ["<p>a<b> b</b></p> <p>c</p>", "<i>d</i>"]}),
            ),
            node(
                "Html",
                "htmlExtract",
                1,
                dataPropertyName="pages",
                options={},
                extractionValues={
                    "values": [
                        {"key": "p", "cssSelector": "p"},
                        {"key": "html", "cssSelector": "p", "returnValue": "html"},
                    ]
                },
            ),
        ],
        ORDERS[:1],
        [{"p": "a bc", "html": "a<b> b</b>"}, {"p": ""}],
    ),
    Drawn(
        "numbers and days as Americans write them",
        f"{DOCS}/n8n-nodes-base.code/",
        [
            node(
                "Code",
                "code",
                2,
                jsCode="const day = new Date(Date.UTC(2026, 0, 5, 15, 7, 9));\n"
                "return [{json: {n: (1234567.891).toLocaleString(), eur: (-1234.5).toLocaleString('en-US',"
                " { style: 'currency', currency: 'USD' }), day: day.toLocaleDateString('en-US',"
                " { weekday: 'long', year: 'numeric', month: 'long', day: 'numeric' }), all: day.toLocaleString(),"
                " at: day.toLocaleTimeString('en-US', { hour: '2-digit', minute: '2-digit' })}}];",
            )
        ],
        ORDERS[:1],
        [
            {
                "n": "1,234,567.891",
                "eur": "-$1,234.50",
                "day": "Monday, January 5, 2026",
                "all": "1/5/2026, 3:07:09 PM",
                "at": "03:07 PM",
            }
        ],
    ),
    Drawn(
        "a node that goes on after a failure",
        "https://docs.n8n.io/workflows/components/nodes/#node-settings",
        [
            {
                **node(
                    "Code",
                    "code",
                    2,
                    mode="runOnceForEachItem",
                    jsCode="if ($json.id === 2) throw new Error('two');\nreturn {json: {id: $json.id}};",
                ),
                "onError": "continueErrorOutput",
            },
            set_to("Failed", keeps=True, error="failed"),
        ],
        ORDERS,
        [{**ORDERS[1], "error": "failed"}],
        [("Begin", 0, "Code", 0), ("Code", 1, "Failed", 0)],
    ),
)

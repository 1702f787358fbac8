"""Workflows in which it matters which item of another node belongs to the current one, and what loops hand on.

What each gives is what n8n 1.123.81 gave.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from tests.n8n.drawn import Drawn, node, set_to, test_of

ITEMS = "https://docs.n8n.io/data/data-mapping/data-item-linking/"

THREE = [{"v": 1}, {"v": 2}, {"v": 3}]
NAMED = set_to("Named", keeps=True, n="=name{{ $json.v }}")


def code(name: str, source: str, **more: Any) -> dict[str, Any]:
    """A code node for all items."""
    return node(name, "code", 2, jsCode=source, **more)


def batches(**parameters: Any) -> dict[str, Any]:
    """A node for batches."""
    return node("Loop", "splitInBatches", 3, options={}, **parameters)


def through(*body: str) -> list[tuple[str, int, str, int]]:
    """The links from the beginning through a loop to the end."""
    way = ["Loop", *body, "Loop"]
    links = [(one, 1 if one == "Loop" else 0, other, 0) for one, other in pairwise(way)]
    return [("Begin", 0, "Named", 0), ("Named", 0, "Loop", 0), ("Loop", 0, "Done", 0), *links]


def _in_loop(name: str, *body: Mapping[str, Any], size: int = 1, gives: Sequence[Any]) -> Drawn:
    loop = batches() if size == 1 else batches(batchSize=size)
    links = through(*(each["name"] for each in body))
    return Drawn(name, ITEMS, [NAMED, loop, *body, code("Done", "return items;")], THREE, gives, links)


OF_BEGIN = node("Of", "set", 3.4, options={}, assignments={"assignments": [
    {"name": "of", "type": "number", "value": "={{ $('Begin').item.json.v }}"}]})  # fmt: skip


def _of_code(name: str, source: str, gives: Sequence[int]) -> Drawn:
    listed = [{"of": each} for each in gives]
    return Drawn(f"code that returns {name}", ITEMS, [code("Made", source), OF_BEGIN], THREE, listed)


def _above(kind: str) -> dict[str, Any]:
    return node("Above", kind, 2.2, conditions=test_of("={{ $json.v }}", "number", "gt", 1), options={})


def _of_python(name: str, source: str, gives: Sequence[int], items: Sequence[Any] = THREE) -> Drawn:
    listed, made = [{"of": each} for each in gives], node("Made", "code", 2, language="python", pythonCode=source)
    return Drawn(f"Python that returns {name}", ITEMS, [made, OF_BEGIN], items, listed)


ONE = node("One", "aggregate", 1, aggregate="aggregateAllItemData", options={})


def _chosen(
    name: str, *links: tuple[str, int, str, int], gives: Sequence[Any], items: Sequence[Any] = THREE, **fields: Any
) -> Drawn:
    """A choice of which the first way is taken for several items, with a node on one way that the other does not
    have."""
    choice = node("Choice", "if", 2.2, conditions=test_of("={{ $json.data.length }}", "number", "gt", 1), options={})
    nodes = [ONE, choice, code("On the way", "return [{json: {v: 100}}, {json: {v: 200}}];"),
             set_to("Both", keeps=True, **fields)]  # fmt: skip
    return Drawn(name, ITEMS, nodes, items, gives, [("Begin", 0, "One", 0), ("One", 0, "Choice", 0), *links])


BY_NAME = [{"x": "name1"}, {"x": "name2"}, {"x": "name3"}]

DRAWN_PAIRS = (
    _in_loop("the item of a node before the loop, in an expression", set_to("K", x="={{ $('Named').item.json.n }}"),
             gives=BY_NAME),
    _in_loop("the item of a node before the loop, in code for all items",
             code("K", "return [{json: {x: $('Named').item.json.n}}];"), gives=BY_NAME),
    _in_loop("the item of a node before the loop, in code for each item",
             code("K", "return {json: {x: $('Named').item.json.n}};", mode="runOnceForEachItem"), gives=BY_NAME),
    _in_loop("the item of a node before the loop, in batches of two", set_to("K", x="={{ $('Named').item.json.n }}"),
             size=2, gives=BY_NAME),
    _in_loop("the item of a node before the loop, behind another node of its body", set_to("J", y=1),
             set_to("K", x="={{ $('Named').item.json.n + $json.y }}"),
             gives=[{"x": "name11"}, {"x": "name21"}, {"x": "name31"}]),
    _in_loop("the number of a pass, and whether it is the last, in batches of two",
             set_to("K", x="={{ $('Loop').context.currentRunIndex }}", y="={{ $node['Loop'].context['noItemsLeft'] }}"),
             size=2, gives=[{"x": "0", "y": "false"}, {"x": "0", "y": "false"}, {"x": "1", "y": "true"}]),
    _in_loop("the number of a pass in a condition", {**_above("filter"), "parameters": {"options": {}, "conditions":
             test_of("={{ $('Loop').context.currentRunIndex; }}", "number", "lt", 3)}}, gives=[
                 {"v": number, "n": f"name{number}"} for number in (1, 2, 3)]),
    _in_loop("the item in the same place of a node before the loop, in the older form",
             set_to("K", x="={{ $node['Named'].json.n }}", y="={{ $node['Loop'].json.n }}"),
             gives=[{"x": "name1", "y": f"name{number}"} for number in (1, 2, 3)]),
    _of_code("items in another order", "return items.reverse();", [3, 2, 1]),
    _of_code("some of the items", "return items.filter(each => each.json.v > 1);", [2, 3]),
    _of_code("the items from the second on", "return $input.all().slice(1);", [2, 3]),
    _of_code("as many new items", "return items.map(each => ({json: {z: each.json.v}}));", [1, 2, 3]),
    _of_code("items that say to which they belong",
             "return items.map((each, at) => ({json: {}, pairedItem: {item: 2 - at}}));", [3, 2, 1]),
    Drawn("code for all items gets them all where it is told to run once", ITEMS,
          [{**code("Made", "return $input.all().map(each => ({json: {n: $json.v}}));"), "executeOnce": True}, OF_BEGIN],
          THREE, [{"of": 1}, {"of": 2}, {"of": 3}]),
    Drawn("the older code for all items gets the first where it is told to run once", ITEMS,
          [{**node("Made", "function", 1, functionCode="return [{json: {n: items.length}}];"), "executeOnce": True}],
          THREE, [{"n": 1}]),
    _of_code("some of the items, with data that are kept",
             "$getWorkflowStaticData('global').n = 1; return items.slice(1);", [2, 3]),
    _of_python("two items of one", "return [{'json': {'n': 1}}, {'json': {'n': 2}}]", [2, 2], THREE[1:2]),
    _of_python("some of the items", "return [each for each in _input.all() if each['json']['v'] > 1]", [2, 3]),
    _of_python("as many new items", "return [{'json': {'n': 1}} for each in _input.all()]", [1, 2, 3]),
    _of_python("items that say to which they belong",
               "return [{'json': {}, 'pairedItem': {'item': 2}}, {'json': {}, 'pairedItem': 1}]", [3, 2]),
    Drawn("the last items of a list belong to the last that flowed in", ITEMS,
          [node("Sorted", "sort", 1, options={},
                sortFieldsUi={"sortField": [{"fieldName": "v", "order": "descending"}]}),
           node("Last", "limit", 1, maxItems=2, keep="lastItems"), OF_BEGIN], THREE, [{"of": 2}, {"of": 1}]),
    _chosen("what a node on one of two ways made goes on where they meet", ("Choice", 0, "On the way", 0),
            ("Choice", 1, "Both", 0), ("On the way", 0, "Both", 0), z=1,
            gives=[{"v": 100, "z": 1}, {"v": 200, "z": 1}]),
    _chosen("what the only node on one of two ways made goes on where they meet", ("Choice", 1, "On the way", 0),
            ("Choice", 0, "Both", 0), ("On the way", 0, "Both", 0), z=1, gives=[{"data": THREE, "z": 1}]),
    _chosen("the item of the way that was taken", ("Choice", 1, "On the way", 0), ("Choice", 0, "Both", 0),
            ("On the way", 0, "Both", 0), items=THREE[1:2], of="={{ $('Begin').item.json.v }}",
            gives=[{"v": 100, "of": "2"}, {"v": 200, "of": "2"}]),
    _chosen("the item of the way that was taken, behind one item of all", ("Choice", 1, "Both", 0),
            ("Choice", 0, "On the way", 0), ("On the way", 0, "Both", 0), items=THREE[1:2],
            of="={{ $('Begin').item.json.v }}", gives=[{"data": [{"v": 2}], "of": "2"}]),
    Drawn("a loop ends where a filter lets nothing through", ITEMS,
          [NAMED, batches(), _above("filter"), code("Done", "return items;")], THREE, [], through("Above")),
    Drawn("a loop ends where code gives nothing", ITEMS,
          [NAMED, batches(), code("K", "return $json.v === 2 ? [] : items;"), code("Done", "return items;")], THREE, [],
          through("K")),
    Drawn("a loop with two ways back hands on what came along each", ITEMS,
          [NAMED, batches(), _above("if"), set_to("K", w="={{ $json.n }}"), code("Done", "return items;")],
          [{"v": 3}, {"v": 1}, {"v": 2}], [{"w": "name3"}, {"v": 1, "n": "name1"}, {"w": "name2"}],
          [*through("Above", "K"), ("Above", 1, "Loop", 0)]),
    Drawn("a loop whose passes give several items", ITEMS,
          [NAMED, batches(batchSize=2), code("K", "return [...items, {json: {n: items.length}}];"),
           code("Done", "return items.map(each => ({json: {n: each.json.n}}));")], THREE,
          [{"n": each} for each in ("name1", "name2", 2, "name3", 1)], through("K")),
)  # fmt: skip

"""Where it is not known which item of another node belongs to the current one, nobody is given the first."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import pytest

from anabranch.handlers import builtin_types
from anabranch.n8n.exports import read_exports
from anabranch.n8n.importing import import_workflow
from anabranch.testing import WorkflowRun, run_workflow
from tests.n8n.drawn import Drawn, node, set_to
from tests.n8n.drawn import test_of as conditions_of
from tests.n8n.drawn_merges import merged
from tests.n8n.drawn_pairs import OF_BEGIN, THREE, batches, code, through

TYPES = builtin_types()


def run(drawn: Drawn) -> tuple[str, str, WorkflowRun]:
    """What the report says of the workflow and of its node that reads, and the run."""
    [workflow] = read_exports(drawn.export())
    made = import_workflow(workflow, TYPES)
    why = next(each.why for each in made.report.nodes if each.name == drawn.nodes[-1]["name"])
    return made.report.status, why, asyncio.run(run_workflow(made.document, {"n8nItems": list(drawn.items)}))


@pytest.mark.parametrize(
    "source",
    ["return items.flatMap(each => [{json: {}}, {json: {}}]);",
     "return items.slice(1).map(each => ({json: {z: each.json.v}}));", "return [{json: {n: items.length}}];",
     "return $('Begin').all().slice(1);"],
)  # fmt: skip
def test_code_whose_items_belong_to_none_fails_where_that_is_read_as_in_n8n(source: str) -> None:
    status, _, made = run(Drawn("pairs of code", "", [code("Made", source), OF_BEGIN], THREE, []))

    assert (status, made.status) == ("exact", "FAILED")
    assert made.error is not None
    assert "is not known" in made.error["message"]


def test_python_whose_items_belong_to_none_fails_where_that_is_read_as_in_n8n() -> None:
    made = node("Made", "code", 2, language="python", pythonCode="return [{'json': {'n': 1}}]")

    status, why, failed = run(Drawn("pairs of Python", "", [made, OF_BEGIN], THREE, []))

    assert (status, why, failed.status) == ("exact", "", "FAILED")


@pytest.mark.parametrize(
    "one",
    [node("All", "aggregate", 1, aggregate="aggregateAllItemData", options={}),
     node("Sum", "summarize", 1.1, options={}, fieldsToSummarize={"values": [{"aggregation": "sum", "field": "v"}]})],
    ids=lambda one: one["name"],
)  # fmt: skip
def test_one_item_of_several_belongs_to_none_as_in_n8n_unless_they_are_one(one: Mapping[str, Any]) -> None:
    status, why, made = run(Drawn("pairs of one item", "", [one, OF_BEGIN], THREE, []))
    _, _, alone = run(Drawn("pairs of one item", "", [one, OF_BEGIN], THREE[1:2], []))

    assert (status, why, made.status) == ("exact", "", "FAILED")
    assert alone.output == {"n8nItems": [{"of": 2}]}


@pytest.mark.parametrize(
    "parameters",
    [{"mode": "combine", "combineBy": "combineByPosition", "options": {}},
     {"mode": "combine", "combineBy": "combineAll", "options": {}}, {"mode": "chooseBranch", "output": "empty"},
     {"version": 1, "mode": "mergeByIndex", "join": "left"}],
)  # fmt: skip
def test_an_item_put_together_of_others_that_belong_to_several_fails_where_that_is_read(
    parameters: dict[str, Any],
) -> None:
    status, why, made = run(merged("pairs of two", [], **parameters))

    assert (status, why, made.status) == ("exact", "", "FAILED")


def test_items_of_which_nothing_is_known_in_one_of_several_branches_fail_where_that_is_read() -> None:
    nodes = [code("X", "return [{json: {y: 9}}];"), node("Both", "merge", 3, mode="append"), OF_BEGIN]
    links = [("Begin", 0, "X", 0), ("X", 0, "Both", 0), ("Begin", 0, "Both", 1), ("Both", 0, "Of", 0)]

    status, why, made = run(Drawn("pairs of branches", "", nodes, THREE, [], links))

    assert (status, why, made.status) == ("exact", "", "FAILED")


def test_items_of_branches_that_all_run_belong_each_to_its_own() -> None:
    choice = node("Choice", "if", 2.2, conditions=conditions_of("={{ $json.v }}", "number", "gt", 1), options={})
    turned = code("Turned", "return items.reverse();")
    nodes = [choice, turned, set_to("Of", keeps=True, of="={{ $('Begin').item.json.v }}")]
    links = [("Begin", 0, "Choice", 0), ("Choice", 0, "Turned", 0), ("Turned", 0, "Of", 0), ("Choice", 1, "Of", 0)]

    status, why, made = run(Drawn("pairs of all branches", "", nodes, THREE, [], links))

    assert (status, why) == ("exact", "")
    assert made.output == {"n8nItems": [{"v": each, "of": str(each)} for each in (1, 3, 2)]}


def test_code_that_reads_all_items_of_a_node_needs_to_know_nothing_of_pairs() -> None:
    one = node("All", "aggregate", 1, aggregate="aggregateAllItemData", options={})
    nodes = [one, code("Of", "return [{json: {n: $('Begin').all().length}}];")]

    status, why, made = run(Drawn("pairs that nobody reads", "", nodes, THREE, []))

    assert (status, why, made.output) == ("exact", "", {"n8nItems": [{"n": 3}]})


def test_the_items_that_belong_to_others_are_known_where_they_keep_their_order_only() -> None:
    reads = code("Of", "return items.map((_, at) => ({json: {of: $('Begin').itemMatching(at).json.v}}));")
    turned = code("Made", "return items.reverse();")

    status, why, _ = run(Drawn("pairs of others", "", [turned, reads], THREE, []))

    assert status == "equal"
    assert why == "which item of Begin belongs to another one is not known here: it is that in the same place"


@pytest.mark.parametrize(
    ("size", "reads", "said"),
    [(1, "={{ $runIndex }}", "`$runIndex` is 0 in each pass"),
     (1, "={{ $('Loop').context['items'].length }}", "the state of a loop (`context`) is nothing here"),
     (1, "={{ $('K').all().length }}", "what K gave in the pass before is not known here"),
     ("={{ $json.v }}", "x", "the size of its batches is computed once, and not for each pass")],
)  # fmt: skip
def test_what_n8n_knows_of_passes_is_said_not_to_be_known(size: int | str, reads: str, said: str) -> None:
    nodes = [set_to("Named", keeps=True, a="b"), batches(batchSize=size), set_to("K", x=reads), node("Done", "noOp", 1)]
    [workflow] = read_exports(Drawn("passes", "", nodes, THREE, [], through("K")).export())

    report = import_workflow(workflow, TYPES).report

    assert report.status != "exact"
    assert said in " ".join(each.why for each in report.nodes)


def test_items_that_called_workflows_give_for_each_belong_to_the_item_that_each_was_called_with() -> None:
    call = node("Call", "executeWorkflow", 1.2, mode="each", workflowId={"value": "x"}, options={})
    [workflow] = read_exports(Drawn("pairs of calls", "", [call, OF_BEGIN], THREE, []).export())
    made = import_workflow(workflow, TYPES)
    calls = next(each for each in made.document["nodes"] if each["id"] == "call")
    gives = [{"n8nItems": [{"a": 1}, {"a": 2}]}, {"n8nItems": []}, {"n8nItems": [{"a": 3}]}]
    calls.update(type="javascript", config={"code": f"return {json.dumps(gives)};"})
    calls.pop("forEach")

    ran = asyncio.run(run_workflow(made.document, {"n8nItems": THREE}))

    assert made.report.status == "exact"
    assert ran.output == {"n8nItems": [{"of": 1}, {"of": 1}, {"of": 3}]}

"""Where a workflow takes another way than most: what n8n 1.123.81 gives there, fails there, or the report says so."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from anabranch.handlers import builtin_types
from anabranch.n8n.exports import read_exports
from anabranch.n8n.importing import import_workflow
from anabranch.testing import run_workflow
from tests.n8n.drawn import Drawn, node, set_to
from tests.n8n.drawn import test_of as conditions_of
from tests.n8n.drawn_pairs import THREE, batches, code

TYPES = builtin_types()

FAILS = "fails"
NOT_EXACT = "not exact"


def given(
    *nodes: Mapping[str, Any],
    links: Sequence[tuple[str, int, str, int]] | None = None,
    items: Sequence[Mapping[str, Any]] = THREE,
) -> Any:
    """What comes out, that it fails, or that the report says that it is not exact."""
    [workflow] = read_exports(Drawn("other ways", "", nodes, items, [], links).export())
    made = import_workflow(workflow, TYPES)
    if made.report.status != "exact":
        assert any(each.why for each in made.report.nodes)
        return NOT_EXACT
    run = asyncio.run(run_workflow(made.document, {"n8nItems": list(items)}))
    return FAILS if run.status != "COMPLETED" else (run.output or {}).get("n8nItems", [])


LOOPED = [("Begin", 0, "Loop", 0), ("Loop", 0, "Done", 0), ("Loop", 1, "K", 0), ("K", 0, "Loop", 0)]
DONE = code("Done", "return items;")


def of_each(source: str, **more: Any) -> dict[str, Any]:
    """A code node for each item."""
    return node("Each", "code", 2, mode="runOnceForEachItem", jsCode=source, **more)


def test_a_parameter_that_a_node_does_not_have_may_read_the_state_of_a_loop() -> None:
    body = node("K", "noOp", 1, x="={{ $('Loop').context.noItemsLeft }}")

    assert given(batches(batchSize=2), body, DONE, links=LOOPED) == THREE


@pytest.mark.parametrize("place", [math.nan, math.inf, -math.inf, 1e308, 10**400])
def test_a_place_that_is_nowhere_is_the_beginning(place: float) -> None:
    note = node("Note", "stickyNote", 1, width=place, height=place)
    export = Drawn("places", "", [{**set_to("K", x=1), "position": [place, 0]}, note], [], []).export()
    [workflow] = read_exports(export)

    made = import_workflow(workflow, TYPES)

    assert all(abs(each["position"]["x"]) < 10_000 for each in made.document["nodes"])
    assert made.document["notes"][0]["size"] == {"width": 360, "height": 240}


@pytest.mark.parametrize(
    "source",
    ["return $json.v==2 ? null : {json:{x:$json.v}}", "if ($json.v === 2) return null; return {json: {x: $json.v}};",
     "let made = null; if ($json.v !== 2) made = {json: {x: $json.v}}; return made;"],
)  # fmt: skip
def test_an_item_for_which_code_returns_null_is_left_out(source: str) -> None:
    of = set_to("Of", keeps=True, of="={{ $('Begin').item.json.v }}")

    assert given(of_each(source), of) == [{"x": 1, "of": "1"}, {"x": 3, "of": "3"}]
    assert given(of_each(source), of, items=THREE[1:2]) == []
    assert given(of_each(source), of, items=THREE[2:]) == [{"x": 3, "of": "3"}]


def test_an_item_for_which_code_returns_null_is_left_out_beside_one_that_fails() -> None:
    of = set_to("Of", keeps=True, of="={{ $('Begin').item.json.v }}")
    source = "if ($json.v === 2) return null; if ($json.v === 1) throw new Error('one'); return {json: {x: $json.v}};"
    code = {**of_each(source), "onError": "continueRegularOutput"}

    failed, fine = given(code, of)
    assert ("one" in failed["error"], failed["of"], fine) == (True, "1", {"x": 3, "of": "3"})
    assert given(code, of, items=THREE[1:2]) == []
    assert given(code, of, items=THREE[2:]) == [{"x": 3, "of": "3"}]
    apart = {**code, "onError": "continueErrorOutput"}
    assert given(apart, of, items=THREE[1:2]) == []
    assert given(apart, of) == [{"x": 3, "of": "3"}]


@pytest.mark.parametrize(
    "source",
    ["return {json: {name: 'Rapid Trading Intl', at: '.toLocaleString(de)'}}",
     "// Intl.DateTimeFormat('de')\nreturn {json: {name: 'Rapid Trading Intl', at: \".toLocaleString(de)\"}}"],
)  # fmt: skip
def test_texts_in_code_are_no_texts_in_a_language(source: str) -> None:
    assert given(of_each(source), items=THREE[:1]) == [{"name": "Rapid Trading Intl", "at": ".toLocaleString(de)"}]


@pytest.mark.parametrize(
    "source",
    ["return {json: {x: new Intl.DateTimeFormat('de').format(new Date(0))}}",
     "return {json: {x: (1.5).toLocaleString('de')}}",
     "return {json: {x: `${'Intl' && (1.5).toLocaleString('de')}`}}"],
)  # fmt: skip
def test_code_that_writes_in_another_language_is_not_imported(source: str) -> None:
    assert given(of_each(source)) == NOT_EXACT


@pytest.mark.parametrize(
    ("read", "value"),
    [("$('Fields').params.assignments.assignments[0].value.includes('.v')", True),
     ("!$('Fields').isExecuted || $('Fields').params.assignments.assignments[0].name.length", 1),
     ("$('Fields').params.assignments.assignments[0].value + '$'", "={{ $json.v }}$"),
     ("[1].includes($('Fields').params.assignments.assignments[0].type.length)"
      " ? 'a' : \"$('Fields').params.assignments\"",
      "$('Fields').params.assignments")],
)  # fmt: skip
def test_what_is_read_of_parameters_is_as_they_are_written(read: str, value: Any) -> None:
    fields = set_to("Fields", keeps=True, x="={{ $json.v }}")
    shown = node("Shown", "set", 3.4, options={}, assignments={"assignments": [
        {"name": "read", "type": type(value).__name__.replace("str", "string").replace("int", "number")
         .replace("bool", "boolean"), "value": f"={{{{ {read} }}}}"}]})  # fmt: skip

    assert given(fields, shown, items=THREE[:1]) == [{"read": value}]


def test_parameters_that_are_not_written_are_not_read() -> None:
    fields = set_to("Fields", keeps=True, x="={{ $json.v }}")
    shown = set_to("Shown", read="={{ $('Fields').params.none.x }}")

    assert given(fields, shown) == NOT_EXACT


def test_a_node_that_reads_one_that_is_not_there_fails_as_in_n8n() -> None:
    reads = "=x{{ $('Missing').item.json['a b'] }}y"
    other = set_to("Other", x="={{ $json.v ? 1 : $('Missing').item.json.a }}")

    assert given(set_to("Shown", a=reads)) == FAILS
    assert given(node("Ask", "httpRequest", 4.2, url=reads, options={})) == FAILS
    assert given(set_to("Shown", a=reads), items=[]) == []
    assert given(other) == NOT_EXACT
    assert given({**set_to("Shown", a=reads), "onError": "continueRegularOutput"}) == NOT_EXACT
    assert given(node("If", "if", 2.2, conditions=conditions_of(reads, "string", "equals", "1"))) == NOT_EXACT


SWITCHED = node("By number", "switch", 3.2, mode="expression", numberOutputs=3, output="={{ $json.v }}")
WAYS = [("Begin", 0, "By number", 0), *(("By number", way, f"Way {way}", 0) for way in range(3)),
        *((f"Way {way}", 0, "End", 0) for way in range(3))]  # fmt: skip


def switched(*values: Any, **settings: Any) -> Any:
    """What comes of a switch by an expression: each item with the number of its way."""
    ends = [set_to(f"Way {way}", keeps=True, way=way) for way in range(3)]
    return given(
        {**SWITCHED, **settings}, *ends, node("End", "noOp", 1), links=WAYS, items=[{"v": value} for value in values]
    )


@pytest.mark.parametrize("value", [5, 3, -1, 1.5, None, "x"])
def test_a_switch_fails_for_an_output_that_it_does_not_have(value: Any) -> None:
    assert switched(value) == FAILS
    assert switched(0, value) == FAILS
    [said] = switched(value, onError="continueRegularOutput")
    assert set(said) == {"error", "way"}
    assert said["way"] == 0


@pytest.mark.parametrize(("value", "way"), [(0, 0), (2, 2), ("1", 1), (True, 1), ("", 0)])
def test_a_switch_takes_the_output_that_its_expression_says(value: Any, way: int) -> None:
    assert switched(value) == [{"v": value, "way": way}]
    assert switched(value, onError="continueRegularOutput") == [{"v": value, "way": way}]


def test_a_switch_fails_for_an_output_that_it_computes_of_nothing() -> None:
    computed = {**SWITCHED["parameters"], "output": "={{ $json.none.length }}"}

    assert switched(1, parameters=computed) == FAILS


@pytest.mark.parametrize(("count", "gives"), [(1, [{"way": 1}]), (2, [{"way": 2}]), (3, FAILS)])
def test_a_switch_of_one_item_does_so_as_well(count: int, gives: Any) -> None:
    one = node("One", "aggregate", 1, aggregate="aggregateAllItemData", options={})
    computed = {**SWITCHED, "parameters": {**SWITCHED["parameters"], "output": "={{ $json.data.length }}"}}
    ends = [set_to(f"Way {way}", way=way) for way in range(3)]
    links = [("Begin", 0, "One", 0), ("One", 0, "By number", 0), *WAYS[1:]]

    assert given(one, computed, *ends, node("End", "noOp", 1), links=links, items=THREE[:count]) == gives


def looped(expression: str) -> Any:
    """What an expression gives in a loop over batches of two."""
    links = [("Begin", 0, "Loop", 0), ("Loop", 0, "Done", 0), ("Loop", 1, "K", 0), ("K", 0, "Loop", 0)]
    return given(batches(batchSize=2), set_to("K", x=f"={{{{ {expression} }}}}"), DONE, links=links)


@pytest.mark.parametrize(
    ("expression", "gives"),
    [("$input.all().length", [2, 2, 1]), ("$input.first().json.v", [1, 1, 3]), ("$input.last().json.v", [2, 2, 3]),
     ("$items().length", [2, 2, 1]), ("$input.all()[0].json.v + 1", [2, 2, 4])],
)  # fmt: skip
def test_a_batch_is_all_that_flows_in(expression: str, gives: list[int]) -> None:
    assert looped(expression) == [{"x": str(each)} for each in gives]


ABOVE = node("Choice", "if", 2.2, conditions=conditions_of("={{ $json.v }}", "number", "gt", 1), options={})


@pytest.mark.parametrize(
    ("output", "expression", "gives"),
    [(0, "$('Choice').all().length", ["2", "2"]), (1, "$('Choice').all().length", ["1"]),
     (1, "$('Choice').first().json.v", ["1"]), (1, "$('Choice').last().json.v", ["1"]),
     (1, "$node['Choice'].json.v", ["1"]), (1, "$('Choice').item.json.v", ["1"])],
)  # fmt: skip
def test_what_is_read_of_a_node_with_two_outputs_is_what_leads_there(
    output: int, expression: str, gives: list[str]
) -> None:
    reader = set_to("X", x=f"={{{{ {expression} }}}}")

    made = given(ABOVE, reader, links=[("Begin", 0, "Choice", 0), ("Choice", output, "X", 0)])

    assert made == [{"x": each} for each in gives]


def test_which_of_two_outputs_is_read_where_both_lead_there_is_not_known() -> None:
    links = [
        ("Begin", 0, "Choice", 0),
        ("Choice", 0, "A", 0),
        ("Choice", 1, "B", 0),
        ("A", 0, "X", 0),
        ("B", 0, "X", 0),
    ]
    nodes = [ABOVE, set_to("A", keeps=True, a=1), set_to("B", keeps=True, b=1)]

    assert given(*nodes, set_to("X", x="={{ $('Choice').all().length }}"), links=links) == NOT_EXACT
    assert given(*nodes, code("X", "return $('Choice').all();"), links=links) == NOT_EXACT
    assert given(*nodes, set_to("X", x="={{ $('Choice').item.json.v }}"), links=links) == [
        {"x": "2"}, {"x": "3"}, {"x": "1"}]  # fmt: skip


@pytest.mark.parametrize(
    "reader",
    [set_to("X", x="={{ $('Begin').pairedItem().json.v }}"), set_to("X", x="={{ $item(1).$node['Begin'].json.v }}"),
     set_to("X", x="={{ $node['Begin'].runIndex }}"),
     code("X", "return [{json: {p: $('Begin').params}}];"), code("X", "return [{json: {p: $input.params}}];"),
     code("X", "return [{json: {p: $input.context}}];"), of_each("return {json: {n: $input.all().length}};")],
)  # fmt: skip
def test_names_that_mean_nothing_here_are_not_exact(reader: Mapping[str, Any]) -> None:
    assert given(reader) == NOT_EXACT


def test_what_is_read_of_a_node_that_failed_is_what_leads_there() -> None:
    each = of_each("if ($json.v === 2) throw new Error('two'); return {json: {n: $json.v}};")
    reader = set_to("X", x="={{ $('Each').all().length }}")

    made = given(
        {**each, "onError": "continueErrorOutput"}, reader, links=[("Begin", 0, "Each", 0), ("Each", 1, "X", 0)]
    )

    assert made == [{"x": "1"}]


A_AND_ALL = [("Begin", 0, "A", 0), ("A", 0, "Both", 0), ("Begin", 0, "Both", 1), ("Both", 0, "X", 0)]


def test_an_item_that_came_another_way_than_by_a_node_has_none_of_it() -> None:
    nodes = [set_to("A", keeps=True, w="={{ $json.v * 10 }}"), node("Both", "merge", 3, mode="append")]
    reader = set_to("X", keeps=True, x="={{ $('A').item.json.w }}")

    made = given(*nodes, reader, links=A_AND_ALL)

    assert [each["x"] for each in made] == ["10", "20", "30", None, None, None]


def test_an_item_that_came_the_other_way_of_a_choice_has_none_of_a_node_on_the_one() -> None:
    links = [("Begin", 0, "Choice", 0), ("Choice", 1, "X", 0), ("Choice", 0, "A", 0), ("A", 0, "X", 0)]
    reader = set_to("X", keeps=True, x="={{ $('A').item.json.v }}")

    made = given(ABOVE, set_to("A", keeps=True, a=1), reader, links=links)

    assert {each["v"]: each["x"] for each in made} == {1: None, 2: "2", 3: "3"}


def test_items_that_a_switch_hands_to_a_node_by_several_outputs_are_not_exact() -> None:
    rules = {"values": [{"conditions": conditions_of("={{ $json.v }}", "number", "gt", least)} for least in (1, 2)]}
    links = [("Begin", 0, "Ways", 0), ("Ways", 0, "X", 0), ("Ways", 1, "X", 0)]
    ways = node("Ways", "switch", 3.2, rules=rules, options={"allMatchingOutputs": True})

    assert given(ways, set_to("X", keeps=True, x=1), links=links) == NOT_EXACT


def test_code_knows_of_a_branch_that_no_item_took_that_its_nodes_did_not_run() -> None:
    links = [
        ("Begin", 0, "Choice", 0),
        ("Choice", 0, "A", 0),
        ("Choice", 1, "B", 0),
        ("A", 0, "X", 0),
        ("B", 0, "X", 0),
    ]
    reads = [{"name": name.lower(), "type": "boolean", "value": f"={{{{ $('{name}').isExecuted }}}}"} for name in "AB"]
    ran = node("X", "set", 3.4, options={}, assignments={"assignments": reads})
    nodes = [ABOVE, set_to("A", a=1), set_to("B", b=1), ran]
    may_give_none = [ABOVE, code("A", "return [];"), set_to("B", b=1), ran]

    assert given(*nodes, links=links, items=THREE[:1]) == [{"a": False, "b": True}]
    assert given(*nodes, links=links, items=THREE[1:2]) == [{"a": True, "b": False}]
    assert given(*may_give_none, links=links) == NOT_EXACT


def test_an_item_that_came_by_code_that_says_nothing_of_its_items_fails_where_that_is_read() -> None:
    links = [("Begin", 0, "A", 0), ("A", 0, "Both", 0), ("Begin", 0, "K", 0), ("K", 0, "Both", 1), ("Both", 0, "X", 0)]
    nodes = [set_to("A", a=1), code("K", "return [{json: {}}];"), node("Both", "merge", 3, mode="append")]

    assert given(*nodes, set_to("X", x="={{ $('A').item.json.a }}"), links=links) == FAILS


def test_code_fails_for_an_item_that_came_another_way_than_by_a_node() -> None:
    nodes = [set_to("A", keeps=True, w=1), node("Both", "merge", 3, mode="append")]
    reader = node("X", "code", 2, mode="runOnceForEachItem", jsCode="return {json: {x: $('A').item?.json?.w}};")

    assert given(*nodes, reader, links=A_AND_ALL) == FAILS

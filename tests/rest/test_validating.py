"""What an editor is told while somebody draws: handles, variables, references, structure, places and fixes."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tests.rest.conftest import Served
from tests.rest.drawing import chain, echo


def edge(source: str, target: str, handle: str | None = None) -> dict[str, Any]:
    return {"upstreamNodeID": source, "downstreamNodeID": target, "sourceHandle": handle}


def values(node_id: str, **given: Any) -> dict[str, Any]:
    return {"id": node_id, "type": "set", "config": {"values": given}, "outputVariable": node_id}


IF = {"id": "if", "type": "condition", "config": {"branches": [{"id": "yes", "expression": "{{ctx.input.ok}}"}]}}
EACH = {"id": "each", "type": "loop", "config": {"source": "{{ctx.always.list}}"}, "outputVariable": "results_"}

GRAPH: dict[str, Any] = {
    "nodes": [
        {"id": "start", "type": "start"},
        values("always", list=[1]),
        IF,
        values("maybe", x=1),
        EACH,
        values("inner", url="x{{ ctx.always.list[0] }}é{{ctx['maybe'].x}}"),
        values("last", v=1),
        values("island", v=1),
    ],
    "edges": [
        edge("start", "always"),
        edge("always", "if"),
        edge("if", "maybe", "yes"),
        edge("if", "each", "else"),
        edge("maybe", "each"),
        edge("each", "inner", "loop"),
        edge("inner", "each"),
        edge("each", "last", "done"),
    ],
    "workflowOptions": {"inputSchema": {"type": "object", "properties": {"ok": {"type": "boolean"}}}},
}


# `maybe` and `each` lead to each other, and each is entered from `if`.
KNOT = [edge("each", "maybe", "done")]

# `if` leads back to `always`, from where each pass leads to `island`, as does the start.
SIDE = [edge("if", "always", "yes"), edge("always", "island"), edge("start", "island")]


async def told(served: Served, document: dict[str, Any], *aspects: str) -> dict[str, Any]:
    answered = await served.ask("POST", "/v1/validate", json={**document, "with": list(aspects)}, role="viewer")
    assert answered.status == 200, answered.text
    found: dict[str, Any] = answered.json
    return found


async def test_without_with_the_answer_is_as_it_was(served: Served):
    answered = (await served.ask("POST", "/v1/validate", json=echo())).json
    assert answered.keys() == {"valid", "errors", "warnings", "terminates", "unbounded", "activationsMax"}


async def test_handles_are_those_of_each_nodes_config_in_order(served: Served):
    nodes = (await told(served, GRAPH, "handles"))["nodes"]
    assert nodes["if"] == {"handles": ["yes", "else", "error"]}
    assert nodes["each"] == {"handles": ["loop", "done", "error"]}
    assert nodes["start"] == {"handles": ["default"]}


async def test_variables_say_who_writes_them_and_whether_somebody_certainly_has(served: Served):
    nodes = (await told(served, GRAPH, "variables"))["nodes"]
    schema = {"type": "object", "properties": {"list": {}}}
    seen = nodes["last"]["variables"]
    assert seen["always"] == {"certain": "always", "writers": ["always"], "schema": schema}
    assert (seen["maybe"]["certain"], seen["maybe"]["writers"]) == ("maybe", ["maybe"])
    assert seen["results_"] == {"certain": "always", "writers": ["each"], "schema": {"type": "array"}}
    assert seen["input"] == {
        "certain": "always",
        "writers": [],
        "schema": GRAPH["workflowOptions"]["inputSchema"],
    }
    assert "inner" not in seen, "what a body writes stays in its iteration"
    inside = nodes["inner"]["variables"]
    assert {"item", "index", "count", "always", "maybe"} <= inside.keys()
    assert (inside["item"]["writers"], "results" in inside, "item" in seen) == (["each"], False, False)
    assert nodes["each"]["iteration"]["inner"]["certain"] == "maybe"
    assert nodes["island"] == {}, "nothing leads there"


async def test_references_are_the_spans_of_names_in_templates(served: Served):
    nodes = (await told(served, GRAPH, "references"))["nodes"]
    text = "x{{ ctx.always.list[0] }}é{{ctx['maybe'].x}}"
    found = nodes["inner"]["references"]
    assert found == [
        {"pointer": "/config/values/url", "start": 8, "end": 14, "path": ["always", "list"]},
        {"pointer": "/config/values/url", "start": 33, "end": 38, "path": ["maybe", "x"]},
    ]
    assert [text[each["start"] : each["end"]] for each in found] == ["always", "maybe"]
    assert nodes["if"]["references"][0]["pointer"] == "/config/branches/0/expression"
    astral = chain(None, values("a", v="\U0001f600{{ctx.input}}"))
    (reference,) = (await told(served, astral, "references"))["nodes"]["a"]["references"]
    assert (reference["start"], reference["end"]) == (8, 13), "as JavaScript counts"


async def test_the_structure_names_homes_and_edges_by_pointer(served: Served):
    structure = (await told(served, GRAPH, "structure"))["structure"]
    assert structure == {
        "homes": {"inner": "each"},
        "regions": [],
        "returning": ["/edges/6"],
        "unreachable": ["island"],
        "neverLive": [],
    }
    off = copy.deepcopy(GRAPH)
    off["nodes"][2]["disabled"] = True
    assert (await told(served, off, "structure"))["structure"]["neverLive"] == ["/edges/2", "/edges/4"]


async def test_a_graph_that_is_not_sound_gets_what_can_be_told(served: Served):
    knotted = copy.deepcopy(GRAPH)
    knotted["edges"] += KNOT
    answer = await told(served, knotted, "handles", "variables", "references", "structure")
    assert [error["code"] for error in answer["errors"]] == ["CYCLE"]
    assert answer["structure"]["homes"] == {"inner": "each"}
    assert answer["structure"]["unreachable"] == ["island"]
    assert answer["nodes"]["if"]["handles"] == ["yes", "else", "error"]
    assert answer["nodes"]["inner"]["references"]
    nothing = await told(served, {"nodes": 5}, "handles", "structure")
    assert (nothing["nodes"], nothing["structure"]["homes"]) == ({}, {})


@pytest.mark.parametrize(
    ("change", "code", "title"),
    [
        (lambda g: g["edges"][3].update(sourceHandle="esle"), "UNKNOWN_HANDLE", "use 'else'"),
        (lambda g: g["edges"][4].update(upstreamNodeID="maybee"), "EDGE_FROM_NOWHERE", "use 'maybe'"),
        (lambda g: g["nodes"][1].update(type="sett"), "UNKNOWN_TYPE", "use 'set'"),
        (lambda g: g["nodes"][1].update(joinMod="any"), "UNKNOWN_FIELD", "call it 'joinMode'"),
        (lambda g: g["nodes"][2].update(branches=[]), "UNKNOWN_FIELD", "remove it"),
        (lambda g: g["nodes"][1]["config"].update(value={}), "CONFIG_INVALID", "remove it"),
        (lambda g: g["nodes"][0].update(disabled=True), "START_DISABLED", "remove `disabled`"),
        (lambda g: g["nodes"][1].update(id="start"), "DUPLICATE_NODE_ID", "call it 'start-2'"),
        (lambda g: g.update(name="My Flow"), "BAD_NAME", "use 'my-flow'"),
        (lambda g: g["nodes"][1].update(errorHandling="continue"), "CONTINUE_WITHOUT_ERROR_EDGE", "ignore failures"),
        (lambda g: g["edges"].extend(KNOT), "CYCLE", "remove the edge"),
        (lambda g: g["nodes"].pop(0), "NO_START", "add a start node"),
        (lambda g: g["edges"].append(edge("last", "always")), "LOOP_SPINS", "wait 10s before each pass"),
        (lambda g: g["edges"].append(edge("last", "always")), "LOOP_NEVER_LEFT", "remove the edge back"),
        (lambda g: g["edges"].extend(SIDE), "EXIT_RUNS_ONCE", "lead there by 'else' of 'if', which ends the loop"),
        (lambda g: g["edges"].extend(SIDE), "EXIT_RUNS_ONCE", "remove the edge"),
    ],
)
async def test_a_problem_has_fixes_that_mend_it(served: Served, change: Any, code: str, title: str):
    document = copy.deepcopy(GRAPH)
    change(document)
    answer = await told(served, document)
    problem = next(each for each in (*answer["errors"], *answer["warnings"]) if each["code"] == code)
    fix = next(each for each in problem["fixes"] if each["title"] == title)
    for operation in fix["patch"]:
        patch(document, operation)
    mended = await told(served, document)
    assert all(
        (each["code"], each.get("pointer")) != (code, problem["pointer"])
        for each in (*mended["errors"], *mended["warnings"])
    )


async def test_every_problem_has_a_list_of_fixes_once_with_is_given(served: Served):
    document = copy.deepcopy(GRAPH)
    document["edges"][3]["sourceHandle"] = "esle"
    answer = await told(served, document)
    assert "nodes" not in answer
    assert all(isinstance(each["fixes"], list) for each in (*answer["errors"], *answer["warnings"]))
    assert next(each for each in answer["errors"] if each["code"] == "UNKNOWN_HANDLE")["fixes"][0] == {
        "title": "use 'else'",
        "patch": [{"op": "replace", "path": "/edges/3/sourceHandle", "value": "else"}],
    }


async def test_code_that_does_not_compile_says_at_which_line_and_column(served: Served):
    document = chain(None, {"id": "code", "type": "python", "config": {"code": "x = 1\nreturn (x"}})
    for extra in ({}, {"with": []}):
        answer = (await served.ask("POST", "/v1/validate", json={**document, **extra})).json
        (error,) = answer["errors"]
        assert (error["code"], error["pointer"], error["range"]["line"]) == ("CODE_INVALID", "/nodes/1/config/code", 2)
        assert f"line 2, column {error['range']['column']}" in error["message"]


async def test_a_draft_is_checked_by_its_revision(served: Served):
    made = (await served.ask("POST", "/v1/drafts", json={"document": GRAPH}, role="editor")).json
    asked = {"draftID": made["draftID"], "revision": 1, "with": ["handles"]}
    answer = (await served.ask("POST", "/v1/validate", json=asked, role="viewer")).json
    assert answer == await told(served, GRAPH, "handles")
    plain = (await served.ask("POST", "/v1/validate", json={"draftID": made["draftID"], "revision": 1})).json
    assert plain == (await served.ask("POST", "/v1/validate", json=GRAPH)).json
    refused = await served.ask("POST", "/v1/validate", json={**asked, "revision": 2})
    assert (refused.status, refused.code) == (412, "DRAFT_CONFLICT")
    refused = await served.ask("POST", "/v1/validate", json=asked, role="other")
    assert (refused.status, refused.code) == (404, "NOT_FOUND")
    for wrong in ({"with": ["everything"]}, {"with": "handles"}, {"draftID": made["draftID"]}):
        refused = await served.ask("POST", "/v1/validate", json=wrong)
        assert (refused.status, refused.code) == (422, "INVALID_REQUEST"), wrong


def patch(document: Any, operation: dict[str, Any]) -> None:
    """Apply one operation of a JSON patch."""
    holder, name = holder_of(document, operation["path"])
    if operation["op"] == "move":
        origin, old = holder_of(document, operation["from"])
        holder[name] = origin.pop(old)
    elif operation["op"] == "remove":
        holder.pop(name)
    elif name == "-":
        holder.append(operation["value"])
    else:
        holder[name] = operation["value"]


def holder_of(document: Any, pointer: str) -> tuple[Any, Any]:
    *steps, last = (step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:])
    for step in steps:
        document = document[int(step)] if isinstance(document, list) else document[step]
    return document, int(last) if isinstance(document, list) and last != "-" else last

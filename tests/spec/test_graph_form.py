"""The form of a drawn workflow: what is refused before anybody asks what a node does."""

from __future__ import annotations

import json
from typing import Any

import pytest

from anabranch.engine.rules.graph.document import (
    DOCUMENT_BYTES_MAX,
    EDGES_MAX,
    NODES_MAX,
    TITLE_LENGTH_MAX,
    derive_name,
    is_name,
    parse,
)
from tests.spec.drawings import condition, drawn, errors, report, warnings, writes

FINE = "start>a, a>b"


def with_node(**fields: Any) -> dict[str, Any]:
    """A workflow with one node that has these fields."""
    return drawn("start>a", a=fields)


def with_edge(**fields: Any) -> dict[str, Any]:
    """A workflow whose only edge has these fields changed."""
    document = drawn("start>a")
    document["edges"][0].update(fields)
    return document


def test_a_sound_workflow_is_accepted_without_a_word():
    answer = report(drawn(FINE, title="Order triage", name="order-triage")).as_json()
    assert answer == {
        "valid": True, "errors": [], "warnings": [], "terminates": True, "unbounded": [], "activationsMax": 3,
    }  # fmt: skip


def test_a_problem_names_its_code_its_place_and_what_to_do():
    (problem,) = report(drawn(FINE, a={"type": "sett"})).as_json()["errors"]
    assert problem == {
        "code": "UNKNOWN_TYPE",
        "message": "'a' has the node type 'sett', which is not registered",
        "nodeID": "a",
        "pointer": "/nodes/1/type",
        "hint": "Did you mean 'set'?",
    }


def test_all_problems_are_reported_at_once():
    document = drawn("start>a, a.nope>b", a={"joinMode": "most"}, b={"outputVariable": "input"})
    assert set(errors(document)) == {
        ("UNKNOWN_JOIN_MODE", "a"), ("UNKNOWN_HANDLE", "e1"), ("BAD_OUTPUT_VARIABLE", "b"),
    }  # fmt: skip


def test_there_is_exactly_one_start():
    assert errors(drawn("a>b", start={"type": "set"})) == [("NO_START", None)]
    assert errors(drawn("start>a", other={"type": "start"})) == [("SEVERAL_STARTS", "other")]


def test_ids_are_unique():
    document = drawn(FINE)
    document["nodes"].append({"id": "a", "type": "set", "config": {"values": {}}})
    document["edges"].append({**document["edges"][0]})
    assert set(errors(document)) == {("DUPLICATE_NODE_ID", "a"), ("DUPLICATE_EDGE_ID", "e0")}


def test_edges_without_ids_and_equal_edges_are_allowed():
    document = drawn("start>a, start>a")
    for edge in document["edges"]:
        del edge["id"]
    assert report(document).valid


@pytest.mark.parametrize("node_id", ["", "x" * 129, "a/b", "a[0]", "a]", "a#2", "a@1", "a\nb", "a\x7f"])
def test_a_node_id_that_scopes_could_not_hold_is_refused(node_id: str):
    assert errors(drawn(f"start>{node_id}")) == [("BAD_NODE_ID", node_id)]


@pytest.mark.parametrize("node_id", ["x", "x" * 128, "Fetch orders!", "größe-1", "constructor"])
def test_any_other_node_id_is_allowed(node_id: str):
    assert report(drawn(f"start>{node_id}")).valid


def test_edges_start_and_end_somewhere():
    assert errors(with_edge(upstreamNodeID="gone")) == [("EDGE_FROM_NOWHERE", "e0")]
    assert errors(with_edge(downstreamNodeID="gone")) == [("EDGE_TO_NOWHERE", "e0")]


def test_no_edge_leads_into_start():
    assert errors(drawn("start>a, a>start")) == [("EDGE_INTO_START", "e1")]
    assert errors(drawn("start>start")) == [("EDGE_INTO_START", "e0")]


@pytest.mark.parametrize("handle", [None, "default"])
def test_the_default_handle_has_three_spellings(handle: str | None):
    assert report(with_edge(sourceHandle=handle)).valid
    document = drawn("start>a")
    del document["edges"][0]["sourceHandle"]
    assert report(document).valid


@pytest.mark.parametrize("handle", ["", "error", "done", "Default"])
def test_start_has_no_other_handle_than_default(handle: str):
    assert errors(with_edge(sourceHandle=handle)) == [("UNKNOWN_HANDLE", "e0")]


def test_a_condition_and_a_loop_have_no_default_handle_and_an_end_has_none():
    assert errors(drawn("start>c, c>a", c=condition("yes"))) == [("UNKNOWN_HANDLE", "e1")]
    looped = {"type": "loop", "config": {"source": []}}
    assert errors(drawn("start>l, l>a", l=looped)) == [("UNKNOWN_HANDLE", "e1")]
    assert errors(drawn("start>x, x>a, x.error>a", x={"type": "end"})) == [
        ("UNKNOWN_HANDLE", "e1"), ("UNKNOWN_HANDLE", "e2"),
    ]  # fmt: skip


@pytest.mark.parametrize("name", ["input", "output", "item", "index", "count", "results", "secret", "__a", "a__b"])
def test_reserved_variables_are_refused(name: str):
    assert errors(with_node(**writes(name))) == [("BAD_OUTPUT_VARIABLE", "a")]


@pytest.mark.parametrize("name", ["", "1st", "a-b", "a b", "a.b", "x" * 256])
def test_a_variable_is_an_identifier(name: str):
    assert errors(with_node(**writes(name))) == [("BAD_OUTPUT_VARIABLE", "a")]


@pytest.mark.parametrize("branch", ["default", "else", "error"])
def test_branches_are_not_called_like_other_handles(branch: str):
    assert ("RESERVED_BRANCH_ID", "c") in errors(drawn("start>c", c=condition(branch)))


def test_branches_of_one_condition_have_different_ids():
    assert errors(drawn("start>c", c=condition("yes", "yes"))) == [("DUPLICATE_BRANCH_ID", "c")]


@pytest.mark.parametrize(
    ("field", "value", "code"),
    [
        ("joinMode", "ALL", "UNKNOWN_JOIN_MODE"),
        ("joinMode", ["all"], "UNKNOWN_JOIN_MODE"),
        ("errorHandling", "retry", "UNKNOWN_ERROR_HANDLING"),
        ("retry", {"maxAttempts": 0}, "BAD_RETRY"),
        ("retry", [], "BAD_RETRY"),
        ("timeout", "soon", "BAD_TIMEOUT"),
        ("timeout", 0, "BAD_TIMEOUT"),
        ("timeout", -1, "BAD_TIMEOUT"),
        ("timeout", {}, "BAD_TIMEOUT"),
        ("config", [], "WRONG_TYPE"),
        ("name", 1, "WRONG_TYPE"),
        ("position", "top", "WRONG_TYPE"),
        ("type", None, "MISSING_FIELD"),
        ("type", 7, "WRONG_TYPE"),
    ],
)
def test_a_field_of_a_node_that_cannot_be_read_is_refused(field: str, value: Any, code: str):
    assert errors(with_node(**{field: value})) == [(code, "a")]


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"retention": "for ever"}, "BAD_RETENTION"),
        ({"pool": "GPU!"}, "BAD_POOL"),
        ({"priority": "urgent"}, "BAD_PRIORITY"),
        ({"deadline": "0s"}, "BAD_DEADLINE"),
        ({"inputSchema": {"type": "objekt"}}, "BAD_INPUT_SCHEMA"),
        ({"inputSchema": []}, "BAD_INPUT_SCHEMA"),
        ({"inputSchema": {"$ref": "http://127.0.0.1/schema"}}, "BAD_INPUT_SCHEMA"),
        ({"inputSchema": {"properties": {"a": {"$ref": "file:///etc/passwd"}}}}, "BAD_INPUT_SCHEMA"),
        ([], "WRONG_TYPE"),
    ],
)
def test_options_that_cannot_be_read_are_refused(options: Any, code: str):
    assert errors(drawn(FINE, workflowOptions=options)) == [(code, None)]


def test_options_are_read():
    schema = {"type": "object", "required": ["url"], "properties": {"next": {"$ref": "#"}}}
    graph = parse(drawn(FINE, workflowOptions={"retention": "7d", "deadline": "PT1H", "inputSchema": schema}))
    assert (graph.retention_ms, graph.deadline_ms, graph.input_schema) == (604_800_000, 3_600_000, schema)


@pytest.mark.parametrize("name", ["", "Order", "-a", "a b", "ä", "x" * 65, "a\n"])
def test_a_name_has_the_form_of_a_name(name: str):
    assert errors(drawn(FINE, name=name)) == [("BAD_NAME", None)]


@pytest.mark.parametrize(
    ("title", "name"),
    [
        ("Order triage", "order-triage"),
        ("  Größe & Maße: 2. Versuch!  ", "groe-mae-2-versuch"),
        ("注文", "workflow"),
        ("", "workflow"),
        ("-_-", "workflow"),
        ("x" * 63 + " y", "x" * 63),
    ],
)
def test_a_title_makes_a_name(title: str, name: str):
    assert derive_name(title) == name
    assert is_name(name)


@pytest.mark.parametrize("key", ["__proto__", "constructor", "prototype"])
def test_keys_that_could_pollute_a_browser_are_refused_at_any_depth(key: str):
    document = drawn("start>a", a={"config": {"values": {"x": [{key: 1}]}}})
    (problem,) = report(document).errors
    assert (problem.code, problem.pointer) == ("FORBIDDEN_KEY", f"/nodes/1/config/values/x/0/{key}")


def test_an_unknown_field_is_a_warning_once_per_kind():
    document = drawn(FINE, a={"color": "red"}, b={"color": "blue", "width": 3})
    document["edges"][0]["animated"] = document["palette"] = True
    found = [(problem.code, problem.pointer) for problem in report(document).warnings]
    assert sorted(found) == [
        ("UNKNOWN_FIELD", "/edges/0/animated"),
        ("UNKNOWN_FIELD", "/nodes/1/color"),
        ("UNKNOWN_FIELD", "/nodes/2/width"),
        ("UNKNOWN_FIELD", "/palette"),
    ]


def test_fields_of_editors_and_of_the_server_are_not_warned_about():
    document = drawn(FINE, a={"x-color": "red"}) | {"viewport": {"x": 1}, "notes": [], "$schema": "s", "x-team": 1}
    document |= {"workflowID": "w", "kind": "drawn", "version": 3, "runCounts": {}, "createdAt": "t", "updatedAt": "t"}
    assert report(document).warnings == ()


def test_fields_without_an_effect_are_warned_about_where_they_ask_for_one():
    document = drawn(FINE, a={"batchSize": 5}, b={"heartbeatTimeout": False, "pool": None})
    assert [(each.code, each.pointer) for each in report(document).warnings] == [
        ("FIELD_WITHOUT_EFFECT", "/nodes/1/batchSize"),
    ]


@pytest.mark.parametrize(
    ("place", "field", "hint"),
    [
        ("workflow", "inputSchema", "'inputSchema' belongs in workflowOptions."),
        ("workflow", "joinMode", "'joinMode' belongs in a node."),
        ("workflow", "workflowoptions", "Did you mean 'workflowOptions'?"),
        ("node", "deadline", "'deadline' belongs in workflowOptions."),
        ("node", "sourceHandle", "'sourceHandle' belongs in an edge."),
        ("node", "values", "'values' belongs in the node's config."),
        ("node", "output_variable", "Did you mean 'outputVariable'?"),
        ("node", "maxAttempts", "'maxAttempts' belongs in the `retry` of a node."),
        ("edge", "source", "Did you mean 'upstreamNodeID'?"),
        ("edge", "to", "Did you mean 'downstreamNodeID'?"),
        ("edge", "source_handle", "Did you mean 'sourceHandle'?"),
    ],
)
def test_an_unknown_field_says_where_it_belongs_or_how_it_is_spelled(place: str, field: str, hint: str):
    document = drawn("start>a", a={"type": "set", "config": {"values": {}}})
    target = {"workflow": document, "node": document["nodes"][1], "edge": document["edges"][0]}[place]
    target[field] = {}
    (problem,) = report(document).warnings
    assert (problem.code, problem.hint) == ("UNKNOWN_FIELD", hint)


@pytest.mark.parametrize(
    ("field", "hint"),
    [
        ("retry", "'retry' belongs to the node, beside `config`."),
        ("outputVariable", "'outputVariable' belongs to the node, beside `config`."),
        ("value", "Did you mean 'values'?"),
        ("zzz", "It has base, drop, keep, values."),
    ],
)
def test_an_unknown_field_of_a_config_says_what_was_meant(field: str, hint: str):
    document = drawn("start>a", a={"type": "set", "config": {"values": {}, field: {}}})
    (problem,) = report(document).errors
    assert (problem.code, problem.pointer, problem.hint) == ("CONFIG_INVALID", f"/nodes/1/config/{field}", hint)


def test_a_type_in_other_capitals_is_suggested():
    (problem,) = report(drawn("start>a", a={"type": "HTTPREQUEST"})).errors
    assert problem.hint == "Did you mean 'httpRequest'?"


def test_titles_and_documents_have_a_limit():
    assert report(drawn(FINE, title="x" * TITLE_LENGTH_MAX)).valid
    assert errors(drawn(FINE, title="x" * (TITLE_LENGTH_MAX + 1))) == [("TITLE_TOO_LONG", None)]
    room = DOCUMENT_BYTES_MAX - len(json.dumps({**drawn(FINE), "notes": ""}, separators=(",", ":")))
    assert report({**drawn(FINE), "notes": "x" * room}).valid
    assert errors({**drawn(FINE), "notes": "x" * (room + 1)}) == [("DOCUMENT_TOO_LARGE", None)]


def test_a_coded_workflow_is_not_saved_as_a_drawn_one():
    assert errors({**drawn(FINE), "kind": "coded"}) == [("NOT_DRAWN", None)]


N8N_NODE = {
    "parameters": {"url": "https://example.org"},
    "id": "f9",
    "name": "Fetch",
    "type": "n8n-nodes-base.httpRequest",
    "typeVersion": 4,
    "position": [0, 0],
}


@pytest.mark.parametrize(
    "document",
    [
        {"name": "Fetch", "nodes": [N8N_NODE], "connections": {}, "settings": {}},
        {"nodes": [{**N8N_NODE, "type": "@n8n/n8n-nodes-langchain.agent"}], "connections": {}},
        {"nodes": [{**N8N_NODE, "type": "CUSTOM.thing"}], "connections": {"Fetch": {}}},
        [{"nodes": [N8N_NODE], "connections": {}}],
    ],
    ids=["plain", "langchain", "own types", "list"],
)
def test_an_export_of_n8n_is_said_to_be_one_and_nothing_else(document: Any):
    (problem,) = report(document).errors
    assert problem.code == "N8N_WORKFLOW"
    assert problem.hint is not None and "anabranch import n8n" in problem.hint


def test_connections_alone_make_no_export_of_n8n():
    assert [code for code, _ in errors({"nodes": [], "connections": {}})] == ["NO_START"]


def test_more_nodes_or_edges_than_the_limit_are_refused_and_not_looked_at():
    nodes = [{"id": str(index), "type": "?"} for index in range(NODES_MAX + 1)]
    assert errors({"nodes": nodes}) == [("TOO_MANY_NODES", None)]
    edges = [{}] * (EDGES_MAX + 1)
    assert errors({"nodes": [], "edges": edges}) == [("TOO_MANY_EDGES", None)]


def test_the_parts_of_a_workflow_have_their_kinds():
    assert errors([]) == [("WRONG_TYPE", None)]
    assert errors({}) == [("MISSING_FIELD", None), ("NO_START", None)]
    assert errors({"nodes": {}}) == [("WRONG_TYPE", None), ("NO_START", None)]
    assert errors({**drawn(FINE), "nodes": [*drawn(FINE)["nodes"], 7], "edges": [None]}) == [
        ("WRONG_TYPE", None), ("WRONG_TYPE", None),
    ]  # fmt: skip
    assert warnings({"nodes": [{"id": "s", "type": "start"}]}) == []


def test_a_value_that_no_log_could_keep_is_refused():
    assert errors(with_node(config={"values": {"v": float("nan")}})) == [("NOT_STORABLE", None)]
    assert errors(with_node(name="\x00")) == [("NOT_STORABLE", None)]
    deep: Any = 1
    for _ in range(100_000):
        deep = [deep]
    assert errors(with_node(config={"values": {"v": deep}})) == [("NOT_STORABLE", None)]

"""Warnings: claims about every possible run, and silence where nobody can be sure."""

from __future__ import annotations

from typing import Any

import pytest

from tests.spec.drawings import condition, drawn, errors, loop, reads, report, warnings, writes

X = writes("x")
X_ANY = writes("x", joinMode="any")


# -- unreachable nodes --------------------------------------------------------------------


def test_an_unreachable_node_is_a_warning_and_its_edges_are_none():
    assert warnings(drawn("start>a, lost>a, lost.error>b")) == [("UNREACHABLE_NODE", "lost"), ("UNREACHABLE_NODE", "b")]


def test_a_problem_of_an_unreachable_node_is_still_a_refusal():
    assert errors(drawn("start>a", lost={"type": "gone"})) == [("UNKNOWN_TYPE", "lost")]


# -- parallel writers ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("edges", "nodes", "culprits"),
    [
        ("start>a, start>b", {"a": X, "b": X}, ["b"]),
        ("start>a, start>b, start>d", {"a": X, "b": X, "d": X}, ["b", "d"]),
        ("start>a, a>b, start>d, d>e", {"b": X, "d": X}, ["d"]),
        ("start>a, a>j, start>b, b>j", {"a": X, "j": X_ANY}, ["j"]),
        ("start>c, c.yes>a, start>b", {"a": X, "b": X, "c": condition("yes")}, ["b"]),
        ("start>c, c.yes>a, c.yes>b, c.else>b", {"a": X, "b": X, "c": condition("yes")}, ["b"]),
        ("start>l, l.loop>a, l.loop>b", {"a": X, "b": X, "l": loop()}, ["b"]),
        # k begins when s has been skipped and p has ended; a may still be running then.
        (
            "start>c, c.yes>b, c.yes>d, b>s, d>s, c.else>a, c.else>p, s>k, p>k",
            {"a": X, "k": X, "s": {"joinMode": "any"}, "c": condition("yes")},
            ["k"],
        ),
    ],
)
def test_writers_of_one_variable_that_may_run_together(edges: str, nodes: dict[str, Any], culprits: list[str]):
    found = [place for code, place in warnings(drawn(edges, **nodes)) if code == "PARALLEL_WRITERS"]
    assert found == culprits


@pytest.mark.parametrize(
    ("edges", "nodes"),
    [
        # one after the other
        ("start>a, a>b", {"a": X, "b": X}),
        ("start>a, a>j, start>b, b>j", {"a": X, "j": X}),
        ("start>a, a.error>b, a>d", {"a": X, "b": X, "d": X}),
        # one or the other
        ("start>c, c.yes>a, c.else>b", {"a": X, "b": X, "c": condition("yes")}),
        ("start>c, c.yes>p, c.no>q, p>a, q>b", {"a": X, "b": X, "c": condition("yes", "no")}),
        ("start>c, c.yes>a, c.no>a, c.else>b", {"a": X, "b": X, "c": condition("yes", "no")}),
        (
            "start>c, c.yes>d, d.no>a, d.else>e, c.else>b",
            {"a": X, "b": X, "e": X, "c": condition("yes"), "d": condition("no")},
        ),
        # an any join behind branches of which only one is ever live
        ("start>c, c.yes>a, c.else>b, a>j, b>j", {"a": X, "b": X, "j": X_ANY, "c": condition("yes")}),
        ("start>c, c.yes>a, c.else>j, a>j, j>k", {"a": X, "j": X_ANY, "k": X, "c": condition("yes")}),
        # different scopes: what a body writes stays in its iteration
        ("start>l, l.loop>a, start>b", {"a": X, "b": X, "l": loop()}),
        ("start>l, l.loop>a, start>m, m.loop>b", {"a": X, "b": X, "l": loop(), "m": loop()}),
        # different variables
        ("start>a, start>b", {"a": X, "b": writes("y")}),
    ],
)
def test_writers_of_one_variable_that_never_run_together(edges: str, nodes: dict[str, Any]):
    assert warnings(drawn(edges, **nodes)) == []


# -- variables that nobody writes ---------------------------------------------------------


def test_a_variable_that_no_node_before_writes():
    document = drawn("start>a, a>b, b>d", a=reads("x.y"), b=X, d=reads("x"))
    (problem,) = report(document).warnings
    assert (problem.code, problem.node_id) == ("VARIABLE_NEVER_WRITTEN", "a")
    assert problem.pointer == "/nodes/1/config/values/v0"


def test_a_variable_is_reported_once_per_node():
    assert warnings(drawn("start>a", a=reads("x", "x.y"))) == [("VARIABLE_NEVER_WRITTEN", "a")]


@pytest.mark.parametrize(
    "way_out", ["ctx.x | default(1)", "ctx.x.y | length | default(0)", "(ctx.x ~ ctx.y) | default('')"]
)
def test_a_variable_that_has_a_default_may_be_missing(way_out: str):
    assert warnings(drawn("start>a", a={"config": {"values": {"v": "{{" + way_out + "}}"}}})) == []


@pytest.mark.parametrize(
    "no_way_out", ["ctx.y | default(ctx.x)", "(ctx.y | default(1)) + ctx.x", "ctx.x + (ctx.x | default(1))"]
)
def test_a_default_helps_only_what_it_stands_behind(no_way_out: str):
    document = drawn("start>a", a={"config": {"values": {"v": "{{" + no_way_out + "}}"}}})
    assert warnings(document) == [("VARIABLE_NEVER_WRITTEN", "a")]


def test_a_writer_in_another_branch_does_not_help():
    assert warnings(drawn("start>a, start>b", a=X, b=reads("x"))) == [("VARIABLE_NEVER_WRITTEN", "b")]


def test_input_and_the_outputs_of_nodes_before_are_there():
    assert warnings(drawn("start>a, a>b", b=reads("input.url", "__node_a", "__node_start"))) == []
    assert warnings(drawn("start>a, a>b", a=reads("__node_b"))) == [("VARIABLE_NEVER_WRITTEN", "a")]


def test_loop_names_are_there_inside_loops_only():
    inside = reads("item.id", "index", "count")
    assert warnings(drawn("start>l, l.loop>a", l=loop(), a=inside)) == []
    assert warnings(drawn("start>l, l.loop>m, m.loop>a", l=loop(), m=loop(source="{{ctx.item}}"), a=inside)) == []
    assert warnings(drawn("start>l, l.done>a", l=loop(), a=reads("item"))) == [("VARIABLE_NEVER_WRITTEN", "a")]


def test_results_are_there_in_while_loops_only():
    repeats = loop(**{"while": "{{ctx.results|length < 3}}"})
    assert warnings(drawn("start>l, l.loop>a", l=repeats, a=reads("results"))) == []
    assert warnings(drawn("start>l, l.loop>a", l=loop(), a=reads("results"))) == [("VARIABLE_NEVER_WRITTEN", "a")]


def test_a_body_sees_what_was_before_its_loop_and_the_root_sees_nothing_of_a_body():
    assert warnings(drawn("start>a, a>l, l.loop>b", a=X, l=loop(), b=reads("x"))) == []
    assert warnings(drawn("start>l, l.loop>a, l.done>b", a=X, l=loop(), b=reads("x"))) == [
        ("VARIABLE_NEVER_WRITTEN", "b")
    ]


def test_the_list_of_a_loop_is_there_after_it_and_not_in_its_body():
    collecting = {**loop(), **X}
    assert warnings(drawn("start>l, l.done>b", l=collecting, b=reads("x"))) == []
    assert warnings(drawn("start>l, l.loop>a", l=collecting, a=reads("x"))) == [("VARIABLE_NEVER_WRITTEN", "a")]


def test_yield_sees_the_body_and_while_does_not():
    assert warnings(drawn("start>l, l.loop>a", a=X, l=loop(**{"yield": "{{ctx.x + ctx.index}}"}))) == []
    repeats = loop(**{"while": "{{ctx.x < ctx.index}}"})
    assert warnings(drawn("start>l, l.loop>a", a=X, l=repeats)) == [("VARIABLE_NEVER_WRITTEN", "l")]


# -- error edges --------------------------------------------------------------------------


@pytest.mark.parametrize("handling", ["ignore", "fail_workflow"])
def test_an_error_edge_of_a_node_that_never_takes_it(handling: str):
    document = drawn("start>a, a>b, a.error>b", a={"errorHandling": handling})
    assert warnings(document) == [("ERROR_EDGE_NEVER_TAKEN", "e2")]


def test_an_explicit_continue_without_an_error_edge():
    asks = {"errorHandling": "continue"}
    assert warnings(drawn("start>a", a=asks)) == [("CONTINUE_WITHOUT_ERROR_EDGE", "a")]
    assert warnings(drawn("start>a, a.error>b", a=asks)) == []
    assert warnings(drawn("start>l, l.loop>a, a.error>l", l=loop(), a=asks)) == []
    assert warnings(drawn("start>a", a={"errorHandling": None})) == []


def test_a_node_that_cannot_have_an_error_edge_is_not_told_to_have_one():
    asks = {"errorHandling": "continue"}
    assert warnings(drawn("start>x", start=asks, x={"type": "end", **asks})) == []


# -- timeouts that lead nowhere ------------------------------------------------------------
def test_a_timeout_without_an_edge_is_warned_about():
    waits = {"type": "waitForEvent", "config": {"event": "go", "timeout": "1h"}}
    for_ever = {"type": "waitForEvent", "config": {"event": "go"}}
    assert warnings(drawn("start>w, w>a", w=waits)) == [("TIMEOUT_NOT_WIRED", "w")]
    assert warnings(drawn("start>w, w>a, w.timeout>b", w=waits)) == []
    assert warnings(drawn("start>w, w>a", w=for_ever)) == []
    assert warnings(drawn("start>w, w>a", w={**waits, "disabled": True})) == []


# -- edges that are never live ------------------------------------------------------------


def branches(*expressions: Any, **fields: Any) -> dict[str, Any]:
    """A condition whose branches b0, b1, … have these expressions."""
    listed = [{"id": f"b{index}", "expression": expression} for index, expression in enumerate(expressions)]
    return {"type": "condition", "config": {"branches": listed}, **fields}


@pytest.mark.parametrize(
    ("given", "never"),
    [
        (branches(False, "{{ctx.input.a}}"), ["e1"]),
        (branches(True, "{{ctx.input.a}}"), ["e2", "e3"]),
        (branches("{{ctx.input.a}}", True), ["e3"]),
        (branches("{{ctx.input.a}}", "{{ 1 > 2 }}"), ["e2"]),
        (branches("{{ctx.input.a}}", "{{ctx.input.b}}"), []),
        # a failure that is ignored makes `else` live
        (branches("{{ctx.input.a}}", True, errorHandling="ignore"), []),
        (branches(True, "{{ctx.input.a}}", errorHandling="ignore"), ["e2", "e3"]),
    ],
)
def test_branches_that_literals_rule_out(given: dict[str, Any], never: list[str]):
    document = drawn("start>c, c.b0>x, c.b1>y, c.else>z", c=given)
    assert warnings(document) == [("EDGE_NEVER_LIVE", edge) for edge in never]


def test_what_only_dead_edges_lead_to_is_dead_too_and_a_join_with_a_live_edge_is_not():
    document = drawn("start>c, c.b0>a, a>j, c.else>j, j>k", c=branches(False))
    assert warnings(document) == [("EDGE_NEVER_LIVE", "e1"), ("EDGE_NEVER_LIVE", "e2")]


def test_a_wait_without_a_timeout_never_times_out():
    wait = {"type": "waitForEvent", "config": {"event": "paid"}}
    assert warnings(drawn("start>w, w.timeout>a", w=wait)) == [("EDGE_NEVER_LIVE", "e1")]
    wait = {"type": "waitForEvent", "config": {"event": "paid", "timeout": "1h"}}
    assert warnings(drawn("start>w, w.timeout>a", w=wait)) == []


def test_a_loop_over_nothing_never_enters_its_body():
    edges = "start>l, l.loop>a, a>l, l.done>b"
    assert warnings(drawn(edges, l=loop(source=[]))) == [("EDGE_NEVER_LIVE", "e1"), ("EDGE_NEVER_LIVE", "e2")]


# -- the input and its schema -------------------------------------------------------------

USER = {"type": "object", "properties": {"name": {"type": "string"}}, "additionalProperties": False}
CLOSED = {"type": "object", "properties": {"email": {}, "user": USER}, "additionalProperties": False}
OPEN = {"type": "object", "properties": {"email": {}, "firstName": {}, "line1": {}, "user": {**USER, "title": "u"}}}


def of_input(schema: Any, text: str) -> list[tuple[str, str | None]]:
    """The hints of what is warned about a node that has this text in its config."""
    node = {"type": "set", "config": {"values": {"a": text}}}
    document = drawn("start>a", a=node, workflowOptions={"inputSchema": schema})
    return [(problem.code, problem.hint) for problem in report(document).warnings]


@pytest.mark.parametrize(
    ("schema", "text", "hint"),
    [
        (CLOSED, "{{ctx.input.phone}}", "It has 'email', 'user'."),
        (CLOSED, "Dear {{ctx.input.emial}}", "Did you mean 'email'?"),
        (CLOSED, "{{ctx.input.user.nmae}}", "Did you mean 'name'?"),
        ({"type": "object", "additionalProperties": False}, "{{ctx.input.a}}", "It has no fields."),
        (OPEN, "{{ctx.input.emial}}", "Did you mean 'email'?"),
        (OPEN, "{{ctx.input.firstname}}", "Did you mean 'firstName'?"),
        (OPEN, "{{ctx.input.user.age}}", "It has 'name'."),
    ],
)
def test_a_field_that_the_input_schema_does_not_have_is_a_warning(schema: Any, text: str, hint: str):
    assert of_input(schema, text) == [("INPUT_NOT_IN_SCHEMA", hint)]


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        (CLOSED, "{{ctx.input.email}} {{ctx.input.user.name}} {{ctx.input}}"),
        (CLOSED, "{{ctx.input.phone | default('none')}}"),
        (CLOSED, "{{ctx.input.email.whatever}}"),
        (OPEN, "{{ctx.input.phone}}"),
        (OPEN, "{{ctx.input.lastName}}"),
        (OPEN, "{{ctx.input.line2}}"),
        ({**OPEN, "additionalProperties": True}, "{{ctx.input.emial}}"),
        ({**OPEN, "allOf": [{"properties": {"emial": {}}}]}, "{{ctx.input.emial}}"),
        ({**CLOSED, "patternProperties": {"^x": {}}}, "{{ctx.input.xyz}}"),
        ({"$ref": "#/$defs/a", "$defs": {"a": CLOSED}}, "{{ctx.input.phone}}"),
        ({"type": "array", "items": CLOSED}, "{{ctx.input[0].phone}}"),
    ],
)
def test_where_the_input_may_have_the_field_there_is_silence(schema: Any, text: str):
    assert of_input(schema, text) == []


# -- webhooks and their responses ---------------------------------------------------------


def hook(respond: str = "immediately", **fields: Any) -> dict[str, Any]:
    """A webhook that asks for a password."""
    auth = {"kind": "basic", "secret": "HOOK"}
    return {"type": "webhook", "config": {"path": "a", "auth": auth, "respond": respond}, **fields}


SAY = {"type": "respond"}


@pytest.mark.parametrize(
    ("edges", "nodes", "found"),
    [
        ("h>r", {"h": hook("respondNode"), "r": SAY}, []),
        ("h>l, l.loop>r", {"h": hook("respondNode"), "l": loop(), "r": SAY}, []),
        ("h>a, a.error>r", {"h": hook("respondNode"), "r": SAY}, []),
        ("h>r", {"h": hook(), "r": SAY}, [("RESPOND_NEVER_AWAITED", "r")]),
        ("h>r", {"h": hook("atEnd"), "r": SAY}, [("RESPOND_NEVER_AWAITED", "r")]),
        ("start>r", {"r": SAY}, [("RESPOND_NEVER_AWAITED", "r")]),
        ("h>a", {"h": hook("respondNode")}, [("NO_RESPOND_NODE", "h")]),
        ("h>r", {"h": hook("respondNode"), "r": {**SAY, "disabled": True}}, [("NO_RESPOND_NODE", "h")]),
        # the one that waits leads elsewhere
        (
            "start>r, h>a",
            {"h": hook("respondNode"), "r": SAY},
            [("NO_RESPOND_NODE", "h"), ("RESPOND_NEVER_AWAITED", "r")],
        ),
        ("start>r, h>r", {"h": hook("respondNode"), "r": SAY}, []),
        ("start>a, h>r", {"h": hook("respondNode", disabled=True), "r": {**SAY, "disabled": True}}, []),
    ],
)
def test_responses_that_nobody_waits_for_and_callers_that_wait_in_vain(
    edges: str, nodes: dict[str, Any], found: list[tuple[str, str]]
):
    assert sorted(each for each in warnings(drawn(edges, **nodes)) if "RESPOND" in each[0]) == found


def test_a_webhook_without_authentication_is_worth_a_note():
    nobody = {"type": "webhook", "config": {"path": "a", "auth": {"kind": "none"}}}
    drawing = drawn("h>a, i>a, j>a", h=hook(), i=nobody, j={**nobody, "config": {"path": "b"}})
    noted = [problem.as_json() for problem in report(drawing).warnings]
    assert [(note["code"], note["level"], note["nodeID"]) for note in noted] == [
        ("WEBHOOK_OPEN", "info", "i"),
        ("WEBHOOK_OPEN", "info", "j"),
    ]
    assert warnings(drawn("h>a, start>a", h={**nobody, "disabled": True})) == []

"""`anabranch explain`: a node, a call of a step or an iteration, named as plans and `--redo` name them."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from anabranch.cli.event_lines import read_name
from anabranch.durable.definition import DECLARED
from tests.cli.conftest import Command, Write

TWICE = """\
from anabranch import workflow

def double(number):
    return 2 * number

@workflow(name="twice")
async def twice(ctx, input):
    return await ctx.step.run("f", double, await ctx.step.run("f", double, 1))
"""


@pytest.fixture(autouse=True)
def _nothing_known(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield
    DECLARED.clear()
    sys.modules.pop("app", None)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("review", ("review", None)),
        ("each[3]/review", ("review", "each[3]")),
        ("each[0]/inner[1]/work", ("work", "each[0]/inner[1]")),
        ("ask#2/look", ("look", "ask#2")),
        ("f#2", ("f", "#2")),
        ("f@2", ("f", "@2")),
        ("f#2@3", ("f", "#2@3")),
        ("@timer#1700000005000.2", ("@timer", "#1700000005000.2")),
    ],
)
def test_a_name_with_its_scope_is_read_as_it_is_printed(text: str, name: tuple[str, str | None]) -> None:
    assert read_name(text) == name


def test_a_call_of_a_step_is_explained_by_its_printed_name(anabranch: Command) -> None:
    Path("app.py").write_text(TWICE)
    run_id = anabranch("run", "twice", "--import", "app.py", "--json").document["instanceID"]

    printed, by_option = anabranch("explain", run_id, "f#2"), anabranch("explain", run_id, "f", "--scope", "#2")

    assert (printed.code, printed.out) == (0, "'f' completed.\n")
    assert printed.out == by_option.out
    assert anabranch("explain", run_id, "f#2", "--json").document["scope"] == "#2"
    assert "no step 'f' in scope '#3'" in anabranch("explain", run_id, "f#3").err


def test_a_node_of_an_iteration_is_explained_by_its_printed_name(anabranch: Command, write: Write) -> None:
    edges = [("start", None, "each"), ("each", "loop", "work"), ("each", "done", "end")]
    document = {
        "name": "loops",
        "nodes": [
            {"id": "start", "type": "start"},
            {"id": "each", "type": "loop", "config": {"source": "{{ctx.input}}"}},
            {"id": "work", "type": "set", "config": {"values": {"n": "{{ctx.item}}"}}},
            {"id": "end", "type": "end"},
        ],
        "edges": [
            {"upstreamNodeID": source, "downstreamNodeID": target, **({"sourceHandle": handle} if handle else {})}
            for source, handle, target in edges
        ],
    }
    ran = anabranch("run", write("loops.json", document), "--input", json.dumps([1, 2]), "--json")

    found = anabranch("explain", ran.document["instanceID"], "each[1]/work", "--json").document

    assert (found["nodeID"], found["scope"], found["status"]) == ("work", "each[1]", "success")


def test_values_are_printed_as_json(anabranch: Command, write: Write) -> None:
    branches = [{"id": "yes", "expression": "{{ctx.input.ready}}"}]
    document = {
        "name": "decides",
        "nodes": [
            {"id": "start", "type": "start"},
            {"id": "ask", "type": "condition", "config": {"branches": branches}},
            {"id": "go", "type": "end"},
            {"id": "stay", "type": "end"},
        ],
        "edges": [
            {"upstreamNodeID": "start", "downstreamNodeID": "ask"},
            {"upstreamNodeID": "ask", "downstreamNodeID": "go", "sourceHandle": "yes"},
            {"upstreamNodeID": "ask", "downstreamNodeID": "stay", "sourceHandle": "else"},
        ],
    }
    ran = anabranch("run", write("decides.json", document), "--input", '{"ready": true}', "--json")

    printed = anabranch("explain", ran.document["instanceID"], "stay")

    assert "  decided by ask, which left by yes: {{ctx.input.ready}} was true\n" in printed.out

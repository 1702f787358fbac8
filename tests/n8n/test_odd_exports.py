"""Whatever an export has in whatever place, an import makes a document and a report of it, or refuses it."""

from __future__ import annotations

import copy
import json
import random
from itertools import pairwise
from typing import Any

import pytest

from anabranch.errors import InvalidRequest
from anabranch.handlers import builtin_types
from anabranch.n8n.exports import read_exports
from anabranch.n8n.importing import import_workflow
from tests.n8n.drawn import DRAWN, Drawn, node, set_to
from tests.n8n.drawn_code import DRAWN_CODE

TYPES = builtin_types()

ODD: list[Any] = [None, True, 0, -1, 1e308, "", "=", "={{", "={{ }}", "={{ $json }}",
                  "={{ $('__proto__').item.json.x }}", "__proto__", "constructor", "\ud800", "\0", "{{secret.A}}",
                  "a" * 70_000, "a" * 300_000, [], [None], [[]], {},
                  {"__proto__": 1}, {"values": 7}, {"__rl": True, "value": []}, "={{ " + "(" * 300,
                  "=" + "{{ $json.a }}" * 500]  # fmt: skip


def assert_imports(export: Any) -> None:
    """Import, and look at all that comes of it."""
    try:
        workflows = read_exports(export)
    except InvalidRequest:
        return
    for workflow in workflows:
        made = import_workflow(workflow, TYPES)
        assert made.document["nodes"]
        json.dumps(made.report.as_json())
        assert list(made.report.lines())


def changed(export: Any, chance: random.Random) -> Any:
    """The export with something odd in one to three places."""
    made = copy.deepcopy(export)
    for _ in range(chance.randint(1, 3)):
        candidates: list[tuple[Any, Any]] = []
        ahead = [made]
        while ahead:
            each = ahead.pop()
            keys = list(each) if isinstance(each, dict) else list(range(len(each)))
            candidates += [(each, key) for key in keys]
            ahead += [each[key] for key in keys if isinstance(each[key], (dict, list))]
        where, key = chance.choice(candidates)
        if isinstance(where, dict) and chance.random() < 0.2:
            where[chance.choice(["__proto__", "x", "onError", "options", ""])] = chance.choice(ODD)
        else:
            where[key] = chance.choice(ODD)
    return made


@pytest.mark.parametrize("seed", range(3))
def test_an_odd_export_makes_no_fault(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(10):
        assert_imports(changed(chance.choice([*DRAWN, *DRAWN_CODE]).export(), chance))


def test_cycles_that_cross_and_nodes_that_lead_to_themselves_make_no_fault() -> None:
    names = [f"N{number}" for number in range(12)]
    connections = {name: {"main": [[{"node": other, "type": "main", "index": index % 3} for index, other in
                                    enumerate([name, names[0], names[(number * 5 + 3) % 12]])]]}
                   for number, name in enumerate(names)}  # fmt: skip
    kinds = ["set", "if", "splitInBatches", "merge", "httpRequest", "code"]
    nodes = [node(name, kinds[number % 6], 3) for number, name in enumerate(names)]
    assert_imports({"name": "Cycles", "nodes": nodes, "connections": connections})


def test_a_deep_and_a_large_export_make_no_fault() -> None:
    deep: Any = "={{ $json.a }}"
    for _ in range(400):
        deep = [deep]
    rows = [set_to(f"Row {number}", a="={{ $json.a }}") for number in range(300)]
    links = {one["name"]: {"main": [[{"node": other["name"], "type": "main", "index": 0}]]}
             for one, other in pairwise(rows)}  # fmt: skip
    assert_imports({"name": "Deep", "nodes": [node("A", "set", 3.4, assignments=deep), node("B", "nothing", 1, x=deep)],
              "connections": {}})  # fmt: skip
    assert_imports({"name": "Large", "nodes": rows, "connections": links})


@pytest.mark.parametrize(("length", "status"), [(200_000, "exact"), (262_145, "placeholder")])
def test_code_may_be_as_long_as_that_of_a_code_node(length: int, status: str) -> None:
    listed = node("Listed", "code", 2, jsCode=f"const list = '{'a' * length}';\nreturn items;")
    [workflow] = read_exports(Drawn("Long", "", [listed], [], []).export())

    made = import_workflow(workflow, TYPES)

    assert (made.report.nodes[-1].status, made.errors) == (status, ())

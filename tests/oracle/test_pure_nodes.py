"""Pure nodes have one meaning: evaluated inside of decisions they write the rows that they write as jobs.

The same random graphs run both ways, with every node made a pure one, so that there is one order in both.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from anabranch.engine.rules.events import Event, EventType
from anabranch.handlers.registry import builtin_types
from tests.oracle.graphs import Case, random_case
from tests.oracle.running import run_of

TYPES = builtin_types()

PURE = {"start", "set", "condition", "end", "loop"}

# Twenty of them fail, iterate, join and end early in every way that graphs can.
GRAPHS = 200

FACTS = {"at": "{{now}}", "of": "{{ctx.run.id}} {{ctx.workflow.name}}"}


def pure(case: Case) -> Case:
    """The case with its other nodes made `set` nodes of the same names."""
    nodes = [node if node["type"] in PURE else _made_pure(node) for node in case.document["nodes"]]
    return replace(case, document={**case.document, "nodes": nodes})


def _made_pure(node: dict[str, Any]) -> dict[str, Any]:
    fails = node["type"] == "flaky"
    value = f"{{{{ctx.missing.of_{node['id']}}}}}" if fails and int(node["id"][1:]) % 7 == 0 else node["id"]
    kept = {name: value for name, value in node.items() if name not in ("retry", "timeout")}
    return {**kept, "type": "set", "config": {"values": {"v": value, **FACTS}}}


def rows(log: list[Event]) -> list[tuple[Any, ...]]:
    """A log without times, which differ, and without what names the run."""
    return [
        (row.seq, row.type, row.node_id, row.scope, row.attempt, row.payload.raw, row.next_handle, row.error_message)
        for row in log
    ]


@pytest.mark.timeout(600)
def test_evaluated_and_executed_nodes_write_the_same_rows() -> None:
    """In the same order, whatever fails, loops, is skipped or terminated, and wherever a decision stops evaluating."""
    ended = set()
    for seed in range(GRAPHS):
        case = pure(random_case(seed))
        executed = asyncio.run(run_of(case, TYPES, order=None))
        for evaluations_max in (1, 3, 200):
            evaluated = asyncio.run(run_of(case, TYPES, order=None, evaluations_max=evaluations_max))
            assert rows(evaluated.log) == rows(executed.log), f"graph {seed}, {evaluations_max} evaluations a decision"
        ended.add(executed.log[-1].type)
    assert ended == {EventType.INSTANCE_COMPLETED, EventType.INSTANCE_FAILED}, "graphs ended well and badly"

"""Workflows of simulated clients that begin at triggers, and those whose nodes run once per item of a list."""

from __future__ import annotations

import random
from functools import cache
from typing import Any

from tests.oracle.graphs import Case, random_case_of_triggers
from tests.oracle.mapped_graphs import mapped_case
from tests.oracle.script import FATAL
from tests.simulation.cases import SimulatedCase, case_of, changed, graph, prepared

# 60 random graphs of each kind: compiled once, and used by many worlds.
RANDOM_ENTRY_POINT_CASES = 60

_ITEMS = {"items": [3, 1, 2, 0, 4]}
_EACH = {"forEach": "{{ctx.input.items}}"}
_SOON = {"maxAttempts": 3, "backoff": {"kind": "fixed", "base": "30ms", "max": "30ms"}}


@cache
def entry_point_cases() -> tuple[SimulatedCase, ...]:
    """Drawn by hand: joins behind several entry points, and nodes per item that wait, fail and start runs."""
    wait = {"type": "waitForEvent", "config": {"event": "approved", "timeout": "900ms"}}
    fails = {"ms": 60, "fails": FATAL, "where": "[2]"}
    collects = {**_EACH, "concurrency": 3, "onItemError": "collect"}
    flaky = {"ms": 60, "fails": 2, "where": "[1]"}
    loop = {"type": "loop", "config": {"source": "{{ctx.input.items}}", "concurrency": 2}}
    nested = ["start>outer", "outer:loop>each", "outer:done>end"]
    begun = ["heard>left", "start>right", "called>own", "left>join", "right>join", "own>join", "join>last"]
    call = {"type": "workflow", "config": {"workflow": "begun-by-its-parent", "input": "{{ctx.item}}"}}
    documents: dict[str, tuple[dict[str, Any], str | None]] = {
        "begun-by-a-topic": (_begun(begun), "heard"),
        "begun-by-hand": (_begun(begun), None),
        "begun-by-a-call": (_begun(begun), "called"),
        "begun-and-mapped": (changed(_begun(begun), join={**_EACH, "concurrency": 2}), "heard"),
        "items-in-order": (_each(_EACH), None),
        "items-at-once": (_each({**_EACH, "concurrency": 4, "config": {"ms": 300}}), None),
        "items-in-batches": (_each({**_EACH, "batchSize": 2}), None),
        "items-that-wait": (_each({**_EACH, **wait, "concurrency": 2}), None),
        "items-that-fail": (_each({**_EACH, "config": fails, "concurrency": 2}, "start>beside", "each:error>no"), None),
        "items-that-are-collected": (_each({**collects, "config": fails}), None),
        "items-that-need-retries": (_each({**_EACH, "config": flaky, "retry": _SOON}), None),
        "items-of-items": (
            changed(graph(nested, work=30), outer=loop, each={"forEach": [1, 2], "concurrency": 2}),
            None,
        ),
        "a-run-for-each": (_each({**collects, **call}), None),
    }
    return tuple(
        case_of(name, document, _ITEMS, None, trigger=trigger) for name, (document, trigger) in documents.items()
    )


@cache
def called_case() -> SimulatedCase:
    """What `a-run-for-each` starts: it has a start, and begins at its `workflowCall`."""
    document = changed(
        graph(["called>work", "start>wrong", "work>end"], work=60), called={"type": "workflowCall", "config": {}}
    )
    return case_of("begun-by-its-parent", document, {}, None, trigger="called")


@cache
def random_entry_point_case_of(number: int) -> SimulatedCase:
    """A random graph with several entry points, or with nodes per item."""
    case = random_case_of_triggers(number) if number % 2 else _mapped(number)
    name = f"begun-{number}" if number % 2 else f"mapped-{number}"
    return prepared(name, case, random.Random(number), predictable=number % 4 < 2)


def _mapped(number: int) -> Case:
    """The first one from this number on whose nodes are those of the simulated world."""
    return next(case for seed in range(number * 1_000, (number + 1) * 1_000) if _is_known(case := mapped_case(seed)))


def _is_known(case: Case) -> bool:
    return not any(node["type"] == "pick" for node in case.document["nodes"])


def _each(node: dict[str, Any], *edges: str) -> dict[str, Any]:
    """A node that runs once per item, between the start and an end."""
    return changed(graph(["start>each", "each>end", *edges], work=60), each=node)


def _begun(edges: list[str]) -> dict[str, Any]:
    return changed(
        graph(edges, work=40),
        heard={"type": "topic", "config": {"topic": "never.published"}},
        called={"type": "workflowCall", "config": {}},
    )

"""Workflows of simulated clients that start other workflows, and those that are started."""

from __future__ import annotations

from functools import cache
from typing import Any

from tests.oracle.script import FATAL
from tests.simulation.cases import SimulatedCase, case_of, changed, graph


@cache
def child_cases() -> tuple[SimulatedCase, ...]:
    """What is started by nodes only; saved in every world."""
    documents = {
        "child-works": changed(graph(["start>work", "work>end"], work=60), end=_end("{{ctx.work}}")),
        "child-asks": changed(
            graph(["start>ask", "ask>end", "ask:timeout>end"], work=0),
            ask={"type": "waitForEvent", "config": {"event": "shipped", "timeout": "2500ms"}},
            end=_end("asked"),
        ),
        "child-fails": changed(graph(["start>try"], work=30), **{"try": {"config": {"ms": 300, "fails": FATAL}}}),
        "child-of-two": changed(
            graph(["start>works", "start>asks", "works>end", "asks>end"], work=0),
            works=_call("child-works"),
            asks=_call("child-asks"),
            end=_end("{{ctx.works}}"),
        ),
    }
    return tuple(case_of(name, document, {}, None) for name, document in documents.items())


@cache
def parent_cases() -> tuple[SimulatedCase, ...]:
    """What clients start."""
    each = {"type": "loop", "config": {"source": "{{ctx.input.items}}", "concurrency": 2, "onItemError": "collect"}}
    impatient = {**each, "config": {**each["config"], "concurrency": 3, "onItemError": "fail"}}  # type: ignore[dict-item]
    stop = {"type": "end", "config": {"outputParameters": {"by": "stop"}, "terminate": True}}
    documents = {
        "family": changed(
            graph(["start>each", "each:loop>works", "each:loop>asks", "each:done>end"], work=0),
            each=each,
            works=_call("child-works"),
            asks=_call("child-asks"),
            end=_end("{{ctx.each}}"),
        ),
        "broken-family": changed(
            graph(["start>each", "each:loop>asks", "each:loop>try", "each:done>end"], work=0),
            each={**impatient, "errorHandling": "ignore"},
            asks=_call("child-asks"),
            **{"try": {"config": {"ms": 500, "fails": FATAL, "where": "[2]"}}},
            end=_end("{{ctx.each}}"),
        ),
        "generations": changed(
            graph(["start>top", "start>slow", "top>end", "slow>end"], work=400),
            top=_call("child-of-two"),
            end=_end("{{ctx.top}}"),
        ),
        "short-of-patience": changed(
            graph(["start>asks", "start>two", "start>quick", "quick>stop"], work=200),
            asks=_call("child-asks"),
            two=_call("child-of-two"),
            stop=stop,
        ),
        "bad-luck": changed(
            graph(["start>fails", "start>asks", "fails:error>end"], work=0),
            fails=_call("child-fails"),
            asks=_call("child-asks"),
            end=_end("{{ctx.fails}}"),
        ),
        "out-of-time": {
            **changed(graph(["start>two", "two>again"], work=0), two=_call("child-of-two"), again=_call("child-asks")),
            "workflowOptions": {"deadline": "2s"},
        },
        "set-free": changed(graph(["start>loose"], work=0), loose=_call("child-asks", wait=False)),
    }
    return tuple(case_of(name, document, {"items": [0, 1, 2, 3]}, None) for name, document in documents.items())


@cache
def caller_case() -> SimulatedCase:
    """A drawn workflow that starts coded ones."""
    document = changed(
        graph(["start>works", "start>asks", "start>fails", "works>end", "asks>end", "fails:error>end"], work=0),
        works=_call("coded-works"),
        asks=_call("coded-asks"),
        fails=_call("coded-fails"),
        end=_end("{{ctx.works}}"),
    )
    return case_of("calls-code", document, {}, None)


def _call(workflow: str, **config: Any) -> dict[str, Any]:
    return {"type": "workflow", "config": {"workflow": workflow, **config}}


def _end(output: str) -> dict[str, Any]:
    return {"type": "end", "config": {"outputParameters": {"out": output}}}

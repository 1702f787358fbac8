"""The workflows that simulated clients start: random graphs, made slower, and a few drawn by hand.

A case is made once in a process and shared by all worlds: its definition never changes. The random
graphs are those of the oracle's tests. Half of them stay predictable, so that the oracle can judge
how a run ended after everything that went wrong; the others get waits, timeouts and deadlines.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any

from anabranch.engine.rules.graph.compile import compile_plan
from anabranch.engine.rules.graph.plan import Plan
from anabranch.handlers.registry import builtin_types
from tests.oracle.expressions import Undetermined
from tests.oracle.graphs import Case, random_case
from tests.oracle.oracle import predict
from tests.oracle.prediction import Prediction
from tests.oracle.script import FATAL
from tests.oracle.shape import Shape
from tests.simulation.nodes import WORK
from tests.simulation.programs import EVENTS

# 160 random graphs: more than enough shapes, and few enough to be compiled once and used by many worlds.
RANDOM_CASES = 160

BUILTIN = builtin_types()


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SimulatedCase:
    """A workflow, ready to be saved and started."""

    name: str
    document: dict[str, Any]
    input: Any
    shape: Shape
    plan: Plan
    prediction: Prediction | None
    """None where the course depends on time or on signals."""
    version: int = 1
    trigger: str | None = None
    """The entry point that its runs begin at; None: the start."""

    kind = "drawn"

    @property
    def events(self) -> tuple[str, ...]:
        """The signals that it may wait for."""
        return tuple(node["config"]["event"] for node in self.document["nodes"] if node["type"] == "waitForEvent")

    @property
    def is_mapped(self) -> bool:
        """Whether any of its nodes runs once per item of a list."""
        return any("forEach" in node for node in self.document["nodes"])

    def input_beside(self, peer: str | None) -> Any:
        """What it is started with, whatever else runs."""
        return self.input


@cache
def drawn_cases() -> tuple[SimulatedCase, ...]:
    """Shapes that random graphs hit too seldom."""
    return tuple(case_of(name, document, input_, None) for name, (document, input_) in _drawn().items())


@cache
def probe_case() -> SimulatedCase:
    """A handler that works for a minute beside a wait: for looking at how soon external changes take effect."""
    document = graph(["start>ask", "start>sleeper"], work=0)
    changed(document, ask={"type": "waitForEvent", "config": {"event": "approved"}})
    return case_of("probe", changed(document, sleeper={"config": {"exactlyMs": 60_000}, "timeout": "2m"}), {}, None)


@cache
def repaired_cases() -> tuple[SimulatedCase, ...]:
    """Loops without a loop node, whose passes wait, are in iterations and fail; and what kills its process."""
    batch = {"type": "cursor", "config": {"source": "{{ctx.input.items}}"}}
    wait = {"type": "waitForEvent", "config": {"event": "approved", "timeout": "900ms"}}
    passes = ["start>list", "list:loop>work", "work>ask", "ask>list", "ask:timeout>list", "list:done>end"]
    each = {"type": "loop", "config": {"source": "{{ctx.input.items}}", "concurrency": 2}}
    inside = ["start>each", "each:loop>list", "list:loop>work", "work>list", "list:done>note", "each:done>end"]
    broken = {"work": {"config": {"ms": 60, "fails": FATAL, "where": "#3"}}}
    retried = {"work": {"config": {"ms": 60, "fails": 3}, "retry": {"maxAttempts": 2, "backoff": _SOON}}}
    documents = {
        "passes": changed(graph(passes, work=40), list=batch, ask=wait),
        "passes-in-items": changed(graph(inside, work=30), each=each, list=batch),
        "passes-that-fail": changed(graph(["start>beside", *passes], work=40), list=batch, ask=wait, **broken),
        "passes-that-need-retries": changed(graph(inside, work=30), each=each, list=batch, **retried),
    }
    loops = [case_of(name, document, {"items": [1, 2, 3, 4]}, None) for name, document in documents.items()]
    return (*loops[:2], poison_case(), *loops[2:])


@cache
def poison_case() -> SimulatedCase:
    """What kills the process that executes it."""
    document = graph(["start>work", "work>kill", "kill>end"], work=40)
    return case_of("poison", changed(document, kill={"config": {"poison": True}}), {"items": [1, 2, 3, 4]}, None)


_SOON = {"kind": "fixed", "base": "30ms", "max": "30ms"}


@cache
def random_case_of(number: int) -> SimulatedCase:
    """One of the random graphs."""
    return prepared(f"random-{number}", random_case(number), random.Random(number), predictable=number % 2 == 0)


def prepared(name: str, case: Case, rng: random.Random, *, predictable: bool) -> SimulatedCase:
    """A random graph as the simulated world runs it; what is not predictable gets waits, timeouts and deadlines."""
    # Mostly one event in a graph, so that its waits compete for signals.
    events = (*EVENTS, *[rng.choice(EVENTS)] * len(EVENTS))
    nodes = [_prepared(node, case.script, rng, events, predictable=predictable) for node in case.document["nodes"]]
    document = {**case.document, "name": name, "nodes": nodes}
    prediction = None
    if predictable:
        # The oracle knows `flaky`, which does what `work` does, and sees the same delays.
        known = [old if old["type"] == "flaky" else new for old, new in zip(case.document["nodes"], nodes, strict=True)]
        with suppress(Undetermined):
            prediction = predict({**case.document, "nodes": known}, case.input, case.script, case.trigger)
    elif rng.random() < 0.2:
        document["workflowOptions"] = {"deadline": f"{rng.randint(500, 6_000)}ms"}
    return case_of(name, document, case.input, prediction, trigger=case.trigger)


def case_of(
    name: str, document: dict[str, Any], input_: Any, prediction: Prediction | None, *, trigger: str | None = None
) -> SimulatedCase:
    document = {**document, "name": name}
    plan = compile_plan(document, _Types())
    return SimulatedCase(name, document, input_, Shape(document), plan, prediction, trigger=trigger)


class _Types:
    """What compiling needs to know of the simulated node types."""

    def get(self, type_name: str) -> Any:
        """The type, or None if nobody registered it."""
        return WORK if type_name == WORK.type else BUILTIN.get(type_name)

    def names(self) -> list[str]:
        """Every registered name."""
        return [WORK.type, *BUILTIN.names()]


def _prepared(
    node: dict[str, Any], script: Any, rng: random.Random, events: Sequence[str], *, predictable: bool
) -> dict[str, Any]:
    """A node of a random graph as the simulated world runs it."""
    if node["type"] == "flaky":
        return _work(node, script.get(node["id"], {}), rng, predictable=predictable)
    if node["type"] == "delay":
        # Most delays outlast a commit, some outlast the park limit, a few outlast a lease.
        length = rng.choice((0, 5, 40, 400, 1_500, 6_000))
        return node if predictable and length < 10 else {**node, "config": {"duration": f"{length}ms"}}
    if node["type"] == "set" and not predictable and rng.random() < 0.4:
        return {**node, "type": "waitForEvent", "config": _wait(rng, events)}
    return node


def _work(node: dict[str, Any], rule: dict[str, Any], rng: random.Random, *, predictable: bool) -> dict[str, Any]:
    config = {**rule, "ms": rng.choice((0, 0, 5, 50, 400, 1_500))}
    prepared = {**node, "type": "work", "config": config}
    base = rng.choice(("1ms", "30ms", "300ms", "1500ms"))
    if "retry" in node:
        prepared["retry"] = {**node["retry"], "backoff": {**node["retry"]["backoff"], "base": base, "max": "4s"}}
    if not predictable and rng.random() < 0.3:
        prepared["timeout"] = "200ms"
    return prepared


def _wait(rng: random.Random, events: Sequence[str]) -> dict[str, Any]:
    config: dict[str, Any] = {"event": rng.choice(events)}
    if rng.random() < 0.7:
        config["timeout"] = f"{rng.choice((20, 300, 900, 2_500, 7_000))}ms"
    if rng.random() < 0.3:
        config["match"] = {"kind": rng.randint(0, 1)}
    return config


def _drawn() -> dict[str, tuple[dict[str, Any], Any]]:
    return {
        "diamond": (graph(["start>left", "start>right", "left>join", "right>join", "join>end"], work=20), {}),
        "wide-join": (graph([f"start>b{i}" for i in range(12)] + [f"b{i}>join" for i in range(12)], work=5), {}),
        "first-of-five": (
            graph([f"start>b{i}" for i in range(5)] + [f"b{i}>join" for i in range(5)], work=300, any_join="join"),
            {},
        ),
        "dead-path": (_dead_path(), {}),
        "approval": (_approval(), {}),
        "two-waits": (_two_waits(), {}),
        "questions": (_questions(), {"items": [0, 1, 2]}),
        "nested-loops": (_nested_loops(), {"rows": [[1, 2, 3], [4, 5], [6]]}),
        "failing-items": (_failing_items(), {"items": [0, 1, 2, 3, 4]}),
        "stubborn": (_stubborn(), {}),
        "terminated": (_terminated(), {}),
        "side-by-side": (_side_by_side(), {}),
        "nap": (_nap(), {}),
        "long-haul": (graph(["start>s0", *[f"s{i}>s{i + 1}" for i in range(8)]], work=1_200), {}),
    }


def _side_by_side() -> dict[str, Any]:
    """Pure branches that write and read one name, and a chain of pure nodes behind them and before an effect."""
    chain = [f"c{number}" for number in range(12)]
    edges = [f"start>{name}" for name in ("first", "second", "third")]
    edges += [f"{name}>{chain[0]}" for name in ("first", "second", "third")]
    edges += [f"{before}>{after}" for before, after in pairwise([*chain, "effect", "last", "end"])]
    document = graph(edges, work=20)
    sees = {"type": "set", "config": {"values": {"saw": "{{ctx.shared | default(0)}}"}}, "outputVariable": "shared"}
    return changed(document, **dict.fromkeys(("first", "second", "third", "last", *chain), sees))


def graph(edges: list[str], *, work: int, any_join: str | None = None) -> dict[str, Any]:
    """Nodes named by edges `a>b` or `a:handle>b`; all but start are `work`."""
    nodes: dict[str, dict[str, Any]] = {"start": {"id": "start", "type": "start"}}
    lines = []
    for number, edge in enumerate(edges):
        source, target = edge.split(">")
        source, _, handle = source.partition(":")
        for name in (source, target):
            nodes.setdefault(name, {"id": name, "type": "work", "config": {"ms": work}, "outputVariable": name})
        lines.append(
            {
                "id": f"e{number}",
                "upstreamNodeID": source,
                "downstreamNodeID": target,
                "sourceHandle": handle or None,
            }
        )
    if any_join is not None:
        nodes[any_join]["joinMode"] = "any"
    return {"title": "drawn", "nodes": list(nodes.values()), "edges": lines}


def changed(document: dict[str, Any], **changes: dict[str, Any]) -> dict[str, Any]:
    """The same with some nodes changed."""
    for node in document["nodes"]:
        node.update(changes.get(node["id"], {}))
    return document


def _dead_path() -> dict[str, Any]:
    chain = [f"d{i}>d{i + 1}" for i in range(11)]
    document = graph(["start>gate", "gate:yes>d0", *chain, "d11>join", "gate:else>live", "live>join"], work=5)
    return changed(document, gate={"type": "condition", "config": {"branches": [{"id": "yes", "expression": False}]}})


def _approval() -> dict[str, Any]:
    document = graph(["start>ask", "ask>yes", "ask:timeout>no", "yes>end", "no>end"], work=5)
    return changed(document, ask={"type": "waitForEvent", "config": {"event": "approved", "timeout": "600ms"}})


def _two_waits() -> dict[str, Any]:
    document = graph(
        ["start>before", "before>zero", "zero>one", "zero>two", "one>join", "two>join", "two:timeout>join"], work=200
    )
    return changed(
        document,
        zero={"type": "waitForEvent", "config": {"event": "paid"}},
        one={"type": "waitForEvent", "config": {"event": "paid"}},
        two={"type": "waitForEvent", "config": {"event": "paid", "timeout": "3s"}},
    )


def _questions() -> dict[str, Any]:
    document = graph(["start>each", "each:loop>ask", "ask>note", "each:done>end"], work=20)
    return changed(
        document,
        each={"type": "loop", "config": {"source": "{{ctx.input.items}}", "concurrency": 2}},
        ask={"type": "waitForEvent", "config": {"event": "shipped", "timeout": "2500ms"}},
    )


def _nested_loops() -> dict[str, Any]:
    document = graph(
        ["start>outer", "outer:loop>inner", "inner:loop>cell", "cell>inner", "inner:done>row", "outer:done>end"],
        work=30,
    )
    return changed(
        document,
        outer={"type": "loop", "config": {"source": "{{ctx.input.rows}}", "concurrency": 2}},
        inner={"type": "loop", "config": {"source": "{{ctx.item}}", "concurrency": 2}},
    )


def _failing_items() -> dict[str, Any]:
    document = graph(["start>each", "each:loop>try", "try>twin", "each:loop>twin", "each:done>end"], work=60)
    return changed(
        document,
        each={
            "type": "loop",
            "config": {"source": "{{ctx.input.items}}", "concurrency": 3, "onItemError": "fail"},
            "errorHandling": "ignore",
        },
        **{"try": {"config": {"ms": 60, "fails": FATAL, "where": "[3]"}}},
    )


def _stubborn() -> dict[str, Any]:
    retry = {"maxAttempts": 4, "backoff": {"kind": "exp", "base": "400ms", "max": "3s", "jitter": 0.2}}
    document = graph(["start>a", "a>b", "b:error>c", "b>d", "start>clock", "clock>tick", "tick>tock"], work=300)
    return changed(
        document,
        a={"config": {"ms": 300, "fails": 3}, "retry": retry},
        b={"config": {"ms": 300, "fails": 9}, "retry": retry, "errorHandling": "continue"},
    )


def _terminated() -> dict[str, Any]:
    document = graph(["start>slow", "slow>after", "start>quick", "quick>stop"], work=400)
    return changed(
        document,
        quick={"config": {"ms": 200}},
        stop={"type": "end", "config": {"outputParameters": {"by": "stop"}, "terminate": True}},
    )


def _nap() -> dict[str, Any]:
    document = graph(["start>nap", "nap>sleep", "sleep>end"], work=5)
    return changed(
        document,
        nap={"type": "delay", "config": {"duration": "700ms"}},
        sleep={"type": "delay", "config": {"duration": "2500ms"}},
    )

"""The golden runs: what each starts, what it is sent while it is recorded, and what brings it to its end.

Recorded versions have run them as they stand: never change a case, add one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.golden.nodes import KEPT

Signals = tuple[tuple[str, Any], ...]


@dataclass(frozen=True)
class Case:
    """One run. `ends`: it has ended when the recording ends; else `finish` are the signals that it still needs."""

    workflow: str
    input: Any = None
    ends: bool = True
    signals: Signals = ()
    finish: Signals = ()
    cancelled: bool = False
    graph: dict[str, Any] | None = field(default=None, repr=False)
    """Run as a test run of this graph."""


def node(id: str, type: str, config: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    """A node as it is written in a document."""
    return {"id": id, "type": type, **({"config": config} if config is not None else {}), **fields}


def edges(*pairs: str) -> list[dict[str, Any]]:
    """`"a>b"` leads from a to b, `"a:left>b"` by the handle `left`."""
    made = []
    for pair in pairs:
        source, target = pair.split(">")
        source, _, handle = source.partition(":")
        made.append({"upstreamNodeID": source, "downstreamNodeID": target, "sourceHandle": handle or None})
    return made


def graph(nodes: list[dict[str, Any]], *pairs: str, **options: Any) -> dict[str, Any]:
    """A document: `start` and `end` are added, the end collects what `said` holds."""
    end = node("end", "end", {"outputParameters": {"said": "{{ctx.said | default(none)}}"}})
    return {
        "nodes": [node("start", "start"), *nodes, end],
        "edges": edges(*pairs),
        "workflowOptions": {"retention": KEPT, **options},
    }


def echo(id: str, value: Any = "{{ctx.input}}", variable: str = "said", **fields: Any) -> dict[str, Any]:
    """A node that writes a value."""
    return node(id, "goldenEcho", {"value": value}, outputVariable=variable, **fields)


def _loop(config: dict[str, Any], body: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return graph(
        [node("each", "loop", config, outputVariable="said", **fields), body],
        "start>each", "each:loop>body", "body>each", "each:done>end",
    )  # fmt: skip


_SOON = {"maxAttempts": 3, "backoff": {"kind": "fixed", "base": 20}}
_LATER = {"maxAttempts": 2, "backoff": {"kind": "fixed", "base": "60s"}}
_ONCE = {"maxAttempts": 1}
_BRANCHES = {"branches": [{"id": "big", "expression": "{{ctx.input.n > 5}}"}, {"id": "odd", "expression": False}]}
_DIAMOND = [node("way", "condition", _BRANCHES), echo("big", "big"), echo("small", "small", "other")]
_DIAMOND_EDGES = ("start>way", "way:big>big", "way:else>small", "big>join", "small>join", "join>end")


def _join(mode: str) -> dict[str, Any]:
    nodes = [
        node("gate", "goldenGate", {"value": 1}, outputVariable="slow"),
        echo("quick", 2),
        node("join", "set", {"values": {"joined": True}}, joinMode=mode, outputVariable="said"),
    ]
    return graph(nodes, "start>gate", "start>quick", "gate>join", "quick>join", "join>end")


GRAPHS: dict[str, dict[str, Any]] = {
    "linear": graph([echo("a"), node("b", "set", {"values": {"n": "{{ctx.said}}"}})], "start>a", "a>b", "b>end"),
    "no-end": {"nodes": [node("start", "start")], "edges": [], "workflowOptions": {"retention": KEPT}},
    "diamond": graph([*_DIAMOND, echo("join", "{{ctx.other | default('none')}}")], *_DIAMOND_EDGES),
    "dead-path": graph(
        [*_DIAMOND, echo("after"), echo("join", 1)], *_DIAMOND_EDGES[:-2], "small>after", "after>join", "join>end"
    ),
    "handles": graph(
        [node("way", "goldenWays", {"way": "{{ctx.input.way}}"}), echo("left", "l"), echo("right", "r")],
        "start>way", "way:left>left", "way:right>right", "left>end", "right>end",
    ),
    "join-all": _join("all"),
    "join-any": _join("any"),
    "retried": graph(
        [node("flaky", "goldenFails", {"times": 2}, retry=_SOON, outputVariable="said")], "start>flaky", "flaky>end"
    ),
    "retry-later": graph(
        [node("flaky", "goldenFails", {"times": 1}, retry=_LATER, outputVariable="said")], "start>flaky", "flaky>end"
    ),
    "fails": graph([node("bad", "goldenFails", {"times": 9}, retry=_SOON)], "start>bad", "bad>end"),
    "fails-beside": graph(
        [node("bad", "goldenFails", {"final": True}), node("gate", "goldenGate", {})],
        "start>bad", "start>gate", "bad>end", "gate>end",
    ),
    "handled": graph(
        [node("bad", "goldenFails", {"final": True}, outputVariable="said", errorHandling="continue"), echo("sorry", 0)],
        "start>bad", "bad:error>sorry", "bad>end", "sorry>end",
    ),
    "ignored": graph(
        [node("bad", "goldenFails", {"final": True}, outputVariable="said", errorHandling="ignore")],
        "start>bad", "bad>end",
    ),
    "template-fails": graph([echo("a", "{{ctx.absent}}")], "start>a", "a>end"),
    "for-each": _loop({"source": "{{ctx.input}}"}, echo("body", "{{ctx.item * 2}}", "twice")),
    "for-each-many": _loop({"source": "{{ctx.input}}", "concurrency": 4}, echo("body", "{{ctx.index}}", "at")),
    "for-each-yield": _loop({"source": "{{ctx.input}}", "yield": "{{ctx.item ~ '!'}}"}, echo("body", 1, "one")),
    "for-each-skip": _loop(
        {"source": "{{ctx.input}}", "onItemError": "skip"},
        node("body", "goldenFails", {"times": "{{1 if ctx.item > 1 else 0}}", "final": True}),
    ),
    "for-each-collect": _loop(
        {"source": "{{ctx.input}}", "onItemError": "collect"}, node("body", "goldenFails", {"final": True})
    ),
    "for-each-fails": _loop({"source": "{{ctx.input}}"}, node("body", "goldenFails", {"final": True})),
    "for-each-no-list": _loop({"source": "{{ctx.input}}"}, echo("body")),
    "for-each-gate": _loop({"source": "{{ctx.input}}", "concurrency": 2}, node("body", "goldenGate", {"value": "{{ctx.item}}"})),
    "for-each-limit": _loop({"source": "{{ctx.input}}", "maxIterations": 2}, echo("body")),
    "while": _loop({"while": "{{ctx.results | length < 3}}", "mode": "while"}, echo("body", "{{ctx.index}}", "at")),
    "nested": graph(
        [
            node("outer", "loop", {"source": "{{ctx.input}}"}, outputVariable="said"),
            node("inner", "loop", {"source": "{{ctx.item}}"}, outputVariable="inner"),
            echo("body", "{{ctx.item}}", "at"),
        ],
        "start>outer", "outer:loop>inner", "inner:loop>body", "body>inner", "inner:done>outer", "outer:done>end",
    ),
    "wait-in-loop": _loop(
        {"source": "{{ctx.input}}", "concurrency": 3},
        node("body", "waitForEvent", {"event": "go", "match": {"n": "{{ctx.item}}"}}),
    ),
    "delay": graph([node("d", "delay", {"duration": 20}), echo("a", 1)], "start>d", "d>a", "a>end"),
    "delay-long": graph([node("d", "delay", {"duration": "60s"}), echo("a", 1)], "start>d", "d>a", "a>end"),
    "wait": graph(
        [node("w", "waitForEvent", {"event": "approve", "match": {"by": "{{ctx.input}}"}}, outputVariable="said")],
        "start>w", "w>end",
    ),
    "wait-timeout": graph(
        [node("w", "waitForEvent", {"event": "approve", "timeout": 20}), echo("late", "late")],
        "start>w", "w:timeout>late", "w>end", "late>end",
    ),
    "wait-timeout-open": graph(
        [node("w", "waitForEvent", {"event": "approve", "timeout": "60s"}), echo("late", "late")],
        "start>w", "w:timeout>late", "w>end", "late>end",
    ),
    "gate": graph([node("g", "goldenGate", {"value": "{{ctx.input}}"}, outputVariable="said")], "start>g", "g>end"),
    "terminate": graph(
        [node("gate", "goldenGate", {}), node("stop", "end", {"terminate": True, "outputParameters": {"stopped": 1}})],
        "start>gate", "start>stop", "gate>end",
    ),
    "deadline": graph([node("w", "waitForEvent", {"event": "never"})], "start>w", "w>end", deadline="65s"),
    "parent": graph(
        [node("c", "workflow", {"workflow": "{{ctx.input.child}}", "input": "{{ctx.input.input}}"}, outputVariable="said")],
        "start>c", "c>end",
    ),
    "parent-no-wait": graph(
        [node("c", "workflow", {"workflow": "linear", "wait": False})], "start>c", "c>end",
    ),
    "code": graph(
        [
            node("py", "python", {"code": "return ctx['input'] + 1"}, outputVariable="p"),
            node("js", "javascript", {"code": "return ctx.p + 1"}, outputVariable="said"),
        ],
        "start>py", "py>js", "js>end",
    ),
}  # fmt: skip

CASES: tuple[Case, ...] = (
    Case("linear", {"n": [1, 2.5, "three", None, True, {"four": 9007199254740993}]}),
    Case("linear", "ünïcödé 🙂"),
    Case("no-end", 1),
    Case("diamond", {"n": 9}),
    Case("diamond", {"n": 1}),
    Case("dead-path", {"n": 9}),
    Case("handles", {"way": "left"}),
    Case("handles", {"way": "nowhere"}),
    Case("join-all", ends=False),
    Case("join-any", ends=False),
    Case("retried"),
    Case("retry-later", ends=False),
    Case("fails"),
    Case("fails-beside"),
    Case("handled"),
    Case("ignored"),
    Case("template-fails"),
    Case("for-each", [1, 2, 3]),
    Case("for-each", []),
    Case("for-each-many", list(range(20))),
    Case("for-each-yield", ["a", "b"]),
    Case("for-each-skip", [1, 2, 1]),
    Case("for-each-collect", [1, 2]),
    Case("for-each-fails", [1, 2]),
    Case("for-each-no-list", {"no": "list"}),
    Case("for-each-gate", [1, 2, 3, 4], ends=False),
    Case("for-each-limit", [1, 2, 3]),
    Case("while"),
    Case("nested", [[1, 2], [], [3]]),
    Case("wait-in-loop", [1, 2, 3], ends=False, signals=(("go", {"n": 2}),), finish=(("go", {"n": 3}), ("go", {"n": 1}))),
    Case("delay"),
    Case("delay-long", ends=False),
    Case("wait", "Ada", signals=(("approve", {"by": "Ada", "extra": [1]}),)),
    Case("wait", "Ada", ends=False, signals=(("approve", {"by": "Bob"}), ("other", None)), finish=(("approve", {"by": "Ada"}),)),
    Case("wait-timeout"),
    Case("wait-timeout", signals=()),
    Case("wait-timeout-open", ends=False),
    Case("wait-timeout-open", ends=False, finish=(("approve", 1),)),
    Case("gate", {"some": "input"}, ends=False),
    Case("gate", 1, cancelled=True),
    Case("wait", "Ada", cancelled=True),
    Case("terminate"),
    Case("deadline", ends=False),
    Case("parent", {"child": "linear", "input": 5}),
    Case("parent", {"child": "gate", "input": 6}, ends=False),
    Case("parent", {"child": "fails", "input": None}),
    Case("parent", {"child": "golden-steps", "input": {"coded": True}}),
    Case("parent", {"child": "gate", "input": 7}, cancelled=True),
    Case("parent-no-wait"),
    Case("code", 40),
    Case("", {"test": 1}, graph=GRAPHS["linear"]),
    Case("", {"test": 2}, ends=False, graph=GRAPHS["gate"]),
    Case("golden-steps", {"a": 1}),
    Case("golden-retries"),
    Case("golden-step-fails"),
    Case("golden-body-fails"),
    Case("golden-tries-again"),
    Case("golden-retry-later", ends=False),
    Case("golden-workflow-retry-later", ends=False),
    Case("golden-sleep", {"long": 30}),
    Case("golden-sleep", {"long": "60s"}, ends=False),
    Case("golden-wait", signals=(("paid", {"order": 7}), ("shipped", None))),
    Case("golden-wait", ends=False, signals=(("paid", {"order": 8}),), finish=(("paid", {"order": 7}), ("shipped", "x"))),
    Case("golden-gather", ends=False),
    Case("golden-hangs", ends=False),
    Case("golden-hangs", cancelled=True),
    Case("golden-timeout"),
    Case("golden-parent", {"child": "golden-steps"}),
    Case("golden-parent", {"child": "gate", "input": 1}, ends=False),
    Case("golden-parent", {"child": "golden-step-fails"}),
    Case("golden-signals"),
    Case("golden-gives-up", ends=False, signals=(("given-up", 1),), finish=(("goes-on", 2),)),
    Case("golden-gives-up", signals=(("goes-on", 2),)),
    Case("golden-loop"),
    Case("golden-deadline", ends=False),
    Case("golden-later-versions", ends=False),
)  # fmt: skip

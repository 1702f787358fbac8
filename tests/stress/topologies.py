"""The shapes that workflows come in, each with how it must end.

Called by the stress tests, which run them alone and in crowds, in any order of results, with
every result delivered twice. A node that ran is in `completed` or `failed`, with the scope in
front; what neither ran nor was skipped has no place in the log.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.oracle.script import Script
from tests.spec.drawings import condition, drawn, loop

ANY = {"joinMode": "any"}
BROKEN = {"config": {"values": {"x": "{{ctx.input.nothing.there}}"}}}
PAUSE = {"type": "delay", "config": {"duration": "2s"}}
LONG = 1_000


@dataclass(frozen=True)
class Topology:
    """A shape and its end."""

    name: str
    document: dict[str, Any]
    completed: frozenset[str]
    skipped: frozenset[str] = frozenset()
    failed: frozenset[str] = frozenset()
    status: str = "COMPLETED"
    input: Any = None
    output: Any = None
    script: Script | None = None
    """How flaky nodes fail."""


def topology(name: str, document: dict[str, Any], completed: str, skipped: str = "", failed: str = "", **more: Any):
    """A shape whose activations are listed in words; `start` completes by itself."""
    return Topology(
        name,
        document,
        frozenset(["start", *completed.split()]),
        frozenset(skipped.split()),
        frozenset(failed.split()),
        **more,
    )


def end(**parameters: Any) -> dict[str, Any]:
    """An End that answers with these."""
    return {"type": "end", "config": {"outputParameters": parameters}}


def _chain(length: int) -> str:
    return ", ".join(["start>n0", *(f"n{number}>n{number + 1}" for number in range(length - 1))])


def _names(prefix: str, count: int) -> str:
    return " ".join(f"{prefix}{number}" for number in range(count))


LINEAR = topology("linear", drawn("start>a, a>b, b>end", end=end(ok=True)), "a b end", output={"ok": True})
DIAMOND_ALL = topology("diamond all", drawn("start>a, start>b, a>join, b>join, join>after"), "a b join after")

CHECK = drawn("start>check, check.yes>a, check.else>b, a>join, b>join", check=condition("yes"))
SWITCH = drawn(
    "start>switch, switch.a>one, switch.c>two, switch.e>three, one>join, two>join, three>join",
    switch=condition("a", "b", "c", "d", "e"),
)
NESTED_CONDITIONS = drawn(
    "start>outer, outer.p>inner, inner.q>deep, deep>join, inner.else>join, outer.else>join",
    outer=condition("p"),
    inner=condition("q"),
)
LOOP = "start>each, each.loop>work, each.done>after"
RETRIED = {"type": "flaky", "retry": {"maxAttempts": 3, "backoff": {"base": "1s"}}}

TOPOLOGIES = [
    LINEAR,
    DIAMOND_ALL,
    topology("fan-out", drawn("start>a, start>b, start>c, start>d, start>e"), "a b c d e"),
    topology(
        "fan-in",
        drawn(", ".join(f"start>n{i}, n{i}>join" for i in range(20))),
        f"{_names('n', 20)} join",
    ),
    topology("diamond any", drawn("start>a, start>b, a>join, b>join, join>after", join=ANY), "a b join after"),
    topology(
        "any join with a late loser",
        drawn("start>fast, start>slow, fast>join, slow>join, join>after", join=ANY, slow=PAUSE),
        "fast slow join after",
    ),
    topology("deep chain", drawn(_chain(LONG)), _names("n", LONG)),
    topology("error handled", drawn("start>a, a>fine, a.error>rescue", a=BROKEN), "rescue", "fine", "a"),
    topology("error without an edge", drawn("start>a, a>b", a=BROKEN), "", "", "a", status="FAILED"),
    topology("error ignored", drawn("start>a, a>b", a={**BROKEN, "errorHandling": "ignore"}), "b", "", "a"),
    topology(
        "error that fails the workflow",
        drawn("start>a, a.error>b", a={**BROKEN, "errorHandling": "fail_workflow"}),
        "",
        "",
        "a",
        status="FAILED",
    ),
    topology(
        "retried until it succeeds",
        drawn("start>a, a>b", a=RETRIED),
        "a b",
        script={"a": {"where": "", "fails": 2}},
    ),
    topology(
        "retried in vain", drawn("start>a, a.error>b", a=RETRIED), "b", "", "a", script={"a": {"where": "", "fails": 9}}
    ),
    topology("condition met", CHECK, "check a join", "b", input={"yes": True}),
    topology("condition not met", CHECK, "check b join", "a", input={"yes": False}),
    topology("switch", SWITCH, "switch two join", "one three", input={c: c == "c" for c in "abcde"}),
    topology("switch into a gap", SWITCH, "switch", "one two three join", input={c: c == "d" for c in "abcde"}),
    topology("nested conditions, both met", NESTED_CONDITIONS, "outer inner deep join", input={"p": True, "q": True}),
    topology(
        "nested conditions, one met", NESTED_CONDITIONS, "outer inner join", "deep", input={"p": True, "q": False}
    ),
    topology("nested conditions, none met", NESTED_CONDITIONS, "outer join", "inner deep", input={"p": False}),
    topology("double edge into one join", drawn("start>a, start>b, a>join, a>join, b>join"), "a b join"),
    topology(
        "two handles into one join",
        drawn("start>check, start>b, check.yes>join, check.else>join, b>join", check=condition("yes")),
        "check b join",
        input={"yes": True},
    ),
    topology(
        "joins of joins",
        drawn("start>a, start>b, start>c, start>d, a>ab, b>ab, c>cd, d>cd, ab>all, cd>all, a>all"),
        "a b c d ab cd all",
    ),
    topology("delay", drawn("start>pause, pause>a", pause=PAUSE), "pause a"),
    topology("delay before a join", drawn("start>pause, start>a, pause>join, a>join", pause=PAUSE), "pause a join"),
    topology("loop over nothing", drawn(LOOP, each=loop()), "each after", input={"items": []}),
    topology("loop over one", drawn(LOOP, each=loop()), "each[0]/work each after", input={"items": [1]}),
    topology(
        "loop over many",
        drawn(LOOP, each=loop()),
        f"{' '.join(f'each[{i}]/work' for i in range(30))} each after",
        input={"items": list(range(30))},
    ),
    topology(
        "parallel map",
        drawn(
            f"{LOOP}, after>end",
            each={**loop(concurrency=8, **{"yield": "{{ctx.item * 2}}"}), "outputVariable": "l"},
            end=end(doubled="{{ctx.l}}"),
        ),
        f"{' '.join(f'each[{i}]/work' for i in range(30))} each after end",
        input={"items": list(range(30))},
        output={"doubled": [2 * number for number in range(30)]},
    ),
    topology(
        "loop with a join inside",
        drawn("start>each, each.loop>a, each.loop>b, a>join, b>join, join>each", each=loop(concurrency=2)),
        " ".join(f"each[{i}]/{node}" for i in range(4) for node in ("a", "b", "join")) + " each",
        input={"items": list(range(4))},
    ),
    topology(
        "nested loop",
        drawn(
            "start>outer, outer.loop>inner, inner.loop>work, inner.done>sum",
            outer=loop(concurrency=2),
            inner=loop(source="{{ctx.item}}", concurrency=2),
        ),
        "outer[0]/inner[0]/work outer[0]/inner[1]/work outer[0]/inner outer[0]/sum outer[1]/inner outer[1]/sum "
        "outer[2]/inner[0]/work outer[2]/inner outer[2]/sum outer",
        input={"items": [[1, 2], [], [3]]},
    ),
    topology(
        "loop whose items fail",
        drawn("start>each, each.loop>work, work>more", each=loop(onItemError="skip", concurrency=3), work=BROKEN),
        "each",
        " ".join(f"each[{i}]/more" for i in range(5)),
        " ".join(f"each[{i}]/work" for i in range(5)),
        input={"items": list(range(5))},
    ),
    topology(
        "while loop",
        drawn("start>again, again.loop>work", again=loop(**{"while": "{{ctx.index < 5}}"})),
        f"{' '.join(f'again[{i}]/work' for i in range(5))} again",
    ),
    topology(
        "several ends",
        drawn("start>a, start>b, a>one, b>two", one=end(a=1), two=end(b=2)),
        "a b one two",
        output={"a": 1, "b": 2},
    ),
    topology(
        "end that terminates",
        drawn(
            "start>stop, start>pause, pause>never",
            pause=PAUSE,
            stop={"type": "end", "config": {"terminate": True, "outputParameters": {"why": "enough"}}},
        ),
        "stop",
        "pause",
        output={"why": "enough"},
    ),
]

"""Random workflows with everything in them that a drawn workflow may do, and an input and failures to match.

Called by the tests that run the engine against the oracle, and by the simulator. One recipe serves
both: `draw_case` asks a `Dice` for numbers, and the dice are hypothesis (which shrinks towards zero, so
zero is always the simplest choice) or a seeded `random.Random`.

Templates use only the forms that the oracle's evaluator knows, and conditions, sources and `while`
read only the input and the loops, so that the course of a run never hangs on timing.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from hypothesis import strategies as st

from tests.oracle.script import FATAL, Script
from tests.oracle.shape import Shape

T = TypeVar("T")

Dice = Callable[[int], int]
"""A number from 0 to the given one, both included; 0 is the plainest."""

# 25 nodes are enough for two nested loops with joins on every level, and small enough to read.
NODES_MAX = 25
LOOP_DEPTH_MAX = 2
# Wider ranges would only repeat what 4 items, 5 open iterations and 5 rounds of a `while` show.
ITEMS_MAX = 4
CONCURRENCY_MAX = 5
ROUNDS_MAX = 5


@dataclass(frozen=True)
class Case:
    """A valid document, an input that steers its conditions and loops, and how its flaky nodes fail."""

    document: dict[str, Any]
    input: dict[str, Any]
    script: Script
    trigger: str | None = None
    """Where the run begins; None: at the start."""


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Cases that hypothesis can shrink."""
    return draw_case(lambda upto: draw(st.integers(0, upto)))


def random_case(seed: int) -> Case:
    """The case of a seed: the same shapes without hypothesis."""
    rng = random.Random(seed)
    return draw_case(lambda upto: rng.randint(0, upto))


def random_case_of_triggers(seed: int) -> Case:
    """The same with one to three triggers, each leading to nodes of the root and to some of its own."""
    rng = random.Random(seed)
    case = random_case(seed)
    nodes, edges = case.document["nodes"], case.document["edges"]
    at_root = [name for name, home in Shape(case.document).home.items() if home == "" and name != "start"]
    triggers = [f"t{number}" for number in range(1 + rng.randrange(3))]
    for name in triggers:
        nodes.append({"id": name, "type": "topic", "config": {"topic": "a"}, "outputVariable": f"v{name}"})
        own = {
            "id": f"{name}own",
            "type": "set",
            "config": {"values": {"v": f"{{{{ctx.v{name}.seed | default('none')}}}}"}},
        }
        nodes.append(own)
        targets = [own["id"], *rng.sample(at_root, min(len(at_root), rng.randrange(3)))]
        for target in targets:
            edges.append({"id": f"e{len(edges)}", "upstreamNodeID": name, "downstreamNodeID": target,
                          "sourceHandle": None})  # fmt: skip
        if at_root and rng.randrange(2):
            edges.append({"id": f"e{len(edges)}", "upstreamNodeID": own["id"], "downstreamNodeID": rng.choice(at_root),
                          "sourceHandle": None})  # fmt: skip
    if rng.randrange(4) == 0:  # without a start: what it led to begins at the first trigger
        nodes[0] = {"id": "start", "type": "workflowCall"}
    trigger = rng.choice([*triggers, "start"])
    is_start = trigger == "start" and nodes[0]["type"] == "start"
    return Case(case.document, case.input, case.script, None if is_start else trigger)


def draw_case(dice: Dice) -> Case:
    """One case; the dice decide everything."""
    painter = _Painter(dice)
    painter.paint()
    document = {"title": "random", "nodes": painter.nodes, "edges": painter.edges}
    return Case(document, {"seed": 7, "choices": painter.choices, "items": painter.items}, painter.script)


@dataclass
class _Place:
    """Where nodes are being added: the root, or the body of a loop."""

    depth: int
    loop: str | None = None
    repeats: bool = False
    """The innermost loop is a `while`: there is no item."""
    exits: list[tuple[str, str]] = field(default_factory=list)
    """(node, handle) that an edge may start from."""


class _Painter:
    def __init__(self, dice: Dice) -> None:
        self._dice = dice
        self._variables: list[str] = []
        self._root_nodes: list[str] = []
        self.nodes: list[dict[str, Any]] = []
        self.edges: list[dict[str, Any]] = []
        self.choices: dict[str, int] = {}
        self.items: dict[str, Any] = {}
        self.script: dict[str, dict[str, Any]] = {}

    def paint(self) -> None:
        self.nodes.append({"id": "start", "type": "start"})
        root = _Place(depth=0, exits=[("start", "default")])
        for _ in range(1 + self._dice(12)):
            self._add_node(root)
        for _ in range(self._dice(2)):
            self._add_end(root)
        if self._one_in(6):
            self._add_unreachable()
        # Last, so that a seed draws the graph that it has always drawn.
        if self._one_in(4):
            self._pick(self.nodes[1:])["disabled"] = True

    def _add_node(self, place: _Place) -> None:
        if len(self.nodes) >= NODES_MAX:
            return
        # Conditions and flaky nodes come more often than their share: they are what the rules are about.
        kinds = ["set", "flaky", "condition", "flaky", "condition", "set", "delay", "end", "loop"]
        # A loop is worth its place in the body of another more than anywhere else.
        kind = self._pick(kinds + ["loop"] * 2 * place.depth)
        if kind == "loop" and place.depth < LOOP_DEPTH_MAX:
            self._add_loop(place)
        elif kind == "end":
            self._add_end(place)
        elif kind == "condition":
            self._add_condition(place)
        elif kind == "flaky":
            node = self._put(place, "flaky", None)
            node["retry"] = self._retry()
            if self._one_in(3):
                where = f"[{self._dice(2)}]" if place.loop and self._dice(2) else ""
                self.script[node["id"]] = {"where": where, "fails": self._pick([1, 3, 2, FATAL])}
            self._offer(place, node, "default")
        elif kind == "delay":
            self._offer(place, self._put(place, "delay", {"duration": f"{self._dice(5)}ms"}), "default")
        else:
            value = "{{ctx.nowhere.at.all}}" if self._one_in(30) else self._value(place)  # fails: its path is missing
            self._offer(place, self._put(place, "set", {"values": {"v": value}}), "default")

    def _add_condition(self, place: _Place) -> None:
        node = self._put(place, "condition", {"branches": []})
        name, count = node["id"], 1 + self._dice(3)
        self.choices[name] = self._dice(count)
        for number in range(count):
            node["config"]["branches"].append({"id": f"o{number}", "expression": self._test(place, name, number)})
        if self._one_in(25):
            del self.choices[name]  # the condition fails: its path is missing
        self._offer(place, node, *(f"o{number}" for number in range(count)), "else")

    def _test(self, place: _Place, name: str, number: int) -> Any:
        forms: list[Any] = [f"{{{{ctx.input.choices.{name} == {number}}}}}"] * 3
        if place.loop:
            forms.append(f"{{{{ctx.index == {number}}}}}")
        if place.loop and not place.repeats:
            forms.append(f"{{{{ctx.item == {number}}}}}")
        if self._one_in(10):
            forms = [True, False]
        return self._pick(forms)

    def _add_end(self, place: _Place) -> None:
        config: dict[str, Any] = {"outputParameters": {}}
        for _ in range(self._dice(2)):
            config["outputParameters"][f"p{self._dice(2)}"] = self._value(place)
        if self._one_in(4):
            pairs = config["outputParameters"].items()
            config["outputParameters"] = [{"name": name, "value": value} for name, value in pairs]
        if self._one_in(3):
            config["name"] = f"out{self._dice(1)}"
        if self._one_in(6):
            config["terminate"] = True
        self._put(place, "end", config)

    def _add_loop(self, place: _Place) -> None:
        node = self._put(place, "loop", {})
        name, config = node["id"], node["config"]
        repeats = self._one_in(4)
        if repeats:
            self.items[name] = self._dice(3)
            measure = self._pick(["ctx.index", "ctx.results | length"])
            config |= {"mode": "while", "maxIterations": self._pick([ROUNDS_MAX, 2])}
            config["while"] = f"{{{{{measure} < ctx.input.items.{name}}}}}"
        else:
            self._feed(place, name, config)
        if self._dice(1):
            config["onItemError"] = self._pick(["fail", "collect", "skip"])
        body = _Place(place.depth + 1, name, repeats, [(name, "loop")])
        for _ in range(self._dice(5 - place.depth)):
            self._add_node(body)
        self._return(body, name)
        if self._one_in(3):
            config["yield"] = self._pick(["{{ctx.index}}", f"{self._value(body)}"])
        self._offer(place, node, "done")

    def _feed(self, place: _Place, name: str, config: dict[str, Any]) -> None:
        """A list to loop over: of the input, or the item of the loop around it."""
        config["source"] = f"{{{{ctx.input.items.{name}}}}}"
        self.items[name] = [self._item() for _ in range(self._dice(ITEMS_MAX))]
        if place.loop and not place.repeats and self._one_in(3):
            config["source"] = "{{ctx.item}}"
        elif self._one_in(20):
            self.items[name] = 5  # no list: LOOP_SOURCE_NOT_A_LIST
        if self._dice(1):
            config["concurrency"] = 1 + self._dice(CONCURRENCY_MAX - 1)
        if self._one_in(12):
            config["maxIterations"] = 2

    def _item(self) -> Any:
        return [self._dice(2) for _ in range(self._dice(2))] if self._one_in(3) else self._dice(2)

    def _return(self, body: _Place, loop: str) -> None:
        """Back edges, from some exits of the body or from none."""
        for source, handle in body.exits[1:]:
            if self._one_in(2 if handle == "error" else 4):
                self._connect(source, handle, loop)

    def _add_unreachable(self) -> None:
        """A node that nothing leads to, with an edge into the graph that must not count."""
        self.nodes.append({"id": "island", "type": "set", "config": {"values": {"v": 1}}})
        self._connect("island", "default", self._pick(self._root_nodes))

    def _put(self, place: _Place, kind: str, config: dict[str, Any] | None) -> dict[str, Any]:
        """A new node with its incoming edges, so that every node is reachable."""
        name = f"n{len(self.nodes)}"
        node: dict[str, Any] = {"id": name, "type": kind}
        if config is not None:
            node["config"] = config
        if kind != "end" and self._dice(3):
            node["outputVariable"] = "shared" if self._one_in(2 if place.loop else 3) else f"v{name}"
            self._variables.append(node["outputVariable"])
        if self._one_in(4):
            node["joinMode"] = "any"
        if kind != "end" and self._one_in(3):
            node["errorHandling"] = self._pick(["ignore", "continue", "fail_workflow"])
        self.nodes.append(node)
        if not place.loop:
            self._root_nodes.append(name)
        for _ in range(1 + self._pick([0, 0, 1, 2])):
            # Recent exits are preferred (0 is the newest): graphs grow long rather than flat.
            source, handle = place.exits[-1 - self._dice(min(len(place.exits) - 1, 5))]
            self._connect(source, handle, name)
        return node

    def _offer(self, place: _Place, node: dict[str, Any], *handles: str) -> None:
        """Let later edges start here; by `error` only sometimes, since most nodes do not fail."""
        if self._one_in(4) and node.get("errorHandling", "continue") == "continue":
            place.exits.append((node["id"], "error"))
        place.exits.extend((node["id"], handle) for handle in handles)

    def _connect(self, source: str, handle: str, target: str) -> None:
        self.edges.append(
            {
                "id": f"e{len(self.edges)}",
                "upstreamNodeID": source,
                "downstreamNodeID": target,
                "sourceHandle": None if handle == "default" else handle,
            }
        )

    def _retry(self) -> dict[str, Any]:
        kind = self._pick(["fixed", "linear", "exp"])
        return {"maxAttempts": 1 + self._dice(2), "backoff": {"kind": kind, "base": "1ms", "max": "4ms", "jitter": 0}}

    def _value(self, place: _Place) -> Any:
        forms: list[Any] = ["{{ctx.input.seed}}", 1]
        if self._variables:
            name = self._pick(self._variables[::-1])
            forms += [f"{{{{ctx.{name} | default(0)}}}}"] * 3 + [f"{{{{ctx.{name}.v | default('none')}}}}"]
        if place.loop:
            forms += [
                "{{ctx.index}}",
                "{{ctx.shared | default(0)}}",
                "round {{ctx.index}} of {{ctx.input.seed}}",
                "{{ctx.count}}",
            ]
        if place.loop and place.repeats:
            forms.append("{{ctx.results | length}}")
        if place.loop and not place.repeats:
            forms.append("{{ctx.item}}")
        return self._pick(forms)

    def _one_in(self, chances: int) -> bool:
        return self._dice(chances - 1) == chances - 1

    def _pick(self, options: Sequence[T]) -> T:
        return options[self._dice(len(options) - 1)]

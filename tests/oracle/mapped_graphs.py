"""Random graphs with mapped nodes: those that there are already, with some of their nodes once per item of a list."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from tests.oracle.graphs import Case, random_case
from tests.oracle.looping_graphs import looping_case
from tests.oracle.script import FATAL

MAPPABLE = ("set", "flaky", "delay")


def mapped_case(seed: int) -> Case:
    """A graph with loops of all kinds and at least one mapped node."""
    number = 0
    while True:
        rng = random.Random(f"{seed}/{number}")
        case = looping_case(rng.getrandbits(32)) if rng.random() < 0.4 else random_case(rng.getrandbits(32))
        items = dict(case.input.get("items", {}))
        script = dict(case.script)
        nodes = [_mapped(node, rng, items, script) for node in case.document["nodes"]]
        if any("forEach" in node for node in nodes):
            return Case({**case.document, "nodes": nodes}, {**case.input, "items": items}, script)
        number += 1


def _mapped(
    node: dict[str, Any], rng: random.Random, items: dict[str, Any], script: dict[str, Mapping[str, Any]]
) -> dict[str, Any]:
    if node["type"] not in MAPPABLE or rng.random() < 0.5:
        return node
    name = node["id"]
    items[name] = [rng.randint(0, 2) for _ in range(rng.randint(0, 4))] if rng.random() < 0.95 else "no list"
    mapped = {**node, "forEach": f"{{{{ctx.input.items.{name}}}}}"}
    if rng.random() < 0.5:
        mapped["concurrency"] = rng.randint(1, 3)
    if rng.random() < 0.5:
        mapped["onItemError"] = rng.choice(["fail", "collect", "skip"])
    if rng.random() < 0.3:
        mapped["batchSize"] = rng.randint(1, 3)
    if node["type"] == "set" and rng.random() < 0.6:
        mapped["config"] = {"values": {**node["config"]["values"], "item": "{{ctx.item}}", "index": "{{ctx.index}}"}}
    if node["type"] == "flaky" and rng.random() < 0.6:
        script[name] = {"where": rng.choice(["", "[1]", "[2]"]), "fails": rng.choice([1, 3, FATAL])}
        mapped["errorHandling"] = rng.choice(["continue", "ignore", "fail_workflow"])
    return mapped

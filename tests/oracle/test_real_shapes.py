"""Shapes that people drew, with the endings written down beside them: the oracle and the engine must both agree."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from anabranch.handlers.registry import builtin_types
from tests.oracle.graphs import Case
from tests.oracle.oracle import predict
from tests.oracle.prediction import ActivationKey, Ending
from tests.oracle.running import observe, run_of

CORPUS = Path(__file__).parent.parent / "corpus" / "real_graphs.jsonl"


TYPES = builtin_types()

GRAPHS = [
    pytest.param(graph, id=f"{graph['category']}-{graph['id']}")
    for graph in map(json.loads, CORPUS.read_text().splitlines())
    if graph["category"] in ("dag", "loop")
]


@pytest.mark.parametrize("graph", GRAPHS)
def test_the_oracle_agrees_with_every_case_of_a_real_shape(graph: dict[str, Any]) -> None:
    for case in graph["cases"]:
        prediction = predict(graph["workflow"], case["input"], {})
        assert prediction.statuses == {"COMPLETED"}
        assert not prediction.may, "nothing in these graphs depends on timing"
        assert endings(prediction.must) == written_down(case), f"with the input {case['input']}"


@pytest.mark.parametrize("graph", GRAPHS)
def test_the_engine_ends_every_real_shape_as_written_down(graph: dict[str, Any]) -> None:
    for order, case in enumerate(graph["cases"]):
        run = run_of(Case(graph["workflow"], case["input"], {}), TYPES, order=order, duplicate=False)
        observed = observe(asyncio.run(run))
        assert observed.status == "COMPLETED"
        assert endings(observed.endings) == written_down(case), f"with the input {case['input']}"


def endings(found: Mapping[ActivationKey, Ending]) -> dict[str, set[ActivationKey]]:
    return {
        outcome: {key for key, ending in found.items() if ending.outcome == outcome}
        for outcome in ("completed", "failed", "skipped")
    }


def written_down(case: Mapping[str, Any]) -> dict[str, set[ActivationKey]]:
    expected = {outcome: {(node, scope) for node, scope in keys} for outcome, keys in case["expect"].items()}
    return {"failed": set(), **expected}

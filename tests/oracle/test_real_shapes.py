"""The oracle against the shapes that people drew, with the endings written down beside them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.oracle.oracle import predict

CORPUS = Path(__file__).parent.parent / "corpus" / "real_graphs.jsonl"


def graphs() -> Iterator[Any]:
    for line in CORPUS.read_text().splitlines():
        graph = json.loads(line)
        if graph["category"] in ("dag", "loop"):
            yield pytest.param(graph, id=f"{graph['category']}-{graph['id']}")


@pytest.mark.parametrize("graph", graphs())
def test_the_oracle_agrees_with_every_case_of_a_real_shape(graph: dict[str, Any]) -> None:
    for case in graph["cases"]:
        prediction = predict(graph["workflow"], case["input"], {})
        assert prediction.statuses == {"COMPLETED"}
        assert not prediction.may, "nothing in these graphs depends on timing"
        for outcome, expected in case["expect"].items():
            got = sorted(list(key) for key, ending in prediction.must.items() if ending.outcome == outcome)
            assert got == sorted(expected), f"{outcome} with the input {case['input']}"

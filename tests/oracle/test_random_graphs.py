"""The engine against the oracle: random workflows, real rules, real handlers, results in a random order.

`ANABRANCH_ORACLE_GRAPHS=50000` makes it a soak; with few graphs the same ones come every time.
"""

from __future__ import annotations

import asyncio
import os
from pprint import pformat

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from anabranch.engine.rules.graph.validate import validate
from anabranch.engine.rules.verify.check_log import check_log
from anabranch.handlers.registry import builtin_types
from tests.oracle.flaky import WithFlaky
from tests.oracle.graphs import Case, cases, random_case, random_case_of_triggers
from tests.oracle.mapped import expanded, expanded_log
from tests.oracle.oracle import predict
from tests.oracle.order import disorder
from tests.oracle.prediction import Observed, Prediction, disagreements
from tests.oracle.running import observe, run_of

# 1,000 graphs take seconds, and together meet every rule many times over.
GRAPHS = int(os.environ.get("ANABRANCH_ORACLE_GRAPHS", "1000"))
SOAK = GRAPHS > 1000
SEEDED_GRAPHS = GRAPHS // 2
# Shrinking a disagreement takes minutes, and what it ends with is worth them.
TIMEOUT_SECONDS = max(900, GRAPHS)

TYPES = builtin_types()  # once: the JSON Schemas of the configs take longer to make than a graph to run

graphs = settings(
    max_examples=GRAPHS,
    derandomize=not SOAK,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@pytest.mark.timeout(TIMEOUT_SECONDS)
@graphs
@given(
    case=cases(), order=st.integers(0, 1_000), duplicate=st.booleans(), evaluations_max=st.sampled_from((0, 1, 3, 200))
)
def test_the_engine_does_what_the_oracle_predicts(
    case: Case, order: int, duplicate: bool, evaluations_max: int
) -> None:
    """Whatever the order of the results, though each of them may arrive twice, and whoever evaluates pure nodes."""
    assert_as_predicted(case, order=order, duplicate=duplicate, evaluations_max=evaluations_max)


@pytest.mark.timeout(TIMEOUT_SECONDS)
def test_the_engine_does_what_the_oracle_predicts_for_seeded_graphs() -> None:
    """The same shapes from plain dice, which fall more evenly than those of hypothesis and make larger graphs."""
    for seed in range(SEEDED_GRAPHS):
        assert_as_predicted(
            random_case(seed), order=seed, duplicate=seed % 2 == 1, evaluations_max=(0, 1, 3, 200)[seed // 2 % 4]
        )


@pytest.mark.timeout(TIMEOUT_SECONDS)
def test_the_engine_does_what_the_oracle_predicts_for_graphs_of_several_entry_points() -> None:
    """A run begins at one of them; what only the others lead to is skipped."""
    for seed in range(SEEDED_GRAPHS // 8):
        assert_as_predicted(
            random_case_of_triggers(seed), order=seed, duplicate=seed % 2 == 1, evaluations_max=(0, 200)[seed % 2]
        )


def assert_as_predicted(
    case: Case, *, order: int, duplicate: bool, evaluations_max: int, is_ordered: bool = True
) -> None:
    """Run the case and fail with everything that the oracle holds against the run.

    `is_ordered`: also by the order of the rows, which is not read for graphs whose edges lead back.
    """
    prediction = predict(case.document, case.input, case.script, case.trigger)
    registry = WithFlaky(TYPES, case.script)
    report = validate(case.document, registry)
    assert report.valid, f"a legal workflow was refused: {pformat(report.as_json())}\n{pformat(case)}"
    run = asyncio.run(run_of(case, registry, order=order, duplicate=duplicate, evaluations_max=evaluations_max))
    observed = observe(run)
    faults = check_log(run.state.plan, run.state.head, run.log)
    problems = [
        *disagreements(prediction, observed),
        *(disorder(expanded(case.document), expanded_log(case.document, run.log)) if is_ordered else ()),
        *map(str, faults),
    ]
    assert not problems, explain(
        case,
        prediction,
        observed,
        [f"order={order}, duplicate={duplicate}, evaluations_max={evaluations_max}", *problems],
    )


def explain(case: Case, prediction: Prediction, observed: Observed, problems: list[str]) -> str:
    """Everything needed to assert_as_predicted the disagreement by hand."""
    parts = {
        "disagreements": problems,
        "nodes": case.document["nodes"],
        "edges": [
            f"{edge['upstreamNodeID']}:{edge['sourceHandle'] or 'default'} -> {edge['downstreamNodeID']}"
            for edge in case.document["edges"]
        ],
        "input": case.input,
        "script": case.script,
        "expected": prediction,
        "got": observed,
    }
    return "\n".join(f"{title}:\n{pformat(part, width=120)}" for title, part in parts.items())

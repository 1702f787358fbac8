"""The engine against the oracle on random graphs with mapped nodes."""

from __future__ import annotations

import os

import pytest

from tests.oracle.mapped_graphs import mapped_case
from tests.oracle.test_random_graphs import assert_as_predicted

# 40 graphs meet every rule of mapped nodes, and take seconds; `ANABRANCH_ORACLE_GRAPHS=50000` makes it a soak.
GRAPHS = int(os.environ.get("ANABRANCH_ORACLE_GRAPHS", "40"))


@pytest.mark.timeout(900)
def test_the_engine_does_what_the_oracle_predicts_for_graphs_with_mapped_nodes() -> None:
    """Whatever the order of the results, though each may arrive twice, and whoever evaluates pure nodes."""
    for seed in range(GRAPHS):
        case = mapped_case(seed)
        leads_back = any("maxPasses" in node for node in case.document["nodes"])
        evaluations_max = (0, 1, 3, 200)[seed // 2 % 4]
        assert_as_predicted(
            case, order=seed, duplicate=seed % 2 == 1, evaluations_max=evaluations_max, is_ordered=not leads_back
        )

"""docs/scale.md says what the schema and the measurements say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from benchmarks.distribution import REPLACED, conflicts, distributed, keys_without_the_column, local, statements
from benchmarks.fleet import Costs, ceiling, costs_of, simulate
from benchmarks.measured import RESULTS, read

PAGE = (Path(__file__).parents[2] / "docs" / "scale.md").read_text()
STATEMENTS_OF_1000_MAX = 50
"""What idle workers may cost the database, besides their heartbeats."""
COSTS = Costs(worker_per_node=0.1, server_per_node=0.1, server_per_idle_s=1.0, server_per_connection=5.0)


def test_each_unique_index_of_runs_and_logs_contains_the_column_or_is_replaced() -> None:
    assert keys_without_the_column() == []
    assert {str(index.name) for index in conflicts()} == REPLACED.keys()
    assert {table.name for table in distributed()} >= {"workflow_instances", "workflow_instance_logs"}


def test_the_page_has_the_statements_and_names_every_table_that_stays() -> None:
    (block,) = re.findall(r"```sql[^\n]*\n(.*?)```", PAGE, re.DOTALL)
    assert block.splitlines() == list(statements())
    for name in local():
        assert f"`{name}`" in PAGE, name


def test_the_figures_of_the_page_are_those_that_were_measured() -> None:
    figures = read(RESULTS / "scale.json").figures
    footprint, idle = figures["footprint"], figures["idle"]
    for shown in (
        f"{footprint['bytes_per_node']:,.0f} bytes",
        f"{footprint['wal_bytes_per_node']:,.0f} bytes",
        f"{footprint['log_rows_per_node']:.1f} rows",
        f"{idle['workers']} idle workers sent\n{idle['statements_per_s']:.1f} statements a second together",
        f"a thousand would send {idle['statements_per_s_of_1000']:.0f}:",
        f"{idle['server_cpu_ms_per_connection']:.1f} ms",
        *(
            f"| {workers} | {figures[backend][workers]['nodes_per_s']:,.0f} |"
            f" {figures[backend][workers]['cpu_ms_per_node']:.3f} |"
            f" {figures[backend][workers]['least_busy_share']:.0%} |"
            for backend in ("sqlite", "postgresql")
            for workers in ("1", "2", "4")
        ),
    ):
        assert shown in PAGE, shown
    assert idle["statements_per_s_of_1000"] <= STATEMENTS_OF_1000_MAX
    most, used_up = ceiling(costs_of(dict(figures)), workers=1_000, cores=64)
    assert f"{most:,.0f} runs a second ({used_up})" in PAGE


def test_idle_workers_take_from_what_is_left_for_runs() -> None:
    few, _ = ceiling(COSTS, workers=100, cores=8)
    many, used_up = ceiling(COSTS, workers=1_000, cores=8)
    assert (few, many, used_up) == (pytest.approx(7_900), pytest.approx(7_000), "database")
    assert ceiling(COSTS, workers=10_000, cores=8)[0] == 0


def test_a_failover_makes_runs_wait_and_the_more_the_higher_the_load() -> None:
    most, _ = ceiling(COSTS, workers=100, cores=8)
    half, full = (simulate(COSTS, workers=100, cores=8, runs_per_s=load * most) for load in (0.5, 0.9))
    assert 30 <= half["wait_max_after_failover_s"] <= 31
    assert half["back_to_normal_s"] < full["back_to_normal_s"]
    assert half["wait_p99_s"] <= full["wait_p99_s"] < 1

"""The tools of the benchmarks at tiny sizes: what they count and draw, never how long anything takes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from sqlalchemy import create_engine, text

from anabranch.engine.ports import Transition
from anabranch.engine.rules.events import Event, Status
from benchmarks import check, growth, measured, report, service
from benchmarks.bound import adopt_turns, record_turns, write_turns
from benchmarks.charts import line_chart, linear_axis, logarithmic_axis, short
from benchmarks.counting import opcodes, statements
from benchmarks.rows import ROWS_PER_RUN, fill, stored_log_rows
from benchmarks.running import Bench, engine_on, open_store_at
from benchmarks.series import SERIES
from benchmarks.workloads import Load, carry, fan_out, linear, map_over

RUNS = 3
LINE = Load(linear(4), RUNS, 4)
SHAPES = [
    LINE,
    Load(fan_out(5), RUNS, 7),
    Load(map_over(5), RUNS, 7, {"items": [1, 2, 3, 4, 5]}),
    Load(carry(3), RUNS, 4, {"p": "x"}),
]
COLUMNS_THAT_ARE_WORK = "node_id, scope, event_type, node_status, next_handle, output_variable, payload, node_attempt"


@pytest.mark.parametrize("load", SHAPES, ids=lambda load: load.name)
async def test_a_load_executes_as_many_nodes_as_it_says(load: Load) -> None:
    runs = await record_turns(load, RUNS)
    for transitions in runs:
        completed = [
            event for transition in transitions for event in transition.events if event.type == "NODE_COMPLETED"
        ]
        assert len(completed) == load.nodes_per_run


async def test_the_bound_writes_the_rows_that_the_engine_writes(sqlite_url: str) -> None:
    transitions = await record_turns(LINE, RUNS)
    async with open_store_at(sqlite_url) as store:
        await Bench(store).save(LINE)
        await adopt_turns(transitions, store, LINE)
        await write_turns(store, transitions)
        async with engine_on(store) as bench:
            await bench.run_all(LINE)
    logs = _logs(sqlite_url)
    bound, engine = (
        [log for id_, log in logs.items() if id_ in _ids(transitions)],
        [log for id_, log in logs.items() if id_ not in _ids(transitions)],
    )
    assert len(bound) == len(engine) == RUNS
    assert bound == engine


class Ends:
    """Counts the runs that have ended."""

    count = 0

    def committed(self, instance_id: str, events: Sequence[Event], status: Status) -> None:
        self.count += status.is_terminal


async def test_runs_of_a_steady_load_follow_one_another(sqlite_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    load, at_once, ends = Load(linear(4), 7, 4), 2, Ends()
    open_at_starts: list[int] = []
    async with open_store_at(sqlite_url) as store:
        await Bench(store).save(load)
        async with engine_on(store) as bench:
            bench.engine.observers.add(ends)
            start = bench.service.execute_workflow

            async def started(*args: Any, **more: Any) -> Any:
                open_at_starts.append(len(open_at_starts) - ends.count)
                return await start(*args, **more)

            monkeypatch.setattr(bench.service, "execute_workflow", started)
            await bench.run_steadily(load, at_once=at_once)
    assert len(open_at_starts) == ends.count == load.flock
    assert max(open_at_starts) == at_once - 1


@pytest.mark.parametrize(("kind", "table"), [("ours-accepting", "workflow_instances"), ("bare", "bare")])
async def test_both_servers_keep_a_row_for_each_start_that_they_answer(kind: str, table: str, sqlite_url: str) -> None:
    with service.running(kind, sqlite_url) as server:
        rate = await service.start_many(server, clients=2, starts=RUNS)
        assert rate.per_s > 0 and rate.cpu_ms >= 0
    engine = create_engine(sqlite_url)
    with engine.connect() as connection:
        assert connection.execute(text(f"SELECT count(*) FROM {table}")).scalar_one() == RUNS
    engine.dispose()


def test_the_section_on_starts_has_a_line_for_each_database_and_number_of_clients() -> None:
    rates = {"starts_per_s": 50.0, "bound_starts_per_s": 100.0, "p99_ms": 9.0, "cpu_ms": 2.0, "bound_cpu_ms": 1.0}
    found = {"clients": {"1": rates, "8": rates}, "runs_per_s": 30.0}
    setup = {"rounds": 1, "starts": 600}
    figures = {"sqlite": found, "postgresql": found}
    section = report.service_section(measured.Measured("a command", "today", "a machine", 1.0, setup, figures))
    assert "| postgresql, 8 clients | 50.0 | 100 | 0.50 | 9.00 | 2.00 | 1.00 |" in section
    assert section.count("1 client |") == 2
    assert "30.0 on sqlite and 30.0 on postgresql" in section


async def test_filled_logs_are_stored_for_ended_runs_of_a_workflow(sqlite_url: str) -> None:
    async with open_store_at(sqlite_url) as store:
        await Bench(store).save(LINE)
        await asyncio.to_thread(fill, sqlite_url, 10 * ROWS_PER_RUN, workflow=LINE.name)
        assert await asyncio.to_thread(stored_log_rows, sqlite_url) == 10 * ROWS_PER_RUN
        rows = await store.list_instances(tenant_id="default", limit=100)
    assert [row.status.value for row in rows] == ["COMPLETED"] * 10


def test_instructions_are_counted_alike_every_time() -> None:
    def work() -> int:
        return sum(number * number for number in range(100))

    counted = []
    for _ in range(2):
        with opcodes() as count:
            work()
        counted.append(count.value)
    assert counted[0] == counted[1] > 100


def test_statements_are_counted() -> None:
    with create_engine("sqlite://").connect() as connection, statements() as count:
        connection.execute(text("SELECT 1"))
        connection.execute(text("SELECT 2"))
    assert count.value == 2


def test_a_count_may_grow_by_less_than_the_tolerance() -> None:
    assert not list(check.problems_of({"a": 102.0}, {"a": 100.0}))
    assert list(check.problems_of({"a": 106.0}, {"a": 100.0})) == ["a: 106.0 instead of 100.0 (+6%)"]


def test_a_count_that_is_new_or_gone_is_told() -> None:
    problems = " ".join(check.problems_of({"new": 1.0}, {"gone": 1.0}))
    assert "new is new" in problems
    assert "gone is not counted any more" in problems


def test_ratios_far_from_the_bound_are_told() -> None:
    assert not list(check.problems_of_ratios(0.3, 3.0, "sqlite"))
    assert len(list(check.problems_of_ratios(0.1, 30.0, "sqlite"))) == 2


def test_the_baseline_has_counts_of_more_than_nothing() -> None:
    baselines = json.loads(check.BASELINE.read_text(encoding="utf-8"))
    assert baselines
    assert all(value > 0 for counts in baselines.values() for value in counts.values())


def test_a_chart_has_a_line_and_a_name_for_each_database_and_is_well_formed() -> None:
    lines = {"one": [(0, 5.0), (10, 7.0)], "two <&> three": [(0, 5.0), (10, 7.1)]}
    root = ElementTree.fromstring(line_chart('a "title"', "x", "y", lines, log_x=True))
    assert len(root.findall("{*}polyline")) == 2
    words = [element.text for element in root.findall("{*}text")]
    assert {"one", "two <&> three", 'a "title"', "x", "y"} <= set(words)


def test_axes_reach_around_their_values_with_few_ticks() -> None:
    axis = linear_axis("y", [3, 12_345])
    assert axis.ticks[0] == 0
    assert axis.high >= 12_345
    assert 3 <= len(axis.ticks) <= 8
    axis = logarithmic_axis("x", [0, 10, 1_000])
    assert [short(tick) for tick in axis.ticks] == ["1", "10", "100", "1 k"]
    assert axis.share(0) == 0
    assert axis.share(1_000) == 1


def test_only_what_stands_between_the_marks_is_replaced() -> None:
    written = report.between_marks("before <!-- a -->old<!-- /a --> after", "a", "new")
    assert written == "before <!-- a -->\n\nnew\n\n<!-- /a --> after"
    with pytest.raises(ValueError, match="marks"):
        report.between_marks("no marks", "a", "new")


def test_every_program_beside_ours_is_told_how_often_ours_is_as_fast() -> None:
    own = {"steps_per_s": 1_000.0, "effect_nodes_per_s": 1_500.0, "starts_per_s": 90.0, "lone_p50_ms": 5.0,
           "cpu_ms_per_step": 0.1, "cpu_ms_per_effect_node": 0.05}  # fmt: skip
    queue = {"steps_per_s": 500.0, "cpu_ms_per_step": 0.2}
    setup = {"rounds": 3, "runs": 500, "versions": {"anabranch": "1", "a queue": "2"}}
    figures = {"sqlite": {"anabranch": own, "a queue": queue}, "postgresql": {}}
    kept = measured.Measured("a command", "today", "a machine", 0.0, setup, figures)

    lines = report.peers_section(kept).splitlines()

    assert lines[-1] == "| sqlite, a queue 2 | 500 | 2.00 × | 3.00 × |  |  | 0.20 |"
    assert [line.split(" | ")[0] for line in lines[-3:-1]] == [
        "| sqlite, anabranch 1, coded",
        "| sqlite, anabranch 1, drawn",
    ]


def test_growth_is_told_beside_what_is_promised(tmp_path: Path) -> None:
    series = next(one for one in SERIES if one.name == "fan-in")
    points = [{"x": 10, "nodes_per_s": 900.0, "memory_mb": 1.0}, {"x": 100, "nodes_per_s": 600.0, "memory_mb": 2.0}]
    grown = {"sqlite": points, "postgresql": points}
    assert "sqlite 1.50, postgresql 1.50 (promised: at most 1.3)" in growth.verdict(series, grown)
    path = tmp_path / "results" / "growth.json"
    measured.save(path, "a command", {"fan-in": grown}, setup={"rounds": 1})
    section = report.growth_section(measured.read(path))
    assert "| 100 | 600 | 2.0 | 600 | 2.0 |" in section
    assert "a command" in section


def _ids(runs: list[list[Transition]]) -> set[str]:
    return {transitions[0].instance_id for transitions in runs}


def _logs(url: str) -> dict[str, list[tuple[object, ...]]]:
    """What each run's log says, but for the times."""
    statement = f"SELECT instance_id, {COLUMNS_THAT_ARE_WORK} FROM workflow_instance_logs ORDER BY instance_id, seq"
    logs: dict[str, list[tuple[object, ...]]] = {}
    with create_engine(url).connect() as connection:
        for instance_id, *event in connection.execute(text(statement)):
            logs.setdefault(instance_id, []).append(tuple(event))
    return logs

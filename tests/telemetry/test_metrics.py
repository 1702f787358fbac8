"""What `/metrics` says of runs, steps and signals, over HTTP from a real application."""

from __future__ import annotations

import gc
from typing import Any

import pytest

from anabranch.engine.rules.shared.run_state import InstanceHead
from anabranch.errors import StoreUnavailable
from anabranch.run_requests import StartOptions
from anabranch.telemetry import run_meters
from anabranch.telemetry.run_meters import DRAWN, OTHER, Histogram, MeasuredRun, Meters, ShownNames
from tests.telemetry.conftest import Open
from tests.telemetry.workflows import FLAKY, MANY, ORDER

WAIT = {"id": "secret-node", "type": "waitForEvent", "config": {"event": "secret-event"}}
END = {"id": "end", "type": "end"}
PAUSE = {"id": "pause", "type": "delay", "config": {"duration": "900ms"}}


async def test_a_coded_run_is_counted_by_the_names_of_its_workflow_and_steps(opened: Open) -> None:
    process = await opened(ORDER)
    run = await process.start("order")
    await process.signal(run, "paid")
    await process.ended(run)

    numbers = await process.numbers()
    assert numbers["workflow_runs_started_total", "order"] == 1
    assert numbers["workflow_runs_completed_total", "order", "completed"] == 1
    assert numbers["workflow_run_duration_seconds_count", "order"] == 1
    assert numbers["workflow_run_duration_seconds_sum", "order"] > 0
    steps = [key[2] for key in numbers if key[0] == "workflow_step_duration_seconds_count"]
    assert sorted(steps) == ["paid", "pause", "price", "ship"]
    assert all(numbers["workflow_step_duration_seconds_count", "order", step] == 1 for step in steps)
    assert numbers["workflow_signals_total", "order", "paid"] == 1
    assert numbers["workflow_retention_swept_total",] == 0
    await process.shows(("workflow_runs_in_flight", "order"), 0)


async def test_attempts_that_are_followed_by_another_are_retries(opened: Open) -> None:
    process = await opened(FLAKY)
    for failures in (2, 3):
        await process.ended(await process.start("flaky", {"failures": failures}))

    numbers = await process.numbers()
    assert numbers["workflow_step_retries_total", "flaky", "work"] == 4
    assert numbers["workflow_step_duration_seconds_count", "flaky", "work"] == 6
    assert numbers["workflow_runs_completed_total", "flaky", "completed"] == 1
    assert numbers["workflow_runs_completed_total", "flaky", "failed"] == 1


async def test_each_end_of_a_retried_run_is_counted_once_and_its_start_is_not_counted_again(opened: Open) -> None:
    process = await opened(FLAKY)
    run = await process.start("flaky", {"failures": 3})
    assert (await process.ended(run))["status"] == "FAILED"
    await process.services.workflows.retry_run(run, tenant_id="default", by="somebody")
    assert (await process.ended(run))["status"] == "COMPLETED"

    numbers = await process.numbers()
    assert numbers["workflow_runs_started_total", "flaky"] == 1
    assert numbers["workflow_runs_completed_total", "flaky", "failed"] == 1
    assert numbers["workflow_runs_completed_total", "flaky", "completed"] == 1


async def test_suspended_runs_are_shown_by_their_reason_and_are_not_in_flight(opened: Open) -> None:
    process = await opened()
    await process.save("stands", WAIT)
    run = await process.start("stands")
    await process.waiting(run)
    await process.shows(("workflow_runs_in_flight", DRAWN), 1)
    await process.services.workflows.pause_run(run, tenant_id="default", by="somebody")
    await process.shows(("workflow_runs_in_flight", DRAWN), 0)
    shown = (await process.metrics()).splitlines()
    assert 'anabranch_runs_suspended{reason="PAUSED"} 1.0' in shown
    assert 'anabranch_runs_suspended{reason="CRASHED"} 0.0' in shown


async def test_names_of_drawn_workflows_are_not_shown(opened: Open) -> None:
    process = await opened()
    await process.save("secret-name", WAIT, END)
    run = await process.start("secret-name")
    await process.waiting(run)
    await process.signal(run, "secret-event")
    await process.ended(run)

    assert "secret" not in await process.metrics()
    numbers = await process.numbers()
    assert numbers["workflow_runs_started_total", DRAWN] == 1
    assert numbers["workflow_runs_completed_total", DRAWN, "completed"] == 1
    assert numbers["workflow_step_duration_seconds_count", DRAWN, "waitForEvent"] == 1
    assert numbers["workflow_step_duration_seconds_count", DRAWN, "end"] == 1
    assert numbers["workflow_signals_total", DRAWN, ""] == 1


async def test_names_of_drawn_workflows_are_shown_where_an_operator_wants_that(opened: Open) -> None:
    process = await opened(metrics_names="all")
    await process.save("shop", WAIT, END)
    run = await process.start("shop")
    await process.waiting(run)
    await process.signal(run, "secret-event")
    await process.ended(run)

    numbers = await process.numbers()
    assert numbers["workflow_runs_completed_total", "shop", "completed"] == 1
    assert numbers["workflow_step_duration_seconds_count", "shop", "secret-node"] == 1
    assert numbers["workflow_signals_total", "shop", "secret-event"] == 1


async def test_what_another_process_writes_to_a_run_is_counted_there_and_only_there(opened: Open) -> None:
    worker, front = await opened(ORDER), await opened(works=False)
    signalled, cancelled = await worker.start("order"), await worker.start("order")
    for run in (signalled, cancelled):
        await worker.waiting(run)
    await front.signal(signalled, "paid")
    await front.services.workflows.cancel_run(cancelled, tenant_id="default", reason="changed our mind")
    await worker.ended(signalled)

    here, there = await worker.numbers(), await front.numbers()
    assert there["workflow_signals_total", "order", "paid"] == 1
    assert ("workflow_signals_total", "order", "paid") not in here
    assert there["workflow_runs_completed_total", "order", "cancelled"] == 1
    assert ("workflow_runs_completed_total", "order", "cancelled") not in here
    assert here["workflow_runs_completed_total", "order", "completed"] == 1
    assert here["workflow_runs_started_total", "order"] == 2
    assert there["workflow_runs_started_total", "order"] == 0


async def test_who_holds_a_run_does_not_count_what_another_process_writes_to_it(opened: Open) -> None:
    worker, front = await opened(), await opened(works=False)
    await worker.save("long", PAUSE, END)
    run = await worker.start("long")
    await front.signal(run, "any")
    ended = await worker.ended(run)
    assert ended["status"] == "COMPLETED"

    assert (await front.numbers())["workflow_signals_total", DRAWN, ""] == 1
    assert ("workflow_signals_total", DRAWN, "") not in await worker.numbers()


async def test_a_wait_takes_as_long_as_the_log_says_whoever_ends_it(opened: Open) -> None:
    first = await opened(ORDER)
    run = await first.start("order")
    await first.waiting(run)
    await first.services.engine.stop()
    second = await opened(ORDER)
    await second.signal(run, "paid")
    await second.ended(run)

    log = await second.services.workflows.get_events(run, tenant_id="default")
    times = [event.created_at for event in log if event.node_id == "paid"]
    waited_s = (times[-1] - times[0]) / 1000
    numbers = await second.numbers()
    assert numbers["workflow_step_duration_seconds_sum", "order", "paid"] == pytest.approx(waited_s)
    assert waited_s > 0
    assert ("workflow_step_duration_seconds_sum", "order", "price") not in numbers


async def test_runs_in_flight_have_started_and_not_ended_whoever_holds_them(opened: Open) -> None:
    worker, front = await opened(metrics_names="all"), await opened(works=False, metrics_names="all")
    await worker.save("long", WAIT, END)
    waiting = await worker.start("long")
    await worker.waiting(waiting)
    await worker.evict(waiting)
    later = (
        await worker.services.workflows.execute_workflow(
            "long", {}, StartOptions(available_at=worker.services.engine.clock.now() + 3_600_000), tenant_id="default"
        )
    ).instance_id

    for process in (worker, front):  # it is the database's, and the same in every process
        numbers = await process.numbers()
        assert numbers["workflow_runs_in_flight", "long"] == 1, (
            "one that waits has not ended, one that is due later not begun"
        )
        assert await process.open_runs("long") == {"waiting": 1, "pending": 1, "running": 0, "suspended": 0}
    for run in (waiting, later):
        await front.services.workflows.cancel_run(run, tenant_id="default", reason="enough")
    await front.shows(("workflow_runs_in_flight", "long"), 0)
    assert await front.open_runs("long") == {"waiting": 0, "pending": 0, "running": 0, "suspended": 0}


async def test_while_the_database_is_away_nothing_is_said_of_open_runs(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = await opened(ORDER)
    run = await process.start("order")
    await process.signal(run, "paid")
    await process.ended(run)

    async def away() -> None:
        raise StoreUnavailable("away")

    monkeypatch.setattr(process.services.engine.store, "count_open", away)
    await process.shows(("workflow_runs_in_flight", "order"), None)
    assert (await process.numbers())["workflow_runs_completed_total", "order", "completed"] == 1


async def test_with_a_key_of_its_own_metrics_are_shown_to_nobody_else_and_name_drawn_workflows(opened: Open) -> None:
    process = await opened(metrics_key="of-the-operator")
    await process.save("shop", END)
    await process.ended(await process.start("shop"))
    for headers in ({}, {"Authorization": "Bearer of-somebody"}, {"Authorization": "Basic of-the-operator"}):
        async with process.session.get(f"{process.url}/metrics", headers=headers) as refused:
            assert refused.status == 401
            assert (await refused.json())["error"]["code"] == "UNAUTHORIZED"
    process.session.headers["Authorization"] = "Bearer of-the-operator"
    assert (await process.numbers())["workflow_runs_completed_total", "shop", "completed"] == 1


async def test_names_are_shown_at_most_so_long(opened: Open) -> None:
    process = await opened(metrics_names="all")
    await process.save("shop", WAIT, END)
    run = await process.start("shop")
    for end in "ab":
        await process.signal(run, "e" * 200 + end)
    assert (await process.numbers())[
        "workflow_signals_total", "shop", "e" * (run_meters.LABEL_CHARACTERS_MAX - 1) + "…"
    ] == 2


async def test_test_runs_are_not_counted(opened: Open) -> None:
    process = await opened()
    document = {"nodes": [{"id": "start", "type": "start"}], "edges": []}
    await process.ended(await process.services.workflows.test_workflow(document, tenant_id="default"))

    assert ("workflow_runs_started_total", DRAWN) not in await process.numbers()


async def test_what_is_known_of_a_run_is_forgotten_when_it_parks_or_ends(opened: Open) -> None:
    process = await opened(ORDER)
    assert _followed() == 0
    waits, ends = await process.start("order"), await process.start("order")
    await process.waiting(waits)
    await process.waiting(ends)
    await process.numbers()  # counts what is committed
    assert _followed() == 0
    await process.signal(ends, "paid")
    await process.ended(ends)
    await process.waiting(waits)
    await process.numbers()
    assert _followed() == 0


async def test_a_held_run_is_followed(opened: Open) -> None:
    process = await opened()
    await process.save("long", PAUSE, END)
    run = await process.start("long")

    await process.numbers()  # counts what is committed
    assert _followed() == 1
    await process.ended(run)
    await process.numbers()
    assert _followed() == 0


async def test_names_without_end_make_labels_with_an_end(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_meters, "STEPS_MAX", 5)
    process = await opened(MANY)
    await process.ended(await process.start("many", {"steps": 20}))

    numbers = await process.numbers()
    counts = {key[2]: value for key, value in numbers.items() if key[0] == "workflow_step_duration_seconds_count"}
    assert counts == {**{f"step-{number}": 1 for number in range(5)}, OTHER: 15}


def test_a_coded_workflow_cannot_stand_among_those_whose_names_are_hidden() -> None:
    counted = Meters()
    coded, drawn = counted.of(_head(DRAWN, kind="coded")), counted.of(_head("anything"))
    assert coded is not None
    assert drawn is not None

    assert (coded.label, coded.shows_names) == (OTHER, True)
    assert (drawn.label, drawn.shows_names) == (DRAWN, False)


def test_workflows_past_the_limit_count_as_other_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_meters, "WORKFLOWS_MAX", 3)
    counted = Meters(ShownNames.ALL)
    for number in range(10):
        meter = counted.of(_head(f"workflow-{number}"))
        assert meter is not None
        meter.started += 1

    assert {meter.label: meter.started for meter in counted} == {
        "workflow-0": 1, "workflow-1": 1, "workflow-2": 1, OTHER: 7
    }  # fmt: skip


def test_events_past_the_limit_count_as_other_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_meters, "EVENTS_MAX", 2)
    meter = Meters(ShownNames.ALL).of(_head("any"))
    assert meter is not None
    for event in ("a", "b", "c", "d", "a"):
        meter.signalled(event)

    assert meter.signals == {"a": 2, "b": 1, OTHER: 2}


def test_a_histogram_counts_what_is_on_a_bound_below_it() -> None:
    histogram = Histogram((500, 1_000))
    for milliseconds in (-7, 500, 501, 1_000, 5_000):
        histogram.observe(milliseconds)

    assert (histogram.counts, histogram.sum_ms) == ([2, 2, 1], 7_001)


def _followed() -> int:
    """How many runs anything is known of."""
    gc.collect()
    return sum(isinstance(each, MeasuredRun) for each in gc.get_objects())


def _head(name: str, **fields: Any) -> InstanceHead:
    return InstanceHead("id", "default", None, name, 1, 0, 0, **fields)

"""Spans as a collector receives them over HTTP: names, attributes, ids, parents, times; and what a dead one changes."""

from __future__ import annotations

import asyncio
import gc
import socket
import sys
from collections.abc import Iterator, Mapping
from contextlib import AsyncExitStack
from itertools import pairwise
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan

from anabranch.app import build, resources
from anabranch.engine.handler_contract import HandlerResult, Helpers
from anabranch.engine.store.sql.store import SqlStore
from anabranch.errors import SettingsError, StoreUnavailable
from anabranch.handlers import node_type
from anabranch.settings import Settings
from anabranch.telemetry import otlp, run_meters
from tests.telemetry.conftest import Collector, Open
from tests.telemetry.workflows import FLAKY, ORDER, PARENT, TRACING, current_span

END = {"id": "end", "type": "end"}


@node_type("tests.currentSpan")
class CurrentSpan:
    async def execute(self, config: Any, context: Mapping[str, Any], helpers: Helpers) -> HandlerResult:
        return HandlerResult(current_span())


@pytest.fixture
def dead_url() -> Iterator[str]:
    """Where somebody listens who never answers: worse than nobody."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


async def test_a_coded_run_is_a_trace_of_its_steps_and_signals(opened: Open, collector: Collector) -> None:
    process = await opened(ORDER, otlp_endpoint=collector.url)
    run = await process.start("order", {"secret": "input"})
    await process.waiting(run)
    await process.signal(run, "paid", {"secret": "payload"})
    await process.ended(run)

    (root,) = await collector.has("workflow.run")
    steps = {step.attributes["step.name"]: step for step in await collector.has("workflow.step", count=4)}
    (signal,) = await collector.has("workflow.signal")
    assert root.trace_id == run.replace("-", "")
    assert root.parent_id == ""
    assert (
        root.attributes.items()
        >= {"workflow.name": "order", "workflow.version": 1, "run_id": run, "status": "completed"}.items()
    )
    assert {name: step.attributes["step.kind"] for name, step in steps.items()} == {
        "price": "run", "pause": "sleep", "paid": "wait", "ship": "run"
    }  # fmt: skip
    assert steps["price"].attributes.items() >= {"workflow.name": "order", "run_id": run, "step.attempt": 1}.items()
    assert signal.attributes == {"workflow.name": "order", "run_id": run, "event": "paid"}
    assert {span.parent_id for span in (*steps.values(), signal)} == {root.span_id}
    assert {span.trace_id for span in collector.spans} == {root.trace_id}
    assert len({span.span_id for span in collector.spans}) == 6
    assert "secret" not in str(collector.spans)
    assert collector.resources[0]["service.name"] == "anabranch"


async def test_spans_have_the_times_of_the_log(opened: Open, collector: Collector) -> None:
    process = await opened(ORDER, otlp_endpoint=collector.url)
    run = await process.start("order")
    await process.waiting(run)
    await process.signal(run, "paid")
    await process.ended(run)

    (root,) = await collector.has("workflow.run")
    steps = {step.attributes["step.name"]: step for step in await collector.has("workflow.step", count=4)}
    row = await process.services.engine.store.get_instance(run)
    log = await process.services.workflows.get_events(run, tenant_id="default")
    rows = {(event.type.value, event.node_id): event.created_at for event in log}
    assert row is not None
    assert (root.began_ms, root.ended_ms) == (row.head.created_at, log[-1].created_at)
    assert steps["price"].began_ms == rows["NODE_DISPATCHED", ""]
    assert steps["price"].ended_ms == rows["NODE_COMPLETED", "price"]
    assert steps["ship"].began_ms == rows["NODE_COMPLETED", "paid"]
    waits = [event.created_at for event in log if event.node_id == "paid"]
    assert (steps["paid"].began_ms, steps["paid"].ended_ms) == (waits[0], waits[-1])
    assert all(span.began_ms <= span.ended_ms for span in collector.spans)


async def test_a_drawn_run_is_a_trace_of_its_nodes(opened: Open, collector: Collector) -> None:
    process = await opened(otlp_endpoint=collector.url)
    pause = {"id": "pause", "type": "delay", "config": {"duration": "1ms"}}
    each = {"id": "each", "type": "loop", "config": {"source": [1, 2]}}
    await process.save("drawing", pause, each, END)
    run = await process.start("drawing")
    await process.ended(run)

    (root,) = await collector.has("workflow.run", workflow__name="drawing", kind="drawn", run_id=run)
    steps = {step.attributes["step.name"]: step for step in await collector.has("workflow.step", run_id=run, count=4)}
    shown = {name: (step.attributes["step.kind"], step.attributes["step.type"]) for name, step in steps.items()}
    assert shown == {
        "start": ("run", "start"),
        "pause": ("sleep", "delay"),
        "each": ("loop", "loop"),
        "end": ("run", "end"),
    }
    assert {step.parent_id for step in steps.values()} == {root.span_id}
    log = await process.services.workflows.get_events(run, tenant_id="default")
    dispatched = {event.node_id: event.created_at for event in log if event.type.value == "NODE_DISPATCHED"}
    assert {name: step.began_ms for name, step in steps.items()} == dispatched


async def test_every_attempt_is_a_span_and_failures_are_errors_without_their_messages(
    opened: Open, collector: Collector
) -> None:
    process = await opened(FLAKY, otlp_endpoint=collector.url)
    await process.ended(await process.start("flaky", {"failures": 3}))

    (root,) = await collector.has("workflow.run", status="failed")
    tries = sorted(await collector.has("workflow.step", count=3), key=lambda step: step.attributes["step.attempt"])
    assert [step.attributes["step.status"] for step in tries] == ["retried", "retried", "failed"]
    assert len({step.span_id for step in tries}) == 3
    assert [step.is_error for step in (root, *tries)] == [True] * 4
    assert all(earlier.ended_ms <= later.began_ms for earlier, later in pairwise(tries))
    assert "secret" not in str(collector.spans)


async def test_a_child_is_below_the_step_that_awaits_it(opened: Open, collector: Collector) -> None:
    process = await opened(PARENT, otlp_endpoint=collector.url)
    await process.save("child", END)
    run = await process.start("parent")
    await process.ended(run)

    (parent,) = await collector.has("workflow.run", workflow__name="parent")
    (asks,) = await collector.has("workflow.step", step__kind="child")
    (child,) = await collector.has("workflow.run", workflow__name="child")
    (end,) = await collector.has("workflow.step", workflow__name="child", step__name="end")
    assert asks.attributes["step.child_id"] == child.attributes["run_id"]
    assert (asks.parent_id, child.parent_id, end.parent_id) == (parent.span_id, asks.span_id, child.span_id)
    assert {span.trace_id for span in collector.spans} == {run.replace("-", "")}


async def test_a_run_that_nobody_awaits_is_below_the_run_that_started_it(opened: Open, collector: Collector) -> None:
    process = await opened(otlp_endpoint=collector.url)
    await process.save("child", END)
    starts = {"id": "starts", "type": "workflow", "config": {"workflow": "child", "wait": False}}
    await process.save("parent", starts, END)
    await process.ended(await process.start("parent"))

    (parent,) = await collector.has("workflow.run", workflow__name="parent")
    (child,) = await collector.has("workflow.run", workflow__name="child")
    assert (child.parent_id, child.trace_id) == (parent.span_id, parent.trace_id)


async def test_what_several_processes_export_of_a_run_joins_up(opened: Open, collector: Collector) -> None:
    first = await opened(ORDER, otlp_endpoint=collector.url)
    run = await first.start("order")
    await first.waiting(run)
    await first.services.engine.stop()
    front = await opened(works=False, otlp_endpoint=collector.url)
    await front.signal(run, "paid")
    second = await opened(ORDER, otlp_endpoint=collector.url)
    await second.ended(run)

    (root,) = await collector.has("workflow.run")
    spans = [*await collector.has("workflow.step", count=4), *await collector.has("workflow.signal")]
    assert {span.parent_id for span in spans} == {root.span_id}
    assert {span.trace_id for span in spans} == {root.trace_id}
    (waited,) = await collector.has("workflow.step", step__name="paid")
    log = await second.services.workflows.get_events(run, tenant_id="default")
    assert waited.began_ms == next(event.created_at for event in log if event.node_id == "paid")


async def test_what_is_open_when_a_run_is_cancelled_ends_with_it(opened: Open, collector: Collector) -> None:
    process = await opened(otlp_endpoint=collector.url)
    await process.save("long", {"id": "hang", "type": "delay", "config": {"duration": "900ms"}}, END)
    run = await process.start("long")
    await process.services.workflows.cancel_run(run, tenant_id="default", reason="enough")

    (root,) = await collector.has("workflow.run", status="cancelled")
    (hung,) = await collector.has("workflow.step", step__name="hang", step__status="cancelled")
    assert (hung.ended_ms, hung.is_error, root.is_error) == (root.ended_ms, False, False)


async def test_a_cancel_of_a_parked_run_closes_the_spans_of_what_it_was_in(
    opened: Open, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody held it: who cancels it reads from its log, in pages, what was open."""
    monkeypatch.setattr(run_meters, "PAGE_ROWS", 2)
    worker, front = await opened(), await opened(works=False, otlp_endpoint=collector.url)
    wait = {"id": "ask", "type": "waitForEvent", "config": {"event": "answer"}}
    await worker.save("asks", {"id": "first", "type": "set", "config": {"values": {}}}, wait, END)
    run = await worker.start("asks")
    await worker.waiting(run)
    await worker.evict(run)
    await front.services.workflows.cancel_run(run, tenant_id="default", reason="enough")

    (root,) = await collector.has("workflow.run", workflow__name="asks", status="cancelled")
    (asked,) = await collector.has("workflow.step")
    assert asked.attributes.items() >= {"step.name": "ask", "step.kind": "wait", "step.status": "cancelled"}.items()
    assert (asked.parent_id, asked.ended_ms) == (root.span_id, root.ended_ms)
    log = await worker.services.workflows.get_events(run, tenant_id="default")
    assert asked.began_ms == next(event.created_at for event in log if event.node_id == "ask")
    assert len(collector.spans) == 2, "what had ended before was its worker's to export"


async def test_a_cancelled_run_whose_log_cannot_be_read_has_its_own_span(
    opened: Open, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*_: Any, **__: Any) -> None:
        raise StoreUnavailable("away")

    monkeypatch.setattr(SqlStore, "read_log", away)
    worker, front = await opened(ORDER), await opened(works=False, otlp_endpoint=collector.url)
    run = await worker.start("order")
    await worker.waiting(run)
    await worker.evict(run)
    await front.services.workflows.cancel_run(run, tenant_id="default", reason="enough")
    assert await collector.has("workflow.run", status="cancelled", run_id=run)


async def test_the_span_of_a_step_is_current_while_its_function_runs(opened: Open, collector: Collector) -> None:
    process = await opened(TRACING, otlp_endpoint=collector.url)
    run = await process.start("tracing")
    seen = (await process.ended(run))["output"]

    (in_loop,) = await collector.has("workflow.step", step__name="async")
    (in_thread,) = await collector.has("workflow.step", step__name="thread")
    assert seen == [f"{in_loop.trace_id}/{in_loop.span_id}", f"{in_thread.trace_id}/{in_thread.span_id}", NO_SPAN]


async def test_the_span_of_a_node_is_current_while_its_handler_runs(opened: Open, collector: Collector) -> None:
    process = await opened(otlp_endpoint=collector.url)
    looks = {"id": "looks", "type": "tests.currentSpan", "outputVariable": "seen"}
    await process.save("looking", looks, {**END, "config": {"outputParameters": {"seen": "{{ctx.seen}}"}}})
    run = await process.start("looking")
    seen = (await process.ended(run))["output"]["seen"]

    (span,) = await collector.has("workflow.step", step__name="looks")
    assert seen == f"{span.trace_id}/{span.span_id}"


async def test_test_runs_are_traced_and_marked(opened: Open, collector: Collector) -> None:
    process = await opened(otlp_endpoint=collector.url)
    document = {"nodes": [{"id": "start", "type": "start"}], "edges": []}
    await process.ended(await process.services.workflows.test_workflow(document, tenant_id="default"))

    (span,) = await collector.has("workflow.run", test=True)
    assert span.attributes["test"] is True


async def test_a_collector_that_does_not_answer_neither_slows_nor_fails_runs(
    opened: Open, processes: AsyncExitStack, dead_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(otlp, "REQUEST_S_MAX", 3_600.0)  # who waited for a request would wait longer than a test may
    process = await opened(FLAKY, otlp_endpoint=dead_url)
    for _ in range(5):
        run = await process.ended(await process.start("flaky", {"failures": 0}))
        assert run["status"] == "COMPLETED"
    await processes.aclose()


async def test_what_is_queued_is_exported_when_the_process_ends(
    opened: Open, processes: AsyncExitStack, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(otlp, "DELAY_MS", 3_600_000)
    process = await opened(FLAKY, otlp_endpoint=collector.url)
    await process.ended(await process.start("flaky", {"failures": 0}))
    assert not collector.spans
    await processes.aclose()

    assert sorted(span.name for span in collector.spans) == ["workflow.run", "workflow.step"]


async def test_of_more_spans_than_may_wait_the_oldest_go(dead_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(otlp, "QUEUED_MAX", 10)
    monkeypatch.setattr(otlp, "BATCH_MAX", 10)
    sink = otlp.OtlpSpans(dead_url)
    earlier = _spans_in_memory()  # what other tests have left behind; held here, so that no id comes twice
    for number in range(1, 5_001):
        sink.ended(otlp.Span("workflow.step", 1, number, None, 0, 1))

    kept = len(_spans_in_memory()) - len(earlier)
    assert 10 <= kept <= 2 * 10, "as many as may wait, and those of the request under way"
    await sink.stop(patience_s=1.0)


def _spans_in_memory() -> list[ReadableSpan]:
    gc.collect()
    return [each for each in gc.get_objects() if isinstance(each, ReadableSpan)]


async def test_without_the_sdk_spans_are_refused_with_a_sentence(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, resources._OTLP)
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    settings = Settings(database_url=database_url, otlp_enabled=True)
    with pytest.raises(SettingsError) as refused:
        async with build(settings).open_services(works=False):
            pass

    assert "anabranch[otel]" in refused.value.advice


async def test_nobody_imports_the_sdk_who_does_not_export() -> None:
    look = "import sys, anabranch.app, anabranch.rest; print('opentelemetry' in sys.modules)"
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", look, stdout=asyncio.subprocess.PIPE)
    told, _ = await process.communicate()

    assert told.decode().strip() == "False"


NO_SPAN = f"{0:032x}/{0:016x}"

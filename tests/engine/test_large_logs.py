"""Large logs: taken over page by page, and a run whose log is full ends clearly."""

from __future__ import annotations

import asyncio
import tracemalloc
from contextlib import suppress
from typing import Any

import pytest

from anabranch.engine.log_pages import log_pages
from anabranch.engine.ports import WHOLE_LOG_WEIGHT_MAX, InstanceRow
from anabranch.engine.rules.events import EventType, Status
from anabranch.engine.rules.shared.log_limit import LogLimit
from anabranch.engine.rules.stimuli import SignalSent
from anabranch.engine.rules.values import NULL
from anabranch.errors import RunIsTerminal
from tests.engine import nodes
from tests.engine.conftest import TENANT, MakeProcess, Process, until
from tests.engine.drawing import drawn, node

# Longer than any test: nothing lapses by itself.
LEASE_MS = 600_000

ITERATIONS = 800
PIECE_BYTES = 60_000
"""Just not so large that it is stored by its content, apart from the log."""


def looping(name: str) -> dict[str, Any]:
    """A loop whose body passes a large value on and yields a small one; then a wait for `go`."""
    each = node("each", "loop", config={"source": "{{ctx.input.items}}", "yield": "{{ctx.index}}"})
    big = node("big", config={"values": {"text": "{{ctx.input.piece}}"}})
    wait = node("wait", "waitForEvent", config={"event": "go"})
    edges = [("start", "each"), ("each", "big", "loop"), ("each", "wait", "done")]
    return drawn(name, each, big, wait, edges=edges)


def of_large_log() -> dict[str, Any]:
    return {"items": list(range(ITERATIONS)), "piece": "x" * PIECE_BYTES}


async def test_a_run_ends_once_its_log_is_full(make_process: MakeProcess) -> None:
    process = await make_process(log_limit=LogLimit(bytes_max=5_000_000))
    run = await process.run(looping("full"), of_large_log())
    ended = await process.ended(run)
    assert (ended["status"], ended["error"]["code"]) == ("FAILED", "LOG_TOO_LARGE")
    row = await process.service.get_run_status(run, tenant_id=TENANT)
    assert 4_000_000 < row.log_bytes <= 5_000_000 + len(str(ended["error"])) + 100


async def test_handlers_of_a_run_whose_log_is_full_are_stopped(make_process: MakeProcess) -> None:
    process = await make_process(log_limit=LogLimit(rows_max=20))
    gate = node("gate", "testGate", config={"gate": "never"})
    run = await process.run(drawn("stopped", gate))
    await process.log.saw("NODE_DISPATCHED", "gate")
    for number in range(30):
        if (await process.service.get_run_status(run, tenant_id=TENANT)).status.is_terminal:
            break
        with suppress(RunIsTerminal):
            await process.service.send_signal(run, f"s{number}", None, tenant_id=TENANT)
    assert (await process.ended(run))["error"]["code"] == "LOG_TOO_LARGE"
    await until(lambda: nodes.stopped == ["gate"])


async def parked_with_a_large_log(make_process: MakeProcess) -> tuple[str, Process]:
    """A run that waits for `go`, held by nobody, and a process that works on none."""
    first = await make_process()
    run = await first.run(looping("large"), of_large_log())
    await first.log.saw("NODE_WAITING", "wait")
    await until(lambda: not first.engine.orchestrator.owns(run))
    await first.engine.stop()
    row = await first.service.get_run_status(run, tenant_id=TENANT)
    assert row.log_bytes > ITERATIONS * PIECE_BYTES and row.log_weight > WHOLE_LOG_WEIGHT_MAX
    return run, await make_process(works=False)


async def test_a_log_larger_than_it_may_be_is_not_read_when_its_run_is_taken_over(make_process: MakeProcess) -> None:
    run, sender = await parked_with_a_large_log(make_process)
    worker = await make_process(log_limit=LogLimit(bytes_max=1_000_000))
    read = counted_reads(worker)
    await sender.engine.store.append_signal(run, SignalSent("go", NULL), tenant_id=TENANT)
    await ended_row(sender, run)
    assert read == []
    last = (await sender.engine.store.read_log(run, after_seq=(await ended_row(sender, run)).last_seq - 1))[-1]
    assert (last.type, last.payload.value["code"]) == (EventType.INSTANCE_FAILED, "LOG_TOO_LARGE")


async def test_a_large_log_is_taken_over_with_a_few_pages_in_memory_at_once(make_process: MakeProcess) -> None:
    run, sender = await parked_with_a_large_log(make_process)
    await sender.engine.store.append_signal(run, SignalSent("go", NULL), tenant_id=TENANT)
    tracemalloc.start()
    try:
        worker = await make_process()
        read = counted_reads(worker)
        row = await ended_row(sender, run)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert row.status is Status.COMPLETED
    assert row.log_bytes * 0.9 < sum(read) < row.log_bytes * 1.1, "it was read, and once"
    assert max(read) < 6 * 1_048_576, "page by page"
    assert peak < row.log_bytes / 1.5, f"{peak} bytes at once for a log of {row.log_bytes}"


async def test_others_are_taken_over_while_a_large_log_is_read(make_process: MakeProcess) -> None:
    run, sender = await parked_with_a_large_log(make_process)
    worker = await make_process()
    store, begun, go_on = worker.engine.store, asyncio.Event(), asyncio.Event()
    read_log = store.read_log

    async def slow(*arguments: Any, **named: Any) -> Any:
        begun.set()
        await go_on.wait()
        return await read_log(*arguments, **named)

    store.read_log = slow  # type: ignore[method-assign]
    await sender.engine.store.append_signal(run, SignalSent("go", NULL), tenant_id=TENANT)
    await asyncio.wait_for(begun.wait(), 30)
    small = await sender.run(drawn("small", node("a")))
    assert (await ended_row(sender, small)).status is Status.COMPLETED
    assert not worker.engine.orchestrator.owns(run)
    go_on.set()
    assert (await ended_row(sender, run)).status is Status.COMPLETED


class _Hurried:
    """A clock that a page of a log takes a third of a lease longer on than it takes."""

    def __init__(self, clock: Any) -> None:
        self._clock = clock
        self.ahead_s = 0.0

    def monotonic(self) -> float:
        return float(self._clock.monotonic()) + self.ahead_s

    def now(self) -> int:
        return int(self._clock.now())


async def test_the_lease_of_a_run_is_extended_while_its_log_is_read(
    make_process: MakeProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, sender = await parked_with_a_large_log(make_process)
    worker = await make_process(lease_ms=LEASE_MS)
    store, clock, kept = worker.engine.store, _Hurried(worker.engine.clock), list[set[str]]()
    read_log, extend = store.read_log, store.extend

    async def slow(*arguments: Any, **named: Any) -> Any:
        clock.ahead_s += LEASE_MS / 1000 / 3
        return await read_log(*arguments, **named)

    async def counted(**named: Any) -> Any:
        kept.append(set(await extend(**named)))
        return kept[-1]

    monkeypatch.setattr(worker.engine.claimer, "_clock", clock)
    store.read_log, store.extend = slow, counted  # type: ignore[method-assign]
    await sender.engine.store.append_signal(run, SignalSent("go", NULL), tenant_id=TENANT)
    assert (await ended_row(sender, run)).status is Status.COMPLETED
    assert clock.ahead_s > LEASE_MS / 1000, "its pages took longer than a lease"
    assert kept.count({run}) >= clock.ahead_s / (LEASE_MS / 1000), "and the lease was extended in time"
    log = [event async for page in log_pages(sender.engine.store, run) for event in page]
    assert EventType.INSTANCE_RECOVERED not in {event.type for event in log}, "it was never lost"


def counted_reads(process: Process) -> list[int]:
    """How many bytes of payloads each answer of its store has, from now on."""
    store, counts = process.engine.store, list[int]()
    load, read_log = store.load, store.read_log

    async def loads(*arguments: Any, **named: Any) -> Any:
        found = await load(*arguments, **named)
        counts.extend(sum(len(row.payload.raw) for row in each.events) for each in found.values() if each.events)
        return found

    async def reads(*arguments: Any, **named: Any) -> Any:
        events = await read_log(*arguments, **named)
        counts.append(sum(len(row.payload.raw) for row in events))
        return events

    store.load, store.read_log = loads, reads  # type: ignore[method-assign]
    return counts


async def ended_row(process: Process, run: str) -> InstanceRow:
    """The row of a run once it has ended."""
    async with asyncio.timeout(60):
        while True:
            row = await process.service.get_run_status(run, tenant_id=TENANT)
            if row.status.is_terminal:
                return row
            await asyncio.sleep(0.01)

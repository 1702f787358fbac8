"""The feed: counts events of runs in the meters, and exports them as spans.

Implements `engine.telemetry`. What it knows of a run is attached to the run: the engine keeps it as long as it owns the
run, so there is no list here.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Sequence
from typing import Protocol

from anabranch.engine.rules.events import Event, Status
from anabranch.engine.rules.evolve import AnyPlan
from anabranch.engine.rules.graph.plan import Plan
from anabranch.engine.rules.history import ActivationStatus, ActivationView, Change, History, RunCreated, RunEnd
from anabranch.engine.rules.payloads import SignalReceived
from anabranch.engine.rules.shared.run_state import InstanceHead
from anabranch.telemetry.meters import Meters
from anabranch.telemetry.spans import Span, SpanSink, attempt_span, began_at, run_span, signal_span

logger = logging.getLogger("anabranch.telemetry")

# Looked up once: a member of an enum costs ten times a global before Python 3.12.
_RUNNING, _WAITING, _RETRYING = ActivationStatus.RUNNING, ActivationStatus.WAITING, ActivationStatus.RETRYING
_SKIPPED, _CANCELLED = ActivationStatus.SKIPPED, ActivationStatus.CANCELLED


# 1,000 rows or 1 MB of a log at a time, 32 logs at once: runs that are ended past the engine are few. Of more at once
# only the runs themselves are exported, not the steps that they were in.
PAGE_ROWS = 1_000
PAGE_BYTES = 1_048_576
CLOSING_MAX = 32


class ReadLog(Protocol):
    """Reads a page of a log."""

    def __call__(self, instance_id: str, *, after_seq: int, limit: int, bytes_max: int) -> Awaitable[Sequence[Event]]:
        """Events in the order of their seq."""


class Feed:
    """Feeds the meters of a process, and its spans if they are exported."""

    def __init__(self, meters: Meters, spans: SpanSink | None = None, *, read_log: ReadLog | None = None) -> None:
        """With `read_log` the steps that a run was in when it was cancelled past the engine are exported, too."""
        self.meters = meters
        self.spans = spans
        self._read_log = read_log
        self._closing: set[asyncio.Task[None]] = set()

    async def stop(self, *, patience_s: float) -> None:
        """Export what is known of cancelled runs by now; what is still being read then is lost."""
        if self._closing:
            await asyncio.wait(self._closing, timeout=patience_s)

    def of_run(self, head: InstanceHead, plan: AnyPlan) -> FedRun:
        """The telemetry of a run that this process now owns."""
        return FedRun(self, head, plan if isinstance(plan, Plan) else None)

    def signalled(self, head: InstanceHead, event: str, *, seq: int, at_ms: int) -> None:
        """Count a signal that was appended past the engine."""
        FedRun(self, head).signalled(event, seq=seq, at=at_ms)

    def ended(self, head: InstanceHead, status: Status, *, code: str | None, at_ms: int) -> None:
        """Count a run that was ended without the engine, and export its open spans."""
        spans, read_log = self.spans, self._read_log
        if spans is None or read_log is None or len(self._closing) >= CLOSING_MAX:
            FedRun(self, head).ended(status, at=at_ms, code=code)
            return
        FedRun(Feed(self.meters), head).ended(status, at=at_ms, code=code)
        run = run_span(head, status, ended_at=at_ms, code=code)
        closing = asyncio.create_task(_export_ended(spans, head, run, read_log), name="spans-of-ended")
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)


class FedRun:
    """The telemetry state of one owned run."""

    __slots__ = ("_head", "_history", "_meter", "_plan", "_spans")

    def __init__(self, feed: Feed, head: InstanceHead, plan: Plan | None = None) -> None:
        """`plan`: of a drawn run."""
        self._head = head
        self._plan = plan
        self._meter = feed.meters.of(head)
        self._spans = feed.spans
        self._history = History(left_out=head.left_out)

    def read(self, events: Sequence[Event]) -> None:
        """Fold rows of other processes without counting them."""
        try:
            for event in events:
                self._history.take(event)
        except Exception:
            logger.exception("a run could not be followed", extra={"instance_id": self._head.instance_id})

    def wrote(self, events: Sequence[Event]) -> None:
        """Count these events of the run."""
        try:
            for event in events:
                self._count(event, self._history.take(event))
        except Exception:
            logger.exception("a run could not be counted", extra={"instance_id": self._head.instance_id})

    def signalled(self, event: str, *, seq: int, at: int) -> None:
        """Count a signal."""
        meter, spans = self._meter, self._spans
        if meter is not None:
            meter.signalled(event if meter.shows_names else "")
        if spans is not None:
            spans.ended(signal_span(self._head, event, seq=seq, at=at))

    def ended(self, status: Status, *, at: int, code: str | None) -> None:
        """Count the end of the run."""
        meter, spans = self._meter, self._spans
        if meter is not None:
            meter.ended(status, milliseconds=at - began_at(self._head, at))
        if spans is not None:
            spans.ended(run_span(self._head, status, ended_at=at, code=code))

    def _count(self, event: Event, change: Change | None) -> None:
        if isinstance(change, ActivationView):
            if change.status is not _RUNNING and change.status is not _WAITING:
                self._attempt_ended(change)
        elif isinstance(change, SignalReceived):
            self.signalled(change.event, seq=event.seq, at=event.created_at)
        elif isinstance(change, RunCreated):
            if self._meter is not None:
                self._meter.started += 1
        elif isinstance(change, RunEnd):
            for activation in self._history.left_open:
                self._attempt_ended(activation)
            code = None if change.error is None else change.error["code"]
            self.ended(change.status, at=event.created_at, code=code)

    def _attempt_ended(self, activation: ActivationView) -> None:
        is_given_up = activation.status is _SKIPPED or activation.status is _CANCELLED
        if is_given_up and activation.attempt_began_at is None:
            return
        meter, spans = self._meter, self._spans
        plan = self._plan
        node = None if plan is None else plan.nodes.get(activation.node_id)
        if plan is not None and node is not None and node.item is not None:
            node = plan.node_at(*activation.place)  # for one item it may run as another type
        if meter is not None and not is_given_up:  # otherwise the duration is unknown
            step = meter.step(activation.node_id if node is None or meter.shows_names else node.type)
            if activation.status is _RETRYING:
                step.retries += 1
            if activation.attempt_began_at is not None:
                step.times.observe(activation.at - activation.attempt_began_at)
        if spans is not None:
            spans.ended(attempt_span(self._head, activation, None if node is None else node.type))


async def _export_ended(spans: SpanSink, head: InstanceHead, run: Span, read_log: ReadLog) -> None:
    """Fold the log: what had ended before was exported by its writer, what ended with the run is by us."""
    history = History(left_out=head.left_out)
    seq = 0
    try:
        while rows := await read_log(head.instance_id, after_seq=seq, limit=PAGE_ROWS, bytes_max=PAGE_BYTES):
            for event in rows:
                history.take(event)
            seq = rows[-1].seq
    except Exception as failure:  # noqa: BLE001 -- the run itself is exported all the same
        logger.info("the steps of a cancelled run are not exported: %s", failure)
    for activation in history.left_open:
        if activation.attempt_began_at is not None:
            spans.ended(attempt_span(head, activation, None))
    spans.ended(run)

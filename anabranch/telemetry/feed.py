"""The feed: what the engine tells of its runs, counted by the meters and handed on as spans.

An implementation of `engine.telemetry`. What it knows of a run goes with the run: the engine keeps
it as long as it holds the run, and here is no list of them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Iterable, Sequence
from typing import Protocol, TypeAlias

from anabranch.engine.rules.coded.plan import CODED_KIND
from anabranch.engine.rules.events import Event, Status
from anabranch.engine.rules.graph.plan import Plan, PlanNode
from anabranch.engine.rules.run_state import InstanceHead
from anabranch.engine.rules.states import AnyPlan
from anabranch.telemetry.finished import AttemptEnded, Finished, Finishes, RunBegan, RunEnded, SignalCame, Way
from anabranch.telemetry.meters import Meters, WorkflowMeter
from anabranch.telemetry.spans import SpanSink, attempt_span, began_at, run_span, signal_span

logger = logging.getLogger("anabranch.telemetry")

_Nodes: TypeAlias = dict[str, PlanNode]

_NO_NODES: _Nodes = {}

# Looked up once: a member of an enum costs ten times a global before Python 3.12.
_RETRIED, _CANCELLED = Way.RETRIED, Way.CANCELLED


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
    """Feeds the meters of a process, and its spans where somebody wants them."""

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
        """Who is told of a run that is held here from now on."""
        return FedRun(self, head, plan.nodes if isinstance(plan, Plan) else _NO_NODES)

    def signalled(self, head: InstanceHead, event: str, *, seq: int, at_ms: int) -> None:
        """Count a signal that was appended past the engine."""
        FedRun(self, head).count([SignalCame(event, seq, at_ms)])

    def ended(self, head: InstanceHead, status: Status, *, code: str | None, at_ms: int) -> None:
        """Count a run that was ended past the engine, and export what it was in."""
        end = RunEnded(status, at_ms, code)
        spans, read_log = self.spans, self._read_log
        if spans is None or read_log is None or len(self._closing) >= CLOSING_MAX:
            FedRun(self, head).count([end])
            return
        FedRun(Feed(self.meters), head).count([end])
        closing = asyncio.create_task(_export_ended(spans, head, end, read_log), name="spans-of-ended")
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)


class FedRun:
    """What is known of one run, while it is held here."""

    __slots__ = ("_finishes", "_head", "_meter", "_nodes", "_spans")

    def __init__(self, feed: Feed, head: InstanceHead, nodes: _Nodes = _NO_NODES) -> None:
        """`nodes` are those of a drawn run, by their ids."""
        self._head = head
        self._nodes = nodes
        self._meter = feed.meters.of(head)
        self._spans = feed.spans
        self._finishes = Finishes(is_coded=head.kind == CODED_KIND)

    def read(self, events: Sequence[Event]) -> None:
        """Fold what others wrote, and count nothing of it."""
        try:
            self._finishes.fold(events)
        except Exception:
            logger.exception("a run could not be followed", extra={"instance_id": self._head.instance_id})

    def wrote(self, events: Sequence[Event]) -> None:
        """Count these events of the run."""
        try:
            self._count(self._finishes.fold(events))
        except Exception:
            logger.exception("a run could not be counted", extra={"instance_id": self._head.instance_id})

    def count(self, finished: Iterable[Finished]) -> None:
        """Count what has finished in the run."""
        try:
            self._count(finished)
        except Exception:
            logger.exception("a run could not be counted", extra={"instance_id": self._head.instance_id})

    def _count(self, finished: Iterable[Finished]) -> None:
        meter, spans = self._meter, self._spans
        for each in finished:
            if isinstance(each, AttemptEnded):
                node = self._nodes.get(each.name)
                if meter is not None:
                    _measure(meter, each, node)
                if spans is not None:
                    spans.ended(attempt_span(self._head, each, None if node is None else node.type))
            else:
                if meter is not None:
                    _measure_run(meter, self._head, each)
                if spans is not None:
                    _export_run(spans, self._head, each)


def _measure(meter: WorkflowMeter, ended: AttemptEnded, node: PlanNode | None) -> None:
    if ended.way is _CANCELLED:
        return  # nobody knows how long it would have taken
    step = meter.step(ended.name if node is None or meter.shows_names else node.type)
    if ended.way is _RETRIED:
        step.retries += 1
    if ended.began_at is not None:
        step.times.observe(ended.ended_at - ended.began_at)


def _measure_run(meter: WorkflowMeter, head: InstanceHead, each: SignalCame | RunBegan | RunEnded) -> None:
    match each:
        case SignalCame():
            meter.signalled(each.event if meter.shows_names else "")
        case RunBegan():
            meter.started += 1
        case RunEnded():
            meter.ended(each.status, milliseconds=each.ended_at - began_at(head, each))


def _export_run(spans: SpanSink, head: InstanceHead, each: SignalCame | RunBegan | RunEnded) -> None:
    match each:
        case SignalCame():
            spans.ended(signal_span(head, each))
        case RunEnded():
            spans.ended(run_span(head, each))
        case RunBegan():
            return


async def _export_ended(spans: SpanSink, head: InstanceHead, end: RunEnded, read_log: ReadLog) -> None:
    """Fold the log: what had ended before was exported by whoever wrote it, what ended with the run is by us."""
    finishes = Finishes(is_coded=head.kind == CODED_KIND)
    ended: Sequence[Finished] = []
    seq = 0
    try:
        while rows := await read_log(head.instance_id, after_seq=seq, limit=PAGE_ROWS, bytes_max=PAGE_BYTES):
            finishes.fold(rows[:-1])
            ended = finishes.fold(rows[-1:])
            seq = rows[-1].seq
    except Exception as failure:  # noqa: BLE001 -- the run itself is exported all the same
        logger.info("the steps of a cancelled run are not exported: %s", failure)
    for each in ended:
        if isinstance(each, AttemptEnded) and each.way is _CANCELLED:
            spans.ended(attempt_span(head, each, None))
    spans.ended(run_span(head, end))

"""The feed: what the engine tells of its runs, counted by the meters and handed on as spans.

An implementation of `engine.telemetry`. What it knows of a run goes with the run: the engine keeps
it as long as it holds the run, and here is no list of them.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import TypeAlias

from anabranch.engine.rules.coded.plan import CODED_KIND
from anabranch.engine.rules.events import Event, Status
from anabranch.engine.rules.plan import Plan, PlanNode
from anabranch.engine.rules.run_state import InstanceHead
from anabranch.engine.rules.states import AnyPlan
from anabranch.telemetry.finished import Finished, Finishes, RunBegan, RunEnded, SignalCame, TryEnded, Way
from anabranch.telemetry.meters import Meters, WorkflowMeter
from anabranch.telemetry.spans import SpanSink, began_at, run_span, signal_span, try_span

logger = logging.getLogger("anabranch.telemetry")

_Nodes: TypeAlias = dict[str, PlanNode]

_NO_NODES: _Nodes = {}

# Looked up once: a member of an enum costs ten times a global before Python 3.12.
_RETRIED, _CANCELLED = Way.RETRIED, Way.CANCELLED


class Feed:
    """Feeds the meters of a process, and its spans where somebody wants them."""

    def __init__(self, meters: Meters, spans: SpanSink | None = None) -> None:
        self.meters = meters
        self.spans = spans

    def of_run(self, head: InstanceHead, plan: AnyPlan, log: Sequence[Event] = ()) -> FedRun:
        """Who is told of a run that is held here from now on; what is in its log already is not counted again."""
        return FedRun(self, head, plan.nodes if isinstance(plan, Plan) else _NO_NODES, log)

    def signalled(self, head: InstanceHead, event: str, *, seq: int, at_ms: int) -> None:
        """Count a signal that was appended past the engine."""
        FedRun(self, head).count([SignalCame(event, seq, at_ms)])

    def cancelled(self, head: InstanceHead, *, at_ms: int) -> None:
        """Count a run that was ended past the engine."""
        FedRun(self, head).count([RunEnded(Status.CANCELLED, at_ms)])


class FedRun:
    """What is known of one run, while it is held here."""

    __slots__ = ("_finishes", "_head", "_meter", "_nodes", "_spans")

    def __init__(self, feed: Feed, head: InstanceHead, nodes: _Nodes = _NO_NODES, log: Sequence[Event] = ()) -> None:
        """`nodes` are those of a drawn run, by their ids."""
        self._head = head
        self._nodes = nodes
        self._meter = feed.meters.of(head)
        self._spans = feed.spans
        self._finishes = Finishes(is_coded=head.kind == CODED_KIND)
        if log:
            self._skip(log)

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

    def _skip(self, log: Sequence[Event]) -> None:
        """What finished there was counted by whoever wrote it."""
        try:
            self._finishes.fold(log)
        except Exception:
            logger.exception("a run could not be followed", extra={"instance_id": self._head.instance_id})

    def _count(self, finished: Iterable[Finished]) -> None:
        meter, spans = self._meter, self._spans
        for each in finished:
            if isinstance(each, TryEnded):
                node = self._nodes.get(each.name)
                if meter is not None:
                    _measure(meter, each, node)
                if spans is not None:
                    spans.ended(try_span(self._head, each, None if node is None else node.type))
            else:
                if meter is not None:
                    _measure_run(meter, self._head, each)
                if spans is not None:
                    _export_run(spans, self._head, each)


def _measure(meter: WorkflowMeter, ended: TryEnded, node: PlanNode | None) -> None:
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

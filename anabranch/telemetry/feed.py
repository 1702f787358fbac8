"""The feed: what the engine tells of its runs, counted by the meters and handed on as spans.

An implementation of `engine.telemetry`. What it knows of a run goes with the run: the engine keeps
it as long as it holds the run, and here is no list of them.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from anabranch.engine.rules.coded.plan import CODED_KIND
from anabranch.engine.rules.events import Event, Status
from anabranch.engine.rules.plan import Plan
from anabranch.engine.rules.run_state import InstanceHead
from anabranch.engine.rules.states import AnyPlan
from anabranch.telemetry.finished import Finished, Finishes, RunBegan, RunEnded, SignalCame, TryEnded, Way
from anabranch.telemetry.meters import Meters, WorkflowMeter
from anabranch.telemetry.spans import SpanSink, began_at, run_span, signal_span, try_span

logger = logging.getLogger("anabranch.telemetry")

# A type that no node has: of a node that its plan does not know.
_UNKNOWN_TYPE = "unknown"


class Feed:
    """Feeds the meters of a process, and its spans where somebody wants them."""

    def __init__(self, meters: Meters, spans: SpanSink | None = None) -> None:
        self.meters = meters
        self.spans = spans

    def of_run(self, head: InstanceHead, plan: AnyPlan, log: Sequence[Event] = ()) -> FedRun:
        """Who is told of a run that is held here from now on; what is in its log already is not counted again."""
        return FedRun(self, head, plan, log)

    def signalled(self, head: InstanceHead, event: str, *, seq: int, at_ms: int) -> None:
        """Count a signal that was appended past the engine."""
        self.count(head, None, self.meters.of(head), [SignalCame(event, seq, at_ms)])

    def cancelled(self, head: InstanceHead, *, at_ms: int) -> None:
        """Count a run that was ended past the engine."""
        self.count(head, None, self.meters.of(head), [RunEnded(Status.CANCELLED, at_ms)])

    def count(
        self, head: InstanceHead, plan: AnyPlan | None, meter: WorkflowMeter | None, finished: Sequence[Finished]
    ) -> None:
        """Count what has finished in a run, and export it."""
        try:
            for each in finished:
                node_type = _type_of(each, plan)
                if meter is not None:
                    self._measure(meter, head, each, node_type)
                if self.spans is not None:
                    self._export(self.spans, head, each, node_type)
        except Exception:
            logger.exception("a run could not be counted", extra={"instance_id": head.instance_id})

    def _measure(self, meter: WorkflowMeter, head: InstanceHead, each: Finished, node_type: str | None) -> None:
        match each:
            case TryEnded():
                if each.way is Way.CANCELLED:
                    return  # nobody knows how long it would have taken
                by_name = node_type is None or self.meters.shows_names_of(head)
                step = meter.step(each.name if by_name else node_type or _UNKNOWN_TYPE)
                if each.way is Way.RETRIED:
                    step.retries += 1
                if each.began_at is not None:
                    step.seconds.observe(max(0, each.ended_at - each.began_at))
            case SignalCame():
                meter.signalled(each.event if self.meters.shows_names_of(head) else "")
            case RunBegan():
                meter.started += 1
            case RunEnded():
                meter.ended(each.status, milliseconds=each.ended_at - began_at(head, each))

    def _export(self, sink: SpanSink, head: InstanceHead, each: Finished, node_type: str | None) -> None:
        match each:
            case TryEnded():
                sink.ended(try_span(head, each, node_type))
            case SignalCame():
                sink.ended(signal_span(head, each))
            case RunEnded():
                sink.ended(run_span(head, each))
            case RunBegan():
                return


class FedRun:
    """What is known of one run, while it is held here."""

    __slots__ = ("_feed", "_finishes", "_head", "_meter", "_plan")

    def __init__(self, feed: Feed, head: InstanceHead, plan: AnyPlan, log: Sequence[Event]) -> None:
        self._feed = feed
        self._head = head
        self._plan = plan
        self._meter = feed.meters.of(head)
        self._finishes = Finishes(is_coded=head.kind == CODED_KIND)
        self._fold(log)  # what finished there was told by whoever wrote it

    def wrote(self, events: Sequence[Event]) -> None:
        """Count these events of the run."""
        finished = self._fold(events)
        if finished:
            self._feed.count(self._head, self._plan, self._meter, finished)

    def _fold(self, events: Sequence[Event]) -> Sequence[Finished]:
        try:
            return self._finishes.fold(events)
        except Exception:
            logger.exception("a run could not be followed", extra={"instance_id": self._head.instance_id})
            return ()


def _type_of(each: Finished, plan: AnyPlan | None) -> str | None:
    """The type of the node that a try was of; None for steps of coded runs."""
    if not isinstance(each, TryEnded) or not isinstance(plan, Plan):
        return None
    node = plan.nodes.get(each.name)
    return _UNKNOWN_TYPE if node is None else node.type

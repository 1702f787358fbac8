"""Metrics of runs: counts events by workflow and step in the meters, and exports ended runs and steps as spans.

Implements `engine.telemetry`. What it knows of a run is attached to the run: the engine keeps it as long as it owns the
run, so there is no list here. It counts in the thread of the event loop; `/metrics` reads the meters from any thread,
so it gets copies of what may grow. The number of metrics is bounded, however many names there are. `/metrics` may need
no key, so names of drawn workflows, which belong to tenants, are shown only if the operator wants that.
"""

from __future__ import annotations

import asyncio
import logging
from bisect import bisect_left
from collections.abc import Awaitable, Iterator, Sequence
from enum import StrEnum
from typing import Protocol

from anabranch.engine.rules.coded.coded_plan import CODED_KIND
from anabranch.engine.rules.event_payloads import SignalReceived
from anabranch.engine.rules.events import Event, Status
from anabranch.engine.rules.evolve import AnyPlan
from anabranch.engine.rules.graph.plan import Plan
from anabranch.engine.rules.history import ActivationStatus, ActivationView, Change, History, RunCreated, RunEnd
from anabranch.engine.rules.shared.run_state import InstanceHead
from anabranch.telemetry.spans import Span, SpanSink, attempt_span, began_at, run_span, signal_span

logger = logging.getLogger("anabranch.telemetry")

# 500 workflows, 1,000 pairs of a workflow and a step, as many of a workflow and an event: 1,000 histograms are some
# 15,000 lines. What comes new after that counts under `OTHER`.
WORKFLOWS_MAX = 500
STEPS_MAX = 1_000
EVENTS_MAX = 1_000

# 128 characters of a label, as many as a node's id has at most; names of events and steps may be longer.
LABEL_CHARACTERS_MAX = 128

OTHER = "other"
"""The label of what is past a limit."""

DRAWN = "drawn"
"""The label of all drawn workflows where their names are not shown."""

# From 5 ms, a commit, to an hour.
STEP_MS = (5, 25, 100, 250, 1_000, 2_500, 10_000, 60_000, 300_000, 3_600_000)

# From 10 ms to thirty days: runs may wait for people.
RUN_MS = (10, 50, 250, 1_000, 5_000, 30_000, 300_000, 3_600_000, 86_400_000, 2_592_000_000)

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


class TelemetryRecorder:
    """Counts the runs of a process in its meters, and exports them as spans if that is configured."""

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

    def of_run(self, head: InstanceHead, plan: AnyPlan) -> MeasuredRun:
        """The telemetry of a run that this process now owns."""
        return MeasuredRun(self, head, plan if isinstance(plan, Plan) else None)

    def signalled(self, head: InstanceHead, event: str, *, seq: int, at_ms: int) -> None:
        """Count a signal that was appended past the engine."""
        MeasuredRun(self, head).signalled(event, seq=seq, at=at_ms)

    def ended(self, head: InstanceHead, status: Status, *, code: str | None, at_ms: int) -> None:
        """Count a run that was ended without the engine, and export its open spans."""
        spans, read_log = self.spans, self._read_log
        if spans is None or read_log is None or len(self._closing) >= CLOSING_MAX:
            MeasuredRun(self, head).ended(status, at=at_ms, code=code)
            return
        MeasuredRun(TelemetryRecorder(self.meters), head).ended(status, at=at_ms, code=code)
        run = run_span(head, status, ended_at=at_ms, code=code)
        closing = asyncio.create_task(_export_ended(spans, head, run, read_log), name="spans-of-ended")
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)


class MeasuredRun:
    """The telemetry state of one owned run."""

    __slots__ = ("_head", "_history", "_meter", "_plan", "_spans")

    def __init__(self, recorder: TelemetryRecorder, head: InstanceHead, plan: Plan | None = None) -> None:
        """`plan`: of a drawn run."""
        self._head = head
        self._plan = plan
        self._meter = recorder.meters.of(head)
        self._spans = recorder.spans
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
            node = plan.node_at(*activation.key)  # for one item it may run as another type
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


class ShownNames(StrEnum):
    """The workflows that are shown by their names."""

    CODED = "coded"
    """Coded ones, which every tenant sees anyway. Drawn ones are `drawn`, their nodes are shown by type."""
    ALL = "all"
    """All of them, and nodes by their ids."""


def _shortened(label: str) -> str:
    return label[: LABEL_CHARACTERS_MAX - 1] + "…"


class Histogram:
    """A histogram of durations in milliseconds."""

    __slots__ = ("bounds", "counts", "sum_ms")

    def __init__(self, bounds: tuple[int, ...]) -> None:
        self.bounds = bounds
        """Each has those up to it."""
        self.counts = [0] * (len(bounds) + 1)
        """By bound, not added up; the last are longer than any."""
        self.sum_ms = 0

    def observe(self, milliseconds: int) -> None:
        """Count a duration; a negative one, after a clock was set back, counts as 0."""
        if milliseconds < 0:
            milliseconds = 0
        self.counts[bisect_left(self.bounds, milliseconds)] += 1
        self.sum_ms += milliseconds


class StepMeter:
    """The attempts of one step."""

    __slots__ = ("retries", "times")

    def __init__(self) -> None:
        self.retries = 0
        """Tries that failed and are followed by another."""
        self.times = Histogram(STEP_MS)


class WorkflowMeter:
    """The runs of one workflow."""

    __slots__ = ("_meters", "completed", "label", "shows_names", "signals", "started", "steps", "times")

    def __init__(self, meters: Meters, label: str) -> None:
        self._meters = meters
        self.label = label
        self.shows_names = label != DRAWN
        """May its steps and events be shown by their names?"""
        self.started = 0
        self.completed: dict[Status, int] = {}
        self.times = Histogram(RUN_MS)
        self.steps: dict[str, StepMeter] = {}
        self.signals: dict[str, int] = {}

    def step(self, label: str) -> StepMeter:
        """The meter of a step; past the limit that of all others of this workflow."""
        found = self.steps.get(label)
        if found is None:
            if len(label) > LABEL_CHARACTERS_MAX:
                return self.step(_shortened(label))
            if label != OTHER and not self._meters.may_add_step():
                return self.step(OTHER)
            found = self.steps[label] = StepMeter()
        return found

    def signalled(self, event: str) -> None:
        """Count a signal; past the limit as another one."""
        if len(event) > LABEL_CHARACTERS_MAX:
            event = _shortened(event)
        if event not in self.signals and event != OTHER and not self._meters.may_add_event():
            event = OTHER
        self.signals[event] = self.signals.get(event, 0) + 1

    def ended(self, status: Status, *, milliseconds: int) -> None:
        """Count the end of a run."""
        self.completed[status] = self.completed.get(status, 0) + 1
        self.times.observe(milliseconds)


class Meters:
    """All of one process, without test runs."""

    def __init__(self, names: ShownNames = ShownNames.CODED) -> None:
        self._shows_all = names is ShownNames.ALL
        self._workflows: dict[str, WorkflowMeter] = {}
        self._steps_left = STEPS_MAX
        self._events_left = EVENTS_MAX

    def __iter__(self) -> Iterator[WorkflowMeter]:
        return iter(list(self._workflows.values()))

    def of(self, head: InstanceHead) -> WorkflowMeter | None:
        """The meter of a run's workflow; None for a test run, which is not counted."""
        return None if head.test else self._named(head.workflow_name, head.kind)

    def label(self, workflow_name: str, kind: str) -> str:
        """The label of a workflow's runs, test runs excepted."""
        return self._named(workflow_name, kind).label

    def _named(self, workflow_name: str, kind: str) -> WorkflowMeter:
        label = DRAWN
        if self._shows_all or kind == CODED_KIND:
            # No name of a user may look like the label for hidden names.
            label = OTHER if workflow_name == DRAWN else workflow_name
        found = self._workflows.get(label)
        if found is None:
            if len(self._workflows) >= WORKFLOWS_MAX and label != DRAWN:
                label = OTHER
            found = self._workflows.setdefault(label, WorkflowMeter(self, label))
        return found

    def may_add_step(self) -> bool:
        """Whether there is room for another pair of workflow and step; if so, it is taken."""
        self._steps_left -= 1
        return self._steps_left >= 0

    def may_add_event(self) -> bool:
        """Whether there is room for another pair of workflow and event; if so, it is taken."""
        self._events_left -= 1
        return self._events_left >= 0

"""Prometheus metrics of runs, steps and signals.

Called by `metrics`. `anabranch.telemetry` decides what is counted and under which labels.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import accumulate

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from anabranch.app_services import AppServices
from anabranch.engine.ports import OpenRuns
from anabranch.engine.rules.events import Status, SuspendReason
from anabranch.telemetry.run_meters import Histogram

_STARTED = (Status.RUNNING, Status.WAITING)


class RunMetrics(Collector):
    """Collects the meters of a process at each scrape."""

    def __init__(self, services: AppServices) -> None:
        self._services = services
        self.open_runs: OpenRuns | None = None
        """What was counted just now; None: the database did not answer."""
        self.values = (0, 0)
        self.unclaimed = 0
        self.dead_letters = 0

    def collect(self) -> Iterable[Metric]:
        """Every metric family, also those without values yet."""
        yield from self._of_runs()
        yield from self._of_steps()
        yield from self._of_values()
        swept = self._services.engine.housekeeping.swept
        yield CounterMetricFamily(
            "workflow_retention_swept", "Ended runs that this process removed after their retention.", value=swept
        )

    def _of_values(self) -> Iterator[Metric]:
        """Large values in the database: the same in every process. Nothing while the database is unavailable."""
        count = GaugeMetricFamily("anabranch_stored_values", "Values over 64 kB that are stored by their content.")
        size = GaugeMetricFamily("anabranch_stored_value_bytes", "Bytes of JSON of these.")
        if self.open_runs is not None:
            count.add_metric([], self.values[0])
            size.add_metric([], self.values[1])
        dead = GaugeMetricFamily("anabranch_dead_letters", "Jobs in the database that no executor could take.")
        if self.open_runs is not None:
            dead.add_metric([], self.dead_letters)
        yield from (count, size, dead)

    def describe(self) -> Iterable[Metric]:
        """Nothing: no other collector uses these names."""
        return []

    def _of_runs(self) -> Iterator[Metric]:
        started = CounterMetricFamily("workflow_runs_started", "Runs that were started here.", labels=["workflow"])
        ended = CounterMetricFamily(
            "workflow_runs_completed", "Runs that ended here, by outcome.", labels=["workflow", "status"]
        )
        seconds = HistogramMetricFamily(
            "workflow_run_duration_seconds", "From when a run might begin to its end.", labels=["workflow"]
        )
        signals = CounterMetricFamily(
            "workflow_signals", "Signals to runs that arrived here.", labels=["workflow", "event"]
        )
        for workflow in self._services.meters:
            started.add_metric([workflow.label], workflow.started)
            for status, count in list(workflow.completed.items()):
                ended.add_metric([workflow.label, status.value.lower()], count)
            _add(seconds, [workflow.label], workflow.times)
            for event, count in list(workflow.signals.items()):
                signals.add_metric([workflow.label, event], count)
        yield from (started, ended, *self._open(), seconds, signals)

    def _open(self) -> Iterator[Metric]:
        """Open runs in the database: the same in every process. Nothing while the database is unavailable."""
        in_flight = GaugeMetricFamily(
            "workflow_runs_in_flight",
            "Runs in the database that have started and not ended, waiting ones too.",
            labels=["workflow"],
        )
        by_status = GaugeMetricFamily(
            "anabranch_runs_open", "Runs in the database that have not ended.", labels=["workflow", "status"]
        )
        suspended = GaugeMetricFamily(
            "anabranch_runs_suspended", "Suspended runs in the database, by reason.", labels=["reason"]
        )
        pending = GaugeMetricFamily(
            "workflow_pending", "Runs in the database that are due, and that no worker has taken over yet."
        )
        counts = self.open_runs
        if counts is not None:
            pending.add_metric([], self.unclaimed)
            open_: Counter[tuple[str, Status]] = Counter()
            stand_still: Counter[SuspendReason | None] = Counter()
            for (name, kind, status, reason), runs in counts.items():
                open_[self._services.meters.label(name, kind), status] += runs
                stand_still[reason] += runs
            for reason in SuspendReason:
                suspended.add_metric([reason.value], stand_still[reason])
            for label in sorted(workflow.label for workflow in self._services.meters):
                in_flight.add_metric([label], sum(open_[label, status] for status in _STARTED))
                for status in (Status.PENDING, *_STARTED, Status.SUSPENDED):
                    by_status.add_metric([label, status.value.lower()], open_[label, status])
        yield from (in_flight, by_status, suspended, pending)

    def _of_steps(self) -> Iterator[Metric]:
        labels = ["workflow", "step"]
        seconds = HistogramMetricFamily(
            "workflow_step_duration_seconds", "Time that an attempt of a step took.", labels=labels
        )
        retries = CounterMetricFamily(
            "workflow_step_retries", "Attempts that failed and are followed by another.", labels=labels
        )
        for workflow in self._services.meters:
            for label, step in list(workflow.steps.items()):
                _add(seconds, [workflow.label, label], step.times)
                retries.add_metric([workflow.label, label], step.retries)
        yield from (seconds, retries)


def _add(family: HistogramMetricFamily, labels: list[str], histogram: Histogram) -> None:
    """Buckets are cumulative."""
    bounds = [*(str(bound / 1000) for bound in histogram.bounds), "+Inf"]
    family.add_metric(labels, list(zip(bounds, accumulate(histogram.counts), strict=True)), histogram.sum_ms / 1000)

"""The numbers of runs, steps and signals in Prometheus's words.

Called by `metrics`. What is counted, and under which labels, is decided in `anabranch.telemetry`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import accumulate

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from anabranch.service.house import House
from anabranch.telemetry.meters import Histogram


class RunMetrics(Collector):
    """Looks the meters of a house up when somebody asks."""

    def __init__(self, house: House) -> None:
        self._house = house

    def collect(self) -> Iterable[Metric]:
        """Every family, also those that nothing is known of yet."""
        yield from self._of_runs()
        yield from self._of_steps()
        swept = self._house.engine.housekeeping.swept
        yield CounterMetricFamily(
            "workflow_retention_swept", "Ended runs that this process removed after their time.", value=swept
        )

    def describe(self) -> Iterable[Metric]:
        """Nothing: the names are nobody else's."""
        return []

    def _of_runs(self) -> Iterator[Metric]:
        started = CounterMetricFamily("workflow_runs_started", "Runs that were started here.", labels=["workflow"])
        ended = CounterMetricFamily(
            "workflow_runs_completed", "Runs that ended here, in whatever way.", labels=["workflow", "status"]
        )
        seconds = HistogramMetricFamily(
            "workflow_run_duration_seconds", "From when a run might begin to its end.", labels=["workflow"]
        )
        signals = CounterMetricFamily(
            "workflow_signals", "Signals to runs that arrived here.", labels=["workflow", "event"]
        )
        for workflow in self._house.meters:
            started.add_metric([workflow.label], workflow.started)
            for status, count in list(workflow.completed.items()):
                ended.add_metric([workflow.label, status.value], count)
            _add(seconds, [workflow.label], workflow.times)
            for event, count in list(workflow.signals.items()):
                signals.add_metric([workflow.label, event], count)
        yield from (started, ended, self._in_flight(), seconds, signals)

    def _in_flight(self) -> Metric:
        """What is held now. Others may go on with it, and end it: no count of ours could tell."""
        family = GaugeMetricFamily(
            "workflow_runs_in_flight", "Runs that this process advances now.", labels=["workflow"]
        )
        meters = [self._house.meters.of(head) for head in self._house.engine.orchestrator.held.heads]
        held = Counter(meter.label for meter in meters if meter is not None)
        for workflow in self._house.meters:
            family.add_metric([workflow.label], held[workflow.label])
        return family

    def _of_steps(self) -> Iterator[Metric]:
        labels = ["workflow", "step"]
        seconds = HistogramMetricFamily(
            "workflow_step_duration_seconds", "Time that a try of a step took.", labels=labels
        )
        retries = CounterMetricFamily(
            "workflow_step_retries", "Tries that failed and are followed by another.", labels=labels
        )
        for workflow in self._house.meters:
            for label, step in list(workflow.steps.items()):
                _add(seconds, [workflow.label, label], step.times)
                retries.add_metric([workflow.label, label], step.retries)
        yield from (seconds, retries)


def _add(family: HistogramMetricFamily, labels: list[str], histogram: Histogram) -> None:
    """A bucket has all those up to its bound."""
    bounds = [*(str(bound / 1000) for bound in histogram.bounds), "+Inf"]
    family.add_metric(labels, list(zip(bounds, accumulate(histogram.counts), strict=True)), histogram.sum_ms / 1000)

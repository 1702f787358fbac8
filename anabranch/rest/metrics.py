"""Prometheus metrics: requests, events, owned runs and jobs of this process, and outcomes of runs.

Counted per process and never per tenant: `/metrics` may need no key, and its size does not grow with what is stored.
Names of process metrics start with `anabranch_`, those of `run_metrics` with `workflow_`; units are in the names.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import suppress

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from anabranch.app_services import AppServices
from anabranch.engine.rules.events import EventType
from anabranch.errors import StoreUnavailable
from anabranch.rest.run_metrics import RunMetrics
from anabranch.triggers.webhooks.webhook_requests import OUTCOMES

# From a millisecond (a lookup) to ten seconds, when most callers have given up.
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Metrics:
    """The metrics of one process."""

    def __init__(self, services: AppServices) -> None:
        self.registry = CollectorRegistry()
        self._asked = asyncio.Lock()
        self.requests = Counter(
            "anabranch_http_requests", "Requests answered.", ["method", "route", "status"], registry=self.registry
        )
        """Counted by the application's middleware, by the pattern of the route, never by the path."""
        self.seconds = Histogram(
            "anabranch_http_request_seconds",
            "Time from a request's headers to its answer.",
            ["method", "route"],
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.registry.register(_Committed(services.engine.observers.written))
        self.registry.register(_EngineGauges(services))
        self.registry.register(_Webhooks(services.webhooks.outcomes))
        self._services = services
        self._runs = RunMetrics(services)
        self.registry.register(self._runs)

    async def text(self) -> bytes:
        """All metrics, in Prometheus's text format.

        Made in a thread, one at a time: the maximum number of names takes a third of a second.
        """
        async with self._asked:
            self._services.engine.observers.record()
            self._runs.open_runs = await self._services.open_runs.counts()
            self._runs.values = self._services.open_runs.values
            if self._runs.open_runs is not None:
                with suppress(StoreUnavailable):
                    self._runs.dead_letters = await self._services.dead_letters.count_letters()
            self._runs.unclaimed = self._services.open_runs.unclaimed
            return await asyncio.to_thread(generate_latest, self.registry)


class _Committed(Collector):
    """A counter without a lock: the engine counts in one thread, twice for every node."""

    def __init__(self, events: Mapping[str, int]) -> None:
        self._events = events

    def collect(self) -> Iterable[Metric]:
        """The number of events by type."""
        family = CounterMetricFamily("anabranch_events", "Events committed here.", labels=["type"])
        for event_type in EventType:
            family.add_metric([event_type.value], self._events.get(event_type, 0))
        yield family

    def describe(self) -> Iterable[Metric]:
        return []


class _Webhooks(Collector):
    """Requests to webhooks, by how they ended; never by webhook, for these are tenants' own."""

    def __init__(self, outcomes: Mapping[str, int]) -> None:
        self._outcomes = outcomes

    def collect(self) -> Iterable[Metric]:
        """The number of requests by outcome."""
        family = CounterMetricFamily("anabranch_webhook_requests", "Requests to webhooks.", labels=["outcome"])
        for outcome in OUTCOMES:
            family.add_metric([outcome], self._outcomes.get(outcome, 0))
        yield family

    def describe(self) -> Iterable[Metric]:
        return []


class _EngineGauges(Collector):
    """Gauges that are read at each scrape."""

    def __init__(self, services: AppServices) -> None:
        self._services = services

    def collect(self) -> Iterable[Metric]:
        """Runs in memory, threads of handlers, how often and how long the event loop was blocked, and stopping."""
        engine, readiness = self._services.engine, self._services.readiness
        yield GaugeMetricFamily(
            "anabranch_runs_held", "Runs in the memory of this worker.", value=len(engine.orchestrator.owned)
        )
        yield GaugeMetricFamily(
            "anabranch_runs_held_max", "Runs that this worker may hold.", value=engine.options.held_max
        )
        yield GaugeMetricFamily(
            "anabranch_handler_threads", "Threads in which plain handlers run.", value=engine.threads.running
        )
        yield GaugeMetricFamily(
            "anabranch_handler_threads_overrun",
            "Of these, threads that still run although their attempts have ended.",
            value=engine.threads.overrun,
        )
        yield CounterMetricFamily(
            "anabranch_loop_blocked", "Times that a handler blocked the event loop.", value=engine.loop_watch.blockings
        )
        yield CounterMetricFamily(
            "anabranch_loop_blocked_seconds",
            "Seconds that the event loop was blocked by handlers.",
            value=engine.loop_watch.blocked_s,
        )
        yield GaugeMetricFamily(
            "anabranch_stopping", "1 while this process takes no new work.", value=int(readiness.stopping)
        )

    def describe(self) -> Iterable[Metric]:
        return []

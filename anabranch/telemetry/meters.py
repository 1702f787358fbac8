"""Numbers of runs, steps and signals, by workflow: what `/metrics` shows of them.

Counted by `feed`, from the event loop's thread alone; read by the REST door. Their number is
bounded, whatever names people invent, and `/metrics` needs no key: so names of drawn workflows,
which are a tenant's own, are only shown where the operator wants that.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from enum import StrEnum

from anabranch.engine.rules.coded.plan import CODED_KIND
from anabranch.engine.rules.events import Status
from anabranch.engine.rules.run_state import InstanceHead

# 500 workflows, 1,000 pairs of a workflow and a step, as many of a workflow and an event: 1,000 histograms are some
# 15,000 lines. What comes new after that counts under `OTHER`.
WORKFLOWS_MAX = 500
STEPS_MAX = 1_000
EVENTS_MAX = 1_000

OTHER = "other"
"""The label of what is past a limit."""

DRAWN = "drawn"
"""The label of all drawn workflows where their names are not shown."""

# From 5 ms, a commit, to an hour.
STEP_SECONDS = (0.005, 0.025, 0.1, 0.25, 1.0, 2.5, 10.0, 60.0, 300.0, 3_600.0)

# From 10 ms to thirty days: runs may wait for people.
RUN_SECONDS = (0.01, 0.05, 0.25, 1.0, 5.0, 30.0, 300.0, 3_600.0, 86_400.0, 2_592_000.0)


class Names(StrEnum):
    """Which workflows are shown by their names."""

    CODED = "coded"
    """Coded ones, which every tenant sees anyway. Drawn ones are `drawn`, their nodes are shown by type."""
    ALL = "all"
    """All of them, and nodes by their ids."""


class Histogram:
    """How many took how long."""

    __slots__ = ("bounds", "counts", "sum_s")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        """In seconds; each has those up to it."""
        self.counts = [0] * (len(bounds) + 1)
        """By bound, not added up; the last are longer than any."""
        self.sum_s = 0.0

    def observe(self, milliseconds: int) -> None:
        """Count one."""
        seconds = milliseconds / 1000
        self.counts[bisect_left(self.bounds, seconds)] += 1
        self.sum_s += seconds


class StepMeter:
    """The tries of one step."""

    __slots__ = ("retries", "seconds")

    def __init__(self) -> None:
        self.retries = 0
        """Tries that failed and are followed by another."""
        self.seconds = Histogram(STEP_SECONDS)


class WorkflowMeter:
    """The runs of one workflow."""

    __slots__ = ("_meters", "completed", "label", "seconds", "signals", "started", "steps")

    def __init__(self, meters: Meters, label: str) -> None:
        self._meters = meters
        self.label = label
        self.started = 0
        self.completed: dict[Status, int] = {}
        self.seconds = Histogram(RUN_SECONDS)
        self.steps: dict[str, StepMeter] = {}
        self.signals: dict[str, int] = {}

    def step(self, label: str) -> StepMeter:
        """The meter of a step; past the limit that of all others of this workflow."""
        found = self.steps.get(label)
        if found is None:
            if label != OTHER and not self._meters.may_add_step():
                return self.step(OTHER)
            found = self.steps[label] = StepMeter()
        return found

    def signalled(self, event: str) -> None:
        """Count a signal; past the limit as another one."""
        if event not in self.signals and event != OTHER and not self._meters.may_add_event():
            event = OTHER
        self.signals[event] = self.signals.get(event, 0) + 1

    def ended(self, status: Status, *, milliseconds: int) -> None:
        """Count the end of a run."""
        self.completed[status] = self.completed.get(status, 0) + 1
        self.seconds.observe(milliseconds)


class Meters:
    """All of one process, without test runs."""

    def __init__(self, names: Names = Names.CODED) -> None:
        self.names = names
        self._workflows: dict[str, WorkflowMeter] = {}
        self._steps_left = STEPS_MAX
        self._events_left = EVENTS_MAX

    def __iter__(self) -> Iterator[WorkflowMeter]:
        return iter(self._workflows.values())

    def of(self, head: InstanceHead) -> WorkflowMeter | None:
        """Where a run counts; None: nowhere, it is a test run."""
        if head.test:
            return None
        label = head.workflow_name if self.shows_names_of(head) else DRAWN
        found = self._workflows.get(label)
        if found is None:
            if len(self._workflows) >= WORKFLOWS_MAX and label not in (OTHER, DRAWN):
                label = OTHER
            found = self._workflows.setdefault(label, WorkflowMeter(self, label))
        return found

    def shows_names_of(self, head: InstanceHead) -> bool:
        """Are this run's workflow, steps and events shown by their names?"""
        return self.names is Names.ALL or head.kind == CODED_KIND

    def may_add_step(self) -> bool:
        """Is there room for another pair of workflow and step? It is taken."""
        self._steps_left -= 1
        return self._steps_left >= 0

    def may_add_event(self) -> bool:
        """Is there room for another pair of workflow and event? It is taken."""
        self._events_left -= 1
        return self._events_left >= 0

"""Metrics of runs, steps and signals by workflow, as `/metrics` shows them.

`feed` counts, in the thread of the event loop; the REST API reads from any thread, so it gets copies of what may grow.
The number of metrics is bounded, however many names there are. `/metrics` may need no key, so names of drawn workflows,
which belong to tenants, are shown only if the operator wants that.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from enum import StrEnum

from anabranch.engine.rules.coded.coded_plan import CODED_KIND
from anabranch.engine.rules.events import Status
from anabranch.engine.rules.shared.run_state import InstanceHead

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


class Names(StrEnum):
    """Which workflows are shown by their names."""

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

    def __init__(self, names: Names = Names.CODED) -> None:
        self._shows_all = names is Names.ALL
        self._workflows: dict[str, WorkflowMeter] = {}
        self._steps_left = STEPS_MAX
        self._events_left = EVENTS_MAX

    def __iter__(self) -> Iterator[WorkflowMeter]:
        return iter(list(self._workflows.values()))

    def of(self, head: InstanceHead) -> WorkflowMeter | None:
        """The meter of a run's workflow; None for a test run, which is not counted."""
        return None if head.test else self._named(head.workflow_name, head.kind)

    def label(self, workflow_name: str, kind: str) -> str:
        """What runs of a workflow that are no test runs count under."""
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

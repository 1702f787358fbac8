"""Totals of one run: activations of each node by status, and the iterations of its loops.

Called by the service for the overview of a run. Rows are read without outputs, page by page. Totals of recently
requested runs are cached, so that only new rows are read.
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict
from dataclasses import field
from typing import Any

from anabranch.dataclass import dataclass
from anabranch.engine.ports import InstanceRow, Store
from anabranch.engine.rules.drawn.scopes import base_of
from anabranch.engine.rules.events import ActivationKey, Event
from anabranch.engine.rules.history import ActivationStatus, ActivationView, History, RunEnd, iteration_of
from anabranch.engine.rules.shared.left_out import Ranges

# 16 cached runs, as many as people look at in a moment: each takes a few hundred bytes per node and open activation.
RUNS_MAX = 16

# 1,024 rows are folded in some milliseconds; then the event loop runs other tasks.
PAGE_ROWS = 1_024

# The first 1,000 loops of a run are listed: a loop inside another has one entry per iteration.
LOOPS_LISTED_MAX = 1_000

_RUNNING, _ERROR = ActivationStatus.RUNNING, ActivationStatus.ERROR


@dataclass(slots=True)
class _NodeTotals:
    ended: Counter[str] = field(default_factory=Counter)
    first_error: dict[str, Any] | None = None
    busy_ms: int = 0


@dataclass(slots=True)
class _LoopTotals:
    iterations: int = 0
    failed: int = 0


class _Totals:
    """The totals of one run after the rows that were counted."""

    def __init__(self, left_out: Ranges) -> None:
        self.reading = asyncio.Lock()
        self.seq = 0
        self.left_out = left_out
        self._history = History(left_out=left_out)
        self._nodes: dict[str, _NodeTotals] = {}
        self._loops: dict[ActivationKey, _LoopTotals] = {}
        self._busy_since: dict[ActivationKey, int] = {}
        """When the running attempts began."""
        self._loops_omitted = False

    def take(self, event: Event) -> None:
        """Count the next row."""
        self.seq = event.seq
        change = self._history.take(event)
        if isinstance(change, ActivationView):
            self._count(change, is_first=change.first_seq == event.seq)
        elif isinstance(change, RunEnd):
            for activation in self._history.left_open:
                self._count(activation, is_first=False)

    def as_json(self, row: InstanceRow) -> dict[str, Any]:
        """As REST shows it."""
        open_now: dict[str, Counter[str]] = {}
        for activation in self._history.open.values():
            open_now.setdefault(activation.node_id, Counter())[activation.status.value] += 1
        return {
            "instanceID": row.head.instance_id,
            "status": row.status.value,
            "seq": self.seq,
            "nodes": [
                {
                    "nodeID": node_id,
                    "counts": {**totals.ended, **open_now.get(node_id, {})},
                    "firstError": totals.first_error,
                    "busyMs": totals.busy_ms,
                }
                for node_id, totals in self._nodes.items()
            ],
            "loops": [
                {"nodeID": node_id, "scope": scope, "iterations": totals.iterations, "failed": totals.failed}
                for (node_id, scope), totals in self._loops.items()
            ],
            "loopsOmitted": self._loops_omitted,
        }

    def _count(self, activation: ActivationView, *, is_first: bool) -> None:
        totals = self._nodes.setdefault(activation.node_id, _NodeTotals())
        self._count_time(activation, totals, is_first=is_first)
        loop = self._loop_around(activation.scope) if is_first or activation.status is _ERROR else None
        if loop is not None and is_first:
            _, _, index = iteration_of(base_of(activation.scope))
            loop.iterations = max(loop.iterations, index + 1)
        if activation.has_ended:
            totals.ended[activation.status.value] += 1
        if activation.ended_at is not None and activation.status is _ERROR:
            totals.first_error = totals.first_error or {"scope": activation.scope, "seq": activation.seq}
            if loop is not None and activation.is_unhandled:
                loop.failed += 1  # an iteration fails with its first unhandled error

    def _count_time(self, activation: ActivationView, totals: _NodeTotals, *, is_first: bool) -> None:
        """Time is counted while an attempt executes: not while it waits, nor while a loop has iterations."""
        if activation.status is _RUNNING and not activation.is_loop:
            self._busy_since[activation.key] = activation.at
            return
        since = self._busy_since.pop(activation.key, activation.attempt_began_at if is_first else None)
        if since is not None:
            totals.busy_ms += max(activation.at - since, 0)

    def _loop_around(self, scope: str) -> _LoopTotals | None:
        scope = base_of(scope)  # a region is not an error boundary: what fails in a pass fails the iteration around it
        if not scope.endswith("]"):
            return None
        node_id, outer, _ = iteration_of(scope)
        loop = self._loops.get((node_id, outer))
        if loop is None:
            if len(self._loops) >= LOOPS_LISTED_MAX:
                self._loops_omitted = True
                return None
            loop = self._loops[node_id, outer] = _LoopTotals()
        return loop


class RunTotals:
    """A cache of the totals of recently requested runs."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: OrderedDict[str, _Totals] = OrderedDict()

    async def of(self, row: InstanceRow) -> dict[str, Any]:
        """The totals of a run as of its row, or a little later."""
        instance_id = row.head.instance_id
        left_out = row.head.left_out
        totals = self._known.get(instance_id)
        if totals is None or totals.left_out != left_out:  # a reopened run is counted anew
            totals = self._known[instance_id] = _Totals(left_out)
        self._known.move_to_end(instance_id)
        if len(self._known) > RUNS_MAX:
            self._known.popitem(last=False)
        async with totals.reading:
            while totals.seq < row.last_seq:
                rows = await self._store.read_rows(instance_id, after_seq=totals.seq, limit=PAGE_ROWS)
                if not rows:
                    break
                for event in rows:
                    totals.take(event)
            return totals.as_json(row)

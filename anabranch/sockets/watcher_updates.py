"""Updates for watchers: fold the events of a run into updates and a snapshot.

Pure. Each room has one, and a replay makes one for itself. It reads the log of one run in order; its memory is bounded,
however long the log is.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

import orjson

from anabranch.dataclass import dataclass
from anabranch.engine.console.console_rows import ProgressReport
from anabranch.engine.rules.events import ActivationKey, Event, Status
from anabranch.engine.rules.history import (
    ActivationStatus,
    ActivationView,
    History,
    RunCreated,
    RunEnd,
    RunRecovered,
    value_left,
)
from anabranch.engine.rules.shared.left_out import NOTHING_LEFT_OUT, Ranges
from anabranch.engine.rules.values import Payload
from anabranch.service.runs.run_view import SHOWN_BYTES_MAX, node_state, shown, suspension
from anabranch.sockets.messages import NODE_UPDATE, STATUS_UPDATE, UPDATE_BYTES, Update

# 1 MB of context is sent with the end of a run; clients request a larger one in pieces.
CONTEXT_BYTES_MAX = 1_048_576

# 1 MB of outputs in a snapshot; for further outputs it has the size only.
SNAPSHOT_OUTPUT_BYTES_MAX = 1_048_576

# Ended activations that a snapshot still shows. 2,000 outside of loops: as many as a drawn workflow has
# nodes. 1,000 of iterations, the newest: a loop may have a hundred thousand, and they are in `/steps`.
ROOT_NODES_MAX = 2_000
ITERATION_NODES_MAX = 1_000

# 1,000 failures of iterations, the first ones, stay listed beside those: of more than that the counts tell.
FAILURES_KEPT_MAX = 1_000

# 2,000 activations of which it is remembered how far they are, as many as a drawn workflow has nodes.
PROGRESS_KEPT_MAX = 2_000

_ERROR = ActivationStatus.ERROR


@dataclass(slots=True)
class _Ended:
    """An ended activation, with its output as it is shown."""

    activation: ActivationView
    output: Any = None
    output_bytes: int = 0
    """What the output takes of the room for outputs."""


class RunProgress:
    """One run's nodes, status and context, as of `seq`."""

    def __init__(self, instance_id: str, *, left_out: Ranges = NOTHING_LEFT_OUT) -> None:
        """`left_out`: the rows that reopenings of the run have left out."""
        self.instance_id = instance_id
        self.left_out = left_out
        self.seq = 0
        self.end_update: Update | None = None
        """The update with the end of the run."""
        self._history = History(left_out=left_out)
        self._reports: dict[ActivationKey, ProgressReport] = {}
        """The last reported progress of activations."""
        self._ended_at_root: dict[int, _Ended] = {}
        """By the first row of each activation."""
        self._ended_in_loops: dict[int, _Ended] = {}
        self._failures: list[_Ended] = []
        """Of iterations that are listed no more."""
        self._forgotten = 0
        self._counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
        """How many activations of each node have ended, by status."""
        self._output_bytes = 0
        self._context: dict[str, Any] | None = {}
        """None once it is certain to be larger than what is sent."""
        self._context_bytes = 0
        self._at = 0
        """When the latest event was written (ms)."""

    @property
    def status(self) -> Status:
        """The status of the run that was last sent."""
        return self._history.status

    @property
    def is_over(self) -> bool:
        """The run has ended: nothing follows."""
        return self.status.is_terminal

    def take(self, events: Iterable[Event], status: Status | None) -> list[Update]:
        """The updates for the next events, in log order; `status` is that of the run after them, None if more events
        follow.

        Known events are skipped. Without new events, only a status that changed without an event (a parked run) gives
        an update.
        """
        updates: list[Update] = []
        for event in events:
            if event.seq > self.seq and not self.is_over:
                assert event.seq == self.seq + 1, f"seq {event.seq} after {self.seq}: rows are missing"
                self.seq = event.seq
                self._take_one(event, updates)
        if status not in (None, self.status) and not self.is_over and not status.is_terminal:
            self._history.status = status
            updates.append(self._status_update())
        return updates

    def beginning(self, key: ActivationKey, attempt: int) -> Update:
        """A step has begun: a hint, which is not folded into what is known."""
        activation = ActivationView(*key, 0, None, attempt=attempt, at=self._at)
        update = self._node_update(activation)
        update.data["seq"] = None
        update.data.pop("queued", None)
        return update

    def add_reports(self, reports: Iterable[ProgressReport]) -> list[Update]:
        """Add progress of activations, which is not in the log."""
        updates: list[Update] = []
        for report in reports:
            key = report.node_id, report.scope
            known = self._reports.get(key)
            if known is not None and known.attempt == report.attempt:
                if known == report or (report.progress is None and known.began_at == report.began_at):
                    continue
                report = report._replace(
                    progress=report.progress or known.progress, began_at=report.began_at or known.began_at
                )
            if known is None and len(self._reports) >= PROGRESS_KEPT_MAX:
                ended = (each for each in self._reports if each not in self._history.open)
                del self._reports[next(ended, next(iter(self._reports)))]
            self._reports[key] = report
            activation = self._history.open.get(key)
            if activation is not None and activation.attempt == report.attempt:
                update = self._node_update(activation)
                update.data["seq"] = None
                updates.append(update)
        return updates

    def end_removed(self) -> list[Update]:
        """The run's rows were removed before its end could be read: only a cancelled test run's are."""
        if self.is_over:
            return []
        self.seq += 1
        self._history.end(Status.CANCELLED, self.seq, self._at)
        return list(self._end(RunEnd(Status.CANCELLED)))

    def snapshot(self) -> dict[str, Any]:
        """Status and nodes, in the order in which they were reached; outputs as far as there is room."""
        still_open = self._history.open.values()
        ended = chain(self._ended_at_root.values(), self._failures, self._ended_in_loops.values())
        listed = sorted(chain(ended, map(_Ended, still_open)), key=lambda each: each.activation.first_seq)
        counts = {node_id: dict(ended) for node_id, ended in self._counts.items()}
        for activation in still_open:
            of_node = counts.setdefault(activation.node_id, {})
            of_node[activation.status.value] = of_node.get(activation.status.value, 0) + 1
        known = {
            "instanceID": self.instance_id,
            "status": self.status.value,
            "nodes": [self._with_progress(each.activation, _listed(each.activation, each.output)) for each in listed],
            "counts": counts,
            "seq": self.seq,
        }
        if self._history.suspension is not None:
            known["suspended"] = suspension(self._history.suspension)
        return known if not self._forgotten else {**known, "nodesOmitted": self._forgotten}

    # -- within ---------------------------------------------------------------------------
    def _take_one(self, event: Event, updates: list[Update]) -> None:
        history = self._history
        status = history.status
        change = history.take(event)
        self._at = event.created_at
        if isinstance(change, ActivationView):
            updates.append(self._node_moved(change))
        elif isinstance(change, RunEnd):
            updates += self._end(change)
            return
        elif isinstance(change, RunRecovered):
            # A normal status update with one more field, which older clients ignore.
            recovered = self._status_update()
            recovered.data["recoveries"] = change.recoveries
            updates.append(recovered)
        elif isinstance(change, RunCreated):
            self._remember("input", change.input, event.payload.size)
        if history.status is not status:
            updates.append(self._status_update())

    def _node_moved(self, activation: ActivationView) -> Update:
        if activation.ended_at is None:
            return self._node_update(activation)
        payload, output = activation.output, None
        if activation.scope == "" and activation.leaves_value:
            self._write(activation)
        ended = _Ended(activation)
        if payload is not None:
            output = shown(payload)
            self._keep_output(ended, output, payload)
            activation.output = None  # which may be large: what is shown of it is kept
        self._close(ended)
        size = 0 if payload is None else min(payload.size, SHOWN_BYTES_MAX)
        return self._node_update(activation, output, size)

    def _keep_output(self, ended: _Ended, output: Any, payload: Payload) -> None:
        size = min(payload.size, SHOWN_BYTES_MAX)
        if self._output_bytes + size > SNAPSHOT_OUTPUT_BYTES_MAX:
            ended.output = {"truncated": True, "bytes": payload.size}
        else:
            ended.output, ended.output_bytes = output, size
            self._output_bytes += size

    def _close(self, ended: _Ended) -> None:
        """Keep an ended activation for snapshots, and forget the oldest where there are too many, failures last."""
        activation = ended.activation
        self._counts[activation.node_id][activation.status.value] += 1
        kept, nodes_max = (
            (self._ended_at_root, ROOT_NODES_MAX)
            if activation.scope == ""
            else (self._ended_in_loops, ITERATION_NODES_MAX)
        )
        kept[activation.first_seq] = ended
        if len(kept) > nodes_max:
            oldest = kept.pop(next(iter(kept)))
            if oldest.activation.status is _ERROR and len(self._failures) < FAILURES_KEPT_MAX:
                self._failures.append(oldest)
            else:
                self._output_bytes -= oldest.output_bytes
                self._forgotten += 1

    def _node_update(self, activation: ActivationView, output: Any = None, output_bytes: int = 0) -> Update:
        node = {"instanceID": self.instance_id, **self._with_progress(activation, _fields(activation, output))}
        return Update(NODE_UPDATE, node, size=UPDATE_BYTES + output_bytes)

    def _with_progress(self, activation: ActivationView, node: dict[str, Any]) -> dict[str, Any]:
        """The update with when it began and its progress, as far as these were reported."""
        report = self._reports.get(activation.key)
        if report is not None and report.attempt == activation.attempt:
            node |= report.as_json()
        if _is_dispatched(activation) and "beganAt" not in node:
            node["queued"] = True
        return node

    def _status_update(self, output: Any = None, error: Any = None, context: Any = None) -> Update:
        status = self.status
        data = {
            "instanceID": self.instance_id,
            "status": status.value,
            "contextData": context,
            "output": output,
            "error": error,
            "seq": self.seq,
        }
        if self._history.suspension is not None:
            data["suspended"] = suspension(self._history.suspension)
        return Update(STATUS_UPDATE, data, is_last=status.is_terminal)

    def _end(self, end: RunEnd) -> Iterator[Update]:
        """Updates for open activations that the end cancels, then the end itself."""
        for activation in self._history.left_open:
            self._close(_Ended(activation))
            yield self._node_update(activation)
        output = None if end.output is None else shown(end.output)
        self.end_update = self._status_update(output, end.error, self._folded_context())
        yield self.end_update

    # -- the context ----------------------------------------------------------------------
    def _write(self, activation: ActivationView) -> None:
        """Write an ended node of the root into the context, as the engine's fold does."""
        value, output = value_left(activation), activation.output
        size = output.size if output is not None else len(orjson.dumps(value))
        self._remember(f"__node_{activation.node_id}", value, size)
        if activation.output_variable is not None:
            self._remember(activation.output_variable, value, 0)

    def _remember(self, name: str, value: Any, size: int) -> None:
        self._context_bytes += size
        if self._context_bytes > CONTEXT_BYTES_MAX:
            self._context = None
        elif self._context is not None:
            self._context[name] = value

    def _folded_context(self) -> dict[str, Any] | None:
        context, self._context = self._context, None
        if context is None or len(orjson.dumps(context)) > CONTEXT_BYTES_MAX:
            return None
        return context


def _is_dispatched(activation: ActivationView) -> bool:
    """Is it given to a handler, of which the log does not say whether it has begun?"""
    is_running = activation.status is ActivationStatus.RUNNING
    return is_running and activation.mark is None and not activation.is_loop and not activation.is_pinned


def _fields(activation: ActivationView, output: Any) -> dict[str, Any]:
    """The fields of an activation in an update."""
    state = node_state(activation)
    del state["startedAt"], state["endedAt"]
    return {**state, "output": output, "seq": activation.seq}


def _listed(activation: ActivationView, output: Any) -> dict[str, Any]:
    """An activation as a snapshot lists it."""
    return {**node_state(activation), "output": output, "seq": activation.seq}

"""How far a run is, as its watchers see it: folds events into updates, and into a snapshot.

Pure. Each room has one, and a replay makes one for itself. It is fed the log of one run in order;
what it remembers is bounded, however long the log is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

import orjson

from anabranch.engine.rules.coded.names import FUNCTION_NODE_ID, is_mark
from anabranch.engine.rules.events import ERROR_HANDLE, TERMINALS, Event, EventType, Status
from anabranch.engine.rules.instants import to_iso
from anabranch.engine.rules.values import Payload
from anabranch.service.runs.run_view import ENDED, NODE_STATUS
from anabranch.sockets.messages import NODE_UPDATE, OUTPUT_BYTES_MAX, STATUS_UPDATE, UPDATE_BYTES, Update, shown

# 1 MB of context is sent with the end of a run; a larger one is asked for piece by piece.
CONTEXT_BYTES_MAX = 1_048_576

# 1 MB of outputs in a snapshot: what a canvas shows. Of the rest it says only how large it is.
SNAPSHOT_OUTPUT_BYTES_MAX = 1_048_576

# Ended activations that a snapshot still shows. 2,000 outside of loops: as many as a drawn workflow has
# nodes. 1,000 of iterations, the newest: a loop may have a hundred thousand, and they are in `/steps`.
ROOT_NODES_MAX = 2_000
ITERATION_NODES_MAX = 1_000

# Looked up once: a member of an enum costs ten times a global before Python 3.12, and these are read for every row.
_PENDING, _RUNNING = Status.PENDING, Status.RUNNING
_DISPATCHED, _COMPLETED, _FAILED = EventType.NODE_DISPATCHED, EventType.NODE_COMPLETED, EventType.NODE_FAILED

_STATUS_OF = {
    EventType.INSTANCE_COMPLETED: Status.COMPLETED,
    EventType.INSTANCE_FAILED: Status.FAILED,
    EventType.INSTANCE_CANCELLED: Status.CANCELLED,
}


@dataclass(slots=True)
class _Node:
    """One activation. Times are milliseconds since the epoch."""

    node_id: str
    scope: str
    first_seq: int
    started_at: int | None
    status: str = ""
    attempt: int = 0
    seq: int = 0
    ended_at: int | None = None
    output: Any = None
    output_bytes: int = 0
    """What the output takes of the room for outputs."""
    error: Any = None


class RunProgress:
    """One run's nodes, status and context, as of `seq`."""

    def __init__(self, instance_id: str) -> None:
        self.instance_id = instance_id
        self.seq = 0
        self.status = Status.PENDING
        self.last_word: Update | None = None
        """The update that told the end of the run."""
        self._open: dict[tuple[str, str], _Node] = {}
        self._ended_at_root: dict[tuple[str, str], _Node] = {}
        self._ended_in_loops: dict[tuple[str, str], _Node] = {}
        self._forgotten = 0
        self._output_bytes = 0
        self._context: dict[str, Any] | None = {}
        """None once it is certain to be larger than what is sent."""
        self._context_bytes = 0

    @property
    def is_over(self) -> bool:
        """The run has ended: nothing follows."""
        return self.status.is_terminal

    def take(self, events: Iterable[Event], status: Status | None) -> list[Update]:
        """What the next events mean to a watcher, in log order; `status` is the run's after them.

        None: more events follow, and it is not known yet. Events that were taken before are passed
        over. With none that are new, only a status that changed without an event (a run that was
        parked) is told.
        """
        updates: list[Update] = []
        for event in events:
            if event.seq > self.seq and not self.is_over:
                assert event.seq == self.seq + 1, f"seq {event.seq} after {self.seq}: rows are missing"
                self.seq = event.seq
                self._take_one(event, updates)
        if status not in (None, self.status) and not self.is_over and not status.is_terminal:
            updates.append(self._moved_to(status))
        return updates

    def end_removed(self) -> list[Update]:
        """The run's rows were removed before its end could be read: only a cancelled test run's are."""
        if self.is_over:
            return []
        self.seq += 1
        return list(self._end(Status.CANCELLED, None, None))

    def snapshot(self) -> dict[str, Any]:
        """Status and nodes, in the order in which they were reached; outputs as far as there is room."""
        nodes = sorted(
            chain(self._ended_at_root.values(), self._ended_in_loops.values(), self._open.values()),
            key=lambda node: node.first_seq,
        )
        listed = [
            {
                "nodeID": node.node_id,
                "scope": node.scope,
                "status": node.status,
                "output": node.output,
                "error": node.error,
                "attempt": node.attempt,
                "seq": node.seq,
                "startedAt": None if node.started_at is None else to_iso(node.started_at),
                "endedAt": None if node.ended_at is None else to_iso(node.ended_at),
            }
            for node in nodes
        ]
        known = {"instanceID": self.instance_id, "status": self.status.value, "nodes": listed, "seq": self.seq}
        return known if not self._forgotten else {**known, "nodesOmitted": self._forgotten}

    # -- within ---------------------------------------------------------------------------
    def _take_one(self, event: Event, updates: list[Update]) -> None:
        status = NODE_STATUS.get(event.type)
        if status is not None:
            if event.node_id != FUNCTION_NODE_ID:
                updates.append(self._node_moved(event, status))
            if self.status is _PENDING or (event.type is _DISPATCHED and self.status is not _RUNNING):
                updates.append(self._moved_to(_RUNNING))
        elif event.type in TERMINALS:
            value = event.payload
            output = value if event.type is EventType.INSTANCE_COMPLETED else None
            error = value.value if event.type is EventType.INSTANCE_FAILED else None
            updates += self._end(_STATUS_OF[event.type], output, error)
        elif event.type is EventType.INSTANCE_RECOVERED:
            # A status update like any other, but for one more field: who does not know it sees nothing new.
            recovered = self._moved_to(self.status)
            recovered.data["recoveries"] = event.payload.value["recoveries"]
            updates.append(recovered)
        elif event.type is EventType.INPUT_SET:
            self._remember("input", event.payload.value["input"], len(event.payload.raw))

    def _node_moved(self, event: Event, status: str) -> Update:
        key = (event.node_id, event.scope)
        node = self._open.get(key)
        if node is None:
            began = event.created_at if event.type is _DISPATCHED else None
            node = self._open[key] = _Node(event.node_id, event.scope, event.seq, began)
        node.status, node.attempt, node.seq = status, event.attempt, event.seq
        node.error = event.payload.value["error"] if status in ("error", "retrying") else None
        output = None
        if status in ENDED:
            node.ended_at = event.created_at
            if event.type is _COMPLETED:
                output = shown(event.payload)
                self._keep_output(node, output, event.payload)
            self._close(key, node)
            if event.scope == "":
                self._write(event)
        return self._node_update(node, output, 0 if output is None else min(len(event.payload.raw), OUTPUT_BYTES_MAX))

    def _keep_output(self, node: _Node, output: Any, payload: Payload) -> None:
        size = min(len(payload.raw), OUTPUT_BYTES_MAX)
        if self._output_bytes + size > SNAPSHOT_OUTPUT_BYTES_MAX:
            node.output = {"truncated": True, "bytes": len(payload.raw)}
        else:
            node.output, node.output_bytes = output, size
            self._output_bytes += size

    def _close(self, key: tuple[str, str], node: _Node) -> None:
        """Keep an ended activation for snapshots, and forget the oldest where there are too many."""
        del self._open[key]
        ended, nodes_max = (
            (self._ended_at_root, ROOT_NODES_MAX) if node.scope == "" else (self._ended_in_loops, ITERATION_NODES_MAX)
        )
        ended[key] = node
        if len(ended) > nodes_max:
            oldest = ended.pop(next(iter(ended)))
            self._output_bytes -= oldest.output_bytes
            self._forgotten += 1

    def _node_update(self, node: _Node, output: Any, output_bytes: int) -> Update:
        return Update(
            NODE_UPDATE,
            {
                "instanceID": self.instance_id,
                "nodeID": node.node_id,
                "scope": node.scope,
                "status": node.status,
                "output": output,
                "error": node.error,
                "attempt": node.attempt,
                "seq": node.seq,
            },
            size=UPDATE_BYTES + output_bytes,
        )

    def _moved_to(self, status: Status, output: Any = None, error: Any = None, context: Any = None) -> Update:
        self.status = status
        data = {
            "instanceID": self.instance_id,
            "status": status.value,
            "contextData": context,
            "output": output,
            "error": error,
            "seq": self.seq,
        }
        return Update(STATUS_UPDATE, data, is_last=status.is_terminal)

    def _end(self, status: Status, output: Payload | None, error: Any) -> Iterator[Update]:
        """Activations that nobody awaits any more, then the end itself."""
        for key, node in list(self._open.items()):
            node.status, node.seq, node.error = "cancelled", self.seq, None
            self._close(key, node)
            yield self._node_update(node, None, 0)
        shown_output = None if output is None else shown(output)
        self.last_word = self._moved_to(status, shown_output, error, self._folded_context())
        yield self.last_word

    # -- the context ----------------------------------------------------------------------
    def _write(self, event: Event) -> None:
        """What an ended node of the root leaves in the context: the same that the engine's fold makes of it."""
        if event.type is _COMPLETED:
            value = event.payload.value
        elif event.type is _FAILED and event.next_handle == ERROR_HANDLE:
            error = event.payload.value["error"]
            value = {"error": {key: error[key] for key in ("type", "message", "code", "attempt")}}
        elif event.type is _FAILED and event.next_handle is not None:
            value = None  # ignored
        else:
            return
        self._remember(f"__node_{event.node_id}", value, len(event.payload.raw))
        if event.output_variable is not None and not is_mark(event.output_variable):
            self._remember(event.output_variable, value, 0)

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

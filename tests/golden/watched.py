"""What watchers are told of golden runs, recorded for the tests of the editor: `python -m tests.golden.watched`.

The editor folds log rows and updates itself, to show a run as of any row. `editor/src/run/watched_runs.jsonl` has, for
each drawn golden run, its log, the updates that a watcher gets, and the server's own snapshot after every row: the
editor's folds are compared with these.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from anabranch.engine.rules.coded.names import variable_and_mark
from anabranch.engine.rules.events import Event, EventType
from anabranch.engine.rules.values import Payload
from anabranch.service.runs.run_view import log_entry
from anabranch.sockets.messages import Update
from anabranch.sockets.watcher_updates import RunProgress

GOLDEN = Path(__file__).parent / "0.1.0.json"
RECORDING = Path(__file__).parents[2] / "editor" / "src" / "run" / "watched_runs.jsonl"

# 40 rows: every kind of row in loops, retries and waits is in runs that are shorter, and a recording is read by people.
ROWS_MAX = 40

_ROW_FIELDS = ("seq", "nodeID", "scope", "eventType", "nextHandle", "nodeAttempt", "createdAt", "errorMessage")
_NODE_FIELDS = ("nodeID", "scope", "status", "attempt", "seq", "startedAt", "endedAt", "at", "handles")
_UPDATE_FIELDS = ("status", "seq", "nodeID", "scope", "attempt", "at", "handles", "waitsFor", "error")


def watched_runs() -> Iterator[dict[str, Any]]:
    """Each drawn golden run as its watchers saw it."""
    golden = json.loads(GOLDEN.read_text())
    for run in golden["runs"]:
        rows = [row for row in golden["tables"]["workflow_instance_logs"] if row["instance_id"] == run["runID"]]
        if run["view"]["kind"] == "drawn" and len(rows) <= ROWS_MAX:
            yield _watched(run["view"]["name"], sorted(map(_event, rows), key=lambda event: event.seq))


def lines() -> str:
    """The recording: one run a line."""
    return "".join(json.dumps(run, separators=(",", ":")) + "\n" for run in watched_runs())


def _watched(name: str, events: list[Event]) -> dict[str, Any]:
    progress = RunProgress(name)
    updates, snapshots = [], []
    for event in events:
        told = progress.take([event], None)
        updates.append([_told(update) for update in told])
        snapshot = progress.snapshot()
        nodes = [[node[field] for field in _NODE_FIELDS] for node in snapshot["nodes"]]
        snapshots.append({"status": snapshot["status"], "nodes": nodes, "counts": snapshot["counts"]})
    rows = [[log_entry(event)[field] for field in _ROW_FIELDS] for event in events]
    return {"name": name, "rows": rows, "updates": updates, "snapshots": snapshots}


def _told(update: Update) -> dict[str, Any]:
    return {"event": update.event, **{field: update.data[field] for field in _UPDATE_FIELDS if field in update.data}}


def _event(row: dict[str, Any]) -> Event:
    variable, mark = variable_and_mark(row["output_variable"])
    return Event(
        seq=row["seq"],
        type=EventType(row["event_type"]),
        node_id=row["node_id"],
        scope=row["scope"],
        attempt=row["node_attempt"],
        payload=Payload(json.loads(row["payload"]), row["payload"].encode()),
        created_at=row["created_at"],
        next_handle=row["next_handle"],
        output_variable=variable,
        mark=mark,
        error_message=row["error_message"],
    )


if __name__ == "__main__":
    RECORDING.write_text(lines())

"""Entries of a run's log as plain lines. Called by whatever follows a run without drawing: `runs watch`, pipes, CI."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from anabranch.cli.output import shown
from anabranch.deferred import deferred
from anabranch.engine.rules.events import EventType

if TYPE_CHECKING:
    from anabranch.service.runs import run_view
else:
    run_view = deferred("anabranch.service.runs.run_view")

# How scopes of coded steps begin: the second call of a name is `#2`, one of the body's second attempt `@2`.
STEP_SCOPES = ("#", "@")


def event_line(entry: Mapping[str, Any]) -> str | None:
    """One entry of a log as a plain line; None for those that tell a reader nothing new of a node."""
    state = run_view.NODE_STATUS.get(entry["eventType"])
    if state is None or not entry["nodeID"] or entry["eventType"] == EventType.LOOP_OPENED:
        return None
    attempt = f" (attempt {entry['nodeAttempt']})" if entry["nodeAttempt"] > 1 else ""
    reason = f": {entry['errorMessage']}" if entry["errorMessage"] else ""
    return shown(f"{entry['createdAt']}  {state:<8}  {shown_name(entry['nodeID'], entry['scope'])}{attempt}{reason}")


def shown_name(node_id: str, scope: str) -> str:
    """`review  each[3]` for a node in an iteration, `fetch#2` for a step that was asked for again."""
    between = "" if not scope or scope.startswith(STEP_SCOPES) else "  "
    return shown(f"{node_id}{between}{scope}")

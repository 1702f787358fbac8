"""Entries of a run's log as plain lines. Used to follow a run without a live display: `runs watch`, pipes, CI."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from anabranch.cli.output import shown
from anabranch.engine.rules.history import is_loop_opening, shown_status

# How scopes of coded steps begin: the second call of a name is `#2`, one of the body's second attempt `@2`.
STEP_SCOPES = ("#", "@")

# `@timer` is the name of timers, so the first character is part of the name.
_STEP_CALL = re.compile("(.[^#@]*)([#@].+)", re.DOTALL)


def event_line(entry: Mapping[str, Any]) -> str | None:
    """One entry of a log as a plain line; None for those that tell a reader nothing new of a node."""
    state = shown_status(entry["eventType"])
    if state is None or not entry["nodeID"] or is_loop_opening(entry["eventType"]):
        return None
    attempt = f" (attempt {entry['nodeAttempt']})" if entry["nodeAttempt"] > 1 else ""
    reason = f": {entry['errorMessage']}" if entry["errorMessage"] else ""
    return shown(f"{entry['createdAt']}  {state:<8}  {shown_name(entry['nodeID'], entry['scope'])}{attempt}{reason}")


def shown_name(node_id: str, scope: str) -> str:
    """`review  each[3]` for a node in an iteration, `fetch#2` for the second call of a step."""
    between = "" if not scope or scope.startswith(STEP_SCOPES) else "  "
    return shown(f"{node_id}{between}{scope}")


def read_name(text: str) -> tuple[str, str | None]:
    """Node id and scope of `each[3]/review`, or of a step's call such as `fetch#2`; without a scope None."""
    scope, slash, node_id = text.rpartition("/")
    if slash:
        return node_id, scope
    step = _STEP_CALL.fullmatch(text)
    return (text, None) if step is None else (step[1], step[2])

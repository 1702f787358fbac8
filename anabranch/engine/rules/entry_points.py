"""Entry points: the node types at which a run may begin, `start` and the triggers.

Pure. A graph may have several entry points. A run begins at one of them; the others are skipped in the same
transaction. The API lists them as `beginnings`.
"""

from __future__ import annotations

START_TYPE = "start"
"""Begins when somebody starts a run of the workflow."""

WORKFLOW_CALL_TYPE = "workflowCall"
"""Begins when another run starts the workflow as its child."""

WEBHOOK_TYPE = "webhook"
SCHEDULE_TYPE = "schedule"
TOPIC_TYPE = "topic"
FAILURE_TYPE = "failure"

TRIGGER_TYPES = frozenset({FAILURE_TYPE, SCHEDULE_TYPE, TOPIC_TYPE, WEBHOOK_TYPE, WORKFLOW_CALL_TYPE})
"""What begins runs apart from `start`."""

ENTRY_POINT_TYPES = TRIGGER_TYPES | {START_TYPE}

SINGLE_TYPES = (START_TYPE, WORKFLOW_CALL_TYPE)
"""At most one node of each of them is in a graph: nothing could choose between two."""

INPUT_SCHEMA = "inputSchema"
"""The field of a trigger's config with the JSON Schema of its payload."""

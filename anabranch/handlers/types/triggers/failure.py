"""`failure`: begins a run when a run of another workflow has failed."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from anabranch.engine.rules.entry_points import FAILURE_TYPE
from anabranch.handlers.config_fields import x_ui
from anabranch.handlers.types.triggers.trigger_spec import TriggerConfig, trigger_spec

_PAYLOAD: dict[str, Any] = {
    "type": "object",
    "properties": {
        "run": {
            "type": "object",
            "properties": {
                name: {"type": "string"} for name in ("instanceID", "workflowID", "workflow", "createdAt", "failedAt")
            }
            | {"version": {"type": "integer"}, "generation": {"type": "integer"}},
        },
        "error": {
            "type": "object",
            "properties": {name: {"type": "string"} for name in ("code", "type", "message")},
        },
        "link": {"type": "string"},
        "url": {"type": "string"},
    },
    "required": ["run", "error", "link"],
}


class FailureConfig(TriggerConfig):
    """Whose failures begin a run."""

    workflow: str | None = Field(
        None,
        min_length=1,
        max_length=64,
        description="Name or id of the workflow whose failed runs start a run here; by default any workflow.",
        json_schema_extra=x_ui(widget="workflow"),
    )


SPEC = trigger_spec(
    FAILURE_TYPE,
    FailureConfig,
    title="When a run fails",
    icon="alert",
    description="Starts a run when a run of another workflow fails; the payload has that run, its error and a link.",
    payload_schema=_PAYLOAD,
)
